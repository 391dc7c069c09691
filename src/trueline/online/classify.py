"""One round of the mixture for log loss: probabilities of every class, then the label; the loop over rows.

K classes have S score vectors: one for K = 2 (class 0 has score 0), K otherwise. A Kalman member treats each
score's posterior as Gaussian: it predicts with scores moderated by their variance q, s/√(1 + πq/8), and solves
s′ = s + q·(1{y = k} − σ(s′ − o)) for the score after the example (o: log-sum-exp of the other scores), which cannot
overshoot; the curvature is taken at s′.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..errors import ModelError
from ..simd import Array
from .log_totals import (
    ADAPTIVE,
    CONSTANT,
    DIAGONAL,
    EXAMPLES,
    EXCESS,
    LARGEST_WEIGHT,
    LAST,
    LAST_LABEL,
    LAST_PREDICTION,
    LOSS,
    MISTAKES,
    NORM,
    RESTARTS,
    TOTALS,
    WEIGHT,
)
from .members import Members

if not cython.compiled:  # compiled, these come from classify.pxd
    from math import exp, inf, log, pi, sqrt

    from .aggregate import mix_loss, posterior, redistribute

SIMPLE: cython.Py_ssize_t = 2  # members that look at labels only: class frequencies and a first-order Markov chain
RADIUS: cython.double = 4.0
PRIOR: cython.double = 0.5  # pseudo-counts of the label-only members
FLOOR: cython.double = -13.815510557964274  # ln 1e-6: the least log-probability that the geometric pool listens to
POOL_RATE: cython.double = 0.01


def softmax(
    scores: Array, first: cython.Py_ssize_t, spread: Array, classes: cython.Py_ssize_t, k: cython.Py_ssize_t, out: Array
) -> None:
    """Row k of ``out``: probabilities of all classes; classes without a score of their own have score 0."""
    offset = 1 if classes == 2 else 0
    top = 0.0 if offset > 0 else -inf
    for c in range(offset, classes):
        out[k, c] = scores[first + c - offset] * spread[first + c - offset]
        top = max(top, out[k, c])
    total = 0.0
    for c in range(classes):
        out[k, c] = exp((0.0 if c < offset else out[k, c]) - top)
        total += out[k, c]
    for c in range(classes):
        out[k, c] /= total


def rest(scores: Array, first: cython.Py_ssize_t, own: cython.Py_ssize_t, s: cython.Py_ssize_t) -> float:
    """Log-sum-exp of all scores but s; 0, class 0's score, when there is only one."""
    if own == 1:
        return 0.0
    top = -inf
    for r in range(own):
        if r != s:
            top = max(top, scores[first + r])
    total = 0.0
    for r in range(own):
        if r != s:
            total += exp(scores[first + r] - top)
    return top + log(total)


def logistic(x: float) -> float:
    """1/(1 + exp(−x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + exp(-x))
    return exp(x) / (1.0 + exp(x))


def settle(score: float, offset: float, reach: float, hit: float) -> float:
    """The root of s′ = s + reach·(hit − σ(s′ − o)): Newton's method kept inside a shrinking bracket."""
    far = score + reach * (hit - logistic(score - offset))
    low = min(score, far)
    high = max(score, far)
    at = score
    step = high - low
    for _ in range(100):
        p = logistic(at - offset)
        value = at - score - reach * (hit - p)
        if value > 0.0:
            high = at
        else:
            low = at
        new = at - value / (1.0 + reach * p * (1.0 - p))
        # Far from the root Newton's steps can cycle between the ends: take one only if it is in the bracket and short.
        if not (low <= new <= high and abs(new - at) <= 0.5 * step):
            new = 0.5 * (low + high)
        step = abs(new - at)
        at = new
        if step <= 1e-10 * (1.0 + abs(at)):
            break
    return at


