"""Generative classifiers against scikit-learn's: the same posteriors, fitted and predicted on the same data.

GaussianNB, LinearDiscriminantAnalysis and QuadraticDiscriminantAnalysis are the three covariances of one estimator here;
its fit also makes the log-likelihood and its certificate. Streams: ``partial_fit`` in batches of 1,000 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "Beyond the line: generative classifiers"


def classes(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    centres = 0.5 * rng.standard_normal((k, d))
    return rng.standard_normal((n, d)) @ (np.eye(d) + 0.1 * rng.standard_normal((d, d))) + centres[y], y


def run(quick: bool) -> list[Row]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    import trueline as tl

    n, d, k = (20_000, 20, 3) if quick else (300_000, 50, 3)
    X, y = classes(n, d, k)
    label = f"{n:,}×{d}, {k} classes"
    rows = []
    for covariance, peer in (
        ("diagonal", GaussianNB),
        ("shared", LinearDiscriminantAnalysis),
        ("full", QuadraticDiscriminantAnalysis),
    ):
        rows += against(X, y, covariance, peer, label)

    def stream(model: Any) -> Any:
        for start in range(0, len(X), 1000):
            model.partial_fit(X[start : start + 1000], y[start : start + 1000], classes=np.arange(k))
        return model

    best, made = interleaved(
        {"trueline": lambda: stream(tl.GenerativeClassifier("gaussian")), "peer": lambda: stream(GaussianNB())},
        rounds=2,
    )
    off = np.abs(made["trueline"].predict_proba(X) - made["peer"].predict_proba(X)).max()
    rows.append(
        Row(
            f"partial_fit by 1,000 rows, diagonal {label}", best["trueline"], best["peer"], "GaussianNB",
            note=f"posteriors agree to {off:.1g}",
        )
    )  # fmt: skip
    return rows


def against(X: np.ndarray, y: np.ndarray, covariance: str, peer: Any, label: str) -> list[Row]:
    """Fit and posteriors of one covariance and its peer."""
    import trueline as tl

    best, made = interleaved(
        {
            "trueline": lambda: tl.GenerativeClassifier("gaussian", covariance=covariance).fit(X, y),
            "peer": lambda: peer().fit(X, y),
        },
        rounds=3,
    )
    speed, found = interleaved(
        {"trueline": lambda: made["trueline"].predict_proba(X), "peer": lambda: made["peer"].predict_proba(X)}, rounds=3
    )
    off = np.abs(found["trueline"] - found["peer"]).max()
    note = f"posteriors agree to {off:.1g}; {made['trueline'].certificate_.status.value}"
    return [
        Row(f"fit, {covariance} {label}", best["trueline"], best["peer"], peer.__name__, note=note),
        Row(f"posteriors, {covariance} {label}", speed["trueline"], speed["peer"], peer.__name__),
    ]
