"""Who is in the mixture and the arrays they live in: the start, new columns, and going over to gradient members."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelError
from ..modelfile import Array, whole_numbers
from . import log_totals as labels
from . import squared_totals as numbers
from .hindsight import Hindsight
from .members import INTERCEPT_RIDGE
from .sums import WIDEST

if TYPE_CHECKING:
    from .mixture import MixtureModel

# (forgetting, ridge in units of column variance, least memory per column) of the Gaussian filters: the factor is at
# least 1 − 1/(memory·columns), because d weights cannot be learned from fewer than about d examples.
REGRESSION_FILTERS = (
    (1.0, 1.0, 0.0),
    (1.0, 10.0, 0.0),
    (1.0, 100.0, 0.0),
    (0.99, 0.1, 2.0),
    (0.95, 0.1, 1.0),
    (0.9, 0.1, 0.5),
    (1.0, 1000.0, 0.0),
)
CLASS_FILTERS = (
    (1.0, 0.1, 0.0),
    (1.0, 1.0, 0.0),
    (1.0, 10.0, 0.0),
    (0.998, 0.3, 4.0),
    (0.99, 0.3, 2.0),
    (0.95, 1.0, 1.0),
)
REGRESSION_RATES = (1.0, 0.03, 0.1, 0.3, 0.02, 0.1, 0.5, 0.3, 3.0, 30.0)
CLASS_RATES = (0.1, 1.0, 0.03, 0.3, 0.1, 1.0, 10.0, 0.0)
TWINS = 3  # of the first filters of a regression: the same matrix, errors bounded
LARGEST_FILTER = 301 * 301  # entries of one member's matrices
_GROWING = ("columns", "w", "P", "twins", "table", "sums")


def member_names(model: MixtureModel) -> list[str]:
    """What each member is, in the order of the weights."""
    filters, regression = _filters(model)[: model.filters], model.task == "regression"
    what = "least squares" if regression else "Kalman logistic"
    named = [f"{what}, forgetting {forget:g}, ridge {ridge:g}" for forget, ridge, _ in filters]
    if regression:
        named += [f"least squares with bounded errors, ridge {ridge:g}" for _, ridge, _ in filters[: model.twins]]
        steps = ["normalised steps", *(f"AdaGrad {r:g}" for r in REGRESSION_RATES[1:4])]
        steps += [f"constant step {r:g}" for r in REGRESSION_RATES[4:7]]
        steps += [f"diagonal least squares, ridge {r:g}" for r in REGRESSION_RATES[7:]]
        return ["running mean", "last label", *named, *steps[: model.steps]]
    steps = [*(f"constant step {r:g}" for r in CLASS_RATES[:2]), *(f"AdaGrad {r:g}" for r in CLASS_RATES[2:4])]
    steps += [*(f"diagonal Kalman logistic, ridge {r:g}" for r in CLASS_RATES[4:7]), "exponentiated gradient ±"]
    return ["class frequencies", "label chain", *named, *steps[: model.steps]]


def prepare(model: MixtureModel, sparse: bool) -> None:
    """Make room for the columns known by now; beyond the filters' limit, go over to gradient members."""
    width = model.intake.width
    if model.arrays and width == model.fitted_width:
        return
    model.row = None  # the arrays move
    if not model.arrays:
        _begin(model, width, sparse)
    elif not _narrow(model, width) if model.filters else model.centred and _thin(model, width):
        _go_wide(model, width)
    elif width > model.arrays["columns"].shape[1]:
        _grow(model, max(width, min(2 * model.arrays["columns"].shape[1], width + 4096)))
    model.fitted_width = width
    if width > WIDEST:
        model.hindsight = None
    if model.hindsight is not None:
        before = model.hindsight.width
        model.hindsight.widen(width)
        if model.intake.names is not None and before < width == len(model.intake.names):
            model.hindsight.seen.name(model.intake.names, before)
    if model.filters:
        forget, _, memory = np.array(_filters(model)[: model.filters]).T
        model.arrays["forget"][:] = np.maximum(forget, 1.0 - 1.0 / np.maximum(memory * width, 1.0))


def _filters(model: MixtureModel) -> tuple[tuple[float, float, float], ...]:
    return REGRESSION_FILTERS if model.task == "regression" else CLASS_FILTERS


def _narrow(model: MixtureModel, width: int) -> bool:
    return model.score_vectors * (width + 1) ** 2 <= LARGEST_FILTER


def _thin(model: MixtureModel, width: int) -> bool:
    """Whether most entries of the rows so far were 0, columns that are new included."""
    filled = float(model.arrays["columns"][6, : model.fitted_width].sum())
    return filled < 0.5 * width * float(model.arrays["totals"][numbers.WEIGHT])


