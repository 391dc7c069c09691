"""The verifier's third part: models that are not a line, each certificate's numbers recomputed from the data.

Everything is written anew, except the densities of a probability model, which its own code evaluates (the note says so).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ModelError
from .stated_claims import Claims
from .verify_losses import loss_of
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


def _kernel_ridge(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """½Σw(y − f)² + ½α‖f‖² again; any expansion is within ½Σw(r − αc/w)² of the least."""
    on, alpha = c > 0, record.alpha
    X, y, c, coef = X[on], y[on].astype(float), c[on], record.coef
    if record.phases is not None:
        features, size = np.cos(X @ record.points.T + record.phases) * math.sqrt(2.0 / len(coef)), np.eye(len(coef))
    else:
        features, size = _kernel(record.shape, X, record.points), _kernel(record.shape, record.points, record.points)
    r, norm, intercept = y - features @ coef - record.intercept, float(coef @ size @ coef), record.intercept != 0.0
    primal = 0.5 * float(c @ r**2) + 0.5 * alpha * norm
    out.near("primal", primal, 1e-6)
    out.near("gap", proof.primal - proof.dual, 1e-9, abs(proof.primal))
    out.near("relative_gap", proof.gap / proof.primal if proof.primal else 0.0, 1e-6, proof.relative_gap + 1e-12)
    out.near("gradient_norm", math.sqrt(2.0 * proof.gap * (1.0 if record.form == "exact" else alpha)), 1e-6)
    if record.form != "exact":
        B = (features := features - c @ features / c.sum()) * c[:, None] if intercept else features * c[:, None]
        own = np.einsum("ij,ij->i", B @ np.linalg.pinv(B.T @ features + alpha * size, hermitian=True), features)
        left = r / np.maximum(1.0 - own - (c / c.sum() if intercept else 0.0), 1e-12)
        out.near("leave_one_out", float(np.average(left**2, weights=c)), 1e-3)
        return _status(out, proof.relative_gap <= 1e-6, proof.proven == (proof.relative_gap <= 1e-6))
    gap = 0.5 * float(c @ (r - alpha * coef / c) ** 2)
    M = np.zeros((len(X) + 1,) * 2)
    M[:-1, :-1] = _kernel(record.shape, X, X) + np.diag(alpha / c)
    M[-1, :-1] = M[:-1, -1] = 1.0
    spread = np.diag(np.linalg.inv(M if intercept else M[:-1, :-1]))[: len(X)]
    out.holds("dual", primal - gap, gap <= 1.01 * proof.gap + 1e-9 * primal)
    out.near("leave_one_out", float(np.average((coef / spread) ** 2, weights=c)), 1e-6)
    steep = float(np.abs(r - alpha * coef / c).max()) / max(float(np.abs(y).max()), 1e-300)
    out.holds("residual", steep, abs(steep - proof.residual) <= 0.5 * proof.residual + 1e-9)
    return _status(out, gap <= 1e-6 * primal, proof.proven == (gap <= 1e-6 * primal))


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


def _boosting(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """The rounds again: each stump's error under the weights before it, and the votes of all."""
    D0, classes, every = c / c.sum(), np.array(record.classes), list[dict[str, float]]()
    for machine, one in zip(record.machines, classes[-len(record.machines) :], strict=True):
        t, D, edge = np.where(y == one, 1.0, -1.0), D0, math.inf
        f, mass = np.zeros(len(X)), float(np.abs(machine.votes).sum())
        for j, cut, vote in zip(machine.features, machine.thresholds, machine.votes, strict=True):
            h = np.where(X[:, j] > cut, 1.0, -1.0) * np.sign(vote)
            edge, f = min(edge, 0.5 - float(D[h != t].sum())), f + abs(vote) * h
            D = D * np.exp(-abs(vote) * t * h)
            D = D / D.sum()
        margins, bound, order = t * f / mass, float(D0 @ np.exp(-t * f)), np.argsort(t * f)
        middle = order[min(int(np.searchsorted(np.cumsum(D0[order]), 0.5)), len(D0) - 1)]
        every.append({
            "rounds": len(machine.votes), "training_error": float(D0[margins <= 0].sum()), "bound": bound, "edge": edge,
            "smallest_margin": float(margins.min()), "median_margin": float(margins[middle]),
            "below_theta": float(D0[margins <= proof.theta].sum()),
            "margin_bound": min(1.0, bound * math.exp(min(proof.theta * mass, 700.0))),
        })  # fmt: skip
    found = min(every, key=lambda one: abs(one["bound"] - proof.bound))
    for name, value in found.items():
        out.near(name, value, 1e-6, max(abs(value), 1e-6))
    right = found["training_error"] <= found["bound"] * (1 + 1e-9)
    _status(out, right, proof.proven == right, "the product must exceed the error")


