"""What a verification starts from: the rows that were given, the losses written anew, and the problem a model says it solved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import DataError, ModelError

PENALTIES = ("none", "l1", "l2", "elastic_net", "nonnegative")
KINKED, COUNTS = ("hinge", "absolute", "quantile"), ("poisson", "gamma", "tweedie")
CURVE = {"logistic": 0.25, "softmax": 0.25, "squared_hinge": 2.0}  # the most that a loss curves, where it is not 1


def given(model: Any, data: Any, certificate: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]:
    """(record, certificate, rows, targets, weights) of an estimator or a record and its training data."""
    record = next((getattr(model, name) for name in ("model_", "record_") if hasattr(model, name)), model)
    proof = getattr(record, "certificate", None) if certificate is None else certificate
    proof = proof() if callable(proof) else proof
    if proof is None:
        raise ModelError("the model carries no certificate, so there is nothing to verify", where="certificate")
    rows = data if isinstance(data, tuple) else record.training_rows(data)
    X, y, c = (*rows, None, None)[:3]
    y = np.zeros(X.shape[0]) if y is None else y
    X, y = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float), np.asarray(y)
    c = np.ones(len(X)) if c is None else np.asarray(c, dtype=float)
    if X.ndim != 2 or len(y) != len(X) or len(c) != len(X):
        raise DataError(f"X has shape {X.shape}, y {len(y)} entries, weights {len(c)}: give one a row", where="data")
    return record, proof, X, y, c


def minimised(record: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> tuple[str, float, float, list[Any]]:
    """(loss, its parameter, largest relative gap that is proven, problems) that a model says it minimised.

    A problem is (design, targets, weights that sum to 1, weights found, L1 and L2 strength of each): one, or one a
    class where each class was fitted against the rest.
    """
    told = record.statistics.get("objective") or {"penalty": "of another kind"}
    if told.get("offset") or told.get("bounded") or told["penalty"] not in PENALTIES:
        kind = "an offset" if told.get("offset") else "bounds" if told.get("bounded") else f"penalty {told['penalty']}"
        raise ModelError(f"there is no independent check of the gap of a problem with {kind}", where="model")
    name, f, d = told["loss"], float((*told["loss_fields"], 0.0)[0]), X.shape[1]
    labels = () if record.classes is None else tuple(record.classes)
    ratio = {"l1": 1.0, "nonnegative": 1.0, "elastic_net": told["l1_ratio"]}.get(told["penalty"], 0.0)
    alpha = told["alpha"] * (told["penalty"] != "none")
    alpha = alpha * (np.ones(d) if told.get("weights") is None else np.asarray(told["weights"]))
    on = slice(0 if told["fit_intercept"] else 1, None)
    l1 = np.r_[told.get("intercept_l1", 0.0), alpha * ratio][on]
    l2 = np.r_[told.get("intercept_l2", 0.0), alpha * (1.0 - ratio)][on]
    index = np.argmax(y[:, None] == np.array(labels), axis=1) if labels else np.zeros(len(y), dtype=int)
    c = c * np.array(told.get("class_factors", np.ones(1 + len(labels))))[index]
    Z, c = np.column_stack([np.ones(len(X)), X])[:, on], c / c.sum()
    W = np.vstack([np.ravel(record.intercept), np.atleast_2d(record.coef).T])[on]
    weights = [W] if name == "softmax" else np.hsplit(W, W.shape[1])
    many = y.reshape(len(y), -1)
    signs = [np.where(index == (k if len(weights) > 1 else 1), 1.0, -1.0) for k in range(len(weights))]
    targets = [index] if name == "softmax" else signs if labels else list(many.T.astype(float))
    limit = 1.01 * float(told.get("tolerance", 1e-6)) + 1e-11
    return (
        name,
        f,
        limit,
        [(Z, t, c, w, l1, l2, bool(told.get("positive"))) for t, w in zip(targets, weights, strict=True)],
    )


def loss_of(name: str, f: float, s: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value, slope and curvature of each row's loss; f is its parameter; softmax takes a score a class, y numbers it."""
    if name == "softmax":
        own, low = np.arange(s.shape[1]) == y[:, None], s - s.max(axis=1, keepdims=True)
        p = np.exp(low) / (total := np.exp(low).sum(axis=1))[:, None]
        return np.log(total) - low[own], p - own, p[:, :, None] * (np.eye(len(p[0])) - p[:, None, :])
    r, m = s - y, y * s
    if name in ("squared", "huber"):
        near = np.abs(r) <= (f := math.inf if name == "squared" else f)
        return (
            np.where(near, 0.5 * r * r, 0.0 if near.all() else f * (np.abs(r) - 0.5 * f)),
            np.clip(r, -f, f),
            1.0 * near,
        )
    if name == "logistic":
        p = np.exp(-np.logaddexp(0.0, m))  # to its last digits however small: 1 + tanh would cancel
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
