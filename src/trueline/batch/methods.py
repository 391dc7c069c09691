"""The methods by name: what each needs of a loss and a penalty, which one suits, and how a problem is put together.

A method that does not fit says what is missing before anything compiles; ``choose`` says why it picked one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..certificates.certificate import Status
from ..errors import UsageError, nearest
from ..objective.penalties import L1, L2, Box, ElasticNet, GroupL1, NonNegative, Nothing
from ..solvers.coordinate_descent import by_dual, by_gram, lacks_dual
from ..solvers.glm_working_set import by_columns
from . import closed, gradient, interior, newton, orthant, proximal
from .blocks import block
from .design import Design
from .reference import LOG_MEAN
from .risk import Outcome, Point, Risk, check_stop, run
from .scaled import ScaledPenalty
from .separation import separation


@dataclasses.dataclass(frozen=True)
class Method:
    """A generator of points, what it needs, its usual number of iterations and how often a dual point repays itself.

    ``options`` are those that not every method takes, by the names of ``tl.minimize``.
    """

    steps: Callable[..., Iterator[Point]]
    needs: tuple[str, ...]
    iterations: int
    every: int = 1
    options: tuple[str, ...] = ("start",)


def coordinate(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Coordinate descent with the route that suits the shape."""
    gram = type(risk) is not Risk or (risk.size <= GRAM_UP_TO and risk.size <= risk.design.n)
    return by_gram(risk, start) if gram else by_columns(risk, start)


GRAM_UP_TO = 1000  # parameters up to which the model's matrix is formed, when rows outnumber them
SEARCHED = ("start", "step", "rate")
METHODS: dict[str, Method] = {
    "gradient": Method(gradient.gradient, ("differentiable", "smooth penalty"), 5000, 5, SEARCHED),
    "newton": Method(newton.newton, ("curvature", "smooth penalty"), 100, 1, (*SEARCHED, "decrement")),
    "irls": Method(newton.irls, ("curvature", "smooth penalty", "matrix"), 100, 1, (*SEARCHED, "decrement")),
    "coordinate": Method(coordinate, ("coordinates",), 1000),
    "block": Method(block, ("curvature", "known penalty"), 2000),
    "fista": Method(proximal.fista, ("differentiable",), 10_000, 10),
    "sparsa": Method(proximal.sparsa, ("differentiable",), 10_000, 10),
    "owlqn": Method(orthant.owlqn, ("differentiable", "no bounds or groups"), 2000, 5),
    "interior": Method(interior.interior, ("corner", "known penalty", "matrix"), 200),
    "normal": Method(closed.normal, ("squared", "smooth penalty", "matrix"), 3, 1, ()),
    "qr": Method(closed.qr, ("squared", "smooth penalty", "dense"), 3, 1, ()),
    "svd": Method(closed.svd, ("squared", "smooth penalty", "dense"), 3, 1, ()),
}
POLISHED = 2_000_000  # entries up to which Newton's last step is followed by as many as it takes
POLISH, POLISH_LARGE = 8, 2  # such steps at most: a curvature that the last step has changed squares no error
POLISH_QUASI = 10  # of quasi-Newton steps, each of which gains about a digit of the objective
VERTEX = 12  # steps of interior point that may follow, to end on a vertex with true zeros
LARGEST_PROGRAM = 300  # parameters beyond which a dual coordinate epoch is cheaper than an interior-point matrix
FAR = 3.0  # deltas that most targets must be away from their middle for Huber's loss to count as one with corners
STAGE = 6  # points of each widened Huber loss on the way to the one asked for
STOCHASTIC = "stochastic"  # wired where the online engine may be named


def differentiable(loss: Any) -> bool:
    return bool(getattr(loss, "smooth", False)) or (getattr(loss, "name", "") == "power" and loss.p > 1.0)


