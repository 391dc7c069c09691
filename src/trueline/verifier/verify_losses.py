"""The verifier's own formulas of the losses: value, slope and curvature of each row's loss, and the least it can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from .stated_claims import Rows

COUNTS = ("poisson", "gamma", "tweedie")


def loss_of(name: str, f: float, s: Rows, y: Rows) -> tuple[Rows, Rows, Rows]:
    """Value, slope and curvature of each row's loss in s, f its parameter; softmax: a score a class, y numbers them."""
    if name == "softmax":
        own, low = np.arange(s.shape[1]) == y[:, None], s - s.max(axis=1, keepdims=True)
        p = np.exp(low) / (total := np.exp(low).sum(axis=1))[:, None]
        slope = np.where(own, -np.where(own, 0.0, p).sum(axis=1, keepdims=True), p)  # p − 1 would cancel
        return np.log(total) - low[own], slope, p[:, :, None] * (np.eye(s.shape[1]) - p[:, None, :])
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


def least_of(p: Any) -> Rows:
    """The least that each row's loss can be."""
    return loss_of(p.loss, p.f, np.log(np.maximum(p.t, 1e-300)), p.t)[0] if p.loss in COUNTS else np.zeros(len(p.t))
