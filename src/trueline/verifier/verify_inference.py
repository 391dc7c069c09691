"""Numbers that a summary of a fit by likelihood prints: deviance, log-likelihood, criteria, dispersion, covariance.

At the model's own coefficients the scores are s = Z·w, Z the constant and the columns. With μ = e^s or the logistic
function the information is H = Σ w·V·z zᵀ: V = μ(1 − μ) of the logistic loss, μ of Poisson's, and for losses with a
dispersion φ the expected curvature μ^(2 − p), p the power of the variance (0 for squares, 2 for Gamma). The covariance is
H⁻¹, times Pearson's φ = Σ w (y − μ)²/μ^p / (n − parameters) where there is one. Of several classes it is that of all but
the first, each against the first. What is not here (losses that are no likelihood, columns that others make up, fits
with an offset) is listed as stated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .stated_claims import Claims, Given, Rows

UNIT = 2.0**-53
POWER = {"squared": 0.0, "gamma": 2.0}
LIKELIHOODS = ("logistic", "softmax", "poisson")
NEAR = 1e-8  # of a sum over the rows: the scores that it was formed of are those of the solver's own coordinates
MOST_CONDITION = 1e10  # of the information: beyond it float64 leaves its inverse too few digits to judge

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


class Fit(NamedTuple):
    """A fit by likelihood: loss and the power of its variance, design with the constant first, target, scores, weights."""

    loss: str
    power: float | None
    Z: Rows
    y: Rows
    scores: Rows
    weights: Rows
    constants: int
    sizes: Rows  # of the terms of each score, added up


def check_inference(out: Claims, given: Given) -> None:
    """The published numbers in ``record.statistics`` that the rows and the model's coefficients give again."""
    record = given.record
    statistics: dict[str, Any] = record.statistics
    fit = fit_of(given)
    if fit is None or not hasattr(record, "link"):
        return
    # Moments count the rows whose weight is not 0, passes over rows all of them; the fit is the same.
    counted = int((fit.weights > 0.0).sum())
    _check_number(out, statistics, "n", float(counted if statistics.get("n") == counted else len(fit.y)), 0.0)
    total = float(fit.weights.sum())
    _check_number(out, statistics, "sum_of_weights", total, NEAR * total)
    deviance, null = deviances(fit)
    lost, moved = NEAR * _size(fit) + 64.0 * UNIT * total * (1.0 + abs(_null_score(fit))), _score_rounding(fit)
    lost += float(fit.weights @ (np.abs(_slopes(fit)) * moved))
    _check_number(out, statistics, "deviance", deviance, NEAR * abs(deviance) + lost)
    _check_number(out, statistics, "null_deviance", null, NEAR * abs(null) + lost)
    if "estimates" in statistics:
        _check_estimates(out, statistics, fit)
        return  # columns that others make up: what is shown is another choice of coefficients
    free = _parameters(record, fit)
    dispersion = _dispersion(fit, free)
    blurred = _dispersion_rounding(fit, moved) if dispersion > 0.0 else 0.0
    _check_number(out, statistics, "dispersion", dispersion, (NEAR + blurred) * dispersion)
    likelihood = log_likelihood(fit, dispersion)
    if likelihood is not None:
        room = NEAR * abs(likelihood) + lost + _likelihood_rounding(fit, dispersion, blurred, moved)
        _check_number(out, statistics, "log_likelihood", likelihood, room)
        _check_number(out, statistics, "parameters", float(free), 0.0)
        _check_number(out, statistics, "aic", 2.0 * free - 2.0 * likelihood, 2.0 * room)
        _check_number(out, statistics, "bic", math.log(max(total, 1e-300)) * free - 2.0 * likelihood, 2.0 * room)
        gained = 0.5 * (null - deviance) / (1.0 if fit.power is None else dispersion)
        wide = room + NEAR * abs(likelihood - gained) + blurred * abs(gained)
        _check_number(out, statistics, "null_log_likelihood", likelihood - gained, wide)
    if "covariance" in statistics:
        _check_covariance(out, statistics, fit, dispersion, float(moved.max(initial=0.0)) + blurred)


