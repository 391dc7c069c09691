"""Powers of a column without their ill-conditioning: orthogonal polynomials, and the exact way back.

With t = (x − centre)/scale the columns are p_1(t) … p_K(t) of Forsythe's recurrence

    p_{k+1} = ((t − a_k)·p_k − b_k·p_{k−1})/n_k,   p_0 = 1, p_{−1} = 0,

whose constants make them orthogonal on the rows that fix them (or on an even grid over a stated range), while on
any other rows they are still exactly these polynomials. They are evaluated in double-double and rounded once, and
scale and n_k are powers of two. All constants are float64 numbers, hence rationals: coefficients of the p_k go back
to those of x, x², … by exact rational arithmetic and one rounding. So the fit has the digits of a well-conditioned
problem, where powers as columns would have lost them before any solver sees them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

_SPLITTER = 134217729.0  # 2²⁷ + 1


@dataclasses.dataclass(frozen=True)
class Orthogonal:
    """The constants of one column's polynomials."""

    centre: float
    scale: float
    a: tuple[float, ...]
    b: tuple[float, ...]
    n: tuple[float, ...]

    @classmethod
    def on(cls, x: np.ndarray, degree: int) -> Orthogonal:
        """Orthogonal on these values."""
        x = np.asarray(x, dtype=float)
        low, high = float(x.min()), float(x.max())
        half = (high - low) / 2 or abs(high) or 1.0
        scale = float(2.0 ** np.floor(np.log2(half)))
        centre = float(np.round((low + high) / 2 / scale * 64) * scale / 64)  # few bits: x − centre is nearly exact
        t = (x - centre) / scale
        a: list[float] = []
        b: list[float] = []
        n: list[float] = []
        before, now, norm_before = np.zeros_like(t), np.ones_like(t), 1.0
        for k in range(degree):
            norm = float(now @ now) or 1.0
            a.append(float((t * now) @ now) / norm)
            b.append(n[-1] * norm / norm_before if k else 0.0)
            step = (t - a[k]) * now - b[k] * before
            size = float(np.sqrt(step @ step / len(t)))
            # Beyond the number of distinct values nothing is left: an arbitrary recurrence keeps the columns finite.
            n.append(float(2.0 ** np.round(np.log2(size))) if size > 1e-9 else 1.0)
            before, now, norm_before = now, step / n[k], norm
        return cls(centre, scale, tuple(a), tuple(b), tuple(n))

    def values(self, x: np.ndarray) -> np.ndarray:
        """p_1(x) … p_K(x), one column each, correct to about an ulp."""
        return self.pairs(x)[0]

    def pairs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same as high and low parts, correct to about 30 digits."""
        x = np.asarray(x, dtype=float)
        high, low = _two_sum(x, -self.centre)
        t = (high / self.scale, low / self.scale)
        zero = np.zeros_like(x)
        before, now = (zero, zero), (np.ones_like(x), zero)
        out = np.empty((2, len(x), len(self.a)))
        for k, (a, b, n) in enumerate(zip(self.a, self.b, self.n)):
            step = _times(_plus(t, (np.float64(-a), np.float64(0.0))), now)
            if b:
                step = _plus(step, _times(before, (np.float64(-b), np.float64(0.0))))
            before, now = now, (step[0] / n, step[1] / n)
            out[0, :, k], out[1, :, k] = now
        return out[0], out[1]

    def powers(self) -> list[list[Fraction]]:
        """Row k: the exact coefficients of 1, x, …, x^K in p_k, for k = 0 … K."""
        size = len(self.a) + 1
        scale, centre = Fraction(self.scale), Fraction(self.centre)
        rows = [[Fraction(0)] * size for _ in range(size)]
        rows[0][0] = Fraction(1)
        for k, (a, b, n) in enumerate(zip(self.a, self.b, self.n)):
            now = rows[k]
            made = [-(Fraction(a) + centre / scale) * c for c in now]
            for i in range(size - 1):
                made[i + 1] += now[i] / scale
            if k:
                made = [m - Fraction(b) * c for m, c in zip(made, rows[k - 1])]
            rows[k + 1] = [m / Fraction(n) for m in made]
        return rows

    def to_dict(self) -> dict[str, Any]:
        return {"centre": self.centre, "scale": self.scale, "a": list(self.a), "b": list(self.b), "n": list(self.n)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Orthogonal:
        return cls(values["centre"], values["scale"], *(tuple(values[key]) for key in "abn"))


def residual(high: np.ndarray, low: np.ndarray, y: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """y − (high + low)·coefficients with the rounding of one subtraction: what refines the coefficients."""
    total: Pair = (np.asarray(y, dtype=float), np.zeros(len(y)))
    for k, c in enumerate(coefficients):
        total = _plus(total, _times((high[:, k], low[:, k]), (np.float64(-c), np.float64(0.0))))
    return total[0] + total[1]


def raw_coefficients(orthogonal: Orthogonal, coefficients: Sequence[Any]) -> tuple[Fraction, list[Fraction]]:
    """What Σ c_k p_k adds to the intercept, and its coefficients on x, x², …, exactly."""
    rows = orthogonal.powers()
    size = len(rows)
    total = [Fraction(0)] * size
    for k, c in enumerate(coefficients, 1):
        share = c if isinstance(c, Fraction) else Fraction(float(c))
        total = [t + share * r for t, r in zip(total, rows[k])]
    return total[0], total[1:]


Pair = tuple[Any, Any]


def _two_sum(x: Any, y: Any) -> Pair:
    s = x + y
    v = s - x
    return s, (x - (s - v)) + (y - v)


def _two_product(x: Any, y: Any) -> Pair:
    p = x * y
    cx, cy = _SPLITTER * x, _SPLITTER * y
    hx, hy = cx - (cx - x), cy - (cy - y)
    lx, ly = x - hx, y - hy
    return p, ((hx * hy - p) + hx * ly + lx * hy) + lx * ly


def _plus(x: Pair, y: Pair) -> Pair:
    s, e = _two_sum(x[0], y[0])
    return _two_sum(s, e + (x[1] + y[1]))


def _times(x: Pair, y: Pair) -> Pair:
    p, e = _two_product(x[0], y[0])
    return _two_sum(p, e + (x[0] * y[1] + x[1] * y[0]))
