"""The independent verifier: recomputes what a certificate claims from the data. NumPy and decimals only.

It shares no code with the solvers and is short enough to be read. *exact* is checked by error-free products in whole
numbers and elimination in 120 decimal digits; *batch* by forming the objective and a dual point anew; *online* and
*perceptron* by replaying the stream row by row. The number found must support the number claimed.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import ModelError
from .checks import Claims, Verification, given, minimised

_SHIFT, _ULP = 2200, 2.0**-53  # every product of two float64 is a whole multiple of 2^-2148
KINKED, COUNTS = ("hinge", "absolute", "quantile"), ("poisson", "gamma", "tweedie")
CURVE = {"logistic": 0.25, "softmax": 0.25, "squared_hinge": 2.0}  # the most that a loss curves, where it is not 1


def verify(model: Any, data: Any, *, certificate: Any = None, replay: Any = None) -> Verification:
    """Recompute a model's certificate from its training data, by other code than made it.

    ``model`` is a fitted estimator or a record; ``data`` is (X, y) or (X, y, weights), in the training order for
    online learners, or any table or path that the model was trained on; ``certificate`` replaces the model's own,
    ``replay(X, y, weights)`` gives a mixture's predictions again where its columns came one by one.

    >>> import numpy as np, trueline as tl
    >>> X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    >>> str(tl.verify(tl.LinearRegression().fit(X, y), (X, y)))
    '7 claims hold'
    """
    record, proof, X, y, c = given(model, data, certificate)
    ways = {"exact": _exact, "batch": _gap, "online": _online, "stream": _online, "perceptron": _mistakes}
    if proof.kind not in ways:
        raise ModelError(f"there is no independent check of a certificate of kind {proof.kind!r}", where="certificate")
    ways[proof.kind](claims := Claims(proof, replay), record, proof, X, y, c)
    return Verification(proof.kind, tuple(claims.checks))


def _slices(Z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Z = Σ K·2^unit with whole numbers |K| ≤ 2²⁰: products of 4,096 rows of them are exact in float64."""
    top, out = np.frexp(np.abs(Z).max(axis=0))[1], list[Any]()
    while Z.any():
        unit = top - 20 * (len(out) + 1)
        out.append((np.rint(np.ldexp(Z, -unit)), unit))
        Z = Z - np.ldexp(*out[-1])
    return out


