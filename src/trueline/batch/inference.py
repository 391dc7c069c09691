"""What a fitted likelihood says beside its coefficients: deviance, information criteria, covariance.

The covariance of unpenalised maximum likelihood is the inverse of the total information S·X̃ᵀWX̃ (S the sum of the
weights, W the curvatures in mean form), carried back to the user's coordinates. A penalised estimate is biased on
purpose and has no such covariance, so none is given.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from .coordinate import profile_intercept
from .risk import Point, Risk


def covariance(risk: Risk, point: Point, total_weight: float) -> np.ndarray:
    """The covariance of (coefficients…, intercept) in the user's units; NaN where the information is singular."""
    design = risk.design
    information = risk.loss_hessian(point) * total_weight
    try:
        if dense.cond(information) > 1e13:
            return np.full((design.size, design.size), np.nan)
        inverse = dense.inv(information)
    except np.linalg.LinAlgError:
        return np.full((design.size, design.size), np.nan)
    back = np.zeros((design.size, design.size))
    back[np.arange(design.d), np.arange(design.d)] = 1.0 / design.scale
    if design.intercept:
        back[design.d, : design.d] = -design.shift / design.scale
        back[design.d, design.d] = 1.0
    return back @ inverse @ back.T


def null_scores(risk: Risk) -> np.ndarray:
    """The scores of the model that has only an intercept (or nothing), beside the offset."""
    start = np.zeros(risk.design.n) if risk.offset is None else risk.offset.copy()
    return profile_intercept(risk, risk.point(np.zeros(risk.size), start)).scores


def unit_deviance(loss: Any, y: np.ndarray, score: np.ndarray) -> np.ndarray | None:
    """Twice the log-likelihood that each row loses against a perfect fit; None if the loss has no likelihood here."""
    name = getattr(loss, "name", "")
    if name == "squared":
        return (y - score) ** 2
    if name == "logistic":
        return 2.0 * np.logaddexp(0.0, -y * score)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = np.exp(score)
        if name == "poisson":
            return 2.0 * (np.where(y > 0.0, y * (np.log(y) - score), 0.0) - (y - mean))
        if name == "gamma":
            return 2.0 * (score - np.log(y) + (y - mean) / mean)
        if name == "tweedie":
            p = loss.p
            return 2.0 * (
                y ** (2 - p) / ((1 - p) * (2 - p)) - y * mean ** (1 - p) / (1 - p) + mean ** (2 - p) / (2 - p)
            )
    return None


def log_likelihood(loss: Any, y: np.ndarray, score: np.ndarray, weights: np.ndarray) -> float:
    """The log-likelihood with its constants, for the losses that are one exactly (logistic, Poisson)."""
    name = getattr(loss, "name", "")
    if name == "logistic":
        return -float(weights @ np.logaddexp(0.0, -y * score))
    if name == "poisson":
        from scipy.special import gammaln

        return float(weights @ (y * score - np.exp(score) - gammaln(y + 1.0)))
    return math.nan


def figures(risk: Risk, point: Point, weights: np.ndarray, *, errors: bool) -> dict[str, Any]:
    """The statistics that a summary prints."""
    found: dict[str, Any] = {"n": len(risk.y), "sum_of_weights": float(weights.sum())}
    if getattr(risk.loss, "name", "") == "logistic" and risk.offset is None:
        # Its loss is its log-likelihood, and the empty model's is that of a coin.
        total, heads = float(weights.sum()), float(np.sum(risk.c, where=risk.y > 0.0))
        found["deviance"] = 2.0 * total * point.loss
        found["null_deviance"] = -2.0 * total * _coin(heads, heads if risk.design.intercept else 0.5)
        return found | _criteria(risk, point, weights, -total * point.loss, errors)
    deviance = unit_deviance(risk.loss, risk.y, point.scores)
    if deviance is not None:
        found["deviance"] = float(weights @ deviance)
        empty = unit_deviance(risk.loss, risk.y, null_scores(risk))
        assert empty is not None
        found["null_deviance"] = float(weights @ empty)
    likelihood = log_likelihood(risk.loss, risk.y, point.scores, weights)
    return found | _criteria(risk, point, weights, likelihood, errors)


def _coin(heads: float, share: float) -> float:
    """The mean log-likelihood of a coin that shows heads with probability ``share``."""
    return sum(part * math.log(p) for part, p in ((heads, share), (1.0 - heads, 1.0 - share)) if part > 0.0)


def _criteria(risk: Risk, point: Point, weights: np.ndarray, likelihood: float, errors: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if math.isfinite(likelihood):
        found["log_likelihood"] = likelihood
        free = int(np.count_nonzero(point.theta[: risk.design.d])) + int(risk.design.intercept)
        found["parameters"] = free
        found["aic"] = 2.0 * free - 2.0 * likelihood
        found["bic"] = math.log(max(weights.sum(), 1e-300)) * free - 2.0 * likelihood
        if errors:
            # Summaries have the intercept first; the design has it last.
            order = np.roll(np.arange(risk.design.size), int(risk.design.intercept))
            found["covariance"] = covariance(risk, point, float(weights.sum()))[np.ix_(order, order)]
    return found
