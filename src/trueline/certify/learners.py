"""Online learners whose rule the checker does not replay itself, the risk of mean weights, and Winnow's bound.

A mixture, a learner in batches or with a penalty makes its predictions again by its own code (the note says so); the
losses, the regret and the comparator are found anew from them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .checker import Claims, loss_of, regret
from .statement import Given, Rows, Rule

LOG_LINK = ("poisson", "gamma", "tweedie")


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