@cython.final
@cython.cclass
class Classification:
    """The mixture's arrays, by name as the model keeps them, and the loop that learns from rows."""

    def __init__(self, arrays: Any, size: int, classes: int, filters: int, steps: int, centred: bool) -> None:
        self.classes, self.own = classes, 1 if classes == 2 else classes
        self.each = Members(arrays, size, steps, self.own, centred)
        self.count = SIMPLE + filters + steps
        self.filters, self.steps = filters, steps
        if (
            classes < 2
            or min(len(arrays[name]) for name in ("losses", "shares", "trust")) < self.count
            or len(arrays["tops"]) < 3
            or len(arrays["totals"]) < TOTALS
            or len(arrays["w"]) != filters * self.own
            or len(arrays["scales"]) != steps * self.own
            or arrays["frequencies"].shape != (classes,)
            or arrays["transitions"].shape != (classes, classes)
            or not 0.0 <= arrays["totals"][LAST] < classes
        ):
            raise ModelError("the mixture's arrays do not fit its members; use an intact copy", where="model file")
        self.totals, self.losses, self.shares = arrays["totals"], arrays["losses"], arrays["shares"]
        self.tops, self.trust, self.scales = arrays["tops"], arrays["trust"], arrays["scales"]
        self.frequencies, self.transitions = arrays["frequencies"], arrays["transitions"]
        self.scores, self.spreads = np.zeros(filters * self.own), np.zeros(filters * self.own)
        self.linear, self.moderate = np.zeros(steps * self.own), np.ones(steps * self.own)
        self.probabilities, self.levels = np.zeros((self.count, classes)), np.zeros((3, classes))
        self.mixing, self.charge = np.zeros(self.count), np.zeros(self.count)
        self.triple, self.top_charge = np.zeros(3), np.zeros(3)

    def take(self, rows: Any, y: Array, weights: Array, out: Array, learned: Array) -> None:
        """The rows to walk over; ``out`` gets the predictions. Labels are learned from as they are."""
        self.each.take_rows(rows)
        self.starts, self.y, self.weights, self.out = rows.starts, y, weights, out
        if not len(rows.starts) - 1 == len(y) == len(weights) == len(out) or out.shape[1] != self.classes:
            raise ValueError("rows, labels, weights and predictions differ in number")

    def walk(self, learning: bool) -> None:
        """Predict every row and, when learning, update on it before the next."""
        n: cython.Py_ssize_t = self.starts.shape[0] - 1
        learn: cython.bint = learning
        i: cython.Py_ssize_t
        if n == 1:  # the lock is dearer than a row
            self.round(0, learn)
            return
        with cython.nogil:
            for i in range(n):
                self.round(i, learn)

    def round(self, i: cython.Py_ssize_t, learning: bool) -> None:
        """Row i."""
        self.each.take_row(self.starts[i], self.starts[i + 1])
        c = self.weights[i]
        weight = self.totals[WEIGHT]
        if weight == 0.0 and learning and c > 0.0 and self.each.centred:
            self.each.shift_to_row()
        self.predict_members()
        self.combine(i)
        if not learning or c == 0.0:
            return
        label = cython.cast(cython.Py_ssize_t, self.y[i])
        best = 0
        for j in range(1, self.classes):
            if self.out[i, j] > self.out[i, best]:
                best = j
        self.totals[EXAMPLES] += 1.0
        self.totals[LOSS] -= c * log(self.out[i, label])
        self.totals[MISTAKES] += c if best != label else 0.0
        self.totals[LAST_LABEL] = label
        self.totals[LAST_PREDICTION] = best
        self.score(i, label, c)
        if self.filters > 0:
            entered = self.each.spread(c, weight, self.totals[EXAMPLES], True)
            self.update_filters(label, c, entered)
        self.update_steps(label, c)
        if self.filters == 0 and self.each.centred:
            self.each.spread(c, weight, self.totals[EXAMPLES], True)
        elif self.filters == 0:
            self.each.spread_sparse(c)
        self.totals[WEIGHT] += c
        self.frequencies[label] += c
        self.transitions[cython.cast(cython.Py_ssize_t, self.totals[LAST]), label] += c
        self.totals[LAST] = label

    def predict_members(self) -> None:
        """Every member's probabilities."""
        last = cython.cast(cython.Py_ssize_t, self.totals[LAST])
        total = 0.0
        follow = 0.0
        for c in range(self.classes):
            total += self.frequencies[c] + PRIOR
            follow += self.transitions[last, c] + PRIOR
        for c in range(self.classes):
            self.probabilities[0, c] = (self.frequencies[c] + PRIOR) / total
            self.probabilities[1, c] = (self.transitions[last, c] + PRIOR) / follow
        if self.filters > 0:
            self.each.load()
            for f in range(self.filters * self.own):
                self.scores[f] = self.each.score(f)
                self.spreads[f] = 1.0 / sqrt(1.0 + pi * self.each.product(f) / 8.0)
            for m in range(self.filters):
                softmax(self.scores, m * self.own, self.spreads, self.classes, SIMPLE + m, self.probabilities)
        self.each.standardise(self.totals[WEIGHT])
        for m in range(self.steps):
            for f in range(m * self.own, (m + 1) * self.own):
                self.linear[f] = self.each.step_score(f)
                if CONSTANT + ADAPTIVE <= m < CONSTANT + ADAPTIVE + DIAGONAL:
                    q = self.each.diagonal_spread(f, self.each.rates[m])
                    self.moderate[f] = 1.0 / sqrt(1.0 + pi * q / 8.0)
            k = SIMPLE + self.filters + m
            softmax(self.linear, m * self.own, self.moderate, self.classes, k, self.probabilities)

    def log_probability(self, k: cython.Py_ssize_t, c: cython.Py_ssize_t) -> float:
        """ln of member k's probability of class c, no less than FLOOR."""
        return max(log(max(self.probabilities[k, c], 1e-300)), FLOOR)

    def pool(self) -> None:
        """Geometric pooling: probabilities ∝ exp(Σ trust·log p), each log no less than FLOOR."""
        top = -inf
        for c in range(self.classes):
            sum_of_logs = 0.0
            for k in range(self.count):
                sum_of_logs += self.trust[k] * self.log_probability(k, c)
            self.levels[2, c] = sum_of_logs
            top = max(top, sum_of_logs)
        total = 0.0
        for c in range(self.classes):
            self.levels[2, c] = exp(self.levels[2, c] - top)
            total += self.levels[2, c]
        for c in range(self.classes):
            # Guarded: a little of the uniform keeps every probability away from 0.
            self.levels[2, c] = (1.0 - 1e-4) * self.levels[2, c] / total + 1e-4 / self.classes

    def adjust(self, label: cython.Py_ssize_t, c: float) -> None:
        """One gradient step of the pool's log loss in its trust; trust stays non-negative."""
        for k in range(self.count):
            gradient = -self.log_probability(k, label)
            for j in range(self.classes):
                gradient += self.levels[2, j] * self.log_probability(k, j)
            self.trust[k] = max(0.0, self.trust[k] - POOL_RATE * min(c, 1.0) * gradient)

    def combine(self, i: cython.Py_ssize_t) -> None:
        """Static mixture, fixed share and pool into ``levels``; their mixture into row i of ``out``."""
        eta = 1.0 / max(1.0, self.totals[LARGEST_WEIGHT])
        posterior(self.losses, self.count, eta, self.mixing)
        posterior(self.tops, 3, eta, self.triple)
        for c in range(self.classes):
            static = 0.0
            shared = 0.0
            for k in range(self.count):
                static += self.mixing[k] * self.probabilities[k, c]
                shared += self.shares[k] * self.probabilities[k, c]
            self.levels[0, c] = static
            self.levels[1, c] = shared
        self.pool()
        for c in range(self.classes):
            self.out[i, c] = (
                self.triple[0] * self.levels[0, c]
                + self.triple[1] * self.levels[1, c]
                + self.triple[2] * self.levels[2, c]
            )

    def score(self, i: cython.Py_ssize_t, label: cython.Py_ssize_t, c: float) -> None:
        """Charge the label to every member and to every mixture."""
        for k in range(self.count):
            self.charge[k] = -c * log(max(self.probabilities[k, label], 1e-300))
        for k in range(3):
            self.top_charge[k] = -c * log(max(self.levels[k, label], 1e-300))
        largest = self.totals[LARGEST_WEIGHT]
        eta = 1.0 / largest if largest > 1.0 else 1.0
        if c * eta > 1.0:
            # The label came with a larger weight than any before: what Jensen no longer covers is counted.
            mixed = mix_loss(self.losses, self.charge, self.count, eta)
            self.totals[EXCESS] += max(0.0, self.top_charge[0] - mixed)
            mixed = mix_loss(self.tops, self.top_charge, 3, eta)
            self.totals[EXCESS] += max(0.0, -c * log(self.out[i, label]) - mixed)
            self.totals[LARGEST_WEIGHT] = c
        self.adjust(label, c)
        for k in range(self.count):
            self.losses[k] += self.charge[k]
        for k in range(3):
            self.tops[k] += self.top_charge[k]
        redistribute(self.shares, self.charge, self.count, 1.0 / max(1.0, self.totals[LARGEST_WEIGHT]))

    def update_filters(self, label: cython.Py_ssize_t, c: float, entered: bool) -> None:
        """The Kalman members' update, after raising the ridge of columns whose variance doubled."""
        if entered:
            for f in range(self.filters * self.own):
                self.each.enter(f)
        grown = self.each.grown(self.totals[WEIGHT] + c, True)
        if grown:
            for f in range(self.filters * self.own):
                for j in range(1, self.each.size):
                    if self.each.columns[4, j - 1] > 0.0:
                        self.each.strengthen(f, j, self.each.ridge[f // self.own] * self.each.columns[4, j - 1])
                self.scores[f] = self.each.score(f)
            self.each.accept()
        for m in range(self.filters):
            forget = self.each.forget[m]
            for s in range(self.own):
                f = m * self.own + s
                # Where nothing moved since the prediction, its product still holds.
                q = self.each.product(f) if entered or grown else self.each.q[f]
                if q > 0.0:
                    offset = rest(self.scores, m * self.own, self.own, s)
                    hit = 1.0 if label == s + self.classes - self.own else 0.0
                    after = settle(self.scores[f], offset, c * q / forget, hit)
                    p = logistic(after - offset)
                    self.each.absorb(f, c * p * (1.0 - p), (after - self.scores[f]) / q, forget)
                self.totals[RESTARTS] += self.each.tend(f)

    def update_steps(self, label: cython.Py_ssize_t, c: float) -> None:
        """The update of constant rates, AdaGrad, diagonal filters and exponentiated gradient."""
        norm = self.each.norm2()
        largest = 0.0
        for k in range(self.each.count):
            largest = max(largest, abs(self.each.z[k]))
        self.totals[NORM] += (norm - self.totals[NORM]) * c / (self.totals[WEIGHT] + c)
        damp = 1.0 / max(1.0, sqrt(max(norm, self.totals[NORM])))
        for m in range(self.steps):
            pace = self.each.rates[m]
            for s in range(self.own):
                f = m * self.own + s
                target = s + self.classes - self.own
                hit = 1.0 if label == target else 0.0
                slope = c * (self.probabilities[SIMPLE + self.filters + m, target] - hit)
                if m < CONSTANT:
                    self.each.gradient_step(f, pace * slope * (damp if m > 0 else 1.0))
                elif m < CONSTANT + ADAPTIVE:
                    self.each.adaptive_step(f, slope, pace)
                elif m < CONSTANT + ADAPTIVE + DIAGONAL:
                    q = self.each.diagonal_spread(f, pace)
                    offset = rest(self.linear, m * self.own, self.own, s)
                    after = settle(self.linear[f], offset, c * q, hit)
                    p = logistic(after - offset)
                    self.each.diagonal_step(f, pace, (after - self.linear[f]) / q, c * p * (1.0 - p))
                else:
                    self.each.add_gradient(f, slope)
                    reach = RADIUS * slope * largest
                    self.scales[f] += reach * reach
                    self.each.exponentiated(f, RADIUS, self.scales[f])
