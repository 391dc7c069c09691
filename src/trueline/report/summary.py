"""Which figures stand in the table of coefficients, and which are withheld.

``summarise`` builds it (coefficients.py) for least squares from the moments a record keeps, and for any other model whose
``statistics`` hold a ``covariance`` (intercept first). When p-values would mislead, they are withheld and the
reason stands in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..certify.records import few
from ..errors import UsageError
from ..model.closed import inference_of, part_of
from ..model.linear import LinearModel
from ..onepass.distributions import normal_quantile, normal_two_sided, t_quantile, t_two_sided
from ..onepass.inference import Inference
from .coefficients import Summary

# Above this condition number of the scaled columns, what a t-test says rests on the last digits of the data.
COLLINEAR = 1e8
INFLATED = 10.0


def summarise(
    model: LinearModel,
    *,
    level: float = 0.95,
    target: int | str = 0,
    robust: str | None = None,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
) -> Summary:
    """The summary of a linear record.

    ``robust`` is "HC0" to "HC3" or "cluster": one further pass over the rows of the fit, given as ``X`` and ``y`` (or
    as a source in ``X``); ``groups`` has one label a row, or names a column of the source.
    """
    if not 0 < level < 1:
        raise UsageError(f"level must lie between 0 and 1, not {level!r}", where="level")
    place = _place(model, target)
    family = model.statistics.get("family", "")
    if family == "least squares" and part_of(model) is not None:
        return _least_squares(model, level, place, robust, X, y, sample_weight, groups)
    if "covariance" in model.statistics:
        return _asymptotic(model, level)
    return _coefficients_only(model, place)


def _place(model: LinearModel, target: int | str) -> int:
    names = list(model.targets)
    if target in names:
        return names.index(target)
    if isinstance(target, str) or not 0 <= target < len(names):
        raise UsageError(f"the model has no target {target!r}; it has {', '.join(names)}", where="target")
    return target


def _least_squares(
    model: LinearModel, level: float, place: int, robust: str | None, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Summary:
    known = inference_of(model, place)
    certificate: Any = model.certificate
    withheld, notes = _reasons(known, certificate)
    freedom = known.df_residual
    if robust is not None:
        if X is None:
            raise UsageError(
                f"robust errors need the rows once more: model.summary(robust={robust!r}, X=X, y=y), or X= the source",
                where="robust",
            )
        covariance, freedom = known.robust_covariance(robust, _row_blocks(model, place, X, y, sample_weight, groups))
        std_errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        if robust == "cluster":
            notes.append(f"{freedom + 1} groups: tests and intervals have {freedom} degrees of freedom")
    elif known.df_residual > 0:
        std_errors = known.std_errors
    else:
        std_errors = np.full(len(known.names), np.nan)
    if withheld and known.factor.rank < known.d and certificate.advice.endswith("least norm is given"):
        std_errors = np.full(len(known.names), np.nan)
    inflation = known.variance_inflation
    worst = np.nanmax(np.where(np.isfinite(inflation), inflation, np.nan), initial=1.0)
    if worst > INFLATED and not withheld:
        name = known.names[int(np.nanargmax(np.where(np.isfinite(inflation), inflation, -1.0)))]
        notes.append(f"collinear columns: the variance of {name} is inflated {worst:.3g} times")
    n, p = known.part.n, known.parameters
    likelihood = known.log_likelihood
    figures = {
        "n": n,
        "df_residual": known.df_residual,
        "rss": known.rss,
        "residual_std_error": math.sqrt(known.variance) if known.df_residual > 0 else math.nan,
        "r_squared": known.r_squared,
        "adjusted_r_squared": known.adjusted_r_squared,
        "f_statistic": known.f_test.statistic,
        "f_p_value": known.f_test.p_value,
        "log_likelihood": likelihood,
        "aic": 2 * p - 2 * likelihood,
        "bic": p * math.log(n) - 2 * likelihood,
        "condition_number": float(certificate.condition_number),
        "digits": float(certificate.digits),
    }
    blank = np.full(len(known.names), np.nan)
    quantile = t_quantile(level, freedom) if freedom > 0 else math.nan
    return _filled(
        Summary(
            f"Least squares of {model.targets[place]} on {_terms(known.d)}, {n} rows",
            known.names,
            known.estimates,
            std_errors,
            blank,
            blank,
            blank,
            blank,
            inflation,
            figures,
            level,
            "t",
            known.df_residual,
            robust or "classical",
            withheld,
            tuple(notes),
            known.f_test,
            known,
        ),
        quantile,
        lambda t: t_two_sided(t, freedom),
    )


def _reasons(known: Inference, certificate: Any) -> tuple[str, list[str]]:
    """Why tests would mislead, or nothing; and notes."""
    notes: list[str] = []
    if known.df_residual < 1:
        return (
            f"{known.part.n} rows cannot judge {known.parameters} parameters; tests need more rows than columns",
            notes,
        )
    if certificate.dropped and certificate.advice.endswith("least norm is given"):
        return (
            f"the columns are linearly dependent ({', '.join(certificate.dropped[:4])}), so single coefficients have no "
            'meaning of their own; fit with rank="drop" to test the others',
            notes,
        )
    if certificate.dropped:
        notes.append(f"dropped, being combinations of others: {few(certificate.dropped)}")
    if certificate.condition_number > COLLINEAR:
        return (
            f"the columns are so nearly dependent (condition number {certificate.condition_number:.2g}) that tests of "
            "single coefficients would rest on the last digits of the data",
            notes,
        )
    if known.rss == 0:
        return "the fit is exact, so there is no residual to judge the errors by", notes
    return "", notes


def _asymptotic(model: LinearModel, level: float) -> Summary:
    """Maximum likelihood: z-tests from the inverse information matrix in ``statistics["covariance"]``."""
    s = model.statistics
    coef = np.ravel(model.coef)
    intercept = bool(s.get("fit_intercept", True))
    names = ("(Intercept)", *model.terms) if intercept else model.terms
    estimates = np.concatenate([np.ravel(model.intercept), coef]) if intercept else coef
    spread = np.sqrt(np.maximum(np.diagonal(np.asarray(s["covariance"])), 0.0))
    blank = np.full(len(names), np.nan)
    figures: dict[str, float] = {
        str(name): float(s[name])
        for name in ("n", "log_likelihood", "null_log_likelihood", "deviance", "dispersion", "aic", "bic")
        if name in s
    }
    return _filled(
        Summary(
            f"{s.get('family', model.link)} regression of {model.targets[0]} on {_terms(len(model.terms))}",
            tuple(names),
            estimates,
            spread,
            blank,
            blank,
            blank,
            blank,
            np.asarray(s.get("variance_inflation", blank)),
            figures,
            level,
            "z",
            math.inf,
            withheld=str(s.get("withheld", "")),
            notes=tuple(s.get("notes", ())),
        ),
        normal_quantile(level),
        normal_two_sided,
    )


def _coefficients_only(model: LinearModel, place: int) -> Summary:
    """After a penalty: estimates, and why there are no tests."""
    family = model.statistics.get("family", "this fit")
    coef = np.atleast_2d(model.coef)[place]
    names = ("(Intercept)", *model.terms)
    estimates = np.concatenate([[np.ravel(model.intercept)[place if np.ndim(model.intercept) else 0]], coef])
    blank = np.full(len(names), np.nan)
    figures = {
        k: float(v) for k, v in model.statistics.items() if k in ("n", "alpha", "r_squared", "rss") and np.ndim(v) == 0
    }
    return Summary(
        f"{family[:1].upper()}{family[1:]} of {model.targets[place]} on {_terms(len(model.terms))}",
        names,
        estimates,
        blank,
        blank,
        blank,
        blank,
        blank,
        blank,
        figures,
        withheld=f"{family} shrinks or selects coefficients, after which t-tests do not have their stated level",
    )


def _terms(count: int) -> str:
    return "1 term" if count == 1 else f"{count} terms"


def _filled(summary: Summary, quantile: float, tail: Any) -> Summary:
    """Statistics, p-values and intervals, unless withheld."""
    if summary.withheld:
        return summary
    with np.errstate(divide="ignore", invalid="ignore"):
        summary.statistics = summary.estimates / summary.std_errors
    summary.p_values = np.array([tail(float(t)) for t in summary.statistics])
    summary.lower = summary.estimates - quantile * summary.std_errors
    summary.upper = summary.estimates + quantile * summary.std_errors
    return summary


def _row_blocks(model: LinearModel, place: int, X: Any, y: Any, sample_weight: Any, groups: Any) -> Iterable[tuple]:
    """Blocks of (X, y, weights, groups) from arrays or from a source."""
    step = 4096
    if y is None:
        extra = [name for name in (model.targets[place], model.schema.weights, groups) if isinstance(name, str)]
        for frame, block in model.schema.frames(X, extra=extra):
            w = None if model.schema.weights is None else frame[model.schema.weights].to_numpy().astype(float)
            labels = frame[groups].to_numpy() if isinstance(groups, str) else None
            target = frame[model.targets[place]].to_numpy().astype(float)
            if model.schema.missing == "drop":  # as the fit left them out
                kept = ~(np.isnan(block.X).any(axis=1) | np.isnan(target) | (False if w is None else np.isnan(w)))
                w, labels = (None if v is None else v[kept] for v in (w, labels))
                yield block.X[kept], target[kept], w, labels
            else:
                yield block.X, target, w, labels
        return
    rows = model.design(X if hasattr(X, "tocsr") or isinstance(X, np.ndarray) else np.asarray(X, dtype=float))
    target = np.asarray(y, dtype=float)
    target = target[:, place] if target.ndim == 2 else target
    w = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    labels = None if groups is None else np.asarray(groups)
    for a in range(0, rows.shape[0], step):
        part = rows[a : a + step]
        yield (
            part.toarray() if hasattr(part, "toarray") else np.asarray(part, dtype=float),
            target[a : a + step],
            None if w is None else w[a : a + step],
            None if labels is None else labels[a : a + step],
        )
