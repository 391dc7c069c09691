"""What ``fit`` computes: one read of the source, then the model that the target and the options ask for.

Squared loss needs only moments, so rows pass by and are forgotten. A target with two values, or a loss that needs
several passes, keeps the rows in memory. Which of the two it is shows in the first block; should a later block
contradict it, the rows kept so far go into the moments after all: the source is never read twice.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError, UsageError, nearest
from ..model.training import designed, held_out

HELD_MOST = 200_000  # held-out rows that are kept for the measures
PENALTIES = ("none", "ridge", "lasso", "elastic")
LOSSES = ("squared", "huber", "absolute", "quantile", "logistic", "hinge", "squared_hinge", "poisson")
MISSING = ("refuse", "drop", "mean", "indicator")
SIGNS = ("logistic", "hinge", "squared_hinge")


@dataclasses.dataclass
class Asked:
    """The options of a fit."""

    source: Any
    target: str | None
    features: list[str] | None = None
    formula: str | None = None
    weights: str | None = None
    where: str | None = None
    derive: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: str = "refuse"
    intercept: bool = True
    loss: str | None = None
    penalty: str = "none"
    alpha: str = "cv"
    l1_ratio: float = 0.5
    folds: int = 5
    holdout: float | None = None
    sample: int = 10_000


@dataclasses.dataclass
class Fitted:
    """What a fit found."""

    record: Any
    n: int
    target: str
    loss: str
    penalty: str
    alpha: float | None
    notes: list[str]
    seconds: dict[str, float]
    moments: Any = None
    cross_validation: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    curves: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    paths: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    sample: tuple[np.ndarray, np.ndarray] | None = None
    holdout: list[dict[str, Any]] | None = None
    held: int = 0
    scales: dict[str, float] = dataclasses.field(default_factory=dict)


def fit(asked: Asked) -> Fitted:
    """Read once, solve, compare, measure."""
    check(asked)
    began = time.perf_counter()
    encoder, blocks = opened(asked)
    held = Held(asked.holdout)
    several, blocks = needs_rows(asked, encoder, held.kept(blocks))
    if several:
        fitted = from_rows(asked, encoder, blocks, began)
    else:
        fitted = from_moments(asked, encoder, blocks, began)
    if asked.holdout is not None:
        fitted.holdout, fitted.held = held.measured(fitted, encoder), held.count
    return fitted


def check(asked: Asked) -> None:
    """Refuse what no data could make right, before anything is read."""
    if asked.loss is not None and asked.loss not in LOSSES:
        raise UsageError(f"there is no loss {asked.loss!r}{nearest(asked.loss, LOSSES)}", where="loss")
    if asked.penalty not in PENALTIES:
        raise UsageError(f"there is no penalty {asked.penalty!r}{nearest(asked.penalty, PENALTIES)}", where="penalty")
    if asked.alpha != "cv":
        try:
            value = float(asked.alpha)
        except ValueError:
            value = math.nan
        if not 0.0 <= value < math.inf:
            raise UsageError(f"--alpha is a number of at least 0, or cv, not {asked.alpha!r}", where="alpha")
        if asked.penalty == "none":
            raise UsageError("--alpha needs a penalty: ridge, lasso or elastic", where="alpha")
    if not 0.0 <= asked.l1_ratio <= 1.0:
        raise UsageError(f"--l1-ratio lies between 0 and 1, not {asked.l1_ratio:g}", where="l1_ratio")
    if asked.l1_ratio != Asked.l1_ratio and asked.penalty != "elastic":
        raise UsageError("--l1-ratio needs --penalty elastic", where="l1_ratio")
    if asked.missing not in MISSING:
        raise UsageError(
            f"--missing is {', '.join(MISSING[:-1])} or {MISSING[-1]}, not {asked.missing!r}", where="missing"
        )
    if asked.folds < 2:
        raise UsageError(f"--folds is a whole number of at least 2, not {asked.folds}", where="folds")
    if asked.target is None and asked.formula is None:
        raise UsageError("give --target: the column to predict (or a --formula with one)", where="target")
    if asked.formula is not None:
        from ..data.choice import has_intercept, parsed, target_of

        target_of(parsed(asked.formula), asked.target)
        has_intercept(parsed(asked.formula), asked.intercept)


def check_folds(asked: Asked, loss: str) -> None:
    """Refuse --folds where no cross-validation is made: of squared loss it always is."""
    if asked.folds != Asked.folds and (asked.penalty == "none" or asked.alpha != "cv"):
        raise UsageError(
            f"--folds is for a penalty that is chosen, and here the {loss} loss has {'none' if asked.penalty == 'none' else 'its --alpha'}; "
            "leave it out, or give --penalty ridge and no --alpha",
            where="folds",
        )


def opened(asked: Asked) -> tuple[Any, Iterator[Any]]:
    """The encoder and its blocks."""
    from ..data.encode import Encoder
    from .console import progress

    encoder = Encoder(
        asked.source,
        target=asked.target,
        features=asked.features,
        formula=asked.formula,
        intercept=asked.intercept,
        weights=asked.weights,
        where=asked.where,
        derive=asked.derive,
        missing=asked.missing,
        folds=asked.folds,
        labels=asked.loss in (None, *SIGNS),
    )
    asked.target = encoder.target
    if asked.target is None:
        raise UsageError("give --target, or a formula with a target: y ~ x", where="target")
    return encoder, progress(encoder, "reading", lambda block: len(block.X), encoder.source.rows)


class Held:
    """Rows kept out of the fit: those whose number hashes below the share."""

    def __init__(self, share: float | None) -> None:
        self.share, self.row, self.count = share, 0, 0
        self.blocks: list[Any] = []

    def kept(self, blocks: Iterable[Any]) -> Iterator[Any]:
        for block in blocks:
            if self.share is None:
                yield block
                continue
            out = held_out(self.row, len(block.X), self.share)
            self.row += len(block.X)
            if self.count < HELD_MOST:
                self.blocks.append(_rows(block, out))
            self.count += int(out.sum())
            if not out.all():
                yield _rows(block, ~out)

    def measured(self, fitted: Fitted, encoder: Any) -> list[dict[str, Any]]:
        """The metrics of the fit on the rows held out."""
        from .evaluate import metrics_of
        from .models import Opened

        blocks = [block for block in self.blocks if len(block.X)]
        if not blocks:
            raise DataError("no row was held out; there are too few rows for this --holdout", where="holdout")
        X, y, weights = joined(blocks, encoder)
        one = Opened("the fit", "linear", fitted.record, None, {})
        if fitted.record.classes:
            y = labels_of(encoder, y)
        return metrics_of(one, one.scores(X), y, weights)


def _rows(block: Any, mask: np.ndarray) -> Any:
    return block._replace(
        X=np.ascontiguousarray(block.X[mask]),
        **{
            name: None if getattr(block, name) is None else getattr(block, name)[mask]
            for name in ("y", "weights", "folds")
        },
    )


def needs_rows(asked: Asked, encoder: Any, blocks: Iterator[Any]) -> tuple[bool, Iterator[Any]]:
    """Whether the fit needs the rows, and the blocks, none lost."""
    if asked.loss is not None:
        return asked.loss != "squared", blocks
    seen: list[Any] = []
    for block in blocks:
        seen.append(block)
        if encoder.schema.target_kind in ("category", "boolean"):
            return True, itertools.chain(seen, blocks)
        if not np.isin(block.y, (0.0, 1.0)).all():
            return False, itertools.chain(seen, blocks)
    return bool(seen), iter(seen)


def joined(blocks: list[Any], encoder: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Blocks as one design in the final terms, with targets and weights."""
    terms = encoder.terms
    X = np.zeros((sum(len(block.X) for block in blocks), len(terms)))
    at = 0
    for block in blocks:
        X[at : at + len(block.X), : block.X.shape[1]] = block.X
        at += len(block.X)
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    return designed(encoder.schema, X, terms), np.concatenate([block.y for block in blocks]), weights


