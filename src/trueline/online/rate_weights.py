"""The sums of aggregate.py for the loop over rates, which is compiled when it is called."""

from __future__ import annotations

import math

from .._jit import kernel

ROUNDING = 1e-12


@kernel
def rate(gap, count):
    """η = ln K/Δ; infinity, that is the leader, while Δ is 0."""
    return math.log(count) / gap if gap > 0.0 else math.inf


@kernel
def posterior(losses, count, eta, out):
    """Weights ∝ exp(−η·loss); the leaders alone, equally, when η is infinite; losses are not negative."""
    least = losses[0]
    for k in range(1, count):
        least = min(least, losses[k])
    total = 0.0
    for k in range(count):
        if eta == math.inf:
            out[k] = 1.0 if losses[k] <= least * (1.0 + ROUNDING) else 0.0
        else:
            out[k] = math.exp(-eta * (losses[k] - least))
        total += out[k]
    for k in range(count):
        out[k] /= total


@kernel
def mix_loss(losses, step, count, eta):
    """M_t(η) − M_{t−1}(η) from summed losses before the step, in log space: nothing underflows to a wrong answer."""
    before = math.inf
    after = math.inf
    for k in range(count):
        before = min(before, losses[k])
        after = min(after, losses[k] + step[k])
    if eta == math.inf:
        return after - before
    old = 0.0
    new = 0.0
    for k in range(count):
        old += math.exp(-eta * (losses[k] - before))
        new += math.exp(-eta * (losses[k] + step[k] - after))
    return after - before - (math.log(new) - math.log(old)) / eta
