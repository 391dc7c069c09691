"""What the frozen suite takes out of each command and class: one small reader each.

Where a later version lays out its JSON, its columns or its attributes in another way, the one reader here changes,
and no recorded number does.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

SHOWN = 12  # rows of predictions that are recorded, evenly spread


def run_command(*arguments: Any) -> tuple[int, str]:
    """(exit code, standard output) of a command in this process."""
    from trueline.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return code, out.getvalue() or err.getvalue()


def last_object(text: str) -> dict[str, Any]:
    """The last JSON object that a command printed."""
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {}


def command_error(text: str) -> dict[str, Any]:
    """Kind, place and row of a refusal."""
    error = last_object(text).get("error") or {}
    return _error(error.get("kind"), error.get("where"), str(error.get("message")))


def python_error(error: Exception) -> dict[str, Any]:
    """The same of an exception."""
    return _error(getattr(error, "kind", type(error).__name__), getattr(error, "where", None), str(error))


def _error(kind: Any, where: Any, message: str) -> dict[str, Any]:
    where = Path(where).name if where else None  # a file's name, without the folder
    row = re.search(r"\b(?:row|line) ([\d,]+)", message)
    return {"kind": kind, "where": where, "row": int(row.group(1).replace(",", "")) if row else None}


def fit_result(text: str) -> dict[str, Any]:
    """Of ``trueline fit --json``: coefficients, standard errors, status, the penalty and the cross-validation."""
    result = last_object(text)
    terms = result["coefficients"]
    errors = {t["term"]: t["std_error"] for t in terms}
    return {
        "coefficients": {t["term"]: t["estimate"] for t in terms},
        "std_errors": errors if any(v is not None for v in errors.values()) else None,
        "rows": result["n"],
        "alpha": result["alpha"],
        "figures": {
            k: result[k] for k in ("r_squared", "residual_std_error", "log_likelihood") if result[k] is not None
        },
        "cv_errors": {row["method"]: row["error"] for row in result["cross_validation"]},
        "holdout": result["holdout"]
        and {m["name"]: m["value"] for m in result["holdout"] if m["name"] != "calibration_error"},
        "status": result["certificate"]["status"],
    }


def stream_result(text: str) -> dict[str, Any]:
    """Of ``trueline stream --json``: total loss, examples, status."""
    result = last_object(text)
    certificate = result.get("certificate") or {}
    return {
        "loss": result["average_loss"] * result["weight"],
        "examples": result["counter"],
        "status": certificate.get("status"),
    }


def compare_result(text: str) -> dict[str, Any]:
    """Of ``trueline compare --json``: the cross-validated error of each method, streams apart."""
    methods = {m["method"]: m["cross_validated"] for m in last_object(text)["methods"]}
    return {
        "cv_errors": {k: v for k, v in methods.items() if not k.startswith("stream")},
        "stream_errors": {k: v for k, v in methods.items() if k.startswith("stream")},
    }


def evaluate_result(text: str) -> dict[str, float]:
    """Of ``trueline evaluate --json``: each measure."""
    return {m["name"]: m["value"] for m in last_object(text)["metrics"] if m["name"] != "calibration_error"}


def predicted(path: Path, header: bool = True) -> dict[str, Any]:
    """The columns of a file of predictions, at some rows; labels as text."""
    frame = pl.read_csv(path, has_header=header, infer_schema_length=None)
    names = [f"column {k}" for k in range(1, frame.width)] if frame.width > 2 else ["probability"]
    columns = dict(zip(["prediction", *names], frame.get_columns()))
    return {k: shown(v.to_numpy() if v.dtype.is_numeric() else v.to_list()) for k, v in columns.items()}


def shown(values: Any) -> list[Any]:
    """Some rows, evenly spread, as plain values."""
    if len(values) > SHOWN:
        values = [values[int(k)] for k in np.linspace(0, len(values) - 1, SHOWN)]
    return plain(values)


def plain(value: Any) -> Any:
    """JSON's own types; NaN as None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray, pl.Series)):
        return [plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.15g}") if np.isfinite(value) else None
    return value if value is None else str(value)


def fitted(model: Any, X: Any, *more: Any, summary: bool = False, **options: Any) -> dict[str, Any]:
    """Fit a class of trueline and read what it has: coefficients, predictions, probabilities, standard errors."""
    return estimated(model.fit(X, *more, **options), X, summary=summary)


def estimated(model: Any, X: Any, summary: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if (coef := getattr(model, "coef_", None)) is not None:
        result |= {"coefficients": coef, "intercept": model.intercept_}
    if X is not None and hasattr(model, "predict"):
        result["predictions"] = shown(np.asarray(model.predict(X)))
    if X is not None and hasattr(model, "predict_proba"):
        with contextlib.suppress(ValueError):  # a loss without probabilities
            result["probabilities"] = shown(np.asarray(model.predict_proba(X)))
    if summary:
        result["std_errors"] = summary_errors(model.summary())
    return result


def summary_errors(summary: Any) -> Any:
    return summary.std_errors
