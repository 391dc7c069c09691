"""What an online run claims of its loss: the best fixed weights, the regret, and the bound of its theorem.

The theorems stand in ``learner_bounds.py``; here the certificate is held to them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.regret import BEST_FIXED, BEST_MEMBER, RISK_ASSUMPTIONS
from .learner_bounds import Bound, Line
from .learner_replay import EPS, LINKED, LOG_LINK, spread
from .stated_claims import Check, Claims, Rows, Rule, is_finite
from .verify_comparators import Fixed, Stream, is_allowed, least_loss, loss_of_fixed

RELATIVE = 1e-6  # a stated loss is the best one when no weights lose less by more than this share of it …
KAPPA = ("κ = η·R²/4 < 1", "κ = η·max c‖x‖² < 1")
OF_CONSTANT = 1e-9  # … and this share of what the best constant loses


class Suffered(NamedTuple):
    """A loss by replay, and the room for an honest one."""

    value: float
    room: float


# What a certificate of any run claims.


def check_suffered(out: Claims, examples: int, loss: Suffered, note: str = "") -> None:
    """How many rows were learned, and what was lost on the way."""
    out.holds("examples", examples, out.proof.examples == examples)
    out.equals("loss", loss.value, loss.room, note)


def vectors(out: Claims, name: str, lines: int, width: int) -> list[Rows] | None:
    """A comparator of the certificate as one vector for each line; None where it is left out; anything else fails."""
    stated = getattr(out.proof, name)
    if stated is None:
        out.covered.add(name)
        return None
    try:
        found = np.asarray(stated, dtype=float)
        if lines > 1 and found.shape == (width,):  # of one class: says nothing of the others
            out.covered.add(name)
            return None
        found = found.reshape(lines, width)
    except (TypeError, ValueError):
        found = np.full((lines, width), math.nan)
    fits = bool(np.isfinite(found).all())
    out.holds(name, None, fits, "finite numbers, the constant first, then one for each column")
    return [*found] if fits else None


def check_fixed(out: Claims, streams: list[Stream], starts: list[Rows]) -> None:
    """The best fixed loss is that of the stated comparator, and the verifier finds no weights that lose less.

    Without a stated one there is no best fixed loss of a single weight vector; those of several classes are found anew.
    """
    proof, width = out.proof, streams[0].Z.shape[1]
    stated = vectors(out, "comparator", len(streams), width)
    if proof.best_fixed_loss is None and proof.best_fixed_lower_bound is None:
        out.covered |= {"best_fixed_loss", "best_fixed_lower_bound"}
        return
    if stated is not None and not all(is_allowed(s, u) for s, u in zip(streams, stated, strict=True)):
        out.holds("comparator", None, False, "weights that the geometry compares itself with")
    extra: list[Any] = [[]] * len(streams) if stated is None else [[u] for u in stated]
    found = [least_loss(s, [u0, *more]) for s, u0, more in zip(streams, starts, extra, strict=True)]
    least = Fixed(sum(one.loss for one in found), sum(one.room for one in found))
    constant = sum(s.loss(np.full(len(s.t), _middle(s))) for s in streams)
    slack = RELATIVE * abs(least.loss) + OF_CONSTANT * abs(constant) + least.room
    if proof.best_fixed_loss is None:
        out.covered.add("best_fixed_loss")
    elif stated is None:
        held = len(streams) > 1 and is_finite(proof.best_fixed_loss)
        held = held and abs(proof.best_fixed_loss - least.loss) <= slack
        out.holds("best_fixed_loss", least.loss, held, "its weights are not stated; found anew")
    else:
        fixed = [loss_of_fixed(s, u) for s, u in zip(streams, stated, strict=True)]
        value, room = sum(one.loss for one in fixed), sum(one.room for one in fixed)
        out.equals("best_fixed_loss", value, room + slack)
        out.holds("no fixed weights are better", least.loss,
                  is_finite(proof.best_fixed_loss) and proof.best_fixed_loss <= least.loss + slack + room,
                  field="best_fixed_loss")  # fmt: skip
    if proof.best_fixed_lower_bound is None:
        out.covered.add("best_fixed_lower_bound")
    else:
        out.at_most("best_fixed_lower_bound", least.loss, slack)


def _middle(stream: Stream) -> float:
    """A constant score that a null model might give: a yardstick, not an optimum."""
    total = float(stream.shares.sum())
    mean = float(stream.shares @ stream.t) / total if total > 0.0 else 0.0
    return math.log(max(mean, 1e-300)) if stream.rule.loss in LOG_LINK else mean


def check_against(out: Claims) -> None:
    """The regret is the loss less what ``regret_to`` names, which must be stated."""
    proof = out.proof
    references = {BEST_FIXED: proof.best_fixed_loss, BEST_MEMBER: proof.best_member_loss}
    if proof.regret is None:
        out.covered.add("regret")
        out.holds("regret", None, proof.regret_to is None, field="regret_to")
        return
    reference = references.get(proof.regret_to)
    out.holds("regret_to", None, is_finite(reference), "what it is against must be stated")
    if reference is not None and is_finite(reference):
        out.equals("regret", proof.loss - reference, 4.0 * EPS * (abs(proof.loss) + abs(reference)))
    else:
        out.holds("regret", None, False)


def check_bound(out: Claims, lines: list[Line], loss: Suffered) -> bool:
    """The bound is a theorem's at the stated comparator, or above what the verifier proves; whether a proof may rest on it."""
    proof, width = out.proof, lines[0].stream.Z.shape[1]
    stated = vectors(out, "bound_comparator", len(lines), width)
    if not is_finite(proof.bound):
        out.holds("bound", None, proof.bound == math.inf, "none is known")
        return False
    if stated is None and len(lines) == 1:
        out.holds("bound", None, False, "the comparator that it is taken at is not stated")
        return False
    if len(lines) == 1:
        assert stated is not None
        bounds = lines[0].bounds(stated[0])
        match = min(bounds, key=lambda one: abs(one.value - proof.bound), default=Bound(math.inf, 0.0))
        held = proof.bound >= match.value - match.room
        if lines[0].rule.plain:  # otherwise learners may use longer lengths than the replay's, which is true as well
            held = held and proof.bound <= match.value + match.room + RELATIVE * abs(match.value)
    else:
        found = [line.least_bound([] if stated is None else [stated[k]]) for k, line in enumerate(lines)]
        match = Bound(sum(one.value for one in found), sum(one.room for one in found))
        held = proof.bound >= match.value - match.room - RELATIVE * abs(match.value)
    out.holds("bound", match.value, held)
    out.holds("loss within bound", loss.value, not proof.proven or loss.value <= proof.bound + loss.room, field="bound")
    return held


