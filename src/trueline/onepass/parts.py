"""The moments of some rows and how two of them become one.

For the columns z = [x y] of weighted rows: the count n, Σw, the mean z̄ and the centred cross-products
C = Σ w (z − z̄)(z − z̄)ᵀ, means and products as double-double pairs. Two parts merge by

  C = C₁ + C₂ + (W₁W₂/W)·δδᵀ,   z̄ = z̄₁ + (W₂/W)·δ,   δ = z̄₂ − z̄₁          (Chan, Golub, LeVeque)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from ..doubled import Pair, add, divide, multiply, subtract_product
from ..modelfile import Array

_STRIP = 2**13  # numbers of a strip


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
        return type(self)(
            self.n + other.n,
            weight,
            mean,
            self._joined(other, (dh, dl), (fh, fl)),
            self.noise + other.noise,
            self.log_weight + other.log_weight,
        )

    def _joined(self, other: Part, delta: Pair, factor: Pair) -> Pair:
        """C₁ + C₂ − δφᵀ, φ = −(W₁W₂/W)·δ."""
        (ah, al), (bh, bl) = self.products, other.products
        (dh, dl), (fh, fl) = delta, factor

        def both(i: slice, j: slice) -> Pair:
            h, e = add(ah[i, j], al[i, j], bh[i, j], bl[i, j])
            return subtract_product(h, e, dh[i, None], dl[i, None], fh[None, j], fl[None, j])

        return symmetric(both, len(dh))

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

    def scaled(self, exponents: np.ndarray) -> Part:
        """Columns multiplied by powers of two, which loses nothing."""
        both = exponents[:, None] + exponents
        return dataclasses.replace(
            self,
            mean=(np.ldexp(self.mean[0], exponents), np.ldexp(self.mean[1], exponents)),
            products=(np.ldexp(self.products[0], both), np.ldexp(self.products[1], both)),
            noise=np.ldexp(self.noise, 2 * exponents),
        )

    def about_origin(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ w z zᵀ, for models without an intercept."""
        mh, ml = self.mean
        wh, wl = multiply(-mh, -ml, *self.weight)
        H, E = self.products

        def moved(i: slice, j: slice) -> tuple[np.ndarray, np.ndarray]:
            return subtract_product(H[i, j], E[i, j], mh[i, None], ml[i, None], wh[None, j], wl[None, j])

        return symmetric(moved, len(mh))

    def raw_squares(self) -> np.ndarray:
        """Σ w z² per column, in float64."""
        return np.diagonal(self.products[0]) + self.weight[0] * self.mean[0] ** 2


def symmetric(
    made: Callable[[slice, slice], tuple[np.ndarray, np.ndarray]], width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two symmetric matrices from their upper triangles, strip by strip: ``made(rows, columns)`` is a piece of both.

    The halves of a merge would round differently, so one is mirrored. A strip's temporaries stay in a core's cache,
    where those of whole matrices would go through memory some forty times.
    """
    step = max(1, _STRIP // max(width, 1))
    if step >= width:
        found, below = made(slice(width), slice(width)), _below(width)
        for matrix in found:
            matrix[below] = matrix.T[below]
        return found
    pair = np.empty((width, width)), np.empty((width, width))
    for start in range(0, width, step):
        rows, columns = slice(start, min(start + step, width)), slice(start, width)
        below = _below(rows.stop - start)
        for matrix, piece in zip(pair, made(rows, columns), strict=True):
            matrix[rows, columns] = piece
            matrix[columns, rows] = piece.T
            corner = matrix[rows, rows]
            corner[below[1], below[0]] = piece[below[1], below[0]]
            corner[below] = corner.T[below]
    return pair


@lru_cache(maxsize=64)
def _below(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The places below the diagonal."""
    return np.tril_indices(size, -1)


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


def part_declared(prefix: str, width: int, optional: str = "") -> dict[str, Array]:
    """What ``part_arrays`` writes of so many columns, targets included."""
    shapes = {"weight": (2,), "mean": (2, width), "products": (2, width, width), "noise": (width,), "log_weight": (1,)}
    return {prefix + name: Array(shape, optional=optional) for name, shape in shapes.items()}


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
