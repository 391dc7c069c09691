"""The textbook's roads by name: QR and SVD over the rows, and non-negative coefficients on the Gram matrix.

These serve those who want the road itself, wide problems (columns outnumber rows) and positive coefficients. For a
road over the rows the error of β_j is that of backward-stable factorisations: entries perturbed by a few units,

  |δβ_j| ≲ u·(√(G⁻¹)_jj · (‖y‖ + Σ‖x_k‖|β_k|) + √(Σ_i (G⁻¹)_ji²‖x_i‖²)·‖r‖).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..certify.records import Assumption, ExactCertificate, Status
from ..errors import DataError
from .digits import digits_of, squared_rows
from .doubled import UNIT
from .moments import Moments
from .parts import Part
from .squares import Solution, products_of, solve_part, together

WIDE = 64  # columns: below this, the error-free road also takes n ≤ d
_UNITS = 8.0  # units in the last place that Householder's reflections may cost an entry


def by_rows(
    X: Any,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    terms: Sequence[str],
    *,
    method: str,
    fit_intercept: bool = True,
) -> Solution:
    """Least squares by the QR or singular value decomposition of the (weighted, centred) rows."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    Y = y[:, None] if y.ndim == 1 else y
    if not np.isfinite(X).all():
        raise DataError("Input X contains NaN or infinity; finite numbers are accepted", where="X")
    w = np.ones(len(X)) if sample_weight is None else sample_weight
    mean, level = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if fit_intercept:
        mean, level = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    root = np.sqrt(w)[:, None]
    A, B = (X - mean) * root, (Y - level) * root
    n, d = A.shape
    lengths = np.sqrt((A**2).sum(axis=0))
    unit = np.where(lengths > 0, lengths, 1.0)
    U, s, Vt = np.linalg.svd(A / unit, full_matrices=False)
    # What half a unit in the last place of every entry explains is no direction of its own.
    raw = np.sqrt((X**2 * w[:, None]).sum(axis=0)) / unit
    floor = 2 * UNIT * np.sqrt((raw**2).sum() + d)
    rank = int((s > max(floor, UNIT * s.max(initial=0.0))).sum())
    inverse = (Vt[:rank].T / s[:rank] ** 2) @ Vt[:rank] / (unit[:, None] * unit)
    if method == "qr" and rank == d and n >= d:
        Q, R = np.linalg.qr(A)
        beta = np.linalg.solve(R, Q.T @ B) if d else np.zeros((0, B.shape[1]))
    elif rank == d:
        beta = (Vt.T @ ((U.T @ B) / s[:, None])) / unit[:, None]
    else:
        # Least norm in the units given, so the columns are not scaled here.
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        beta = Vt[:rank].T @ ((U[:, :rank].T @ B) / s[:rank, None])
    rss = ((B - A @ beta) ** 2).sum(axis=0)
    intercept = level - mean @ beta
    certificate = _certificate(A, B, beta, intercept, inverse, rss, rank, s, mean if fit_intercept else None, terms)
    return Solution(beta.T.copy(), intercept, rss, None, lambda: certificate, None, fit_intercept)


