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

from ..certificates.certificate import Assumption
from ..certificates.regret import BEST_MEMBER, RegretCertificate, bound_status, rounded_up
from . import log_totals as labels
from . import squared_totals as numbers
from .best_fixed import Least
from .members import INTERCEPT_RIDGE
from .regret import against

if TYPE_CHECKING:
    from .mixture import MixtureModel

SQUARED = (
    "regret to every member ≤ 2Δ, of the second level to the first ≤ 2Δ′ more; least squares member: "
    "loss ≤ min over w of {Σ(y − w·u)² + wᵀA₀w} + R²·ln det(A₀⁻¹A) + R², R the label range and its margin"
)
MEMBERS = "regret to every member ≤ 2Δ + 2Δ′ ≤ 4R²·ln(4K) + 4R², R the label range and its margin"
ROUNDED = 1e-6  # by how much of itself the recursion's sum may exceed the minimum from the moments
LOG = "loss ≤ the best member's + ln K + ln 3 (times the largest weight if above 1)"


def squared_certificate(model: MixtureModel) -> RegretCertificate:
    """What a regression mixture proves now."""
    if not model.arrays:
        return RegretCertificate(status=bound_status(0.0, 0.0, ()), bound=0.0, theorem=MEMBERS)
    t, a = model.arrays["totals"], model.arrays
    loss, first = float(t[numbers.LOSS]), float(t[numbers.FIRST_LOSS])
    mixing = 2.0 * float(t[numbers.GAP_STATIC]) + 2.0 * float(t[numbers.GAP_TOP]) + model.phase_gap
    extra = first + mixing + float(t[numbers.CAPPED_EXCESS])
    bound = extra + model.phase_loss + float(a["losses"].min())
    theorem, bound_comparator = MEMBERS, None
    member = first + model.phase_loss + float(a["losses"].min())
    restarts = int(t[numbers.RESTARTS])
    least = Least()
    assumptions: list[Assumption] = []
    advice = ""
    if model.hindsight is not None:
        least = model.hindsight.best_fixed_loss()
    if restarts:
        advice = "the bound is to the best member only: a filter began again after rounding; scale extreme columns"
    elif model.hindsight is not None and model.filters:
        through, worst, comparator = math.inf, 0.0, None
        for f in range(model.filters):
            if a["forget"][f] < 1.0:
                continue
            ridge = np.concatenate([[INTERCEPT_RIDGE], a["ridge"][f] * a["columns"][3, : model.width]])
            weights, minimum = model.hindsight.best(ridge)
            # What the recursion summed must not exceed the minimum: the arithmetic, checked by other arithmetic.
            scale = max(minimum, 1e-12 * model.hindsight.scale(), 1e-300)
            worst = max(worst, float(a["ledger"][f, 0]) / scale)
            total = extra + max(minimum, float(a["ledger"][f, 0])) + float(a["ledger"][f, 1])
            total += float(t[numbers.OVERSHOOT])
            if total < through:
                through, comparator = total, model.hindsight.outside(weights)
        if worst <= 1.0 + ROUNDED:
            bound, theorem, bound_comparator = through, SQUARED, comparator
            name = "the recursion's sum stays below the minimum from the moments (rounding)"
            assumptions.append(Assumption(name, True, worst, 1.0 + ROUNDED))
        else:
            advice = "the bound is to the best member only: rounding; remove columns that nearly repeat others"
    if t[numbers.CAPPED]:
        name = "labels beyond ten ranges of those seen before are learned capped; the rest is in the bound"
        assumptions.append(Assumption(name, True, float(t[numbers.CAPPED])))
    bound = rounded_up(bound, model.examples)
    fields = against(least, loss) | {"best_member_loss": member}
    if model.hindsight is None:
        fields |= {"regret": loss - member, "regret_to": BEST_MEMBER}
    return RegretCertificate(
        status=bound_status(loss, bound, assumptions), assumptions=tuple(assumptions), advice=advice,
        examples=model.examples, loss=loss, bound=bound, bound_comparator=bound_comparator, theorem=theorem, **fields,
    )  # fmt: skip


def log_certificate(model: MixtureModel) -> RegretCertificate:
    """What a classification mixture proves now, against its best member; the best fixed weights are not known."""
    if not model.arrays:
        return RegretCertificate(status=bound_status(0.0, 0.0, ()), bound=0.0, theorem=LOG)
    t, losses = model.arrays["totals"], model.arrays["losses"]
    largest = max(1.0, float(t[labels.LARGEST_WEIGHT]))
    loss = float(t[labels.LOSS])
    best = model.phase_loss + float(losses.min())
    bound = best + largest * (math.log(len(losses)) + math.log(3.0) + model.phase_logs) + float(t[labels.EXCESS])
    bound = rounded_up(bound, model.examples)
    return RegretCertificate(
        status=bound_status(loss, bound, ()), examples=model.examples, loss=loss, best_member_loss=best,
        regret=loss - best, regret_to=BEST_MEMBER, bound=bound,
        theorem=f"{LOG}; the best member is {model.members[int(np.argmin(losses))]}",
    )  # fmt: skip
