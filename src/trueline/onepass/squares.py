"""Least squares from moments: coefficients, intercept, residual sum of squares and the certificate.

With an intercept the columns are centred, so β solves C_xx β = C_xy and b = ȳ − β·x̄; without one the same holds for
the products about the origin. Everything up to the last rounding is double-double.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from math import fsum

import numpy as np

from .. import doubled
from ..certificates.certificate import Assumption
from ..certificates.optimality import ExactCertificate, exact_status
from ..errors import UsageError
from .digits import (
    arithmetic_errors,
    data_errors,
    digits_of,
    intercept_error,
    rounding_squares,
    squared_rows,
    vanished,
)
from .moments import Moments
from .parts import Part
from .solve import Factor, Pair, factored, quadratic, residual

_STRUCTURE = 2.0**-80  # of the prediction: rounded entries leave far more, so what is smaller is 0 by their structure
_NEARLY = 2.0**-40  # of the prediction
_FEW = 6.0  # digits: below, the certificate names coefficients that are 0 as far as the arithmetic can tell
_SMALL = 2.0**-240  # squared length of a column: its inverse, squared and multiplied again, is still a number
_NAMED = 4  # columns in a sentence
HOW = {"minimum-norm": "the solution of least norm is given", "drop": "their coefficients are set to 0"}
RANK_CHOICES = tuple(HOW)


@dataclasses.dataclass
class Solution:
    """A least-squares fit of k targets on d terms; ``coef`` is k×d, ``intercept`` and ``rss`` have k entries."""

    coef: np.ndarray
    intercept: np.ndarray
    rss: np.ndarray
    factor: Factor | None
    proof: Callable[[], ExactCertificate]
    part: Part | None
    fit_intercept: bool
    inner: Solution | None = None  # of columns scaled by powers of two, if these had to be

    @cached_property
    def certificate(self) -> ExactCertificate:
        """Made when it is first looked at: for a few rows it takes longer than the coefficients."""
        return self.proof()

    def enough(self, digits: float) -> bool:
        """Whether no column was dropped and the arithmetic kept so many digits, by what the certificate would say."""
        if self.inner is not None:
            return self.inner.enough(digits)
        assert self.factor is not None and self.part is not None
        if self.factor.combinations:
            return False
        judged = _arithmetic(self.part, self.factor, self.coef.T, self.intercept, self.fit_intercept)
        return all(digits_of(found, values) >= digits for found, values in judged)


def products_of(part: Part, fit_intercept: bool) -> Pair:
    """C, about the mean or about the origin."""
    return part.products if fit_intercept else part.about_origin()


def least_squares(moments: Moments, *, fit_intercept: bool = True, rank: str = "minimum-norm") -> Solution:
    """Solve for every target."""
    return solve_part(moments.total, moments.terms, moments.integer, fit_intercept=fit_intercept, rank=rank)


def solve_part(
    part: Part,
    terms: Sequence[str],
    integer: np.ndarray,
    *,
    fit_intercept: bool = True,
    rank: str = "minimum-norm",
    penalty: np.ndarray | None = None,
    condition: bool = True,
) -> Solution:
    """Least squares of the part's last columns on its first ``len(terms)``, plus Σ penalty_j β_j² if given.

    ``condition=False`` is for who never looks at the certificate.
    """
    if rank not in RANK_CHOICES:
        raise UsageError(f"rank must be one of {', '.join(RANK_CHOICES)}, not {rank!r}", where="rank")
    d = len(terms)
    raw = part.raw_squares()
    if not _SMALL < raw.min(initial=1.0) <= raw.max(initial=1.0) < 1 / _SMALL and (scale := _scale(raw)).any():
        own = None if penalty is None else np.ldexp(penalty, 2 * scale[:d])
        found = solve_part(
            part.scaled(scale), terms, integer, fit_intercept=fit_intercept, rank=rank, penalty=own, condition=condition
        )
        assert found.factor is not None
        # The least norm is another one on another scale; constant columns have coefficient 0 on each.
        if rank == "drop" or not any(gamma.any() for gamma in found.factor.combinations.values()):
            return dataclasses.replace(
                found,
                coef=np.ldexp(found.coef, scale[:d] - scale[d:, None]),
                intercept=np.ldexp(found.intercept, -scale[d:]),
                rss=np.ldexp(found.rss, -2 * scale[d:]),
                part=part,
                inner=found,
            )
    H, E = products_of(part, fit_intercept)
    if penalty is not None:
        H, E = H.copy(), E.copy()
        place = np.arange(d)
        H[place, place], E[place, place] = doubled.add(H[place, place], E[place, place], penalty, 0.0 * penalty)
    rounding = rounding_squares(raw, integer)
    factor = factored(
        (H[:d, :d], E[:d, :d]),
        rounding[:d],
        part.noise[:d],
        most=None if penalty is not None else part.n - fit_intercept,
        condition=condition,
    )
    right = (H[:d, d:], E[:d, d:])
    basic, left = factor.solve(right)
    k = H.shape[1] - d
    square = np.array([H[d + t, d + t] for t in range(k)]), np.array([E[d + t, d + t] for t in range(k)])
    rss = quadratic(basic, right, left, square)
    beta = factor.minimum_norm(basic) if rank == "minimum-norm" else basic
    # Below what the arithmetic itself can leave, a residual sum of squares is an exact fit.
    unseen = 16 * doubled.UNIT**2 * (d + 1) * square[0]
    rss = np.where(rss > unseen, rss, 0.0)
    intercept = _intercept(part, d, beta) if fit_intercept else np.zeros(k)
    proof = partial(_certificate, part, terms, rounding, factor, beta, intercept, rss, right, fit_intercept, rank)
    return Solution(beta[0].T.copy(), intercept, rss, factor, proof, part, fit_intercept)


def _scale(squares: np.ndarray) -> np.ndarray:
    """Exponents that bring all columns near 1, if some are so large or small that products of G⁻¹ would overflow."""
    there = squares > 0
    exponents = np.where(there, -(np.frexp(np.where(there, squares, 1.0))[1] // 2), 0)
    extreme = there & ((squares <= _SMALL) | (squares >= 1 / _SMALL))
    return exponents if extreme.any() else np.zeros_like(exponents)


def together(proofs: Sequence[ExactCertificate]) -> ExactCertificate:
    """What holds for each of several fits: the fewest digits, the largest condition number, the smallest rank."""
    worst = min(proofs, key=lambda proof: (proof.proven, proof.digits))
    return dataclasses.replace(
        worst,
        arithmetic_digits=min(proof.arithmetic_digits for proof in proofs),
        data_digits=min(proof.data_digits for proof in proofs),
        condition_number=max(proof.condition_number for proof in proofs),
        rank=min(proof.rank for proof in proofs),
        orthogonality=max(proof.orthogonality for proof in proofs),
    )


def _intercept(part: Part, d: int, beta: Pair) -> np.ndarray:
    """ȳ − β·x̄."""
    mh, ml = part.mean
    found = np.empty(len(mh) - d)
    for t in range(len(found)):
        b, low = beta[0][:, t], beta[1][:, t]
        P, E = doubled.two_prod(-b, mh[:d])
        rest = low * mh[:d] + b * ml[:d]
        found[t] = fsum([mh[d + t], ml[d + t], *P.tolist(), *E.tolist(), *(-rest).tolist()])
    return found


def _arithmetic(
    part: Part, factor: Factor, beta: np.ndarray, intercept: np.ndarray, fit_intercept: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each target what the arithmetic may have cost, and the values: [intercept and] coefficients."""
    d = len(beta)
    mean = part.mean[0][:d] if fit_intercept else None
    squares = np.diagonal(part.products[0]) if fit_intercept else part.raw_squares()
    rows2 = squared_rows(factor.inverse, mean)
    for t in range(beta.shape[1]):
        found = arithmetic_errors(
            rows2, beta[:, t], part.noise[:d], float(part.noise[d + t]), squares[:d], float(squares[d + t])
        )
        if mean is None:
            yield found, beta[:, t]
            continue
        of = [*range(d), d + t]
        found[0] += intercept_error(mean, beta[:, t], part.mean[0][d + t], part.noise[of], squares[of], part.n)
        yield found, np.concatenate([intercept[t : t + 1], beta[:, t]])


