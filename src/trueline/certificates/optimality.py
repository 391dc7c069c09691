"""What closed forms and solvers prove: digits of coefficients, or a duality gap; and how flat a network's loss is.

For a convex objective P and any feasible dual point with value D: D ≤ min P ≤ P(w), so P(w) − D bounds the distance
to the optimum. What a gap is divided by is defined here and nowhere else (``relative_gap``), and so is the rule by
which a gap proves a result (``gap_certificate``). Solvers and verifier compute the inputs apart.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .certificate import Assumption, Certificate, Status, few, number

PROVEN_GAP = (
    1e-6  # the largest relative gap that is called a proof; the verifier's tolerance, whatever a solver was asked
)
LEAST_DIGITS = 1.0  # a closed form of which fewer digits hold is not proven
PROVEN_RESIDUAL = 1e-6  # of its eigenvalue: the longest residual of a principal component that is called a proof
FLOOR = 1e-3
COLUMNS_NAMED = 20
LOOSE = (
    f"the gap is within the tolerance {{:g}} that was asked for, but a proof takes {PROVEN_GAP:g}: lower tol for one"
)
ROUNDED = 1e-15  # of the objective: a gap that rounding alone can leave


def yardstick(primal: float, null: float, saturated: float) -> float:
    """What a gap is divided by, as ``relative_gap`` says."""
    return max(primal - saturated, FLOOR * (null - saturated))


def relative_gap(gap: float, primal: float, null: float, saturated: float) -> float:
    """The gap as a part of what there is to explain.

    ``null`` is the objective of the best constant where a constant lies in the span of the columns (an intercept or a
    column of ones), else the objective at w = 0; ``saturated`` the least loss that the targets allow. The gap is
    divided by primal − saturated, but never by less than a thousandth of null − saturated: an objective that vanishes
    at its optimum (data that are fitted exactly) has no relative accuracy. Where the least loss is not known (−∞) no
    gap is small. Moving or scaling the target along with the
    model leaves the quotient as it is.

    >>> relative_gap(0.01, 0.5, null=1.0, saturated=0.0)
    0.02
    >>> relative_gap(0.01, 100.5, null=101.0, saturated=100.0)
    0.02
    """
    scale = yardstick(primal, null, saturated)
    if not (math.isfinite(gap) and math.isfinite(scale)) or math.isnan(null):
        return math.inf
    if scale > 0.0:
        return max(gap, 0.0) / scale
    return 0.0 if gap <= 0.0 else math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactCertificate(Certificate):
    """Closed-form least squares: how many digits hold, and what the data themselves allow."""

    kind: ClassVar[str] = "exact"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "arithmetic_digits", "data_digits", "condition_number", "rank", "dropped", "orthogonality",
    )  # fmt: skip
    arithmetic_digits: float = 0.0
    data_digits: float = 0.0
    condition_number: float = float("nan")
    rank: int = 0
    dropped: tuple[str, ...] = ()
    orthogonality: float = float("nan")

    @property
    def digits(self) -> float:
        return min(self.arithmetic_digits, self.data_digits)

    def claim(self) -> str:
        return (
            f"{self.digits:.1f} digits (arithmetic {self.arithmetic_digits:.1f}, data allow {self.data_digits:.1f}), "
            f"condition number {self.condition_number:.3g}, rank {self.rank}"
            + (f", dependent columns {few(self.dropped)}" if self.dropped else "")
        )

    def paragraphs(self) -> list[str]:
        sentences = [
            f"{self.digits:.1f} decimal digits of every coefficient are correct: they would not change if the whole "
            f"computation were repeated with unlimited precision. The arithmetic alone carries {self.arithmetic_digits:.1f}; "
            "the numbers in the table, each taken as known to half a unit in its last place, allow "
            f"{self.data_digits:.1f}.",
            f"The condition number of the scaled columns is {number(self.condition_number, 3)}: a relative change of the "
            f"data of 10⁻¹⁶ can move the coefficients by about {self.condition_number * 1e-16:.1g} of their size. The rank "
            f"is {self.rank}.",
        ]
        if self.dropped:
            sentences.append(f"These columns are combinations of the others: {few(self.dropped, COLUMNS_NAMED)}.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"digits": self.digits}


def exact_status(digits: float, dropped: Sequence[str]) -> Status:
    """What digits prove: nothing where there is not one of them, and nothing unique where columns were dropped.

    >>> exact_status(13.0, ()), exact_status(0.4, ()), exact_status(13.0, ("x2",))
    (<Status.PROVEN: 'proven'>, <Status.NOT_PROVEN: 'not_proven'>, <Status.DEGENERATE: 'degenerate'>)
    """
    if dropped:
        return Status.DEGENERATE
    return Status.PROVEN if digits >= LEAST_DIGITS else Status.NOT_PROVEN


def components_status(seen: bool, residual: float, digits: float) -> Status:
    """Of principal components: ``residual`` is the longest C·v − λ·v as a part of λ, ``seen`` whether any λ is no rounding.

    >>> components_status(True, 1e-12, 13.0), components_status(True, 1e-12, 0.2)
    (<Status.PROVEN: 'proven'>, <Status.NOT_PROVEN: 'not_proven'>)
    """
    if not seen:
        return Status.DEGENERATE
    return Status.PROVEN if residual <= PROVEN_RESIDUAL and digits >= LEAST_DIGITS else Status.NOT_PROVEN


def gap_status(gap: float, relative: float, tolerance: float, assumptions: Sequence[Assumption] = ()) -> Status:
    """Proven where a gap that is not negative is within both tolerances, the caller's and ``PROVEN_GAP``, and all is assumed
    rightly.

    >>> gap_status(1e-9, 1e-8, 1e-6), gap_status(-1e-9, 0.0, 1e-6), gap_status(1e-3, 1e-2, 1e6)
    (<Status.PROVEN: 'proven'>, <Status.NOT_PROVEN: 'not_proven'>, <Status.NOT_PROVEN: 'not_proven'>)
    """
    near = gap >= 0.0 and relative <= min(tolerance, PROVEN_GAP)
    return Status.PROVEN if near and all(item.held for item in assumptions) else Status.NOT_PROVEN


@dataclasses.dataclass(frozen=True, kw_only=True)
class GapCertificate(Certificate):
    """A minimised objective: the primal value, a dual value below the optimum, and their distance."""

    kind: ClassVar[str] = "gap"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "primal", "dual", "gap", "relative_gap", "gradient_norm", "newton_decrement",
        "largest_step",
    )  # fmt: skip
    primal: float = float("nan")
    dual: float = float("nan")
    gap: float = float("inf")
    relative_gap: float = float("inf")
    gradient_norm: float | None = None
    newton_decrement: float | None = None
    largest_step: float | None = None  # constant steps below 2/λ_max of the Hessian converge
    tolerance: float = PROVEN_GAP  # the relative gap that was asked for

    @property
    def reached(self) -> bool:
        """Whether the gap is what was asked for, be it a proof or not."""
        return self.gap >= 0.0 and self.relative_gap <= self.tolerance

    def claim(self) -> str:
        return f"objective {self.primal:.12g}, duality gap {self.gap:.2g}, relative {self.relative_gap:.2g}"

    def paragraphs(self) -> list[str]:
        gap = max(self.gap, 0.0)
        near = (
            f"this answer is within {number(gap, 3)} of the best possible (relative gap {number(self.relative_gap, 3)})"
        )
        if gap <= ROUNDED * abs(self.primal):
            near = "no answer can be better in the digits that a computer's numbers have"
        return [
            f"The objective reached {number(self.primal, 8)}. A dual value proves that no coefficients whatever can go "
            f"below {number(self.dual, 8)}, so {near}. Anyone can recompute both numbers from the data and the coefficients."
        ]


def gap_certificate(
    primal: float,
    dual: float,
    *,
    null: float,
    saturated: float,
    tolerance: float = PROVEN_GAP,
    status: Status | None = None,
    **fields: Any,
) -> GapCertificate:
    """The certificate of these values, with the status that ``gap_status`` gives them.

    Whoever computes ``dual`` has already subtracted the rounding of its sums, and of those of ``primal``. A dual value
    above the primal one is a contradiction, and proves nothing. ``status`` overrides a proof, never the lack of one.

    >>> print(gap_certificate(0.5, 0.4999999, null=1.0, saturated=0.0))
    proven: objective 0.5, duality gap 1e-07, relative 2e-07
    >>> gap_certificate(0.5, 0.6, null=1.0, saturated=0.0).proven
    False
    """
    gap = primal - dual if math.isfinite(primal) and math.isfinite(dual) else math.inf
    relative = relative_gap(gap, primal, null, saturated)
    found = gap_status(gap, relative, tolerance, fields.get("assumptions", ()))
    if status is None or status is Status.PROVEN:
        status = found
    made = GapCertificate(
        status=status, primal=primal, dual=dual, gap=gap, relative_gap=relative, tolerance=tolerance, **fields
    )
    if status is Status.NOT_PROVEN and made.reached and not made.advice:
        made = dataclasses.replace(made, advice=LOOSE.format(tolerance))
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelCertificate(GapCertificate):
    """½Σw(y − f)² + ½α‖f‖² against a dual value below its minimum over ``scope``.

    ``residual`` is the largest residual of the linear system relative to the largest target, or in landmarks and random
    features the length of the gradient relative to that of the features' products with the targets; ``leave_one_out`` the
    weighted mean squared error of each row's prediction from all others.
    """

    kind: ClassVar[str] = "kernel"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "primal", "dual", "gap", "relative_gap", "gradient_norm", "residual", "leave_one_out",
    )  # fmt: skip
    scope: str = ""
    residual: float = float("nan")
    leave_one_out: float = float("nan")

    def claim(self) -> str:
        return f"{super().claim()} over {self.scope}, leave-one-out squared error {self.leave_one_out:.6g}"


FLAT = 1e-2


def network_status(loss: float, gradient_norm: float, size: float) -> Status:
    """Stationary where no change of one percent promises a ten-thousandth of the loss, to first order; never proven.

    A change is one percent of the weights' length ``size``, or of the root of twice the loss, which for the squared loss
    is the size of a residual: the constant of the output may move by that much.

    >>> network_status(0.5, 1e-4, 10.0), network_status(0.5, 0.1, 10.0)
    (<Status.STATIONARY: 'stationary'>, <Status.NOT_PROVEN: 'not_proven'>)
    """
    reach = max(size, math.sqrt(2.0 * abs(loss)))
    return Status.STATIONARY if gradient_norm * reach <= FLAT * abs(loss) else Status.NOT_PROVEN


@dataclasses.dataclass(frozen=True, kw_only=True)
class StationaryCertificate(Certificate):
    """The mean loss and the norm of its gradient at the end, and at the start for comparison; never a proof.

    The objective is not convex: a gradient of 0 would show a stationary point, not the best network.
    """

    kind: ClassVar[str] = "stationary"
    checked: ClassVar[tuple[str, ...]] = ("status", "assumptions", "loss", "gradient_norm")
    examples: int = 0
    loss: float = float("nan")
    gradient_norm: float = float("nan")
    start_loss: float = float("nan")
    start_gradient_norm: float = float("nan")
    validation_loss: float = float("nan")
    rows: str = ""

    def claim(self) -> str:
        return (
            f"mean loss {self.loss:.6g} (from {self.start_loss:.6g}), gradient norm {self.gradient_norm:.3g} (from "
            f"{self.start_gradient_norm:.3g}) on {self.rows}"
        )
