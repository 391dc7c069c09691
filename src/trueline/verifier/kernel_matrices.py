"""The verifier's own kernels: matrices of K(a, b), and how far two computations of them may lie apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .agreement import EPS
from .stated_claims import Rows

POSITIVE = 1e-10  # eigenvalues below this part of the mean of K(x, x), with a minus sign, refute an inner product
LOST = 1e-11  # of a Gaussian kernel's exponent: a model whose products lose more takes differences


def kernel_matrix(shape: Any, A: Rows, B: Rows) -> tuple[Rows, Rows, Rows]:
    """(K(a, b) of all pairs, its own rounding, that of a computation by x·z, ‖x‖² and ‖z‖²).

    A user's own kernel is taken as it is.
    """
    name = getattr(shape, "name", "") if isinstance(shape, tuple) else ""
    dot = A @ B.T
    terms = (A.shape[1] + 4) * EPS
    if name == "gaussian":
        distances = squared_distances(A, B)
        exponent = shape.gamma * distances
        K = np.exp(-exponent)
        # The model takes x and z less one middle, which rounds them by EPS of what is left, and then loses digits of
        # ‖x‖² in ‖x‖² + ‖z‖² − 2x·z, or forms differences where those would be many.
        middle = B.mean(axis=0)
        left, right = ((A - middle) ** 2).sum(axis=1)[:, None], ((B - middle) ** 2).sum(axis=1)
        shifts = EPS * (np.sqrt(left) + np.sqrt(right))
        moved = np.minimum(shape.gamma * terms * (left + right), LOST)
        moved = moved + terms * exponent + shape.gamma * (2.0 * np.sqrt(distances) * shifts + shifts**2)
        return K, K * (terms * exponent + EPS), K * np.minimum(2.0 * moved + EPS, 1.0)
    if name == "polynomial":
        base = shape.gamma * dot + shape.coef0
        slope = shape.degree * np.abs(base) ** (shape.degree - 1.0)
        room = slope * terms * (shape.gamma * np.abs(A) @ np.abs(B).T + shape.coef0)
        return base**shape.degree, room, room
    if name == "linear":
        room = terms * (np.abs(A) @ np.abs(B).T)
        return dot, room, room
    if hasattr(shape, "value"):
        norms = (A**2).sum(axis=1), (B**2).sum(axis=1)
        K = np.array([[shape.value(float(d), float(a), float(b)) for d, b in zip(row, norms[1], strict=True)]
                      for row, a in zip(dot, norms[0], strict=True)]).reshape(dot.shape)  # fmt: skip
        return K, 1e3 * terms * np.abs(K), 1e3 * terms * np.abs(K)
    K = np.asarray(shape(A, B), dtype=float)
    return K, terms * np.abs(K), terms * np.abs(K)


def squared_distances(A: Rows, B: Rows) -> Rows:
    """‖a − b‖² of all pairs, by differences, which do not cancel."""
    out = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        out += (a[:, None] - b) ** 2
    return out


def known_inner_product(shape: Any) -> bool | None:
    """Whether a built-in kernel with these constants is an inner product; None of a user's own."""
    name = getattr(shape, "name", "") if isinstance(shape, tuple) else ""
    if name == "gaussian":
        return 0.0 < shape.gamma < math.inf
    if name == "polynomial":
        return 0.0 < shape.gamma < math.inf and shape.coef0 >= 0.0 and float(shape.degree).is_integer()
    return True if name == "linear" else None


def is_inner_product(shape: Any, K: Rows) -> bool:
    """Whether the kernel is an inner product: known of the built-in ones, tried on these rows for others."""
    known = known_inner_product(shape)
    if known is not None:
        return known
    if not np.allclose(K, K.T, rtol=POSITIVE, atol=0.0):
        return False
    return bool(np.linalg.eigvalsh(K)[0] >= -POSITIVE * max(float(np.trace(K)) / len(K), 1e-300))
