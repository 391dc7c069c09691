"""Local regression: the model's rows are the training rows, its robustness weights Cleveland's, its fits least squares.

What ``predict`` computes rests on the rows, their targets and weights, the unit of each column, the settings, the
robustness weights, and where there is one the surface. The first four are compared with the training rows. The
robustness weights are made again round by round: bisquares of residuals over six medians (Cleveland 1979). With the
model's own weights, which are those to within rounding, every fit, the degrees of freedom Σ l_ii, σ, and the scores of
generalised and leave-one-out cross-validation follow.

Rounding is carried along: a robustness weight is known to within what its residual and the median are known to. With
more than ``MOST`` weighings the robustness weights are stated, and fits are made anew at ``SOME`` rows only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.likelihood import local_status
from ..errors import ModelError
from .agreement import EPS, same_predictions, same_status, weighted_median
from .local_fits import Fits, LocalRows, local_fits, reaching_fits
from .local_surface import Surface
from .stated_claims import Claims, Given, Rows, is_finite

MOST = 2e8  # rows weighed in all: about five seconds
SOME = 400
SAMPLED = 200  # rows at which the error of a surface is measured, half as many of several variables
NORMAL_MAD = 0.6744897501960817  # the median of |z| of a normal z
RESIDUALS_ARE_ROUNDING = 1e-12  # of the largest target: six medians below it weigh nothing down
ALL_BUT_ZERO = 1e-7  # six medians below this part of the mean residual stop the rounds, as in R's lowess
NO_FREEDOM = 1e-9
VAGUE = 0.01  # robustness weights that rounding moves by more are stated, not checked
FREEDOM = "the residuals have some degrees of freedom left"


class AtRows(NamedTuple):
    """The smoother at the training rows, (value, leverage, Σ l²/w), and the fits at the places of its surface."""

    found: Fits
    nodes: Fits | None = None
    errors: tuple[float, float, float] = (math.nan, math.nan, math.nan)  # seen, at most, room


def local_regression(out: Claims, given: Given) -> None:
    """Rows, robustness weights, fits, figures and claims."""
    record, proof, X, y, weights = given
    _check_settings(record)
    counted = weights > 0.0
    rows = _check_rows(out, record, X[counted], y[counted].astype(float), weights[counted])
    robust = np.asarray(record.robust, dtype=float)
    if rows is None or robust.shape != rows.y.shape or not ((robust >= 0.0) & (robust <= 1.0)).all():
        out.of_model("robust", None, None, rows is None, "a weight from 0 to 1 for each row")
        out.covered |= set(proof.checked)  # nothing further can be said of other rows
        return
    surface = None if record.surface == "exact" else Surface(record, rows)
    places = len(rows.y) if surface is None else len(surface.places)
    weighings = len(rows.y) * (places * (1.0 + record.settings.robust_iterations) + len(rows.y) * (surface is not None))
    out.absent("gap", "stationarity", "scale_error")
    out.recomputed |= {"surface", "cells"}  # every fit here is made with them
    if surface is not None and surface.kind == "knots":
        found = rows.Z[_lowess_knots(rows.Z[:, 0], float(record.settings.delta)), 0]
        out.of_model(
            "knots", len(surface.knots), len(found), np.array_equal(found, surface.knots), "rows that far apart"
        )
    if weighings > MOST:
        _check_some(out, record, rows, robust, surface, X, counted)
        return
    _check_robustness(out, record, rows, robust, surface)
    at = _at_rows(rows, robust) if surface is None else _on_surface(rows, robust, surface)
    _check_values(out, record, rows, robust, surface, at, X, counted)
    _check_figures(out, record, rows, robust, at)


def _check_settings(record: Any) -> None:
    """Settings that a local regression can have; which they are, the fits show."""
    s = record.settings
    width = s.fraction if s.bandwidth is None else s.bandwidth
    sound = (
        (s.fraction is None) != (s.bandwidth is None)
        and is_finite(width) and width > 0.0 and (s.fraction is None or width <= 1.0)
        and s.degree in (0, 1, 2) and s.kernel in ("tricube", "gaussian")
        and isinstance(s.robust_iterations, int) and s.robust_iterations >= 0
        and is_finite(s.delta) and s.delta >= 0.0 and (s.delta > 0.0) == (record.surface == "knots")
    )  # fmt: skip
    if not sound or record.surface not in ("exact", "cells", "knots"):
        raise ModelError("a local regression cannot have these settings", where="model")


def _check_rows(out: Claims, record: Any, X: Rows, y: Rows, c: Rows) -> LocalRows | None:
    """The record's rows, targets and weights as those given, in the order of the only variable if there is one."""
    n, p = X.shape
    unit = np.asarray(record.unit, dtype=float)
    order = np.argsort(X[:, 0], kind="stable") if p == 1 else np.arange(n)
    shares = c / c.sum()
    if p > 1 and record.settings.bandwidth is None:
        spread = np.sqrt(shares @ (X - shares @ X) ** 2)
        room = (n + 4) * EPS * (np.abs(X).max(axis=0) + spread)
    else:
        spread, room = np.ones(p), np.zeros(p)
    near = unit.shape == (p,) and bool((unit > 0.0).all())
    near = near and bool(((np.abs(unit - spread) <= room) | ((spread <= room) & (unit == 1.0))).all())
    out.of_model("unit", record.unit, spread, near, "the standard deviation of each of several columns")
    Z, case = np.asarray(record.Z, dtype=float), np.asarray(record.case, dtype=float)
    case = case if case.size else np.ones(len(record.y))
    if not near or Z.shape != X.shape or record.y.shape != y.shape or case.shape != c.shape:
        out.of_model("Z", record.Z.shape, X.shape, False, "the training rows")
        return None
    same = bool((np.abs(Z - (X / unit)[order]) <= EPS * np.abs(Z)).all())
    out.of_model("Z", None, None, same, "the training rows, divided by the units")
    out.of_model("y", None, None, np.array_equal(record.y, y[order]), "their targets")
    out.of_model("case", None, None, np.array_equal(case, c[order]), "their weights")
    if not (same and np.array_equal(record.y, y[order]) and np.array_equal(case, c[order])):
        return None
    return LocalRows(Z, np.asarray(record.y, dtype=float), case, record.settings)


