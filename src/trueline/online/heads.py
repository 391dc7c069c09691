"""The state of an online record: its heads, the names of their columns and the room for them, and going back a step.

One head for regression and for two classes, one head a class otherwise (one against the rest).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..parts.rates import Rate
from . import state
from .engine import read_weights, sum_masses
from .named import Layout
from .sums import WIDEST, Sums


class Heads:
    """What :class:`OnlineModel` has learned, apart from how; it sets these."""

    loss: Any
    geometry: Any
    general: Any
    rate: Rate
    l1: float
    l2: float
    batch: int
    fit_intercept: bool
    certified: bool
    average: bool
    squared: bool
    keep_sums: bool
    heads: list[state.Head]
    sums: Sums | None
    kept: list[Any] | None
    progress: list[dict[str, Any]]
    width: int
    late: int
    wrong: int
    _names: list[str] | None
    _index: dict[str, int]
    _layouts: dict[tuple[str, ...], Layout]
    _last_layout: Any
    _last_loss: float
    _last_weight: float
    _due: np.ndarray

    @property
    def _next_record(self) -> int:
        """The round after which a record of progress is due."""
        return int(self._due[0])

    @_next_record.setter
    def _next_record(self, rounds: int) -> None:
        self._due[0] = rounds

    @property
    def counting(self) -> bool:
        """Whether rows are counted or kept beside what the engine counts."""
        return self.sums is not None or self.kept is not None

    @property
    def examples(self) -> int:
        """Rounds so far."""
        return int(self.heads[0].numbers[state.ROUNDS])

    @property
    def names(self) -> list[str]:
        """Names of the features in order; made up only when somebody asks."""
        if self._names is None:
            self._names = [f"x{j}" for j in range(self.width)]
        return self._names

    @property
    def unit(self) -> float:
        """Tables print (s − y)², without the half of ``Squared.value``."""
        return 2.0 if self.squared else 1.0

    def weights(self, head: int = 0) -> np.ndarray:
        """The weights that predict next, intercept first; their mean over the run when averaging."""
        one = self.heads[head]
        out = np.empty(self.width + 1)
        if self.average and one.numbers[state.WEIGHT] > 0.0:
            sums = one.table[state.AVERAGE, : self.width + 1]
            mean = sums / one.numbers[state.WEIGHT]
            return mean + one.table[state.DUAL, : self.width + 1] if self.general is None else mean
        read_weights(self.geometry, one.table, one.numbers, out)
        return out

    @property
    def coef(self) -> np.ndarray:
        """One row a head; a single row is flat."""
        rows = np.array([self.weights(h)[1:] for h in range(len(self.heads))])
        return rows[0] if len(rows) == 1 else rows

    @property
    def intercept(self) -> Any:
        """The intercept, one a head."""
        values = np.array([self.weights(h)[0] for h in range(len(self.heads))])
        return float(values[0]) if len(values) == 1 else values

    def _new_head(self) -> state.Head:
        numbers = np.zeros(state.NUMBERS)
        numbers[[state.RATE, state.POWER, state.L1, state.L2]] = self.rate.base, self.rate.power, self.l1, self.l2
        numbers[[state.INTERCEPT, state.CERTIFY, state.BATCH, state.AVERAGING]] = (
            self.fit_intercept, self.certified, self.batch, self.average,
        )  # fmt: skip
        numbers[[state.LINKED, state.ADAPTIVE, state.NORMED]] = state.flags(self.geometry)
        return state.Head(state.aligned(1), numbers)

    def _name(self, names: list[str] | int) -> None:
        """Take these names (the old ones first), or as many numbered ones, and make room for them."""
        if not isinstance(names, int) and len(set(names)) != len(names):
            raise DataError("feature names repeat; give each column a name of its own", where="names")
        count = names if isinstance(names, int) else len(names)
        if self.examples:
            self.late += count - self.width
        self.width = count
        self._names = None if isinstance(names, int) else list(names)
        self._index = {}
        self._layouts.clear()
        self._last_layout = None
        self._room(self.width)
        for head in self.heads:
            head.numbers[state.WIDTH] = self.width
            if head.numbers[state.LINKED]:
                sum_masses(self.geometry, head.table, head.numbers)
                if not self.examples:
                    read_weights(self.geometry, head.table, head.numbers, head.table[state.START])
        keep = self.certified and self.squared and len(self.heads) == 1 and self.width <= WIDEST and self.keep_sums
        if keep and (self.sums is not None or not self.examples):
            if self.sums is None:
                self.sums = Sums(self.width)
            elif self.sums.width < self.width:
                before = self.sums.width
                self.sums.widen(self.width)
                self.sums.seen.name(self.names, before)
        else:
            self.sums = None
        for head in self.heads:
            head.numbers[state.CANDIDATES] = float(self.certified and self.sums is None and self.keep_sums)

    def _room(self, width: int) -> None:
        for head in self.heads:
            if head.table.shape[1] < width + 1:
                grown = width if not self.examples else max(width, 2 * head.table.shape[1])
                head.table = state.widened(head.table, grown)
                self._layouts.clear()
                self._last_layout = None

    def _reader(self, h: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """The table, numbers and geometry that predict: the mean weights when averaging."""
        head = self.heads[h]
        if not self.average:
            return head.table, head.numbers, self.general
        table = np.zeros_like(head.table)
        table[state.DUAL, : self.width + 1] = self.weights(h)
        numbers = np.zeros(state.NUMBERS)
        numbers[state.INTERCEPT], numbers[state.WIDTH] = self.fit_intercept, self.width
        return table, numbers, None

    def _snapshot(self) -> Any:
        used = (
            [state.DUAL, *([state.AVERAGE] if self.average else ())]
            if self.general is None
            else list(range(state.TABLE_ROWS))
        )
        if self.general is None and self.heads[0].numbers[state.CANDIDATES]:
            used += [state.OLDER, state.NEWER]
        heads = [(used, head.table[used], head.numbers.copy()) for head in self.heads]
        extra = (
            len(self.progress),
            self._next_record,
            self._last_loss,
            self._last_weight,
            len(self.kept or ()),
            self.wrong,
        )
        return heads, None if self.sums is None else self.sums.copy(), extra

    def _restore(self, before: Any) -> None:
        heads, self.sums, extra = before
        for head, (used, rows, numbers) in zip(self.heads, heads):
            head.table[used] = rows
            head.numbers[:] = numbers  # in place: layouts hold these very arrays
        del self.progress[extra[0] :]
        self._next_record, self._last_loss, self._last_weight = extra[1:4]
        if self.kept is not None:
            del self.kept[extra[4] :]
        self.wrong = extra[5]

    def _runaway(self) -> bool:
        """Whether some weight is no longer a usable number after a block."""
        return any(not np.abs(head.table[state.DUAL]).max(initial=0.0) <= state.HUGE for head in self.heads)
