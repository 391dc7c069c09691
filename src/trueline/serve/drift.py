"""Drift: regret over recent windows of labels.

A window is 256 labels. Its regret is what the learner lost in it above the best fixed weights *of that window*,

    R = Σ w (ŷ − y)² − min_{u,b} Σ w (u·x + b − y)²,

found at the window's end from its own rows; of two classes with probabilities, the same with the logistic loss. A learner that has arrived pays about the same in every window; where the
target moves, it pays for the way. Noise alone raises the loss and the regret together, so the score compares R in units
of the window's best loss (and a thousandth of the target's spread, for targets without noise) with the windows before.
Other losses, several classes, and models of more than 126 columns are held against the best weights of the whole stream
as the certificate finds them; where it finds none, the loss itself is watched. ``against`` says which.

Everything here depends on the journal alone, and goes into the snapshot: the open window's rows too.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from .. import dense

WINDOW = 256  # labels
KEPT = 64  # windows
WIDEST = WINDOW // 2  # columns and intercept of a window's own comparator
FIRST = 5  # windows before there is a score
LIMIT = 6.0  # robust standard deviations
AGAINST = (
    "the best fixed weights of each window",
    "the best fixed weights of the whole stream",
    "nothing",
    "the best member over the whole stream",
)


class Drift:
    """The windows of one model."""

    def __init__(self, kept: dict[str, Any] | None = None) -> None:
        kept = kept or {}
        self.windows: list[list[Any]] = list(kept.get("windows", ()))  # [position, mean loss, mean regret, relative]
        self.against = int(kept.get("against", 0))
        self.best = float(kept.get("best", 0.0))  # the stream's comparator at the last window's end
        self.loss = self.weight = 0.0  # of the open window
        self.rows: list[tuple[bytes, float, float]] = []
        if kept:
            self.loss, self.weight = kept["open"]
            self.rows = [(base64.b64decode(row), target, weight) for row, target, weight in kept["rows"]]

    def to_dict(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        rows = [(base64.b64encode(row).decode(), target, weight) for row, target, weight in self.rows]
        return {
            "windows": self.windows, "against": self.against, "best": self.best, "open": [self.loss, self.weight], "rows": rows,
        }  # fmt: skip

    def close(self, position: int, X: np.ndarray | None, proof: Any, logistic: bool = False) -> None:
        """End the window; X has its rows where they were kept, ``proof`` is the certificate otherwise."""
        best, spread = math.nan, 0.0
        if X is not None:
            self.against = 0
            y, w = np.array([row[1] for row in self.rows]), np.array([row[2] for row in self.rows])
            best, spread = (best_logistic if logistic else best_fixed)(X, y, w)
        else:
            fixed, member = (getattr(proof, name, None) for name in ("best_fixed_loss", "best_member_loss"))
            total = member if fixed is None else fixed
            before, self.against = self.against, 2 if total is None else 3 if fixed is None else 1
            if total is not None:
                if not self.windows or before == self.against:  # the window's own share of the sum
                    best = total - self.best
                self.best = total
        weight = max(self.weight, 1e-300)
        regret = self.loss - best if math.isfinite(best) else None
        relative = self.loss / weight if regret is None else regret / max(best + 1e-3 * spread, 1e-300)
        made = [position, self.loss / weight, None if regret is None else regret / weight, min(relative, 1e300)]
        self.windows = [*self.windows, made][-KEPT:]
        self.loss, self.weight, self.rows = 0.0, 0.0, []

    def describe(self) -> dict[str, Any]:
        """The windows, and whether the newest stands out of those before it."""
        score = 0.0
        if len(self.windows) >= FIRST:
            past = np.array([w[3] for w in self.windows[1:-1]])
            middle = float(np.median(past))
            spread = 1.4826 * float(np.median(np.abs(past - middle))) + 0.02 * abs(middle) + 1e-12
            score = (self.windows[-1][3] - middle) / spread
        return {
            "window": WINDOW, "against": AGAINST[self.against], "windows": [w[:3] for w in self.windows],
            "score": max(-1e9, min(score, 1e9)), "drifting": score > LIMIT,
        }  # fmt: skip


def best_fixed(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """(least Σ w (u·x + b − y)² over all u and b, Σ w (y − ȳ)²).

    >>> best, spread = best_fixed(np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0]), np.ones(3))
    >>> best < 1e-12, spread
    (True, 8.0)
    """
    root = np.sqrt(w)
    Z = _scaled(X, w) * root[:, None]
    t = (y - (w @ y) / w.sum()) * root
    G = Z.T @ Z
    G[np.diag_indices_from(G)] += 1e-10  # columns may repeat each other
    left = t - Z @ dense.solve(G, Z.T @ t)
    return float(left @ left), float(t @ t)


def best_logistic(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[float, float]:
    """(Σ w ln(1 + exp(−y(u·x + b))) at its Newton minimum, the same with u = 0); y is ±1.

    A ridge of a thousandth keeps separable windows finite.

    >>> best, spread = best_logistic(np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([-1.0, 1.0, 1.0, -1.0]), np.ones(4))
    >>> round(best / math.log(2.0), 6), round(spread / math.log(2.0), 6)
    (4.0, 4.0)
    """
    Z = np.column_stack([np.ones(len(y)), _scaled(X, w)])
    ridge = np.full(Z.shape[1], 1e-3)
    ridge[0] = 1e-9

    def losses(u: np.ndarray) -> float:
        return float(w @ np.logaddexp(0.0, -y * (Z @ u)))

    u = np.zeros(Z.shape[1])
    now = losses(u)
    for _ in range(30):
        wrong = 1.0 / (1.0 + np.exp(np.clip(y * (Z @ u), -500.0, 500.0)))
        H = (Z * (w * wrong * (1.0 - wrong))[:, None]).T @ Z + np.diag(ridge)
        g = ridge * u - Z.T @ (w * y * wrong)
        step = dense.solve(H, g)
        for _ in range(60):
            then = losses(u - step) + 0.5 * float(ridge @ (u - step) ** 2)
            if then <= now or np.abs(step).max() < 1e-9:
                break
            step *= 0.5
        u = u - step
        if now - then <= 1e-9 * (1.0 + now):
            break
        now = then
    share = min(max(float(w @ (y > 0)) / float(w.sum()), 1e-12), 1.0 - 1e-12)
    return losses(u), -float(w.sum()) * (share * math.log(share) + (1.0 - share) * math.log(1.0 - share))


def _scaled(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Columns with weighted mean 0 and weighted sum of squares 1; those that stand still are left out."""
    Z = X - (w / w.sum()) @ X
    size = np.sqrt(w @ (Z * Z))
    return Z[:, size > 0.0] / size[size > 0.0]