def _certificate(
    part: Part,
    terms: Sequence[str],
    rounding: np.ndarray,
    factor: Factor,
    solved: Pair,
    intercept: np.ndarray,
    rss: np.ndarray,
    right: Pair,
    fit_intercept: bool,
    rank: str,
) -> ExactCertificate:
    beta, low = solved
    d = len(beta)
    mean = part.mean[0][:d] if fit_intercept else None
    squares = np.diagonal(part.products[0]) if fit_intercept else part.raw_squares()
    arithmetic: list[float] = []
    data: list[float] = []
    few: list[str] = []
    zero: list[str] = []
    rows2 = squared_rows(factor.inverse, mean)
    shown = np.concatenate([[True], factor.kept]) if fit_intercept else factor.kept
    names = [*(["the intercept"] if fit_intercept else []), *terms]
    raw = part.raw_squares()
    roots = np.sqrt(np.maximum(raw[:d], np.finfo(float).tiny))
    roots = np.concatenate([[np.sqrt(part.weight[0])], roots]) if fit_intercept else roots
    for t, (found, values) in enumerate(_arithmetic(part, factor, beta, intercept, fit_intercept)):
        moved = data_errors(
            rows2, factor.inverse, mean, beta[:, t], rounding[:d], float(rounding[d + t]), float(rss[t]), part.n
        )
        size = np.sqrt(max(raw[d + t], 0.0)) / roots  # of a coefficient that would make all of the prediction
        for errors, unseen, into in ((found, _STRUCTURE, arithmetic), (moved, 4 * doubled.UNIT, data)):
            gone = shown & vanished(errors, values, unseen * size)
            asked = shown & ~gone
            into.append(digits_of(errors[asked], values[asked]))
            zero += [name for name, is_gone in zip(names, gone) if is_gone]
            if into[-1] < _FEW:
                small = asked & (np.abs(values) <= np.maximum(4 * errors, _NEARLY * size))
                few += [name for name, is_small in zip(names, small) if is_small]
    # ‖Xᵀr‖/(‖X‖‖r‖) of the coefficients as they are returned, rounded to float64.
    lengths = np.sqrt(np.maximum(squares[:d].sum() * rss, 0.0))
    scale = factor.scale[:, None]
    # Without null vectors hi + lo solves the equations, so that what is left of hi alone is G·lo.
    if factor.combinations:
        left = residual(factor.scaled, (beta / scale, 0.0 * beta), (right[0] * scale, right[1] * scale)) / scale
    else:
        left = (factor.scaled[0] @ (low / scale)) / scale
    angle = np.sqrt((left * left).sum(axis=0)) / np.where(lengths > 0, lengths, np.inf)
    dropped = tuple(terms[j] for j in factor.combinations)
    advice = []
    for told, which in (
        ("few digits hold of what can hardly be told from 0", dict.fromkeys(few)),
        ("0 as far as rounding can tell", {name: None for name in zero if name not in few}),
    ):
        if which:
            advice.append(f"{told}: {', '.join(list(which)[:_NAMED])}{', …' if len(which) > _NAMED else ''}")
    if dropped:
        advice.append(f"columns that add nothing: {explained(terms, factor)}; {HOW[rank]}")
    return ExactCertificate(
        status=exact_status(min([*arithmetic, *data], default=0.0), dropped),
        assumptions=(
            Assumption(
                "columns are linearly independent",
                not dropped,
                float(factor.rank),
                float(d),
                "remove the columns named, or add a ridge penalty" if dropped else "",
            ),
        ),
        advice="; ".join(advice),
        arithmetic_digits=min(arithmetic, default=0.0),
        data_digits=min(data, default=0.0),
        condition_number=factor.condition_number,
        rank=factor.rank,
        dropped=dropped,
        orthogonality=float(angle.max(initial=0.0)),
    )


def explained(terms: Sequence[str], factor: Factor) -> str:
    """The first dropped columns, each with what it is in the others."""
    told = [
        _explain(terms, j, gamma * factor.scale / factor.scale[j])
        for j, gamma in list(factor.combinations.items())[:_NAMED]
    ]
    more = len(factor.combinations) - _NAMED
    return "; ".join([*told, *([f"{more} more"] if more > 0 else [])])


def _explain(terms: Sequence[str], j: int, gamma: np.ndarray) -> str:
    """``x3 = 2·x1 − x2 + constant``."""
    used = [int(k) for k in np.flatnonzero(gamma) if abs(gamma[k]) > 1e-9 * np.abs(gamma).max()]
    if not used:
        return f"{terms[j]} is constant"
    told = " + ".join(f"{gamma[k]:.6g}·{terms[k]}" for k in used[:4]).replace("+ -", "− ")
    return f"{terms[j]} = {told}{' + …' if len(used) > 4 else ''} up to a constant"
