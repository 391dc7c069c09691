"""Mixtures: one learner at many rates, replayed here; and learners that only their own code can replay.

A mixture of rates predicts the weighted mean of its members' scores, weights ∝ exp(−η·L_k) with η = ln K/Δ, where Δ adds
up what the mixture loses beyond the mix loss. Its loss is at most L_k + 2Δ for every member k (Hedge; Cesa-Bianchi and
Lugosi), so every member's own theorem bounds it.

The default learner, and geometries of a user's own, are learned again by their own code. That is printed. Their state,
predictions and losses must then be the record's, to what errors of rounding in the rows make of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .learner_bounds import Bound, Line
from .learner_replay import COPIES, EPS, LINKED, SAFETY, Replay, Run, losses_at, spread
from .stated_claims import Check, Claims, Given, Rows, Rule, classes_of, is_finite, numbers_of, rule_of, targets_of
from .verify_comparators import Stream, loss_of_fixed, near_the_start
from .verify_regret import (
    RELATIVE,
    Suffered,
    check_against,
    check_fixed,
    check_kappa,
    check_status,
    check_suffered,
    check_uncertified,
    vectors,
)
from .verify_weights import check_predictions

OWN_CODE = "replayed by the learner's own code"
# Fields that other checks look at.
ELSEWHERE = (
    "status", "assumptions", "examples", "loss", "regret", "regret_to", "best_fixed_loss", "best_fixed_lower_bound",
)  # fmt: skip


class Mixed(NamedTuple):
    """A mixture's replay for one class (or for numbers): each with a leading axis of copies."""

    losses: Rows  # of the members, their scores clipped
    gap: Rows  # Δ
    loss: Rows
    low: float  # the range of labels
    high: float


def mix_rates(rule: Rule, scores: Rows, t: Rows, c: Rows, clips: bool) -> Mixed:
    """Hedge over the members' scores (copies × members × rows)."""
    copies, count, _ = scores.shape
    losses, gap, loss = np.zeros((copies, count)), np.zeros(copies), np.zeros(copies)
    low, high = math.inf, -math.inf
    noise = np.random.default_rng(1).uniform(-1.0, 1.0, size=(16, copies, count))
    noise[:, 0] = 0.0
    for i, target in enumerate(t):
        eta = np.divide(math.log(count), gap, out=np.full(copies, math.inf), where=gap > 0.0)
        shares = posterior(losses, eta) * (1.0 + 4.0 * EPS * noise[i % 16])
        now = np.clip(scores[..., i], low, high) if clips and low <= high else scores[..., i]
        steps = c[i] * losses_at(rule, now, target)[0]
        suffered = c[i] * losses_at(rule, (shares * now).sum(axis=1), target)[0]
        gap = gap + np.maximum(0.0, suffered - mix_loss(losses, steps, eta))
        loss, losses = loss + suffered, losses + steps
        low, high = min(low, float(target)), max(high, float(target))
    return Mixed(losses, gap, loss, low, high)


