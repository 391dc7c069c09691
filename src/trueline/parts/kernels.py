"""Kernels K(x, z): similarities that are inner products somewhere. A part sees x·z, ‖x‖² and ‖z‖², which is enough
for the linear, polynomial and Gaussian ones and for any of a user's own that depends on the same three numbers.

``value`` of the built-in ones takes arrays; a user's own sees one pair at a time, in Python. A callable ``k(X, Z) -> matrix`` is taken too; it runs as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError
from ..threads import spread
from .door import part

BLOCK = 30_000  # pairs at a time, so that they stay in the cache


def power(base: Any, exponent: float) -> Any:
    """base^exponent, a whole exponent by squaring: NumPy's power takes six times as long."""
    if not (exponent >= 1.0 and float(exponent).is_integer()):
        return base**exponent
    result, left = 1.0, int(exponent)
    while True:
        if left & 1:
            result = result * base
        left >>= 1
        if not left:
            return result
        base = base * base


class Linear(NamedTuple):
    """x·z."""

    unit: float = 1.0  # Numba needs a field
    name = "linear"
    radial = False

    def value(self, dot, norm_x, norm_z):
        return dot


class Polynomial(NamedTuple):
    """(gamma·x·z + coef0)^degree: an inner product for coef0 ≥ 0 and a whole degree."""

    gamma: float = 1.0
    coef0: float = 1.0
    degree: float = 3.0
    name = "polynomial"
    radial = False

    def value(self, dot, norm_x, norm_z):
        return power(self.gamma * dot + self.coef0, self.degree)


class Gaussian(NamedTuple):
    """exp(−gamma·‖x − z‖²)."""

    gamma: float = 1.0
    name = "gaussian"
    radial = True  # depends on x − z alone, so that the rows may be centred first and lose fewer digits

    def value(self, dot, norm_x, norm_z):
        return np.exp(-self.gamma * np.maximum(0.0, norm_x + norm_z - 2.0 * dot))


EPS = 2.0**-52
LOST = 1e-12  # of a radial kernel's exponent: what products may lose of it before differences are formed
KERNELS: dict[str, Any] = {cls.name: cls for cls in (Linear, Polynomial, Gaussian)}


def similarity(given: Any, gamma: float = 1.0, coef0: float = 1.0, degree: float = 3.0) -> Any:
    """The kernel of this name, the given part, or the given callable.

    >>> similarity("polynomial", degree=2)
    Polynomial(gamma=1.0, coef0=1.0, degree=2.0)
    """
    if callable(given) and not isinstance(given, (tuple, type)):
        return given
    if not isinstance(given, str):
        return part(given, KERNELS, "kernel", ("value",), {})
    if given in ("gaussian", "polynomial") and not 0.0 < gamma < math.inf:
        raise UsageError(f"gamma is {gamma!r}; a positive number or 'scale' is accepted", where="gamma")
    if given == "polynomial":
        if not coef0 >= 0.0:
            raise UsageError(f"coef0 is {coef0!r}; a number of at least 0 is accepted", where="coef0")
        if isinstance(degree, bool) or not (degree >= 1 and float(degree).is_integer()):
            raise UsageError(f"degree is {degree!r}; a whole number of at least 1 is accepted", where="degree")
    fields = {"gaussian": {"gamma": gamma}, "polynomial": {"gamma": gamma, "coef0": coef0, "degree": degree}}
    return part(given, KERNELS, "kernel", ("value",), fields.get(given, {}))


def values(shape: Any, dots: np.ndarray, norms_x: np.ndarray, norms_z: np.ndarray) -> np.ndarray:
    """K of every triple x·z, ‖x‖², ‖z‖²."""
    value = shape.value if type(shape) in KERNELS.values() else np.frompyfunc(shape.value, 3, 1)
    return np.asarray(value(dots, norms_x, norms_z), dtype=np.float64)


def gram(shape: Any, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    """The matrix of K(x_i, z_j); Z = None is X itself, exactly symmetric."""
    if not isinstance(shape, tuple):
        return checked_matrix(shape, X, X if Z is None else Z)
    if getattr(shape, "radial", False):
        middle = (X if Z is None else Z).mean(axis=0)
        X, Z = X - middle, None if Z is None else Z - middle
    Z = X if Z is None else Z
    norms_x = np.einsum("ij,ij->i", X, X)
    norms_z = norms_x if Z is X else np.einsum("ij,ij->i", Z, Z)
    largest = float(norms_x.max(initial=0.0) + norms_z.max(initial=0.0))
    if getattr(shape, "radial", False) and getattr(shape, "gamma", 1.0) * X.shape[1] * EPS * largest > LOST:
        # ‖x‖² + ‖z‖² − 2x·z would lose the digits of near rows: by differences, as −½‖x − z‖² of rows without a length
        dots = np.zeros((len(X), len(Z)))
        for x, z in zip(X.T, Z.T, strict=True):
            dots -= 0.5 * (x[:, None] - z) ** 2
        norms_x, norms_z = np.zeros(len(X)), np.zeros(len(Z))
    else:
        dots = X @ Z.T
        if isinstance(shape, Linear):
            return dots
        if Z is X:
            np.fill_diagonal(dots, norms_x)  # BLAS rounds x·x otherwise than the norm; a distance to oneself is 0
    step = max(1, BLOCK // max(1, len(Z)))

    def fill(start: int) -> None:
        block = slice(start, start + step)
        dots[block] = values(shape, dots[block], norms_x[block, None], norms_z)

    spread(fill, range(0, len(X), step))
    return dots


def diagonal(shape: Any, X: np.ndarray) -> np.ndarray:
    """K(x_i, x_i)."""
    if not isinstance(shape, tuple):
        return np.array([float(checked_matrix(shape, row[None, :], row[None, :])[0, 0]) for row in X])
    norms = np.einsum("ij,ij->i", X, X)
    return values(shape, norms, norms, norms)


def checked_matrix(function: Callable[..., Any], X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """What a user's callable gives, or a refusal that names it."""
    K = np.ascontiguousarray(function(X, Z), dtype=np.float64)
    if K.shape != (len(X), len(Z)):
        raise UsageError(
            f"the kernel gave an array of shape {K.shape} for {len(X)} and {len(Z)} rows; it must give "
            f"({len(X)}, {len(Z)}): one value a pair",
            where="kernel",
        )
    if not np.isfinite(K).all():
        raise UsageError("the kernel gave a value that is not finite", where="kernel")
    return K
