"""The independent checker: finds anew, from the rows, what a certificate claims. NumPy only; no line of the solvers.

What a model says of itself comes as the plain records of ``statement.py``, through the door, ``verify.py``.

exact     normal equations in whole numbers, without rounding, solved in 120 digits, tell how many digits are right
gap       the objective, and what no objective is below, from a dual point that is found here
online    the learner's arithmetic again, row by row; the loss of the best fixed weights; the theorem's bound
mistakes  the same replay; the bound from the comparator's margin and slack
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

Rows = np.ndarray
COUNTS = ("poisson", "gamma", "tweedie")
decimals = np.vectorize(Decimal, otypes=[object])


class Check(NamedTuple):
    """One claim, the number claimed, the number found, and whether the one supports the other."""

    claim: str
    claimed: Any
    found: Any
    held: bool
    note: str = ""


class Claims(list[Check]):
    """The checks of one certificate; what is claimed is read from its fields by name."""

    def __init__(self, proof: Any) -> None:
        super().__init__()
        self.proof = proof

    def holds(self, name: str, found: Any, held: Any, note: str = "", *, field: str = "") -> None:
        """A claim that the found number supports or not."""
        claimed: Any = getattr(self.proof, field or name, None)
        self.append(Check(name, getattr(claimed, "value", claimed), found, bool(held), note))

    def near(self, name: str, found: float, tolerance: float, scale: float | None = None, note: str = "") -> None:
        """A claim that must equal the found number, to a share of the larger of the two or of a scale."""
        claimed = getattr(self.proof, name)
        size = max(abs(claimed), abs(found)) if scale is None else scale
        self.holds(name, found, claimed == found or abs(claimed - found) <= tolerance * size, note)


def loss_of(name: str, f: float, s: Rows, y: Rows) -> tuple[Rows, Rows, Rows]:
    """Value, slope and curvature of each row's loss in s, f its parameter; softmax: a score a class, y numbers them."""
    if name == "softmax":
        own, low = np.arange(s.shape[1]) == y[:, None], s - s.max(axis=1, keepdims=True)
        p = np.exp(low) / (total := np.exp(low).sum(axis=1))[:, None]
        return np.log(total) - low[own], p - own, p[:, :, None] * (np.eye(s.shape[1]) - p[:, None, :])
    r, m, straight = s - y, y * s, np.zeros(len(s))
    if name == "squared":
        return 0.5 * r * r, r, 1.0 + straight
    if name == "huber":
        near = np.abs(r) <= f
        return np.where(near, 0.5 * r * r, f * (np.abs(r) - 0.5 * f)), np.clip(r, -f, f), 1.0 * near
    if name == "logistic":
        p = np.exp(-np.logaddexp(0.0, m))  # to its last digits however small: 1 + tanh would cancel
        return np.logaddexp(0.0, -m), -y * p, p * (1.0 - p)
    if name == "squared_hinge":
        v = np.maximum(0.0, 1.0 - m)
        return v * v, -2.0 * y * v, 2.0 * (v > 0)
    if name in ("hinge", "perceptron"):
        late = m < 1.0 if name == "hinge" else m <= 0.0
        return np.where(late, float(name == "hinge") - m, 0.0), np.where(late, -y, 0.0), straight
    if name in ("absolute", "quantile"):
        k, q = (2.0, 0.5) if name == "absolute" else (1.0, f)
        return k * np.maximum(-q * r, (1 - q) * r), k * ((r > 0) * (1 - q) - (r < 0) * q), straight
    if name in COUNTS:  # variance as the mean to the power 1, 2 or f
        p = {"poisson": 1.0, "gamma": 2.0}.get(name, f)
        g, h = np.exp((2 - p) * s), y * np.exp((1 - p) * s)
        return (g / (2 - p) if p < 2 else s) - (h / (1 - p) if p > 1 else m), g - h, (2 - p) * g - (1 - p) * h
    raise NotImplementedError(f"the loss {name!r}")