def _begin(model: MixtureModel, width: int, sparse: bool) -> None:
    regression, narrow = model.task == "regression", _narrow(model, width)
    pairs = np.array(_filters(model))
    rates = np.array(REGRESSION_RATES if regression else CLASS_RATES)
    model.filters = len(pairs) if narrow else 0
    # Exponentiated gradient touches every weight at every row, so only filters' company affords it.
    model.steps = (0 if narrow else len(rates)) if regression else len(rates) if narrow else len(rates) - 1
    model.centred = narrow or not sparse
    twins = TWINS if regression and narrow else 0
    vectors, members = model.steps * model.score_vectors, 2 + model.filters + twins + model.steps
    model.arrays = {
        "totals": np.zeros(numbers.TOTALS if regression else labels.TOTALS),
        "columns": np.zeros((8, width)),
        "w": np.zeros((model.filters * model.score_vectors, width + 1)),
        "P": np.zeros((model.filters * model.score_vectors, width + 1, width + 1)),
        "forget": pairs[:, 0].copy(),
        "ridge": pairs[:, 1].copy(),
        "ledger": np.zeros((model.filters, 2)),
        "twins": np.zeros((twins, width + 1)),
        "noise": np.zeros(twins),
        "table": np.zeros((vectors, width + 1)),
        "sums": np.zeros((vectors, width + 1)),
        "scales": np.zeros(vectors),
        "rates": rates,
        "losses": np.zeros(members),
        "shares": np.full(members, 1.0 / members),
        "recent": np.zeros(members + 1),
        "pool": np.full(members, 1.0 / members),
        "tops": np.zeros(numbers.LEVELS if regression else 3),
    }
    model.arrays["P"][:, 0, 0] = 1.0 / INTERCEPT_RIDGE
    if not regression:
        model.arrays |= {
            "frequencies": np.zeros(model.class_count),
            "transitions": np.zeros((model.class_count, model.class_count)),
            "trust": np.full(members, 1.0 / members),
        }


def _grow(model: MixtureModel, width: int) -> None:
    for name in _GROWING:
        old = model.arrays[name]
        shape = tuple(n if axis == 0 else width + (name != "columns") for axis, n in enumerate(old.shape))
        new = np.zeros(shape)
        new[tuple(slice(0, n) for n in old.shape)] = old
        model.arrays[name] = new


def _go_wide(model: MixtureModel, width: int) -> None:
    """To gradient members that read only what a row has; they start at the best filter's or member's weights.

    Members that count what each column has taught start with what the filter knows of it, 1/P_jj: for AdaGrad too, whose
    sum of squared gradients grows by about the same (Fisher's equality), in units of the noise for squared loss.

    A new phase of the mixture: losses so far are settled (the best member's, and the gaps of that phase, go into the
    bound, because each phase telescopes by itself) and every member starts level.
    """
    old, own, had = model.arrays, model.score_vectors, model.fitted_width
    totals, regression = old["totals"], model.task == "regression"
    # A filter's weights, where there are filters: it has seen how columns go together.
    losses = old["losses"][2 : 2 + model.filters] if model.filters else old["losses"][2:]
    best = int(np.argmin(losses))
    w = model.member_coefficients(had)[2 + best]
    P = old["P"][best * own : (best + 1) * own, : had + 1, : had + 1] if model.filters else np.zeros((own, 0, 0))
    shift, mean, squares, nonzero = (old["columns"][row, :had] for row in (0, 1, 2, 6))
    model.phase_loss += float(old["losses"].min())
    if regression:
        model.phase_gap += float(totals[numbers.GAP_STATIC]) + float(totals[numbers.GAP_TOP])
    else:
        model.phase_logs += math.log(len(old["losses"])) + math.log(3.0)
    _begin(model, width, sparse=True)
    new = model.arrays
    new["totals"] = totals
    raw = squares + totals[numbers.WEIGHT] * (mean + shift) ** 2
    new["columns"][1, :had] = nonzero
    new["columns"][2, :had] = raw
    scale = np.sqrt(raw / np.maximum(nonzero, 1e-300))
    start = np.zeros((own, width + 1))
    start[:, 1 : had + 1] = w[:, 1:] * scale
    start[:, 0] = w[:, 0]
    if regression:
        start[:, 0] -= totals[numbers.MEAN]
    else:
        new["frequencies"], new["transitions"] = old["frequencies"], old["transitions"]
    new["table"][:] = np.tile(start, (model.steps, 1))
    for s, own_P in enumerate(P):
        known = np.zeros(width + 1)
        spread = own_P.diagonal()
        known[: had + 1][spread > 0.0] = 1.0 / spread[spread > 0.0]
        known[1 : had + 1] /= np.maximum(scale * scale, 1e-300)
        noise = float(losses.min()) / float(totals[numbers.WEIGHT]) if regression else 1.0
        first = numbers.NORMALISED if regression else labels.CONSTANT
        adaptive = first + (numbers.ADAPTIVE if regression else labels.ADAPTIVE)
        diagonal = adaptive + (numbers.CONSTANT if regression else 0)
        new["sums"][first * own + s : adaptive * own + s : own] = known * noise
        new["sums"][diagonal * own + s : model.steps * own : own] = known


