"""Least squares in closed form, with or without an L2 penalty: normal equations, QR, SVD.

All three solve (X̃ᵀCX̃ + Λ)θ = X̃ᵀCy in the standardised coordinates; QR and SVD work on √C·X̃ stacked on √Λ and so
never square the condition number. One step of refinement against the true residual follows, since it is cheap and
the gap shows whether it helped. Rank-deficient problems get their least-norm solution.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import dense
from .duality import solve_symmetric
from .gradient import full_gradient
from .risk import Point, Risk


def normal(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """The normal equations by Cholesky."""
    point = risk.point(np.zeros(risk.size))
    matrix = risk.hessian(point)
    risk._largest = dense.spectral_norm(matrix)
    while True:
        g = full_gradient(risk, point)
        following = risk.point(point.theta - solve_symmetric(matrix, g))
        following.hessian = matrix
        risk.newton_direction(following)  # states the decrement
        point = following
        yield point


def qr(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Householder QR of the stacked matrix, with column pivots for the rank."""
    tall = _stacked(risk)
    Q, R, pivots = dense.pivoted_qr(tall, check_finite=False)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > 1e-13 * diagonal[0]).sum()) if len(diagonal) else 0
    if rank < risk.size:  # the least-norm solution needs the whole row space
        yield from svd(risk, start)
        return

    def solved(right: np.ndarray) -> np.ndarray:
        out = np.zeros(risk.size)
        out[pivots] = dense.solve_triangular(R, Q.T @ right, check_finite=False)
        return out

    yield from _refined(risk, solved)


def svd(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """w = VΣ⁺Uᵀy of the stacked matrix."""
    U, sizes, Vt = dense.svd(_stacked(risk), full_matrices=False)
    keep = sizes > 1e-13 * sizes[0] if len(sizes) else np.zeros(0, bool)
    yield from _refined(risk, lambda right: Vt[keep].T @ ((U[:, keep].T @ right) / sizes[keep]))


def _stacked(risk: Risk) -> np.ndarray:
    X = risk.design.dense_columns(np.arange(risk.size)) * np.sqrt(risk.c)[:, None]
    held = np.flatnonzero(risk.penalty.l2)
    rows = np.zeros((len(held), risk.size))
    rows[np.arange(len(held)), held] = np.sqrt(risk.penalty.l2[held])
    stacked = np.vstack([X, rows])
    risk._largest = dense.spectral_norm(stacked) ** 2 if X.size <= 1_000_000 else None
    return stacked


def _refined(risk: Risk, solved: object) -> Iterator[Point]:
    held = np.flatnonzero(risk.penalty.l2)
    root = np.sqrt(risk.c)
    theta = np.zeros(risk.size)
    point = risk.point(theta)
    while True:
        residual = root * (risk.y - point.scores)
        right = np.concatenate([residual, -np.sqrt(risk.penalty.l2[held]) * point.theta[held]])
        point = risk.point(point.theta + solved(right))  # type: ignore[operator]
        yield point
