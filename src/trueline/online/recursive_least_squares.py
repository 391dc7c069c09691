"""Recursive least squares, with the Vovk–Azoury–Warmuth prediction and an optional forgetting factor.

A_t = λI + Σ c x xᵀ, w = A⁻¹ Σ c y x, kept through P = A⁻¹ by rank-one updates. The forward (VAW) prediction counts the
row itself in A before its label is known: w·x/(1 + c·xᵀPx). Then

    L ≤ min_u (L_u + λ‖u‖²) + Y²·ln det(I + XᵀX/λ),   |y| ≤ Y.

Plain recursive least squares does not satisfy this; with Y² replaced by its own largest e² it does. With forgetting
there is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import cython
import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Status
from ..certificates.regret import RegretCertificate, bound_status, rounded_up
from ..errors import DataError, ModelError
from ..modelfile import Array
from . import inputs, regret, sums
from .intake import Block, block_of
from .learning_loop import HUGE
from .named import NamedRow, filled
from .sums import WIDEST, Sums

if not cython.compiled:  # compiled, these come from recursive_least_squares.pxd
    from ..simd import dot, rank_one, row_add, symmetric_product
    from .dict_rows import plain

# Places in the array ``numbers`` of a file.
FORGET, FORWARD, INTERCEPT, ROUNDS, WEIGHT, LOSS, UNUSED, LARGEST_Y2, LARGEST_E2, NUMBERS = range(10)


LARGEST: cython.double = HUGE  # beyond, a number is not usable


@cython.final
@cython.cclass
class Recursion:
    """P = A⁻¹, w, and the sums of the bound."""

    def __init__(self, P: np.ndarray, w: np.ndarray, numbers: np.ndarray) -> None:
        size = len(w)
        if P.shape != (size, size) or len(numbers) != NUMBERS:
            raise ModelError("the matrix and the weights do not fit each other; use an intact copy", where="model file")
        self.P, self.w, self.size = P[None], w, size
        self.u, self.v = np.zeros(size), np.zeros((1, size))
        self.forget, self.rounds, self.weight, self.loss = (float(numbers[at]) for at in (FORGET, ROUNDS, WEIGHT, LOSS))
        self.forward, self.intercept = bool(numbers[FORWARD] > 0.0), bool(numbers[INTERCEPT] > 0.0)
        self.largest_y2, self.largest_e2 = float(numbers[LARGEST_Y2]), float(numbers[LARGEST_E2])

    def numbers(self) -> np.ndarray:
        """The settings and sums as a file has them."""
        out = np.zeros(NUMBERS)
        out[[FORGET, FORWARD, INTERCEPT]] = self.forget, self.forward, self.intercept
        out[[ROUNDS, WEIGHT, LOSS]] = self.rounds, self.weight, self.loss
        out[[LARGEST_Y2, LARGEST_E2]] = self.largest_y2, self.largest_e2
        return out

    def take(self, rows: Block) -> None:
        """The rows to walk over."""
        if rows.width != self.size - 1:
            raise ValueError("rows and weights differ in width")
        self.values, self.indices, self.starts, self.dense = rows.values, rows.indices, rows.starts, rows.dense

    def learn(
        self, y: np.ndarray, weights: np.ndarray, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: np.ndarray
    ) -> int:
        """Learn rows in order; the position of the first that is not usable, or ``stop``. ``y`` empty: only predict."""
        i: cython.Py_ssize_t
        learning: cython.bint = y.shape[0] > 0
        if stop >= self.starts.shape[0] or out.shape[0] < stop or (learning and y.shape[0] < stop):
            raise ValueError("rows, labels and predictions differ in number")
        if 0 < weights.shape[0] < stop:
            raise ValueError("rows and weights differ in number")
        reached: cython.Py_ssize_t = stop
        with cython.nogil:
            for i in range(start, stop):
                if not self.step(
                    i, y[i] if learning else 0.0, weights[i] if weights.shape[0] > 0 else 1.0, learning, out
                ):
                    reached = i
                    break
            if learning:
                self.complete()
        return reached

    def complete(self) -> None:
        """The lower triangle follows the upper one, on which the steps worked."""
        for i in range(self.size):
            for j in range(i):
                self.P[0, i, j] = self.P[0, j, i]

    def step(self, i: cython.Py_ssize_t, y: float, c: float, learning: bool, out: np.ndarray) -> bool:
        """Row i: predict and, when learning, update; False, and nothing learned, where the numbers are not usable."""
        for j in range(self.size):
            self.u[j] = 0.0
        self.u[0] = 1.0 if self.intercept else 0.0
        first = self.starts[i]
        for k in range(first, self.starts[i + 1]):
            self.u[1 + (self.indices[k - first] if self.dense else self.indices[k])] = self.values[k]
        spread = symmetric_product(self.P, 0, self.u, self.v, self.size)
        score = dot(self.w, self.u, self.size)
        prediction = score / (1.0 + c * spread / self.forget) if self.forward else score
        if not (abs(prediction) <= LARGEST and abs(spread) <= LARGEST):
            return False
        out[i] = prediction
        if not learning:
            return True
        error = prediction - y
        self.rounds += 1.0
        self.weight += c
        self.loss += c * error * error
        self.largest_y2 = max(self.largest_y2, c * y * y)
        self.largest_e2 = max(self.largest_e2, c * error * error)
        gain = c / (self.forget + c * spread)
        row_add(self.v, 0, 0, gain * (y - score), self.w, self.size)
        rank_one(self.P, 0, self.v, gain, 1.0 / self.forget, self.size)
        return True


@cython.final
@cython.cclass
class RecursiveRow:
    """One dict after the other for recursive least squares, while the model's arrays stay where they are.

    What it cannot use goes the long way, to the same steps on the same row.
    """

    def __init__(self, model: Any, keys: Sequence[str]) -> None:
        places = {name: j for j, name in enumerate(model.names)}
        columns = [places[key] for key in keys]
        self.row = NamedRow(list(keys), columns, len(places))
        self.model_P, self.model_w, self.model_numbers = model.P, model.w, model.numbers
        self.figures, self.before_w, self.before_P = model.numbers, model.w.copy(), model.P.copy()
        self.recursion = Recursion(model.P, model.w, model.numbers)
        starts = np.array([0, len(columns)])
        self.recursion.take(Block(self.row.values, self.row.columns.astype(np.int64), starts, False, len(places)))
        self.out = np.zeros(1)

    def read(self, model: Any, features: Any) -> bool:
        """Whether the model's arrays are still these, and the dict is plain; its values are then in the row."""
        same: cython.bint = model.P is self.model_P and model.w is self.model_w and model.numbers is self.model_numbers
        return same and self.row.reader.read(features)

    def learn(self, model: Any, features: Any, label: Any) -> Any:
        """The prediction made before the dict is learned, or None and nothing learned."""
        y: float = plain(label)
        if not -LARGEST <= y <= LARGEST or not self.read(model, features):
            return None
        self.keep(True)
        if not self.recursion.step(0, y, 1.0, True, self.out):
            return None
        self.recursion.complete()
        if not self.usable():
            self.keep(False)
            model.row = None
            return None
        self.figures[ROUNDS], self.figures[WEIGHT] = self.recursion.rounds, self.recursion.weight
        self.figures[LOSS] = self.recursion.loss
        self.figures[LARGEST_Y2] = self.recursion.largest_y2
        self.figures[LARGEST_E2] = self.recursion.largest_e2
        prediction: float = self.out[0]
        if model.sums is not None:
            self.row.count(model.sums, y, 1.0, None)
        if self.figures[ROUNDS] >= model._marks[0]:
            model._record(y, prediction)
        return prediction

    def predict(self, model: Any, features: Any) -> Any:
        """The prediction for the dict, or None."""
        if not self.read(model, features) or not self.recursion.step(0, 0.0, 1.0, False, self.out):
            return None
        return self.out[0]

    def usable(self) -> bool:
        """Whether every weight is a usable number."""
        found: cython.bint = True
        for j in range(self.recursion.size):
            found = found and -LARGEST <= self.recursion.w[j] <= LARGEST
        return found

    def keep(self, saving: bool) -> None:
        """Copy the weights and the matrix aside, or back."""
        for i in range(self.recursion.size):
            if saving:
                self.before_w[i] = self.recursion.w[i]
            else:
                self.recursion.w[i] = self.before_w[i]
            for j in range(self.recursion.size):
                if saving:
                    self.before_P[i, j] = self.recursion.P[0, i, j]
                else:
                    self.recursion.P[0, i, j] = self.before_P[i, j]


