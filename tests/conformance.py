"""Checks by role: what every part that claims a role must satisfy. ``test_parts.py`` runs them over every part."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np

from trueline._jit import PLAIN, kernel
from trueline.objective.loss_interface import Loss, derivatives, evaluate
from trueline.objective.penalties import Penalty, scaled_conjugate, scaled_prox, scaled_value

SCORES = np.array([-3.1, -1.0, -0.4, 0.0, 0.3, 1.0, 2.7])
TARGETS = {"real": (-1.5, 0.0, 2.0), "sign": (-1.0, 1.0), "nonnegative": (0.0, 1.0, 3.0), "positive": (0.5, 2.0)}


@kernel
def loss_values(loss, scores, targets, out):
    for i in range(scores.size):
        for k in range(targets.size):
            s, y = scores[i], targets[k]
            out[i, k, 0] = loss.value(s, y)
            out[i, k, 1] = loss.slope(s, y)
            out[i, k, 2] = loss.curvature(s, y)
            out[i, k, 3] = loss.conjugate(loss.slope(s, y), y)
            out[i, k, 4] = loss.mean(s)


@kernel
def penalty_values(penalty, points, out):
    for i in range(points.size):
        out[i, 0] = penalty.value(points[i], 1.5)
        out[i, 1] = penalty.prox(points[i], 0.7, 1.5)
        out[i, 2] = penalty.conjugate(points[i], 1.5)


@kernel
def geometry_values(geometry, loss, points, out):
    for i in range(points.size):
        dual = points[i]
        out[i, 0] = geometry.weight(dual, 3.0, 0.5)
        out[i, 1] = geometry.mass(dual, 0.5)
        out[i, 2] = geometry.height(dual)
        out[i, 3] = geometry.step(0.3, 2.0)
        out[i, 4] = geometry.slope(loss, dual, 1.0, 0.6)
        out[i, 5], out[i, 6] = geometry.move(dual, 0.2, 0.5, 0.3)
        out[i, 7] = geometry.excess(loss, dual, 1.0, dual - 1.0, 2.0, 0.3, 1.0, 1.4)
        out[i, 8] = geometry.conjugate(3.0, 0.5)


def same_compiled(evaluate: Any, shape: tuple[int, ...], *arguments: Any) -> None:
    """Compiled and plain agree to 1e-12."""
    compiled, plain = np.zeros(shape), np.zeros(shape)
    evaluate(*arguments, compiled)
    evaluate.function(*arguments, plain) if not PLAIN else None
    if not PLAIN:
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-12)


def check_part(part: Any) -> None:
    """A NamedTuple of floats that survives a pickle and says what it is."""
    assert pickle.loads(pickle.dumps(part)) == part
    assert all(isinstance(value, float) or hasattr(value, "_fields") for value in part)
    assert type(part).__doc__


def check_loss(loss: Any) -> None:
    """Slope is the derivative, curvature its derivative, the loss is convex, Fenchel–Young holds and is tight."""
    check_part(loss)
    targets = np.array(TARGETS[type(loss).targets])
    if isinstance(loss, Loss):
        same_derivatives(loss, targets)
    else:
        same_compiled(loss_values, (len(SCORES), len(targets), 5), loss, SCORES, targets)
    h = 1e-6
    for y in targets:
        low, high = loss.slope_range(y)
        slopes = [loss.slope(s, y) for s in SCORES]
        assert all(a <= b + 1e-12 for a, b in itertools.pairwise(slopes)), "slopes must not fall: the loss is convex"
        for s, slope in zip(SCORES, slopes):
            left, right = (loss.value(s, y) - loss.value(s - h, y)) / h, (loss.value(s + h, y) - loss.value(s, y)) / h
            assert left - 1e-4 <= slope <= right + 1e-4, (loss, s, y)
            assert low - 1e-12 <= slope <= high + 1e-12
            if type(loss).smooth and abs(right - left) < 1e-4:
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
    if isinstance(penalty, Penalty):
        same_sums(penalty, points)
    else:
        same_compiled(penalty_values, (len(points), 3), penalty, points)
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


def check_geometry(geometry: Any, loss: Any) -> None:
    """weights are the gradient of ψ*, ψ* is convex, the divergence is 0 at the start and obeys Fenchel–Young."""
    check_part(geometry)
    points = np.array([-2.0, -0.3, 0.0, 0.4, 1.7])
    same_compiled(geometry_values, (len(points), 9), geometry, loss, points)
    d = 3
    rng = np.random.default_rng(0)
    if not getattr(type(geometry), "linked", False):
        assert geometry.divergence(np.zeros(d)) == 0.0
        assert all(geometry.weight(p, 1.0, 0.0) == p for p in points)
        return
    scale = getattr(geometry, "radius", 1.0)

    def conjugate(theta: np.ndarray) -> float:
        return scale * geometry.conjugate(sum(geometry.mass(t, 0.7) for t in theta), 0.7)

    def weights(theta: np.ndarray) -> np.ndarray:
        total = sum(geometry.mass(t, 0.7) for t in theta)
        return np.array([geometry.weight(t, total, 0.7) for t in theta])

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