def _lowess_knots(x: Rows, delta: float) -> list[int]:
    """R's lowess: from a knot to the last row within ``delta`` of it, at least to the next distinct one."""
    found, i = [], 0
    while True:
        found.append(i)
        last = int(np.searchsorted(x, x[i], side="right")) - 1
        if last >= len(x) - 1:
            return found
        i = max(last + 1, int(np.searchsorted(x, x[last] + delta, side="right")) - 1)


def _at_rows(rows: LocalRows, robust: Rows, room: Rows | float = 0.0) -> AtRows:
    """A fit at each row; a row without a neighbour of any weight is its own, rows of one place take their first's."""
    if rows.one_variable:
        places, first, back = np.unique(rows.Z[:, 0], return_index=True, return_inverse=True)
        found, own = local_fits(rows, places[:, None], robust, room).at(np.ravel(back)), first[np.ravel(back)]
    else:
        found, own = local_fits(rows, rows.Z, robust, room), np.arange(len(rows.y))
    lost = np.isnan(found.values[:, 0])
    found.values[lost, 0], found.values[lost, 1:] = rows.y[own[lost]], 1.0
    found.room[lost] = np.where(np.isfinite(found.room[lost]), 0.0, np.inf)
    return AtRows(Fits(found.values[:, :3], found.room[:, :3]))


def _check_robustness(out: Claims, record: Any, rows: LocalRows, robust: Rows, surface: Surface | None) -> None:
    """The rounds again; where rounding decides whether they stop, either end is one."""
    n = len(rows.y)
    weights, room, ends = np.ones(n), np.zeros(n), list[tuple[Rows, Rows]]()
    for _ in range(record.settings.robust_iterations):
        if surface is None:
            found = _at_rows(rows, weights, room).found
        else:
            found = surface.read(surface.nodes(weights, room), rows.Z)
        goes_on, new = _bisquares(rows, found.values[:, 0], found.room[:, 0])
        if goes_on is False:
            break
        if goes_on is None:
            ends.append((weights, room))
        weights, room = new
    ends.append((weights, room))
    apart = [float((np.abs(robust - one) - blur).max()) for one, blur in ends]
    best = int(np.argmin(apart))
    vague = float(ends[best][1].max()) > VAGUE
    note = "Cleveland's bisquares, round by round: largest difference"
    largest = float(np.abs(robust - ends[best][0]).max())
    out.of_model("robust", None, largest, apart[best] <= 0.0, note + (", where rounding decides" if vague else ""))
    if vague:
        out.recomputed.discard("robust")
    _check_order(out, record, rows, robust)


