"""Online learners: the learner's arithmetic again, row by row; the comparator's loss, regret, bounds and mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .stated_claims import Check, Claims, Given, Rows, Rule, in_order, rule_of, targets_of
from .verify_losses import loss_of

LOG_LINK = ("poisson", "gamma", "tweedie")


def check_learner(out: Claims, given: Given, replay: Any) -> None:
    """All checks of what learned one example at a time; ``replay`` makes its predictions where columns came one by one."""
    given = in_order(given)
    if given.proof.kind == "mistakes":
        return _check_mistakes(out, given, replay)
    rule, record = rule_of(given.record), given.record
    if plain(record) and not (replay and linked(rule)):
        loss = online(out, rule, given.X, targets_of(record, given.y), given.c)
    else:
        loss = by_own_code(out, rule, given, replay)
    if given.proof.kind == "averaged":
        risk(out, given, loss)
    return None


def _check_mistakes(out: Claims, given: Given, replay: Any) -> None:
    rule, signs = rule_of(given.record), targets_of(given.record, given.y)
    if replay and linked(rule) and len(signs) == 1:
        scores = [replay(given.X, given.y, given.c)[0]]
    else:
        scores = [replayed(rule, given.X, t, given.c)[0] for t in signs]
    wrong = mistakes(out, rule, given.X, signs, scores)
    if rule.geometry == "signed" and given.proof.comparator is not None and len(wrong):
        winnow(out, rule, wrong)


def replayed(rule: Any, X: Rows, y: Rows, c: Rows) -> tuple[Rows, Rows]:
    """Scores before each update, and each row's share of the step: the learner again, in plain arithmetic."""
    kind, own, Z = rule.geometry, rule.own, np.insert(X, 0, float(rule.constant), axis=1)
    theta, memory, s, share = np.zeros(len(Z.T)), np.zeros(len(Z.T)), np.empty(len(Z)), c.copy()
    live = np.arange(len(Z.T)) >= (not rule.constant)
    for i, x in enumerate(Z):
        w = theta
        if kind in ("multiplicative", "signed"):
            up, down = (np.where(live, np.exp(k * theta - np.abs(theta).max()), 0.0) for k in (1.0, -1.0))
            w = up / up.sum() if kind == "multiplicative" else own * (up - down) / (up + down).sum()
        share[i] /= own + x @ x if kind == "normalised" else 1.0
        rate, s[i], t = share[i] * rule.base / (i + 1.0) ** rule.power, w @ x, y[i : i + 1]
        slope = float(loss_of(rule.loss, rule.f, s[i : i + 1], t)[1][0])
        low, high = min(0.0, slope), max(0.0, slope)
        for _ in range(200 if kind == "implicit" else 0):  # the slope after the step, by halving
            slope = 0.5 * (low + high)
            ahead = float(loss_of(rule.loss, rule.f, s[i : i + 1] - rate * (x @ x) * slope, t)[1][0])
            low, high = (slope, high) if slope < ahead else (low, slope)
        memory += (slope * x) ** 2
        theta = theta - rate * {"adaptive": 1.0 / np.sqrt(own + memory), "signed": own}.get(kind, 1.0) * slope * x
    return s, share


def told(rule: Any, s: Rows, t: Rows) -> Rows:
    """Losses as certificates sum them: squares without the half."""
    return loss_of(rule.loss, rule.f, s, t)[0] * (2.0 if rule.loss == "squared" else 1.0)


