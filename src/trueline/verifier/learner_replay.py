"""The replay of an online learner: its arithmetic again, row by row, in plain NumPy.

A *line* is one weight vector: one for numbers and two classes, one for each class otherwise, and as many again for each
rate where rates are mixed. All lines run side by side. Beside the replay run *copies* of it into which errors of the
size of rounding are put in every round; how far they end from it, times ``SAFETY``, is the room that an honest learner
with another order of summation, or another processor's exp and log, may need.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .stated_claims import Rows, Rule
from .verify_losses import loss_of

EPS = float(np.finfo(float).eps)
COPIES = 3  # the replay, and two with errors
SAFETY = 64.0
LARGEST = 1e100  # a learner refuses a row whose score or step is beyond this
KINKED = ("hinge", "perceptron", "absolute", "quantile", "epsilon_insensitive")
LOG_LINK = ("poisson", "gamma", "tweedie")
LINKED = ("multiplicative", "signed")  # weights that share one total
GEOMETRIES = ("additive", "normalised", "implicit", "adaptive", *LINKED)


class Candidate(NamedTuple):
    """Weights frozen after ``at`` rounds, with what was lost since: by the learner, by them, and the brackets."""

    at: int
    own: Rows
    other: Rows
    excess: Rows


class Run(NamedTuple):
    """What a replay leaves. Axes: copies (the replay first), lines, then rows or coordinates (the constant first)."""

    scores: Rows  # before each update: copies × lines × rows
    shares: Rows  # each row's step as a share of the rate
    weights: Rows  # those that predict next
    mean_weights: Rows
    path: Rows  # how far each dual weight went in all: what a running mean sums
    start: Rows  # those before the first row
    losses: Rows  # Σ c·V
    step_losses: Rows  # Σ share·V
    start_losses: Rows  # the same of the start
    largest: Rows  # the largest c·V
    excess: Rows  # Σ brackets of the universal bound
    memory: Rows  # Σ g² of each coordinate
    low: Rows  # the range of each weight
    high: Rows
    longest: Rows  # the largest ‖w‖
    farthest: Rows  # the largest −ln of a multiplicative weight
    dead: Rows  # lines that left the range of numbers
    unsure: tuple[tuple[int, int], ...]  # (row, line) whose slope hangs on rounding
    candidates: tuple[Candidate, ...]
    hidden: (
        Rows  # how far weights may be apart that share one total, by their exponents: near a corner they do not show it
    )


def losses_at(rule: Rule, scores: Rows, targets: Rows) -> tuple[Rows, Rows, Rows]:
    """Value, slope and curvature of the rule's loss at scores of any shape; a user's own loss by its own methods."""
    targets = np.broadcast_to(targets, scores.shape)
    if rule.user_loss is not None:
        value = np.vectorize(rule.user_loss.value, otypes=[float])
        slope = np.vectorize(rule.user_loss.slope, otypes=[float])
        step = 1e-6 * (1.0 + np.abs(scores))
        curved = (slope(scores + step, targets) - slope(scores - step, targets)) / (2.0 * step)
        return value(scores, targets), slope(scores, targets), np.maximum(curved, 0.0)
    flat = loss_of(rule.loss, rule.loss_parameter, scores.reshape(-1), targets.reshape(-1))
    return tuple(part.reshape(scores.shape) for part in flat)  # type: ignore[return-value]


class Replay:
    """One pass over rows in their order; ``flips`` are the unsure (row, line) whose slope is taken from the other side."""

    def __init__(
        self, rule: Rule, X: Rows, targets: Rows, c: Rows, *, freeze: bool = False, flips: frozenset[Any] = frozenset()
    ) -> None:
        if rule.geometry not in GEOMETRIES:
            raise NotImplementedError(f"the geometry {rule.geometry!r}")
        self.rule, self.flips, self.freezes = rule, flips, freeze
        self.Z = np.insert(X, 0, float(rule.has_intercept), axis=1)
        self.first = 0 if rule.has_intercept else 1
        self.targets = np.tile(targets, (len(rule.rates), 1))  # lines: rates in turn, classes within
        self.c = c
        self.rates = np.repeat(rule.rates, len(targets))
        self.norm2 = (self.Z**2).sum(axis=1)
        self.shares = c / (rule.parameter + self.norm2) if rule.geometry == "normalised" else c.copy()
        lines, d, n = len(self.rates), self.Z.shape[1], len(X)
        shape = (COPIES, lines, d)
        self.theta, self.memory, self.sums, self.path = (np.zeros(shape) for _ in range(4))
        self.pending, self.pending_sizes = np.zeros(shape), np.zeros(shape)  # Σg of a mini-batch, and Σ|g|
        self.low, self.high = np.zeros(shape), np.zeros(shape)
        self.waiting, self.looked = 0, 0
        self.shrunk = np.zeros(lines)  # the total of the steps by which a penalty shrank
        self.totals = {name: np.zeros((COPIES, lines)) for name in ("loss", "step", "start", "excess")}
        self.largest, self.longest, self.farthest = (np.zeros((COPIES, lines)) for _ in range(3))
        self.scores = np.zeros((COPIES, lines, n))
        self.dead = np.zeros(lines, dtype=bool)
        self.unsure: list[tuple[int, int]] = []
        self.candidates: list[dict[str, Any]] = []
        rng = np.random.default_rng(0)
        self.errors = rng.uniform(-1.0, 1.0, size=(16, COPIES, lines, d + 1))
        self.errors[:, 0] = 0.0
        self.start = self.weights()[0, :1]

    def weights(self) -> Rows:
        """The weights of the dual ones: themselves, or exponentials that share one total."""
        theta, rule = self.theta, self.rule
        if rule.geometry not in LINKED:
            return theta
        used = theta[..., self.first :]
        weights = np.zeros_like(theta)
        if rule.geometry == "multiplicative":
            up = np.exp(used - used.max(axis=-1, keepdims=True, initial=-math.inf))
            weights[..., self.first :] = up / up.sum(axis=-1, keepdims=True)
        else:
            top = np.abs(used).max(axis=-1, keepdims=True, initial=0.0)
            up, down = np.exp(used - top), np.exp(-used - top)
            weights[..., self.first :] = rule.parameter * (up - down) / (up + down).sum(axis=-1, keepdims=True)
        return weights

    def blur_of_exponentials(self, weights: Rows) -> Rows:
        """What rounding does to weights that are exponentials, or differences of two, over their total."""
        sizes = np.abs(weights)
        if self.rule.geometry == "signed":
            used = max(1, self.theta.shape[-1] - self.first)
            sizes = sizes + (self.theta != 0.0) * self.rule.parameter / used  # equal exponentials leave 0 exactly
        return 4.0 * EPS * (1.0 + np.abs(self.theta).max(axis=-1, keepdims=True)) * sizes

    def conjugate(self) -> Rows:
        """ψ*(θ): the logarithm of the total of exponentials."""
        used = self.theta[..., self.first :]
        if self.rule.geometry == "signed":
            used = np.concatenate([used, -used], axis=-1)
        top = used.max(axis=-1, initial=-math.inf)
        return np.asarray(top + np.log(np.exp(used - top[..., None]).sum(axis=-1)))

    def run(self) -> Run:
        """All rows in turn."""
        with np.errstate(all="ignore"):
            for i in range(len(self.Z)):
                self.round(i)
                if i + 1 == len(self.Z) or (i + 1) & i == 0:  # learners look at the counts 1, 2, 4, …
                    self.end_of_block(i + 1)
            if self.waiting:  # the bound counts what the update of an unfinished mini-batch will add
                before, self.waiting = self.theta.copy(), self.rule.batch
                self.finish_batch(len(self.Z) - 1)
                self.theta = before
        return self.result()

    def round(self, i: int) -> None:
        """Predict, see the target, suffer, update."""
        rule, x, t, c = self.rule, self.Z[i], self.targets[:, i], self.c[i]
        errors = self.errors[i % 16]
        weights = self.weights()
        sizes = np.abs(weights) @ np.abs(x)
        blur = (len(x) + 4) * EPS * sizes
        unsure = blur + self.blur_of_path(x, sizes)
        if rule.geometry in LINKED:
            wide = self.blur_of_exponentials(weights)
            weights, unsure = weights + wide * errors[..., 1:], unsure + wide @ np.abs(x)
        scores = weights @ x + blur * errors[..., 0]
        rates = self.rates / (i + 1.0) ** rule.power
        steps = rates * self.shares[i]
        value, slope, curved = losses_at(rule, scores, t)
        wrong = np.abs(slope) + curved * (np.abs(scores) + (rule.loss in LOG_LINK))
        slope = self.sided(i, scores, slope, unsure, t)
        if rule.geometry == "implicit":
            slope, wrong = implicit_slope(rule, scores, slope, t, steps * self.norm2[i])
        slope = slope + 4.0 * EPS * wrong * errors[..., 0]
        self.bury(scores, slope, steps * slope, i)
        self.scores[..., i] = scores
        value, slope = (np.where(self.dead, 0.0, part) for part in (value, slope))
        if rule.average:
            self.sums += c * weights
        self.count(i, x, t, c, value)
        pull = self.shares[i] * slope
        if rule.batch > 1:
            self.pending += pull[..., None] * x
            self.pending_sizes += np.abs(pull[..., None] * x)
            self.waiting += 1
            if rule.geometry in ("normalised", "implicit"):
                self.bracket(i, scores, slope, steps, t, None)
            if self.waiting == rule.batch:
                self.finish_batch(i)
        else:
            before = self.conjugate() if rule.geometry in LINKED else None
            self.move(pull[..., None] * x, rates, errors)
            self.bracket(i, scores, slope, steps, t, before)
        self.shrink(steps, errors)
        self.longest = np.maximum(self.longest, np.sqrt((self.theta**2).sum(axis=-1)))

    def sided(self, i: int, scores: Rows, slope: Rows, blur: Rows, t: Rows) -> Rows:
        """At a kink the copies follow the replay, whose side may be unsure: the score is within rounding of it."""
        if self.rule.loss not in KINKED or self.rule.user_loss is not None or self.rule.geometry == "implicit":
            return slope
        mine = slope[0].copy()
        left, right = (losses_at(self.rule, scores[0] + side * blur[0], t)[1] for side in (-1.0, 1.0))
        for line in np.flatnonzero((left != right) & ~self.dead):
            self.unsure.append((i, int(line)))
            if (i, int(line)) in self.flips:
                mine[line] = left[line] if mine[line] != left[line] else right[line]
        return np.broadcast_to(mine, slope.shape)

    def blur_of_path(self, x: Rows, sizes: Rows) -> Rows:
        """What the rounding of all steps before may have done to a score: weights that cancelled keep the errors."""
        if self.rule.geometry in LINKED:
            return np.asarray(2.0 * EPS * self.path.max(axis=-1) * sizes)
        return np.asarray(2.0 * EPS * (self.path @ np.abs(x)))

    def bury(self, scores: Rows, slope: Rows, shove: Rows, i: int) -> None:
        """A line whose numbers leave the range of the learner goes back to its start, and stays there; its rate too."""
        size = scores[0] ** 2 + slope[0] ** 2 + shove[0] ** 2
        lost = ~((size <= LARGEST**2) & (self.norm2[i] <= LARGEST)) & ~self.dead
        if lost.any():
            self.reset(lost)
            scores[:] = np.where(self.dead, self.start[0] @ self.Z[i], scores)

    def ran_away(self) -> Rows:
        """Lines with a weight beyond the range, which a learner sees when it looks."""
        return ~(np.abs(self.theta[0]).max(axis=-1) <= LARGEST)

    def take_back(self, lines: Rows, end: int) -> None:
        """The scores of these lines since the learner last looked become those of the start."""
        if lines.any():
            begin = self.looked
            self.scores[:, lines, begin:end] = self.start[0] @ self.Z[begin:end].T

    def reset(self, lost: Rows) -> None:
        classes = len(self.rates) // len(self.rule.rates)
        lost = np.repeat(lost.reshape(-1, classes).any(axis=1), classes)
        self.dead |= lost
        self.theta[:, lost] = 0.0

    def end_of_block(self, end: int) -> None:
        """The learner looks: weights that ran away take their whole block back; others may be frozen as candidates."""
        lost = self.ran_away() & ~self.dead
        self.take_back(lost, end)
        self.reset(lost)
        self.looked = end
        if self.freezes and end & (end - 1) == 0:
            sums = {name: np.zeros(len(self.rates)) for name in ("own", "other", "excess")}
            self.candidates = [*self.candidates[-1:], {"at": end, "weights": self.weights()[0].copy()} | sums]

    def count(self, i: int, x: Rows, t: Rows, c: float, value: Rows) -> None:
        """The sums that certificates state."""
        share = self.shares[i]
        self.totals["loss"] += c * value
        self.totals["step"] += share * value
        self.totals["start"] += share * losses_at(self.rule, np.full(len(t), self.start[0] @ x), t)[0]
        self.largest = np.maximum(self.largest, c * value)
        for candidate in self.candidates:
            candidate["own"] += share * value[0]
            candidate["other"] += share * losses_at(self.rule, candidate["weights"] @ x, t)[0]

    def move(self, gradient: Rows, rates: Rows, errors: Rows) -> None:
        """One step of every coordinate: θ ← θ − η·g in the geometry's units."""
        rule = self.rule
        gradient = np.where(self.dead[:, None], 0.0, gradient)
        if rule.geometry == "adaptive":
            self.memory += gradient**2
            gradient = gradient / np.sqrt(rule.parameter + self.memory)
        if rule.geometry == "signed":
            gradient = rule.parameter * gradient
        step = rates[:, None] * gradient
        self.theta, self.path = self.theta - step, self.path + np.abs(step)
        self.theta += EPS * errors[..., 1:] * (np.abs(self.theta) + 4.0 * np.abs(step))
        self.low, self.high = np.minimum(self.low, self.theta), np.maximum(self.high, self.theta)

    def finish_batch(self, i: int) -> None:
        """The mean of a mini-batch's gradients, as one step; its bracket counts once for each of its rows."""
        rule, count = self.rule, self.waiting
        errors, rates = self.errors[i % 16], self.rates / (i + 1.0) ** rule.power
        gradient = (
            self.pending + EPS * errors[..., 1:] * self.pending_sizes
        ) / count  # sums that cancel keep the errors
        along = (gradient * self.weights()).sum(axis=-1)
        before = self.conjugate() if rule.geometry in LINKED else None
        self.move(gradient, rates, errors)
        if before is not None:
            self.totals["excess"] += count * np.maximum(0.0, along + (self.conjugate() - before) / rates)
        elif rule.geometry in ("additive", "adaptive"):
            self.totals["excess"] += count * 0.5 * rates * (gradient**2).sum(axis=-1)
        self.pending, self.pending_sizes = np.zeros_like(self.pending), np.zeros_like(self.pending)
        self.waiting = 0

    def bracket(self, i: int, scores: Rows, slope: Rows, steps: Rows, t: Rows, before: Rows | None) -> None:
        """The round's term of the universal bound: what the step costs beyond the distance that it gains."""
        rule, share, norm2 = self.rule, self.shares[i], self.norm2[i]
        if rule.geometry == "adaptive" and rule.batch == 1:
            return
        if before is not None:
            after = self.conjugate()
            with np.errstate(divide="ignore", invalid="ignore"):
                gained = np.where(steps > 0.0, (after - before) / steps, 0.0)
            excess = share * np.where(steps > 0.0, np.maximum(0.0, slope * scores + gained), 0.0)
            used = self.theta[..., self.first :]
            smallest = (-np.abs(used) if rule.geometry == "signed" else used).min(axis=-1)
            self.farthest = np.maximum(self.farthest, after - smallest)
        elif rule.geometry == "implicit":
            fallen = losses_at(rule, scores, t)[0] - losses_at(rule, scores - steps * slope * norm2, t)[0]
            excess = share * (fallen - 0.5 * steps * slope**2 * norm2)
        else:
            excess = share * 0.5 * steps * slope**2 * norm2
        excess = np.where(self.dead, 0.0, excess)
        self.totals["excess"] += excess
        for candidate in self.candidates:
            candidate["excess"] += excess[0]

    def shrink(self, steps: Rows, errors: Rows) -> None:
        """The penalty's prox: |w| ← (|w| − step·l1)₊ / (1 + step·l2), of every coordinate but the constant.

        A learner that shrinks a weight only when its column comes takes differences of running totals of the steps.
        """
        if self.rule.l1 + self.rule.l2 == 0.0:
            return
        part = self.theta[..., 1:]
        self.shrunk = self.shrunk + steps
        wrong = EPS * self.shrunk[:, None] * (self.rule.l1 + self.rule.l2 * np.abs(part)) * errors[..., 2:]
        size = np.abs(part) - steps[:, None] * self.rule.l1 + wrong
        self.theta[..., 1:] = np.sign(part) * np.maximum(0.0, size) / (1.0 + steps[:, None] * self.rule.l2)

    def result(self) -> Run:
        weights, total = self.weights(), float(self.c.sum())
        mean = self.sums / total if total > 0.0 else weights
        if self.rule.geometry in LINKED:
            weights = weights + self.blur_of_exponentials(weights) * self.errors[0][..., 1:]
        for each in (weights, mean):
            each[..., : self.first] = 0.0
        candidates = tuple(Candidate(k["at"], k["own"], k["other"], k["excess"]) for k in self.candidates)
        return Run(
            self.scores, self.shares, weights, mean, self.path[0], self.start[0], self.totals["loss"], self.totals["step"],
            self.totals["start"], self.largest, self.totals["excess"], self.memory, self.low, self.high, self.longest,
            self.farthest, self.dead, tuple(self.unsure), candidates, self.apart_by_exponents(),
        )  # fmt: skip

    def apart_by_exponents(self) -> Rows:
        """Exponents that are known to ±δ know a weight to a factor of e^2δ, and at most to all of the total, of either sign."""
        if self.rule.geometry not in LINKED:
            return np.zeros_like(self.theta[0])
        signed = self.rule.geometry == "signed"
        used, total = self.theta[0, :, self.first :], self.rule.parameter if signed else 1.0
        sizes = np.logaddexp(used, -used) if signed else used
        shares = np.exp(sizes - np.logaddexp.reduce(sizes, axis=-1, keepdims=True))
        delta = spread(self.theta[..., self.first :]).max(axis=-1, keepdims=True, initial=0.0)
        room = np.zeros_like(self.theta[0])
        room[:, self.first :] = total * np.minimum(
            2.0 if signed else 1.0, shares * np.expm1(np.minimum(2.0 * delta, 700.0))
        )
        return room


