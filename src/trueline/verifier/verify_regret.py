"""What an online run claims of its loss: the best fixed weights, the regret, and the bound of its theorem.

Every bound holds for every comparator u. With L_u the loss of u, the theorems are

    Widrow–Hoff             L ≤ L_u/(1 − κ) + ‖u‖²/η,         κ = η·max c‖x‖² < 1   (squared loss)
    exponentiated gradient  L ≤ L_u/(1 − κ) + (2/η)·RE(u‖w₁), κ = η·max c·R²/4 < 1  (squared loss, R a row's range)
    universal               L ≤ L_u + B(u, w₁)/η + Σ brackets + the penalty of u in every round
    adaptive                L ≤ L_u + Σ_j (max_t (u_j − w_tj)²/(2η) + η)·√(ε + Σ_t g_tj²)

Which of them apply is decided by the learner's rule, and every term is recomputed from the rows by the replay.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.regret import BEST_FIXED, BEST_MEMBER
from .learner_replay import EPS, LINKED, LOG_LINK, Run, spread
from .stated_claims import Check, Claims, Rows, Rule, is_finite
from .verify_comparators import Fixed, Stream, is_allowed, least_loss, loss_of_fixed, near_the_start, newton

RELATIVE = 1e-6  # a stated loss is the best one when no weights lose less by more than this share of it …
OF_CONSTANT = 1e-9  # … and this share of what the best constant loses


class Suffered(NamedTuple):
    """A loss by replay, and the room for an honest one."""

    value: float
    room: float


class Bound(NamedTuple):
    """A theorem's bound at some comparator, the room for its rounding, and κ where it has one."""

    value: float
    room: float
    kappa: float | None = None


