"""The one loop of online learning: get x, predict, observe y, suffer V(y, s), update. Any loss, any geometry.

Everything that differs lives in the parts: ``rows`` knows the layout, ``loss`` the slope, ``geometry`` the move. The
loop only counts. Sums that a certificate needs are kept when asked for. Penalties are owed, not applied: each
coordinate remembers how much shrinkage it has paid (rows SHRUNK and CUT) and pays the rest when it is next read, so
a round costs only the entries of its row and weights under L1 are truly zero.

With a_t = rate·l1 and Δ_t = ln(1 + rate·l2) the prox of round t is |w| ← (|w| − a_t)₊·exp(−Δ_t); over many rounds
that is (|w|·exp(A_s) − (C_t − C_s))₊·exp(−A_t), A = ΣΔ and C = Σ a_τ·exp(A_{τ−1}): two numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel
from .._lanes import row_score
from . import state as s


@kernel
def paid(w: float, shrunk: float, cut: float, shrink: float, threshold: float) -> float:
    """A coordinate after it has paid what it owes in penalties."""
    size = abs(w) * math.exp(shrunk - shrink) - (threshold - cut) * math.exp(-shrink)
    return math.copysign(size, w) if size > 0.0 else 0.0


@kernel
def pay(rows: Any, i: int, table: Any, numbers: Any) -> None:
    """Let the coordinates of row i pay."""
    for k in range(rows.begin(i), rows.end(i)):
        j = rows.column(k) + 1
        table[s.DUAL, j] = paid(
            table[s.DUAL, j], table[s.SHRUNK, j], table[s.CUT, j], numbers[s.SHRINK], numbers[s.THRESHOLD]
        )
        table[s.SHRUNK, j] = numbers[s.SHRINK]
        table[s.CUT, j] = numbers[s.THRESHOLD]


@kernel
def pay_all(table: Any, numbers: Any) -> None:
    """Let every coordinate pay and start the count afresh (before it overflows)."""
    for j in range(1, int(numbers[s.WIDTH]) + 1):
        table[s.DUAL, j] = paid(
            table[s.DUAL, j], table[s.SHRUNK, j], table[s.CUT, j], numbers[s.SHRINK], numbers[s.THRESHOLD]
        )
        table[s.SHRUNK, j] = 0.0
        table[s.CUT, j] = 0.0
    numbers[s.SHRINK] = 0.0
    numbers[s.THRESHOLD] = 0.0


@kernel
def sum_masses(geometry: Any, table: Any, numbers: Any) -> None:
    """The total of a linked geometry, summed afresh over every coordinate in use."""
    first = 0 if numbers[s.INTERCEPT] > 0.0 else 1
    last = int(numbers[s.WIDTH]) + 1
    top = -math.inf
    for j in range(first, last):
        top = max(top, geometry.height(table[s.DUAL, j]))
    if abs(top - numbers[s.SHIFT]) > 30.0:
        numbers[s.SHIFT] = top
    total = 0.0
    for j in range(first, last):
        total += geometry.mass(table[s.DUAL, j], numbers[s.SHIFT])
    numbers[s.TOTAL] = total
    numbers[s.TOUCHED] = 0.0


@kernel(reassociate=True)
def owing_score(rows: Any, i: int, table: Any, numbers: Any) -> float:
    """x_i · w where the weights owe penalties; the state is not touched."""
    score = table[s.DUAL, 0] if numbers[s.INTERCEPT] > 0.0 else 0.0
    for k in range(rows.begin(i), rows.end(i)):
        j = rows.column(k) + 1
        score += rows.entry(i, k) * paid(
            table[s.DUAL, j], table[s.SHRUNK, j], table[s.CUT, j], numbers[s.SHRINK], numbers[s.THRESHOLD]
        )
    return score


@kernel(reassociate=True, inlined=True)
def linked_score(rows: Any, i: int, geometry: Any, table: Any, numbers: Any) -> float:
    """x_i · w where the weights are a function of the duals."""
    total = numbers[s.TOTAL]
    shift = numbers[s.SHIFT]
    score = geometry.weight(table[s.DUAL, 0], total, shift) if numbers[s.INTERCEPT] > 0.0 else 0.0
    for k in range(rows.begin(i), rows.end(i)):
        score += rows.entry(i, k) * geometry.weight(table[s.DUAL, rows.column(k) + 1], total, shift)
    return score


@kernel(inlined=True)
def moved(geometry: Any, table: Any, numbers: Any, j: int, gradient: float, step: float) -> None:
    """Move one coordinate; a linked geometry's total follows, an adaptive one's range too."""
    before = table[s.DUAL, j]
    dual, memory = geometry.move(before, table[s.MEMORY, j], gradient, step)
    table[s.DUAL, j] = dual
    table[s.MEMORY, j] = memory
    if numbers[s.LINKED] > 0.0:
        shift = numbers[s.SHIFT]
        if geometry.height(dual) > shift + 30.0:
            numbers[s.TOUCHED] = math.inf  # exp would leave its range: the total is summed afresh with another shift
        else:
            numbers[s.TOTAL] += geometry.mass(dual, shift) - geometry.mass(before, shift)
    else:
        table[s.LOW, j] = min(table[s.LOW, j], dual)
        table[s.HIGH, j] = max(table[s.HIGH, j], dual)


@kernel(inlined=True)
def move_row(rows: Any, i: int, geometry: Any, table: Any, numbers: Any, slope: float, step: float) -> None:
    """Move the coordinates of row i one by one (linked or adaptive geometries)."""
    if numbers[s.INTERCEPT] > 0.0:
        moved(geometry, table, numbers, 0, slope, step)
    for k in range(rows.begin(i), rows.end(i)):
        moved(geometry, table, numbers, rows.column(k) + 1, slope * rows.entry(i, k), step)
    if numbers[s.LINKED] > 0.0:
        numbers[s.TOUCHED] += rows.end(i) - rows.begin(i) + 1
        if numbers[s.TOUCHED] >= numbers[s.WIDTH] + 1.0 or not (numbers[s.TOTAL] > 0.0):
            sum_masses(geometry, table, numbers)


@kernel(inlined=True)
def note_row(rows: Any, i: int, numbers: Any, share: float) -> None:
    """The largest range and entry of a row, absent entries and the intercept included, times √share."""
    low = 1.0 if numbers[s.INTERCEPT] > 0.0 else math.inf
    high = 1.0 if numbers[s.INTERCEPT] > 0.0 else -math.inf
    if rows.end(i) - rows.begin(i) < numbers[s.WIDTH]:
        low, high = min(low, 0.0), max(high, 0.0)
    for k in range(rows.begin(i), rows.end(i)):
        value = rows.entry(i, k)
        low, high = min(low, value), max(high, value)
    root = math.sqrt(share)
    numbers[s.RANGE] = max(numbers[s.RANGE], root * (high - low))
    numbers[s.PEAK] = max(numbers[s.PEAK], root * max(abs(low), abs(high)))


@kernel
def lowest(geometry: Any, table: Any, numbers: Any) -> float:
    """The smallest exponent of a multiplicative weight (of both signs where there are two)."""
    low = math.inf
    for j in range(0 if numbers[s.INTERCEPT] > 0.0 else 1, int(numbers[s.WIDTH]) + 1):
        low = min(low, -geometry.height(-table[s.DUAL, j]))
    return low


@kernel(inlined=True)
def general_score(rows: Any, i: int, geometry: Any, table: Any, numbers: Any) -> float:
    """x_i · w whatever the weights are."""
    if numbers[s.LINKED] > 0.0:
        return linked_score(rows, i, geometry, table, numbers)
    return owing_score(rows, i, table, numbers)


@kernel(reassociate=True)
def add_weights(geometry: Any, table: Any, numbers: Any, c: float) -> None:
    """Add the current weights to the running sum, where no shorter way is known."""
    for j in range(int(numbers[s.WIDTH]) + 1):
        dual = table[s.DUAL, j]
        if numbers[s.L1] + numbers[s.L2] > 0.0 and j > 0:
            dual = paid(dual, table[s.SHRUNK, j], table[s.CUT, j], numbers[s.SHRINK], numbers[s.THRESHOLD])
        if numbers[s.LINKED] > 0.0:
            dual = geometry.weight(dual, numbers[s.TOTAL], numbers[s.SHIFT])
        table[s.AVERAGE, j] += c * dual


@kernel
def finish_batch(geometry: Any, table: Any, numbers: Any, step: float) -> None:
    """Apply the mean of a full mini-batch's steps.

    Its bracket is that of the mean gradient, counted once a row. A normalised or implicit step is not a gradient's, so
    there the rows' own brackets were added: B(u, ·) is convex, so the mean of steps from one point is no further from u
    than they are in the mean.
    """
    count = numbers[s.WAITING]
    norm2 = 0.0
    before = geometry.conjugate(numbers[s.TOTAL], numbers[s.SHIFT]) if numbers[s.LINKED] > 0.0 else 0.0
    along = 0.0
    total, shift = numbers[s.TOTAL], numbers[s.SHIFT]  # of the weights before: each move changes the total
    for j in range(int(numbers[s.WIDTH]) + 1):
        gradient = table[s.PENDING, j] / count
        table[s.PENDING, j] = 0.0
        if gradient != 0.0:
            norm2 += gradient * gradient
            if numbers[s.LINKED] > 0.0:
                along += gradient * geometry.weight(table[s.DUAL, j], total, shift)
            moved(geometry, table, numbers, j, gradient, step)
    if numbers[s.LINKED] > 0.0:
        sum_masses(geometry, table, numbers)
        after = geometry.conjugate(numbers[s.TOTAL], numbers[s.SHIFT])
        numbers[s.EXCESS] += count * max(0.0, along + (after - before) / step)
    elif numbers[s.NORMED] == 0.0:
        numbers[s.EXCESS] += count * 0.5 * step * norm2
    numbers[s.WAITING] = 0.0


@kernel(inlined=True)
def count_row(
    rows: Any, i: int, loss: Any, table: Any, numbers: Any, score: float, target: float, c: float, suffered: float,
    slope: float, norm2: float, share: float,
) -> None:  # fmt: skip
    """What a certificate needs of a round, before the update; ``share`` is step/rate."""
    one = suffered / c if c > 0.0 else 0.0
    numbers[s.LARGEST] = max(numbers[s.LARGEST], suffered)
    numbers[s.STEP_LOSS] += share * one
    numbers[s.STEP_WEIGHT] += share
    zero = 0.0
    if numbers[s.LINKED] > 0.0:
        zero = frozen_score(rows, i, table, s.START, numbers)
        note_row(rows, i, numbers, share)
    numbers[s.ZERO_LOSS] += share * loss.value(zero, target)
    numbers[s.NORM2] = max(numbers[s.NORM2], norm2)
    numbers[s.REACH] = max(numbers[s.REACH], share * norm2)
    numbers[s.SLOPE2] += c * c * slope * slope
    if score * target <= 0.0:
        numbers[s.MISTAKES] += 1.0
    if numbers[s.CANDIDATES] > 0.0:
        numbers[s.OLDER_LOSS] += share * loss.value(frozen_score(rows, i, table, s.OLDER, numbers), target)
        numbers[s.NEWER_LOSS] += share * loss.value(frozen_score(rows, i, table, s.NEWER, numbers), target)
        numbers[s.OLDER_OWN] += share * one
        numbers[s.NEWER_OWN] += share * one


@kernel(inlined=True)
def frozen_score(rows: Any, i: int, table: Any, row: int, numbers: Any) -> float:
    """x_i · the weights frozen in a row of the table."""
    return rows.dot(i, table[row, 1:]) + (table[row, 0] if numbers[s.INTERCEPT] > 0.0 else 0.0)


@kernel(inlined=True)
def usable(score: float, slope: float, shove: float, limit: float) -> bool:
    """Whether none of a row's numbers is an overflow on its way: one comparison for all, which NaN fails."""
    a, b, c = float(score), float(slope), float(shove)  # Python's numbers overflow without a warning, NumPy's with one
    return a * a + b * b + c * c <= limit


