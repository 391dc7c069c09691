"""Double-double arithmetic: a number kept as an unevaluated sum hi + lo, about 106 bits.

Every function here is elementwise and self-contained: on arrays it is NumPy, on scalars inside a kernel it is
compiled code, from this one source. Nothing may be reassociated, so no fast-math anywhere near it. Products are
split by Dekker's method (NumPy has no fused multiply-add); arguments stay far below 2^996, since callers scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Pair = tuple[Any, Any]

SPLIT = 134217729.0  # 2^27 + 1
UNIT = 2.0**-53  # half the distance from 1 to the next float64
UNIT_DOUBLED = 2.0**-98  # what a few double-double operations in a row may lose


def two_sum(a, b):
    """a + b exactly, as sum and error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_prod(a, b):
    """a · b exactly, as product and error."""
    p = a * b
    t = SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add(ah, al, bh, bl):
    """(ah + al) + (bh + bl)."""
    s = ah + bh
    t = s - ah
    e = (ah - (s - t)) + (bh - t)
    f = al + bl
    t = f - al
    g = (al - (f - t)) + (bl - t)
    e = e + f
    h = s + e
    e = e - (h - s) + g
    s = h + e
    return s, e - (s - h)


def add_single(ah, al, b):
    """(ah + al) + b."""
    s = ah + b
    t = s - ah
    e = ((ah - (s - t)) + (b - t)) + al
    h = s + e
    return h, e - (h - s)


def multiply(ah, al, bh, bl):
    """(ah + al) · (bh + bl)."""
    p = ah * bh
    t = SPLIT * ah
    ahh = t - (t - ah)
    ahl = ah - ahh
    t = SPLIT * bh
    bhh = t - (t - bh)
    bhl = bh - bhh
    e = ((ahh * bhh - p) + ahh * bhl + ahl * bhh) + ahl * bhl
    e = e + (ah * bl + al * bh)
    s = p + e
    return s, e - (s - p)


def subtract_product(h, low, ah, al, bh, bl):
    """(h + low) − (ah + al) · (bh + bl): the inner step of every elimination."""
    p = ah * bh
    t = SPLIT * ah
    ahh = t - (t - ah)
    ahl = ah - ahh
    t = SPLIT * bh
    bhh = t - (t - bh)
    bhl = bh - bhh
    e = ((ahh * bhh - p) + ahh * bhl + ahl * bhh) + ahl * bhl
    e = e + (ah * bl + al * bh)
    s = h - p
    t = s - h
    e = ((h - (s - t)) + (-p - t)) + (low - e)
    h = s + e
    return h, e - (h - s)


def divide(ah, al, bh, bl):
    """(ah + al) / (bh + bl): the float64 quotient and its correction."""
    q = ah / bh
    rh, rl = subtract_product(ah, al, q, q * 0.0, bh, bl)
    e = (rh + rl) / bh
    h = q + e
    return h, e - (h - q)


def total(high: np.ndarray, low: np.ndarray | None = None, axis: int = 0) -> Pair:
    """The sum along an axis, by pairwise halving."""
    high = np.moveaxis(np.asarray(high, dtype=float), axis, 0)
    low = np.zeros_like(high) if low is None else np.moveaxis(np.asarray(low, dtype=float), axis, 0)
    if len(high) == 0:
        zero = np.zeros(high.shape[1:])
        return zero, zero
    while len(high) > 1:
        half = len(high) // 2
        odd = len(high) % 2
        h, e = add(high[:half], low[:half], high[half : 2 * half], low[half : 2 * half])
        high = np.concatenate([h, high[-1:]]) if odd else h
        low = np.concatenate([e, low[-1:]]) if odd else e
    return high[0], low[0]


def dot(ah: Any, al: Any, bh: Any, bl: Any, axis: int = -1) -> Pair:
    """Σ a·b along an axis (after broadcasting)."""
    high, low = multiply(*np.broadcast_arrays(ah, al, bh, bl))
    return total(high, low, axis)


def square_root(ah: Any, al: Any) -> Pair:
    """√(ah + al) for non-negative arguments, by one Newton step."""
    root = np.sqrt(ah)
    safe = np.where(root > 0, root, 1.0)
    rh, rl = subtract_product(ah, al, root, 0.0 * root, root, 0.0 * root)
    return two_sum(root, np.where(root > 0, (rh + rl) / (2 * safe), 0.0))
