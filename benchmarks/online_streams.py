"""Progressive error of trueline's default online learner on streams, beside River's and Vowpal Wabbit's linear models.

Raw features, nothing tuned, nothing scaled by hand. Each learner predicts a row before it sees its label. River:
StandardScaler, then its linear model, with its defaults and with the settings of its documentation (for several classes
the documentation has the defaults; the rate of its two-class example is tried as well). Vowpal Wabbit: its
defaults, with the loss that the task names. Mean absolute and root mean squared error for numbers, log loss for classes.
The streams that River ships come first, against each rival; further ones after, against the best rival of each. Those
marked "held out" were not looked at while the mixture's members were chosen.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ._more_classes import check_classes, design_classes
from ._more_numbers import check_numbers, design_numbers
from ._streams import Stream, further_classes, further_numbers, shipped
from .harness import Row

NAME = "Online learning with nothing to tune: progressive error on streams"
SHIPPED = ("TrumpApproval", "ChickWeights", "SP500Stocks", "Phishing", "Bananas", "ImageSegments")
NUMBERS = ("TrumpApproval", "ChickWeights", "SP500Stocks")
LEAST = 1e-15  # probabilities are kept this far from 0, for everybody


# -- learners: each gives predictions made before the label is learned ---------------------------------------------


def trueline_numbers(stream: Stream) -> np.ndarray:
    import trueline as tl

    model = tl.OnlineRegressor()
    return np.array([_twice(model, x, y) for x, y in stream])


def _twice(model: Any, x: dict[str, Any], y: float) -> float:
    prediction = model.predict_one(x)
    model.learn_one(x, y)
    return float(prediction)


def trueline_classes(stream: Stream, classes: list[Any]) -> np.ndarray:
    import trueline as tl

    model = tl.OnlineClassifier(classes=classes)
    out = []
    for x, y in stream:
        # Before the first label it says nothing, which counts as all classes alike.
        out.append(float(model.predict_proba_one(x).get(y, 1.0 / len(classes))))
        model.learn_one(x, y)
    return np.array(out)


def _one_hot(x: dict[str, Any]) -> dict[str, float]:
    return {
        (f"{name}={value}" if isinstance(value, str) else name): (1.0 if isinstance(value, str) else float(value))
        for name, value in x.items()
    }


def river_numbers(stream: Stream, **settings: Any) -> np.ndarray:
    from river import linear_model, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LinearRegression(**settings)
    out = []
    for x, y in stream:
        row = _one_hot(x)
        out.append(model.predict_one(row))
        model.learn_one(row, y)
    return np.array(out, dtype=float)


def river_classes(stream: Stream, classes: list[Any], documented: bool = False) -> np.ndarray:
    from river import linear_model, optim, preprocessing

    if len(classes) == 2:
        linear = linear_model.LogisticRegression(**({"optimizer": optim.SGD(0.1)} if documented else {}))
    else:
        linear = linear_model.SoftmaxRegression(**({"optimizer": optim.SGD(0.1)} if documented else {}))
    model = preprocessing.StandardScaler() | linear
    code = {label: (bool(k) if len(classes) == 2 else k) for k, label in enumerate(classes)}
    out = []
    for x, y in stream:
        row = _one_hot(x)
        out.append(model.predict_proba_one(row).get(code[y], 0.0))
        model.learn_one(row, code[y])
    return np.array(out, dtype=float)


def _vowpal_text(x: dict[str, Any]) -> str:
    return " ".join(f"{re.sub('[^A-Za-z0-9_=.-]', '_', name)}:{value!r}" for name, value in _one_hot(x).items())


def vowpal_numbers(stream: Stream) -> np.ndarray:
    import vowpalwabbit

    learner = vowpalwabbit.Workspace("--quiet")
    out = []
    for x, y in stream:
        example = learner.example(f"{float(y)!r} | {_vowpal_text(x)}")
        learner.learn(example)
        out.append(example.get_simplelabel_prediction())
        learner.finish_example(example)
    learner.finish()
    return np.array(out, dtype=float)


def vowpal_classes(stream: Stream, classes: list[Any]) -> np.ndarray:
    import vowpalwabbit

    K = len(classes)
    many = f"--oaa {K} --probabilities" if K > 2 else "--link logistic"
    learner = vowpalwabbit.Workspace(f"--quiet --loss_function logistic {many}")
    code = {label: k for k, label in enumerate(classes)}
    out = []
    for x, y in stream:
        k = code[y]
        text = _vowpal_text(x)
        chance = learner.predict(f"| {text}")
        out.append(chance[k] if K > 2 else (chance if k == 1 else 1.0 - chance))
        learner.learn(f"{k + 1 if K > 2 else 2 * k - 1} | {text}")
    learner.finish()
    return np.array(out, dtype=float)


# -- the table ------------------------------------------------------------------------------------------------------


def numbers_rivals() -> dict[str, Callable[[Stream], np.ndarray]]:
    return {
        "River, default": river_numbers,
        "River, documented": lambda stream: river_numbers(stream, intercept_lr=0.1),
        "Vowpal Wabbit": vowpal_numbers,
    }


def classes_rivals() -> dict[str, Callable[[Stream, list[Any]], np.ndarray]]:
    return {
        "River, default": river_classes,
        "River, documented": lambda stream, classes: river_classes(stream, classes, documented=True),
        "Vowpal Wabbit": vowpal_classes,
    }


def errors(stream: Stream, predictions: np.ndarray) -> dict[str, float]:
    gap = np.array([float(y) for _, y in stream]) - np.clip(predictions, -1e150, 1e150)
    return {"MAE": float(np.abs(gap).mean()), "RMSE": float(np.sqrt((gap * gap).mean()))}


def log_loss(chances: np.ndarray) -> dict[str, float]:
    return {"log loss": float(-np.log(np.clip(np.nan_to_num(chances), LEAST, 1.0)).mean())}


def measure(stream: Stream, regression: bool) -> dict[str, dict[str, float]]:
    """Every learner's figures on one stream."""
    if regression:
        out = {"trueline": errors(stream, trueline_numbers(stream))}
        return out | {name: errors(stream, run(stream)) for name, run in numbers_rivals().items()}
    classes = sorted({y for _, y in stream})
    out = {"trueline": log_loss(trueline_classes(stream, classes))}
    return out | {name: log_loss(run(stream, classes)) for name, run in classes_rivals().items()}


