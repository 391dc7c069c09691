"""``trueline fit``: a table to a model in one line."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from ..errors import UsageError
from . import options
from .declare import Option


def fit(
    data: options.Source,
    target: options.Target = None,
    features: options.Features = None,
    formula: Annotated[
        str | None, Option(help='Terms as a formula, such as "y ~ poly(x, 3) + log(z)".', show_default=False)
    ] = None,
    intercept: options.Intercept = True,
    weights: options.Weights = None,
    where: options.Where = None,
    derive: options.Derive = None,
    missing: options.Missing = "refuse",
    loss: Annotated[
        str | None,
        Option(
            help="squared, huber, absolute, quantile, logistic, hinge, squared_hinge or poisson; default: logistic for a target of 0 and 1, booleans or words, squared for other numbers.",
            show_default=False,
        ),
    ] = None,
    penalty: Annotated[str, Option(help="none, ridge, lasso or elastic.")] = "none",
    alpha: Annotated[str, Option(help="The penalty's strength, or cv to choose it by cross-validation.")] = "cv",
    l1_ratio: Annotated[float, Option(help="The share of lasso in the elastic net.")] = 0.5,
    folds: Annotated[int, Option(help="Folds of the cross-validation.")] = 5,
    holdout: Annotated[
        float | None,
        Option(help="Keep this share of the rows out, and measure the fit on them.", show_default=False),
    ] = None,
    output: Annotated[str | None, Option("--output", "-o", help="Save the model here.", show_default=False)] = None,
    report: Annotated[str | None, Option(help="Write a report here: one HTML file.", show_default=False)] = None,
    engine: Annotated[
        str | None,
        Option(help="Let Dask or Spark read the files: dask or spark; default: this process.", show_default=False),
    ] = None,
    scheduler: Annotated[
        str | None, Option(help="Dask's scheduler, such as tcp://host:8786.", show_default=False)
    ] = None,
    master: Annotated[str | None, Option(help="Spark's master, such as local[2].", show_default=False)] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Fit a linear model to a table in one scan.

    Prints the coefficients with their intervals, how well they fit, what is proven, and, for squared loss, what ridge
    and lasso would do, from the same scan. A target of 0 and 1, booleans or words gets logistic regression.

    [bold]Examples[/bold]

    trueline fit houses.csv --target price

    trueline fit trips.parquet -t fare --derive "far=ln(distance+1)" --where "distance > 0" -o m.tl --report m.html

    trueline fit loans.csv -t defaulted --penalty lasso --holdout 0.2
    """
    from .fitting import Asked
    from .fitting import fit as run
    from .output import check_apart, check_place

    check_apart((output, report), data)
    for path in (output, report):
        check_place(path)
    asked = Asked(
        options.one_source(data), target, options.names(features), formula, weights, where, options.derivations(derive),
        missing, intercept, loss, penalty, alpha, l1_ratio, folds, options.share(holdout, "holdout"),
    )  # fmt: skip
    if engine is not None or scheduler is not None or master is not None:
        for option in options.BESIDE:
            if options.beside(data, option) is not None:
                raise UsageError(
                    f"--{option} does not go with --engine; convert the files, or leave it out", where="engine"
                )
        from .elsewhere import fit_elsewhere

        shown = sys.stderr.isatty() and not (quiet or json)
        named = engine or ("dask" if scheduler is not None else "spark")
        fitted = fit_elsewhere(asked, named, scheduler, master, shown)
    else:
        if loss == "logistic":
            options.check_classes(asked.source, target, where, asked.derive)
        fitted = run(asked)
    kept(fitted, data, output, report, asked.holdout)
    from .console import emit, show

    if json:
        emit(record(fitted, output, report))
    elif not quiet:
        show(told(fitted))
        said(output, report)