def whole_numbers(Z: Rows) -> list[tuple[Rows, Rows]]:
    """Z = Σ K·2^unit with whole numbers |K| ≤ 2²⁰: products of 4,096 rows of them are exact in float64."""
    top, out = np.frexp(np.abs(Z).max(axis=0))[1], list[Any]()
    while Z.any() or not out:
        unit = top - 20 * (len(out) + 1)
        out.append((np.rint(np.ldexp(Z, -unit)), unit))
        Z = Z - np.ldexp(*out[-1])
    return out


def exact_products(A: Rows, B: Rows) -> tuple[Rows, Rows]:
    """AᵀB with no rounding at all: Python whole numbers, and the powers of 2 that are their units."""
    left, right, total = whole_numbers(A), whole_numbers(B), np.zeros((A.shape[1], B.shape[1]), dtype=object)
    for size in range(len(left) + len(right) - 1):  # Horner's rule: products of one size, and 20 bits to the next
        total = total * 2**20
        for K, L in ((K, right[size - p][0]) for p, (K, _) in enumerate(left) if 0 <= size - p < len(right)):
            part = sum((K[i : i + 4096].T @ L[i : i + 4096]).astype(np.int64) for i in range(0, len(K), 4096))
            total = total + part.astype(object)
    return total, (left[-1][1][:, None] + right[-1][1]).astype(object)


def gram(A: Rows, c: Rows) -> Rows:
    """AᵀCA exactly, as decimals: c·A is split into its rounded value and the error of that (Dekker)."""
    (a, b), (p, q) = ((h := v * 134217729.0 - (v * 134217729.0 - v), v - h) for v in (c[:, None], A))
    low = ((a * p - (high := c[:, None] * A)) + a * q + b * p) + b * q
    parts = (map(decimals, exact_products(A, part)) for part in (high, low) if part.any())
    return sum(whole * 2**unit for whole, unit in parts)


def eliminated(G: Rows, right: Rows) -> tuple[Rows, Rows]:
    """(solution, inverse) in 120 digits, by Gauss and Jordan."""
    k, T = len(G), np.hstack([G, right[:, None], decimals(np.eye(len(G)))])
    for p in range(k):
        if not T[p, p] > G[p, p] * Decimal(10) ** -40:
            raise ZeroDivisionError(p)
        on = slice(p, k + p + 2)  # left of it the work is done, right of it the unit matrix is untouched
        T[p, on], rest = T[p, on] / T[p, p], np.arange(k) != p
        T[rest, on] -= np.outer(T[rest, p], T[p, on])
    return T[:, k], T[:, k + 1 :]


def exact(out: Claims, X: Rows, Y: Rows, c: Rows, first: int, lines: list[Any], solved: Any = eliminated) -> list[Any]:
    """Least squares, ridge: a line a target tells its columns, ``first`` constants and its coefficients, its ridge."""
    proof, found, errors = out.proof, list[Any](), [Decimal(0)]
    with localcontext(Context(prec=120)):
        G = gram(np.column_stack([np.ones((len(X), first)), X, Y]), c)
        for at, (on, told, ridge) in enumerate(lines, first + X.shape[1]):
            rows, near = [*range(first), *(first + j for j in on)], decimals(told)
            M, right = G[np.ix_(rows, rows)] + np.diag(decimals(np.r_[np.zeros(first), ridge])), G[rows, at]
            try:
                best, inverse = solved(M, right)
            except ZeroDivisionError as place:
                out.holds("rank", place.args[0], False, "a column that counts repeats the others")
                return []
            unseen = [Decimal("1e-15") * (G[at, at] / G[j, j]).sqrt() for j in rows]  # what shows in no prediction
            errors += [abs(e / v) for e, v, u in zip(near - best, best, unseen) if max(abs(v), abs(v + e)) > u]
            found.append((G, at, M, right, best, inverse, near))
    out.holds("rank", rank := min(len(on) for on, *_ in lines), proof.rank == rank)
    if not proof.dropped:
        digits = -math.log10(max(float(max(errors)), 2.0**-53))
        out.holds("arithmetic_digits", digits, proof.arithmetic_digits <= min(digits + 1.0, 16.0))  # one above, at most
        out.holds("digits", digits, proof.digits <= digits + 1.0)
    out.holds("status", "not_proven" if proof.dropped else "proven", proof.proven == (not proof.dropped))
    return found


