"""The terms of a formula as infix expressions, in the words of SQL, Python or C.

A polynomial's orthogonal columns p_k share t = (x − centre)/scale, so Σ w_k p_k is one polynomial in t: its
coefficients are put together in exact rationals, rounded once, and written by Horner's rule. In t, which is about
−1 … 1 on the rows of the fit, that loses nothing that counts; in x it would. What has no closed expression of one
row's columns (lags, splines) is refused by name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from .escape import python_value, sql_value
from .plan import Input, Plan

if TYPE_CHECKING:
    from ..data.basis import Function


class CannotRun(Exception):
    """What was written cannot be run on this machine."""


def one_score(plan: Plan, to: str) -> None:
    """Several scores a row are those of several classes, or have no name in the language."""
    if plan.outputs > 1 and plan.link != "softmax":
        raise UsageError(
            f"a model with {plan.outputs} scores a row cannot become {to}; use json, python or onnx", where="to"
        )


def number(value: Any) -> str:
    """A float64 in SQL: with an exponent it is a double in every dialect, never a decimal."""
    text = repr(float(value))
    return text if "e" in text or "n" in text else f"{text}e0"


def c_number(value: float) -> str:
    return float(value).hex() if math.isfinite(value) else ("HUGE_VAL" if value > 0 else "-HUGE_VAL")


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a language writes numbers, columns, levels and functions; a function's template has {x} for its argument."""

    number: Callable[[float], str]
    column: Callable[[int, Input], str]
    level: Callable[[int, Input, int], str]
    functions: dict[str, str]


_SAME = ("exp", "sqrt", "sin", "cos", "tanh", "log2", "log10", "log1p")
PYTHON = Dialect(
    lambda value: repr(float(value)),
    lambda at, column: f"x{at}",
    lambda at, column, k: f"x{at}[{python_value(column.levels[k])}]",
    {function: f"math.{function}({{x}})" for function in (*_SAME, "log")}
    | {"abs": "abs({x})", "square": "({x} * {x})", "sigmoid": "(0.5 + 0.5 * math.tanh(0.5 * {x}))"},
)
C = Dialect(
    c_number,
    lambda at, column: f"x{at}",
    lambda at, column, k: f"x{at}[{k}]",
    {function: f"{function}({{x}})" for function in (*_SAME, "log")}
    | {"abs": "fabs({x})", "square": "({x} * {x})", "sigmoid": "(0.5 + 0.5 * tanh(0.5 * {x}))"},
)
_SQL_FUNCTIONS = {function: f"{function}({{x}})" for function in (*_SAME, "abs")} | {
    "log": "ln({x})",  # log is to base 10 in some dialects
    "sigmoid": "(1.0e0 / (1.0e0 + exp(-{x})))",
    "square": "(1.0e0 * {x} * {x})",  # whole numbers could overflow
    # Kahan's log1p: the rounding of 1 + x is divided out again
    "log1p": "CASE WHEN 1.0e0 + {x} = 1.0e0 THEN {x} ELSE ln(1.0e0 + {x}) * ({x} / ((1.0e0 + {x}) - 1.0e0)) END",
}


def sql_dialect(write: Callable[[Any], str], of_row: Callable[[str], str]) -> Dialect:
    """SQL with the way of writing numbers and columns that its target has."""

    def column(at: int, column: Input) -> str:
        cell = of_row(column.name)
        if column.kind == "boolean":
            cell = f"CASE WHEN {cell} = TRUE THEN 1.0e0 WHEN {cell} = FALSE THEN 0.0e0 END"
        return cell

    def level(at: int, column: Input, k: int) -> str:
        cell = of_row(column.name)
        others = f"{cell} IS NOT NULL"
        if column.unseen is None:
            others = f"{cell} IN ({', '.join(map(sql_value, column.levels))})"
        return f"CASE WHEN {cell} = {sql_value(column.levels[k])} THEN 1.0e0 WHEN {others} THEN 0.0e0 END"

    return Dialect(write, column, level, _SQL_FUNCTIONS)


