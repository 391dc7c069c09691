"""Ridge and lasso from moments: a chosen penalty, or the comparison with least squares that ``fit`` prints.

Penalties mean what they mean in scikit-learn: ridge adds alpha·‖w‖² to the sum of squares, lasso and elastic net add
alpha·(l1_ratio·‖w‖₁ + ½(1 − l1_ratio)·‖w‖²) to half their mean. So an alpha printed here can be given back as --alpha.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..report.text import number
from .heldout import mean_over_rows, rooted

RIDGES, LASSOS = 33, 50  # penalties tried
LASSO_DEPTH = 1e-6
LEAST = 2  # rows to fit on, where the largest fold is left out
RIDGE_FREE = 1e-6  # of a column's variance: a ridge that leaves its coefficient alone


def compared(moments: Any, folds: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], str]:
    """(cross-validation rows, curves, paths, one line) of least squares, ridge and lasso; ``folds`` were asked for."""
    d = len(moments.terms)
    sizes_of_folds = [part.n for part in moments.parts.values()]
    if d == 0 or min(sizes_of_folds) < 1 or moments.n - max(sizes_of_folds) < LEAST:
        return [], [], [], ""
    ridge_alphas, ridge_errors = ridge_curve(moments)
    lasso_alphas, lasso_errors = lasso_curve(moments, 1.0)
    plain, sizes = ridge_errors[0], fold_sizes(moments)
    scales = deviations(moments)
    ridge_coefs = ridge_path(moments, ridge_alphas[1:])
    lasso_coefs = lasso_path(moments, lasso_alphas, 1.0)
    ridge_best, lasso_best = 1 + best_of(ridge_errors[1:], sizes), best_of(lasso_errors, sizes)
    kept = int(np.count_nonzero(lasso_coefs[lasso_best]))
    rows = [
        row("least squares", 0.0, plain, sizes, d),
        row("ridge", ridge_alphas[ridge_best], ridge_errors[ridge_best], sizes, d),
        row("lasso", lasso_alphas[lasso_best], lasso_errors[lasso_best], sizes, kept),
    ]
    level = rows[0]["mean_squared_error"]
    curves = [
        curve("ridge", ridge_alphas[1:], ridge_errors[1:], sizes, level),
        curve("lasso", lasso_alphas, lasso_errors, sizes, level),
    ]
    paths = [
        {"name": "ridge", "alphas": ridge_alphas[1:], "coefs": ridge_coefs * scales, "best": rows[1]["alpha"]},
        {"name": "lasso", "alphas": lasso_alphas, "coefs": lasso_coefs * scales, "best": rows[2]["alpha"]},
    ]
    filled = len(moments.parts)
    folded = f"{folds}-fold cross-validation" + ("" if filled == folds else f" ({filled} of the folds have rows)")
    return rows, curves, paths, line(rows, d, folded)


def fold_sizes(moments: Any) -> np.ndarray:
    """The weight of each fold's rows."""
    return np.array([part.weight[0] for part in moments.parts.values()])


def best_of(errors: np.ndarray, sizes: np.ndarray) -> int:
    """The penalty with the least error over all rows left out."""
    return int(np.argmin(mean_over_rows(errors, sizes)[0]))


def row(method: str, alpha: float, errors: np.ndarray, sizes: np.ndarray, nonzero: int) -> dict[str, Any]:
    """One line of the comparison; ``error`` is the root of the mean squared error over all rows left out."""
    square, spread = mean_over_rows(errors, sizes)
    error, of_root = rooted(square, spread)
    return {
        "method": method,
        "alpha": float(alpha),
        "error": float(error),
        "std_error": float(of_root),
        "mean_squared_error": float(square),
        "nonzero": nonzero,
    }


def curve(
    name: str, alphas: np.ndarray, errors: np.ndarray, sizes: np.ndarray, level: float | None = None
) -> dict[str, Any]:
    mean, spread = mean_over_rows(errors, sizes)
    return {"name": name, "alphas": alphas, "mean": mean, "error": spread, "level": level}


def line(rows: list[dict[str, Any]], d: int, folded: str) -> str:
    """The comparison in words."""
    plain, ridge, lasso = rows

    def better(other: dict[str, Any]) -> str:
        gain = 1.0 - other["error"] / plain["error"] if plain["error"] > 0 else 0.0
        # Whichever is smaller: nobody knows which is better when they are less than a standard error apart.
        apart, least = abs(other["error"] - plain["error"]), min(plain, other, key=lambda one: one["error"])
        if abs(gain) < 0.0005 or apart <= least["std_error"]:
            return "predicts as well"
        if gain < -1.0:
            return f"predicts {number(1.0 - gain, 2)} times worse"
        return f"predicts {abs(gain):.1%} {'better' if gain > 0 else 'worse'}".replace("%", " %")

    kept = "all" if lasso["nonzero"] == d else f"{lasso['nonzero']} of {d}"
    return (
        f"{folded}: error {plain['error']:.5g} ± {plain['std_error']:.2g}; ridge at {strength(ridge['alpha'])} {better(ridge)}; "
        f"lasso at {strength(lasso['alpha'])} keeps {kept} columns and {better(lasso)}"
    )


def strength(alpha: float, digits: int = 3) -> str:
    """A penalty in a sentence."""
    return number(alpha, digits) if alpha else "0"


def deviations(moments: Any) -> np.ndarray:
    """How far each column lies from its mean, or from 0 where there is no intercept."""
    from ..onepass.squares import products_of

    d, part = len(moments.terms), moments.total
    return np.sqrt(np.maximum(np.diagonal(products_of(part, moments.intercept)[0])[:d], 0.0) / part.weight[0])