def _check_estimates(out: Claims, statistics: dict[str, Any], fit: Fit) -> None:
    """Another choice of coefficients is one that gives the same scores, and there is one where columns depend alone."""
    scaled = _standardised(fit) * np.sqrt(fit.weights / fit.weights.sum())[:, None]
    values = np.linalg.svd(scaled, compute_uv=False)
    dependent = len(fit.y) < fit.Z.shape[1] or float(values[-1]) <= 1e-5 * float(values[0])
    note = "where no column is made up by others there is none"
    out.of_model("statistics.estimates", None, float(values[-1] / values[0]), dependent, note)


def fit_of(given: Given) -> Fit | None:
    """The fit of a model by likelihood; None of another loss, or with an offset, which the rows do not hold."""
    record = given.record
    objective: dict[str, Any] = record.statistics["objective"]
    loss, power = objective["loss"], POWER.get(objective["loss"])
    if loss == "tweedie":
        power = float(objective["loss_fields"][0])
    if (loss not in LIKELIHOODS and power is None) or objective.get("offset") or given.y.ndim > 1:
        return None
    y, weights = given.y, given.c
    if loss in ("logistic", "softmax"):
        labels = np.asarray(record.classes)
        y = np.argmax(given.y[:, None] == labels, axis=1)
        weights = weights * np.asarray(objective.get("class_factors", np.ones(len(labels))), dtype=float)[y]
    constants = int(bool(objective["fit_intercept"]))
    Z = np.column_stack([np.ones((len(given.X), constants)), given.X])
    W = np.atleast_2d(np.asarray(record.coef, dtype=float))
    scores = given.X @ W.T + (np.ravel(record.intercept) if constants else 0.0)
    scores = scores if loss == "softmax" else scores[:, 0]
    sizes = (np.abs(given.X) @ np.abs(W.T) + np.abs(np.ravel(record.intercept))).max(axis=1)
    return Fit(loss, power, Z, y.astype(float), scores, weights, constants, sizes)


def _check_number(out: Claims, statistics: dict[str, Any], name: str, found: float, room: float) -> None:
    if name not in statistics or not (math.isfinite(found) and math.isfinite(room)):
        return  # stated, not checked
    claimed = float(statistics[name])
    out.of_model(f"statistics.{name}", claimed, found, math.isfinite(claimed) and abs(claimed - found) <= room)


def _size(fit: Fit) -> float:
    """The size of the sums that deviances are differences of."""
    if fit.loss in ("logistic", "softmax"):
        return 0.0
    return float(fit.weights @ (np.abs(fit.y) * (1.0 + np.abs(fit.scores)))) if fit.power != 0.0 else 0.0


def _score_rounding(fit: Fit) -> Rows:
    """What float64 may lose of each score, in the solver's coordinates or in the model's own."""
    return np.asarray(8.0 * (fit.Z.shape[1] + 2) * UNIT * fit.sizes)


def _slopes(fit: Fit) -> Rows:
    """At most what the deviance of each row moves by as its score does."""
    if fit.loss in ("logistic", "softmax"):
        return np.full(len(fit.y), 2.0)
    mean = fit.scores if fit.power == 0.0 else np.exp(fit.scores)
    power = 1.0 if fit.power is None else fit.power
    return np.asarray(2.0 * (_times_power(fit.y, mean, 1.0 - power) - mean ** (2.0 - power)))


def _times_power(y: Rows, mean: Rows, power: float) -> Rows:
    """y·mean^power, and 0 where y is: a mean that float64 cannot tell from 0 has no negative power."""
    return np.where(y > 0.0, y * np.where(y > 0.0, mean, 1.0) ** power, 0.0)


def _null_score(fit: Fit) -> float:
    """The score of the best constant, or 0 without an intercept."""
    if not fit.constants or fit.loss == "softmax":
        return 0.0
    if fit.loss == "logistic":
        return _log(float(fit.weights[fit.y > 0.0].sum())) - _log(float(fit.weights[fit.y == 0.0].sum()))
    mean = float(fit.weights @ fit.y / fit.weights.sum())
    return mean if fit.power == 0.0 else _log(mean)


def _log(value: float) -> float:
    """ln, and of 0 that of the least number: rows of one class, or counts of 0 alone, have no best constant."""
    return math.log(max(value, 5e-324))


