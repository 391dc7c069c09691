"""The members of the mixture: Gaussian filters (recursive least squares, Kalman logistic) and gradient steps.

A *filter* f keeps weights w_f and P_f = A_f⁻¹, the inverse of its regularised information matrix. With u the row
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

import math

from .._jit import kernel

INTERCEPT_RIDGE = 0.01
# A column whose spread is below this fraction of its size (squared) is constant up to rounding.
DEAD = 1e-20
BOUND = 2.0  # deviations at which a twin bounds the error it learns from
BOUNDED = 0.9205  # E min(|z|, 2)² of a standard Gaussian z
WOUND = 4.0  # P_jj in units of the ridge's at which forgetting is undone


@kernel(reassociate=True)
def dot(table, f, u, size):
    """w_f · u."""
    total = 0.0
    for j in range(size):
        total += table[f, j] * u[j]
    return total


@kernel(reassociate=True)
def product(P, f, u, size, Pu):
    """Pu ← P_f u; returns uᵀPu, never negative."""
    own = P[f]
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += own[i, j] * u[j]
        Pu[i] = total
    q = 0.0
    for i in range(size):
        q += Pu[i] * u[i]
    return max(q, 0.0)


@kernel
def downdate(P, f, v, size, inflate):
    """P_f ← (P_f − vvᵀ)·inflate; the products commute, so P stays symmetric to the last bit."""
    own = P[f]
    for i in range(size):
        vi = v[i]
        for j in range(size):
            own[i, j] = (own[i, j] - vi * v[j]) * inflate


@kernel
def absorb(w, P, f, size, Pu, q, curvature, step, forget):
    """One example: w ← w + step·Pu and A ← λA + h·uuᵀ."""
    for i in range(size):
        w[f, i] += step * Pu[i]
    shrink = math.sqrt(curvature / (forget + curvature * q))
    for i in range(size):
        Pu[i] *= shrink
    downdate(P, f, Pu, size, 1.0 / forget)


@kernel
def pull(w, P, f, j, size, delta):
    """The weights' part of A_jj ← A_jj + δ with Aw unchanged; P is still that of before."""
    share = delta / (1.0 + delta * P[f, j, j]) * w[f, j]
    for i in range(size):
        w[f, i] -= share * P[f, i, j]


@kernel
def strengthen(w, P, f, j, size, delta, v):
    """A_jj ← A_jj + δ with Aw unchanged: w and P follow by Sherman and Morrison."""
    growth = 1.0 + delta * P[f, j, j]
    root = math.sqrt(delta / growth)
    pull(w, P, f, j, size, delta)
    for i in range(size):
        v[i] = P[f, i, j] * root
    downdate(P, f, v, size, 1.0)
    # Row j shrinks by the growth, which may be 1e12: by division, for subtraction would lose as many digits.
    for i in range(size):
        P[f, i, j] = P[f, j, i] = v[i] / (root * growth)


@kernel
def restart(w, P, f, size, columns, ridge):
    """A filter ruined by rounding begins again from its ridge; its weights stay if they are finite."""
    for i in range(size):
        if not math.isfinite(w[f, i]):
            w[f, i] = 0.0
        for j in range(size):
            P[f, i, j] = 0.0
        unit = INTERCEPT_RIDGE if i == 0 else ridge * columns[3, i - 1]
        P[f, i, i] = 1.0 / unit if unit > 0.0 else 0.0


@kernel
def tend(w, P, f, size, columns, ridge, forget, v):
    """Cap what forgetting winds up; returns 1 if the filter had to begin again, otherwise 0."""
    for j in range(size):
        if not (math.isfinite(w[f, j]) and math.isfinite(P[f, j, j]) and P[f, j, j] >= 0.0):
            restart(w, P, f, size, columns, ridge)
            return 1
    if forget < 1.0:
        for j in range(1, size):
            unit = ridge * columns[3, j - 1]
            if unit > 0.0 and P[f, j, j] * unit > WOUND:
                strengthen(w, P, f, j, size, unit - 1.0 / P[f, j, j], v)
    return 0


@kernel
def bounded_step(twins, noise, f, size, Pu, q, error, c, total):
    """A filter's twin: the same step from an error no larger than BOUND deviations of its own noise.

    The noise is the mean square of those errors, made right for a Gaussian by BOUNDED; it follows within 100 rounds.
    """
    if noise[f] > 0.0:
        reach = BOUND * math.sqrt(noise[f])
        error = min(max(error, -reach), reach)
    noise[f] += (error * error / BOUNDED - noise[f]) * min(1.0, max(0.01 * c, c / total))
    step = c * error / (1.0 + c * q)
    usable = True
    for i in range(size):
        twins[f, i] += step * Pu[i]
        usable = usable and math.isfinite(twins[f, i])
    if not usable:
        for i in range(size):
            twins[f, i] = 0.0


@kernel
def load(values, indices, start, stop, dense, columns, size, u):
    """u ← (1, x − shift) with columns that have not yet varied at 0."""
    u[0] = 1.0
    for j in range(1, size):
        u[j] = -columns[0, j - 1] if columns[3, j - 1] > 0.0 else 0.0
    for k in range(start, stop):
        j = indices[k - start] if dense else indices[k]
        if columns[3, j] > 0.0:
            u[j + 1] = values[k] - columns[0, j]


