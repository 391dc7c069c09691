"""Which figures stand in the table of coefficients, and which are withheld.

``summarise`` builds it (coefficients.py) for least squares from the moments a record keeps, and for any other model whose
``statistics`` hold a ``covariance`` (intercept first). Several targets or classes stand one below the other, labelled.
When p-values would mislead, they are withheld and the reason stands in their place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..certificates.certificate import Status, few
from ..errors import UsageError, nearest
from ..model.closed import inference_of, part_of
from ..model.iterated import robust_covariance
from ..model.linear import LinearModel
from ..onepass.inference import ROBUST, Inference
from ..onepass.squares import explained
from .coefficients import Summary

# Above this condition number of the scaled columns, what a t-test says rests on the last digits of the data.
COLLINEAR = 1e8
INFLATED = 10.0
FIGURES = ("n", "log_likelihood", "null_log_likelihood", "deviance", "null_deviance", "dispersion", "aic", "bic")
SHRUNK = "shrinks or selects coefficients, after which t-tests do not have their stated level"
# Why some fits without a penalty have no tests.
NO_THEORY = {
    "support vectors": "a support vector machine maximises a margin, which is no likelihood: its coefficients have no "
    "standard errors",
    "line among outliers": "EM gives no standard errors",
    "non-negative least squares": "coefficients that may not be negative do not vary as a t-test takes for granted",
    "non-negative ridge": "coefficients that may not be negative do not vary as a t-test takes for granted",
}


def summarise(
    model: LinearModel,
    *,
    level: float = 0.95,
    target: int | str | None = None,
    robust: str | None = None,
    X: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> Summary:
    """The summary of a linear record.

    ``robust`` is "HC0" to "HC3" or "cluster": one further pass over the rows of the fit, given as ``X`` and ``y`` (or
    as a source in ``X``); ``groups`` has one label per row, or names a column of the source. ``target`` chooses one of
    several targets or classes.
    """
    if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise UsageError(f"level must lie between 0 and 1, not {level!r}", where="level")
    given = {"X": X, "y": y, "sample_weight": sample_weight, "groups": groups, "offset": offset, "exposure": exposure}
    _check_robust(model, robust, given)
    places = _places(model, target)
    if _is_least_squares(model):
        rows = {name: given[name] for name in ("X", "y", "sample_weight", "groups")}
        return _stacked([_least_squares(model, level, place, robust, **rows) for place in places], model, places)
    if "covariance" in model.statistics and not model.statistics.get("assigned"):
        return _asymptotic(model, level, target, robust, given)
    return _stacked([_coefficients_only(model, place) for place in places], model, places)


def _is_least_squares(model: LinearModel) -> bool:
    s = model.statistics
    return s.get("family") == "least squares" and part_of(model) is not None and not s.get("assigned")


def _check_robust(model: LinearModel, robust: Any, given: dict[str, Any]) -> None:
    """Refuse robust errors that do not exist, and what goes with them only."""
    if robust is None:
        for name, value in given.items():
            if value is not None:
                raise UsageError(f"{name} goes with robust=, which takes another look at the rows", where=name)
        return
    if not isinstance(robust, str) or robust not in ROBUST:
        hint = nearest(robust, ROBUST) if isinstance(robust, str) else f"; known are {', '.join(ROBUST)}"
        raise UsageError(f"there are no robust errors named {robust!r}{hint}", where="robust")
    if not _is_least_squares(model) and not _has_sandwich(model):
        raise UsageError(f"robust errors cannot be had here: {_why_no_robust(model)}", where="robust")
    if given["X"] is None:
        raise UsageError(
            f"robust errors need the rows once more: model.summary(robust={robust!r}, X=X, y=y), or X= the source",
            where="robust",
        )
    if robust == "cluster" and given["groups"] is None:
        raise UsageError('robust="cluster" needs groups=, one label per row', where="groups")
    if robust != "cluster" and given["groups"] is not None:
        raise UsageError(f'groups goes with robust="cluster", not with {robust!r}', where="groups")
    if _is_least_squares(model):
        for name in ("offset", "exposure"):
            if given[name] is not None:
                raise UsageError(f"{name} is for generalised linear models; this one is least squares", where=name)


def _has_sandwich(model: LinearModel) -> bool:
    s = model.statistics
    smooth = s.get("objective", {}).get("loss") not in (None, "quantile", "absolute", "epsilon_insensitive")
    return "covariance" in s and "objective" in s and smooth and not s.get("assigned")


def _why_no_robust(model: LinearModel) -> str:
    s = model.statistics
    if "covariance" in s and not s.get("assigned"):
        return "the standard errors of this fit are robust ones already; leave robust out"
    return _why_no_tests(model)


def _labels(model: LinearModel) -> list[str]:
    """What the rows of the coefficients are called: targets, or classes where each has its own."""
    if np.ndim(model.coef) == 2 and len(model.classes) == len(model.coef):
        return [str(label) for label in model.classes]
    return list(model.targets)


def _places(model: LinearModel, target: Any) -> list[int]:
    names = _labels(model)
    if target is None:
        return list(range(len(names)))
    if isinstance(target, str) and target in names:
        return [names.index(target)]
    whole = isinstance(target, (int, np.integer)) and not isinstance(target, bool)
    if not whole or not 0 <= target < len(names):
        raise UsageError(f"the model has no target {target!r}; it has {', '.join(names)}", where="target")
    return [int(target)]


def _stacked(parts: list[Summary], model: LinearModel, places: list[int]) -> Summary:
    """One table of several targets or classes, every row labelled."""
    if len(parts) == 1:
        return parts[0]
    names = [_labels(model)[place] for place in places]
    first = parts[0]
    joined: dict[str, Any] = {
        field: np.concatenate([getattr(part, field) for part in parts])
        for field in (
            "estimates", "std_errors", "statistics", "p_values", "lower", "upper", "variance_inflation"
        )
    }  # fmt: skip
    reasons = list(dict.fromkeys(part.withheld for part in parts))
    withheld = reasons[0] if len(reasons) == 1 else ""
    notes = [f"{name}: {note}" for name, part in zip(names, parts) for note in part.notes]
    if len(reasons) > 1:
        notes += [f"{name}: no tests, {part.withheld}" for name, part in zip(names, parts) if part.withheld]
    what = first.title.partition(" on ")
    kind = what[0].partition(" of ")[0]
    return Summary(
        f"{kind} of {', '.join(names)}{what[1]}{what[2]}",
        tuple(f"{name}: {term}" for name, part in zip(names, parts) for term in part.names),
        **joined,
        figures={"n": first.figures["n"]} if "n" in first.figures else {},
        level=first.level,
        statistic_name=first.statistic_name,
        df_residual=first.df_residual,
        errors_kind=first.errors_kind,
        withheld=withheld,
        notes=tuple(notes),
        parts=dict(zip(names, parts)),
    )


def _least_squares(
    model: LinearModel, level: float, place: int, robust: str | None, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Summary:
    known = inference_of(model, place).without_aliases()
    certificate: Any = model.certificate
    withheld, notes = _reasons(known, certificate)
    freedom = known.df_residual
    if robust is not None:
        covariance, freedom = known.robust_covariance(robust, _row_blocks(model, place, X, y, sample_weight, groups))
        std_errors = np.where(known.estimable, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), np.nan)
        if robust == "cluster":
            notes.append(f"{freedom + 1} groups: tests and intervals have {freedom} degrees of freedom")
    elif known.df_residual > 0:
        std_errors = known.std_errors
    else:
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
    return _filled(
        Summary(
            f"Least squares of {model.targets[place]} on {_terms(known.d)}, {n} rows",
            known.names,
            np.where(known.estimable, known.estimates, np.nan),
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
        freedom,
    )


def _reasons(known: Inference, certificate: Any) -> tuple[str, list[str]]:
    """Why tests would mislead, or nothing; and notes."""
    notes: list[str] = []
    if known.df_residual < 1:
        return (
            f"{known.part.n} rows cannot judge {known.parameters} parameters; tests need more rows than columns",
            notes,
        )
    if known.factor.combinations:
        notes.append(f"not estimated, since other columns say the same: {explained(known.terms, known.factor)}")
    if certificate.condition_number > COLLINEAR:
        return (
            f"the columns are so nearly dependent (condition number {certificate.condition_number:.2g}) that tests of "
            "single coefficients would rest on the last digits of the data",
            notes,
        )
    if known.rss == 0:
        return "the fit is exact, so there is no residual to judge the errors by", notes
    return "", notes


def _asymptotic(model: LinearModel, level: float, target: Any, robust: str | None, given: dict[str, Any]) -> Summary:
    """z-tests from the covariance in ``statistics``, or from a sandwich of the rows of the fit."""
    s = model.statistics
    names, estimates, what = _terms_of(model)
    spread = np.sqrt(np.maximum(np.diagonal(np.asarray(s["covariance"])), 0.0))
    withheld, notes = _doubts(model), list(s.get("notes", ()))
    if robust is not None:
        rows = _all_rows(model, **{name: given[name] for name in ("X", "y", "sample_weight", "groups")})
        covariance, groups = robust_covariance(model, **rows, offset=given["offset"], exposure=given["exposure"])
        spread = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        notes.append(f"{groups} groups" if groups else "HC0 to HC3 are the same here: no correction for few rows")
    elif s["family"] in ("quantile", "absolute"):
        notes.append("errors by a sandwich with the density of the residuals at 0 (bandwidth of Hall and Sheather)")
    figures = {str(name): float(s[name]) for name in FIGURES if np.ndim(s.get(name, ())) == 0}
    if "null_log_likelihood" in figures and figures["null_log_likelihood"] < 0.0 and model.classes:
        figures["pseudo_r_squared"] = 1.0 - figures["log_likelihood"] / figures["null_log_likelihood"]
    estimable = np.ones(len(names), dtype=bool)
    if "estimates" in s:
        estimates = np.asarray(s["estimates"])
        estimable = ~np.isnan(estimates)
        spread = np.where(estimable, spread, np.nan)
        aliased = tuple(name for name, known in zip(names, estimable) if not known)
        notes.append(f"not estimated, being constant or combinations of others: {few(aliased)}")
    if not withheld and not np.isfinite(spread[estimable]).all():
        withheld = "the columns are linearly dependent, or too few rows are left to judge the errors by"
    blank = np.full(len(names), np.nan)
    spread = blank if withheld else spread
    freedom, kind = math.inf, "z"
    if s["family"] in ("quantile", "absolute"):
        freedom, kind = float(s["n"]) - len(names), "t"
    summary = Summary(
        f"{what} on {_terms(len(model.terms))}",
        names,
        estimates,
        spread,
        blank,
        blank,
        blank,
        blank,
        np.asarray(s.get("variance_inflation", blank)),
        figures,
        level,
        kind,
        freedom,
        robust or "classical",
        withheld=withheld,
        notes=tuple(notes),
    )
    summary = _filled(summary, freedom if kind == "t" and freedom > 0 else None)
    if target is None or np.ndim(model.coef) == 1:
        return summary
    return _one_class(summary, str(_labels(model)[_places(model, target)[0]]))


def _terms_of(model: LinearModel) -> tuple[tuple[str, ...], np.ndarray, str]:
    """(names of the rows, their estimates, what the model is of), intercept first.

    Several classes are shown against the first: only differences between them count.
    """
    s, target = model.statistics, model.targets[0]
    own = ("(Intercept)", *model.terms) if s.get("fit_intercept", True) else tuple(model.terms)
    coef, constant = np.atleast_2d(model.coef), np.ravel(model.intercept)
    blocks = np.column_stack([constant, coef]) if s.get("fit_intercept", True) else coef
    if len(coef) > 1:
        labels = [str(label) for label in model.classes]
        names = tuple(f"{label}: {term}" for label in labels[1:] for term in own)
        return names, (blocks[1:] - blocks[0]).ravel(), f"Multinomial logit of {target}, log-odds against {labels[0]},"
    if model.classes:
        return own, blocks[0], f"Logistic regression of {target} = {model.classes[1]}"
    family = str(s.get("family", model.link))
    return own, blocks[0], f"{family[:1].upper()}{family[1:]} regression of {target}"


def _one_class(summary: Summary, label: str) -> Summary:
    """The rows of one class."""
    rows = [j for j, name in enumerate(summary.names) if name.startswith(f"{label}: ")]
    if not rows:
        raise UsageError(f"class {label!r} is the one that the others are set against", where="target")
    summary.names = tuple(summary.names[j] for j in rows)
    for field in ("estimates", "std_errors", "statistics", "p_values", "lower", "upper", "variance_inflation"):
        setattr(summary, field, getattr(summary, field)[rows])
    return summary


def _doubts(model: LinearModel) -> str:
    """Why the tests of a maximum likelihood would mislead, or nothing."""
    certificate = model.certificate
    if certificate is not None and certificate.status is Status.DEGENERATE:
        return certificate.advice.partition(";")[0] or "the fit is degenerate"
    return str(model.statistics.get("withheld", ""))


def _why_no_tests(model: LinearModel) -> str:
    """The true reason for a table without tests."""
    s = model.statistics
    family, objective = str(s.get("family", "this fit")), s.get("objective", {})
    if s.get("assigned"):
        return "the coefficients were assigned, not fitted, so that nothing is known about their errors"
    if family in NO_THEORY:
        return NO_THEORY[family]
    alpha = np.max(np.asarray(s.get("alpha", objective.get("alpha", 0.0)), dtype=float), initial=0.0)
    if alpha > 0.0:
        return f"{family} {SHRUNK}"
    if objective.get("positive") or objective.get("bounded"):
        return "coefficients within bounds do not vary as a test takes for granted"
    if family in ("ridge regression", "lasso", "elastic net"):
        return "alpha is 0, which is least squares: tl.LinearRegression gives its tests"
    if family == "least squares":
        return "rows no more than columns leave nothing to judge the errors by"
    if len(model.terms) > 500:
        return f"standard errors of {len(model.terms)} terms are not computed"
    return f"there are no standard errors for the loss {family!r}"


def _coefficients_only(model: LinearModel, place: int) -> Summary:
    """Estimates, and why there are no tests."""
    family = str(model.statistics.get("family", "linear model"))
    coef, constant = np.atleast_2d(model.coef), np.ravel(model.intercept)
    names, estimates = tuple(model.terms), coef[place]
    if model.statistics.get("fit_intercept", True):
        names = ("(Intercept)", *names)
        estimates = np.concatenate([[constant[place if len(constant) > 1 else 0]], estimates])
    blank = np.full(len(names), np.nan)
    wanted = ("n", "alpha", "r_squared", "rss", "deviance", "log_likelihood")
    figures = {k: float(v) for k, v in model.statistics.items() if k in wanted and np.ndim(v) == 0}
    of = _labels(model)[place]
    if model.classes and len(coef) == 1:
        of = f"{model.targets[0]} = {model.classes[1]}"
    return Summary(
        f"{family[:1].upper()}{family[1:]} of {of} on {_terms(len(model.terms))}",
        names,
        estimates,
        blank,
        blank,
        blank,
        blank,
        blank,
        blank,
        figures,
        withheld=_why_no_tests(model),
    )


def _all_rows(model: LinearModel, X: Any, y: Any, sample_weight: Any, groups: Any) -> dict[str, Any]:
    """X, y, sample_weight and groups as arrays, from arrays or from a source."""
    if y is not None:
        table = X if hasattr(X, "tocsr") or isinstance(X, np.ndarray) else _array_of(model, X)
        labels = None if groups is None else np.asarray(groups)
        return {"X": table, "y": np.asarray(y), "sample_weight": sample_weight, "groups": labels}
    if model.schema is None:
        raise UsageError("the model was fitted to arrays: give X= and y=", where="y")
    extra = [name for name in (model.targets[0], model.schema.weights, groups) if isinstance(name, str)]
    found = [
        (block.X, frame[model.targets[0]].to_numpy(), frame.select(extra))
        for frame, block in model.schema.frames(X, extra=extra)
    ]
    frames = [frame for _, _, frame in found]
    column = {name: np.concatenate([frame[name].to_numpy() for frame in frames]) for name in extra}
    return {
        "X": np.concatenate([rows for rows, _, _ in found]),
        "y": np.concatenate([values for _, values, _ in found]),
        "sample_weight": column.get(model.schema.weights),
        "groups": column[groups] if isinstance(groups, str) else groups,
    }


def _array_of(model: LinearModel, X: Any) -> np.ndarray:
    return model.design(X) if model.schema is not None else np.asarray(X, dtype=float)


def _terms(count: int) -> str:
    return "1 term" if count == 1 else f"{count} terms"


def _filled(summary: Summary, freedom: float | None) -> Summary:
    """Statistics, p-values and intervals by Student's t, or the normal distribution (None), unless withheld."""
    if summary.withheld:
        return summary
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    middle = 0.5 + 0.5 * summary.level
    with np.errstate(divide="ignore", invalid="ignore"):
        summary.statistics = summary.estimates / summary.std_errors
    away = -np.abs(summary.statistics)
    summary.p_values = 2.0 * (ndtr(away) if freedom is None else stdtr(freedom, away))
    quantile = float(ndtri(middle) if freedom is None else stdtrit(freedom, middle))
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
