"""Sums over parameters of Ω(θ) = Σ l1|θ| + ½l2·θ² on lower ≤ θ ≤ upper: a fit asks for them at every point."""

from __future__ import annotations

from typing import Any

import cython

from ..simd import Array

if not cython.compiled:  # compiled, these come from separable_penalty.pxd
    from math import fabs

    from ..objective.uncompiled_math import INFINITY


def separable_value(theta: Array, l1: Array, l2: Array) -> float:
    """Ω(θ)."""
    j: cython.Py_ssize_t
    total: cython.double = 0.0
    for j in range(theta.shape[0]):
        total += l1[j] * fabs(theta[j]) + 0.5 * l2[j] * theta[j] * theta[j]
    return total


def separable_conjugate(z: Array, l1: Array, l2: Array, lower: Array, upper: Array, counted: Any) -> float:
    """sup over θ of z·θ − Ω(θ), over the parameters that count."""
    j: cython.Py_ssize_t
    excess: cython.double
    best: cython.double
    total: cython.double = 0.0
    for j in range(z.shape[0]):
        if not counted[j]:
            continue
        excess = fabs(z[j]) - l1[j]
        best = 0.0
        if excess > 1e-12 * l1[j]:
            best = excess / l2[j] if l2[j] > 0.0 else INFINITY
            best = best if z[j] > 0.0 else -best
        best = min(max(best, lower[j]), upper[j])
        if not fabs(best) < INFINITY:
            return INFINITY
        total += z[j] * best - l1[j] * fabs(best) - 0.5 * l2[j] * best * best
    return total


def separable_shrink(z: Array, l1: Array, l2: Array, lower: Array, upper: Array, counted: Any) -> float:
    """The largest factor ≤ 1 at which no parameter that counts has an infinite conjugate."""
    j: cython.Py_ssize_t
    size: cython.double
    factor: cython.double = 1.0
    for j in range(z.shape[0]):
        if counted[j] and l2[j] == 0.0:
            size = fabs(z[j])
            if factor * size > l1[j] and (upper[j] if z[j] > 0.0 else -lower[j]) == INFINITY:
                factor = l1[j] / size
    return factor


def separable_stationarity(
    theta: Array, gradient: Array, l1: Array, l2: Array, lower: Array, upper: Array, out: Array
) -> None:
    """The smallest subgradient of loss + Ω."""
    j: cython.Py_ssize_t
    t: cython.double
    g: cython.double
    for j in range(theta.shape[0]):
        t = theta[j]
        g = gradient[j] + l2[j] * t
        if t > 0.0:
            g += l1[j]
        elif t < 0.0:
            g -= l1[j]
        elif g > 0.0:
            g = max(g - l1[j], 0.0)
        else:
            g = min(g + l1[j], 0.0)
        if t <= lower[j]:
            g = min(g, 0.0)
        if t >= upper[j]:
            g = max(g, 0.0)
        out[j] = g
