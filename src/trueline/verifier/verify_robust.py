"""Robust lines: Σρ(r/s) at its minimum or at a stationary point, and the scale s that of the residuals.

What is claimed, for residuals r = y − θ·x − b and u = r/s:

    objective       Σ c·ρ(u)
    gap             for Huber's ρ, which is convex: how far the objective is above its least value at this scale
    stationarity    the largest correlation of a column with ψ(u), which is 0 where no small change of θ helps
    scale_error     how far s is from the scale of these residuals (median of |r|, or Huber's proposal 2)

The line among outliers is a mixture of two Gaussians: its objective is a log-likelihood, and its stationarity the
largest derivative of a row's mean log-likelihood.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.certificate import Status
from ..certificates.likelihood import STATIONARY, line_status
from ..certificates.optimality import PROVEN_GAP
from ..errors import ModelError
from .agreement import (
    EPS,
    require_kind,
    require_numbers,
    same_assumptions,
    same_predictions,
    same_status,
    score_room,
    weighted_median,
)
from .stated_claims import Claims, Given, Rows

RANK = 1e-13  # squared singular values of scaled columns below this part of the largest count as none
MEDIAN_OF_NORMAL = 0.6745  # R's rounded constant
PROPOSAL = 1.345
START = 1.548  # Tukey's constant of the S-estimate, with breakdown one half
STEPS = 200  # reweighted steps towards a dual point
EXACT = 1e-13  # a scale of this part of the largest term of a residual is rounding: half of the rows lie on the line

CONVEX = "the objective is convex at the final scale"
SEVERAL = "the best likelihood was reached from more than one start"


def robust_line(out: Claims, given: Given) -> None:
    """Both kinds of robust line; which one, the model's family says."""
    record, proof, X, y, weights = given
    require_kind(proof, "monotone", "a robust line")
    require_numbers(X, y, weights)
    counted = weights > 0.0
    said = record.statistics
    family = str(said.get("family", ""))
    mixture = family == "line among outliers"
    if not mixture and family not in {f"robust ({name})" for name in CONSTANTS}:
        raise ModelError(f"there is no independent check of a line of the family {family!r}", where="model")
    line = Line(X[counted], y[counted].astype(float), weights[counted], record, bool(said["fit_intercept"]))
    _predictions(out, record, X)
    out.absent("interpolation_error")
    out.equals("degrees_of_freedom", *line.rank_and_room(proof.degrees_of_freedom, 4.0 if mixture else 0.0))
    if mixture:
        outlier_mixture(out, line, said, counted)
    else:
        m_estimate(out, line, said, family[8:-1], counted)