def _check_order(out: Claims, record: Any, rows: LocalRows, robust: Rows) -> None:
    """``robustness`` is the same, in the order of the rows; older files have none."""
    told = np.asarray(record.robustness, dtype=float)
    same = not told.size or (told.shape == robust.shape and np.array_equal(np.sort(told), np.sort(robust)))
    out.of_model("robustness", None, None, same, "the weights in the order of the rows")


def _bisquares(rows: LocalRows, value: Rows, room: Rows) -> tuple[bool | None, tuple[Rows, Rows]]:
    """(whether the rounds go on, or None where rounding decides it; the new weights and what they are known to)."""
    size = np.abs(rows.y - value)
    room = room + 2.0 * EPS * (np.abs(rows.y) + np.abs(value))
    low, high = np.maximum(size - room, 0.0), size + room
    limits = [6.0 * weighted_median(one, rows.case) for one in (low, size, high)]
    rounding = RESIDUALS_ARE_ROUNDING * float(np.abs(rows.y).max())
    cuts = [max(ALL_BUT_ZERO * float(np.average(one, weights=rows.case)), rounding) for one in (low, high)]
    goes_on = True if limits[0] > cuts[1] else False if limits[2] < cuts[0] else None
    middle, upper, lower = _bisquare(size, limits[1]), _bisquare(low, limits[2]), _bisquare(high, limits[0])
    return goes_on, (middle, np.maximum(upper - middle, middle - lower) + 8.0 * EPS)


def _bisquare(size: Rows, limit: float) -> Rows:
    t = np.where(size > 0.0, size / limit, 0.0) if limit > 0.0 else np.where(size > 0.0, np.inf, 0.0)
    inside = np.where(t <= 0.001, 1.0, (1.0 - np.minimum(t, 1.0) ** 2) ** 2)
    return np.where(t <= 0.999, inside, 0.0)


def _on_surface(rows: LocalRows, robust: Rows, surface: Surface) -> AtRows:
    """The surface at the rows, its leverages at the level that a sample of rows shows, and its error there."""
    nodes = surface.nodes(robust)
    found = surface.read(nodes, rows.Z)
    own = np.maximum(robust * rows.case, 1e-300)
    leverage = np.minimum(found.values[:, 1], 1.0 / own)
    sample, doubt = _sample(rows, leverage, found.room[:, 1])
    direct = local_fits(rows, rows.Z, robust)
    error = np.abs(direct.values[:, 0] - found.values[:, 0])
    sound = np.isfinite(error)
    seen = error[sample[sound[sample]]] if sound[sample].any() else np.array([math.inf])
    room = float((direct.room[:, 0] + found.room[:, 0])[sound].max(initial=0.0))
    values, rooms = found.values.copy(), found.room.copy()
    values[:, 1] = leverage
    sample = sample[sound[sample]]
    if surface.kind == "cells" and len(sample):
        chance = _chances(leverage)[sample]
        for c in (1, 2):
            over, under = direct.values[sample, c] / chance, values[sample, c] / chance
            level = float(over.sum() / under.sum())
            blur = float((direct.room[sample, c] / chance).sum() / over.sum())
            blur += float((rooms[sample, c] / chance).sum() / under.sum()) + 4.0 * len(sample) * EPS
            blur = math.inf if doubt else blur
            rooms[:, c] = level * rooms[:, c] + blur * level * np.abs(values[:, c])
            values[:, c] *= level
            nodes.room[:, c] = level * nodes.room[:, c] + blur * level * np.abs(nodes.values[:, c])
            nodes.values[:, c] *= level
    least = 0.0 if doubt else float(seen.max())
    return AtRows(Fits(values, rooms), nodes, (least, float(error[sound].max(initial=0.0)), room))