def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
    """What a mixture's file holds; there may be more space than columns."""
    if not arrays:
        return {}
    regression, width = meta["task"] == "regression", int(meta["width"])
    classes = 0 if regression else 2 if meta["task"] == "binary" else len(meta["classes"])
    vectors = classes if classes > 2 else 1
    most = (REGRESSION_FILTERS, REGRESSION_RATES) if regression else (CLASS_FILTERS, CLASS_RATES)
    pairs, rates = (arrays[name].size for name in ("forget", "rates"))  # files of before some came have fewer
    filters, steps = int(meta["filters"]), int(meta["steps"])
    space = arrays["columns"].shape[-1]
    twins = len(arrays["twins"]) if "twins" in arrays else 0
    if not (
        0 <= width <= space
        and pairs <= len(most[0])
        and rates == len(most[1])
        and filters in (0, pairs)
        and 0 <= steps <= rates
        and twins in (0, TWINS)
    ):
        raise ModelError("the mixture has more columns or members than there are; use an intact copy")
    members, rows = 2 + filters + twins + steps, steps * vectors
    shapes: dict[str, tuple[int, ...]] = {
        "totals": (numbers.TOTALS if regression else labels.TOTALS,), "columns": (8, space),
        "w": (filters * vectors, space + 1), "P": (filters * vectors, space + 1, space + 1), "forget": (pairs,),
        "ridge": (pairs,), "ledger": (filters, 2), "table": (rows, space + 1), "sums": (rows, space + 1),
        "scales": (rows,), "rates": (rates,), "losses": (members,), "shares": (members,), "recent": (members + 1,),
        "tops": (numbers.LEVELS if regression and "pool" in arrays else 3,),
    }  # fmt: skip
    if not regression:
        shapes |= {"frequencies": (classes,), "transitions": (classes, classes), "trust": (members,)}
    made = {name: Array(shape, values="numbers") for name, shape in shapes.items()}
    made |= {name: Array(made[name].shape) for name in ("columns", "shares", "w")}
    if not regression:  # the last label is a place in the table of transitions
        last = whole_numbers(0, classes - 1)
        made["totals"] = Array(
            made["totals"].shape, values="numbers", holds=lambda t: last(t[labels.LAST : labels.LAST + 1])
        )
    made |= {
        "twins": Array((twins, space + 1), optional="twins"),
        "noise": Array((twins,), values="numbers", optional="twins"),
        "pool": Array((members,), values="numbers", optional="twins"),
    }
    return made | (Hindsight.declared(width) if regression else {})


def without_twins(arrays: dict[str, np.ndarray]) -> None:
    """A file from before there were twins and a pool: the model goes on as it was, without them."""
    arrays |= {
        "twins": np.zeros((0, arrays["table"].shape[1])),
        "noise": np.zeros(0),
        "pool": np.zeros(len(arrays["losses"])),
    }


def member_coefficients(model: MixtureModel, width: int) -> np.ndarray:
    """(members, scores, 1 + width): intercept and coefficients of every member, on the columns as given."""
    a, own = model.arrays, model.score_vectors
    count = len(a["losses"])
    out = np.zeros((count, own, width + 1))
    shift = a["columns"][0, :width]
    totals = a["totals"]
    regression = model.task == "regression"
    if regression:
        out[0, 0, 0], out[1, 0, 0] = totals[numbers.MEAN], totals[numbers.LAST]
    for m in range(model.filters):
        w = a["w"][m * own : (m + 1) * own, : width + 1]
        out[2 + m] = w
        out[2 + m, :, 0] += (totals[numbers.ORIGIN] if regression else 0.0) - w[:, 1:] @ shift
    for m in range(model.twins):
        w = a["twins"][m, : width + 1]
        out[2 + model.filters + m, 0] = w
        out[2 + model.filters + m, 0, 0] += totals[numbers.ORIGIN] - w[1:] @ shift
    if model.steps:
        centre, scale = _scales(model, width)
        for m in range(model.steps):
            w = a["table"][m * own : (m + 1) * own, : width + 1]
            at = 2 + model.filters + model.twins + m
            out[at, :, 1:] = w[:, 1:] * scale
            out[at, :, 0] = w[:, 0] - out[at, :, 1:] @ centre + (totals[numbers.MEAN] if regression else 0.0)
    return out


def _scales(model: MixtureModel, width: int) -> tuple[np.ndarray, np.ndarray]:
    shift, mean, squares = (model.arrays["columns"][row, :width] for row in (0, 1, 2))
    total = model.arrays["totals"][1]
    weight = np.full(width, total) if model.centred else mean
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(weight / squares)
    scale[~np.isfinite(scale)] = 0.0
    return (shift + mean if model.centred else np.zeros(width)), scale
