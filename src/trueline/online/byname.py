"""Learning and predicting one dict at a time: the half of :class:`OnlineModel` that reads named features.

The buffers of the last set of keys are kept, so that a stream of like dicts pays for them once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import inputs
from .learning_loop import Examples, learn, scores
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
    rule: Any
    width: int
    average: bool
    fit_intercept: bool
    names: Any
    examples: Any
    _index: dict[str, int]
    _layouts: dict[tuple[str, ...], Layout]
    _last_layout: Any
    _next_record: Any
    _may_raise: bool
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

    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> Any:
        """Learn one example of named features; the prediction made before the update."""
        several = len(self.heads) > 1
        target = 0.0 if several else inputs.target(y, self.loss.targets)
        if weight != 1.0:
            inputs.weights([weight], 1)
        features = inputs.named(features)
        layout = self._layout(features, grow=True)
        layout.fill(features)
        layout.share[0] = weight
        before = self._snapshot() if several or self._may_raise else None
        try:
            if several:
                score: Any = self._learn_every_head(layout, y, weight)
            else:
                layout.y[0] = target
                example = layout.example if weight == 1.0 else layout.weighted
                reached = learn(example, 0, 1, self.rule, self.heads[0], layout.out)
                score = layout.out.item() if reached else None
        except Exception:
            if before is not None:
                self._restore(before)
            raise
        if score is None:
            if before is not None:
                self._restore(before)
            self._refuse_one(features, layout)
        if several:
            return self._outward(score)[0]
        if self.counting:
            self._count_one(layout, target, weight, score)
        if self.examples >= self._next_record:
            self._record(y, np.array([score]))
        return score if self._identity else self.loss.mean(score)

    def _learn_every_head(self, layout: Layout, y: Any, weight: float) -> np.ndarray | None:
        """The scores before the update of every weight vector, or None where one cannot learn the row."""
        out = np.empty((len(self.heads), 1))
        targets = self._targets([y], 1)
        share = layout.share if weight != 1.0 else None
        for state, target, scored in zip(self.heads, targets, out):
            if learn(Examples(layout.rows, target, share), 0, 1, self.rule, state, scored) == 0:
                return None
        if self.kept is not None:
            self._keep_one(layout, targets, out)
        if self.examples >= self._next_record:
            self._record(y, out[:, 0])
        return out

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features; names never seen count nothing."""
        features = inputs.named(features)
        layout = self._layout(features, grow=False)
        layout.fill(features)
        out = np.empty((len(self.heads), 1))
        for h, scored in enumerate(out):
            geometry, state = self._reader(h)
            if scores(layout.rows, geometry, state, scored) == 0:
                self._refuse_one(features, layout)
        found = self._outward(out)[0]
        return float(found) if np.ndim(found) == 0 else found

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
