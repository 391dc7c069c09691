"""The moments of some rows and how two of them become one.

For the columns z = [x y] of weighted rows: the count n, Σw, the mean z̄ and the centred cross-products
C = Σ w (z − z̄)(z − z̄)ᵀ, means and products as double-double pairs. Two parts merge by

  C = C₁ + C₂ + (W₁W₂/W)·δδᵀ,   z̄ = z̄₁ + (W₂/W)·δ,   δ = z̄₂ − z̄₁          (Chan, Golub, LeVeque)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from .doubled import add, divide, multiply, subtract_product


@dataclasses.dataclass
class Part:
    """The moments of some rows: one fold, one partition, or everything."""

    n: int
    weight: tuple[float, float]
    mean: tuple[np.ndarray, np.ndarray]
    products: tuple[np.ndarray, np.ndarray]
    noise: np.ndarray
    log_weight: float = 0.0

    @classmethod
    def empty(cls, width: int) -> Part:
        zeros, square = np.zeros(width), np.zeros((width, width))
        return cls(0, (0.0, 0.0), (zeros, zeros), (square, square), zeros)

    def merged(self, other: Part) -> Part:
        """Both together, by Chan's formula in double-double."""
        if self.n == 0:
            return other
        if other.n == 0:
            return self
        weight = add(*self.weight, *other.weight)
        share = divide(*other.weight, *weight)
        factor = multiply(*self.weight, *share)
        dh, dl = add(*other.mean, -self.mean[0], -self.mean[1])
        mean = add(*self.mean, *multiply(dh, dl, *share))
        fh, fl = multiply(-dh, -dl, *factor)
        h, e = add(*self.products, *other.products)
        products = subtract_product(h, e, dh[:, None], dl[:, None], fh[None, :], fl[None, :])
        return Part(
            self.n + other.n,
            weight,
            mean,
            symmetric(products),
            self.noise + other.noise,
            self.log_weight + other.log_weight,
        )

    def selected(self, where: np.ndarray) -> Part:
        """Some of the columns."""
        square = np.ix_(where, where)
        return dataclasses.replace(
            self,
            mean=(self.mean[0][where], self.mean[1][where]),
            products=(self.products[0][square], self.products[1][square]),
            noise=self.noise[where],
        )

    def placed(self, where: np.ndarray, width: int) -> Part:
        """The same rows among more columns, which were 0 in all of them."""
        square = np.ix_(where, where)
        mean, products, noise = np.zeros((2, width)), np.zeros((2, width, width)), np.zeros(width)
        noise[where] = self.noise
        for k in (0, 1):
            mean[k][where] = self.mean[k]
            products[k][square] = self.products[k]
        return Part(self.n, self.weight, (mean[0], mean[1]), (products[0], products[1]), noise, self.log_weight)

    def filled(self, places: Sequence[int], fills: Sequence[tuple[int, int, float]]) -> Part:
        """Column ``places[k]`` plus m times column i, for each fill (k, i, m)."""
        part = dataclasses.replace(
            self,
            mean=(self.mean[0].copy(), self.mean[1].copy()),
            products=(self.products[0].copy(), self.products[1].copy()),
            noise=self.noise.copy(),
        )
        for k, i, m in fills:
            j = places[k]
            (mh, ml), (H, E) = part.mean, part.products
            mh[j], ml[j] = subtract_product(mh[j], ml[j], -m, 0.0, mh[i], ml[i])
            for _ in range(2):  # the row, then the column
                H[j], E[j] = subtract_product(H[j], E[j], -m, 0.0, H[i], E[i])
                H, E = H.T, E.T
            part.noise[j] += m * m * part.noise[i]
        return part

    def about_origin(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ w z zᵀ, for models without an intercept."""
        mh, ml = self.mean
        wh, wl = multiply(-mh, -ml, *self.weight)
        return symmetric(subtract_product(*self.products, mh[:, None], ml[:, None], wh[None, :], wl[None, :]))

    def raw_squares(self) -> np.ndarray:
        """Σ w z² per column, in float64."""
        return np.diagonal(self.products[0]) + self.weight[0] * self.mean[0] ** 2


def symmetric(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The upper triangle mirrored: both halves of a merge round differently."""
    above, below = _triangle(len(pair[0]))
    for item in pair:
        item[below] = item[above]
    return pair


@lru_cache(maxsize=16)
def _triangle(width: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    rows, columns = np.triu_indices(width, 1)
    return (rows, columns), (columns, rows)


def merged(parts: Iterable[Part], width: int) -> Part:
    """All parts in one, added pairwise."""
    queue = list(parts)
    if not queue:
        return Part.empty(width)
    while len(queue) > 1:
        queue = [queue[i].merged(queue[i + 1]) if i + 1 < len(queue) else queue[i] for i in range(0, len(queue), 2)]
    return queue[0]


def part_arrays(part: Part) -> dict[str, np.ndarray]:
    """A part as plain arrays, for a file."""
    return {
        "weight": np.array(part.weight, dtype=float),
        "mean": np.stack(part.mean),
        "products": np.stack(part.products),
        "noise": part.noise,
        "log_weight": np.array([part.log_weight]),
    }


def part_from(arrays: dict[str, np.ndarray], n: int) -> Part:
    """The part that ``part_arrays`` took apart."""
    mean, products, weight = arrays["mean"], arrays["products"], arrays["weight"]
    return Part(
        n,
        (float(weight[0]), float(weight[1])),
        (mean[0], mean[1]),
        (products[0], products[1]),
        arrays["noise"],
        float(arrays["log_weight"][0]),
    )