def deviances(fit: Fit) -> tuple[float, float]:
    """Twice the log-likelihood that the fit, and the best constant (0 without an intercept), lose against a perfect fit."""
    w, y = fit.weights, fit.y
    if fit.loss == "softmax":
        index = y.astype(int)
        shares = np.bincount(index, w, minlength=fit.scores.shape[1]) / w.sum()
        null = (
            -2.0 * float(w @ np.log(shares[index])) if fit.constants else 2.0 * float(w.sum()) * math.log(len(shares))
        )
        top = fit.scores.max(axis=1)
        each = np.log(np.exp(fit.scores - top[:, None]).sum(axis=1)) + top - fit.scores[np.arange(len(y)), index]
        return 2.0 * float(w @ each), null
    pair = [float(w @ _unit_deviance(fit, s)) for s in (fit.scores, np.full(len(y), _null_score(fit)))]
    return pair[0], pair[1]


def _unit_deviance(fit: Fit, s: Rows) -> Rows:
    y, p = fit.y, fit.power
    if fit.loss == "logistic":
        return np.asarray(2.0 * np.logaddexp(0.0, np.where(y > 0.0, -s, s)))
    if p == 0.0:
        return np.asarray((y - s) ** 2)
    mean = np.exp(s)
    if fit.loss == "poisson":
        return np.asarray(2.0 * (np.where(y > 0.0, y * (np.log(np.where(y > 0.0, y, 1.0)) - s), 0.0) - (y - mean)))
    assert p is not None
    if p == 2.0:
        return np.asarray(2.0 * (s - np.log(y) + (y - mean) / mean))
    first = y ** (2.0 - p) / ((1.0 - p) * (2.0 - p))
    return np.asarray(2.0 * (first - _times_power(y, mean, 1.0 - p) / (1.0 - p) + mean ** (2.0 - p) / (2.0 - p)))


def _parameters(record: Any, fit: Fit) -> int:
    """Coefficients that are not 0, and the constants; of several classes all of each class but the first."""
    if fit.loss == "softmax":
        return (fit.scores.shape[1] - 1) * fit.Z.shape[1]
    return int(np.count_nonzero(record.coef)) + fit.constants


def _dispersion(fit: Fit, free: int) -> float:
    """Pearson's; NaN of a loss that has none, or where no row is left to judge it by."""
    if fit.power is None:
        return math.nan
    mean = fit.scores if fit.power == 0.0 else np.exp(fit.scores)
    left = int(np.count_nonzero(fit.weights)) - fit.Z.shape[1]
    pearson = float(fit.weights @ ((fit.y - mean) ** 2 / mean**fit.power))
    return pearson / left if left > 0 else math.nan


def _dispersion_rounding(fit: Fit, moved: Rows) -> float:
    """What scores that are off by ``moved`` change of Pearson's dispersion, as a share of it."""
    if fit.power is None:
        return 0.0
    mean = fit.scores if fit.power == 0.0 else np.exp(fit.scores)
    r = np.abs(fit.y - mean)
    each = 2.0 * r * mean ** (1.0 - fit.power) + fit.power * r * r / mean**fit.power if fit.power else 2.0 * r
    return float(fit.weights @ (each * moved)) / float(fit.weights @ (r * r / mean**fit.power))


def _likelihood_rounding(fit: Fit, dispersion: float, blurred: float, moved: Rows) -> float:
    """What rounding changes of a likelihood that has a dispersion (Gamma's): of its terms, the scores and the dispersion.

    A row of weight w has a shape w/φ, and terms of its size that nearly cancel.
    """
    if fit.power != 2.0 or not 0.0 < dispersion < math.inf:
        return 0.0
    counted = fit.weights > 0.0
    y, s, shape = fit.y[counted], fit.scores[counted], fit.weights[counted] / dispersion
    ratio = y * np.exp(-s)
    terms = shape * (np.abs(np.log(ratio * shape)) + ratio) + np.abs(_log_gamma(shape)) + np.abs(np.log(y))
    lost = (8.0 + len(y)) * UNIT * float(terms.sum())
    lost += 0.5 * float(fit.weights @ (np.abs(_slopes(fit)) * moved)) / dispersion
    near = [log_likelihood(fit, dispersion * (1.0 + sign * blurred)) for sign in (-1.0, 1.0)]
    return lost + abs((near[1] or 0.0) - (near[0] or 0.0))


