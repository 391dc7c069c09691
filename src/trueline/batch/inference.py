"""What a fit of many passes says beside its coefficients: deviance, information criteria, covariance.

Likelihoods (logistic, multinomial, Poisson): the covariance is the inverse of the information X̃ᵀWX̃. With a dispersion φ
(squared, Gamma, Tweedie) it is φ times that, W being the expected curvature μ²/V(μ) and φ Pearson's Σw(y − μ)²/V(μ) over
n − p. Losses that are no likelihood have the covariance of an M-estimate, A⁻¹BA⁻¹ with A = X̃ᵀ diag(V″) X̃ and
B = X̃ᵀ diag(V′²) X̃ (Huber 1967); quantiles have no V″, and A is X̃ᵀX̃ times the density of the residuals at 0, by
Epanechnikov's kernel with the bandwidth of Hall and Sheather (1988). A penalised estimate is biased on purpose and has
no such covariance, so none is given.

Robust and clustered errors are A⁻¹BA⁻¹ with the observed curvature and with B summed over rows or groups, as in
statsmodels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from ..errors import DataError
from ..onepass.solve import eliminate
from .gradient import profile_intercept
from .risk import Point, Risk

# V(μ) = μ^power of the losses with a dispersion; the squared loss has mean = score.
VARIANCE_POWER = {"squared": 0.0, "gamma": 2.0}
LIKELIHOODS = ("logistic", "poisson")
MOST_PARAMETERS = 2000
FAR_SPREAD = 1e-6  # of a column's size: squares of what varies less are lost in those of its mean
_NOISE = 4e-15  # of a column's squares: what rounding may leave of a column that others make up


def covariance(risk: Risk, point: Point, total_weight: float) -> np.ndarray:
    """The covariance of (coefficients…, intercept) in the user's units; 0 for columns that others make up."""
    return _in_user_units(risk, _inverse(risk, risk.loss_hessian(point) * total_weight))


