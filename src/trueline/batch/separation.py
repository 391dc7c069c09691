"""Whether classes are separated, so that no finite maximum of the likelihood exists (Albert and Anderson 1984).

Without a penalty the likelihood of a logit rises for ever along a direction that no example's own class loses by. Three
such directions are looked for: one that all examples gain by; for three and more classes, one of the scores of a class
(or several) which a plane tells from all others; and the one along which the coefficients still grow where the steps end.
The first two are checked on every example, so that classes which nearly separate are not called separable.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..parts.losses import loss as make_loss
from . import newton
from .risk import Point, Risk
from .scaled import ScaledPenalty

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
        for group in _groups(several, point):
            if _apart(several, point, group):
                names = ", ".join(repr(several.labels[k]) for k in group)
                return (
                    f"{'class' if len(group) == 1 else 'classes'} {names} {'is' if len(group) == 1 else 'are'} separable from "
                    "the others: a plane has these examples on one side and all others on the other, and the loss falls for "
                    "ever along it"
                )
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


def _groups(risk: Any, point: Point) -> list[list[int]]:
    """Classes that may be separated from the others: each alone, and sets of classes that share no example.

    Two classes share an example to which the fit gives both some probability.
    """
    p = point.curvature[risk.c > 0.0]
    found = [[k] for k in range(risk.classes)]
    left = set(range(risk.classes))
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {m for m in left - group for k in new if np.minimum(p[:, k], p[:, m]).max(initial=0.0) > SHARED}
        left -= group
        if 1 < len(group) < risk.classes - 1:
            found.append(sorted(group))
    return found


def _apart(risk: Any, point: Point, group: list[int]) -> bool:
    """Whether a plane tells these classes from all others; looked for only where the fit itself mistakes none of them."""
    own, counted = np.isin(risk.y, group), risk.c > 0.0
    inside = point.scores[:, group].max(axis=1) > np.delete(point.scores, group, axis=1).max(axis=1)
    if (inside != own)[counted].any() or not own[counted].any() or own[counted].all():
        return False
    rows = point.theta.reshape(risk.classes, -1)
    if divides(risk, rows[group].mean(axis=0) - np.delete(rows, group, axis=0).mean(axis=0), own):
        return True
    signs = np.where(own, 1.0, -1.0)
    two = Risk(risk.design, signs, risk.c, make_loss("logistic"), ScaledPenalty.nothing(risk.design.size))
    steps = itertools.islice(newton.newton(two, np.zeros(two.size)), STEPS)
    return any(divides(risk, step.theta, own) for step in steps)


def divides(risk: Any, theta: np.ndarray, own: np.ndarray) -> bool:
    """Whether the plane of these parameters has the rows marked on one side and the others on the other.

    By more than rounding: a score is a sum of d + 2 terms, none larger than its coefficient times its column's largest entry.
    """
    design, counted = risk.design, risk.c > 0.0
    scores = design.scores(theta)
    inside, outside = scores[own & counted].min(), scores[~own & counted].max()
    coef, constant = design.split(theta)
    largest = [design.X.max(axis=0), -design.X.min(axis=0)]
    largest = np.maximum(*(one.toarray().ravel() if hasattr(one, "toarray") else one for one in largest))
    rounding = (design.d + 2) * EPS * (float(np.abs(coef) @ largest) + abs(constant))
    if design.intercept:  # the constant may move
        return bool(inside - outside > 2.0 * rounding)
    return bool(inside > rounding and outside < -rounding)