def _certificate(
    A: np.ndarray,
    B: np.ndarray,
    beta: np.ndarray,
    intercept: np.ndarray,
    inverse: np.ndarray,
    rss: np.ndarray,
    rank: int,
    singular: np.ndarray,
    mean: np.ndarray | None,
    terms: Sequence[str],
) -> ExactCertificate:
    d = len(terms)
    squares = (A**2).sum(axis=0)
    spread = np.diagonal(inverse)
    if mean is not None:
        spread = np.concatenate([[mean @ inverse @ mean + 1 / len(A)], spread])
    found = []
    for t in range(B.shape[1]):
        size = np.sqrt((B[:, t] ** 2).sum()) + np.sqrt(squares) @ np.abs(beta[:, t])
        errors = np.sqrt(np.maximum(spread, 0)) * size + np.sqrt(squared_rows(inverse, mean) @ squares) * np.sqrt(
            rss[t]
        )
        values = beta[:, t] if mean is None else np.concatenate([[intercept[t]], beta[:, t]])
        found.append(digits_of(_UNITS * UNIT * errors, values))
    short = d - rank
    left = np.sqrt(((A.T @ (B - A @ beta)) ** 2).sum(axis=0))
    lengths = np.sqrt(squares.sum() * rss)
    return ExactCertificate(
        status=Status.DEGENERATE if short else Status.PROVEN,
        assumptions=(Assumption("columns are linearly independent", not short, float(rank), float(d)),),
        advice=f"{short} of {d} directions add nothing; the solution of least norm is given" if short else "",
        arithmetic_digits=min(found, default=0.0),
        data_digits=min(found, default=0.0),
        condition_number=float(singular[0] / singular[rank - 1]) if rank else 1.0,
        rank=rank,
        dropped=(f"{short} directions",) if short else (),
        orthogonality=float(np.max(np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0), initial=0.0)),
    )


def nonnegative(
    moments: Moments, *, fit_intercept: bool = True, ridge: float | np.ndarray = 0.0
) -> tuple[np.ndarray, np.ndarray, ExactCertificate]:
    """(coef k×d, intercept k, certificate) of least squares with β ≥ 0, exactly, from the Gram matrix.

    SciPy's active-set method finds which coefficients are positive; those are solved for as without a constraint, so
    that their digits are certified, and the others' multipliers show whether the choice is right.
    """
    from scipy.optimize import nnls

    part = moments.total
    d, k = len(moments.terms), len(moments.targets)
    H = products_of(part, fit_intercept)[0]
    penalties = np.broadcast_to(np.asarray(ridge, dtype=float), (k,))
    coef, intercept, proofs = np.zeros((k, d)), np.zeros(k), []
    lengths = np.sqrt(np.diagonal(H))
    for t in range(k):
        G = H[:d, :d] + penalties[t] * np.eye(d)
        values, vectors = np.linalg.eigh(G)
        good = values > values[-1] * d * UNIT if d else values > 0
        root = np.sqrt(values[good])
        # ‖Rβ − q‖² = βᵀGβ − 2β·c + …, with R = √Λ Vᵀ, so the rows themselves are not needed.
        found = nnls(root[:, None] * vectors[:, good].T, (vectors[:, good].T @ H[:d, d + t]) / root)[0]
        while True:  # a coefficient that vanishes only by rounding turns negative when solved for: it is left out
            on = np.flatnonzero(found > 0)
            columns = np.append(on, d + t)
            solved = solve_part(
                part.selected(columns),
                [moments.terms[j] for j in on],
                moments.integer[columns],
                fit_intercept=fit_intercept,
                penalty=np.full(len(on), penalties[t]) if penalties[t] else None,
            )
            if (solved.coef[0] >= 0).all():
                break
            found[on[solved.coef[0] < 0]] = 0.0
        coef[t, on], intercept[t] = solved.coef[0], solved.intercept[0]
        off = np.setdiff1d(np.arange(d), on)
        pull = (H[off, d + t] - G[off] @ coef[t]) / np.maximum(lengths[off] * lengths[d + t], np.finfo(float).tiny)
        steepest = float(pull.max(initial=0.0))
        kept = Assumption(
            "no coefficient left at 0 would lower the squares by growing", steepest <= 1e-9, steepest, 1e-9
        )
        proof = solved.certificate
        proofs.append(
            dataclasses.replace(
                proof,
                assumptions=(*proof.assumptions, kept),
                status=proof.status if kept.held else Status.NOT_PROVEN,
            )
        )
    return coef, intercept, together(proofs)


def singular_values(part: Part, d: int, fit_intercept: bool) -> np.ndarray:
    """Singular values of the (centred) columns, from their products."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(products_of(part, fit_intercept)[0][:d, :d])[::-1], 0.0))
