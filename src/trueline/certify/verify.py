"""The independent verifier: recomputes what a certificate claims from the data. NumPy and decimals only.

It shares no code with the solvers and is short enough to be read. *exact* is checked by error-free products in whole
numbers and elimination in 120 decimal digits, *batch* by forming the objective and a dual point anew, both here;
online learners and perceptrons are replayed row by row (``replay.py``), models that are not a line have ``beyond.py``.
The number found must support the number claimed.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import ModelError
from .beyond import BEYOND
from .checks import Check, Claims, Verification
from .problems import COUNTS, CURVE, KINKED, given, loss_of, minimised
from .replay import BY_REPLAY

_SHIFT, _ULP = 2200, 2.0**-53  # every product of two float64 is a whole multiple of 2^-2148


def verify(model: Any, data: Any, *, certificate: Any = None, replay: Any = None) -> Verification:
    """Recompute a model's certificate from its training data, by other code than made it.

    ``model`` is a fitted estimator or a record; ``data`` is (X, y) or (X, y, weights), in the training order for
    online learners, or any table or path that the model was trained on; ``certificate`` replaces the model's own,
    ``replay(X, y, weights)`` makes the predictions again where columns came one by one: them and the learner then.

    >>> import numpy as np, trueline as tl
    >>> X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    >>> str(tl.verify(tl.LinearRegression().fit(X, y), (X, y)))
    '8 claims hold'
    """
    record, proof, X, y, c = given(model, data, certificate)
    ways = {"exact": _exact, "batch": _gap} | BY_REPLAY | BEYOND
    way = BEYOND.get(getattr(record, "kind", "")) or ways.get(proof.kind)
    if way is None:
        raise ModelError(f"there is no independent check of a certificate of kind {proof.kind!r}", where="certificate")
    way(claims := Claims(proof, replay), record, proof, X, y, c)
    if way in (_exact, _gap, *BY_REPLAY.values()):  # what is proven rests on all of its assumptions
        broken = [item.name for item in proof.assumptions if not item.held]
        said = f"fails: {broken[0]}" if broken else "all held"
        note = "as the certificate tells them: a proven result rests on all of them"
        claims.checks.append(Check("assumptions", said, None, not (broken and proof.proven), note))
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


def _gram(A: np.ndarray, c: np.ndarray) -> np.ndarray:
    """AᵀCA exactly, as decimals."""
    (a, b), (p, q) = ((h := v * 134217729.0 - (v * 134217729.0 - v), v - h) for v in (c[:, None], A))
    low = ((a * p - (high := c[:, None] * A)) + a * q + b * p) + b * q  # c·A = high + low exactly (Dekker)
    total = sum(exact_products(A, part) for part in (high, low) if part.any())
    return np.vectorize(lambda v: Decimal(int(v)) * Decimal(2) ** -_SHIFT, otypes=[object])(total)


def _solved(G: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(solution, inverse) in 120 digits, by Gauss and Jordan."""
    k = len(G)
    T = np.hstack([G, right[:, None], np.vectorize(Decimal, otypes=[object])(np.eye(k, dtype=int).astype(object))])
    for p in range(k):
        if not T[p, p] > G[p, p] * Decimal(10) ** -40:
            raise ZeroDivisionError(p)
        T[p] = T[p] / T[p, p]
        for r in range(k):
            if r != p:
                T[r] = T[r] - T[r, p] * T[p]
    return T[:, k], T[:, k + 1 :]


