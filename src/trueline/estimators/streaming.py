"""What the online estimators share: the door for arrays and dicts, orders and epochs, progress, certificates."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..engines import engine_of
from ..errors import DataError, UsageError, nearest
from ..objective.losses import resolve_loss
from ..objective.penalties import resolve_penalty
from ..online.geometry_names import resolve_geometry
from ..online.inputs import Overflow, refuse_bad_rows, weights
from ..online.model import OnlineModel
from ..online.rates import rate as rate_of
from .checking import check_weights, validate_data
from .loading import Saved
from .parameters import unknown_of_one
from .sources import check_source_options, paired

DRAWN = ("uniform", "shuffled")
ORDERS = ("in_order", "cyclic", *DRAWN)
LONG = 1e6  # entries from which a fit on a terminal is learned in pieces, so that a bar can be shown


@contextlib.contextmanager
def rows_counted_from(start: int) -> Iterator[None]:
    """Refusals of a piece of the rows name the row as the caller counts it."""
    try:
        yield
    except DataError as refused:
        words = re.sub(r"\brow (\d+)", lambda found: f"row {int(found[1]) + start}", str(refused))
        raise type(refused)(words, where=refused.where) from None


@contextlib.contextmanager
def unchanged_if_refused(estimator: Any) -> Iterator[None]:
    """A call that is refused leaves the estimator as it was, but for a rate that overflows: that keeps the rows before."""
    before = dict(estimator.__dict__)
    try:
        yield
    except Overflow:
        raise
    except Exception:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def checked_weights(given: Any, X: Any) -> np.ndarray | None:
    """Importance weights as scikit-learn takes them; where it refuses one, the row is named."""
    if given is None:
        return None
    try:
        return check_weights(given, X)  # type: ignore[no-any-return]
    except ValueError:
        weights(given, X.shape[0])
        raise


def one_weight(weight: float, w: float) -> float:
    """The weight of an example that River's name for it gives."""
    if weight != 1.0:
        raise UsageError("w is River's name for weight; give one of them", where="w")
    return w


def _between(value: Any, low: float, high: float) -> bool:
    return isinstance(value, Real) and low < float(value) < high


def _integral(value: Any) -> bool:
    return hasattr(value, "__index__") or (isinstance(value, float) and value.is_integer())


def orders_of(drawn: tuple[str, int] | None, n: int, epochs: int) -> Iterator[np.ndarray | None]:
    """The rows of each epoch by their numbers; None where they come as they are."""
    rng = None if drawn is None else np.random.RandomState(drawn[1])
    for _ in range(epochs):
        if rng is None:
            yield None
        else:
            yield rng.permutation(n) if drawn and drawn[0] == "shuffled" else rng.randint(0, n, size=n)


