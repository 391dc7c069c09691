"""What the verifier takes beside the fit that it checks, both in one process and on one BLAS thread.

The peer is the fit itself: a ratio of 0.1 says that verifying takes ten times as long as fitting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "Verifying a model beside fitting it"


def rows_of(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, and a target that depends on a third of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, X[:, : d // 3].sum(axis=1) + rng.normal(size=n)


def row(task: str, model: Any, X: np.ndarray, y: np.ndarray, rounds: int) -> Row:
    from threadpoolctl import threadpool_limits

    import trueline as tl

    fitted = model.fit(X, y)
    with threadpool_limits(1):
        best, made = interleaved({"verify": lambda: tl.verify(fitted, (X, y)), "fit": lambda: model.fit(X, y)}, rounds)
    return Row(task, best["verify"], best["fit"], "its own fit", aim=0.1, note=str(made["verify"]))


def run(quick: bool) -> list[Row]:
    import trueline as tl

    n, d = (10_000, 20) if quick else (100_000, 20)
    X, y = rows_of(n, d)
    rounds = 3 if quick else 5
    return [
        row(f"least squares, {n:,}×{d}", tl.LinearRegression(), X, y, rounds),
        row(f"lasso, {n:,}×{d}", tl.Lasso(alpha=0.1), X, y, rounds),
        row(f"logistic, {n:,}×{d}", tl.LogisticRegression(), X, (y > 0).astype(int), rounds),
    ]
