"""The problem that a model says it minimised, read from its record and formed again from the rows.

    minimise  Σ c·loss(score, y) + Σ l1·|w| + ½·l2·w² + Σ strength·‖w_group‖,   lower ≤ w ≤ upper,   Σ c = 1

Columns are scaled to length 1. Beside a constant that nothing holds they are centred first, and so are the targets of a
loss of residuals: the same problem, and nothing cancels when targets lie at 10⁹. The constant takes up what that moves,
in exact arithmetic.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import DataError, ModelError
from .stated_claims import Check, Claims, Given, Rows
from .verify_losses import SIGNS, Loss, make_loss
from .verify_predictions import check_classes, check_constants, check_linear_predictions

FIELDS = {
    "loss", "loss_fields", "penalty", "alpha", "l1_ratio", "fit_intercept", "intercept_l1", "intercept_l2", "weights",
    "class_factors", "positive", "bounded", "lower", "upper", "groups", "offset", "standardise",
    "tolerance",  # the solver's; the verifier has its own
}  # fmt: skip
LARGEST_SPAN = 500  # columns up to which any combination of them may be the constant; beyond, one of them or their sum
L1_SHARES: dict[str, float | None] = {
    "none": 0.0, "l2": 0.0, "l1": 1.0, "nonnegative": 1.0, "box": 0.0, "group_l1": 0.0, "elastic_net": None,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Group:
    """Columns whose weights are shrunk together: strength·‖w‖."""

    columns: Rows
    strength: float


@dataclasses.dataclass(frozen=True)
class Problem:
    """One objective in scaled columns, and the weights stated for it (columns × classes, or × 1)."""

    loss: Loss
    columns: Rows
    c: Rows
    stated: Rows
    l1: Rows
    l2: Rows
    lower: Rows
    upper: Rows
    groups: tuple[Group, ...]
    constant: bool  # whether the first column is the intercept's
    centred: bool
    standardise: bool  # whether the solver measured gradients in columns of length 1
    length: Rows  # of each column before it was scaled; 1 of those that are 0 throughout
    still: Rows  # whether a column is 0 throughout, less what was taken off it
    shift: Rows  # what was taken off each column before that
    raw: Rows  # the columns as they came, without the constant
    raw_size: float  # of the terms that make up a score, in the columns as they came

    def scores(self, weights: Rows) -> Rows:
        """A score a row, or one a row and class."""
        found = self.columns @ weights
        return found if weights.shape[1] > 1 else found[:, 0]

    def penalty(self, weights: Rows) -> float:
        """Of weights within their bounds."""
        total = float((self.l1 @ np.abs(weights) + 0.5 * self.l2 @ weights**2).sum())
        return total + sum(group.strength * float(np.linalg.norm(weights[group.columns])) for group in self.groups)

    @property
    def free(self) -> Rows:
        """The columns whose weights nothing holds, not even a bound on one side."""
        return self.unheld & ~np.isfinite(self.lower) & ~np.isfinite(self.upper)

    @property
    def unheld(self) -> Rows:
        """The columns along which neither a penalty grows nor two bounds end."""
        held = (self.l1 > 0) | (self.l2 > 0) | (np.isfinite(self.lower) & np.isfinite(self.upper))
        for group in self.groups:
            held[group.columns] |= group.strength > 0
        return ~held

    @property
    def spans_constant(self) -> bool:
        """Whether some combination of the columns is 1 in every row, so that the best constant is within reach."""
        if self.constant:
            return True
        whole = self.columns @ self.length  # the sum of the columns as they came
        if any(_is_constant(column) for column in (*self.columns.T, whole)):
            return True
        if len(self.length) > min(LARGEST_SPAN, len(self.columns)):  # beyond, any target is a combination
            return False
        gram = (self.columns * self.c[:, None]).T @ self.columns
        nearest = np.linalg.lstsq(gram, self.c @ self.columns, rcond=1e-12)[0]
        return _is_constant(self.columns @ nearest) and float(self.columns[0] @ nearest) > 0.5

    def within_bounds(self) -> bool:
        return bool(((self.lower[:, None] <= self.stated) & (self.stated <= self.upper[:, None])).all())


def _is_constant(column: Rows) -> bool:
    """To six digits: a yardstick needs no more."""
    return bool(np.ptp(column) <= 1e-6 * abs(float(column[0])) and column[0] != 0.0)


def read_problems(out: Claims, given: Given) -> list[Problem]:
    """One problem, or one a target, or one a class against the rest; what is read is shown as a check."""
    record, said = given.record, getattr(given.record, "statistics", {}).get("objective")
    if not isinstance(said, dict):
        raise NotImplementedError("a model that does not say what it minimised")
    _refuse_unknown(said)
    weights, intercept = _stated_weights(record, given.X.shape[1])
    index = _class_numbers(record, given.y)
    check_constants(out, record, bool(said["fit_intercept"]))
    _check_repeated(out, record.statistics, said)
    constants = intercept if said["fit_intercept"] else 0.0 * intercept
    check_linear_predictions(out, record, given.X, said["loss"], weights, constants)
    if index is not None:
        check_classes(out, record, given.y)
    c = _row_weights(said, given.c, index, record)
    used = c > 0.0
    if not used.any():
        raise DataError("no row counts: all weights are 0", where="weights")
    X, c, y = given.X[used], c[used] / c[used].sum(), given.y[used]
    out.append(Check("problem", describe(said), None, True, "read from the model"))
    design = Design(said, X, c)
    _check_never_varying(out, record, design, weights)
    several = weights.shape[1]
    if said["loss"] == "softmax":
        if index is None or several != len(record.classes):
            raise ModelError("a model of several classes has one row of weights a class", where="coef")
        return [design.problem(said, index[used], weights, intercept, several)]
    if index is not None:
        if said["loss"] not in SIGNS:
            raise ModelError(f"the loss {said['loss']!r} is not one of classes", where="loss")
        heads = [1] if several == 1 and len(record.classes) == 2 else range(several)
        if several not in (1, len(record.classes)) or (several == 1 and len(record.classes) != 2):
            raise ModelError(f"{several} rows of weights for {len(record.classes)} classes", where="coef")
        targets = [np.where(index[used] == k, 1.0, -1.0) for k in heads]
    else:
        if said["loss"] in SIGNS:
            raise ModelError(f"the loss {said['loss']!r} needs classes, which the model has not", where="classes")
        targets = list(y.astype(float).reshape(len(y), -1).T)
    if len(targets) != several:
        raise DataError(f"the model has {several} targets and the rows {len(targets)}", where="y")
    return [design.problem(said, t, weights[:, [k]], intercept[[k]], 0) for k, t in enumerate(targets)]


def _check_never_varying(out: Claims, record: Any, design: Design, weights: Rows) -> None:
    """A column that is the same in every row, beside a constant, or 0 has a weight of 0: no row would notice another."""
    first = int(design.constant)
    still = design.still[first:] & (design.lower[first:] <= 0.0) & (design.upper[first:] >= 0.0)
    if still.any():
        largest = float(np.abs(weights[still]).max())
        name = str(list(getattr(record, "terms", range(len(still))))[int(np.flatnonzero(still)[0])])
        out.append(Check("weights of columns that never vary", largest, 0.0, largest <= 1e-12, f"{name} is one"))


def _check_repeated(out: Claims, statistics: dict[str, Any], said: dict[str, Any]) -> None:
    """What a model says again beside its objective, such as the penalty that was chosen, is the objective's."""
    for name in ("fit_intercept", "alpha", "estimator.alpha"):
        if name in statistics:
            stated, own = statistics[name], said[name.removeprefix("estimator.")]
            out.of_model(f"statistics.{name}", stated, own, bool(np.all(stated == own)), "that of the objective")