def check_kappa(out: Claims, lines: list[Line]) -> None:
    """The worst κ that the certificate states is the rows'."""
    kappas = [kappa for line in lines if (kappa := line.kappa()) is not None]
    for item in out.proof.assumptions:
        if item.name in KAPPA:
            out.covered_assumptions[item.name] = {"held", "worst"}
            worst = max(kappas, default=None)  # type: ignore[type-var]
            room = 16.0 * lines[0].stream.Z.shape[1] * EPS * (worst or 0.0)
            right = worst is not None and is_finite(item.worst) and any(abs(item.worst - k) <= room for k in kappas)
            held = right and item.held == (item.worst < 1.0)
            out.append(Check("worst value of κ", item.worst, worst, held))


def check_status(out: Claims, may_be_proven: bool, must_be: bool = False, note: str = "") -> None:
    """Proven only where the verifier proves it too; and not denied where a theorem plainly holds."""
    held = (may_be_proven or not out.proof.proven) and (out.proof.proven or not must_be)
    out.holds("status", "proven" if may_be_proven else "not proven", held, note)


def check_uncertified(out: Claims, examples: int, loss: Suffered) -> None:
    """A learner that kept no sums states its loss, and proves nothing."""
    check_suffered(out, examples, loss)
    out.absent("best_fixed_loss", "best_fixed_lower_bound", "best_member_loss", "regret", "regret_to")
    out.absent("comparator", "bound_comparator")
    out.holds("bound", None, out.proof.bound == math.inf, "none is known")
    check_status(out, False)


def suffered(rule: Rule, totals: Rows, rows: int) -> Suffered:
    """The loss of all lines, and how far the copies of the replay end from it."""
    total = rule.unit * totals.sum(axis=1)
    size = rule.unit * float(np.abs(totals[0]).sum())
    return Suffered(float(total[0]), float(spread(total)) + 8.0 * rows * EPS * size)


# Streams that cannot be read again, and mean weights.


def check_stream(out: Claims, lines: list[Line]) -> bool:
    """Against every comparator of size ``radius`` the regret is at most ``regret_bound``; and the frozen candidates."""
    radii, bounds = zip(*(_every_comparator(line) for line in lines), strict=True)
    radius = np.max(radii, axis=0)
    total = lines[0].rule.unit * np.sum(bounds, axis=0)
    size = 8.0 * EPS * (len(lines[0].stream.t) + lines[0].stream.Z.shape[1])
    out.equals("radius", float(radius[0]), float(spread(radius)) + size * float(radius[0]))
    known = math.isfinite(float(total[0]))
    room = float(spread(total)) + size * abs(float(total[0]))
    if known and lines[0].rule.plain:
        out.equals("regret_bound", float(total[0]), room)
    elif known:  # lengths of weights that a penalty shortened may be stated as they were before
        out.at_least("regret_bound", float(total[0]), room)
    else:
        out.holds("regret_bound", math.inf, out.proof.regret_bound == math.inf)
    _check_candidates(out, lines)
    return known


