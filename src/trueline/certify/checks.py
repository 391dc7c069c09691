"""What a verification is: claims, what was found for each, and whether the one supports the other.

Beside them, what a verification starts from: the rows that were given, and the problem that a model says it solved.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import DataError, ModelError


@dataclasses.dataclass(frozen=True)
class Check:
    """One claim, the number claimed, the number found, and whether the one supports the other."""

    claim: str
    claimed: Any
    found: Any
    held: bool
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Verification:
    """All checks of one certificate; ``ok`` when there are some and every one holds."""

    kind: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.held for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "kind": self.kind, "checks": [dataclasses.asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        failed = ", ".join(check.claim for check in self.checks if not check.held)
        return f"{len(self.checks)} claims hold" if self.ok else f"does not hold: {failed or 'nothing to check'}"


class Claims:
    """Collects the checks of one certificate; what is claimed is read from its fields by name."""

    def __init__(self, proof: Any, replay: Any = None) -> None:
        self.proof, self.replay = proof, replay
        self.checks: list[Check] = []

    def claimed(self, name: str) -> Any:
        value: Any = getattr(self.proof, name, None)
        return value.value if hasattr(value, "value") else value

    def holds(self, name: str, found: Any, held: Any, note: str = "", *, field: str | None = None) -> None:
        """A claim that the found number supports or not."""
        self.checks.append(Check(name, self.claimed(field or name), found, bool(held), note))

    def near(self, name: str, found: float, tolerance: float, scale: float | None = None, note: str = "") -> None:
        """A claim that must equal the found number, to a share of the larger of the two or of a scale."""
        claimed = self.claimed(name)
        size = max(abs(claimed), abs(found)) if scale is None else scale
        self.holds(name, found, claimed == found or abs(claimed - found) <= tolerance * size, note)


def given(model: Any, data: Any, certificate: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]:
    """(record, certificate, rows, targets, weights) of an estimator or a record and its training data."""
    record = next((getattr(model, name) for name in ("model_", "record_") if hasattr(model, name)), model)
    proof = getattr(record, "certificate", None) if certificate is None else certificate
    proof = proof() if callable(proof) else proof
    if proof is None:
        raise ModelError("the model carries no certificate, so there is nothing to verify", where="certificate")
    rows = data if isinstance(data, tuple) else record.training_rows(data)
    X, y, c = (*rows, None)[:3]
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
    told = record.statistics.get("objective") or {"penalty": "unknown"}
    if told.get("offset") or told.get("bounded") or told["penalty"] not in ("none", "l1", "l2", "elastic_net"):
        raise ModelError("the model does not say all of what it minimised: its gap cannot be checked", where="model")
    name, f, d, labels = told["loss"], float((*told["loss_fields"], 0.0)[0]), X.shape[1], record.classes
    ratio = {"l1": 1.0, "elastic_net": told["l1_ratio"]}.get(told["penalty"], 0.0)
    alpha = told["alpha"] * (told["penalty"] != "none")
    on = slice(0 if told["fit_intercept"] else 1, None)
    l1 = np.r_[told.get("intercept_l1", 0.0), np.full(d, alpha * ratio)][on]
    l2 = np.r_[told.get("intercept_l2", 0.0), np.full(d, alpha * (1.0 - ratio))][on]
    index = np.argmax(y[:, None] == np.array(labels or (None,)), axis=1)
    c = c * np.array(told.get("class_factors", np.ones(1 + len(labels))))[index]
    Z, c = np.column_stack([np.ones(len(X)), X])[:, on], c / c.sum()
    W = np.vstack([np.ravel(record.intercept), np.atleast_2d(record.coef).T])[on]
    weights = [W] if name == "softmax" else np.hsplit(W, W.shape[1])
    signs = [np.where(index == (k if len(weights) > 1 else 1), 1.0, -1.0) for k in range(len(weights))]
    targets = [index] if name == "softmax" else signs if labels else [y.astype(float)]
    limit = 1.01 * float(told.get("tolerance", 1e-6)) + 1e-11
    return name, f, limit, [(Z, t, c, w, l1, l2) for t, w in zip(targets, weights, strict=True)]
