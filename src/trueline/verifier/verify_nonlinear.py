"""The verifier's third part: models that are not a line, each certificate's numbers recomputed from the data.

Everything is written anew, except the densities of a probability model, which its own code evaluates (the note says so).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .stated_claims import Claims
from .verify_boosting import boosting
from .verify_densities import density, generative
from .verify_kernel import kernel_ridge
from .verify_network import network
from .verify_robust import robust_line

_FEW = 400  # rows at which a local fit is made anew


def _status(out: Claims, proven: Any, held: Any, note: str = "") -> None:
    """Whether what was found proves the result, in the words of the claim."""
    out.holds("status", "proven" if proven else "not_proven", held, note)


def _local(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """A weighted least squares at each of some rows, by its own normal equations."""
    s, Z, g = record.settings, X / record.unit, c * record.robustness
    n, p = Z.shape
    gaussian, power = s.kernel == "gaussian", [1, 1 + p, 1 + p + p * (p + 1) // 2][s.degree]
    least = 2 if p == 1 and s.degree < 2 else power + 1
    W, whole = float(c.sum()), bool((c == np.floor(c)).all())
    share = 0.0 if s.fraction is None else s.fraction * W
    k = min(max(least, int(share + 1e-7)), W) if whole else max(min(least * W / n, W), min(share, W))
    rows = np.unique(np.linspace(0, n - 1, min(n, _FEW)).astype(int))
    fitted, own = np.empty(len(rows)), np.empty(len(rows))
    for at, i in enumerate(rows):
        T = Z - Z[i]
        far = np.sqrt((T**2).sum(axis=1))
        order = np.argsort(far, kind="stable")
        last = order[min(n - 1, int(np.searchsorted(np.cumsum(c[order]), k * (1.0 - 1e-12))))]
        h = far[last] / (3.0 if gaussian else 1.0) if s.bandwidth is None else s.bandwidth
        h = h if s.bandwidth is None or gaussian else max(h, far[order[min(n, power + 1) - 1]] / 0.99)
        if gaussian:
            w = np.exp(-0.5 * (far / h) ** 2)
        else:  # R's lowess: full weight within 0.001 h, none beyond 0.999 h
            w = np.where(
                far <= 0.999 * h, np.where(far > 0.001 * h, (1.0 - np.minimum(far / h, 1.0) ** 3) ** 3, 1.0), 0.0
            )
        squares = [T[:, a] * T[:, b] for a in range(p) for b in range(a, p)] if s.degree == 2 else []
        A = np.column_stack([np.ones(n), *(T.T if s.degree else ()), *squares])
        root = np.sqrt(w * g)
        inverse = np.linalg.pinv(A * root[:, None])[0] * root
        fitted[at], own[at] = inverse @ y, inverse[i]
    error = float(np.abs(fitted - record.fitted[rows]).max() / (np.abs(y).max() + 1e-300))
    allowed = 1e-6 if record.surface == "exact" else 2.0 * proof.interpolation_error / (np.abs(y).max() + 1e-300) + 1e-6
    out.holds("fits made anew", error, error <= allowed, f"of {len(rows)} rows", field="interpolation_error")
    out.near("objective", float(g @ (y - record.fitted) ** 2), 1e-6)
    if len(rows) == n and record.surface == "exact":
        out.near("degrees_of_freedom", float(np.clip(own, 0.0, 1.0).sum()), 1e-3)


def _kernel(shape: Any, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    name = getattr(shape, "name", "")
    if name == "gaussian":
        return np.exp(-shape.gamma * np.array([((a - B) ** 2).sum(axis=1) for a in A]).reshape(len(A), len(B)))
    if name == "polynomial":
        return np.asarray((shape.gamma * (A @ B.T) + shape.coef0) ** shape.degree)
    if name == "linear":
        return np.asarray(A @ B.T)
    return np.asarray(shape(A, B), dtype=float)  # the user's own


def _kernel_mistakes(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """The perceptron in its dual form, replayed from the whole kernel matrix."""
    passes = round(proof.examples / len(X))
    X, y = np.concatenate([X] * passes), np.concatenate([y] * passes)
    K, classes, found = _kernel(record.shape, X, X) + record.extra, np.unique(y), list[tuple[int, Any]]()
    for one in classes if len(record.heads) > 1 else classes[-1:]:
        t, held, wrong = np.where(y == one, 1.0, -1.0), list[int](), 0
        for i in range(len(X)):
            if t[i] * float(t[held] @ K[held, i]) <= 0.0:
                held, wrong = [*held, i][-(record.budget or len(X)) :], wrong + 1
        found.append((wrong, (np.array(held, dtype=int), t)))
    length = len(proof.comparator) if proof.comparator is not None else -1
    wrong, (held, t) = min(found, key=lambda one: (len(one[1][0]) != length, abs(one[0] - proof.mistakes)))
    out.holds("examples", len(X), proof.examples == len(X))
    out.holds("mistakes", wrong, proof.mistakes == wrong)
    out.holds("bound", wrong, wrong <= proof.bound or not proof.proven, "mistakes must not exceed it")
    if proof.proven and length != len(held) > 0:
        out.holds("comparator", len(held), False, "it has a weight for each mistake")
    elif proof.proven and len(held):
        G, a = K[np.ix_(held, held)], proof.comparator
        size, z = math.sqrt(max(0.0, float(a @ G @ a))), t[held] * (G @ a)
        slack, radius = float(np.linalg.norm(np.maximum(0.0, 1.0 - z))), math.sqrt(float(np.diag(G).max()))
        out.near("radius", radius, 1e-6)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (radius * size + slack) ** 2, 1e-5)


BEYOND: dict[str, Callable[..., None]] = {
    "monotone": robust_line, "local": _local, "kernel": kernel_ridge,
    "kernel_perceptron": _kernel_mistakes, "boosting": boosting, "network": network, "generative": generative,
    "density": density,
}  # fmt: skip
