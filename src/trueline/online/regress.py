"""One round of the mixture for squared loss: predict, see the label, update; the loop over rows.

Labels used for learning are capped at ten ranges beyond the range seen, so that one label of 1e9 cannot freeze the
mixture; the loss suffered counts the true label, and what the cap hid is added to the bound (``CAPPED_EXCESS``).
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..errors import ModelError
from ..simd import Array
from .members import Members
from .squared_totals import (
    ADAPTIVE,
    CAPPED,
    CAPPED_EXCESS,
    CONSTANT,
    EXAMPLES,
    FIRST_LOSS,
    GAP_SHARE,
    GAP_STATIC,
    GAP_TOP,
    HIGH,
    LARGEST_WEIGHT,
    LAST,
    LAST_LABEL,
    LAST_PREDICTION,
    LEVELS,
    LOSS,
    LOW,
    MARGIN_HIGH,
    MARGIN_LOW,
    MARGIN_WORST,
    MEAN,
    NORM,
    NORMALISED,
    ORIGIN,
    OVERSHOOT,
    RESTARTS,
    SQUARES,
    TOTALS,
    WEIGHT,
)

if not cython.compiled:  # compiled, these come from regress.pxd
    from math import inf, sqrt

    from .aggregate import (
        average,
        excess,
        mix_loss,
        pool_step,
        posterior,
        rate,
        recent_weights,
        redistribute,
        remember,
        share_loss,
    )

REACH: cython.double = 10.0  # ranges beyond the range seen at which a label is capped
SIMPLE: cython.Py_ssize_t = 2  # members that look at labels only: running mean and last label


def clip(value: float, low: float, high: float) -> float:
    """value, or the nearer end."""
    return min(max(value, low), high)


@cython.final
@cython.cclass
class Regression:
    """The mixture's arrays, by name as the model keeps them, and the loop that learns from rows."""

    def __init__(self, arrays: Any, size: int, classes: int, filters: int, steps: int, centred: bool) -> None:
        self.each = Members(arrays, size, steps, 1, centred)
        self.count = len(arrays["losses"])
        self.filters, self.twinned, self.steps = filters, len(arrays["twins"]), steps
        self.levels = len(arrays["tops"])
        told = min(len(arrays[name]) for name in ("shares", "pool"))
        if (
            self.count != SIMPLE + filters + self.twinned + steps
            or told < self.count
            or len(arrays["recent"]) <= self.count
            or not 1 <= self.levels <= LEVELS
            or len(arrays["totals"]) < TOTALS
            or arrays["ledger"].shape != (filters, 2)
            or len(arrays["w"]) != filters
        ):
            raise ModelError("the mixture's arrays do not fit its members; use an intact copy", where="model file")
        self.totals, self.ledger, self.losses = arrays["totals"], arrays["ledger"], arrays["losses"]
        self.shares, self.recent, self.pool, self.tops = (arrays[n] for n in ("shares", "recent", "pool", "tops"))
        self.predictions, self.mixing, self.charge = (np.zeros(self.count) for _ in range(3))
        self.level, self.trust, self.top_charge = (np.zeros(LEVELS) for _ in range(3))

    def take(self, rows: Any, y: Array, weights: Array, out: Array, capped: Array) -> None:
        """The rows to walk over; ``out`` gets the predictions, ``capped`` the labels learned from."""
        self.each.take_rows(rows)
        self.starts, self.y, self.weights, self.out, self.capped = rows.starts, y, weights, out, capped
        if not len(rows.starts) - 1 == len(y) == len(weights) == len(out) == len(capped):
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
        first = self.totals[WEIGHT] == 0.0
        if first and learning and c > 0.0 and self.each.centred:
            self.each.shift_to_row()
        self.predict_members()
        p = self.combine()
        self.out[i] = p
        if not learning:
            return
        y = self.y[i]
        self.capped[i] = y
        if c == 0.0:
            return
        label = y
        reach = REACH * (self.totals[HIGH] - self.totals[LOW])
        if reach > 0.0:
            label = clip(y, self.totals[LOW] - reach, self.totals[HIGH] + reach)
        self.capped[i] = label
        loss = c * (y - p) * (y - p)
        self.totals[EXAMPLES] += 1.0
        self.totals[LOSS] += loss
        self.totals[LARGEST_WEIGHT] = max(self.totals[LARGEST_WEIGHT], c)
        self.totals[LAST_LABEL] = y
        self.totals[LAST_PREDICTION] = p
        if first:
            self.totals[FIRST_LOSS] = loss
            self.totals[LOW] = self.totals[HIGH] = self.totals[ORIGIN] = self.totals[MEAN] = label
            for k in range(self.count):
                self.predictions[k] = label
        else:
            self.totals[CAPPED_EXCESS] += loss - c * (label - p) * (label - p)
            self.totals[CAPPED] += 1.0 if label != y else 0.0
            over = self.overshoot(label)
            self.totals[OVERSHOOT] += c * over * over
            self.score(label, c, p)
        self.update(label, c)
        self.totals[WEIGHT] += c
        gap = label - self.totals[MEAN]
        self.totals[MEAN] += gap * c / self.totals[WEIGHT]
        self.totals[SQUARES] += gap * (label - self.totals[MEAN]) * c
        self.totals[LAST] = label
        if not first:
            self.widen(label)
        self.totals[LOW] = min(self.totals[LOW], label)
        self.totals[HIGH] = max(self.totals[HIGH], label)

    def overshoot(self, label: float) -> float:
        """How far the label lies beyond what predictions were clipped to."""
        above = label - self.totals[HIGH] - self.totals[MARGIN_HIGH]
        return max(0.0, above, self.totals[LOW] - self.totals[MARGIN_LOW] - label)

    def widen(self, label: float) -> None:
        """Predictions may pass each end of the label range by the largest step that labels took beyond it.

        A label that meets an end exactly shows a hard end (counts, proportions): none may pass it until a label does.
        """
        if label > self.totals[HIGH]:
            self.totals[MARGIN_HIGH] = max(self.totals[MARGIN_HIGH], label - self.totals[HIGH])
        elif label == self.totals[HIGH]:
            self.totals[MARGIN_HIGH] = 0.0
        if label < self.totals[LOW]:
            self.totals[MARGIN_LOW] = max(self.totals[MARGIN_LOW], self.totals[LOW] - label)
        elif label == self.totals[LOW]:
            self.totals[MARGIN_LOW] = 0.0
        worst = max(self.totals[MARGIN_WORST], self.totals[MARGIN_LOW])
        self.totals[MARGIN_WORST] = max(worst, self.totals[MARGIN_HIGH])

    def predict_members(self) -> None:
        """Every member's prediction, inside the label range seen and its margin."""
        low = self.totals[LOW] - self.totals[MARGIN_LOW]
        high = self.totals[HIGH] + self.totals[MARGIN_HIGH]
        origin = self.totals[ORIGIN]
        mean = self.totals[MEAN]
        self.predictions[0] = mean
        self.predictions[1] = self.totals[LAST]
        if self.filters > 0:
            self.each.load()
            for f in range(self.filters):
                self.predictions[SIMPLE + f] = clip(origin + self.each.score(f), low, high)
            for f in range(self.twinned):
                self.predictions[SIMPLE + self.filters + f] = clip(origin + self.each.twin_score(f), low, high)
        if self.steps > 0:
            self.each.standardise(self.totals[WEIGHT])
            at = SIMPLE + self.filters + self.twinned
            for f in range(self.steps):
                self.predictions[at + f] = clip(mean + self.each.step_score(f), low, high)

    def combine(self) -> float:
        """The two-level mixture's prediction; ``level`` gets those of the static, fixed-share and recent mixture, and the pool."""
        posterior(self.losses, self.count, rate(self.totals[GAP_STATIC], self.count), self.mixing)
        self.level[0] = average(self.mixing, self.predictions, self.count)
        self.level[1] = average(self.shares, self.predictions, self.count)
        recent_weights(self.recent, self.count, self.mixing)
        self.level[2] = average(self.mixing, self.predictions, self.count)
        self.level[3] = average(self.pool, self.predictions, self.count)
        posterior(self.tops, self.levels, rate(self.totals[GAP_TOP], self.levels), self.trust)
        return average(self.trust, self.level, self.levels)

    def score(self, y: float, c: float, p: float) -> None:
        """Charge the label to every member and to every mixture."""
        for k in range(self.count):
            gap = y - self.predictions[k]
            self.charge[k] = c * (gap * gap)
        for k in range(self.levels):
            gap = y - self.level[k]
            self.top_charge[k] = c * (gap * gap)
        eta = rate(self.totals[GAP_STATIC], self.count)
        eta_share = rate(self.totals[GAP_SHARE], self.count)
        static_loss = mix_loss(self.losses, self.charge, self.count, eta)
        self.totals[GAP_STATIC] += excess(self.top_charge[0], static_loss)
        shared_loss = share_loss(self.shares, self.charge, self.count, eta_share)
        self.totals[GAP_SHARE] += excess(self.top_charge[1], shared_loss)
        top_loss = mix_loss(self.tops, self.top_charge, self.levels, rate(self.totals[GAP_TOP], self.levels))
        self.totals[GAP_TOP] += excess(c * ((y - p) * (y - p)), top_loss)
        least = inf
        for k in range(self.count):
            self.losses[k] += self.charge[k]
            least = min(least, self.losses[k])
        for k in range(self.levels):
            self.tops[k] += self.top_charge[k]
        pool_step(self.pool, self.predictions, self.count, y, self.level[3], least / self.totals[WEIGHT])
        redistribute(self.shares, self.charge, self.count, eta_share)
        remember(self.recent, self.charge, self.count, c)

    def update(self, label: float, c: float) -> None:
        """The members' update, and that of the columns' moments."""
        weight = self.totals[WEIGHT]
        number = self.totals[EXAMPLES]
        if self.filters > 0:
            if self.each.spread(c, weight, number, False):
                for f in range(self.filters):
                    self.each.enter(f)
            self.update_filters(label, c)
        if self.steps > 0:
            self.update_steps(label, c)
            if self.filters == 0 and self.each.centred:
                self.each.spread(c, weight, number, False)
            elif self.filters == 0:
                self.each.spread_sparse(c)

    def update_steps(self, y: float, c: float) -> None:
        """The gradient members' update, in units that the labels and rows set themselves."""
        weight = self.totals[WEIGHT]
        norm = self.each.norm2()
        self.totals[NORM] += (norm - self.totals[NORM]) * c / (weight + c)
        usual = self.totals[NORM]
        deviation = sqrt(self.totals[SQUARES] / weight) if weight > 0.0 else 0.0
        for f in range(self.steps):
            error = self.totals[MEAN] + self.each.step_score(f) - y
            pace = self.each.rates[f]
            if f < NORMALISED:
                self.each.gradient_step(f, c * error / (c * norm + pace * weight))
            elif f < NORMALISED + ADAPTIVE:
                self.each.adaptive_step(f, c * error, pace * deviation / sqrt(usual))
            elif f < NORMALISED + ADAPTIVE + CONSTANT:
                self.each.gradient_step(f, error * min(1.0 / norm, c * pace / max(norm, usual)))
            else:
                ridge = pace * sqrt(usual)
                q = self.each.diagonal_spread(f, ridge)
                self.each.diagonal_step(f, ridge, -c * error / (1.0 + c * q), c)

    def update_filters(self, label: float, c: float) -> None:
        """The recursive least squares members' update, after raising the ridge of columns whose variance doubled.

        The ledger keeps Σce²/(1+cq), and Σc·ê²·cq/(1+cq) with what raising the ridge between prediction and update changed.
        """
        total = self.totals[WEIGHT] + c
        origin = self.totals[ORIGIN]
        low = self.totals[LOW] - self.totals[MARGIN_LOW]
        high = self.totals[HIGH] + self.totals[MARGIN_HIGH]
        raised = self.each.grown(total, False)
        if raised:
            self.each.accept()
        for f in range(self.filters):
            if raised:
                for j in range(1, self.each.size):
                    if self.each.columns[4, j - 1] > 0.0:
                        delta = self.each.ridge[f] * self.each.columns[4, j - 1]
                        if f < self.twinned:
                            self.each.pull(self.each.twins, f, j, delta)
                        self.each.strengthen(f, j, delta)
            prediction = origin + self.each.score(f)
            error = label - prediction
            q = self.each.product(f)
            made = label - self.predictions[SIMPLE + f]
            now = label - clip(prediction, low, high)
            self.ledger[f, 0] += c * error * error / (1.0 + c * q)
            self.ledger[f, 1] += c * max(0.0, made * made - now * now) + c * (now * now) * c * q / (1.0 + c * q)
            if f < self.twinned:
                # As the filter's own error, to the bit: until something is bounded they are the same.
                self.each.bounded_step(f, label - (origin + self.each.twin_score(f)), c, total)
            forget = self.each.forget[f]
            self.each.absorb(f, c, c * error / (forget + c * q), forget)
            self.totals[RESTARTS] += self.each.tend(f)
