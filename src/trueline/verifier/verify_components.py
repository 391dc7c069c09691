"""Principal components: that each is an eigenvector of the covariance, that they are the leading ones, and in order.

For a symmetric C and a unit vector v with C v = λ v + r some eigenvalue of C lies within ‖r‖ of λ (Weyl). Vectors that
are orthonormal to within rounding and whose values are, one by one, the largest eigenvalues that C has are the leading
components; where two eigenvalues are equal any basis of their plane will do. Signs are free.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.optimality import components_status
from .agreement import same_status
from .stated_claims import Claims, Given, Rows

UNIT = 2.0**-53


def check_components(out: Claims, given: Given) -> None:
    """All checks of a record of components, and of the exact certificate that it carries."""
    record, _, X, _, weights = given
    vectors, variance = (np.asarray(v, dtype=float) for v in (record.vectors, record.variance))
    if vectors.shape != (len(variance), X.shape[1]) or not (np.isfinite(vectors).all() and np.isfinite(variance).all()):
        out.of_model("vectors", vectors.shape, (len(variance), X.shape[1]), False, "one row of numbers a component")
        return
    mean, products, lost = centred_products(X, weights)
    freedom = float(weights.sum()) - 1.0
    values = variance * freedom
    eigenvalues = np.maximum(np.linalg.eigvalsh(products)[::-1], 0.0)
    residual = _residual(products, vectors, values, lost)
    beside = _residual(products, vectors, eigenvalues[: len(values)], lost)
    _check_mean(out, record, X, weights, mean)
    # What is claimed allows itself no room: the vectors beside the true eigenvalues decide.
    _check_spread(out, record, eigenvalues, np.minimum(residual, beside), freedom, lost)
    kept = _check_rank(out, values, float(np.max(eigenvalues, initial=0.0)), X, weights, lost)
    _check_digits(out, vectors, values, residual, kept, X, weights, lost)
    _check_scores(out, record, vectors, variance, X)


def _residual(products: Rows, vectors: Rows, values: Rows, lost: float) -> Rows:
    """‖C v − λ v‖ of each vector and value, beyond rounding."""
    return np.maximum(np.linalg.norm(products @ vectors.T - vectors.T * values, axis=0) - lost, 0.0)


def centred_products(X: Rows, weights: Rows) -> tuple[Rows, Rows, float]:
    """(mean, Σ w (x − x̄)(x − x̄)ᵀ, what rounding of the entries and of these sums may move an eigenvalue by)."""
    wide = np.longdouble
    total = weights.astype(wide).sum()
    mean = (weights.astype(wide) @ X.astype(wide)) / total
    centred = (X - mean) * np.sqrt(weights.astype(wide))[:, None]
    products = np.zeros((X.shape[1],) * 2)
    for start in range(0, len(X), 4096):  # sums of a block in float64, of blocks again: their rounding is in ``lost``
        block = centred[start : start + 4096].astype(float)
        products += block.T @ block
    trace = float(np.trace(products))
    length = math.sqrt(float((weights @ X**2).sum()))
    lost = 8.0 * UNIT * (trace * (12.0 + math.log2(1.0 + len(X))) + math.sqrt(trace) * length)
    return mean.astype(float), products, lost


def _check_mean(out: Claims, record: Any, X: Rows, weights: Rows, mean: Rows) -> None:
    room = 4.0 * UNIT * (weights @ np.abs(X)) / weights.sum() * (2.0 + math.log2(len(X)))
    apart = float(np.max(np.abs(np.asarray(record.mean, dtype=float) - mean) - room, initial=-1.0))
    out.of_model("mean", None, None, apart <= 0.0, "of each column")
    rows = int(np.count_nonzero(weights))
    out.of_model("n", record.n, rows, record.n == rows)


def _check_spread(out: Claims, record: Any, eigenvalues: Rows, residual: Rows, freedom: float, lost: float) -> None:
    """Each variance is the eigenvalue of its own place, so the components are the leading ones in falling order."""
    variance, share = np.asarray(record.variance, dtype=float), 4.0 * lost / freedom
    leading = eigenvalues[: len(variance)] / freedom
    far = np.abs(variance - leading) > 1e-9 * leading + share + residual / freedom
    place = int(np.argmax(far)) if far.any() else 0
    claimed, found = (float(v[place]) if len(v) else None for v in (variance, leading))
    out.of_model("variance", claimed, found, not far.any(), "each is the largest that the ones before it leave")
    total = float(eigenvalues.sum()) / freedom
    room = 1e-9 * total + share * len(eigenvalues)
    out.of_model("total_variance", record.total_variance, total, abs(record.total_variance - total) <= room)
    others = min(len(eigenvalues), int(record.n)) - len(variance)
    noise = (total - float(variance.sum())) / others if others > 0 else 0.0
    near = abs(record.noise_variance - noise) <= 1e-9 * noise + (room + float(residual.sum()) / freedom)
    out.of_model("noise_variance", record.noise_variance, noise, near, "of a component that is left out, on average")


def _check_rank(out: Claims, values: Rows, largest: float, X: Rows, weights: Rows, lost: float) -> Rows:
    """How many components vary by more than rounding; where that is a matter of rounding itself, either is right."""
    floor = max(X.shape[1] * UNIT * largest, _rounding_of_entries(X, weights) ** 2)
    surely, perhaps = int((values > 4.0 * floor + lost).sum()), int((values > 0.25 * floor - lost).sum())
    rank = out.proof.rank
    right = isinstance(rank, int) and surely <= rank <= perhaps
    out.holds("rank", int((values > floor).sum()), right, "beyond it nothing varies")
    return (np.arange(len(values)) < rank) & (values > 0.0)


def _check_digits(
    out: Claims, vectors: Rows, values: Rows, residual: Rows, kept: Rows, X: Rows, weights: Rows, lost: float
) -> None:
    """Digits of the variances by Weyl's theorem; condition and orthogonality of what is kept; what that proves."""
    certificate, spread = out.proof, values[kept]
    error = float(np.max(residual[kept] / spread, initial=0.0))
    out.at_most("arithmetic_digits", -math.log10(max(error, UNIT)), 0.0, "by the length of C·v − λ·v")
    moved = 2.0 * _rounding_of_entries(X, weights) / np.sqrt(spread)
    allowed = -math.log10(max(float(np.max(moved, initial=0.0)), UNIT))
    out.at_most("data_digits", allowed, 0.5, "entries known to half a unit in the last place")
    condition = math.sqrt(float(spread[0] / spread[-1])) if len(spread) else 1.0
    share = (lost + float(np.max(residual[kept], initial=0.0))) / float(spread[-1]) if len(spread) else 0.0
    out.equals("condition_number", condition, condition * (1e-9 + 4.0 * share))
    apart = float(np.abs(vectors @ vectors.T - np.eye(len(vectors))).max(initial=0.0))
    unit = 8.0 * UNIT * (X.shape[1] + 8)
    near = abs(certificate.orthogonality - apart) <= unit and apart <= 16.0 * unit
    out.holds("orthogonality", apart, near, "largest entry of V·Vᵀ − I")
    out.holds("dropped", (), certificate.dropped == (), "components name no column")
    out.assumption("the rows vary", bool(kept.any()))
    digits = min(certificate.arithmetic_digits, certificate.data_digits)
    same_status(out, components_status(bool(kept.any()), error, digits))


