"""The independent checker: recomputes from the rows what a model and its certificate claim. NumPy and the records of ``certificates`` only."""
