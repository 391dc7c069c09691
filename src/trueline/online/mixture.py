"""The default online learner: nothing to tune, nothing to scale by hand, and a bound that is proven as it runs.

``MixtureModel`` runs members that differ in memory, rate and geometry over the same rows and combines them
(aggregate.py has the rule and its proof). Up to 300 columns the members are recursive least squares or Kalman
logistic filters with several forgetting factors and ridges; beyond, gradient steps whose cost is linear in the
row's entries. Predictions are those of the mixture, which is not one linear model: ``coef`` is the weighted mean of
the members' coefficients.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..certificates.regret import RegretCertificate
from ..errors import ModelError, UsageError
from ..modelfile import Array
from ..threads import one_blas_thread
from . import log_totals as labels
from . import room
from . import squared_totals as numbers
from .aggregate import posterior, rate
from .classify import Classification
from .dict_rows import MixtureRow, remembered
from .hindsight import Hindsight
from .intake import Intake, check_targets, check_weights
from .proof import log_certificate, squared_certificate
from .regress import Regression
from .regret import brief
from .sums import WIDEST

TASKS = ("regression", "binary", "multiclass")


class MixtureModel:
    """A mixture of online learners over one stream.

    Parameters
    ----------
    task : "regression", "binary" (targets −1 and +1) or "multiclass" (targets 0 … K − 1)
    classes : the K labels, for a multiclass task (only their number matters here)
    certificate : keep the moments that give the best fixed weights in hindsight

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3)) * [1, 1000, 1e-6]
    >>> y = X @ [1, 0.002, 3e6] + 100
    >>> model = MixtureModel("regression")
    >>> before = model.learn(X, y)          # predictions made before each update
    >>> bool(np.abs(before[100:] - y[100:]).mean() < 0.05)
    True
    >>> certificate = model.certificate()
    >>> certificate.proven, certificate.loss <= certificate.bound
    (True, True)
    """

    kind = "mixture"

    def __init__(self, task: str = "regression", classes: Any = None, certificate: bool = True) -> None:
        if task not in TASKS:
            raise UsageError(f"task is {task!r}; give one of {', '.join(TASKS)}", where="task")
        if task == "multiclass" and (classes is None or len(classes) < 3):
            raise UsageError("a multiclass mixture needs its three or more classes; give classes=[…]", where="classes")
        self.task = task
        self.classes = None if classes is None else [_plain(label) for label in classes]
        self.class_count = 0 if task == "regression" else 2 if task == "binary" else len(self.classes or ())
        self.keeps_moments = bool(certificate) and task == "regression"
        self.intake = Intake()
        self.progress: list[dict[str, Any]] = []
        self.phase_loss = 0.0
        self.phase_gap = 0.0
        self.phase_logs = 0.0
        self.arrays: dict[str, np.ndarray] = {}
        self.hindsight: Hindsight | None = None
        self.filters = 0
        self.steps = 0
        self.centred = True
        self.fitted_width = -1
        self.row: MixtureRow | None = None
        self.asked: tuple[Any, ...] = ()  # the names of the last dict that went the long way

    def __getstate__(self) -> dict[str, Any]:
        # The remembered row looks into the arrays; it is made again when needed.
        return self.__dict__ | {"row": None}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # An unpickled array may be a read-only map of a file; the loops write.
        self.__dict__ |= saved
        self.arrays = {name: np.array(array) for name, array in self.arrays.items()}
        if self.hindsight is not None:
            self.hindsight = Hindsight.from_state(self.hindsight.to_state())

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str] | None:
        """Names of the columns in order, if rows came as dicts."""
        return self.intake.names

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.intake.width

    @property
    def examples(self) -> int:
        """Examples learned from."""
        return int(self.arrays["totals"][numbers.EXAMPLES]) if self.arrays else 0

    @property
    def score_vectors(self) -> int:
        """Score vectors of one member."""
        return max(1, self.class_count if self.class_count > 2 else 1)

    @property
    def twins(self) -> int:
        """Filters that have a twin with bounded errors."""
        return len(self.arrays["twins"]) if self.arrays else 0

    @property
    def members(self) -> list[str]:
        """What each member is, in the order of the weights."""
        return room.member_names(self)

    @property
    def weights(self) -> np.ndarray:
        """The members' present weights in the mixture, summing to 1 (the pooled level counts by its trust)."""
        if not self.arrays:
            return np.zeros(0)
        a = self.arrays
        count = len(a["losses"])
        totals = a["totals"]
        if self.task == "regression":
            static = _posterior(a["losses"], rate(totals[numbers.GAP_STATIC], count))
            top = _posterior(a["tops"], rate(totals[numbers.GAP_TOP], len(a["tops"])))
            least = a["recent"][:-1].min()
            recent = _posterior(a["recent"][:-1], 0.5 * a["recent"][-1] / least if least > 0.0 else math.inf)
            mixed = top[0] * static + top[1] * a["shares"] + top[2] * recent
            return mixed + top[3] * a["pool"] if len(top) > 3 else mixed
        eta = 1.0 / max(1.0, totals[labels.LARGEST_WEIGHT])
        static, top = _posterior(a["losses"], eta), _posterior(a["tops"], eta)
        trust = a["trust"] / max(a["trust"].sum(), 1e-300)
        return top[0] * static + top[1] * a["shares"] + top[2] * trust

    # -- rows in ------------------------------------------------------------------------------------------------

    def learn(self, X: Any, y: Any, weights: Any = None) -> np.ndarray:
        """Predict each row, then learn from it, in order; returns the predictions made before each update."""
        rows = self.intake.rows(X)
        y = check_targets(y, len(rows.starts) - 1, self.task, self.class_count)
        c = check_weights(weights, len(y))
        self.intake.accept(rows)
        room.prepare(self, sparse=not rows.dense)
        rows = self._laid(rows)
        # BLAS's threads wait for each other longer than the small products of the moments take.
        with one_blas_thread() if self.keeps_moments and len(y) > 256 else nullcontext():
            return self._learn(rows, y, c)

    def learn_one(self, features: dict[str, Any], y: Any, weight: float = 1.0) -> Any:
        """Learn from one example given as a dict; strings count as indicator features, absent ones as 0."""
        if self.row is not None and weight == 1.0:
            made = self.row.learn(self, features, y)
            if made is not None:
                return made
        rows = self.intake.row(features, grow=True)
        label = check_targets([y], 1, self.task, self.class_count)
        c = check_weights(None if weight == 1.0 else [weight], 1)
        self.intake.accept(rows)
        room.prepare(self, sparse=False)
        made = _one(self._learn(self._laid(rows), label, c))
        self.row = remembered(self, features) or self.row
        return made

    def predict(self, X: Any) -> np.ndarray:
        """The mixture's prediction for each row; nothing changes."""
        rows = self.intake.rows(X)
        if not self.arrays:
            return self._shape(np.full((len(rows.starts) - 1, max(1, self.class_count)), self._nothing()))
        return self._shape(self._run(self._laid(rows), None, None)[0])

    def predict_one(self, features: dict[str, Any]) -> Any:
        """The mixture's prediction for one example given as a dict; features never seen count as absent."""
        if self.row is not None:
            made = self.row.predict(features)
            if made is not None:
                return made
        rows = self.intake.row(features, grow=False)
        if not self.arrays:
            return _one(self._shape(np.full((1, max(1, self.class_count)), self._nothing())))
        self.row = remembered(self, features) or self.row
        return _one(self._shape(self._run(self._laid(rows), None, None)[0]))

    def fresh(self) -> MixtureModel:
        """The same mixture before its first example."""
        return type(self)(self.task, self.classes, self.keeps_moments)

    def merge(self, other: Any) -> Any:
        """Refused: a mixture's members depend on the order of the stream."""
        raise UsageError(
            "mixtures cannot be merged or averaged: their weights depend on the order of one stream; "
            "learn both streams in one model, or name a geometry and a rate",
            where="geometry",
        )

    average = merge

    def _laid(self, rows: Any) -> Any:
        """Rows as the members want them: centred gradient members need a column's zeros too."""
        return rows.whole() if self.centred and not self.filters else rows

    def _nothing(self) -> float:
        return 1.0 / self.class_count if self.class_count else 0.0

    def _shape(self, out: np.ndarray) -> np.ndarray:
        return out[:, 0] if self.task == "regression" else out[:, 1] if self.task == "binary" else out

    def _learn(self, rows: Any, y: np.ndarray, c: np.ndarray) -> np.ndarray:
        pieces = []
        at = 0
        while at < len(y):
            # Stop at each power of two of the examples counted, for the progress record.
            due = (1 << self.examples.bit_length()) - self.examples if self.examples else 1
            counted = np.flatnonzero(c[at:] > 0.0)
            stop = at + int(counted[due - 1]) + 1 if len(counted) >= due else len(y)
            part = rows.part(at, stop)
            out, learned = self._run(part, y[at:stop], c[at:stop])
            pieces.append(out)
            self._remember(part, y[at:stop], learned, c[at:stop])
            at = stop
            if len(counted) >= due:
                self.progress.append(self._record())
        return self._shape(np.concatenate(pieces) if pieces else np.zeros((0, max(1, self.class_count))))

    def _run(self, rows: Any, y: np.ndarray | None, c: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        n = len(rows.starts) - 1
        out, learned = np.zeros((n, self.class_count) if self.class_count else n), np.zeros(n)
        rounds = self.rounds()
        rounds.take(rows, np.zeros(n) if y is None else y, np.ones(n) if c is None else c, out, learned)
        rounds.walk(y is not None)
        return out.reshape(n, max(1, self.class_count)), learned

    def rounds(self) -> Regression | Classification:
        """The loop over rows of this task on the arrays as they lie now, with room of its own to work in."""
        kind = Regression if self.task == "regression" else Classification
        return kind(self.arrays, self.intake.width + 1, self.class_count, self.filters, self.steps, self.centred)

    def born(self) -> np.ndarray:
        """For each column the example at which it first varied, 0 before; gradient members take all as they come."""
        width = self.intake.width
        return self.arrays["columns"][7, :width] if self.filters else np.ones(width)

    # -- what it knows ------------------------------------------------------------------------------------------

    def _remember(self, rows: Any, y: np.ndarray, learned: np.ndarray, c: np.ndarray) -> None:
        """Count rows in the moments as the filters saw them: differences from the shift, 0 before a column varied."""
        kept = c > 0.0
        width = self.intake.width
        if not self.keeps_moments or width > WIDEST or not kept.any():
            return
        if self.hindsight is None:
            if self.examples > int(kept.sum()):
                return
            self.hindsight = Hindsight(self.arrays["columns"][0, :width], self.arrays["totals"][numbers.ORIGIN])
        self.hindsight.add(rows, y, learned, c, self.born(), self.examples - int(kept.sum()))

    def member_coefficients(self, width: int | None = None) -> np.ndarray:
        """(members, scores, 1 + width): intercept and coefficients of every member, on the columns as given."""
        return room.member_coefficients(self, self.intake.width if width is None else width)

    @property
    def coef(self) -> np.ndarray:
        """The weighted mean of the members' coefficients: (width,), or (K, width) for several classes."""
        return (
            self._mean_coefficients()[:, 1:].squeeze(axis=0)
            if self.score_vectors == 1
            else self._mean_coefficients()[:, 1:]
        )

    @property
    def intercept(self) -> Any:
        """The weighted mean of the members' intercepts."""
        mean = self._mean_coefficients()[:, 0]
        return float(mean[0]) if self.score_vectors == 1 else mean

    def _mean_coefficients(self) -> np.ndarray:
        if not self.arrays:
            return np.zeros((self.score_vectors, self.intake.width + 1))
        return np.tensordot(self.weights, self.member_coefficients(), axes=1)

    def certificate(self) -> RegretCertificate:
        """Loss suffered, what the best fixed weights or the best member would have lost, and the proven bound, now."""
        if self.task == "regression":
            return squared_certificate(self)
        return log_certificate(self)

    def _record(self) -> dict[str, Any]:
        """One line of progress."""
        t = self.arrays["totals"]
        place = numbers if self.task == "regression" else labels
        now = self.certificate()
        before = self.progress[-1] if self.progress else {"weight": 0.0, "loss": 0.0}
        weight, loss = float(t[place.WEIGHT]), float(t[place.LOSS])
        since = weight - before["weight"]  # 0 where the new weights are too small to change the sum
        record: dict[str, Any] = {
            "examples": self.examples,
            "weight": weight,
            "loss": loss,
            "average_loss": loss / weight,
            "since_last": (loss - before["loss"]) / since if since else 0.0,
            "label": float(t[place.LAST_LABEL]),
            "prediction": float(t[place.LAST_PREDICTION]),
        } | brief(now)
        if self.task != "regression":
            record["average_mistakes"] = float(t[labels.MISTAKES]) / weight
            record |= {key: self._label(record[key]) for key in ("label", "prediction")}
        return record

    def _label(self, number: float) -> Any:
        """A class as the user named it, or −1 and +1."""
        return self.classes[int(number)] if self.classes else 2.0 * number - 1.0

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which ``from_state`` goes on bit for bit."""
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        if self.hindsight is not None:
            arrays |= self.hindsight.to_state()
        meta = {
            "task": self.task,
            "classes": self.classes,
            "certificate": self.keeps_moments,
            "names": self.intake.names,
            "width": self.intake.width,
            "filters": self.filters,
            "steps": self.steps,
            "centred": self.centred,
            "phases": [self.phase_loss, self.phase_gap, self.phase_logs],
            "progress": self.progress,
        }
        return arrays, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The members' arrays, by how many there are; none before the first example."""
        return room.declared(arrays, meta)

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> MixtureModel:
        """The mixture that ``to_state`` described."""
        try:
            made = cls(meta["task"], meta["classes"], meta["certificate"])
            made.intake = Intake(meta["names"], int(meta["width"]))
            made.fitted_width = made.intake.width
            made.filters, made.steps, made.centred = int(meta["filters"]), int(meta["steps"]), bool(meta["centred"])
            made.phase_loss, made.phase_gap, made.phase_logs = meta["phases"]
            made.progress = [dict(record) for record in meta["progress"]]
            made.arrays = {n: np.array(a, order="C") for n, a in arrays.items() if not n.startswith("hindsight_")}
            made.hindsight = Hindsight.from_state(arrays) if "hindsight_mean" in arrays else None
            if made.arrays and "twins" not in made.arrays:
                room.without_twins(made.arrays)
        except (KeyError, TypeError) as error:
            raise ModelError(f"the mixture's state lacks {error}; use an intact copy", where="model file") from None
        return made


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _one(out: np.ndarray) -> Any:
    return out[0] if out.ndim == 2 else float(out[0])


def _posterior(losses: np.ndarray, eta: float) -> np.ndarray:
    out = np.zeros(len(losses))
    posterior(np.ascontiguousarray(losses), len(losses), eta, out)
    return out
