"""The members of the mixture: Gaussian filters (recursive least squares, Kalman logistic) and gradient steps.

A *filter* f keeps weights w_f and P_f = A_f⁻¹, the inverse of its regularised information matrix, of
which the upper triangle is kept. With u the row
(intercept 1 first, columns as differences from their shift), h the curvature and λ the forgetting factor

    A ← λA + h·uuᵀ,    P ← (P − Pu·uᵀP/(λ/h + q))/λ,    q = uᵀPu.

The ridge ρ is in units of each column's variance: a column enters with A_jj = ρ·v_j when it first varies, and when
its variance has doubled the difference is added to A_jj by a rank-one update. So λ = 1 keeps the identity
Σ e²/(1 + q) ≤ min_w Σ(y − w·u)² + wᵀA₀w with A₀ the *last* ridge: raising A₀ never lowers that minimum.
Forgetting would let P grow without limit where nothing excites it: P_jj is brought back to 1/(ρ·v_j) by rank one
when it has passed four times that.

Gradient members, and filters that keep only the diagonal of A, work on standardised values z; a value counts in its
own scale, so |z| ≤ √t always.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..errors import ModelError
from ..simd import Array

if not cython.compiled:  # compiled, these come from members.pxd
    from math import exp, isfinite, log, sqrt

    from ..simd import rank_one, row_dot, symmetric_product

INTERCEPT_RIDGE = 0.01
INTERCEPT_UNIT: cython.double = INTERCEPT_RIDGE
# A column whose spread is below this fraction of its size (squared) is constant up to rounding.
DEAD: cython.double = 1e-20
BOUND: cython.double = 2.0  # deviations at which a twin bounds the error it learns from
BOUNDED: cython.double = 0.9205  # E min(|z|, 2)² of a standard Gaussian z
WOUND: cython.double = 4.0  # P_jj in units of the ridge's at which forgetting is undone


@cython.final
@cython.cclass
class Members:
    """The members' arrays, by name as the model keeps them, and the row that they are at.

    Rows of ``columns``: shift, mean, sum of squares, unit of ridge, its change, this row, weight of nonzero values,
    the example at which the column first varied. The unit is the variance; with ``present``, the sum of squares over
    the weight of nonzero values, which does not fall when a column is seldom there. ``own`` filters share a ridge.
    """

    def __init__(self, arrays: Any, size: int, steps: int, own: int, centred: bool) -> None:
        self.columns, self.rates = arrays["columns"], arrays["rates"]
        self.w, self.P, self.forget, self.ridge = arrays["w"], arrays["P"], arrays["forget"], arrays["ridge"]
        self.table, self.sums = arrays["table"], arrays["sums"]
        self.twins, self.noise = arrays.get("twins", np.zeros((0, size))), arrays.get("noise", np.zeros(0))
        self.size, self.own, self.steps, self.centred = size, own, steps, centred
        self.filters, self.twinned = len(arrays["w"]), len(self.twins)
        widths = [
            width for name in ("w", "P", "twins", "table", "sums") if name in arrays for width in arrays[name].shape[1:]
        ]
        if (
            size < 1
            or not len(arrays["w"]) == len(arrays["P"]) <= own * min(len(arrays["forget"]), len(arrays["ridge"]))
            or not len(arrays["table"]) == len(arrays["sums"]) == steps * own
            or not self.twinned <= min(self.filters, len(self.noise))
            or steps > len(arrays["rates"])
            or arrays["columns"].shape[0] < 8
            or arrays["columns"].shape[1] < size - 1
            or min(widths) < size
        ):
            raise ModelError("the mixture's arrays do not fit each other; use an intact copy", where="model file")
        self.u, self.z = np.zeros(size), np.zeros(size)
        self.Pu, self.q = np.zeros((self.filters, size)), np.zeros(self.filters)
        self.places = np.zeros(size, dtype=np.int64)
        self.count = 0

    def take_rows(self, rows: Any) -> None:
        """The rows to walk over: values, the columns that they belong to, and whether all rows share these."""
        self.values, self.indices, self.dense = rows.values, rows.indices, rows.dense

    def take_row(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """The row whose values lie from start to stop − 1."""
        self.start, self.stop = start, stop

    def column(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The column of value k of the row."""
        return self.indices[k - self.start] if self.dense else self.indices[k]

    def shift_to_row(self) -> None:
        """The row becomes the columns' shift."""
        for k in range(self.start, self.stop):
            self.columns[0, self.column(k)] = self.values[k]

    # -- filters ------------------------------------------------------------------------------------------------

    def score(self, f: cython.Py_ssize_t) -> float:
        """w_f · u."""
        return row_dot(self.w, f, 0, self.u, self.size)

    def twin_score(self, f: cython.Py_ssize_t) -> float:
        """The twin's w_f · u."""
        return row_dot(self.twins, f, 0, self.u, self.size)

    def product(self, f: cython.Py_ssize_t) -> float:
        """Pu_f ← P_f u; returns q_f = uᵀPu, never negative."""
        self.q[f] = max(symmetric_product(self.P, f, self.u, self.Pu, self.size), 0.0)
        return self.q[f]

    def absorb(self, f: cython.Py_ssize_t, curvature: float, step: float, forget: float) -> None:
        """One example, after ``product``: w ← w + step·Pu and A ← λA + h·uuᵀ."""
        for i in range(self.size):
            self.w[f, i] += step * self.Pu[f, i]
        rank_one(self.P, f, self.Pu, curvature / (forget + curvature * self.q[f]), 1.0 / forget, self.size)

    def pull(self, w: Array, f: cython.Py_ssize_t, j: cython.Py_ssize_t, delta: float) -> None:
        """The weights' part of A_jj ← A_jj + δ with Aw unchanged; P is still that of before."""
        share = delta / (1.0 + delta * self.P[f, j, j]) * w[f, j]
        for i in range(j):
            w[f, i] -= share * self.P[f, i, j]
        for i in range(j, self.size):
            w[f, i] -= share * self.P[f, j, i]

    def strengthen(self, f: cython.Py_ssize_t, j: cython.Py_ssize_t, delta: float) -> None:
        """A_jj ← A_jj + δ with Aw unchanged: w and P follow by Sherman and Morrison."""
        growth = 1.0 + delta * self.P[f, j, j]
        self.pull(self.w, f, j, delta)
        for i in range(j):
            self.Pu[f, i] = self.P[f, i, j]
        for i in range(j, self.size):
            self.Pu[f, i] = self.P[f, j, i]
        rank_one(self.P, f, self.Pu, delta / growth, 1.0, self.size)
        # Row j shrinks by the growth, which may be 1e12: by division, for subtraction would lose as many digits.
        for i in range(j):
            self.P[f, i, j] = self.Pu[f, i] / growth
        for i in range(j, self.size):
            self.P[f, j, i] = self.Pu[f, i] / growth

    def restart(self, f: cython.Py_ssize_t) -> None:
        """A filter ruined by rounding begins again from its ridge; its weights stay if they are finite."""
        for i in range(self.size):
            if not isfinite(self.w[f, i]):
                self.w[f, i] = 0.0
            for j in range(i, self.size):
                self.P[f, i, j] = 0.0
            unit = INTERCEPT_UNIT if i == 0 else self.ridge[f // self.own] * self.columns[3, i - 1]
            self.P[f, i, i] = 1.0 / unit if unit > 0.0 else 0.0

    def tend(self, f: cython.Py_ssize_t) -> float:
        """Cap what forgetting winds up; returns 1 if the filter had to begin again, otherwise 0."""
        for j in range(self.size):
            if not (isfinite(self.w[f, j]) and isfinite(self.P[f, j, j]) and self.P[f, j, j] >= 0.0):
                self.restart(f)
                return 1.0
        if self.forget[f // self.own] < 1.0:
            for j in range(1, self.size):
                unit = self.ridge[f // self.own] * self.columns[3, j - 1]
                if unit > 0.0 and self.P[f, j, j] * unit > WOUND:
                    self.strengthen(f, j, unit - 1.0 / self.P[f, j, j])
        return 0.0

    def bounded_step(self, f: cython.Py_ssize_t, error: float, c: float, total: float) -> None:
        """A filter's twin: the same step from an error no larger than BOUND deviations of its own noise.

        The noise is the mean square of those errors, made right for a Gaussian by BOUNDED; it follows within 100 rounds.
        """
        if self.noise[f] > 0.0:
            reach = BOUND * sqrt(self.noise[f])
            error = min(max(error, -reach), reach)
        self.noise[f] += (error * error / BOUNDED - self.noise[f]) * min(1.0, max(0.01 * c, c / total))
        step = c * error / (1.0 + c * self.q[f])
        usable = True
        for i in range(self.size):
            self.twins[f, i] += step * self.Pu[f, i]
            usable = usable and isfinite(self.twins[f, i])
        if not usable:
            for i in range(self.size):
                self.twins[f, i] = 0.0

    # -- columns ------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """u ← (1, x − shift) with columns that have not yet varied at 0."""
        self.u[0] = 1.0
        for j in range(1, self.size):
            self.u[j] = -self.columns[0, j - 1] if self.columns[3, j - 1] > 0.0 else 0.0
        for k in range(self.start, self.stop):
            j = self.column(k)
            if self.columns[3, j] > 0.0:
                self.u[j + 1] = self.values[k] - self.columns[0, j]

    def spread(self, weight: float, total: float, number: float, present: bool) -> bool:
        """Add the row to every column's mean and variance, by Welford's formula with weights; u is what ``load`` made.

        Columns that vary for the first time get their unit of ridge, their place in u, and 1 in ``columns[4]``; whether
        there are any.
        """
        after = total + weight
        entered = False
        for j in range(self.size - 1):
            self.columns[5, j] = -self.columns[0, j]
        for k in range(self.start, self.stop):
            j = self.column(k)
            self.columns[5, j] = self.values[k] - self.columns[0, j]
        for j in range(self.size - 1):
            if self.columns[5, j] + self.columns[0, j] != 0.0:
                self.columns[6, j] += weight
            gap = self.columns[5, j] - self.columns[1, j]
            self.columns[1, j] += gap * weight / after
            self.columns[2, j] += gap * (self.columns[5, j] - self.columns[1, j]) * weight
            self.columns[4, j] = 0.0
            if self.columns[3, j] == 0.0:
                variance = self.columns[2, j] / after
                centre = self.columns[0, j] + self.columns[1, j]
                if variance > DEAD * centre * centre and variance > 1e-280:
                    self.columns[3, j] = self.columns[2, j] / self.columns[6, j] if present else variance
                    self.columns[4, j] = 1.0
                    self.columns[7, j] = number
                    self.u[j + 1] = self.columns[5, j]
                    entered = True
        return entered

    def enter(self, f: cython.Py_ssize_t) -> None:
        """Columns that vary for the first time enter the filter with their ridge and weight 0."""
        for j in range(1, self.size):
            if self.columns[4, j - 1] == 1.0:
                self.P[f, j, j] = 1.0 / (self.ridge[f // self.own] * self.columns[3, j - 1])

    def grown(self, total: float, present: bool) -> bool:
        """Whether the unit of ridge of any column doubled: ``columns[4]`` gets its increase."""
        found = False
        for j in range(self.size - 1):
            self.columns[4, j] = 0.0
            unit = 0.0
            if self.columns[3, j] > 0.0:
                unit = self.columns[2, j] / (self.columns[6, j] if present else total)
            if unit > 2.0 * self.columns[3, j]:
                self.columns[4, j] = unit - self.columns[3, j]
                found = True
        return found

    def accept(self) -> None:
        """The larger variances become the units of ridge."""
        for j in range(self.size - 1):
            self.columns[3, j] += self.columns[4, j]

    def standardise(self, total: float) -> None:
        """(places, z) of the intercept and the row's columns, each value counted in its own scale.

        Centred (dense rows): (x − mean)/deviation. Otherwise x over the root mean square of the column's nonzero values,
        so that zeros stay zeros and cost nothing.
        """
        self.places[0] = 0
        self.z[0] = 1.0
        count = 1
        for k in range(self.start, self.stop):
            j = self.column(k)
            value = self.values[k]
            if self.centred:
                value -= self.columns[0, j]
                gap = value - self.columns[1, j]
                rest = gap * total / (total + 1.0)
                variance = (self.columns[2, j] + gap * rest) / (total + 1.0)
                centre = self.columns[0, j] + self.columns[1, j]
                if variance > DEAD * centre * centre and variance > 1e-280:
                    self.places[count] = j + 1
                    self.z[count] = rest / sqrt(variance)
                    count += 1
            elif value != 0.0:
                self.places[count] = j + 1
                self.z[count] = value / sqrt((self.columns[2, j] + value * value) / (self.columns[1, j] + 1.0))
                count += 1
        self.count = count

    def spread_sparse(self, weight: float) -> None:
        """Add the row to the uncentred scales: count and sum of squares of each column's nonzero values."""
        for k in range(self.start, self.stop):
            j = self.column(k)
            if self.values[k] != 0.0:
                self.columns[1, j] += weight
                self.columns[2, j] += weight * self.values[k] * self.values[k]

    # -- gradient members, on the places and values that ``standardise`` made ------------------------------------

    def norm2(self) -> float:
        """‖z‖²."""
        total = 0.0
        for k in range(self.count):
            total += self.z[k] * self.z[k]
        return total

    def step_score(self, f: cython.Py_ssize_t) -> float:
        """w_f · z over the places present."""
        total = 0.0
        for k in range(self.count):
            total += self.table[f, self.places[k]] * self.z[k]
        return total

    def gradient_step(self, f: cython.Py_ssize_t, step: float) -> None:
        """w_f ← w_f − step·z."""
        for k in range(self.count):
            self.table[f, self.places[k]] -= step * self.z[k]

    def add_gradient(self, f: cython.Py_ssize_t, slope: float) -> None:
        """The summed gradients of exponentiated gradient grow by slope·z."""
        for k in range(self.count):
            self.sums[f, self.places[k]] += slope * self.z[k]

    def adaptive_step(self, f: cython.Py_ssize_t, slope: float, rate: float) -> None:
        """AdaGrad: each coordinate's step is rate over the root of its own sum of squared gradients."""
        for k in range(self.count):
            gradient = slope * self.z[k]
            if gradient != 0.0:
                j = self.places[k]
                self.sums[f, j] += gradient * gradient
                if self.sums[f, j] > 0.0:  # the square of a tiny gradient is 0
                    self.table[f, j] -= rate * gradient / sqrt(self.sums[f, j])

    def diagonal_spread(self, f: cython.Py_ssize_t, ridge: float) -> float:
        """q = Σ z²/A of a filter that keeps only the diagonal A = ridge + sums."""
        total = 0.0
        for k in range(self.count):
            total += self.z[k] * self.z[k] / (ridge + self.sums[f, self.places[k]])
        return total

    def diagonal_step(self, f: cython.Py_ssize_t, ridge: float, step: float, curvature: float) -> None:
        """w ← w + step·z/A, then A ← A + curvature·z², coordinate by coordinate."""
        for k in range(self.count):
            j = self.places[k]
            self.table[f, j] += step * self.z[k] / (ridge + self.sums[f, j])
            self.sums[f, j] += curvature * self.z[k] * self.z[k]

    def exponentiated(self, f: cython.Py_ssize_t, radius: float, scale: float) -> None:
        """EG±: the weights of radius·(softmax(−ηG) − softmax(ηG) parts) from summed gradients G and Σ(range)² = scale."""
        if scale <= 1e-300:  # nothing seen yet, or so little that the rate would overflow
            return
        rate = radius * sqrt(log(2.0 * self.size) / scale)
        top = 0.0
        for j in range(self.size):
            top = max(top, abs(self.sums[f, j]))
        total = 0.0
        for j in range(self.size):
            self.table[f, j] = exp(-rate * (self.sums[f, j] + top))
            total += self.table[f, j] + exp(rate * (self.sums[f, j] - top))
        for j in range(self.size):
            self.table[f, j] = radius * (self.table[f, j] - exp(rate * (self.sums[f, j] - top))) / total
