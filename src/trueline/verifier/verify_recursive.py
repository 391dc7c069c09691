"""Recursive least squares: A_t = λI + Σ c·x xᵀ by rank-one updates of its inverse, and the forecaster's bound.

    L ≤ min_u (L_u + λ‖u‖²) + S·ln det(I + XᵀX/λ)

with S = max c·y² where the row itself counts in A before its label is known (Vovk; Azoury and Warmuth), and the largest
c·e² of its own errors otherwise. With forgetting there is no bound.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .learner_replay import COPIES, EPS, spread
from .stated_claims import Check, Claims, Given, Rows, Rule, is_finite, numbers_of
from .verify_comparators import Stream, loss_of_fixed
from .verify_regret import Suffered, check_against, check_fixed, check_status, check_suffered, vectors


class Settings(NamedTuple):
    """What a record of recursive least squares says of itself."""

    ridge: float
    forgetting: float
    forward: bool
    has_intercept: bool


class Run(NamedTuple):
    """What the replay leaves, of each copy: the inverse, the weights, and the sums that the learner keeps."""

    P: Rows
    w: Rows
    loss: Rows
    largest_error2: Rows


def settings_of(record: Any) -> Settings:
    """From the record's numbers; only legal ones are replayed."""
    forgetting, forward = float(record.numbers[0]), bool(record.numbers[1] > 0.0)
    if not (is_finite(record.ridge) and record.ridge > 0.0 and 0.0 < forgetting <= 1.0):
        raise ValueError("a ridge above 0 and a forgetting factor in (0, 1]")
    return Settings(float(record.ridge), forgetting, forward, bool(record.fit_intercept))


def replayed(settings: Settings, Z: Rows, y: Rows, c: Rows) -> Run:
    """All rows in turn; copies get errors of the size of rounding in every round."""
    d = Z.shape[1]
    start = np.full(d, 1.0 / settings.ridge)
    start[0] *= settings.has_intercept
    P, w = np.tile(np.diag(start), (COPIES, 1, 1)), np.zeros((COPIES, d))
    loss, largest = np.zeros(COPIES), np.zeros(COPIES)
    errors = np.random.default_rng(0).uniform(-1.0, 1.0, size=(8, COPIES, d, d + 1))
    errors[:, 0] = 0.0
    forget = settings.forgetting
    for i, x in enumerate(Z):
        noise = errors[i % 8]
        v = P @ x + (d + 4) * EPS * noise[..., 0] * (np.abs(P) @ np.abs(x))
        stretch, score = v @ x, w @ x
        prediction = score / (1.0 + c[i] * stretch / forget) if settings.forward else score
        error2 = c[i] * (prediction - y[i]) ** 2
        loss, largest = loss + error2, np.maximum(largest, error2)
        gain = c[i] / (forget + c[i] * stretch)
        step = (gain * (y[i] - score))[:, None] * v
        w = w + step + 4.0 * EPS * noise[:, 0, :d] * (np.abs(w) + np.abs(step))
        change = gain[:, None, None] * v[:, :, None] * v[:, None, :]
        P = (P - change + EPS * noise[..., 1:] * (np.abs(P) + 4.0 * np.abs(change))) / forget
    return Run(P, w, loss, largest)


def check_recursive(out: Claims, given: Given) -> None:
    """The record's weights and inverse are the replay's; then loss, best fixed weights and bound."""
    record, settings, y = given.record, settings_of(given.record), numbers_of(given.y)
    Z = np.insert(given.X, 0, float(settings.has_intercept), axis=1)
    run = replayed(settings, Z, y, given.c)
    _check_state(out, record, settings, run, Z, given.X)
    loss = Suffered(float(run.loss[0]), float(spread(run.loss)) + 16.0 * len(y) * EPS * float(run.loss[0]))
    check_suffered(out, len(y), loss)
    out.absent("best_member_loss")
    stream = Stream(Rule(has_intercept=settings.has_intercept), Z, y, given.c)
    check_fixed(out, [stream], [np.zeros(Z.shape[1])])
    check_against(out)
    held = _check_bound(out, settings, run, stream)
    out.recomputed |= {"w", "P"}
    out.assumption("nothing is forgotten", settings.forgetting == 1.0, settings.forgetting)
    check_status(out, held and settings.forgetting == 1.0 and loss.value <= out.proof.bound + loss.room)


