"""Mistake bounds of the perceptron and of Winnow, from the rows on which they erred.

Both bounds hold for every comparator and only look at mistake rounds, so those rows are all that is kept.

perceptron   N ≤ (R‖w‖ + ‖ξ‖₂)²  for any w, ξ_i = max(0, 1 − y_i w·x_i);  with ξ = 0 that is R²/ρ²
Winnow       N ≤ (RE(u‖w₁) + η·Σ max(0, γ − y u·x)) / (ηγ − η²‖x‖∞²/2)  for any ‖u‖₁ = 1 and margin γ

Several classes, one head each against the rest: where a wrong label's score is the largest, that head errs if the score
is not negative, and the right label's head errs if it is. So the wrong labels are at most the heads' mistakes in all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption
from ..certificates.regret import MistakeCertificate, bound_status
from ..threads import one_blas_thread


def keep(model: Any, X: Any, targets: np.ndarray, scores: np.ndarray) -> None:
    """Keep the rows on which a head erred, and count the rounds whose label was wrong."""
    for h, (y, score) in enumerate(zip(targets, scores)):
        wrong = score * y <= 0.0
        if wrong.any():
            model.kept.append((X[wrong], y[wrong], h))
    if len(targets) > 1:
        model.wrong += int(np.sum(np.argmax(targets, axis=0) != np.argmax(scores, axis=0)))


def kept_rows(model: Any, h: int) -> Any:
    """The mistake rounds of a head as one signed matrix y·(1, x) (1 only with an intercept), dense or sparse."""
    from scipy import sparse

    width = model.width
    blocks, signs = [], []
    for X, y, head in model.kept:
        if head != h:
            continue
        if hasattr(X, "indptr"):
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
        elif X.shape[1] < width:
            X = np.pad(X, ((0, 0), (0, width - X.shape[1])))
        blocks.append(X)
        signs.append(y)
    y = np.concatenate(signs)
    if any(hasattr(block, "indptr") for block in blocks):
        X = sparse.vstack([sparse.csr_matrix(block) for block in blocks]).tocsr()
        Z = sparse.hstack([sparse.csr_matrix(np.ones((len(y), 1))), X]).tocsr() if model.fit_intercept else X
        return sparse.diags(y) @ Z
    X = np.vstack(blocks)
    Z = np.hstack([np.ones((len(y), 1)), X]) if model.fit_intercept else X
    return Z * y[:, None]


def mistake_certificate(model: Any) -> MistakeCertificate:
    """Mistakes, radius, margin or slack found, bound; of several heads the sum."""
    found = [head_mistakes(model, h) for h in range(len(model.heads))]
    if len(found) == 1:
        return found[0]
    worst = max(found, key=lambda proof: (not proof.proven, proof.bound))
    bound = sum(proof.bound for proof in found)
    return MistakeCertificate(
        status=bound_status(model.wrong, bound, worst.assumptions), assumptions=worst.assumptions, advice=worst.advice,
        examples=model.examples, mistakes=model.wrong, radius=max(proof.radius for proof in found), bound=bound,
        theorem=f"{worst.theorem}; one against the rest, summed over {len(found)} classes",
    )  # fmt: skip


def head_mistakes(model: Any, h: int) -> MistakeCertificate:
    """The certificate of one head."""
    winnow = bool(model.geometry.linked)
    theorem = "Winnow with slack" if winnow else "perceptron: N ≤ (R‖w‖ + ‖ξ‖₂)²"
    if not any(head == h for _, _, head in model.kept):
        return MistakeCertificate(
            status=bound_status(0.0, 0.0, ()), examples=model.examples, bound=0.0, theorem=theorem
        )
    Z = kept_rows(model, h)
    mistakes = Z.shape[0]
    uniform = abs(model.heads[h].slope2 - mistakes) < 1e-6 and model.rate.power == 0.0 and not (winnow and model.late)
    assumptions = (
        Assumption("every round has weight 1, the rate is constant, features are known from the start", uniform),
    )
    weights = model.weights(h)
    candidates = comparators(Z, weights if model.fit_intercept else weights[1:])
    find = winnow_bound if winnow else perceptron_bound
    bound, radius, margin, slack, u = min((find(Z, u, model) for u in candidates), key=lambda found: found[0])
    full = np.zeros(model.width + 1)
    full[0 if model.fit_intercept else 1 :] = u
    bound = bound if uniform else math.inf
    holds = math.isfinite(bound)
    advice = ""
    if not uniform:
        advice = "the theorem counts rounds of equal weight at a constant rate; fit without sample_weight"
    elif not holds:
        advice = "no comparator has a margin above rate·‖x‖∞²/2 on the mistakes"
        if radius > 0.0 and margin:
            advice += f"; use a rate below {2.0 * margin / radius**2:.2g}"
    return MistakeCertificate(
        status=bound_status(mistakes, bound, assumptions), assumptions=assumptions, advice=advice,
        examples=model.examples, mistakes=mistakes, radius=radius, margin=margin, slack=slack, bound=bound,
        comparator=full, theorem=theorem,
    )  # fmt: skip


def comparators(Z: Any, weights: np.ndarray) -> list[np.ndarray]:
    """Directions worth trying: the weights in force, the mean of the rows, squared-hinge solutions at several ridges."""
    from scipy.optimize import minimize

    found = [weights, np.asarray(Z.sum(axis=0)).ravel()]
    size = float(np.mean(row_norms(Z)))

    def objective(w: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
        slack = np.maximum(0.0, 1.0 - Z @ w)
        return float(slack @ slack) + ridge * float(w @ w), 2.0 * (ridge * w - Z.T @ slack)

    start = np.zeros(Z.shape[1])
    with one_blas_thread():  # small products, which BLAS's threads would only wait for each other over
        for ridge in (1e-1, 1e-3, 1e-6):
            start = minimize(
                objective, start, args=(ridge * size,), jac=True, method="L-BFGS-B", options={"maxiter": 200}
            ).x
            found.append(start)
    sized = [(u, float(np.abs(u).max(initial=0.0))) for u in found]
    # Directions whose squares vanish are lengthened: every length is tried anyway.
    return [u if size > 1e-100 else u / size for u, size in sized if size > 0.0] or [np.ones(Z.shape[1])]


def row_norms(Z: Any) -> np.ndarray:
    squares = np.asarray(Z.multiply(Z).sum(axis=1)).ravel() if hasattr(Z, "indptr") else np.einsum("ij,ij->i", Z, Z)
    return squares


def perceptron_bound(Z: Any, u: np.ndarray, model: Any) -> tuple[float, float, float | None, float | None, np.ndarray]:
    """(bound, R, margin, slack, w) at the best scale of a direction u."""
    radius = math.sqrt(float(row_norms(Z).max()))
    margins = np.asarray(Z @ u).ravel()
    size = float(np.linalg.norm(u))
    least = float(margins.min()) / size
    trials = [1.0]
    if least > 0.0:
        trials.append(1.0 / (least * size))
    positive = margins[margins > 0.0]
    if len(positive):
        trials += list(1.0 / np.quantile(positive, [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]))
    # w → 0 would give N ≤ N: true and empty, so only scales at which w separates something are tried.
    margin = least if least > 0.0 else None
    best: tuple[float, float, float | None, float | None, np.ndarray] = (math.inf, radius, margin, None, u)
    for scale in trials:
        slack = float(np.linalg.norm(np.maximum(0.0, 1.0 - scale * margins)))
        bound = (radius * scale * size + slack) ** 2 * (1.0 + 1e-12)
        if bound < best[0]:
            best = (bound, radius, margin, slack, scale * u)
    return best


def winnow_bound(Z: Any, u: np.ndarray, model: Any) -> tuple[float, float, float | None, float | None, np.ndarray]:
    """(bound, ‖x‖∞, margin, slack, u) at the best margin γ of u with ‖u‖₁ = 1."""
    radius = float(np.abs(Z.data if hasattr(Z, "indptr") else Z).max())
    eta = model.rate.base * model.geometry.radius
    u = u / np.abs(u).sum()
    margins = np.asarray(Z @ u).ravel()
    entropy = type(model.geometry)(1.0).divergence(u)
    least = float(margins.min())
    start = 0.5 * eta * radius**2
    most = float(margins.max())  # γ → ∞ would give N ≤ N: true and empty
    trials = [start * (1.0 + 10.0**k) for k in np.arange(-2.0, 4.0, 0.25) if start * (1.0 + 10.0**k) <= most]
    trials += [float(q) for q in np.quantile(margins, np.linspace(0.0, 1.0, 41)) if q > start]
    best: tuple[float, float, float | None, float | None, np.ndarray] = (
        math.inf, radius, least if least > 0.0 else None, None, u,
    )  # fmt: skip
    for margin in trials:
        slack = float(np.maximum(0.0, margin - margins).sum())
        gain = eta * margin - eta * start
        if gain <= 0.0:
            continue
        bound = (entropy + eta * slack) / gain * (1.0 + 1e-12)
        if bound < best[0]:
            best = (bound, radius, best[2], slack, u)
    return best