def labels_of(encoder: Any, y: np.ndarray) -> np.ndarray:
    """Targets as the labels that they stand for."""
    kind = encoder.schema.target_kind
    if kind == "category":
        return np.asarray(encoder.target_levels)[y.astype(int)]
    return y.astype(bool if kind == "boolean" else int)


def from_moments(asked: Asked, encoder: Any, blocks: Iterator[Any], began: float) -> Fitted:
    """Squared loss: moments, least squares or a penalised fit, and the comparison from the same scan."""
    from ..onepass.moments import Moments

    targets = (str(asked.target),)
    if asked.holdout is not None:
        first = next(blocks, None)
        if first is None:
            raise DataError(
                "all rows are held out, and none is left to fit; choose a smaller --holdout", where="holdout"
            )
        blocks = itertools.chain([first], blocks)
    moments = Moments.from_blocks(blocks, targets=targets, sample=asked.sample, schema=lambda: encoder.schema)
    notes = [*encoder.source.notes, *encoder.rule.notes([p.n for p in moments.parts.values()], encoder.copies)]
    return solved(asked, moments.designed(), began, notes)


def solved(asked: Asked, moments: Any, began: float, notes: list[str]) -> Fitted:
    """What moments in the final terms say; ``notes`` are those about the file and the folds."""
    from ..model.closed import fit_least_squares
    from .penalised import compared, penalised

    target = str(asked.target)
    read = time.perf_counter()
    part = moments.total
    d = len(moments.terms)
    spread = np.sqrt(np.maximum(np.diagonal(part.products[0])[:d], 0.0) / part.weight[0])
    alpha = None
    if asked.penalty == "none":
        record = fit_least_squares(moments, fit_intercept=moments.intercept, rank="drop")
        rows, curves, paths, line = compared(moments, asked.folds)
        notes = [*notes, line] if line else notes
    else:
        record, alpha, rows, curves, paths = penalised(moments, asked)
    done = time.perf_counter()
    return Fitted(
        record, moments.n, target, "squared", asked.penalty, alpha, [*schema_notes(moments.schema), *notes],
        {"read": read - began, "solve": done - read}, moments, rows, curves, paths, sampled(record, moments),
        scales=dict(zip(moments.terms, spread.tolist())),
    )  # fmt: skip


