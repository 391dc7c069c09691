"""The independent verifier: recomputes what a certificate claims from the data. NumPy and decimals only.

It shares no code with the solvers (import-linter sees to that) and is short enough to be read. Each kind is checked
by another road than the one that made it: *exact* by error-free products in whole numbers and elimination in 120
decimal digits; *batch* by forming the objective and a dual point anew; *online* and *perceptron* by replaying the
stream row by row. The number found must support the number claimed.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import DataError, ModelError
from .checks import Claims, Verification

_SHIFT = 2200  # every product of two float64 is a whole multiple of 2^-2148
_ULP = 2.0**-53


def verify(model: Any, data: Any, *, certificate: Any = None, replay: Any = None) -> Verification:
    """Recompute a model's certificate from its training data, by other code than made it.

    ``model`` is a fitted estimator or a record; ``data`` is (X, y) or (X, y, weights), in the training order for
    online learners, or any table or path that the model was trained on; ``certificate`` replaces the model's own, ``replay(X, y, weights)``
    gives a mixture's predictions again where its columns came one by one.

    >>> import numpy as np, trueline as tl
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = X @ [1.0, 2.0] + 3
    >>> str(tl.verify(tl.LinearRegression().fit(X, y), (X, y)))
    '7 claims hold'
    """
    record = next((getattr(model, name) for name in ("model_", "record_") if hasattr(model, name)), model)
    proof = getattr(record, "certificate", None) if certificate is None else certificate
    proof = proof() if callable(proof) else proof
    if proof is None:
        raise ModelError("the model carries no certificate, so there is nothing to verify", where="certificate")
    given = data if isinstance(data, tuple) else record.training_rows(data)
    X, y, c = (*given, None)[:3]
    X, y = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float), np.asarray(y)
    c = np.ones(len(X)) if c is None else np.asarray(c, dtype=float)
    if X.ndim != 2 or len(y) != len(X) or len(c) != len(X):
        raise DataError(f"X has shape {X.shape}, y {len(y)} entries, weights {len(c)}: give one a row", where="data")
    checks = {"exact": _exact, "batch": _gap, "online": _online, "stream": _online, "perceptron": _mistakes}.get(
        proof.kind
    )
    if checks is None:
        raise ModelError(f"there is no independent check of a certificate of kind {proof.kind!r}", where="certificate")
    claims = Claims(proof, replay)
    checks(claims, record, proof, X, y, c)
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


def _weighted(w: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """w·Z = high + low exactly (Dekker)."""
    (a, b), (p, q) = ((h := v * 134217729.0 - (v * 134217729.0 - v), v - h) for v in (w, Z))
    high = w * Z
    return high, ((a * p - high) + a * q + b * p) + b * q


def _solved(A: np.ndarray, c: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Gram matrix, solution, inverse) of the last columns of A on its first k, in 120 digits (Gauss and Jordan)."""
    total = sum(exact_products(A, part) for part in _weighted(c[:, None], A) if part.any())
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
    centre = first * (c @ X[:, kept]) / c.sum()
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
        allowed = _data_digits(X, Y, c, V, centre if first else None, best.astype(float), rss)
        angle = float(np.max(drift / np.where(size > 0, size, np.inf), initial=0.0))
        out.holds("arithmetic_digits", digits, proof.arithmetic_digits <= digits + 0.05)
        out.holds("data_digits", allowed, proof.data_digits <= allowed + 0.3)
        out.holds("digits", min(digits, allowed), proof.digits <= min(digits, allowed) + 0.3)
        noise = 1e-24 * float((c @ Y**2).max()) / max(float(rss.max()), 1e-300)  # of an exact fit, nothing else is left
        out.near("orthogonality", angle, 0.01 if len(X) <= 8192 else 0.5, angle + 1e-17 + noise)
    return out.holds("status", len(kept) == X.shape[1], proof.proven == (len(kept) == X.shape[1]))


def _data_digits(X: Any, Y: Any, c: Any, V: Any, centre: Any, best: np.ndarray, rss: np.ndarray) -> float:
    """Digits that remain if every entry that is not a whole number is off by half a unit in its last place."""
    off = [0.0 if (z == np.rint(z)).all() else _ULP**2 * float(c @ z**2) for z in (*X.T, *Y.T)]
    entry, own = np.array(off[: X.shape[1]]), np.array(off[X.shape[1] :])
    rows = V if centre is None else np.vstack([centre @ V, V])
    spread = np.diag(V) if centre is None else np.r_[centre @ V @ centre + 1.0 / len(X), np.diag(V)]
    moved = np.sqrt(np.maximum(spread, 0.0)[:, None] * (own + entry @ best[-X.shape[1] :] ** 2) / len(X))
    moved = moved + np.sqrt(rows**2 @ entry)[:, None] * np.sqrt(np.maximum(rss, 0.0) / len(X))
    with np.errstate(divide="ignore"):
        return max(0.0, float(np.min(-np.log10(moved / np.abs(best) + _ULP))))


