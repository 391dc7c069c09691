"""The table of coefficients as a plain record: printed like R's summary, as HTML, a data frame or plain values."""

from __future__ import annotations

import dataclasses
import html
import math
import textwrap
from typing import Any

import numpy as np

from ..errors import UsageError
from ..onepass.inference import Inference, Test

WIDTH = 80  # columns of a terminal
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
    parts: dict[str, Summary] = dataclasses.field(default_factory=dict, repr=False)  # of several targets, by name

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
        if self.parts:
            raise UsageError(f"{what} is of one target: summary(target={next(iter(self.parts))!r})", where="target")
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
        lines = [*_wrapped(self.title), "", *self._table(), ""]
        if self.withheld:
            lines += _wrapped(f"No tests: {self.withheld}.")
        else:
            lines.append("Signif. codes: 0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1")
        for line in [*self._figure_lines(), *(f"Note: {note}." for note in self.notes)]:
            lines += _wrapped(line)
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
        whole = _aligned([head, *rows])
        if max(map(len, whole)) <= WIDTH or self.withheld:
            return ["Coefficients:", *whole]
        # Too wide for a terminal: the intervals go below, as R's confint gives them.
        upper, lower = ([[*row[:6]] for row in [head, *rows]], [[row[0], "", *row[6:]] for row in [head, *rows]])
        return ["Coefficients:", *_aligned(upper), "", "Intervals:", *_aligned(lower)]

    def _figure_lines(self) -> list[str]:
        if self.parts:
            return [f"{name}: {line}" for name, part in self.parts.items() for line in part._figure_lines()]
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
        if "dispersion" in f:
            lines.append(f"Dispersion (Pearson): {_number(f['dispersion'])}")
        shown = [
            f"{label}: {f[name]:.8g}"
            for name, label in (
                ("log_likelihood", "Log-likelihood"),
                ("null_log_likelihood", "Null log-likelihood"),
                ("aic", "AIC"),
                ("bic", "BIC"),
                ("deviance", "Deviance"),
                ("null_deviance", "Null deviance"),
                ("pseudo_r_squared", "Pseudo R-squared (McFadden)"),
            )
            if name in f
        ]
        if shown:
            lines.append(", ".join(shown))
        if "condition_number" in f:
            lines.append(f"Condition number: {f['condition_number']:.6g}")
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


def _aligned(rows: list[list[str]]) -> list[str]:
    """Lines of cells, the first and the marks on the left."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]

    def line(row: list[str]) -> str:
        cells = zip(row, widths, (c in (0, 5) for c in range(len(row))), strict=True)
        return " ".join(cell.ljust(w) if on_left else cell.rjust(w) for cell, w, on_left in cells).rstrip()

    return [line(row) for row in rows]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


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
