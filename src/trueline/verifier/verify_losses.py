"""The verifier's own formulas of the losses, each with its targets.

A loss V of a row's score s has a least value over all scores. Everything is measured from there (``excess``), as sums
of terms that are not negative, so that nothing cancels: counts of a million, or targets that are fitted exactly.
``divergence`` is V(s) − V(t) − V′(t)·(s − t), which is also V(s) + V*(a) − a·s at the slope a = V′(t), V* the convex
conjugate: what a row adds to a duality gap (Fenchel and Young).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import DataError, ModelError
from .stated_claims import Rows

COUNTS = ("poisson", "gamma", "tweedie")
SIGNS = ("logistic", "squared_hinge", "hinge", "perceptron")


def exp_remainder(x: Rows) -> Rows:
    """e^x − 1 − x, to its last digits however small x is."""
    small = np.clip(x, -0.1, 0.1)
    series = small / 11.0
    for k in range(10, 2, -1):
        series = (1.0 + series) * small / k
    return np.where(np.abs(x) < 0.1, 0.5 * small * small * (1.0 + series), np.expm1(x) - x)


class Loss:
    """A loss with its targets; ``of_residual`` says that it depends on s − y alone."""

    of_residual = False
    kinked = False
    most_curved = math.inf  # the most that the loss curves at any score
    self_bounded = False  # |V‴| ≤ V″

    def __init__(self, y: Rows, field: float = 0.0) -> None:
        self.y, self.field = y, field
        self.least = np.zeros(len(y))

    def excess(self, s: Rows) -> Rows:
        """V(s) less its least value, a row each."""
        raise NotImplementedError

    def slope(self, s: Rows) -> Rows:
        raise NotImplementedError

    def curvature(self, s: Rows) -> Rows:
        raise NotImplementedError

    def steepness(self, s: Rows) -> Rows:
        """At most what the loss changes by as its score does, also at a score that rounding moved across a corner."""
        return np.abs(self.slope(s))

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        """V(s) − V(t) − slope·(s − t), slope that of t."""
        return np.maximum(self.excess(s) - self.excess(t) - _by_row(slope * (s - t)), 0.0)

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        """What rounding can make of it."""
        return 4.0 * np.finfo(float).eps * (self.excess(s) + self.excess(t) + _by_row(np.abs(slope * (s - t))))

    def smoothed(self, mu: float) -> Loss:
        """The loss itself, or where it has corners one that is rounded off, at a cost of about 2μ."""
        return self

    def best_constant(self, weights: Rows) -> float:
        """The least of Σ weights·excess over one score for all rows, by halving where its slope changes sign."""
        low, high = self.constants()
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            rising = float(weights @ self.slope(np.full(len(self.y), middle))) > 0.0
            low, high = (low, middle) if rising else (middle, high)
        return min(float(weights @ self.excess(np.full(len(self.y), at))) for at in (low, high))

    def has_best_constant(self) -> bool:
        """Whether some finite score is the best one for all rows."""
        return True

    def constants(self) -> tuple[float, float]:
        """Two scores between which the best constant lies."""
        return float(self.y.min()), float(self.y.max())


def _by_row(terms: Rows) -> Rows:
    return terms if terms.ndim == 1 else terms.sum(axis=1)


class Squared(Loss):
    """½(s − y)²."""

    of_residual, most_curved = True, 1.0

    def excess(self, s: Rows) -> Rows:
        return 0.5 * (s - self.y) ** 2

    def slope(self, s: Rows) -> Rows:
        return s - self.y

    def curvature(self, s: Rows) -> Rows:
        return np.ones(len(s))

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return 0.5 * (s - t) ** 2

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return 4.0 * np.finfo(float).eps * (s - t) ** 2

    def best_constant(self, weights: Rows) -> float:
        mean = float(weights @ self.y) / float(weights.sum())
        return float(weights @ self.excess(np.full(len(self.y), mean)))


class Huber(Loss):
    """½r² up to |r| = delta, then delta·(|r| − ½delta)."""

    of_residual, most_curved = True, 1.0

    def excess(self, s: Rows) -> Rows:
        r = np.abs(s - self.y)
        return np.where(r <= self.field, 0.5 * r * r, self.field * (r - 0.5 * self.field))

    def slope(self, s: Rows) -> Rows:
        return np.clip(s - self.y, -self.field, self.field)

    def curvature(self, s: Rows) -> Rows:
        return 1.0 * (np.abs(s - self.y) <= self.field)

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        # V*(a) = ½a² + a·y: the square of what r is beyond a, or delta times how far it is beyond delta
        r, delta = s - self.y, self.field
        within = np.clip(r, -delta, delta)
        return 0.5 * (within - slope) ** 2 + np.maximum((r - within) * (within - slope), 0.0)

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return 8.0 * np.finfo(float).eps * self.divergence(s, t, slope)


class Power(Loss):
    """|s − y|^p / p for p > 1."""

    of_residual = True

    def excess(self, s: Rows) -> Rows:
        return np.abs(s - self.y) ** self.field / self.field

    def slope(self, s: Rows) -> Rows:
        r = s - self.y
        return np.sign(r) * np.abs(r) ** (self.field - 1.0)

    def curvature(self, s: Rows) -> Rows:
        r = np.abs(s - self.y)
        away = np.maximum(r, 1e-6 * float(r.max(initial=0.0)) + 1e-300)  # near 0 it vanishes or has no bound
        return (self.field - 1.0) * away ** (self.field - 2.0)


class Logistic(Loss):
    """ln(1 + e^−m), m = y·s, y = ±1."""

    most_curved, self_bounded = 0.25, True

    def excess(self, s: Rows) -> Rows:
        return np.logaddexp(0.0, -self.y * s)

    def slope(self, s: Rows) -> Rows:
        return -self.y * np.exp(-np.logaddexp(0.0, self.y * s))

    def curvature(self, s: Rows) -> Rows:
        wrong = np.exp(-np.logaddexp(0.0, self.y * s))
        return wrong * (1.0 - wrong)

    def best_constant(self, weights: Rows) -> float:
        total, share = float(weights.sum()), float(weights[self.y > 0].sum())
        return total * _entropy(np.array([share, total - share]) / total)

    def has_best_constant(self) -> bool:
        return bool((self.y > 0.0).any() and (self.y < 0.0).any())


class SquaredHinge(Loss):
    """max(0, 1 − m)², m = y·s, y = ±1."""

    most_curved = 2.0

    def excess(self, s: Rows) -> Rows:
        return np.maximum(0.0, 1.0 - self.y * s) ** 2

    def slope(self, s: Rows) -> Rows:
        return -2.0 * self.y * np.maximum(0.0, 1.0 - self.y * s)

    def curvature(self, s: Rows) -> Rows:
        return 2.0 * (self.y * s < 1.0)

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        # V*(a) = c + ¼c², c = a·y ≤ 0: with b = −½c it is (v − b)² where v = 1 − m, and 2b·|v| more where v < 0
        v, b = 1.0 - self.y * s, -0.5 * slope * self.y
        return (np.maximum(v, 0.0) - b) ** 2 + 2.0 * b * np.maximum(-v, 0.0)

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return 8.0 * np.finfo(float).eps * self.divergence(s, t, slope)


class LogMean(Loss):
    """Poisson, Gamma and Tweedie: the score is the logarithm of the mean, the variance the mean to the power p.

    V = e^((2 − p)s)/(2 − p) + y·e^((1 − p)s)/(p − 1), where a part with a division by 0 is s or −y·s; least at s = ln y.
    """

    self_bounded = True

    def __init__(self, y: Rows, field: float) -> None:
        super().__init__(y, field)
        p, self.some = field, y > 0.0
        self.log_y = np.log(np.where(self.some, y, 1.0))
        least = _part(np.exp((2 - p) * self.log_y), 2 - p, self.log_y)
        least = least + _part(y * np.exp((1 - p) * self.log_y), p - 1, -y * self.log_y)
        self.least = np.where(self.some, least, 0.0)

    def excess(self, s: Rows) -> Rows:
        nothing = _part(np.exp((2 - self.field) * s), 2 - self.field, s)
        return np.where(self.some, self._remainders(s, self.log_y), nothing)

    def slope(self, s: Rows) -> Rows:
        return np.exp((2 - self.field) * s) - self.y * np.exp((1 - self.field) * s)

    def curvature(self, s: Rows) -> Rows:
        p = self.field
        return (2 - p) * np.exp((2 - p) * s) + (p - 1) * self.y * np.exp((1 - p) * s)

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return self._remainders(s, t)

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        return 16.0 * np.finfo(float).eps * self._remainders(s, t)

    def _remainders(self, s: Rows, t: Rows) -> Rows:
        p = self.field
        found = np.zeros(len(t))
        for power, size in ((2 - p, 1.0), (1 - p, self.y)):
            if power != 0.0:
                found = found + size * np.exp(power * t) * exp_remainder(power * (s - t)) / abs(power)
        return found

    def best_constant(self, weights: Rows) -> float:
        mean = float(weights @ self.y) / float(weights.sum())
        if mean <= 0.0:
            return 0.0
        return float(weights @ self.excess(np.full(len(self.y), math.log(mean))))

    def has_best_constant(self) -> bool:
        return bool(self.some.any())


def _part(value: Rows, divisor: float, instead: Rows) -> Rows:
    return value / divisor if divisor != 0.0 else instead


class Kinked(Loss):
    """max over a in [low, high] of a·(s − corner) − width·|a|: absolute, quantile, ε-insensitive, hinge, perceptron."""

    kinked = True

    def __init__(self, y: Rows, corner: Rows, low: Rows, high: Rows, width: float, of_residual: bool) -> None:
        super().__init__(y)
        self.corner, self.low, self.high, self.width, self.of_residual = corner, low, high, width, of_residual

    def beyond(self, s: Rows) -> Rows:
        """How far the score is from the corner, or from the nearer of two."""
        r = s - self.corner
        return np.sign(r) * np.maximum(np.abs(r) - self.width, 0.0) if self.width else r

    def excess(self, s: Rows) -> Rows:
        r = self.beyond(s)
        return np.maximum(self.low * r, self.high * r)

    def slope(self, s: Rows) -> Rows:
        r = self.beyond(s)
        return np.where(r > 0.0, self.high, np.where(r < 0.0, self.low, 0.0))

    def curvature(self, s: Rows) -> Rows:
        return np.zeros(len(s))

    def steepness(self, s: Rows) -> Rows:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def divergence(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        """V(s) + V*(slope) − slope·s for any slope of the range: V* is slope·corner + width·|slope| there."""
        return np.maximum(self.excess(s) + self.width * np.abs(slope) - slope * (s - self.corner), 0.0)

    def divergence_rounding(self, s: Rows, t: Rows, slope: Rows) -> Rows:
        sizes = self.width * np.abs(slope) + np.abs(slope * (s - self.corner))
        return 4.0 * np.finfo(float).eps * (self.excess(s) + sizes)

    def smoothed(self, mu: float) -> Loss:
        return Rounded(self, mu)

    def constants(self) -> tuple[float, float]:
        return float(self.corner.min()) - self.width, float(self.corner.max()) + self.width


class Rounded(Loss):
    """A loss with corners, each rounded off (``round_corner``). Its slopes stay in the range."""

    def __init__(self, sharp: Kinked, mu: float) -> None:
        super().__init__(sharp.y)
        self.mu, middle, half = mu, 0.5 * (sharp.low + sharp.high), 0.5 * (sharp.high - sharp.low)
        self.corners = [(sharp.corner, middle, half)]
        if sharp.width:  # a corner on either side, of half the range each
            self.corners = [(sharp.corner + side * sharp.width, side * 0.5 * half, 0.5 * half) for side in (-1.0, 1.0)]

    def excess(self, s: Rows) -> Rows:
        parts = [middle * (s - at) + round_corner(s - at, half, self.mu)[0] for at, middle, half in self.corners]
        return sum(parts[1:], parts[0])

    def slope(self, s: Rows) -> Rows:
        parts = [middle + round_corner(s - at, half, self.mu)[1] for at, middle, half in self.corners]
        return sum(parts[1:], parts[0])

    def curvature(self, s: Rows) -> Rows:
        parts = [round_corner(s - at, half, self.mu)[2] for at, _, half in self.corners]
        return sum(parts[1:], parts[0])


def round_corner(r: Any, half: Any, mu: float) -> tuple[Any, Any, Any]:
    """Value, slope and curvature of max over |a| < half of a·r + μ·ln(1 − (a/half)²): half·|r| with its corner rounded off.

    Interior point's barrier. With q = half·r/μ = tan θ the slope is half·tan(θ/2); the value is less by 2μ at most, up to
    a logarithm.
    """
    q = r * half / mu
    root = np.hypot(1.0, q)
    share = q / (1.0 + root)
    value = half * share * r - mu * np.log1p(0.5 * (root - 1.0))
    return value, half * share, half * half / mu * 0.5 * (1.0 + share * share) / (root * root)


class Softmax(Loss):
    """ln Σ e^s − s of the row's own class: a score a class; y numbers the classes."""

    most_curved, self_bounded = 0.5, True

    def __init__(self, y: Rows, classes: int) -> None:
        super().__init__(y)
        self.own = np.arange(classes) == y[:, None]

    def excess(self, s: Rows) -> Rows:
        low = s - s.max(axis=1, keepdims=True)
        own = low[self.own]
        others = np.where(self.own, 0.0, np.exp(low)).sum(axis=1)
        return np.where(own == 0.0, np.log1p(others), np.log(others + np.exp(own)) - own)  # to the last digit near 0

    def probabilities(self, s: Rows) -> Rows:
        raised = np.exp(s - s.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    def slope(self, s: Rows) -> Rows:
        p = self.probabilities(s)
        return np.where(self.own, -np.where(self.own, 0.0, p).sum(axis=1, keepdims=True), p)  # p − 1 would cancel

    def best_constant(self, weights: Rows) -> float:
        total = float(weights.sum())
        return total * _entropy(weights @ self.own / total)

    def has_best_constant(self) -> bool:
        return bool(self.own.any(axis=0).all())


def _entropy(shares: Rows) -> float:
    return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def make_loss(name: str, fields: Any, y: Rows, classes: int = 0) -> Loss:
    """The loss of this name with its targets; a field that is out of its range is refused."""
    field = _field(name, [float(value) for value in fields])
    if name in SIGNS and not (np.abs(y) == 1.0).all():
        raise DataError(f"the loss {name!r} takes two classes; give the rows with their labels", where="y")
    if name in COUNTS and not ((y > 0.0) if name == "gamma" else (y >= 0.0)).all():
        row = int(np.argmax(y <= 0.0 if name == "gamma" else y < 0.0))
        raise DataError(f"y is {y[row]:g} in row {row}, which the loss {name!r} does not take", where="y")
    return Softmax(y, classes) if name == "softmax" else _build(name, field, y)


def _build(name: str, field: float, y: Rows) -> Loss:
    if name in COUNTS:
        return LogMean(y, {"poisson": 1.0, "gamma": 2.0}.get(name, field))
    corner = _corner(name, field, y)
    return corner if corner is not None else _SMOOTH[name](y, field)


_SMOOTH: dict[str, Any] = {
    "squared": Squared, "huber": Huber, "logistic": Logistic, "squared_hinge": SquaredHinge, "power": Power,
}  # fmt: skip


def _corner(name: str, field: float, y: Rows) -> Kinked | None:
    one = np.ones(len(y))
    if name == "absolute" or (name == "power" and field == 1.0):
        return Kinked(y, y, -one, one, 0.0, True)
    if name == "quantile":
        return Kinked(y, y, -field * one, (1.0 - field) * one, 0.0, True)
    if name == "epsilon_insensitive":
        return Kinked(y, y, -one, one, field, True)
    if name in ("hinge", "perceptron"):  # the corner of m = y·s at 1 is at s = y
        return Kinked(y, y if name == "hinge" else 0.0 * y, np.minimum(-y, 0.0), np.maximum(-y, 0.0), 0.0, False)
    return None


_RANGES: dict[str, tuple[Any, str]] = {
    "huber": (lambda v: v > 0.0, "delta is positive"),
    "quantile": (lambda v: 0.0 < v < 1.0, "the quantile lies between 0 and 1"),
    "epsilon_insensitive": (lambda v: v >= 0.0, "epsilon is 0 or more"),
    "power": (lambda v: v >= 1.0, "the power is 1 or more"),
    "tweedie": (lambda v: 1.0 < v < 2.0, "the power lies between 1 and 2"),
}
_WITHOUT_FIELD = (
    "squared",
    "absolute",
    "logistic",
    "hinge",
    "squared_hinge",
    "perceptron",
    "poisson",
    "gamma",
    "softmax",
)


def _field(name: str, fields: list[float]) -> float:
    if name not in _RANGES and name not in _WITHOUT_FIELD:
        raise NotImplementedError(f"the loss {name!r}")
    if len(fields) != 1 and not (name in _WITHOUT_FIELD and not fields):
        raise ModelError(f"the loss {name!r} has {len(fields)} fields in the model; it takes one", where="loss_fields")
    field = fields[0] if fields else 1.0
    legal, range_ = _RANGES.get(name, (lambda value: value == 1.0, "it has no field but a unit of 1"))
    if not (math.isfinite(field) and legal(field)):
        raise ModelError(f"the field of the loss {name!r} is {field:g} in the model; {range_}", where="loss_fields")
    return field


def loss_of(name: str, f: float, s: Rows, y: Rows) -> tuple[Rows, Rows, Rows]:
    """Value, slope and curvature of each row's loss in s, f its parameter."""
    loss = _build(name, f, y)
    if name == "perceptron":  # a score of 0 counts as a mistake, so that w = 0 moves
        return loss.excess(s), np.where(y * s <= 0.0, -y, 0.0), np.zeros(len(s))
    return loss.excess(s) + loss.least, loss.slope(s), loss.curvature(s)
