"""The verifier's own local fits: at each query a weighted least squares of its neighbours, with what rounding may do to it.

The model solves normal equations M β = c whose entries are sums over the rows of a window. Sums of the same terms in
another order move the value at the query, e·β with e = (1, 0, …), by at most

    γ · (Σ dᵢ|uᵢ|) · (Σ dᵢ|βᵢ| + ‖√w y‖),      M u = e,  dᵢ = √Mᵢᵢ,  γ = (rows + 2 unknowns + 16)·EPS,

and weights that are known to within δw move it by at most Σ δw |u·b| |y − β·b| (Higham, Accuracy and Stability of
Numerical Algorithms, sections 3.1, 10.1 and 20.4). Here the same least squares is solved by orthogonal columns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .agreement import EPS
from .stated_claims import Rows

RIM = 0.99  # with a fixed bandwidth, the last of the rows that a fit needs stands this far out in its window
REACH = (
    0.999  # rows further out than this part of the window count nothing, and those within NEAR of it fully: R's lowess
)
NEAR = 0.001
GAUSSIAN_WIDTH = 3.0  # with a fraction, τ is the distance of the last neighbour over this
GAUSSIAN_REACH = 80.0  # squares of distances beyond the nearest one's, in τ²
DEPENDENT = 1e-10  # a column whose square has no more than this part left beside the others is left out
FLAT = 0.001  # of one variable, a window whose rows spread less than this part of all rows has no slope
TOGETHER = 400_000  # entries of the design matrices that are made at a time


class LocalRows(NamedTuple):
    """The training rows in the model's units, their targets and weights, and how neighbours are weighed."""

    Z: Rows
    y: Rows
    case: Rows
    settings: Any

    @property
    def one_variable(self) -> bool:
        return int(self.Z.shape[1]) == 1

    @property
    def gaussian(self) -> bool:
        return bool(self.settings.kernel == "gaussian")

    @property
    def unknowns(self) -> int:
        p = int(self.Z.shape[1])
        return (1, 1 + p, 1 + p + p * (p + 1) // 2)[self.settings.degree]


class Fits(NamedTuple):
    """Of each query (value, leverage of a unit weight, Σ l²/w, gradient…), and what rounding may do to each of them.

    NaN where no row has any weight; infinite rooms where rounding decides which rows or columns count.
    """

    values: Rows
    room: Rows

    def at(self, rows: Rows) -> Fits:
        return Fits(self.values[rows], self.room[rows])


def widths(rows: LocalRows, queries: Rows) -> tuple[Rows, Rows]:
    """(h or τ of each query, whether rounding decides which row is the last neighbour)."""
    s = rows.settings
    n = len(rows.y)
    if s.bandwidth is not None and rows.gaussian:
        return np.full(len(queries), float(s.bandwidth)), np.zeros(len(queries), dtype=bool)
    found, doubt = np.empty(len(queries)), np.zeros(len(queries), dtype=bool)
    weighted = s.bandwidth is None and bool((rows.case != 1.0).any())
    k = _neighbours(rows) if s.bandwidth is None else float(min(rows.unknowns + 1, n))
    for i, q in enumerate(queries):
        far = np.sqrt(((rows.Z - q) ** 2).sum(axis=1))
        if not weighted:
            found[i] = np.partition(far, int(k) - 1)[int(k) - 1]
            continue
        order = np.argsort(far, kind="stable")
        mass, enough = np.cumsum(rows.case[order]), k * (1.0 - 1e-12)
        blur = n * EPS * float(mass[-1])
        low, place, high = (
            min(int(np.searchsorted(mass, enough + shift)), n - 1) for shift in (-blur, 0.0, blur)
        )  # fmt: skip
        found[i] = far[order[place]]
        doubt[i] = far[order[high]] - far[order[low]] > 8.0 * EPS * found[i]
    if s.bandwidth is not None:
        return np.maximum(float(s.bandwidth), found / RIM), doubt
    return (found / GAUSSIAN_WIDTH if rows.gaussian else found), doubt


def _neighbours(rows: LocalRows) -> float:
    """The weight of a neighbourhood, as R's lowess counts it; whole weights are repetitions."""
    total, n = float(rows.case.sum()), len(rows.y)
    share = float(rows.settings.fraction) * total
    least = 2 if rows.one_variable and rows.settings.degree < 2 else rows.unknowns + 1
    if bool((rows.case == np.floor(rows.case)).all()):
        return float(min(max(least, int(share + 1e-7)), int(total)))
    return max(min(least * total / n, total), min(share, total))


def local_fits(
    rows: LocalRows, queries: Rows, robust: Rows, robust_room: Rows | float = 0.0, further: float = 1.0
) -> Fits:
    """A fit at each query, in windows made ``further`` times as wide, with robustness weights known to ``robust_room``."""
    h, doubt = widths(rows, queries)
    if further != 1.0:
        h = np.maximum(h * further, np.finfo(float).tiny)
    step = max(1, TOGETHER // (len(rows.y) * rows.unknowns))
    made = [
        _fit(rows, queries[a : a + step], h[a : a + step], robust, np.broadcast_to(robust_room, robust.shape))
        for a in range(0, len(queries), step)
    ]
    values, room = (np.concatenate([part[c] for part in made]) for c in (0, 1))
    room[doubt] = np.inf
    return Fits(values, room)


def reaching_fits(rows: LocalRows, queries: Rows, robust: Rows, robust_room: Rows | float = 0.0) -> Fits:
    """The same for queries whose neighbours may all count nothing.

    Where robust iterations have put every neighbour aside they count again; where all of them lie on the rim of the
    window, the window reaches a little further.
    """
    found = local_fits(rows, queries, robust, robust_room)
    for further, plain in ((1.0, True), (1.0 / RIM, False), (1.0 / RIM, True)):
        lost = np.flatnonzero(np.isnan(found.values[:, 0]))
        if not lost.size:
            break
        weights, known = (np.ones(len(robust)), 0.0) if plain else (robust, robust_room)
        found.values[lost], found.room[lost] = local_fits(rows, queries[lost], weights, known, further)
    return found


def _kernel_weights(rows: LocalRows, square: Rows, h: Rows) -> tuple[Rows, Rows]:
    """(K of each query and row, how far two computations of it may lie apart)."""
    terms = (rows.Z.shape[1] + 8) * EPS
    width = np.where(h > 0.0, h, 1.0)[:, None]
    if rows.gaussian:
        nearest = square.min(axis=1, keepdims=True)
        beyond = square - nearest
        K = np.where(beyond <= GAUSSIAN_REACH * h[:, None] ** 2, np.exp(-0.5 * beyond / width**2), 0.0)
        exponent = 0.5 * (square + nearest) / width**2
        room = np.minimum(K * np.expm1(np.minimum(terms * (exponent + 1.0), 1.0)), 1.0) + math.exp(
            -GAUSSIAN_REACH / 2.0
        )
        return K, np.where(h[:, None] > 0.0, room, 0.0)
    r = np.sqrt(square) / width
    u = 1.0 - np.minimum(r, 1.0) ** 3
    K = np.where(r <= REACH, u**3, 0.0)
    room = 9.0 * terms * u**2 + np.where(np.abs(r - REACH) <= terms, 2.0 * (1.0 - REACH**3) ** 3, 0.0)
    if rows.one_variable:
        K = np.where(r <= NEAR, 1.0, K)
        room = room + np.where(np.abs(r - NEAR) <= terms, 4.0 * NEAR**3, 0.0)
    same = h[:, None] > 0.0  # a window without width holds the rows of its own place, in full
    return np.where(same, K, 1.0 * (square <= 0.0)), np.where(same & (r <= REACH + terms), room, 0.0)


def _columns(T: Rows, degree: int) -> Rows:
    """1, the variables, and their products, from differences to the query in units of the window."""
    p = T.shape[2]
    made = [np.ones(T.shape[:2])]
    made += [T[:, :, k] for k in range(p)] if degree > 0 else []
    made += [T[:, :, k] * T[:, :, i] for k in range(p) for i in range(k + 1)] if degree > 1 else []
    return np.stack(made, axis=2)


def _fit(rows: LocalRows, queries: Rows, h: Rows, robust: Rows, robust_room: Rows) -> tuple[Rows, Rows]:
    """Values and rooms of a few queries; where rounding decides that a column counts, the rooms reach both ways."""
    values, room, doubt = _solved(rows, queries, h, robust, robust_room, 0.0)
    if doubt.any():
        for side in (-1.0, 1.0):
            other, other_room, _ = _solved(rows, queries[doubt], h[doubt], robust, robust_room, side)
            apart = np.abs(other - values[doubt])
            room[doubt] = np.maximum(room[doubt], np.where(np.isnan(apart), np.inf, apart) + other_room)
    return values, room


def _solved(
    rows: LocalRows, queries: Rows, h: Rows, robust: Rows, robust_room: Rows, side: float
) -> tuple[Rows, Rows, Rows]:
    """Values, rooms, and whether rounding decides that a column counts: then it does (side 1) or does not (side −1)."""
    T = rows.Z[None] - queries[:, None]
    K, K_room = _kernel_weights(rows, (T**2).sum(axis=2), h)
    w = K * (robust * rows.case)
    w_room = K_room * (robust * rows.case) + K * (rows.case * robust_room)
    inverse = np.where(h > 0.0, 1.0 / np.where(h > 0.0, h, 1.0), 0.0)
    B = _columns(T * inverse[:, None, None], rows.settings.degree)
    R, Q, doubt, noise = _orthogonal(rows, B, w, w_room, h, side)
    kept = np.einsum("qnk->qk", Q**2) > 0.0
    gamma = ((w > 0.0).sum(axis=1) + 2 * rows.unknowns + 16) * EPS
    root = np.sqrt(w)
    beta = np.linalg.solve(R, np.einsum("qnk,qn->qk", Q, root * rows.y)[..., None])[..., 0]
    back = np.linalg.inv(R) * kept[:, None, :]
    M_inverse = back @ back.transpose(0, 2, 1)
    d = np.sqrt(np.einsum("qnk,qn->qk", B**2, w))
    right = (d * np.abs(beta)).sum(axis=1) + np.sqrt(w @ rows.y**2)
    residual = np.abs(rows.y - np.einsum("qnk,qk->qn", B, beta))
    u = M_inverse[:, :, 0]
    reach = np.einsum("qnk,qk->qn", B, u)
    size = (d * np.abs(u)).sum(axis=1)
    double = K * robust * w  # Σ l²/w = Σ (K·robust)·w·(u·b)²
    squares = (double * reach**2).sum(axis=1)
    turned = np.einsum("qkj,qj->qk", M_inverse, np.einsum("qn,qnk->qk", double * reach, B))
    along = np.einsum("qnk,qk->qn", B, turned)
    p = rows.Z.shape[1]
    slopes = list(range(1, p + 1)) if rows.settings.degree else []
    values, room = np.zeros((len(queries), 3 + p)), np.zeros((len(queries), 3 + p))
    values[:, 0], values[:, 1], values[:, 2] = beta[:, 0], u[:, 0], squares
    room[:, 0] = gamma * size * right + (w_room * np.abs(reach) * residual).sum(axis=1)
    room[:, 1] = gamma * size**2 + (w_room * reach**2).sum(axis=1)
    room[:, 2] = gamma * (2.0 * (d * np.abs(turned)).sum(axis=1) * size + size**2)
    room[:, 2] += 2.0 * (w_room * (K * robust * reach**2 + np.abs(along * reach))).sum(axis=1)
    for k in slopes:
        v = M_inverse[:, :, k]
        values[:, 2 + k] = beta[:, k] * inverse
        moved = gamma * (d * np.abs(v)).sum(axis=1) * right
        moved = moved + (w_room * np.abs(np.einsum("qnk,qk->qn", B, v)) * residual).sum(axis=1)
        room[:, 2 + k] = moved * inverse + 4.0 * EPS * np.abs(values[:, 2 + k])
    total = w.sum(axis=1)
    values[~(total > 0.0)] = np.nan
    real = (w_room > math.exp(-GAUSSIAN_REACH / 2.0) * rows.case).any(axis=1)
    room[noise | (total <= w_room.sum(axis=1)) & real] = np.inf  # perhaps no row counts, or only those on the rim
    return values, room, doubt


def _orthogonal(rows: LocalRows, B: Rows, w: Rows, w_room: Rows, h: Rows, side: float) -> tuple[Rows, Rows, Rows, Rows]:
    """(R, Q) with √w·B = QR by Gram and Schmidt, twice, whether rounding decides that a column counts, and is all of it.

    A column that depends on those before it has a zero column in Q, and R treats it as a unit of its own.
    """
    count, m = B.shape[0], B.shape[2]
    A = B * np.sqrt(w)[:, :, None]
    Q, R = np.zeros_like(A), np.tile(np.eye(m), (count, 1, 1))
    doubt, noise, sloped = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    gamma = ((w > 0.0).sum(axis=1) + 2 * m + 16) * EPS
    span = float(np.ptp(rows.Z[:, 0]))
    total = w.sum(axis=1)
    for k in range(m):
        column, whole = A[:, :, k].copy(), (A[:, :, k] ** 2).sum(axis=1)
        for _ in range(2):
            part = np.einsum("qnk,qn->qk", Q[:, :, :k], column)
            column -= np.einsum("qnk,qk->qn", Q[:, :, :k], part)
            R[:, :k, k] += part
        left = (column**2).sum(axis=1)
        limit = DEPENDENT * whole
        if k == 1 and rows.one_variable:
            with np.errstate(divide="ignore"):
                limit = np.where(h > 0.0, total * (FLAT * span / np.where(h > 0.0, h, 1.0)) ** 2, np.inf)
        blur = np.zeros(count)
        if k:
            lengths = np.sqrt((A[:, :, :k] ** 2).sum(axis=1))
            shares = np.linalg.solve(R[:, :k, :k], R[:, :k, k][..., None])[..., 0]
            rest = B[:, :, k] - np.einsum("qnk,qk->qn", B[:, :, :k], shares)
            blur = gamma * ((lengths * np.abs(shares)).sum(axis=1) + np.sqrt(whole)) ** 2 + (w_room * rest**2).sum(
                axis=1
            )
            unsure = sloped & (np.abs(left - limit) <= blur) & (whole > 0.0)
            doubt, noise = doubt | unsure, noise | (unsure & (left <= 2.0 * blur))
        keep = (left + side * blur > limit) & (left > 0.0) & sloped
        if k == 1 and rows.one_variable:
            sloped = keep  # without a slope there is no curvature either
        R[:, :k, k] *= keep[:, None]
        R[:, k, k] = np.where(keep, np.sqrt(np.where(keep, left, 1.0)), 1.0)
        Q[:, :, k] = np.where(keep[:, None], column / R[:, k, k][:, None], 0.0)
    return R, Q, doubt, noise