def log_likelihood(fit: Fit, dispersion: float) -> float | None:
    """With its constants; None where it is not formed here (Tweedie's series)."""
    w, y, s = fit.weights, fit.y, fit.scores
    if fit.loss in ("logistic", "softmax"):
        return -0.5 * deviances(fit)[0]
    if fit.loss == "poisson":
        return float(w @ (y * s - np.exp(s) - _log_gamma(y + 1.0)))
    counted = w > 0.0
    if fit.power == 0.0:
        count = int(counted.sum())
        mean = float(w @ (y - s) ** 2) / count
        logs = 0.5 * float(np.log(w[counted]).sum())
        return -0.5 * count * (math.log(2.0 * math.pi * mean) + 1.0) + logs if mean > 0.0 else None
    if fit.power == 2.0 and 0.0 < dispersion < math.inf:
        y, s, phi = y[counted], s[counted], dispersion / w[counted]
        ratio = y * np.exp(-s)
        return float(np.sum((np.log(ratio / phi) - ratio) / phi - _log_gamma(1.0 / phi) - np.log(y)))
    return None


def information(fit: Fit) -> Rows:
    """H = Σ w·V·z zᵀ; of several classes a block for each pair of classes but the first."""
    if fit.loss == "softmax":
        powers = np.exp(fit.scores - fit.scores.max(axis=1, keepdims=True))
        p = (powers / powers.sum(axis=1, keepdims=True))[:, 1:]
        spread = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
        blocks = np.einsum("iu,iab,iv->aubv", fit.Z, fit.weights[:, None, None] * spread, fit.Z, optimize=True)
        return np.asarray(blocks.reshape(p.shape[1] * fit.Z.shape[1], -1))
    if fit.loss == "logistic":
        curve = np.exp(-np.abs(fit.scores) - 2.0 * np.log1p(np.exp(-np.abs(fit.scores))))
    else:
        curve = np.exp((2.0 - fit.power if fit.power is not None else 1.0) * fit.scores) if fit.power != 0.0 else 1.0
    return np.asarray((fit.Z * (fit.weights * curve)[:, None]).T @ fit.Z)


def _standardised(fit: Fit) -> Rows:
    """The columns centred beside a constant, and of length 1."""
    Z, c = fit.Z.copy(), fit.weights / fit.weights.sum()
    if fit.constants:
        Z[:, 1:] -= c @ Z[:, 1:]
    length = np.sqrt(c @ Z**2)
    return Z / np.where(length > 0.0, length, 1.0)


def _check_covariance(out: Claims, statistics: dict[str, Any], fit: Fit, dispersion: float, moved: float) -> None:
    """H⁻¹, times the dispersion; float64 leaves an inverse as many digits as the condition of H allows.

    Scores that are off by ``moved`` change each row's part of H by a factor e^±2·moved at most.
    """
    H = information(fit)
    claimed = np.asarray(statistics["covariance"], dtype=float)
    size = np.sqrt(np.diag(H))
    if claimed.shape != H.shape:
        out.of_model("statistics.covariance", claimed.shape, H.shape, False, "one row a coefficient, constant first")
        return
    if not np.isfinite(H).all() or not (size > 0.0).all():
        return
    scaled = H / np.outer(size, size)
    values = np.linalg.eigvalsh(scaled)
    inner = np.linalg.eigvalsh(information(fit._replace(Z=_standardised(fit))))  # as solvers work
    worst_condition = max(float(v[-1] / v[0]) if v[0] > 0.0 else math.inf for v in (values, inner))
    if not worst_condition < MOST_CONDITION:
        return  # stated, not checked
    scale = dispersion if fit.power is not None else 1.0
    if math.isnan(scale):  # no row is left to judge the dispersion by
        held = bool(np.isnan(claimed).all())
        out.of_model("statistics.covariance", float(claimed[0, 0]), scale, held, "there is no dispersion")
        return
    V = scale * np.linalg.inv(scaled) / np.outer(size, size)
    errors = np.sqrt(np.diag(V))
    room = (1e-7 + 4.0 * moved + 1e3 * len(H) * UNIT * worst_condition) * np.outer(errors, errors)
    apart = np.abs(claimed - V) - room
    held = bool((apart <= 0.0).all())  # NaN is not held
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(apart), np.inf, apart))), V.shape)
    out.of_model("statistics.covariance", float(claimed[worst]), float(V[worst]), held, "inverse of the information")
