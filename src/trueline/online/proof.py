"""The mixture's certificates: every term of each bound is a number known when the run stops.

Squared loss, each sum over the stream with weights c, ỹ the label as learned (capped at ten ranges beyond the range
seen), first label apart because nothing can be known before it:

    loss ≤ first + min_w{Σc(ỹ − w·u)² + wᵀA₀w} + Σc·ê²·cq/(1 + cq) + Σc·a² + 2Δ + 2Δ′ + Σ[c(y − p)² − c(ỹ − p)²].

Member (recursive least squares without forgetting, prediction clipped to the range seen and its margin, ê its error):
the recursion gives Σce²/(1 + cq) ≤ min_w{…} for the unclipped error e (members.py). Clipping lowers the error unless ỹ
lies beyond that interval by a > 0 and the unclipped prediction beyond it on the same side; then ê² ≤ a². So
c·ê² = c·ê²/(1 + cq) + c·ê²·cq/(1 + cq) ≤ c·e²/(1 + cq) + c·a² + c·ê²·cq/(1 + cq).
In the few rounds that raise the ridge, e and ê are those of the weights after raising (A and Aw do not depend on the
order, but subtracting first would cost digits); what the prediction made suffered beyond that ê² is added to the sum.
Since ê² ≤ R² and z/(1 + z) ≤ ln(1 + z), the third term is at most R²·ln det(A₀⁻¹A) with A₀ the first ridge of each
column; Σa² ≤ R². Mixture: aggregate.py. Last term: what the cap hid from the learner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..certificates.certificate import Assumption, Status
from ..certificates.regret import RegretCertificate
from . import classify as labels
from . import regress as numbers
from .members import INTERCEPT_RIDGE

if TYPE_CHECKING:
    from .mixture import MixtureModel

SQUARED = (
    "regret to every member ≤ 2Δ, of the second level to the first ≤ 2Δ′ more; least squares member: "
    "loss ≤ min over w of {Σ(y − w·u)² + wᵀA₀w} + R²·ln det(A₀⁻¹A) + R², R the label range and its margin"
)
MEMBERS = "regret to every member ≤ 2Δ + 2Δ′ ≤ 4R²·ln(4K) + 4R², R the label range and its margin"
LOG = "loss ≤ the best member's + ln K + ln 3 (times the largest weight if above 1)"


def squared_certificate(model: MixtureModel) -> RegretCertificate:
    """What a regression mixture proves now."""
    if not model.arrays:
        return RegretCertificate(status=Status.PROVEN, bound=0.0, best_fixed_loss=0.0, regret=0.0, theorem=MEMBERS)
    t, a = model.arrays["totals"], model.arrays
    loss, first = float(t[numbers.LOSS]), float(t[numbers.FIRST_LOSS])
    mixing = 2.0 * float(t[numbers.GAP_STATIC]) + 2.0 * float(t[numbers.GAP_TOP]) + model.phase_gap
    extra = first + mixing + float(t[numbers.CAPPED_EXCESS])
    bound = extra + model.phase_loss + float(a["losses"].min())
    theorem, bound_comparator = MEMBERS, None
    comparator: np.ndarray | None = None
    best_fixed_loss = first + model.phase_loss + float(a["losses"].min())
    restarts = int(t[numbers.RESTARTS])
    held = True
    worst = None
    if model.hindsight is not None:
        inside, best_fixed_loss = model.hindsight.best()
        comparator = model.hindsight.outside(inside)
        if model.filters and not restarts:
            bound, theorem, worst = math.inf, SQUARED, 0.0
            for f in range(model.filters):
                if a["forget"][f] < 1.0:
                    continue
                ridge = np.concatenate([[INTERCEPT_RIDGE], a["ridge"][f] * a["columns"][3, : model.width]])
                weights, least = model.hindsight.best(ridge, learned=True)
                # What the recursion summed must not exceed the minimum: the arithmetic, checked by other arithmetic.
                scale = max(least, 1e-12 * model.hindsight.scale(), 1e-300)
                worst = max(worst, float(a["ledger"][f, 0]) / scale)
                total = extra + max(least, float(a["ledger"][f, 0])) + float(a["ledger"][f, 1])
                total += float(t[numbers.OVERSHOOT])
                if total < bound:
                    bound, bound_comparator = total, model.hindsight.outside(weights)
            held = worst <= 1.0 + 1e-6
    assumptions = [
        Assumption(
            "labels within ten ranges of the range seen before (others are learned capped; the rest is in the bound)",
            held=bool(t[numbers.CAPPED] == 0.0),
            worst=float(t[numbers.CAPPED]),
            limit=0.0,
        ),
    ]
    if worst is not None:
        assumptions.append(
            Assumption(
                "the recursion's sum stays below the minimum from the moments (rounding)",
                held=held,
                worst=worst,
                limit=1.0 + 1e-6,
                remedy="remove columns that are nearly combinations of others",
            )
        )
    if restarts:
        assumptions.append(
            Assumption("no filter began again after rounding", False, float(restarts), 0.0, "scale extreme columns")
        )
    advice = "" if held else "rounding exceeded the tolerance; remove columns that nearly repeat others"
    return RegretCertificate(
        status=Status.PROVEN if held else Status.NOT_PROVEN,
        assumptions=tuple(assumptions),
        advice=advice,
        examples=model.examples,
        loss=loss,
        best_fixed_loss=best_fixed_loss,
        regret=loss - best_fixed_loss,
        bound=bound,
        comparator=comparator,
        bound_comparator=bound_comparator,
        theorem=theorem,
    )


def log_certificate(model: MixtureModel) -> RegretCertificate:
    """What a classification mixture proves now: the comparator is the best member."""
    if not model.arrays:
        return RegretCertificate(status=Status.PROVEN, bound=0.0, best_fixed_loss=0.0, regret=0.0, theorem=LOG)
    t, losses = model.arrays["totals"], model.arrays["losses"]
    largest = max(1.0, float(t[labels.LARGEST_WEIGHT]))
    loss = float(t[labels.LOSS])
    best = model.phase_loss + float(losses.min())
    bound = best + largest * (math.log(len(losses)) + math.log(3.0) + model.phase_logs) + float(t[labels.EXCESS])
    which = int(np.argmin(losses))
    comparator = None if which < labels.SIMPLE else model.member_coefficients()[which].squeeze()
    return RegretCertificate(
        status=Status.PROVEN,
        examples=model.examples,
        loss=loss,
        best_fixed_loss=best,
        regret=loss - best,
        bound=bound,
        comparator=comparator,
        theorem=f"{LOG}; the best member is {model.members[which]}",
    )
