"""Local fits in several variables, and a k-d tree of cells whose corners carry them with what lies between.

Every row is looked at, those within h are weighed. The local polynomial is centred at the query and scaled by h; its
normal equations are factored with columns that add nothing left out, which lowers the degree where neighbours lie on a
line or a plane.

Cells are halved at the median of their widest side until each holds few rows, and reach outwards only as far as their
rows: a corner away from all rows would carry an extrapolation into the cell. Cells that meet in a corner share it. One
variable: cubic Hermite between two values and slopes. Several: Σ λ_c·(f_c + ½∇f_c·(x − x_c)) with λ the multilinear
weights of the corners, which is exact for quadratic functions.
"""

from __future__ import annotations

import dataclasses

import cython
import numpy as np

from ..errors import DataError
from ..modelfile import Array, whole_numbers
from ..simd import Array as Numbers

if not cython.compiled:  # compiled, these come from loess_nd.pxd
    from math import exp, sqrt
    from math import nan as NAN

ARRAYS = ("side", "cut", "child", "leaf", "lower", "upper", "corner", "vertices")


@dataclasses.dataclass
class Cells:
    """Nodes (side < 0: a leaf), the boxes and corner numbers of the leaves, and the corners' places."""

    side: np.ndarray
    cut: np.ndarray
    child: np.ndarray
    leaf: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    corner: np.ndarray
    vertices: np.ndarray

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], width: int) -> dict[str, Array]:
        """What a file holds of a tree: children stand behind their parents, and a leaf is its own child."""
        side, leaves, corners = (arrays.get(f"cells.{name}", np.zeros(0)) for name in ("side", "lower", "vertices"))
        nodes = np.arange(len(side))

        def children(child: np.ndarray) -> bool:
            inner = side >= 0
            behind = (child > nodes[:, None]).all(axis=1) & (child < len(nodes)).all(axis=1)
            return bool(np.where(inner, behind, (child == nodes[:, None]).all(axis=1)).all())

        def numbered(leaf: np.ndarray) -> bool:
            return bool(np.where(side < 0, (leaf >= 0) & (leaf < len(leaves)), leaf == -1).all())

        made = {
            "side": Array(("nodes",), "int64", holds=whole_numbers(-1, width - 1)), "cut": Array(("nodes",)),
            "child": Array(("nodes", 2), "int64", holds=children), "leaf": Array(("nodes",), "int64", holds=numbered),
            "lower": Array(("leaves", width)), "upper": Array(("leaves", width)),
            "corner": Array(("leaves", 2**width), "int64", holds=whole_numbers(0, len(corners) - 1)),
            "vertices": Array(("corners", width)),
        }  # fmt: skip
        return {name: dataclasses.replace(spec, optional="tree") for name, spec in made.items()}

    @classmethod
    def build(cls, Z: np.ndarray, most: int, reach: float | None = None) -> Cells:
        """Cells of at most ``most`` rows, or that cannot be halved any more.

        Where rows are scarce such a cell is long, and a surface may bend in it unseen: cells of several variables that
        are longer than ``reach``, 1.25 times the middle one's length, are halved further, down to an eighth of the rows.
        """
        if reach is None and Z.shape[1] > 1:
            plain = cls.build(Z, most, np.inf)
            reach = 1.25 * float(np.median((plain.upper - plain.lower).max(axis=1)))
        reach = np.inf if reach is None else reach
        low, high = Z.min(axis=0), Z.max(axis=0)
        margin = 0.005 * (high - low) + 1e-10 * (1.0 + np.abs(high))
        side: list[int] = []
        cut: list[float] = []
        child: list[list[int]] = []
        leaf: list[int] = []
        boxes: list[tuple[np.ndarray, np.ndarray]] = []
        open_sides = (np.ones(Z.shape[1], dtype=bool),) * 2  # which sides no other cell touches
        todo = [(np.arange(len(Z)), low, high, open_sides, -1, 0)]
        while todo:
            rows, a, b, (below, above), parent, which = todo.pop()
            here = len(side)
            own = Z[rows]
            a, b = np.where(below, own.min(axis=0) - margin, a), np.where(above, own.max(axis=0) + margin, b)
            if parent >= 0:
                child[parent][which] = here
            lengths = np.ptp(own, axis=0)
            k = int(np.argmax(lengths))
            if not (len(rows) > most or (8 * len(rows) > most and lengths[k] > reach)):
                k = -1
            at = float(np.median(own[:, k])) if k >= 0 else 0.0
            over = own[:, k] > at if k >= 0 else np.zeros(0, dtype=bool)
            if k < 0 or not over.any() or over.all() or not a[k] < at < b[k]:
                side.append(-1)
                cut.append(0.0)
                child.append([here, here])
                leaf.append(len(boxes))
                boxes.append((a, b))
                continue
            side.append(k)
            cut.append(at)
            child.append([-1, -1])
            leaf.append(-1)
            first, second = b.copy(), a.copy()
            first[k] = second[k] = at
            others = np.arange(len(a)) != k
            todo += [
                (rows[~over], a, first, (below, above & others), here, 0),
                (rows[over], second, b, (below & others, above), here, 1),
            ]
        lower, upper = np.array([box[0] for box in boxes]), np.array([box[1] for box in boxes])
        p = Z.shape[1]
        bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1
        places = np.where(bits[None], upper[:, None, :], lower[:, None, :]).reshape(-1, p)
        vertices, corner = np.unique(places, axis=0, return_inverse=True)
        return cls(
            np.array(side), np.array(cut), np.array(child), np.array(leaf), lower, upper,
            np.ravel(corner).reshape(len(boxes), 2**p), vertices,
        )  # fmt: skip

    def holds(self, Z: np.ndarray) -> np.ndarray:
        """Which rows lie inside their leaf's box."""
        leaf = self.locate(Z)
        return np.asarray(((self.lower[leaf] <= Z) & (self.upper[leaf] >= Z)).all(axis=1))

    def locate(self, Z: np.ndarray) -> np.ndarray:
        """The leaf of each row."""
        node = np.zeros(len(Z), dtype=np.int64)
        rows = np.arange(len(Z))
        while True:
            side = self.side[node]
            if (side < 0).all():
                return self.leaf[node]
            over = (Z[rows, np.maximum(side, 0)] > self.cut[node]).astype(np.int64)
            node = self.child[node, over]  # a leaf is its own child

    def between(
        self, Z: np.ndarray, leaf: np.ndarray, values: np.ndarray, gradients: np.ndarray | None = None
    ) -> np.ndarray:
        """Values at the corners carried to rows in their leaves, with gradients where they are known."""
        low, high, corner = self.lower[leaf], self.upper[leaf], self.corner[leaf]
        s = (Z - low) / (high - low)
        p = Z.shape[1]
        if p == 1 and gradients is not None:
            t, width = s[:, 0], (high - low)[:, 0]
            f0, f1 = values[corner[:, 0]], values[corner[:, 1]]
            g0, g1 = gradients[corner[:, 0], 0] * width, gradients[corner[:, 1], 0] * width
            return f0 + t * (g0 + t * (3 * (f1 - f0) - 2 * g0 - g1 + t * (2 * (f0 - f1) + g0 + g1)))
        out = np.zeros(len(Z))
        for c in range(2**p):
            weight = np.ones(len(Z))
            for k in range(p):
                weight *= s[:, k] if c >> k & 1 else 1.0 - s[:, k]
            number = corner[:, c]
            value = values[number]
            if gradients is not None:
                value = value + 0.5 * np.einsum("ij,ij->i", gradients[number], Z - self.vertices[number])
            out += weight * value
        return out


