"""What a result proves: plain records, the status that advises, and the arithmetic of gaps and bounds."""

from . import monotone  # noqa: F401  (from_dict finds its kind)
