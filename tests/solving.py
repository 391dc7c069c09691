"""What the solvers' tests share: one problem with a target for every loss, and a minimize that must prove its result."""

from __future__ import annotations

import warnings

import numpy as np

from trueline.estimators.minimize import minimize
from trueline.estimators.proofs import NotProvenWarning
from trueline.objective.losses import resolve_loss

N, D = 120, 6
LOSSES = ("squared", "huber", "logistic", "squared_hinge", "poisson", "gamma", "tweedie", "absolute", "hinge")
PENALTIES = (None, "l2", "l1", "elastic_net", "nonnegative", "box", "group_l1")
GROUPS = np.arange(D) // 2


def problem(seed: int = 0, scales: bool = True) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Columns whose scales span six decades, some far from 0, and a target for every loss."""
    rng = np.random.default_rng(seed)
    spread = np.logspace(-3, 3, D) if scales else np.ones(D)
    X = (rng.normal(size=(N, D)) + rng.normal(size=D)) * spread
    s = X @ (rng.normal(size=D) / spread)
    s -= s.mean()
    real = s + rng.normal(size=N)
    sign = np.where(s + rng.logistic(size=N) > 0, 1, -1)
    count = rng.poisson(np.exp(0.3 * s)).astype(float)
    positive = rng.gamma(2.0, np.exp(0.3 * s)) + 1e-3
    kinds = {"real": real, "sign": sign, "nonnegative": count, "positive": positive}
    return X, {name: kinds[resolve_loss(name).targets] for name in LOSSES}


def solved(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotProvenWarning)
        return minimize(*arguments, **options)


def options_of(penalty, alpha):
    """The strength and the groups, of the penalties that have them."""
    strength = {} if penalty in (None, "none", "box") else {"alpha": alpha}
    return strength | ({"groups": GROUPS} if penalty == "group_l1" else {})
