"""Perceptron and Winnow: mistakes by replay, and the most that any order of the rows on which they erred allows.

    perceptron   N ≤ (R‖u‖ + ‖ξ‖₂)²,  ξ_i = max(0, 1 − y_i u·x_i)                                for any u
    Winnow       N ≤ (RE(u‖w₁) + η·Σ max(0, γ − y u·x)) / (ηγ − η²‖x‖∞²/2)                      for any ‖u‖₁ = 1 and γ

Both look at mistakes only. Of several classes, one weight vector each against the rest, a wrong label is a mistake of
some vector, so the vectors' bounds add up to one on the wrong labels.
"""

from __future__ import annotations

import math

import numpy as np

from .learner_replay import EPS, LINKED, Run
from .stated_claims import Claims, Given, Rows, Rule, is_finite
from .verify_regret import check_status, vectors

EVERY_ROUND = "every round has weight 1, the rate is constant, features are known from the start"
ROOM = 1e-9  # learners raise their bounds by 1e-12 of themselves; quantities beside it are sums of few terms


def check_mistakes(out: Claims, given: Given, rule: Rule, run: Run, signs: Rows) -> None:
    """Mistakes, radius, margin, slack and bound of the certificate."""
    proof, scores = out.proof, run.scores[0]
    late = signs * scores <= 0.0
    if len(signs) == 1:
        wrong = late[0]
    else:
        wrong = np.argmax(scores, axis=0) != np.argmax(signs, axis=0)
    count = int(wrong.sum())
    out.holds("examples", len(given.y), proof.examples == len(given.y))
    out.holds("mistakes", count, proof.mistakes == count)
    Z = np.insert(given.X, 0, 1.0, axis=1) if rule.has_intercept else given.X
    erred = [Z[late[k]] * signs[k][late[k]][:, None] for k in range(len(signs))]
    radius = max((_radius(rule, rows) for rows in erred), default=0.0)
    out.equals("radius", radius, ROOM * radius)
    uniform = bool((given.c == 1.0).all()) and rule.power == 0.0 and rule.batch == 1
    if any(len(rows) for rows in erred):
        out.assumption(EVERY_ROUND, uniform)
    proven = _check_bound(out, rule, erred, run, count)
    check_status(out, proven and uniform and count <= proof.bound)


def _radius(rule: Rule, rows: Rows) -> float:
    if not rows.size:
        return 0.0
    return float(np.abs(rows).max() if rule.geometry in LINKED else np.sqrt((rows**2).sum(axis=1)).max())


def _check_bound(out: Claims, rule: Rule, erred: list[Rows], run: Run, count: int) -> bool:
    """Whether the bound is that of the stated comparator; of several classes, that the verifier's own proves no less."""
    proof = out.proof
    if len(erred) == 1 and not len(erred[0]):  # no mistakes: nothing to prove
        out.absent("comparator", "margin", "slack")
        out.equals("bound", 0.0, 0.0)
        return True
    if len(erred) > 1:
        out.absent("comparator", "margin", "slack")
        if not is_finite(proof.bound):
            out.holds("bound", None, proof.bound == math.inf, "none is known")
            return False
        own = sum(_own_bound(rule, rows, run.weights[0, k]) for k, rows in enumerate(erred))
        held = proof.bound >= count and proof.bound >= own * (1.0 - ROOM)
        out.holds("bound", own, held, "the verifier's own, each class against the rest")
        return held
    width = run.weights.shape[-1]
    stated = vectors(out, "comparator", 1, width)
    if stated is None:
        out.holds("margin", None, proof.margin is None)
        out.holds("slack", None, proof.slack is None)
        out.holds("bound", None, proof.bound == math.inf, "its comparator is not stated")
        return False
    u = stated[0] if rule.has_intercept else stated[0][1:]
    if not np.abs(u).sum() > 0.0 or (not rule.has_intercept and stated[0][0] != 0.0):
        out.holds("comparator", None, False, "weights of some length")
        return False
    check = _check_winnow if rule.geometry in LINKED else _check_perceptron
    return check(out, rule, erred[0], u)


