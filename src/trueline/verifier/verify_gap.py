"""Minimised objectives: the objective anew, what no objective is below from a dual point found here, and slopes.

Solvers measure gradients in columns of length 1, centred where a free constant stands beside them, or in the columns as
they are; so does this.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .stated_claims import Claims, Given, Problem, Rows, problems
from .verify_losses import COUNTS, least_of, loss_of

KINKED = ("hinge", "absolute", "quantile")
CURVE = {"logistic": 0.25, "softmax": 0.25, "squared_hinge": 2.0}  # the most that a loss curves, where it is not 1


def check_objective(out: Claims, told: Given) -> None:
    """All checks of a minimised objective."""
    found, tolerance = problems(told)
    kinked = found[0].loss in KINKED
    shown = gap(out, found, tolerance, dual_on_kinks if kinked else dual_by_newton)
    steepness(out, shown)


def scores(p: Any, W: Rows) -> Rows:
    """One a row, or one a row and class."""
    return p.Z @ (W if p.loss == "softmax" else W[:, 0])


def dual_value(p: Any, a: Rows, conjugate: Rows) -> float:
    """A number that no value of the objective is below, from slopes a of the rows and their losses' conjugates.

    min P ≥ −Σ c·loss*(a) − Σ penalty*(−ZᵀCa). Under L1 alone |ZᵀCa| may not exceed l1, so a shrinks by k, and by
    convexity loss*(k a) ≤ k·loss*(a) + (1 − k)·loss*(0). A free weight asks for ZᵀCa = 0: what rounding leaves of it
    is charged at twice the weight.
    """
    free, alone, ridge = (p.l1 == 0) & (p.l2 == 0), (p.l1 > 0) & (p.l2 == 0), p.l2 > 0
    z, l1, l2 = p.Z.T @ (p.c[:, None] * a.reshape(len(a), -1)), p.l1[:, None], p.l2[:, None]
    z = np.abs(np.where(free[:, None], z, np.minimum(z, 0.0)) if p.positive else z)
    k = float(np.min(l1[alone] / np.maximum(z[alone], 1e-300), initial=1.0))
    held = (np.maximum(z - l1, 0.0)[ridge] ** 2 / (2.0 * l2[ridge])).sum() + 2.0 * (z * np.abs(p.W))[free].sum()
    return -float(p.c @ (k * conjugate - (1.0 - k) * least_of(p)) + held)


def dual_by_newton(p: Any) -> float:
    """The best dual value on Newton's way from the model's weights; conjugates by Fenchel and Young, a·s − loss(s)."""
    n, many, W, s, best = len(p.Z), p.W.shape[1], p.W, scores(p, p.W), float(p.c @ least_of(p))
    sizes = np.abs(W) * np.sqrt(p.c @ p.Z**2)[:, None]
    used = ((p.l1 == 0)[:, None] | (sizes > 1e-9 * sizes.max())).ravel()
    used &= np.repeat((p.l1 == 0) & (p.l2 == 0), many) | (W.size <= 1500)
    for _ in range(9):
        value, a, curve = loss_of(p.loss, p.f, s, p.t)
        best = max(best, dual_value(p, a, (a * s).reshape(n, -1).sum(axis=1) - value))
        g = p.Z.T @ (p.c[:, None] * a.reshape(n, -1)) + p.l2[:, None] * W + p.l1[:, None] * np.sign(p.W)
        curve = p.c[:, None, None] * curve.reshape(n, many, many)
        H = np.einsum("iu,iab,iv->uavb", p.Z, curve, p.Z, optimize=True).reshape(W.size, W.size)
        H = (H + np.diag(np.repeat(p.l2, many)))[np.ix_(used, used)]
        d = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        step = np.zeros(W.size)
        step[used] = d * np.linalg.lstsq(d[:, None] * H * d, d * g.ravel()[used], rcond=None)[0]
        W, s = W - step.reshape(W.shape), s - scores(p, step.reshape(W.shape))
    return best


def gap(out: Claims, every_problem: list[Any], tolerance: float, dual_of: Any = dual_by_newton) -> Any:
    """Objective, dual value, their distance: of the problem that the certificate shows; status rests on all of them."""
    proof, limit, every = out.proof, 1.01 * tolerance + 1e-11, list[Any]()
    for p in every_problem:
        value, at_zero = (float(p.c @ loss_of(p.loss, p.f, scores(p, W), p.t)[0]) for W in (p.W, 0.0 * p.W))
        primal = value + float((p.l1 @ np.abs(p.W) + 0.5 * p.l2 @ p.W**2).sum())
        every.append((primal, dual_of(p), max(abs(primal), 1e-3 * abs(at_zero)), p))
    primal, dual, scale, shown = min(every, key=lambda found: abs(found[0] - proof.primal))
    out.near("primal", primal, 1e-9, scale)
    out.near("gap", proof.primal - proof.dual, 1e-9, scale)
    low, high = (max(proof.gap, 0.0) / (v or 1.0) for v in (scale, abs(primal)))  # near 0 a floor is allowed
    out.holds("relative_gap", low, low * (1 - 1e-6) - 1e-9 <= proof.relative_gap <= high * (1 + 1e-6) + 1e-9)
    # What is not proven claims no bound finer than its tolerance; nor are slopes on kinks told more finely.
    slack = limit * scale * (not proof.proven or dual_of is not dual_by_newton)
    room = max(slack, 1.01 * (proof.primal - proof.dual) + 1e-11 * scale)
    out.holds("dual", dual, primal - dual <= room and proof.dual <= primal + 1e-9 * scale)
    apart, other = max((one[0] - one[1]) / one[2] for one in every), proof.status.value in ("interrupted", "degenerate")
    said = (other or proof.proven == (proof.relative_gap <= limit)) and not (proof.proven and apart > limit)
    out.holds("status", "proven" if apart <= limit and not other else "not_proven", said)
    return shown


class Scaled(NamedTuple):
    """A problem in the solvers' columns B; ``wide`` bounds |B| before anything cancels."""

    B: Rows
    wide: Rows
    V: Rows
    L1: Rows
    L2: Rows


