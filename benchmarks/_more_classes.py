"""More streams of classes, unlike those of _streams.py: other generators and seeds, shifts, label noise, many classes, few rows.

``design_classes`` were looked at while the mixture's members were chosen, ``check_classes`` only afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ._more_numbers import _sklearn, _synthetic
from ._streams import Stream, _named

rng = np.random.default_rng


def shuttle(n: int) -> Stream:
    from river import datasets

    return list(datasets.Shuttle())[:n]


def flipped(n: int, seed: int = 60, every: int = 500) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 5))
    y = (X @ [2, -1, 1, 0, 0] + 0.5 * r.normal(size=n) > 0) ^ ((np.arange(n) // every) % 2 == 1)
    return _named(X, y.tolist())


def label_noise(n: int, seed: int = 61, share: float = 0.3) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 8)) * np.logspace(-3, 3, 8)
    y = (X / np.logspace(-3, 3, 8)) @ r.normal(size=8) > 0
    return _named(X, (y ^ (r.random(n) < share)).tolist())


def many_classes(n: int, seed: int = 62, count: int = 40) -> Stream:
    r = rng(seed)
    centre = r.normal(size=(count, 8)) * 2
    y = r.integers(0, count, n // 2)
    return _named(centre[y] + r.normal(size=(n // 2, 8)), [f"c{k:02d}" for k in y])


def seldom(n: int, seed: int = 63, offset: float = 6.0) -> Stream:
    r = rng(seed)
    X = r.normal(size=(2 * n, 6))
    return _named(X, (r.random(2 * n) < 1 / (1 + np.exp(offset - X @ [1, 1, 0.5, 0, 0, 0]))).tolist())


def class_levels(n: int, seed: int = 64, count: int = 2000) -> Stream:
    r = rng(seed)
    effect = r.normal(size=count) * 1.5
    where = np.minimum((r.pareto(0.8, size=n) * 5).astype(int), count - 1)
    y = r.random(n) < 1 / (1 + np.exp(-effect[where] - 0.3))
    return [({"site": f"s{k}", "hour": float(i % 24)}, bool(t)) for i, (k, t) in enumerate(zip(where, y))]


def topics(n: int, seed: int = 65, words: int = 500) -> Stream:
    r = rng(seed)
    tilt = r.dirichlet(np.full(words, 0.05), size=4)
    base = r.dirichlet(np.full(words, 0.5))
    out: Stream = []
    for _ in range(n):
        k = int(r.integers(4))
        found = r.choice(words, size=int(r.integers(3, 15)), p=0.7 * base + 0.3 * tilt[k])
        row: dict[str, float] = {}
        for j in found:
            row[f"w{j}"] = row.get(f"w{j}", 0.0) + 1.0
        out.append((row, f"topic {k}"))
    return out


def tiny(name: str, rows: int = 30) -> Stream:
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    order = rng(9).permutation(len(data.target))[:rows]
    return _named(data.data[order], data.target[order].tolist())


def far_classes(n: int, seed: int = 66) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 4))
    y = r.random(n) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))
    return _named(X * 0.01 + [1e4, -1e6, 0, 5], y.tolist())


def doubled_columns(n: int, seed: int = 67) -> Stream:
    r = rng(seed)
    Z = r.normal(size=(n, 3))
    X = np.hstack([Z, Z, np.ones((n, 2))])
    return _named(X, (r.random(n) < 1 / (1 + np.exp(-Z @ [1, -1, 1]))).tolist())


def chain(n: int, seed: int = 68) -> Stream:
    r = rng(seed)
    move = r.dirichlet(np.full(5, 0.3), size=5)
    y = [0]
    for _ in range(n - 1):
        y.append(int(r.choice(5, p=move[y[-1]])))
    return [({"before": f"s{y[i - 1]}", "x": float(r.normal())}, f"s{y[i]}") for i in range(1, n)]


def coin(n: int, seed: int = 69) -> Stream:
    r = rng(seed)
    return _named(r.normal(size=(n, 10)), (r.random(n) < 0.5).tolist())


def weak_classes(n: int, seed: int = 70) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 80))
    return _named(X, (r.random(n) < 1 / (1 + np.exp(-X @ (0.05 * r.normal(size=80))))).tolist())


def clicks(n: int, seed: int = 71) -> Stream:
    r = rng(seed)
    site, ad, hour = r.normal(size=50), r.normal(size=300), r.normal(size=24) * 0.3
    a, b, h = (50 * r.random(n) ** 2).astype(int), (300 * r.random(n) ** 2).astype(int), np.arange(n) % 24
    y = r.random(n) < 1 / (1 + np.exp(2.5 - site[a] - ad[b] - hour[h]))
    return [({"site": f"s{i}", "ad": f"a{j}", "hour": f"h{k}"}, bool(t)) for i, j, k, t in zip(a, b, h, y)]


def class_rare_keys(n: int, seed: int = 72) -> Stream:
    r = rng(seed)
    w = r.normal(size=80) * 2
    out: Stream = []
    for _ in range(n):
        row = {"a": float(r.normal())}
        s = row["a"]
        for k in np.flatnonzero(r.random(80) < 0.02):
            row[f"k{k}"] = float(r.normal())
            s += w[k] * row[f"k{k}"]
        out.append((row, bool(r.random() < 1 / (1 + math.exp(-s)))))
    return out


def ordinal(n: int, seed: int = 73) -> Stream:
    r = rng(seed)
    X = r.normal(size=(n, 4)) * [1, 10, 100, 1000]
    s = X @ [1, 0.1, -0.01, 0] + 0.7 * r.logistic(size=n)
    return _named(X, np.digitize(s, [-2, -0.5, 0.5, 2]).tolist())


def binary_columns(n: int, seed: int = 74) -> Stream:
    r = rng(seed)
    X = (r.random((n, 40)) < 0.05).astype(float)
    return _named(X, (r.random(n) < 1 / (1 + np.exp(-X @ (1.5 * r.normal(size=40)) + 1))).tolist())


def design_classes(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    yield "LEDDrift", lambda: _synthetic("LEDDrift", n, seed=1, noise_percentage=0.1, n_drift_features=4)
    yield "Mixed", lambda: _synthetic("Mixed", n, seed=2)
    yield "STAGGER", lambda: _synthetic("STAGGER", n, seed=3)
    yield "Agrawal, function 6", lambda: _synthetic("Agrawal", n, classification_function=6, seed=4)
    yield (
        "make_classification",
        lambda: _sklearn("classification", 5, n_samples=n, n_features=30, n_informative=6, flip_y=0.1),
    )
    yield "make_moons", lambda: _sklearn("moons", 6, n_samples=n, noise=0.3)
    yield "Shuttle", lambda: shuttle(n)
    yield "40 classes, few rows", lambda: many_classes(n)
    yield "labels flipped every 500", lambda: flipped(n)
    yield "30 flowers", lambda: tiny("iris")
    yield "2,000 levels", lambda: class_levels(n)
    yield "offsets of 1e4 and 1e6", lambda: far_classes(n)
    yield "fair coin", lambda: coin(n)
    yield "80 weak columns", lambda: weak_classes(n)
    yield "clicks", lambda: clicks(n)
    yield "five ordered classes", lambda: ordinal(n)


def check_classes(n: int) -> Iterator[tuple[str, Callable[[], Stream]]]:
    yield (
        "RandomRBFDrift",
        lambda: _synthetic(
            "RandomRBFDrift", n, seed_model=1, seed_sample=1, n_classes=4, change_speed=0.5, n_drift_centroids=20
        ),
    )
    yield "RandomTree", lambda: _synthetic("RandomTree", n, seed_tree=2, seed_sample=2, n_classes=3)
    yield "SEA with noise", lambda: _synthetic("SEA", n, variant=2, noise=0.2, seed=3)
    yield "AnomalySine", lambda: _synthetic("AnomalySine", n, seed=4)
    yield "Agrawal, function 9", lambda: _synthetic("Agrawal", n, classification_function=9, seed=5)
    yield "make_hastie_10_2", lambda: _sklearn("hastie_10_2", 6, n_samples=n)
    yield "make_blobs, ten", lambda: _sklearn("blobs", 7, n_samples=n, centers=10, n_features=6, cluster_std=4.0)
    yield "make_circles", lambda: _sklearn("circles", 8, n_samples=n, noise=0.1)
    yield "three in ten labels wrong", lambda: label_noise(n)
    yield "four in a thousand positive", lambda: seldom(n)
    yield "four topics of words", lambda: topics(n)
    yield "30 wines", lambda: tiny("wine")
    yield "duplicated columns", lambda: doubled_columns(n)
    yield "five states in a chain", lambda: chain(n)
    yield "keys seen once in fifty", lambda: class_rare_keys(n)
    yield "forty rare indicators", lambda: binary_columns(n)
    yield "Hyperplane, noise", lambda: _synthetic("Hyperplane", n, seed=9, noise_percentage=0.2, mag_change=0.001)
    yield "Waveform with noise columns", lambda: _synthetic("Waveform", n, seed=10, has_noise=True)
