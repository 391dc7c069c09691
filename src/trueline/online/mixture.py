"""The default online learner: nothing to tune, nothing to scale by hand, and a bound that is proven as it runs.

``MixtureModel`` runs members that differ in memory, rate and geometry over the same rows and combines them
(aggregate.py has the rule and its proof). Up to 300 columns the members are recursive least squares or Kalman
logistic filters with several forgetting factors and ridges; beyond, gradient steps whose cost is linear in the
row's entries. Predictions are those of the mixture, which is not one linear model: ``coef`` is the weighted mean of
the members' coefficients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certify.records import RegretCertificate
from ..errors import ModelError, UsageError
from . import classify as labels
from . import regress as numbers
from .hindsight import LARGEST, Hindsight
from .intake import Intake, check_targets, check_weights
from .members import INTERCEPT_RIDGE
from .proof import log_certificate, squared_certificate

# (forgetting, ridge in units of column variance, least memory per column) of the Gaussian filters: the factor is at
# least 1 − 1/(memory·columns), because d weights cannot be learned from fewer than about d examples.
REGRESSION_FILTERS = (
    (1.0, 1.0, 0.0),
    (1.0, 10.0, 0.0),
    (1.0, 100.0, 0.0),
    (0.99, 0.1, 2.0),
    (0.95, 0.1, 1.0),
    (0.9, 0.1, 0.5),
)
CLASS_FILTERS = (
    (1.0, 0.1, 0.0),
    (1.0, 1.0, 0.0),
    (1.0, 10.0, 0.0),
    (0.998, 0.3, 4.0),
    (0.99, 0.3, 2.0),
    (0.95, 1.0, 1.0),
)
REGRESSION_RATES = (1.0, 0.03, 0.1, 0.3, 0.02, 0.1, 0.5, 0.3, 3.0, 30.0)
CLASS_RATES = (0.1, 1.0, 0.03, 0.3, 0.1, 1.0, 10.0, 0.0)
LARGEST_FILTER = 301 * 301  # entries of one member's matrices
TASKS = ("regression", "binary", "multiclass")
_GROWING = ("columns", "w", "P", "table", "sums")


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
    >>> bool(np.abs(before[100:] - y[100:]).max() < 0.5)
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
    def _own(self) -> int:
        """Score vectors of one member."""
        return max(1, self.class_count if self.class_count > 2 else 1)

    @property
    def members(self) -> list[str]:
        """What each member is, in the order of the weights."""
        pairs = REGRESSION_FILTERS if self.task == "regression" else CLASS_FILTERS
        what = "least squares" if self.task == "regression" else "Kalman logistic"
        filters = [f"{what}, forgetting {forget:g}, ridge {ridge:g}" for forget, ridge, _ in pairs[: self.filters]]
        if self.task == "regression":
            steps = ["normalised steps", *(f"AdaGrad {r:g}" for r in REGRESSION_RATES[1:4])]
            steps += [f"constant step {r:g}" for r in REGRESSION_RATES[4:7]]
            steps += [f"diagonal least squares, ridge {r:g}" for r in REGRESSION_RATES[7:]]
            return ["running mean", "last label", *filters, *steps[: self.steps]]
        steps = [*(f"constant step {r:g}" for r in CLASS_RATES[:2]), *(f"AdaGrad {r:g}" for r in CLASS_RATES[2:4])]
        steps += [*(f"diagonal Kalman logistic, ridge {r:g}" for r in CLASS_RATES[4:7]), "exponentiated gradient ±"]
        return ["class frequencies", "label chain", *filters, *steps[: self.steps]]

    @property
    def weights(self) -> np.ndarray:
        """The members' present weights in the mixture, summing to 1 (the pooled level counts by its trust)."""
        if not self.arrays:
            return np.zeros(0)
        a = self.arrays
        count = len(a["losses"])
        totals = a["totals"]
        if self.task == "regression":
            static = _posterior(a["losses"], _rate(totals[numbers.GAP_STATIC], count))
            top = _posterior(a["tops"], _rate(totals[numbers.GAP_TOP], numbers.LEVELS))
            least = a["recent"][:-1].min()
            recent = _posterior(a["recent"][:-1], 0.5 * a["recent"][-1] / least if least > 0.0 else math.inf)
            return top[0] * static + top[1] * a["shares"] + top[2] * recent
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
        self._prepare(sparse=not rows.dense)
        return self._learn(rows, y, c)

    def learn_one(self, features: dict[str, Any], y: Any, weight: float = 1.0) -> Any:
        """Learn from one example given as a dict; strings count as indicator features, absent ones as 0."""
        rows = self.intake.row(features, grow=True)
        label = check_targets([y], 1, self.task, self.class_count)
        c = check_weights(None if weight == 1.0 else [weight], 1)
        self.intake.accept(rows)
        self._prepare(sparse=True)
        return _one(self._learn(rows, label, c))

    def predict(self, X: Any) -> np.ndarray:
        """The mixture's prediction for each row; nothing changes."""
        rows = self.intake.rows(X)
        if not self.arrays:
            return self._shape(np.full((len(rows.starts) - 1, max(1, self.class_count)), self._nothing()))
        return self._shape(self._run(rows, None, None)[0])

    def predict_one(self, features: dict[str, Any]) -> Any:
        """The mixture's prediction for one example given as a dict; features never seen count as absent."""
        rows = self.intake.row(features, grow=False)
        if not self.arrays:
            return _one(self._shape(np.full((1, max(1, self.class_count)), self._nothing())))
        return _one(self._shape(self._run(rows, None, None)[0]))

    def merge(self, other: Any) -> Any:
        """Refused: a mixture's members depend on the order of the stream."""
        raise UsageError(
            "mixtures cannot be merged or averaged: their weights depend on the order of one stream; "
            "learn both streams in one model, or name a geometry and a rate",
            where="geometry",
        )

    average = merge

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
        a = self.arrays
        learning = y is not None
        target = np.zeros(n) if y is None else y
        weight = np.ones(n) if c is None else c
        size = self.intake.width + 1
        head = (rows.values, rows.indices, rows.starts, rows.dense, target, weight, self.centred, learning, size)
        if self.task == "regression":
            out = np.zeros(n)
            learned = np.zeros(n)
            numbers.regress(
                *head, self.filters, self.steps, a["totals"], a["columns"], a["w"], a["P"], a["forget"], a["ridge"],
                a["ledger"], a["table"], a["sums"], a["rates"], a["losses"], a["shares"], a["recent"],
                a["tops"], out, learned,
            )  # fmt: skip
            return out[:, None], learned
        out = np.zeros((n, self.class_count))
        labels.classify(
            *head, self.class_count, self.filters, self.steps, a["totals"], a["columns"], a["frequencies"],
            a["transitions"], a["w"], a["P"], a["forget"], a["ridge"], a["table"], a["sums"], a["scales"], a["rates"],
            a["losses"], a["shares"], a["tops"], a["trust"], out,
        )  # fmt: skip
        return out, target

    # -- room ---------------------------------------------------------------------------------------------------

    def _narrow(self, width: int) -> bool:
        return self._own * (width + 1) ** 2 <= LARGEST_FILTER

    def _prepare(self, sparse: bool) -> None:
        """Make room for the columns known by now; beyond the filters' limit, go over to gradient members."""
        width = self.intake.width
        if self.arrays and width == self.fitted_width:
            return
        if not self.arrays:
            self._begin(width, sparse)
        elif self.filters and not self._narrow(width):
            self._go_wide(width)
        elif width > self.arrays["columns"].shape[1]:
            self._grow(max(width, min(2 * self.arrays["columns"].shape[1], width + 4096)))
        self.fitted_width = width
        if width > LARGEST:
            self.hindsight = None
        if self.hindsight is not None:
            self.hindsight.widen(width)
        if self.filters:
            forget, _, memory = np.array(REGRESSION_FILTERS if self.task == "regression" else CLASS_FILTERS).T
            self.arrays["forget"][:] = np.maximum(forget, 1.0 - 1.0 / np.maximum(memory * width, 1.0))

    def _begin(self, width: int, sparse: bool) -> None:
        regression = self.task == "regression"
        narrow = self._narrow(width)
        pairs = np.array(REGRESSION_FILTERS if regression else CLASS_FILTERS)
        rates = np.array(REGRESSION_RATES if regression else CLASS_RATES)
        self.filters = len(pairs) if narrow else 0
        # Exponentiated gradient touches every weight at every row, so only filters' company affords it.
        self.steps = (0 if narrow else len(rates)) if regression else len(rates) if narrow else len(rates) - 1
        self.centred = narrow or not sparse
        own, F = self._own, self.filters * self._own
        members = 2 + self.filters + self.steps
        self.arrays = {
            "totals": np.zeros(numbers.TOTALS if regression else labels.TOTALS),
            "columns": np.zeros((8, width)),
            "w": np.zeros((F, width + 1)),
            "P": np.zeros((F, width + 1, width + 1)),
            "forget": pairs[:, 0].copy(),
            "ridge": pairs[:, 1].copy(),
            "ledger": np.zeros((self.filters, 2)),
            "table": np.zeros((self.steps * own, width + 1)),
            "sums": np.zeros((self.steps * own, width + 1)),
            "scales": np.zeros(self.steps * own),
            "rates": rates,
            "losses": np.zeros(members),
            "shares": np.full(members, 1.0 / members),
            "recent": np.zeros(members + 1),
            "tops": np.zeros(3),
        }
        self.arrays["P"][:, 0, 0] = 1.0 / INTERCEPT_RIDGE
        if not regression:
            self.arrays |= {
                "frequencies": np.zeros(self.class_count),
                "transitions": np.zeros((self.class_count, self.class_count)),
                "trust": np.full(members, 1.0 / members),
            }

    def _grow(self, width: int) -> None:
        for name in _GROWING:
            old = self.arrays[name]
            shape = tuple(n if axis == 0 else width + (name != "columns") for axis, n in enumerate(old.shape))
            new = np.zeros(shape)
            new[tuple(slice(0, n) for n in old.shape)] = old
            self.arrays[name] = new

    def _go_wide(self, width: int) -> None:
        """From filters to gradient members, which start at the best filter's weights.

        A new phase of the mixture: losses so far are settled (the best member's, and the gap of that phase, go into
        the bound) and every member starts level.
        """
        old, own = self.arrays, self._own
        best = int(np.argmin(old["losses"][2 : 2 + self.filters]))
        had = self.fitted_width
        w = old["w"][best * own : (best + 1) * own, : had + 1]
        shift, mean, squares, nonzero = (old["columns"][row, :had] for row in (0, 1, 2, 6))
        totals = old["totals"]
        settled = float(old["losses"].min())
        self._begin(width, sparse=True)
        new = self.arrays
        self.phase_loss += settled
        if self.task == "regression":
            self.phase_gap += float(totals[numbers.GAP_STATIC]) + float(totals[numbers.GAP_TOP])
        else:
            self.phase_logs += math.log(len(old["losses"])) + math.log(3.0)
        new["totals"] = totals
        raw = squares + totals[1] * (mean + shift) ** 2
        new["columns"][1, :had] = nonzero
        new["columns"][2, :had] = raw
        scale = np.sqrt(raw / np.maximum(nonzero, 1e-300))
        start = np.zeros((own, width + 1))
        start[:, 1 : had + 1] = w[:, 1:] * scale
        start[:, 0] = w[:, 0] - w[:, 1:] @ shift
        if self.task == "regression":
            start[:, 0] += totals[numbers.ORIGIN] - totals[numbers.MEAN]
        else:
            new["frequencies"], new["transitions"] = old["frequencies"], old["transitions"]
        new["table"][:] = np.tile(start, (self.steps, 1))

    # -- what it knows ------------------------------------------------------------------------------------------

    def _remember(self, rows: Any, y: np.ndarray, learned: np.ndarray, c: np.ndarray) -> None:
        """Count rows in the moments as the filters saw them: differences from the shift, 0 before a column varied."""
        kept = c > 0.0
        width = self.intake.width
        if not self.keeps_moments or width > LARGEST or not kept.any():
            return
        if self.hindsight is None:
            if self.examples > int(kept.sum()):
                return
            self.hindsight = Hindsight(self.arrays["columns"][0, :width], self.arrays["totals"][numbers.ORIGIN])
        dense = rows.matrix(width)[kept]
        dense -= self.hindsight.shift
        if self.filters:
            born = self.arrays["columns"][7, :width]
            number = self.examples - len(dense) + 1 + np.arange(len(dense))
            dense[(born == 0.0) | (number[:, None] < born)] = 0.0
        self.hindsight.add(dense, y[kept], learned[kept], c[kept])

    def member_coefficients(self) -> np.ndarray:
        """(members, scores, 1 + width): intercept and coefficients of every member, on the columns as given."""
        a, own, width = self.arrays, self._own, self.intake.width
        count = len(a["losses"])
        out = np.zeros((count, own, width + 1))
        shift = a["columns"][0, :width]
        totals = a["totals"]
        regression = self.task == "regression"
        if regression:
            out[0, 0, 0], out[1, 0, 0] = totals[numbers.MEAN], totals[numbers.LAST]
        for m in range(self.filters):
            w = a["w"][m * own : (m + 1) * own, : width + 1]
            out[2 + m] = w
            out[2 + m, :, 0] += (totals[numbers.ORIGIN] if regression else 0.0) - w[:, 1:] @ shift
        if self.steps:
            centre, scale = self._scales(width)
            for m in range(self.steps):
                w = a["table"][m * own : (m + 1) * own, : width + 1]
                at = 2 + self.filters + m
                out[at, :, 1:] = w[:, 1:] * scale
                out[at, :, 0] = w[:, 0] - out[at, :, 1:] @ centre + (totals[numbers.MEAN] if regression else 0.0)
        return out

    def _scales(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        shift, mean, squares = (self.arrays["columns"][row, :width] for row in (0, 1, 2))
        total = self.arrays["totals"][1]
        weight = np.full(width, total) if self.centred else mean
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(weight / squares)
        scale[~np.isfinite(scale)] = 0.0
        return (shift + mean if self.centred else np.zeros(width)), scale

    @property
    def coef(self) -> np.ndarray:
        """The weighted mean of the members' coefficients: (width,), or (K, width) for several classes."""
        return self._mean_coefficients()[:, 1:].squeeze(axis=0) if self._own == 1 else self._mean_coefficients()[:, 1:]

    @property
    def intercept(self) -> Any:
        """The weighted mean of the members' intercepts."""
        mean = self._mean_coefficients()[:, 0]
        return float(mean[0]) if self._own == 1 else mean

    def _mean_coefficients(self) -> np.ndarray:
        if not self.arrays:
            return np.zeros((self._own, self.intake.width + 1))
        return np.tensordot(self.weights, self.member_coefficients(), axes=1)

    def certificate(self) -> RegretCertificate:
        """Loss suffered, the comparator's loss, the regret and its proven bound, now."""
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
        record = {
            "examples": self.examples,
            "weight": weight,
            "loss": loss,
            "average_loss": loss / weight,
            "since_last": (loss - before["loss"]) / (weight - before["weight"]),
            "label": float(t[place.LAST_LABEL]),
            "prediction": float(t[place.LAST_PREDICTION]),
            "comparator_loss": now.comparator_loss,
            "regret": now.regret,
            "bound": now.bound,
        }
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
        except (KeyError, TypeError) as error:
            raise ModelError(f"the mixture's state lacks {error}; use an intact copy", where="model file") from None
        return made


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _one(out: np.ndarray) -> Any:
    return out[0] if out.ndim == 2 else float(out[0])


def _rate(gap: float, count: int) -> float:
    return math.log(count) / gap if gap > 0.0 else math.inf


def _posterior(losses: np.ndarray, eta: float) -> np.ndarray:
    gap = losses - losses.min()
    raw = (gap == 0.0).astype(float) if eta == math.inf else np.exp(-eta * gap)
    return raw / raw.sum()