class Streaming(Saved, BaseEstimator):
    """Base of the online estimators; a subclass says how to make the record, and maps its targets to numbers."""

    record_: Any

    def _make(self) -> Any:
        raise NotImplementedError

    def _code(self, y: Any) -> np.ndarray:
        return np.asarray(y, dtype=np.float64)

    # Blocks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **source: Any) -> Any:
        """Learn the rows from the start, in the chosen order, as many times as ``epochs`` says.

        Of a Dask or Spark table (``target=`` its column; ``features``, ``weights``, ``where``, ``missing`` as for
        tl.scan) every partition trains a learner, and the mean of them is kept, as with ``average=True``.
        """
        engine = engine_of(X)
        if engine is not None:
            return self._fit_there(engine, X, y, sample_weight, source)
        self._refuse_source(source)
        with unchanged_if_refused(self):
            self._fit_here(X, y, sample_weight)
        return self

    def _refuse_source(self, source: dict[str, Any]) -> None:
        """Options go with a Dask or Spark table only: rows here are arrays, or dicts one at a time."""
        check_source_options(self, {name: value for name, value in source.items() if name != "target"})
        if source:
            name = next(iter(source))
            raise UsageError(
                f"{type(self).__name__} learns arrays X and y, and dicts by learn_one; {name} goes with a Dask or Spark "
                "table (the command trueline stream reads files)",
                where=name,
            )

    def _fit_here(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._arrays(X, y, reset=True)
        weights = checked_weights(sample_weight, X)
        self._prepare(y)
        codes = self._code(y)
        self._start(X.shape[1])
        epochs = self._whole("epochs", getattr(self, "epochs", 1))
        self.record_.drawn = self._drawn()
        for k, order in enumerate(orders_of(self.record_.drawn, len(codes), epochs)):
            title = type(self).__name__ + (f", epoch {k + 1} of {epochs}" if epochs > 1 else "")
            self._learn(X, codes, weights, order, title)
        if isinstance(self.record_, OnlineModel):
            self.record_.epochs = epochs
        if hasattr(self.record_, "look_back") and getattr(self, "order", "in_order") != "uniform":
            self.record_.look_back(X, codes, weights, epochs)

    def _fit_there(self, engine: Any, X: Any, y: Any, sample_weight: Any, source: dict[str, Any]) -> Any:
        """Train where a table of another engine lives."""
        y, target, options = paired(self, X, y, source.pop("target", None), source, sample_weight)
        record, classes, names = engine.fit_online(self, X, target=target, **options)
        self._adopt(record)
        if classes is not None:
            self.classes_ = classes
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Go on learning with these rows, in order."""
        with unchanged_if_refused(self):
            first = not hasattr(self, "record_")
            X, y = self._arrays(X, y, reset=first)
            weights = checked_weights(sample_weight, X)
            if first:
                self._prepare(y)
                self._start(X.shape[1])
            self._learn_block(X, self._code(y), weights)
        return self

    def _learn(self, X: Any, y: np.ndarray, weights: Any, order: np.ndarray | None, title: str) -> None:
        extra = {} if order is None else {"order": order}
        n = len(y)
        if X.shape[0] * X.shape[1] < LONG or not sys.stderr.isatty():
            self._learn_block(X, y, weights, **extra)
            return
        from ..report.bar import Bar

        with Bar(title, n) as bar:
            for start in range(0, n, max(1, n // 100)):
                stop = min(n, start + max(1, n // 100))
                if order is None:
                    part = None if weights is None else weights[start:stop]
                    with rows_counted_from(start):
                        self._learn_block(X[start:stop], y[start:stop], part)
                else:
                    self._learn_block(X, y, weights, order=order[start:stop])
                lines = self.record_.progress
                bar.tell(stop, lines[-1]["average_loss"] if lines else None)

    def _learn_block(self, X: Any, y: np.ndarray, weights: Any, order: np.ndarray | None = None) -> None:
        if self.record_.kind == "mixture":
            refuse_bad_rows(X, self.record_.names)
        if order is None:
            self.record_.learn(X, y, weights)
        elif self.record_.kind == "mixture":
            self.record_.learn(X[order], y[order], None if weights is None else weights[order])
        else:
            self.record_.learn(X, y, weights, order=order)

    def _drawn(self) -> tuple[str, int] | None:
        """How the order of rows is drawn, and the seed, which the record keeps: a replay needs both."""
        order, seed = getattr(self, "order", "in_order"), getattr(self, "random_state", None)
        if order not in ORDERS:
            raise UsageError(f"there is no order named {order!r}{nearest(str(order), ORDERS)}", where="order")
        if order not in DRAWN:
            return None
        drawn = seed if isinstance(seed, Integral) else check_random_state(seed).randint(2**31 - 1)
        return order, int(drawn)

    def _arrays(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        """X is not searched for NaN here: the engine meets it for nothing."""
        return validate_data(  # type: ignore[no-any-return]
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=False, reset=reset,
            **self._target_rules(),
        )  # fmt: skip

    def _target_rules(self) -> dict[str, Any]:
        return {"y_numeric": True}

    def _prepare(self, y: np.ndarray) -> None:
        """Look at the first targets."""

    def _start(self, width: int) -> None:
        names = getattr(self, "feature_names_in_", None)
        record = self._make()
        known = None if names is None else [str(name) for name in names]
        if hasattr(record, "intake"):
            numbered = known or ([f"x{j}" for j in range(width)] if width <= 10_000 else None)
            record.intake = type(record.intake)(numbered, width)
        elif isinstance(record, OnlineModel):
            record._name(width if known is None else known)
        else:
            for member in getattr(record, "members", [record]):
                member._name(known or [f"x{j}" for j in range(width)])
        self.record_ = record

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "record_")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=False, reset=False
        )
        if self.record_.kind == "mixture":
            refuse_bad_rows(X, self.record_.names)
        return X

    # One example

    def learn_one(
        self, x: dict[str, float], y: Any, weight: float = 1.0, *, w: float | None = None, **unknown: Any
    ) -> Any:
        """Learn one example of named features, which may appear and vanish; returns the estimator.

        ``w`` is River's name for ``weight``.
        """
        if unknown:
            raise unknown_of_one(self, "learn_one", unknown)
        if w is not None:
            weight = one_weight(weight, w)
        try:
            record = self.record_
        except AttributeError:
            record = self._first_one(y)
        record.learn_one(x, self._settled(y) if "_only_ones" in self.__dict__ else self._code_one(y), weight)
        return self

    def _first_one(self, y: Any) -> Any:
        self._check_parameters()
        self._prepare_one(y)
        self.record_ = self._make()
        found = getattr(self, "classes_", None)
        if found is not None and self.__dict__.get("classes") is None and found.dtype.kind == "i" and y == 1:
            self._only_ones = True
        return self.record_

    def _settled(self, y: Any) -> Any:
        """A label while all so far were 1: the first other one tells whether classes are 0 and 1 or −1 and 1."""
        if y != 1:
            del self._only_ones
        if y == -1:
            self.classes_ = np.array([-1, 1])
            for record in (self.record_, *getattr(self.record_, "members", ())):
                if getattr(record, "classes", None) is not None:
                    record.classes = type(record.classes)((-1, 1))
        return self._code_one(y)

    def _prepare_one(self, y: Any) -> None:
        """Look at the first target of a stream of dicts."""

    def _code_one(self, y: Any) -> Any:
        return y

    # What was learned

    @property
    def certificate_(self) -> Any:
        """What is proven: loss suffered, the best fixed weights' loss, regret, bound, assumptions, advice."""
        return self._fitted().certificate()

    @property
    def progress_(self) -> list[dict[str, Any]]:
        """Records at doubling counts."""
        return self._fitted().progress

    @property
    def coef_(self) -> np.ndarray:
        return self._fitted().coef

    @property
    def intercept_(self) -> Any:
        return self._fitted().intercept

    def _fitted(self) -> Any:
        record = self.__dict__.get("record_")
        if record is None:
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return record

    def progress_table(self) -> str:
        """The records at doubling counts as a table for people."""
        from ..report.regret import progress_table

        return progress_table(self.progress_)

    def regret_plot(self, ax: Any = None) -> Any:
        """Draw loss, best fixed loss and bound against examples; the matplotlib axes."""
        from ..report.regret import regret_plot

        return regret_plot(self.progress_, self.certificate_, ax)

    # Saving

    def _record(self) -> Any:
        return self._fitted()

    def _adopt(self, record: Any) -> None:
        self.record_ = record
        names = list(record.names or ())
        width = len(names) or int(getattr(record, "width", 0))
        self.n_features_in_ = width
        if names and names != [f"x{j}" for j in range(width)]:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _aside(self) -> dict[str, Any]:
        told = {"only_ones": True} if "_only_ones" in self.__dict__ else {}
        return told | {"drawn": drawn} if (drawn := getattr(self._fitted(), "drawn", None)) else told

    def _recall(self, meta: dict[str, Any]) -> None:
        if meta.get("only_ones"):
            self._only_ones = True

    # Settings

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not _integral(value) or value < 1:
            raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}", where=name)
        return int(value)

    def _penalty(self, penalty: Any, alpha: float, l1_ratio: float) -> tuple[float, float]:
        """(l1, l2) strengths of a penalty: lazily applied penalties are sums of these two."""
        if penalty is None or penalty == "none":
            return 0.0, 0.0
        fields = {"l1": {"alpha": alpha}, "l2": {"alpha": alpha}, "elastic_net": {"alpha": alpha, "l1_ratio": l1_ratio}}
        made = resolve_penalty(penalty, **fields.get(penalty, {}) if isinstance(penalty, str) else {})
        name = type(made).__name__
        if name == "Nothing":
            return 0.0, 0.0
        if name not in ("L1", "L2", "ElasticNet"):
            raise UsageError(
                f"online learners apply a penalty lazily, which {name} does not allow; use none, l1, l2 or elastic_net",
                where="penalty",
            )
        ratio = {"L1": 1.0, "L2": 0.0}.get(name, getattr(made, "l1_ratio", 0.0))
        return made.alpha * ratio, made.alpha * (1.0 - ratio)

    def _online(self, loss: Any, geometry: Any, rate: Any, **settings: Any) -> Any:
        """The record of a named geometry: one rate, or a ladder of them."""
        geometry = resolve_geometry(geometry, **settings.pop("fields", {}))
        schedule = settings.pop("schedule", "constant")
        B, confidence = settings.get("loss_range"), settings.get("confidence", 0.95)
        if not (B is None or _between(B, 0.0, np.inf)):
            raise UsageError(
                f"loss_range must be None or the largest loss that can occur, not {B!r}", where="loss_range"
            )
        if not _between(confidence, 0.0, 1.0):
            raise UsageError(f"confidence must lie between 0 and 1, not {confidence!r}", where="confidence")
        loss = resolve_loss(loss)
        if isinstance(rate, str) and rate == "auto":
            from ..online.ladder import RateMixture

            for key in ("loss_range", "confidence"):
                settings.pop(key, None)
            power = rate_of(1.0, schedule).power
            return RateMixture(loss, geometry, schedule_power=power, **settings)
        return OnlineModel(loss, geometry, rate_of(rate, schedule), **settings)
