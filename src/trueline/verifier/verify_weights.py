"""The weights that a learner ended with, and what it predicts: those of the replay, or the certificate speaks of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .learner_replay import EPS, LOG_LINK, Replay, Run, spread
from .stated_claims import Check, Claims, Rows, Rule

TRIALS = 100  # replays in search of the sides that a learner took at kinks


def matching_run(record: Any, rule: Rule, X: Rows, targets: Rows, c: Rows, *, freeze: bool) -> Run:
    """The replay; where scores lie within rounding of a kink, the one whose sides lead to the record's weights.

    The replay decides such a row one way, the learner may have decided the other: both are tried, the first such row
    first, up to ``TRIALS`` replays.
    """
    first = Replay(rule, X, targets, c, freeze=freeze).run()
    if len(record.heads) != len(targets):
        return first
    waiting: list[tuple[frozenset[Any], Run]] = [(frozenset(), first)]
    tried = 0
    while waiting:
        flips, run = waiting.pop(0)
        if _weights_apart(record, rule, run) <= 1.0:
            return run
        decided = max(flips, default=(-1, -1))
        for spot in run.unsure:
            if spot > decided and tried < TRIALS:
                tried += 1
                more = flips | {spot}
                waiting.append((more, Replay(rule, X, targets, c, freeze=freeze, flips=more).run()))
    return first


def _ends(rule: Rule, run: Run) -> tuple[Rows, Rows]:
    """The weights that predict, of every copy, and the room for an honest learner's.

    A mean is summed by the steps, each times the weight of all rows before: its rounding is that of the whole path.
    """
    rows = run.scores.shape[-1]
    values = run.mean_weights if rule.average else run.weights
    room = spread(values) + 8.0 * EPS * np.abs(values[0]) * max(1.0, rows**0.5) + np.finfo(float).tiny
    return values, room + (4.0 * rows * EPS * run.path if rule.average else 0.0)


def _weights_apart(record: Any, rule: Rule, run: Run) -> float:
    """The largest distance of the record's weights from the replay's, in units of their room."""
    worst = 0.0
    values, room = _ends(rule, run)
    for k in range(values.shape[1]):
        own = np.asarray(record.weights(k), dtype=float)
        if own.shape != values[0, k].shape or not np.isfinite(own).all():
            return np.inf
        worst = max(worst, float(np.max(np.abs(own - values[0, k]) / room[k], initial=0.0)))
    return worst


def check_weights(out: Claims, record: Any, rule: Rule, run: Run, X: Rows) -> None:
    """The record's weights are those that the replay ends with, or their mean, and it predicts what they predict."""
    name = "mean weights" if rule.average else "weights"
    apart = _weights_apart(record, rule, run) if len(record.heads) == run.weights.shape[1] else np.inf
    out.append(
        Check(name, "the record's", apart, apart <= 1.0, "largest distance from the replay's, in units of rounding")
    )
    values, wide = _ends(rule, run)
    Z = np.insert(X, 0, float(rule.has_intercept), axis=1)
    scores = values[0] @ Z.T
    room = wide @ np.abs(Z).T + (Z.shape[1] + 4) * EPS * (np.abs(values[0]) @ np.abs(Z).T)
    check_predictions(out, record, rule, X, scores, room)


def check_predictions(out: Claims, record: Any, rule: Rule, X: Rows, scores: Rows, room: Rows) -> None:
    """``predict`` on the rows is the mean that the loss makes of each score; of several classes the shares of them."""
    answers = np.asarray(record.predict(X), dtype=float)
    low, middle, high = (means_of(rule, record, scores + side * room) for side in (-1.0, 0.0, 1.0))
    apart = np.abs(high - low) + 16.0 * EPS * np.abs(middle) + np.finfo(float).tiny
    found, wide = (part[0] if len(part) == 1 else part.T for part in (middle, apart))
    if len(middle) > 1 and rule.loss == "logistic":
        total = np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
        found, wide = found / total, (wide + found / total * wide.sum(axis=1, keepdims=True)) / total
    worst = np.inf
    if answers.shape == found.shape and np.isfinite(answers).all():
        worst = float(np.max(np.abs(answers - found) / (wide + 16.0 * EPS * np.abs(found)), initial=0.0))
    note = "largest distance on the rows, in units of rounding"
    out.append(Check("predictions", "the record's", worst, worst <= 1.0, note))


def means_of(rule: Rule, record: Any, scores: Rows) -> Rows:
    """What a score predicts: a probability, a mean by its logarithm, or itself."""
    if rule.user_loss is not None:
        mean = getattr(rule.user_loss, "mean", None)
        return scores if mean is None else np.vectorize(mean, otypes=[float])(scores)
    if rule.loss == "logistic":
        return np.exp(-np.logaddexp(0.0, -scores))
    return np.exp(scores) if rule.loss in LOG_LINK else scores