def describe(said: dict[str, Any]) -> str:
    """The problem in one line.

    >>> describe({"loss": "huber", "loss_fields": [1.35], "penalty": "l1", "alpha": 0.5, "fit_intercept": True})
    'mean huber(1.35) loss + l1 penalty, alpha 0.5, free intercept'
    """
    fields = [f"{float(value):g}" for value in said["loss_fields"] if float(value) != 1.0]
    words = [f"mean {said['loss']}{'(' + ', '.join(fields) + ')' if fields else ''} loss"]
    if said["penalty"] != "none":
        words[0] += f" + {said['penalty']} penalty"
        words.append(f"alpha {float(said['alpha']):.6g}")
    if said["penalty"] == "elastic_net":
        words.append(f"l1_ratio {float(said['l1_ratio']):g}")
    if said.get("weights") is not None:
        words.append("a factor a column")
    if said.get("positive") or said["penalty"] == "nonnegative":
        words.append("weights of 0 or more")
    if said.get("lower") is not None or said.get("upper") is not None:
        words.append("bounded weights")
    if any(float(factor) != 1.0 for factor in said.get("class_factors") or ()):
        words.append("class weights " + ", ".join(f"{float(factor):.4g}" for factor in said["class_factors"][:6]))
    held = said.get("intercept_l1") or said.get("intercept_l2")
    words.append("no intercept" if not said["fit_intercept"] else "penalised intercept" if held else "free intercept")
    return ", ".join(words)


