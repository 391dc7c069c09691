"""Products and linear systems without rounding: whole numbers, then 120 decimal digits.

A column of float64 numbers is a sum of slices K·2^unit with whole numbers |K| ≤ 2²⁰. Products of slices over 2,048 rows
are whole numbers below 2⁵³, so float64 forms them exactly, in any order; what is added beyond that are Python's whole
numbers.

Beyond ``SMALL`` columns float64's own inverse V is used, but taken on trust from nobody: E = I − VM is found without
rounding. If no row of |E| adds up to q or more, q < 1, then M has an inverse, V + EV differs from it by at most a
share q²/(1 − q) of its largest entry, and x + V(b − Mx), with b − Mx in 120 digits, is nearer to the solution than x
by the factor q. Where q is not small enough for what is read from V (digits that the data allow, the condition
number), the equations are eliminated after all.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import numpy as np

from .stated_claims import Rows

PRECISION = Context(prec=120)  # whoever works with decimals here does so within this context
SMALL = 64  # columns that are eliminated as soon
NEAR = 1e-5  # an entry of the inverse's diagonal, which is at least 1, is found to this
DIGITS = Decimal("1e-60")
DEPENDENT = Decimal("1e-40")  # of its square: what is left of a column that the columns before it make up
BITS = 20  # of a slice
ROWS = 2048  # 2·20 bits of a product and 11 of their number are within the 53 of float64
SLICES = 130  # from 2¹⁰²⁴ to 2⁻¹⁰⁷⁴ there are 105
BLOCKS = 1024  # partial sums that int64 takes before they become Python's numbers
decimals = np.vectorize(Decimal, otypes=[object])


def slices_of(block: Rows, top: Rows) -> list[Rows]:
    """Whole numbers K₁, K₂, … with block = Σ K_i·2^(top − 20·i), |K_i| ≤ 2²⁰, for columns below 2^top in size."""
    try:
        with np.errstate(under="raise", over="raise"):
            rest = block * np.ldexp(1.0, BITS - top)
    except FloatingPointError:
        return _slices_of_any_size(block, top)
    found = list[Rows]()
    while rest.any() or not found:
        found.append(np.rint(rest))
        rest -= found[-1]
        rest *= 2.0**BITS
        _check_end(found)
    return found


def _slices_of_any_size(block: Rows, top: Rows) -> list[Rows]:
    """The same of columns whose entries are so far apart that none of their powers of 2 suits all of them."""
    found = list[Rows]()
    while block.any() or not found:
        unit = top - BITS * (len(found) + 1)
        found.append(np.rint(np.ldexp(block, -unit)))
        block = block - np.ldexp(found[-1], unit)
        _check_end(found)
    return found


def _check_end(found: list[Rows]) -> None:
    if len(found) > SLICES:
        raise ArithmeticError("numbers that have no last digit")


def exponents_of(Z: Rows) -> Rows:
    """For each column the least power of 2 above all of its entries."""
    largest = np.maximum(Z.max(axis=0, initial=0.0), -Z.min(axis=0, initial=0.0))
    return np.asarray(np.frexp(largest)[1], dtype=int)


def exact_products(A: Rows, B: Rows) -> tuple[Rows, Rows]:
    """AᵀB with no rounding at all: Python's whole numbers, and the powers of 2 that are their units."""
    left_top = exponents_of(A)
    right_top = left_top if A is B else exponents_of(B)
    shape = (A.shape[1], B.shape[1])
    total: dict[int, Rows] = {}
    partial: dict[tuple[int, int], Rows] = {}  # by the numbers of slices
    for number, start in enumerate(range(0, len(A), ROWS)):
        left = slices_of(A[start : start + ROWS], left_top)
        right = left if A is B else slices_of(B[start : start + ROWS], right_top)
        K = np.hstack(left)
        product = K.T @ (K if A is B else np.hstack(right))  # of one array with itself: half of the work
        slices = (len(left), len(right))
        partial[slices] = partial.get(slices, 0) + product.astype(np.int64)
        if number % BLOCKS == BLOCKS - 1:
            _gather(total, partial, shape)
    _gather(total, partial, shape)
    most = max(total, default=0)
    whole = np.zeros(shape, dtype=object)
    for size in range(most + 1):  # Horner's rule: 20 bits from one size to the next
        whole = whole * 2**BITS + total.get(size, 0)
    units = left_top[:, None] + right_top - BITS * (most + 2)
    return whole, units.astype(object)


