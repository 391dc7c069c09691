"""Logistic regression of several classes against scikit-learn, L2 at C = 1, both at tol 1e-7 and on one BLAS thread.

Equal tolerances mean different things, a duality gap here and a gradient there; so the notes say how far each ends above
the optimum, which a certified lower bound of a tighter fit stands for.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "Logistic regression of several classes: speed at equal tolerance"


def several_classes(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, and labels drawn by a multinomial logit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, classes)) * (2.0 / np.sqrt(d))
    return X, (scores + rng.gumbel(size=(n, classes))).argmax(axis=1)


def excess(X: np.ndarray, y: np.ndarray, model: Any, dual: float) -> float:
    """How far a result is above the certified lower bound, relative to the objective."""
    scores = X @ model.coef_.T + model.intercept_
    top = scores.max(axis=1)
    losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top - scores[np.arange(len(y)), y]
    objective = float(losses.mean() + 0.5 * (model.coef_**2).sum() / len(y))
    return max(0.0, (objective - dual) / objective)


def row(task: str, X: np.ndarray, y: np.ndarray, rounds: int) -> Row:
    from sklearn.linear_model import LogisticRegression as Peer
    from threadpoolctl import threadpool_limits

    import trueline as tl

    dual = tl.LogisticRegression(tol=1e-13).fit(X, y).certificate_.dual
    contenders = {
        "trueline": lambda: tl.LogisticRegression(tol=1e-7).fit(X, y),
        "scikit-learn lbfgs": lambda: Peer(tol=1e-7, max_iter=10_000).fit(X, y),
    }
    with threadpool_limits(1):
        best, made = interleaved(contenders, rounds)
    ours, theirs = (excess(X, y, model, dual) for model in made.values())
    return Row(
        task, *best.values(), "scikit-learn lbfgs", aim=1.0, note=f"{ours:.1g} above the optimum against {theirs:.1g}"
    )


def run(quick: bool) -> list[Row]:
    from sklearn.datasets import load_digits, load_iris

    warnings.simplefilter("ignore")
    rounds = 5 if quick else 25
    rows = [
        row(f"{classes} classes, {n:,}×{d}", *several_classes(n, d, classes), rounds)
        for n, d, classes in ((120, 240, 3), (1000, 100, 5), (1000, 30, 10))
    ]
    rows.append(row("3 classes, iris 150×4", *load_iris(return_X_y=True), rounds))
    if not quick:
        rows.append(row("10 classes, digits 1,797×64", *load_digits(return_X_y=True), 3))
    return rows
