"""Learning and predicting one dict at a time: the half of :class:`OnlineModel` that reads named features.

The buffers and compiled entries of the last set of keys are kept, so that a stream of like dicts pays for them once.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

import numpy as np

from .._jit import direct
from ..errors import DataError
from . import inputs, state
from .engine import NO_ORDER, NO_WEIGHTS, learn, scores
from .named import Layout


class ByName:
    """What one dict needs of the record; OnlineModel has the state and the rest."""

    heads: Any
    sums: Any
    kept: Any
    loss: Any
    geometry: Any
    rate: Any
    general: Any
    width: int
    bare: bool
    average: bool
    fit_intercept: bool
    names: Any
    examples: Any
    _index: dict[str, int]
    _layouts: dict[tuple[str, ...], Layout]
    _last_layout: Any
    _next_record: int
    _real: bool
    _identity: bool
    _targets: Any
    _outward: Any
    _record: Any
    _reader: Any
    _snapshot: Any
    _restore: Any
    _name: Any
    _room: Any

    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> Any:
        """Learn one example of named features; the prediction made before the update."""
        layout = self._last_layout
        try:
            if len(features) != layout.size or type(features) is not dict:
                raise KeyError
            layout.pack(layout.values, 0, *layout.take(features))
        except (KeyError, AttributeError, struct.error):
            layout = self._layout(features, grow=True)
            layout.fill(features)
        if len(self.heads) > 1:
            return self._learn_one_of_many(layout, features, y, weight)
        target = y if type(y) is float and self._real and -1e100 <= y <= 1e100 else inputs.target(y, self.loss.targets)
        layout.y[0] = target
        head = self.heads[0]
        if weight == 1.0:
            if layout.learn is None:
                share = None if self.bare else NO_WEIGHTS
                given: Any = (layout.rows, layout.y, share, NO_ORDER, 0, 1, self.loss, self.geometry, self.general)
                given += (head.table, head.numbers, layout.out)
                layout.learn = partial(direct(learn, *given), *given)
            reached = layout.learn()
        else:
            layout.c[0] = inputs.weights([weight], 1)[0]
            reached = learn(
                layout.rows, layout.y, layout.c, NO_ORDER, 0, 1, self.loss, self.geometry, self.general, head.table,
                head.numbers, layout.out,
            )  # fmt: skip
        if reached == 0:
            self._refuse_one(features, layout)
        score = layout.out.item()
        if self.sums is not None or self.kept is not None:
            self._count_one(layout, target, weight, score)
        if head.numbers.item(state.ROUNDS) >= self._next_record:
            self._record(y, layout.out)
        return score if self._identity else self.loss.mean(score)

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features; names never seen count nothing."""
        layout = self._last_layout
        try:
            if len(features) != layout.size or type(features) is not dict:
                raise KeyError
            layout.pack(layout.values, 0, *layout.take(features))
        except (KeyError, AttributeError, struct.error):
            layout = self._layout(features, grow=False)
            layout.fill(features)
        if len(self.heads) == 1 and not self.average:
            head = self.heads[0]
            if layout.scores is None:
                given = (layout.rows, 0, 1, self.general, head.table, head.numbers, layout.out)
                layout.scores = partial(direct(scores, *given), *given)
            if layout.scores() == 0:
                self._refuse_one(features, layout)
            score = layout.out.item()
            return score if self._identity else self.loss.mean(score)
        out = np.empty((len(self.heads), 1))
        for h in range(len(self.heads)):
            table, numbers, general = self._reader(h)
            if scores(layout.rows, 0, 1, general, table, numbers, out[h]) == 0:
                self._refuse_one(features, layout)
        return self._outward(out)[0]

    def _learn_one_of_many(self, layout: Layout, features: dict[str, float], y: Any, weight: float) -> np.ndarray:
        targets = self._targets([y], 1)
        share = inputs.weights([weight], 1) if weight != 1.0 else NO_WEIGHTS
        out = np.empty((len(self.heads), 1))
        before = self._snapshot()
        for h, head in enumerate(self.heads):
            if learn(layout.rows, targets[h], share, NO_ORDER, 0, 1, self.loss, self.geometry, self.general, head.table, head.numbers, out[h]) == 0:  # fmt: skip
                self._restore(before)
                self._refuse_one(features, layout)
        if self.examples >= self._next_record:
            self._record(y, out[:, 0])
        return self._outward(out)[0]

    def _layout(self, features: dict[str, float], grow: bool) -> Layout:
        """The layout of these keys; learning makes room for new names, predicting lets them count nothing."""
        keys = list(features)
        known = tuple(keys)
        layout = self._layouts.get(known)
        if layout is None:
            if not self._index:
                self._index = {name: j for j, name in enumerate(self.names)}
            new = [name for name in keys if name not in self._index]
            if new and grow:
                for name in new:
                    if not isinstance(name, str):
                        raise DataError(f"feature name {name!r} is not a string", where=str(name))
                self._name([*self.names, *new])
                self._index = {name: j for j, name in enumerate(self.names)}
            if new and not grow:
                # A table column that is always 0 stands for every unknown name.
                self._room(self.width + 1)
            columns = [self._index.get(name, self.width) for name in keys]
            layout = Layout(keys, columns, self.width)
            if new and not grow:
                return layout  # not remembered: the names may be learned later
            if len(self._layouts) >= 256:
                self._layouts.clear()
            self._layouts[known] = layout
        self._last_layout = layout
        return layout

    def _count_one(self, layout: Layout, target: float, weight: float, score: float) -> None:
        if self.sums is not None:
            c = float(weight)
            if type(self.geometry).__name__ == "Normalised":
                c /= self.geometry.epsilon + float(layout.values @ layout.values) + float(self.fit_intercept)
            self.sums.add_one(layout.values, None if layout.dense else layout.columns, target, c)
        if self.kept is not None and score * target <= 0.0:
            row = np.zeros((1, self.width))
            row[0, layout.columns] = layout.values
            self.kept.append((row, np.array([target])))

    def _refuse_one(self, features: dict[str, float], layout: Layout) -> None:
        inputs.refuse_bad_rows(layout.values[None, :], list(features))
        raise inputs.overflow(self.rate.base, "this example")