def _fit(
    G: Any, at: int, on: list[int], b: list[float], w: Any, extra: Any, X: Any, y: Any, c: Any
) -> tuple[float, ...]:
    """(condition, digits, digits that the data allow, angle, its rounding, pull on columns at 0) of column ``at`` of G."""
    first, n, d = len(b), len(X), X.shape[1]
    rows = [*range(first), *(first + j for j in on)]
    M, right = G[np.ix_(rows, rows)].copy(), G[rows, at]
    M[range(first, len(rows)), range(first, len(rows))] += np.array(
        [Decimal(float(v)) for v in extra[on]], dtype=object
    )
    best, inverse = _solved(M, right)
    near = np.array([Decimal(float(v)) for v in (*b, *w[on])], dtype=object)
    error = max((abs(e / v) for e, v in zip(near - best, best) if v != 0), default=Decimal(0))
    if first:  # the angle is that of the coefficients, with the constant that belongs to them
        near[0] = (right[0] - M[0, 1:] @ near[1:]) / M[0, 0]
    drift = float(np.linalg.norm((right - M @ near)[first:].astype(float)))
    rss, whole = max(0.0, float(G[at, at] - best @ right)), max(float(G[at, at]), 1e-300)
    off = [first + j for j in range(d) if j not in on]
    pull = max(
        (float(G[j, at] - G[j, rows] @ best) / math.sqrt(float(G[j, j]) * whole or 1.0) for j in off), default=0.0
    )
    C = (M[first:, first:] - np.outer(M[first:, 0], M[0, first:]) / M[0, 0] if first else M).astype(float)
    V, lengths = inverse[first:, first:].astype(float), np.sqrt(np.diag(C))
    both = (C / np.outer(lengths, lengths), V * np.outer(lengths, lengths)) if on else (np.eye(1), np.eye(1))
    # What the data allow: every entry that is not a whole number may be off by half a unit in its last place.
    part = np.array([0.0 if (z == np.rint(z)).all() else _ULP**2 * float(c @ z**2) for z in (*X[:, on].T, y)])
    centre, found = np.asarray(first * (c @ X[:, on]) / c.sum()), best.astype(float)
    lever = np.vstack([centre @ V, V])[1 - first :]
    spread = np.maximum(np.r_[centre @ V @ centre + 1.0 / n, np.diag(V)][1 - first :], 0.0)
    moved = np.sqrt(spread * (part[-1] + part[:-1] @ found[first:] ** 2) / n) + np.sqrt(lever**2 @ part[:-1] * rss / n)
    allowed = max(0.0, float(np.min(-np.log10(moved / np.maximum(np.abs(found), 1e-300) + _ULP), initial=16.0)))
    size = math.sqrt(max(0.0, float((lengths**2 - extra[on]).sum())) * rss) or math.inf
    condition = math.sqrt(max(1.0, math.prod(np.linalg.eigvalsh(S)[-1] for S in both)))
    digits = -math.log10(max(float(error), _ULP))
    return condition, digits, allowed, drift / size, 1e-24 * float(c @ y**2) / max(rss, 1e-300), pull


