"""The layout of a learner's state: one table of per-coordinate rows and one vector of numbers.

Column 0 of the table is the intercept (a constant column inside x); column j + 1 is feature j, so that features may
be appended. Everything that the engine knows is here, so saving these two arrays and loading them is never having
stopped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Rows of the table.
DUAL = 0  # θ: the weights themselves unless the geometry is linked
MEMORY = 1  # what an adaptive geometry keeps
PENDING = 2  # the gradient sum of an unfinished mini-batch
AVERAGE = 3  # for the mean of the weights before each update
OLDER = 4  # weights frozen at the last doubling count but one
NEWER = 5  # weights frozen at the last doubling count
SHRUNK = 6  # log-shrinkage already applied to this coordinate (lazy L2)
CUT = 7  # threshold already applied to this coordinate (lazy L1)
LOW = 8  # smallest weight so far
HIGH = 9  # largest weight so far
START = 10  # the weights before the first example
TABLE_ROWS = 11

# Numbers: settings first, then what moves.
RATE = 0
POWER = 1
L1 = 2
L2 = 3
INTERCEPT = 4
CERTIFY = 5
BATCH = 6
AVERAGING = 7
LINKED = 8
ADAPTIVE = 9
NORMED = 10
CANDIDATES = 11  # count the frozen weights' losses
ROUNDS = 12
WEIGHT = 13  # Σ c
LOSS = 14  # Σ c·V before each update
TOTAL = 15
SHIFT = 16
TOUCHED = 17  # entries moved since the total was last summed afresh
SHRINK = 18  # log-shrinkage that every penalised coordinate owes in all
THRESHOLD = 19  # the same for the threshold
WAITING = 20  # examples in the unfinished mini-batch
ZERO_LOSS = 21  # the loss of the weights before the first example
EXCESS = 22  # Σ of the universal bound's brackets
NORM2 = 23  # largest ‖x‖², the intercept's 1 included
REACH = 24  # largest (step/rate)·‖x‖²
RANGE = 25  # largest √(step/rate)·(max_i x_i − min_i x_i)
PEAK = 26  # largest √(step/rate)·max_i |x_i|
STEP_LOSS = 27  # Σ (step/rate)·V: the losses as the steps weigh them
STEP_WEIGHT = 28  # Σ step/rate
SIZE2 = 29  # ‖w_t‖² by its recursion
SIZE2_MAX = 30
DISTANCE_MAX = 31  # largest −ln of a multiplicative weight
OLDER_LOSS = 32  # the frozen weights' own loss since they were frozen
NEWER_LOSS = 33
OLDER_OWN = 34  # the learner's loss since then
NEWER_OWN = 35
OLDER_EXCESS = 36  # the brackets since then
NEWER_EXCESS = 37
OLDER_AT = 38
NEWER_AT = 39
MISTAKES = 40
SLOPE2 = 41  # Σ c²·slope²
LARGEST = 42  # largest c·V suffered
WIDTH = 43  # features in use; the table may have room for more
NUMBERS = 48

HUGE = 1e100  # a score, slope or step beyond this is an overflow on its way


def widened(table: np.ndarray, width: int) -> np.ndarray:
    """The same table with room for this many features."""
    wider = aligned(width + 1)
    wider[:, : table.shape[1]] = table
    return wider


def aligned(columns: int) -> np.ndarray:
    """An empty table whose first feature starts a cache line: the weights are read and written once a row."""
    raw = np.zeros(TABLE_ROWS * columns + 8)
    first = (-(raw.ctypes.data // 8) - 1) % 8
    return raw[first : first + TABLE_ROWS * columns].reshape(TABLE_ROWS, columns)


def flags(geometry: Any) -> tuple[bool, bool, bool]:
    """(linked, adaptive, normed) of a geometry, from its class."""
    made = type(geometry)
    return tuple(bool(getattr(made, name, False)) for name in ("linked", "adaptive", "normed"))  # type: ignore


class Head:
    """One weight vector: the engine's table and numbers."""

    def __init__(self, table: np.ndarray, numbers: np.ndarray) -> None:
        self.table = table
        self.numbers = numbers

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # An unpickled array may be a read-only map of a file; the engine writes.
        self.table, self.numbers = np.array(saved["table"]), np.array(saved["numbers"])