@kernel
def spread(values, indices, start, stop, dense, columns, size, weight, total, number, present, u):
    """Add a row to every column's mean and variance, by Welford's formula with weights; u is what ``load`` made.

    Columns that vary for the first time get their unit of ridge, their place in u, and 1 in ``columns[4]``.
    Rows of ``columns``: shift, mean, sum of squares, unit of ridge, its change, this row, weight of nonzero values,
    the example at which the column first varied. The unit is the variance; with ``present``, the sum of squares over the
    weight of nonzero values, which does not fall when a column is seldom there.
    """
    after = total + weight
    for j in range(size - 1):
        columns[5, j] = -columns[0, j]
    for k in range(start, stop):
        j = indices[k - start] if dense else indices[k]
        columns[5, j] = values[k] - columns[0, j]
    for j in range(size - 1):
        if columns[5, j] + columns[0, j] != 0.0:
            columns[6, j] += weight
        gap = columns[5, j] - columns[1, j]
        columns[1, j] += gap * weight / after
        columns[2, j] += gap * (columns[5, j] - columns[1, j]) * weight
        columns[4, j] = 0.0
        if columns[3, j] == 0.0:
            variance = columns[2, j] / after
            centre = columns[0, j] + columns[1, j]
            if variance > DEAD * centre * centre and variance > 1e-280:
                columns[3, j] = columns[2, j] / columns[6, j] if present else variance
                columns[4, j] = 1.0
                columns[7, j] = number
                u[j + 1] = columns[5, j]


@kernel
def enter(P, f, size, columns, ridge):
    """Columns that vary for the first time enter the filter with their ridge and weight 0."""
    for j in range(1, size):
        if columns[4, j - 1] == 1.0:
            P[f, j, j] = 1.0 / (ridge * columns[3, j - 1])


@kernel
def grown(columns, size, total, present):
    """Columns whose unit of ridge doubled: ``columns[4]`` gets the increase of their unit of ridge; how many there are."""
    count = 0
    for j in range(size - 1):
        columns[4, j] = 0.0
        unit = columns[2, j] / (columns[6, j] if present else total) if columns[3, j] > 0.0 else 0.0
        if unit > 2.0 * columns[3, j]:
            columns[4, j] = unit - columns[3, j]
            count += 1
    return count


@kernel
def accept(columns, size):
    """The larger variances become the units of ridge."""
    for j in range(size - 1):
        columns[3, j] += columns[4, j]
        columns[4, j] = 0.0


@kernel
def standardise(values, indices, start, stop, dense, centred, columns, total, places, z):
    """(places, z) of the intercept and the row's columns, each value counted in its own scale; how many there are.

    Centred (dense rows): (x − mean)/deviation. Otherwise x over the root mean square of the column's nonzero values,
    so that zeros stay zeros and cost nothing.
    """
    places[0] = 0
    z[0] = 1.0
    count = 1
    for k in range(start, stop):
        j = indices[k - start] if dense else indices[k]
        value = values[k]
        if centred:
            value -= columns[0, j]
            gap = value - columns[1, j]
            rest = gap * total / (total + 1.0)
            variance = (columns[2, j] + gap * rest) / (total + 1.0)
            centre = columns[0, j] + columns[1, j]
            if variance > DEAD * centre * centre and variance > 1e-280:
                places[count] = j + 1
                z[count] = rest / math.sqrt(variance)
                count += 1
        elif value != 0.0:
            places[count] = j + 1
            z[count] = value / math.sqrt((columns[2, j] + value * value) / (columns[1, j] + 1.0))
            count += 1
    return count


@kernel
def spread_sparse(values, indices, start, stop, dense, columns, weight):
    """Add a row to the uncentred scales: count and sum of squares of each column's nonzero values."""
    for k in range(start, stop):
        j = indices[k - start] if dense else indices[k]
        if values[k] != 0.0:
            columns[1, j] += weight
            columns[2, j] += weight * values[k] * values[k]


@kernel
def sparse_dot(table, f, places, z, count):
    """w_f · z over the places present."""
    total = 0.0
    for k in range(count):
        total += table[f, places[k]] * z[k]
    return total


@kernel
def gradient_step(table, f, places, z, count, step):
    """w_f ← w_f − step·z."""
    for k in range(count):
        table[f, places[k]] -= step * z[k]


@kernel
def adaptive_step(table, sums, f, places, z, count, slope, rate):
    """AdaGrad: each coordinate's step is rate over the root of its own sum of squared gradients."""
    for k in range(count):
        gradient = slope * z[k]
        if gradient != 0.0:
            sums[f, places[k]] += gradient * gradient
            if sums[f, places[k]] > 0.0:  # the square of a tiny gradient is 0
                table[f, places[k]] -= rate * gradient / math.sqrt(sums[f, places[k]])


@kernel
def diagonal_spread(sums, f, places, z, count, ridge):
    """q = Σ z²/A of a filter that keeps only the diagonal A = ridge + sums."""
    total = 0.0
    for k in range(count):
        total += z[k] * z[k] / (ridge + sums[f, places[k]])
    return total


@kernel
def diagonal_step(table, sums, f, places, z, count, ridge, step, curvature):
    """w ← w + step·z/A, then A ← A + curvature·z², coordinate by coordinate."""
    for k in range(count):
        table[f, places[k]] += step * z[k] / (ridge + sums[f, places[k]])
        sums[f, places[k]] += curvature * z[k] * z[k]


@kernel
def exponentiated(table, sums, f, size, radius, scale):
    """EG±: the weights of radius·(softmax(−ηG) − softmax(ηG) parts) from summed gradients G and Σ(range)² = scale."""
    if scale <= 1e-300:  # nothing seen yet, or so little that the rate would overflow
        return
    rate = radius * math.sqrt(math.log(2.0 * size) / scale)
    top = 0.0
    for j in range(size):
        top = max(top, abs(sums[f, j]))
    total = 0.0
    for j in range(size):
        table[f, j] = math.exp(-rate * (sums[f, j] + top))
        total += table[f, j] + math.exp(rate * (sums[f, j] - top))
    for j in range(size):
        table[f, j] = radius * (table[f, j] - math.exp(rate * (sums[f, j] - top))) / total
