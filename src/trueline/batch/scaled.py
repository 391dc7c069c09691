"""The penalty in the solver's coordinates: one record of arrays for every built-in penalty and bound.

With θ_j = scale_j·w_j a penalty l1|w| + ½l2·w² on lower ≤ w ≤ upper becomes (l1/scale)|θ| + ½(l2/scale²)θ² on
scaled bounds: again the same form, so L1, L2, elastic net, non-negativity, boxes and per-coefficient weights need
no code of their own. Group norms keep their form because a group shares one scale. A user's separable penalty p is
used through its own methods: prox of p(θ/scale) is scale·prox_p(θ/scale, step/scale²).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from .._jit import kernel


@kernel
def custom_value(part, theta, scale, weights):
    total = 0.0
    for j in range(weights.shape[0]):
        total += part.value(theta[j] / scale[j], weights[j])
    return total


@kernel
def custom_prox(part, theta, step, scale, weights, out):
    for j in range(weights.shape[0]):
        s = scale[j]
        out[j] = s * part.prox(theta[j] / s, step / (s * s), weights[j])


@kernel
def custom_conjugate(part, z, scale, weights):
    total = 0.0
    for j in range(weights.shape[0]):
        total += part.conjugate(z[j] * scale[j], weights[j])
    return total


@dataclasses.dataclass
class ScaledPenalty:
    """Ω(θ) = Σ l1|θ| + ½l2·θ² on [lower, upper], plus Σ strength_g‖θ_g‖, plus a user's part, if any."""

    l1: np.ndarray
    l2: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    groups: list[np.ndarray] = dataclasses.field(default_factory=list)
    strengths: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    part: Any = None
    weights: np.ndarray | None = None
    scale: np.ndarray | None = None

    @classmethod
    def nothing(cls, size: int) -> ScaledPenalty:
        zero = np.zeros(size)
        return cls(zero, zero.copy(), np.full(size, -np.inf), np.full(size, np.inf))

    # The arrays do not change once a problem has been put together, and these are asked for at every point.

    @functools.cached_property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @property
    def separable(self) -> bool:
        """Whether the arrays say everything."""
        return not self.groups and self.part is None

    @property
    def smooth(self) -> bool:
        return self.separable and not self.bounded and not self.l1.any()

    @functools.cached_property
    def free(self) -> np.ndarray:
        """The parameters that nothing holds: their correlation with a dual point must vanish."""
        held = (self.l1 > 0) | (self.l2 > 0) | np.isfinite(self.lower) | np.isfinite(self.upper)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            held[group] |= strength > 0
        if self.weights is not None:
            held[: len(self.weights)] = True
        return ~held

    def value(self, theta: np.ndarray) -> float:
        # Sums, not dot products: on long vectors BLAS would wake its threads for a few microseconds of work.
        total = float((self.l1 * np.abs(theta)).sum() + 0.5 * (self.l2 * theta * theta).sum())
        for group, strength in zip(self.groups, self.strengths, strict=True):
            total += float(strength) * float(np.linalg.norm(theta[group]))
        if self.part is not None:
            total += custom_value(self.part, theta, self.scale, self.weights)
        return total

    def prox(self, theta: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """argmin over v of ½‖v − θ‖² + step·Ω(v); a step per parameter is allowed where Ω is separable."""
        out = np.sign(theta) * np.maximum(np.abs(theta) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        np.clip(out, self.lower, self.upper, out=out)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            norm = float(np.linalg.norm(out[group]))
            out[group] *= max(0.0, 1.0 - step * strength / norm) if norm > 0.0 else 0.0
        if self.part is not None:
            custom_prox(self.part, theta, float(step), self.scale, self.weights, out)
        return out

    def conjugate(self, z: np.ndarray) -> float:
        """sup over θ of z·θ − Ω(θ); z of the free parameters is taken as 0."""
        held = ~self.free
        total = 0.0
        if self.part is not None and self.weights is not None:
            total += custom_conjugate(self.part, z, self.scale, self.weights)
            held[: len(self.weights)] = False
        for group, strength in zip(self.groups, self.strengths, strict=True):
            if np.linalg.norm(z[group]) > strength * (1.0 + 1e-12):
                return np.inf
            held[group] = False
        z, l1, l2 = z[held], self.l1[held], self.l2[held]
        lower, upper = self.lower[held], self.upper[held]
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.abs(z) <= l1 * (1.0 + 1e-12)
            excess = np.sign(z) * np.maximum(np.abs(z) - l1, 0.0)
            best = np.where(inside, 0.0, np.where(l2 > 0.0, excess / l2, np.sign(z) * np.inf))
            best = np.clip(best, lower, upper)
            if not np.isfinite(best).all():
                return np.inf
        return total + float((z * best - l1 * np.abs(best) - 0.5 * l2 * best * best).sum())

    def shrink(self, z: np.ndarray) -> float:
        """The largest factor ≤ 1 that brings z into the domain of the conjugate."""
        held = ~self.free
        up = held & (self.l2 == 0.0) & np.isinf(self.upper) & (z > 0.0)
        down = held & (self.l2 == 0.0) & np.isinf(self.lower) & (z < 0.0)
        for group in self.groups:
            up[group] = down[group] = False
        if self.part is not None and self.weights is not None:
            up[: len(self.weights)] = down[: len(self.weights)] = False
        limited = up | down
        factor = float(np.min(self.l1[limited] / np.abs(z[limited]), initial=1.0))
        for group, strength in zip(self.groups, self.strengths, strict=True):
            norm = float(np.linalg.norm(z[group]))
            factor = min(factor, strength / norm if norm > 0.0 and strength > 0.0 else 1.0)
        if self.part is not None:
            low = 0.0
            if not np.isfinite(self.conjugate(factor * z)):
                high = factor
                for _ in range(60):
                    middle = 0.5 * (low + high)
                    low, high = (middle, high) if np.isfinite(self.conjugate(middle * z)) else (low, middle)
                factor = low
        return factor

    def unbalanced(self, theta: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Parameters held by a one-sided bound alone whose z must be 0: those inside it, or on its wrong side."""
        if not self.bounded:
            return np.zeros(len(theta), dtype=bool)
        bare = (self.l1 == 0.0) & (self.l2 == 0.0) & ~self.free
        for group in self.groups:
            bare[group] = False
        if self.weights is not None:
            bare[: len(self.weights)] = False
        below = bare & np.isinf(self.upper) & np.isfinite(self.lower) & ((theta > self.lower) | (z > 0.0))
        above = bare & np.isinf(self.lower) & np.isfinite(self.upper) & ((theta < self.upper) | (z < 0.0))
        return below | above

    def stationarity(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The smallest subgradient of loss + Ω (for a user's part: the prox residual)."""
        g = gradient + self.l2 * theta
        out = np.copysign(np.maximum(np.abs(g) - self.l1, 0.0), g)
        moved = np.flatnonzero(theta)
        out[moved] = g[moved] + self.l1[moved] * np.sign(theta[moved])
        if self.bounded:
            out = np.where(theta <= self.lower, np.minimum(out, 0.0), out)
            out = np.where(theta >= self.upper, np.maximum(out, 0.0), out)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            norm = float(np.linalg.norm(theta[group]))
            if norm > 0.0:
                out[group] = g[group] + strength * theta[group] / norm
            else:
                size = float(np.linalg.norm(g[group]))
                out[group] = g[group] * max(0.0, 1.0 - strength / size) if size > 0.0 else 0.0
        if self.part is not None and self.weights is not None:
            k = len(self.weights)
            out[:k] = (theta - self.prox(theta - gradient, 1.0))[:k]
        return out
