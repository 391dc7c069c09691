"""The duality gap of the lasso and the elastic net: valid for any coefficients whatever.

With rows weighted and columns and target centred (so that an unpenalised intercept is already at its optimum for
the coefficients, and every residual sums to zero), the problem is

    P(b) = ½‖y − Xb‖² + τ‖b‖₁ + ½μ‖b‖².

Stack √μ·I under X and the elastic net is a lasso, whose dual point is any multiple s of (r, −√μ·b) with
s·|x_j'r − μb_j| ≤ τ for all j. The dual value s·y'r − ½s²(‖r‖² + μ‖b‖²) is a parabola in s; the best admissible s is
its peak, clipped. With τ = 0 (a ridge) the conjugate of ½μb² takes the constraint's place.
Everything is vectorised over penalties and divided by the sum of weights, so that the values are those of the
objective ``(1/2n)‖y − Xb‖² + α·ρ‖b‖₁ + ½α(1 − ρ)‖b‖²``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class LassoGaps(NamedTuple):
    """Per penalty: the objective, a lower bound of its minimum, and their distance."""

    primal: np.ndarray
    dual: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        return self.primal - self.dual

    @property
    def relative(self) -> np.ndarray:
        """The gap as a part of the objective; 0 where both are 0."""
        return np.divide(self.gap, self.primal, out=np.zeros_like(self.primal), where=self.primal > 0.0)


def lasso_gaps(
    residual_square: np.ndarray,
    target_dot_residual: np.ndarray,
    absolute_sum: np.ndarray,
    square_sum: np.ndarray,
    largest: np.ndarray,
    tau: np.ndarray,
    mu: np.ndarray,
    scale: float,
    positive: bool = False,
) -> LassoGaps:
    """Gaps from ‖r‖², y'r, ‖b‖₁, ‖b‖² and the largest |x_j'r − μb_j| (without bars where b ≥ 0 is imposed).

    >>> gaps = lasso_gaps(*(np.array([v]) for v in (4.0, 4.0, 0.0, 0.0, 2.0, 2.0, 0.0)), 1.0)
    >>> float(gaps.primal[0]), float(gaps.gap[0])
    (2.0, 0.0)
    """
    augmented = residual_square + mu * square_sum
    primal = 0.5 * augmented + tau * absolute_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(largest > 0.0, tau / largest, np.inf)
        peak = np.where(augmented > 0.0, target_dot_residual / augmented, 0.0)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    step = np.clip(peak, 0.0 if positive else -limit, limit)
    dual = step * target_dot_residual - 0.5 * step * step * augmented
    return LassoGaps(primal / scale, dual / scale)


def ridge_gaps(
    residual_square: np.ndarray,
    target_dot_residual: np.ndarray,
    square_sum: np.ndarray,
    correlation_square: np.ndarray,
    mu: np.ndarray,
    scale: float,
) -> LassoGaps:
    """The case τ = 0: gaps from ‖r‖², y'r, ‖b‖² and ‖X'r‖² (over positive entries only where b ≥ 0 is imposed)."""
    primal = 0.5 * residual_square + 0.5 * mu * square_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(correlation_square > 0.0, 0.5 * correlation_square / mu, 0.0)
    dual = target_dot_residual - 0.5 * residual_square - penalty
    return LassoGaps(primal / scale, np.maximum(dual, 0.0) / scale)