def square_distances(Z: Numbers, queries: Numbers, i: cython.Py_ssize_t, out: Numbers) -> None:
    """‖z − q‖² of every row from query i; Z holds one variable a row."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    q: float
    for j in range(Z.shape[1]):
        out[j] = 0.0
    for k in range(Z.shape[0]):
        q = queries[i, k]
        for j in range(Z.shape[1]):
            out[j] += (Z[k, j] - q) * (Z[k, j] - q)


def distances_to(Z: Numbers, queries: Numbers, i: cython.Py_ssize_t, out: Numbers) -> None:
    """The same, for Python, which then lets other threads run."""
    with cython.nogil:
        square_distances(Z, queries, i, out)


@cython.final
@cython.cclass
class ScatteredRows:
    """Rows (Z holds one variable a row), their weights g, the part of g that repeats rows (``case``, empty: 1).

    A fit has its rooms here, so one of these serves one thread.
    """

    def __init__(
        self, Z: Numbers, y: Numbers, g: Numbers, case: Numbers, degree: int, gaussian: bool, full: bool
    ) -> None:
        p, n = Z.shape
        if not n == len(y) == len(g) or len(case) not in (0, n):
            raise DataError("columns, y and weights have different lengths; give one of each for every row", where="y")
        self.Z, self.y, self.g, self.case = Z, y, g, case
        self.degree, self.gaussian, self.full = degree, gaussian, full
        m = 1 if degree == 0 else (1 + p if degree == 1 else 1 + p + p * (p + 1) // 2)
        self.size = m
        self.M, self.S, self.L = np.empty((m, m)), np.empty((m, m)), np.zeros((m, m))
        self.c, self.b, self.v = np.empty(m), np.empty(m), np.empty(m)
        self.squares = np.empty(n)

    def fit(self, queries: Numbers, h: Numbers, out: Numbers) -> None:
        """Fit at every query, with a width each: value, leverage of a unit weight, Σ l²/w (0 unless full), gradient.

        NaN where no row has weight.
        """
        p = self.Z.shape[0]
        if not len(queries) == len(h) == len(out) or queries.shape[1] != p or out.shape[1] != 3 + p:
            raise DataError(f"every query needs {p} coordinates, a width and {3 + p} places for its fit", where="out")
        self.fit_all(queries, h, out)

    def fit_all(self, queries: Numbers, h: Numbers, out: Numbers) -> None:
        i: cython.Py_ssize_t
        with cython.nogil:
            for i in range(queries.shape[0]):
                self.fit_one(queries, i, h[i], out)

    def weight(self, j: cython.Py_ssize_t, nearest: float, inverse: float) -> float:
        """Row j's weight in the fit."""
        r: float
        u: float
        if self.gaussian:
            return exp(-0.5 * (self.squares[j] - nearest) * inverse * inverse) * self.g[j]
        r = sqrt(self.squares[j]) * inverse
        u = 1.0 - r * r * r
        return u * u * u * self.g[j]

    def add_row(self, queries: Numbers, i: cython.Py_ssize_t, j: cython.Py_ssize_t, w: float, inverse: float) -> None:
        """Row j enters the normal equations with weight w, and the squares of the smoother's row."""
        k: cython.Py_ssize_t
        a: cython.Py_ssize_t
        p: cython.Py_ssize_t = self.Z.shape[0]
        place: cython.Py_ssize_t = 1 + p
        second: float = 0.0
        self.b[0] = 1.0
        if self.degree > 0:
            for k in range(p):
                self.b[1 + k] = (self.Z[k, j] - queries[i, k]) * inverse
        if self.degree > 1:
            for k in range(p):
                for a in range(k + 1):
                    self.b[place] = self.b[1 + k] * self.b[1 + a]
                    place += 1
        wb: float
        for k in range(self.size):
            wb = w * self.b[k]
            self.c[k] += wb * self.y[j]
            for a in range(k + 1):
                self.M[k, a] += wb * self.b[a]
        if self.full:
            second = w * w if self.case.shape[0] == 0 else w * (w / self.case[j])
            for k in range(self.size):
                wb = second * self.b[k]
                for a in range(k + 1):
                    self.S[k, a] += wb * self.b[a]

    def fit_one(self, queries: Numbers, i: cython.Py_ssize_t, h: float, out: Numbers) -> None:
        """Row i of ``out``: the fit at query i."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        p: cython.Py_ssize_t = self.Z.shape[0]
        inverse: float = 1.0 / h if h > 0.0 else 0.0
        reach: float = (0.999 * h) * (0.999 * h)
        nearest: float = 0.0
        square_distances(self.Z, queries, i, self.squares)
        if self.gaussian:
            nearest = self.squares[0]
            for j in range(1, self.Z.shape[1]):
                nearest = min(nearest, self.squares[j])
            reach = nearest + 80.0 * h * h
        for k in range(self.size):
            self.c[k] = 0.0
            for j in range(self.size):
                self.M[k, j] = 0.0
                self.S[k, j] = 0.0
        for j in range(self.Z.shape[1]):
            if self.squares[j] <= reach and self.g[j] != 0.0:
                self.add_row(queries, i, j, self.weight(j, nearest, inverse), inverse)
        if not self.M[0, 0] > 0.0:
            for k in range(3 + p):
                out[i, k] = NAN
            return
        self.factor()
        for k in range(self.size):
            self.b[k] = 1.0 if k == 0 else 0.0
        self.solve(self.b)
        out[i, 1] = self.v[0]
        total: float = 0.0
        for k in range(self.size):
            total += self.v[k] * self.v[k] * self.S[k, k]
            for j in range(k):
                total += 2.0 * self.v[k] * self.v[j] * self.S[k, j]
        out[i, 2] = total
        self.solve(self.c)
        out[i, 0] = self.v[0]
        for k in range(p):
            out[i, 3 + k] = self.v[1 + k] * inverse if self.degree > 0 else 0.0

    def factor(self) -> None:
        """M = LL', columns that depend on earlier ones left out (a diagonal entry of 0)."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        s: float
        for k in range(self.size):
            for j in range(k):
                s = self.M[k, j]
                for i in range(j):
                    s -= self.L[k, i] * self.L[j, i]
                self.L[k, j] = s / self.L[j, j] if self.L[j, j] > 0.0 else 0.0
            s = self.M[k, k]
            for i in range(k):
                s -= self.L[k, i] * self.L[k, i]
            self.L[k, k] = sqrt(s) if s > 1e-10 * self.M[k, k] else 0.0

    def solve(self, right: Numbers) -> None:
        """v ← the solution of LL'v = right, 0 at the columns left out."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        s: float
        for k in range(self.size):
            s = right[k]
            for i in range(k):
                s -= self.L[k, i] * self.v[i]
            self.v[k] = s / self.L[k, k] if self.L[k, k] > 0.0 else 0.0
        for k in range(self.size - 1, -1, -1):
            s = self.v[k]
            for i in range(k + 1, self.size):
                s -= self.L[i, k] * self.v[i]
            self.v[k] = s / self.L[k, k] if self.L[k, k] > 0.0 else 0.0
