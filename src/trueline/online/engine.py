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
from .state import (  # noqa: I001
    ADAPTIVE, AVERAGE, AVERAGING, BATCH, CANDIDATES, CERTIFY, CUT, DISTANCE_MAX, DUAL, EXCESS, HIGH, HUGE, INTERCEPT,
    L1, L2, LARGEST, LINKED, LOSS, LOW, MEMORY, MISTAKES, NEWER, NEWER_EXCESS, NEWER_LOSS, NEWER_OWN, NORM2, NORMED,
    OLDER, OLDER_EXCESS, OLDER_LOSS, OLDER_OWN, PEAK, PENDING, POWER, RANGE, RATE, REACH, ROUNDS, SHIFT, SHRINK,
    SHRUNK, SIZE2, SIZE2_MAX, SLOPE2, START, STEP_LOSS, STEP_WEIGHT, THRESHOLD, TOTAL, TOUCHED, WAITING, WEIGHT, WIDTH, ZERO_LOSS,
)  # fmt: skip


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
        table[DUAL, j] = paid(table[DUAL, j], table[SHRUNK, j], table[CUT, j], numbers[SHRINK], numbers[THRESHOLD])
        table[SHRUNK, j] = numbers[SHRINK]
        table[CUT, j] = numbers[THRESHOLD]


@kernel
def pay_all(table: Any, numbers: Any) -> None:
    """Let every coordinate pay and start the count afresh (before it overflows)."""
    for j in range(1, int(numbers[WIDTH]) + 1):
        table[DUAL, j] = paid(table[DUAL, j], table[SHRUNK, j], table[CUT, j], numbers[SHRINK], numbers[THRESHOLD])
        table[SHRUNK, j] = 0.0
        table[CUT, j] = 0.0
    numbers[SHRINK] = 0.0
    numbers[THRESHOLD] = 0.0


@kernel
def sum_masses(geometry: Any, table: Any, numbers: Any) -> None:
    """The total of a linked geometry, summed afresh over every coordinate in use."""
    first = 0 if numbers[INTERCEPT] > 0.0 else 1
    last = int(numbers[WIDTH]) + 1
    top = -math.inf
    for j in range(first, last):
        top = max(top, geometry.height(table[DUAL, j]))
    if abs(top - numbers[SHIFT]) > 30.0:
        numbers[SHIFT] = top
    total = 0.0
    for j in range(first, last):
        total += geometry.mass(table[DUAL, j], numbers[SHIFT])
    numbers[TOTAL] = total
    numbers[TOUCHED] = 0.0


@kernel(reassociate=True)
def owing_score(rows: Any, i: int, table: Any, numbers: Any) -> float:
    """x_i · w where the weights owe penalties; the state is not touched."""
    score = table[DUAL, 0] if numbers[INTERCEPT] > 0.0 else 0.0
    for k in range(rows.begin(i), rows.end(i)):
        j = rows.column(k) + 1
        score += rows.entry(i, k) * paid(
            table[DUAL, j], table[SHRUNK, j], table[CUT, j], numbers[SHRINK], numbers[THRESHOLD]
        )
    return score


@kernel(reassociate=True)
def linked_score(rows: Any, i: int, geometry: Any, table: Any, numbers: Any) -> float:
    """x_i · w where the weights are a function of the duals."""
    total = numbers[TOTAL]
    shift = numbers[SHIFT]
    score = geometry.weight(table[DUAL, 0], total, shift) if numbers[INTERCEPT] > 0.0 else 0.0
    for k in range(rows.begin(i), rows.end(i)):
        score += rows.entry(i, k) * geometry.weight(table[DUAL, rows.column(k) + 1], total, shift)
    return score


