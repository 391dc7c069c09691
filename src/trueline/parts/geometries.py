"""Geometries: how a gradient moves the weights. w_{t+1} minimises η·V(y_t, w·x_t) + distance(w, w_t).

The engine keeps dual weights θ. Where distance is squared Euclidean, w = θ; otherwise w = ∇ψ*(θ), which may couple
the coordinates through one total. ``roles.Geometry`` says what each method means; ``roles.Mirror`` is the short form
for users: four methods, wrapped by :class:`Mirrored`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._jit import kernel
from .door import part


@kernel
def implicit_slope(loss: Any, score: float, y: float, gain: float) -> float:
    """The a with a = V'(score − gain·a): between 0 and V'(score), found by safeguarded regula falsi.

    a − V'(score − gain·a) never decreases in a, so the root is bracketed; at a kink of V the bracket closes on the
    subgradient. For squared loss the first secant is exact.
    """
    far = loss.slope(score, y)
    if gain == 0.0 or far == 0.0:
        return far
    near = 0.0
    value_near = -far
    value_far = far - loss.slope(score - gain * far, y)
    if value_far == 0.0:
        return far
    root = near
    kept = 0
    for trial in range(200):
        if trial % 3 == 2:
            root = 0.5 * (near + far)
        else:
            root = near - value_near * (far - near) / (value_far - value_near)
        if not (min(near, far) < root < max(near, far)):
            root = 0.5 * (near + far)
        value = root - loss.slope(score - gain * root, y)
        if abs(value) <= 4e-16 * abs(root) or abs(far - near) <= 4e-16 * abs(root):
            break
        if (value > 0.0) == (value_far > 0.0):
            far, value_far = root, value
            if kept == 1:
                value_near *= 0.5
            kept = 1
        else:
            near, value_near = root, value
            if kept == 2:
                value_far *= 0.5
            kept = 2
    return root


class Additive(NamedTuple):
    """Squared Euclidean distance: w ← w − η V'(y, s) x. Widrow–Hoff for squared loss."""

    unit: float = 1.0
    name = "additive"

    def weight(self, dual, total, shift):
        return dual

    def mass(self, dual, shift):
        return 0.0

    def height(self, dual):
        return 0.0

    def step(self, rate, norm2):
        return rate

    def slope(self, loss, score, y, gain):
        return loss.slope(score, y)

    def move(self, dual, memory, gradient, step):
        return dual - step * gradient, memory

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return 0.5 * step * slope * slope * norm2

    def conjugate(self, total, shift):
        return 0.0

    def divergence(self, u):
        return 0.5 * float(np.dot(u, u))


class Normalised(NamedTuple):
    """Additive with the step η/(epsilon + ‖x‖²): blind to the scale of a row."""

    epsilon: float = 1e-8
    name = "normalised"
    normed = True
    weight, mass, height, slope = Additive.weight, Additive.mass, Additive.height, Additive.slope
    move, excess, conjugate, divergence = Additive.move, Additive.excess, Additive.conjugate, Additive.divergence

    def step(self, rate, norm2):
        return rate / (self.epsilon + norm2)


class Implicit(NamedTuple):
    """Solve for the next weights: w ← w − η V'(y, w_next·x) x. Stable at every rate."""

    unit: float = 1.0
    name = "implicit"
    normed = True
    weight, mass, height, step = Additive.weight, Additive.mass, Additive.height, Additive.step
    move, conjugate, divergence = Additive.move, Additive.conjugate, Additive.divergence

    def slope(self, loss, score, y, gain):
        return implicit_slope(loss, score, y, gain)

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        fallen = loss.value(score, y) - loss.value(score - step * slope * norm2, y)
        return fallen - 0.5 * step * slope * slope * norm2


class Adaptive(NamedTuple):
    """AdaGrad: each coordinate's step is η/√(epsilon + the sum of its squared gradients)."""

    epsilon: float = 1e-12
    name = "adaptive"
    adaptive = True
    weight, mass, height, step = Additive.weight, Additive.mass, Additive.height, Additive.step
    slope, conjugate, divergence = Additive.slope, Additive.conjugate, Additive.divergence

    def move(self, dual, memory, gradient, step):
        memory += gradient * gradient
        return dual - step * gradient / math.sqrt(self.epsilon + memory), memory

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return 0.0  # its bound comes from the memories and the range of each weight, at the end


