"""Fits that take several passes, as plain records: what the command line calls, and what the estimators wrap.

>>> import numpy as np
>>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
>>> fit_logistic(X, np.array(["no", "yes", "no", "yes"])).predict(X)
array(['no', 'no', 'yes', 'yes'], dtype='<U3')
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch.inference import MOST_PARAMETERS, figures, multinomial_figures, sandwich
from ..batch.methods import solve
from ..batch.problem import as_matrix, as_targets, as_vector, build
from ..batch.risk import Outcome
from ..batch.softmax import SoftmaxRisk
from ..certificates.optimality import GapCertificate
from ..errors import DataError, UsageError
from ..objective.losses import LOSSES, resolve_loss
from ..objective.penalties import resolve_penalty
from .linear import LinearModel, as_terms


def class_factors(classes: np.ndarray, index: np.ndarray, given: Any, weights: Any = None) -> list[float]:
    """The factor of each class's row weights: a dict, "balanced" or None, as in scikit-learn."""
    factor = np.ones(len(classes))
    if isinstance(given, str):
        if given != "balanced":
            raise UsageError(
                f"class_weight is {given!r}; 'balanced', a dict or None are accepted", where="class_weight"
            )
        own = np.ones(len(index)) if weights is None else np.asarray(weights, dtype=float)
        count = np.bincount(index, weights=own, minlength=len(classes))
        factor = own.sum() / (len(classes) * np.maximum(count, 1e-300))
    elif given is not None:
        known = set(classes.tolist())
        lacking, strange = [c for c in known if c not in given], [label for label in given if label not in known]
        if lacking and strange:
            raise UsageError(
                f"class_weight names {strange[0]!r}, which y does not hold; its classes are "
                f"{', '.join(map(repr, classes.tolist()[:8]))}",
                where="class_weight",
            )
        for label, value in given.items():
            factor[classes == label] = float(value)
    return [float(value) for value in factor]


def row_weights(given: Any, factors: list[float], index: np.ndarray) -> np.ndarray:
    """Row weights times their class's factor; where all are 1, a view of one number and not a vector."""
    own = None if given is None else as_vector(given, "sample_weight", len(index), least=0.0)
    if all(factor == 1.0 for factor in factors):
        return np.broadcast_to(1.0, len(index)) if own is None else own
    spread = np.array(factors)[index]
    return spread if own is None else own * spread


def total_weight(weights: np.ndarray) -> float:
    """Σ weights; refused where nothing counts."""
    total = float(weights.sum())
    if not total > 0.0:
        raise DataError("sample_weight is 0 in every row; some row must count", where="sample_weight")
    return total


