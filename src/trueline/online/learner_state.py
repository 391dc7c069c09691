"""What one weight vector of an online learner has learned: its weights, memories and the sums of its bound, by name.

Entry 0 of every array is the intercept (a constant column inside x), entry j + 1 is feature j, so that features may be
appended; arrays that a learner does not need are empty. Whatever the loop knows is here, so saving these fields and
loading them is never having stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import cython
import numpy as np

from ..simd import Array

ARRAYS = {
    "dual": "θ: the weights themselves, unless they are a function of θ and of a total",
    "memory": "what an adaptive geometry keeps of each coordinate's gradients",
    "low": "the smallest weight so far",
    "high": "the largest weight so far",
    "pending": "the gradients of an unfinished mini-batch",
    "average": "Σ over the rounds that the mean of the weights is made of",
    "shrunk": "log-shrinkage that a coordinate has paid (lazy L2)",
    "cut": "threshold that a coordinate has paid (lazy L1)",
    "older": "weights frozen at the last doubling count but one",
    "newer": "weights frozen at the last doubling count",
    "start": "the weights before the first example",
}
SUMS = {
    "rounds": "rows learned",
    "weight": "Σ c",
    "loss": "Σ c·V before each update",
    "total": "Σ of the masses of θ",
    "shift": "what the masses' exponents are counted from",
    "touched": "entries moved since the total was last summed afresh",
    "shrink": "log-shrinkage that every coordinate owes in all",
    "threshold": "the same for the threshold",
    "waiting": "rows in the unfinished mini-batch",
    "step_loss": "Σ (step/rate)·V: the losses as the steps weigh them",
    "step_weight": "Σ step/rate",
    "zero_loss": "Σ (step/rate)·V of the weights before the first example",
    "excess": "Σ of the universal bound's brackets",
    "largest_norm2": "the largest ‖x‖², the intercept's 1 included",
    "reach": "the largest (step/rate)·‖x‖²",
    "range": "the largest √(step/rate)·(max_i x_i − min_i x_i)",
    "peak": "the largest √(step/rate)·max_i |x_i|",
    "size2": "‖w‖² by its recursion",
    "largest_size2": "its largest value",
    "distance": "the largest −ln of a multiplicative weight",
    "older_loss": "the loss of the older frozen weights since they were frozen",
    "newer_loss": "the same of the newer ones",
    "older_own": "the learner's loss since then",
    "newer_own": "the same",
    "older_excess": "the brackets since then",
    "newer_excess": "the same",
    "older_at": "the round when they were frozen",
    "newer_at": "the same",
    "mistakes": "rounds whose score had the wrong sign",
    "slope2": "Σ c²·slope²",
    "largest_loss": "the largest c·V",
}


@cython.final
@cython.cclass
class Snapshot:
    """The arrays and sums of a state at one moment."""

    def __init__(self, arrays: dict[str, Array], sums: dict[str, float]) -> None:
        self.arrays, self.sums = arrays, sums


@cython.final
@cython.cclass
class LearnerState:
    """Weights and sums; ``arrays`` names the arrays that are needed beside ``dual``.

    >>> state = LearnerState(2, True, ["memory"])
    >>> state.used(), state.rounds
    (['dual', 'memory'], 0.0)
    """

    def __init__(self, width: int, intercept: bool, arrays: Iterable[str] = ()) -> None:
        self.width, self.intercept = width, intercept
        self.dual = aligned(width + 1)
        self.memory = self.low = self.high = self.pending = self.average = np.zeros(0)
        self.shrunk = self.cut = self.older = self.newer = self.start = np.zeros(0)
        for name in arrays:
            setattr(self, name, aligned(width + 1))
        self.clear_sums()

    def clear_sums(self) -> None:
        self.rounds = self.weight = self.loss = 0.0
        self.total = self.shift = self.touched = 0.0
        self.shrink = self.threshold = self.waiting = 0.0
        self.step_loss = self.step_weight = self.zero_loss = self.excess = 0.0
        self.largest_norm2 = self.reach = self.range = self.peak = 0.0
        self.size2 = self.largest_size2 = self.distance = 0.0
        self.older_loss = self.newer_loss = self.older_own = self.newer_own = 0.0
        self.older_excess = self.newer_excess = self.older_at = self.newer_at = 0.0
        self.mistakes = self.slope2 = self.largest_loss = 0.0

    def used(self) -> list[str]:
        """The names of the arrays that this learner has."""
        return [name for name in ARRAYS if len(getattr(self, name))]

    def need(self, *names: str) -> None:
        """Room for arrays that the state may lack."""
        for name in names:
            if not len(getattr(self, name)):
                setattr(self, name, aligned(len(self.dual)))

    def array(self, name: str) -> Array:
        """An array without the room that no column uses yet; it shares the state's memory."""
        return np.asarray(getattr(self, name))[: self.width + 1]

    def sums(self) -> Array:
        """The sums in the order of SUMS."""
        return np.array([getattr(self, name) for name in SUMS])

    def widen(self, width: int) -> None:
        """Room for more features; what is learned stays. Room grows by doubling once rows were learned."""
        room = len(self.dual) - 1
        if width > room:
            more = max(width, 2 * room) if self.rounds > 0.0 else width
            for name in self.used():
                wider = aligned(more + 1)
                wider[: room + 1] = getattr(self, name)
                setattr(self, name, wider)
        self.width = width

    def snapshot(self) -> Snapshot:
        """A copy to go back to."""
        return Snapshot(
            {name: np.array(getattr(self, name)) for name in self.used()}, {name: getattr(self, name) for name in SUMS}
        )

    def restore(self, before: Snapshot) -> None:
        """Go back to a snapshot of this state; columns that came since then are empty again."""
        for name, values in before.arrays.items():
            whole = np.asarray(getattr(self, name))
            whole[: len(values)] = values
            whole[len(values) :] = 0.0
        for name, value in before.sums.items():
            setattr(self, name, value)

    def to_arrays(self) -> dict[str, Array]:
        """Every array in use, and ``numbers``: the sums in the order of SUMS."""
        return {name: self.array(name) for name in self.used()} | {"numbers": self.sums()}

    def take(self, arrays: Mapping[str, Any]) -> None:
        """The arrays and sums that ``to_arrays`` gave, copied: what comes from outside must have their shapes."""
        for name in self.used():
            values = np.array(arrays[name], dtype=np.float64)
            if values.shape != (self.width + 1,):
                raise ValueError(f"{name} has shape {values.shape}, not ({self.width + 1},)")
            self.array(name)[:] = values
        for name, value in zip(SUMS, arrays["numbers"], strict=True):
            setattr(self, name, float(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.width, bool(self.intercept), self.used(), self.to_arrays())


def _rebuilt(width: int, intercept: bool, names: list[str], arrays: dict[str, Array]) -> LearnerState:
    state = LearnerState(width, intercept, names)
    state.take(arrays)
    return state


def aligned(size: int) -> Array:
    """Zeros whose entry 1, the first feature, starts a cache line: the weights are read and written once a row."""
    if size == 0:
        return np.zeros(0)
    raw = np.zeros(size + 8)
    first = (-(raw.ctypes.data // 8) - 1) % 8
    return raw[first : first + size]
