"""AdaBoost: training error and margins of the votes, and the product of normalisers that bounds them.

With D_1 the weights of the rows and f = Σ vote·stump, unrolling the update gives Σ D_1 exp(−y f) = Π Z_t. Since
exp(−y f) ≥ 1 on every row that is wrong, the product bounds the weighted training error (Freund and Schapire 1997);
the rows of margin y f/Σ|votes| ≤ θ weigh at most Π Z_t·exp(θΣ|votes|) (Schapire, Freund, Bartlett and Lee 1998).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import Status
from ..certificates.regret import bound_status
from ..errors import ModelError
from .agreement import EPS, same_classes, same_predictions, same_status
from .stated_claims import Claims, Given, Rows, is_finite

PERFECT = 1e-10  # the error that a stump without any counts as: its vote would be infinite
ROUNDED_UP = 2e-12  # the certificate's bound is made larger by a little, so that rounding cannot make it too small
IDENTITY = "the product of normalisers is the mean of exp(−y·f)"


class Machine(NamedTuple):
    """One vote of stumps against its targets ±1, replayed round by round."""

    target: Rows
    scores: Rows
    mass: float
    rounds: int
    edge: float
    largest_vote_error: float  # of a vote against ½ln((1 − ε)/ε), over what rounding allows

    @property
    def room(self) -> float:
        """The rounding of a score."""
        return (self.rounds + 2) * EPS * self.mass


def boosting(out: Claims, given: Given) -> None:
    """Every machine is replayed; the certificate is that of the machine that proves least."""
    record, proof, X, y, weights = given
    same_classes(out, record.classes, y)
    classes = list(record.classes)
    if len(record.machines) != (1 if len(classes) == 2 else len(classes)):
        raise ModelError(f"{len(record.machines)} machines do not vote for {len(classes)} classes", where="model")
    counted = weights > 0.0
    rows, share = X[counted], weights[counted] / weights[counted].sum()
    labels = classes[1:] if len(record.machines) == 1 else classes
    machines = [
        replayed(machine, rows, np.where(y[counted] == label, 1.0, -1.0), share)
        for machine, label in zip(record.machines, labels, strict=True)
    ]
    margins = [machine.scores / max(machine.mass, 1e-300) for machine in machines]
    found = margins[0] if len(machines) == 1 else np.column_stack(margins)
    room = max(machine.rounds for machine in machines) * 4.0 * EPS + 4.0 * EPS
    same_predictions(out, record.scores(X)[counted], found, room)
    votes = max(machine.largest_vote_error for machine in machines)
    out.holds("votes", votes, votes <= 1.0, "½ln((1 − ε)/ε) of each stump's error, over what rounding allows")
    idle = [machine for machine in machines if not machine.rounds]
    worst = idle[0] if idle else max(machines, key=lambda machine: _bound(machine, share))
    if idle:
        return _no_rounds(out, worst, share)
    return _claims(out, worst, share, float(proof.theta) if is_finite(proof.theta) else math.nan)


def replayed(machine: Any, X: Rows, target: Rows, share: Rows) -> Machine:
    """The rounds again: each stump's error under the weights before it, and the score of all votes."""
    D, scores, edge, worst = share.copy(), np.zeros(len(X)), math.inf, 0.0
    for feature, threshold, vote in zip(machine.features, machine.thresholds, machine.votes, strict=True):
        stump = np.where(X[:, feature] > threshold, 1.0, -1.0)
        right = target * stump * np.sign(vote)
        error = float(D[right < 0.0].sum())
        edge = min(edge, 0.5 - error)
        counted = max(error, PERFECT)
        # The error is a sum over rows of weights that every round has rounded; the logarithm divides by it.
        rounding = 8.0 * (len(X) + machine.votes.size) * EPS / (counted * (1.0 - min(counted, 0.5)))
        due = 0.5 * math.log((1.0 - counted) / counted) if counted < 1.0 else -math.inf
        worst = max(worst, abs(abs(vote) - due) / (rounding + 64.0 * EPS))
        scores += vote * stump
        D = D * np.exp(-abs(vote) * right)
        D = D / D.sum()
    return Machine(target, scores, float(np.abs(machine.votes).sum()), len(machine.votes), edge, worst)