def _refuse_unknown(said: dict[str, Any]) -> None:
    """A problem that this file does not know is not checked as if it were another."""
    strange = sorted(said.keys() - FIELDS)
    if strange:
        raise NotImplementedError(f"an objective with the field {strange[0]!r}")
    if said["penalty"] not in L1_SHARES:
        raise NotImplementedError(f"the gap of a problem with penalty {said['penalty']}")
    if said.get("offset"):
        raise NotImplementedError("the gap of a problem with an offset")
    if said.get("bounded") and said.get("lower") is None and said.get("upper") is None and not _positive(said):
        raise NotImplementedError("the gap of a problem with bounds that the model does not state")
    if (said["penalty"] == "group_l1") != (said.get("groups") is not None):
        raise NotImplementedError("the gap of a problem with groups that the model does not state")
    for name in ("alpha", "l1_ratio", "intercept_l1", "intercept_l2"):
        value = said.get(name, 0.0)
        if not (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0.0):
            raise ModelError(f"{name} is {value} in the model; a penalty is a finite number of 0 or more", where=name)
    if said.get("l1_ratio", 0.0) > 1.0 and L1_SHARES[said["penalty"]] is None:
        raise ModelError(f"l1_ratio is {said['l1_ratio']} in the model; it lies between 0 and 1", where="l1_ratio")


def _positive(said: dict[str, Any]) -> bool:
    return bool(said.get("positive")) or said["penalty"] == "nonnegative"


def _stated_weights(record: Any, columns: int) -> tuple[Rows, Rows]:
    """(columns × targets or classes, the constant of each), finite and of the rows' width."""
    weights = np.atleast_2d(np.asarray(record.coef, dtype=float)).T
    intercept = np.atleast_1d(np.asarray(record.intercept, dtype=float)).ravel()
    if len(weights) != columns:
        raise DataError(f"the rows have {columns} columns and the model {len(weights)}", where="X")
    if len(intercept) not in (1, weights.shape[1]) or not (np.isfinite(weights).all() and np.isfinite(intercept).all()):
        raise ModelError("the model's weights are not one finite number a column and target", where="coef")
    return weights, np.broadcast_to(intercept, weights.shape[1]).copy()


def _class_numbers(record: Any, y: Rows) -> Rows | None:
    """The class of each row by its number; None where the targets are numbers."""
    classes = getattr(record, "classes", None)
    if classes is None or not len(classes):
        return None
    labels, place = np.unique(y, return_inverse=True)
    numbers = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    strange = [label for label in labels.tolist() if label not in numbers]
    if strange:
        known = ", ".join(map(str, list(numbers)[:8]))
        raise DataError(f"y holds {strange[0]!r}, which is none of the model's classes ({known})", where="y")
    return np.array([numbers[label] for label in labels.tolist()])[place.ravel()]


def _row_weights(said: dict[str, Any], c: Rows, index: Rows | None, record: Any) -> Rows:
    """The weights of the rows times those of their classes."""
    factors = said.get("class_factors")
    if factors is None:
        return c
    factors = np.asarray(factors, dtype=float)
    if index is None or len(factors) != len(record.classes):
        raise ModelError("class_factors are not one a class", where="class_factors")
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise ModelError("class_factors are finite numbers of 0 or more", where="class_factors")
    return c * factors[index]


