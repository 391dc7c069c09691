"""Models that are linear in something else than their columns: the compiled parts of local fits and kernel machines."""