@kernel
def moved(geometry: Any, table: Any, numbers: Any, j: int, gradient: float, step: float) -> None:
    """Move one coordinate; a linked geometry's total follows, an adaptive one's range too."""
    before = table[DUAL, j]
    dual, memory = geometry.move(before, table[MEMORY, j], gradient, step)
    table[DUAL, j] = dual
    table[MEMORY, j] = memory
    if numbers[LINKED] > 0.0:
        shift = numbers[SHIFT]
        numbers[TOTAL] += geometry.mass(dual, shift) - geometry.mass(before, shift)
        if geometry.height(dual) > shift + 30.0:
            numbers[TOUCHED] = math.inf
    else:
        table[LOW, j] = min(table[LOW, j], dual)
        table[HIGH, j] = max(table[HIGH, j], dual)


@kernel
def move_row(rows: Any, i: int, geometry: Any, table: Any, numbers: Any, slope: float, step: float) -> None:
    """Move the coordinates of row i one by one (linked or adaptive geometries)."""
    if numbers[INTERCEPT] > 0.0:
        moved(geometry, table, numbers, 0, slope, step)
    for k in range(rows.begin(i), rows.end(i)):
        moved(geometry, table, numbers, rows.column(k) + 1, slope * rows.entry(i, k), step)
    if numbers[LINKED] > 0.0:
        numbers[TOUCHED] += rows.end(i) - rows.begin(i) + 1
        if numbers[TOUCHED] >= numbers[WIDTH] + 1.0 or not (numbers[TOTAL] > 0.0):
            sum_masses(geometry, table, numbers)


@kernel
def note_row(rows: Any, i: int, numbers: Any, share: float) -> None:
    """The largest range and entry of a row, absent entries and the intercept included, times √share."""
    low = 1.0 if numbers[INTERCEPT] > 0.0 else math.inf
    high = 1.0 if numbers[INTERCEPT] > 0.0 else -math.inf
    if rows.end(i) - rows.begin(i) < numbers[WIDTH]:
        low, high = min(low, 0.0), max(high, 0.0)
    for k in range(rows.begin(i), rows.end(i)):
        value = rows.entry(i, k)
        low, high = min(low, value), max(high, value)
    root = math.sqrt(share)
    numbers[RANGE] = max(numbers[RANGE], root * (high - low))
    numbers[PEAK] = max(numbers[PEAK], root * max(abs(low), abs(high)))


@kernel(reassociate=True)
def add_weights(geometry: Any, table: Any, numbers: Any, c: float) -> None:
    """Add the current weights to the running sum, where no shorter way is known."""
    for j in range(int(numbers[WIDTH]) + 1):
        dual = table[DUAL, j]
        if numbers[L1] + numbers[L2] > 0.0 and j > 0:
            dual = paid(dual, table[SHRUNK, j], table[CUT, j], numbers[SHRINK], numbers[THRESHOLD])
        if numbers[LINKED] > 0.0:
            dual = geometry.weight(dual, numbers[TOTAL], numbers[SHIFT])
        table[AVERAGE, j] += c * dual


@kernel
def finish_batch(geometry: Any, loss: Any, table: Any, numbers: Any, step: float) -> None:
    """Apply the mean gradient of a full mini-batch."""
    count = numbers[WAITING]
    norm2 = 0.0
    before = geometry.conjugate(numbers[TOTAL], numbers[SHIFT]) if numbers[LINKED] > 0.0 else 0.0
    along = 0.0
    for j in range(int(numbers[WIDTH]) + 1):
        gradient = table[PENDING, j] / count
        table[PENDING, j] = 0.0
        if gradient != 0.0:
            norm2 += gradient * gradient
            if numbers[LINKED] > 0.0:
                along += gradient * geometry.weight(table[DUAL, j], numbers[TOTAL], numbers[SHIFT])
            moved(geometry, table, numbers, j, gradient, step)
    if numbers[LINKED] > 0.0:
        sum_masses(geometry, table, numbers)
        after = geometry.conjugate(numbers[TOTAL], numbers[SHIFT])
        numbers[EXCESS] += count * max(0.0, along + (after - before) / step)
    else:
        numbers[EXCESS] += count * 0.5 * step * norm2
    numbers[WAITING] = 0.0


