"""Closed-form fits as plain records: what the command line calls, and what the estimators wrap.

>>> import numpy as np
>>> from trueline.onepass.moments import Moments
>>> X = np.array([[0.0], [1.0], [2.0]])
>>> fit_least_squares(Moments.from_arrays(X, np.array([1.0, 3.0, 5.0]))).predict(X)
array([1., 3., 5.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..errors import UsageError
from ..onepass.inference import Inference
from ..onepass.moments import Moments
from ..onepass.parts import Part, part_arrays, part_from
from ..onepass.paths import standard_scales
from ..onepass.squares import Solution, least_squares, solve_part, together
from .linear import LinearModel


def fit_least_squares(moments: Moments, *, fit_intercept: bool = True, rank: str = "minimum-norm") -> LinearModel:
    """Ordinary least squares of every target, as a record."""
    moments = moments.designed()
    return squeezed(
        least_squares_record(least_squares(moments, fit_intercept=fit_intercept, rank=rank), moments), moments
    )


def least_squares_record(solution: Solution, moments: Moments, later: bool = False) -> LinearModel:
    """The record of a least-squares solution, with the moments that inference needs.

    ``later``: its certificate is made when it is first looked at.
    """
    return linear_record(
        moments,
        solution.coef,
        solution.intercept,
        (lambda: solution.certificate) if later else solution.certificate,
        family="least squares",
        fit_intercept=bool(solution.fit_intercept),
        rss=solution.rss,
    )


def fit_ridge(
    moments: Moments, alphas: np.ndarray, *, fit_intercept: bool = True, standardize: bool = False
) -> LinearModel:
    """Ridge with a penalty for each target, as a record with coefficients k×d."""
    moments = moments.designed()
    part, d, k = moments.total, len(moments.terms), len(moments.targets)
    unit = standard_scales(part, d) ** 2 if standardize else np.ones(d)
    coef, intercept, proofs = np.zeros((k, d)), np.zeros(k), []
    for alpha in np.unique(alphas):  # equal penalties are solved together
        own = np.flatnonzero(alphas == alpha)
        some = np.concatenate([np.arange(d), d + own])
        solved = solve_part(
            part.selected(some) if len(own) < k else part,
            moments.terms,
            moments.integer[some],
            fit_intercept=fit_intercept,
            penalty=alpha * unit,
        )
        coef[own], intercept[own] = solved.coef, solved.intercept
        proofs.append(solved.certificate)
    return linear_record(
        moments,
        coef,
        intercept,
        together(proofs),
        family="ridge regression",
        fit_intercept=bool(fit_intercept),
        alpha=float(alphas[0]) if len(set(alphas.tolist())) == 1 else alphas,
        standardize=bool(standardize),
    )


def linear_record(
    moments: Moments,
    coef: np.ndarray,
    intercept: np.ndarray,
    certificate: Certificate | Callable[[], Certificate] | None,
    **statistics: Any,
) -> LinearModel:
    """A record with coefficients k×d and the moments they came from."""
    part = moments.total
    kept: dict[str, Any] = {
        "n": part.n,
        "weighted": bool(moments.weighted),
        "integer": moments.integer.astype(np.uint8),
    }
    kept |= statistics | {f"part.{name}": value for name, value in part_arrays(part).items()}
    return LinearModel(
        moments.terms,
        coef,
        intercept,
        moments.targets,
        moments.schema,
        certificate=certificate,
        statistics=kept,
    )


def squeezed(record: LinearModel, moments: Moments) -> LinearModel:
    """With one target, coefficients are a vector and the intercept a number."""
    if len(moments.targets) == 1:
        record.coef = np.asarray(record.coef).reshape(-1)
        record.intercept = float(np.ravel(record.intercept)[0])
    return record


def part_of(model: LinearModel) -> Part | None:
    """The moments that a record keeps, if it keeps them."""
    found = {name[5:]: value for name, value in model.statistics.items() if name.startswith("part.")}
    return part_from(found, int(model.statistics["n"])) if found else None


def inference_of(model: LinearModel, target: int = 0) -> Inference:
    """Standard errors and tests of a least-squares record."""
    part = None if model.statistics.get("assigned") else part_of(model)
    if part is None or model.statistics.get("family") != "least squares":
        raise UsageError(
            "the coefficients were assigned, so that no interval or test is known for them"
            if model.statistics.get("assigned")
            else f"intervals and tests come from least squares; this model is {model.statistics.get('family', 'another')}",
            where="model",
        )
    k, d = len(model.targets), len(model.terms)
    return Inference(
        part,
        tuple(model.terms),
        np.asarray(model.statistics["integer"]).astype(bool),
        bool(model.statistics["fit_intercept"]),
        np.asarray(model.coef).reshape(k, d)[target],
        float(np.ravel(model.intercept)[target if np.ndim(model.intercept) else 0]),
        float(np.ravel(model.statistics["rss"])[target]),
        target,
    )