def _network(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """The mean loss and its gradient by back-propagation, layer by layer."""
    bend: dict[str, Any] = {
        "sigmoid": lambda a: 0.5 * (1.0 + np.tanh(0.5 * a)),
        "tanh": np.tanh,
        "relu": lambda a: np.maximum(a, 0.0),
    }
    slope: dict[str, Any] = {
        "sigmoid": lambda v: v * (1.0 - v),
        "tanh": lambda v: 1.0 - v * v,
        "relu": lambda v: 1.0 * (v > 0),
    }
    if not math.isnan(proof.validation_loss) or "one by one" in proof.rows or record.activation.name not in bend:
        raise ModelError("there is no independent check of a network trained on a part of these rows", where="data")
    kind, sizes, at, layers = record.activation.name, [int(v) for v in record.sizes], 0, list[Any]()
    for a, b in itertools.pairwise(sizes):
        layers.append((record.theta[at : at + a * b].reshape(a, b), record.theta[at + a * b : (at := at + a * b + b)]))
    values = [X]
    for W, b in layers[:-1]:
        values.append(bend[kind](values[-1] @ W + b))
    s = (values[-1] @ layers[-1][0] + layers[-1][1])[:, 0]
    sign = getattr(record.loss, "targets", "") == "sign"
    t = np.where(y == np.unique(y)[-1], 1.0, -1.0) if sign else y.astype(float)
    each, down, _ = loss_of(record.loss.name, float((*record.loss, 0.0)[0]), s, t)
    share, decay = c / c.sum(), float(record.numbers[2])
    error, parts = (share * down)[:, None], list[np.ndarray]()
    for (W, _), below in zip(layers[::-1], values[::-1], strict=True):
        parts = [(below.T @ error).ravel(), error.sum(axis=0), *parts]
        error = (error @ W.T) * slope[kind](below)
    g = np.concatenate(parts) + decay * record.decayed * record.theta
    out.near("loss", float(share @ each) + 0.5 * decay * float((record.decayed * record.theta**2).sum()), 1e-6)
    out.near("gradient_norm", float(np.linalg.norm(g)), 1e-6)
    _status(out, False, not proof.proven, "a network's optimum is never proven")


def _likelihood(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    """The log-likelihood of rows, classes included; for Gaussians a column also the most that the family reaches."""
    density, table = getattr(record, "density", record), list(X.T)
    index = (
        np.array([list(record.classes).index(v) for v in y.tolist()])
        if density is not record
        else np.zeros(len(X), int)
    )
    each = density.scores(table)[np.arange(len(X)), index]
    counts = np.bincount(index, weights=c, minlength=density.groups)
    prior = float(c @ np.log(counts / counts.sum())[index]) if density is not record else 0.0
    out.near("rows", float(c.sum()), 1e-9)
    out.near("log_likelihood", float(c @ each) + prior, 1e-6, note="each density by the model's own code")
    out.near("gap", proof.maximum - proof.log_likelihood, 1e-6, abs(proof.maximum) * 1e-6 + abs(proof.gap))
    out.holds("effective_counts", tuple(counts.tolist()), np.allclose(counts, proof.effective_counts, rtol=1e-9))
    if {part.name for part in density.parts} == {"gaussian"} and not np.isnan(X).any():
        means = np.array([np.average(X[index == k], axis=0, weights=c[index == k]) for k in range(len(counts))])
        spread = np.array(
            [np.average((X[index == k] - means[k]) ** 2, axis=0, weights=c[index == k]) for k in range(len(counts))]
        )
        most = prior - 0.5 * float((counts[:, None] * (np.log(2.0 * math.pi * spread) + 1.0)).sum())
        out.near("maximum", most, 1e-9)


BEYOND: dict[str, Callable[..., None]] = {
    "monotone": robust_line, "local": _local, "kernel": _kernel_ridge,
    "kernel_perceptron": _kernel_mistakes, "boosting": _boosting, "network": _network, "generative": _likelihood,
    "density": _likelihood,
}  # fmt: skip