class Line:
    """One weight vector of a replay, with what the theorems need to know of it."""

    def __init__(self, rule: Rule, run: Run, Z: Rows, targets: Rows, line: int) -> None:
        self.rule, self.run, self.index = rule, run, line
        self.rate = float(np.repeat(rule.rates, len(targets))[line])
        self.stream = Stream(rule, Z, targets[line % len(targets)], run.shares)
        self.last = self.rate / max(1, len(Z)) ** rule.power

    def kappa(self) -> float | None:
        """κ of the theorem for squared losses, where there is one."""
        if self.rule.loss != "squared" or not self.rule.plain:
            return None
        used = self.stream.Z[:, self.stream.first :]
        if self.rule.geometry in ("additive", "normalised"):
            return self.rate * float(np.max(self.run.shares * (used**2).sum(axis=1), initial=0.0))
        if self.rule.geometry not in LINKED or not used.shape[1]:
            return None
        root = np.sqrt(self.run.shares)
        ranges = root * (used.max(axis=1) - used.min(axis=1))
        if self.rule.geometry == "signed":
            ranges = 2.0 * self.rule.parameter * root * np.abs(used).max(axis=1)
        return self.rate * float(ranges.max()) ** 2 / 4.0

    def bounds(self, u: Rows) -> list[Bound]:
        """The bounds of every theorem that applies at the comparator u."""
        fixed, kappa, found = loss_of_fixed(self.stream, u), self.kappa(), list[Bound]()
        distance = self.divergence(u)
        if kappa is not None and kappa < 1.0:
            value = fixed.loss / (1.0 - kappa) + 2.0 * distance / self.rate
            blur = (len(u) + 8) * EPS * (kappa * fixed.loss / (1.0 - kappa) ** 2 + value)
            found.append(Bound(value, 2.0 * fixed.room / (1.0 - kappa) + 8.0 * blur, kappa))
        over = self.rule.unit * (self.first_term(u) + self.run.excess[:, self.index])
        value = fixed.loss + self.rule.unit * self.penalty(u) + float(over[0])
        if math.isfinite(value):
            rounding = 8.0 * (len(self.stream.t) + len(u)) * EPS * (abs(value) + abs(fixed.loss))
            found.append(Bound(value, 2.0 * fixed.room + float(spread(over)) + rounding))
        return found

    def divergence(self, u: Rows) -> float:
        """B(u, w₁): half the squared length, or the relative entropy to the start; infinite outside of the geometry."""
        if not is_allowed(self.stream, u):
            return math.inf
        used = u[self.stream.first :]
        if self.rule.geometry not in LINKED:
            return 0.5 * float(used @ used)
        if self.rule.geometry == "signed":  # what the sizes leave of the radius goes to both signs alike
            sizes = np.abs(used) / self.rule.parameter
            share = 0.5 * max(0.0, 1.0 - float(sizes.sum())) / len(used)
            used = np.concatenate([sizes + share, np.full(len(used), share)])
        inside = used[used > 0.0]
        return max(0.0, float(inside @ np.log(inside)) + math.log(len(used)))

    def first_term(self, u: Rows) -> Rows:
        """B(u, w₁)/η, or what stands for it where rates fall or are each coordinate's own; of every copy of the replay."""
        rule, run, at = self.rule, self.run, self.index
        rows = float(rule.batch)
        if rule.geometry == "adaptive":
            reach = np.maximum(np.abs(u - run.low[:, at]), np.abs(u - run.high[:, at]))
            terms = (reach**2 / (2.0 * self.last) + self.rate) * np.sqrt(rule.parameter + run.memory[:, at])
            return np.asarray(rows * terms[:, self.stream.first :].sum(axis=1))
        copies = np.ones(len(run.excess))
        if rule.power == 0.0:
            return rows * self.divergence(u) / self.rate * copies
        if rule.batch > 1 or not math.isfinite(self.divergence(u)):
            return math.inf * copies
        if rule.geometry in LINKED:
            return np.asarray(run.farthest[:, at] / self.last)
        return np.asarray((float(np.linalg.norm(u)) + run.longest[:, at]) ** 2 / (2.0 * self.last))

    def penalty(self, u: Rows) -> float:
        """The penalty of u in every round."""
        v = u[1:]
        share = self.rule.l1 * float(np.abs(v).sum()) + 0.5 * self.rule.l2 * float(v @ v)
        return share * float(self.run.shares.sum())

    def least_bound(self, starts: list[Rows]) -> Bound:
        """The least bound over comparators that the verifier finds itself: Newton's steps with the distance as a ridge."""
        trials = [u for u in starts if is_allowed(self.stream, u)]
        trials.append(self.run.start)
        if self.rule.geometry in LINKED:
            weight = self.rule.batch / self.rate if self.rule.power == 0.0 else 0.0
            trials.append(near_the_start(self.stream, self.run.start, weight))
        else:
            trials += self.short_comparators()
        found = [bound for u in trials for bound in self.bounds(u)]
        return min(found) if found else Bound(math.inf, 0.0)

    def short_comparators(self) -> list[Rows]:
        """Comparators that weigh their loss against their distance; lengths that are no squares are majorised by some."""
        stream, found = self.stream, list[Rows]()
        low, high = self.run.low[0, self.index], self.run.high[0, self.index]
        memory = np.sqrt(self.rule.parameter + self.run.memory[0, self.index])
        centre, half = (
            (0.5 * (low + high), 0.5 * (high - low)) if self.rule.geometry == "adaptive" else (0.0 * low, 0.0)
        )
        kappa = self.kappa()
        base = (1.0 - kappa if kappa is not None and kappa < 1.0 else 1.0) * self.rule.batch
        extra = self.rule.l2 * float(self.run.shares.sum())
        u = np.zeros(stream.Z.shape[1])
        for _ in range(4):
            ridge = np.full(len(u), base / self.last)
            if self.rule.geometry == "adaptive":
                ridge = memory / self.last * (1.0 + half / np.maximum(np.abs(u - centre), 1e-3 * (1e-12 + half)))
            elif self.rule.power > 0.0:
                longest = float(self.run.longest[0, self.index])
                ridge *= 1.0 + longest / max(float(np.linalg.norm(u)), 1e-3 * (1e-12 + longest))
            ridge[1:] += extra
            first = stream.first
            u = u.copy()
            u[first:] = newton(stream, stream.Z[:, first:], u[first:], ridge[first:], centre[first:])
            found.append(u)
            if self.rule.geometry != "adaptive" and self.rule.power == 0.0:
                break
        return found


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
        return out.holds("regret", None, proof.regret_to is None, field="regret_to") or out.covered.add("regret")
    reference = references.get(BEST_FIXED if proof.regret_to is None else proof.regret_to)
    out.holds("regret_to", None, is_finite(reference), "what it is against must be stated")
    if is_finite(reference):
        out.equals("regret", proof.loss - reference, 4.0 * EPS * (abs(proof.loss) + abs(reference)))
    else:
        out.holds("regret", None, False)
    return None


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
        if item.name.startswith("κ"):
            out.covered_assumptions.add(item.name)
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
    if known:
        out.equals("regret_bound", float(total[0]), float(spread(total)) + size * abs(float(total[0])))
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
    totals = rule.unit * sum(line.run.losses[:, line.index] for line in lines) / m
    largest = rule.unit * max(float(line.run.largest[0, line.index]) for line in lines)
    room = float(spread(np.asarray(totals))) + 8.0 * m * EPS * abs(float(totals[0]))
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
        "risk_bound", float(totals[0]) + width, room + (64.0 * EPS + RELATIVE * (B is None)) * (width + abs(totals[0]))
    )
    once = int(getattr(record, "epochs", 1) or 1) == 1
    equal = bool((c == 1.0).all())
    for name, found in (("losses lie in [0, B]", within), ("one pass", once), ("rows have weight 1", equal)):
        out.assumption(name, found)
    return within and once and equal
