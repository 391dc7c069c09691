"""The elastic net on a small Gram matrix without compiled code: active sets, for programs that must start at once.

For each penalty, from the last one's support A and signs s: solve (G_AA + l2)·b = c_A − l1·s. Where a sign turned
over, walk from the old coefficients to the first crossing and drop that column; where |c − Gb| > l1 outside, add the
worst. Each stop has a lower objective than the one before, so no support comes back; every solve is exact, so the
gap is rounding. NumPy alone: at some tens of columns this is done before Numba would be imported; newtonset.py is the
same idea compiled, for everything else. A column that nearly coincides with those in the set stays out.
"""

from __future__ import annotations

import numpy as np

from .. import dense


def active_set_path(
    C: np.ndarray, c: np.ndarray, n: float, alphas: np.ndarray, l1_ratio: float = 1.0, *, most: int = 0
) -> np.ndarray | None:
    """Coefficients, penalties × columns, of (1/2n)‖y − Xw‖² + α·l1_ratio‖w‖₁ + ½α(1 − l1_ratio)‖w‖².

    ``C`` = XᵀX and ``c`` = Xᵀy of centred columns, ``n`` the sum of the weights. None if some penalty needs more than
    ``most`` steps.

    >>> active_set_path(np.eye(2) * 10, np.array([10.0, 1.0]), 10.0, np.array([0.5])).round(12).tolist()
    [[0.5, 0.0]]
    """
    d = len(c)
    most = most or 10 * d + 50
    length = np.sqrt(np.maximum(np.diagonal(C), 0.0))
    usable = length > 1e-12 * max(float(length.max(initial=0.0)), 1e-300)
    out = np.zeros((len(alphas), d))
    w = np.zeros(d)
    for k, alpha in enumerate(alphas):
        found = _solve(C, c, w, n * alpha * l1_ratio, n * alpha * (1.0 - l1_ratio), length, usable, most)
        if found is None:
            return None
        w = out[k] = found
    return out


def _solve(
    C: np.ndarray,
    c: np.ndarray,
    start: np.ndarray,
    l1: float,
    l2: float,
    length: np.ndarray,
    usable: np.ndarray,
    most: int,
) -> np.ndarray | None:
    w = start.copy()
    active = np.flatnonzero(w)
    for _ in range(most):
        if len(active):
            target = _stationary(C, c, w, active, l1, l2)
            if target is None:  # the last one nearly coincides with others
                usable, w[active[-1]] = usable & (np.arange(len(c)) != active[-1]), 0.0
                active = active[:-1]
                continue
            moved = _walk(w, active, target)
            if moved is not None:
                w, active = moved
                continue
            w[active] = target
        slope = c - C @ w - l2 * w
        beyond = np.where(usable & (w == 0.0), np.abs(slope) - l1, -np.inf) / np.where(usable, length, 1.0)
        worst = int(np.argmax(beyond)) if len(beyond) else 0
        if not len(beyond) or beyond[worst] <= 1e-11 * float(
            np.abs(c / np.where(usable, length, np.inf)).max(initial=0.0)
        ):
            return w
        w[worst] = np.copysign(5e-324, slope[worst])  # its sign is known before its size
        active = np.append(active, worst)
    return None


def _stationary(
    C: np.ndarray, c: np.ndarray, w: np.ndarray, active: np.ndarray, l1: float, l2: float
) -> np.ndarray | None:
    G = C[np.ix_(active, active)].copy()
    G[np.diag_indices(len(active))] += l2
    scale = np.sqrt(np.diagonal(G))
    try:
        lower = dense.cholesky(G / scale / scale[:, None])
    except np.linalg.LinAlgError:
        return None
    if np.diagonal(lower).min() < 1e-6:
        return None
    right = (c[active] - l1 * np.sign(w[active])) / scale
    return dense.solve(G / scale / scale[:, None], right) / scale


def _walk(w: np.ndarray, active: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The first crossing on the way to the target, with that column dropped; None if no sign turns over."""
    wrong = np.sign(target) * np.sign(w[active]) < 0
    wrong |= target == 0.0
    if not wrong.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(wrong, w[active] / (w[active] - target), np.inf)
    at = int(np.nanargmin(share))
    made = w.copy()
    made[active] += min(max(float(share[at]), 0.0), 1.0) * (target - w[active])
    made[active[at]] = 0.0
    kept = np.delete(active, at)
    # A column that the walk brought to nothing keeps the sign that it had.
    gone = made[kept] == 0.0
    made[kept[gone]] = np.copysign(5e-324, w[kept[gone]])
    return made, kept