class Line:
    """The rows with residuals of the model's line; columns centred where there is a constant.

    The residuals are summed in extended precision: rounding enters as ``room``, what the model's own sums may lose.
    """

    def __init__(self, X: Rows, y: Rows, weights: Rows, record: Any, constant: bool) -> None:
        self.y, self.weights, self.constant = y, weights, constant
        coef, intercept = np.ravel(record.coef).astype(float), float(record.intercept)
        if not constant and intercept != 0.0:
            raise ModelError("the model says that it has no constant, and has one", where="model")
        exact = y - np.asarray(X, dtype=np.longdouble) @ coef - np.longdouble(intercept)
        self.residual = np.asarray(exact, dtype=float)
        self.room = score_room(X, coef, intercept) + 2.0 * EPS * np.abs(y)
        middle = weights @ X / weights.sum() if constant else np.zeros(X.shape[1])
        self.columns = np.column_stack([np.ones((len(X), int(constant))), X - middle])
        self.middle = middle
        widest = np.abs(X).max(axis=0, initial=0.0)
        self.rounding = EXACT * max(float(np.abs(y).max()), float((np.abs(coef) * widest).max(initial=0.0)))
        # Subtracting the mean leaves the rounding of the mean in the columns, and of a constant column nothing else.
        self.column_room = np.r_[np.zeros(int(constant)), 4.0 * EPS * widest * bool(constant)]
        self.columns[:, np.abs(self.columns).max(axis=0) <= self.column_room] = 0.0
        length = np.sqrt(weights @ self.columns**2)
        self.length = np.where(length > 0.0, length, np.inf)  # a column of zeros counts for nothing

    def squared_singular_values(self) -> Rows:
        return np.linalg.svd(self.columns * np.sqrt(self.weights)[:, None] / self.length, compute_uv=False) ** 2

    def rank(self) -> int:
        values = self.squared_singular_values()
        return int((values > RANK * values.max(initial=0.0)).sum())

    def rank_and_room(self, claimed: Any, more: float) -> tuple[float, float]:
        """The rank plus ``more`` parameters; a column that is one only by rounding may count or not."""
        values = self.squared_singular_values()
        slack = 64.0 * EPS * len(values) + 2.0 * float((self.column_room / self.length).max() * math.sqrt(len(self.y)))
        low, high = (int((values > (RANK + sign * slack) * values.max(initial=0.0)).sum()) for sign in (1.0, -1.0))
        found = float(np.clip(claimed, low + more, high + more)) if low != high else float(self.rank() + more)
        return found, 0.0

    def solve(self, right: Rows, weights: Rows) -> Rows:
        """Weighted least squares of ``right`` on the columns, fitted values.

        Every direction counts that is one in these numbers: a dual point must be orthogonal to the weak ones too.
        """
        root = np.sqrt(weights)[:, None]
        scaled = self.columns / self.length
        return np.asarray(scaled @ np.linalg.lstsq(scaled * root, right * root[:, 0], rcond=max(scaled.shape) * EPS)[0])

    def orthogonal(self, values: Rows) -> Rows:
        """``values`` less their projection on the columns, twice, so that rounding does not stay."""
        for _ in range(2):
            values = values - self.solve(values, self.weights)
        return values


def _predictions(out: Claims, record: Any, X: Rows) -> None:
    coef, constant = np.ravel(record.coef).astype(float), float(record.intercept)
    out.recomputed |= {"coef", "intercept", "link"}
    same_predictions(out, record.predict(X), X @ coef + constant, score_room(X, coef, constant))


# ρ, ψ and ψ' of each name. Constants: one, or three of Hampel's.

CONSTANTS = {"huber": 1, "bisquare": 1, "hampel": 3, "andrews": 1, "cauchy": 1}


def rho(name: str, constants: tuple[float, ...], u: Rows) -> Rows:
    """What is minimised, of a residual of u scales."""
    size, c = np.abs(u), constants[-1]
    if name == "huber":
        return np.where(size <= c, 0.5 * u * u, c * (size - 0.5 * c))
    if name == "bisquare":
        t = np.minimum((u / c) ** 2, 1.0)
        return c * c / 6.0 * t * (3.0 - 3.0 * t + t * t)  # 1 − (1 − t)³, whose difference would lose small t
    if name == "andrews":
        return 2.0 * c * c * np.sin(0.5 * np.minimum(size / c, math.pi)) ** 2
    if name == "cauchy":
        return 0.5 * c * c * np.log1p((u / c) ** 2)
    a, b = constants[:2]
    falling = 0.5 * a * (c - b) * (1.0 - (np.maximum(c - np.maximum(size, b), 0.0) / (c - b)) ** 2)
    return np.where(size <= a, 0.5 * u * u, a * (np.clip(size, a, b) - 0.5 * a) + falling)


def psi(name: str, constants: tuple[float, ...], u: Rows) -> Rows:
    """The derivative of ρ."""
    size, c = np.abs(u), constants[-1]
    if name == "huber":
        return np.clip(u, -c, c)
    if name == "bisquare":
        return u * np.maximum(1.0 - (u / c) ** 2, 0.0) ** 2
    if name == "andrews":
        return np.sign(u) * c * np.sin(np.minimum(size / c, math.pi))
    if name == "cauchy":
        return u / (1.0 + (u / c) ** 2)
    a, b = constants[:2]
    return np.sign(u) * np.where(size <= a, size, np.where(size <= b, a, a * np.maximum(c - size, 0.0) / (c - b)))


