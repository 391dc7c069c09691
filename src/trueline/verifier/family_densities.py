"""The verifier's own densities: parameters from the rows, log-densities of the rows, and the family's maximum.

Each function takes the model's part (only for its settings: smoothing, levels, the lattice of a histogram), the columns'
values, the rows' weights and groups, and gives a ``Family``. Maxima are those of exponential families: the density with
the moments of the rows (Fisher).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..certificates.likelihood import CORRELATED, FLAT
from ..errors import ModelError
from .agreement import EPS
from .stated_claims import Rows

TINY = 1e-12
LOG_2PI = math.log(2.0 * math.pi)


class Family(NamedTuple):
    """Log-densities, rows × groups, and their rounding; the log-likelihood, its rounding, and the family's maximum.

    ``maximum`` is infinite where the likelihood has none, None where no formula gives it. ``steepest`` is how far a
    further step of EM would go, 0 where there is a formula.
    """

    scores: Rows
    room: Rows
    log_likelihood: float
    likelihood_room: float
    maximum: float | None
    steepest: float = 0.0
    edge: bool = False  # rounding decides whether there is a maximum
    maximum_room: float = 0.0  # the rounding of the maximum, where it is another than that of the likelihood


class Groups(NamedTuple):
    """The weight and the group of every row."""

    weights: Rows
    member: Rows
    number: int

    def totals(self, values: Rows) -> Rows:
        """Σ weight·value of each group."""
        return np.array([(self.weights * (self.member == k)) @ values for k in range(self.number)])

    def own(self, scores: Rows) -> float:
        """Σ weight·score of each row's own group."""
        return float(self.weights @ np.where(self.weights > 0.0, scores[np.arange(len(scores)), self.member], 0.0))


def means_rounding(values: Rows) -> Rows:
    """What a mean of each column may lose: sums by blocks, whose errors grow with the root of their length."""
    return (64.0 + math.sqrt(len(values))) * EPS * np.nanmax(np.abs(values), axis=0, initial=0.0)


def _sum_room(groups: Groups, scores: Rows, room: Rows) -> float:
    each = np.abs(scores) * (64.0 + math.sqrt(len(scores))) * EPS + room
    return groups.own(np.where(np.isfinite(each), each, 0.0))


def gaussian(part: Any, values: Rows, groups: Groups) -> Family:
    """Columns without covariances; a missing entry is left out, which is the maximum of the likelihood."""
    seen, x = ~np.isnan(values), np.nan_to_num(values)
    n = groups.totals(1.0 * seen)
    safe = np.maximum(n, 1e-300)
    mean = groups.totals(x) / safe
    scatter = groups.totals(np.where(seen, (x - mean[groups.member]) ** 2, 0.0))
    total = np.maximum(n.sum(axis=0), 1e-300)
    middle = (n * mean).sum(axis=0) / total
    spread = (scatter + n * (mean - middle) ** 2).sum(axis=0) / total
    floor = _floor(part, spread)
    variance = np.where(n > 0, scatter / np.maximum(n - part.correction, 1e-9), spread) + floor
    mean = np.where(n > 0, mean, middle)
    lost, deviation = means_rounding(values), np.sqrt(variance)
    scores, room = np.zeros((len(x), groups.number)), np.zeros((len(x), groups.number))
    for k in range(groups.number):
        z = np.where(seen, (x - mean[k]) / deviation[k], 0.0)
        shift = np.minimum(lost / deviation[k], 1e300)
        relative = (64.0 + math.sqrt(len(x))) * EPS + shift**2 + _floor_room(part, spread, lost) / variance[k]
        scores[:, k] = (np.where(seen, -0.5 * (z * z + np.log(variance[k]) + LOG_2PI), 0.0)).sum(axis=1)
        each = np.abs(z) * shift + (z * z + 1.0) * relative + 8.0 * EPS * np.abs(np.log(variance[k]))
        room[:, k] = np.where(seen, each, 0.0).sum(axis=1)
    best = scatter / safe
    ratio = np.sqrt(best / np.maximum(mean**2 + best, 1e-300))
    flat = (n > 0) & (ratio <= FLAT)
    edge = bool(((n > 0) & (ratio > 0.1 * FLAT) & (ratio <= 10.0 * FLAT)).any())
    terms = np.where(n > 0, -0.5 * n * (np.log(2.0 * math.pi * np.maximum(best, 1e-300)) + 1.0), 0.0)
    maximum = math.inf if flat.any() else float(terms.sum())
    # A mean that is off by e adds e² to the variance, which is the rows' own at the maximum, without a floor.
    relative = (64.0 + math.sqrt(len(x))) * EPS + lost**2 / np.maximum(best, 1e-300)
    maximum_room = float(np.where((n > 0) & ~flat, n * relative, 0.0).sum())
    likelihood_room = _sum_room(groups, scores, room)
    return Family(scores, room, groups.own(scores), likelihood_room, maximum, 0.0, edge, maximum_room)


