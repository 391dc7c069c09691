"""What fixed weights would have lost: the loss of stated ones, and the verifier's own search for better ones.

Free weights: least squares on centred columns of length 1, or Newton's steps (losses with a corner are rounded off, less
and less). Weights of exponentiated gradient: projected gradient on the simplex or the ball of the 1-norm. Any weights
found refute a "best fixed loss" above theirs; none proves more than that.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .learner_replay import EPS, KINKED, LINKED, losses_at
from .stated_claims import Rows, Rule

LEAST_DAMPING = 1e-12  # of a matrix with a diagonal of 1


class Stream(NamedTuple):
    """The rows as one weight vector met them: design with the constant first, targets, and each loss's weight."""

    rule: Rule
    Z: Rows
    t: Rows
    shares: Rows

    @property
    def first(self) -> int:
        """The first coordinate in use."""
        return 0 if self.rule.has_intercept else 1

    def loss(self, scores: Rows) -> float:
        """Σ share·V, squares without the half."""
        return self.rule.unit * float(self.shares @ losses_at(self.rule, scores, self.t)[0])


class Fixed(NamedTuple):
    """Fixed weights, what they lose on the rows, and how far rounding may have moved that."""

    loss: float
    room: float


def loss_of_fixed(stream: Stream, u: Rows) -> Fixed:
    """Σ share·V(t, u·z), with the rounding of the scores carried into it, and of moments that others sum instead."""
    scores, sizes = stream.Z @ u, np.abs(stream.Z) @ np.abs(u)
    blur = (len(u) + 4) * EPS * sizes
    values = losses_at(stream.rule, scores, stream.t)[0]
    beside = [np.abs(losses_at(stream.rule, scores + side * blur, stream.t)[0] - values) for side in (-1.0, 1.0)]
    unit, shares = stream.rule.unit, stream.shares
    room = float(shares @ np.maximum(*beside)) + 4.0 * (len(values) + 4) * EPS * float(shares @ np.abs(values))
    if stream.rule.loss == "squared":
        room += 4.0 * (len(u) + 2) * EPS * float(shares @ (np.abs(stream.t) + sizes) ** 2)
    return Fixed(unit * float(shares @ values), unit * room)


def is_allowed(stream: Stream, u: Rows) -> bool:
    """Whether these weights are ones that the geometry compares itself with."""
    if not np.isfinite(u).all() or (stream.first and u[0] != 0.0):
        return False
    used = u[stream.first :]
    if stream.rule.geometry == "multiplicative":
        return bool(used.min(initial=0.0) >= -1e-12 and abs(used.sum() - 1.0) <= 1e-9)
    if stream.rule.geometry == "signed":
        return bool(np.abs(used).sum() <= stream.rule.parameter * (1.0 + 1e-9))
    return True


def least_loss(stream: Stream, starts: list[Rows]) -> Fixed:
    """The least loss of fixed weights that the verifier finds, from these starts and of its own."""
    if stream.rule.geometry in LINKED:
        return min(_projected(stream, start) for start in starts)
    A, back = _centred(stream)
    if A.shape[1] == 0:
        return Fixed(stream.loss(np.zeros(len(A))), 0.0)
    if stream.rule.loss == "squared":
        return _least_squares(stream, A)
    found = [Fixed(stream.loss(stream.Z @ start), 0.0) for start in starts]
    widths = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6) if stream.rule.loss in KINKED else (0.0,)
    for start in [np.zeros(A.shape[1]), *(back(start) for start in starts)]:
        v, typical = start, 1.0 + float(np.abs(stream.t - np.median(stream.t)).mean())
        for width in widths:
            v = newton(stream, A, v, np.zeros(A.shape[1]), v, width * typical)
            sizes = (A.shape[1] + 4) * EPS * (np.abs(A) @ np.abs(v))
            value = stream.loss(A @ v)
            beside = max(abs(stream.loss(A @ v + side * sizes) - value) for side in (-1.0, 1.0))
            found.append(Fixed(value, 2.0 * beside + 8.0 * len(A) * EPS * abs(value)))
    return min(one for one in found if math.isfinite(one.loss))


