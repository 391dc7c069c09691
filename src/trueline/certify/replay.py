"""The verifier's second half: online learners and perceptrons, replayed row by row in plain arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .checks import Check, Claims
from .problems import loss_of


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
        slope = float(loss_of(name, f, s[i : i + 1], y[i : i + 1])[1][0])
        low, high = min(0.0, slope), max(0.0, slope)
        for _ in range(200 if kind == "implicit" else 0):
            slope = 0.5 * (low + high)
            ahead = float(loss_of(name, f, s[i : i + 1] - rate * (x @ x) * slope, y[i : i + 1])[1][0])
            low, high = (slope, high) if slope < ahead else (low, slope)
        memory += (g := slope * x) ** 2
        theta = theta - rate * {"adaptive": 1.0 / np.sqrt(own + memory), "signed": own}.get(kind, 1.0) * g
    return s, share


def _in_order(record: Any, *rows: np.ndarray) -> list[np.ndarray]:
    """The rows as they were learned: once for each epoch."""
    return [np.concatenate([v] * max(1, int(getattr(record, "epochs", 1)))) for v in rows]


def _linked(record: Any) -> bool:
    """Whether all weights share one sum, so that a column counts from the row where it came, be it 0 there or not."""
    return getattr(getattr(record, "geometry", None), "name", "") in ("multiplicative", "signed")


def _signs(record: Any, y: np.ndarray) -> list[np.ndarray]:
    """±1 a row: of the second of two classes, or of each of several against the rest."""
    classes = np.unique(y)
    return [np.where(y == one, 1.0, -1.0) for one in (classes if len(record.heads) > 1 else classes[-1:])]


def _suffered(
    out: Claims, record: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray
) -> tuple[float, Any, np.ndarray, str]:
    """(loss, targets of a single learner, its rows' shares, how it was replayed)."""
    part: Any = getattr(record, "loss", None)
    task, note = getattr(record, "task", ""), "replayed by the learner's own code"
    sign = getattr(part, "targets", "") == "sign"
    shared = out.replay is not None and _linked(record)
    if record.kind == "online" and record.batch == 1 and record.l1 + record.l2 == 0 and not shared:
        targets = _signs(record, y) if sign else [y.astype(float)]
        again = [(*_replay(record, X, t, c), t) for t in targets]
        unit, f = 2.0 if part.name == "squared" else 1.0, float((*part, 0.0)[0])
        losses = [unit * float(share @ loss_of(part.name, f, s, t)[0]) for s, share, t in again]
        return math.fsum(losses), targets[0] if len(targets) == 1 else None, again[0][1], ""
    index = np.searchsorted(np.unique(y), y)
    several = task == "multiclass" or (sign and len(getattr(record, "losses", getattr(record, "heads", [0]))) > 1)
    t = (
        (index if several else np.where(index == index.max(), 1.0, -1.0))
        if sign or task in ("binary", "multiclass")
        else y
    )
    learner = record.fresh()
    s, learner = out.replay(X, t, c) if out.replay else (learner.learn(X, t.astype(float), c), learner)
    if task in ("binary", "multiclass"):
        p = s[np.arange(len(s)), index] if several else np.where(t > 0, s, 1.0 - s)
        return float(-c @ np.log(p)), None, c, note
    if sign or (out.replay is None and record.kind == "online"):  # what it predicts does not show each class's own loss
        return float(learner.certificate().loss), None, c, note
    name, f = (part.name, float((*part, 0.0)[0])) if part is not None else ("squared", 0.0)
    return float((2.0 if name == "squared" else 1.0) * c @ loss_of(name, f, s, t)[0]), t.astype(float), c, note


def _online(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    part, kind = getattr(record, "loss", None), getattr(getattr(record, "geometry", None), "name", "")
    X, y, c = _in_order(record, X, y, c)
    loss, t, share, note = _suffered(out, record, X, y, c)
    name, f = (part.name, float((*part, 0.0)[0])) if part is not None else ("squared", 0.0)
    unit = 2.0 if name == "squared" else 1.0
    out.holds("examples", len(X), proof.examples == len(X))
    out.near("loss", loss, 1e-6, note=note)
    if not math.isnan(proof.regret):
        out.near("regret", proof.loss - proof.comparator_loss, 1e-9, abs(proof.loss) + 1e-300)
    out.holds("bound", loss, loss <= proof.bound * (1 + 1e-9) or not proof.proven, "the loss must not exceed it")
    if proof.kind == "averaged":
        _risk(out, record, proof, loss, c)
    if proof.comparator is None or t is None or math.isnan(proof.comparator_loss):
        return
    Z, floor = np.column_stack([np.ones(len(X)), X]), 1e-9 * float(share @ (t - t.mean()) ** 2)
    best = float(unit * share @ loss_of(name, f, Z @ proof.comparator, t)[0])
    out.near("comparator_loss", best, 1.0, 1e-6 * abs(best) + floor)
    Z[:, 0] = float(getattr(record, "fit_intercept", True))
    if name == "squared" and kind not in ("multiplicative", "signed"):
        root = np.sqrt(share)
        least = float(((root * (t - Z @ np.linalg.lstsq(root[:, None] * Z, root * t, rcond=None)[0])) ** 2).sum())
        out.holds("no fixed weights are better", least, least >= best * (1 - 1e-6) - floor, field="comparator_loss")
    if note == "" and name == "squared" and kind in ("additive", "normalised") and record.rate.power == 0:
        u, eta = proof.bound_comparator, record.rate.base
        kappa = eta * float(np.max(share * (Z**2).sum(axis=1)))
        bound = float(share @ (t - Z @ u) ** 2) / (1 - kappa) + float(u @ u) / eta if kappa < 1 else math.inf
        worst = [item.worst for item in proof.assumptions if item.name.startswith("κ")]
        out.near("bound", bound, 1e-6)
        right = all(abs(w - kappa) <= 1e-9 * kappa for w in worst)
        out.checks.append(Check("worst value of κ", worst[0] if worst else None, kappa, right))
        if proof.kind != "averaged":
            out.holds("status", "proven" if kappa < 1 else "void", proof.proven == (kappa < 1))


def _risk(out: Claims, record: Any, proof: Any, loss: float, c: np.ndarray) -> None:
    """The risk of mean weights: mean loss + B·√(ln(1/δ)/2m), for losses declared to lie in [0, B]."""
    weighed = record.geometry.name == "normalised"  # its certificate counts shares of losses, the risk counts losses
    mean = proof.mean_loss if weighed else loss / len(c)
    B, m = proof.loss_range, len(c)
    out.near("mean_loss", mean, 1e-6)
    if B is not None:
        wide = len(record.heads) * B * math.sqrt(math.log(1.0 / (1.0 - proof.confidence)) / (2.0 * m))
        out.near("risk_bound", mean + wide, 1e-6)
    out.status(B is not None, not proven_without(proof, B, c))


def proven_without(proof: Any, B: float | None, c: np.ndarray) -> bool:
    """Whether a risk bound is called proven with no range declared, or with rows of unequal weight."""
    return bool(proof.proven and (B is None or not (c == 1.0).all()))


def _mistakes(out: Claims, record: Any, proof: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
    X, y, c = _in_order(record, X, y, c)
    signs = _signs(record, y)
    own = out.replay is not None and _linked(record) and len(signs) == 1
    scores = [out.replay(X, y, c)[0]] if own else [_replay(record, X, t, c)[0] for t in signs]
    late = [t * s <= 0 for t, s in zip(signs, scores, strict=True)]
    wrong = late[0] if len(late) == 1 else np.argmax(scores, axis=0) != np.argmax(signs, axis=0)
    Z = (np.column_stack([np.full(len(X), float(record.fit_intercept)), X]) * signs[0][:, None])[late[0]]
    out.holds("examples", len(X), proof.examples == len(X))
    out.holds("mistakes", int(wrong.sum()), proof.mistakes == wrong.sum())
    out.holds("bound", int(wrong.sum()), wrong.sum() <= proof.bound or not proof.proven, "mistakes must not exceed it")
    if record.geometry.name == "additive":
        late_rows = (X[np.any(late, axis=0)] ** 2).sum(axis=1) + float(record.fit_intercept)
        out.near("radius", math.sqrt(float(late_rows.max(initial=0.0))), 1e-6)
    if record.geometry.name == "signed" and proof.comparator is not None and len(Z):
        _winnow(out, record, proof, Z)
    if record.geometry.name == "additive" and proof.comparator is not None and len(Z):
        slack, size = (float(np.linalg.norm(v)) for v in (np.maximum(0, 1 - Z @ proof.comparator), proof.comparator))
        radius, margin = math.sqrt(float((Z**2).sum(axis=1).max())), float((Z @ proof.comparator).min()) / size
        right = abs(proof.margin - margin) <= 1e-6 * abs(margin) if margin > 0 else math.isnan(proof.margin)
        out.holds("margin", margin, right)
        out.near("slack", slack, 1e-6, size + slack)
        out.near("bound", (radius * size + slack) ** 2, 1e-6)


def _winnow(out: Claims, record: Any, proof: Any, Z: np.ndarray) -> None:
    """N ≤ (RE(u) + η·slack)/(ηγ − ½η²R²) at the margin γ whose slack is claimed, with ‖u‖₁ = 1."""
    Z = Z if record.fit_intercept else Z[:, 1:]
    u, eta, radius = proof.comparator[0 if record.fit_intercept else 1 :], record.rate.base, float(np.abs(Z).max())
    u, eta, used = u / np.abs(u).sum(), eta * record.geometry.radius, np.abs(u[u != 0]) / np.abs(u).sum()
    margins, low = Z @ u, float((Z @ u).min())
    high = float(margins.max()) + proof.slack + radius
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(0.0, middle - margins).sum() < proof.slack else (low, middle)
    entropy = float((used * np.log(used)).sum()) + math.log(2.0 * len(u))
    out.near("radius", radius, 1e-6)
    gain = eta * high - 0.5 * eta**2 * radius**2
    out.near("bound", (entropy + eta * proof.slack) / gain if gain > 0 else math.inf, 1e-6)


BY_REPLAY = {"online": _online, "stream": _online, "averaged": _online, "perceptron": _mistakes}
