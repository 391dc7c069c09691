"""Learning and predicting one dict at a time: the half of :class:`OnlineModel` that reads named features.

The buffers and compiled entries of the last set of keys are kept, so that a stream of like dicts pays for them once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import inputs
from .engine import NO_ORDER, NO_WEIGHTS, learn, scores
from .mistakes import keep
from .named import Layout, filled
from .sums import shares_of


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
    _due: np.ndarray
    _next_record: Any
    counting: Any
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
        target = y if type(y) is float and self._real and -1e100 <= y <= 1e100 else self._target(y)
        quick = None if layout is None or weight != 1.0 else layout.quick_learn
        if quick is not None and type(features) is dict:  # as _at_once, without its call: nearly every example's way
            entry, size, place, kind, share, loss, geometry, general = quick
            if len(features) == size:
                score = entry(id(features), place, target, kind, share, loss, geometry, general)
                if score == score:
                    if self.sums is not None or self.kept is not None:
                        self._count_one(layout, target, 1.0, score)
                    return score if self._identity else loss.mean(score)
        if weight != 1.0:
            inputs.weights([weight], 1)
        features = inputs.named(features)
        last, layout = layout, self._layout(features, grow=True)
        if layout is not last and type(features) is dict and weight == 1.0:
            score = self._at_once(layout, features, target)
            if score == score:
                return score if self._identity else self.loss.mean(score)
        if len(self.heads) > 1:
            return self._learn_one_of_many(layout, features, y, weight)
        return self._learn_one_at_length(layout, features, target, weight, y)

    def _at_once(self, layout: Layout, features: dict[str, float], target: float) -> float:
        """The score before the update by the compiled entry, or NaN and nothing learned."""
        if layout.learn is None:
            return math.nan
        score: float = layout.learn(
            id(features), layout.place, target, layout.kind, layout.share, self.loss, self.geometry, self.general
        )
        if score == score and self.counting:
            self._count_one(layout, target, 1.0, score)
        return score

    def _target(self, y: Any) -> float:
        return math.nan if len(self.heads) > 1 else inputs.target(y, self.loss.targets)

    def _learn_one_at_length(
        self, layout: Layout, features: dict[str, float], target: float, weight: float, label: Any
    ) -> Any:
        """As ``learn_one``, for other keys than the last ones, weights, doubling counts, and whatever must be refused."""
        head = self.heads[0]
        share: Any = None if self.bare else NO_WEIGHTS
        if layout.learn is None:
            layout.bind(head, self._due)
            layout.bind_learn(share, self.loss, self.geometry, self.general)
        layout.fill(features)
        layout.y[0] = target
        if weight != 1.0:
            layout.c[0] = inputs.weights([weight], 1)[0]
            share = layout.c
        reached = learn(
            layout.rows, layout.y, share, NO_ORDER, 0, 1, self.loss, self.geometry, self.general, head.table,
            head.numbers, layout.out,
        )  # fmt: skip
        if reached == 0:
            self._refuse_one(features, layout)
        score = layout.out.item()
        if self.counting:
            self._count_one(layout, target, weight, score)
        if self.examples >= self._next_record:
            self._record(label, np.array([score]))
        return score if self._identity else self.loss.mean(score)

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features; names never seen count nothing."""
        layout = self._last_layout
        quick = None if layout is None else layout.quick_score
        if quick is not None and type(features) is dict:
            entry, size, place, kind, general = quick
            if len(features) == size:
                score = entry(id(features), place, kind, general)
                if score == score:
                    return score if self._identity else self.loss.mean(score)
        features = inputs.named(features)
        last, layout = layout, self._layout(features, grow=False)
        if layout is not last and layout.score is not None and type(features) is dict:
            score = layout.score(id(features), layout.place, layout.kind, self.general)
            if score == score:
                return score if self._identity else self.loss.mean(score)
        if layout.score is None and len(self.heads) == 1 and not self.average:
            layout.bind(self.heads[0], self._due)
            layout.bind_score(self.general)
        layout.fill(features)
        out = np.empty((len(self.heads), 1))
        for h in range(len(self.heads)):
            table, numbers, general = self._reader(h)
            if scores(layout.rows, 0, 1, general, table, numbers, out[h]) == 0:
                self._refuse_one(features, layout)
        found = self._outward(out)[0]
        return float(found) if np.ndim(found) == 0 else found

    def _learn_one_of_many(self, layout: Layout, features: dict[str, float], y: Any, weight: float) -> np.ndarray:
        layout.fill(features)
        targets = self._targets([y], 1)
        share = inputs.weights([weight], 1) if weight != 1.0 else NO_WEIGHTS
        out = np.empty((len(self.heads), 1))
        before = self._snapshot()
        for h, head in enumerate(self.heads):
            if learn(layout.rows, targets[h], share, NO_ORDER, 0, 1, self.loss, self.geometry, self.general, head.table, head.numbers, out[h]) == 0:  # fmt: skip
                self._restore(before)
                self._refuse_one(features, layout)
        if self.kept is not None:
            self._keep_one(layout, targets, out)
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
                filled(features)  # what will be refused must not name columns
                self._name([*self.names, *new])
                self._index = {name: j for j, name in enumerate(self.names)}
            if new and not grow:
                if not self.width:
                    self._name([])
                return self._layout({name: features[name] for name in keys if name in self._index}, grow)
            layout = Layout(keys, [self._index[name] for name in keys], self.width)
            if len(self._layouts) >= 256:
                self._layouts.clear()
            self._layouts[known] = layout
        self._last_layout = layout
        return layout

    def _count_one(self, layout: Layout, target: float, weight: float, score: float) -> None:
        if self.sums is not None:
            columns = None if layout.dense else layout.columns
            self.sums.add_one(layout.values, columns, target, float(weight), shares_of(self))
        if self.kept is not None:
            self._keep_one(layout, np.array([[target]]), np.array([[score]]))

    def _keep_one(self, layout: Layout, targets: np.ndarray, out: np.ndarray) -> None:
        row = np.zeros((1, self.width))
        row[0, layout.columns] = layout.values
        keep(self, row, targets, out)

    def _refuse_one(self, features: dict[str, float], layout: Layout) -> None:
        inputs.refuse_bad_rows(layout.values[None, :], layout.keys)
        raise inputs.overflow(self.rate.base, "this example")