def _floor(part: Any, spread: Rows) -> float:
    largest = float(spread.max(initial=0.0))
    return part.smoothing * largest if largest > 0.0 and part.smoothing > 0.0 else (part.smoothing or 1e-300)


def _floor_room(part: Any, spread: Rows, lost: Rows) -> float:
    """The rounding of the floor: a spread is made of squared distances between means, each off by ``lost``."""
    moved = 2.0 * lost * np.sqrt(spread) + lost**2 + 64.0 * EPS * spread
    return float(part.smoothing * moved.max(initial=0.0))


def covariant(part: Any, values: Rows, groups: Groups) -> Family:
    """Columns with covariances, each group's own or one for all; with missing values a stationary point of EM."""
    if np.isnan(values[groups.weights > 0.0]).any():
        return _covariant_with_gaps(part, values, groups)
    d, count = values.shape[1], groups.number
    n = groups.totals(np.ones(len(values)))
    mean = groups.totals(values) / np.maximum(n, 1e-300)[:, None]
    total = max(float(n.sum()), 1e-300)
    middle = n @ mean / total
    apart = values - mean[groups.member]
    scatter = np.array([(apart * (groups.weights * (groups.member == k))[:, None]).T @ apart for k in range(count)])
    wide = (np.einsum("kii->ki", scatter) + n[:, None] * (mean - middle) ** 2).sum(axis=0) / total
    floor = _floor(part, wide)
    used = n > 0
    mean = np.where(used[:, None], mean, middle)
    if part.shared:
        both = scatter.sum(axis=0)
        covariance = [both / max(total - part.correction * int(used.sum()), 1e-9) + floor * np.eye(d)] * count
        best = [both / total] * count
    else:
        covariance = [
            scatter[k] / max(float(n[k]) - part.correction, 1e-9) + floor * np.eye(d)
            if used[k]
            else np.diag(wide + floor)
            for k in range(count)
        ]
        best = [scatter[k] / max(float(n[k]), 1e-300) for k in range(count)]
    lost = means_rounding(values)
    more = _floor_room(part, wide, lost)
    made = [_normal(values, mean[k], covariance[k], lost, more) for k in range(count)]
    scores, room = (np.column_stack(side) for side in zip(*made, strict=True))
    maximum, edge, maximum_room = 0.0, False, 0.0
    for k in np.flatnonzero(used):
        log, near, relative = _log_determinant(best[k], mean[k], lost, len(values))
        maximum -= 0.5 * float(n[k]) * (log + d * LOG_2PI + d)
        maximum_room += float(n[k]) * relative
        edge = edge or near
    likelihood_room = _sum_room(groups, scores, room)
    return Family(scores, room, groups.own(scores), likelihood_room, maximum, 0.0, edge, maximum_room)


def _log_determinant(covariance: Rows, mean: Rows, lost: Rows, rows: int) -> tuple[float, bool, float]:
    """log det, −∞ where it is singular but for rounding; whether that is a near thing; and its rounding.

    Rounding that moves the correlations by E moves log det by tr(R⁻¹E), at most the sum of 1/λ times the size of E.
    """
    spread = np.diagonal(covariance)
    ratio = np.sqrt(spread / np.maximum(mean**2 + spread, 1e-300))
    flat, near = bool((ratio <= FLAT).any()), bool(((ratio > 0.1 * FLAT) & (ratio <= 10.0 * FLAT)).any())
    if flat:
        return -math.inf, near, 0.0
    unit = np.sqrt(spread)
    values = np.linalg.eigvalsh(covariance / unit / unit[:, None])
    near = near or bool(0.01 * CORRELATED < values[0] < 100.0 * CORRELATED)
    if values[0] <= CORRELATED:
        return -math.inf, near, 0.0
    moved = (64.0 + math.sqrt(rows)) * EPS * len(mean) + float((lost / unit) @ (lost / unit))
    return float(np.log(values).sum() + np.log(spread).sum()), near, moved * float((1.0 / values).sum())


