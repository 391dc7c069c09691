"""What summaries and intervals of least squares are made of: counts, sums of weights, means, products, residual squares.

Standard errors, tests and intervals follow from these numbers by formulas that hold no data: σ² = RSS/(n − p) and
Var β = σ²·G⁻¹ with G the products of the columns about their means. So what is checked here are the numbers.
"""

from __future__ import annotations

import math
from decimal import localcontext
from typing import Any

import numpy as np

from .exact_arithmetic import PRECISION
from .normal_equations import Solution, Sums
from .stated_claims import Claims, Rows

UNIT = 2.0**-53
NOISE = 4.0 * UNIT  # of a product of two columns' lengths: what the cheapest way to sum products may lose


def check_moments(out: Claims, record: Any, sums: Sums, solutions: list[Solution]) -> None:
    """The numbers in ``record.statistics`` that the rows give again."""
    statistics = record.statistics
    n = len(sums.X)
    if "n" in statistics:
        out.of_model("statistics.n", statistics["n"], n, statistics["n"] == n, "rows that count")
    if "integer" in statistics:
        stated = np.asarray(statistics["integer"]).astype(bool)
        held = stated.shape == sums.whole.shape and bool((stated <= sums.whole).all())
        out.of_model("statistics.integer", int(stated.sum()), int(sums.whole.sum()), held, "columns of whole numbers")
    if "weighted" in statistics:
        equal = bool((sums.weights == 1.0).all())
        if not equal:  # weights that are all 1 may have been given
            out.of_model("statistics.weighted", statistics["weighted"], True, bool(statistics["weighted"]))
    if "rss" in statistics:
        _check_residuals(out, record, sums, solutions)
    if "part.products" in statistics:
        _check_products(out, record, sums)


def noise_of(record: Any, sums: Sums) -> Rows:
    """√ of what the model's products of a column or target with itself may have lost; 0 where they are exact.

    The model states some units of the rows that were multiplied in float64; ``check_moments`` refuses more than float64
    can lose. A product is a sum of n terms in blocks of about √n: each of them may lose a unit of the whole √n times.
    """
    stated = math.sqrt(len(sums.X)) * np.asarray(record.statistics.get("part.noise", 0.0), dtype=float)
    return np.sqrt(np.maximum(np.broadcast_to(stated, (sums.X.shape[1] + sums.Y.shape[1],)), 0.0))


def _check_residuals(out: Claims, record: Any, sums: Sums, solutions: list[Solution]) -> None:
    """Residual sums of squares: the rounding e of each residual moves a sum S by at most 2·√S·‖e‖ + ‖e‖².

    From products it is what is left of squares of which each may have lost its noise.
    """
    claimed = np.asarray(record.statistics["rss"], dtype=float).ravel()
    found = [solution.residual_squares for solution in solutions]
    coefficients = np.abs(np.atleast_2d(np.asarray(record.coef, dtype=float)))
    lengths, noise, width = sums.raw_lengths([*range(1, len(sums.products))]), noise_of(record, sums), sums.X.shape[1]
    held = len(claimed) == len(found)
    worst, shown = -math.inf, 0
    for place, (own, true) in enumerate(zip(claimed, found, strict=False)):
        columns = [row - 1 for row in solutions[place].rows if row]
        best = np.abs(solutions[place].best[sums.constants :].astype(float))
        coefficients[place, columns] = np.maximum(coefficients[place, columns], best)
        lost = 8.0 * (width + 2) * UNIT * (lengths[width + place] + coefficients[place] @ lengths[:width])
        products = (noise[width + place] + coefficients[place] @ noise[:width]) ** 2
        room = 1e-9 * true + 2.0 * math.sqrt(true) * lost + lost**2 + 4.0 * products
        excess = abs(own - true) - room if math.isfinite(own) else math.inf
        held = held and excess <= 0.0
        if excess > worst:
            worst, shown = excess, place
    first = [float(v[shown]) if len(v) else None for v in (claimed, np.asarray(found))]
    out.of_model("statistics.rss", first[0], first[1], held, "residual sum of squares")


def _check_products(out: Claims, record: Any, sums: Sums) -> None:
    """Sum of weights, means and products about them, each pair the leading and the trailing part of one number."""
    statistics = record.statistics
    weights = sums.weights
    every = bool((weights == 1.0).all())  # sums of ones and of their logarithms have no rounding
    weight = float(np.sum(statistics["part.weight"]))
    found = float(len(weights)) if every else math.fsum(weights.tolist())
    room = 8.0 * UNIT * found * (2.0 + math.log2(len(weights)))
    out.of_model("statistics.part.weight", weight, found, abs(weight - found) <= room, "sum of weights")
    logs = float(np.ravel(statistics["part.log_weight"])[0])
    terms = np.zeros(1) if every else np.log(weights)
    own, room = math.fsum(terms.tolist()), 8.0 * UNIT * float(np.abs(terms).sum()) * (2.0 + math.log2(len(weights)))
    out.of_model("statistics.part.log_weight", logs, own, abs(logs - own) <= room, "sum of their logarithms")
    means, products, lengths = _centred(sums)
    sizes = np.sqrt(lengths / found)
    high, low = (np.asarray(v, dtype=float) for v in statistics["part.mean"])
    apart = np.abs(high + low - means) <= 8.0 * UNIT * sizes * (2.0 + math.log2(len(weights)))
    out.of_model("statistics.part.mean", None, None, apart.all(), "mean of each column and target")
    high, low = (np.asarray(v, dtype=float) for v in statistics["part.products"])
    noises = noise_of(record, sums)
    rounding = 4.0 * np.outer(noises, noises) + 4.0 * UNIT * np.abs(products)
    near = np.abs((high - products) + low) <= rounding + 256.0 * UNIT**2 * np.sqrt(np.outer(lengths, lengths))
    out.of_model("statistics.part.products", None, None, bool(near.all()), "products about the means")
    noise = np.asarray(statistics["part.noise"], dtype=float)
    right = bool(((noise >= 0.0) & (noise <= 4.0 * NOISE * lengths)).all())
    out.of_model("statistics.part.noise", float(noise.max(initial=0.0)), None, right, "not more than float64 can lose")


def _centred(sums: Sums) -> tuple[Rows, Rows, Rows]:
    """(means, products about them, squares about 0) of columns and targets, rounded to float64 once."""
    with localcontext(PRECISION):
        first, own = sums.products[0, 1:], sums.products[1:, 1:]
        means = first / sums.products[0, 0]
        products = (own - np.outer(first, means)).astype(float)
        np.fill_diagonal(products, np.maximum(np.diag(products), 0.0))
        return means.astype(float), products, own.diagonal().astype(float)
