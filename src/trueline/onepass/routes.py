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

from .. import dense
from ..certificates.certificate import Assumption, Status
from ..certificates.optimality import ExactCertificate, exact_status
from ..doubled import UNIT
from ..errors import DataError
from . import exact
from .digits import data_errors, digits_of, rounding_squares, squared_rows, vanished
from .moments import Moments
from .parts import Part
from .solve import factored
from .squares import HOW, Solution, products_of, solve_part, together

WIDE = 64  # columns: below this, the error-free road also takes n ≤ d
_JUDGED = 256  # columns whose dependence is judged by their exact products
_UNITS = 32.0  # units in the last place that Householder's reflections may cost an entry


def by_rows(
    X: Any,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    terms: Sequence[str],
    *,
    method: str,
    fit_intercept: bool = True,
    rank: str = "minimum-norm",
) -> Solution:
    """Least squares by the QR or singular value decomposition of the (weighted, centred) rows."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    Y = y[:, None] if y.ndim == 1 else y
    if not np.isfinite(X).all():
        raise DataError("Input X contains NaN or infinity; finite numbers are accepted", where="X")
    w = np.ones(len(X)) if sample_weight is None else sample_weight
    A, B = X, Y
    mean, level = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    for _ in range(2 if fit_intercept else 0):  # what rounding leaves of the means would count as a direction
        first, second = np.average(A, axis=0, weights=w), np.average(B, axis=0, weights=w)
        A, B, mean, level = A - first, B - second, mean + first, level + second
    root = np.sqrt(w)[:, None]
    A, B = A * root, B * root
    n, d = A.shape
    lengths = np.sqrt((A**2).sum(axis=0))
    raw = np.sqrt((X**2 * w[:, None]).sum(axis=0))
    # What half a unit in the last place of every entry explains is no column, and no direction of its own.
    constant = lengths <= 2 * UNIT * raw
    A[:, constant] = 0.0
    unit = np.where(constant, 1.0, lengths)
    U, s, Vt = dense.svd(A / unit, full_matrices=False)
    raw = np.where(constant, 0.0, raw / unit)
    floor = 2 * UNIT * np.sqrt((raw**2).sum() + d)
    found = int((s > max(floor, UNIT * s.max(initial=0.0))).sum())
    dropped: list[int] = []
    if found < d:
        dropped = _dependent(X, sample_weight, fit_intercept) if d <= _JUDGED else []
        if len(dropped) < d - found:  # float64 cannot tell what exact products can
            dropped = _least_explained(A / unit, found)
        found = d - len(dropped)
    if dropped and rank == "drop":
        kept = np.setdiff1d(np.arange(d), dropped)
        options: dict[str, Any] = {"method": method, "fit_intercept": fit_intercept}
        inner = by_rows(X[:, kept], y, sample_weight, [terms[j] for j in kept], **options)
        coef = np.zeros((Y.shape[1], d))
        coef[:, kept] = inner.coef
        proof = _degenerate(inner.certificate, terms, dropped, rank)
        return dataclasses.replace(inner, coef=coef, proof=lambda: proof)
    inverse = (Vt[:found].T / s[:found] ** 2) @ Vt[:found] / (unit[:, None] * unit)
    if method == "qr" and found == d and n >= d:
        Q, R = dense.qr(A)
        beta = dense.solve(R, Q.T @ B) if d else np.zeros((0, B.shape[1]))
    elif found == d:
        beta = (Vt.T @ ((U.T @ B) / s[:, None])) / unit[:, None]
    elif d <= _JUDGED:
        # Columns of one length give fitted values that no scale spoils; then the null space's share is taken off.
        beta = (Vt[:found].T @ ((U[:, :found].T @ B) / s[:found, None])) / unit[:, None]
        null = dense.svd(A / unit, full_matrices=True)[2][found:].T / unit[:, None]
        beta = beta - null @ dense.lstsq(null, beta, rcond=None)[0]
    else:
        # Least norm in the units given, so the columns are not scaled here.
        U, s, Vt = dense.svd(A, full_matrices=False)
        beta = Vt[:found].T @ ((U[:, :found].T @ B) / s[:found, None])
    rss = ((B - A @ beta) ** 2).sum(axis=0)
    intercept = level - mean @ beta
    both = np.column_stack([X, Y])
    rounding = rounding_squares(w @ both**2, (both == np.rint(both)).all(axis=0))
    certificate = _certificate(
        A, B, beta, intercept, inverse, rss, found, s, mean if fit_intercept else None, w @ both**2, rounding
    )
    if dropped:
        # The condition that is told is that of the columns which the others do not explain, as on the error-free road.
        kept = np.setdiff1d(np.arange(d), dropped)
        values = dense.svd((A / unit)[:, kept], compute_uv=False)
        condition = float(values[0] / values[-1]) if len(values) else 1.0
        certificate = dataclasses.replace(certificate, condition_number=condition)
        certificate = _degenerate(certificate, terms, dropped, rank)
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
    raw: np.ndarray,
    rounding: np.ndarray,
) -> ExactCertificate:
    """``raw`` are the squares of the columns and targets as they stand, ``rounding`` those of their last places."""
    d = len(beta)
    squares = (A**2).sum(axis=0)
    spread = np.diagonal(inverse)
    if mean is not None:
        spread = np.concatenate([[mean @ inverse @ mean + 1 / len(A)], spread])
    found, data, rows2 = [], [], squared_rows(inverse, mean)
    roots = np.sqrt(np.maximum(raw[:d], np.finfo(float).tiny))
    roots = roots if mean is None else np.concatenate([[np.sqrt(len(A))], roots])
    for t in range(B.shape[1]):
        size = np.sqrt((B[:, t] ** 2).sum()) + np.sqrt(squares) @ np.abs(beta[:, t])
        errors = np.sqrt(np.maximum(spread, 0)) * size + np.sqrt(rows2 @ squares) * np.sqrt(rss[t])
        values = beta[:, t] if mean is None else np.concatenate([[intercept[t]], beta[:, t]])
        found.append(digits_of(_UNITS * UNIT * errors, values))
        moved = data_errors(
            rows2, inverse, mean, beta[:, t], rounding[:d], float(rounding[d + t]), float(rss[t]), len(A)
        )
        asked = ~vanished(moved, values, 4 * UNIT * np.sqrt(raw[d + t]) / roots)
        data.append(digits_of(moved[asked], values[asked]))
    left = np.sqrt(((A.T @ (B - A @ beta)) ** 2).sum(axis=0))
    lengths = np.sqrt(squares.sum() * rss)
    return ExactCertificate(
        status=exact_status(min([*found, *data], default=0.0), ()),
        assumptions=(Assumption("columns are linearly independent", True, float(rank), float(d)),),
        arithmetic_digits=min(found, default=0.0),
        data_digits=min(data, default=0.0),
        condition_number=float(singular[0] / singular[rank - 1]) if rank else 1.0,
        rank=rank,
        orthogonality=float(np.max(np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0), initial=0.0)),
    )


def _degenerate(proof: ExactCertificate, terms: Sequence[str], dropped: Sequence[int], rank: str) -> ExactCertificate:
    """The certificate of a fit in which these columns add nothing."""
    names = tuple(terms[j] for j in dropped)
    told = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return dataclasses.replace(
        proof,
        status=Status.DEGENERATE,
        assumptions=(
            Assumption("columns are linearly independent", False, float(len(terms) - len(names)), float(len(terms))),
        ),
        advice=f"columns that add nothing to those before them: {told}; {HOW[rank]}",
        rank=len(terms) - len(names),
        dropped=names,
    )


def _dependent(X: np.ndarray, weights: np.ndarray | None, fit_intercept: bool) -> list[int]:
    """The columns that those before them explain, as the error-free road judges them."""
    moments = Moments.from_arrays(X, None, weights, level=exact.HIGHEST)
    part = moments.total
    rounding = rounding_squares(part.raw_squares(), moments.integer)
    most = part.n - fit_intercept
    return list(
        factored(products_of(part, fit_intercept), rounding, part.noise, most=most, condition=False).combinations
    )


def _least_explained(A: np.ndarray, rank: int) -> list[int]:
    """All but ``rank`` of many columns of length 1: those are kept, in their order, that others explain the least."""
    basis = np.zeros((len(A), rank))
    left, kept = list(range(A.shape[1])), 0
    for least in (*np.logspace(-2, -14, 7), 0.0):
        for j in list(left):
            if kept == rank:
                return left
            column = A[:, j]
            for _ in range(2):  # once more, for what the first projection lost
                column = column - basis[:, :kept] @ (basis[:, :kept].T @ column)
            length = float(np.sqrt(column @ column))
            if length > least:
                basis[:, kept] = column / length
                kept += 1
                left.remove(j)
    return left


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
        size = np.sqrt(np.diagonal(G))
        size = np.where(
            size > 0, size, 1.0
        )  # columns of one length: those of a smaller scale are no rounding of others
        values, vectors = dense.eigh(G / (size[:, None] * size))
        good = values > values[-1] * d * UNIT if d else values > 0
        root = np.sqrt(values[good])
        # ‖Rβ − q‖² = βᵀGβ − 2β·c + …, with R = √Λ Vᵀ, so the rows themselves are not needed.
        found = nnls(root[:, None] * vectors[:, good].T, (vectors[:, good].T @ (H[:d, d + t] / size)) / root)[0]
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
        off = off[np.diagonal(H)[off] > 4 * UNIT**2 * part.raw_squares()[off]]  # a constant column pulls nowhere
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
    return np.sqrt(np.maximum(dense.eigvalsh(products_of(part, fit_intercept)[0][:d, :d])[::-1], 0.0))