def scores(p: Any, W: Rows) -> Rows:
    """One a row, or one a row and class."""
    return p.Z @ (W if p.loss == "softmax" else W[:, 0])


def least_of(p: Any) -> Rows:
    """The least that each row's loss can be."""
    return loss_of(p.loss, p.f, np.log(np.maximum(p.t, 1e-300)), p.t)[0] if p.loss in COUNTS else np.zeros(len(p.t))


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


def gap(out: Claims, problems: list[Any], tolerance: float, dual_of: Any = dual_by_newton) -> Any:
    """Objective, dual value, their distance: of the problem that the certificate shows; status rests on all of them."""
    proof, limit, every = out.proof, 1.01 * tolerance + 1e-11, list[Any]()
    for p in problems:
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


def replayed(rule: Any, X: Rows, y: Rows, c: Rows) -> tuple[Rows, Rows]:
    """Scores before each update, and each row's share of the step: the learner again, in plain arithmetic."""
    kind, own, Z = rule.geometry, rule.own, np.insert(X, 0, float(rule.constant), axis=1)
    theta, memory, s, share = np.zeros(len(Z.T)), np.zeros(len(Z.T)), np.empty(len(Z)), c.copy()
    live = np.arange(len(Z.T)) >= (not rule.constant)
    for i, x in enumerate(Z):
        w = theta
        if kind in ("multiplicative", "signed"):
            up, down = (np.where(live, np.exp(k * theta - np.abs(theta).max()), 0.0) for k in (1.0, -1.0))
            w = up / up.sum() if kind == "multiplicative" else own * (up - down) / (up + down).sum()
        share[i] /= own + x @ x if kind == "normalised" else 1.0
        rate, s[i], t = share[i] * rule.base / (i + 1.0) ** rule.power, w @ x, y[i : i + 1]
        slope = float(loss_of(rule.loss, rule.f, s[i : i + 1], t)[1][0])
        low, high = min(0.0, slope), max(0.0, slope)
        for _ in range(200 if kind == "implicit" else 0):  # the slope after the step, by halving
            slope = 0.5 * (low + high)
            ahead = float(loss_of(rule.loss, rule.f, s[i : i + 1] - rate * (x @ x) * slope, t)[1][0])
            low, high = (slope, high) if slope < ahead else (low, slope)
        memory += (slope * x) ** 2
        theta = theta - rate * {"adaptive": 1.0 / np.sqrt(own + memory), "signed": own}.get(kind, 1.0) * slope * x
    return s, share


def told(rule: Any, s: Rows, t: Rows) -> Rows:
    """Losses as certificates sum them: squares without the half."""
    return loss_of(rule.loss, rule.f, s, t)[0] * (2.0 if rule.loss == "squared" else 1.0)


