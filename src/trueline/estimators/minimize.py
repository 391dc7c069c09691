"""``tl.minimize``: every solver by its name, on any loss and penalty for which it makes sense."""

from __future__ import annotations

import dataclasses
import inspect
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..batch.methods import METHODS, STOCHASTIC, refuse_options, solve
from ..batch.problem import as_matrix, as_targets, as_vector, as_weights, build
from ..batch.risk import Outcome, Risk, Step
from ..certificates.certificate import Status
from ..certificates.optimality import GapCertificate
from ..errors import UsageError, unknown_option, warn_caller
from ..model.iterated import objective_of
from ..objective.losses import LOSSES, resolve_loss
from ..objective.penalties import PENALTIES, resolve_penalty
from .proofs import NotProvenWarning


@dataclasses.dataclass
class Solution:
    """A minimiser with its proof: coefficients, certificate and the trace of how it was reached."""

    coef: np.ndarray
    intercept: float
    method: str
    reason: str
    certificate: GapCertificate
    trace: list[Step]
    classes: np.ndarray | None = None
    alpha: float | None = None
    ended: str = ""  # the stop rule that was met, or "iterations", "stalled" or "interrupted"
    objective: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def statistics(self) -> dict[str, Any]:
        """What was minimised, as the verifier reads it."""
        return {"objective": self.objective}

    @property
    def coefficients(self) -> np.ndarray:
        """``coef`` by its full name."""
        return self.coef

    @property
    def status(self) -> Status:
        """How far the result can be trusted; ``str()`` of it advises."""
        return self.certificate.status

    @property
    def proven(self) -> bool:
        return self.certificate.proven

    def scores(self, X: Any) -> np.ndarray:
        """X·coef + intercept."""
        return np.asarray(X @ self.coef + self.intercept)

    def plot(self, path: Any = None) -> Any:
        """The gap against passes and seconds, as a matplotlib figure, saved when a path is given."""
        from ..report.convergence import draw

        return draw({self.method: self}, path)

    def __str__(self) -> str:
        return f"{self.method} ({self.reason}), {len(self.trace) - 1} iterations: {self.certificate}"


def _part(given: Any, known: dict[str, Any], make: Any, options: dict[str, Any]) -> Any:
    """A part by name takes the options that are fields of it."""
    if isinstance(given, str) and given in known:
        fields = {name: options.pop(name) for name in known[given]._fields if name in options}
        return make(given, **fields)
    return make(given)