def posterior(losses: Rows, eta: Rows) -> Rows:
    """Weights ∝ exp(−η·loss); the leaders alone, to a rounding of 1e-12, where η is infinite."""
    least = losses.min(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        raw = np.where(
            np.isinf(eta)[:, None], losses <= least * (1.0 + 1e-12), np.exp(-eta[:, None] * (losses - least))
        )
    return np.asarray(raw / raw.sum(axis=1, keepdims=True))


def mix_loss(losses: Rows, steps: Rows, eta: Rows) -> Rows:
    """M_t(η) − M_{t−1}(η), M(η) = −(1/η)·ln mean exp(−η·L)."""
    before, after = losses.min(axis=1), (losses + steps).min(axis=1)
    with np.errstate(all="ignore"):
        old = np.log(np.exp(-eta[:, None] * (losses - before[:, None])).sum(axis=1))
        new = np.log(np.exp(-eta[:, None] * (losses + steps - after[:, None])).sum(axis=1))
        return np.where(np.isinf(eta), after - before, after - before - (new - old) / eta)


def check_rate_mixture(out: Claims, given: Given, replay: Any) -> None:
    """Members, their weights in the mixture, its loss, and the bound through the best member's theorem."""
    record, rule = given.record, rule_of(given.record)
    late = any(member.late for member in record.members)
    if rule.geometry not in ("additive", "normalised", "implicit", "adaptive", *LINKED) or (
        rule.geometry in LINKED and late
    ):
        check_by_own_code(out, given, replay)
        return
    classes = len(record.members[0].heads)
    targets = targets_of(record, given.y, classes)
    run = Replay(rule, given.X, targets, given.c).run()
    members = len(rule.rates)
    scores = run.scores.reshape(COPIES, members, classes, -1)
    clips = getattr(record.loss, "targets", "") == "real"
    mixed = [mix_rates(rule, scores[:, :, h], targets[h], given.c, clips) for h in range(classes)]
    _check_members(out, record, run, mixed, classes)
    _check_mixed_predictions(out, given, rule, run, mixed, classes, clips)
    totals = rule.unit * np.sum([one.loss for one in mixed], axis=0)
    rows = len(given.y)
    loss = Suffered(float(totals[0]), float(spread(totals)) + 16.0 * rows * EPS * abs(float(totals[0])))
    if not record.members[0].certified:
        check_uncertified(out, rows, loss)
        return
    Z = np.insert(given.X, 0, float(rule.has_intercept), axis=1)
    lines = [Line(rule, run, Z, targets, k) for k in range(members * classes)]
    check_suffered(out, rows, loss)
    check_fixed(out, [Stream(rule, Z, t, given.c) for t in targets], [run.start] * classes)
    _check_best_member(out, rule, mixed)
    check_against(out)
    held = _check_mixed_bound(out, rule, lines, mixed, classes)
    out.holds(
        "loss within bound",
        loss.value,
        not out.proof.proven or loss.value <= out.proof.bound + loss.room,
        field="bound",
    )
    check_kappa(out, lines)
    check_status(out, held and loss.value <= out.proof.bound + loss.room)


def _check_members(out: Claims, record: Any, run: Run, mixed: list[Mixed], classes: int) -> None:
    """Every member's weights, losses and the mixture's sums are the replay's."""
    steps = max(1.0, run.scores.shape[-1] ** 0.5)
    room = np.maximum(spread(run.weights), run.hidden)  # what they predict is compared beside it
    room = room + 8.0 * steps * EPS * np.abs(run.weights[0]) + np.finfo(float).tiny
    worst = 0.0
    for k, member in enumerate(record.members):
        for h in range(classes):
            at = k * classes + h
            own = np.asarray(member.weights(h), dtype=float)
            same = own.shape == room[at].shape and bool(np.isfinite(own).all())
            worst = max(worst, float(np.max(np.abs(own - run.weights[0, at]) / room[at])) if same else math.inf)
    out.append(Check("weights of the members", "the record's", worst, worst <= 1.0, "in units of rounding"))
    apart = 0.0
    for h, one in enumerate(mixed):
        own = np.append(record.losses[h], [record.totals[h][0], record.totals[h][1]])
        found = np.column_stack([one.losses, one.gap, one.loss])
        size = (
            spread(found)
            + 16.0 * steps**2 * EPS * np.abs(found[0])
            + 64.0 * EPS * abs(float(one.loss[0]))
            + np.finfo(float).tiny
        )
        with np.errstate(all="ignore"):
            off = np.abs(own - found[0]) / size
        apart = max(apart, float(np.max(np.where(np.isnan(off), math.inf, off))))
        ends = record.totals[h][2] == one.low and record.totals[h][3] == one.high
        apart = apart if ends else math.inf
    alive = np.asarray(record.dead, dtype=bool) == run.dead.reshape(-1, classes).any(axis=1)
    out.append(
        Check(
            "losses of the members", "the record's", apart, apart <= 1.0 and bool(alive.all()), "in units of rounding"
        )
    )


def _check_mixed_predictions(
    out: Claims, given: Given, rule: Rule, run: Run, mixed: list[Mixed], classes: int, clips: bool
) -> None:
    Z = np.insert(given.X, 0, float(rule.has_intercept), axis=1)
    members = (run.weights @ Z.T).reshape(COPIES, -1, classes, len(Z))
    found, room = [], []
    for h, one in enumerate(mixed):
        scores = np.clip(members[:, :, h], one.low, one.high) if clips else members[:, :, h]
        eta = np.divide(math.log(scores.shape[1]), one.gap, out=np.full(COPIES, math.inf), where=one.gap > 0.0)
        shares = posterior(one.losses, eta)
        answers = (shares[:, :, None] * scores).sum(axis=1)
        sizes = (shares[0][:, None] * (np.abs(run.weights[0]) @ np.abs(Z).T).reshape(-1, classes, len(Z))[:, h]).sum(
            axis=0
        )
        found.append(answers[0])
        room.append(spread(answers) + 16.0 * EPS * (Z.shape[1] + scores.shape[1]) * (sizes + np.abs(answers[0])))
    check_predictions(out, given.record, rule, given.X, np.array(found), np.array(room))


def _check_best_member(out: Claims, rule: Rule, mixed: list[Mixed]) -> None:
    """The loss of the best member: one for all classes, or the best of each."""
    if out.proof.best_member_loss is None:
        out.covered.add("best_member_loss")
        return
    together = rule.unit * np.sum([one.losses for one in mixed], axis=0)
    apart = rule.unit * sum(one.losses.min(axis=1) for one in mixed)
    found = together.min(axis=1)
    room = float(spread(found)) + 1e-12 * abs(float(found[0]))
    claimed = out.proof.best_member_loss
    held = is_finite(claimed) and any(abs(claimed - float(value[0])) <= room for value in (found, np.asarray(apart)))
    out.holds("best_member_loss", float(found[0]), held)


def _check_mixed_bound(out: Claims, rule: Rule, lines: list[Line], mixed: list[Mixed], classes: int) -> bool:
    """The bound is no less than the least over members of their theorem at the comparator, what clipping added, and 2Δ."""
    proof = out.proof
    stated = vectors(out, "bound_comparator", 1, lines[0].stream.Z.shape[1])
    if not is_finite(proof.bound):
        out.holds("bound", None, proof.bound == math.inf, "none is known")
        return False
    total, room = 0.0, 0.0
    for h, one in enumerate(mixed):
        least = _least_member_bound(rule, lines[h::classes], one, stated if classes == 1 else None)
        total, room = total + least.value, room + least.room
    held = proof.bound >= total - room - RELATIVE * abs(total)
    out.holds("bound", total, held, "the best member's theorem, and 2Δ")
    return held


def _least_member_bound(rule: Rule, lines: list[Line], one: Mixed, stated: list[Rows] | None) -> Bound:
    gap = 2.0 * rule.unit * one.gap
    found = list[Bound]()
    sums = rule.unit * one.losses + gap[:, None]  # L ≤ L_k + 2Δ of every member, whatever became of it
    wide = spread(sums) + 1e-11 * np.abs(sums[0])
    found += [Bound(float(value), float(room)) for value, room in zip(sums[0], wide, strict=True)]
    if rule.geometry == "normalised":  # its theorem is about weighted losses, which the mixture does not suffer
        return min(found)
    alive = [k for k, line in enumerate(lines) if not line.run.dead[line.index]]
    trials = [*(stated or []), lines[0].run.start]
    for line in [lines[k] for k in alive] if stated is None else []:
        if rule.geometry in LINKED:
            trials.append(near_the_start(line.stream, line.run.start, rule.batch / line.rate))
        else:
            trials += line.short_comparators(trials[-1])
    fixed = [loss_of_fixed(lines[0].stream, u) for u in trials]  # of every rate: they met the same rows
    for k in alive:
        own = lines[k].run.step_losses[0, lines[k].index]
        clipped = rule.unit * max(0.0, float(one.losses[0, k] - own))
        over = float(gap[0]) + clipped
        room = float(spread(gap)) + rule.unit * float(spread(one.losses)[k]) + 1e-11 * over
        found += [
            Bound(bound.value + over, bound.room + room)
            for u, lost in zip(trials, fixed, strict=True)
            for bound in lines[k].bounds(u, lost)
        ]
    return min(found)


# Learners that only their own code can replay.


def check_by_own_code(out: Claims, given: Given, replay: Any) -> None:
    """The record's arrays, predictions and certificate are those of the learner's own code over the same rows."""
    record = given.record
    targets = coded(record, given.y)
    if replay is not None:
        before, learner = replay(given.X, targets, given.c)
        close = None
    else:
        before, learner = _learned(record, given.X, targets, given.c)
        close = _learned(record, *_jittered(given.X, targets, given.c, record))[1]
    _check_state(out, record, learner, close)
    _check_answers(out, record, learner, close, given.X)
    own = learner.certificate()
    loss = _recomputed_loss(record, np.asarray(before, dtype=float), given, targets)
    if loss is None:
        loss = float(own.loss) if hasattr(own, "loss") else math.nan
    _check_same(out, own, close.certificate() if close is not None else None, loss, len(given.y))
    if hasattr(out.proof, "best_fixed_loss"):
        _check_fixed_of_own(out, given, record)
        check_against(out)


def coded(record: Any, y: Rows) -> Rows:
    """Targets as the record's ``learn`` takes them: numbers, −1 and +1, or the number of a class."""
    task = getattr(record, "task", "")
    sign = getattr(getattr(record, "loss", None), "targets", "") == "sign"
    if task == "regression" or (not task and not sign):
        return numbers_of(y)
    heads = len(getattr(record, "members", [record])[0].heads) if sign else 0
    count = record.class_count if task else max(2, heads)
    index = classes_of(record, y, count)
    return np.where(index == 1, 1.0, -1.0) if count == 2 else index.astype(float)


def _learned(record: Any, X: Rows, targets: Rows, c: Rows) -> tuple[Rows, Any]:
    learner = record.fresh()
    before = learner.learn(X, targets, c)
    if getattr(record, "hindsight", None) is not None and hasattr(learner, "look_back"):
        learner.look_back(X, targets, c)
    return before, learner


def _jittered(X: Rows, targets: Rows, c: Rows, record: Any) -> tuple[Rows, Rows, Rows]:
    """The rows with an error of rounding in every number, as another processor's exp and log would bring about."""
    rng = np.random.default_rng(0)
    moved = X * (1.0 + 2.0 * EPS * rng.choice([-1.0, 1.0], size=X.shape))
    if getattr(record, "task", "") == "regression":
        targets = targets * (1.0 + 2.0 * EPS * rng.choice([-1.0, 1.0], size=targets.shape))
    return moved, targets, c


def _apart(own: Any, found: Any, close: Any) -> float:
    """The largest distance of two arrays in units of what rounding does to them."""
    own, found = np.asarray(own, dtype=float), np.asarray(found, dtype=float)
    if own.shape != found.shape or (np.isnan(own) != np.isnan(found)).any():
        return math.inf
    moved = (
        np.zeros(found.shape)
        if close is None or np.shape(close) != found.shape
        else np.abs(np.asarray(close, dtype=float) - found)
    )
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(found), initial=0.0, where=np.isfinite(found))
        room = (
            SAFETY * np.where(np.isfinite(moved), moved, 0.0)
            + 64.0 * EPS * (np.abs(found) + largest)
            + np.finfo(float).tiny
        )
        off = np.where((own == found) | np.isnan(found), 0.0, np.abs(own - found) / room)
    return float(np.max(off, initial=0.0))