def _exact(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    X, Y, c, told = X[c > 0], y.astype(float).reshape(len(X), -1)[c > 0], c[c > 0], record.statistics
    first, W, named = int(bool(told.get("fit_intercept", True))), np.atleast_2d(record.coef), {*proof.dropped}
    if not named <= {*record.terms}:
        return _least_norm(out, proof, X, Y, c, first, W)
    kept = [j for j, term in enumerate(record.terms) if term not in named]
    alphas, constant = (np.broadcast_to(np.ravel(v), len(W)) for v in (told.get("alpha", 0.0), record.intercept))
    unit = np.average((X - c @ X / c.sum()) ** 2, axis=0, weights=c) if told.get("standardize") else np.ones(X.shape[1])
    bounded, A = "non-negative" in told.get("family", ""), np.column_stack([np.ones((len(X), first)), X, Y])
    supports = [[j for j in kept if w[j] != 0 or not bounded] for w in W]
    with decimal.localcontext(decimal.Context(prec=120)):
        G = _gram(A, c)
        try:
            every = np.array([
                _fit(G, first + len(unit) + t, on, [constant[t]] * first, W[t], alphas[t] * unit, X, Y[:, t], c)
                for t, on in enumerate(supports)
            ])  # fmt: skip
        except ZeroDivisionError as place:
            return out.holds("rank", place.args[0], False, "a column that counts repeats the others")
    (condition, _, _, angle, noise, pull), (_, digits, allowed, *_) = every.max(axis=0), every.min(axis=0)
    out.holds("rank", rank := min(map(len, supports)), proof.rank == rank)
    out.near("condition_number", condition, 1e-3)
    for j in set(range(X.shape[1])) - set(kept):  # a dropped column must lie in the span of the others
        other = np.column_stack([A[:, :first], X[:, kept]])
        apart = X[:, j] - other @ np.linalg.lstsq(other, X[:, j], rcond=None)[0]
        share = float(np.linalg.norm(apart)) / (float(np.linalg.norm(X[:, j])) or 1.0)
        repeats = f"{record.terms[j]} repeats others"
        out.checks.append(Check(repeats, "dropped", share, share <= 1e-9, "its distance from them"))
    if bounded:
        out.holds("no coefficient at 0 should grow", pull, pull <= 1e-8 and W.min(initial=0.0) >= 0.0, field="status")
    if not named:
        out.holds("arithmetic_digits", digits, proof.arithmetic_digits <= min(digits + 1.0, 16.0))  # one above, at most
        out.holds("data_digits", allowed, proof.data_digits <= allowed + 1.0)
        out.holds("digits", min(digits, allowed), proof.digits <= min(digits, allowed) + 1.0)
        out.near("orthogonality", angle, 0.01 if len(X) <= 8192 else 0.5, angle + 1e-13 + noise)
    return out.status(not named, proof.proven == (not named))


def _least_norm(out: Claims, proof: Any, X: Any, Y: Any, c: Any, first: int, W: np.ndarray) -> None:
    """More columns than the rows can tell apart: the weights of least norm among all that fit as well."""
    A, B = ((v - first * (c @ v) / c.sum()) * np.sqrt(c)[:, None] for v in (X, Y))
    s = np.linalg.svd(A, compute_uv=False)
    rank, best = int((s > 1e-11 * s.max(initial=0.0)).sum()), np.linalg.pinv(A, rcond=1e-11) @ B
    digits = -math.log10(max(float(np.abs(W.T - best).max() / np.abs(best).max()), _ULP))
    out.holds("rank", rank, proof.rank == rank)
    out.holds("digits", digits, proof.digits <= digits + 1.0)
    return out.status(rank == X.shape[1], proof.proven == (rank == X.shape[1]))


def _bounds(
    name: str, f: float, Z: Any, t: Any, c: Any, W: np.ndarray, l1: Any, l2: Any, up: bool = False
) -> tuple[float, ...]:
    """(primal, dual, scale, gradient's norm, its rounding, decrement, its rounding, how far a Hessian of one step
    before may move it, 2/λ_max); W has a row a column of Z, a column a class."""
    n, many, free, s = len(Z), W.shape[1], (l1 == 0) & (l2 == 0), Z @ (W if name == "softmax" else W[:, 0])
    value, a, curve = loss_of(name, f, s, t)
    primal = float(c @ value + (l1 @ np.abs(W) + 0.5 * l2 @ W**2).sum())
    scale = max(abs(primal), 1e-3 * abs(float(c @ loss_of(name, f, np.zeros_like(s), t)[0])))
    mean = (c @ Z) * (np.arange(len(W)) > 0) * (free[0] and (Z[:, 0] == 1).all())  # beside a constant columns may shift
    size = np.where((size := c @ (Z - mean) ** 2) > 1e-26 * mean**2, size, 1.0)
    size = np.sqrt(size + l2 * ~(Z == 1).all(axis=0) / CURVE.get(name, 1.0))  # scales count the penalty's curvature
    B, L1, L2, V = (Z - mean) / size, (l1 / size)[:, None], (l2 / size**2)[:, None], W * size[:, None]
    alone, both = (l1 > 0) & (l2 == 0), l2 > 0
    step = 2.0 / (CURVE.get(name, 1.0) * float(np.linalg.eigvalsh((B * c[:, None]).T @ B)[-1]))
    used = (L1 == 0) | (np.abs(V) > (1e-6 if name in KINKED else 1e-9) * np.abs(V).max())
    least = loss_of(name, f, np.log(np.maximum(t, 1e-300)), t)[0] if name in COUNTS else np.zeros(n)

    def dual(a: np.ndarray, s: Any) -> float:
        z = np.abs(np.minimum(v := B.T @ (c[:, None] * a.reshape(n, -1)), np.where(free[:, None], v, 0.0) if up else v))
        k = float(np.min(L1[alone] / np.maximum(z[alone], 1e-300), initial=1.0))  # L1 alone: slopes shrink to its limit
        held = (np.maximum(z - L1, 0.0)[both] ** 2 / (2.0 * L2[both])).sum() + 2.0 * (z * np.abs(V))[free].sum()
        own = a * t if name in KINKED else (a * s).reshape(n, -1).sum(axis=1) - loss_of(name, f, s, t)[0]
        return -float(c @ (k * own - (1.0 - k) * least) + held)  # Fenchel and Young's equality, and convexity

    g = B.T @ (c[:, None] * a.reshape(n, -1)) + L2 * V
    rest = np.minimum(g + L1, 0.0) if up else np.sign(g) * np.maximum(np.abs(g) - L1, 0.0)  # at 0 some slope is allowed
    norm = np.linalg.norm(np.where((V == 0) & ~free[:, None], rest, g + L1 * np.sign(V)))
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
        return primal, max(0.0, *found), scale, float(norm), float(rounding), math.nan, 0.0, 0.0, step
    used, move = (used if W.size <= 1500 else free[:, None] & used).ravel(), np.zeros_like(V)
    decrement, doubt, best = math.nan, (0.0, 0.0), float(c @ least)  # no loss is less than its least
    for _ in range(9):  # Newton's steps on what is used: a better point gives a tighter bound
        best = max(best, dual(a, s))
        g = (B.T @ (c[:, None] * a.reshape(n, -1)) + L2 * (V - move) + L1 * np.sign(V)).ravel()[used]
        H = np.einsum("iu,iab,iv->uavb", c[:, None] * B, curve.reshape(n, many, many), B, optimize=True)
        H = (H.reshape(W.size, W.size) + np.diag(np.repeat(L2, many)))[np.ix_(used, used)]
        (way := np.zeros(W.size))[used] = np.linalg.lstsq(H, g, rcond=None)[0]
        if math.isnan(decrement):
            decrement = math.sqrt(max(0.0, float(g @ way[used])))
            doubt = _doubt(
                name, H, g, float(rounding), decrement, float(np.einsum("i,iaa->", c, curve.reshape(n, many, many)))
            )
        s, move = s - (B @ way.reshape(V.shape)).reshape(s.shape), move + way.reshape(V.shape)
        _, a, curve = loss_of(name, f, s, t)
    return primal, best, scale, float(norm), float(rounding), decrement, *doubt, step


def _doubt(name: str, H: Any, g: Any, rounding: float, decrement: float, curved: float) -> tuple[float, float]:
    """(what rounding may add to √(gᵀH⁻¹g), how far its logarithm may move with a Hessian of one step before).

    By the triangle inequality in H⁻¹'s norm, an error e of g counts at most ‖e‖/√λ_min; eigenvalues that the rounding
    of H's own entries reaches tell nothing. A solver may stop with the Hessian of the point before. Where |f‴| ≤ f″,
    a Newton step that moves scores by δ changes H by at most e^±δ, the decrement by e^±δ/2, and leaves a step of about
    δ²/2: so from the step left here, δ = √2·(its root), and never less than itself (classes that separate: 1 and 1).
    """
    values, vectors = np.linalg.eigh(H)
    sure = values > 1e-12 * values.max(initial=1e-300)
    if not sure.any():
        return decrement, 0.0
    lost = float((((g @ vectors) ** 2)[~sure] / np.maximum(values[~sure], 1e-300)).sum())
    left = decrement / math.sqrt(curved) if curved > 0 and name in ("logistic", "softmax", *COUNTS) else 0.0
    noise = math.sqrt(min(lost, decrement**2)) + rounding / math.sqrt(values[sure][0])
    return noise, 0.5 * max(left, math.sqrt(2.0 * left))


def _gap(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    name, f, limit, problems = minimised(record, X, y, c)
    every = [_bounds(name, f, *problem) for problem in problems]  # one against the rest: a problem a class
    primal, dual, scale, steep, rounding, decrement, noise, moved, step = min(
        every, key=lambda found: abs(found[0] - proof.primal)
    )
    out.near("primal", primal, 1e-9, scale)
    out.near("gap", proof.primal - proof.dual, 1e-9, scale)
    low, high = (
        max(proof.gap, 0.0) / (v or 1.0) for v in (scale, abs(primal))
    )  # of objectives near 0, a floor is allowed
    out.holds("relative_gap", low, low * (1 - 1e-6) - 1e-9 <= proof.relative_gap <= high * (1 + 1e-6) + 1e-9)
    other = ("interrupted", "degenerate")
    apart = max((one[0] - one[1]) / one[2] for one in every)
    said = proof.proven == (proof.relative_gap <= limit) or proof.status.value in other
    # What is not proven claims no bound finer than its tolerance.
    slack = limit * scale * (name in KINKED or not proof.proven)
    room = max(slack, 1.01 * (proof.primal - proof.dual) + 1e-11 * scale)
    out.holds("dual", dual, primal - dual <= room and proof.dual <= primal + 1e-9 * scale)
    if not math.isnan(proof.gradient_norm):  # beyond 65,536 rows the solver measures its columns on a sample
        out.near("gradient_norm", steep, 1.0, rounding + (1e-6 if len(X) <= 65_536 else 0.5) * steep)
    if not math.isnan(proof.newton_decrement):
        told, wide, noise = proof.newton_decrement, math.exp(moved), noise + 1e-8 * math.sqrt(scale)
        right = 0.95 / wide * decrement - noise <= told <= 1.05 * wide * decrement + noise
        out.holds("newton_decrement", decrement, right)
    if not math.isnan(proof.largest_step):
        out.near("largest_step", step, 0.01)
    return out.status(apart <= limit and proof.status.value not in other, said and not (proof.proven and apart > limit))
