"""Coordinate descent on the dual, for losses with corners under an L2 penalty on every parameter.

With w = −Xᵀ(c∘a)/λ, row i's best slope given the others solves
    s' = argmin V(y_i, s') + (s' − s₀)²/(2q),  a_i = (s₀ − s')/q,  q = c_i‖x_i‖²/λ,  s₀ = s_i + q·a_i,
the loss's own prox, so a_i always lies in the range of its slopes and every point is dual feasible.
Rows are visited in a fresh random order each epoch. It works on X as it is: scaling columns would unequal λ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._jit import kernel, teach
from ..data.rows import Dense, Sparse
from ..parts.losses import as_tuple
from .risk import Point, Risk


@kernel
def dual_epoch(loss, rows, order, y, c, offset, a, w, b, q, rate, rate_b):
    """One visit to each row; w and a are updated in place. Returns the intercept."""
    for k in range(order.shape[0]):
        i = order[k]
        if q[i] <= 0.0:
            continue
        score = rows.dot(i, w) + b + offset[i]
        base = score + q[i] * a[i]
        new = (base - loss.prox(base, y[i], q[i])) / q[i]
        move = new - a[i]
        if move != 0.0:
            a[i] = new
            rows.add(i, -c[i] * move / rate, w)
            if rate_b > 0.0:
                b -= c[i] * move / rate_b
    return b


def lacks(risk: Risk) -> str | None:
    """What the dual route misses, in words."""
    penalty, design = risk.penalty, risk.design
    name = getattr(risk.loss, "name", type(risk.loss).__name__)
    if not risk.loss.has("prox"):
        return f"a smooth loss or one with a `prox`, which {name!r} has not; use 'interior' or 'fista'"
    if penalty.bounded or penalty.l1.any() or not penalty.l2[: design.d].all():
        return f"an L2 penalty on every coefficient for {name!r}, which is not smooth; use 'interior' or add one"
    if design.intercept and penalty.l2[design.d] == 0.0:
        return f"a penalised or no intercept for {name!r}, which is not smooth; use 'interior' or intercept=False"
    strength = penalty.l2[: design.d] * design.scale**2
    if np.ptp(strength) > 1e-9 * strength.max():
        return f"one strength for all coefficients under {name!r}; use 'interior' with penalty weights"
    return None


def steps(risk: Risk, start: np.ndarray, seed: int = 0) -> Iterator[Point]:
    """Epochs of dual coordinate descent; each is a point with its dual variables."""
    design, n = risk.design, risk.design.n
    X = design.X
    rows: Any
    if design.sparse:
        X = X if X.format == "csr" else X.tocsr()
        rows = Sparse(X.data, X.indices, X.indptr)  # type: ignore[call-arg]
    else:
        rows = Dense(np.ascontiguousarray(X))  # type: ignore[call-arg]
    teach(rows)
    rate = float(risk.penalty.l2[0] * design.scale[0] ** 2)
    rate_b = float(risk.penalty.l2[design.d]) if design.intercept else 0.0
    norm2 = np.array([rows.norm2(0)]) if n == 0 else _row_norms(X)
    q = risk.c * (norm2 / rate + (1.0 / rate_b if rate_b > 0.0 else 0.0))
    offset = np.zeros(n) if risk.offset is None else risk.offset
    a, w, b = np.zeros(n), np.zeros(design.d), 0.0
    shuffle = np.random.default_rng(seed)
    while True:
        point = risk.point(design.join(w, b))
        point.dual = risk.c * a
        yield point
        b = float(
            dual_epoch(
                as_tuple(risk.loss), rows, shuffle.permutation(n), risk.y, risk.c, offset, a, w, b, q, rate, rate_b
            )
        )
        design.passes += 1.0


def _row_norms(X: Any) -> np.ndarray:
    if hasattr(X, "nnz"):
        squares = X.copy()
        squares.data = squares.data**2
        return np.asarray(squares.sum(axis=1), dtype=float).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=float)