class Design:
    """The columns of the rows in the form that all problems of a model share."""

    def __init__(self, said: dict[str, Any], X: Rows, c: Rows) -> None:
        d, self.c, self.raw = X.shape[1], c, X
        self.constant = bool(said["fit_intercept"])
        self.l1, self.l2, self.lower, self.upper = _separable(said, d)
        self.groups = _groups(said, d)
        self.centred = self.constant and not said.get("intercept_l1") and not said.get("intercept_l2")
        self.shift = np.zeros(d)
        if self.centred:
            self.shift = np.where(np.ptp(X, axis=0) == 0.0, X[0], c @ X)  # a column of one value becomes 0 exactly
        columns = np.empty((len(X), d + self.constant))
        columns[:, :1] = 1.0
        np.subtract(X, self.shift, out=columns[:, int(self.constant) :])
        length = np.sqrt(np.einsum("i,ij,ij->j", c, columns, columns, optimize=True))
        sizes = zip(length, columns.T, strict=True)
        self.still = np.array([size == 0.0 and not column.any() for size, column in sizes])
        self.length = np.where(self.still, 1.0, length)
        for group in self.groups:  # one length a group, so that its norm stays a norm
            self.length[group.columns] = math.sqrt(float(np.mean(self.length[group.columns] ** 2)))
        columns /= self.length
        self.columns = columns
        self.said = said

    def problem(self, said: dict[str, Any], y: Rows, weights: Rows, intercept: Rows, classes: int) -> Problem:
        """The problem of one target, with the weights stated for it."""
        moved = 0.0
        loss = make_loss(said["loss"], said["loss_fields"], y, classes)
        if loss.of_residual and self.centred:
            moved = float(self.c @ y)
            loss = make_loss(said["loss"], said["loss_fields"], y - moved, classes)
        stated = weights
        if self.constant:
            pairs = zip(intercept, weights.T, strict=True)
            constants = np.array([_constant(b, self.shift, w, moved) for b, w in pairs])
            if classes and self.centred:  # only differences between classes count
                constants = constants - constants.mean()
            stated = np.vstack([constants, weights])
        first, length = int(self.constant), self.length
        raw = np.abs(stated[first:].T) @ np.hypot(length[first:], self.shift)
        raw_size = float((raw + np.abs(intercept)).max())
        if loss.of_residual:
            raw_size += math.sqrt(float(self.c @ y.astype(float) ** 2))
        groups = tuple(dataclasses.replace(g, strength=float(g.strength / length[g.columns[0]])) for g in self.groups)
        with np.errstate(invalid="ignore"):
            lower, upper = self.lower * length, self.upper * length
        return Problem(
            loss, self.columns, self.c, stated * length[:, None], self.l1 / length, self.l2 / length**2, lower, upper,
            groups, self.constant, self.centred, bool(said.get("standardise", True)), length,
            self.still, np.r_[[0.0] * first, self.shift], self.raw, raw_size,
        )  # fmt: skip


def _constant(intercept: float, shift: Rows, weights: Rows, moved: float) -> float:
    """intercept + shift·weights − moved, rounded once."""
    used = np.flatnonzero(shift * weights)
    terms = (Fraction(float(shift[j])) * Fraction(float(weights[j])) for j in used)
    return float(sum(terms, Fraction(float(intercept)) - Fraction(moved)))


def _separable(said: dict[str, Any], d: int) -> tuple[Rows, Rows, Rows, Rows]:
    """l1, l2 and the bounds of each weight, the constant's first where there is one."""
    share = L1_SHARES[said["penalty"]]
    ratio = float(said["l1_ratio"]) if share is None else share
    alpha = 0.0 if said["penalty"] in ("none", "box", "group_l1") else float(said["alpha"])
    strength = alpha * _column_factors(said, d)
    lower = np.full(d, -math.inf) if said.get("lower") is None else _numbers(said["lower"], "lower", d)
    upper = np.full(d, math.inf) if said.get("upper") is None else _numbers(said["upper"], "upper", d)
    if _positive(said):
        lower = np.maximum(lower, 0.0)
    if (lower > upper).any() or np.isnan(lower).any() or np.isnan(upper).any():
        raise ModelError("a lower bound is above its upper bound, or neither is a number", where="lower")
    l1, l2 = strength * ratio, strength * (1.0 - ratio)
    if said["fit_intercept"]:
        l1, l2 = np.r_[said.get("intercept_l1", 0.0), l1], np.r_[said.get("intercept_l2", 0.0), l2]
        lower, upper = np.r_[-math.inf, lower], np.r_[math.inf, upper]
    return l1, l2, lower, upper


def _column_factors(said: dict[str, Any], d: int) -> Rows:
    factors = np.ones(d) if said.get("weights") is None else _numbers(said["weights"], "weights", d)
    if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
        raise ModelError("the penalty's factors of the columns are finite numbers of 0 or more", where="weights")
    return factors


def _numbers(values: Any, name: str, d: int) -> Rows:
    numbers = np.asarray(values, dtype=float)
    if numbers.shape not in ((), (1,), (d,)):
        raise ModelError(f"{name} has {numbers.size} numbers for {d} columns", where=name)
    return np.broadcast_to(numbers, d).astype(float)


def _groups(said: dict[str, Any], d: int) -> tuple[Group, ...]:
    """alpha·√size·(mean factor) of each group of columns, by their place in the problem."""
    if said.get("groups") is None:
        return ()
    labels, factors, first = np.asarray(said["groups"]), _column_factors(said, d), int(bool(said["fit_intercept"]))
    if labels.shape != (d,):
        raise ModelError(f"groups has {labels.size} labels for {d} columns", where="groups")
    found = []
    for label in np.unique(labels):
        inside = np.flatnonzero(labels == label)
        strength = float(said["alpha"]) * math.sqrt(len(inside)) * float(factors[inside].mean())
        found.append(Group(inside + first, float(strength)))
    return tuple(found)