def sampled(record: Any, moments: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """(fitted, observed) of the scan's sample of rows."""
    rows = moments.sample.rows
    if not len(rows):
        return None
    X = rows[:, : len(moments.terms)]
    return np.asarray(record.predict(X), dtype=float), rows[:, len(moments.terms)]


def schema_notes(schema: Any) -> list[str]:
    """What the scan noticed and the reader should know."""
    notes = [line for line in (schema.told_columns(), schema.told_missing()) if line]
    if schema.constant:
        notes.append(f"columns that never change: {', '.join(schema.constant[:5])}")
    if schema.duplicates:
        notes.append("columns that repeat another: " + ", ".join(f"{b} = {a}" for a, b in schema.duplicates[:3]))
    return notes


def as_shown(record: Any) -> Any:
    """The same fit with coefficient 0 for terms without an estimate: the table then shows the model that predicts."""
    estimates = record.statistics.get("estimates")
    if estimates is None or np.ndim(record.coef) == 2:  # the table of several classes shows their own coefficients
        return record
    shown = np.nan_to_num(estimates)
    constant = int(record.statistics.get("fit_intercept", True))
    return dataclasses.replace(record, coef=shown[constant:], intercept=float(shown[0]) if constant else 0.0)


def alias_notes(record: Any) -> list[str]:
    """Which terms of a likelihood's fit have no estimate of their own."""
    from ..report.summary import summarise

    return list(summarise(record).notes) if "estimates" in record.statistics else []


def from_rows(asked: Asked, encoder: Any, blocks: Iterator[Any], began: float) -> Fitted:
    """Losses that need several passes: the rows in memory, and a duality gap at the end."""
    from .iterated import fit_rows

    kept = list(blocks)
    if not kept:
        raise DataError("all rows are held out, and none is left to fit; choose a smaller --holdout", where="holdout")
    X, y, weights = joined(kept, encoder)
    folds = None if kept[0].folds is None else np.concatenate([block.folds for block in kept])
    read = time.perf_counter()
    schema = encoder.schema
    loss = asked.loss or "logistic"
    notes = [*schema_notes(schema), *encoder.source.notes]
    if folds is not None and asked.penalty != "none" and asked.alpha == "cv":
        notes += encoder.rule.notes(np.bincount(folds).tolist(), encoder.copies)
    if loss in SIGNS:
        y = (
            labels_of(encoder, y)
            if schema.target_kind in ("category", "boolean") or np.isin(y, (0.0, 1.0)).all()
            else y
        )
        found = np.unique(y)
        if asked.loss is None:
            names = list(map(str, found.tolist()))
            shown = (
                f"{', '.join(names[:-1])} and {names[-1]}"
                if 2 <= len(names) <= 4
                else f"{len(names):,} different labels"
            )
            notes.insert(
                0, f"{asked.target} takes {'the values ' * (len(names) <= 4)}{shown}: fitted by logistic regression"
            )
    check_folds(asked, loss)
    if loss == "poisson" and (y < 0).any():
        raise DataError(
            f"target {asked.target!r} holds {y[y < 0][0]:g}; the poisson loss takes counts, numbers of at least 0",
            where=asked.target,
        )
    record, alpha, rows, curves = fit_rows(asked, loss, X, y, weights, folds, schema)
    record = as_shown(record)
    notes += alias_notes(record)
    done = time.perf_counter()
    chosen = np.linspace(0, len(X) - 1, min(len(X), asked.sample)).astype(int)
    centre = X.mean(axis=0)
    spread = np.sqrt(np.maximum(((X - centre) ** 2).mean(axis=0), 0.0))
    return Fitted(
        record, len(X), str(asked.target), loss, asked.penalty, alpha, notes, {"read": read - began, "solve": done - read},
        None, rows, curves, [], (seen(record, X[chosen]), y[chosen]), scales=dict(zip(record.terms, spread.tolist())),
    )  # fmt: skip


def seen(record: Any, X: np.ndarray) -> np.ndarray:
    """Predictions for pictures: the probability of the last class, or the value."""
    if record.link == "logistic":
        return np.asarray(record.probabilities(X)[:, 1])
    return np.asarray(record.score(X) if record.classes else record.predict(X), dtype=float)
