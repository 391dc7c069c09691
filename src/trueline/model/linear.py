"""The fitted linear model as a plain record: coefficients, how rows become numbers, the link, and what is proven.

score = X·coefᵀ + intercept, one column per target or class; the link turns scores into predictions:

  identity   the score                       logistic   P(classes[1]) = 1/(1 + e⁻ˢ)
  softmax    one probability per class       log        eˢ
  sign       classes by the sign of s (two classes) or the largest score

``statistics`` holds what a summary and intervals need: plain numbers, strings and arrays by name.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import from_dict
from ..errors import DataError, ModelError, UsageError
from ..modelfile import Array
from ..onepass.parts import part_declared

LINKS = ("identity", "logistic", "softmax", "log", "sign")


class Interval(NamedTuple):
    """Predictions with the ends of their interval."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class _Later:
    """A field that may be given as a function, which makes its value when it is first looked at."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Any, owner: type | None = None) -> Any:
        if record is None:
            return None  # the default
        value = record.__dict__[self.name]
        if callable(value):
            value = record.__dict__[self.name] = value()
        return value

    def __set__(self, record: Any, value: Any) -> None:
        record.__dict__[self.name] = value


@dataclasses.dataclass
class LinearModel:
    """A linear model that can predict, explain itself and be saved.

    >>> import numpy as np
    >>> model = LinearModel(("a", "b"), np.array([1.0, -1.0]), 0.5)
    >>> model.predict(np.array([[2.0, 1.0]]))
    array([1.5])
    """

    kind = "linear"

    terms: Sequence[str]
    coef: np.ndarray
    intercept: Any = 0.0
    targets: tuple[str, ...] = ("y",)
    schema: Any = None
    link: str = "identity"
    classes: tuple[Any, ...] = ()
    certificate: Any = _Later()  # a Certificate or None
    statistics: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"certificate": self.certificate}

    def assigned(self) -> None:
        """Note that the coefficients are a user's: nothing that was said of the fitted ones holds of them."""
        rank = getattr(self.certificate, "rank", None)
        self.certificate = None
        self.statistics = self.statistics | {"assigned": True} | ({} if rank is None else {"rank": int(rank)})

    def design(self, data: Any) -> np.ndarray:
        """The rows of numbers that the coefficients multiply, from an array or from any table."""
        if isinstance(data, np.ndarray) or hasattr(data, "tocsr"):
            if data.ndim != 2 or data.shape[1] != len(self.terms):
                raise DataError(
                    f"the array has shape {data.shape}; rows of {len(self.terms)} numbers are accepted", where="X"
                )
            return data
        if self.schema is None:
            return self._by_name(data)
        X = np.asarray(self.schema.encode(data).X)
        if self.schema.missing == "drop":
            lacking = int(np.isnan(X).any(axis=1).sum())
            if lacking:
                warnings.warn(
                    f"{lacking:,} of {len(X):,} rows lack a value, and the model was fitted without such rows: their "
                    "prediction is NaN",
                    stacklevel=4,
                )
        return X

    def _by_name(self, data: Any) -> np.ndarray:
        """Columns by name, in any order, from a table, for models fitted without a schema."""
        import polars as pl

        frame = data if isinstance(data, pl.DataFrame) else pl.DataFrame(data)
        missing = [term for term in self.terms if term not in frame.columns]
        if missing:
            raise DataError(
                f"column {missing[0]!r} is missing; the model needs {', '.join(self.terms)}", where=missing[0]
            )
        return frame.select(list(self.terms)).to_numpy().astype(float)

    def score(self, data: Any) -> np.ndarray:
        """X·coefᵀ + intercept."""
        X = self.design(data)
        found = X @ np.asarray(self.coef).T
        return np.asarray(found + self.intercept)

    def predict(self, data: Any, interval: float | None = None, *, of: str = "observation") -> Any:
        """The prediction on the target's scale: values, or labels where there are classes.

        ``interval=0.95`` gives mean, lower and upper: a prediction interval for a new observation, or with
        ``of="mean"`` a confidence interval for the mean.
        """
        if interval is not None:
            return self.interval(data, interval, of)
        scores = self.score(data)
        if self.classes:
            labels = np.asarray(self.classes)[self.choose(scores)]
            lacking = np.isnan(scores if scores.ndim == 1 else scores[:, 0])
            # There is no label for a row that lacks a value.
            return np.where(lacking, None, labels.astype(object)) if lacking.any() else labels
        return np.exp(scores) if self.link == "log" else scores

    def choose(self, scores: np.ndarray) -> np.ndarray:
        """The index of the predicted class."""
        return (scores > 0).astype(int).ravel() if len(self.classes) == 2 else scores.argmax(axis=1)

    def probabilities(self, data: Any) -> np.ndarray:
        """One column per class."""
        scores = self.score(data)
        if self.link == "logistic":
            s = scores.ravel()
            e = np.exp(-np.abs(s))
            upper = np.where(s >= 0, 1 / (1 + e), e / (1 + e))
            return np.column_stack([np.where(s >= 0, e / (1 + e), 1 / (1 + e)), upper])
        if self.link == "softmax":
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)
        raise UsageError(f"a model with the {self.link} link has no probabilities", where="link")

    def interval(self, data: Any, level: float, of: str = "observation") -> Interval:
        """Student's interval around a least-squares prediction."""
        from .closed import inference_of

        if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
            raise UsageError(f"interval must lie between 0 and 1, not {level!r}", where="interval")
        if of not in ("observation", "mean"):
            raise UsageError(f"of must be 'observation' or 'mean', not {of!r}", where="of")
        X = self.design(data)
        mean = self.score(X)
        rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
        made = [inference_of(self, t).half_width(rows, level, of == "observation") for t in range(len(self.targets))]
        half = np.column_stack(made).reshape(mean.shape)
        return Interval(mean, mean - half, mean + half)

    def training_rows(self, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(design, target, weights) of the table that the model was trained on, for the verifier."""
        from .training import fitted_rows, training_rows

        rows = training_rows(self.schema, source, tuple(self.terms))
        return fitted_rows(*rows, self.statistics.get("holdout"))

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays: dict[str, np.ndarray] = {
            "coef": np.asarray(self.coef, dtype=float),
            "intercept": np.asarray(self.intercept, dtype=float),
        }
        plain: dict[str, Any] = {}
        for name, value in self.statistics.items():
            if isinstance(value, np.ndarray):
                arrays[f"statistics.{name}"] = value
            else:
                plain[name] = value
        meta = {
            "terms": list(self.terms),
            "targets": list(self.targets),
            "schema": self.schema.to_dict() if hasattr(self.schema, "to_dict") else self.schema,
            "link": self.link,
            "classes": [item.item() if isinstance(item, np.generic) else item for item in self.classes],
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "statistics": plain,
        }
        return arrays, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """Coefficients, one row a class or target where there are several, and the figures that stand beside them."""
        d, targets, classes = len(meta["terms"]), len(meta["targets"]), len(meta["classes"])
        rows = classes if classes > 2 else targets
        tested = meta["statistics"].get("family") == "least squares"  # which has intervals, from all of these
        one_intercept = np.ndim(arrays.get("intercept", 0.0)) == 0
        made = {
            "coef": Array((d,) if rows == 1 else (rows, d)),
            "intercept": Array(() if one_intercept or rows == 1 else (rows,)),
            "statistics.integer": Array((d + targets,), "uint8", optional="part"),
            "statistics.rss": Array((targets,), optional="part" if tested else "rss"),
            "statistics.covariance": Array(("errors", "errors"), values="any", optional="covariance"),
        }
        made |= part_declared("statistics.part.", d + targets, optional="part")
        free = [name for name in arrays if name.startswith("statistics.") and name not in made]
        return made | {
            name: Array(
                tuple(arrays[name].shape),
                arrays[name].dtype.name if arrays[name].dtype.kind in "fiu" else "float64",
                values="any",
                optional=name,
            )
            for name in free
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> LinearModel:
        from ..onepass.moments import schema_from

        if meta["link"] not in LINKS:
            raise ModelError(f"the model has the link {meta['link']!r}, unknown to this version: upgrade trueline")
        if not all(isinstance(name, str) for name in (*meta["terms"], *meta["targets"])):
            raise ModelError("the terms or targets in the file are not all names; use an intact copy", where="terms")
        stored = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith("statistics.")}
        intercept = arrays["intercept"]
        return cls(
            tuple(meta["terms"]),
            arrays["coef"],
            float(intercept) if intercept.ndim == 0 else intercept,
            tuple(meta["targets"]),
            schema_from(meta["schema"]),
            meta["link"],
            tuple(meta["classes"]),
            None if meta["certificate"] is None else from_dict(meta["certificate"]),
            meta["statistics"] | stored,
        )


class Numbered(Sequence[str]):
    """``x0, x1, …``: the names of columns that came without, made when they are looked at.

    >>> Numbered("x", 3) == ("x0", "x1", "x2"), Numbered("x", 100_000)[-1], "x7" in Numbered("x", 7)
    (True, 'x99999', False)
    """

    def __init__(self, prefix: str, count: int) -> None:
        self.prefix, self.places = prefix, range(count)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(f"{self.prefix}{j}" for j in self.places[place])
        return f"{self.prefix}{self.places[place]}"

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Numbered):
            return (self.prefix, self.places) == (other.prefix, other.places)
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def names(prefix: str, count: int) -> tuple[str, ...]:
    """``y0, y1, …`` for targets that came without names."""
    return tuple(Numbered(prefix, count))


def as_terms(given: Sequence[str] | None, count: int) -> Sequence[str]:
    """Names given, or ``x0, x1, …``."""
    return Numbered("x", count) if given is None else tuple(str(name) for name in given)
