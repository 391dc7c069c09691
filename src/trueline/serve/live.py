"""One model of the service: its record, what it accepts, what it has learned up to which position.

``apply`` is the only thing that changes it, and its result depends on the journal alone: no clock, no grouping. Labels
come late, so the served prediction and the one just before the update differ; ``excess`` is Σ(served loss − current
loss), which the certificate of what was served adds to loss and bound.

A prediction is kept with the kind of number that it is, {"probability": 0.98} or {"hinge": −1.3} for classes: another
learner may stand here when it is asked for again, or when its label comes.
"""

from __future__ import annotations

import copy
import logging
import math
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..data.rounding import loses_digits, rounded
from ..errors import DataError
from ..objective.losses import LOSSES, resolve_loss
from ..online.learners import widened
from . import spec as specs
from .drift import WIDEST, WINDOW, Drift
from .shape import LIMIT

_encode = msgspec.json.Encoder().encode
CHUNK = 256  # rows applied without a pause
REPEATED = 256  # rows learned again at most where one fails
LARGEST = 1e250  # loss of one row


class Label(NamedTuple):
    """A label of the journal, with what it belongs to; ``output`` is the prediction that was served, if one was."""

    position: int
    features: bytes
    label: bytes
    weight: float
    output: bytes | None


class Live:
    """A model that learns."""

    def __init__(self, mid: int, name: str, spec: dict[str, Any], parent: int | None, start: int) -> None:
        self.mid, self.name, self.spec, self.parent, self.start = mid, name, spec, parent, start
        self.shape = specs.shape_of(spec)
        self.classes: list[Any] = list(spec.get("classes") or ())
        self.codes = {_encode(label): k for k, label in enumerate(self.classes)}
        if self.classes == [0, 1]:
            self.codes |= {b"false": 0, b"true": 1}
        self.columns = list(self.shape.columns)
        self.places = {term: k for k, term in enumerate(self.columns)}
        self.record: Any = None if spec.get("from_file") else specs.fresh(spec, self.columns)
        self.position = start  # the last journal position learned
        self.tally: dict[str, Any] = {"excess": 0.0, "delayed": 0, "skipped": 0}
        self.windows = Drift()
        self.intakes: dict[str, Any] = {}  # how its requests are read, by verb
        self.frozen = False  # fitted to a whole table: predicts only
        self.first: list[float] | None = None  # coefficients when the process started, for their drift
        self._before: Any = None  # a copy of the state some blocks ago
        self._since: list[list[Label]] = []  # the blocks learned from there

    # ---- predictions
    def predict(self, stored: list[bytes]) -> list[Any]:
        """Predictions of stored rows, as plain numbers or lists; DataError where one is not finite."""
        made = self.record.predict(self.shape.rows(stored, len(self.columns), self.places))
        if not np.isfinite(made).all():
            raise DataError("the prediction of some row is not a finite number")
        return made.tolist()

    def predictable(self, stored: bytes) -> bool:
        """Whether a row has a finite prediction."""
        try:
            self.predict([stored])
        except DataError:
            return False
        return True

    def unpredictable(self, stored: bytes) -> tuple[str, str]:
        """Why a row has no finite prediction, and the field that is to blame."""
        row = self.shape.row(stored, len(self.columns), self.places)
        k = int(np.argmax(np.abs(row)))
        name = self.columns[k] if self.columns else "features"
        return (
            f"field {name!r} is {row[k] if len(row) else 0.0:g}: the prediction would not be a finite number; give a smaller one",
            name,
        )

    def tag(self, value: Any) -> Any:
        """A prediction as it is kept: a number, or {kind: value} for classes."""
        return {self.output_kind: value} if self.classes else value

    def read(self, output: bytes) -> Any:
        """A kept prediction; stores of 0.1 say no kind, and mean that of the learner which served them."""
        value = msgspec.json.decode(output)
        if not self.classes or isinstance(value, dict):
            return value
        return {self.spec.get("untagged", self.output_kind): value}

    def outward(self, prediction: Any) -> dict[str, Any]:
        """What an answer says of a prediction, as ``tag`` or ``read`` gives it."""
        if not self.classes:
            return {"prediction": prediction}
        ((kind, value),) = prediction.items()
        likely = kind == "probability"
        if len(self.classes) == 2 and not isinstance(value, list):
            if not likely:
                return {"prediction": self.classes[int(value > 0.0)], "score": value}
            return {"prediction": self.classes[int(value > 0.5)], "probabilities": [1.0 - value, value]}
        best = max(range(len(value)), key=value.__getitem__)
        return {"prediction": self.classes[best], "probabilities" if likely else "scores": value}

    @property
    def output_kind(self) -> str:
        """What the numbers are that it predicts of classes: probabilities, or scores of a loss, by its name."""
        if self.probabilistic:
            return "probability"
        loss = type(getattr(self.record, "loss", None))
        return next((name for name, known in LOSSES.items() if known is loss), "score")

    @property
    def probabilistic(self) -> bool:
        return self.record.kind == "mixture" or bool(getattr(self.record, "probabilistic", False))

    def label(self, label: Any) -> bytes:
        """The stored form of a label."""
        if type(label) is float and not self.classes and -1e100 <= label <= 1e100:
            return _encode(label)
        if not self.classes:
            if isinstance(label, bool) or not isinstance(label, (int, float)) or not -1e100 <= label <= 1e100:
                raise DataError(f"field 'label' is {specs.shown(label)}; give a finite number", where="label")
            if loses_digits(label):
                raise rounded("label", label, "of this row")
            return _encode(float(label))
        small = isinstance(label, (str, bool)) or (isinstance(label, (int, float)) and abs(label) < 2**53)
        coded = _encode(label) if small else b""
        if small and isinstance(label, float) and label.is_integer():
            coded = _encode(int(label))
        if coded not in self.codes:
            known = ", ".join(map(str, self.classes[:8]))
            raise DataError(f"field 'label' is {specs.shown(label)}; give one of {known}", where="label")
        return _encode(self.classes[self.codes[coded]])

    def target(self, label: bytes) -> float:
        """A stored label as the learner takes it: a number, ±1, or the number of its class."""
        if not self.classes:
            return float(label)
        code = self.codes[label]
        return 2.0 * code - 1.0 if len(self.classes) == 2 else float(code)

    # ---- learning
    def apply(self, entries: list[Label]) -> None:
        """Learn labels in order of position, a block at a time, or one by one where something in a block fails.

        What a failure leaves depends on where a block ends, and a replay has other blocks. So the learner goes back to
        before the block, and of its rows only the one that fails by itself is skipped, in every replay alike.
        """
        at = 0
        while at < len(entries):
            stop = at + 1 if not self.shape.fixed else min(len(entries), at + self._room())
            block = entries[at:stop]
            error = self._try(block)
            if error is not None:
                for entry in block:
                    error = error if len(block) == 1 else self._try([entry])
                    if error is not None:
                        self._skip(entry, error)
            at = stop

    def _room(self) -> int:
        """Labels until the window is full."""
        return WINDOW - self.position % WINDOW

    def _try(self, block: list[Label]) -> Exception | None:
        """Learn a block; or leave everything as it was, and say what failed."""
        if self._before is None or self.position - self._before[0] >= REPEATED:
            learned = (self.record, self.columns, self.tally, self.windows)
            self._before, self._since = (self.position, *copy.deepcopy(learned)), []
        try:
            self._learn(block)
        except MemoryError:  # no fault of the row: the service stops, and recovers from the journal
            raise
        except Exception as error:
            self._go_back()
            return error
        self._since.append(block)
        return None

    def _go_back(self) -> None:
        """The state before the block that failed: the copy, and the blocks since then learned again as they were."""
        since = self._since
        self.position, self.record, self.columns, self.tally, self.windows = self._before
        self.places = {term: k for k, term in enumerate(self.columns)}
        self._before, self._since = None, []
        for block in since:
            self._learn(block)

    def _skip(self, entry: Label, error: Exception) -> None:
        """Leave a label out; the log hears of the first, the second, the fourth, …"""
        self._before = None
        self.tally["skipped"] += 1
        count = self.tally["skipped"]
        if count & (count - 1) == 0:
            logging.getLogger("trueline.serve").warning(
                "label %d of %s cannot be learned, %d so far: %s", entry.position, self.name, count, ascii(error)
            )
        self._reach(entry.position)

    def _widen(self, stored: bytes) -> None:
        new = [term for term in self.shape.late(stored) if term not in self.places]
        if new:
            for term in new:
                self.places[term] = len(self.columns)
                self.columns.append(term)
            widened(self.record, self.columns)

    def _learn(self, entries: list[Label]) -> None:
        """Learn a block at once, or raise in the middle of it."""
        if not self.shape.fixed:
            self._widen(entries[0].features)
        X = self.shape.rows([e[1] for e in entries], len(self.columns), self.places)
        y = np.array([self.target(e[2]) if self.classes else float(e[2]) for e in entries])
        weights = [e[3] for e in entries]
        c = None if all(w == 1.0 for w in weights) else np.array(weights)
        dead = np.count_nonzero(getattr(self.record, "dead", 0))
        predictions = self.record.learn(X, y, c)
        largest = np.abs(predictions).max()
        calm = largest <= LIMIT and np.count_nonzero(getattr(self.record, "dead", 0)) == dead
        if not (calm or (len(entries) == 1 and largest < math.inf)) or not self._is_sound():
            raise ArithmeticError("the update overflows")
        self._count(entries, predictions.tolist(), y)
        self._reach(entries[-1].position)

    def _is_sound(self) -> bool:
        """Whether a mixture can go on predicting: it has no word for an update that overflows, but its arrays keep it.

        The ledger is left out, since only the bound reads it.
        """
        arrays = getattr(self.record, "arrays", {})
        return all(np.isfinite(array).all() for name, array in arrays.items() if name != "ledger")

    def _reach(self, position: int) -> None:
        self.position = position
        if position % WINDOW == 0:
            self._close_window()

    def _count(self, entries: list[Label], made: list[Any], y: np.ndarray) -> None:
        """Add to the sums one after another, so that grouping changes no bit."""
        tally, windows = self.tally, self.windows
        targets = y.tolist()
        if self._squares():
            gaps = np.array(made) - y
            losses = (gaps * gaps).tolist()
        else:
            losses = [self.loss(current, target) for current, target in zip(made, targets)]
        if len(self.columns) < WIDEST - 1 and (self._squares() or self._logistic()):
            windows.rows.extend((e[1], target, e[3]) for e, target in zip(entries, targets))
        for (_, _, _, weight, output), current, target, loss in zip(entries, made, targets, losses):
            windows.loss += weight * loss
            windows.weight += weight
            if output is not None:
                served = self.read(output)
                if served != self.tag(current):
                    kind, value = next(iter(served.items())) if self.classes else (None, served)
                    tally["excess"] += weight * (self.loss(value, target, kind) - loss)
                    tally["delayed"] += 1

    def _squares(self) -> bool:
        """Whether the loss is (prediction − target)²."""
        return not self.classes and bool(getattr(self.record, "squared", True))

    def _logistic(self) -> bool:
        """Whether the loss is −ln of the probability of one of two classes."""
        return len(self.classes) == 2 and self.probabilistic

    def loss(self, made: Any, target: float, kind: str | None = None) -> float:
        """The loss of a prediction as certificates sum it, or by the ``kind`` of a kept one; no more than sums can hold."""
        try:
            return min(self._loss(made, target, kind), LARGEST)
        except OverflowError:
            return LARGEST

    def _loss(self, made: Any, target: float, kind: str | None) -> float:
        if self._squares():
            return (made - target) * (made - target)
        if not self.classes:
            return float(self.record.losses_of(made, target)[0])
        own = self.output_kind
        kind = kind or own
        if isinstance(made, list):
            return (
                -math.log(max(made[int(target)], 1e-300))
                if kind == "probability"
                else float(max(range(len(made)), key=made.__getitem__) != int(target))
            )
        if kind == "probability":
            return -math.log(max(made if target > 0 else 1.0 - made, 1e-300))
        return float((self.record.loss if kind == own else resolve_loss(kind)).value(made, target))

    # ---- what it proves
    def _close_window(self) -> None:
        rows = self.windows.rows if len(self.columns) < min(WIDEST - 1, len(self.windows.rows)) else []
        X = self.shape.rows([row[0] for row in rows], len(self.columns), self.places) if rows else None
        try:
            self.windows.close(self.position, X, None if rows else self.record.certificate(), self._logistic())
        except MemoryError:
            raise
        except Exception:  # numbers too far apart for a comparator: none, in every replay alike
            self.windows.close(self.position, None, None)

    def certificate(self) -> dict[str, Any]:
        """The record's certificate, and that of the predictions as they were served."""
        proof = self.record.certificate()
        values = proof.to_dict()
        excess = self.tally["excess"]
        made = {
            "certificate": values,
            "words": str(proof),
            "position": self.position,
            "model": self.name,
            "drift": self.windows.describe(),
        }
        if "loss" in values and "bound" in values:
            made["served"] = {
                "loss": values["loss"] + excess, "bound": values["bound"] + excess, "excess": excess,
                "delayed": self.tally["delayed"],
                "words": "the loss of the predictions as served: the learner's loss plus what the delay of the labels cost",
            }  # fmt: skip
        return made | {"skipped": self.tally["skipped"]}

    def coefficients(self) -> dict[str, Any]:
        """Intercept and coefficients by name, one list a class where there are several."""
        coef = np.asarray(self.record.coef)
        return {
            "model": self.name, "position": self.position, "intercept": np.asarray(self.record.intercept).tolist(),
            "coefficients": {term: coef[..., k].tolist() for k, term in enumerate(self.columns) if k < coef.shape[-1]},
        }  # fmt: skip

    # ---- keeping
    def state(self) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """What ``dumps`` needs, detached from the running model."""
        arrays, meta = self.record.to_state()
        service = {
            "spec": self.spec,
            "columns": self.columns,
            "position": self.position,
            "tally": self.tally,
            "drift": self.windows.to_dict(),
        }
        frozen = {name: np.array(array) for name, array in arrays.items()}
        meta = meta | {
            "service": service,
            "stream_terms": self.columns,
            "labels": self.classes,
            "target": self.spec["target"],
        }
        return self.record.kind, frozen, copy.deepcopy(meta | {"schema": self.spec.get("schema")})

    def adopt(self, raw: bytes, where: str) -> None:
        """Go on from a snapshot (or a model file) bit for bit."""
        from ..modelfile import loads

        self.record = specs.restore(raw, where)
        self._before, self._since = None, []
        self.frozen = self.record.kind == "linear"
        kept = loads(raw, where=where)[2].get("service")
        if kept is not None:
            self.columns = list(kept["columns"])
            self.places = {term: k for k, term in enumerate(self.columns)}
            self.position = int(kept["position"])
            self.tally = {key: kept["tally"][key] for key in self.tally}
            self.windows = Drift(kept.get("drift"))