def terms(plan: Plan, piece: int, dialect: Dialect) -> list[str]:
    """w·term for every term of a formula; the polynomial of a column is one of them."""
    from ..data.basis import Identity, Poly

    inputs = {column.name: (at, column) for at, column in enumerate(plan.inputs)}
    weight = dict(zip(plan.terms, plan.coef[piece]))
    written: list[str] = []
    for product in plan.formula.products:
        if len(product) == 1 and isinstance(product[0], Poly):
            own = [weight.pop(name, 0.0) for name in plan.formula.names_of(product[0])]
            if any(own):
                at, column = inputs[product[0].column]
                written.append(_polynomial(product[0], own, dialect.column(at, column), dialect))
            continue
        parts: list[tuple[str, list[str]]] = [("", [])]
        for f in product:
            at, column = inputs[f.column]
            every: Sequence[tuple[str, str]]
            if isinstance(f, Identity) and column.kind == "category":
                every = [(f"{f.column}[{one}]", dialect.level(at, column, k)) for k, one in enumerate(column.levels)]
            else:
                x = dialect.column(at, column)
                every = [(name, _function(f, k, x, dialect)) for k, name in enumerate(plan.formula.names_of(f))]
            parts = [
                (f"{head}:{name}" if head else name, [*made, text]) for head, made in parts for name, text in every
            ]
        written += [
            " * ".join([dialect.number(w), *(f"({text})" if text.startswith("CASE") else text for text in made)])
            for name, made in parts
            if (w := weight.pop(name, 0.0))
        ]
    return written or [dialect.number(0.0)]


def _polynomial(f: Any, weights: Sequence[float], x: str, dialect: Dialect) -> str:
    """Σ w_k p_k by Horner's rule in the scaled variable."""
    rows = dataclasses.replace(f.orthogonal, centre=0.0, scale=1.0).powers()
    shares = [Fraction(0), *(Fraction(float(w)) for w in weights)]
    found = [float(sum((share * row[j] for share, row in zip(shares, rows)), Fraction(0))) for j in range(len(rows))]
    t = f"(({x} - {_bracketed(f.orthogonal.centre, dialect)}) / {dialect.number(f.orthogonal.scale)})"
    while len(found) > 1 and found[-1] == 0.0:
        found.pop()
    text = _bracketed(found[-1], dialect)
    for value in reversed(found[:-1]):
        text = f"({dialect.number(value)} + {t} * {text})"
    return text


def _bracketed(value: float, dialect: Dialect) -> str:
    text = dialect.number(value)
    return f"({text})" if text.startswith("-") else text


def _function(f: Function, k: int, x: str, dialect: Dialect) -> str:
    """Column k of one function of a column."""
    from ..data.basis import Gaussian, Identity, Log, Poly, Sigmoid, Simple

    def call(name: str, argument: str) -> str:
        return dialect.functions[name].format(x=argument)

    if type(f) is Identity:
        return x
    if isinstance(f, Poly):
        return _polynomial(f, np.eye(f.degree)[k].tolist(), x, dialect)
    if isinstance(f, Log):
        if f.shift == 1.0:
            return call("log1p", x)
        return call("log", x if f.shift == 0.0 else f"({x} + {_bracketed(f.shift, dialect)})")
    if isinstance(f, Simple):
        return call(f.function, x)
    if isinstance(f, Gaussian):
        apart = f"(({x} - {_bracketed(f.centres[k], dialect)}) / {dialect.number(f.width or f.spacing)})"
        return call("exp", f"{_bracketed(-0.5, dialect)} * {apart} * {apart}")
    if isinstance(f, Sigmoid):
        steep = _bracketed(f.slope or 4.0 / f.spacing, dialect)
        return call("sigmoid", f"({steep} * ({x} - {_bracketed(f.centres[k], dialect)}))")
    raise UsageError(
        f"the model uses {f.names()[k]!r}, which is no expression of one row's columns; fit without it, or predict with "
        "trueline",
        where=f.names()[k],
    )
