"""The duality gap of the lasso and the elastic net: valid for any coefficients whatever.

With rows weighted and columns and target centred (so that an unpenalised intercept is already at its optimum for
the coefficients, and every residual sums to zero), the problem is

    P(b) = ½‖y − Xb‖² + τ‖b‖₁ + ½μ‖b‖².

Stack √μ·I under X and the elastic net is a lasso, whose dual point is any multiple s of (r, −√μ·b) with
s·|x_j'r − μb_j| ≤ τ for all j. The dual value s·y'r − ½s²(‖r‖² + μ‖b‖²) is a parabola in s; the best admissible s is
its peak, clipped. With τ = 0 (a ridge) the conjugate of ½μb² takes the constraint's place.
Everything is vectorised over penalties and divided by the sum of weights, so that the values are those of the
objective ``(1/2n)‖y − Xb‖² + α·ρ‖b‖₁ + ½α(1 − ρ)‖b‖²``.

Callers say by how much rounding may have changed ‖r‖², y'r and x_j'r; the dual value stated is what survives that, for
itself and for the primal value beside it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..certificates.optimality import relative_gap
from ..doubled import UNIT


class LassoGaps(NamedTuple):
    """Per penalty: the objective, a lower bound of its minimum, and their distance."""

    primal: np.ndarray
    dual: np.ndarray

    @property
    def gap(self) -> np.ndarray:
        return self.primal - self.dual

    def relative(self, null: float) -> np.ndarray:
        """Each gap as a part of what there is to explain; ``null`` is the loss of the best constant."""
        return np.array(
            [
                relative_gap(float(primal - dual), float(primal), null, 0.0)
                for primal, dual in zip(self.primal, self.dual, strict=True)
            ]
        )


class Sums(NamedTuple):
    """‖r‖² and y'r of each penalty, and by how much rounding may have changed them."""

    residual_square: np.ndarray
    target_dot_residual: np.ndarray
    square_error: np.ndarray | float = 0.0
    dot_error: np.ndarray | float = 0.0


def summing_error(n: int) -> float:
    """What rounding may lose of a sum of n terms, as a part of the sum of their sizes.

    Roundings are as good as independent, so their sum grows like √n, not n (Higham and Mary, 2019).
    """
    return UNIT * (8.0 + 2.0 * math.sqrt(n))


def lasso_gaps(
    sums: Sums,
    absolute_sum: np.ndarray,
    square_sum: np.ndarray,
    largest: np.ndarray,
    tau: np.ndarray,
    mu: np.ndarray,
    scale: float,
    positive: bool = False,
) -> LassoGaps:
    """Gaps from the sums, ‖b‖₁, ‖b‖² and the largest |x_j'r − μb_j| (without bars where b ≥ 0 is imposed).

    ``largest`` has what rounding may hide of it added.

    >>> four, two, nothing = np.array([4.0]), np.array([2.0]), np.zeros(1)
    >>> gaps = lasso_gaps(Sums(four, four), nothing, nothing, two, two, nothing, 1.0)
    >>> float(gaps.primal[0]), bool(gaps.gap[0] < 1e-14)
    (2.0, True)
    """
    augmented = sums.residual_square + mu * square_sum
    primal = 0.5 * augmented + tau * absolute_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(largest > 0.0, tau / largest, np.inf)
        peak = np.where(augmented > 0.0, sums.target_dot_residual / augmented, 0.0)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    step = np.clip(peak, 0.0 if positive else -limit, limit)
    along, across = step * sums.target_dot_residual, 0.5 * step * step * augmented
    lost = 0.5 * (1.0 + step * step) * sums.square_error + np.abs(step) * sums.dot_error
    lost = lost + 8.0 * UNIT * (primal + np.abs(along) + across)
    return LassoGaps(primal / scale, np.maximum(along - across - lost, 0.0) / scale)


def ridge_gaps(
    sums: Sums,
    absolute_sum: np.ndarray,
    square_sum: np.ndarray,
    excess_square: np.ndarray,
    tau: np.ndarray,
    mu: np.ndarray,
    scale: float,
) -> LassoGaps:
    """With a ridge the residual itself is a dual point: its value is y'r − ½‖r‖² − Σ(|x_j'r| − τ)₊²/2μ.

    ``excess_square`` is that sum (over positive x_j'r only where b ≥ 0 is imposed), with what rounding may hide of each
    |x_j'r| added. For τ = 0 there is no other.
    """
    primal = 0.5 * sums.residual_square + 0.5 * mu * square_sum + tau * absolute_sum
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.where(excess_square > 0.0, 0.5 * excess_square / mu, 0.0)
    dual = sums.target_dot_residual - 0.5 * sums.residual_square - penalty
    lost = sums.square_error + sums.dot_error + 8.0 * UNIT * (primal + np.abs(sums.target_dot_residual) + penalty)
    return LassoGaps(primal / scale, np.maximum(dual - lost, 0.0) / scale)


def elastic_gaps(
    sums: Sums, coefs: np.ndarray, correlations: np.ndarray, unsure: np.ndarray, tau: np.ndarray, mu: np.ndarray,
    scale: float, positive: bool,
) -> LassoGaps:  # fmt: skip
    """Gaps from all x_j'r (penalties × columns, as ``coefs``) and what rounding may hide of them: the better dual point."""
    absolute, squares = np.abs(coefs).sum(axis=1), np.einsum("pj,pj->p", coefs, coefs)
    excess = (correlations if positive else np.abs(correlations)) + unsure - tau[:, None]
    excess = np.maximum(excess, 0.0)
    ridge = ridge_gaps(sums, absolute, squares, np.einsum("pj,pj->p", excess, excess), tau, mu, scale)
    if not tau.any():
        return ridge
    g = correlations - mu[:, None] * coefs
    largest = np.max((g if positive else np.abs(g)) + unsure, axis=1, initial=0.0)
    lasso = lasso_gaps(sums, absolute, squares, largest, tau, mu, scale, positive)
    return LassoGaps(lasso.primal, np.maximum(lasso.dual, ridge.dual)) if mu.any() else lasso