def labelled(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(classes, class number of each row); one class alone is refused."""
    y = np.asarray(y)
    if y.dtype.kind in "biu" and y.size and int(y.max()) - int(y.min()) < 1000:
        # Small whole numbers are counted, not sorted.
        low = int(y.min())
        shifted = (np.ravel(y) - low).astype(np.int32)
        present = np.flatnonzero(np.bincount(shifted))
        place = np.zeros(present[-1] + 1, dtype=np.int32)
        place[present] = np.arange(len(present))
        classes, index = (present + low).astype(y.dtype), place[shifted]
    else:
        classes, index = np.unique(y, return_inverse=True)
    if index.size != n:
        raise DataError(f"y has {index.size} labels, but X has {n} rows; give one label a row", where="y")
    if len(classes) < 2:
        raise DataError(f"y holds one class, {classes.tolist()[0]!r}; at least two classes are needed", where="y")
    return classes, index.ravel()


def penalty_of(strength: float, l1_ratio: float) -> Any:
    """The elastic net, as the simplest part that says it."""
    if strength == 0.0:
        return resolve_penalty(None)
    if l1_ratio == 0.0:
        return resolve_penalty("l2", alpha=strength)
    if l1_ratio == 1.0:
        return resolve_penalty("l1", alpha=strength)
    return resolve_penalty("elastic_net", alpha=strength, l1_ratio=l1_ratio)


def objective_of(loss: Any, penalty: Any, **more: Any) -> dict[str, Any]:
    """What was minimised, in words and numbers, so that anyone can form it again from the data."""
    if hasattr(penalty, "lower"):
        more = {"lower": float(penalty.lower), "upper": float(penalty.upper)} | more
    return {
        "loss": getattr(loss, "name", type(loss).__name__),
        "loss_fields": [float(v) for v in getattr(loss, "_asdict", dict)().values()],
        "penalty": getattr(penalty, "name", type(penalty).__name__),
        "alpha": float(getattr(penalty, "alpha", 0.0)),
        "l1_ratio": float(getattr(penalty, "l1_ratio", 0.0)),
    } | more


def fit_logistic(
    X: Any,
    y: Any,
    *,
    C: float = math.inf,
    l1_ratio: float = 0.0,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    class_weight: Any = None,
    method: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    start: tuple[np.ndarray, Any] | None = None,
    terms: Sequence[str] | None = None,
    target: str = "y",
    schema: Any = None,
    checked: bool = False,
) -> LinearModel:
    """Logistic regression of two or more classes: mean loss plus (l1_ratio·‖w‖₁ + ½(1 − l1_ratio)‖w‖²)/(C·Σ weights)."""
    X = as_matrix(X, checked=checked)
    n, d = X.shape
    classes, index = labelled(y, n)
    check_strength(C)
    factors = class_factors(classes, index, class_weight, sample_weight)
    weights = row_weights(sample_weight, factors, index)
    total = total_weight(weights)
    penalty = penalty_of(0.0 if math.isinf(C) else 1.0 / (C * total), float(l1_ratio))
    loss = resolve_loss("logistic")
    targets = 2.0 * index - 1.0
    risk = build(X, targets, loss, penalty, weights=weights / total, intercept=fit_intercept)
    statistics: dict[str, Any] = {"family": "logistic", "fit_intercept": bool(fit_intercept)}
    told = {"tolerance": float(tol), "class_factors": factors}
    if len(classes) == 2:
        del index  # the signs say the same, and vectors of the rows' length count
        origin = None if start is None else risk.design.join(np.ravel(start[0]), float(np.ravel(start[1])[0]))
        outcome, used, why = solve(risk, method, start=origin, tol=tol, max_iter=max_iter)
        coef, intercept = risk.design.split(outcome.point.theta)
        statistics |= figures(risk, outcome.point, weights, errors=math.isinf(C))
        statistics["objective"] = objective_of(loss, penalty, fit_intercept=bool(fit_intercept), **told)
        link = "logistic"
        constant: Any = intercept
    else:
        problem = SoftmaxRisk(risk.design, index, weights / total, risk.penalty, classes.tolist())
        origin = None
        if start is not None:
            rows = zip(np.atleast_2d(start[0]), np.ravel(start[1]), strict=True)
            origin = np.concatenate([risk.design.join(row, float(b)) for row, b in rows])
        outcome, used, why = solve(problem, method, start=origin, tol=tol, max_iter=max_iter)
        parts = [risk.design.split(row) for row in outcome.point.theta.reshape(len(classes), -1)]
        coef = np.array([part[0] for part in parts])
        constant = np.array([part[1] for part in parts])
        if fit_intercept:  # only differences between classes count: take the intercepts that sum to 0
            constant = constant - constant.mean()
        if math.isinf(C):
            coef = coef - coef.mean(axis=0)
        statistics |= multinomial_figures(problem, outcome.point, weights, errors=math.isinf(C))
        statistics["objective"] = objective_of(problem.loss, penalty, fit_intercept=bool(fit_intercept), **told)
        link = "softmax"
    statistics |= run_figures(outcome, used, why)
    names = as_terms(terms, d)
    return LinearModel(
        names, coef, constant, (target,), schema, link, tuple(classes.tolist()), outcome.certificate, statistics
    )


def run_figures(outcome: Outcome, method: str, why: str) -> dict[str, Any]:
    """How the optimum was reached."""
    return {
        "method": method,
        "reason": why,
        "iterations": len(outcome.trace) - 1,
        "seconds": outcome.trace[-1].seconds if outcome.trace else 0.0,
    }


def worst(certificates: list[GapCertificate]) -> GapCertificate:
    """Of several problems solved side by side, the certificate that proves least."""
    return max(certificates, key=lambda one: (not one.proven, one.relative_gap))


def fit_margin(
    X: Any,
    y: Any,
    *,
    loss: str = "squared_hinge",
    penalty: str = "l2",
    C: float = 1.0,
    fit_intercept: bool = True,
    intercept_scaling: float = 1.0,
    sample_weight: Any = None,
    class_weight: Any = None,
    method: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    terms: Sequence[str] | None = None,
    target: str = "y",
    schema: Any = None,
    checked: bool = False,
) -> LinearModel:
    """A linear support vector classifier, one against the rest for several classes.

    The mean loss plus ½(‖w‖² + (b/intercept_scaling)²)/(C·Σ weights), or the 1-norm of the same vector.
    """
    X = as_matrix(X, checked=checked)
    n, d = X.shape
    classes, index = labelled(y, n)
    factors = class_factors(classes, index, class_weight, sample_weight)
    weights = row_weights(sample_weight, factors, index)
    total = total_weight(weights)
    strength = 1.0 / (C * total)
    part = resolve_penalty(penalty, alpha=strength)
    held: dict[str, Any] = (
        {f"intercept_{penalty}": strength / intercept_scaling ** (2 if penalty == "l2" else 1)} if fit_intercept else {}
    )
    heads = range(1, 2) if len(classes) == 2 else range(len(classes))
    coefs, constants, certificates, used, why, iterations = [], [], [], method, "", 0
    for k in heads:
        targets = np.where(index == k, 1.0, -1.0)
        loss_part = resolve_loss(loss)
        risk = build(X, targets, loss_part, part, weights=weights / total, intercept=fit_intercept, **held)
        outcome, used, why = solve(risk, method, tol=tol, max_iter=max_iter)
        one, bias = risk.design.split(outcome.point.theta)
        coefs.append(one)
        constants.append(bias)
        certificates.append(outcome.certificate)
        iterations = max(iterations, len(outcome.trace) - 1)
    told = {"tolerance": float(tol), "class_factors": factors}
    objective = objective_of(resolve_loss(loss), part, fit_intercept=bool(fit_intercept), **held, **told)
    statistics = {
        "family": "support vectors", "n": n, "fit_intercept": bool(fit_intercept), "objective": objective,
        "method": used, "reason": why, "iterations": iterations,
    }  # fmt: skip
    coef: Any = coefs[0] if len(classes) == 2 else np.array(coefs)
    constant: Any = constants[0] if len(classes) == 2 else np.array(constants)
    return LinearModel(
        as_terms(terms, d), coef, constant, (target,), schema, "sign", tuple(classes.tolist()), worst(certificates),
        statistics,
    )  # fmt: skip


def fit_generalized(
    X: Any,
    y: Any,
    *,
    loss: Any = "poisson",
    penalty: Any = None,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    method: str = "auto",
    tol: float = 1e-6,
    max_iter: int | None = None,
    start: tuple[np.ndarray, float] | None = None,
    terms: Sequence[str] | None = None,
    target: str = "y",
    schema: Any = None,
    checked: bool = False,
    **bounds: Any,
) -> LinearModel:
    """A generalised linear model: any loss, an offset added to the scores or an exposure that multiplies the means."""
    X = as_matrix(X, checked=checked)
    n, d = X.shape
    loss_part, part = resolve_loss(loss), resolve_penalty(penalty)
    refuse_classes(loss_part)
    targets, _ = as_targets(y, loss_part, n)
    weights = np.ones(n) if sample_weight is None else as_vector(sample_weight, "sample_weight", n, least=0.0)
    total = total_weight(weights)
    link = link_of(loss_part)
    shift = combined_offset(offset, exposure, n, link)
    risk = build(X, targets, loss_part, part, weights=weights / total, intercept=fit_intercept, offset=shift, **bounds)
    origin = None if start is None else risk.design.join(np.ravel(start[0]), float(start[1]))
    outcome, used, why = solve(risk, method, start=origin, tol=tol, max_iter=max_iter)
    coef, constant = risk.design.split(outcome.point.theta)
    coef = np.where(outcome.point.theta[:d] == 0.0, 0.0, coef)
    free = risk.penalty.smooth and not risk.penalty.l2.any() and not risk.penalty.bounded
    name = getattr(loss_part, "name", type(loss_part).__name__)
    statistics: dict[str, Any] = {"family": name, "fit_intercept": bool(fit_intercept)}
    statistics |= figures(risk, outcome.point, weights, errors=free)
    statistics["objective"] = objective_of(
        loss_part,
        part,
        fit_intercept=bool(fit_intercept),
        offset=shift is not None,
        bounded=bool(risk.penalty.bounded),
        tolerance=float(tol),
    )
    statistics |= run_figures(outcome, used, why)
    return LinearModel(as_terms(terms, d), coef, constant, (target,), schema, link, (), outcome.certificate, statistics)


def robust_covariance(
    model: LinearModel, X: Any, y: Any, *, sample_weight: Any, groups: Any, offset: Any, exposure: Any
) -> tuple[np.ndarray, int]:
    """(the sandwich covariance of a fit, number of groups or 0) from the rows of the fit; intercept first.

    Of several classes it is of all but the first, each against the first.
    """
    objective = model.statistics["objective"]
    name, fit_intercept = objective["loss"], bool(objective["fit_intercept"])
    if name != "softmax" and (name not in LOSSES or not getattr(LOSSES[name], "smooth", False)):
        raise UsageError(
            f"robust errors need a loss with a curvature, which {name!r} has not; leave robust out", where="robust"
        )
    X = as_matrix(X)
    n = X.shape[0]
    if n != model.statistics["n"]:
        raise DataError(
            f"robust errors need the {model.statistics['n']} rows of the fit, but {n} came in; give the same data",
            where="X",
        )
    if X.shape[1] + 1 > MOST_PARAMETERS:
        raise UsageError(f"robust errors are given up to {MOST_PARAMETERS} parameters", where="robust")
    if bool(objective.get("offset")) != (offset is not None or exposure is not None):
        wrong = (
            "was fitted with an offset or exposure: give it" if objective.get("offset") else "was fitted without one"
        )
        raise UsageError(f"the model {wrong}", where="offset")
    if groups is not None and np.shape(groups) != (n,):
        raise DataError(f"groups has {np.size(groups)} labels where there are {n} rows", where="groups")
    if model.classes:
        classes, index = np.asarray(model.classes), np.searchsorted(model.classes, y)
        index = np.minimum(index, len(classes) - 1)
        if np.shape(y) != (n,) or (classes[index] != np.asarray(y)).any():
            raise DataError("y holds other labels than the fit; give its rows", where="y")
        weights = row_weights(sample_weight, objective["class_factors"], index)
        targets: Any = 2.0 * index - 1.0
        loss = resolve_loss("logistic")
    else:
        loss = resolve_loss(name, **dict(zip(LOSSES[name]._fields, objective["loss_fields"])))
        targets, _ = as_targets(y, loss, n)
        weights = row_weights(sample_weight, [1.0], np.zeros(n, dtype=int))
    total = total_weight(weights)
    shift = combined_offset(offset, exposure, n, model.link)
    risk: Any = build(
        X, targets, loss, resolve_penalty(None), weights=weights / total, intercept=fit_intercept, offset=shift
    )
    rows = zip(np.atleast_2d(model.coef), np.broadcast_to(np.ravel(model.intercept), len(np.atleast_2d(model.coef))))
    theta = np.concatenate([risk.design.join(coef, float(b)) for coef, b in rows])
    if name == "softmax":
        risk = SoftmaxRisk(risk.design, index, weights / total, risk.penalty, classes.tolist())
    return sandwich(risk, risk.point(theta), total, groups)


def refuse_classes(loss: Any) -> None:
    """Refuse a loss whose targets are signs where they are numbers."""
    if getattr(loss, "targets", "real") == "sign":
        raise UsageError(
            f"the loss {getattr(loss, 'name', loss)!r} is for classes; use LogisticRegression or LinearSVC",
            where="loss",
        )


def check_strength(C: Any) -> None:
    """Refuse a C that is no positive number."""
    if not (isinstance(C, (int, float, np.integer, np.floating)) and C > 0.0):
        raise UsageError(f"C is {C!r}; a positive number is accepted, infinity for no penalty", where="C")


def link_of(loss: Any) -> str:
    """ "log" where the loss's mean is exp, otherwise "identity"."""
    mean = getattr(loss, "mean", None)
    same = mean is not None and all(abs(mean(s) - math.exp(s)) < 1e-12 for s in (-0.7, 0.0, 1.3))
    return "log" if same else "identity"


def combined_offset(offset: Any, exposure: Any, n: int, link: str) -> np.ndarray | None:
    """offset + ln(exposure), where they are given."""
    out = None if offset is None else as_vector(offset, "offset", n)
    if exposure is None:
        return out
    if link != "log":
        raise UsageError(
            "an exposure needs a loss with a log link (poisson, gamma, tweedie); use offset", where="exposure"
        )
    amount = as_vector(exposure, "exposure", n, least=0.0)
    if (amount == 0.0).any():
        row = int(np.argmax(amount == 0.0))
        raise DataError(f"exposure is 0 in row {row}; positive numbers are accepted", where="exposure")
    return np.log(amount) if out is None else out + np.log(amount)