def _lacks(need: str, risk: Risk) -> str | None:
    """What is missing, in words, or None."""
    loss, penalty = risk.loss, risk.penalty
    name = getattr(loss, "name", type(loss).__name__)
    if need == "differentiable" and not differentiable(loss):
        return f"a differentiable loss, which {name!r} is not; use 'interior', or 'coordinate' with an L2 penalty"
    if need == "curvature" and not (differentiable(loss) and risk.has_curvature):
        return f"a loss with a curvature, which {name!r} has not; use 'gradient' or 'fista', or write `curvature`"
    if need == "smooth penalty" and not penalty.smooth:
        return "a penalty without corners or bounds (none or L2); use 'coordinate', 'fista', 'sparsa' or 'owlqn'"
    if need == "known penalty" and penalty.part is not None:
        return "a built-in penalty; use 'fista' or 'sparsa' with a penalty of your own"
    if need == "no bounds or groups" and (penalty.bounded or not penalty.separable):
        return "L1, L2 or no penalty, without bounds or groups; use 'fista', 'sparsa' or 'coordinate'"
    if need == "corner" and not interior.fits(loss):
        return (
            f"a loss with corners (absolute, quantile, epsilon_insensitive, hinge, perceptron) or Huber's, which {name!r} "
            "is not; use 'newton' or 'coordinate'"
        )
    if need == "squared" and name != "squared":
        return f"squared loss, the only one with a closed form; for {name!r} use 'newton' or 'auto'"
    if need == "dense" and risk.design.sparse:
        return "a dense matrix; use 'normal' or 'newton' on a sparse one"
    if need == "matrix" and risk.size > 4 * newton.LARGEST_MATRIX:
        return f"a matrix of {risk.size}×{risk.size}, which is too large; use 'newton', 'coordinate' or 'fista'"
    if need == "coordinates":
        if not penalty.separable:
            return "a separable penalty; use 'block' with groups, or 'fista'"
        if not (differentiable(loss) and risk.has_curvature):
            return lacks_dual(risk)
    return None


def refuse_unfit(name: str, risk: Risk) -> None:
    """Raise the refusal of a method that does not fit."""
    if name not in METHODS:
        known = [*METHODS, STOCHASTIC, "auto"]
        raise UsageError(f"there is no method named {name!r}{nearest(str(name), known)}", where="method")
    for need in METHODS[name].needs:
        missing = _lacks(need, risk)
        if missing:
            raise UsageError(f"method {name!r} needs {missing}", where="method")


def choose(risk: Risk) -> tuple[str, str]:
    """The method for this problem, and why."""
    loss, penalty, size = risk.loss, risk.penalty, risk.size
    if penalty.part is not None:
        return "fista", "a penalty of your own is used through its prox"
    if not differentiable(loss):
        if size > LARGEST_PROGRAM and lacks_dual(risk) is None:
            return "coordinate", "the loss has corners and the L2 penalty makes its dual smooth"
        if interior.fits(loss) and size <= 4 * newton.LARGEST_MATRIX:
            return "interior", "the loss has corners, so the problem is a linear, quadratic or cone program"
        return "coordinate", "the loss has corners and the L2 penalty makes its dual smooth"
    if penalty.groups:
        if risk.has_curvature:
            return "block", "groups are moved together"
        return "fista", "groups are moved together by their prox"
    if interior.rounded(loss) and size <= newton.LARGEST_MATRIX and (size > risk.design.n or beyond(risk)):
        return "interior", "beyond delta the loss has no curvature for Newton's steps, so it is a quadratic program"
    if not risk.has_curvature:
        return (
            ("fista", "the loss gives no curvature") if not penalty.smooth else ("owlqn", "the loss gives no curvature")
        )
    # Without a penalty the gap itself needs the whole matrix, and Newton's steps have it.
    if getattr(loss, "name", "") == "softmax" and ((penalty.smooth and not penalty.free[0]) or size > 1000):
        return "owlqn", "one factored bound of all second derivatives scales its steps"
    if penalty.smooth:
        if getattr(loss, "name", "") == "squared" and size <= newton.LARGEST_MATRIX:
            return "normal", "squared loss with a smooth penalty has a closed form"
        return "newton", "loss and penalty are smooth"
    return "coordinate", "the penalty has corners or bounds: coordinate steps give true zeros"