def _centred(stream: Stream) -> tuple[Rows, Any]:
    """Columns less their means where there is a constant, each of length 1; and the same scores' weights there."""
    Z, first = stream.Z[:, stream.first :], stream.first
    total = float(stream.shares.sum())
    centre = np.zeros(Z.shape[1])
    if stream.rule.has_intercept and total > 0.0:
        centre[1:] = stream.shares @ Z[:, 1:] / total
    A = Z - centre
    size = np.sqrt((A**2).sum(axis=0) / max(1, len(A)))
    size[size == 0.0] = 1.0

    def back(u: Rows) -> Rows:
        v = u[first:] * size
        if stream.rule.has_intercept:
            v[0] = size[0] * (u[0] + float(centre[1:] @ u[1:]))
        return v

    return A / size, back


def _least_squares(stream: Stream, A: Rows) -> Fixed:
    """Least squares by orthogonal factors, once more on what is left over; weak directions may stay out."""
    root = np.sqrt(stream.shares)
    rows, left = A * root[:, None], stream.t * root
    sizes = np.abs(left)
    for _ in range(2):
        v = np.linalg.lstsq(rows, left, rcond=None)[0]
        sizes = sizes + np.abs(rows) @ np.abs(v)
        left = left - rows @ v
    blur = (A.shape[1] + 4) * EPS * sizes
    return Fixed(float(left @ left), float((2.0 * np.abs(left) * blur + blur**2).sum()))


def newton(
    stream: Stream, A: Rows, v: Rows, ridge: Rows, centre: Rows, width: float = 0.0, least_gain: float = 4.0 * EPS
) -> Rows:
    """Damped Newton steps for Σ share·V(t, A v) + ½Σ ridge·(v − centre)²; a corner of V is rounded off to ``width``.

    They end when one gains no more than this share of the total.
    """

    def look(at: Rows) -> tuple[float, Rows, Rows]:
        value, slope, curved = _rounded(stream, A @ at, width)
        total = float(stream.shares @ value) + 0.5 * float(ridge @ (at - centre) ** 2)
        return total, A.T @ (stream.shares * slope) + ridge * (at - centre), stream.shares * curved

    with np.errstate(all="ignore"):
        now, gradient, curved = look(v)
        damping = 1e-9
        for _ in range(100):
            H = (A.T * curved) @ A + np.diag(ridge)
            scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-12 * max(float(H.diagonal().max()), 1e-300)))
            H = H * scale * scale[:, None] + damping * np.eye(len(v))
            try:
                step = scale * np.linalg.solve(H, -scale * gradient)
            except np.linalg.LinAlgError:
                break
            promised = -float(gradient @ step) * max(1.0, damping / LEAST_DAMPING)  # more in directions held back
            if promised <= least_gain * abs(now):
                break
            length, better = 1.0, False
            for _ in range(30):
                then = look(v + length * step)
                better = then[0] < now
                if better:
                    break
                length *= 0.5
            if not better and damping >= 1.0:
                break
            damping = max(LEAST_DAMPING, 0.1 * damping) if better and length == 1.0 else min(1e3, 100.0 * damping)
            if better:
                fallen, v = now - then[0], v + length * step
                now, gradient, curved = then
                if fallen <= least_gain * abs(now):
                    break
    return v


def _rounded(stream: Stream, scores: Rows, width: float) -> tuple[Rows, Rows, Rows]:
    """Value, slope and curvature; near a corner a parabola of this width stands in for the loss (Moreau's envelope)."""
    value, slope, curved = losses_at(stream.rule, scores, stream.t)
    if width == 0.0:
        return value, slope, curved
    left = losses_at(stream.rule, scores - width, stream.t)
    right = losses_at(stream.rule, scores + width, stream.t)
    middle = 0.25 * (left[0] + right[0]) + 0.5 * value
    return middle, 0.25 * (left[1] + right[1]) + 0.5 * slope, (right[1] - left[1]) / (2.0 * width)


