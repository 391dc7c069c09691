"""More streams of numbers, unlike those of _streams.py: other generators and seeds, seasons, counts, outliers, rare names, few rows.

``design_numbers`` were looked at while the mixture's members were chosen, ``check_numbers`` only afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._streams import Stream, _named

rng = np.random.default_rng


def _synthetic(name: str, n: int, **settings: Any) -> Stream:
    from river.datasets import synth

    return [({str(k): v for k, v in x.items()}, y) for x, y in getattr(synth, name)(**settings).take(n)]


def _sklearn(name: str, seed: int = 0, **settings: Any) -> Stream:
    from sklearn import datasets

    X, y = getattr(datasets, f"make_{name}")(random_state=seed, **settings)
    return _named(X, y.tolist())


def seasonal(n: int, seed: int = 20, period: int = 12, growth: float = 0.01) -> Stream:
    r = rng(seed)
    t = np.arange(n + period)
    s = 100 + growth * t + 20 * np.sin(2 * np.pi * t / period) * (1 + t / n) + 3 * r.normal(size=n + period)
    return [
        ({f"lag{k}": float(s[i - k]) for k in range(1, period + 1)}, float(s[i])) for i in range(period, n + period)
    ]


def rare_counts(n: int, seed: int = 21) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 6))
    y = r.poisson(np.exp(-2.0 + X @ [0.8, -0.5, 0.3, 0.0, 0.0, 0.0]))
    return _named(X, y.astype(float).tolist())


def heteroscedastic(n: int, seed: int = 22) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 5))
    return _named(X, (X @ [1, -1, 2, 0, 0] + np.exp(1.5 * X[:, 0]) * r.normal(size=n)).tolist())


def repeated(n: int, seed: int = 23) -> Stream:
    r = rng(seed)
    Z = r.normal(size=(n, 4))
    X = np.hstack([Z, Z, np.full((n, 2), 7.0), Z[:, :1] * 1e-9 + Z[:, 1:2]])
    return _named(X, (Z @ [1, 2, -1, 0.5] + 0.5 * r.normal(size=n)).tolist())


def levels(n: int, seed: int = 24, count: int = 3000) -> Stream:
    r = rng(seed)
    effect = r.normal(size=count) * 2
    where = np.minimum((r.pareto(0.8, size=n) * 5).astype(int), count - 1)
    x = r.normal(size=n)
    y = effect[where] + x + 0.5 * r.normal(size=n)
    return [({"shop": f"s{k}", "x": float(v)}, float(t)) for k, v, t in zip(where, x, y)]


def rare_keys(n: int, seed: int = 25) -> Stream:
    r = rng(seed)
    w = r.normal(size=120) * 2
    out: Stream = []
    for _ in range(n):
        row = {"a": float(r.normal()), "b": float(r.normal() * 100)}
        y = row["a"] + row["b"] / 100
        for k in range(120):
            if r.random() < 0.01:
                row[f"k{k}"] = float(r.normal())
                y += w[k] * row[f"k{k}"]
        out.append((row, float(y + 0.3 * r.normal())))
    return out


def far(n: int, seed: int = 26) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 4)) * 10 + 1e4
    return _named(X, (1e8 + (X - 1e4) @ [0.1, -0.2, 0.3, 0.0] + r.normal(size=n)).tolist())


def tiny_diabetes(rows: int = 30, start: int = 0) -> Stream:
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    return _named(data.data[start : start + rows], data.target[start : start + rows].tolist())


def lognormal(n: int, seed: int = 27) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 5))
    return _named(X, np.exp(1.0 + X @ [0.5, 0.5, -0.3, 0, 0] + 0.8 * r.normal(size=n)).tolist())


def claims(n: int, seed: int = 28) -> Stream:
    r = rng(seed)
    kind = r.integers(0, 8, n)
    region = r.integers(0, 20, n)
    age = r.integers(18, 80, n)
    chance = 0.05 + 0.02 * kind / 8 + 0.1 * (age < 25)
    y = np.where(r.random(n) < chance, r.gamma(2.0, 500.0, size=n), 0.0)
    return [
        ({"kind": f"k{a}", "region": f"r{b}", "age": float(c)}, float(t)) for a, b, c, t in zip(kind, region, age, y)
    ]


def zero_one(n: int, seed: int = 29) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 6))
    return _named(X, (r.random(n) < 1 / (1 + np.exp(1 - X @ [1, 1, 0, 0, 0, 0.5]))).astype(float).tolist())


def indicators(n: int, seed: int = 30, often: float = 0.02) -> Stream:
    r = rng(seed)
    X = (r.random((n, 60)) < often).astype(float)
    return _named(X, (X @ r.normal(size=60) + 1.0 + r.normal(size=n)).tolist())


def collinear(n: int, seed: int = 31) -> Stream:
    r = rng(seed)
    Z = r.normal(size=(n, 3))
    X = Z @ r.normal(size=(3, 20)) + 0.01 * r.normal(size=(n, 20))
    return _named(X, (Z @ [1, -1, 0.5] + 0.3 * r.normal(size=n)).tolist())


def skewed_noise(n: int, seed: int = 32) -> Stream:
    r = rng(seed)
    return _named(r.normal(size=(n, 10)), r.exponential(size=n).tolist())


def swapping(n: int, seed: int = 33) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 4))
    sign = np.where((np.arange(n) // 300) % 2 == 0, 1.0, -1.0)
    return _named(X, (sign * (X @ [2, -1, 1, 0]) + 0.3 * r.normal(size=n)).tolist())


def circadian(n: int, seed: int = 34) -> Stream:
    r = rng(seed)
    hour = np.arange(n) % 24
    day = (np.arange(n) // 24) % 7
    y = 50 + 10 * np.sin(2 * np.pi * hour / 24) + 5 * (day >= 5) + 2 * r.normal(size=n)
    return [
        ({"hour": f"h{h}", "day": f"d{d}", "t": float(i)}, float(v)) for i, (h, d, v) in enumerate(zip(hour, day, y))
    ]


def steps(n: int, seed: int = 35) -> Stream:
    r = rng(seed)
    level = np.repeat(r.normal(size=n // 250 + 1) * 10, 250)[:n]
    X = r.normal(size=(n, 3))
    return _named(X, (level + X @ [0.5, 0, 0] + r.normal(size=n)).tolist())


def cauchy_rows(n: int, seed: int = 36) -> Stream:
    r = rng(seed)
    X = r.standard_t(1.5, size=(n, 4))
    return _named(X, (X @ [1, -1, 0.5, 0] + r.normal(size=n)).tolist())


def exact(n: int, seed: int = 37) -> Stream:
    r = rng(seed)
    X = r.integers(0, 10, size=(n, 7)).astype(float)
    return _named(X, (X @ [1, -2, 3, 0, 0, 5, 1] + 4).tolist())


def weak_wide(n: int, seed: int = 38) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 100))
    return _named(X, (X @ (0.1 * r.normal(size=100)) + 3 * r.normal(size=n)).tolist())


def yeast(n: int) -> Stream:
    from river import datasets

    return [(x, float(sum(v is True or v == 1 for v in y.values()))) for x, y in datasets.Yeast()]


def shuttle_numbers(n: int) -> Stream:
    from river import datasets

    rows = list(datasets.Shuttle())[:n]
    names = list(rows[0][0])
    return [({k: v for k, v in x.items() if k != names[-1]}, float(x[names[-1]])) for x, _ in rows]


def sine_wave(n: int, seed: int = 39) -> Stream:
    r = rng(seed)
    X = r.uniform(-3, 3, size=(n, 2))
    return _named(X, (np.sin(X[:, 0]) + 0.1 * X[:, 1] ** 2 + 0.1 * r.normal(size=n)).tolist())


def bursts(n: int, seed: int = 40) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 5))
    y = X @ [1, 1, 0, 0, 0] + 0.5 * r.normal(size=n)
    hit = r.random(n) < 0.01
    return _named(X, np.where(hit, y + 100 * r.normal(size=n), y).tolist())


def percentages(n: int, seed: int = 41) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 5))
    return _named(X, (100 / (1 + np.exp(-(X @ [1, 1, -1, 0, 0]) - r.normal(size=n)))).tolist())


def hashed(n: int, seed: int = 42) -> Stream:
    r = rng(seed)
    users, items = r.normal(size=200), r.normal(size=400)
    u, v = r.integers(0, 200, n), (400 * r.random(n) ** 2).astype(int)
    y = np.clip(np.round(3 + users[u] + items[v] + 0.7 * r.normal(size=n)), 1, 5)
    return [({"user": f"u{a}", "item": f"i{b}"}, float(t)) for a, b, t in zip(u, v, y)]


def design_numbers(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    yield (
        "FriedmanDrift",
        lambda: _synthetic("FriedmanDrift", n, drift_type="gra", position=(n // 3, 2 * n // 3), seed=1),
    )
    yield "Mv", lambda: _synthetic("Mv", n, seed=2)
    yield "monthly season, 12 lags", lambda: seasonal(n)
    yield "rare counts", lambda: rare_counts(n)
    yield "heteroscedastic", lambda: heteroscedastic(n)
    yield "3,000 levels", lambda: levels(n)
    yield "labels near 1e8", lambda: far(n)
    yield "30 patients", lambda: tiny_diabetes()
    yield "lognormal labels", lambda: lognormal(n)
    yield "rare indicators", lambda: indicators(n)
    yield "skewed noise alone", lambda: skewed_noise(n)
    yield "weights that change sign", lambda: swapping(n)
    yield "100 weak columns", lambda: weak_wide(n)
    yield (
        "make_regression, 20 of 60",
        lambda: _sklearn("regression", 3, n_samples=n, n_features=60, n_informative=20, noise=50),
    )
    yield "Yeast, labels counted", lambda: yeast(n)
    yield "outliers, one in a hundred", lambda: bursts(n)
    yield "users and items", lambda: hashed(n)


def check_numbers(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    yield "Planes2D", lambda: _synthetic("Planes2D", n, seed=4)
    yield "weekly season, 7 lags", lambda: seasonal(n, 50, 7, 0.1)
    yield "duplicated and constant columns", lambda: repeated(n)
    yield "keys seen once in a hundred", lambda: rare_keys(n)
    yield "insurance claims", lambda: claims(n)
    yield "zero or one as numbers", lambda: zero_one(n)
    yield "three factors in 20 columns", lambda: collinear(n)
    yield "hours and days as strings", lambda: circadian(n)
    yield "level shifts", lambda: steps(n)
    yield "rows without variance (t₁.₅)", lambda: cauchy_rows(n)
    yield "integers without noise", lambda: exact(n)
    yield "30 patients more", lambda: tiny_diabetes(30, 200)
    yield "Shuttle, last column", lambda: shuttle_numbers(n)
    yield "sine wave", lambda: sine_wave(n)
    yield "percentages", lambda: percentages(n)
    yield "make_friedman2", lambda: _sklearn("friedman2", 5, n_samples=n, noise=50)
    yield "make_friedman3", lambda: _sklearn("friedman3", 6, n_samples=n, noise=0.1)
    yield "make_sparse_uncorrelated", lambda: _sklearn("sparse_uncorrelated", 7, n_samples=n, n_features=30)
    yield "rare indicators, one in 200", lambda: indicators(n, 51, 0.005)
    yield "500 levels", lambda: levels(n, 52, 500)
