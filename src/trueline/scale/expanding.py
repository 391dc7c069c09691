"""What a partition of numbers tells in the first of several jobs, and its quadratic model of the loss.

A partition p goes to the point φ_p where its own loss is about least and sends the Hessian H_p and q_p = H_pφ_p − g_p of its
loss there. The sum of these models has its minimum at (ΣH_p + Λ)θ = Σq_p: a Newton step in which every row was expanded
near the optimum, without a job to agree on where. The slopes a = V'(s_p) + V''(s_p)(s − s_p) that these models foretell
balance at θ as those of one common point do, so the job at θ can prove it (``passes``).

Models are of (x − shift, 1), each about the mean of its own partition, so that no digits are lost to a far origin. To move
to another shift, x̂' = T·x̂ with T = [[I, −δ], [0, 1]]: H' = T·H·Tᵀ and q' = T·q.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch.design import Design
from ..batch.duality import solve_symmetric
from ..data.blocks import Columns
from ..onepass import exact
from ..onepass.moments import Moments
from ..onepass.parts import Part
from ..onepass.sample import Sample
from .numbers import Numbers, Unchecked
from .tiles import Rows, space, summed
from .triangles import merged_schemas

MOST_POINTS = 1 << 22  # numbers of all partitions' points together, which go to every task
_TILE = 1 << 16  # entries of a block that are summed at a time: they stay in the cache
PLAIN = 0.01  # of a column's squares about 0: more about the mean, and it is not shifted


@dataclasses.dataclass
class Expansion:
    """The sum of some partitions' models, and where each was made: number → [coefficients …, intercept]."""

    shift: np.ndarray
    hessian: np.ndarray
    q: np.ndarray
    points: dict[int, np.ndarray]
    loss: float = math.nan  # of one partition, at its point

    @classmethod
    def of(cls, number: int, loss: Any, rows: Rows, at: np.ndarray, mean: np.ndarray, intercept: bool) -> Expansion:
        """Of blocks of (rows, targets, weights), at [coefficients …, intercept]."""
        shift = mean if intercept else np.zeros(len(mean))
        theta = about(at, shift, intercept)
        value, g, H = summed(loss, rows, shift, theta, intercept=intercept, hessian=True)
        return cls(shift, H, H @ theta - g, {number: at}, value)

    @property
    def finite(self) -> bool:
        """Whether all its numbers are: a step may lead to where a loss overflows."""
        return bool(np.isfinite(self.hessian).all() and np.isfinite(self.q).all())

    def minimum(self) -> np.ndarray | None:
        """[coefficients …, intercept] where the model is least; None where that is not a number."""
        return given(solved(self.hessian, self.q), self.shift) if self.finite else None

    def about(self, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H, q) about another shift."""
        d = len(shift)
        H, q = self.hessian, self.q
        if len(q) == d or np.array_equal(shift, self.shift):
            return H, q
        move = np.append(self.shift - shift, 0.0)
        # T·H·Tᵀ is H with multiples of its last row, and then of its last column, added to the others.
        H = H + np.outer(move, H[d])
        H = H + np.outer(H[:, d], move)
        return H, q + move * q[d]

    @classmethod
    def merged(cls, parts: Sequence[Expansion | None]) -> Expansion | None:
        """Their sum, about the first one's shift; None where one is missing or all points are too many to go round."""
        known = [part for part in parts if part is not None]
        if (
            not known
            or len(known) < len(parts)
            or sum(len(one.points) for one in known) * len(known[0].q) > MOST_POINTS
        ):
            return None
        shift = known[0].shift
        moved = [part.about(shift) for part in known]
        points = {number: point for part in known for number, point in part.points.items()}
        return cls(shift, sum(H for H, _ in moved), sum(q for _, q in moved), points)  # type: ignore[arg-type]

    def standardised(self, design: Design, total: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(H, q, a row of parameters for each partition) in a design's units, the weights divided by their total."""
        H, q = self.about(design.shift)
        scale = np.append(design.scale, 1.0) if design.intercept else design.scale
        base = np.zeros((max(self.points) + 1, design.size))
        for number, point in self.points.items():
            base[number] = design.join(point[:-1], point[-1])
        return design.unscaled(H) / total, q / scale / total, base


@dataclasses.dataclass
class Sight:
    """Counts, means and centred squares of columns and target; the target's values; the loss of zero; a start."""

    terms: tuple[str, ...]
    targets: tuple[str, ...]
    weighted: bool
    n: int
    weight: float
    mean: np.ndarray
    squares: np.ndarray
    target: np.ndarray  # mean and centred squares of the target
    schema: Any = None
    values: list[float] = dataclasses.field(default_factory=list)
    losses: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))  # at 0, at the least, sizes
    start: np.ndarray | None = None  # Σ weights·[1, coefficients …, intercept]
    expansion: Expansion | None = None

    @classmethod
    def empty(cls, encoder: Any) -> Sight:
        zeros = np.zeros(len(encoder.terms))
        if isinstance(encoder, Numbers):
            encoder.trusting = True  # ``add`` sees what is not finite
        return cls(
            encoder.terms, (encoder.target,), encoder.weights is not None, 0, 0.0, zeros, zeros, np.zeros(2),
            start=None, expansion=None,
        )  # fmt: skip

    def add(self, block: Any) -> None:
        """Count the rows of a block in; what overflows stays infinite, and is refused by the whole."""
        w = block.weights
        n, weight = (len(block.X), float(len(block.X))) if w is None else (int(np.count_nonzero(w)), float(w.sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            mean, squares = spread(block.X, w)
            about, around = spread(Columns([np.asarray(block.y, dtype=float)]), w)
            if not (np.isfinite(squares).all() and np.isfinite(around).all()) and isinstance(block.X, Unchecked):
                block.X.verify()
            self._join(n, weight, mean, squares, np.append(about, around))

    def _join(self, n: int, weight: float, mean: np.ndarray, squares: np.ndarray, target: np.ndarray) -> None:
        both = self.weight + weight
        if not weight > 0.0:
            return
        share = weight / both
        move, step = mean - self.mean, target[0] - self.target[0]
        self.mean = self.mean + share * move
        self.squares = self.squares + squares + self.weight * share * move * move
        spread = self.target[1] + target[1] + self.weight * share * step * step
        self.target = np.array([self.target[0] + share * step, spread])
        self.n, self.weight = self.n + n, both

    @classmethod
    def merged(cls, parts: Sequence[Sight], most: int) -> Sight:
        """Several as one, in their order."""
        one = dataclasses.replace(parts[0])
        for other in parts[1:]:
            with np.errstate(over="ignore", invalid="ignore"):
                one._join(other.n, other.weight, other.mean, other.squares, other.target)
        one.schema = merged_schemas([part.schema for part in parts])
        one.values = sorted({value for part in parts for value in part.values})[:most]
        one.losses = np.sum([part.losses for part in parts], axis=0)
        starts = [part.start for part in parts if part.start is not None]
        one.start = np.sum(starts, axis=0) if starts else None
        one.expansion = Expansion.merged([part.expansion for part in parts if part.n])
        return one

    def told(self) -> tuple[Moments, dict[str, Any]]:
        """As moments whose products are those of each column with itself alone, and what else was found."""
        width = len(self.terms) + 1
        mean, none = np.append(self.mean, self.target[0]), np.zeros(width)
        products = np.diag(np.append(self.squares, self.target[1])), np.zeros((width, width))
        part = Part(self.n, (self.weight, 0.0), (mean, none), products, none)
        moments = Moments(
            self.terms, self.targets, {0: part}, np.zeros(width, dtype=bool), Sample.empty(width, 0), self.schema,
            self.weighted, "auto", (0,) * exact.LEVELS,
        )  # fmt: skip
        start = [] if self.start is None else self.start.tolist()
        return moments, {
            "values": self.values,
            "losses": self.losses.tolist(),
            "start": start,
            "expansion": self.expansion,
        }


def solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of a system of any units: the columns are scaled first. What never varies gets 0."""
    diagonal = np.diagonal(matrix)
    scale = np.where(diagonal > 0.0, np.sqrt(np.maximum(diagonal, 0.0)), np.inf)
    return solve_symmetric(matrix / scale / scale[:, None], right / scale) / scale


def about(at: np.ndarray, shift: np.ndarray, intercept: bool) -> np.ndarray:
    """[coefficients …, intercept] as parameters of [x − shift, 1], or of x."""
    return np.append(at[:-1], at[-1] + shift @ at[:-1]) if intercept else at[:-1]


def given(theta: np.ndarray, shift: np.ndarray) -> np.ndarray | None:
    """The way back; None where it is not a number."""
    d = len(shift)
    constant = theta[d] - shift @ theta[:d] if len(theta) > d else 0.0
    return np.append(theta[:d], constant) if np.isfinite(theta).all() else None


def spread(X: Any, w: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(weighted means, weighted centred squares) of columns, from differences to the first row: a constant has 0."""
    n, d = X.shape
    first = np.array([X[0, j] for j in range(d)])
    sums, squares = np.zeros(d), np.zeros(d)
    if isinstance(X, Columns):
        for j, column in enumerate(X.columns):
            if w is None:
                some = [column[start : start + _TILE] for start in range(0, n, _TILE)]
                whole = np.array([(part.sum(), part @ part) for part in some]).sum(axis=0)
                if math.isfinite(whole[1]) and whole[1] - whole[0] * (whole[0] / n) > PLAIN * whole[1]:
                    first[j], sums[j], squares[j] = 0.0, whole[0], whole[1]  # no digits to speak of go to the mean
                    continue
            for start in range(0, n, _TILE):
                stop = min(n, start + _TILE)
                away = np.subtract(column[start:stop], first[j], out=space("tile", stop - start))
                heavy = away if w is None else np.multiply(away, w[start:stop], out=space("squares", stop - start))
                sums[j] += heavy.sum()
                squares[j] += heavy @ away
    else:
        step = max(64, _TILE // d)
        for start in range(0, n, step):
            stop = min(n, start + step)
            away = np.subtract(X[start:stop], first, out=space("tile", d * (stop - start)).reshape(-1, d))
            heavy = np.ones(len(away)) if w is None else w[start : start + step]
            sums += heavy @ away
            squares += heavy @ np.square(away, out=away)
    total = float(n) if w is None else float(w.sum())
    return first + sums / total, np.maximum(0.0, squares - sums * (sums / total))
