"""A locally weighted regression that has been fitted: at every query a weighted least squares of its neighbours.

Weights fall with distance, tricube on the nearest fraction (LOESS) or exp(−‖x − q‖²/2τ²); degree 0, 1 or 2. A row's
value comes from a fit of its own, or from the surface that ``smoothing`` laid through the corners of k-d cells.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..certificates.certificate import from_dict
from ..certificates.likelihood import MonotoneCertificate
from ..errors import DataError, ModelError
from ..modelfile import Array, under
from ..nonlinear import loess_nd as k_d
from ..nonlinear.loess_1d import SortedRows, neighbour_widths
from ..nonlinear.loess_nd import Cells, ScatteredRows, distances_to
from ..threads import get_threads, spread

ARRAYS = ("Z", "y", "case", "robust", "unit", "fitted", "nodes", "knots")
LATER = ("robustness", "tried", "scores")  # not in older files
RIM = 0.99  # a row this far out in a window still counts
GAUSSIAN_WIDTH = 3.0  # with a fraction, τ is the distance of the last neighbour over this


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to weigh neighbours: exactly one of ``fraction`` and ``bandwidth`` is a number."""

    fraction: float | None = None
    bandwidth: float | None = None
    degree: int = 1
    kernel: str = "tricube"
    robust_iterations: int = 3
    surface: str = "auto"
    delta: float = 0.0