def _check_state(out: Claims, record: Any, learner: Any, close: Any) -> None:
    """Every array that the learner's state has, but for comparators of a second pass, which the certificate states."""
    own, found = (one.to_state()[0] for one in (record, learner))
    beside = {} if close is None else close.to_state()[0]
    names = [name for name in found if not name.startswith(("hindsight", "kept"))]
    lacking = [name for name in own if name not in found and not name.startswith(("hindsight", "kept"))]
    for name in names:
        apart = _apart(own.get(name, math.nan), found[name], beside.get(name))
        if not apart <= 1.0:
            lacking.append(name)
    out.recomputed |= {*names, *lacking}
    said = f"differs in {lacking[0]}" if lacking else "the record's"
    out.append(Check("state", "the record's", said, not lacking, OWN_CODE))


def _check_answers(out: Claims, record: Any, learner: Any, close: Any, X: Rows) -> None:
    beside = None if close is None else close.predict(X)
    apart = _apart(record.predict(X), learner.predict(X), beside)
    out.append(Check("predictions", "the record's", apart, apart <= 1.0, OWN_CODE))


def _recomputed_loss(record: Any, before: Rows, given: Given, targets: Rows) -> float | None:
    """The loss of the predictions before each update; None where they do not show it: each class's own loss."""
    task, c = getattr(record, "task", ""), given.c
    if task == "regression":
        return float(c @ (given.y.astype(float) - before) ** 2)
    if task == "binary":
        return float(-c @ np.log(np.where(targets > 0, before, 1.0 - before)))
    if task == "multiclass":
        return float(-c @ np.log(before[np.arange(len(before)), targets.astype(int)]))
    return None


