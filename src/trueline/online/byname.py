"""Learning and predicting one dict at a time: the half of :class:`OnlineModel` that reads named features.

The rows of the sets of keys are kept, so that a stream of like dicts pays for them once, and the last one first asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import inputs
from .learning_loop import Examples, learn, scores
from .mistakes import keep
from .named import NamedRow, filled
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
    _rows: dict[tuple[str, ...], NamedRow]
    _last_row: NamedRow | None
    _next_record: Any
    _may_raise: bool
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
        if self._last_row is not None and weight == 1.0:
            made = self._last_row.learn(self, features, y)
            if made is not None:
                return made
        several = len(self.heads) > 1
        target = 0.0 if several else inputs.target(y, self.loss.targets)
        if weight != 1.0:
            inputs.weights([weight], 1)
        features = inputs.named(features)
        row = self._row(features, grow=True)
        row.fill(features)
        row.share[0] = weight
        before = self._snapshot() if several or self._may_raise else None
        try:
            if several:
                score: Any = self._learn_every_head(row, y, weight)
            else:
                row.y[0] = target
                example = row.example if weight == 1.0 else row.weighted
                reached = learn(example, 0, 1, self.rule, self.heads[0], row.out)
                score = row.out.item() if reached else None
        except Exception:
            if before is not None:
                self._restore(before)
            raise
        if score is None:
            if before is not None:
                self._restore(before)
            self._refuse_one(features, row)
        if several:
            return self._outward(score)[0]
        if self.sums is not None:
            row.count(self.sums, target, weight, shares_of(self))
        if self.kept is not None:
            self._keep_one(row, np.array([[target]]), np.array([[score]]))
        if self.examples >= self._next_record:
            self._record(y, np.array([score]))
        return score if self._identity else self.loss.mean(score)

    def _learn_every_head(self, row: NamedRow, y: Any, weight: float) -> np.ndarray | None:
        """The scores before the update of every weight vector, or None where one cannot learn the row."""
        out = np.empty((len(self.heads), 1))
        targets = self._targets([y], 1)
        share = row.share if weight != 1.0 else None
        for state, target, scored in zip(self.heads, targets, out):
            if learn(Examples(row.rows, target, share), 0, 1, self.rule, state, scored) == 0:
                return None
        if self.kept is not None:
            self._keep_one(row, targets, out)
        if self.examples >= self._next_record:
            self._record(y, out[:, 0])
        return out

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features; names never seen count nothing."""
        if self._last_row is not None:
            made = self._last_row.predict(features)
            if made is not None:
                return made
        features = inputs.named(features)
        row = self._row(features, grow=False)
        row.fill(features)
        out = np.empty((len(self.heads), 1))
        for h, scored in enumerate(out):
            geometry, state = self._reader(h)
            if scores(row.rows, geometry, state, scored) == 0:
                self._refuse_one(features, row)
        found = self._outward(out)[0]
        return float(found) if np.ndim(found) == 0 else found

    def _row(self, features: dict[str, float], grow: bool) -> NamedRow:
        """The row of these keys; learning makes room for new names, predicting lets them count nothing."""
        keys = list(features)
        known = tuple(keys)
        row = self._rows.get(known)
        if row is None:
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
                return self._row({name: features[name] for name in keys if name in self._index}, grow)
            row = NamedRow(keys, [self._index[name] for name in keys], self.width)
            if len(self.heads) == 1 and not self._may_raise:
                row.serve(self.rule, self.heads[0])
            if len(self._rows) >= 256:
                self._rows.clear()
            self._rows[known] = row
        self._last_row = row
        return row

    def _keep_one(self, row: NamedRow, targets: np.ndarray, out: np.ndarray) -> None:
        X = np.zeros((1, self.width))
        X[0, row.columns] = row.values
        keep(self, X, targets, out)

    def _refuse_one(self, features: dict[str, float], row: NamedRow) -> None:
        inputs.refuse_bad_rows(row.values[None, :], row.keys)
        raise inputs.overflow(self.rate.base, "this example")
