"""From what a command found to the report's story: which figures, which words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..report import figures
from ..report.html import Picture, Story
from ..report.regret import compared
from ..report.text import number

CLASSES = 8  # pictures of coefficients at most, one a class


def fit_story(fitted: Any, source: str, command: str) -> Story:
    """The report of a fit."""
    from .fit import statistics, title
    from .telling import linear_rows

    rows = linear_rows(fitted.record)
    proof = fitted.record.certificate.to_dict() if fitted.record.certificate is not None else None
    known = statistics(fitted)
    facts = [("rows", f"{fitted.n:,}"), ("terms", f"{len(fitted.record.terms):,}")]
    for name, label in (
        ("r_squared", "R²"),
        ("residual_std_error", "residual std. error"),
        ("deviance", "deviance"),
        ("aic", "AIC"),
    ):
        if known[name] is not None:
            facts.append((label, number(known[name]).rstrip(".")))
    if proof and proof.get("digits") is not None:
        facts.append(("correct digits", f"{proof['digits']:.1f}"))
    if proof and proof.get("relative_gap") is not None:
        facts.append(("relative gap", f"{proof['relative_gap']:.1e}" if proof["relative_gap"] else "0"))
    facts.append(("seconds", f"{sum(fitted.seconds.values()):.2f}"))
    text = title(fitted)
    return Story(
        title=f"{fitted.target} from {source.rpartition('/')[2]}",
        lead=f"{text[:1].upper()}{text[1:]}.",
        facts=facts[:6],
        certificate=proof,
        coefficients=rows,
        pictures=[*coefficient_picture(fitted, rows), *sample_pictures(fitted), *penalty_pictures(fitted)],
        notes=fitted.notes,
        tables=[*penalty_table(fitted), *holdout_table(fitted)],
        command=command,
    )


def coefficient_picture(fitted: Any, rows: list[dict[str, Any]]) -> list[Picture]:
    if not len(fitted.record.terms):
        return []
    if np.ndim(fitted.record.coef) != 1:
        return class_pictures(fitted)
    record = fitted.record
    what = {"logistic": "the log-odds of", "sign": "the score of", "log": "the logarithm of"}.get(record.link, "")
    what = f"{what} {record.classes[-1] if record.classes else fitted.target}".strip()
    caption = (
        "Each coefficient times the standard deviation of its column, so that columns in different units compare. "
    )
    if any(row["low"] is not None for row in rows):
        caption += "Lines are 95 % intervals; grey ones include zero."
    counted = sum(bool(row["estimate"]) for row in rows if row["term"] != "(intercept)")
    if counted > figures.SHOWN:
        caption += f" The {figures.SHOWN} largest of {counted:,}."
    if 0 < counted < len(rows) - 1:
        caption += f" {len(rows) - 1 - counted:,} of the {len(rows) - 1:,} are 0 and not drawn."
    return [Picture("Coefficients", figures.coefficients(rows, fitted.scales, what), caption)]


def class_pictures(fitted: Any) -> list[Picture]:
    """The coefficients of each class, or of each target."""
    record = fitted.record
    caption = "Each coefficient times the standard deviation of its column, so that columns in different units compare."
    return [
        Picture(
            f"Coefficients: {label}",
            figures.coefficients(
                [{"term": term, "estimate": float(value)} for term, value in zip(record.terms, row)],
                fitted.scales,
                f"the score of {label}",
            ),
            caption,
        )
        for label, row in list(zip(record.classes or record.targets, record.coef))[:CLASSES]
    ]


def sample_pictures(fitted: Any) -> list[Picture]:
    """Fitted against observed, residuals, their quantiles and sizes, or what becomes of classes; of a sample of rows."""
    if fitted.sample is None or not len(fitted.sample[0]):
        return []
    seen, y = fitted.sample
    shown, record = len(seen), fitted.record
    how = "evenly spaced in their order" if fitted.moments is None else "chosen by hash in the same scan"
    said = "All rows." if shown >= fitted.n else f"A sample of {shown:,} of the {fitted.n:,} rows, {how}."
    if record.classes:
        return class_samples(record, seen, y, said)
    if np.ndim(seen) != 1:
        return []
    residual = y - seen
    counts = record.link == "log"
    scaled = residual / np.sqrt(np.maximum(seen, 1e-300)) if counts else residual
    fit = "the dashed line is where both are equal" if counts else "On the dashed line, the fit is right"
    bend = f"A bend of the {'mean' if counts else 'median'} says that a straight line is not enough; a funnel, that the noise grows{' faster than a count should' if counts else ''}."
    normal = Picture("Residuals against a normal distribution", figures.quantiles(residual), f"Points on the dashed line are normal; ends that bend away are heavy or light tails. {said}", False)  # fmt: skip
    return [
        Picture("Fitted against observed", figures.observed(seen, y, fitted.target), f"{fit[:1].upper()}{fit[1:]}. {said}", False),
        Picture("Residuals", figures.residuals(seen, scaled, fitted.target, counts), f"{bend} {said}", False),
        *([] if counts else [normal]),
        Picture("How large the errors are", figures.sizes(residual, fitted.target), f"The share of rows that the fit predicts to within so much; the largest hundredth is not drawn. {said}", False),
    ]  # fmt: skip


def class_samples(record: Any, seen: np.ndarray, y: np.ndarray, said: str) -> list[Picture]:
    """What becomes of the classes: calibration and probabilities of two, which is taken for which of several."""
    names = list(map(str, record.classes))
    if record.link == "logistic":
        outcome = (y == record.classes[-1]).astype(float)
        return [
            Picture("Calibration", figures.calibration(seen, outcome, names[-1]), f"About ten groups of equal size, equal probabilities in one; lines are 95 % intervals. On the dashed line, predictions mean what they say. {said}", False),
            Picture("Predicted probabilities", figures.scores(seen, outcome.astype(int), (names[0], names[-1])), f"The further apart, the better the classes are told from each other. {said}", False),
        ]  # fmt: skip
    if not 2 <= len(names) <= figures.CONFUSED:
        return []
    codes = np.searchsorted(np.asarray(record.classes), y)
    chosen = seen.argmax(axis=1) if np.ndim(seen) == 2 else (seen > 0).astype(int)
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (codes, chosen), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    right = float((codes == chosen).mean())
    caption = f"Of each observed class, the share that is predicted as each; {right:.1%} of the rows are right.".replace("%", " %")  # fmt: skip
    return [
        Picture("Which class is taken for which", figures.confusion(shares, names), f"{caption} {said}", len(names) > 6)
    ]


def penalty_pictures(fitted: Any) -> list[Picture]:
    """Paths and cross-validation curves."""
    made = []
    for path in fitted.paths:
        caption = "Coefficients times the deviation of their columns, as the penalty falls; the dashed line is the penalty that cross-validation chose."
        drawn = figures.path(path["alphas"], path["coefs"], fitted.record.terms, path["best"], path["name"])
        made.append(Picture(f"{path['name'].capitalize()} path", drawn, caption))
    curves = [c for c in fitted.curves if len(c["alphas"])]
    if curves:
        loss = "root mean squared error" if fitted.loss == "squared" else "mean loss"
        curves = [rooted(c) for c in curves] if fitted.loss == "squared" else curves
        caption = f"The {loss} on rows left out, over the folds of the same scan; bands are one standard error, dots the best."
        short = "RMSE" if fitted.loss == "squared" else loss
        made.append(Picture("Cross-validation", figures.cross_validation(curves, short), caption))
    return made


def rooted(curve: dict[str, Any]) -> dict[str, Any]:
    """A curve of squared errors in the target's own unit, as the table beside it has them."""
    mean = np.sqrt(curve["mean"])
    error = curve["error"] / np.maximum(2.0 * mean, 1e-300)
    level = curve.get("level")
    return curve | {"mean": mean, "error": error, "level": None if level is None else float(np.sqrt(level))}


