"""The table of coefficients: what R's summary prints, as a plain record, text, HTML or a data frame.

``summarise`` builds it for least squares from the moments a record keeps, and for any other model whose
``statistics`` hold a ``covariance`` (intercept first). When p-values would mislead, they are withheld and the
reason stands in their place.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import UsageError
from ..model.closed import inference_of, part_of
from ..model.linear import LinearModel
from ..onepass.distributions import normal_quantile, normal_two_sided, t_quantile, t_two_sided
from ..onepass.inference import Inference, Test

# Above this condition number of the scaled columns, what a t-test says rests on the last digits of the data.
COLLINEAR = 1e8
INFLATED = 10.0
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"), (0.1, "."))


@dataclasses.dataclass
class Summary:
    """Coefficients with their errors, tests and intervals, and the figures of the fit.

    Vectors have the intercept first. ``withheld`` is empty, or says why ``statistics``, ``p_values`` and the
    interval are NaN. ``figures`` maps names to numbers; ``notes`` are sentences.
    """

    title: str
    names: tuple[str, ...]
    estimates: np.ndarray
    std_errors: np.ndarray
    statistics: np.ndarray
    p_values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    variance_inflation: np.ndarray
    figures: dict[str, float]
    level: float = 0.95
    statistic_name: str = "t"
    df_residual: float = math.inf
    errors_kind: str = "classical"
    withheld: str = ""
    notes: tuple[str, ...] = ()
    f_test: Test | None = None
    inference: Inference | None = dataclasses.field(default=None, repr=False)

    def __getattr__(self, name: str) -> Any:
        figures = self.__dict__.get("figures", {})
        if name in figures:
            return figures[name]
        raise AttributeError(f"the summary has no {name!r}; its figures are {', '.join(figures)}")

    def without(self, *terms: str) -> Test:
        """The F-test of the nested model that lacks these terms."""
        return self._inference("a nested F-test").without(terms)

    def contrast(self, weights: Any, value: Any = 0.0) -> Test:
        """The F-test of a linear combination of the coefficients, given by name or in order."""
        return self._inference("a contrast").contrast(weights, value)

    def _inference(self, what: str) -> Inference:
        if self.inference is None:
            raise UsageError(f"{what} needs a least-squares fit that kept its moments", where="summary")
        return self.inference

    def to_frame(self) -> Any:
        """The table as a Polars frame."""
        import polars as pl

        return pl.DataFrame(self._columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        columns = {name: _plain(values) for name, values in self._columns().items()}
        return {
            "title": self.title,
            "table": columns,
            "figures": {k: _plain(v) for k, v in self.figures.items()},
            "errors": self.errors_kind,
            "withheld": self.withheld,
            "notes": list(self.notes),
        }

    def _columns(self) -> dict[str, Any]:
        return {
            "term": list(self.names),
            "estimate": self.estimates,
            "std_error": self.std_errors,
            self.statistic_name: self.statistics,
            "p_value": self.p_values,
            "lower": self.lower,
            "upper": self.upper,
            "variance_inflation": self.variance_inflation,
        }

    def __str__(self) -> str:
        lines = [self.title, "", *self._table(), ""]
        if self.withheld:
            lines.append(f"No tests: {self.withheld}.")
        else:
            lines.append("Signif. codes: 0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1")
        lines += [*self._figure_lines(), *(f"Note: {note}." for note in self.notes)]
        return "\n".join(lines)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        tested = not self.withheld
        head = ["", "Estimate", "Std. Error"]
        if tested:
            percent = 50 * (1 - self.level)
            head += [f"{self.statistic_name} value", f"Pr(>|{self.statistic_name}|)", ""]
            head += [f"{percent:g} %", f"{100 - percent:g} %"]
        rows = []
        for j, name in enumerate(self.names):
            row = [name, _number(self.estimates[j]), _number(self.std_errors[j])]
            if tested:
                p = self.p_values[j]
                row += [_short(self.statistics[j]), _probability(p), stars(p)]
                row += [_number(self.lower[j]), _number(self.upper[j])]
            rows.append(row)
        return head, rows

    def _table(self) -> list[str]:
        head, rows = self._cells()
        widths = [max(len(row[c]) for row in [head, *rows]) for c in range(len(head))]

        def line(row: list[str]) -> str:
            left = [c in (0, 5) for c in range(len(row))]
            return " ".join(
                cell.ljust(w) if on_left else cell.rjust(w) for cell, w, on_left in zip(row, widths, left, strict=True)
            ).rstrip()

        return ["Coefficients:", line(head), *(line(row) for row in rows)]

    def _figure_lines(self) -> list[str]:
        f = self.figures
        lines = []
        if "residual_std_error" in f:
            lines.append(
                f"Residual standard error: {_number(f['residual_std_error'])} on {self.df_residual:g} degrees of freedom"
            )
        if "r_squared" in f:
            lines.append(f"Multiple R-squared: {f['r_squared']:.6g}, Adjusted R-squared: {f['adjusted_r_squared']:.6g}")
        if self.f_test is not None and not self.withheld:
            t = self.f_test
            lines.append(
                f"F-statistic: {_short(t.statistic)} on {t.df} and {t.df_residual} DF, p-value: {_probability(t.p_value)}"
            )
        shown = [
            f"{label}: {f[name]:.8g}"
            for name, label in (
                ("log_likelihood", "Log-likelihood"),
                ("aic", "AIC"),
                ("bic", "BIC"),
                ("deviance", "Deviance"),
                ("condition_number", "Condition number"),
            )
            if name in f
        ]
        if shown:
            lines.append(", ".join(shown))
        if self.errors_kind != "classical":
            lines.append(f"Standard errors: {self.errors_kind}")
        return lines

    def _repr_html_(self) -> str:
        head, rows = self._cells()

        def row(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        notes = [f"No tests: {self.withheld}."] if self.withheld else []
        notes += [*self._figure_lines(), *(f"Note: {note}." for note in self.notes)]
        below = "".join(f"<div>{html.escape(line)}</div>" for line in notes)
        return (
            f"<table><caption>{html.escape(self.title)}</caption><thead>{row(head, 'th')}</thead><tbody>"
            f"{''.join(row(cells, 'td') for cells in rows)}</tbody></table>{below}"
        )


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
    place = model.targets.index(target) if isinstance(target, str) else target
    family = model.statistics.get("family", "")
    if family == "least squares" and part_of(model) is not None:
        return _least_squares(model, level, place, robust, X, y, sample_weight, groups)
    if "covariance" in model.statistics:
        return _asymptotic(model, level)
    return _coefficients_only(model, place)


def _least_squares(
    model: LinearModel, level: float, place: int, robust: str | None, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Summary:
    known = inference_of(model, place)
    certificate: Any = model.certificate
    withheld, notes = _reasons(known, certificate)
    covariance = None
    if robust is not None:
        if X is None:
            raise UsageError(
                f"robust errors need the rows once more: model.summary(robust={robust!r}, X=X, y=y), or X= the source",
                where="robust",
            )
        covariance = known.robust_covariance(robust, _row_blocks(model, place, X, y, sample_weight, groups))
        std_errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
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
    quantile = t_quantile(level, known.df_residual) if known.df_residual > 0 else math.nan
    return _filled(
        Summary(
            f"Least squares of {model.targets[place]} on {known.d} terms, {n} rows",
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
        lambda t: t_two_sided(t, known.df_residual),
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
        notes.append(f"dropped, being combinations of others: {', '.join(certificate.dropped)}")
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
            f"{s.get('family', model.link)} regression of {model.targets[0]} on {len(model.terms)} terms",
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
        f"{family[:1].upper()}{family[1:]} of {model.targets[place]} on {len(model.terms)} terms",
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
            yield block.X, frame[model.targets[place]].to_numpy().astype(float), w, labels
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


def stars(p: float) -> str:
    """R's marks of significance."""
    return next((mark for limit, mark in STARS if p < limit), "")


def _number(value: float) -> str:
    return "NA" if math.isnan(value) else f"{value:.6g}"


def _short(value: float) -> str:
    return "NA" if math.isnan(value) else (f"{value:.3f}" if abs(value) < 1e5 else f"{value:.4g}")


def _probability(p: float) -> str:
    return "NA" if math.isnan(p) else ("<2e-16" if p < 2e-16 else f"{p:.3g}")


def _plain(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return list(values)
    if isinstance(values, np.ndarray):
        return [None if not math.isfinite(v) else float(v) for v in values]
    return values if isinstance(values, int) else (float(values) if math.isfinite(values) else None)
