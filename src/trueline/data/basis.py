"""Functions of one column that a linear model can be linear in.

Each is a frozen record: a column's name, its options, and constants that ``fix`` takes once from the first rows (or
from a stated range ``low``, ``high``). From then on ``values`` depends on the row alone, so that blocks, partitions
and predictions agree; only lags look back, by as many rows as ``memory`` says.

Polynomial x^j (orthogonal inside, exact on the way back), Gaussian exp(−(x − μ_j)²/(2σ²)), sigmoid
1/(1 + exp(−s(x − μ_j))), log(x + c), B-splines, lags, indicator levels, and any callable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..errors import DataError, ModelError, UsageError
from .polynomial import Orthogonal
from .schema_file import holds_finite_numbers


@dataclasses.dataclass(frozen=True)
class Function:
    """What every function of a column has; ``kind`` is its name in formulas."""

    column: str
    kind: ClassVar[str] = ""
    memory: ClassVar[int] = 0
    unnamed: ClassVar[tuple[str, ...]] = ("centres", "knots")  # constants, which ``fix`` takes from the rows

    @property
    def fixed(self) -> bool:
        return True

    def fix(self, x: np.ndarray) -> Function:
        return self

    @property
    def label(self) -> str:
        """Its name in terms, as long as no other function of the formula has the same."""
        return f"{self.kind}({self.column})"

    @property
    def full_label(self) -> str:
        """The name that tells two functions of one kind and column apart: with its options."""
        options = [
            f"{field.name}={value!r}"
            for field in dataclasses.fields(self)
            if field.name not in ("column", *self.unnamed) and (value := getattr(self, field.name)) not in (None, ())
        ]
        return f"{self.kind}({', '.join([self.column, *options])})"

    def names(self, label: str | None = None) -> tuple[str, ...]:
        """The names of its columns, under its own label or another."""
        return (label or self.label,)

    def values(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        made = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"kind": self.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in made.items()}


@dataclasses.dataclass(frozen=True)
class Identity(Function):
    """The column itself; of a category, its levels."""

    kind = "column"

    @property
    def label(self) -> str:
        return self.column

    def values(self, x: np.ndarray) -> np.ndarray:
        return x[:, None]


@dataclasses.dataclass(frozen=True)
class Category(Identity):
    """The column as a category, even where its values are numbers."""

    kind = "C"


@dataclasses.dataclass(frozen=True)
class Poly(Function):
    """x, x², …, x^degree as orthogonal polynomials."""

    degree: int = 2
    low: float | None = None
    high: float | None = None
    orthogonal: Orthogonal | None = None
    kind = "poly"
    unnamed = ("orthogonal", "degree")  # a larger degree has the terms of a smaller one

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", whole("degree", self.degree, 1, 50))
        if isinstance(self.orthogonal, dict):
            object.__setattr__(self, "orthogonal", Orthogonal.from_dict(self.orthogonal))

    @property
    def fixed(self) -> bool:
        return self.orthogonal is not None

    def fix(self, x: np.ndarray) -> Poly:
        if self.low is not None or self.high is not None:
            low, high = _range(self, x)
            x = low + (high - low) * (0.5 - 0.5 * np.cos(np.pi * (np.arange(256) + 0.5) / 256))
        return dataclasses.replace(self, orthogonal=Orthogonal.on(x, self.degree))

    def names(self, label: str | None = None) -> tuple[str, ...]:
        return tuple(f"{label or self.label}[{k}]" for k in range(1, self.degree + 1))

    def powers(self) -> tuple[str, ...]:
        """The names of the raw powers."""
        return tuple(self.column if k == 1 else f"{self.column}^{k}" for k in range(1, self.degree + 1))

    def values(self, x: np.ndarray) -> np.ndarray:
        assert self.orthogonal is not None
        return self.orthogonal.values(x)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"orthogonal": None if self.orthogonal is None else self.orthogonal.to_dict()}


@dataclasses.dataclass(frozen=True)
class Bumps(Function):
    """Functions around evenly spaced centres over a range."""

    count: int = 10
    low: float | None = None
    high: float | None = None
    centres: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", tuple(self.centres))
        # Stated centres say how many there are.
        object.__setattr__(self, "count", whole("count", len(self.centres) or self.count, 1, 10_000))

    @property
    def fixed(self) -> bool:
        return bool(self.centres)

    def fix(self, x: np.ndarray) -> Bumps:
        low, high = _range(self, x)
        places = np.linspace(low, high, self.count) if self.count > 1 else np.array([(low + high) / 2])
        return dataclasses.replace(self, centres=tuple(float(place) for place in places))

    @property
    def spacing(self) -> float:
        if len(self.centres) > 1:
            return (self.centres[-1] - self.centres[0]) / (len(self.centres) - 1)
        return abs(self.centres[0]) or 1.0

    def names(self, label: str | None = None) -> tuple[str, ...]:
        return tuple(f"{label or self.label}[{k}]" for k in range(1, self.count + 1))


@dataclasses.dataclass(frozen=True)
class Gaussian(Bumps):
    """exp(−(x − μ_j)²/(2σ²)); σ is the spacing of the centres unless ``width`` says otherwise."""

    width: float | None = None
    kind = "gaussian"

    def values(self, x: np.ndarray) -> np.ndarray:
        sigma = self.width or self.spacing
        return np.exp(-0.5 * ((x[:, None] - np.array(self.centres)) / sigma) ** 2)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Bumps):
    """1/(1 + exp(−s(x − μ_j))); s is 4 over the spacing unless ``slope`` says otherwise."""

    slope: float | None = None
    kind = "sigmoid"

    def values(self, x: np.ndarray) -> np.ndarray:
        s = self.slope or 4.0 / self.spacing
        return 0.5 * (1.0 + np.tanh(0.5 * s * (x[:, None] - np.array(self.centres))))


@dataclasses.dataclass(frozen=True)
class Spline(Function):
    """B-splines of a degree, ``count`` columns; interior knots at quantiles of the first rows.

    The first of the count + 1 splines is left out: together they sum to 1, which the intercept already says. Outside
    the range the value at its end stands.
    """

    count: int = 6
    degree: int = 3
    low: float | None = None
    high: float | None = None
    knots: tuple[float, ...] = ()
    kind = "spline"

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", whole("degree", self.degree, 0, 9))
        object.__setattr__(self, "count", whole("count", self.count, max(1, self.degree), 10_000))
        object.__setattr__(self, "knots", tuple(self.knots))

    @property
    def fixed(self) -> bool:
        return bool(self.knots)

    def fix(self, x: np.ndarray) -> Spline:
        low, high = _range(self, x)
        inner = self.count - self.degree
        share = np.linspace(0, 1, inner + 2)[1:-1]
        told = self.low is not None or self.high is not None
        places = low + (high - low) * share if told else np.quantile(x, share)
        distinct = np.unique(places)
        if len(distinct) < inner or (inner and not low < distinct[0] <= distinct[-1] < high):
            places = low + (high - low) * share
        ends = self.degree + 1
        return dataclasses.replace(self, knots=tuple(map(float, [low] * ends + list(places) + [high] * ends)))

    def names(self, label: str | None = None) -> tuple[str, ...]:
        return tuple(f"{label or self.label}[{k}]" for k in range(1, self.count + 1))

    def values(self, x: np.ndarray) -> np.ndarray:
        t = np.array(self.knots)
        d = self.degree
        x = np.clip(x, t[0], t[-1])
        last = len(t) - d - 2
        span = np.clip(np.searchsorted(t, x, side="right") - 1, d, last)
        # Cox–de Boor: only degree + 1 splines are not zero at x.
        near = np.zeros((len(x), d + 1))
        near[:, 0] = 1.0
        for r in range(1, d + 1):
            saved = np.zeros(len(x))
            for k in range(r):
                right, left = t[span + k + 1], t[span + k + 1 - r]
                share = near[:, k] / (right - left)
                near[:, k] = saved + (right - x) * share
                saved = (x - left) * share
            near[:, r] = saved
        out = np.zeros((len(x), last + 1))
        np.put_along_axis(out, (span - d)[:, None] + np.arange(d + 1), near, axis=1)
        return out[:, 1:]


@dataclasses.dataclass(frozen=True)
class Lag(Function):
    """The value of ``steps`` rows before, in the order of the rows."""

    steps: int = 1
    kind = "lag"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, 1, 100_000))

    @property
    def memory(self) -> int:  # type: ignore[override]
        return self.steps

    @property
    def label(self) -> str:
        return f"lag({self.column}, {self.steps})"

    def values(self, x: np.ndarray) -> np.ndarray:
        return np.r_[np.full(min(self.steps, len(x)), np.nan), x[: max(0, len(x) - self.steps)]][:, None]


SIMPLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs,
    "square": np.square, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Log(Function):
    """ln(x + shift)."""

    shift: float = 0.0
    kind = "log"

    @property
    def label(self) -> str:
        inside = (
            self.column if not self.shift else f"{self.column} {'+' if self.shift > 0 else '-'} {abs(self.shift):g}"
        )
        return f"log({inside})"

    def values(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (np.log1p(x) if self.shift == 1.0 else np.log(x + self.shift))[:, None]


@dataclasses.dataclass(frozen=True)
class Simple(Function):
    """A function of NumPy by its name."""

    function: str = "exp"
    kind = "simple"

    @property
    def label(self) -> str:
        return f"{self.function}({self.column})"

    def values(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return SIMPLE[self.function](x)[:, None]


@dataclasses.dataclass(frozen=True)
class Call(Function):
    """Any callable from a vector to a vector, or to a table with a column for each function."""

    function: Callable[[np.ndarray], Any] = np.asarray
    width: int = 0
    kind = "call"

    @property
    def fixed(self) -> bool:
        return self.width > 0

    def fix(self, x: np.ndarray) -> Call:
        return dataclasses.replace(self, width=self._table(x[:2] if len(x) > 1 else x).shape[1])

    def _table(self, x: np.ndarray) -> np.ndarray:
        made = np.asarray(self.function(x), dtype=float)
        if made.shape[:1] != x.shape or made.ndim > 2:
            raise UsageError(
                f"{self._called} of {len(x)} values of {self.column!r} gives shape {made.shape}; one row per value is "
                "needed",
                where=self.column,
            )
        return made.reshape(len(x), -1)

    @property
    def _called(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    @property
    def label(self) -> str:
        return f"{self._called}({self.column})"

    @property
    def full_label(self) -> str:
        return self.label  # what is inside a callable has no name

    def names(self, label: str | None = None) -> tuple[str, ...]:
        label = label or self.label
        return (label,) if self.width <= 1 else tuple(f"{label}[{k}]" for k in range(1, self.width + 1))

    def values(self, x: np.ndarray) -> np.ndarray:
        return self._table(x)

    def to_dict(self) -> dict[str, Any]:
        raise ModelError(
            f"{self._called} of column {self.column!r} is a callable, which a model file cannot hold; use a function that "
            "formulas name, or a derived column",
            where=self.column,
        )


KINDS: dict[str, type[Function]] = {
    cls.kind: cls for cls in (Identity, Category, Poly, Gaussian, Sigmoid, Spline, Lag, Log, Simple)
}


def from_dict(values: dict[str, Any]) -> Function:
    """The function that ``to_dict`` wrote; a ValueError where its column or its constants cannot be."""
    column = values.get("column")
    if values.get("kind") not in KINDS or not isinstance(column, str) or not holds_finite_numbers(values):
        raise ValueError(f"{values.get('kind')!r} of the column {column!r} is no basis function of finite numbers")
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k != "kind"}
    return KINDS[values["kind"]](**given)


def whole(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds, or a refusal that names it."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.integer))
        or int(value) != value
        or not least <= value <= most
    ):
        raise UsageError(f"{name} must be a whole number from {least} to {most}, not {value!r}", where=name)
    return int(value)


def _range(function: Any, x: np.ndarray) -> tuple[float, float]:
    low = float(x.min()) if function.low is None else float(function.low)
    high = float(x.max()) if function.high is None else float(function.high)
    if not low < high:
        raise DataError(
            f"column {function.column!r} spans no range ({low:g} to {high:g}{', one sample' if len(x) == 1 else ''}), so {function.kind} has no place to "
            "stand; state low= and high=",
            where=function.column,
        )
    return low, high
