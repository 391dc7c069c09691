"""p·ln p, which the conjugates of exponential losses are made of."""

from __future__ import annotations

import math

from .._jit import kernel


@kernel
def entropy_term(p: float) -> float:
    """p·ln p, 0 at 0."""
    return p * math.log(p) if p > 0.0 else 0.0
