"""The engine's loop for its most frequent case: dense rows of few columns, plain steps at a constant rate, nothing kept
but the loss.

There a row costs what waiting for the last one costs, so the weights stay in registers (_lanes.py) and whatever could push
them out stays away: the general loop with this inside would lose half of it. What is the same in every row would take
registers too, most of all the numbers of a part that a user wrote (one multiplication by a field of a loss pushed three of
eight registers of weights out and cost a fifth), so it is read from memory in each row, while the processor waits anyway.
The arithmetic is the engine's own, in the same order; not a bit differs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel
from .._lanes import LANES, held, held_bias, held_less, held_score, numbers_of, put_back, read_anew
from . import state as s
from .engine import usable

LIMIT, PARTS = LANES, LANES + 1  # places in what is the same in every row; before them the bias's entry, in a last lane


def fixed_numbers(loss: Any, geometry: Any, intercept: bool) -> np.ndarray:
    """What is the same in every row."""
    return np.array([0.0] * (LANES - 1) + [float(intercept), s.HUGE * s.HUGE, *numbers_of((loss, geometry))])


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
    rows: Any, y: Any, start: int, stop: int, loss: Any, geometry: Any, fixed: Any, table: Any, numbers: Any, out: Any
) -> int:
    """As ``engine.learn`` of rows of at most NARROW columns, in order and without weights."""
    dual = table[s.DUAL, 1 : rows.end(0) + 1]
    lanes = held(dual, table[s.DUAL, 0])
    at = start
    while at < stop:
        loss, geometry = read_anew((loss, geometry), fixed, PARTS)
        target = y[at]
        score = held_score(rows.X, at, lanes, fixed)
        step = geometry.step(numbers[s.RATE], 1.0)
        slope = geometry.slope(loss, score, target, step)
        shove = step * slope
        if not usable(score, slope, shove, fixed[LIMIT]):
            break
        out[at] = score
        numbers[s.LOSS] += loss.value(score, target)
        if shove != 0.0:
            lanes = held_less(rows.X, at, shove, lanes, fixed)
        at += 1
    put_back(lanes, dual)
    table[s.DUAL, 0] = held_bias(lanes)
    numbers[s.ROUNDS] = with_ones(numbers[s.ROUNDS], at - start)
    numbers[s.WEIGHT] = with_ones(numbers[s.WEIGHT], at - start)
    return at
