"""What a stream counts: the loss of each prediction, and the progress rows in the columns that people know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def losses_of(state: Any, made: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of each prediction, as the tables print it: squared without the half, log loss, or mistakes."""
    if not state.labels:
        return state.record.losses_of(made, y) if hasattr(state.record, "losses_of") else (made - y) ** 2
    if not probabilistic(state.record):
        return (np.sign(made) != y).astype(float) if made.ndim == 1 else (made.argmax(axis=1) != y).astype(float)
    with np.errstate(divide="ignore"):
        if made.ndim == 1:
            return -np.log(np.where(y > 0, made, 1.0 - made))
        return -np.log(made[np.arange(len(y)), y.astype(int)])


def probabilistic(record: Any) -> bool:
    return record.kind == "mixture" or bool(getattr(record, "probabilistic", False))


def row_of(state: Any, line: dict[str, Any], X: Any, at: int, weight: float) -> dict[str, Any]:
    """A progress row in Vowpal Wabbit's columns; beside them what it is compared with, regret and bound."""
    row = {
        "average_loss": line["average_loss"],
        "since_last": line["since_last"],
        "counter": int(line["examples"]),
        "weight": float(line.get("weight", weight)),
        "label": None,
        "prediction": None,
        "features": features_of(X, at),
        "best_fixed_loss": line.get("best_fixed_loss"),
        "best_member_loss": line.get("best_member_loss"),
        "regret": line.get("regret"),
        "bound": line.get("bound"),
    }
    row = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
    return row | classes_of(state)


def classes_of(state: Any) -> dict[str, Any]:
    """The labels that a list of probabilities belongs to."""
    return {"classes": list(state.labels)} if len(state.labels) > 2 else {}


def features_of(X: Any, at: int) -> int:
    """The features of a row that are not 0, and the constant."""
    row = X[[at]] if hasattr(X, "indptr") else X[at]
    return 1 + (int(row.nnz) if hasattr(row, "nnz") else int(np.count_nonzero(row)))


def label_of(state: Any, target: Any) -> Any:
    if not state.labels:
        return float(target)
    return state.labels[int(target > 0)] if len(state.labels) == 2 else state.labels[int(target)]


def plain(value: Any) -> Any:
    return [float(v) for v in value] if np.ndim(value) else float(value)


def spoken(advice: str) -> str:
    """Advice in the words of the command line, where the library speaks of Python's."""
    return advice.replace("certificate=False", "--no-certificate")


def suffered(state: Any) -> float:
    """The loss so far, counted as the rows above the last one count it: by the learner itself where it does."""
    record = state.record
    if record.kind == "ladder":
        return float(record.unit * record.totals[:, 1].sum())
    if record.kind == "online":
        return float(record.unit * sum(head.loss for head in record.heads))
    return float(state.loss)


def final_row(state: Any) -> dict[str, Any]:
    """The last row: everything, with the certificate."""
    proof = state.record.certificate()
    found = proof.to_dict()
    found["advice"] = spoken(found["advice"])
    since = state.rows[-1] if state.rows else None
    last_weight = since["weight"] if since else 0.0
    last_loss = since["average_loss"] * last_weight if since else 0.0
    tail = state.weight - last_weight
    loss = suffered(state)
    average = loss / state.weight if state.weight else math.nan
    row = {
        "average_loss": average,
        "since_last": (loss - last_loss) / tail if tail > 0 else (since["since_last"] if since else average),
        "counter": int(state.record.examples),
        "weight": state.weight,
        **state.last,
        **classes_of(state),
        **{
            name: value if value is not None and math.isfinite(value) else None
            for name, value in (
                ("best_fixed_loss", found.get("best_fixed_loss")),
                ("best_member_loss", found.get("best_member_loss")),
                ("regret", found.get("regret")),
                ("bound", found.get("bound")),
            )
        },
        "interrupted": state.interrupted,
        "certificate": found,
        "final": True,
    }
    return row
