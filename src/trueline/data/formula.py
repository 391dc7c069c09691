"""Formulas: ``"y ~ poly(x, 9) + log(z + 1) + x:z"`` as products of functions of columns.

``+`` adds a term, ``-`` takes one away, ``a:b`` is the product, ``a*b`` both and their product, ``.`` every other
column, ``- 1`` or ``+ 0`` no intercept; names that are not words stand in backquotes. Functions: poly(x, degree), gaussian(x,
count), sigmoid(x, count), spline(x, count, degree), lag(x, k), lags(x, k) for 1 … k, log(x), log(x + 1), C(x) for a
category of codes (``.`` may stand for the column here too), and log1p, log2, log10, exp, sqrt, abs, square, sin, cos, tanh.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import UsageError, nearest
from .basis import KINDS, SIMPLE, Category, Function, Identity, Lag, Log, Poly, Simple, from_dict
from .polynomial import raw_coefficients

Known = Sequence[tuple[str, Sequence[str]]]  # the columns, each with the raw terms it has (a category: its levels)
EVERYTHING = "."
_NAMED = ("poly", "gaussian", "sigmoid", "spline", "lag")


@dataclasses.dataclass(frozen=True)
class Formula:
    """Products of functions; ``fix`` takes their constants from the first rows.

    >>> formula = Formula.parse("y ~ poly(x, 2) + x:z")
    >>> formula.target, formula.columns
    ('y', ['x', 'z'])
    >>> Formula.parse("poly(., 2)").resolve(["a", "b"]).columns
    ['a', 'b']
    """

    products: tuple[tuple[Function, ...], ...]
    target: str | None = None
    intercept: bool | None = None  # True or False where the formula says so
    removed: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Formula:
        """The formula in a string."""
        return _Parser(text).formula()

    @property
    def columns(self) -> list[str]:
        """The columns it reads."""
        return list(dict.fromkeys(f.column for product in self.products for f in product if f.column != EVERYTHING))

    @property
    def categories(self) -> list[str]:
        """The columns that it wants as categories."""
        return [f.column for product in self.products for f in product if isinstance(f, Category)]

    def resolve(self, others: Sequence[str]) -> Formula:
        """With ``.`` replaced by the columns not named otherwise."""
        products: list[tuple[Function, ...]] = []
        for product in self.products:
            if any(f.column == EVERYTHING for f in product):
                named = {*self.columns, *self.removed, self.target}
                products += [
                    tuple(dataclasses.replace(f, column=name) if f.column == EVERYTHING else f for f in product)
                    for name in others
                    if name not in named
                ]
            else:
                products.append(product)
        if not products:
            raise UsageError("the formula has no term left", where="formula")
        return dataclasses.replace(self, products=_each_once(products))

    @property
    def fixed(self) -> bool:
        return all(f.fixed for product in self.products for f in product)

    @property
    def memory(self) -> int:
        """How many rows back the lags look."""
        return max((f.memory for product in self.products for f in product), default=0)

    def only_lags(self, column: str) -> bool:
        """Whether a column is used by its past alone, as a target may be."""
        return all(isinstance(f, Lag) for product in self.products for f in product if f.column == column)

    def fix(self, X: np.ndarray, known: Known) -> Formula:
        """With constants from these rows."""
        place = _places(known)

        def fixed(f: Function) -> Function:
            if f.fixed:
                return f
            _one_column(f, place)
            return f.fix(X[:, place[f.column][0]])

        return dataclasses.replace(self, products=tuple(tuple(map(fixed, product)) for product in self.products))

    @functools.cached_property
    def _labels(self) -> list[tuple[Function, str]]:
        """Each function with the label of its terms: its own, or with its options where another has the same.

        Polynomials of one column and range share their first terms, so that the larger degree holds the smaller.
        """
        functions: list[Function] = []
        for f in (f for product in self.products for f in product if not isinstance(f, Identity)):
            if f not in functions:
                functions.append(f)
        labels: list[tuple[Function, str]] = []
        for f in functions:
            rivals = [g for g in functions if g.label == f.label and not _nested(f, g)]
            label = f.full_label if rivals else f.label
            earlier = [g for g, other in labels if other.partition(" #")[0] == label and not _nested(f, g)]
            labels.append((f, f"{label} #{len(earlier) + 1}" if earlier else label))
        return labels

    def names_of(self, f: Function, known: Known | None = None) -> Sequence[str]:
        """The names of a function's columns in this formula; of a column itself its raw terms."""
        if isinstance(f, Identity):
            return (f.column,) if known is None else dict(known)[f.column]
        return f.names(next(label for g, label in self._labels if g == f))

    def terms(self, known: Known) -> tuple[str, ...]:
        """The names of the columns that ``expand`` makes."""
        made: dict[str, tuple[Any, ...]] = {}
        for product in self.products:
            names: list[tuple[tuple[str, ...], tuple[Any, ...]]] = [((), ())]
            for f in product:
                own = [(name, _meaning(f, name, k)) for k, name in enumerate(self.names_of(f, known))]
                names = [((*head, name), (*tail, what)) for head, tail in names for name, what in own]
            for parts, meaning in names:
                term = ":".join(parts)
                if made.setdefault(term, meaning) != meaning:
                    raise UsageError(
                        f"two terms of the formula have the name {term!r}; rename the column, or leave one of them out",
                        where=term,
                    )
        return tuple(made)

    def expand(
        self, X: np.ndarray, known: Known, tail: np.ndarray | None = None, *, hold: bool = False
    ) -> tuple[np.ndarray, tuple[str, ...], np.ndarray | None]:
        """(the design, its terms, the rows to hand to the next call as ``tail``).

        Rows that a lag reaches back for and that no tail holds are missing from the result; with ``hold`` the first
        row stands for them.
        """
        back = self.memory
        rows = X
        if back:
            if tail is None and hold and len(X):
                tail = np.repeat(X[:1], back, axis=0)
            rows = X if tail is None else np.concatenate([tail, X])
        place = _places(known)
        columns: dict[str, np.ndarray] = {}
        for product in self.products:
            self._multiply(product, rows, known, place, columns)
        names = self.terms(known)
        made = np.empty((len(rows), len(names)))
        for k, name in enumerate(names):
            made[:, k] = columns[name]
        if not back:
            return made, names, None
        return np.ascontiguousarray(made[back:]), names, rows[-back:].copy()

    def _multiply(
        self,
        product: tuple[Function, ...],
        rows: np.ndarray,
        known: Known,
        place: dict[str, list[int]],
        columns: dict[str, np.ndarray],
    ) -> None:
        """The columns of one product, by name."""
        parts: list[tuple[str, Any]] = [("", 1.0)]
        for f in product:
            own = rows[:, place[f.column]] if isinstance(f, Identity) else f.values(rows[:, _one_column(f, place)])
            parts = [
                (f"{head}:{name}" if head else name, own[:, k] if not head else values * own[:, k])
                for head, values in parts
                for k, name in enumerate(self.names_of(f, known))
            ]
        for name, values in parts:
            columns.setdefault(name, values)

    def raw(self, terms: Sequence[str], coefficients: Sequence[Any], intercept: Any) -> tuple[float, dict[str, float]]:
        """The model on the raw powers x, x², … in the place of the orthogonal polynomials: exact, rounded once."""
        coefficient = {term: _exact(c) for term, c in zip(terms, coefficients)}
        start = _exact(intercept)
        made: dict[str, Fraction] = {}
        used: set[str] = set()
        alone = [f for f, *others in self.products if not others and isinstance(f, Poly)]
        for f in sorted(alone, key=lambda f: -f.degree):
            names = self.names_of(f)
            if f.orthogonal is None or names[0] not in coefficient or names[0] in used:
                continue
            shift, powers = raw_coefficients(f.orthogonal, [coefficient[name] for name in names])
            start += shift
            used |= set(names)
            for name, value in zip(f.powers(), powers):
                made[name] = made.get(name, Fraction(0)) + value
        for name in (term for term in coefficient if term not in used):
            made[name] = made.get(name, Fraction(0)) + coefficient[name]
        return float(start), {name: float(value) for name, value in made.items()}

    def low_parts(self, X: np.ndarray, known: Known, terms: Sequence[str]) -> np.ndarray:
        """What rounding took from each value of ``expand``: of the polynomials; 0 elsewhere."""
        place, column = _places(known), {term: k for k, term in enumerate(terms)}
        low = np.zeros((len(X), len(terms)))
        for product in self.products:
            f = product[0]
            if len(product) == 1 and isinstance(f, Poly) and f.orthogonal is not None:
                low[:, [column[name] for name in self.names_of(f)]] = f.orthogonal.pairs(X[:, place[f.column][0]])[1]
        return low

    def raw_matrix(self, terms: Sequence[str]) -> tuple[list[str], list[list[Fraction]]]:
        """(raw terms, T): raw coefficients, intercept first, are exactly T times those of (intercept, ``terms``)."""
        names: list[str] = []
        columns: list[dict[str, Fraction]] = [{"": Fraction(1)}]
        by_term = {
            name: (f, k)
            for product in self.products
            for f in product[:1]
            if len(product) == 1 and isinstance(f, Poly) and f.orthogonal is not None
            for k, name in enumerate(self.names_of(f), 1)
        }
        for term in terms:
            if term not in by_term:
                columns.append({term: Fraction(1)})
                names.append(term)
                continue
            f, k = by_term[term]
            assert f.orthogonal is not None
            row = f.orthogonal.powers()[k]
            columns.append(dict(zip(("", *f.powers()), row)))
            names.append(f.powers()[k - 1])
        names = list(dict.fromkeys(names))
        return names, [[column.get(name, Fraction(0)) for column in columns] for name in ("", *names)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "products": [[f.to_dict() for f in product] for product in self.products],
            "target": self.target,
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Formula:
        """The formula that ``to_dict`` wrote."""
        products = tuple(tuple(from_dict(f) for f in product) for product in values["products"])
        return cls(products, values.get("target"), values.get("intercept"))


@dataclasses.dataclass(frozen=True)
class FittedBasis:
    """What ``tl.Basis`` keeps in a file: the formula with its constants, and the columns that it was fitted on."""

    formula: Formula
    names: tuple[str, ...]
    named: bool  # whether the columns had names of their own

    kind: ClassVar[str] = "basis"

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(arrays, metadata) for a model file."""
        return {}, {"formula": self.formula.to_dict(), "names": list(self.names), "named": self.named}

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Any]:
        """No arrays."""
        return {}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> FittedBasis:
        """The record in a model file."""
        return cls(Formula.from_dict(meta["formula"]), tuple(meta["names"]), bool(meta["named"]))


def _each_once(products: Iterable[tuple[Function, ...]]) -> tuple[tuple[Function, ...], ...]:
    """The different products, as first written: x:z and z:x are one term."""
    made: dict[frozenset[tuple[Function, int]], tuple[Function, ...]] = {}
    for product in products:
        made.setdefault(frozenset(Counter(product).items()), product)
    return tuple(made.values())


def _exact(number: Any) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(float(number))


def _places(known: Known) -> dict[str, list[int]]:
    place: dict[str, list[int]] = {}
    k = 0
    for name, terms in known:
        place[name] = list(range(k, k + len(terms)))
        k += len(terms)
    return place


def _nested(f: Function, g: Function) -> bool:
    """Whether the terms of one are the first terms of the other: the same function, or polynomials of one range."""
    if isinstance(f, Poly) and isinstance(g, Poly):
        return (f.column, f.low, f.high) == (g.column, g.low, g.high)
    return f == g


def _meaning(f: Function, name: str, place: int) -> Any:
    """What a name of a column stands for, to tell one term made twice from two that only share a name."""
    if isinstance(f, Identity):
        return name
    return ("poly", f.column, f.low, f.high, place) if isinstance(f, Poly) else (f, place)


def _one_column(f: Function, place: dict[str, list[int]]) -> int:
    if len(place[f.column]) != 1:
        raise UsageError(f"{f.kind}({f.column}) needs a number, and column {f.column!r} is a category", where=f.column)
    return place[f.column][0]


class _Parser:
    """Python's own parser does the work, once ``:`` is ``@`` and odd names are plain ones."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, str] = {}
        left, tilde, right = text.partition("~")
        if not tilde:
            left, right = "", text
        self.intercept: bool | None = None
        self.target = self._left(left.strip())
        plain = re.sub(r"`([^`]*)`", lambda found: self._keep(found.group(1)), right)
        plain = re.sub(r"(?<![\w.])\.(?![\w.])", lambda _: self._keep(EVERYTHING), plain)
        try:
            self.tree: ast.expr = ast.parse(plain.replace(":", "@").strip(), mode="eval").body
        except SyntaxError:
            raise self._refuse("it is not terms joined by +, such as y ~ poly(x, 3) + log(z) + x:z") from None

    def _left(self, text: str) -> str | None:
        """The target: a column, as it is or in backquotes."""
        if len(text) > 1 and text.startswith("`") and text.endswith("`"):
            return text[1:-1]
        if "(" in text or "+" in text:
            raise self._refuse(
                f"its left side is the column to predict, not {text!r}; make a column of it first, as by the SQL "
                "expression log_y=ln(y) in derive, and predict that (a column of this very name stands in backquotes)"
            )
        return text or None

    def _keep(self, name: str) -> str:
        alias = f"__{len(self.names)}"
        self.names[alias] = name
        return alias

    def _refuse(self, why: str) -> UsageError:
        return UsageError(f"formula {self.text!r} is not understood: {why}", where="formula")

    def formula(self) -> Formula:
        added: list[tuple[Function, ...]] = []
        removed: list[str] = []
        self._sum(self.tree, 1, added, removed)
        products = _each_once(
            p for p in added if not (len(p) == 1 and p[0].column in removed and type(p[0]) is Identity)
        )
        if not products:
            raise self._refuse("it names no term")
        return Formula(products, self.target, self.intercept, tuple(removed))

    def _sum(self, node: ast.expr, sign: int, added: list[tuple[Function, ...]], removed: list[str]) -> None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            self._sum(node.left, sign, added, removed)
            self._sum(node.right, sign if isinstance(node.op, ast.Add) else -sign, added, removed)
            return
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            self._sum(node.operand, -sign if isinstance(node.op, ast.USub) else sign, added, removed)
            return
        if isinstance(node, ast.Constant) and node.value in (0, 1) and not isinstance(node.value, bool):
            self.intercept = (node.value == 1) == (sign > 0)  # the last word counts, as in R
            return
        products = self._products(node)
        if sign > 0:
            added += products
        else:
            if any(len(p) > 1 or type(p[0]) is not Identity for p in products):
                raise self._refuse("only plain columns can be taken away")
            removed += [p[0].column for p in products]

    def _products(self, node: ast.expr) -> list[tuple[Function, ...]]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.MatMult, ast.Mult)):
            left, right = self._products(node.left), self._products(node.right)
            joint = [(*a, *b) for a in left for b in right]
            return joint if isinstance(node.op, ast.MatMult) else [*left, *right, *joint]
        if isinstance(node, ast.Name):
            return [(Identity(self._name(node)),)]
        if isinstance(node, ast.Call):
            return [(f,) for f in self._call(node)]
        raise self._refuse(f"{ast.unparse(node).replace('@', ':')!r} is neither a column nor a function of one")

    def _name(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Name):
            raise self._refuse(f"{ast.unparse(node)!r} stands where a column's name is expected")
        return self.names.get(node.id, node.id)

    def _call(self, node: ast.Call) -> list[Function]:
        if not isinstance(node.func, ast.Name) or not node.args:
            raise self._refuse(f"{ast.unparse(node)!r} is not a function of a column")
        name = node.func.id
        if name == "log":
            return [self._log(node)]
        column = self._name(node.args[0])
        given = [self._number(item) for item in node.args[1:]]
        options = {str(item.arg): self._number(item.value) for item in node.keywords}
        if name in SIMPLE and not given and not options:
            return [Simple(column, name)]
        if name == "C":
            return [Category(column)]
        if name == "lags" and len(given) == 1:
            return [Lag(column, k) for k in range(1, Lag(column, given[0]).steps + 1)]
        cls: Any = KINDS.get(name) if name in _NAMED else None
        if cls is None:
            raise self._refuse(f"there is no function {name!r}{nearest(name, [*_NAMED, 'lags', 'log', 'C', *SIMPLE])}")
        try:
            return [cls(column, *given, **options)]
        except TypeError:
            accepted = ", ".join(
                f.name for f in dataclasses.fields(cls) if f.name not in ("orthogonal", "centres", "knots")
            )
            raise self._refuse(f"{name} takes {accepted}") from None

    def _log(self, node: ast.Call) -> Log:
        inside = node.args[0]
        if len(node.args) > 1 or node.keywords:
            raise self._refuse("log takes a column, or a column plus a number")
        if isinstance(inside, ast.BinOp) and isinstance(inside.op, (ast.Add, ast.Sub)):
            shift = self._number(inside.right)
            return Log(self._name(inside.left), shift if isinstance(inside.op, ast.Add) else -shift)
        return Log(self._name(inside))

    def _number(self, node: ast.expr) -> Any:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._refuse(f"{ast.unparse(node)!r} stands where a number is expected")
        return value
