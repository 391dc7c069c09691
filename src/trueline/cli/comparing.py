"""What ``compare`` computes: one read, then every method on the same rows and folds."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

import numpy as np

from ..errors import DataError, TruelineError
from . import learners
from .fitting import Asked, joined, labels_of
from .iterated import one_fit

ONLINE = ("mixture", "widrow-hoff", "normalised", "adagrad", "exponentiated", "recursive")
ONLINE_CLASSES = ("mixture", "normalised", "adagrad", "exponentiated")
FEW = 100  # rows
NUMBERS = (
    ("least squares", "squared", "none"),
    ("ridge", "squared", "ridge"),
    ("lasso", "squared", "lasso"),
    ("huber loss", "huber", "none"),
)
CLASSES = (
    ("logistic", "logistic", "none"),
    ("logistic, ridge", "logistic", "ridge"),
    ("logistic, lasso", "logistic", "lasso"),
)


def compared(
    source: Any, target: str, features: Any, where: Any, derive: Any, missing: str, folds: int
) -> dict[str, Any]:
    """The record of a comparison, best first."""
    from .fitting import check, opened

    asked = Asked(source, target, features, where=where, derive=derive, missing=missing, folds=folds)
    check(asked)
    encoder, blocks = opened(asked)
    kept = list(blocks)
    X, y, _ = joined(kept, encoder)
    places = np.concatenate([block.folds for block in kept])
    kind = encoder.schema.target_kind
    binary = kind in ("category", "boolean") or bool(np.isin(y, (0.0, 1.0)).all())
    labels = labels_of(encoder, y) if binary else y
    if binary and len(np.unique(labels)) > 2:
        raise DataError(
            f"{target!r} has {len(np.unique(labels))} labels; compare takes numbers or two labels", where=target
        )
    rows = [*solvers(asked, encoder.schema, X, labels, places, binary), *streams(X, labels, places, folds, binary)]
    rows.sort(
        key=lambda row: (
            row["cross_validated"] is None,
            row["cross_validated"] if row["cross_validated"] is not None else math.inf,
        )
    )
    return {
        "n": len(X), "target": target, "task": "two classes" if binary else "regression",
        "measure": "log loss" if binary else "root mean squared error", "methods": rows,
    }  # fmt: skip


def error_of(found: np.ndarray, y: np.ndarray, binary: bool) -> float:
    """Log loss of probabilities of the larger label, or root mean squared error."""
    if not binary:
        return float(np.sqrt(np.mean((found - y) ** 2)))
    own = np.where(y == np.unique(y)[-1], found, 1.0 - found)
    return float(-np.log(np.clip(own, 1e-15, 1.0)).mean())


def spread(errors: list[float]) -> tuple[float | None, float | None]:
    finite = [e for e in errors if math.isfinite(e)]
    if not finite:
        return None, None
    mean = float(np.mean(finite))
    return mean, float(np.std(finite, ddof=1) / math.sqrt(len(finite))) if len(finite) > 1 else None


def row(
    name: str,
    progressive: float | None,
    errors: list[float],
    seconds: float,
    certificate: str,
    refused: str | None = None,
) -> dict[str, Any]:
    mean, error = spread(errors)
    return {
        "method": name,
        "progressive": progressive,
        "cross_validated": mean,
        "std_error": error,
        "seconds": seconds,
        "certificate": certificate,
        "refused": refused,
    }


def solvers(
    asked: Asked, schema: Any, X: np.ndarray, y: np.ndarray, places: np.ndarray, binary: bool
) -> list[dict[str, Any]]:
    """Batch methods; the time is that of the fit on all rows."""
    import dataclasses

    made = []
    for name, loss, penalty in CLASSES if binary else NUMBERS:
        alpha = "cv" if penalty != "none" else asked.alpha
        one = dataclasses.replace(asked, loss=loss, penalty=penalty, alpha=alpha)
        with contextlib.suppress(TruelineError):  # a first use loads compiled code, which is no part of a method's time
            fitted(one, loss, X[:FEW], y[:FEW], places[:FEW], schema)
        try:
            began = time.perf_counter()
            record, strength = fitted(one, loss, X, y, places, schema)
            seconds = time.perf_counter() - began
            errors = []
            for k in np.unique(places):
                out = places == k
                part, _ = fitted(one, loss, X[~out], y[~out], None, schema, strength)
                errors.append(error_of(_values(part, X[out]), y[out], binary))
        except TruelineError as refusal:
            made.append(row(name, None, [], 0.0, "none", refusal.message))
            continue
        proof = record.certificate
        made.append(
            row(name, None, errors, seconds, proof.status.value.replace("_", " ") if proof is not None else "none")
        )
    return made


def fitted(
    asked: Asked, loss: str, X: np.ndarray, y: np.ndarray, places: Any, schema: Any, strength: float | None = None
) -> tuple[Any, float | None]:
    """(record, alpha): least squares and its penalties from moments, the rest over the rows."""
    from .penalised import lasso_curve, ridge_curve, solved

    if loss != "squared":
        from .iterated import fit_rows

        if asked.penalty == "none" or strength is not None:
            return one_fit(asked, loss, X, y, None, schema, strength or 0.0), strength or 0.0
        record, alpha, _, _ = fit_rows(asked, loss, X, y, None, places, schema)
        return record, alpha
    from ..model.closed import fit_least_squares
    from ..onepass.moments import Moments

    moments = Moments.from_arrays(X, y, folds=places, terms=schema.terms)
    if asked.penalty == "none":
        return fit_least_squares(moments), None
    ridge = asked.penalty == "ridge"
    if strength is None:
        alphas, errors = ridge_curve(moments) if ridge else lasso_curve(moments, 1.0)
        strength = float(alphas[int(np.argmin(errors.mean(axis=1)))])
    return solved(moments, strength, 0.0 if ridge else 1.0, ridge), strength


def _values(record: Any, X: np.ndarray) -> np.ndarray:
    if record.link == "logistic":
        return np.asarray(record.probabilities(X)[:, 1])
    return np.asarray(record.predict(X), dtype=float)


def streams(X: np.ndarray, y: np.ndarray, places: np.ndarray, folds: int, binary: bool) -> list[dict[str, Any]]:
    """Online learners: one pass in order for the progressive error, one a fold for the cross-validated."""
    made = []
    t = np.where(y == np.unique(y)[-1], 1.0, -1.0) if binary else y.astype(float)
    names = [f"x{j}" for j in range(X.shape[1])]
    for name in ONLINE_CLASSES if binary else ONLINE:
        with contextlib.suppress(TruelineError):
            learners.make(name, None, "auto", 2 if binary else 0, names, True).learn(X[:FEW], t[:FEW])
        try:
            began = time.perf_counter()
            record = learners.make(name, None, "auto", 2 if binary else 0, names, True)
            before = np.asarray(record.learn(X, t))
            seconds = time.perf_counter() - began
            status = record.certificate().status.value.replace("_", " ")
            errors = []
            for k in np.unique(places):
                out = places == k
                part = learners.make(name, None, "auto", 2 if binary else 0, names, False)
                part.learn(np.ascontiguousarray(X[~out]), t[~out])
                errors.append(error_of(np.asarray(part.predict(np.ascontiguousarray(X[out]))), y[out], binary))
            progressive: float | None = error_of(before, y, binary)
        except TruelineError as refusal:
            made.append(row(f"stream: {name}", None, [], 0.0, "none", refusal.message))
            continue
        made.append(
            row(f"stream: {name}", progressive if math.isfinite(progressive or 0.0) else None, errors, seconds, status)
        )
    return made