def kept(fitted: Any, data: list[str], output: str | None, report: str | None, holdout: float | None = None) -> None:
    """Write the model and the report."""
    from .command import command_line

    if output is not None:
        from ..model import save

        if holdout is not None:  # what a verifier needs to leave the same rows out
            fitted.record.statistics["holdout"] = holdout
        save(fitted.record, output, source=", ".join(data), command=command_line())
    if report is not None:
        from ..report.html import page
        from .output import write_text
        from .story import fit_story

        write_text(report, page(fit_story(fitted, ", ".join(data), command_line())))


def said(output: str | None, report: str | None) -> None:
    from .console import paint, say

    if output is not None:
        say(paint(f"model in {output}", "dim", sys.stderr))
    if report is not None:
        say(paint(f"report in {report}", "dim", sys.stderr))


def statistics(fitted: Any) -> dict[str, float | None]:
    """R², residual standard error and what else the summary knows."""
    from ..report.summary import summarise

    figures = dict(summarise(fitted.record).figures) if has_summary(fitted.record) else {}
    return {
        name: figures.get(name)
        for name in (
            "r_squared",
            "adjusted_r_squared",
            "residual_std_error",
            "aic",
            "bic",
            "deviance",
            "log_likelihood",
        )
    }


def has_summary(record: Any) -> bool:
    return record.statistics.get("family") == "least squares" or "covariance" in record.statistics


def record(fitted: Any, output: str | None = None, report: str | None = None) -> dict[str, Any]:
    """The JSON object of a fit."""
    from .telling import linear_rows

    rows = linear_rows(fitted.record)
    known = statistics(fitted)
    proof = fitted.record.certificate
    return {
        "n": fitted.n,
        "target": fitted.target,
        "columns": [] if fitted.record.schema is None else fitted.record.schema.detected,
        "loss": fitted.loss,
        "penalty": fitted.penalty,
        "alpha": fitted.alpha,
        "coefficients": rows,
        "intercept": next((row["estimate"] for row in rows if row["term"].startswith("(intercept)")), None),
        "classes": list(fitted.record.classes),
        **known,
        "certificate": None if proof is None else proof.to_dict(),
        "cross_validation": fitted.cross_validation,
        "holdout": fitted.holdout,
        "notes": fitted.notes,
        "seconds": fitted.seconds,
        "model": output,
        "report": report,
    }


def title(fitted: Any) -> str:
    """What was fitted, in a line."""
    from .penalised import strength

    how = {"squared": "least squares", "logistic": "logistic regression"}.get(
        fitted.loss, f"{fitted.loss.replace('_', ' ')} loss"
    )
    penalty = {"none": "", "ridge": "ridge, ", "lasso": "lasso, ", "elastic": "elastic net, "}[fitted.penalty]
    alpha = "" if fitted.alpha is None else f", alpha {strength(fitted.alpha, 4)}"
    return f"{penalty}{how}{alpha}: {fitted.target} on {len(fitted.record.terms)} terms, {fitted.n:,} rows"


def told(fitted: Any) -> str:
    """The fit as text."""
    from ..report.text import number
    from .console import paint, width
    from .evaluate import told as metrics_table
    from .telling import certificate_text, coefficient_table, linear_rows, wrapped

    room = width()
    text = title(fitted)
    head = wrapped(text[:1].upper() + text[1:], room)
    lines = [*(paint(line, "bold") for line in head), "", coefficient_table(linear_rows(fitted.record), room), ""]
    names = {
        "r_squared": "R²",
        "adjusted_r_squared": "adjusted R²",
        "residual_std_error": "residual std. error",
        "deviance": "deviance",
        "aic": "AIC",
    }
    figures = statistics(fitted)
    shown = [
        f"{label} {number(figures[name]).rstrip('.')}" for name, label in names.items() if figures[name] is not None
    ]
    if shown:
        lines += wrapped(", ".join(shown), room)
    lines += wrapped(certificate_text(fitted.record.certificate.to_dict()), room) if fitted.record.certificate else []
    for note in fitted.notes:
        lines += wrapped(note, room)
    if fitted.holdout:
        lines += ["", metrics_table(fitted.holdout, fitted.held, f"{fitted.target}, held out")]
    return "\n".join(lines)
