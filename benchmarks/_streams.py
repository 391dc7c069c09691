"""The streams that online learners are compared on: shipped with River and scikit-learn, and generated.

A stream is a list of (dict of features, label), in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Stream = list[tuple[dict[str, Any], Any]]


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
