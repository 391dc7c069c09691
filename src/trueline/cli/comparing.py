"""What ``compare`` computes: one read, then every method on the same rows and folds.

For numbers the error is the root mean squared one. For classes it is the log loss, and beside it the share of rows
whose label is wrong, which is all that methods without probabilities have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError, TruelineError
from . import learners
from .fitting import Asked, joined, labels_of
from .heldout import mean_over_rows, rooted, tied

FEW = 100  # rows
CHANCES = ("logistic", "softmax")  # links that give probabilities
MOST = 50  # labels; a column of more is not one of classes
NUMBERS = (
    ("least squares", "squared", "none"),
    ("ridge", "squared", "ridge"),
    ("lasso", "squared", "lasso"),
    ("elastic net", "squared", "elastic"),
    ("huber loss", "huber", "none"),
    ("absolute loss", "absolute", "none"),
)
COUNTS = (("poisson loss", "poisson", "none"),)
CLASSES = (
    ("logistic", "logistic", "none"),
    ("logistic, ridge", "logistic", "ridge"),
    ("logistic, lasso", "logistic", "lasso"),
    ("logistic, elastic net", "logistic", "elastic"),
)
TWO = (("squared hinge, ridge", "squared_hinge", "ridge"),)
REFUSED = (TruelineError, ArithmeticError, ValueError)  # what one method may say of rows that the others can take


@dataclasses.dataclass
class Task:
    """The rows that every method gets: labels as they are and as codes, which fold each row is in."""

    asked: Asked
    schema: Any
    X: np.ndarray
    y: np.ndarray
    labels: np.ndarray | None  # the classes, in order; None for numbers
    codes: np.ndarray
    places: np.ndarray
    notes: list[str]  # what the reader should know of the columns and the folds

    @property
    def parts(self) -> Iterator[np.ndarray]:
        """The rows left out, fold by fold."""
        return (self.places == k for k in np.unique(self.places))


@dataclasses.dataclass
class Method:
    """One contender: its name and how it runs, which gives (progressive, errors a fold, seconds, certificate)."""

    name: str
    run: Callable[[], tuple[Error | None, list[Error], float, str]]


Error = tuple[float, float]  # (mean square or log loss, share of wrong labels); not a number where there is none


def compared(
    source: Any, target: str, features: Any, where: Any, derive: Any, missing: str, intercept: bool, folds: int
) -> dict[str, Any]:
    """The record of a comparison, best first."""
    from .console import waiting

    task = read(
        Asked(source, target, features, where=where, derive=derive, missing=missing, intercept=intercept, folds=folds)
    )
    methods = [*solvers(task), *streams(task)]
    at = [0]
    with waiting(lambda: f"comparing, {at[0] + 1} of {len(methods)}, {methods[at[0]].name}"):
        rows = []
        for at[0], method in enumerate(methods):
            rows.append(row(method, [int(out.sum()) for out in task.parts], root=task.labels is None))
    rows.sort(key=lambda row: [math.inf if row[k] is None else row[k] for k in ("cross_validated", "wrong")])
    for found, ties in zip(rows, tied([one["cross_validated"] for one in rows], rows[0]["std_error"])):
        found["tied_for_best"] = ties
    kinds = None if task.labels is None else len(task.labels)
    if kinds is None:
        for found in rows:
            del found["wrong"]
    return {
        "n": len(task.X), "target": target, "columns": task.schema.detected,
        "notes": task.notes, "task": "regression" if kinds is None else "two classes" if kinds == 2 else f"{kinds} classes",
        "measure": "root mean squared error" if kinds is None else "log loss", "methods": rows,
        "best": [one["method"] for one in rows if one["tied_for_best"]],
    }  # fmt: skip


def read(asked: Asked) -> Task:
    """All rows of the source."""
    from .fitting import check, opened

    check(asked)
    encoder, blocks = opened(asked)
    kept = list(blocks)
    X, y, _ = joined(kept, encoder)
    places = np.concatenate([block.folds for block in kept])
    if len(np.unique(places)) < 2:
        raise DataError(
            f"{len(X)} row{'s' * (len(X) != 1)} are too few to leave some out and compare what predicts them",
            where="data",
        )
    schema = encoder.schema
    notes = [line for line in (schema.told_columns(), schema.told_missing()) if line]
    notes += encoder.source.notes + encoder.rule.notes(np.bincount(places).tolist(), encoder.copies)
    classes = schema.target_kind in ("category", "boolean") or bool(np.isin(y, (0.0, 1.0)).all())
    if not classes:
        return Task(asked, schema, X, y, None, y, places, notes)
    y = labels_of(encoder, y)
    labels, codes = np.unique(y, return_inverse=True)
    if not 2 <= len(labels) <= MOST:
        raise DataError(
            f"{asked.target!r} has {len(labels):,} label{'s' * (len(labels) != 1)}; compare takes numbers, or 2 to {MOST} labels",
            where=asked.target,
        )
    return Task(asked, schema, X, y, labels, codes, places, notes)


def row(method: Method, sizes: list[int], root: bool) -> dict[str, Any]:
    """What a method says for itself; what refuses these rows is told in its place, and the others go on.

    ``sizes`` are the rows of each fold; ``root``: errors are mean squares, and their roots are told.
    """
    try:
        progressive, errors, seconds, status = method.run()
        refused = None if all(math.isfinite(max(e)) or math.isnan(e[0]) for e in errors) else "it diverged"
    except REFUSED as refusal:
        progressive, errors, seconds, status, refused = None, [], math.nan, "none", told(refusal)
    error, spread = (None, None) if refused else pooled([e[0] for e in errors], sizes, root)
    before = math.nan if progressive is None else math.sqrt(progressive[0]) if root else progressive[0]
    return {
        "method": method.name,
        "progressive": before if math.isfinite(before) else None,
        "cross_validated": error,
        "std_error": spread,
        "wrong": None if refused else pooled([e[1] for e in errors], sizes, False)[0],
        "seconds": None if math.isnan(seconds) else seconds,
        "certificate": status,
        "refused": refused,
    }


def told(refusal: BaseException) -> str:
    """A refusal as a sentence."""
    return refusal.message if isinstance(refusal, TruelineError) else f"{type(refusal).__name__}: {refusal}"


def pooled(errors: list[float], sizes: list[int], root: bool) -> tuple[float | None, float | None]:
    """The error over all rows left out and its standard error; none where a fold has none."""
    if not errors or not all(map(math.isfinite, errors)):
        return None, None
    mean, spread = mean_over_rows(errors, sizes)
    if root:
        mean, spread = rooted(mean, spread)
    return float(mean), float(spread) if np.isfinite(spread) else None


def error_of(made: np.ndarray, codes: np.ndarray, classes: int, chances: bool) -> Error:
    """The error of values, of probabilities (of the last class, or one a class), or of scores that only sign."""
    if not classes:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean((made - codes) ** 2)), math.nan
    if made.ndim == 1:
        chosen = made > (0.5 if chances else 0.0)
        made = np.column_stack([1.0 - made, made])
    else:
        chosen = made.argmax(axis=1)
    own = made[np.arange(len(codes)), codes]
    return float(-np.log(np.clip(own, 1e-15, 1.0)).mean()) if chances else math.nan, float((chosen != codes).mean())


def solvers(task: Task) -> Iterator[Method]:
    """Batch methods; the time is that of the fit on all rows."""
    kinds = 0 if task.labels is None else len(task.labels)
    counts = not kinds and bool((task.y >= 0).all() and (task.y == np.rint(task.y)).all())
    for name, loss, penalty in (*CLASSES, *TWO[: kinds == 2]) if kinds else (*NUMBERS, *COUNTS[:counts]):
        one = dataclasses.replace(task.asked, loss=loss, penalty=penalty)
        yield Method(name, lambda one=one, loss=loss: solver(task, one, loss, kinds))  # type: ignore[misc]


def solver(task: Task, asked: Asked, loss: str, kinds: int) -> tuple[Error | None, list[Error], float, str]:
    """One batch method on all rows, then on those outside of each fold, which choose their own penalty.

    A penalty chosen on all rows has seen the rows left out (Stone 1974; Varma and Simon 2006).
    """
    X, y, places, schema = task.X, task.y, task.places, task.schema
    with contextlib.suppress(*REFUSED):  # a first use loads compiled code, which is no part of a method's time
        fitted(asked, loss, X[:FEW], y[:FEW], places[:FEW], schema)
    began = time.perf_counter()
    record = fitted(asked, loss, X, y, places, schema)
    seconds = time.perf_counter() - began
    errors = []
    for out in task.parts:
        part = fitted(asked, loss, X[~out], y[~out], inner_folds(places[~out], asked.folds), schema)
        errors.append(error_of(_values(part, X[out], kinds), task.codes[out], kinds, part.link in CHANCES))
    proof = record.certificate
    return None, errors, seconds, proof.status.value.replace("_", " ") if proof is not None else "none"


def inner_folds(places: np.ndarray, folds: int) -> np.ndarray:
    """The folds among which the rows outside of one choose their penalty: the others, or halves of the only other one."""
    if len(np.unique(places)) > 1:
        return places
    return np.arange(len(places)) % min(folds, max(1, len(places)))


def fitted(asked: Asked, loss: str, X: np.ndarray, y: np.ndarray, places: np.ndarray, schema: Any) -> Any:
    """The record, its penalty chosen by these folds: least squares and its penalties from moments, the rest over rows."""
    if loss != "squared":
        from .iterated import fit_rows

        return fit_rows(asked, loss, X, y, None, places, schema)[0]
    from ..model.closed import fit_least_squares
    from ..onepass.moments import Moments
    from .penalised import penalised

    moments = Moments.from_arrays(X, y, folds=places, terms=schema.terms)
    moments.schema = schema  # which says whether there is an intercept
    if asked.penalty == "none":
        return fit_least_squares(moments, fit_intercept=moments.intercept)
    return penalised(moments, asked)[0]


def _values(record: Any, X: np.ndarray, kinds: int) -> np.ndarray:
    """Values, probabilities, or scores."""
    if record.link in CHANCES:
        return np.asarray(record.probabilities(X))
    return np.asarray(record.score(X) if kinds else record.predict(X), dtype=float)


def streams(task: Task) -> Iterator[Method]:
    """Online learners that the target suits."""
    for name, learner in learners.LEARNERS.items():
        suits = learner.numbers if task.labels is None else learner.classes
        if learner.geometry == "auto" and not task.asked.intercept:
            continue  # the mixture has an intercept; in its place there would be another of this list
        if suits is not None and (name != "gradient" or task.labels is not None):  # of numbers, Widrow and Hoff's
            yield Method(f"stream: {name}", lambda name=name: stream(task, name))  # type: ignore[misc]


def stream(task: Task, name: str) -> tuple[Error | None, list[Error], float, str]:
    """A learner's one pass in order for the progressive error, and one a fold for the cross-validated."""
    from .counting import probabilistic

    kinds = 0 if task.labels is None else len(task.labels)
    targets = 2.0 * task.codes - 1.0 if kinds == 2 else task.codes.astype(float)
    names = [f"x{j}" for j in range(task.X.shape[1])]

    def learned(rows: Any, certificate: bool) -> tuple[Any, np.ndarray]:
        record = learners.make(name, None, "auto", kinds, names, certificate, task.asked.intercept)
        return record, np.asarray(record.learn(np.ascontiguousarray(task.X[rows]), targets[rows]))

    with contextlib.suppress(*REFUSED):
        learned(slice(FEW), True)
    began = time.perf_counter()
    record, before = learned(slice(None), True)
    seconds = time.perf_counter() - began
    chances = probabilistic(record)
    errors = []
    for out in task.parts:
        made = np.asarray(learned(~out, False)[0].predict(np.ascontiguousarray(task.X[out])))
        errors.append(error_of(made, task.codes[out], kinds, chances))
    status = record.certificate().status.value.replace("_", " ")
    return error_of(before, task.codes, kinds, chances), errors, seconds, status
