"""Locally weighted regression: at every query a weighted least squares of its neighbours.

Weights fall with distance, tricube on the nearest fraction (LOESS) or exp(−‖x − q‖²/2τ²); degree 0, 1 or 2. Robust
iterations weigh rows by the bisquare of their residuals over six medians and fit again, as R's lowess does. The fit is
linear in y, ŷ = Ly, so that tr L (effective degrees of freedom), leave-one-out errors r/(1 − l_ii), and standard errors
σ‖l(q)‖ come with it; σ² = RSS/(n − 2 tr L + tr LLᵀ), or after robust iterations the MAD with the same correction.

Small tables are fitted at every row; large ones at the corners of k-d cells (``cells``), or with R's ``delta`` at rows
that far apart and by straight lines between. What that costs in accuracy is measured on a sample of rows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..certify.monotone import MonotoneCertificate
from ..certify.records import Assumption, Status, from_dict
from ..errors import DataError, UsageError
from ..onepass.distributions import t_quantile
from ..threads import get_threads, spread
from . import cells as k_d
from .cells import Cells
from .cloud import cloud_fit, square_distances
from .highbreakdown import mad, weighted_median
from .window import widths, window_fits

KERNELS = ("tricube", "gaussian")
SURFACES = ("auto", "exact", "interpolate")
RULES = ("gcv", "cv")
# Beyond this many weighings a fit at every row takes minutes, and "auto" turns to cells.
MOST_SORTED, MOST_SCATTERED = 2e10, 4e8
MOST_VARIABLES = 4  # a cell has 2^p corners
SHARES = (64, 8)  # rows of a cell: the neighbourhood's over this, in one and in several variables
CHECKED = 200
ARRAYS = ("Z", "y", "case", "robust", "unit", "fitted", "nodes", "knots")
LATER = ("robustness", "tried", "scores")  # not in older files
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
        return max(min(least * self.total / len(self.y), self.total), min(share, self.total))

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
            spread(lambda part: widths(x, case, flat[part], k, found[part]), self._pieces(len(queries)))
        else:
            spread(lambda part: self._cloud_widths(queries[part], case, k, found[part]), self._pieces(len(queries)))
        if s.bandwidth is not None:
            return np.maximum(s.bandwidth, found / 0.99)
        return found / GAUSSIAN_WIDTH if gaussian else found

    @staticmethod
    def _pieces(count: int) -> list[slice]:
        step = max(1, -(-count // (4 * get_threads())))
        return [slice(a, min(a + step, count)) for a in range(0, count, step)]

    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.Z.T)

    def _cloud_widths(self, queries: np.ndarray, case: np.ndarray, k: float, out: np.ndarray) -> None:
        columns, squares = self._columns(), np.empty(len(self.y))
        for i, q in enumerate(queries):
            square_distances(columns, q, squares)
            if case.size:
                order = np.argsort(squares)
                place = int(np.searchsorted(np.cumsum(case[order]), k * (1.0 - 1e-12)))
                out[i] = math.sqrt(squares[order[min(place, len(order) - 1)]])
            else:
                out[i] = math.sqrt(np.partition(squares, int(k) - 1)[int(k) - 1])

    def direct(self, queries: np.ndarray, h: np.ndarray, full: bool = True, robust: Any = None) -> np.ndarray:
        """(value, unit leverage, Σl²/w, gradient…) by a fit at each query."""
        s, p = self.settings, self.Z.shape[1]
        rw = self.robust if robust is None else robust
        g = rw * self.case if self.case.size else rw
        gaussian = s.kernel == "gaussian"
        out = np.empty((len(queries), 3 + p))
        if self.sorted:
            x, flat = np.ascontiguousarray(self.Z[:, 0]), np.ascontiguousarray(queries[:, 0])
            found = np.empty((len(queries), 4))

            def one(part: slice) -> None:
                window_fits(x, self.y, g, rw, flat[part], h[part], s.degree, gaussian, full, found[part])

            spread(one, self._pieces(len(queries)))
            out[:, 0], out[:, 1], out[:, 2], out[:, 3] = found[:, 0], found[:, 2], found[:, 3], found[:, 1]
        else:
            columns = self._columns()

            def some(part: slice) -> None:
                squares = np.empty(len(self.y))
                for i in range(part.start, part.stop):
                    square_distances(columns, queries[i], squares)
                    near = math.sqrt(squares.min()) if gaussian else 0.0
                    cloud_fit(columns, self.y, g, rw, queries[i], h[i], near, squares, s.degree, gaussian, out[i])

            spread(some, self._pieces(len(queries)))
        return out

    def evaluate(self, X: np.ndarray) -> np.ndarray:
        """(value, unit leverage, Σl²/w) at new rows, by the surface inside it and by fits of their own elsewhere."""
        Z = np.ascontiguousarray(X / self.unit)
        out = np.empty((len(Z), 3))
        inside = np.zeros(len(Z), dtype=bool)
        if self.surface == "cells":
            assert self.cells is not None
            inside = self.cells.holds(Z)
            if inside.any():
                out[inside] = self._from_cells(Z[inside])
        elif self.surface == "knots":
            inside = (Z[:, 0] >= self.knots[0]) & (Z[:, 0] <= self.knots[-1])
            out[inside] = self._from_knots(Z[inside])
        if not inside.all():
            rest = Z[~inside]
            h = self.spans(rest)
            found = self.direct(rest, h)
            lost = np.isnan(found[:, 0])
            if lost.any():  # every neighbour has robustness weight 0: they are all there is
                found[lost] = self.direct(rest[lost], h[lost], robust=np.ones(len(self.y)))
            out[~inside] = found[:, :3]
        return out

    def _from_cells(self, Z: np.ndarray, leaf: np.ndarray | None = None, full: bool = True) -> np.ndarray:
        assert self.cells is not None
        leaf = self.cells.locate(Z) if leaf is None else leaf
        gradient = self.nodes[:, 3:] if self.settings.degree > 0 else None
        values = [self.cells.between(Z, leaf, self.nodes[:, 0], gradient)]
        values += [self.cells.between(Z, leaf, np.ascontiguousarray(self.nodes[:, c])) for c in (1, 2) if full]
        return np.column_stack(values)

    def _from_knots(self, Z: np.ndarray) -> np.ndarray:
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
        return found[:, 0], t_quantile(level, self.left) * self.sigma * np.sqrt(variance)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: np.asarray(getattr(self, name)) for name in (*ARRAYS, *LATER)}
        if self.cells is not None:
            arrays |= {f"cells.{name}": getattr(self.cells, name) for name in k_d.ARRAYS}
        plain = {name: float(getattr(self, name)) for name in ("sigma", "trace", "left", "gcv", "cv")}
        return arrays, {
            "settings": dataclasses.asdict(self.settings),
            "terms": list(self.terms),
            "surface": self.surface,
            "figures": plain,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> LocalModel:
        own: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
        own |= {name: arrays[name] for name in LATER if name in arrays}
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


def lowess_knots(x: np.ndarray, delta: float) -> np.ndarray:
    """The rows at which R's lowess fits: never more than ``delta`` apart where rows allow it.

    >>> lowess_knots(np.array([0.0, 0.4, 0.9, 1.3, 3.0]), 1.0)
    array([0, 2, 3, 4])
    """
    n, i = len(x), 0
    found = []
    while True:
        found.append(i)
        last = int(np.searchsorted(x, x[i], side="right")) - 1
        if last >= n - 1:
            return np.array(found)
        i = max(last + 1, int(np.searchsorted(x, x[last] + delta, side="right")) - 1)


def robustness(residual: np.ndarray, case: np.ndarray, rounding: float) -> np.ndarray | None:
    """Bisquare weights over six medians, with lowess's constants; None where residuals are only rounding."""
    size = np.abs(residual)
    weights = case if case.size else None
    limit = 6.0 * weighted_median(size, weights)
    if limit < 1e-7 * float(np.average(size, weights=weights)) or limit <= rounding:
        return None
    inside = np.where(size <= 0.001 * limit, 1.0, (1.0 - (size / limit) ** 2) ** 2)
    return np.where(size <= 0.999 * limit, inside, 0.0)