def _chances(leverage: Rows) -> Rows:
    return np.asarray(np.maximum(leverage, 1e-3 * max(float(leverage.mean()), 1e-300)))


def _sample(rows: LocalRows, leverage: Rows, room: Rows) -> tuple[Rows, bool]:
    """(rows drawn evenly along the sum of their leverages, whether rounding decides which)."""
    chance = _chances(leverage)
    order = np.argsort(chance, kind="stable")
    along = np.cumsum(chance[order])
    many = SAMPLED if rows.one_variable else SAMPLED // 2
    places = (np.arange(many) + 0.5) / many * along[-1]
    blur = float(np.minimum(room, chance).sum()) + len(order) * EPS * float(along[-1])
    low, high = (np.minimum(np.searchsorted(along, places + shift), len(order) - 1) for shift in (-blur, blur))
    drawn = order[np.minimum(np.searchsorted(along, places), len(order) - 1)]
    step = np.diff(chance[order])
    close = (step > 0.0) & (step <= room[order][1:] + room[order][:-1])
    mixed = close & (rows.Z[order][1:] != rows.Z[order][:-1]).any(axis=1)
    return drawn, bool((low != high).any() or mixed.any())


def _check_values(
    out: Claims, record: Any, rows: LocalRows, robust: Rows, surface: Surface | None, at: AtRows, X: Rows, counted: Rows
) -> None:
    """``fitted``, the surface's own numbers, and what ``predict`` gives on the rows."""
    order = np.argsort(X[counted][:, 0], kind="stable") if rows.one_variable else np.arange(len(rows.y))
    inner = np.empty((len(rows.y), 2))
    inner[order] = np.column_stack(
        [at.found.values[:, 0], at.found.room[:, 0] + 4.0 * EPS * np.abs(at.found.values[:, 0])]
    )
    new = _evaluated(rows, robust, surface, at.nodes, X / record.unit)
    fitted = new.copy()
    fitted[counted] = inner
    told = np.asarray(record.fitted, dtype=float)
    held = told.shape == (len(X),) and bool((np.abs(told - fitted[:, 0]) <= fitted[:, 1]).all())
    worst = float(np.abs(told - fitted[:, 0]).max()) if told.shape == (len(X),) else None
    out.of_model("fitted", None, worst, held, "fits made anew: largest difference")
    same_predictions(out, record.evaluate(X)[:, 0], new[:, 0], new[:, 1])
    if at.nodes is None:
        empty = not np.size(record.nodes)
        out.of_model("nodes", np.size(record.nodes), 0, empty, "there is no surface")
        out.of_model("knots", np.size(record.knots), 0, not np.size(record.knots), "there is no surface")
        return
    told, p = np.asarray(record.nodes, dtype=float), rows.Z.shape[1]
    width = 3 + p
    same = told.shape == (len(at.nodes.values), width)
    if same:
        room = at.nodes.room + 4.0 * EPS * np.abs(at.nodes.values)
        same = bool((np.abs(told - at.nodes.values) <= room).all())
    out.of_model("nodes", None, None, same, "fits at the corners of cells, or at knots")


def _evaluated(rows: LocalRows, robust: Rows, surface: Surface | None, nodes: Fits | None, Z: Rows) -> Rows:
    """(value, room) of queries: on the surface where it reaches, by fits of their own elsewhere."""
    made = np.empty((len(Z), 2))
    inside = np.zeros(len(Z), dtype=bool)
    if surface is not None and nodes is not None:
        inside = surface.holds(Z)
        if inside.any():
            read = surface.read(nodes, Z[inside])
            made[inside] = np.column_stack([read.values[:, 0], read.room[:, 0]])
    if not inside.all():
        places, back = np.unique(Z[~inside], axis=0, return_inverse=True)
        found = reaching_fits(rows, places, robust)
        made[~inside] = np.column_stack([found.values[:, 0], found.room[:, 0]])[np.ravel(back)]
    made[:, 1] += 4.0 * EPS * np.abs(made[:, 0])
    return made


