"""Least squares from a Gram matrix kept in double-double: G β = c, its rank, its inverse.

G is scaled by powers of two to a diagonal near 1, which loses nothing. Where float64 can factor it with digits to
spare, Cholesky's factor and residuals in double-double give β (iterative refinement); otherwise the whole
elimination G = L D Lᵀ runs in double-double, and a pivot that rounding of the data or of the products explains is
dropped: that column is, as far as anyone can tell, a combination γ of the columns before it. A dropped column's
null vector e_j − γ then leads from the basic solution to the minimum-norm one.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from math import fsum

import numpy as np

from .. import dense, doubled
from ..doubled import add_single, divide, subtract_product, two_prod
from ..moments.double_elimination import subtract_outer

Pair = tuple[np.ndarray, np.ndarray]

# Beyond this condition number of the scaled Gram matrix, refinement from a float64 factor is not relied upon.
_REFINABLE = 1e10
_LOST = 2.0**-102  # of the columns' squares, in the elimination itself


@dataclasses.dataclass
class Factor:
    """A factored Gram matrix; ``kept`` marks the columns that count, ``combinations`` explains the others."""

    exponents: np.ndarray
    scaled: Pair
    kept: np.ndarray
    condition_number: float
    combinations: dict[int, np.ndarray]
    elimination: tuple[Pair, Pair] | None

    @cached_property
    def inverse(self) -> np.ndarray:
        """G⁻¹ on the kept columns, 0 elsewhere; from an elimination it takes longer than the elimination."""
        return self.exact_inverse()[0]

    @property
    def rank(self) -> int:
        return int(self.kept.sum())

    @property
    def scale(self) -> np.ndarray:
        """Powers of two that bring the diagonal of G near 1: β = scale · scaled β."""
        return np.ldexp(1.0, self.exponents)

    def solve(self, right: Pair) -> tuple[Pair, np.ndarray]:
        """(β with G β = c on the kept columns, 0 elsewhere; c − G β); c has one column per right-hand side."""
        scale = self.scale[:, None]
        ch, cl = right[0] * scale, right[1] * scale
        solved = self._refined(ch, cl) if self.elimination is None else None
        if solved is None:
            if self.elimination is None:
                self.elimination = eliminate(self.scaled)[0]
            bh, bl = self._substituted(ch, cl)
            solved = bh, bl, residual(self.scaled, (bh, bl), (ch, cl))
        bh, bl, left = solved
        return (bh * scale, bl * scale), left / scale

    def exact_inverse(self) -> Pair:
        """G⁻¹ on the kept columns in double-double, 0 elsewhere."""
        if self.elimination is None:
            self.elimination = eliminate(self.scaled)[0]
        eye = np.diag(self.kept.astype(float))
        h, e = self._substituted(eye, np.zeros_like(eye))
        outer = self.scale[:, None] * self.scale[None, :]
        return h * outer, e * outer

    def null_vectors(self) -> np.ndarray:
        """One column for each dropped one: what it is in the others, taken off itself."""
        null = np.zeros((len(self.kept), len(self.combinations)))
        for column, (j, gamma) in enumerate(self.combinations.items()):
            null[:, column] = -gamma * self.scale / self.scale[j]
            null[j, column] = 1.0
        return null

    def minimum_norm(self, beta: Pair) -> Pair:
        """The solution of least norm with the same fit: the null vectors' share is taken off."""
        if not self.combinations:
            return beta
        null = self.null_vectors()
        share = dense.lstsq(null, beta[0], rcond=None)[0]
        return doubled.two_sum(beta[0] - null @ share, np.zeros_like(beta[0]))

    def _refined(self, ch: np.ndarray, cl: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """(β as a pair, c − G β) by steps from the float64 inverse, unless they do not shrink."""
        inverse = self.inverse_scaled
        bh = inverse @ ch
        bl = np.zeros_like(bh)
        last = size = float(np.abs(bh).max(initial=0.0))
        for _ in range(12):
            left = residual(self.scaled, (bh, bl), (ch, cl))
            step = inverse @ left
            bh, bl = add_single(bh, bl, step)
            moved = float(np.abs(step).max(initial=0.0))
            # Steps shrink by one factor: stop when the next would be lost in double-double.
            if moved * moved <= 2.0**-85 * last * size:
                return bh, bl, left - self.scaled[0] @ step
            if moved > 0.25 * last:
                return None
            last = moved
        return None

    @property
    def inverse_scaled(self) -> np.ndarray:
        return self.inverse / (self.scale[:, None] * self.scale[None, :])

    def _substituted(self, ch: np.ndarray, cl: np.ndarray) -> Pair:
        assert self.elimination is not None
        (Lh, Ll), (Dh, Dl) = self.elimination
        ch, cl = ch.copy(), cl.copy()
        kept = np.flatnonzero(self.kept)
        for j in kept:
            rows = kept[kept > j]
            ch[rows], cl[rows] = subtract_product(
                ch[rows], cl[rows], Lh[rows, j, None], Ll[rows, j, None], ch[j][None], cl[j][None]
            )
        ch[kept], cl[kept] = divide(ch[kept], cl[kept], Dh[kept, None], Dl[kept, None])
        for j in kept[::-1]:
            rows = kept[kept < j]
            ch[rows], cl[rows] = subtract_product(
                ch[rows], cl[rows], Lh[j, rows][:, None], Ll[j, rows][:, None], ch[j][None], cl[j][None]
            )
        ch[~self.kept], cl[~self.kept] = 0.0, 0.0
        return ch, cl


def residual(G: Pair, beta: Pair, right: Pair) -> np.ndarray:
    """c − G β, right to float64 in spite of all cancellation."""
    found = np.empty_like(right[0])
    if not len(found):
        return found
    for k in range(found.shape[1]):
        b, low = beta[0][:, k], beta[1][:, k]
        P, E = two_prod(G[0], b)
        E += G[0] * low
        E += G[1] * b
        # Two slices of leading bits, whose sums are exact; what is left is too small for its rounding to matter.
        h, e = right[0][:, k], right[1][:, k]
        bits = math.frexp(len(b))[1] + 1
        sigma = np.ldexp(1.5, np.frexp(np.abs(P).max(axis=1))[1] + bits)[:, None]
        for _ in range(2):
            top = P + sigma
            top -= sigma
            P -= top
            h, error = doubled.two_sum(h, -top.sum(axis=1))
            e = e + error
            sigma = sigma * 2.0 ** (bits - 51)
        P += E
        found[:, k] = h + (e - P.sum(axis=1))
    return found


def quadratic(beta: Pair, right: Pair, left: np.ndarray, square: Pair) -> np.ndarray:
    """yy − 2 β·c + βᵀGβ = yy − β·(c + (c − Gβ)), whose error is of second order in that of β; ``left`` is c − Gβ."""
    found = np.empty(left.shape[1])
    for k in range(len(found)):
        b, low, ch, cl = beta[0][:, k], beta[1][:, k], right[0][:, k], right[1][:, k]
        P, E = two_prod(b, ch)
        rest = low * ch + b * (cl + left[:, k])
        found[k] = fsum([square[0][k], square[1][k], *(-P).tolist(), *(-E).tolist(), *(-rest).tolist()])
    return found


def factored(
    G: Pair, rounding: np.ndarray, noise: np.ndarray, *, most: int | None = None, condition: bool = True
) -> Factor:
    """Factor G, whose rank is at most ``most``.

    Per column, ``rounding`` is the squared length that half a unit in the last place of every entry may have, and
    ``noise`` what the products may have lost; a pivot that these explain is dropped.
    ``condition=False`` saves the two eigenvalue problems of the condition number.
    """
    d = len(G[0])
    diagonal = np.diagonal(G[0])
    # What rounding explains of a column about its mean is a constant.
    positive = (diagonal > 0) & (diagonal > _constant(rounding, noise, diagonal))
    exponents = np.where(positive, -((np.frexp(np.where(positive, diagonal, 1.0))[1]) // 2), 0)
    scale = np.ldexp(1.0, exponents)
    outer = scale[:, None] * scale[None, :]
    scaled = (G[0] * outer, G[1] * outer)
    if d == 0:
        return Factor(exponents, scaled, np.ones(0, bool), 1.0, {}, None)
    if positive.all() and (most is None or d <= most):
        try:
            with dense.alone(d):
                bound, number = _bound(scaled[0], condition)
                inverse = dense.inv(scaled[0]) if bound < _REFINABLE else None
            if inverse is not None:
                factor = Factor(exponents, scaled, np.ones(d, bool), number, {}, None)
                factor.inverse = inverse * outer
                return factor
        except np.linalg.LinAlgError:
            pass
    square = scale**2
    elimination, kept, combinations = eliminate(scaled, rounding * square, noise * square, most)
    factor = Factor(exponents, scaled, kept, np.nan, combinations, elimination)
    if not condition:
        return factor
    inner = np.ix_(kept, kept)
    factor.condition_number = _condition(scaled[0][inner], (factor.inverse / outer)[inner])
    return factor


def _bound(scaled: np.ndarray, condition: bool) -> tuple[float, float]:
    """(about the condition number of the Gram matrix, exactly that of the columns or NaN); refuses what is not positive."""
    if not condition:
        L = dense.cholesky(scaled)
        return float(np.abs(scaled).sum(axis=0).max() / np.diagonal(L).min() ** 4), np.nan
    length = np.sqrt(np.diagonal(scaled))
    values = dense.eigvalsh(scaled / (length[:, None] * length))
    if not values[0] > 0:
        raise np.linalg.LinAlgError
    ratio = float(values[-1] / values[0])
    return ratio, math.sqrt(ratio)


def _condition(scaled: np.ndarray, inverse: np.ndarray) -> float:
    """The condition number of the columns scaled to one length: the root of that of the Gram matrix."""
    if len(scaled) == 0:
        return 1.0
    length = np.sqrt(np.diagonal(scaled))
    largest = dense.eigvalsh(scaled / (length[:, None] * length))[-1]
    smallest = dense.eigvalsh(inverse * (length[:, None] * length))[-1]
    return float(np.sqrt(max(largest * smallest, 1.0)))


def eliminate(
    scaled: Pair, rounding: np.ndarray | None = None, noise: np.ndarray | None = None, most: int | None = None
) -> tuple[tuple[Pair, Pair], np.ndarray, dict[int, np.ndarray]]:
    """L D Lᵀ in double-double, in the order of the columns; (factors, kept, combinations of the dropped)."""
    d = len(scaled[0])
    rounding = np.zeros(d) if rounding is None else rounding
    noise = np.zeros(d) if noise is None else noise
    # Losses of the products may all point one way, those of single entries do not.
    lost = np.sqrt(noise + _LOST * np.abs(np.diagonal(scaled[0])))
    constant = np.diagonal(scaled[0]) <= _constant(rounding, noise, np.diagonal(scaled[0]))
    H, E = scaled[0].copy(), scaled[1].copy()
    Lh, Ll = np.eye(d), np.zeros((d, d))
    Dh, Dl = np.ones(d), np.zeros(d)
    kept = np.ones(d, dtype=bool)
    combinations: dict[int, np.ndarray] = {}
    for j in range(d):
        pivot = H[j, j] + E[j, j]
        start = scaled[0][j, j]
        full = most is not None and kept[:j].sum() >= most
        if full or constant[j] or not pivot > 1e-6 * start:
            gamma = np.zeros(d) if constant[j] else _combination(Lh, kept, j)
            explained = 4 * (rounding[j] + gamma**2 @ rounding) + (lost[j] + np.abs(gamma) @ lost) ** 2
            if full or constant[j] or not pivot > explained:
                kept[j] = False
                combinations[j] = gamma
                continue
        Dh[j], Dl[j] = H[j, j], E[j, j]
        if j + 1 == d:
            break
        ch, cl = divide(H[j, j:], E[j, j:], H[j, j], E[j, j])
        Lh[j + 1 :, j], Ll[j + 1 :, j] = ch[1:], cl[1:]
        subtract_outer(H, E, j, ch, cl)
    return ((Lh, Ll), (Dh, Dl)), kept, combinations


def _constant(rounding: np.ndarray, noise: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Squares about its mean that rounding of a constant column's entries and products may leave."""
    return 4 * rounding + noise + _LOST * np.abs(squares)


def _combination(L: np.ndarray, kept: np.ndarray, j: int) -> np.ndarray:
    """γ with x_j ≈ Σ γ_k x_k over the kept columns before j: Lᵀγ = (row j of L)."""
    gamma = np.zeros(len(L))
    before = np.flatnonzero(kept[:j])
    if len(before):
        gamma[before] = L[j, before]
        for k in before[::-1]:
            above = before[before < k]
            gamma[above] -= L[k, above] * gamma[k]
    return gamma
