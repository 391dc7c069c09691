"""How members become one prediction, with a proof and with nothing known in advance.

**Squared loss.** Members k = 1…K predict inside the label range seen so far and its margin; L_k is member k's summed
loss. With

    η_t = ln K/Δ_{t−1},   weights ∝ exp(−η_t L_k),   p = Σ weights·p_k,   M_t(η) = −(1/η)·ln((1/K)Σ exp(−ηL_k,t)),
    m_t = M_t(η_t) − M_{t−1}(η_t),   Δ_t = Δ_{t−1} + max(0, (y − p)² − m_t),

*regret to every member is at most 2Δ_T ≤ 4R²·ln K + 2R²*, R the final label range plus the margin, so that every
|y − p| ≤ R (R² is to be multiplied by the largest weight c).
Proof. (i) M(η) falls as η grows, and η_t never grows, so M_{t−1}(η_t) ≥ M_{t−1}(η_{t−1}): the m_t telescope to
Σm_t ≤ M_T(η_T) ≤ min_k L_k + ln K/η_T ≤ min_k L_k + Δ_T. The loss is at most Σm_t + Δ_T. (ii) p ↦ exp(−η(y − p)²) is
concave while |y − p| ≤ 1/√(2η); then (y − p)² ≤ m_t by Jensen and Δ stands still. That is so once
Δ_{t−1} ≥ 2R²·ln K; a single increase is at most R² (m_t ≥ 0). So Δ_T ≤ 2R²·ln K + R². ∎

A second level mixes that static mixture with two that follow changes of the best member (fixed share, and weights by
recent losses in units of the recent noise) and a pool (a convex combination learned by gradient steps) by the same rule
with K = 4: 2Δ′_T ≤ 4R²·ln 4 + 2R² more. What those three do needs no proof of its own: the second level's regret to the
static mixture is what the bound uses.

**Log loss.** Weights ∝ exp(−ηL_k) with η = 1/max(1, largest weight c): −c·ln Σ w_k p_k(y) is at most the mix loss
(z ↦ z^{cη} is concave), so L ≤ min_k L_k + ln K/η, with static, fixed share and geometric pooling on top: ln 3/η more.
"""

from __future__ import annotations

import cython

from ..simd import Array

if not cython.compiled:  # compiled, these come from aggregate.pxd
    from math import exp, inf, log

SHARE: cython.double = 0.01
# Losses this near to each other, relatively, are the same: who leads must not hang on rounding.
ROUNDING: cython.double = 1e-12
POOL_RATE: cython.double = 0.25  # the largest step of a weight's logarithm in the pool
MEMORY: cython.double = 0.99  # how much of the recent losses each round keeps


def rate(gap: float, count: cython.Py_ssize_t) -> float:
    """η = ln K/Δ; infinity, that is the leader, while Δ is 0."""
    return log(count) / gap if gap > 0.0 else inf


def posterior(losses: Array, count: cython.Py_ssize_t, eta: float, out: Array) -> None:
    """Weights ∝ exp(−η·loss); the leaders alone, equally, when η is infinite; losses are not negative."""
    least = losses[0]
    for k in range(1, count):
        least = min(least, losses[k])
    total = 0.0
    for k in range(count):
        if eta == inf:
            out[k] = 1.0 if losses[k] <= least * (1.0 + ROUNDING) else 0.0
        else:
            out[k] = exp(-eta * (losses[k] - least))
        total += out[k]
    for k in range(count):
        out[k] /= total


def excess(suffered: float, mixed: float) -> float:
    """What Δ grows by: how much the loss exceeds the mix loss, if that is more than rounding."""
    gap = suffered - mixed
    return gap if gap > ROUNDING * suffered else 0.0


def mix_loss(losses: Array, step: Array, count: cython.Py_ssize_t, eta: float) -> float:
    """M_t(η) − M_{t−1}(η) from summed losses before the step, in log space: nothing underflows to a wrong answer."""
    before = inf
    after = inf
    for k in range(count):
        before = min(before, losses[k])
        after = min(after, losses[k] + step[k])
    if eta == inf:
        return after - before
    old = 0.0
    new = 0.0
    for k in range(count):
        old += exp(-eta * (losses[k] - before))
        new += exp(-eta * (losses[k] + step[k] - after))
    return after - before - (log(new) - log(old)) / eta


def share_loss(shares: Array, step: Array, count: cython.Py_ssize_t, eta: float) -> float:
    """−(1/η)·ln Σ share·exp(−η·step); no share is ever 0."""
    least = inf
    for k in range(count):
        least = min(least, step[k])
    if eta == inf:
        return least
    total = 0.0
    for k in range(count):
        total += shares[k] * exp(-eta * (step[k] - least))
    return least - log(total) / eta


def redistribute(shares: Array, step: Array, count: cython.Py_ssize_t, eta: float) -> None:
    """Fixed share: multiply by exp(−η·step), then give SHARE of the total back to all alike."""
    least = inf
    for k in range(count):
        least = min(least, step[k])
    total = 0.0
    for k in range(count):
        if eta == inf:
            shares[k] = shares[k] if step[k] <= least * (1.0 + ROUNDING) else 0.0
        else:
            shares[k] *= exp(-eta * (step[k] - least))
        total += shares[k]
    for k in range(count):
        shares[k] = (1.0 - SHARE) * shares[k] / total + SHARE / count


def recent_weights(recent: Array, count: cython.Py_ssize_t, out: Array) -> None:
    """Weights ∝ exp(−loss/(2·noise)) of discounted losses, the noise being the best member's; last entry: their weight."""
    least = recent[0]
    for k in range(1, count):
        least = min(least, recent[k])
    posterior(recent, count, 0.5 * recent[count] / least if least > 0.0 else inf, out)


def remember(recent: Array, step: Array, count: cython.Py_ssize_t, c: float) -> None:
    """Discount what was, add this round."""
    for k in range(count):
        recent[k] = MEMORY * recent[k] + step[k]
    recent[count] = MEMORY * recent[count] + c


def pool_step(pool: Array, predictions: Array, count: cython.Py_ssize_t, y: float, mixed: float, noise: float) -> None:
    """One step of exponentiated gradient on the pool's squared error, in units of the noise and bounded.

    Bounded, so that one label far off moves no weight by more than a factor: what is learned is what most rounds say.
    """
    if noise <= 0.0:
        return
    total = 0.0
    for k in range(count):
        gain = 2.0 * (mixed - y) * (mixed - predictions[k]) / noise
        gain = max(-1e300, min(1e300, gain))  # inf/inf would be no weight at all
        pool[k] = max(pool[k], 1e-12) * exp(POOL_RATE * gain / (1.0 + abs(gain)))
        total += pool[k]
    for k in range(count):
        pool[k] /= total


def average(weights: Array, predictions: Array, count: cython.Py_ssize_t) -> float:
    """Σ weight·prediction."""
    total = 0.0
    for k in range(count):
        total += weights[k] * predictions[k]
    return total