def _check_figures(out: Claims, record: Any, rows: LocalRows, robust: Rows, at: AtRows) -> None:
    """Objective, degrees of freedom, σ, the scores of cross-validation, the error of a surface, and the status."""
    n, W, case = len(rows.y), float(rows.case.sum()), rows.case
    values, room = at.found
    residual = rows.y - values[:, 0]
    blur = room[:, 0] + 2.0 * EPS * (np.abs(rows.y) + np.abs(values[:, 0]))
    counts, sums = case * robust, n * EPS
    own, own_room = np.clip(values[:, 1] * counts, 0.0, 1.0), _times(counts, room[:, 1]) + 4.0 * EPS
    trace, trace_room = float(own.sum()), float(own_room.sum()) + sums * float(own.sum())
    squares, squares_room = float(case @ values[:, 2]), float(case @ room[:, 2])
    left = W - 2.0 * trace + squares
    left_room = 2.0 * trace_room + squares_room + 2.0 * sums * (W + 2.0 * trace + squares)
    objective = float(counts @ residual**2)
    objective_room = float(_times(counts, 2.0 * np.abs(residual) * blur + blur**2).sum()) + 2.0 * sums * objective
    _equals_if_known(out, "objective", objective, objective_room, math.inf)
    _equals_if_known(out, "degrees_of_freedom", trace, trace_room, n * (1.0 + sums))  # each row has from 0 to 1 of them
    _figure(out, record, "trace", trace, trace_room)
    free = left > NO_FREEDOM * W
    if abs(left - NO_FREEDOM * W) <= left_room:  # rounding decides: either is true to it
        free = bool(record.left > 0.0)
    left = left if free else 0.0
    _figure(out, record, "left", left, left_room if free else 0.0)
    _check_spread(out, record, rows, residual, blur, left, left_room)
    share, share_room = objective / float(counts.sum()), objective_room / float(counts.sum())
    over = W - trace
    if over > 2.0 * trace_room:
        scale = (W / over) ** 2
        _figure(out, record, "gcv", share * scale, scale * (share_room + 8.0 * (trace_room / over + sums) * share))
    ends = 1.0 - own
    if bool((ends > 4.0 * own_room + 1e-12).all()):
        rest = 1.0 - own / np.maximum(case, 1e-300)
        errors = residual / rest
        wide = (blur + np.abs(errors) * own_room / np.maximum(case, 1e-300)) / np.abs(rest)
        wide = 2.0 * wide + 4.0 * EPS * np.abs(errors)
        total = float(counts.sum())
        known = float(_times(counts, 2.0 * np.abs(errors) * wide + wide**2).sum()) / total
        cv = float(counts @ errors**2) / total
        _figure(out, record, "cv", cv, known + 4.0 * sums * cv)
    _check_error(out, record, at)
    out.assumption(FREEDOM, free, left, left_room)
    _check_status(out, record, free)


def _check_spread(out: Claims, record: Any, rows: LocalRows, r: Rows, blur: Rows, left: float, room: float) -> None:
    """σ: the median of |r| where rows were weighed by their residuals, otherwise √(RSS/freedom)."""
    if not left > 0.0:
        out.of_model("sigma", record.sigma, None, math.isnan(record.sigma), "no degrees of freedom are left")
        return
    W = float(rows.case.sum())
    if record.settings.robust_iterations > 0:
        ends = [weighted_median(np.maximum(np.abs(r) + shift * blur, 0.0), rows.case) for shift in (-1.0, 0.0, 1.0)]
        low, sigma, high = (one / NORMAL_MAD * math.sqrt(W / left) for one in ends)
        wide = max(high - sigma, sigma - low)
    else:
        sigma = math.sqrt(float(rows.case @ r**2) / left)
        wide = math.sqrt(float(rows.case @ blur**2) / left)
    relative = 0.5 * room / left + len(r) * EPS
    _figure(out, record, "sigma", sigma, wide + 2.0 * relative * sigma if relative < 0.25 else math.inf)