def check(settings: Settings) -> None:
    """Refuse settings that make no sense, by name."""
    for name, known in (("kernel", KERNELS), ("surface", SURFACES), ("degree", (0, 1, 2))):
        value = getattr(settings, name)
        if value not in known or isinstance(value, bool):
            raise UsageError(f"{name} is {value!r}; one of {', '.join(map(str, known))} is accepted", where=name)
    count = settings.robust_iterations
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise UsageError(
            f"robust_iterations is {count!r}; a whole number of at least 0 is accepted", where="robust_iterations"
        )
    if not isinstance(settings.delta, (int, float, np.number)) or not 0.0 <= settings.delta < math.inf:
        raise UsageError(f"delta is {settings.delta!r}; a number of at least 0 is accepted", where="delta")
    if settings.delta > 0.0 and settings.surface == "interpolate":
        raise UsageError("delta and surface='interpolate' are two ways to interpolate; give one", where="delta")


def fit_local(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, settings: Settings, terms: tuple[str, ...]
) -> LocalModel:
    """The smoother with its robust iterations, surface, degrees of freedom and σ; rows keep their order in ``fitted``."""
    n, p = X.shape
    unit = np.ones(p)
    if settings.bandwidth is None and p > 1:
        centre = np.average(X, axis=0, weights=weights)
        unit = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
        unit[~(unit > 0.0)] = 1.0
    order = np.argsort(X[:, 0], kind="stable") if p == 1 else np.arange(n)
    model = LocalModel(
        settings,
        np.ascontiguousarray((X / unit)[order]),
        np.ascontiguousarray(y[order]),
        np.zeros(0) if weights is None else np.ascontiguousarray(weights[order]),
        np.ones(n),
        unit,
        terms,
        np.zeros(n),
    )
    read = _surface(model)
    for k in range(settings.robust_iterations + 1):
        found = read(k == settings.robust_iterations)
        lost = np.isnan(found[:, 0])
        if lost.any():
            found[lost, 0] = model.y[lost]
            found[lost, 1:] = 1.0
        if k == settings.robust_iterations:
            break
        new = robustness(model.y - found[:, 0], model.case, 1e-12 * float(np.abs(model.y).max()))
        if new is None:
            found = read(True)
            break
        model.robust = new
    _figures(model, found)
    model.fitted = np.empty(n)
    model.fitted[order] = found[:, 0]
    model.robustness = np.empty(n)
    model.robustness[order] = model.robust
    return model