def psi_slope(name: str, constants: tuple[float, ...], u: Rows) -> Rows:
    """The derivative of ψ."""
    size, c = np.abs(u), constants[-1]
    if name == "huber":
        return 1.0 * (size <= c)
    if name == "bisquare":
        t = np.minimum((u / c) ** 2, 1.0)
        return (1.0 - t) * (1.0 - 5.0 * t)
    if name == "andrews":
        return np.where(size <= math.pi * c, np.cos(size / c), 0.0)
    if name == "cauchy":
        t = (u / c) ** 2
        return (1.0 - t) / (1.0 + t) ** 2
    a, b = constants[:2]
    return np.where(size <= a, 1.0, np.where((size > b) & (size < c), -a / (c - b), 0.0))


def m_estimate(out: Claims, line: Line, said: Any, name: str, counted: Rows) -> None:
    """Objective, gap, stationarity and scale of an M-estimate; its rows' weights and standard errors."""
    constants, scale = tuple(float(v) for v in said["tuning"]), float(said["scale"])
    rising = all(low < high for low, high in zip((0.0, *constants[:-1]), constants, strict=True))
    if len(constants) != CONSTANTS[name] or not rising or not math.isfinite(constants[-1]):
        raise ModelError(f"the constants {constants} are none of ψ {name}", where="tuning")
    kept, convex = said.get("start") == "high-breakdown", name == "huber"
    same_assumptions(out, {CONVEX: convex})
    if not scale > line.rounding:
        exact_line(out, line, scale)
        return
    u, u_room = line.residual / scale, line.room / scale
    c, slope = line.weights, psi(name, constants, u)
    out.holds("scale", scale, math.isfinite(scale) and scale > 0.0 and said.get("dispersion") == scale, "used for u")
    objective = float(c @ rho(name, constants, u))
    # |ψ| ≤ |u| and ψ' ≤ 1, so that u's rounding moves ρ by |ψ| times it, and ψ by no more than it.
    objective_room = float(c @ (np.abs(slope) * u_room + u_room**2)) + len(u) * EPS * objective
    out.equals("objective", objective, objective_room)
    pull = np.sqrt(max(float(c @ slope**2), 1e-300))
    steep = np.abs(line.columns.T @ (c * slope)) / line.length / pull
    moved = (np.abs(line.columns).T @ (c * (u_room + len(u) * EPS * np.abs(slope)))) / line.length / pull
    moved += line.column_room * float(c @ np.abs(slope)) / line.length / pull
    out.equals("stationarity", float(steep.max()), 2.0 * float(moved.max()))
    scale_error = _scale(out, line, said, name, constants, scale, objective, kept)
    gap = math.nan
    if convex:
        gap = least_gap(line, constants[0], scale) + 4.0 * len(u) * EPS * objective
        out.holds("gap", gap, gap_claim_holds(out.proof, gap, objective, objective_room), "by a dual point found here")
    else:
        out.absent("gap")
    same_status(out, line_status(convex, objective, gap, float(steep.max()), scale_error))
    _row_weights(out, said, name, constants, u, u_room, counted)
    _standard_errors(out, line, said, name, constants, u, scale)


def gap_claim_holds(proof: Any, found: float, objective: float, room: float) -> bool:
    """A gap is a number from 0 to what is called a proof, and not below the one found; unknown where nothing is proven.

    Both are upper bounds of one distance. A smaller claim is right as well where the one found is within what is called
    a proof, or differs by the rounding of the objective.
    """
    claimed = proof.gap
    if not isinstance(claimed, (int, float)) or math.isnan(claimed):
        return not proof.proven
    proof_of = PROVEN_GAP * objective
    return 0.0 <= claimed <= proof_of + room and (found <= claimed + room or found <= proof_of)


def least_gap(line: Line, k: float, scale: float) -> float:
    """How far Huber's Σρ(r/s) is above its least value, at most.

    Fenchel: for v in [−k, k], orthogonal to the columns in the weights, Σ c(ρ(u) + ½v² − uv) ≥ 0 bounds the distance.
    The best v is ψ of the residuals at the minimum, which reweighted steps from the model's own residuals approach.
    """
    u, c, residual, best = line.residual / scale, line.weights, line.residual, math.inf
    here = rho("huber", (k,), u)
    enough = 0.01 * PROVEN_GAP * float(c @ here)
    for _ in range(STEPS):
        v = line.orthogonal(np.clip(residual / scale, -k, k))
        v = v * min(1.0, k / max(float(np.abs(v).max()), 1e-300))
        best = min(best, float(c @ (here + 0.5 * v * v - u * v)))
        if best <= enough:
            break
        residual = residual - line.solve(residual, c * k / np.maximum(np.abs(residual / scale), k))
    return max(best, 0.0)


