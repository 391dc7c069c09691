"""Whether classes are separated, so that no finite maximum of the likelihood exists (Albert and Anderson 1984).

Without a penalty the likelihood of a logit rises for ever along a direction that no example's own class loses by. Three
such directions are looked for: one that all examples gain by; for three and more classes, one that groups of classes
share and that all examples gain by against other groups; and the one in which the coefficients grow where the steps end.
The first two are checked on every example, so that classes which nearly separate are not called separable.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from . import newton
from .risk import Point, Risk
from .scaled import ScaledPenalty
from .softmax import SoftmaxRisk

EPS = float(np.finfo(float).eps)
LARGEST = 1000  # parameters of several classes for which the second derivatives are formed to look at the last step
STEPS = 60  # of Newton's method, which separates what can be separated in a dozen or two
SHARED = 0.05  # probability of both of two classes; below it only more sets are looked at than need be
SLACK = 1e-6  # of the largest growth along the last step: what the parts that converge leave of it


def separation(risk: Risk, point: Point) -> str:
    """Words that say how the data are separated, where nothing keeps the optimum finite; otherwise nothing."""
    name = getattr(risk.loss, "name", "")
    if name not in ("logistic", "softmax") or not risk.penalty.smooth or risk.penalty.l2[: risk.design.d].any():
        return ""
    scores = point.scores if risk.offset is None else point.scores - risk.offset
    counted = risk.c > 0.0
    margins = gains(scores, risk.y)[counted].reshape(-1)
    if margins.min(initial=math.inf) > 0.0 and margins.max(initial=0.0) > 8.0:
        if name == "logistic":
            return "the classes are separable: some plane has every example on its right side, and the loss falls for ever along it"
        return "the classes are separable: every example scores highest in its own class, and the loss falls for ever as all scores grow"
    if name == "softmax":
        several: Any = risk
        for groups in _partitions(several, point):
            if _apart(several, point, groups):
                return _words([[several.labels[k] for k in group] for group in groups])
    if margins.max(initial=0.0) > 10.0 and (name == "logistic" or risk.size <= LARGEST):
        growth = gains(risk.image(risk.newton_direction(point)), risk.y)[counted]
        most = growth.max(initial=0.0)
        if most > 0.1 and growth.min(initial=0.0) > -SLACK * most:
            return "the classes are quasi-separable: some columns tell part of the examples apart without error"
    return ""


def gains(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By how much each row's own class is ahead: y·s of two classes; of several, one column for each other class."""
    if scores.ndim == 1:
        return np.asarray(y * scores)
    every = np.arange(len(scores))
    ahead = scores[every, y][:, None] - scores
    others = np.ones(scores.shape, dtype=bool)
    others[every, y] = False
    return ahead[others].reshape(len(scores), -1)


def _words(groups: list[list[Any]]) -> str:
    """What is said of groups of classes that are separable from each other."""
    first, *others = (", ".join(map(repr, group)) for group in groups)
    falls = "and the loss falls for ever as their scores grow"
    if len(others) > 1:
        return f"groups of classes are separable from each other ({'; '.join([first, *others])}): every example scores highest in its own group, {falls}"
    one = len(groups[0]) == 1
    plane = "a plane has these examples on one side and all others on the other"
    return (
        f"{'class' if one else 'classes'} {first} {'is' if one else 'are'} separable from the others: {plane}, {falls}"
    )


def _partitions(risk: Any, point: Point) -> list[list[list[int]]]:
    """Groups of classes that may be separable from each other: each class and the rest, and sets that share no example.

    Two classes share an example to which the fit gives both some probability.
    """
    p, every = point.curvature[risk.c > 0.0], set(range(risk.classes))
    found, sets, left = [[[k], sorted(every - {k})] for k in every], [], set(every)
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {m for m in left - group for k in new if np.minimum(p[:, k], p[:, m]).max(initial=0.0) > SHARED}
        left -= group
        sets.append(sorted(group))
    return [*found, sets] if 1 < len(sets) < risk.classes else found


def _apart(risk: Any, point: Point, groups: list[list[int]]) -> bool:
    """Whether one plane for each group has every example score highest in its own group.

    Looked for only where the fit itself does so; first with the mean planes of the groups, then by Newton's steps.
    """
    y = np.argmax([np.isin(risk.y, group) for group in groups], axis=0)
    best = np.column_stack([point.scores[:, group].max(axis=1) for group in groups])
    if (best.argmax(axis=1) != y)[risk.c > 0.0].any():
        return False
    means = np.array([point.theta.reshape(risk.classes, -1)[group].mean(axis=0) for group in groups])
    joined = SoftmaxRisk(risk.design, y, risk.c, ScaledPenalty.nothing(risk.design.size), list(range(len(groups))))
    if divides(joined, means.ravel()):
        return True
    steps = itertools.islice(newton.newton(joined, np.zeros(joined.size)), STEPS)
    return any(divides(joined, step.theta) for step in steps)


def divides(risk: SoftmaxRisk, theta: np.ndarray) -> bool:
    """Whether every example scores highest in its own class, by more than rounding.

    A score is a sum of d + 2 terms, none larger than its coefficient times its column's largest entry.
    """
    design = risk.design
    ends = (design.X.max(axis=0), -design.X.min(axis=0))
    largest = np.maximum(*(one.toarray().ravel() if hasattr(one, "toarray") else one for one in ends))
    sizes = [np.abs(coef) @ largest + abs(b) for coef, b in map(design.split, theta.reshape(risk.classes, -1))]
    ahead = gains(risk.image(theta), risk.y)[risk.c > 0.0]
    return bool(ahead.min(initial=math.inf) > 2.0 * (design.d + 2) * EPS * max(sizes))