def online(out: Claims, rule: Any, X: Rows, targets: list[Rows], c: Rows) -> float:
    """A learner of one example at a time, or one a class: its loss by replay, its regret, Widrow and Hoff's bound."""
    again = [replayed(rule, X, t, c) for t in targets]
    loss = math.fsum(share @ told(rule, s, t) for (s, share), t in zip(again, targets, strict=True))
    t, share, u = targets[0], again[0][1], out.proof.bound_comparator
    regret(out, rule, X, t if len(targets) == 1 else None, share, loss)
    if u is not None and rule.power == 0 and rule.loss == "squared" and rule.geometry in ("additive", "normalised"):
        Z = np.insert(X, 0, float(rule.constant), axis=1)
        kappa = rule.base * float(np.max(share * (Z**2).sum(axis=1)))
        bound = float(share @ (t - Z @ u) ** 2) / (1 - kappa) + float(u @ u) / rule.base if kappa < 1 else math.inf
        out.near("bound", bound, 1e-6)
        worst = next((item.worst for item in out.proof.assumptions if item.name.startswith("κ")), None)
        out.append(Check("worst value of κ", worst, kappa, worst is None or abs(worst - kappa) <= 1e-9 * kappa))
        if out.proof.kind != "averaged":
            out.holds("status", "proven" if kappa < 1 else "void", out.proof.proven == (kappa < 1))
    return loss


def regret(out: Claims, rule: Any, X: Rows, t: Rows | None, share: Rows, loss: float, note: str = "") -> None:
    """The loss suffered, its bound, and the best fixed weights' loss; t is None where no one target was learned."""
    proof = out.proof
    out.holds("examples", len(X), proof.examples == len(X))
    out.near("loss", loss, 1e-6, note=note)
    if not math.isnan(proof.regret):
        out.near("regret", proof.loss - proof.comparator_loss, 1e-9, abs(proof.loss) + 1e-300)
    out.holds("bound", loss, loss <= proof.bound * (1 + 1e-9) or not proof.proven, "the loss must not exceed it")
    if proof.comparator is None or t is None or math.isnan(proof.comparator_loss):
        return
    best = float(share @ told(rule, np.insert(X, 0, 1.0, axis=1) @ proof.comparator, t))
    floor = 1e-9 * float(share @ (t - t.mean()) ** 2)
    out.near("comparator_loss", best, 1.0, 1e-6 * abs(best) + floor)
    if rule.loss == "squared" and rule.geometry not in ("multiplicative", "signed"):
        A, b = np.insert(X, 0, float(rule.constant), axis=1) * np.sqrt(share)[:, None], t * np.sqrt(share)
        least = float(((b - A @ np.linalg.lstsq(A, b, rcond=None)[0]) ** 2).sum())
        out.holds("no fixed weights are better", least, least >= best * (1 - 1e-6) - floor, field="comparator_loss")


def mistakes(out: Claims, rule: Any, X: Rows, signs: list[Rows], scores: list[Rows]) -> Rows:
    """Mistakes in the replay's scores, and the perceptron's bound; returns the rows of the first, signed."""
    proof, late = out.proof, [t * s <= 0 for t, s in zip(signs, scores, strict=True)]
    wrong = late[0] if len(late) == 1 else np.argmax(scores, axis=0) != np.argmax(signs, axis=0)
    count, Z = int(wrong.sum()), np.insert(X, 0, float(rule.constant), axis=1)
    lengths, Z = np.sqrt((Z**2).sum(axis=1)), (Z * signs[0][:, None])[late[0]]
    out.holds("examples", len(X), proof.examples == len(X))
    out.holds("mistakes", count, proof.mistakes == count)
    out.holds("bound", count, count <= proof.bound or not proof.proven, "mistakes must not exceed it")
    if rule.geometry == "additive":
        out.near("radius", float(lengths[np.any(late, axis=0)].max(initial=0.0)), 1e-6)
    if rule.geometry == "additive" and proof.comparator is not None and len(Z):
        slack, size = (float(np.linalg.norm(v)) for v in (np.maximum(0, 1 - Z @ proof.comparator), proof.comparator))
        margin = float((Z @ proof.comparator).min()) / size
        right = abs(proof.margin - margin) <= 1e-6 * abs(margin) if margin > 0 else math.isnan(proof.margin)
        out.holds("margin", margin, right)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (float(lengths[late[0]].max()) * size + slack) ** 2, 1e-6)
    return Z