def _scale(
    out: Claims, line: Line, said: Any, name: str, constants: tuple[float, ...], scale: float, objective: float,
    kept: bool,
) -> float:  # fmt: skip
    """The part by which the scale differs from that of the residuals; of a kept S-scale only its limits are known."""
    if kept:
        out.equals("scale_error", 0.0, 0.0, "the start's scale is kept")
        _kept_scale(out, line, name, constants, scale, objective)
        return 0.0
    c, left = line.weights, float(line.weights.sum()) - line.rank()
    median = weighted_median(np.abs(line.residual), c) / MEDIAN_OF_NORMAL
    inside, density = math.erf(PROPOSAL / math.sqrt(2.0)), math.exp(-0.5 * PROPOSAL**2) / math.sqrt(2.0 * math.pi)
    expected = inside + PROPOSAL**2 * (1.0 - inside) - 2.0 * PROPOSAL * density
    clipped = np.minimum(line.residual**2, (PROPOSAL * scale) ** 2)
    proposal = math.sqrt(float(c @ clipped) / (max(left, 1e-300) * expected))
    by_rule = {"mad": [median], "huber": [proposal]}
    errors = [abs(found - scale) / scale for found in by_rule.get(said.get("scale_rule"), [median, proposal])]
    claimed = out.proof.scale_error if isinstance(out.proof.scale_error, float) else math.inf
    error = min(errors, key=lambda one: abs(one - claimed))  # files of before the rule was kept do not tell it
    room = 2.0 * (float(line.room.max()) / MEDIAN_OF_NORMAL / scale + len(c) * EPS)
    out.equals("scale_error", error, room, "against the scale of the residuals")
    return error


def _kept_scale(
    out: Claims, line: Line, name: str, constants: tuple[float, ...], scale: float, objective: float
) -> None:
    """Limits of an S-estimate's scale, which resampling found and nothing here repeats.

    Σρ_S(r/s) = ½ρ_S(∞)(n − p) held at the start. From there Σρ(r/s) only fell, and ρ/ρ_S ≤ ρ(∞)/ρ_S(∞) (Yohai 1987),
    so Σρ(r/s) ≤ ½ρ(∞)(n − p) now: a scale that is too small breaks this, where ρ is bounded. The S-estimate has the least scale of all
    lines as far as resampling finds it, so that one of twice the scale of the model's own residuals is none.
    """
    c, total = line.weights, float(line.weights.sum())
    left = max(total - line.columns.shape[1], 0.5 * total)
    ceiling = float(rho(name, constants, np.array([10.0 * constants[-1]]))[0])
    not_small = name in ("huber", "cauchy") or objective <= 0.5 * ceiling * left * (1.0 + 1e-6)
    own = float(c @ rho("bisquare", (START,), line.residual / (0.5 * scale)))
    not_large = own >= 0.5 * START**2 / 6.0 * left * (1.0 - 1e-6)
    within = (not_small and not_large) or out.proof.status is Status.NOT_PROVEN
    out.holds("scale", scale, within, "within the limits of an S-estimate")


def exact_line(out: Claims, line: Line, scale: float) -> None:
    """At least half of the rows lie on the line but for rounding: the scale is 0, and no row off the line counts."""
    on = float(line.weights[np.abs(line.residual) <= 1e3 * line.rounding + line.room].sum())
    half = 2.0 * on >= float(line.weights.sum()) * (1.0 - 1e-12)
    out.holds("scale", scale, half and scale >= 0.0, "at least half of the rows lie on the line")
    out.equals("objective", 0.0, 0.0)
    out.equals("stationarity", 0.0, 0.0)
    out.equals("scale_error", 0.0, 0.0)
    out.absent("gap")
    same_status(out, Status.STATIONARY if half else Status.NOT_PROVEN)