def run(quick: bool) -> list[Row]:
    rows: list[Row] = []
    lost = collections.Counter()
    for name in SHIPPED:
        stream = shipped(name)
        if stream is None:
            print(f"{name}: not in this version of River; left out", flush=True)
            continue
        figures = measure(stream[:300] if quick else stream, name in NUMBERS)
        for metric, ours in figures["trueline"].items():
            for rival in list(figures)[1:]:
                rows.append(Row(f"{name}, {metric}", ours, figures[rival][metric], rival, "", 1.0))
    n = 300 if quick else 2000
    for regression, streams, note in (
        (True, further_numbers(n), "best rival"),
        (True, design_numbers(n), "best rival"),
        (True, check_numbers(n), "best rival; held out"),
        (False, further_classes(n), "best rival"),
        (False, design_classes(n), "best rival"),
        (False, check_classes(n), "best rival; held out"),
    ):
        for name, make in streams:
            figures = measure(make(), regression)
            for metric, ours in figures["trueline"].items():
                rival = min(list(figures)[1:], key=lambda r: figures[r][metric])
                row = Row(f"{name}, {metric}", ours, figures[rival][metric], rival, "", 1.0, note)
                rows.append(row)
                lost[metric] += row.ratio < 1.0
                print(
                    f"{name}, {metric}: {ours:.4g}, {rival} {row.theirs:.4g}{'   LOST' if row.ratio < 1 else ''}",
                    flush=True,
                )
    for metric, count in lost.items():
        total = sum(row.note.startswith("best rival") and row.task.endswith(f", {metric}") for row in rows)
        print(f"further streams, {metric}: {total - count} won, {count} lost", flush=True)
    return rows