@dataclasses.dataclass
class LocalModel:
    """The rows (sorted where there is one variable), what they weigh, and the surface if there is one."""

    kind = "local"

    settings: Settings
    Z: np.ndarray  # rows divided by ``unit``
    y: np.ndarray
    case: np.ndarray  # the rows' own weights; empty where all count 1
    robust: np.ndarray
    unit: np.ndarray
    terms: tuple[str, ...]
    fitted: np.ndarray
    sigma: float = math.nan
    trace: float = math.nan
    left: float = math.nan
    gcv: float = math.nan
    cv: float = math.nan
    surface: str = "exact"
    cells: Cells | None = None
    nodes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 3)))
    knots: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    certificate: MonotoneCertificate | None = None
    robustness: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))  # ``robust`` in the rows' order
    tried: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))  # widths, where one was chosen
    scores: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    left_out: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0), repr=False)  # not saved

    @property
    def total(self) -> float:
        return float(self.case.sum()) if self.case.size else float(len(self.y))

    @property
    def sorted(self) -> bool:
        return self.Z.shape[1] == 1

    def neighbours(self) -> float:
        """The weight of a neighbourhood, as R's lowess counts it."""
        assert self.settings.fraction is not None
        share = self.settings.fraction * self.total
        whole = not self.case.size or bool((self.case == np.floor(self.case)).all())
        p, degree = self.Z.shape[1], self.settings.degree
        least = 2 if p == 1 and degree < 2 else (1, 1 + p, 1 + p + p * (p + 1) // 2)[degree] + 1
        if whole:
            return float(min(max(least, int(share + 1e-7)), int(self.total)))
        return max(min(least * self.total / len(self.y), self.total), share)

    def spans(self, queries: np.ndarray) -> np.ndarray:
        """h (tricube) or τ (Gaussian) of each query; enough rows are always within reach."""
        s = self.settings
        gaussian = s.kernel == "gaussian"
        if s.bandwidth is not None and gaussian:
            return np.full(len(queries), s.bandwidth)
        p = self.Z.shape[1]
        few = (1, 1 + p, 1 + p + p * (p + 1) // 2)[s.degree] + 1
        k = self.neighbours() if s.bandwidth is None else float(min(few, len(self.y)))
        case = self.case if s.bandwidth is None else np.zeros(0)
        found = np.empty(len(queries))
        if self.sorted:
            x, flat = np.ascontiguousarray(self.Z[:, 0]), np.ascontiguousarray(queries[:, 0])
            spread(lambda part: neighbour_widths(x, case, flat[part], k, found[part]), self._pieces(len(queries)))
        else:
            spread(lambda part: self._cloud_widths(queries[part], case, k, found[part]), self._pieces(len(queries)))
        if s.bandwidth is not None:
            return np.maximum(s.bandwidth, found / RIM)
        return found / GAUSSIAN_WIDTH if gaussian else found

    @staticmethod
    def _pieces(count: int) -> list[slice]:
        step = max(1, -(-count // (4 * get_threads())))
        return [slice(a, min(a + step, count)) for a in range(0, count, step)]

    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.Z.T)

    def _cloud_widths(self, queries: np.ndarray, case: np.ndarray, k: float, out: np.ndarray) -> None:
        columns, squares = self._columns(), np.empty(len(self.y))
        for i in range(len(queries)):
            distances_to(columns, queries, i, squares)
            if case.size:
                order = np.argsort(squares)
                place = int(np.searchsorted(np.cumsum(case[order]), k * (1.0 - 1e-12)))
                out[i] = math.sqrt(squares[order[min(place, len(order) - 1)]])
            else:
                out[i] = math.sqrt(np.partition(squares, int(k) - 1)[int(k) - 1])

    def direct(self, queries: np.ndarray, h: np.ndarray, full: bool = True, robust: Any = None) -> np.ndarray:
        """(value, unit leverage, Σl²/w, gradient…) by a fit at each query."""
        s, p = self.settings, self.Z.shape[1]
        queries = np.ascontiguousarray(queries)
        rw = self.robust if robust is None else robust
        g = rw * self.case if self.case.size else rw
        gaussian = s.kernel == "gaussian"
        out = np.empty((len(queries), 3 + p))
        if self.sorted:
            x, flat = np.ascontiguousarray(self.Z[:, 0]), np.ascontiguousarray(queries[:, 0])
            found = np.empty((len(queries), 4))
            rows = SortedRows(x, self.y, g, self.case, s.degree, gaussian, full)
            spread(lambda part: rows.fit(flat[part], h[part], found[part]), self._pieces(len(queries)))
            out[:, 0], out[:, 1], out[:, 2], out[:, 3] = found[:, 0], found[:, 2], found[:, 3], found[:, 1]
        else:
            columns = self._columns()

            def some(part: slice) -> None:
                rows = ScatteredRows(columns, self.y, g, self.case, s.degree, gaussian, full)
                rows.fit(queries[part], h[part], out[part])

            spread(some, self._pieces(len(queries)))
        return out

    def reaching(self, queries: np.ndarray, h: np.ndarray, full: bool = True) -> np.ndarray:
        """``direct``, for queries whose neighbours may all count nothing.

        Where robust iterations have put every neighbour aside, they are all there is and count again; where all of them
        lie on the rim of the window (one row, rows of one place), the window reaches a little further.
        """
        found = self.direct(queries, h, full)
        plain = np.ones(len(self.y))
        further = np.maximum(h / RIM, np.finfo(float).tiny)
        for width, robust in ((h, plain), (further, None), (further, plain)):
            lost = np.isnan(found[:, 0])
            if not lost.any():
                break
            found[lost] = self.direct(queries[lost], width[lost], full, robust)
        return found

    def evaluate(self, X: np.ndarray) -> np.ndarray:
        """(value, unit leverage, Σl²/w) at new rows, by the surface inside it and by fits of their own elsewhere."""
        Z = np.ascontiguousarray(X / self.unit)
        out = np.empty((len(Z), 3))
        inside = np.zeros(len(Z), dtype=bool)
        if self.surface == "cells":
            assert self.cells is not None
            inside = self.cells.holds(Z)
            if inside.any():
                out[inside] = self.from_cells(Z[inside])
        elif self.surface == "knots":
            inside = (Z[:, 0] >= self.knots[0]) & (Z[:, 0] <= self.knots[-1])
            out[inside] = self.from_knots(Z[inside])
        if not inside.all():
            rest = Z[~inside]
            out[~inside] = self.reaching(rest, self.spans(rest))[:, :3]
        return out

    def from_cells(self, Z: np.ndarray, leaf: np.ndarray | None = None, full: bool = True) -> np.ndarray:
        assert self.cells is not None
        leaf = self.cells.locate(Z) if leaf is None else leaf
        gradient = self.nodes[:, 3:] if self.settings.degree > 0 else None
        values = [self.cells.between(Z, leaf, self.nodes[:, 0], gradient)]
        values += [self.cells.between(Z, leaf, np.ascontiguousarray(self.nodes[:, c])) for c in (1, 2) if full]
        return np.column_stack(values)

    def from_knots(self, Z: np.ndarray) -> np.ndarray:
        return np.column_stack([np.interp(Z[:, 0], self.knots, self.nodes[:, c]) for c in range(3)])

    def interval(self, X: np.ndarray, level: float, of: str) -> tuple[np.ndarray, np.ndarray]:
        """(prediction, half of Student's interval)."""
        found = self.evaluate(X)
        variance = np.maximum(found[:, 2], 0.0) + (1.0 if of == "observation" else 0.0)
        if not self.left > 0.0:
            raise DataError(
                f"{self.total:g} rows and {self.trace:.3g} effective degrees of freedom leave no residual to judge the "
                "spread by; take a wider fraction or bandwidth",
                where="interval",
            )
        from scipy.special import stdtrit

        return found[:, 0], stdtrit(self.left, 0.5 + 0.5 * level) * self.sigma * np.sqrt(variance)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: np.asarray(getattr(self, name)) for name in (*ARRAYS, *LATER)}
        if self.cells is not None:
            arrays |= {f"cells.{name}": getattr(self.cells, name) for name in k_d.ARRAYS}
        plain = {name: float(getattr(self, name)) for name in ("sigma", "trace", "left", "gcv", "cv")}
        return arrays, {
            "settings": dataclasses.asdict(self.settings),
            "terms": list(self.terms),
            "surface": self.surface,
            "given": len(self.fitted),  # rows of weight 0 among them
            "figures": plain,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The rows, and the fits at the corners of cells or at knots where there are any."""
        width = len(meta["terms"])
        n = np.size(arrays["y"])
        fits = len(arrays.get("cells.vertices", arrays["knots"]))
        slopes = 3 + (width if fits else 0)
        made = {
            "Z": Array((n, width)), "y": Array((n,)), "robust": Array((n,)), "fitted": Array((meta.get("given", n),), values="any"),
            "unit": Array((width,)), "case": Array((n if arrays["case"].size else 0,)), "knots": Array((0 if "cells.vertices" in arrays else "knots",)),
            "nodes": Array((fits, slopes), values="any"),
            "robustness": Array((n,), values="any", optional="later"),
            "tried": Array(tuple(arrays["tried"].shape) if "tried" in arrays else (0,), values="any", optional="later"),
            "scores": Array(tuple(arrays["scores"].shape) if "scores" in arrays else (0,), values="any", optional="later"),
        }  # fmt: skip
        return made | under("cells.", Cells.declared(arrays, width))

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> LocalModel:
        own: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
        own |= {name: arrays[name] for name in LATER if name in arrays}
        if not (np.isfinite(own["case"]).all() and (own["case"] >= 0.0).all()):
            raise ModelError("a weight of a row in the file is negative or no number; use an intact copy", where="case")
        fraction = meta["settings"]["fraction"]
        if fraction is not None and not 0.0 < fraction <= 1.0:
            raise ModelError("no fit has the fraction that the file states; use an intact copy", where="fraction")
        tree = Cells(*(arrays[f"cells.{name}"] for name in k_d.ARRAYS)) if "cells.side" in arrays else None
        proof: Any = None if meta["certificate"] is None else from_dict(meta["certificate"])
        return cls(
            settings=Settings(**meta["settings"]),
            terms=tuple(meta["terms"]),
            surface=meta["surface"],
            cells=tree,
            certificate=proof,
            **own,
            **meta["figures"],
        )
