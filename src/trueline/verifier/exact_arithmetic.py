"""Products and linear systems without rounding: whole numbers, then 120 decimal digits.

Beyond ``SMALL`` columns float64's own inverse V is used, but taken on trust from nobody: E = I − VM is found without
rounding. If no row of |E| adds up to q or more, q < 1, then M has an inverse, V + EV differs from it by at most a
share q²/(1 − q) of its largest entry, and x + V(b − Mx), with b − Mx in 120 digits, is nearer to the solution than x
by the factor q. Where q is not small enough for what is read from V (digits that the data allow, the condition
number), the equations are eliminated after all.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from .stated_claims import Rows

SMALL = 64  # columns that are eliminated as soon
NEAR = 1e-5  # an entry of the inverse's diagonal, which is at least 1, is found to this
DIGITS = Decimal("1e-60")
decimals = np.vectorize(Decimal, otypes=[object])


def whole_numbers(Z: Rows) -> list[tuple[Rows, Rows]]:
    """Z = Σ K·2^unit with whole numbers |K| ≤ 2²⁰: products of 4,096 rows of them are exact in float64."""
    top, out = np.frexp(np.abs(Z).max(axis=0))[1], list[Any]()
    while Z.any() or not out:
        unit = top - 20 * (len(out) + 1)
        out.append((np.rint(np.ldexp(Z, -unit)), unit))
        Z = Z - np.ldexp(*out[-1])
    return out


def exact_products(A: Rows, B: Rows) -> tuple[Rows, Rows]:
    """AᵀB with no rounding at all: Python whole numbers, and the powers of 2 that are their units."""
    left, right, total = whole_numbers(A), whole_numbers(B), np.zeros((A.shape[1], B.shape[1]), dtype=object)
    for size in range(len(left) + len(right) - 1):  # Horner's rule: products of one size, and 20 bits to the next
        total = total * 2**20
        for K, L in ((K, right[size - p][0]) for p, (K, _) in enumerate(left) if 0 <= size - p < len(right)):
            part = sum((K[i : i + 4096].T @ L[i : i + 4096]).astype(np.int64) for i in range(0, len(K), 4096))
            total = total + part.astype(object)
    return total, (left[-1][1][:, None] + right[-1][1]).astype(object)


def gram(A: Rows, c: Rows) -> Rows:
    """AᵀCA exactly, as decimals: c·A is split into its rounded value and the error of that (Dekker)."""
    (a, b), (p, q) = ((h := v * 134217729.0 - (v * 134217729.0 - v), v - h) for v in (c[:, None], A))
    low = ((a * p - (high := c[:, None] * A)) + a * q + b * p) + b * q
    parts = (map(decimals, exact_products(A, part)) for part in (high, low) if part.any())
    return sum(whole * 2**unit for whole, unit in parts)


def eliminated(G: Rows, right: Rows) -> tuple[Rows, Rows]:
    """(solution, inverse) in 120 digits, by Gauss and Jordan."""
    k, T = len(G), np.hstack([G, right[:, None], decimals(np.eye(len(G)))])
    for p in range(k):
        if not T[p, p] > G[p, p] * Decimal(10) ** -40:
            raise ZeroDivisionError(p)
        on = slice(p, k + p + 2)  # left of it the work is done, right of it the unit matrix is untouched
        T[p, on], rest = T[p, on] / T[p, p], np.arange(k) != p
        T[rest, on] -= np.outer(T[rest, p], T[p, on])
    return T[:, k], T[:, k + 1 :]


def refined(G: Rows, right: Rows, first: int) -> tuple[Rows, Rows]:
    """(solution in 60 digits, inverse in float64) of symmetric equations in 120 digits; called within their context.

    Columns are centred by eliminating the ``first`` row of constants, of which the inverse tells nothing.
    """
    M, b, rest = G[first:, first:], right[first:], np.zeros((0, len(G) - first))
    if first and G[0, 0] > 0:
        rest = G[:1, 1:] / G[0, 0]
        M, b = M - rest.T * G[:1, 1:], b - rest[0] * right[0]
    lengths = np.diag(M).astype(float)
    plain = np.isfinite(lengths) & (lengths > 1e-300) & (np.diag(M) > np.diag(G)[first:] * Decimal("1e-40"))
    if len(G) <= SMALL or len(rest) < first or not plain.all():
        return eliminated(G, right)
    unit = np.ldexp(1.0, -(np.frexp(lengths)[1] // 2))  # by powers of 2 all columns have about the length 1
    scale = decimals(unit)
    M, b = M * scale[:, None] * scale, b * scale
    V = _inverse(M)
    if V is None:
        return eliminated(G, right)
    x = step = decimals(V @ b.astype(float))
    for _ in range(60):
        if max(abs(step)) <= DIGITS * max(abs(x)):
            x, inverse = x * scale, np.full(G.shape, np.nan)
            inverse[first:, first:] = V * unit[:, None] * unit
            return np.r_[right[:first] / np.diag(G)[:first] - rest @ x, x], inverse
        step = decimals(V @ (b - M @ x).astype(float))
        x = x + step
    return eliminated(G, right)


def _inverse(M: Rows) -> Rows | None:
    """float64's inverse of a matrix whose diagonal is about 1, improved until its error is known; None if it is not."""
    high = M.astype(float)
    low = (M - decimals(high)).astype(float)
    try:
        V = np.linalg.inv(high)
    except np.linalg.LinAlgError:
        return None
    for _ in range(4):
        if not np.isfinite(V).all():
            return None
        product, unit = exact_products(V.T, high)
        one = np.diag_indices(len(M))
        product[one] -= 2 ** np.maximum(-unit[one], 0)
        E = -np.ldexp(product.astype(float), unit.astype(int)) - V @ low
        q = float(np.abs(E).sum(axis=1).max())
        if not q < 0.1:
            return None
        V = V + E @ V
        if q * q * float(np.abs(V).max()) <= NEAR:
            return V
    return None
