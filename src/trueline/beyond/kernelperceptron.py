"""The perceptron in dual form: f(x) = Σ y_i K(x_i, x) over the rounds of mistakes, optionally on a budget.

The bound N ≤ (R‖w‖ + ‖ξ‖₂)² lives in the kernel's feature space. The mistakes' signed Gram matrix S = ZZ' is factored,
and the rows of Z are the mistakes as vectors of that space, so the linear perceptron's own bound applies. Beyond
``FACTORED`` mistakes comparators are sought in the span of that many of them: still valid, a little weaker.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Status
from ..certificates.regret import MistakeCertificate, bound_status
from ..errors import DataError, ModelError
from ..modelfile import Array
from ..nonlinear.dual_perceptron import Expansion
from ..online import inputs
from ..online.mistakes import comparators, perceptron_bound
from ..online.named import filled
from ..parts.door import describe, rebuild
from ..parts.kernels import KERNELS, diagonal, gram
from ..threads import spread

FACTORED = 1_500
# A line of progress has a bound up to so many mistakes: an eigendecomposition of their Gram matrix each time.
BOUNDED = 256


class Head:
    """One two-class learner: the expansion, with room to grow."""

    def __init__(self, width: int, budget: int | None) -> None:
        self.budget = budget or 0
        self.rows = np.zeros((self.budget or 64, width))
        self.signs, self.norms = np.zeros(len(self.rows)), np.zeros(len(self.rows))
        self.size = self.oldest = self.mistakes = 0

    def widen(self, width: int) -> None:
        self.rows = np.pad(self.rows, ((0, 0), (0, width - self.rows.shape[1])))

    def grow(self) -> None:
        more = len(self.rows)
        self.rows = np.pad(self.rows, ((0, more), (0, 0)))
        self.signs, self.norms = np.pad(self.signs, (0, more)), np.pad(self.norms, (0, more))

    def expansion(self, shape: Any, extra: float) -> Expansion:
        """The rows of this head, for a kernel that compiled code knows."""
        if not self.rows.flags.writeable:  # mapped from a file by joblib
            self.rows, self.signs, self.norms = self.rows.copy(), self.signs.copy(), self.norms.copy()
        counts = self.size, self.oldest, self.mistakes
        return Expansion(shape, extra, self.rows, self.signs, self.norms, self.budget, counts)

    def learn(self, shape: Any, extra: float, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        out, at = np.empty(len(y)), 0
        while at < len(y):
            if not self.budget and self.size == len(self.rows):
                self.grow()
            if type(shape) in KERNELS.values():
                rows = self.expansion(shape, extra)
                at = rows.learn(X, y, at, out)
                self.size, self.oldest, self.mistakes = rows.size, rows.oldest, rows.mistakes
            else:
                out[at] = self.scores(shape, extra, X[at : at + 1])[0]
                if y[at] * out[at] <= 0.0:
                    place = self.size
                    if self.budget and self.size == self.budget:
                        place, self.oldest = self.oldest, (self.oldest + 1) % self.budget
                    else:
                        self.size += 1
                    self.rows[place], self.signs[place], self.norms[place] = X[at], y[at], X[at] @ X[at]
                    self.mistakes += 1
                at += 1
        return out

    def scores(self, shape: Any, extra: float, X: np.ndarray) -> np.ndarray:
        if not self.size:
            return np.zeros(len(X))
        if type(shape) in KERNELS.values():
            rows, out = self.expansion(shape, extra), np.empty(len(X))
            step = max(64, -(-len(X) // 16))
            spread(lambda a: rows.scores(X, a, min(a + step, len(X)), out), range(0, len(X), step))
            return out
        signs = self.signs[: self.size]
        return gram(shape, X, self.rows[: self.size]) @ signs + extra * signs.sum()


class KernelPerceptronModel:
    """The record: one head for two classes, otherwise one a class."""

    kind = "kernel_perceptron"
    takes_parts = True

    def __init__(self, shape: Any, intercept: bool, budget: int | None, classes: Any) -> None:
        self.shape, self.extra, self.budget = shape, float(intercept), budget
        self.classes = tuple(classes)
        self.heads = [Head(0, budget) for _ in range(1 if len(self.classes) == 2 else len(self.classes))]
        self.names: list[str] = []
        self.examples, self.loss = 0, 0.0
        self.progress: list[dict[str, Any]] = []

    def _name(self, names: list[str]) -> None:
        if len(set(names)) != len(names):
            raise DataError("feature names repeat; give each column a name of its own", where="names")
        self.names = list(names)
        for head in self.heads:
            head.widen(len(names))

    def _take(self, X: Any) -> np.ndarray:
        X = inputs.matrix(X)
        if not self.names and not self.examples:
            self._name([f"x{j}" for j in range(X.shape[1])])
        inputs.check_width(X, len(self.names))
        inputs.refuse_bad_rows(X, self.names)
        return X  # type: ignore[no-any-return]

    def learn(self, X: Any, y: Any, weights: Any = None, order: np.ndarray | None = None) -> np.ndarray:
        """Learn rows in order; the scores before each update."""
        if weights is not None:
            raise DataError("the kernel perceptron counts rounds: it takes no weights", where="sample_weight")
        X = self._take(X)
        two = len(self.heads) == 1
        codes = inputs.targets(y, len(X), "sign") if two else inputs.codes(y, len(X), len(self.classes))
        if order is not None:
            X, codes = np.ascontiguousarray(X[order]), codes[order]
        signs = [codes] if two else [np.where(codes == k, 1.0, -1.0) for k in range(len(self.heads))]
        found = [head.learn(self.shape, self.extra, X, sign) for head, sign in zip(self.heads, signs)]
        self._tell(codes, signs, found)
        return found[0] if two else np.column_stack(found)

    def _tell(self, codes: np.ndarray, signs: list[np.ndarray], scores: list[np.ndarray]) -> None:
        """A line of progress at each power of two among the rows just learned."""
        losses = sum(np.maximum(0.0, -sign * score) for sign, score in zip(signs, scores))
        # From the loss so far on, so that blocks of any size give the same bits.
        losses = np.cumsum(np.append(self.loss, losses))[1:]
        wrong = np.cumsum([sign * score <= 0.0 for sign, score in zip(signs, scores)], axis=1)
        missed = [head.mistakes - int(counts[-1]) for head, counts in zip(self.heads, wrong)]
        due = 1 << self.examples.bit_length()
        while due <= self.examples + len(codes):
            i = due - self.examples - 1
            self._due(due, float(losses[i]), codes[i], [float(score[i]) for score in scores])
            counts = [before + int(more[i]) for before, more in zip(missed, wrong)]
            if len(self.heads) == 1:
                self.progress[-1]["average_mistakes"] = counts[0] / due
            if not self.budget and max(counts) <= BOUNDED:
                # Without a budget the expansion of that round is the first part of the present one.
                self.progress[-1]["bound"] = float(self._worst(due, counts).bound)
            due *= 2
        self.examples += len(codes)
        self.loss = float(losses[-1])

    def _due(self, examples: int, loss: float, label: Any, scores: list[float]) -> None:
        last = self.progress[-1] if self.progress else {"examples": 0, "average_loss": 0.0}
        since = loss - last["examples"] * last["average_loss"]
        self.progress.append(
            {
                "examples": examples, "average_loss": loss / examples,
                "since_last": since / (examples - last["examples"]), "label": label.item(),
                "prediction": scores[0] if len(scores) == 1 else scores,
            }
        )  # fmt: skip

    def predict(self, X: Any) -> np.ndarray:
        """Scores: one a row for two classes, otherwise one a row and class."""
        X = self._take(X)
        found = [head.scores(self.shape, self.extra, X) for head in self.heads]
        return found[0] if len(found) == 1 else np.column_stack(found)

    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> Any:
        """Learn one example of named features; a name not seen before is a new column of zeros."""
        if weight != 1.0:
            raise DataError("the kernel perceptron counts rounds: it takes no weights", where="weight")
        new = [name for name in features if name not in self.names]
        row = named_row(features, [*self.names, *new])
        if new:
            self._name([*self.names, *new])
        return self.learn(row, [y])[0]

    def predict_one(self, features: dict[str, float]) -> Any:
        """The score of one example of named features."""
        if not self.names:
            return 0.0 if len(self.heads) == 1 else np.zeros(len(self.heads))
        return self.predict(named_row(features, self.names))[0]

    def certificate(self) -> MistakeCertificate:
        """Of several classes, the head that errs most against its bound."""
        return self._worst(self.examples, [head.mistakes for head in self.heads])

    def _worst(self, examples: int, mistakes: list[int]) -> MistakeCertificate:
        found = [self._proof(head, examples, count) for head, count in zip(self.heads, mistakes)]
        return max(found, key=lambda proof: (not proof.proven, proof.bound))

    def _proof(self, head: Head, examples: int, mistakes: int) -> MistakeCertificate:
        theorem = "perceptron in the kernel's space: N ≤ (R‖w‖ + ‖ξ‖₂)²"
        told: dict[str, Any] = {"examples": examples, "mistakes": mistakes, "theorem": theorem}
        complete = mistakes <= head.size
        kept = Assumption(
            "every mistake stays in the expansion", complete, float(mistakes), float(self.budget or math.inf),
            "use budget=None",
        )  # fmt: skip
        if not complete:
            advice = f"{mistakes - head.size} mistakes left the budget of {self.budget}; budget=None has a bound"
            return MistakeCertificate(status=Status.VOID, assumptions=(kept,), advice=advice, **told)
        if not mistakes:
            return MistakeCertificate(status=bound_status(0.0, 0.0, (kept,)), assumptions=(kept,), bound=0.0, **told)
        rows, signs = head.rows[:mistakes], head.signs[:mistakes]
        some = np.unique(np.linspace(0, mistakes - 1, min(mistakes, FACTORED)).astype(int))
        values, Q = dense.eigh((gram(self.shape, rows[some]) + self.extra) * signs[some] * signs[some][:, None])
        if values[0] < -1e-8 * values[-1]:
            positive = Assumption("the kernel is an inner product", False, float(values[0]), 0.0, "use another kernel")
            return MistakeCertificate(
                status=Status.VOID, assumptions=(kept, positive), advice="the kernel is not an inner product", **told
            )
        good = values > 1e-10 * values[-1]
        whiten = Q[:, good] / np.sqrt(values[good])
        cross = (gram(self.shape, rows, rows[some]) + self.extra) * signs[:, None] * signs[some]
        Z = cross @ whiten
        squares = diagonal(self.shape, rows) + self.extra
        lost = np.sqrt(np.maximum(squares - np.einsum("ij,ij->i", Z, Z), 0.0))
        # The part of a row outside the span counts in its length but not in any comparator.
        full = np.column_stack([Z, lost])
        found = [perceptron_bound(full, np.append(u, 0.0), None) for u in comparators(Z, Z.sum(axis=0))]
        bound, radius, margin, slack, w = min(found, key=lambda item: item[0])
        comparator = np.zeros(mistakes)
        comparator[some] = signs[some] * (whiten @ w[:-1])
        return MistakeCertificate(
            status=bound_status(mistakes, bound, (kept,)), assumptions=(kept,), radius=radius, margin=margin, slack=slack, bound=bound,
            comparator=comparator, **told,
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Every bit of it."""
        arrays: dict[str, np.ndarray] = {}
        for h, head in enumerate(self.heads):
            for name in ("rows", "signs", "norms"):
                arrays[f"{name}{h}"] = getattr(head, name)[: head.size]
        return arrays, {
            "shape": describe(self.shape) if isinstance(self.shape, tuple) else None, "intercept": bool(self.extra),
            "budget": self.budget, "classes": list(self.classes), "names": self.names, "examples": self.examples,
            "loss": self.loss, "progress": self.progress,
            "heads": [[head.size, head.oldest, head.mistakes] for head in self.heads],
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The rows that each weight vector is made of."""
        width, budget = len(meta["names"]), meta["budget"]
        made = {}
        for h, (size, oldest, mistakes) in enumerate(meta["heads"]):
            if not (0 <= oldest <= max(0, size - 1) and size <= mistakes and size <= (budget or size)):
                raise ModelError("the counts of the kernel perceptron do not fit together; use an intact copy")
            made[f"rows{h}"] = Array((size, width))
            made |= {f"{name}{h}": Array((size,)) for name in ("signs", "norms")}
        return made

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> KernelPerceptronModel:
        """The record of a state."""
        shape = rebuild(meta["shape"], KERNELS, "kernel", parts)
        model = cls(shape, meta["intercept"], meta["budget"], meta["classes"])
        # Files of before progress was kept have none of it.
        model.examples, model.loss = meta["examples"], meta.get("loss", 0.0)
        model.progress = [dict(line) for line in meta.get("progress", [])]
        model._name(meta["names"])
        for h, (head, counts) in enumerate(zip(model.heads, meta["heads"])):
            head.size, head.oldest, head.mistakes = counts
            while len(head.rows) < head.size:
                head.grow()
            for name in ("rows", "signs", "norms"):
                getattr(head, name)[: head.size] = arrays[f"{name}{h}"]
        return model


def named_row(features: dict[str, float], names: list[str]) -> np.ndarray:
    """One row of a table with these columns from a dict; absent names are 0."""
    values = dict(zip(features, filled(features)))
    return np.array([[values.get(name, 0.0) for name in names]])