def penalty_table(fitted: Any) -> list[tuple[str, list[str], list[list[str]]]]:
    if not fitted.cross_validation:
        return []
    rows = [
        [
            row["method"],
            number(row["alpha"], 4) if row["alpha"] else "–",
            number(row["error"]),
            number(row["std_error"], 3),
            str(row["nonzero"]),
        ]
        for row in fitted.cross_validation
    ]
    error = "root mean squared error" if fitted.loss == "squared" else "mean loss"
    return [("Cross-validated comparison", ["method", "alpha", error, "std. error", "columns kept"], rows)]


def holdout_table(fitted: Any) -> list[tuple[str, list[str], list[list[str]]]]:
    from .evaluate import metric_name

    if not fitted.holdout:
        return []
    rows = [[metric_name(m["name"]), *(number(m[k]) for k in ("value", "low", "high"))] for m in fitted.holdout]
    return [(f"On {fitted.held:,} rows held out", ["measure", "value", "95 % from", "to"], rows)]


def stream_story(told: dict[str, Any], source: str, command: str) -> Story:
    """The report of a stream."""
    rows, last = told["rows"], told["final"]
    if not rows or rows[-1]["counter"] != last["counter"]:
        rows = [*rows, last]
    facts = [("examples", f"{last['counter']:,}"), ("average loss", number(last["average_loss"]).rstrip("."))]
    against = "best member" if compared(rows)[0] == "best_member_loss" else "best fixed weights"
    for key, label in (("regret", f"regret to {against}"), ("bound", "bound")):
        if last.get(key) is not None and np.isfinite(last[key]):
            facts.append((label, number(last[key]).rstrip(".")))
    caption = "Each example is predicted before its label is seen."
    if last.get("regret") is not None:
        caption += f" The shaded area is the regret: what learning on the way has cost against the {against}."
    return Story(
        title=f"{told['target']} from {source.rpartition('/')[2]}",
        lead=f"{told['learner']}, learned row by row.",
        facts=facts,
        certificate=last.get("certificate"),
        coefficients=told["coefficients"],
        pictures=[Picture("Learning curve", figures.learning(rows), caption)] if len(rows) > 1 else [],
        tables=[progress_table(rows)],
        command=command,
    )


def progress_table(rows: list[dict[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    best = compared(rows)[0]
    keys = ("average_loss", "since_last", best, "regret", "bound")
    body = [[f"{row['counter']:,}", *(number(row.get(key)) for key in keys)] for row in rows]
    return "Progress", ["examples", "average loss", "since last", best.replace("_", " "), "regret", "bound"], body
