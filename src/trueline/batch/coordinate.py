"""Coordinate descent on successive quadratic models of the loss (for squared loss the model is the loss).

At a point with slopes and curvatures h, the model gᵀδ + ½δᵀHδ + Ω(θ + δ) is minimised one coordinate at a time:
θ_j ← prox(θ_j − q_j/H_jj, 1/H_jj), q the model's gradient; then a line search. With few parameters H is formed once by
BLAS and q kept up to date (a column of H a step); with many, only a working set moves (workingset.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .. import dense
from .._jit import kernel
from .gradient import Patience, backtrack, rounding
from .risk import Point, Risk

FLAT = 1e-14  # of a standardised column: a curvature of rounding
GRAM_UP_TO = 1000  # parameters up to which the model's matrix is formed, when rows outnumber them


@kernel
def shrunk(u, step, l1, l2, lower, upper):
    """prox of step·(l1|·| + ½l2(·)²) on [lower, upper] at u."""
    threshold = step * l1
    if u > threshold:
        v = (u - threshold) / (1.0 + step * l2)
    elif u < -threshold:
        v = (u + threshold) / (1.0 + step * l2)
    else:
        v = 0.0
    return min(max(v, lower), upper)


@kernel
def descend_gram(H, q, theta, l1, l2, lower, upper, epochs, tolerance):
    """Coordinate epochs on a formed model; q and theta are updated in place. Returns the epochs used."""
    size = theta.shape[0]
    first = 0.0
    for epoch in range(epochs):
        largest = 0.0
        for j in range(size):
            curve = H[j, j]
            if curve <= 0.0:
                continue
            new = shrunk(theta[j] - q[j] / curve, 1.0 / curve, l1[j], l2[j], lower[j], upper[j])
            move = new - theta[j]
            if move != 0.0:
                theta[j] = new
                for k in range(size):
                    q[k] += move * H[j, k]
                largest = max(largest, curve * move * move)
        first = max(first, largest)
        if largest <= tolerance * first:
            return epoch + 1
    return epochs


def coordinate(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Coordinate descent with the route that suits the shape."""
    if type(risk) is not Risk or (risk.size <= GRAM_UP_TO and risk.size <= risk.design.n):
        return by_gram(risk, start)
    from .workingset import by_columns

    return by_columns(risk, start)


def descend_to(
    risk: Risk, point: Point, theta: np.ndarray, image: np.ndarray, gradient: np.ndarray | None = None
) -> Point | None:
    """The point towards theta with a sufficient decrease of loss and penalty together.

    ``gradient`` saves a pass where that of the parameters that move is known.
    """
    direction = theta - point.theta
    g = risk.gradient(point) if gradient is None else gradient
    promised = float((g * direction).sum()) + risk.penalty.value(theta) - point.penalty
    if promised > rounding(point):
        return None
    return backtrack(risk, point, direction, image, min(promised, 0.0))


def curved(risk: Risk, H: np.ndarray) -> np.ndarray:
    """H with the largest curvature of the loss along columns on which no row curves, as beyond the delta of Huber's.

    A model that is flat there has no least value, and its steps would leave such a column where it is.
    """
    flat = np.flatnonzero(np.diagonal(H) <= FLAT)
    if type(risk) is Risk and flat.size and math.isfinite(risk.curvature_bound):
        H[flat, flat] += risk.curvature_bound * np.append(risk.design.lengths(risk.c) ** 2, 1.0)[flat]
    return H


def by_gram(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Every parameter on the formed model."""
    penalty, quadratic = risk.penalty, getattr(risk.loss, "name", "") == "squared"
    point = risk.point(penalty.prox(start, 0.0))
    H = None
    if quadratic:
        H = risk.loss_hessian(point)
        risk._largest = dense.spectral_norm(H + np.diag(penalty.l2))
    patience = Patience(risk)
    while True:
        yield point
        if H is None or not quadratic:
            H = curved(risk, risk.loss_hessian(point))
        theta, q = point.theta.copy(), risk.gradient(point).copy()
        descend_gram(H, q, theta, penalty.l1, penalty.l2, penalty.lower, penalty.upper, 1000, 1e-12)
        following = descend_to(risk, point, theta, risk.image(theta - point.theta))
        if following is None or patience.over(point, following):
            return
        point = following


def profile_intercept(risk: Risk, point: Point) -> Point:
    """The point with its intercept at the optimum given the rest: then its slopes sum to 0 without another pass."""
    if not risk.design.intercept or not risk.penalty.free[-1]:
        return point
    for _ in range(20):
        slope, weight = float(point.slope.sum()), float(point.curvature.sum())
        if abs(slope) <= 1e-15 * float(np.abs(point.slope).sum()) or not weight > 0.0:
            return point
        direction = np.zeros(risk.size)
        direction[-1] = -slope / weight
        following = backtrack(risk, point, direction, np.full(risk.design.n, direction[-1]), -slope * slope / weight)
        if following is None or following.objective > point.objective:
            return point
        point = following
    return point