def _check_perceptron(out: Claims, rule: Rule, rows: Rows, u: Rows) -> bool:
    size = float(np.linalg.norm(u))
    margins = rows @ u
    blur = 4.0 * (len(u) + 4) * EPS * float((np.abs(rows) @ np.abs(u)).max())
    _check_margin(out, float(margins.min()) / size, blur / size)
    slack = float(np.linalg.norm(np.maximum(0.0, 1.0 - margins)))
    out.equals("slack", slack, ROOM * (slack + 1.0) + blur * math.sqrt(len(rows)))
    bound = (_radius(rule, rows) * size + slack) ** 2
    return _check_equal(out, bound, ROOM + 2.0 * blur * math.sqrt(len(rows)) / max(math.sqrt(bound), 1e-300))


def _check_margin(out: Claims, margin: float, room: float) -> None:
    """The smallest margin, unknown where it is not positive."""
    claimed = out.proof.margin
    held = (
        margin <= room if claimed is None else is_finite(claimed) and abs(claimed - margin) <= room + ROOM * abs(margin)
    )
    out.holds("margin", margin, held)


def _check_equal(out: Claims, bound: float, room: float) -> bool:
    if out.proof.bound == math.inf:
        out.holds("bound", bound, True, "none is claimed")
        return False
    held = math.isfinite(bound) and is_finite(out.proof.bound) and abs(out.proof.bound - bound) <= room * bound
    out.holds("bound", bound, held)
    return held


def _check_winnow(out: Claims, rule: Rule, rows: Rows, u: Rows) -> bool:
    """The margin γ that the bound is taken at is the one whose slack is stated."""
    proof, u = out.proof, u / np.abs(u).sum()
    margins = rows @ u
    blur = 4.0 * (len(u) + 4) * EPS * float((np.abs(rows) @ np.abs(u)).max())
    _check_margin(out, float(margins.min()), blur)
    eta, radius = rule.rates[0] * rule.parameter, _radius(rule, rows)
    if proof.slack is None or not is_finite(proof.slack) or proof.slack < 0.0:
        out.holds("slack", None, proof.slack is None, "none is known")
        out.holds("bound", None, proof.bound == math.inf, "its slack is not stated")
        return False
    gamma = _margin_of_slack(margins, proof.slack)
    gain = eta * gamma - 0.5 * eta**2 * radius**2
    out.holds("slack", gamma, True, "of the margin found")
    bound = (_entropy(u) + eta * proof.slack) / gain if gain > 0.0 else math.inf
    return _check_equal(out, bound, 1e-6)


def _entropy(u: Rows) -> float:
    """RE of u, of 1-norm 1, to the uniform weights over both signs."""
    used = np.abs(u[u != 0.0])
    return float(used @ np.log(used)) + math.log(2.0 * len(u))


def _margin_of_slack(margins: Rows, slack: float) -> float:
    """The γ with Σ max(0, γ − margin) = slack, exactly: the sum is linear between the margins."""
    ordered = np.sort(margins)
    if slack == 0.0:
        return float(ordered[0])
    used = np.cumsum(np.diff(ordered) * np.arange(1, len(ordered))) if len(ordered) > 1 else np.zeros(0)
    k = int(np.searchsorted(used, slack))
    before = float(used[k - 1]) if k else 0.0
    return float(ordered[k]) + (slack - before) / (k + 1)


def _own_bound(rule: Rule, rows: Rows, weights: Rows) -> float:
    """The least bound among comparators that suggest themselves: the weights at the end, and the rows' sum, scaled."""
    if not len(rows):
        return 0.0
    found = [float(len(rows))]  # that there are so many mistakes, the replay has shown
    radius, eta = _radius(rule, rows), rule.rates[0] * rule.parameter
    for u in (weights if rule.has_intercept else weights[1:], rows.sum(axis=0)):
        size = float(np.abs(u).sum())
        if not size > 0.0:
            continue
        margins = rows @ u
        for scale in 1.0 / np.quantile(margins[margins > 0.0], [0.02, 0.25, 0.5, 1.0]) if (margins > 0.0).any() else ():
            if rule.geometry in LINKED:
                gamma = float(1.0 / scale) / size
                gain = eta * gamma - 0.5 * (eta * radius) ** 2
                slack = float(np.maximum(0.0, gamma - margins / size).sum())
                found.append((_entropy(u / size) + eta * slack) / gain if gain > 0.0 else math.inf)
            else:
                slack = float(np.linalg.norm(np.maximum(0.0, 1.0 - scale * margins)))
                found.append((radius * scale * float(np.linalg.norm(u)) + slack) ** 2)
    return min(found)