def _gather(total: dict[int, Rows], partial: dict[tuple[int, int], Rows], shape: tuple[int, int]) -> None:
    """Products of slices p and q have the size p + q."""
    for (left, right), product in partial.items():
        parts = product.reshape(left, shape[0], right, shape[1]).astype(object)
        for p in range(left):
            for q in range(right):
                total[p + q] = total.get(p + q, 0) + parts[p, :, q]
    partial.clear()


def gram(A: Rows, weights: Rows) -> Rows:
    """AᵀCA as decimals in 120 digits, from exact products."""
    if (weights == 1.0).all():
        return _as_decimals(*exact_products(A, A))
    high, low = exact_multiples(weights[:, None], A)
    found = _as_decimals(*exact_products(A, high))
    return found + _as_decimals(*exact_products(A, low)) if low.any() else found


def exact_multiples(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """(rounded product, its rounding error), which together are a·b exactly (Dekker 1971)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def exact_sums(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """(rounded sum, its rounding error), which together are a + b exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(a: Rows) -> tuple[Rows, Rows]:
    """The leading 26 bits of each number, and the rest (Veltkamp)."""
    shifted = a * 134217729.0
    high = shifted - (shifted - a)
    return high, a - high


def _as_decimals(whole: Rows, units: Rows) -> Rows:
    return np.asarray(decimals(whole) * Decimal(2) ** decimals(units))


def eliminated(G: Rows, right: Rows) -> tuple[Rows, Rows]:
    """(solution, inverse) of G x = right in 120 digits, by Gauss and Jordan; called within ``PRECISION``.

    ZeroDivisionError names the first column that those before it make up.
    """
    k, T = len(G), np.hstack([G, right[:, None], decimals(np.eye(len(G)))])
    for p in range(k):
        if not T[p, p] > G[p, p] * DEPENDENT:
            raise ZeroDivisionError(p)
        on = slice(p, k + p + 2)  # left of it the work is done, right of it the unit matrix is untouched
        T[p, on], rest = T[p, on] / T[p, p], np.arange(k) != p
        T[rest, on] -= np.outer(T[rest, p], T[p, on])
    return T[:, k], T[:, k + 1 :]


def solved(G: Rows, right: Rows, constants: int) -> tuple[Rows, Rows]:
    """(solution in 60 digits, inverse in float64 or better) of symmetric equations; called within ``PRECISION``.

    The first row and column are those of a constant where ``constants`` is 1. Columns are centred by eliminating it,
    and then the inverse tells nothing of it.
    """
    M, b, share = G[constants:, constants:], right[constants:], np.zeros((0, len(G) - constants))
    if constants and G[0, 0] > 0:
        share = G[:1, 1:] / G[0, 0]
        M, b = M - share.T * G[:1, 1:], b - share[0] * right[0]
    squares = np.diag(M).astype(float)
    plain = np.isfinite(squares) & (squares > 1e-300) & (np.diag(M) > np.diag(G)[constants:] * DEPENDENT)
    if len(G) <= SMALL or len(share) < constants or not plain.all():
        return eliminated(G, right)
    unit = np.ldexp(1.0, -(np.frexp(squares)[1] // 2))  # by powers of 2 all columns have about the length 1
    scale = decimals(unit)
    M, b = M * scale[:, None] * scale, b * scale
    V = _inverse(M)
    if V is None:
        return eliminated(G, right)
    x = step = decimals(V @ b.astype(float))
    for _ in range(60):
        if max(abs(step)) <= DIGITS * max(abs(x)):
            x, inverse = x * scale, np.full(G.shape, np.nan)
            inverse[constants:, constants:] = V * unit[:, None] * unit
            return np.r_[right[:constants] / np.diag(G)[:constants] - share @ x, x], inverse
        step = decimals(V @ (b - M @ x).astype(float))
        x = x + step
    return eliminated(G, right)


def _inverse(M: Rows) -> Rows | None:
    """float64's inverse of a matrix whose diagonal is about 1, improved until its error is known; None if it is not."""
    high = M.astype(float)
    low = (M - decimals(high)).astype(float)
    try:
        V: Any = np.linalg.inv(high)
    except np.linalg.LinAlgError:
        return None
    for _ in range(4):
        if not np.isfinite(V).all():
            return None
        product, units = exact_products(V.T, high)
        diagonal = np.diag_indices(len(M))
        product[diagonal] -= 2 ** np.maximum(-units[diagonal], 0)
        E = -np.ldexp(product.astype(float), units.astype(int)) - V @ low
        q = float(np.abs(E).sum(axis=1).max())
        if not q < 0.1:
            return None
        V = V + E @ V
        if q * q * float(np.abs(V).max()) <= NEAR:
            return np.asarray(V)
    return None
