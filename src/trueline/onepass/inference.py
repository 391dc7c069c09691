"""Inference from moments: standard errors, intervals, F-tests, contrasts, variance inflation, robust errors.

σ² = RSS/(n − p); Var β = σ² G⁻¹; Var b = σ² (1/W + x̄ᵀG⁻¹x̄), all of it double-double until the last rounding. Nested
models, contrasts and variance inflation need no rows. Robust and clustered errors need one further pass, for
M = Σ e² x xᵀ or Σ_g (Σ_{i∈g} e x)(…)ᵀ; then Var β = G⁻¹ M G⁻¹. HC2 divides e² by 1 − h and HC3 by (1 − h)²,
h = w(1/W + (x − x̄)ᵀG⁻¹(x − x̄)).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import dense, doubled
from ..errors import DataError, UsageError, nearest
from .digits import rounding_squares
from .parts import Part
from .solve import Factor, factored
from .squares import products_of, solve_part

ROBUST = ("HC0", "HC1", "HC2", "HC3", "cluster")


class Test(NamedTuple):
    """An F-test: the statistic, its degrees of freedom and the probability of one as large."""

    statistic: float
    df: int
    df_residual: int
    p_value: float


@dataclasses.dataclass
class Inference:
    """What the moments say about one target's least-squares fit; vectors have the intercept first, if there is one."""

    part: Part
    terms: tuple[str, ...]
    integer: np.ndarray
    fit_intercept: bool
    coef: np.ndarray
    intercept: float
    rss: float
    target: int = 0

    @property
    def d(self) -> int:
        return len(self.terms)

    @property
    def names(self) -> tuple[str, ...]:
        return ("(Intercept)", *self.terms) if self.fit_intercept else self.terms

    @property
    def estimates(self) -> np.ndarray:
        return np.concatenate([[self.intercept], self.coef]) if self.fit_intercept else np.asarray(self.coef)

    @cached_property
    def factor(self) -> Factor:
        H, E = products_of(self.part, self.fit_intercept)
        rounding = rounding_squares(self.part.raw_squares(), self.integer)
        d = self.d
        return factored(
            (H[:d, :d], E[:d, :d]), rounding[:d], self.part.noise[:d], most=self.part.n - self.fit_intercept
        )

    @property
    def estimable(self) -> np.ndarray:
        """Which of [intercept and] coefficients are no combination of those before them."""
        return np.concatenate([[True], self.factor.kept]) if self.fit_intercept else self.factor.kept

    def without_aliases(self) -> Inference:
        """The same fit, with coefficient 0 for each column that is a combination of those before it."""
        if not self.factor.combinations:
            return self
        everything = list(range(self.d))
        solution = solve_part(
            self._part(everything),
            self.terms,
            self.integer[[*everything, self.d + self.target]],
            fit_intercept=self.fit_intercept,
            rank="drop",
            condition=False,
        )
        return dataclasses.replace(self, coef=solution.coef[0], intercept=float(solution.intercept[0]))

    @property
    def parameters(self) -> int:
        return self.factor.rank + int(self.fit_intercept)

    @property
    def df_residual(self) -> int:
        return self.part.n - self.parameters

    @property
    def total(self) -> float:
        """Σ w (y − ȳ)², or Σ w y² without an intercept."""
        place = self.d + self.target
        return float(products_of(self.part, self.fit_intercept)[0][place, place])

    @property
    def variance(self) -> float:
        """σ²."""
        return self.rss / self.df_residual if self.df_residual > 0 else math.nan

    @cached_property
    def unscaled(self) -> np.ndarray:
        """Var/σ² of [intercept and] coefficients."""
        Gh, Gl = self.factor.exact_inverse()
        if not self.fit_intercept:
            return Gh
        mh, ml = (item[: self.d] for item in self.part.mean)
        uh, ul = doubled.dot(Gh, Gl, mh[None, :], ml[None, :])
        qh, ql = doubled.dot(mh, ml, uh, ul)
        oh, ol = doubled.divide(np.float64(1.0), np.float64(0.0), *map(np.float64, self.part.weight))
        corner, _ = doubled.add(qh, ql, oh, ol)
        return np.block([[np.atleast_2d(corner), -uh[None, :]], [-uh[:, None], Gh]])

    @property
    def covariance(self) -> np.ndarray:
        return self.variance * self.unscaled

    @property
    def std_errors(self) -> np.ndarray:
        spread = np.sqrt(np.maximum(np.diagonal(self.unscaled), 0.0)) * math.sqrt(self.variance)
        return np.where(self.estimable, spread, np.nan)

    @property
    def r_squared(self) -> float:
        return 1.0 - self.rss / self.total if self.total > 0 else math.nan

    @property
    def adjusted_r_squared(self) -> float:
        if self.df_residual <= 0:
            return math.nan
        return 1.0 - (1.0 - self.r_squared) * (self.part.n - int(self.fit_intercept)) / self.df_residual

    @property
    def log_likelihood(self) -> float:
        """Gaussian, at the maximum-likelihood variance RSS/n; weights are inverse variances."""
        n = self.part.n
        if self.rss <= 0:
            return math.inf
        return -0.5 * n * (math.log(2 * math.pi * self.rss / n) + 1) + 0.5 * self.part.log_weight

    @property
    def f_test(self) -> Test:
        """All coefficients but the intercept against none."""
        return self._f(self.total - self.rss, self.factor.rank)

    def _f(self, gained: float, q: int) -> Test:
        if q < 1 or self.df_residual < 1:
            return Test(math.nan, q, self.df_residual, math.nan)
        from scipy.special import fdtrc

        value = (gained / q) / self.variance if self.variance > 0 else math.inf
        return Test(value, q, self.df_residual, float(fdtrc(q, self.df_residual, value)))

    def without(self, terms: Sequence[str]) -> Test:
        """The F-test of the model without these terms against this one."""
        if not terms:
            raise UsageError("name at least one term to be left out", where="without")
        self._known(terms)
        kept = [j for j, term in enumerate(self.terms) if term not in set(terms)]
        smaller = self._part(kept)
        solution = solve_part(
            smaller,
            [self.terms[j] for j in kept],
            np.append(self.integer[kept], self.integer[self.d + self.target]),
            fit_intercept=self.fit_intercept,
        )
        assert solution.factor is not None
        return self._f(float(solution.rss[0]) - self.rss, self.factor.rank - solution.factor.rank)

    def contrast(self, weights: Any, value: Any = 0.0) -> Test:
        """The F-test of L β = value; L is a row or rows over ``names``, or a mapping from a name to its weight."""
        if isinstance(weights, dict):
            self._known([name for name in weights if name != "(Intercept)"])
            weights = [weights.get(name, 0.0) for name in self.names]
        L = np.atleast_2d(np.asarray(weights, dtype=float))
        if L.shape[1] != len(self.names):
            raise UsageError(
                f"a contrast needs {len(self.names)} weights ({', '.join(self.names[:6])}), not {L.shape[1]}",
                where="contrast",
            )
        off = L @ self.estimates - value
        middle = L @ self.unscaled @ L.T
        if dense.matrix_rank(L) < len(L) or not (np.diagonal(middle) > 0).all():
            raise UsageError(
                "a contrast is of terms that were not dropped, has a weight other than 0, and several do not repeat "
                "each other",
                where="contrast",
            )
        return self._f(float(off @ dense.solve(middle, off)), len(L))

    @property
    def variance_inflation(self) -> np.ndarray:
        """1/(1 − R_j²): how much collinearity inflates each coefficient's variance (the intercept has none)."""
        C = np.diagonal(self.part.products[0])[: self.d]
        if self.fit_intercept:
            inflation = np.diagonal(self.factor.exact_inverse()[0]) * C
        else:
            inflation = np.diagonal(self.unscaled) * np.diagonal(products_of(self.part, False)[0])[: self.d]
        inflation = np.where(self.factor.kept, inflation, np.inf)
        return np.concatenate([[np.nan], inflation]) if self.fit_intercept else inflation

    def half_width(self, X: np.ndarray, level: float, observation: bool) -> np.ndarray:
        """Half of Student's interval around each row's prediction."""
        if self.df_residual < 1:
            raise DataError(
                f"{self.part.n} rows and {self.parameters} parameters leave no residual to judge the spread by; "
                "intervals need more rows than parameters",
                where="interval",
            )
        from scipy.special import stdtrit

        leverage = self.leverage(X)
        quantile = float(stdtrit(self.df_residual, 0.5 + 0.5 * level))
        return quantile * np.sqrt(self.variance * (leverage + (1.0 if observation else 0.0)))

    def leverage(self, X: np.ndarray) -> np.ndarray:
        """x·Var·x/σ² of each row, for weight 1."""
        if not self.fit_intercept:
            return np.einsum("ij,ij->i", X @ self.unscaled, X)
        Z = X - self.part.mean[0][: self.d]
        return 1.0 / self.part.weight[0] + np.einsum("ij,ij->i", Z @ self.unscaled[1:, 1:], Z)

    def robust_covariance(self, kind: str, blocks: Iterable[tuple]) -> tuple[np.ndarray, int]:
        """The sandwich, and the degrees of freedom of its tests: groups less one where rows of a group go together.

        ``blocks`` are of (X, y, weights or None, groups or None), the rows of the fit.
        """
        if kind not in ROBUST:
            raise UsageError(f"robust must be one of {', '.join(ROBUST)}, not {kind!r}", where="robust")
        p = len(self.names)
        meat = np.zeros((p, p))
        scores: dict[Any, np.ndarray] = {}
        rows, freedom = 0, self.df_residual
        for X, y, weights, groups in blocks:
            w = np.ones(len(X)) if weights is None else weights
            rows += int((w > 0).sum())
            design = np.column_stack([np.ones(len(X)), X]) if self.fit_intercept else X
            error = w * (y - design @ self.estimates)
            if kind in ("HC2", "HC3"):
                left = 1.0 - w * self.leverage(X)
                error = error / np.where(left > 0, left, 1.0) ** (0.5 if kind == "HC2" else 1.0)
            if kind != "cluster":
                weighted = design * error[:, None]
                meat += weighted.T @ weighted
                continue
            if groups is None:
                raise UsageError('robust="cluster" needs groups=, one label a row', where="groups")
            if len(groups) != len(X):
                raise DataError(f"groups has {len(groups)} labels where there are {len(X)} rows", where="groups")
            labels, place = np.unique(np.asarray(groups), return_inverse=True)
            sums = np.zeros((len(labels), p))
            np.add.at(sums, place, design * error[:, None])
            for label, row in zip(labels.tolist(), sums, strict=True):
                scores[label] = scores.get(label, 0.0) + row
        if rows != self.part.n:
            raise DataError(
                f"robust errors need the {self.part.n} rows of the fit, but {rows} came in; give the same data",
                where="data",
            )
        if kind == "cluster":
            stacked = np.array(list(scores.values()))
            count = len(stacked)
            if count < 2:
                raise DataError("clustered errors need at least two groups", where="groups")
            meat = stacked.T @ stacked * (count / (count - 1)) * ((rows - 1) / self.df_residual)
            freedom = count - 1
        elif kind == "HC1":
            meat *= rows / self.df_residual
        return self.unscaled @ meat @ self.unscaled, freedom

    def _known(self, terms: Sequence[str]) -> None:
        for term in terms:
            if term not in self.terms:
                raise UsageError(f"the model has no term {term!r}{nearest(term, self.terms)}", where=term)

    def _part(self, kept: Sequence[int]) -> Part:
        where = np.array([*kept, self.d + self.target], dtype=int)
        return self.part.selected(where)