@kernel(reassociate=True)
def learn(
    rows: Any, y: Any, weights: Any, order: Any, start: int, stop: int, loss: Any, geometry: Any, table: Any,
    numbers: Any, out: Any,
) -> int:  # fmt: skip
    """Learn rows start … stop − 1 (through ``order`` unless it is empty); the scores before each update go to ``out``.

    Returns ``stop``, or the position of the first row whose score or step is not a usable number: the state is then
    the one before that row.
    """
    dual = table[DUAL, 1:]
    average = table[AVERAGE, 1:]
    rate, power = numbers[RATE], numbers[POWER]
    intercept, certify = numbers[INTERCEPT] > 0.0, numbers[CERTIFY] > 0.0
    linked, adaptive = numbers[LINKED] > 0.0, numbers[ADAPTIVE] > 0.0
    normed = certify or numbers[NORMED] > 0.0
    averaging, candidates = numbers[AVERAGING] > 0.0, numbers[CANDIDATES] > 0.0
    penalised = numbers[L1] + numbers[L2] > 0.0
    batch = numbers[BATCH]
    plain = not linked and not adaptive and batch == 1.0
    bias = table[DUAL, 0]
    rounds, loss_sum, weight_sum = numbers[ROUNDS], numbers[LOSS], numbers[WEIGHT]
    norm2 = 1.0
    at = start
    while at < stop:
        i = order[at] if order.size > 0 else at
        c = weights[i] if weights.size > 0 else 1.0
        target = y[i]
        if linked:
            score = linked_score(rows, i, geometry, table, numbers)
        elif penalised:
            table[DUAL, 0] = bias
            score = owing_score(rows, i, table, numbers)
        else:
            score = rows.dot(i, dual)
            if intercept:
                score += bias
        if normed:
            norm2 = rows.norm2(i) + (1.0 if intercept else 0.0)
        step = geometry.step(c * rate if power == 0.0 else c * rate / (rounds + 1.0) ** power, norm2)
        slope = geometry.slope(loss, score, target, step * norm2)
        suffered = c * loss.value(score, target)
        if not (abs(score) <= HUGE and abs(slope) <= HUGE and abs(step * slope) <= HUGE and norm2 <= HUGE):
            break
        if penalised:
            pay(rows, i, table, numbers)
        out[at] = score
        rounds += 1.0
        weight_sum += c
        loss_sum += suffered
        before = geometry.conjugate(numbers[TOTAL], numbers[SHIFT]) if linked and certify else 0.0
        if averaging and (penalised or linked or adaptive or batch > 1.0):
            table[DUAL, 0] = bias
            add_weights(geometry, table, numbers, c)
        if certify:
            base = rate if power == 0.0 else rate / rounds**power
            share = step / base
            numbers[LARGEST] = max(numbers[LARGEST], suffered)
            numbers[STEP_LOSS] += share * (suffered / c if c > 0.0 else 0.0)
            numbers[STEP_WEIGHT] += share
            zero = rows.dot(i, table[START, 1:]) + (table[START, 0] if intercept else 0.0) if linked else 0.0
            numbers[ZERO_LOSS] += share * loss.value(zero, target)
            numbers[NORM2] = max(numbers[NORM2], norm2)
            numbers[REACH] = max(numbers[REACH], share * norm2)
            numbers[SLOPE2] += c * c * slope * slope
            if score * target <= 0.0:
                numbers[MISTAKES] += 1.0
            if linked:
                note_row(rows, i, numbers, share)
            if candidates:
                older = rows.dot(i, table[OLDER, 1:]) + (table[OLDER, 0] if intercept else 0.0)
                newer = rows.dot(i, table[NEWER, 1:]) + (table[NEWER, 0] if intercept else 0.0)
                numbers[OLDER_LOSS] += share * loss.value(older, target)
                numbers[NEWER_LOSS] += share * loss.value(newer, target)
                numbers[OLDER_OWN] += share * (suffered / c if c > 0.0 else 0.0)
                numbers[NEWER_OWN] += share * (suffered / c if c > 0.0 else 0.0)
        if plain:
            shove = step * slope
            if shove != 0.0:
                rows.add(i, -shove, dual)
                if intercept:
                    bias -= shove
                if averaging and not penalised:
                    # Σ_t w_t = (Σc)·w_now − Σ_τ (Σc up to τ)·Δ_τ: only the row's entries are touched
                    rows.add(i, weight_sum * shove, average)
                    if intercept:
                        table[AVERAGE, 0] += weight_sum * shove
            if certify:
                size2 = numbers[SIZE2] + shove * (shove * norm2 - 2.0 * score)
                numbers[SIZE2] = size2
                numbers[SIZE2_MAX] = max(numbers[SIZE2_MAX], size2)
        elif batch > 1.0:
            rows.add(i, c * slope, table[PENDING, 1:])
            if intercept:
                table[PENDING, 0] += c * slope
            numbers[WAITING] += 1.0
            if numbers[WAITING] >= batch:
                table[DUAL, 0] = bias
                finish_batch(geometry, loss, table, numbers, rate if power == 0.0 else rate / rounds**power)
                bias = table[DUAL, 0]
        else:
            table[DUAL, 0] = bias
            move_row(rows, i, geometry, table, numbers, slope, step)
            bias = table[DUAL, 0]
        if certify and batch == 1.0:
            after = 0.0
            if linked:
                after = geometry.conjugate(numbers[TOTAL], numbers[SHIFT])
                low = after
                for j in range(0 if intercept else 1, int(numbers[WIDTH]) + 1):
                    low = min(low, table[DUAL, j], -geometry.height(table[DUAL, j]))
                numbers[DISTANCE_MAX] = max(numbers[DISTANCE_MAX], after - low)
            base = rate if power == 0.0 else rate / rounds**power
            excess = step / base * geometry.excess(loss, score, target, slope, norm2, step, before, after)
            numbers[EXCESS] += excess
            if candidates:
                numbers[OLDER_EXCESS] += excess
                numbers[NEWER_EXCESS] += excess
        if penalised:
            numbers[THRESHOLD] += step * numbers[L1] * math.exp(numbers[SHRINK])
            numbers[SHRINK] += math.log1p(step * numbers[L2])
            if numbers[SHRINK] > 50.0:
                pay_all(table, numbers)
        at += 1
    table[DUAL, 0] = bias
    numbers[ROUNDS] = rounds
    numbers[LOSS] = loss_sum
    numbers[WEIGHT] = weight_sum
    return at