def scaled(p: Problem) -> Scaled:
    if not p.standardised:
        W = np.vstack([p.W[:1] - p.shift @ p.W, p.W[1:]])  # the constant beside columns that are not centred
        raw = p.Z + p.shift
        return Scaled(raw, np.abs(raw), W, p.l1[:, None], p.l2[:, None])
    size = np.where((size := p.c @ p.Z**2) > 1e-26 * p.shift**2, size, 1.0)
    size = np.sqrt(
        size + p.l2 * ~(p.Z == 1).all(axis=0) / CURVE.get(p.loss, 1.0)
    )  # lengths count the ridge's curvature
    wide = (np.abs(p.Z) + 2.0 * np.abs(p.shift)) / size
    return Scaled(p.Z / size, wide, p.W * size[:, None], (p.l1 / size)[:, None], (p.l2 / size**2)[:, None])


def steepness(out: Claims, p: Problem) -> None:
    """The gradient's norm, the decrement and 2/λ_max at the weights told."""
    proof, (B, wide, V, L1, L2) = out.proof, scaled(p)
    s = scores(p, p.W)
    value, a, curve = loss_of(p.loss, p.f, s, p.t)
    n, free = len(p.Z), ((p.l1 == 0) & (p.l2 == 0))[:, None]
    g = B.T @ (p.c[:, None] * a.reshape(n, -1)) + L2 * V
    # At 0 an L1 penalty allows some slope.
    rest = np.minimum(g + L1, 0.0) if p.positive else np.sign(g) * np.maximum(np.abs(g) - L1, 0.0)
    steep = float(np.linalg.norm(np.where((V == 0) & ~free, rest, g + L1 * np.sign(V))))
    rounding = 1e-13 * float(np.linalg.norm(wide.T @ (p.c[:, None] * np.abs(a.reshape(n, -1)))))
    if p.loss in KINKED:  # on a kink either side may be meant
        away = np.abs(1 - p.t * s if p.loss == "hinge" else s - p.t)
        unsure = away <= 4e-15 * ((np.abs(p.Z) + 2.0 * np.abs(p.shift)) @ np.abs(p.W[:, 0]) + np.abs(p.t))
        rounding += 2.0 * float(np.linalg.norm(np.abs(B).T @ (p.c * unsure)))
    if proof.gradient_norm is not None:  # beyond 65,536 rows the solver measures its columns on a sample
        out.near("gradient_norm", steep, 1.0, rounding + (1e-6 if n <= 65_536 else 0.5) * steep)
    if proof.newton_decrement is not None:
        primal = float(p.c @ value + (p.l1 @ np.abs(p.W) + 0.5 * p.l2 @ p.W**2).sum())
        zero = float(p.c @ loss_of(p.loss, p.f, 0.0 * s, p.t)[0])
        _decrement(out, p, g + L1 * np.sign(V), curve, rounding, max(abs(primal), 1e-3 * abs(zero)))
    if proof.largest_step is not None:
        most = 0.5 if p.loss == "softmax" else CURVE.get(p.loss, 1.0)
        top = float(np.linalg.eigvalsh(most * (B * p.c[:, None]).T @ B + np.diag(L2[:, 0]))[-1])
        out.near("largest_step", 2.0 / top, 0.01)


