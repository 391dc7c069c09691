"""Many passes over the data: one file per method."""
