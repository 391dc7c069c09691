"""Export: a model as SQL, JSON, ONNX, Python or C, each run here and checked to predict the same.

The check draws rows from the model's own columns (every level, values of many sizes, missing ones where the model
takes them), parses and runs what was written, and compares with the record's prediction: the difference must stay within 1e-12
of Σ|w_i x_i|. A target that cannot be run here (no compiler, no ONNX runtime) is said to be unchecked.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ModelError, UsageError, nearest
from .plan import Plan, plan_of

TOLERANCE = 1e-12


@dataclasses.dataclass(frozen=True)
class Export:
    """What was written, and by how much it differs (relative to Σ|w_i x_i|; None where it could not be run)."""

    to: str
    content: bytes
    difference: float | None
    rows: int
    note: str = ""

    @property
    def text(self) -> str:
        return self.content.decode() if self.to != "onnx" else ""


def export(model: Any, to: str, *, table: str = "data", check: bool = True) -> Export:
    """The model in another language.

    >>> import numpy as np
    >>> from trueline.model.linear import LinearModel
    >>> made = export(LinearModel(("a", "b"), np.array([1.0, -2.0]), 0.5, ("y",)), "sql")
    >>> print(made.text)
    SELECT 0.5e0 + 1.0e0 * t."a" + -2.0e0 * t."b" AS "prediction", t.*
    FROM "data" AS t
    >>> made.difference <= 1e-12
    True
    """
    from .infix import CannotRun
    from .parsed import CHECKS
    from .targets import TARGETS

    known: dict[str, tuple[Callable[..., bytes], Callable[..., Any]]] = TARGETS
    if to not in known:
        raise UsageError(f"there is no export target {to!r}{nearest(to, known)}", where="to")
    plan = plan_of(model)
    if to != "sql" and (plan.derive or plan.where):
        expression = plan.derive[0][1] if plan.derive else plan.where
        raise UsageError(
            f"the model uses the SQL expression {expression!r}, which only --to sql can carry along; "
            "use that, or fit on a table that already has the column",
            where=plan.derive[0][0] if plan.derive else "where",
        )
    if plan.formula is not None and to in ("json", "onnx"):
        term = next((term for term in plan.terms if term not in {column.name for column in plan.inputs}), plan.terms[0])
        raise UsageError(
            f"the model uses {term!r} of its formula, which {to} cannot carry along; use sql, python or c", where=term
        )
    write, run = known[to]
    content = write(plan, table)
    CHECKS.get(to, lambda content, plan: None)(content, plan)
    if not check:
        return Export(to, content, None, 0, "not checked")
    rows = sample_rows(plan)
    try:
        found = run(content, plan, rows, table)
    except CannotRun as reason:
        return Export(to, content, None, 0, f"not checked: {reason}")
    wanted, size = expected(model, plan, rows)
    difference = float(np.max(np.abs(found - wanted) / np.maximum(size, 1e-300)[:, None], initial=0.0))
    if not difference <= TOLERANCE:
        raise ModelError(
            f"the {to} export predicts differently by {difference:.3g} of Σ|w·x| on a drawn row; nothing was written",
            where=to,
        )
    note = "the derived columns' own expressions are the database's to compute" if plan.derive else ""
    return Export(to, content, difference, len(rows), note)


def expected(model: Any, plan: Plan, rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """The model's own scores on these rows, and Σ|w_i x_i|."""
    if plan.formula is not None:
        X = model.schema.encode({c.name: [row[c.name] for row in rows] for c in plan.inputs}).X
        parts = plan.intercepts + X @ plan.coef.T, np.abs(plan.intercepts) + np.abs(X) @ np.abs(plan.coef).T
        return parts[0], parts[1].max(axis=1)
    own, size = plan.scores(rows)
    if not plan.derive and hasattr(model, "score"):
        if getattr(model, "schema", None) is None:
            X = np.array([[row[c.name] for c in plan.inputs] for row in rows], dtype=float)
            own = model.score(X)
        else:
            columns = {c.name: [row[c.name] for row in rows] for c in plan.inputs}
            own = model.score(model.schema.encode(columns).X)
        own = np.asarray(own, dtype=float).reshape(len(rows), -1)
    return own, size


def sample_rows(plan: Plan, count: int = 200) -> list[dict[str, Any]]:
    """Rows of many sizes over the model's columns, the same for every call."""
    draw = random.Random(7)
    rows = []
    for i in range(count):
        row: dict[str, Any] = {}
        for column in plan.inputs:
            absent = column.missing is not None and draw.random() < 0.1
            if column.kind == "category":
                value: Any = draw.choice(column.levels) if column.levels else "?"
            elif column.kind == "boolean":
                value = draw.random() < 0.5
            elif column.kind == "date":
                value = float(draw.randrange(0, 30_000))
            elif plan.formula is not None:
                value = _inside(plan.formula, column.name, draw)
            else:
                value = draw.gauss(0.0, 1.0) * 10.0 ** draw.choice([-3, 0, 0, 1, 2, 4])
            row[column.name] = None if absent and i else value
        rows.append(row)
    return rows


def _inside(formula: Any, name: str, draw: random.Random) -> float:
    """A value where the functions of a column are defined: half of them where its polynomials or bumps were fitted."""
    own = [f for product in formula.products for f in product if f.column == name]
    least, small, middle = -math.inf, False, list[tuple[float, float]]()
    for f in own:
        if f.kind == "log" or getattr(f, "function", "") in ("log1p", "log2", "log10", "sqrt"):
            least = max(least, -1.0 if getattr(f, "function", "") == "log1p" else -getattr(f, "shift", 0.0))
        small = small or getattr(f, "function", "") == "exp"
        if getattr(f, "orthogonal", None) is not None:
            middle.append((f.orthogonal.centre, f.orthogonal.scale))
        elif getattr(f, "centres", ()):
            middle.append((f.centres[len(f.centres) // 2], f.centres[-1] - f.centres[0]))
    if middle and draw.random() < 0.5:
        centre, scale = draw.choice(middle)
        value = centre + scale * draw.uniform(-2.0, 2.0)
    else:
        value = draw.gauss(0.0, 1.0) * 10.0 ** draw.choice([-3, 0, 0, 1] + [2, 4] * (not small))
    return value if value > least else least + abs(value - least) + 1e-3


def linked(plan: Plan, scores: np.ndarray) -> np.ndarray:
    """Predictions on the target's scale: the value, or probabilities."""
    if plan.link == "logistic":
        return 1.0 / (1.0 + np.exp(-scores))
    if plan.link == "log":
        return np.exp(scores)
    if plan.link == "softmax":
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    return scores


def as_json(plan: Plan) -> str:
    """The model as data: columns, weights, ends, link."""
    record = {
        "target": plan.target,
        "link": plan.link,
        "classes": list(plan.classes),
        "intercept": plan.intercepts.tolist(),
        "share": plan.shares.tolist(),
        "low": None if math.isinf(plan.low) else plan.low,
        "high": None if math.isinf(plan.high) else plan.high,
        "columns": [
            {
                "name": c.name,
                "kind": c.kind,
                "levels": list(c.levels),
                "weights": c.weights.tolist(),
                "missing": None if c.missing is None else c.missing.tolist(),
                "unseen": None if c.unseen is None else c.unseen.tolist(),
            }
            for c in plan.inputs
        ],
    }
    return json.dumps(record, ensure_ascii=False, indent=1)