def _normal(values: Rows, mean: Rows, covariance: Rows, lost: Rows, floor_room: float = 0.0) -> tuple[Rows, Rows]:
    """(log-density of complete rows, rounding)."""
    unit = np.sqrt(np.diagonal(covariance))
    root = np.linalg.cholesky(covariance / unit / unit[:, None])
    z = np.linalg.solve(root, ((values - mean) / unit).T)
    squares = (z * z).sum(axis=0)
    log = float(np.log(np.diagonal(root)).sum() + np.log(unit).sum())
    shift = float(np.linalg.norm(np.linalg.solve(np.abs(root), lost / unit)))
    condition = float(np.linalg.cond(root)) ** 2
    relative = (64.0 + len(mean) ** 2 + math.sqrt(len(values))) * EPS * condition + shift**2
    relative += floor_room / float(unit.min()) ** 2 * condition
    room = np.sqrt(squares) * shift + (squares + len(mean)) * relative + 8.0 * EPS * abs(log)
    return -0.5 * squares - log - 0.5 * len(mean) * LOG_2PI, room


def _covariant_with_gaps(part: Any, values: Rows, groups: Groups) -> Family:
    """The observed rows' density at the model's means and covariances, and a further step of EM from there."""
    means, covariances = part.fitted
    lost = means_rounding(values)
    scores, room = np.zeros((len(values), groups.number)), np.zeros((len(values), groups.number))
    steepest, completed = 0.0, []
    seen = ~np.isnan(values)
    patterns = np.unique(seen, axis=0)
    for k in range(groups.number):
        mean, covariance = np.asarray(means[k], dtype=float), np.asarray(covariances[k], dtype=float)
        d = len(mean)
        n, first, second = 0.0, np.zeros(d), np.zeros((d, d))
        for o in patterns:
            rows = (seen == o).all(axis=1)
            weights = (groups.weights * (groups.member == k))[rows]
            if not o.any():
                n, second = n + float(weights.sum()), second + float(weights.sum()) * covariance
                continue
            block = values[np.ix_(rows, o)]
            scores[rows, k], room[rows, k] = _normal(block, mean[o], covariance[np.ix_(o, o)], lost[o])
            gain = np.zeros((d, int(o.sum())))
            gain[o] = np.eye(int(o.sum()))
            gain[~o] = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, ~o)]).T
            filled = (block - mean[o]) @ gain.T
            rest = np.zeros((d, d))
            rest[np.ix_(~o, ~o)] = covariance[np.ix_(~o, ~o)] - gain[~o] @ covariance[np.ix_(o, ~o)]
            n, first = n + float(weights.sum()), first + weights @ filled
            second = second + (filled * weights[:, None]).T @ filled + float(weights.sum()) * rest
        completed.append((n, first, second))
        if n > 0.0:
            steepest = max(steepest, float(np.abs(first / n / np.sqrt(np.diagonal(covariance))).max()))
    used = [(k, one) for k, one in enumerate(completed) if one[0] > 0.0]
    targets = {k: (second - np.outer(first, first) / n, n) for k, (n, first, second) in used}
    if part.shared:
        whole = np.sum([s for s, _ in targets.values()], axis=0)
        count = sum(n for _, n in targets.values()) - part.correction * len(used)
        targets = dict.fromkeys(targets, (whole, count + part.correction))
    floor = _floor(part, _pooled_variance(values, groups)) * np.eye(values.shape[1])
    for k, (scatter, n) in targets.items():
        covariance = np.asarray(covariances[k], dtype=float)
        unit = np.sqrt(np.diagonal(covariance))
        step = (scatter / max(n - part.correction, 1e-9) + floor - covariance) / unit / unit[:, None]
        steepest = max(steepest, float(np.abs(step).max()))
    return Family(scores, room, groups.own(scores), _sum_room(groups, scores, room), None, steepest)


def _pooled_variance(values: Rows, groups: Groups) -> Rows:
    """The variance of each column over the rows that have it."""
    weights = np.where(np.isnan(values), 0.0, groups.weights[:, None])
    total = np.maximum(weights.sum(axis=0), 1e-300)
    middle = (weights * np.nan_to_num(values)).sum(axis=0) / total
    return np.asarray((weights * np.nan_to_num(values - middle) ** 2).sum(axis=0) / total)


def bernoulli(part: Any, values: Rows, groups: Groups) -> Family:
    """p = (s + α)/(n + 2α)."""
    seen, x = ~np.isnan(values), np.nan_to_num(values)
    n, s = groups.totals(1.0 * seen), groups.totals(x)
    p = np.where(n + part.alpha > 0, (s + part.alpha) / np.maximum(n + 2.0 * part.alpha, 1e-300), 0.5)
    p = np.clip(p, TINY, 1.0 - TINY)
    scores = np.where(seen[:, None], np.where(x[:, None] == 1.0, np.log(p), np.log1p(-p)), 0.0)
    best = s / np.maximum(n, 1e-300)
    maximum = float((_x_log_y(s, best) + _x_log_y(np.maximum(n - s, 0.0), 1.0 - best)).sum())
    return _counted(scores, groups, maximum)