@kernel(light=True)
def learn(
    rows: Any, y: Any, weights: Any, order: Any, start: int, stop: int, loss: Any, geometry: Any, general: Any,
    table: Any, numbers: Any, out: Any,
) -> int:  # fmt: skip
    """Learn rows start … stop − 1 (through ``order`` unless it is empty); the scores before each update go to ``out``.

    ``general`` is None where the weights are the duals, the steps plain and nothing is owed; otherwise it is the
    geometry again. ``weights`` is None where nothing but the loss is counted: no weights, no order, no certificate, no
    average. Numba drops the branches of the other case before it types them: less to compile and less to ask of each
    row. The arithmetic that moves weights is the same in every case and in strict order, so all cases agree bit by bit.

    Returns ``stop``, or the position of the first row whose score or step is not a usable number: the state is then
    the one before that row.
    """
    dual = table[s.DUAL, 1:]
    average = table[s.AVERAGE, 1:]
    rate, power = numbers[s.RATE], numbers[s.POWER]
    intercept, certify = numbers[s.INTERCEPT] > 0.0, numbers[s.CERTIFY] > 0.0
    linked, adaptive = numbers[s.LINKED] > 0.0, numbers[s.ADAPTIVE] > 0.0
    normed = certify or numbers[s.NORMED] > 0.0
    averaging = numbers[s.AVERAGING] > 0.0
    penalised = numbers[s.L1] + numbers[s.L2] > 0.0
    batch = numbers[s.BATCH]
    plain = general is None or (not linked and not adaptive and batch == 1.0)
    bias = table[s.DUAL, 0]
    rounds, loss_sum, weight_sum = numbers[s.ROUNDS], numbers[s.LOSS], numbers[s.WEIGHT]
    norm2 = 1.0
    at = start
    while at < stop:
        i, c = at, 1.0
        if weights is not None:
            i = order[at] if order.size > 0 else at
            c = weights[i] if weights.size > 0 else 1.0
        target = y[i]
        if general is None:
            score = row_score(rows, i, dual, bias)
        else:
            table[s.DUAL, 0] = bias
            score = general_score(rows, i, general, table, numbers)
        if normed:
            norm2 = rows.norm2(i) + (1.0 if intercept else 0.0)
        step = geometry.step(c * rate if power == 0.0 else c * rate / (rounds + 1.0) ** power, norm2)
        slope = geometry.slope(loss, score, target, step * norm2)
        suffered = c * loss.value(score, target)
        if not (usable(score, slope, step * slope, s.HUGE * s.HUGE) and norm2 <= s.HUGE):
            break
        before, after = 0.0, 0.0
        if general is not None:
            if penalised:
                pay(rows, i, table, numbers)
            if averaging:
                add_weights(general, table, numbers, c)
            if linked and certify:
                before = general.conjugate(numbers[s.TOTAL], numbers[s.SHIFT])
        out[at] = score
        rounds += 1.0
        weight_sum += c
        loss_sum += suffered
        if weights is not None and certify:
            base = rate if power == 0.0 else rate / rounds**power
            count_row(rows, i, loss, table, numbers, score, target, c, suffered, slope, norm2, step / base)
        if plain:
            shove = step * slope
            if shove != 0.0:
                rows.add(i, -shove, dual)
                if intercept:
                    bias -= shove
            if weights is not None:
                if general is None and averaging and shove != 0.0:
                    # Σ_t w_t = (Σc)·w_now − Σ_τ (Σc up to τ)·Δ_τ: only the row's entries are touched
                    rows.add(i, weight_sum * shove, average)
                    if intercept:
                        table[s.AVERAGE, 0] += weight_sum * shove
                if certify:
                    size2 = numbers[s.SIZE2] + shove * (shove * norm2 - 2.0 * score)
                    numbers[s.SIZE2] = size2
                    numbers[s.SIZE2_MAX] = max(numbers[s.SIZE2_MAX], size2)
        if general is not None and not plain:
            base = rate if power == 0.0 else rate / rounds**power
            pull = step / base * slope  # a row's weight, or its share of a normalised step, belongs to its gradient
            if batch > 1.0:
                rows.add(i, pull, table[s.PENDING, 1:])
                if intercept:
                    table[s.PENDING, 0] += pull
                numbers[s.WAITING] += 1.0
                if numbers[s.WAITING] >= batch:
                    finish_batch(general, table, numbers, base)
            elif adaptive:
                move_row(rows, i, general, table, numbers, pull, base)
            else:
                move_row(rows, i, general, table, numbers, slope, step)
            if linked and certify:
                after = general.conjugate(numbers[s.TOTAL], numbers[s.SHIFT])
                if power > 0.0:
                    numbers[s.DISTANCE_MAX] = max(numbers[s.DISTANCE_MAX], after - lowest(general, table, numbers))
            bias = table[s.DUAL, 0]
        if weights is not None and certify and (batch == 1.0 or numbers[s.NORMED] > 0.0):
            base = rate if power == 0.0 else rate / rounds**power
            excess = step / base * geometry.excess(loss, score, target, slope, norm2, step, before, after)
            numbers[s.EXCESS] += excess
            numbers[s.OLDER_EXCESS] += excess
            numbers[s.NEWER_EXCESS] += excess
        if general is not None and penalised:
            numbers[s.THRESHOLD] += step * numbers[s.L1] * math.exp(numbers[s.SHRINK])
            numbers[s.SHRINK] += math.log1p(step * numbers[s.L2])
            if numbers[s.SHRINK] > 50.0:
                pay_all(table, numbers)
        at += 1
    table[s.DUAL, 0] = bias
    numbers[s.ROUNDS] = rounds
    numbers[s.LOSS] = loss_sum
    numbers[s.WEIGHT] = weight_sum
    return at