def _loss(name: str, f: float, s: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, slope and curvature of each row's loss; f is its parameter."""
    r, m = s - y, y * s
    if name == "squared":
        return 0.5 * r * r, r, np.ones(len(s))
    if name == "huber":
        inside = np.abs(r) <= f
        return np.where(inside, 0.5 * r * r, f * (np.abs(r) - 0.5 * f)), np.clip(r, -f, f), inside * 1.0
    if name == "logistic":
        p = 0.5 * (1.0 + np.tanh(-0.5 * m))
        return np.logaddexp(0.0, -m), -y * p, p * (1.0 - p)
    if name in ("hinge", "squared_hinge", "perceptron"):
        v, k = np.maximum(0.0, (name != "perceptron") - m), float(name == "squared_hinge")
        late = (m <= 0) if name == "perceptron" else (v > 0)
        return v * v if k else v, np.where(late, -y * (2.0 * v if k else 1.0), 0.0), 2.0 * k * (v > 0)
    if name == "poisson":
        return np.exp(s) - m, np.exp(s) - y, np.exp(s)
    if name in ("absolute", "quantile"):
        k, q = (2.0, 0.5) if name == "absolute" else (1.0, f)
        return k * np.maximum(-q * r, (1 - q) * r), k * ((r > 0) * (1 - q) - (r < 0) * q), np.zeros(len(s))
    raise ModelError(f"there is no independent check of the loss {name!r}", where="loss")


def _conjugate(name: str, f: float, a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sup over s of a·s − V(y, s), infinite outside the slopes that the loss can have."""
    if name in ("squared", "huber"):
        return np.where(np.abs(a) <= (f * (1 + 1e-12) if name == "huber" else np.inf), 0.5 * a * a + a * y, np.inf)
    if name == "squared_hinge":
        return np.where(a * y <= 0, a * y + 0.25 * a * a, np.inf)
    terms = [-a * y, 1.0 + a * y] if name == "logistic" else [a + y]
    value: Any = sum(np.where(q > 0, q * np.log(np.maximum(q, 1e-300)), np.where(q == 0, 0.0, np.inf)) for q in terms)
    return value if name == "logistic" else value - (a + y)


def _gap(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    told = record.statistics.get("objective")
    if told is None:
        raise ModelError(
            "the model does not say which objective it minimised: its gap cannot be checked", where="model"
        )
    name, f = told["loss"], float((*told["loss_fields"], 0.0)[0])
    ratio = {"l1": 1.0, "elastic_net": told["l1_ratio"]}.get(told["penalty"], 0.0)
    l1, l2 = told["alpha"] * ratio, told["alpha"] * (1.0 - ratio) * (told["penalty"] != "none")
    t = np.where(y == record.classes[-1], 1.0, -1.0) if len(record.classes) else y.astype(float)
    w, c = np.ravel(record.coef), c / c.sum()
    value, a, curve = _loss(name, f, X @ w + float(np.ravel(record.intercept)[0]), t)
    primal = float(c @ value + l1 * np.abs(w).sum() + 0.5 * l2 * (w @ w))
    scale = max(abs(primal), 1e-3 * abs(float(c @ _loss(name, f, np.zeros(len(X)), t)[0])))
    out.near("primal", primal, 1e-9, scale)
    out.near("gap", proof.primal - proof.dual, 1e-9, scale)
    out.near("relative_gap", max(proof.gap, 0.0) / scale, 1e-6, proof.relative_gap + 1e-9)
    g = X.T @ (c * a) + l2 * w
    g = np.where(w != 0, g + l1 * np.sign(w), np.sign(g) * np.maximum(np.abs(g) - l1, 0.0))
    steep = float(np.linalg.norm(g / np.maximum(np.sqrt(c @ (X - c @ X) ** 2), 1e-300)))
    out.holds("gradient_norm", steep, steep <= 100 * proof.gradient_norm + 1e-12 * scale)
    if not curve.any():
        return out.holds("dual", None, proof.dual <= primal * (1 + 1e-9), "not recomputed: the loss has kinks")
    U = np.column_stack([np.ones((len(X), int(told["fit_intercept"]))), X if l1 == l2 == 0 else X[:, :0]])
    for _ in range(4):  # what nothing holds needs correlation 0: Newton's step, seen from the dual side
        a = a - curve * (U @ np.linalg.lstsq(U.T @ ((c * curve)[:, None] * U), U.T @ (c * a), rcond=None)[0])
    z = np.abs(X.T @ (c * a))
    shrink = min(1.0, l1 / max(float(z.max(initial=0.0)), 1e-300)) if l2 == 0 < l1 else 1.0
    held = float((np.maximum(z - l1, 0.0) ** 2).sum() / (2 * l2)) if l2 > 0 else 0.0
    dual = -float(c @ _conjugate(name, f, a * shrink, t)) - held
    out.holds("dual", dual, primal - dual <= 1.01 * (proof.primal - proof.dual) + 1e-11 * scale)
    proven = (primal - dual) / scale <= 1.01 * float(told.get("tolerance", 1e-6)) + 1e-11
    return out.holds("status", "proven" if proven else "not_proven", proof.proven <= proven)


def _replay(record: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores before each update, and each row's share of the step: the learner again, in plain arithmetic."""
    name, kind, f = record.loss.name, record.geometry.name, float(record.loss[0])
    own = float(record.geometry[0])
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
        g = slope * x
        memory += g * g
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
    Z = np.column_stack([np.ones(len(X)), X])
    best = float(unit * share @ _loss(name, f, Z @ proof.comparator, t)[0])
    floor = 1e-9 * float(share @ (t - t.mean()) ** 2)
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
        slack = float(np.linalg.norm(np.maximum(0.0, 1.0 - Z @ proof.comparator)))
        size, radius = float(np.linalg.norm(proof.comparator)), math.sqrt(float((Z**2).sum(axis=1).max()))
        margin = float((Z @ proof.comparator).min()) / size
        right = abs(proof.margin - margin) <= 1e-6 * abs(margin) if margin > 0 else math.isnan(proof.margin)
        out.holds("margin", margin, right)
        out.near("radius", radius, 1e-6)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (radius * size + slack) ** 2, 1e-6)