def beyond(risk: Risk) -> bool:
    """Whether most targets are further than delta from their middle."""
    y = risk.y if risk.offset is None else risk.y - risk.offset
    y = y[:: max(1, len(y) // 10_000)]
    return float(np.median(np.abs(y - (np.median(y) if risk.design.intercept else 0.0)))) > FAR * float(risk.loss.delta)


def make_penalty(
    part: Any,
    design: Design,
    *,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    lower: Any = None,
    upper: Any = None,
    intercept_l1: float = 0.0,
    intercept_l2: float = 0.0,
) -> ScaledPenalty:
    """A penalty part, with weights, groups and bounds in the user's units, in the solver's coordinates."""
    d, scale = design.d, design.scale
    own = np.ones(d) if weights is None else weights
    made = ScaledPenalty.nothing(design.size)
    if isinstance(part, L1):
        made.l1[:d] = part.alpha * own / scale
    elif isinstance(part, L2):
        made.l2[:d] = part.alpha * own / scale**2
    elif isinstance(part, ElasticNet):
        made.l1[:d] = part.alpha * part.l1_ratio * own / scale
        made.l2[:d] = part.alpha * (1.0 - part.l1_ratio) * own / scale**2
    elif isinstance(part, NonNegative):
        made.l1[:d] = part.alpha * own / scale
        made.lower[:d] = 0.0
    elif isinstance(part, Box):
        made.lower[:d], made.upper[:d] = part.lower * scale, part.upper * scale
    elif isinstance(part, GroupL1):
        if groups is None:
            raise UsageError("a group penalty needs `groups`, one label a column", where="groups")
        for label in np.unique(groups):
            inside = np.flatnonzero(groups == label)
            made.groups.append(inside)
            strength = part.alpha * math.sqrt(len(inside)) * float(np.mean(own[inside])) / scale[inside[0]]
            made.strengths = np.append(made.strengths, strength)
    elif not isinstance(part, Nothing):
        made.part, made.weights, made.scale = part, own, scale
    if lower is not None:
        made.lower[:d] = np.maximum(made.lower[:d], np.broadcast_to(np.asarray(lower, dtype=float), (d,)) * scale)
    if upper is not None:
        made.upper[:d] = np.minimum(made.upper[:d], np.broadcast_to(np.asarray(upper, dtype=float), (d,)) * scale)
    if (made.lower > made.upper).any():
        j = int(np.argmax(made.lower > made.upper))
        raise UsageError(f"the bounds of column {j} leave nothing: its lower is above its upper", where="lower")
    if made.bounded and (made.groups or made.part is not None):
        raise UsageError("bounds go with L1, L2, elastic net or no penalty, not with groups or a part of your own")
    made.l1[d:], made.l2[d:] = intercept_l1, intercept_l2
    return made


def refuse_options(name: str, risk: Risk, stop: str, given: dict[str, Any]) -> None:
    """Refuse what this method does not take; ``given`` holds the options that the caller named."""
    takes = METHODS[name].options
    for option, value in given.items():
        if option not in takes:
            fit = [other for other, method in METHODS.items() if option in method.options]
            raise UsageError(
                f"method {name!r} takes no {option}= (given as {value!r}); leave it out, or use {' or '.join(map(repr, fit))}"
                if option != "start"
                else f"method {name!r} takes no start=: its answer does not depend on one; leave it out",
                where=option,
            )
    if "step" in takes:
        gradient.check_search(given.get("step", "backtracking"), given.get("rate"))
    check_stop(stop)
    if stop == "gradient" and not differentiable(risk.loss):
        loss = getattr(risk.loss, "name", type(risk.loss).__name__)
        raise UsageError(f"stop='gradient' needs a differentiable loss, which {loss!r} is not; use 'gap'", where="stop")
    if stop == "decrement" and ("decrement" not in takes or risk.size > newton.LARGEST_MATRIX):
        raise UsageError(
            f"stop='decrement' needs method 'newton' or 'irls' and at most {newton.LARGEST_MATRIX} parameters, not "
            f"{name!r} with {risk.size}; use stop='gap'",
            where="stop",
        )


def solve(
    risk: Risk,
    method: str = "auto",
    *,
    start: np.ndarray | None = None,
    stop: str = "gap",
    tol: float = 1e-6,
    max_iter: int | None = None,
    callback: Any = None,
    **options: Any,
) -> tuple[Outcome, str, str]:
    """(outcome, method, why it was chosen); ``options`` are ``step`` and ``rate``, for the methods that take them."""
    why = "asked for"
    if method == "auto":
        method, why = choose(risk)
    refuse_unfit(method, risk)
    chosen = METHODS[method]
    refuse_options(method, risk, stop, options)
    steps = by_dual if method == "coordinate" and not differentiable(risk.loss) else chosen.steps
    theta = np.zeros(risk.size) if start is None else start
    if getattr(risk.loss, "name", "") in LOG_MEAN and not theta.any():
        theta = risk.reference().theta  # the best constant: exp has no use for steps from 0 towards large counts
    theta = np.clip(theta, risk.penalty.lower, risk.penalty.upper)
    if "curvature" in chosen.needs or method == "coordinate":
        theta = continued(risk, steps, theta)
    most = chosen.iterations if max_iter is None else max_iter
    searched = {"search": options["step"]} if "step" in options else {}
    searched |= {"rate": options["rate"]} if "rate" in options else {}
    second = "decrement" in chosen.options
    costly = risk.design.n >= newton.SAMPLE_FROM and risk.design.n * risk.size > POLISHED  # a Hessian for a number
    outcome = run(
        risk, steps(risk, theta, **searched), stop=stop, tol=tol, max_iter=most, every=None if _quasi(method, risk) else chosen.every,
        polish=_polish(method, risk),
        decrement=second and risk.size <= newton.LARGEST_MATRIX and not costly, callback=callback,
    )  # fmt: skip
    outcome = advised(outcome, method, tol, separation(risk, outcome.point), stop, options)
    return outcome, method, why


def _polish(method: str, risk: Risk) -> int:
    """How many steps may follow the one that met the stop rule."""
    if method == "interior":
        return VERTEX
    if _quasi(method, risk):
        return POLISH_QUASI
    if method not in ("newton", "irls"):
        return 0
    return POLISH if risk.design.n * risk.size <= POLISHED else POLISH_LARGE


def _quasi(method: str, risk: Risk) -> bool:
    """Whether the steps are quasi-Newton steps of several classes, whose dual points cost as much as a step."""
    return method == "owlqn" and getattr(risk.loss, "name", "") == "softmax" and risk.penalty.smooth


def continued(risk: Risk, steps: Callable[..., Iterator[Point]], theta: np.ndarray) -> np.ndarray:
    """A start from which Huber's loss has curvature: its answer with a wide delta, narrowed by halves.

    Where most residuals are beyond delta hardly a row has curvature, and steps that rely on it know nothing of scale.
    """
    if getattr(risk.loss, "name", "") != "huber":
        return theta
    delta = float(np.median(np.abs(risk.point(theta).scores - risk.y)))
    while delta > 2.0 * risk.loss.delta:
        wider = dataclasses.replace(risk, loss=risk.loss._replace(delta=delta), _largest=None, _reference=None)
        for point in itertools.islice(steps(wider, theta), STAGE):
            theta = point.theta
        delta *= 0.5
    return theta


def advised(
    outcome: Outcome,
    method: str,
    tol: float,
    separated: str,
    stop: str = "gap",
    options: dict[str, Any] | None = None,
) -> Outcome:
    """The outcome with a status that says what to do."""
    certificate, text, status = outcome.certificate, "", outcome.certificate.status
    if separated:
        text = f"{separated}; add an L2 penalty or drop the columns that separate"
        status = Status.DEGENERATE
    elif (status is Status.NOT_PROVEN and not certificate.reached) or (
        outcome.reason in ("iterations", "stalled") and stop != "gap"
    ):
        remedy = too_long(outcome, method, options or {}) or {
            "iterations": "allow more iterations (max_iter), another method (method='auto') or a looser tol",
            "stalled": "rounding stops this method here: loosen tol or try method='auto'",
            "gradient": "the gradient is small but the gap is not: lower tol or stop='gap'",
            "decrease": "the decrease is small but the gap is not: lower tol or stop='gap'",
            "decrement": "the decrement is small but the gap is not: lower tol or stop='gap'",
        }.get(outcome.reason, "loosen tol")
        reached = f"ended with a relative gap of {certificate.relative_gap:.2g} above the tolerance {tol:g}"
        if certificate.gap < 0.0:
            reached = "ended with an objective that rounding has put below its bound"
        if stop != "gap" and outcome.reason != stop:
            reached = f"ended before stop={stop!r} was met at tol={tol:g}"
        text = f"{method!r} {reached}; {remedy}"
    if text:
        outcome.certificate = dataclasses.replace(certificate, status=status, advice=text)
    return outcome


def too_long(outcome: Outcome, method: str, options: dict[str, Any]) -> str:
    """What to say of a constant step that is too long; nothing where it is not."""
    rate, limit = options.get("rate"), outcome.certificate.largest_step
    newton = method in ("newton", "irls")
    if rate is None and newton and options.get("step") == "constant":
        rate = 1.0
    if rate is None:
        return ""
    shorter = "take a smaller rate, or step='backtracking'"
    if limit is not None and rate >= limit and not newton:  # Newton's steps have another unit
        return f"the step {rate:g} is beyond 2/λ_max = {limit:.3g}: {shorter}"
    if not outcome.trace[-1].objective <= outcome.trace[0].objective or outcome.reason == "stalled":
        return f"the step {rate:g} is too long here, the objective does not fall: {shorter}"
    return ""