@kernel(reassociate=True, light=True)
def scores(rows: Any, start: int, stop: int, general: Any, table: Any, numbers: Any, out: Any) -> int:
    """The scores of rows start … stop − 1; the position of the first that is not a usable number, or ``stop``."""
    dual = table[s.DUAL, 1:]
    bias = table[s.DUAL, 0] if numbers[s.INTERCEPT] > 0.0 else 0.0
    for i in range(start, stop):
        if general is None:
            score = row_score(rows, i, dual, bias)
        else:
            score = general_score(rows, i, general, table, numbers)
        if not abs(score) <= s.HUGE:
            return i
        out[i] = score
    return stop


@kernel
def read_weights(geometry: Any, table: Any, numbers: Any, out: Any) -> None:
    """The weights that the next prediction uses, intercept first; the state is not touched."""
    for j in range(int(numbers[s.WIDTH]) + 1):
        dual = table[s.DUAL, j]
        if j > 0 and numbers[s.L1] + numbers[s.L2] > 0.0:
            dual = paid(dual, table[s.SHRUNK, j], table[s.CUT, j], numbers[s.SHRINK], numbers[s.THRESHOLD])
        if numbers[s.LINKED] > 0.0:
            dual = geometry.weight(dual, numbers[s.TOTAL], numbers[s.SHIFT])
        out[j] = dual if j > 0 or numbers[s.INTERCEPT] > 0.0 else 0.0


@kernel
def means(loss: Any, values: Any) -> None:
    """Scores to the target's scale, in place."""
    for i in range(values.size):
        values[i] = loss.mean(values[i])


@kernel(reassociate=True)
def risk(rows: Any, y: Any, weights: Any, loss: Any, u: Any, gradient: Any) -> float:
    """Σ c·V(y, u·x) of fixed weights u (intercept first), and its gradient: the second pass of a comparator."""
    total = 0.0
    gradient[:] = 0.0
    for i in range(y.size):
        c = weights[i] if weights.size > 0 else 1.0
        score = rows.dot(i, u[1:]) + u[0]
        total += c * loss.value(score, y[i])
        slope = c * loss.slope(score, y[i])
        gradient[0] += slope
        rows.add(i, slope, gradient[1:])
    return total


NO_ORDER = np.empty(0, dtype=np.int64)
NO_WEIGHTS = np.empty(0)