def _bound(machine: Machine, share: Rows) -> float:
    return float(share @ np.exp(-machine.target * machine.scores))


def _no_rounds(out: Claims, machine: Machine, share: Rows) -> None:
    """No stump was better than chance: the machine calls every row alike."""
    wrong = float(share[machine.target < 0.0].sum())
    out.equals("rounds", 0, 0)
    out.equals("training_error", min(wrong, 1.0 - wrong), len(share) * EPS)
    out.equals("bound", 1.0, 0.0)
    out.absent("edge", "smallest_margin", "median_margin", "below_theta")
    unbounded = out.proof.margin_bound == math.inf
    out.holds("margin_bound", None, unbounded, "does not apply here")
    same_status(out, Status.DEGENERATE)


def _claims(out: Claims, machine: Machine, share: Rows, theta: float) -> None:
    margins = machine.target * machine.scores / machine.mass
    margin_room = machine.room / machine.mass + 4.0 * EPS
    sums = len(share) * EPS
    bound = _bound(machine, share)
    relative = 2.0 * math.expm1(min(machine.room, 1.0)) + (machine.rounds + 2) * sums
    out.equals("rounds", machine.rounds, 0)
    wrong = _weight_within(out, "training_error", share, margins, 0.0, margin_room)
    out.equals("bound", bound, (relative + ROUNDED_UP) * bound + 1e-300)
    out.equals("edge", machine.edge, 8.0 * (len(share) + machine.rounds) * EPS)
    out.equals("smallest_margin", float(margins.min()), margin_room)
    _median(out, share, margins, margin_room)
    out.holds("theta", theta, math.isfinite(theta), "the margin that is asked for")
    _weight_within(out, "below_theta", share, margins, theta, margin_room)
    widened = bound * math.exp(min(theta * machine.mass, 700.0))
    out.equals("margin_bound", min(1.0, widened), min(1.0, relative * widened + 4.0 * EPS * machine.mass * widened))
    out.assumption(IDENTITY, True)
    holds = bound_status(wrong, bound * (1.0 + relative), ()) is Status.PROVEN
    same_status(out, Status.PROVEN if holds else Status.NOT_PROVEN)


def _weight_within(out: Claims, name: str, share: Rows, margins: Rows, limit: float, room: float) -> float:
    """The weight of rows of margin ≤ limit; a margin within rounding of the limit may count or not."""
    surely, perhaps = float(share[margins <= limit - room].sum()), float(share[margins <= limit + room].sum())
    claimed, sums = getattr(out.proof, name), len(share) * EPS
    held = is_finite(claimed) and surely - sums <= claimed <= perhaps + sums
    found = float(share[margins <= limit].sum())
    out.holds(name, found, held, "rows at the limit by rounding count or not" if perhaps > surely else "")
    return surely


def _median(out: Claims, share: Rows, margins: Rows, room: float) -> None:
    """The margin at which half of the weight is reached; rounding may choose a neighbour."""
    order = np.argsort(margins)
    total = np.cumsum(share[order])
    last, sums = len(order) - 1, len(share) * EPS
    low, middle, high = (int(np.searchsorted(total, half)) for half in (0.5 - sums, 0.5, 0.5 + sums))
    claimed = out.proof.median_margin
    low_margin, high_margin = margins[order[min(low, last)]] - room, margins[order[min(high, last)]] + room
    out.holds(
        "median_margin", float(margins[order[min(middle, last)]]),
        is_finite(claimed) and low_margin <= claimed <= high_margin,
    )  # fmt: skip
