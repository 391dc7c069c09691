"""The function that ``predict`` computes: every linear model, whatever its kind, is held to the problem that is checked.

A certificate speaks of a problem min Σ loss(Z W) + …; a user reads predictions. So for each row the score that the model
gives must be Z W, its link must be the one of the loss, its classes the labels in the rows, and its answer what link
and score make of each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .stated_claims import Claims, Rows

UNIT = 2.0**-53

LINK_OF_LOSS = {
    "squared": "identity", "huber": "identity", "absolute": "identity", "quantile": "identity",
    "epsilon_insensitive": "identity", "power": "identity", "logistic": "logistic", "softmax": "softmax",
    "poisson": "log", "gamma": "log", "tweedie": "log", "hinge": "sign", "squared_hinge": "sign", "perceptron": "sign",
}  # fmt: skip


def check_linear_predictions(out: Claims, record: Any, X: Rows, loss: str, coefficients: Rows, constants: Rows) -> None:
    """Scores, link and answers of a linear model on its rows.

    ``coefficients`` (columns × outputs) and ``constants`` (one for each output) are those of the problem that the other
    checks speak of, one output for each target or class; the constants are 0 where the problem has none. An offset is
    the user's to add, so it is no part of a model's scores.
    """
    W = np.asarray(coefficients, dtype=float).reshape(X.shape[1], -1)
    b = np.broadcast_to(np.asarray(constants, dtype=float).ravel(), W.shape[1:])
    scores = X @ W + b
    room = _rounding(X, W, b)
    given = getattr(record, "score", None) or getattr(record, "scores", None)
    if given is not None:
        own = np.asarray(given(X), dtype=float).reshape(len(X), -1)
        apart = _largest_excess(own, scores, room)
        held = own.shape == scores.shape and apart <= 1.0
        out.of_model("coef", "scores", apart, held, "largest distance of a row's score, in units of its rounding")
        out.recomputed.add("intercept")
    if not hasattr(record, "link"):
        return
    wanted = LINK_OF_LOSS.get(loss)
    if wanted is None:
        out.of_model("link", record.link, None, record.link in ("identity", "log"), f"the loss {loss!r} is the user's")
        wanted = record.link
    else:
        out.of_model("link", record.link, wanted, record.link == wanted, f"of the loss {loss!r}")
    if record.link == wanted:
        _check_answers(out, record, X, scores, room, wanted)


def check_constants(out: Claims, record: Any, fit_intercept: bool) -> None:
    """A model without an intercept adds nothing to its scores; one with an intercept adds numbers."""
    constants = np.asarray(record.intercept, dtype=float)
    right = np.isfinite(constants).all() and (fit_intercept or not constants.any())
    size = float(np.max(np.abs(constants), initial=0.0))
    out.of_model("intercept", size, None if fit_intercept else 0.0, right)


def check_classes(out: Claims, record: Any, y: Rows) -> None:
    """The classes of the model are the labels of the rows, in their sorted order."""
    labels = np.unique(y).tolist()
    classes = [value.item() if isinstance(value, np.generic) else value for value in record.classes]
    out.of_model("classes", _few(classes), _few(labels), classes == labels, "the labels of the rows, in order")


def _few(labels: list[Any]) -> str:
    return ", ".join(map(str, labels[:6])) + (", …" if len(labels) > 6 else "")


def _rounding(X: Rows, W: Rows, b: Rows) -> Rows:
    """Twice what float64 may lose in a sum of products, in any order: γ = (terms + 1)·2⁻⁵³ of the sum of their sizes."""
    terms = X.shape[1] + 2
    return 2.0 * terms * UNIT * (np.abs(X) @ np.abs(W) + np.abs(b)) + np.finfo(float).tiny


def _largest_excess(own: Rows, wanted: Rows, room: Rows) -> float:
    if own.shape != wanted.shape or not np.isfinite(own).all():
        return np.inf
    return float(np.max(np.abs(own - wanted) / room, initial=0.0))


def _check_answers(out: Claims, record: Any, X: Rows, scores: Rows, room: Rows, link: str) -> None:
    """``predict``, and ``probabilities`` where there are, are what the link makes of the scores."""
    answers = np.asarray(record.predict(X))
    if len(record.classes):
        labels = np.asarray(record.classes)
        if scores.shape[1] == 1:
            index = (scores[:, 0] > 0).astype(int)
            sure = np.abs(scores[:, 0]) > room[:, 0]
        else:
            index = scores.argmax(axis=1)
            sure = scores[np.arange(len(X)), index] - np.sort(scores, axis=1)[:, -2] > 2.0 * room.max(axis=1)
        fits = len(labels) == max(2, scores.shape[1]) and answers.shape == index.shape
        right = fits and bool((answers[sure] == labels[index[sure]]).all())
        out.of_model("predict", "labels", None if fits else "other classes", right, "the class of the score")
        if link in ("logistic", "softmax") and fits:
            _check_probabilities(out, record, X, scores, room)
        return
    if link == "log":
        with np.errstate(over="ignore"):
            wanted, wide = np.exp(scores), np.exp(scores) * (room + 4.0 * UNIT)
    else:
        wanted, wide = scores, room
    shown = answers.astype(float).reshape(len(X), -1)
    beyond = np.isinf(wanted) & (shown == wanted) if shown.shape == wanted.shape else np.zeros(wanted.shape, dtype=bool)
    apart = _largest_excess(np.where(beyond, 0.0, shown) if shown.shape == wanted.shape else shown,
                            np.where(beyond, 0.0, wanted), np.where(beyond, 1.0, wide) + np.finfo(float).tiny)  # fmt: skip
    out.of_model("predict", "values", apart, apart <= 1.0, "distance from the link of the score, in units of rounding")


def _check_probabilities(out: Claims, record: Any, X: Rows, scores: Rows, room: Rows) -> None:
    """Softmax of the scores; of two classes that of (0, s). Its derivative is at most 1, so scores' rounding is its."""
    both = np.column_stack([np.zeros(len(X)), scores]) if scores.shape[1] == 1 else scores
    powers = np.exp(both - both.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    wide = room.max(axis=1, keepdims=True) + 8.0 * UNIT * both.shape[1] + np.zeros(both.shape)
    apart = _largest_excess(np.asarray(record.probabilities(X), dtype=float), wanted, wide)
    out.of_model("probabilities", "values", apart, apart <= 1.0, "distance from the scores', in units of rounding")