def exact_products(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """AᵀB with no rounding at all, as Python whole numbers in units of 2^-2200."""
    total, right = np.zeros((A.shape[1], B.shape[1]), dtype=object), _slices(B)
    for K, u in _slices(A):
        for L, v in right:
            part = sum((K[s : s + 4096].T @ L[s : s + 4096]).astype(np.int64) for s in range(0, len(K), 4096))
            total = total + part.astype(object) * 2 ** ((u[:, None] + v[None, :]).astype(object) + _SHIFT)
    return total


def _solved(A: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Gram matrix, solution, inverse) of the last columns of A on its first k, in 120 digits (Gauss and Jordan)."""
    (a, b), (p, q) = ((h := v * 134217729.0 - (v * 134217729.0 - v), v - h) for v in (c[:, None], A))
    low = ((a * p - (high := c[:, None] * A)) + a * q + b * p) + b * q  # c·A = high + low exactly (Dekker)
    total = sum(exact_products(A, part) for part in (high, low) if part.any())
    G = np.vectorize(lambda v: Decimal(int(v)) * Decimal(2) ** -_SHIFT, otypes=[object])(total)
    T = np.hstack([G[:k], np.vectorize(Decimal, otypes=[object])(np.eye(k, dtype=int).astype(object))])
    for p in range(k):
        if not T[p, p] > G[p, p] * Decimal(10) ** -40:
            raise ZeroDivisionError(p)
        T[p] = T[p] / T[p, p]
        for r in range(k):
            if r != p:
                T[r] = T[r] - T[r, p] * T[p]
    return G, T[:, k : len(G)], T[:, len(G) :]


def _exact(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    X, Y, c = X[c > 0], y.astype(float).reshape(len(X), -1)[c > 0], c[c > 0]
    first = int(bool(record.statistics.get("fit_intercept", True)))
    kept = [j for j, term in enumerate(record.terms) if term not in proof.dropped]
    A, k = np.column_stack([np.ones((len(X), first)), X[:, kept], Y]), first + len(kept)
    constant = np.broadcast_to(np.ravel(record.intercept), (Y.shape[1],))[None, :]
    own = np.vstack([constant[:first], np.atleast_2d(record.coef)[:, kept].T])
    with decimal.localcontext(decimal.Context(prec=120)):
        try:
            G, best, inverse = _solved(A, c, k)
        except ZeroDivisionError as place:
            return out.holds("rank", place.args[0], False, "a column that counts repeats the others")
        near = np.vectorize(Decimal, otypes=[object])(own)
        error: Any = max((abs(e / b) for e, b in zip((near - best).flat, best.flat) if b != 0), default=0)
        if first:  # the angle is that of the coefficients, with the constant that belongs to them
            near[0] = (G[0, k:] - G[0, 1:k] @ near[1:]) / G[0, 0]
        drift = np.linalg.norm((G[:k, k:] - G[:k, :k] @ near)[first:].astype(float), axis=0)
        rss = np.array([float(G[k + t, k + t] - best[:, t] @ G[:k, k + t]) for t in range(Y.shape[1])])
    centre = np.asarray(first * (c @ X[:, kept]) / c.sum())
    V, C = inverse[first:, first:].astype(float), (X[:, kept] - centre) * np.sqrt(c)[:, None]
    lengths = np.sqrt((C**2).sum(axis=0))
    both = ((C / lengths).T @ (C / lengths), V * np.outer(lengths, lengths)) if kept else (np.eye(1), np.eye(1))
    size = np.sqrt((lengths**2).sum() * np.maximum(rss, 0.0))
    out.holds("rank", len(kept), proof.rank == len(kept))
    out.near("condition_number", math.sqrt(max(1.0, math.prod(np.linalg.eigvalsh(M)[-1] for M in both))), 1e-3)
    for j in set(range(X.shape[1])) - set(kept):  # a dropped column must lie in the span of the others
        apart = X[:, j] - A[:, :k] @ np.linalg.lstsq(A[:, :k], X[:, j], rcond=None)[0]
        share = float(np.linalg.norm(apart)) / (float(np.linalg.norm(X[:, j])) or 1.0)
        out.holds(f"{record.terms[j]} repeats others", share, share <= 1e-9, "its distance from them", field="dropped")
    if len(kept) == X.shape[1]:
        digits = -math.log10(max(float(error), _ULP))
        # What the data allow: every entry that is not a whole number may be off by half a unit in its last place.
        off = np.array([0.0 if (z == np.rint(z)).all() else _ULP**2 * float(c @ z**2) for z in (*X.T, *Y.T)])
        entry, found, rest = off[: X.shape[1]], best.astype(float), np.sqrt(np.maximum(rss, 0.0) / len(X))
        rows = np.vstack([centre @ V, V])[1 - first :]
        spread = np.r_[centre @ V @ centre + 1.0 / len(X), np.diag(V)][1 - first :, None]
        moved = np.sqrt(np.maximum(spread, 0.0) * (off[X.shape[1] :] + entry @ found[first:] ** 2) / len(X))
        lost = (moved + np.sqrt(rows**2 @ entry)[:, None] * rest) / np.maximum(np.abs(found), 1e-300)
        allowed = max(0.0, float(np.min(-np.log10(lost + _ULP))))
        angle = float(np.max(drift / np.where(size > 0, size, np.inf), initial=0.0))
        out.holds("arithmetic_digits", digits, proof.arithmetic_digits <= min(digits + 1.0, 16.0))  # one above, at most
        out.holds("data_digits", allowed, proof.data_digits <= allowed + 1.0)
        out.holds("digits", min(digits, allowed), proof.digits <= min(digits, allowed) + 1.0)
        noise = 1e-24 * float((c @ Y**2).max()) / max(float(rss.max()), 1e-300)  # of an exact fit, nothing else is left
        out.near("orthogonality", angle, 0.01 if len(X) <= 8192 else 0.5, angle + 1e-13 + noise)
    return out.holds("status", len(kept) == X.shape[1], proof.proven == (len(kept) == X.shape[1]))


def _loss(name: str, f: float, s: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, slope and curvature of each row's loss; f is its parameter; softmax takes a score a class, y numbers it."""
    if name == "softmax":
        own, low = np.arange(s.shape[1]) == y[:, None], s - s.max(axis=1, keepdims=True)
        p = np.exp(low) / (total := np.exp(low).sum(axis=1))[:, None]
        return np.log(total) - low[own], p - own, p[:, :, None] * (np.eye(len(p[0])) - p[:, None, :])
    r, m = s - y, y * s
    if name in ("squared", "huber"):
        f = math.inf if name == "squared" else f
        return (
            np.where(np.abs(r) <= f, 0.5 * r * r, f * (np.abs(r) - 0.5 * f)),
            np.clip(r, -f, f),
            1.0 * (np.abs(r) <= f),
        )
    if name == "logistic":
        p = 0.5 * (1.0 + np.tanh(-0.5 * m))
        return np.logaddexp(0.0, -m), -y * p, p * (1.0 - p)
    if name in ("hinge", "squared_hinge", "perceptron"):
        v, k = np.maximum(0.0, (name != "perceptron") - m), float(name == "squared_hinge")
        late = (m <= 0) if name == "perceptron" else (v > 0)
        return v * v if k else v, np.where(late, -y * (2.0 * v if k else 1.0), 0.0), 2.0 * k * (v > 0)
    if name in COUNTS:  # one family: powers 1, 2 and between
        p = {"poisson": 1.0, "gamma": 2.0}.get(name, f)
        g, h = np.exp((2 - p) * s), y * np.exp((1 - p) * s)
        return (g / (2 - p) if p < 2 else s) - (h / (1 - p) if p > 1 else m), g - h, (2 - p) * g - (1 - p) * h
    if name in ("absolute", "quantile"):
        k, q = (2.0, 0.5) if name == "absolute" else (1.0, f)
        return k * np.maximum(-q * r, (1 - q) * r), k * ((r > 0) * (1 - q) - (r < 0) * q), np.zeros(len(s))
    raise ModelError(f"there is no independent check of the loss {name!r}", where="loss")


def _bounds(name: str, f: float, Z: Any, t: Any, c: Any, W: np.ndarray, l1: Any, l2: Any) -> tuple[float, ...]:
    """(primal, dual, scale, gradient's norm, its rounding) of one problem; W has a row a column of Z, a column a class."""
    n, many, free, s = len(Z), W.shape[1], (l1 == 0) & (l2 == 0), Z @ (W if name == "softmax" else W[:, 0])
    value, a, curve = _loss(name, f, s, t)
    primal = float(c @ value + (l1 @ np.abs(W) + 0.5 * l2 @ W**2).sum())
    scale = max(abs(primal), 1e-3 * abs(float(c @ _loss(name, f, np.zeros_like(s), t)[0])))
    mean = (c @ Z) * (np.arange(len(W)) > 0) * (free[0] and (Z[:, 0] == 1).all())  # beside a constant columns may shift
    size = np.where((size := c @ (Z - mean) ** 2) > 1e-26 * mean**2, size, 1.0)
    size = np.sqrt(size + l2 * ~(Z == 1).all(axis=0) / CURVE.get(name, 1.0))  # scales count the penalty's curvature
    B, L1, L2, V = (Z - mean) / size, (l1 / size)[:, None], (l2 / size**2)[:, None], W * size[:, None]
    alone, both = (l1 > 0) & (l2 == 0), l2 > 0
    used = (L1 == 0) | (np.abs(V) > 1e-6 * (name in KINKED) * np.abs(V).max())
    least = _loss(name, f, np.log(np.maximum(t, 1e-300)), t)[0] if name in COUNTS else np.zeros(n)

    def dual(a: np.ndarray, s: Any) -> float:
        z = np.abs(B.T @ (c[:, None] * a.reshape(n, -1)))
        k = float(np.min(L1[alone] / np.maximum(z[alone], 1e-300), initial=1.0))  # L1 alone: slopes shrink to its limit
        held = (np.maximum(z - L1, 0.0)[both] ** 2 / (2.0 * L2[both])).sum() + 2.0 * (z * np.abs(V))[free].sum()
        own = a * t if name in KINKED else (a * s).reshape(n, -1).sum(axis=1) - _loss(name, f, s, t)[0]
        return -float(c @ (k * own - (1.0 - k) * least) + held)  # Fenchel and Young's equality, and convexity

    g = B.T @ (c[:, None] * a.reshape(n, -1)) + L2 * V
    norm = np.linalg.norm(np.where(V == 0, np.sign(g) * np.maximum(np.abs(g) - L1, 0.0), g + L1 * np.sign(V)))
    rounding = 1e-13 * np.linalg.norm(((np.abs(Z) + np.abs(mean)) / size).T @ (c[:, None] * np.abs(a.reshape(n, -1))))
    if name in KINKED:  # rows on a kink take what the optimum asks of them, within their range: the best bound tells
        low, high = {"hinge": (np.minimum(-t, 0), np.maximum(-t, 0)), "absolute": (-1, 1)}.get(name, (-f, 1 - f))
        near, D = np.argsort(away := np.abs(1 - t * s if name == "hinge" else s - t)), (B * c[:, None])[:, used[:, 0]]
        found, ask = list[float](), (L2 * V + L1 * np.sign(V))[used]
        for k in (*range(min(n, 3 * len(W)) + 1), int((away < 1e-4).sum())):
            few, b = k <= 3 * len(W), a.copy()
            b[near[:k]] = (a if few else np.broadcast_to(0.5 * (low + high), n))[near[:k]]
            for _ in range(9):
                on = near[:k][(few | ((b > low) & (b < high)))[near[:k]]]
                b[on] -= np.linalg.lstsq(D[on].T, ask + D.T @ b, rcond=None)[0]
                found.append(dual(b := np.clip(b, low, high), s))
        unsure = away <= 4e-15 * (np.abs(Z) @ np.abs(W[:, 0]) + np.abs(t))  # on a kink, either side may be meant
        rounding += 2.0 * np.linalg.norm(np.abs(B).T @ (c * unsure))
        return primal, max(found), scale, float(norm), float(rounding)
    used, move, best = (used if W.size <= 1500 else free[:, None] & used).ravel(), np.zeros_like(V), -math.inf
    for _ in range(9):  # Newton's steps on what is used: a better point gives a tighter bound
        best = max(best, dual(a, s))
        g = (B.T @ (c[:, None] * a.reshape(n, -1)) + L2 * (V - move) + L1 * np.sign(V)).ravel()[used]
        H = np.einsum("iu,iab,iv->uavb", c[:, None] * B, curve.reshape(n, many, many), B, optimize=True)
        H = (H.reshape(W.size, W.size) + np.diag(np.repeat(L2, many)))[np.ix_(used, used)]
        (step := np.zeros(W.size))[used] = np.linalg.lstsq(H, g, rcond=None)[0]
        s, move = s - (B @ step.reshape(V.shape)).reshape(s.shape), move + step.reshape(V.shape)
        _, a, curve = _loss(name, f, s, t)
    return primal, best, scale, float(norm), float(rounding)


def _gap(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    name, f, limit, problems = minimised(record, X, y, c)
    every = [_bounds(name, f, *problem) for problem in problems]  # one against the rest: a problem a class
    primal, dual, scale, steep, rounding = min(every, key=lambda found: abs(found[0] - proof.primal))
    out.near("primal", primal, 1e-9, scale)
    out.near("gap", proof.primal - proof.dual, 1e-9, scale)
    out.near("relative_gap", max(proof.gap, 0.0) / scale, 1e-6, proof.relative_gap + 1e-9)
    apart = max((one[0] - one[1]) / one[2] for one in every)
    said = proof.proven == (proof.relative_gap <= limit) or proof.status.value in ("interrupted", "degenerate")
    room = max(limit * scale * (name in KINKED), 1.01 * (proof.primal - proof.dual) + 1e-11 * scale)
    out.holds("dual", dual, primal - dual <= room and proof.dual <= primal + 1e-9 * scale)
    if not math.isnan(proof.gradient_norm):  # beyond 65,536 rows the solver measures its columns on a sample
        out.near("gradient_norm", steep, 1.0, rounding + (1e-6 if len(X) <= 65_536 else 0.5) * steep)
    return out.holds("status", apart, said and not (proof.proven and apart > limit))


def _replay(record: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores before each update, and each row's share of the step: the learner again, in plain arithmetic."""
    name, kind, f, own = record.loss.name, record.geometry.name, float(record.loss[0]), float(record.geometry[0])
    Z = np.column_stack([np.full(len(X), float(record.fit_intercept)), X])
    theta, memory, s, share = np.zeros(Z.shape[1]), np.zeros(Z.shape[1]), np.empty(len(X)), c.copy()
    live = np.r_[record.fit_intercept, np.ones(X.shape[1], bool)]
    for i, x in enumerate(Z):
        w = theta
        if kind in ("multiplicative", "signed"):
            up, down = (np.where(live, np.exp(k * theta - np.abs(theta).max()), 0.0) for k in (1.0, -1.0))
            w = up / up.sum() if kind == "multiplicative" else own * (up - down) / (up + down).sum()
        share[i] /= own + x @ x if kind == "normalised" else 1.0
        rate = share[i] * record.rate.base / (i + 1.0) ** record.rate.power
        s[i] = w @ x
        slope = float(_loss(name, f, s[i : i + 1], y[i : i + 1])[1][0])
        low, high = min(0.0, slope), max(0.0, slope)
        for _ in range(200 if kind == "implicit" else 0):
            slope = 0.5 * (low + high)
            ahead = float(_loss(name, f, s[i : i + 1] - rate * (x @ x) * slope, y[i : i + 1])[1][0])
            low, high = (slope, high) if slope < ahead else (low, slope)
        memory += (g := slope * x) ** 2
        theta = theta - rate * {"adaptive": 1.0 / np.sqrt(own + memory), "signed": own}.get(kind, 1.0) * g
    return s, share


def _online(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    part, kind = getattr(record, "loss", None), getattr(getattr(record, "geometry", None), "name", "")
    sign = getattr(part, "targets", "") == "sign" or getattr(record, "task", "") == "binary"
    t = np.where(y == np.unique(y)[-1], 1.0, -1.0) if sign else y.astype(float)
    name, f = (part.name, float(part[0])) if part is not None else ("logistic" if sign else "squared", 0.0)
    unit, share, note = 2.0 if name == "squared" else 1.0, c, "replayed by the learner's own code"
    if record.kind == "online" and record.batch == 1 and record.l1 + record.l2 == 0 and len(record.heads) == 1:
        (s, share), note = _replay(record, X, t, c), ""
        loss = float(unit * share @ _loss(name, f, s, t)[0])
    else:  # a mixture of many learners: its own code replays it, and everything else is recomputed here
        s = np.asarray((out.replay or record.fresh().learn)(X, t, c))
        loss = float(-c @ np.log(np.where(t > 0, s, 1.0 - s)) if sign else unit * c @ _loss(name, f, s, t)[0])
    out.holds("examples", len(X), proof.examples == len(X))
    out.near("loss", loss, 1e-6, note=note)
    out.near("regret", proof.loss - proof.comparator_loss, 1e-9, abs(proof.loss) + 1e-300)
    out.holds("bound", loss, loss <= proof.bound * (1 + 1e-9) or not proof.proven, "the loss must not exceed it")
    if proof.comparator is None or (part is None and sign):
        return
    Z, floor = np.column_stack([np.ones(len(X)), X]), 1e-9 * float(share @ (t - t.mean()) ** 2)
    best = float(unit * share @ _loss(name, f, Z @ proof.comparator, t)[0])
    out.near("comparator_loss", best, 1.0, 1e-6 * abs(best) + floor)
    Z[:, 0] = float(getattr(record, "fit_intercept", True))
    if name == "squared" and kind not in ("multiplicative", "signed"):
        root = np.sqrt(share)
        least = float(((root * (t - Z @ np.linalg.lstsq(root[:, None] * Z, root * t, rcond=None)[0])) ** 2).sum())
        out.holds("no fixed weights are better", least, least >= best * (1 - 1e-6) - floor, field="comparator_loss")
    if name == "squared" and kind in ("additive", "normalised") and record.rate.power == 0 and note == "":
        u, eta = proof.bound_comparator, record.rate.base
        kappa = eta * float(np.max(share * (Z**2).sum(axis=1)))
        bound = float(share @ (t - Z @ u) ** 2) / (1 - kappa) + float(u @ u) / eta if kappa < 1 else math.inf
        out.near("bound", bound, 1e-6)
        out.holds("status", "proven" if kappa < 1 else "void", proof.proven == (kappa < 1))


def _mistakes(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    t = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    wrong = t * _replay(record, X, t, c)[0] <= 0
    Z = (np.column_stack([np.full(len(X), float(record.fit_intercept)), X]) * t[:, None])[wrong]
    out.holds("examples", len(X), proof.examples == len(X))
    out.holds("mistakes", int(wrong.sum()), proof.mistakes == wrong.sum())
    out.holds("bound", int(wrong.sum()), wrong.sum() <= proof.bound or not proof.proven, "mistakes must not exceed it")
    if record.geometry.name == "additive" and proof.comparator is not None and len(Z):
        slack, size = (float(np.linalg.norm(v)) for v in (np.maximum(0, 1 - Z @ proof.comparator), proof.comparator))
        radius, margin = math.sqrt(float((Z**2).sum(axis=1).max())), float((Z @ proof.comparator).min()) / size
        right = abs(proof.margin - margin) <= 1e-6 * abs(margin) if margin > 0 else math.isnan(proof.margin)
        out.holds("margin", margin, right)
        out.near("radius", radius, 1e-6)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (radius * size + slack) ** 2, 1e-6)
