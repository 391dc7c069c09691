"""The ψ of robust regression: how much a residual of u scales may pull.

Each is a record of its constants with vectorised methods: ``rho`` (ρ, what is minimised), ``psi`` = ρ', ``slope`` = ψ'
and ``weight`` = ψ(u)/u. Constants are those of R's ``rlm`` (95% efficiency at the normal where there is one constant).
All have ψ' ≤ 1, so that one step of least squares on the pseudo-residuals never raises Σρ at a fixed scale.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError, nearest


class Huber(NamedTuple):
    """ρ is u²/2 up to k and a line beyond: convex, every residual pulls."""

    k: float = 1.345

    @property
    def redescending(self) -> bool:
        return False

    def rho(self, u: np.ndarray) -> np.ndarray:
        inside = np.minimum(np.abs(u), self.k)
        return inside * (np.abs(u) - 0.5 * inside)

    def psi(self, u: np.ndarray) -> np.ndarray:
        return np.clip(u, -self.k, self.k)

    def slope(self, u: np.ndarray) -> np.ndarray:
        return (np.abs(u) <= self.k).astype(float)

    def weight(self, u: np.ndarray) -> np.ndarray:
        return self.k / np.maximum(np.abs(u), self.k)


class Bisquare(NamedTuple):
    """Tukey's: beyond c a residual does not pull at all."""

    c: float = 4.685

    @property
    def redescending(self) -> bool:
        return True

    def rho(self, u: np.ndarray) -> np.ndarray:
        t = np.minimum((u / self.c) ** 2, 1.0)
        return self.c**2 / 6.0 * t * (3.0 - t * (3.0 - t))  # 1 − (1 − t)³, and no 0 where u is small

    def psi(self, u: np.ndarray) -> np.ndarray:
        return u * self.weight(u)

    def slope(self, u: np.ndarray) -> np.ndarray:
        t = np.minimum((u / self.c) ** 2, 1.0)
        return (1.0 - t) * (1.0 - 5.0 * t)

    def weight(self, u: np.ndarray) -> np.ndarray:
        return (1.0 - np.minimum((u / self.c) ** 2, 1.0)) ** 2


class Hampel(NamedTuple):
    """Three parts: ψ rises to a, stays till b, falls to 0 at c."""

    a: float = 2.0
    b: float = 4.0
    c: float = 8.0

    @property
    def redescending(self) -> bool:
        return True

    def rho(self, u: np.ndarray) -> np.ndarray:
        a, b, c = self
        v = np.abs(u)
        falling = 0.5 * a * (c - b) * (1.0 - ((c - np.clip(v, b, c)) / (c - b)) ** 2)
        return np.where(v <= a, 0.5 * v * v, a * (np.clip(v, a, b) - 0.5 * a) + falling)

    def psi(self, u: np.ndarray) -> np.ndarray:
        a, b, c = self
        v = np.abs(u)
        return np.sign(u) * np.minimum(np.minimum(v, a), a * np.maximum(c - v, 0.0) / (c - b))

    def slope(self, u: np.ndarray) -> np.ndarray:
        a, b, c = self
        v = np.abs(u)
        return np.where(v <= a, 1.0, np.where((v > b) & (v < c), -a / (c - b), 0.0))

    def weight(self, u: np.ndarray) -> np.ndarray:
        v = np.maximum(np.abs(u), 1e-50)
        return np.where(v <= self.a, 1.0, np.abs(self.psi(v)) / v)


class Andrews(NamedTuple):
    """One arch of a sine: ψ = a·sin(u/a) up to πa."""

    a: float = 1.339

    @property
    def redescending(self) -> bool:
        return True

    def rho(self, u: np.ndarray) -> np.ndarray:
        return 2.0 * self.a**2 * np.sin(0.5 * np.minimum(np.abs(u) / self.a, np.pi)) ** 2

    def psi(self, u: np.ndarray) -> np.ndarray:
        return self.a * np.sin(np.clip(u / self.a, -np.pi, np.pi))

    def slope(self, u: np.ndarray) -> np.ndarray:
        t = np.abs(u) / self.a
        return np.where(t <= np.pi, np.cos(t), 0.0)

    def weight(self, u: np.ndarray) -> np.ndarray:
        t = np.abs(u) / (self.a * np.pi)
        return np.where(t < 1.0, np.sinc(np.minimum(t, 1.0)), 0.0)


class Cauchy(NamedTuple):
    """The t-distribution with one degree of freedom: distant residuals pull ever less, but always."""

    c: float = 2.385

    @property
    def redescending(self) -> bool:
        return True

    def rho(self, u: np.ndarray) -> np.ndarray:
        return 0.5 * self.c**2 * np.log1p((u / self.c) ** 2)

    def psi(self, u: np.ndarray) -> np.ndarray:
        return u * self.weight(u)

    def slope(self, u: np.ndarray) -> np.ndarray:
        t = (u / self.c) ** 2
        return (1.0 - t) / (1.0 + t) ** 2

    def weight(self, u: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + (u / self.c) ** 2)


PSIS: dict[str, Any] = {"huber": Huber, "bisquare": Bisquare, "hampel": Hampel, "andrews": Andrews, "cauchy": Cauchy}


def psi_named(name: Any, tuning: Any = None) -> Any:
    """The ψ of this name, with constants of one's own if given.

    >>> psi_named("huber", 2.0)
    Huber(k=2.0)
    """
    if name not in PSIS:
        raise UsageError(f"psi is {name!r}{nearest(str(name), PSIS)}", where="psi")
    made = PSIS[name]
    if tuning is None:
        return made()
    try:
        constants = tuple(float(value) for value in np.atleast_1d(np.asarray(tuning, dtype=float)))
    except (TypeError, ValueError):
        constants = ()
    fields = made._fields
    rising = all(one < two for one, two in itertools.pairwise(constants))
    if len(constants) != len(fields) or not all(0.0 < value < np.inf for value in constants) or not rising:
        raise UsageError(
            f"tuning is {tuning!r}; psi={name!r} takes {', '.join(fields)}: positive numbers, increasing",
            where="tuning",
        )
    return made(*constants)
