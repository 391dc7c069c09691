"""The objective: losses and penalties."""