def _check_scores(out: Claims, record: Any, vectors: Rows, variance: Rows, X: Rows) -> None:
    """``transform`` is the projection on the components, each divided by its standard deviation where it is whitened.

    The largest loading of each component is positive, where rounding can tell which one is the largest.
    """
    sizes = np.sort(np.abs(vectors), axis=1)[:, ::-1]
    sure = sizes[:, 0] - sizes[:, 1] > 1e-9 if X.shape[1] > 1 else np.ones(len(vectors), dtype=bool)
    largest = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)] if len(vectors) else np.zeros(0)
    out.of_model("vectors", None, None, bool((largest[sure] > 0.0).all()), "the largest loading is positive")
    scale = np.maximum(np.sqrt(variance), 2.0 * UNIT) if record.whiten else np.ones(len(variance))
    wanted = (X @ vectors.T - np.asarray(record.mean, dtype=float) @ vectors.T) / scale
    room = 4.0 * (X.shape[1] + 4) * UNIT * ((np.abs(X) + np.abs(record.mean)) @ np.abs(vectors.T)) / scale
    own = np.asarray(record.transform(X), dtype=float)
    held = own.shape == wanted.shape and bool((np.abs(own - wanted) <= room).all())
    out.of_model("transform", None, None, held, "scores of the rows")


def _rounding_of_entries(X: Rows, weights: Rows) -> float:
    """The length of half a unit in the last place of every entry; whole numbers are exact."""
    whole = (np.rint(X) == X).all(axis=0)
    squares = np.where(whole, 0.0, weights @ X**2)
    return UNIT * math.sqrt(float(squares.sum()))