def _surface(model: LocalModel) -> Any:
    """How the model is evaluated at its own rows: a function of whether the smoother's squares are wanted."""
    s, Z = model.settings, model.Z
    n, p = Z.shape
    passes = s.robust_iterations + 1
    share = 1.0 if s.fraction is None else min(s.fraction, 1.0)
    heavy = n * n * share * passes > MOST_SORTED if p == 1 else n * n * passes > MOST_SCATTERED
    if s.delta > 0.0:
        if p > 1:
            raise UsageError(f"delta is for one variable, and X has {p}; use surface='interpolate'", where="delta")
        model.surface = "knots"
        rows = lowess_knots(Z[:, 0], s.delta)
        model.knots = Z[rows, 0]
        h = model.spans(Z[rows])

        def at_knots(full: bool) -> np.ndarray:
            model.nodes = model.direct(Z[rows], h, full)
            lost = np.isnan(model.nodes[:, 0])
            model.nodes[lost, 0] = model.y[rows[lost]]
            model.nodes[lost, 1:] = 0.0
            return model._from_knots(Z)

        return at_knots
    if s.surface == "interpolate" and p > MOST_VARIABLES:
        raise UsageError(
            f"surface='interpolate' takes up to {MOST_VARIABLES} variables, and X has {p}; use surface='exact'",
            where="surface",
        )
    if p <= MOST_VARIABLES and n > 2 and (s.surface == "interpolate" or (s.surface == "auto" and heavy)):
        model.surface = "cells"
        near = n * share if s.fraction is not None else n / 10
        model.cells = Cells.build(Z, max(1, int(near / SHARES[p > 1])))
        leaf = model.cells.locate(Z)
        h = model.spans(model.cells.vertices)

        def at_corners(full: bool) -> np.ndarray:
            assert model.cells is not None
            model.nodes = model.direct(model.cells.vertices, h, full)
            lost = np.isnan(model.nodes[:, 0])
            if lost.any():
                plain = np.ones(n)
                model.nodes[lost] = model.direct(model.cells.vertices[lost], h[lost], full, robust=plain)
            return model._from_cells(Z, leaf, full)

        return at_corners
    places, back = (Z, np.arange(n)) if p > 1 else _distinct(Z)
    h = model.spans(places)
    return lambda full: model.direct(places, h, full)[back, :3]