def _on_edge(line: Line) -> bool:
    """Whether rounding decides the rank."""
    values = line.squared_singular_values()
    limit = RANK * values.max(initial=0.0)
    return bool(((values > 1e-3 * limit) & (values < 1e3 * limit)).any())


def _row_weights(
    out: Claims, said: Any, name: str, constants: tuple[float, ...], u: Rows, room: Rows, counted: Rows
) -> None:
    """Each row's weight ψ(u)/u."""
    told = np.asarray(said.get("weights", ()), dtype=float)
    if told.shape != counted.shape:
        return out.holds("weights of the rows", len(u), False, "one a row")
    safe = np.where(np.abs(u) > 1e-8, u, 1.0)
    found = np.where(np.abs(u) > 1e-8, psi(name, constants, safe) / safe, 1.0)
    apart = np.abs(told[counted] - found)
    # |d(ψ/u)/du| ≤ 2/|u|, and of every ψ here at most 2.
    allowed = 4.0 * room * np.minimum(1.0, 1.0 / np.maximum(np.abs(u), 1e-300)) + 64.0 * EPS
    held = bool((apart <= allowed).all()) and bool(np.isnan(told[~counted]).all())
    return out.holds("weights of the rows", float(apart.max()), held, "largest difference from ψ(u)/u")


def _standard_errors(
    out: Claims, line: Line, said: Any, name: str, constants: tuple[float, ...], u: Rows, scale: float
) -> None:
    """Huber's asymptotic covariance as in R's rlm: Var θ = Σψ²s²/(n − p)·(κ/mean ψ')²·(AᵀA)⁻¹."""
    told = np.asarray(said["covariance"], dtype=float)
    c, p = line.weights, line.columns.shape[1]
    total, slope = float(c.sum()), psi_slope(name, constants, u)
    mean = float(c @ slope) / total
    if not mean > 0.0:
        return out.holds("standard errors", None, bool(np.isnan(told).all()), "ψ' is not positive on average")
    variance = float(c @ (slope - mean) ** 2) / max(total - 1.0, 1.0)
    kappa = 1.0 + p * variance / (total * mean * mean)
    spread = float(c @ (scale * psi(name, constants, u)) ** 2) / max(total - line.rank(), 1e-300)
    root = line.columns * np.sqrt(c)[:, None] / line.length
    values, vectors = np.linalg.eigh(root.T @ root)
    on = values > RANK * values.max(initial=0.0)
    inverse = (vectors[:, on] / values[on]) @ vectors[:, on].T / line.length / line.length[:, None]
    if line.constant:  # back from centred columns
        change = np.eye(p)
        change[0, 1:] = -line.middle
        inverse = change @ inverse @ change.T
    found = np.sqrt(np.maximum(np.diagonal(spread * (kappa / mean) ** 2 * inverse), 0.0))
    own = np.sqrt(np.maximum(np.diagonal(told), 0.0)) if told.shape == (p, p) else np.full(p, np.nan)
    # The inverse loses the condition number's digits; a row on a corner of ψ has either slope.
    lost = 64.0 * EPS * len(u) * float(values.max() / values[on].min()) if on.any() else 1.0
    lost += 8.0 * float((line.room / scale).max()) / mean  # ψ and ψ' at residuals that are rounded
    rounded = math.sqrt(float(c @ line.room**2) / max(total - line.rank(), 1e-300)) * kappa / mean
    absolute = rounded * np.sqrt(np.maximum(np.diagonal(inverse), 0.0)) + 1e-300
    corner = _corner_share(name, constants, u, line, scale) / max(mean, 1e-300)
    held = bool((np.abs(own - found) <= (lost + 4.0 * corner) * found + absolute).all()) or _on_edge(line) or lost > 1.0
    return out.holds("standard errors", tuple(found.tolist()), held)


def _corner_share(name: str, constants: tuple[float, ...], u: Rows, line: Line, scale: float) -> float:
    """The share of the weight of rows within rounding of a corner of ψ."""
    if name not in ("huber", "hampel"):
        return 0.0
    near = np.zeros(len(u), dtype=bool)
    for corner in constants:
        near |= np.abs(np.abs(u) - corner) <= 2.0 * line.room / scale
    return float(line.weights[near].sum() / line.weights.sum())


