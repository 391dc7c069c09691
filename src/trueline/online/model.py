"""The record of an online learner: what it has learned, what it proves, how to go on. No scikit-learn.

One head for regression and for two classes, one head a class otherwise (one against the rest). A refusal for bad
data leaves the record as it was; a learning rate that overflows, or a user's part that
raises, stops at the row where it happens, with the state before that row kept.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..data.row_access import rows_of
from ..errors import DataError, UsageError
from ..objective.loss_interface import PythonLoss, evaluate
from ..objective.losses import resolve_loss
from ..threads import get_threads, one_blas_thread, started
from . import inputs, regret, saving
from .byname import ByName
from .comparators import look_back
from .exponentiated_gradient import Mirrored, OwnGeometry
from .geometry_names import resolve_geometry
from .heads import Heads
from .learning_loop import Examples, Rule, learn, scores
from .mistakes import keep
from .named import NamedRow
from .rates import Rate
from .sums import Sums, add_rows

NO_ORDER = np.empty(0, dtype=np.int64)

APART = 8192  # rows from which the moments are worth a thread of their own


class OnlineModel(Heads, ByName):
    """An online learner of any loss in any geometry.

    >>> model = OnlineModel("squared", "additive", Rate(0.1))
    >>> model.learn(np.ones((3, 1)), np.array([1.0, 1.0, 1.0])).round(3).tolist()
    [0.0, 0.2, 0.36]
    >>> round(model.predict_one({"x0": 1.0}), 3)
    0.488
    """

    kind = "online"
    takes_parts = True

    def __init__(
        self,
        loss: Any,
        geometry: Any,
        rate: Rate,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        intercept: bool = True,
        certificate: bool = True,
        batch: int = 1,
        average: bool = False,
        classes: tuple[Any, ...] | None = None,
        names: list[str] | None = None,
        loss_range: float | None = None,
        confidence: float = 0.95,
        keep_rows: bool = False,
        keep_sums: bool = True,
        member: bool = False,
    ) -> None:
        self.loss, self.geometry = resolve_loss(loss), resolve_geometry(geometry)
        self.rate = rate
        self.l1, self.l2 = float(l1), float(l2)
        self.fit_intercept, self.certified, self.average = bool(intercept), bool(certificate), bool(average)
        self.batch = int(batch)
        self.classes = classes
        self.loss_range, self.confidence = loss_range, float(confidence)
        self.quiet = bool(member)  # a member of a mixture leaves the records of progress to the mixture
        self.epochs = 0  # passes that fit made
        self.hindsight: dict[str, Any] | None = None  # what a second pass found
        self.late = 0  # features that appeared after the first example
        self.progress: list[dict[str, Any]] = []
        self.width = 0  # features so far
        self._names: list[str] | None = []  # None: x0, x1, …
        self.sums: Sums | None = None
        self.squared = getattr(self.loss, "name", "") == "squared" and not isinstance(self.loss, PythonLoss)
        self.keep_sums = bool(keep_sums)
        self.kept: list[Any] | None = [] if keep_rows else None  # mistake rounds of each head, for a slack bound
        self.wrong = 0  # rounds whose most likely label was not the label
        self.probabilistic = getattr(self.loss, "name", "") == "logistic" and not isinstance(self.loss, PythonLoss)
        self._real = self.loss.targets == "real"
        self._identity = self.loss.mean(0.3) == 0.3
        if self.l1 + self.l2 > 0.0 and not self.geometry.plain:
            raise UsageError(
                f"a penalty cannot join the {self.geometry.name} geometry; use 'additive', 'normalised' or 'implicit' with "
                f"it, or limit the weights by the geometry's own radius",
                where="penalty",
            )
        self.rule = Rule(
            self.loss, self.geometry, (rate.base, rate.power), (self.l1, self.l2), self.batch, self.fit_intercept,
            self.certified, self.average,
        )  # fmt: skip
        # A part that a user wrote may raise anywhere in a round.
        self._may_raise = isinstance(self.loss, PythonLoss) or isinstance(self.geometry, (Mirrored, OwnGeometry))
        count = 1 if classes is None or len(classes) < 3 else len(classes)
        self.heads = [self.rule.state(0) for _ in range(count)]
        self._index: dict[str, int] = {}
        self._rows: dict[tuple[str, ...], NamedRow] = {}
        self._last_row: NamedRow | None = None
        self._next_record = 1
        self._last_loss = self._last_weight = 0.0
        if names is not None:
            self._name(names)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_rows": {}, "_last_row": None}  # made again when needed

    def fresh(self) -> OnlineModel:
        """The same learner before its first example."""
        return type(self)(
            self.loss, self.geometry, self.rate, l1=self.l1, l2=self.l2, intercept=self.fit_intercept,
            certificate=self.certified, batch=self.batch, average=self.average, classes=self.classes,
            loss_range=self.loss_range, confidence=self.confidence, keep_rows=self.kept is not None,
            keep_sums=self.keep_sums,
        )  # fmt: skip

    # Learning and predicting, blocks

    def learn(self, X: Any, y: Any, weights: Any = None, order: np.ndarray | None = None) -> np.ndarray:
        """Learn rows in order (or in the given order); the predictions made before each update."""
        X, targets, weights, sequence, n = self._block(X, y, weights, order)
        out = np.empty((len(self.heads), n))
        examples = self._examples(rows_of(X), targets, weights, sequence)
        before = self._snapshot()
        # The moments have a thread of their own beside the loop's: BLAS's threads would only be in their way.
        with one_blas_thread() if self.sums is not None and n > 256 else nullcontext():
            try:
                bad = self._learn_rows(examples, X, targets, weights, sequence, n, out)
            except Exception:
                # Where several weight vectors learn, the first has seen the whole block: back, and up to this row again.
                bad = int(min(state.rounds for state in self.heads) - before[0][0].sums["rounds"])
                self._restore(before)
                self._learn_rows(examples, X, targets, weights, sequence, bad, out)
                raise
        if bad is None and self._runaway():
            bad = n - 1
        if bad is not None:
            self._restore(before)
            inputs.refuse_bad_rows(X, self.names)
            # The data are usable, so the rate is not: the rows before the step that overflowed stay learned.
            self._learn_rows(examples, X, targets, weights, sequence, bad, out)
            raise inputs.overflow(self.rate.base, f"row {int(sequence[bad]) if len(sequence) else bad}")
        return self._outward(out)

    def _examples(self, rows: Any, targets: np.ndarray, weights: np.ndarray, order: np.ndarray) -> list[Examples]:
        """The rows with the targets of each weight vector."""
        given = weights if len(weights) else None, order if len(order) else None
        return [Examples(rows, y, *given) for y in targets]

    def _block(self, X: Any, y: Any, weights: Any, order: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, int]:
        """Everything that a block must be before a row is learned."""
        X = inputs.matrix(X)
        if not self.width:
            self._name(X.shape[1])
        inputs.check_width(X, self.width)
        targets = self._targets(y, X.shape[0])
        weights = inputs.weights(weights, X.shape[0])
        sequence = NO_ORDER if order is None else np.ascontiguousarray(order, dtype=np.int64)
        return X, targets, weights, sequence, X.shape[0] if order is None else len(sequence)

    def _learn_rows(
        self, examples: list[Examples], X: Any, targets: np.ndarray, weights: np.ndarray, order: np.ndarray, n: int,
        out: np.ndarray,
    ) -> int | None:  # fmt: skip
        """Run every head over the rows, stopping at doubling counts to write a record; the first bad position."""
        start = 0
        while start < n:
            stop = min(n, start + max(1, self._next_record - self.examples))
            apart = self.sums is not None and stop - start >= APART and get_threads() > 1
            with started(1) if apart else nullcontext() as pool:
                adding = pool.submit(add_rows, self, X, targets, weights, order, start, stop) if pool else None
                reached = self._learn_heads(examples, start, stop, out)
            if reached < stop:
                return reached
            if adding is None:
                add_rows(self, X, targets, weights, order, start, stop)
            else:
                adding.result()
            if self.kept is not None:
                chosen = order[start:stop] if len(order) else slice(start, stop)
                keep(self, X[chosen], targets[:, chosen], out[:, start:stop])
            if self.examples >= self._next_record:
                last = int(order[stop - 1]) if len(order) else stop - 1
                self._record(self._label(targets, last), out[:, stop - 1])
            start = stop
        return None

    def _learn_heads(self, examples: list[Examples], start: int, stop: int, out: np.ndarray) -> int:
        """Every weight vector over the same rows; where the first one stopped that did."""
        for own, state, scored in zip(examples, self.heads, out):
            reached = learn(own, start, stop, self.rule, state, scored)
            if reached < stop:
                return reached
        return stop

    def _label(self, targets: np.ndarray, i: int) -> Any:
        return float(targets[0, i]) if len(self.heads) == 1 else int(np.argmax(targets[:, i]))

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of rows, on the target's scale."""
        return self._outward(self.scores(X))

    def scores(self, X: Any) -> np.ndarray:
        """Scores of rows, one row a head."""
        X = inputs.matrix(X)
        inputs.check_width(X, self.width)
        rows = rows_of(X)
        out = np.empty((len(self.heads), X.shape[0]))
        for h in range(len(self.heads)):
            if scores(rows, *self._reader(h), out[h]) < X.shape[0]:
                inputs.refuse_bad_rows(X, self.names)
                raise DataError("the prediction of some row is not a finite number", where="X")
        return out

    def _targets(self, y: Any, n: int) -> np.ndarray:
        """One row of targets a head: −1 and +1, or the index of a class where there are several."""
        if len(self.heads) == 1:
            return inputs.targets(y, n, self.loss.targets)[None, :]
        codes = inputs.codes(y, n, len(self.heads))
        return np.where(codes == np.arange(len(self.heads))[:, None], 1.0, -1.0)

    def _outward(self, out: np.ndarray) -> np.ndarray:
        """Scores to predictions: one column a head, flat for one."""
        if not self._identity:
            out = evaluate(self.loss, "mean", out)
        if len(self.heads) == 1:
            return out[0]
        found = out.T
        if self.probabilistic:
            found = found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
        return np.ascontiguousarray(found)

    def losses_of(self, predictions: Any, y: Any) -> np.ndarray:
        """The loss of each prediction of a number: squared without the half, or that of the score which has this mean."""
        predictions, y = np.atleast_1d(np.asarray(predictions, dtype=float)), np.atleast_1d(y)
        if self.squared:
            return (predictions - y) ** 2
        scores = predictions if self._identity else np.log(np.maximum(predictions, 1e-300))
        return evaluate(self.loss, "value", scores, y)

    # What it proves, and how it went

    def look_back(self, X: Any, y: Any, weights: Any = None, repeats: int = 1) -> None:
        """A second pass over the rows that were learned (each ``repeats`` times): comparators for losses not squared."""
        if not self.certified or self.sums is not None or self.kept is not None:
            return
        X, targets, share, _, _ = self._block(X, y, weights, None)
        if self.geometry.name == "normalised":
            share = (share if len(share) else 1.0) / (
                self.geometry.epsilon + inputs.squared_norms(X, self.fit_intercept)
            )
        rate = self.rate.at(max(1, self.examples))
        strengths = tuple(s / rate for s in (0.0, 0.01, 0.1, 1.0, 10.0))
        found = [look_back(self, X, targets[h], share, h, repeats, strengths) for h in range(len(self.heads))]
        heads, least = zip(*found)
        self.hindsight = {"examples": self.examples, "heads": list(heads), "least": list(least)}

    def certificate(self) -> Certificate:
        """What is proven now."""
        return regret.certificate(self)

    def _record(self, label: Any, score: np.ndarray) -> None:
        """Write a line of progress and freeze the weights: called at doubling counts."""
        self._next_record = 2 * self.examples
        if self.quiet:
            return
        loss = self.unit * sum(state.loss for state in self.heads)
        weight = self.heads[0].weight
        since = weight - self._last_weight
        line = {
            "examples": self.examples,
            "average_loss": float(loss / weight) if weight else 0.0,
            "since_last": float((loss - self._last_loss) / since) if since else 0.0,
            "label": label.item() if hasattr(label, "item") else label,
            "prediction": np.asarray(self._outward(np.array(score, dtype=float).reshape(-1, 1))).reshape(-1).tolist(),
        }
        if len(line["prediction"]) == 1:
            line["prediction"] = line["prediction"][0]
        if self.loss.targets == "sign" and len(self.heads) == 1 and self.certified:
            line["average_mistakes"] = self.heads[0].mistakes / self.examples
        if self.certified:
            line |= regret.brief(regret.certificate(self))
        self.progress.append(line)
        self._last_loss, self._last_weight = float(loss), float(weight)
        for state in self.heads:
            if len(state.newer):
                regret.freeze(self.geometry, state)

    # Saving

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain metadata; loading them is never having stopped."""
        return saving.to_state(self)

    declared = staticmethod(saving.declared)

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> OnlineModel:
        """The record that ``to_state`` described; a user's own parts are handed in through ``parts``."""
        return saving.from_state(cls, arrays, meta, parts)