def _distinct(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, back = np.unique(Z[:, 0], return_inverse=True)
    return x[:, None], np.ravel(back)


def _figures(model: LocalModel, found: np.ndarray) -> None:
    """tr L, σ, the scores of the choice of width, and the certificate."""
    error = _interpolation_error(model, found) if model.surface != "exact" else math.nan
    residual = model.y - found[:, 0]
    case = model.case if model.case.size else np.ones(len(residual))
    own = np.clip(found[:, 1] * model.robust * case, 0.0, 1.0)
    W = model.total
    model.trace = float(own.sum())
    model.left = W - 2.0 * model.trace + float(case @ found[:, 2])
    if model.settings.robust_iterations > 0:
        model.sigma = mad(residual, case if model.case.size else None) * math.sqrt(W / max(model.left, 1e-300))
    else:
        model.sigma = math.sqrt(float(case @ residual**2) / model.left) if model.left > 0.0 else math.nan
    counted = case * model.robust
    share = float(counted @ residual**2) / float(counted.sum())
    model.gcv = share / (1.0 - model.trace / W) ** 2 if model.trace < W else math.inf
    kept = own < 1.0 - 1e-12
    without = np.divide(residual, 1.0 - own / np.maximum(case, 1e-300), out=np.full_like(residual, np.inf), where=kept)
    model.left_out = without
    model.cv = float(counted @ without**2) / float(counted.sum()) if kept.all() else math.inf
    exact = model.surface == "exact"
    model.certificate = MonotoneCertificate(
        status=Status.PROVEN if exact else Status.NOT_PROVEN,
        advice=""
        if exact
        else f"the error is the largest seen at {min(CHECKED, len(residual))} rows; surface='exact' fits at every row",
        assumptions=(
            Assumption(
                "the residuals have some degrees of freedom left",
                model.left > 0.0,
                model.left,
                0.0,
                "take a wider fraction or bandwidth",
            ),
        ),
        objective=float(counted @ residual**2),
        degrees_of_freedom=model.trace,
        breakdown=0.0,
        note=f"{model.settings.robust_iterations} robust iterations; a window whose rows are mostly outliers follows them"
        if model.settings.robust_iterations
        else "least squares in every window: a single outlier moves the fit around it",
        interpolation_error=error,
    )


def _interpolation_error(model: LocalModel, found: np.ndarray) -> float:
    """The largest |interpolated − fitted| over a sample of rows, with the same robustness weights.

    Leverages peak at the corners of cells; their level between is set by the same sample.
    """
    n = len(model.y)
    rows = np.unique(np.linspace(0, n - 1, min(CHECKED if model.sorted else CHECKED // 4, n)).astype(int))
    direct = model.direct(model.Z[rows], model.spans(model.Z[rows]))
    sound = np.isfinite(direct[:, 0])
    if not sound.any():
        return math.inf
    for c in (1, 2) if model.surface == "cells" else ():
        level = direct[sound, c].mean() / found[rows[sound], c].mean()
        found[:, c] *= level
        model.nodes[:, c] *= level
    return float(np.abs(direct[sound, 0] - found[rows[sound], 0]).max())


def candidates(X: np.ndarray, settings: Settings, by: str) -> np.ndarray:
    """Widths to try: fractions of the rows, or bandwidths around the data's spread."""
    n, p = X.shape
    few = (1, 1 + p, 1 + p + p * (p + 1) // 2)[settings.degree] + 2
    if by == "fraction":
        return np.geomspace(min(max(0.03, few / n), 1.0), 1.0, 14)
    spread_out = float(np.sqrt(np.mean(np.var(X, axis=0)))) or 1.0
    return spread_out * np.geomspace(0.03, 3.0, 16) * (1.0 if settings.kernel == "gaussian" else 2.5)


def choose(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    settings: Settings,
    terms: tuple[str, ...],
    by: str,
    rule: str,
) -> LocalModel:
    """The model of least score, with the widths tried and their scores, by generalised or leave-one-out cross-validation.

    With robust iterations both rules take the leave-one-out errors, clipped at three times their smallest MAD.
    """
    grid = candidates(X, settings, by)
    models = [fit_local(X, y, weights, Settings(**(vars(settings) | {by: float(width)})), terms) for width in grid]
    if settings.robust_iterations == 0:
        scores = np.array([model.gcv if rule == "gcv" else model.cv for model in models])
    else:  # rows may not vote themselves out of the score: all count, clipped at one scale for all widths
        case = models[0].case if models[0].case.size else None
        limit = 3.0 * min(mad(model.left_out, case) for model in models)
        scores = np.array([np.average(np.minimum(model.left_out**2, limit**2), weights=case) for model in models])
    best = models[int(np.nanargmin(np.where(np.isfinite(scores), scores, np.inf)))]
    best.tried, best.scores = grid, scores
    return best
