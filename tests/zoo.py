"""One model of each kind that a file can hold: (estimator, rows, targets), small and quick to make."""

from __future__ import annotations

import numpy as np

import trueline as tl

TEXTS = ["a b a c", "b a c"]


def zoo():
    """Name and maker of each kind; a maker gives (model, X, y)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.3 * rng.normal(size=80) + 1.0
    two = (y > 1.0).astype(int)
    three = np.digitize(y, [0.0, 2.0])
    wide = np.abs(rng.normal(size=(30, 320)))

    def fitted(model, target=y, rows=X):
        return lambda: (model.fit(rows, target), rows, target)

    made = {
        "linear": fitted(tl.LinearRegression()),
        "ridge": fitted(tl.RidgeCV()),
        "lasso": fitted(tl.LassoCV()),
        "logistic": fitted(tl.LogisticRegression(), two),
        "softmax": fitted(tl.LogisticRegression(), three),
        "online": fitted(tl.WidrowHoff(rate=0.05)),
        "online_average": fitted(tl.OnlineRegressor(geometry="adaptive", rate=0.1, average=True)),
        "online_eg": fitted(tl.ExponentiatedGradient(rate=0.05)),
        "online_two": fitted(tl.OnlineClassifier(geometry="additive", rate=0.1), two),
        "online_three": fitted(tl.OnlineClassifier(geometry="additive", rate=0.1), three),
        "perceptron": fitted(tl.Perceptron(), two),
        "winnow": fitted(tl.Winnow(), two, np.abs(X)),
        "ladder": fitted(tl.OnlineRegressor(geometry="additive", rate="auto")),
        "ladder_three": fitted(tl.OnlineClassifier(geometry="additive", rate="auto"), three[:40], X[:40]),
        "mixture": fitted(tl.OnlineRegressor()),
        "mixture_two": fitted(tl.OnlineClassifier(), two),
        "mixture_three": fitted(tl.OnlineClassifier(), three),
        "mixture_wide": fitted(tl.OnlineRegressor(), wide[:, 0] + wide[:, 1], wide),
        "mixture_wide_three": fitted(tl.OnlineClassifier(), three[:30], wide),
        "recursive": fitted(tl.RecursiveLeastSquares()),
        "components": lambda: (tl.PCA(2).fit(X), X, None),
        "kernel": fitted(tl.KernelRegression()),
        "kernel_features": fitted(tl.KernelRegression(approximation="random_features", components=20)),
        "boosting": fitted(tl.AdaBoost(), two),
        "boosting_three": fitted(tl.AdaBoost(), three),
        "network": fitted(tl.NeuralNetwork((4,), epochs=3)),
        "network_deep": fitted(tl.NeuralNetwork((4, 3), loss="logistic", epochs=3), 2 * two - 1),
        "kernel_perceptron": fitted(tl.KernelPerceptron(), two),
        "kernel_perceptron_three": fitted(tl.KernelPerceptron(), three),
        "density": lambda: (tl.Density().fit(X), X, None),
        "generative": fitted(tl.GenerativeClassifier("auto"), two),
        "generative_stream": lambda: (tl.GenerativeClassifier().partial_fit(X, two, classes=[0, 1]), X, two),
        "generative_full": fitted(tl.GenerativeClassifier(covariance="full"), three),
        "local": fitted(tl.LocalRegression()),
        "local_plane": fitted(tl.LocalRegression(degree=1), y, X[:, :2]),
        "robust": fitted(tl.RobustRegression()),
        "outliers": fitted(tl.OutlierMixture()),
        "svc": fitted(tl.LinearSVC(), two),
        "glm": fitted(tl.GeneralizedRegression("poisson"), np.round(np.exp(0.2 * y))),
        "basis": lambda: (tl.Basis("poly(x0, 2) + x1:x2").fit(X), X, None),
        "local_cells": fitted(tl.LocalRegression(fraction=0.3, surface="interpolate"), y, X[:, :2]),
        "local_line": fitted(tl.LocalRegression(surface="interpolate"), y, X[:, :1]),
        "generative_mixed": lambda: _mixed(),
        "density_mixed": lambda: (tl.Density({0: "histogram", 1: "mixture(2)"}).fit(X), X, None),
        "moments": lambda: (tl.Moments.from_arrays(X, y, sample=20), X, y),
        "ngram": lambda: (tl.NGram(2).fit(TEXTS), TEXTS, None),
    }
    for method in ("lms", "nlms", "apa", "rls", "fdaf", "kalman"):
        made[f"filter_{method}"] = lambda method=method: _filter(method)
    return made


def _filter(method):
    far = np.cos(0.7 * np.arange(2000) ** 1.1)
    one = tl.AdaptiveFilter(8, method, **({"rate": 0.05, "certify": True} if method == "lms" else {}))
    one.process(far, np.roll(far, 1))
    return one, far, np.roll(far, 1)


def _mixed():
    from kinds import mixed_table

    frame, labels, kinds = mixed_table()
    return tl.GenerativeClassifier(kinds).fit(frame, labels), frame, labels