@kernel(reassociate=True)
def scores(rows: Any, start: int, stop: int, geometry: Any, table: Any, numbers: Any, out: Any) -> int:
    """The scores of rows start … stop − 1; the position of the first that is not a usable number, or ``stop``."""
    dual = table[DUAL, 1:]
    bias = table[DUAL, 0] if numbers[INTERCEPT] > 0.0 else 0.0
    linked, penalised = numbers[LINKED] > 0.0, numbers[L1] + numbers[L2] > 0.0
    for i in range(start, stop):
        if linked:
            score = linked_score(rows, i, geometry, table, numbers)
        elif penalised:
            score = owing_score(rows, i, table, numbers)
        else:
            score = rows.dot(i, dual) + bias
        if not abs(score) <= HUGE:
            return i
        out[i] = score
    return stop


@kernel
def read_weights(geometry: Any, table: Any, numbers: Any, out: Any) -> None:
    """The weights that the next prediction uses, intercept first; the state is not touched."""
    for j in range(int(numbers[WIDTH]) + 1):
        dual = table[DUAL, j]
        if j > 0 and numbers[L1] + numbers[L2] > 0.0:
            dual = paid(dual, table[SHRUNK, j], table[CUT, j], numbers[SHRINK], numbers[THRESHOLD])
        if numbers[LINKED] > 0.0:
            dual = geometry.weight(dual, numbers[TOTAL], numbers[SHIFT])
        out[j] = dual if j > 0 or numbers[INTERCEPT] > 0.0 else 0.0


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