def _check_same(out: Claims, own: Any, close: Any, loss: float, rows: int) -> None:
    """The certificate's numbers are those that the replayed learner states; loss and examples are recomputed."""
    proof = out.proof
    same = type(proof) is type(own)
    out.append(Check("kind of certificate", proof.kind, own.kind, same, OWN_CODE))
    out.holds("examples", own.examples, proof.examples == own.examples)
    if hasattr(proof, "loss"):
        moved = 0.0 if close is None else abs(close.loss - own.loss)
        out.equals("loss", loss, SAFETY * moved + 64.0 * rows * EPS * abs(loss), OWN_CODE)
    for name in proof.checked:
        if name in ELSEWHERE or (name == "comparator" and hasattr(proof, "best_fixed_loss")):
            continue
        claimed, found = getattr(proof, name), getattr(own, name, None)
        beside = None if close is None else getattr(close, name, None)
        if claimed is None or found is None:
            held = claimed is None
        else:
            held = _apart(claimed, found, beside) <= 1.0 if same else False
        out.holds(name, found, held, OWN_CODE)
    check_status(out, own.proven and same, note=OWN_CODE)


def _check_fixed_of_own(out: Claims, given: Given, record: Any) -> None:
    """The best fixed weights of numbers and of two classes are looked for; of several classes none may be stated."""
    task = getattr(record, "task", "")
    if task == "multiclass" or (not task and len(getattr(record, "heads", [0])) > 1):
        out.absent("best_fixed_loss", "best_fixed_lower_bound", "comparator")
        return
    if task:
        rule = Rule(loss="logistic" if task == "binary" else "squared")
    else:
        rule = rule_of(record)._replace(rates=(1.0,))
    Z = np.insert(given.X, 0, float(rule.has_intercept), axis=1)
    start = np.zeros(Z.shape[1])
    if rule.geometry == "multiplicative":
        start[0 if rule.has_intercept else 1 :] = 1.0 / (len(start) - (not rule.has_intercept))
    check_fixed(out, [Stream(rule, Z, coded(record, given.y), given.c)], [start])