def _refused(name: str, loss: Any, penalty: Any) -> UsageError:
    """The refusal of an option that neither ``minimize`` nor its loss or penalty has."""
    owners = [repr(part) for parts in (LOSSES, PENALTIES) for part in parts if name in parts[part]._fields]
    if owners:
        return UsageError(
            f"{name} goes with {' or '.join(owners)}, not with this loss and penalty; leave it out", where=name
        )
    own = [p.name for p in inspect.signature(minimize).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return unknown_option("tl.minimize", name, [*own, *loss._fields, *penalty._fields])


def minimize(
    X: Any,
    y: Any,
    loss: Any = "squared",
    penalty: Any = None,
    method: str = "auto",
    *,
    alpha: Any = None,
    l1_ratio: float | None = None,
    penalty_weights: Any = None,
    groups: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    sample_weight: Any = None,
    offset: Any = None,
    start: Any = None,
    stop: str = "gap",
    tol: float = 1e-6,
    max_iter: int | None = None,
    step: str | None = None,
    rate: float | None = None,
    standardise: bool = True,
    callback: Any = None,
    **parameters: float,
) -> Any:
    """Minimise the weighted mean loss plus a penalty, and prove how close the result is.

    Parameters
    ----------
    X : dense, CSR or CSC matrix, float64 or float32
    y : targets; two labels of any kind for losses on signs
    loss : name or part; its fields (``delta``, ``quantile``, …) are given by name
    penalty : None, "l1", "l2", "elastic_net", "group_l1", "nonnegative", "box", or a part of your own
    method : "auto", "gradient", "newton", "irls", "stochastic", "coordinate", "block", "fista", "sparsa", "owlqn",
        "interior", "normal", "qr" or "svd"
    alpha : the penalty's strength (1 for "l1", "l2", "elastic_net" and "group_l1"; "nonnegative" means b ≥ 0 alone unless
        alpha·Σb is asked for); a sequence of them gives a warm-started path, a list of solutions
    l1_ratio : the share of L1 in the elastic net (0.5)
    penalty_weights : a factor of the penalty for each coefficient
    groups : a label a column, for "group_l1"
    lower, upper : bounds on the coefficients, one for all or one each ("box" without them is −1 to 1)
    intercept : whether an unpenalised constant is fitted
    sample_weight, offset : one number a row
    start : a Solution, or (coefficients, intercept), to start from
    stop : "gap" (relative duality gap ≤ tol), "gradient" (norm of the smallest subgradient, in your units and in the
        solver's), "decrease" (relative decrease of the objective) or "decrement" (Newton's, √(gᵀH⁻¹g), of "newton" and
        "irls"). Whatever the rule, only a gap within tol is called proven.
    max_iter : iterations allowed (each method has its own default)
    step, rate : for "gradient", "newton" and "irls": "backtracking" (the default), "exact" or "constant", and the constant
        step in the solver's coordinates: 1/λ_max for "gradient", the full step 1 for the others unless told otherwise.
        For "stochastic": the first rate.
    standardise : work on standardised columns, so that their scale does not decide convergence; the problem is the same.
        ``rate``, ``gradient_norm`` and ``largest_step`` (2/λ_max) are those of the columns worked on
    callback : called with each line of the trace

    Returns
    -------
    Solution, or a list of them when ``alpha`` is a sequence

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> solution = tl.minimize(X, [1.0, 3.0, 5.0, 7.0], penalty="l1", alpha=0.5)
    >>> solution.coef.round(6), round(solution.intercept, 6), solution.proven
    (array([1.6]), 1.6, True)
    """
    options: dict[str, Any] = dict(parameters)
    _refuse(tol, max_iter, alpha, start, callback)
    if rate is not None and step is None and method != STOCHASTIC:
        step = "constant"
    named = {"rate": rate, "step": step, "start": start}
    named = {name: value for name, value in named.items() if value is not None}
    if method == "auto":  # a start is a help to whatever method is taken, not a choice among them
        named.pop("start", None)
    if groups is not None and getattr(penalty, "name", penalty) != "group_l1":
        raise UsageError("groups go with penalty='group_l1'; leave them out", where="groups")
    if penalty_weights is not None and getattr(penalty, "name", penalty) in (None, "none", "box"):
        raise UsageError("penalty_weights go with a penalty that has a strength; name one or leave them out")
    _refuse_unused(penalty, {"alpha": alpha, "l1_ratio": l1_ratio})
    if penalty == "box" and (lower is not None or upper is not None):
        penalty = None  # the bounds are told here, and the part's own would add to them
    matrix = as_matrix(X)
    loss_part = _part(loss, LOSSES, resolve_loss, options)
    targets, classes = as_targets(y, loss_part, matrix.shape[0])
    weights = as_weights(sample_weight, matrix.shape[0])
    shift = None if offset is None else as_vector(offset, "offset", matrix.shape[0])
    alphas = [None] if alpha is None else np.atleast_1d(np.asarray(alpha, dtype=float)).tolist()
    solutions: list[Solution] = []
    standard = bool(standardise) and not (method == STOCHASTIC and penalty is not None)
    for strength in alphas:
        given = options | {name: v for name, v in (("alpha", strength), ("l1_ratio", l1_ratio)) if v is not None}
        penalty_part = _part(penalty, PENALTIES, resolve_penalty, given)
        if given:
            raise _refused(min(given), loss_part, penalty_part)
        risk = build(
            matrix, targets, loss_part, penalty_part, weights=weights, intercept=intercept,
            penalty_weights=penalty_weights, groups=groups, lower=lower, upper=upper, offset=shift,
            standardise=standard,
        )  # fmt: skip
        solutions.append(
            _solved(
                risk, method, _start(solutions[-1] if solutions else start, risk), classes,
                float(getattr(penalty_part, "alpha", 0.0)) if strength is None else strength, named,
                objective=_told(loss_part, penalty_part, penalty_weights, lower, upper, groups,
                                fit_intercept=bool(intercept), tolerance=float(tol), offset=offset is not None, standardise=standard),
                stop=stop, tol=tol, max_iter=max_iter, callback=callback,
            )
        )  # fmt: skip
    return solutions if alpha is not None and np.ndim(alpha) else solutions[0]


def _bounds(objective: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest that a weight may be, as the user gave them."""
    lower, upper = (objective.get(name) for name in ("lower", "upper"))
    low = np.asarray(-np.inf if lower is None else lower, dtype=float)
    return np.maximum(low, 0.0) if objective["positive"] else low, np.asarray(
        np.inf if upper is None else upper, dtype=float
    )


def _refuse(tol: Any, max_iter: Any, alpha: Any, start: Any, callback: Any) -> None:
    """One sentence for what cannot be meant."""
    if not (isinstance(tol, Real) and float(tol) >= 0.0):
        raise UsageError(f"tol is {tol!r}; a number of 0 or more is accepted", where="tol")
    if max_iter is not None and not (isinstance(max_iter, Integral) and int(max_iter) >= 0):
        raise UsageError(f"max_iter is {max_iter!r}; a whole number of 0 or more is accepted", where="max_iter")
    if alpha is not None:
        try:
            sizes = np.asarray(alpha, dtype=float)
        except (TypeError, ValueError):
            sizes = np.full(1, np.nan)
        if sizes.ndim > 1 or not sizes.size or np.isnan(sizes).any():
            raise UsageError(f"alpha is {alpha!r}; numbers of 0 or more are accepted", where="alpha")
    if (
        start is not None
        and not isinstance(start, Solution)
        and not (isinstance(start, (tuple, list)) and len(start) == 2)
    ):
        raise UsageError(f"start is {start!r}; a Solution or (coefficients, intercept) is accepted", where="start")
    if callback is not None and not callable(callback):
        raise UsageError(f"callback is {callback!r}; a function of one step of the trace is accepted", where="callback")


def _refuse_unused(penalty: Any, settings: dict[str, Any]) -> None:
    """Refuse a setting that the penalty has not; a name that is unknown is refused where the penalty is made."""
    named = "none" if penalty is None else penalty
    if isinstance(named, str) and named not in PENALTIES:
        return
    takes = PENALTIES[named]._fields if isinstance(named, str) else ()
    for option, value in settings.items():
        if value is None or option in takes:
            continue
        fit = ", ".join(repr(name) for name, part in PENALTIES.items() if option in part._fields)
        if named == "none":
            raise UsageError(
                f"{option}={value!r} does nothing without a penalty; name one of {fit} as penalty, or leave {option} out",
                where=option,
            )
        if isinstance(named, str):
            raise UsageError(f"penalty={named!r} has no {option}; leave it out, or name one of {fit}", where=option)
        raise UsageError(f"{option} goes with a penalty by name; give it to your own part itself", where=option)


def _solved(
    risk: Risk,
    method: str,
    start: np.ndarray,
    classes: np.ndarray | None,
    alpha: float,
    named: dict[str, Any],
    *,
    objective: dict[str, Any],
    **rules: Any,
) -> Solution:
    outcome: Outcome
    if method == STOCHASTIC:
        from .stochastic import stochastic

        outcome, why = stochastic(risk, start, named, **rules), "asked for"
    else:
        if method in METHODS:
            refuse_options(method, risk, rules["stop"], named)
        searched = {name: value for name, value in named.items() if name != "start"}
        outcome, method, why = solve(risk, method, start=start, **searched, **rules)
    # not proven, or proven though the stop rule was not met; a gap that was asked for is no news
    if outcome.certificate.advice and (outcome.certificate.proven or not outcome.certificate.reached):
        warn_caller(outcome.certificate.advice, NotProvenWarning)
    coef, constant = risk.design.split(outcome.point.theta)
    coef = np.where(outcome.point.theta[: risk.design.d] == 0.0, 0.0, coef)
    # The solver's columns are scaled: a bound that is scaled and back may be a rounding off.
    low, high = _bounds(objective)
    theta, penalty, d = outcome.point.theta, risk.penalty, risk.design.d
    coef = np.where(theta[:d] <= penalty.lower[:d], low, np.where(theta[:d] >= penalty.upper[:d], high, coef))
    coef = np.clip(coef, low, high)
    told = (outcome.certificate, outcome.trace, classes, alpha, outcome.reason, objective)
    return Solution(coef, constant, method, why, *told)


def _told(loss: Any, penalty: Any, weights: Any, lower: Any, upper: Any, groups: Any, **more: Any) -> dict[str, Any]:
    """What is minimised, so that anyone can form it again."""
    told = objective_of(loss, penalty, **more)
    told["weights"] = None if weights is None else np.asarray(weights, dtype=float)
    told["positive"] = told["penalty"] == "nonnegative" or (lower is not None and not np.any(lower) and upper is None)
    if lower is not None or upper is not None:
        told["bounded"] = True
        told["lower"] = None if lower is None else np.asarray(lower, dtype=float)
        told["upper"] = None if upper is None else np.asarray(upper, dtype=float)
    if groups is not None:
        told["groups"] = np.asarray(groups)
    return told


def _start(given: Any, risk: Risk) -> np.ndarray:
    """Parameters to start from, in the solver's coordinates."""
    if given is None:
        return np.zeros(risk.size)
    coef, intercept = (given.coef, given.intercept) if isinstance(given, Solution) else given
    return risk.design.join(as_vector(coef, "start", risk.design.d), float(intercept))