def online(out: Claims, rule: Any, X: Rows, targets: list[Rows], c: Rows) -> float:
    """A learner of one example at a time, or one a class: its loss by replay, its regret, Widrow and Hoff's bound."""
    again = [replayed(rule, X, t, c) for t in targets]
    loss = math.fsum(share @ told(rule, s, t) for (s, share), t in zip(again, targets, strict=True))
    t, share, u = targets[0], again[0][1], out.proof.bound_comparator
    regret(out, rule, X, t if len(targets) == 1 else None, share, loss)
    if u is not None and rule.power == 0 and rule.loss == "squared" and rule.geometry in ("additive", "normalised"):
        Z = np.insert(X, 0, float(rule.constant), axis=1)
        kappa = rule.base * float(np.max(share * (Z**2).sum(axis=1)))
        bound = float(share @ (t - Z @ u) ** 2) / (1 - kappa) + float(u @ u) / rule.base if kappa < 1 else math.inf
        out.near("bound", bound, 1e-6)
        worst = next((item.worst for item in out.proof.assumptions if item.name.startswith("κ")), None)
        out.append(Check("worst value of κ", worst, kappa, worst is None or abs(worst - kappa) <= 1e-9 * kappa))
        if out.proof.kind != "averaged":
            out.holds("status", "proven" if kappa < 1 else "void", out.proof.proven == (kappa < 1))
    return loss


def regret(out: Claims, rule: Any, X: Rows, t: Rows | None, share: Rows, loss: float, note: str = "") -> None:
    """The loss suffered, its bound, and the best fixed weights' loss; t is None where no one target was learned."""
    proof = out.proof
    out.holds("examples", len(X), proof.examples == len(X))
    out.near("loss", loss, 1e-6, note=note)
    if not math.isnan(proof.regret):
        out.near("regret", proof.loss - proof.best_fixed_loss, 1e-9, abs(proof.loss) + 1e-300)
    out.holds("bound", loss, loss <= proof.bound * (1 + 1e-9) or not proof.proven, "the loss must not exceed it")
    if proof.comparator is None or t is None or math.isnan(proof.best_fixed_loss):
        return
    best = float(share @ told(rule, np.insert(X, 0, 1.0, axis=1) @ proof.comparator, t))
    floor = 1e-9 * float(share @ (t - t.mean()) ** 2)
    out.near("best_fixed_loss", best, 1.0, 1e-6 * abs(best) + floor)
    if rule.loss == "squared" and rule.geometry not in ("multiplicative", "signed"):
        A, b = np.insert(X, 0, float(rule.constant), axis=1) * np.sqrt(share)[:, None], t * np.sqrt(share)
        least = float(((b - A @ np.linalg.lstsq(A, b, rcond=None)[0]) ** 2).sum())
        out.holds("no fixed weights are better", least, least >= best * (1 - 1e-6) - floor, field="best_fixed_loss")


def mistakes(out: Claims, rule: Any, X: Rows, signs: list[Rows], scores: list[Rows]) -> Rows:
    """Mistakes in the replay's scores, and the perceptron's bound; returns the rows of the first, signed."""
    proof, late = out.proof, [t * s <= 0 for t, s in zip(signs, scores, strict=True)]
    wrong = late[0] if len(late) == 1 else np.argmax(scores, axis=0) != np.argmax(signs, axis=0)
    count, Z = int(wrong.sum()), np.insert(X, 0, float(rule.constant), axis=1)
    lengths, Z = np.sqrt((Z**2).sum(axis=1)), (Z * signs[0][:, None])[late[0]]
    out.holds("examples", len(X), proof.examples == len(X))
    out.holds("mistakes", count, proof.mistakes == count)
    out.holds("bound", count, count <= proof.bound or not proof.proven, "mistakes must not exceed it")
    if rule.geometry == "additive":
        out.near("radius", float(lengths[np.any(late, axis=0)].max(initial=0.0)), 1e-6)
    if rule.geometry == "additive" and proof.comparator is not None and len(Z):
        slack, size = (float(np.linalg.norm(v)) for v in (np.maximum(0, 1 - Z @ proof.comparator), proof.comparator))
        margin = float((Z @ proof.comparator).min()) / size
        right = abs(proof.margin - margin) <= 1e-6 * abs(margin) if margin > 0 else math.isnan(proof.margin)
        out.holds("margin", margin, right)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (float(lengths[late[0]].max()) * size + slack) ** 2, 1e-6)
    return Z