def _projected(stream: Stream, u: Rows) -> Fixed:
    """Accelerated projected gradient on the simplex, or on the ball of the 1-norm (Beck and Teboulle, 2009)."""
    first, radius = stream.first, stream.rule.parameter
    project = onto_simplex if stream.rule.geometry == "multiplicative" else lambda v: onto_ball(v, radius)
    A = stream.Z[:, first:]

    def look(v: Rows) -> tuple[float, Rows]:
        value, slope, _ = losses_at(stream.rule, A @ v, stream.t)
        return float(stream.shares @ value), A.T @ (stream.shares * slope)

    v = project(u[first:])
    ahead, momentum, length = v, 1.0, None
    best = stream.loss(A @ v)
    with np.errstate(all="ignore"):
        for _ in range(300):
            now, gradient = look(ahead)
            size = float(np.abs(gradient).max(initial=0.0))
            if not (math.isfinite(now) and size > 0.0):
                break
            length = (1.0 / size) if length is None else 2.0 * length
            for _ in range(60):
                new = project(ahead - length * gradient)
                move = new - ahead
                if look(new)[0] <= now + float(gradient @ move) + 0.5 / length * float(move @ move):
                    break
                length *= 0.5
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            value = stream.loss(A @ new)
            if value < best:
                best, ahead, momentum = value, new + (momentum - 1.0) / grown * (new - v), grown
                v = new
            else:
                if momentum == 1.0:
                    break
                ahead, momentum = v, 1.0
    u = np.zeros(stream.Z.shape[1])
    u[first:] = v
    return loss_of_fixed(stream, u)


def near_the_start(stream: Stream, start: Rows, weight: float) -> Rows:
    """The u of least Σ share·V + weight·RE(u‖start) that multiplicative steps find: a comparator for a bound."""
    first, signed, radius = stream.first, stream.rule.geometry == "signed", stream.rule.parameter
    A = stream.Z[:, first:]
    d = A.shape[1]
    v = np.full(2 * d if signed else d, 1.0 / (2 * d if signed else d))

    def weights(v: Rows) -> Rows:
        return radius * (v[:d] - v[d:]) if signed else v

    def look(v: Rows) -> tuple[float, Rows]:
        value, slope, _ = losses_at(stream.rule, A @ weights(v), stream.t)
        pull = A.T @ (stream.shares * slope)
        inside, logs = v > 0.0, np.log(np.maximum(v, 1e-300))
        total = float(stream.shares @ value) + weight * float(v[inside] @ logs[inside])
        return total, (radius * np.concatenate([pull, -pull]) if signed else pull) + weight * logs

    now, gradient = look(v)
    step = 1.0 / max(float(np.ptp(gradient)), 1e-300)
    for _ in range(300):
        for _ in range(40):
            new = v * np.exp(-step * (gradient - gradient[v > 0.0].min(initial=math.inf)))
            new = new / new.sum()
            then, ahead = look(new)
            if then <= now:
                break
            step *= 0.5
        if not then <= now:
            break
        fallen, v, now, gradient = now - then, new, then, ahead
        if fallen <= 1e-12 * abs(now):
            break
        step *= 2.0
    u = np.zeros(stream.Z.shape[1])
    u[first:] = weights(v)
    return u


def onto_simplex(v: Rows) -> Rows:
    """The nearest weights that are not negative and sum to 1."""
    down = np.sort(v)[::-1]
    cut = (np.cumsum(down) - 1.0) / np.arange(1, len(v) + 1)
    return np.maximum(0.0, v - cut[np.flatnonzero(down > cut)[-1]])


def onto_ball(v: Rows, radius: float) -> Rows:
    """The nearest weights whose sizes sum to at most ``radius``."""
    if np.abs(v).sum() <= radius:
        return v
    return np.sign(v) * radius * onto_simplex(np.abs(v) / radius)
