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

from ..objective.penalties import scaled_conjugate, scaled_prox, scaled_value
from ..solvers.separable_penalty import (
    separable_conjugate,
    separable_shrink,
    separable_stationarity,
    separable_value,
)


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
    weights: Any = None  # arrays, where there is a user's part
    scale: Any = None

    @classmethod
    def nothing(cls, size: int) -> ScaledPenalty:
        zero = np.zeros(size)
        return cls(zero, zero.copy(), np.full(size, -np.inf), np.full(size, np.inf))

    def in_units(self, scale: np.ndarray) -> ScaledPenalty:
        """The same penalty on w = θ/scale."""
        own = dataclasses.replace(
            self, l1=self.l1 * scale, l2=self.l2 * scale**2, lower=self.lower / scale, upper=self.upper / scale
        )
        if self.groups:  # a group shares one scale
            own.strengths = self.strengths * np.array([scale[group[0]] for group in self.groups])
        if self.part is not None and self.scale is not None:
            own.scale = np.ones_like(self.scale)
        return own

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

    @functools.cached_property
    def plain(self) -> np.ndarray:
        """The held parameters that the arrays describe: in no group and under no user's part."""
        plain = ~self.free
        for group in self.groups:
            plain[group] = False
        if self.weights is not None:
            plain[: len(self.weights)] = False
        return plain

    def value(self, theta: np.ndarray) -> float:
        total = float(separable_value(theta, self.l1, self.l2))
        for group, strength in zip(self.groups, self.strengths, strict=True):
            total += float(strength) * float(np.linalg.norm(theta[group]))
        if self.part is not None:
            total += scaled_value(self.part, theta, self.scale, self.weights)
        return total

    def difference(self, before: np.ndarray, after: np.ndarray) -> float:
        """Ω(before) − Ω(after), taken coefficient by coefficient: two sums would hide a small one."""
        total = float(
            (self.l1 * (np.abs(before) - np.abs(after))).sum()
            + (0.5 * self.l2 * (before - after) * (before + after)).sum()
        )
        for group, strength in zip(self.groups, self.strengths, strict=True):
            one, two = before[group], after[group]
            both = float(np.linalg.norm(one) + np.linalg.norm(two))
            total += float(strength) * float((one - two) @ (one + two)) / both if both > 0.0 else 0.0
        if self.part is not None:
            total += scaled_value(self.part, before, self.scale, self.weights)
            total -= scaled_value(self.part, after, self.scale, self.weights)
        return total

    def prox(self, theta: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """argmin over v of ½‖v − θ‖² + step·Ω(v); a step per parameter is allowed where Ω is separable."""
        out = np.sign(theta) * np.maximum(np.abs(theta) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        np.clip(out, self.lower, self.upper, out=out)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            norm = float(np.linalg.norm(out[group]))
            out[group] *= max(0.0, 1.0 - step * strength / norm) if norm > 0.0 else 0.0
        if self.part is not None:
            scaled_prox(self.part, theta, float(step), self.scale, self.weights, out)
        return out

    def conjugate(self, z: np.ndarray) -> float:
        """sup over θ of z·θ − Ω(θ); z of the free parameters is taken as 0."""
        total = 0.0
        if self.part is not None and self.weights is not None:
            total += scaled_conjugate(self.part, z, self.scale, self.weights)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            if np.linalg.norm(z[group]) > strength * (1.0 + 1e-12):
                return np.inf
        return total + float(
            separable_conjugate(z, self.l1, self.l2, self.lower, self.upper, self.plain.view(np.uint8))
        )

    def shrink(self, z: np.ndarray) -> float:
        """The largest factor ≤ 1 that brings z into the domain of the conjugate."""
        factor = float(separable_shrink(z, self.l1, self.l2, self.lower, self.upper, self.plain.view(np.uint8)))
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

    def stationarity(self, theta: np.ndarray, gradient: np.ndarray, some: np.ndarray | None = None) -> np.ndarray:
        """The smallest subgradient of loss + Ω (for a user's part: the prox residual); of some parameters, if given."""
        if some is not None:
            out = np.empty(len(some))
            l1, l2, lower, upper = self.l1[some], self.l2[some], self.lower[some], self.upper[some]
            separable_stationarity(theta[some], gradient[some], l1, l2, lower, upper, out)
            return out
        out = np.empty(len(theta))
        separable_stationarity(theta, gradient, self.l1, self.l2, self.lower, self.upper, out)
        for group, strength in zip(self.groups, self.strengths, strict=True):
            norm = float(np.linalg.norm(theta[group]))
            if norm > 0.0:
                out[group] = gradient[group] + strength * theta[group] / norm
            else:
                size = float(np.linalg.norm(gradient[group]))
                out[group] = gradient[group] * max(0.0, 1.0 - strength / size) if size > 0.0 else 0.0
        if self.part is not None and self.weights is not None:
            k = len(self.weights)
            out[:k] = (theta - self.prox(theta - gradient, 1.0))[:k]
        return out
