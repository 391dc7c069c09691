"""Exact leave-one-out of a ridge path: one further pass over the rows, for all penalties at once.

e₋ᵢ = eᵢ/(1 − hᵢ), hᵢ = wᵢ(1/W + zᵀ(G + α)⁻¹z); with Q = ZV both e and h are products with matrices of a column a
penalty. Σ w e₋² = RSS + Σ w e²(1/(1 − h)² − 1): the first comes from the moments, and the second, on long tables some
2d/n of it, needs few digits. There Q is made in single precision, its rounding being the same for every penalty, so
that it does not decide between them. What that may have cost is judged from the Gram matrix before and from the
scores after; near-collinear columns, rows of high leverage and nearly exact fits are done in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dense
from ..threads import one_blas_thread, stream

if TYPE_CHECKING:
    from .paths import RidgePath

# Numbers that are in work at a time, half a core's second cache or less, and rows that a thread takes.
_NUMBERS, _RUN = 2**17, 16_384
_SINGLE_NUMBERS = 2**18  # more, since each call must outlast the wait for Python's lock
_ALLOWED = 1e-9  # relative error of a score whose rows were multiplied in single precision
_UNIT = 2.0**-24
_THIN = 1e-12  # of the largest singular value: directions below it are left out
_NEAR = 4.0  # spreads: columns with a mean this near to 0 are centred after the product
_FROM = 16  # columns: below, there is little to gain


def leave_one_out(path: RidgePath, X: Any, Y: np.ndarray, weights: np.ndarray | None, alphas: np.ndarray) -> np.ndarray:
    """Σ over rows of the squared exact leave-one-out error, penalties × targets."""
    alphas = np.asarray(alphas, dtype=float)
    spread = np.sqrt(np.maximum(np.diagonal(path.gram), 0.0) / path.part.weight[0])
    if isinstance(X, np.ndarray) and path.d >= _FROM and spread.min() > 1e-12 and spread.max() < 1e12:
        plain = path.residual_squares(path.coef(alphas))
        mean = path.part.mean[0][: path.d] * path.fit_intercept
        far = bool((np.abs(mean) > _NEAR * spread).any())
        cost = _cost(path, alphas, spread if far else np.hypot(spread, mean), plain)
        if 2 * path.d / path.part.n * cost <= _ALLOWED / 2:
            excess, lowest = _excess(path, X, Y, weights, alphas, far)
            # ∂ log Σ(e/(1 − h))² / ∂ log h is at most (score − plain)/(plain·(1 − h)).
            if lowest > 0 and (excess * cost <= _ALLOWED * lowest * plain).all():
                return plain + excess
    work = _in_double(path, X, Y, weights, alphas)

    def squared(rows: slice) -> np.ndarray:
        return sum(np.einsum("ika,ika->ak", errors, errors) for _, errors in work(rows))

    return sum(_by_runs(squared, X.shape[0]), start=np.zeros((len(alphas), Y.shape[1])))


def errors_by_blocks(
    path: RidgePath, X: Any, Y: np.ndarray, weights: np.ndarray | None, alphas: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """(rows, √w·leave-one-out errors) block by block, errors rows × targets × penalties, good until the next."""
    return _in_double(path, X, Y, weights, np.asarray(alphas, dtype=float))(slice(0, X.shape[0]))


def _by_runs(function: Callable[[slice], Any], n: int) -> Iterator[Any]:
    with one_blas_thread():
        yield from stream(function, [slice(start, min(start + _RUN, n)) for start in range(0, n, _RUN)])


def _steps(run: slice, most: int) -> Iterator[slice]:
    """Blocks of about one length, none longer than ``most``."""
    size = run.stop - run.start
    step = -(-size // -(-size // most))
    for start in range(run.start, run.stop, step):
        yield slice(start, min(start + step, run.stop))


def _inverse(path: RidgePath, alphas: np.ndarray) -> np.ndarray:
    """1/(λ + α), terms × penalties."""
    total = path.values[:, None] + alphas
    with np.errstate(divide="ignore"):
        return np.where(total > 0, 1 / total, 0.0)


def _in_double(
    path: RidgePath, X: Any, Y: np.ndarray, weights: np.ndarray | None, alphas: np.ndarray
) -> Callable[[slice], Iterator[tuple[slice, np.ndarray]]]:
    """What gives √w·errors for a run of rows, so few at a time that they stay in a core's cache."""
    k, A, d = Y.shape[1], len(alphas), path.d
    mean = path.part.mean[0] if path.fit_intercept else np.zeros(d + k)
    # One product per block: Q = (X − x̄)V, then e from β in V's coordinates and h from its squares.
    turn = path.vectors / path.scales[:, None]
    inverse = _inverse(path, alphas)
    rotated = (path.rotated[:, :, None] * inverse[:, None, :]).reshape(d, k * A)
    base = 1.0 / path.part.weight[0] if path.fit_intercept else 0.0
    sparse = hasattr(X, "tocsr")
    X = X.tocsr() if sparse else X

    def work(run: slice) -> Iterator[tuple[slice, np.ndarray]]:
        most = max(64, _NUMBERS // (2 * d + (k + 1) * A))
        centred, turned = np.empty((most, d)), np.empty((most, d))
        errors, levers = np.empty((most, k * A)), np.empty((most, A))
        for rows in _steps(run, most):
            m = rows.stop - rows.start
            Z, Q, E, L = centred[:m], turned[:m], errors[:m], levers[:m]
            np.subtract(X[rows].toarray() if sparse else X[rows], mean[:d], out=Z)
            np.matmul(Z, turn, out=Q)
            np.matmul(Q, rotated, out=E)
            found = E.reshape(m, k, A)
            np.subtract((Y[rows] - mean[d:])[:, :, None], found, out=found)
            np.multiply(Q, Q, out=Q)
            np.matmul(Q, inverse, out=L)
            if weights is None:
                np.subtract(1.0 - base, L, out=L)
            else:
                L += base
                L *= weights[rows, None]
                np.subtract(1.0, L, out=L)
                found *= np.sqrt(weights[rows, None, None])
            found /= L[:, None, :]
            yield rows, found

    return work


# ---- in single precision


def _whitening(path: RidgePath, alphas: np.ndarray) -> np.ndarray:
    """Coordinates in which G and the smallest penalty together are the identity."""
    return path.vectors / path.scales[:, None] / np.sqrt(path.values + alphas.min())


def _cost(path: RidgePath, alphas: np.ndarray, size: np.ndarray, plain: np.ndarray) -> float:
    """How far Σ e²(1/(1 − h)² − 1) may be off, relatively; infinite where it must not be tried.

    ``size`` is that of the entries that are rounded. A product of d terms wanders by about √d roundings of its partial sums, which are larger than the sum itself where
    columns are nearly dependent. Roundings of e are those of y; they do not know e, so that over n rows they cancel.
    """
    n, d = path.part.n, path.d
    with np.errstate(all="ignore"):
        longest = (size[:, None] * _whitening(path, alphas)) ** 2
        amplified = np.sqrt(path.part.weight[0] * longest.sum(axis=0).max())
        explained = float((path.squares / plain).max())
        lost = 8 * _UNIT * np.sqrt(d * explained)
        cost = 2 * np.sqrt(d) * _UNIT * amplified + 2 * lost / np.sqrt(n) + lost**2
    # What the moments give of RSS must be right as well.
    return float(cost) if np.isfinite(cost) and explained * 2.0**-50 <= _ALLOWED / 10 else np.inf


def _thin(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two factors whose product is the matrix; functions of a penalty are much alike, so they are narrow."""
    U, s, V = dense.svd(matrix, full_matrices=False)
    kept = max(1, int((s > _THIN * s[0]).sum()))
    return U[:, :kept] * s[:kept], V[:kept]


def _excess(
    path: RidgePath, X: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, alphas: np.ndarray, far: bool
) -> tuple[np.ndarray, float]:
    """Σ w e²(1/(1 − h)² − 1), penalties × targets, and the smallest 1 − h; columns ``far`` from 0 are centred first."""
    k, A, d = Y.shape[1], len(alphas), path.d
    mean = path.part.mean[0] if path.fit_intercept else np.zeros(d + k)
    base = 1.0 / path.part.weight[0] if path.fit_intercept else 0.0
    inverse = _inverse(path, alphas)
    white = _whitening(path, alphas)
    levers, levers_back = _thin((path.values[:, None] + alphas.min()) * inverse)
    betas, betas_back = _thin(
        path.vectors / path.scales[:, None] @ (path.rotated[:, :, None] * inverse[:, None, :]).reshape(d, k * A)
    )
    r, s = levers.shape[1], betas.shape[1]
    # One line a coordinate from here on, so that sums and differences run along the memory. Columns near 0 are only
    # rounded, and the product of their means is taken off the product.
    turn = np.hstack([white, betas]).T
    offset = np.zeros((d + s, 1)) if far else turn @ mean[:d, None]
    turn, offset, narrow = turn.astype(np.float32), offset.astype(np.float32), levers.T.astype(np.float32)
    levers_back = np.vstack([-levers_back, np.full(A, -base), np.ones(A)]).T.copy()  # of [w·h, w, 1]: 1 − h
    betas_back = np.vstack([-betas_back, np.kron(np.eye(k), np.ones(A))]).T.copy()  # of √w·[x·β, y]: e
    most = max(64, _SINGLE_NUMBERS // (d + (k + 1) * A))
    largest = int(alphas.argmin())  # the penalty with the largest leverages

    def run_of(run: slice) -> tuple[np.ndarray, np.ndarray, float]:
        total, inner, lowest = np.zeros(k * A), np.zeros((s + k, s + k)), np.inf
        size = 0
        for rows in _steps(run, most):
            if rows.stop - rows.start != size:
                size = rows.stop - rows.start
                Z, Q, S, H = (np.empty(shape, np.float32) for shape in ((size, d), (d + s, size), (d, size), (r, size)))
                L, R, E, G = (
                    np.ones((r + 2, size)),
                    np.empty((s + k, size)),
                    np.empty((k * A, size)),
                    np.empty((A, size)),
                )
            if far:
                np.subtract(X[rows], mean[:d], out=Z, casting="same_kind")
            else:
                Z[...] = X[rows]
            np.matmul(turn, Z.T, out=Q)
            np.subtract(Q, offset, out=Q)
            np.multiply(Q[:d], Q[:d], out=S)
            np.matmul(narrow, S, out=H)
            L[:r] = H
            R[:s] = Q[d:]
            np.subtract(Y[rows].T, mean[d:, None], out=R[s:])
            if weights is not None:
                L[r] = 1.0
                L[: r + 1] *= weights[rows]
                R *= np.sqrt(weights[rows])
            np.matmul(levers_back, L, out=G)
            np.matmul(betas_back, R, out=E)
            inner += R @ R.T
            found = E.reshape(k, A, size)
            found /= G
            total += np.einsum("ij,ij->i", E, E)
            lowest = min(lowest, float(G[largest].min()))
        return total, inner, lowest

    with np.errstate(all="ignore"):
        found = list(_by_runs(run_of, X.shape[0]))
        inner = sum(made[1] for made in found)
        # The same e throughout: the difference is right though e is not.
        excess = sum(made[0] for made in found) - np.einsum("ij,ij->i", betas_back, betas_back @ inner)
    return excess.reshape(k, A).T, min(made[2] for made in found)