def _check_error(out: Claims, record: Any, at: AtRows) -> None:
    if at.nodes is None:
        out.absent("interpolation_error")
        return
    least, most, room = at.errors
    claimed = out.proof.interpolation_error
    held = claimed == math.inf if least == math.inf else is_finite(claimed) and least - room <= claimed <= most + room
    out.holds(
        "interpolation_error", least, held, "the largest difference to a fit at the row itself, at a sample of rows"
    )


def _check_status(out: Claims, record: Any, free: bool) -> None:
    same_status(out, local_status(record.surface == "exact", free))


def _figure(out: Claims, record: Any, name: str, found: float, room: float) -> None:
    """A figure of the model; where rounding leaves nothing of it, it is only stated."""
    if math.isfinite(room):
        claimed = getattr(record, name)
        out.of_model(name, claimed, found, is_finite(claimed) and abs(claimed - found) <= room)


def _times(weights: Rows, room: Rows) -> Rows:
    """Weighted rooms; what weighs nothing has none, be it infinite."""
    return np.where(weights > 0.0, weights * np.where(weights > 0.0, room, 0.0), 0.0)


def _equals_if_known(out: Claims, name: str, found: float, room: float, most: float) -> None:
    if math.isfinite(room):
        out.equals(name, found, room)
    else:
        claimed = getattr(out.proof, name)
        out.holds(name, None, is_finite(claimed) and 0.0 <= claimed <= most, "rounding decides it; only its range")


def _check_some(
    out: Claims, record: Any, rows: LocalRows, robust: Rows, surface: Surface | None, X: Rows, counted: Rows
) -> None:
    """Too many rows to fit each anew: some of them, with the robustness weights as stated."""
    some = np.unique(np.linspace(0, len(X) - 1, SOME).astype(int))
    nodes = None
    if surface is not None:
        told, p = np.asarray(record.nodes, dtype=float), rows.Z.shape[1]
        if told.shape != (len(surface.places), 3 + p):
            raise ModelError("the surface of the local regression has no fit for each of its places", where="model")
        few = np.unique(np.linspace(0, len(surface.places) - 1, SOME).astype(int))
        fits = reaching_fits(rows, surface.places[few], robust)
        columns = [0, *range(3, 3 + p)]
        apart = np.abs(told[few] - fits.values)[:, columns] - 4.0 * EPS * np.abs(fits.values)[:, columns]
        same = bool((apart <= fits.room[:, columns]).all())
        out.of_model("nodes", None, None, same, f"fits at {len(few)} of {len(told)} places")
        nodes = Fits(told, np.zeros(told.shape))
    if record.settings.robust_iterations == 0:
        out.of_model("robust", None, None, bool((robust == 1.0).all()), "no robust iterations")
    _check_order(out, record, rows, robust)
    found = _evaluated(rows, robust, surface, nodes, X[some] / record.unit)
    same_predictions(out, record.evaluate(X[some])[:, 0], found[:, 0], found[:, 1], f"at {len(some)} of {len(X)} rows")
    told = np.asarray(record.fitted, dtype=float)
    held = told.shape == (len(X),) and bool((np.abs(told[some] - found[:, 0]) <= found[:, 1]).all())
    out.of_model("fitted", None, None, held, f"fits made anew at {len(some)} of {len(X)} rows")
    order = np.argsort(X[counted][:, 0], kind="stable") if rows.one_variable else np.arange(len(rows.y))
    residual = rows.y - told[counted][order]
    objective = float((rows.case * robust) @ residual**2)
    blur = 2.0 * EPS * (np.abs(rows.y) + np.abs(told[counted][order]))
    size = 2.0 * float((rows.case * robust) @ (np.abs(residual) * blur))
    out.equals("objective", objective, size + 2.0 * len(rows.y) * EPS * objective)
    claimed, total = out.proof.degrees_of_freedom, float(rows.case.sum())
    within = is_finite(claimed) and 0.0 <= claimed <= total
    out.holds("degrees_of_freedom", None, within, "only its range: there are too many rows to fit each anew")
    error = out.proof.interpolation_error
    known = math.isnan(error) if surface is None else is_finite(error) and error >= 0.0
    out.holds("interpolation_error", None, known, "stated: there are too many rows to fit each anew")
    _check_status(out, record, bool(record.left > 0.0))