def _inverse(risk: Any, information: np.ndarray) -> np.ndarray:
    """The inverse over the estimable columns, 0 elsewhere; NaN where it has no digits."""
    size = risk.design.size
    estimable, _ = _aliases(risk, information[:size, :size])
    inner = np.ix_(*[np.tile(estimable, len(information) // size)] * 2)
    result = np.zeros_like(information)
    try:
        if dense.cond(information[inner]) <= 1e13:
            result[inner] = dense.inv(information[inner])
            return result
    except np.linalg.LinAlgError:
        pass
    return np.full(information.shape, np.nan)


def _aliases(risk: Any, gram: np.ndarray) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """(which columns are estimable, what each of the others is in them), the intercept before all others.

    ``gram`` is that of the columns of the design, with any weights.
    """
    order = np.roll(np.arange(len(gram)), int(risk.design.intercept))
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    size = np.where(size > 0, size, 1.0)
    scaled = (gram / size / size[:, None])[np.ix_(order, order)]
    estimable = np.ones(len(gram), dtype=bool)
    if not np.isfinite(scaled).all():
        return estimable, {}
    _, kept, combinations = eliminate((scaled, np.zeros_like(scaled)), noise=np.full(len(gram), _NOISE))
    estimable[order] = kept
    if _lost_in_products(risk, np.flatnonzero(~estimable)):
        return np.ones(len(gram), dtype=bool), {}
    found = {}
    for j, gamma in combinations.items():
        found[int(order[j])] = np.zeros(len(gram))
        found[int(order[j])][order] = gamma * size[order[j]]
        found[int(order[j])] /= size
    return estimable, found


def _lost_in_products(risk: Any, columns: np.ndarray) -> bool:
    """Whether one of these varies, but so far from 0 that products of sparse columns, which are not shifted, hide it."""
    if not risk.design.sparse or not columns.size:
        return False
    own = risk.design.dense_columns(columns, risk.c)
    spread = risk.c @ (own * own)
    return bool(((spread > 0.0) & (spread <= FAR_SPREAD**2)).any())


def alias_figures(risk: Any, gram: np.ndarray, theta: np.ndarray) -> dict[str, Any]:
    """What a summary shows instead of the coefficients where columns depend on others: the same fit without those.

    ``theta`` has one row for each class or target, in the units of the design; nothing comes back where none depends.
    """
    estimable, combinations = _aliases(risk, gram)
    if estimable.all():
        return {}
    theta = np.atleast_2d(theta).copy()
    for j, gamma in combinations.items():
        theta += theta[:, j : j + 1] * gamma
        theta[:, j] = 0.0
    theta = theta @ _back(risk).T
    theta[:, ~estimable] = np.nan
    return {"estimates": np.roll(theta, int(risk.design.intercept), axis=1).ravel(), "rank": int(estimable.sum())}


def _back(risk: Any) -> np.ndarray:
    """From the design's coordinates to the user's."""
    design = risk.design
    back = np.zeros((design.size, design.size))
    back[np.arange(design.d), np.arange(design.d)] = 1.0 / design.scale
    if design.intercept:
        back[design.d, : design.d] = -design.shift / design.scale
        back[design.d, design.d] = 1.0
    return back


def _in_user_units(risk: Any, inverse: np.ndarray) -> np.ndarray:
    back, copies = _back(risk), len(inverse) // risk.design.size
    back = back if copies == 1 else np.kron(np.eye(copies), back)
    return back @ inverse @ back.T


def _intercept_first(risk: Risk, matrix: np.ndarray) -> np.ndarray:
    """Summaries have the intercept first; the design has it last."""
    order = np.roll(np.arange(risk.design.size), int(risk.design.intercept))
    copies = len(matrix) // risk.design.size
    order = np.concatenate([order + k * risk.design.size for k in range(copies)])
    return matrix[np.ix_(order, order)]


def null_scores(risk: Risk) -> np.ndarray:
    """The scores of the model that has only an intercept (or nothing), beside the offset."""
    if risk.offset is None and risk.design.intercept:
        return np.full(risk.design.n, risk.reference().theta[-1])
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
            scaled = np.where(y > 0.0, y * mean ** (1 - p), 0.0)  # also where the mean is 0 in float64
            return 2.0 * (y ** (2 - p) / ((1 - p) * (2 - p)) - scaled / (1 - p) + mean ** (2 - p) / (2 - p))
    return None


def log_likelihood(loss: Any, y: np.ndarray, score: np.ndarray, weights: np.ndarray, dispersion: float = 1.0) -> float:
    """The log-likelihood with its constants; NaN where the loss is none. A weight divides the dispersion of its row."""
    from scipy.special import gammaln, log_wright_bessel

    name = getattr(loss, "name", "")
    if name == "logistic":
        return -float(weights @ np.logaddexp(0.0, -y * score))
    if name == "poisson":
        return float(weights @ (y * score - np.exp(score) - gammaln(y + 1.0)))
    if name == "squared":
        w, n = weights[weights > 0.0], np.count_nonzero(weights)
        mean = float(weights @ (y - score) ** 2) / n
        return (
            -0.5 * n * (math.log(2.0 * math.pi * mean) + 1.0) + 0.5 * float(np.log(w).sum()) if mean > 0.0 else math.nan
        )
    if name not in ("gamma", "tweedie") or not 0.0 < dispersion < math.inf:
        return math.nan
    counted = weights > 0.0
    y, score, phi = y[counted], score[counted], dispersion / weights[counted]
    if name == "gamma":
        ratio = y * np.exp(-score)
        return float(np.sum((np.log(ratio / phi) - ratio) / phi - gammaln(1.0 / phi) - np.log(y)))
    # Dunn and Smyth (2005): the density of a compound Poisson sum by Wright's generalised Bessel function.
    p = loss.p
    a = (2.0 - p) / (p - 1.0)
    rows = (y * np.exp((1.0 - p) * score) / (1.0 - p) - np.exp((2.0 - p) * score) / (2.0 - p)) / phi
    some = y > 0.0
    x = (y[some] / ((p - 1.0) * phi[some])) ** a / ((2.0 - p) * phi[some])
    rows[some] += log_wright_bessel(a, 0.0, x) - np.log(y[some])
    return float(rows.sum())


def figures(risk: Risk, point: Point, weights: np.ndarray, *, errors: bool) -> dict[str, Any]:
    """The statistics that a summary prints; ``errors`` says that nothing was penalised."""
    result: dict[str, Any] = {"n": len(risk.y), "sum_of_weights": float(weights.sum())}
    name = getattr(risk.loss, "name", "")
    total = float(weights.sum())
    possible = errors and risk.size <= MOST_PARAMETERS
    aliased = alias_figures(risk, risk.design.hessian(risk.c), point.theta) if possible else {}
    dispersion = _dispersion(risk, point, weights, aliased.get("rank", risk.design.size))
    if dispersion is not None:
        result["dispersion"] = dispersion
    if name == "logistic" and risk.offset is None:
        # Its loss is its log-likelihood, and the empty model's is that of a coin.
        heads = float(np.sum(risk.c, where=risk.y > 0.0))
        result["deviance"] = 2.0 * total * point.loss
        result["null_deviance"] = -2.0 * total * _coin(heads, heads if risk.design.intercept else 0.5)
        likelihood = -total * point.loss
    else:
        deviance = unit_deviance(risk.loss, risk.y, point.scores)
        if deviance is not None:
            result["deviance"] = float(weights @ deviance)
            empty = unit_deviance(risk.loss, risk.y, null_scores(risk))
            assert empty is not None
            result["null_deviance"] = float(weights @ empty)
        likelihood = log_likelihood(risk.loss, risk.y, point.scores, weights, dispersion or math.nan)
    if math.isfinite(likelihood):
        free = int(np.count_nonzero(point.theta[: risk.design.d])) + int(risk.design.intercept)
        result |= criteria(likelihood, aliased.get("rank", free), total)
        if name != "squared":  # the deviance is twice the loss of log-likelihood, in units of the dispersion
            scale = 1.0 if name in LIKELIHOODS else dispersion
            lost = 0.5 * (result["null_deviance"] - result["deviance"]) / scale
            result["null_log_likelihood"] = likelihood - lost
    if possible:
        matrix = _model_covariance(risk, point, weights, dispersion)
        if matrix is not None:
            result |= {"covariance": _intercept_first(risk, matrix), **aliased}
    return result


def criteria(likelihood: float, free: int, total: float) -> dict[str, Any]:
    """The log-likelihood with the criteria of Akaike and Schwarz."""
    return {
        "log_likelihood": likelihood,
        "parameters": free,
        "aic": 2.0 * free - 2.0 * likelihood,
        "bic": math.log(max(total, 1e-300)) * free - 2.0 * likelihood,
    }


def _coin(heads: float, share: float) -> float:
    """The mean log-likelihood of a coin that shows heads with probability ``share``."""
    return sum(part * math.log(p) for part, p in ((heads, share), (1.0 - heads, 1.0 - share)) if part > 0.0)


def _power(loss: Any) -> float | None:
    """p of V(μ) = μ^p, where a loss has a dispersion."""
    name = getattr(loss, "name", "")
    return float(loss.p) if name == "tweedie" else VARIANCE_POWER.get(name)


def _dispersion(risk: Risk, point: Point, weights: np.ndarray, parameters: int) -> float | None:
    """Pearson's, NaN where no row is left to judge it by; None of a loss that has none."""
    power = _power(risk.loss)
    if power is None:
        return None
    left = int(np.count_nonzero(weights)) - parameters
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = np.exp(point.scores) if power else point.scores
        pearson = float(weights @ ((risk.y - mean) ** 2 / mean**power if power else (risk.y - mean) ** 2))
    return pearson / left if left > 0 else math.nan


def _model_covariance(risk: Risk, point: Point, weights: np.ndarray, dispersion: float | None) -> np.ndarray | None:
    """(coefficients…, intercept) in the user's units; None of a loss that has no such theory here."""
    total, name = float(weights.sum()), getattr(risk.loss, "name", "")
    if name in LIKELIHOODS:
        return covariance(risk, point, total)
    if dispersion is not None:
        power = _power(risk.loss)
        expected = risk.c * np.exp((2.0 - power) * point.scores) if power else risk.c
        return _in_user_units(risk, dispersion * _inverse(risk, risk.design.hessian(expected) * total))
    if name in ("quantile", "absolute"):
        return _quantile_covariance(risk, point, weights)
    if getattr(risk.loss, "smooth", True) and risk.has_curvature:
        bread = _inverse(risk, risk.loss_hessian(point) * total)
        meat = risk.design.hessian(point.slope**2) * total**2
        return _in_user_units(risk, bread @ meat @ bread)
    return None


def _quantile_covariance(risk: Risk, point: Point, weights: np.ndarray) -> np.ndarray:
    """The sandwich of Powell with one density for all rows, as statsmodels' QuantReg has it by default."""
    from scipy.stats import norm

    q = float(getattr(risk.loss, "quantile", 0.5))
    counted = weights > 0.0
    y, error = risk.y[counted], (risk.y - point.scores)[counted]
    n = len(y)
    z = norm.ppf(q)
    width = n ** (-1 / 3) * norm.ppf(0.975) ** (2 / 3) * (1.5 * norm.pdf(z) ** 2 / (2.0 * z**2 + 1.0)) ** (1 / 3)
    low, high = np.percentile(error, [25.0, 75.0])
    with np.errstate(invalid="ignore"):
        spread = min(float(np.std(y)), float(high - low) / 1.34) * (norm.ppf(q + width) - norm.ppf(q - width))
    if not 0.0 < spread < math.inf:  # the quantile lies too near an end for so few rows
        return np.full((risk.size, risk.size), np.nan)
    share = error / spread
    density = float(np.sum(0.75 * (1.0 - share**2) * (np.abs(share) <= 1.0))) / (n * spread)
    if not density > 0.0:
        return np.full((risk.size, risk.size), np.nan)
    # A row that the plane passes through has a residual of rounding, on either side.
    above = risk.y - point.scores > 1e-9 * float(np.max(np.abs(y), initial=0.0))
    square = np.where(above, q / density, (1.0 - q) / density) ** 2
    bread = _inverse(risk, risk.design.hessian(np.asarray(weights, dtype=float)))
    return _in_user_units(risk, bread @ risk.design.hessian(weights**2 * square) @ bread)


def multinomial_figures(risk: Any, point: Point, weights: np.ndarray, *, errors: bool) -> dict[str, Any]:
    """Likelihood and covariance of a multinomial logit; the covariance is of the classes but the first, against it."""
    total = float(weights.sum())
    shares = np.bincount(risk.y, risk.c, risk.classes)
    result: dict[str, Any] = {"n": len(risk.y), "sum_of_weights": total, "deviance": 2.0 * total * point.loss}
    free = (risk.classes - 1) * risk.design.size
    empty = float(sum(share * math.log(share) for share in shares if share > 0.0))
    if errors:
        empty = empty if risk.design.intercept else -math.log(risk.classes)
        result |= criteria(-total * point.loss, free, total) | {"null_log_likelihood": total * empty}
        if free <= MOST_PARAMETERS // 4:
            information = risk.loss_hessian(point)[risk.design.size :, risk.design.size :] * total
            result["covariance"] = _intercept_first(risk, _in_user_units(risk, _inverse(risk, information)))
            theta = point.theta.reshape(risk.classes, -1)
            aliased = alias_figures(risk, risk.design.hessian(risk.c), theta[1:] - theta[0])
            if aliased:
                result |= aliased | criteria(-total * point.loss, (risk.classes - 1) * aliased["rank"], total)
    return result


def sandwich(risk: Any, point: Point, total_weight: float, groups: Any = None) -> tuple[np.ndarray, int]:
    """(robust covariance, number of groups or 0), intercept first: observed curvature around the rows' own slopes.

    Without groups there is no correction for few rows; with groups it is G/(G − 1)·(n − 1)/(n − p), as in statsmodels.
    """
    design = risk.design
    rows = design.dense_columns(np.arange(design.size))
    slope = point.slope * total_weight
    several = slope.ndim == 2  # a multinomial logit: the classes but the first
    if several:
        scores = np.hstack([rows * column[:, None] for column in slope.T[1:]])
        hessian = risk.loss_hessian(point)[design.size :, design.size :]
    else:
        scores, hessian = rows * slope[:, None], risk.loss_hessian(point)
    bread = _inverse(risk, hessian * total_weight)
    count = 0
    if groups is None:
        meat = scores.T @ scores
    else:
        labels, index = np.unique(groups, return_inverse=True)
        count = len(labels)
        if count < 2:
            raise DataError("clustered errors need at least two groups", where="groups")
        sums = np.zeros((count, scores.shape[1]))
        np.add.at(sums, index.ravel(), scores)
        n, p = len(scores), int(np.count_nonzero(np.diagonal(bread)))
        if n <= p:
            raise DataError(f"clustered errors need more rows than the {p} parameters, not {n}", where="groups")
        meat = sums.T @ sums * (count / (count - 1.0) * (n - 1.0) / (n - p))
    return _intercept_first(risk, _in_user_units(risk, bread @ meat @ bread)), count