def outlier_mixture(out: Claims, line: Line, said: Any, counted: Rows) -> None:
    """With probability p a row is N(line, σ²), otherwise N(μ, σ_huge²): log-likelihood and its slopes, row by row."""
    p, sigma, mu, huge = (float(said[name]) for name in ("probability", "sigma", "mu", "sigma_huge"))
    if not (0.0 <= p <= 1.0 and 0.0 < sigma <= huge < math.inf and math.isfinite(mu)):
        raise ModelError(f"p = {p}, σ = {sigma}, μ = {mu}, σ_huge = {huge} are no mixture", where="model")
    same_assumptions(out, {SEVERAL: None})
    c, total = line.weights, float(line.weights.sum())
    u, v = line.residual / sigma, (line.y - mu) / huge
    with np.errstate(divide="ignore"):
        on_line, off_line = np.log(p) - np.log(sigma) - 0.5 * u * u, np.log1p(-p) - np.log(huge) - 0.5 * v * v
    each = np.logaddexp(on_line, off_line) - 0.5 * math.log(2.0 * math.pi)
    outlier = np.exp(off_line - np.logaddexp(on_line, off_line))
    inlier, u_room = 1.0 - outlier, line.room / sigma
    room = float(c @ (inlier * np.abs(u) * u_room + u_room**2 + len(u) * EPS * (1.0 + np.abs(each))))
    out.equals("objective", float(c @ each), room)
    out.holds(
        "log_likelihood", float(c @ each), abs(said["log_likelihood"] - float(c @ each)) <= room, field="objective"
    )
    slopes, slope_room = _mixture_slopes(line, u, v, outlier, p, sigma, huge, u_room)
    out.equals("stationarity", float(np.abs(slopes).max()), slope_room)
    out.absent("gap", "scale_error")
    few = float(c @ inlier) < 2.0 * line.rank() * total / max(len(c), 1)
    # A σ that would fall further rests on a floor, which keeps the likelihood from growing without end.
    falls = float(slopes[line.columns.shape[1] + 1]) < -STATIONARY
    degenerate = few or (falls and out.proof.status is Status.DEGENERATE)
    steepest = float(np.abs(slopes).max())
    same_status(out, Status.DEGENERATE if degenerate else line_status(False, 0.0, math.nan, steepest, 0.0))
    told = np.asarray(said["outlier_probability"], dtype=float)
    same = told.shape == counted.shape and bool(np.isnan(told[~counted]).all())
    apart = np.abs(told[counted] - outlier) if same else np.full(1, np.inf)
    allowed = 8.0 * (np.abs(u) * u_room + u_room**2 + EPS * (1.0 + np.abs(on_line) + np.abs(off_line))) if same else 0.0
    out.holds("outlier_probability", float(apart.max()), bool((apart <= allowed).all()), "largest difference")


def _mixture_slopes(
    line: Line, u: Rows, v: Rows, outlier: Rows, p: float, sigma: float, huge: float, u_room: Rows
) -> tuple[Rows, float]:
    """Derivatives of the mean log-likelihood of a row, each parameter in units of its own, and their rounding."""
    total = float(line.weights.sum())
    on, off = line.weights * (1.0 - outlier) / total, line.weights * outlier / total
    length = line.length / math.sqrt(total)
    spreads = [float(on @ (u * u - 1.0)), float(off @ (v * v - 1.0))]
    spreads = spreads if huge > sigma else [sum(spreads)]  # where they are equal, only a common change is free
    slopes = [*((on * u) @ line.columns / length).tolist(), float(off @ v), *spreads, float(on.sum()) - p]
    size = float((line.weights / total) @ ((1.0 + np.abs(u) + u * u + np.abs(v)) * (u_room + len(u) * EPS)))
    largest = float((np.abs(line.columns) / length).max(initial=1.0))
    steep = float((line.weights / total) @ ((1.0 + np.abs(u)) ** 3 * u_room))  # a moved u changes the probability too
    return np.array(slopes), 8.0 * largest * (size + steep) + 8.0 * float((line.column_room / length).max(initial=0.0))
