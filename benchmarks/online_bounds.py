"""How tight the bounds are: loss suffered against the proven bound, on streams that River's wheel ships.

Columns are standardised beforehand, so that one rate suits every stream; a ratio of 1 would be a bound without slack.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .harness import Row

NAME = "Online learning: how tight the bounds are"


def _stream(name: str) -> tuple[np.ndarray, np.ndarray]:
    from river import datasets

    rows = [({k: v for k, v in x.items() if isinstance(v, (int, float))}, y) for x, y in getattr(datasets, name)()]
    names = sorted({key for x, _ in rows for key in x})
    X = np.array([[float(x.get(key, 0.0)) for key in names] for x, _ in rows])
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    labels = sorted({y for _, y in rows}, key=str)
    code = {label: k for k, label in enumerate(labels)} if isinstance(labels[0], (str, bool)) else {}
    return X, np.array([float(code.get(y, y)) for _, y in rows])


def run(quick: bool) -> list[Row]:
    import trueline as tl

    rows = []
    for name in ("TrumpApproval", "ChickWeights", "SP500Stocks"):
        X, y = _stream(name)
        y = (y - y.mean()) / y.std()
        if quick:
            X, y = X[:200], y[:200]
        rate = 0.5 / float(np.max(1.0 + np.sum(X * X, axis=1)))
        learners: dict[str, Any] = {
            "WidrowHoff": tl.WidrowHoff(rate=rate),
            "normalised": tl.OnlineRegressor(geometry="normalised", rate=0.5),
            "implicit": tl.OnlineRegressor(geometry="implicit", rate=0.1),
            "adaptive": tl.OnlineRegressor(geometry="adaptive", rate=0.1),
            "ExponentiatedGradient": tl.ExponentiatedGradient(rate=0.5 / (9.0 * float(np.max(X * X))), radius=3.0),
            "WidrowHoff, rate='auto'": tl.WidrowHoff(),
            "RecursiveLeastSquares": tl.RecursiveLeastSquares(),
            "the default mixture": tl.OnlineRegressor(),
        }
        for title, learner in learners.items():
            proof = learner.fit(X, y).certificate_
            note = f"best fixed {proof.best_fixed_loss:.4g}; {proof.status.value}"
            rows.append(Row(f"{name}: {title}", proof.loss, proof.bound, "its bound", "loss", note=note))
    for name in ("Phishing", "Bananas", "ImageSegments"):
        X, y = _stream(name)
        if quick:
            X, y = X[:200], y[:200]
        classifiers: dict[str, Any] = {
            "logistic": tl.OnlineClassifier(geometry="additive", rate=0.05),
            "Perceptron": tl.Perceptron(),
            "Winnow": tl.Winnow(rate=0.02),
            "the default mixture": tl.OnlineClassifier(),
        }
        for title, learner in classifiers.items():
            proof = learner.fit(X, y).certificate_
            counted = "mistakes" if hasattr(proof, "mistakes") else "loss"
            note = proof.status.value if proof.proven else proof.advice
            rows.append(
                Row(f"{name}: {title}", float(getattr(proof, counted)), proof.bound, "its bound", counted, note=note)
            )
    return rows