def implicit_slope(rule: Rule, scores: Rows, slope: Rows, t: Rows, gain: Rows) -> tuple[Rows, Rows]:
    """The a with a = V'(s − gain·a), between 0 and V'(s): Newton's steps inside a bracket that halves when they leave.

    And how far the rounding of V' may move it, in units of EPS.
    """
    low, high = np.minimum(0.0, slope), np.maximum(0.0, slope)
    at = slope
    for turn in range(200):
        _, ahead, curved = losses_at(rule, scores - gain * at, t)
        excess = at - ahead
        low, high = np.where(excess < 0.0, at, low), np.where(excess > 0.0, at, high)
        done = (np.abs(excess) <= 2.0 * EPS * np.abs(at)) | (high - low <= 2.0 * EPS * np.abs(at))
        if done.all():
            break
        new = at - excess / (1.0 + gain * curved)
        halved = 0.5 * (low + high)  # in every third turn too: Newton's steps creep where the loss is very steep
        new = np.where((new > low) & (new < high) & (turn % 3 < 2), new, halved)
        at = np.where(done, at, new)
    if rule.loss in KINKED:  # at a corner a search may end anywhere in its bracket
        return at, np.abs(slope)
    after = scores - gain * at
    wrong = np.abs(at) + curved * (np.abs(after) + (rule.loss in LOG_LINK))
    return at, np.abs(at) + wrong / (1.0 + gain * curved)


def spread(values: Rows) -> Rows:
    """How far the copies of a replay end from it, times ``SAFETY``: the room for another order of its sums."""
    apart = np.abs(values[1:] - values[0]).max(axis=0)
    return SAFETY * np.where(np.isfinite(apart), apart, 0.0)
