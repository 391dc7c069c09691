"""The model against what was recomputed: its predictions, its classes, its status and its assumptions.

Two sums of the same terms in another order differ by at most (terms)·EPS·Σ|terms| (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1). Every room here is such a sum, made of the sizes of what was added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..certificates.certificate import Status
from ..errors import DataError, ModelError
from .stated_claims import Claims, Rows

EPS = float(np.finfo(float).eps)


def require_kind(proof: Any, kind: str, model: str) -> None:
    """Refuse a certificate of another kind than this kind of model has."""
    if proof.kind != kind:
        raise ModelError(f"a certificate of kind {proof.kind!r} says nothing of {model}", where="certificate")


def require_numbers(X: Rows, y: Rows | None, weights: Rows) -> None:
    """Refuse NaN, infinity and numbers whose squares overflow, in rows that count."""
    for name, values in (("X", X), ("y", y)):
        if values is not None and values.dtype.kind in "fiu" and not (np.abs(values[weights > 0]) <= 1e150).all():
            raise DataError(f"{name} holds NaN, infinity or numbers beyond 1e150; give the training rows", where=name)


def same_predictions(out: Claims, predicted: Any, found: Rows, room: Rows | float, note: str = "") -> None:
    """What the model's own ``predict`` gives on the rows must be what the checked numbers imply."""
    predicted = np.asarray(predicted)
    same = predicted.shape == found.shape and predicted.dtype.kind in "fiu"
    apart = np.abs(predicted - found) if same else np.full(1, np.inf)
    held = same and bool((apart <= room).all())  # NaN is never within its room
    out.holds("predictions", float(np.max(apart, initial=0.0)), held, note or "largest difference on the rows")


def same_classes(out: Claims, classes: Any, labels: Rows, note: str = "exactly the labels in the rows") -> None:
    """The classes of the model in the order of the labels."""
    found = np.unique(labels).tolist()
    told = [] if classes is None else [one.item() if isinstance(one, np.generic) else one for one in classes]
    out.holds("classes", tuple(found), told == found, note)


def same_assumptions(out: Claims, expected: Mapping[str, bool | None]) -> None:
    """The certificate names exactly these assumptions, and says of each what was found; None is not recomputed."""
    told = {item.name: item.held for item in out.proof.assumptions}
    held = told.keys() == expected.keys() and all(expected[name] in (None, bool(value)) for name, value in told.items())
    failed = [name for name, value in expected.items() if value is False]
    out.covered_assumptions |= {name: {"held"} for name, value in expected.items() if value is not None}
    out.holds("assumptions", f"fails: {failed[0]}" if failed else "all hold", held)


def same_status(out: Claims, found: Status, note: str = "") -> None:
    """The status must be the one found, or claim less: not proven."""
    out.holds("status", found.value, out.proof.status in (found, Status.NOT_PROVEN), note)


def weighted_median(values: Rows, weights: Rows) -> float:
    """The median where whole weights are repetitions: the mean of the two middle ones where there are two."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    half = 0.5 * total[-1]
    low = int(np.searchsorted(total, half * (1.0 - 1e-14)))
    high = int(np.searchsorted(total, half * (1.0 + 1e-14), side="right"))
    return 0.5 * float(values[order[low]] + values[order[min(high, len(values) - 1)]])


def score_room(X: Rows, coef: Rows, constant: float) -> Rows:
    """What two orders of Σ x_j·w_j + b can differ by, row by row."""
    return (X.shape[1] + 2) * EPS * (np.abs(X) @ np.abs(coef) + abs(constant))
