"""Checks by role: what every part that claims a role must satisfy. The tests of losses, penalties and geometries run them over every one."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np

from trueline.objective.loss_interface import Loss, derivatives, evaluate
from trueline.objective.losses import resolve_loss
from trueline.objective.penalties import Penalty, scaled_conjugate, scaled_prox, scaled_value
from trueline.online.learner_state import LearnerState
from trueline.online.learning_loop import Rule, read_weights, sum_masses
from trueline.online.learning_loop import conjugate as psi

SCORES = np.array([-3.1, -1.0, -0.4, 0.0, 0.3, 1.0, 2.7])
TARGETS = {"real": (-1.5, 0.0, 2.0), "sign": (-1.0, 1.0), "nonnegative": (0.0, 1.0, 3.0), "positive": (0.5, 2.0)}


def check_part(part: Any) -> None:
    """A function of floats that survives a pickle and says what it is."""
    assert pickle.loads(pickle.dumps(part)) == part
    assert all(isinstance(value, float) or hasattr(value, "_fields") for value in part)
    assert type(part).__doc__


def check_loss(loss: Any) -> None:
    """Slope is the derivative, curvature its derivative, the loss is convex, Fenchel–Young holds and is tight."""
    check_part(loss)
    targets = np.array(TARGETS[loss.targets])
    same_derivatives(loss, targets)
    h = 1e-6
    for y in targets:
        low, high = loss.slope_range(y)
        slopes = [loss.slope(s, y) for s in SCORES]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(slopes)), "slopes must not fall: the loss is convex"
        for s, slope in zip(SCORES, slopes):
            left, right = (loss.value(s, y) - loss.value(s - h, y)) / h, (loss.value(s + h, y) - loss.value(s, y)) / h
            assert left - 1e-4 <= slope <= right + 1e-4, (loss, s, y)
            assert low - 1e-12 <= slope <= high + 1e-12
            if loss.smooth and abs(right - left) < 1e-4:
                numeric = (loss.slope(s + h, y) - loss.slope(s - h, y)) / (2 * h)
                assert math.isclose(loss.curvature(s, y), numeric, rel_tol=1e-4, abs_tol=1e-4) or is_kink(loss, s, y, h)
            assert loss.curvature(s, y) <= loss.curvature_bound() + 1e-12
            tight = loss.value(s, y) + loss.conjugate(slope, y)
            assert math.isclose(tight, slope * s, rel_tol=1e-9, abs_tol=1e-9), "V(s) + V*(V'(s)) = s·V'(s)"
            for a in np.linspace(max(low, -4.0), min(high, 4.0), 9):
                assert loss.value(s, y) + loss.conjugate(a, y) >= a * s - 1e-9, "Fenchel–Young"


def same_derivatives(loss: Loss, targets: np.ndarray) -> None:
    """The loop that fills all three derivatives agrees with the methods, and the prox minimises."""
    scores, y = (a.ravel() for a in np.meshgrid(SCORES, targets))
    c, slope, curvature = np.linspace(0.5, 1.5, scores.size), np.empty(scores.size), np.empty(scores.size)
    total = derivatives(loss, scores, y, c, slope, curvature)
    np.testing.assert_allclose(total, c @ evaluate(loss, "value", scores, y), rtol=1e-13)
    np.testing.assert_allclose(slope, c * evaluate(loss, "slope", scores, y), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(curvature, c * evaluate(loss, "curvature", scores, y), rtol=1e-13, atol=1e-15)
    if loss.has("prox"):
        for step in (0.3, 2.0):
            best = evaluate(loss, "prox", scores, y, step)
            least = 0.5 * (best - scores) ** 2 + step * evaluate(loss, "value", best, y)
            for other in np.linspace(-6.0, 6.0, 241):
                assert (least <= 0.5 * (other - scores) ** 2 + step * evaluate(loss, "value", other, y) + 1e-12).all()


def is_kink(loss: Any, s: float, y: float, h: float) -> bool:
    return abs(loss.curvature(s + 2 * h, y) - loss.curvature(s - 2 * h, y)) > 1e-3


def check_penalty(penalty: Any) -> None:
    """prox minimises, the penalty is convex, its conjugate bounds every line."""
    check_part(penalty)
    least = 0.0 if type(penalty).__name__ == "GroupL1" else -3.0  # its methods act on the norm of a group
    points = np.linspace(least, 3.0, 13)
    same_sums(penalty, points)
    grid = np.linspace(5.0 * least / 3.0, 5.0, 2001)
    for w in points:
        v = penalty.prox(w, 0.7, 1.5)
        best = 0.5 * (v - w) ** 2 + 0.7 * penalty.value(v, 1.5)
        assert best <= min(0.5 * (g - w) ** 2 + 0.7 * penalty.value(g, 1.5) for g in grid) + 1e-9
        for z in points:
            assert penalty.value(w, 1.5) + penalty.conjugate(z, 1.5) >= z * w - 1e-9
            middle = penalty.value(0.5 * (w + z), 1.5)
            assert middle <= 0.5 * (penalty.value(w, 1.5) + penalty.value(z, 1.5)) + 1e-12


def same_sums(penalty: Penalty, points: np.ndarray) -> None:
    """The sums over scaled coefficients are those of the methods."""
    scale, weights = np.linspace(0.5, 2.0, points.size), np.linspace(1.0, 3.0, points.size)
    value = sum(penalty.value(w / s, c) for w, s, c in zip(points, scale, weights))
    conjugate = sum(penalty.conjugate(w * s, c) for w, s, c in zip(points, scale, weights))
    assert math.isclose(scaled_value(penalty, points, scale, weights), value, rel_tol=1e-13)
    assert math.isclose(scaled_conjugate(penalty, points, scale, weights), conjugate, rel_tol=1e-13)
    out = np.empty(points.size)
    scaled_prox(penalty, points, 0.7, scale, weights, out)
    prox = [s * penalty.prox(w / s, 0.7 / (s * s), c) for w, s, c in zip(points, scale, weights)]
    np.testing.assert_allclose(out, prox, rtol=1e-13)


def check_geometry(geometry: Any) -> None:
    """weights are the gradient of ψ*, ψ* is convex, the divergence is 0 at the start and obeys Fenchel–Young."""
    assert pickle.loads(pickle.dumps(geometry)) == geometry
    assert type(geometry).__doc__
    d = 3
    rng = np.random.default_rng(0)

    def at(theta: np.ndarray) -> LearnerState:
        state = Rule(resolve_loss("squared"), geometry, (0.1, 0.0), intercept=False).state(d)
        state.array("dual")[1:] = theta
        sum_masses(geometry, state)
        return state

    def weights(theta: np.ndarray) -> np.ndarray:
        return read_weights(geometry, at(theta))[1:]

    if not geometry.linked:
        theta = rng.normal(size=d)
        assert geometry.divergence(np.zeros(d)) == 0.0 and (weights(theta) == theta).all()
        return
    scale = getattr(geometry, "radius", 1.0)

    def conjugate(theta: np.ndarray) -> float:
        return scale * psi(geometry, at(theta))

    start = weights(np.zeros(d))
    assert math.isclose(geometry.divergence(start), 0.0, abs_tol=1e-9)
    for _ in range(5):
        theta, other = rng.normal(size=d), rng.normal(size=d)
        numeric = [(conjugate(theta + 1e-6 * e) - conjugate(theta - 1e-6 * e)) / 2e-6 for e in np.eye(d)]
        np.testing.assert_allclose(weights(theta), numeric, rtol=1e-5, atol=1e-7)
        middle = conjugate(0.5 * (theta + other))
        assert middle <= 0.5 * (conjugate(theta) + conjugate(other)) + 1e-12
        # B(u, w₁) = ψ(u) − θ₁·u + ψ*(θ₁) ≥ u·θ − ψ*(θ) + ψ*(0), with u = w(θ): equality
        u = weights(theta)
        lower = (float(u @ theta) - conjugate(theta) + conjugate(np.zeros(d))) / scale
        assert geometry.divergence(u) >= lower - 1e-9
