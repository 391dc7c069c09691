"""The engine's loop for its most frequent case: dense rows of few columns, plain steps at a constant rate, nothing kept
but the loss.

There a row costs what waiting for the last one costs, so the weights stay in registers (_lanes.py) and whatever could push
them out stays away: the general loop with this inside would lose half of it. The arithmetic is the engine's own, in the
same order; not a bit differs.
"""

from __future__ import annotations

import math
from typing import Any

from .._jit import kernel
from .._lanes import held, held_add, held_bias, put_back, row_score
from . import state as s
from .engine import usable


@kernel
def with_ones(total: float, count: int) -> float:
    """total + 1 + 1 + …, as if added one by one to the last bit."""
    if total == math.floor(total):
        return total + count
    for _ in range(count):
        total += 1.0
    return total


@kernel(light=True)
def learn_narrow(
    rows: Any, y: Any, start: int, stop: int, loss: Any, geometry: Any, table: Any, numbers: Any, out: Any
) -> int:
    """As ``engine.learn`` of rows of at most NARROW columns, in order and without weights."""
    dual = table[s.DUAL, 1 : rows.end(0) + 1]
    lanes = held(dual, table[s.DUAL, 0], numbers[s.INTERCEPT])
    loss_sum = numbers[s.LOSS]
    at = start
    while at < stop:
        target = y[at]
        score = row_score(rows, at, lanes, 0.0)
        step = geometry.step(numbers[s.RATE], 1.0)  # read anew: a register less
        slope = geometry.slope(loss, score, target, step)
        shove = step * slope
        if not usable(score, slope, shove):
            break
        out[at] = score
        loss_sum += loss.value(score, target)
        if shove != 0.0:
            lanes = held_add(rows.X, at, -shove, lanes)
        at += 1
    put_back(lanes, dual)
    table[s.DUAL, 0] = held_bias(lanes)
    numbers[s.LOSS] = loss_sum
    numbers[s.ROUNDS] = with_ones(numbers[s.ROUNDS], at - start)
    numbers[s.WEIGHT] = with_ones(numbers[s.WEIGHT], at - start)
    return at