class Multiplicative(NamedTuple):
    """Relative entropy on the simplex: exponentiated gradient, w_i ∝ w_i exp(−η V' x_i), w₁ uniform."""

    unit: float = 1.0
    name = "multiplicative"
    linked = True
    step, slope, move = Additive.step, Additive.slope, Additive.move

    def weight(self, dual, total, shift):
        return math.exp(dual - shift) / total

    def mass(self, dual, shift):
        return math.exp(dual - shift)

    def height(self, dual):
        return dual

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return mirror_excess(score, slope, step, before, after)

    def conjugate(self, total, shift):
        return math.log(total) + shift

    def divergence(self, u):
        u = np.asarray(u, dtype=float)
        if u.min(initial=0.0) < -1e-12 or abs(u.sum() - 1.0) > 1e-9:
            return math.inf
        inside = u[u > 0.0]
        return max(0.0, float(np.sum(inside * np.log(inside))) + math.log(len(u)))


class SignedMultiplicative(NamedTuple):
    """EG±: exponentiated gradient on (Ux, −Ux), so that weights have signs and ‖w‖₁ ≤ U = ``radius``.

    With one dual θ_j for each pair, w_j = U·(exp θ_j − exp −θ_j)/Σ_i(exp θ_i + exp −θ_i); θ moves by η·U·V'·x.
    """

    radius: float = 1.0
    name = "signed"
    linked = True
    step, slope = Additive.step, Additive.slope
    excess, conjugate = Multiplicative.excess, Multiplicative.conjugate

    def weight(self, dual, total, shift):
        return self.radius * (math.exp(dual - shift) - math.exp(-dual - shift)) / total

    def mass(self, dual, shift):
        return math.exp(dual - shift) + math.exp(-dual - shift)

    def height(self, dual):
        return abs(dual)

    def move(self, dual, memory, gradient, step):
        return dual - step * self.radius * gradient, memory

    def divergence(self, u):
        """RE of the best split of u/U over the 2d corners: slack goes to both signs, spread evenly over log-space."""
        u = np.abs(np.asarray(u, dtype=float)) / self.radius
        slack = 1.0 - u.sum()
        if slack < -1e-9:
            return math.inf
        share = 0.5 * max(0.0, slack) / len(u)
        both = np.concatenate([u + share, np.full(len(u), share)])
        inside = both[both > 0.0]
        return max(0.0, float(np.sum(inside * np.log(inside))) + math.log(2 * len(u)))


@kernel
def mirror_excess(score: float, slope: float, step: float, before: float, after: float) -> float:
    """g·w_t + (ψ*(θ_{t+1}) − ψ*(θ_t))/step: what the bracket of the universal bound comes to in dual terms."""
    return max(0.0, slope * score + (after - before) / step) if step > 0.0 else 0.0


class Mirrored(NamedTuple):
    """A user's mirror map (``roles.Mirror``) with the plain dual step."""

    map: Any
    name = "mirrored"
    linked = True
    step, slope, move = Additive.step, Additive.slope, Additive.move
    excess = Multiplicative.excess

    def weight(self, dual, total, shift):
        return self.map.weight(dual, total)

    def mass(self, dual, shift):
        return self.map.mass(dual)

    def height(self, dual):
        return 0.0

    def conjugate(self, total, shift):
        return self.map.conjugate(total)

    def divergence(self, u):
        return float(self.map.divergence(u))


GEOMETRIES: dict[str, Any] = {
    cls.name: cls for cls in (Additive, Normalised, Implicit, Adaptive, Multiplicative, SignedMultiplicative)
}
NEEDED_MIRROR = ("weight", "mass", "conjugate", "divergence")
NEEDED = (*NEEDED_MIRROR, "height", "step", "slope", "move", "excess")


def geometry(given: Any, **fields: float) -> Any:
    """The geometry of this name, or the given part (a whole geometry, or a mirror map), ready for compiled code.

    >>> geometry("signed", radius=4)
    SignedMultiplicative(radius=4.0)
    """
    whole = isinstance(given, str) or hasattr(given, "move")
    made = part(given, GEOMETRIES, "geometry", NEEDED if whole else NEEDED_MIRROR, fields)
    return made if whole else part(Mirrored(made), GEOMETRIES, "geometry", NEEDED, {})