def plain(record: Any) -> bool:
    """Whether it learns one example at a time without a penalty."""
    return bool(record.kind == "online" and record.batch == 1 and record.l1 + record.l2 == 0)


def linked(rule: Rule) -> bool:
    """Whether all weights share one sum, so that a column counts from the row where it came, be it 0 there or not."""
    return rule.geometry in ("multiplicative", "signed")


def by_own_code(out: Claims, rule: Rule, told: Given, replay: Any) -> float:
    """The loss of predictions made again by the learner's own code, or by ``replay`` where columns came one by one."""
    record, _, X, y, c = told
    loss, t = _suffered(record, rule, X, y, c, replay)
    regret(out, rule, X, t, c, loss, "replayed by the learner's own code")
    return loss


def _suffered(record: Any, rule: Rule, X: Rows, y: Rows, c: Rows, replay: Any) -> tuple[float, Rows | None]:
    """(loss, the target of a single learner)."""
    task, index = getattr(record, "task", ""), np.searchsorted(np.unique(y), y)
    sign = getattr(getattr(record, "loss", None), "targets", "") == "sign"
    several = task == "multiclass" or (sign and len(getattr(record, "losses", getattr(record, "heads", [0]))) > 1)
    signs = np.where(index == index.max(), 1.0, -1.0)
    t = (index if several else signs) if sign or task in ("binary", "multiclass") else y
    learner = record.fresh()
    s, learner = replay(X, t, c) if replay else (learner.learn(X, t.astype(float), c), learner)
    if task in ("binary", "multiclass"):
        p = s[np.arange(len(s)), index] if several else np.where(t > 0, s, 1.0 - s)
        return float(-c @ np.log(p)), None
    if sign or (replay is None and record.kind == "online"):  # what it predicts does not show each class's own loss
        return float(learner.certificate().loss), None
    s = np.log(np.maximum(s, 1e-300)) if rule.loss in LOG_LINK else s  # it predicts means, and the loss is of scores
    unit = 2.0 if rule.loss == "squared" else 1.0
    return float(unit * c @ loss_of(rule.loss, rule.f, s, t)[0]), t.astype(float)


def risk(out: Claims, told: Given, loss: float) -> None:
    """The risk of mean weights: mean loss + B·√(ln(1/δ)/2m), for losses declared to lie in [0, B]."""
    proof, m, B = told.proof, len(told.c), told.proof.loss_range
    weighed = told.record.geometry.name == "normalised"  # it counts shares of losses, the risk counts losses
    mean = proof.mean_loss if weighed else loss / m
    out.near("mean_loss", mean, 1e-6)
    if B is not None:
        width = len(told.record.heads) * B * math.sqrt(math.log(1.0 / (1.0 - proof.confidence)) / (2.0 * m))
        out.near("risk_bound", mean + width, 1e-6)
    void = B is None or not (told.c == 1.0).all()  # no range declared, or rows of unequal weight
    out.holds("status", "not_proven" if B is None else "proven", not (proof.proven and void))


def winnow(out: Claims, rule: Rule, Z: Rows) -> None:
    """N ≤ (RE(u) + η·slack)/(ηγ − ½η²R²) at the margin γ whose slack is claimed, with ‖u‖₁ = 1."""
    proof, first = out.proof, 0 if rule.constant else 1
    Z, u = Z[:, first:], proof.comparator[first:] / np.abs(proof.comparator[first:]).sum()
    eta, radius, used = rule.base * rule.own, float(np.abs(Z).max()), np.abs(u[u != 0])
    margins, low = Z @ u, float((Z @ u).min())
    high = float(margins.max()) + proof.slack + radius
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(0.0, middle - margins).sum() < proof.slack else (low, middle)
    entropy = float((used * np.log(used)).sum()) + math.log(2.0 * len(u))
    out.near("radius", radius, 1e-6)
    gain = eta * high - 0.5 * eta**2 * radius**2
    out.near("bound", (entropy + eta * proof.slack) / gain if gain > 0 else math.inf, 1e-6)