def poisson(part: Any, values: Rows, groups: Groups) -> Family:
    """rate = (s + α·r)/(n + α), r the rate of all groups together."""
    seen, x = ~np.isnan(values), np.nan_to_num(values)
    n, s = groups.totals(1.0 * seen), groups.totals(x)
    everyone = float(s.sum() / n.sum()) if n.sum() > 0 else 1.0
    rate = (s + part.alpha * everyone) / np.maximum(n + part.alpha, TINY)
    rate = np.maximum(np.where(n + part.alpha > 0, rate, everyone), TINY)
    levels, back = np.unique(x, return_inverse=True)
    factorial = np.array([math.lgamma(v + 1.0) for v in levels])[np.ravel(back)]
    scores = np.where(seen[:, None], x[:, None] * np.log(rate) - rate - factorial[:, None], 0.0)
    best = s / np.maximum(n, 1e-300)
    maximum = float((_x_log_y(s, best) - n * best).sum()) - float(groups.weights @ np.where(seen, factorial, 0.0))
    return _counted(scores, groups, maximum, np.where(seen, x + np.abs(factorial), 0.0))


def categorical(part: Any, values: Rows, groups: Groups) -> Family:
    """p = (n_level + α)/(n + α·levels); the levels are those of the rows."""
    words = values.dtype == object
    seen = np.array([value is not None for value in values]) if words else ~np.isnan(values)
    found = np.unique(values[seen & (groups.weights > 0.0)])
    levels = np.array([v if words else float(v) for v in part.levels], dtype=values.dtype)
    if sorted(levels.tolist()) != found.tolist():
        raise ValueError("the levels of a categorical column are not those of the rows")
    indicator = (values[:, None] == levels) & seen[:, None]
    counts = groups.totals(1.0 * indicator)
    total = (counts + part.alpha).sum(axis=1, keepdims=True)
    p = np.where(total > 0, (counts + part.alpha) / np.maximum(total, 1e-300), 1.0 / max(len(levels), 1))
    scores = np.where(indicator.any(axis=1)[:, None], np.log(indicator @ p.T + (~indicator.any(axis=1))[:, None]), 0.0)
    best = counts / np.maximum(groups.totals(1.0 * seen), TINY)[:, None]
    return _counted(scores, groups, float(_x_log_y(counts, best).sum()))


def histogram(part: Any, values: Rows, groups: Groups) -> Family:
    """Counts in the bins of the model's lattice, which is its choice: (n_b + α)/(n + α(L + 1))/h."""
    lattice = part.fitted[0]
    width, low, length = 2.0 ** (lattice.exponent or 0), int(lattice.low), int(lattice.length)
    seen, x = ~np.isnan(values), np.nan_to_num(values)
    place = np.where(x < 0.0, np.minimum(np.floor(x / width), -1.0), np.floor(x / width)) - low
    counted = seen & (groups.weights > 0.0)
    if ((place < 0) | (place >= length))[counted].any():
        raise ValueError("rows lie outside of the bins of a histogram")
    indicator = (place[:, None] == np.arange(length)) & seen[:, None]
    counts = groups.totals(1.0 * indicator)
    total = counts.sum(axis=1, keepdims=True) + part.alpha * (length + 1)
    mass = (counts + part.alpha) / np.where(total > 0, total, 1.0)
    inside = indicator.any(axis=1)[:, None]
    scores = np.where(inside, np.log(indicator @ mass.T + ~inside) - math.log(width), 0.0)
    best = counts / np.maximum(counts.sum(axis=1, keepdims=True), TINY)
    maximum = float((_x_log_y(counts, best) - counts * math.log(width)).sum())
    return _counted(scores, groups, maximum)


