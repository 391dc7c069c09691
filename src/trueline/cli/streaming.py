"""What ``stream`` computes: rows from any source into a learner, a progress row at doubling counts.

Columns keep the places in which they first appeared, and a block is cut at the row where a new one appears: so what
is learned does not depend on how the rows were cut into blocks or files, and a resumed run is the run that never
stopped, bit for bit.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from . import learners
from .blocks import ahead, table_blocks, text_blocks, text_form
from .console import progress
from .counting import features_of, label_of, losses_of, plain, row_of
from .state import Asked, State

MOST_LABELS = 20  # different numbers that may still be labels


Shown = Callable[[dict[str, Any]], None]
# Predictions, the labels that columns of them belong to, and whether the rows were then learned.
Predicted = Callable[[np.ndarray, list[Any], bool], None]


def stream(asked: Asked, state: State | None, show: Shown, predicted: Predicted | None) -> State:
    """Learn the source; Ctrl-C ends it with everything learned so far."""
    if asked.epochs < 1:
        raise UsageError(f"--epochs is a whole number of at least 1, not {asked.epochs}", where="epochs")
    learners.known(asked.learner)
    passes = asked.epochs if state is None else int(asked.epochs == state.epochs == 1)
    try:
        for epoch in range(asked.epochs):
            for reached in learned(asked, state, show, predicted if epoch == asked.epochs - 1 else None):
                state = reached
    except KeyboardInterrupt:
        if state is None or not state.record.examples:
            raise
        state.interrupted = True
    assert state is not None
    state.epochs = passes
    return state


def learned(asked: Asked, state: State | None, show: Shown, predicted: Predicted | None) -> Iterator[State]:
    """One pass; the state after every block."""
    form = asked.form or (state.form if state is not None else None) or text_form(asked.source)
    reader = text_blocks(asked, state, form) if form else table_blocks(asked, state)
    blocks = ahead(reader, lambda: learners.awaken(asked.learner))
    if asked.progress:
        blocks = progress(blocks, "learning", lambda block: len(block[2]))
    unlabelled: list[Any] = []  # what came before the first label, which says what there is to learn
    for block in blocks:
        names, X, y, weights, schema, kind, levels = block
        if state is None and form and not np.isfinite(y).any():
            unlabelled += [block] if predicted is not None else []
            continue
        if state is None:
            plain = [] if schema is None else [c.name for c in schema.columns if c.kind != "category"]
            state = begun(asked, plain, y, kind, levels, form)
            for named, rows, nothing, share, *_ in unlabelled:
                learn_block(state, named, rows, nothing, share, kind, levels, show, predicted)
        with uninterrupted():
            state.schema = schema
            learn_block(state, names, X, y, weights, kind, levels, show, predicted)
            yield state
    if state is None:
        hint = "; what touches the bar is a tag: write '1 |', not '1|'" if form == "vw" else ""
        raise DataError(f"no line of {asked.source} has a label, so there is nothing to learn{hint}", where="target")


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C takes effect at the end: a block is learned whole or not at all, and nothing of it is lost."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def begun(asked: Asked, names: list[str], y: np.ndarray, kind: str, levels: list[str], form: str | None) -> State:
    """A fresh learner for what the first block shows; ``names`` are the columns that every row has."""
    labels: list[Any] = []
    signs = asked.loss in ("logistic", "hinge", "squared_hinge", "perceptron") or asked.learner in (
        "perceptron",
        "winnow",
    )
    if asked.classes is not None:
        labels = list(asked.classes) if kind == "category" else [_label(label) for label in asked.classes]
    elif kind == "category":
        labels = sorted(levels)
    elif kind == "boolean" or signs or (asked.loss is None and learners.known(asked.learner).classes is not None):
        found = np.unique(y[np.isfinite(y)])
        if kind == "boolean" or np.isin(found, (0.0, 1.0)).all():
            labels = [0, 1]
        elif np.isin(found, (-1.0, 1.0)).all():
            labels = [-1, 1]
        elif signs and len(found) <= MOST_LABELS:
            labels = [_number(v) for v in found.tolist()]
        elif signs:
            raise DataError(
                f"the target has {len(found)} different values in the first rows; a classifier needs two labels or a few",
                where="target",
            )
    if labels and len(labels) < 2:
        raise DataError(
            f"the first rows have the one label {labels[0]!r}; name them all with --classes a,b", where="target"
        )
    record = learners.make(
        asked.learner, asked.loss, asked.rate, len(labels), list(names), asked.certificate, asked.intercept
    )
    return State(record, list(names), labels, target=asked.target, learner=asked.learner, form=form)


def _label(text: str) -> Any:
    try:
        return _number(text)
    except ValueError:
        raise UsageError(
            f"the target holds numbers, and --classes names {text!r}; name numbers", where="classes"
        ) from None


def _number(value: Any) -> Any:
    value = float(value)
    return int(value) if value.is_integer() else value


def coded(state: State, y: np.ndarray, kind: str, levels: list[str]) -> np.ndarray:
    """Targets as the learner takes them: numbers, ±1, or the number of the class."""
    if not state.labels:
        return y
    values = [levels[int(v)] for v in y] if kind == "category" else [_number(v) for v in y.tolist()]
    place = {label: k for k, label in enumerate(state.labels)}
    codes = np.array([place.get(value, -1) for value in values])
    if (codes < 0).any():
        shown = ", ".join(map(str, state.labels[:6]))
        raise DataError(
            f"the label {values[int(np.argmax(codes < 0))]!r} was not among the first rows' ({shown}); name all with --classes, or choose --loss squared for numbers",
            where="target",
        )
    return 2.0 * codes - 1.0 if len(state.labels) == 2 else codes.astype(float)


def learn_block(
    state: State,
    names: list[str],
    X: Any,
    y: np.ndarray,
    weights: Any,
    kind: str,
    levels: list[str],
    show: Shown,
    predicted: Predicted | None,
) -> None:
    """Learn a block, cut where new columns first appear, each in its place of first appearance.

    Rows without a label (of Vowpal Wabbit's text) are predicted in their turn, where somebody wants the predictions.
    """
    known = np.isfinite(y)
    if predicted is None and not known.all():
        X, y, weights = X[known], y[known], None if weights is None else weights[known]
    elif not known.all():
        cuts = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), len(known)]
        for a, b in itertools.pairwise(cuts):
            share = None if weights is None else weights[a:b]
            if known[a] or predicted is None:
                learn_block(state, names, X[a:b], y[a:b], share, kind, levels, show, predicted)
            else:
                _widen(state, names)
                predicted(np.asarray(state.record.predict(X[a:b])), state.labels, False)
        return
    targets = coded(state, y, kind, levels)
    sparse = hasattr(X, "indptr")
    if names != state.terms:
        place = {name: k for k, name in enumerate(state.terms)}
        fresh = [k for k, name in enumerate(names) if name not in place]
        if fresh and not sparse:
            first = [int(np.argmax(X[:, k] != 0.0)) if X[:, k].any() else len(X) for k in fresh]
            start = 0
            for at in sorted(set(first)):
                if at > start:
                    _learn(
                        state,
                        _ordered(X[start:at], names, state.terms),
                        targets[start:at],
                        None if weights is None else weights[start:at],
                        show,
                        predicted,
                    )
                    start = at
                state.terms += [names[k] for k, when in zip(fresh, first) if when == at]
                learners.widened(state.record, state.terms)
            X, targets, weights = X[start:], targets[start:], None if weights is None else weights[start:]
        elif fresh:
            _widen(state, names)
        if not sparse:
            X = _ordered(X, names, state.terms)
    if len(targets):
        _learn(state, X, targets, weights, show, predicted)


def _widen(state: State, names: list[str]) -> None:
    """Take in the columns of sparse text, which numbers them in the order of their appearance already."""
    if names != state.terms:
        state.terms = list(names)
        learners.widened(state.record, state.terms)


def _ordered(X: np.ndarray, names: list[str], terms: list[str]) -> np.ndarray:
    from .models import picked, places

    return X if names == terms else np.ascontiguousarray(picked(X, places(names, terms)))


def _learn(state: State, X: Any, y: np.ndarray, weights: Any, show: Shown, predicted: Predicted | None) -> None:
    record = state.record
    before, done = record.examples, len(record.progress)
    made = record.learn(X, y, weights)
    count_loss(state, made, y, weights, before, X, show, done)
    if predicted is not None:
        predicted(np.asarray(made), state.labels, True)


def count_loss(
    state: State, made: np.ndarray, y: np.ndarray, weights: Any, before: int, X: Any, show: Shown, done: int
) -> None:
    """Add to the sums, and show the rows that became due."""
    record = state.record
    c = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    losses = c * losses_of(state, made, y)
    weight0 = state.weight
    running = np.cumsum(c) if weights is not None else None
    for line in record.progress[done:]:
        at = min(len(y) - 1, max(0, int(line["examples"]) - before - 1))
        row = row_of(state, line, X, at, weight0 + (float(running[at]) if running is not None else at + 1.0))
        row |= {"label": label_of(state, y[at]), "prediction": plain(made[at])}
        state.rows.append(row)
        show(row)
    state.loss, state.weight = added(state.loss, losses), added(state.weight, c)
    at = len(y) - 1
    state.last = {"label": label_of(state, y[at]), "prediction": plain(made[at]), "features": features_of(X, at)}


def added(total: float, values: np.ndarray) -> float:
    """A sum taken up one by one, so that its last bit does not tell where a stream was cut."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1])