def _every_comparator(line: Line) -> tuple[Rows, Rows]:
    """(radius, regret bound) of every copy: the largest first term over comparators of that size, and the brackets."""
    rule, run, at = line.rule, line.run, line.index
    excess = run.excess[:, at]
    if rule.geometry in LINKED:
        radius = rule.parameter if rule.geometry == "signed" else 1.0
        corners = (2 if rule.geometry == "signed" else 1) * (line.stream.Z.shape[1] - line.stream.first)
        first = math.log(corners) / line.rate if rule.power == 0.0 else run.farthest[:, at] / line.last
        return np.full(len(excess), radius), np.asarray(first + excess)
    if rule.geometry == "adaptive":
        low, high = np.abs(run.low[:, at]), np.abs(run.high[:, at])
        size = np.maximum(low, high)
        corners = np.where(low > high, size, -size)
        found = [line.first_term(corner)[k] for k, corner in enumerate(corners)]
        return size.max(axis=1), np.array(found)
    radius = 2.0 * np.sqrt((run.weights[:, at] ** 2).sum(axis=1))
    edge = np.zeros(line.stream.Z.shape[1])
    found = []
    for k, length in enumerate(radius):
        edge[line.stream.first if len(edge) > line.stream.first else 0] = length
        found.append(line.first_term(edge)[k])
    worst = rule.l1 * radius * math.sqrt(len(edge)) + 0.5 * rule.l2 * radius**2
    return radius, np.array(found) + excess + worst * float(run.shares.sum())


def _check_candidates(out: Claims, lines: list[Line]) -> None:
    """Weights frozen at a doubling count: what they and the learner lost since, and the bound on the latter."""
    line = lines[0]
    rows, unit = len(line.stream.t), line.rule.unit
    kept = line.rule.power == 0.0 and line.rule.batch == 1 and line.rule.geometry != "adaptive" and len(lines) == 1
    wanted = [
        (float(one.at), unit * one.own[0], unit * one.other[0],
         unit * (one.other[0] + one.excess[0]) if line.rule.plain else math.inf)
        for one in line.run.candidates if kept and one.at < rows
    ]  # fmt: skip
    stated = [tuple(one) for one in out.proof.candidates]
    held = len(stated) == len(wanted)
    room = RELATIVE * max(1e-300, *(abs(x) for one in wanted for x in one if math.isfinite(x)), 0.0)
    for claimed, found in zip(stated, wanted, strict=False):
        same = [
            a == b if math.isinf(b) else is_finite(a) and abs(a - b) <= room
            for a, b in zip(claimed, found, strict=False)
        ]
        held = held and len(claimed) == 4 and all(same)
    out.holds("candidates", len(wanted), held)


def check_risk(out: Claims, record: Any, lines: list[Line], c: Rows) -> bool:
    """Risk of mean weights ≤ mean loss + B·√(ln(1/δ)/2m), losses in [0, B], one pass, rows of weight 1 (Azuma, Jensen).

    B and the confidence are settings; that rows are independent is the user's to know.
    """
    proof, rule, m = out.proof, lines[0].rule, len(c)
    totals = rule.unit * np.sum([line.run.losses[:, line.index] for line in lines], axis=0) / m
    largest = rule.unit * max(float(line.run.largest[0, line.index]) for line in lines)
    room = float(spread(totals)) + 8.0 * m * EPS * abs(float(totals[0]))
    out.equals("mean_loss", float(totals[0]), room)
    B, confidence = record.loss_range, record.confidence
    settings = proof.loss_range == B and proof.confidence == confidence and is_finite(confidence)
    settings = settings and 0.0 < confidence < 1.0 and (B is None or (is_finite(B) and B > 0.0))
    out.append(Check("loss_range and confidence", proof.loss_range, B, settings, "the learner's settings"))
    out.covered |= {"loss_range", "confidence"}
    if not settings:
        out.holds("risk_bound", None, False)
        return False
    within = B is not None and largest <= B * (1.0 + 4.0 * EPS)
    width = len(lines) * (largest if B is None else B) * math.sqrt(math.log(1.0 / (1.0 - confidence)) / (2.0 * m))
    out.equals(
        "risk_bound",
        float(totals[0]) + width,
        room + (64.0 * EPS + RELATIVE * (B is None)) * (width + abs(float(totals[0]))),
    )
    once = int(getattr(record, "epochs", 1) or 1) == 1
    equal = bool((c == 1.0).all())
    for name, found in zip(RISK_ASSUMPTIONS[:3], (within, once, equal), strict=True):
        out.assumption(name, found)
    return within and once and equal
