"""A fitted model as one expression over the input columns: what every export target writes down in its language.

prediction = link(Σ_k share_k · clip(intercept_k + Σ_j w_kj·x_j, low_k, high_k)), where a term x_j is a column's number,
the 0/1 of a category's level, or the 0/1 of a missing value. A plain linear model is one piece without ends. Where a
formula makes terms of functions and products of columns, the plan carries the formula and a weight a term.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..errors import UsageError

HIDDEN = "\0"  # the level of a stream's categories that no row has


@dataclasses.dataclass(frozen=True)
class Input:
    """One input column: its weights as a number, or one a level; what stands for a missing value (None: nothing)."""

    name: str
    kind: str
    weights: np.ndarray  # pieces × 1 for numbers, pieces × levels for categories
    levels: tuple[str, ...] = ()
    missing: np.ndarray | None = None  # what a missing value adds to each piece
    unseen: np.ndarray | None = None  # what a level never seen adds; None refuses


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that a target needs."""

    target: str
    inputs: tuple[Input, ...]
    intercepts: np.ndarray
    shares: np.ndarray
    low: float = -math.inf
    high: float = math.inf
    link: str = "identity"
    classes: tuple[Any, ...] = ()
    derive: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    formula: Any = None  # with its terms and their weights (pieces × terms); the inputs then have no weights
    terms: tuple[str, ...] = ()
    coef: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def outputs(self) -> int:
        """Scores per row: several for softmax and several targets, which then are pieces without shares."""
        return len(self.intercepts) if len(self.shares) == 0 else 1

    def scores(self, rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Scores (rows × outputs) and Σ|w_i x_i| of each row: the yardstick of agreement."""
        total = np.tile(self.intercepts, (len(rows), 1)).astype(float)
        size = np.abs(total)
        for at, row in enumerate(rows):
            for column in self.inputs:
                part = contribution(column, row.get(column.name))
                total[at] += part
                size[at] += np.abs(part)
        if len(self.shares):
            total = np.clip(total, self.low, self.high) @ self.shares[:, None]
            size = size @ np.abs(self.shares)[:, None]
        return total, size.max(axis=1)


def contribution(column: Input, value: Any) -> np.ndarray:
    """What one value adds to each piece; NaN where it is refused."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return np.full(len(column.weights), math.nan) if column.missing is None else column.missing
    if column.kind != "category":
        return column.weights[:, 0] * float(value)
    if value in column.levels:
        return column.weights[:, column.levels.index(value)]
    return np.full(len(column.weights), math.nan) if column.unseen is None else column.unseen


def plan_of(model: Any) -> Plan:
    """The plan of a model record, or a refusal that names what has no expression."""
    if getattr(model, "kind", "") == "linear":
        coef, intercept = np.atleast_2d(model.coef), np.atleast_1d(np.asarray(model.intercept, dtype=float))
        several = len(coef) > 1
        pieces = (coef, np.broadcast_to(intercept, (len(coef),)).astype(float), np.zeros(0) if several else np.ones(1))
        ends, link, classes = (-math.inf, math.inf), model.link, tuple(model.classes)
        target, terms = ",".join(model.targets), tuple(model.terms)
    elif hasattr(model, "pieces"):
        made = model.pieces()
        pieces = (made["coef"], made["intercept"], made["share"])
        ends, link, classes = (
            (made.get("low", -math.inf), made.get("high", math.inf)),
            made["link"],
            tuple(made["classes"]),
        )
        target, terms = made["target"], tuple(made["terms"])
    else:
        raise UsageError(
            f"a model of kind {getattr(model, 'kind', type(model).__name__)!r} predicts by more than one sum of weights times "
            "columns, so there is no formula to export; fit, or `trueline stream --learner gradient --rate 0.01`",
            where="model",
        )
    schema = getattr(model, "schema", None)
    derive, where = ((), None) if schema is None else (tuple(schema.derive), schema.where)
    formula = _functions(schema)
    if formula is not None:
        inputs = _columns(schema, len(pieces[0]))
        extra: tuple[Any, ...] = (formula, terms, pieces[0])
    else:
        inputs = _plain_inputs(pieces[0], terms) if schema is None else _inputs(schema, pieces[0], terms)
        extra = ()
    return Plan(target, inputs, pieces[1], pieces[2], *ends, link, classes, derive, where, *extra)


def _functions(schema: Any) -> Any:
    """The formula of a model, where it is more than a list of columns."""
    if schema is None or schema.formula is None:
        return None
    from ..data.basis import Identity
    from ..data.formula import Formula

    formula = Formula.from_dict(schema.formula)
    plain = all(len(product) == 1 and isinstance(product[0], Identity) for product in formula.products)
    return None if plain else formula


def _columns(schema: Any, pieces: int) -> tuple[Input, ...]:
    """The columns that a formula reads; a formula takes no missing values."""
    unseen = np.zeros(pieces) if schema.unseen == "ignore" else None
    return tuple(
        Input(column.name, column.kind, np.zeros((pieces, 0)), tuple(column.levels), None, unseen)
        for column in schema.columns
    )


def _plain_inputs(coef: np.ndarray, terms: tuple[str, ...]) -> tuple[Input, ...]:
    return tuple(Input(term, "number", coef[:, [j]]) for j, term in enumerate(terms))


def _inputs(schema: Any, coef: np.ndarray, terms: tuple[str, ...]) -> tuple[Input, ...]:
    place = {term: j for j, term in enumerate(terms)}
    zero = np.zeros(len(coef))

    def weight(term: str) -> np.ndarray:
        return coef[:, place[term]] if term in place else zero

    made = []
    for column in schema.columns:
        names = column.raw_terms
        weights = np.stack([weight(name) for name in names], axis=1) if names else np.zeros((len(coef), 0))
        missing = None
        if schema.missing == "mean" and column.fill:
            missing = weights @ np.asarray(column.fill, dtype=float)
        elif schema.missing == "indicator" and column.missing:
            missing = weight(f"{column.name}[missing]")
        unseen = zero if schema.unseen == "ignore" else None
        real = [k for k, level in enumerate(column.levels) if level != HIDDEN]
        if column.levels:
            weights = weights[:, real]
        levels = tuple(column.levels[k] for k in real)
        made.append(Input(column.name, column.kind, weights, levels, missing, unseen))
    return tuple(made)