def log_det_above(G: np.ndarray, ridge: float, intercept: bool, gamma: float) -> float:
    """ln det(I + XᵀX/λ) from moments that are off by γ, rounded up: what the recursion itself sums loses digits.

    Each entry of the moments is off by at most γ·qᵢqⱼ, q the columns' norms, so XᵀX is below G + γ·d·diag(q²).
    """
    first = 0 if intercept else 1
    A = G[first:-1, first:-1]
    if not len(A):
        return 0.0
    A = A + np.diag((gamma + 16.0 * len(A) * np.finfo(float).eps) * len(A) * A.diagonal())
    total = A.diagonal() + ridge
    root = np.sqrt(total)
    scaled = (A + ridge * np.eye(len(A))) / root / root[:, None]
    return float(dense.slogdet(scaled)[1] + np.log(total / ridge).sum())


class RecursiveModel:
    """The record of recursive least squares.

    >>> model = RecursiveModel(ridge=1e-6)
    >>> X = np.arange(6.0).reshape(6, 1)
    >>> before = model.learn(X, 2.0 * X[:, 0] + 1.0)
    >>> model.coef.round(4).tolist(), round(model.intercept, 4)
    ([2.0], 1.0)
    """

    kind = "recursive"

    def __init__(
        self,
        ridge: float = 1.0,
        forgetting: float = 1.0,
        forward: bool = True,
        intercept: bool = True,
        certificate: bool = True,
        names: Sequence[str] | None = None,
    ) -> None:
        self.ridge = float(ridge)
        self.fit_intercept, self.certified = bool(intercept), bool(certificate)
        self.numbers = np.zeros(NUMBERS)
        self.numbers[[FORGET, FORWARD, INTERCEPT]] = forgetting, forward, intercept
        self.P = np.full((1, 1), 1.0 / self.ridge if intercept else 0.0)
        self.w = np.zeros(1)
        self.names: list[str] = []
        self.sums: Sums | None = Sums(0) if certificate else None
        self.progress: list[dict[str, Any]] = []
        self.classes = None
        self._marks = [1, 0.0, 0.0]
        self.row: RecursiveRow | None = None  # for the names of the last two dicts
        self.asked: tuple[str, ...] = ()
        if names is not None:
            self._name(names)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"row": None, "asked": ()}  # made again when needed

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # An unpickled array may be a read-only map of a file; the loop writes.
        self.__dict__ |= {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in saved.items()}

    @property
    def examples(self) -> int:
        return int(self.numbers[ROUNDS])

    @property
    def coef(self) -> np.ndarray:
        return self.w[1:].copy()

    @property
    def intercept(self) -> float:
        return float(self.w[0])

    def fresh(self) -> RecursiveModel:
        """The same learner before its first example."""
        forget, forward = float(self.numbers[FORGET]), bool(self.numbers[FORWARD])
        return type(self)(self.ridge, forget, forward, self.fit_intercept, self.certified, self.names)

    def _name(self, names: Sequence[str]) -> None:
        if len(set(names)) != len(names):
            raise DataError("feature names repeat; give each column a name of its own", where="names")
        old, new = len(self.w), len(names) + 1
        P = np.zeros((new, new))
        P[:old, :old] = self.P
        P[range(old, new), range(old, new)] = 1.0 / self.ridge
        self.P, self.w = P, np.append(self.w, np.zeros(new - old))
        self.names = list(names)
        if self.sums is not None:
            if len(names) <= WIDEST:
                self.sums.widen(len(names))
                self.sums.seen.name(self.names, old - 1)
            else:
                self.sums = None

    def _take(self, X: Any) -> Any:
        X = inputs.matrix(X)
        if not self.names and not self.examples:
            self._name([f"x{j}" for j in range(X.shape[1])])
        inputs.check_width(X, len(self.names))
        return X

    def learn(self, X: Any, y: Any, weights: Any = None, order: np.ndarray | None = None) -> np.ndarray:
        """Learn rows in order; the predictions made before each update."""
        X = self._take(X)
        targets = inputs.targets(y, X.shape[0], "real")
        share = inputs.weights(weights, X.shape[0])
        if order is not None:
            X, targets, share = X[order], targets[order], share[order] if len(share) else share
        inputs.refuse_bad_rows(X, self.names)
        out = np.empty(len(targets))
        rows = block_of(X)
        start = 0
        while start < len(targets):
            stop = min(len(targets), start + max(1, int(self._marks[0]) - self.examples))
            before = (self.P.copy(), self.w.copy())
            reached, numbers = self._walk(rows, targets, share, start, stop, out)
            if reached < stop or not np.abs(self.w).max() <= HUGE:
                self.P, self.w = before
                reached = min(reached, stop - 1)  # the last row made weights that are no usable numbers
                _, self.numbers = self._walk(rows, targets, share, start, reached, out)
                raise inputs.Overflow(
                    f"the update overflows at row {reached}, and the model keeps its state before it; use a larger ridge or "
                    f"scale the columns", where="ridge",
                )  # fmt: skip
            self.numbers = numbers
            if self.sums is not None:
                self.sums.add(X[start:stop], targets[start:stop], share[start:stop] if len(share) else None)
            if self.examples >= self._marks[0]:
                self._record(float(targets[stop - 1]), float(out[stop - 1]))
            start = stop
        return out

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of rows (forward, if asked for)."""
        X = self._take(X)
        inputs.refuse_bad_rows(X, self.names)
        out = np.empty(X.shape[0])
        self._walk(block_of(X), np.empty(0), np.empty(0), 0, X.shape[0], out)
        return out

    def _walk(
        self, rows: Block, y: Any, weights: Any, start: int, stop: int, out: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """How far the rows were learned or predicted, and the numbers then."""
        recursion = Recursion(self.P, self.w, self.numbers)
        recursion.take(rows)
        return recursion.learn(y, weights, start, stop, out), recursion.numbers()

    def learn_one(self, features: Mapping[str, float], y: Any, weight: Any = 1.0) -> float:
        """Learn one example of named features."""
        if self.row is not None and weight == 1.0:
            made = self.row.learn(self, features, y)
            if made is not None:
                return float(made)
        features = inputs.named(features)
        known = set(self.names)
        new = [name for name in features if name not in known]
        target = inputs.target(y, "real")
        share = inputs.weights([weight], 1) if weight != 1.0 else np.empty(0)
        row = self._row(features, [*self.names, *new])
        if new:
            self._name([*self.names, *new])
        prediction = float(self.learn(row, [target], share if len(share) else None)[0])
        self._remember(features)
        return prediction

    def predict_one(self, features: Mapping[str, float]) -> float:
        """The prediction for one example of named features."""
        if self.row is not None:
            made = self.row.predict(self, features)
            if made is not None:
                return float(made)
        features = inputs.named(features)
        prediction = float(self.predict(self._row(features, self.names))[0])
        self._remember(features)
        return prediction

    def _remember(self, features: Mapping[str, float]) -> None:
        """Keep a row for the names of two dicts one after the other; names that change are not worth one."""
        keys = tuple(features)
        if keys == self.asked and set(keys) <= set(self.names):
            self.row = RecursiveRow(self, keys)
        self.asked = keys

    def _row(self, features: Mapping[str, float], names: Sequence[str]) -> np.ndarray:
        values = dict(zip(features, filled(features)))
        return np.array([[values.get(name, 0.0) for name in names]])

    def _record(self, label: float, prediction: float) -> None:
        loss, weight = float(self.numbers[LOSS]), float(self.numbers[WEIGHT])
        since = weight - self._marks[2]
        line: dict[str, Any] = {
            "examples": self.examples,
            "average_loss": loss / weight if weight else 0.0,
            "since_last": (loss - self._marks[1]) / since if since else 0.0,
            "label": label,
            "prediction": prediction,
        }
        if self.sums is not None:
            line |= regret.brief(self.certificate())
        self.progress.append(line)
        self._marks = [2 * self.examples, loss, weight]

    def certificate(self) -> RegretCertificate:
        """Regret against the best fixed weights, and the forecaster's bound."""
        loss = float(self.numbers[LOSS])
        if self.sums is None:
            advice = (
                "certificate=False: the sums of the bound were not kept" if not self.certified else "too many columns"
            )
            return RegretCertificate(status=Status.NOT_PROVEN, examples=self.examples, loss=loss, advice=advice)
        G, gamma = self.sums.total(), sums.rounding(self.examples)
        least = sums.best_fixed_loss(G, self.fit_intercept, gamma, self.sums.redundant(), self.sums.few())
        bound_u = sums.best(G, self.ridge, self.fit_intercept)
        forward, remembers = self.numbers[FORWARD] > 0.0, self.numbers[FORGET] == 1.0
        scale = float(self.numbers[LARGEST_Y2] if forward else self.numbers[LARGEST_E2])
        bound = sums.loss_of(G, bound_u, gamma) + self.ridge * float(bound_u @ bound_u)
        bound += scale * log_det_above(G, self.ridge, self.fit_intercept, gamma)
        bound = rounded_up(bound, self.examples) if remembers and math.isfinite(bound) else math.inf
        advice = "" if remembers else f"with forgetting {self.numbers[FORGET]:g} there is no bound; use forgetting=1"
        if remembers and math.isinf(bound):
            advice = "the sums of the bound are no numbers; scale the columns or use a larger ridge"
        held = Assumption("nothing is forgotten", bool(remembers), float(self.numbers[FORGET]), 1.0, "use forgetting=1")
        return RegretCertificate(
            status=bound_status(loss, bound, (held,)),
            assumptions=(held,),
            advice=advice,
            theorem=f"min_u (L_u + λ‖u‖²) + {'Y²' if forward else 'max e²'}·ln det(I + XᵀX/λ)",
            examples=self.examples, loss=loss, bound=bound, bound_comparator=bound_u, **regret.against(least, loss),
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Every bit of it."""
        arrays = {"P": self.P, "w": self.w, "numbers": self.numbers}
        if self.sums is not None:
            arrays |= self.sums.to_state()
        return arrays, {
            "ridge": self.ridge, "names": self.names, "progress": self.progress, "marks": self._marks,
            "settings": {
                "forgetting": float(self.numbers[FORGET]), "forward": bool(self.numbers[FORWARD]),
                "intercept": self.fit_intercept, "certificate": self.certified,
            },
            "certificate": self.certificate().to_dict() if self.examples else None,
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The weights, the inverse of the moments, and the sums of the bound where they are kept."""
        width = len(meta["names"])
        return {
            "P": Array((width + 1, width + 1)),
            "w": Array((width + 1,)),
            "numbers": Array((NUMBERS,), holds=lambda numbers: bool(0.0 <= numbers[ROUNDS] <= 2.0**53)),
        } | sums.declared(width)

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> RecursiveModel:
        """The record of a state."""
        if not 0.0 < meta["ridge"] < math.inf:
            raise ModelError("no learner has the ridge that the file states; use an intact copy", where="ridge")
        model = cls(meta["ridge"], names=meta["names"] or None, **meta["settings"])
        model.P, model.w, model.numbers = (np.array(arrays[name]) for name in ("P", "w", "numbers"))
        model.progress, model._marks = meta["progress"], meta["marks"]
        model.sums = Sums.from_state(arrays, len(model.names)) if "sums" in arrays else None
        return model