def mixture(part: Any, values: Rows, groups: Groups) -> Family:
    """Gaussians at the model's shares, means and variances; EM over bins bounds the log-likelihood from below."""
    shares, means, variances = (np.asarray(one, dtype=float) for one in part.fitted)
    seen, x = ~np.isnan(values), np.nan_to_num(values)
    z = (x[:, None, None] - means) / np.sqrt(variances)
    each = np.log(shares) - 0.5 * (np.log(variances) + z * z + LOG_2PI)
    top = each.max(axis=2)
    scores = np.where(seen[:, None], top + np.log(np.exp(each - top[:, :, None]).sum(axis=2)), 0.0)
    room = 64.0 * EPS * (1.0 + (z * z).max(axis=2)) + 8.0 * EPS * np.abs(scores)
    width, low = 2.0 ** (part.exponent or 0), int(part.low)
    place = (np.where(x < 0.0, np.minimum(np.floor(x / width), -1.0), np.floor(x / width)) - low).astype(np.int64)
    bound, bound_room, steepest = 0.0, 0.0, 0.0
    for k in range(groups.number):
        own = seen & (groups.member == k) & (groups.weights > 0.0)
        _same_bins(part, k, x[own], groups.weights[own], place[own], width)
        if not own.any():
            continue
        back = np.unique(place[own], return_inverse=True)[1]
        w = groups.weights[own]
        n = np.bincount(np.ravel(back), w)
        centre = np.bincount(np.ravel(back), w * x[own]) / n
        within = np.bincount(np.ravel(back), w * (x[own] - centre[np.ravel(back)]) ** 2) / n
        value, step = _bound_and_step(n, centre, within, shares[k], means[k], variances[k])
        # A bin keeps sums about its left end: the mean of a bin is known to EPS of its distance from zero.
        noise = 64.0 * EPS * (np.abs(centre) + width) / math.sqrt(float(variances[k].min()))
        bound += value
        bound_room += float(
            n @ ((1.0 + (np.abs(centre[:, None] - means[k]) / np.sqrt(variances[k])).max(axis=1)) * noise)
        )
        bound_room += (64.0 + math.sqrt(len(x))) * EPS * abs(value)
        steepest = max(steepest, step - 8.0 * float(noise.max()))
    return Family(scores, room, bound, bound_room, None, steepest)


def _same_bins(part: Any, k: int, x: Rows, w: Rows, place: Rows, width: float) -> None:
    """Refuse bins of a group that are not the rows': their weights, and their sums and squares about the left end."""
    total, own = float(w.sum()), float(np.asarray(part.stats["weight"], dtype=float)[k])
    if not abs(own - total) <= (64.0 + len(x)) * EPS * total:
        raise ModelError("the weight of a mixture's group is not that of its rows", where="model")
    beyond, size = x - (place + int(part.low)) * width, np.abs(x) + width
    for name, power in (("counts", 0), ("sums", 1), ("squares", 2)):
        stated = np.asarray(part.stats[name], dtype=float)[k]
        inside = len(place) == 0 or (place.min() >= 0 and place.max() < len(stated))
        found, sizes = (
            np.bincount(place, w * v, len(stated)) if inside else np.nan for v in (beyond**power, size**power)
        )
        if not (np.abs(stated - found) <= (64.0 + len(x)) * EPS * sizes).all():
            raise ModelError(f"the {name} of a mixture's bins are not those of the rows", where="model")


def _bound_and_step(
    n: Rows, centre: Rows, within: Rows, shares: Rows, means: Rows, variances: Rows
) -> tuple[float, float]:
    """Σ n log Σ_k π_k exp(E log N) over bins, and its largest derivative a row, parameters in units of their own."""
    square = (within[:, None] + (centre[:, None] - means) ** 2) / variances
    log = np.log(shares) - 0.5 * (np.log(variances) + square + LOG_2PI)
    top = log.max(axis=1, keepdims=True)
    size = np.exp(log - top).sum(axis=1, keepdims=True)
    value = float(n @ (top + np.log(size))[:, 0])
    part = np.exp(log - top) / size * n[:, None] / n.sum()
    slopes = [part.sum(axis=0) - shares, (part * (centre[:, None] - means) / np.sqrt(variances)).sum(axis=0)]
    wider = (part * (square - 1.0)).sum(axis=0)
    slopes.append(np.maximum(wider, 0.0))  # a variance may rest on its floor, from where it would fall
    return value, float(np.abs(np.concatenate(slopes)).max())


def _x_log_y(x: Rows, y: Rows) -> Rows:
    return np.where(x > 0.0, x * np.log(np.where(x > 0.0, y, 1.0)), 0.0)


def _counted(scores: Rows, groups: Groups, maximum: float, sizes: Rows | float = 0.0) -> Family:
    """A family of counts: its parameters are quotients of sums, each known to the rounding of a sum over the rows."""
    relative = (64.0 + math.sqrt(len(scores))) * EPS
    room = relative * (1.0 + np.abs(scores) + np.reshape(sizes, (-1, 1)))
    return Family(scores, room, groups.own(scores), _sum_room(groups, scores, room), maximum)


FAMILIES: dict[str, Callable[[Any, Rows, Groups], Family]] = {
    "gaussian": gaussian, "full": covariant, "bernoulli": bernoulli, "poisson": poisson, "categorical": categorical,
    "histogram": histogram, "mixture": mixture,
}  # fmt: skip