def ridge_curve(moments: Any) -> tuple[np.ndarray, np.ndarray]:
    """Penalties (the first is 0) and squared errors, penalties × folds."""
    from ..onepass.folds import ridge_scores

    size = float(np.mean(deviations(moments) ** 2)) * float(moments.total.weight[0]) or 1.0
    alphas = np.concatenate([[0.0], size * np.geomspace(1e2, 1e-8, RIDGES)])
    return alphas, -ridge_scores(moments, alphas, fit_intercept=moments.intercept, scoring="neg_mean_squared_error")


def lasso_curve(moments: Any, l1_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Penalties and squared errors, penalties × folds."""
    from ..onepass.paths import cross_validate_paths, penalty_grid

    share, count, d, constant = max(l1_ratio, 1e-3), LASSOS, len(moments.terms), moments.intercept
    alphas = penalty_grid(moments.total, d, l1_ratio=share, eps=LASSO_DEPTH, count=count, fit_intercept=constant)
    spread = deviations(moments)
    free = RIDGE_FREE * float(np.min(spread[spread > 0], initial=math.inf)) ** 2
    if l1_ratio < 1.0 and (1.0 - l1_ratio) * alphas[-1] > free:
        # The ridge in an elastic net weighs most on the column of least variance: go on until it is free there too.
        depth = max(free / (1.0 - l1_ratio) / alphas[0], 1e-20)
        count = min(2 * LASSOS, math.ceil(LASSOS * math.log(depth) / math.log(LASSO_DEPTH)))
        alphas = penalty_grid(moments.total, d, l1_ratio=share, eps=depth, count=count, fit_intercept=constant)
    return alphas, cross_validate_paths(moments, alphas, l1_ratio=l1_ratio, fit_intercept=constant, tol=1e-6)


def ridge_path(moments: Any, alphas: np.ndarray) -> np.ndarray:
    """Coefficients, penalties × terms."""
    from ..onepass.paths import RidgePath

    return RidgePath(moments.total, len(moments.terms), moments.intercept, integer=moments.integer).coef(alphas)[
        :, 0, :
    ]


def lasso_path(moments: Any, alphas: np.ndarray, l1_ratio: float, tol: float = 1e-8) -> np.ndarray:
    """Coefficients, penalties × terms."""
    from ..onepass.paths import gram_path, moment_gram

    part = moments.total
    C, c, yy = moment_gram(part, len(moments.terms), moments.intercept)
    return gram_path(C, c, yy, part.weight[0], alphas, l1_ratio, tol=tol)[0]


def penalised(
    moments: Any, asked: Any
) -> tuple[Any, float, list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """(record, alpha, cross-validation rows, curves, paths) of the penalty asked for."""
    ratio = {"ridge": 0.0, "lasso": 1.0, "elastic": asked.l1_ratio}[asked.penalty]
    ridge = asked.penalty == "ridge"
    sizes = fold_sizes(moments)
    alphas, errors = (
        (ridge_curve(moments) if ridge else lasso_curve(moments, ratio))
        if len(moments.parts) > 1
        else (np.zeros(0), np.zeros((0, 1)))
    )
    if asked.alpha == "cv":
        if not len(alphas):
            from ..errors import UsageError

            raise UsageError(
                "there are too few rows to choose alpha by cross-validation; give it as a number", where="alpha"
            )
        alpha = float(alphas[best_of(errors, sizes)])
    else:
        alpha = float(asked.alpha)
    record = solved(moments, alpha, ratio, ridge)
    rows, curves, paths = [], [], []
    if len(alphas):
        best, first = best_of(errors, sizes), int(ridge)
        rows = [row(asked.penalty, alphas[best], errors[best], sizes, int(np.count_nonzero(record.coef)))]
        level = float(mean_over_rows(errors[0], sizes)[0]) if ridge else None
        curves = [curve(asked.penalty, alphas[first:], errors[first:], sizes, level)]
        coefs = ridge_path(moments, alphas[1:]) if ridge else lasso_path(moments, alphas, ratio)
        paths = [
            {
                "name": asked.penalty,
                "alphas": alphas[first:],
                "coefs": coefs * deviations(moments),
                "best": alpha or None,
            }
        ]
    return record, alpha, rows, curves, paths


def solved(moments: Any, alpha: float, ratio: float, ridge: bool) -> Any:
    """The record of one penalty: ridge in closed form, lasso and elastic net with the gap of

    mean loss + alpha·(ratio·‖w‖₁ + ½(1 − ratio)‖w‖²).
    """
    from ..certificates.optimality import gap_certificate
    from ..model.closed import fit_ridge, linear_record, squeezed
    from ..onepass.paths import moment_gaps, null_of_moments

    part, d, constant = moments.total, len(moments.terms), moments.intercept
    if ridge:
        return squeezed(fit_ridge(moments, np.array([alpha]), fit_intercept=constant), moments)
    w = lasso_path(moments, np.array([alpha]), ratio, tol=1e-12)
    gaps = moment_gaps(part, d, w, np.array([alpha]), ratio, fit_intercept=constant, positive=False)
    null = null_of_moments(part, d, constant)
    proof = gap_certificate(float(gaps.primal[0]), float(gaps.dual[0]), null=null, saturated=0.0)
    mean = part.mean[0]
    level = mean[d] - w @ mean[:d] if constant else np.zeros(1)
    made = linear_record(
        moments, w, level, proof, family="lasso" if ratio == 1.0 else "elastic net", fit_intercept=constant,
        objective={"loss": "squared", "loss_fields": [1.0], "penalty": "elastic_net", "alpha": alpha, "l1_ratio": ratio, "fit_intercept": constant},
    )  # fmt: skip
    return squeezed(made, moments)
