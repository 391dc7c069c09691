"""The state of an online record: one state a weight vector, the names of their columns and the room for them, going back.

One weight vector for regression and for two classes, one a class otherwise (one against the rest).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .geometries import Additive, Geometry
from .learner_state import LearnerState
from .learning_loop import HUGE, Rule, read_weights, sum_masses
from .named import NamedRow
from .rates import Rate
from .sums import WIDEST, Sums


class Heads:
    """What :class:`OnlineModel` has learned, apart from how; it sets these."""

    loss: Any
    geometry: Any
    rule: Rule
    rate: Rate
    l1: float
    l2: float
    batch: int
    fit_intercept: bool
    certified: bool
    average: bool
    squared: bool
    keep_sums: bool
    heads: list[LearnerState]
    sums: Sums | None
    kept: list[Any] | None
    progress: list[dict[str, Any]]
    width: int
    late: int
    wrong: int
    _names: list[str] | None
    _index: dict[str, int]
    _rows: dict[tuple[str, ...], NamedRow]
    _last_row: NamedRow | None
    _last_loss: float
    _last_weight: float
    _next_record: int

    @property
    def examples(self) -> int:
        """Rounds so far."""
        return int(self.heads[0].rounds)

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
        state = self.heads[head]
        if self.average and state.weight > 0.0:
            mean = state.array("average") / state.weight
            return mean + state.array("dual") if self.rule.lazy_mean else mean
        return read_weights(self.geometry, state)

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
        self._rows.clear()
        self._last_row = None
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
        for state in self.heads:
            state.widen(count)
            if self.certified and self.sums is None and self.keep_sums:
                state.need("older", "newer")
            if self.geometry.linked:
                sum_masses(self.geometry, state)
                if not self.examples:
                    state.array("start")[:] = read_weights(self.geometry, state)

    def _reader(self, h: int) -> tuple[Geometry, LearnerState]:
        """The geometry and the state that predict: the mean weights when averaging."""
        if not self.average:
            return self.geometry, self.heads[h]
        mean = LearnerState(self.width, self.fit_intercept)
        mean.array("dual")[:] = self.weights(h)
        return Additive(), mean

    def _snapshot(self) -> Any:
        sums = None if self.sums is None else self.sums.copy()
        extra = self._next_record, self._last_loss, self._last_weight, self.wrong
        return [state.snapshot() for state in self.heads], sums, len(self.progress), len(self.kept or ()), extra

    def _restore(self, before: Any) -> None:
        states, self.sums, lines, kept, extra = before
        for state, snapshot in zip(self.heads, states, strict=True):
            state.restore(snapshot)
        del self.progress[lines:]
        if self.kept is not None:
            del self.kept[kept:]
        self._next_record, self._last_loss, self._last_weight, self.wrong = extra

    def _runaway(self) -> bool:
        """Whether some weight is no longer a usable number after a block."""
        return any(not np.abs(state.array("dual")).max(initial=0.0) <= HUGE for state in self.heads)
