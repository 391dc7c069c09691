"""Progressive error of trueline's default online learner on streams, beside River's and Vowpal Wabbit's linear models.

Raw features, nothing tuned, nothing scaled by hand. Each learner predicts a row before it sees its label. River:
StandardScaler, then its linear model, with its defaults and with the settings of its documentation (for several classes
the documentation has the defaults; the rate of its two-class example is tried as well). Vowpal Wabbit: its
defaults, with the loss that the task names. Mean absolute and root mean squared error for numbers, log loss for classes.
The streams that River ships come first, against each rival; further ones after, against the best rival of each.
"""

from __future__ import annotations

import collections
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .harness import Row

NAME = "Online learning with nothing to tune: progressive error on streams"
Stream = list[tuple[dict[str, Any], Any]]
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


# -- streams --------------------------------------------------------------------------------------------------------


def shipped(name: str) -> Stream | None:
    """A stream inside River's wheel, if this version of River has it."""
    from river import datasets

    return list(getattr(datasets, name)()) if hasattr(datasets, name) else None


def _named(X: np.ndarray, y: Any) -> Stream:
    names = [f"x{j}" for j in range(X.shape[1])]
    return [(dict(zip(names, map(float, row))), label) for row, label in zip(X, y)]


def further_numbers(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    """Streams of numbers: shipped with scikit-learn and River, and generated."""
    rng = np.random.default_rng

    def diabetes() -> Stream:
        from sklearn.datasets import load_diabetes

        data = load_diabetes(scaled=False)
        order = rng(0).permutation(len(data.target))
        return _named(data.data[order], data.target[order].tolist())

    def water() -> Stream:
        from river import datasets

        # The series' own last six values predict the next.
        series = [y for _, y in datasets.WaterFlow()]
        return [({f"lag{k}": series[i - k] for k in range(1, 7)}, series[i]) for i in range(6, len(series))]

    def airline() -> Stream:
        from river import datasets

        return [
            ({"month": float(x["month"].month), "year": float(x["month"].year)}, y)
            for x, y in datasets.AirlinePassengers()
        ]

    def solar() -> Stream:
        from river import datasets

        return [(x, float(sum(y.values()) if isinstance(y, dict) else y)) for x, y in datasets.SolarFlare()]

    def linear(scale: float = 1.0, offset: float = 0.0, noise: float = 0.5, label: float = 1.0) -> Stream:
        r = rng(1)
        X = r.normal(size=(n, 8)) * np.logspace(-2, 2, 8) * scale + offset
        w = r.normal(size=8) / (np.logspace(-2, 2, 8) * scale)
        return _named(X, ((X - offset) @ w * label + noise * label * r.normal(size=n) + 3 * label).tolist())

    def drifting(period: int = 0) -> Stream:
        r = rng(2)
        X = r.normal(size=(n, 5)) * [1, 10, 100, 0.1, 1] + [0, 5, -300, 0, 1]
        w = r.normal(size=5) / [1, 10, 100, 0.1, 1]
        out = []
        for i in range(n):
            w = (r.normal(size=5) / [1, 10, 100, 0.1, 1]) if period and i % period == 0 else w
            w = w + (0 if period else 0.02) * r.normal(size=5) / [1, 10, 100, 0.1, 1]
            out.append(float(X[i] @ w + 0.3 * r.normal()))
        return _named(X, out)

    def heavy() -> Stream:
        r = rng(3)
        X = r.standard_t(3, size=(n, 6))
        return _named(X, (X @ r.normal(size=6) + r.standard_t(2, size=n)).tolist())

    def outlier() -> Stream:
        stream = linear()
        stream[n // 3] = (stream[n // 3][0], 1e4)
        return stream

    def categories() -> Stream:
        r = rng(4)
        effect = r.normal(size=(2, 12)) * 3
        a, b, x = r.integers(0, 12, n), r.integers(0, 12, n), r.normal(size=n) * 1000
        y = effect[0, a] + effect[1, b] + 0.002 * x + 0.5 * r.normal(size=n)
        return [({"a": f"v{i}", "b": f"v{j}", "x": float(v)}, float(t)) for i, j, v, t in zip(a, b, x, y)]

    def autoregressive() -> Stream:
        r = rng(5)
        s = np.zeros(n + 3)
        for i in range(3, n + 3):
            s[i] = 1.2 * s[i - 1] - 0.5 * s[i - 2] + 0.2 * s[i - 3] + r.normal() + 0.2
        return _named(np.stack([s[2:-1], s[1:-2], s[:-3]], axis=1), s[3:].tolist())

    def walk() -> Stream:
        r = rng(6)
        s = np.cumsum(r.normal(size=n + 1)) + 500
        return _named(np.stack([s[:-1], r.normal(size=n)], axis=1), s[1:].tolist())

    def late() -> Stream:
        r = rng(7)
        X = r.normal(size=(n, 6)) * [1, 1, 50, 1, 1e-3, 1]
        y = X @ (np.array([1, -2, 1, 3, 2, 1]) / [1, 1, 50, 1, 1e-3, 1]) + 0.3 * r.normal(size=n)
        return [({f"x{j}": float(X[i, j]) for j in range(3 if i < n // 2 else 6)}, float(y[i])) for i in range(n)]

    def friedman() -> Stream:
        from river.datasets import synth

        return [({f"x{k}": v for k, v in x.items()}, y) for x, y in synth.Friedman(seed=8).take(n)]

    def sparse() -> Stream:
        r = rng(9)
        w = r.normal(size=2000) * (r.random(2000) < 0.1)
        out: Stream = []
        for _ in range(n):
            where = np.unique((2000 * r.random(20) ** 3).astype(int))
            out.append(({f"t{j}": 1.0 for j in where}, float(w[where].sum() + 0.2 * r.normal())))
        return out

    def wide() -> Stream:
        r = rng(10)
        X = r.normal(size=(n // 2, 350)) * 10 + 100
        w = np.zeros(350)
        w[:10] = r.normal(size=10)
        return _named(X, ((X - 100) @ w + 5 * r.normal(size=n // 2)).tolist())

    def counts() -> Stream:
        r = rng(11)
        X = r.normal(size=(n, 4))
        return _named(X * [1, 1e3, 1, 1], r.poisson(np.exp(0.5 + X @ [0.5, -0.4, 0.3, 0.0])).astype(float).tolist())

    yield "diabetes (442×10)", diabetes
    yield "WaterFlow, six lags", water
    yield "AirlinePassengers (144×2)", airline
    yield "SolarFlare (strings)", solar
    yield "linear, scales 1e-2 to 1e2", linear
    yield "linear, everything × 1e-6", lambda: linear(1e-6, 0.0, 0.5, 1e-6)
    yield "linear, everything × 1e6", lambda: linear(1e6, 0.0, 0.5, 1e6)
    yield "linear, columns + 1e5", lambda: linear(1.0, 1e5)
    yield "linear, mostly noise", lambda: linear(1.0, 0.0, 20.0)
    yield "slow drift", drifting
    yield "new weights every 400", lambda: drifting(400)
    yield "heavy tails (t₃ rows, t₂ noise)", heavy
    yield "one label of 1e4", outlier
    yield "two categories × 12 and a number", categories
    yield "autoregression of order 3", autoregressive
    yield "random walk", walk
    yield "columns that appear half-way", late
    yield "Friedman", friedman
    yield "sparse, 2,000 words", sparse
    yield "dense, 350 columns", wide
    yield "counts", counts


def further_classes(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    """Streams of classes: shipped with scikit-learn and River, and generated."""
    rng = np.random.default_rng

    def sklearn(name: str) -> Callable[[], Stream]:
        def made() -> Stream:
            from sklearn import datasets

            data = getattr(datasets, f"load_{name}")()
            order = rng(0).permutation(len(data.target))
            return _named(data.data[order], data.target[order].tolist())

        return made

    def river(name: str) -> Callable[[], Stream]:
        def made() -> Stream:
            from river import datasets

            return list(itertools.islice(getattr(datasets, name)(), 3 * n))

        return made

    def synthetic(name: str, **settings: Any) -> Callable[[], Stream]:
        def made() -> Stream:
            from river.datasets import synth

            return [({str(k): v for k, v in x.items()}, y) for x, y in getattr(synth, name)(**settings).take(n)]

        return made

    def logistic(scale: float = 1.0, drift: bool = False, strength: float = 1.0) -> Stream:
        r = rng(12)
        units = np.logspace(-2, 2, 6) * scale
        X = r.normal(size=(n, 6))
        w = r.normal(size=6) * strength
        y = []
        for i in range(n):
            w = r.normal(size=6) * strength if drift and i % 500 == 0 else w
            y.append(bool(r.random() < 1 / (1 + math.exp(-(X[i] @ w)))))
        return _named(X * units + 3 * units, y)

    def separable() -> Stream:
        r = rng(13)
        X = r.normal(size=(n, 10))
        return _named(X, (X @ r.normal(size=10) > 0).tolist())

    def imbalanced() -> Stream:
        r = rng(14)
        X = r.normal(size=(n, 5)) * [1, 100, 1, 1, 1]
        return _named(X, (r.random(n) < 1 / (1 + np.exp(4 - X[:, 0] - X[:, 1] / 100))).tolist())

    def sticky() -> Stream:
        r = rng(15)
        y = np.cumsum(r.random(n) < 0.05) % 3
        return _named(r.normal(size=(n, 4)) + 0.5 * y[:, None], [f"state {k}" for k in y])

    def categories() -> Stream:
        r = rng(16)
        effect = r.normal(size=(2, 10)) * 1.5
        a, b = r.integers(0, 10, n), r.integers(0, 10, n)
        p = 1 / (1 + np.exp(-effect[0, a] - effect[1, b]))
        return [({"a": f"v{i}", "b": f"v{j}"}, bool(t)) for i, j, t in zip(a, b, r.random(n) < p)]

    def words() -> Stream:
        r = rng(17)
        w = r.normal(size=1500) * (r.random(1500) < 0.2)
        out: Stream = []
        for _ in range(n):
            where = np.unique((1500 * r.random(25) ** 3).astype(int))
            out.append(({f"t{j}": 1.0 for j in where}, bool(r.random() < 1 / (1 + math.exp(-2 * w[where].sum())))))
        return out

    yield "iris (150×4)", sklearn("iris")
    yield "wine (178×13)", sklearn("wine")
    yield "breast cancer (569×30)", sklearn("breast_cancer")
    yield "digits (1,797×64)", sklearn("digits")
    yield "SEA", synthetic("SEA", seed=1)
    yield "Hyperplane, drifting", synthetic("Hyperplane", seed=2, mag_change=0.01, n_drift_features=4)
    yield "RandomRBF, five classes", synthetic("RandomRBF", seed_model=3, seed_sample=3, n_classes=5)
    yield "LED", synthetic("LED", seed=4)
    yield "Waveform", synthetic("Waveform", seed=5)
    yield "Agrawal", synthetic("Agrawal", seed=6)
    yield "Sine", synthetic("Sine", seed=7)
    yield "logistic, scales 1e-2 to 1e2", logistic
    yield "logistic, × 1e-6", lambda: logistic(1e-6)
    yield "logistic, × 1e6", lambda: logistic(1e6)
    yield "logistic, new weights every 500", lambda: logistic(1.0, True, 2.0)
    yield "separable", separable
    yield "2 % positive", imbalanced
    yield "three sticky states", sticky
    yield "two categories × 10", categories
    yield "sparse, 1,500 words", words


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
    for regression, streams in ((True, further_numbers(n)), (False, further_classes(n))):
        for name, make in streams:
            figures = measure(make(), regression)
            for metric, ours in figures["trueline"].items():
                rival = min(list(figures)[1:], key=lambda r: figures[r][metric])
                row = Row(f"{name}, {metric}", ours, figures[rival][metric], rival, "", 1.0, "best rival")
                rows.append(row)
                lost[metric] += row.ratio < 1.0
                print(
                    f"{name}, {metric}: {ours:.4g}, {rival} {row.theirs:.4g}{'   LOST' if row.ratio < 1 else ''}",
                    flush=True,
                )
    for metric, count in lost.items():
        total = sum(row.note == "best rival" and row.task.endswith(f", {metric}") for row in rows)
        print(f"further streams, {metric}: {total - count} won, {count} lost", flush=True)
    return rows