def _decrement(out: Claims, p: Problem, g: Rows, curve: Rows, rounding: float, scale: float) -> None:
    """√(gᵀH⁻¹g) over the weights that are used, as far as rounding lets it be told.

    By the triangle inequality in H⁻¹'s norm, an error e of g counts at most ‖e‖/√λ_min; eigenvalues that the rounding
    of H's own entries reaches tell nothing. A solver may stop with the Hessian of the point before. Where |f‴| ≤ f″,
    a Newton step that moves scores by δ changes H by at most e^±δ, the decrement by e^±δ/2, and leaves a step of about
    δ²/2: so from the step left here, δ = √2·(its root), and never less than itself (classes that separate: 1 and 1).
    """
    (B, _, V, L1, L2), n, many = scaled(p), len(p.Z), p.W.shape[1]
    used = (L1 == 0) | (np.abs(V) > 1e-9 * np.abs(V).max())
    used = (used if V.size <= 1500 else (L1 == 0) & (L2 == 0) & used).ravel()
    curve = p.c[:, None, None] * curve.reshape(n, many, many)
    H = np.einsum("iu,iab,iv->uavb", B, curve, B, optimize=True).reshape(V.size, V.size)
    H, g = (H + np.diag(np.repeat(L2, many)))[np.ix_(used, used)], g.ravel()[used]
    decrement = math.sqrt(max(0.0, float(g @ np.linalg.lstsq(H, g, rcond=None)[0])))
    noise, moved, curved = decrement, 0.0, float(np.einsum("iaa->", curve))
    values, vectors = np.linalg.eigh(H)
    sure = values > 1e-12 * values.max(initial=1e-300)
    if sure.any():
        lost = float((((g @ vectors) ** 2)[~sure] / np.maximum(values[~sure], 1e-300)).sum())
        steady = p.loss in ("logistic", "softmax", *COUNTS)
        left = decrement / math.sqrt(curved) if curved > 0 and steady else 0.0
        noise = math.sqrt(min(lost, decrement**2)) + rounding / math.sqrt(values[sure][0])
        moved = 0.5 * max(left, math.sqrt(2.0 * left))
    told, wide, noise = out.proof.newton_decrement, math.exp(moved), noise + 1e-8 * math.sqrt(scale)
    right = 0.95 / wide * decrement - noise <= told <= 1.05 * wide * decrement + noise
    out.holds("newton_decrement", decrement, right)


def dual_on_kinks(p: Problem) -> float:
    """Rows on a kink take the slope that the optimum asks of them, within their range; the best bound counts."""
    (B, _, V, L1, L2), n, t = scaled(p), len(p.Z), p.t
    s = scores(p, p.W)
    a = loss_of(p.loss, p.f, s, p.t)[1]
    ranges = {"hinge": (np.minimum(-t, 0), np.maximum(-t, 0)), "absolute": (-1.0, 1.0)}
    low, high = (np.broadcast_to(v, n) for v in ranges.get(p.loss, (-p.f, 1.0 - p.f)))
    used = ((L1 == 0) | (np.abs(V) > 1e-6 * np.abs(V).max()))[:, 0]
    D, ask = (B * p.c[:, None])[:, used], (L2 * V + L1 * np.sign(V))[used, 0]
    near, found = np.argsort(away := np.abs(1 - t * s if p.loss == "hinge" else s - t)), [0.0]
    for k in (*range(min(n, 3 * len(p.W)) + 1), int((away < 1e-4).sum())):
        few, b = k <= 3 * len(p.W), a.copy()
        b[near[:k]] = (a if few else 0.5 * (low + high))[near[:k]]
        for _ in range(9):
            on = near[:k][(few | ((b > low) & (b < high)))[near[:k]]]
            b[on] -= np.linalg.lstsq(D[on].T, ask + D.T @ b, rcond=None)[0]
            b = np.clip(b, low, high)
            found.append(dual_value(p, b, b * t))  # these losses' conjugates are a·t within the range
    return max(found)
