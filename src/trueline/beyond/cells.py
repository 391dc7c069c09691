"""A k-d tree of cells whose corners carry local fits, and what lies between them.

Cells are halved at the median of their widest side until each holds few rows, and reach outwards only as far as their
rows: a corner away from all rows would carry an extrapolation into the cell. Cells that meet in a corner share it. One variable: cubic Hermite between two values and slopes. Several: Σ λ_c·(f_c + ½∇f_c·(x − x_c)) with λ the
multilinear weights of the corners, which is exact for quadratic functions.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..modelfile import Array, whole_numbers

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