def _check_state(out: Claims, record: Any, settings: Settings, run: Run, Z: Rows, X: Rows) -> None:
    """Weights, the inverse, and the predictions that both make."""
    steps = max(1.0, len(Z) ** 0.5)
    for name, own, values, room in (
        ("weights", record.w, run.w, spread(run.w)),
        ("inverse of the moments", record.P, run.P, _spread_of_inverse(run.P)),
    ):
        room = room + 8.0 * steps * EPS * np.abs(values[0]).max(initial=0.0) + np.finfo(float).tiny
        same = np.shape(own) == values[0].shape and bool(np.isfinite(own).all())
        apart = float(np.max(np.abs(own - values[0]) / room, initial=0.0)) if same else math.inf
        out.append(
            Check(name, "the record's", apart, apart <= 1.0, "largest distance from the replay's, in units of rounding")
        )
    # The state is the replay's; what it predicts is then one product away.
    scores, terms = Z @ record.w, 4.0 * (Z.shape[1] + 4) * EPS
    room = terms * (np.abs(Z) @ np.abs(record.w))
    if settings.forward:
        stretch = 1.0 + np.einsum("ij,jk,ik->i", Z, record.P, Z) / settings.forgetting
        sizes = 2.0 * terms * np.abs(record.P) + np.abs(
            record.P - record.P.T
        )  # which half is read is the learner's affair
        lost = np.einsum("ij,jk,ik->i", np.abs(Z), sizes, np.abs(Z)) / settings.forgetting
        least = np.maximum(np.abs(stretch) - lost, 0.0)
        scores = scores / stretch
        room = (room + np.abs(scores) * (lost + terms)) / least
    room = room + np.finfo(float).tiny
    answers = np.asarray(record.predict(X), dtype=float)
    apart = float(np.max(np.abs(answers - scores) / room)) if answers.shape == scores.shape else math.inf
    out.append(
        Check("predictions", "the record's", apart, apart <= 1.0, "largest distance on the rows, in units of rounding")
    )


def _spread_of_inverse(P: Rows) -> Rows:
    """How far rounding may move each entry: along whole rows and columns; of all entries alike once no digit is left."""
    wide = spread(P)
    root, size = np.sqrt(np.diagonal(wide)), np.sqrt(np.abs(np.diagonal(P[0])))
    wide = np.maximum(wide, np.outer(root, root))
    used = np.outer(size, size)
    lost = float(np.max(wide / used, initial=0.0, where=used > 0.0))
    return np.maximum(wide, lost * used) if lost > 1.0 else wide


def _check_bound(out: Claims, settings: Settings, run: Run, stream: Stream) -> bool:
    """The bound at the stated comparator; whether a proof may rest on it."""
    stated = vectors(out, "bound_comparator", 1, stream.Z.shape[1])
    if out.proof.bound == math.inf:
        out.holds("bound", None, True, "none is known")
        return False
    if stated is None or not is_finite(out.proof.bound):
        out.holds("bound", None, False, "the comparator that it is taken at is not stated")
        return False
    u = stated[0]
    fixed = loss_of_fixed(stream, u)
    scale = float((stream.shares * stream.t**2).max()) if settings.forward else run.largest_error2
    rows = stream.Z * np.sqrt(stream.shares / settings.ridge)[:, None]
    log_det = float(np.log1p(np.linalg.svd(rows, compute_uv=False) ** 2).sum())
    bounds = fixed.loss + settings.ridge * float(u @ u) + scale * log_det * np.ones(COPIES)
    rounding = (1e-11 + 16.0 * len(stream.t) * EPS) * abs(float(bounds[0]))
    room = 2.0 * fixed.room + float(spread(bounds)) + rounding
    held = out.proof.bound >= float(bounds[0]) - room
    out.holds("bound", float(bounds[0]), held and (settings.has_intercept or u[0] == 0.0))
    return held
