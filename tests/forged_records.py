"""What a forger does: change a record, keep the certificate or recompute it, and ask for verification."""

from __future__ import annotations

import copy
import dataclasses
import warnings

import trueline as tl


def fitted(model, X, y=None, sample_weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return model.fit(X, **weights) if y is None else model.fit(X, y, **weights)


def record_of(model):
    return model.model_ if hasattr(model, "model_") else model.record_


def copied(model):
    """A deep copy of the record that a forger may change."""
    return copy.deepcopy(record_of(model))


def failures(model, rows, certificate=None):
    """The claims that do not hold; empty where all do. A refusal in one sentence counts as a failure."""
    try:
        found = tl.verify(model, rows, certificate=certificate)
    except tl.ModelError as refused:
        return [str(refused)]
    return [check.claim for check in found.checks if not check.held] or ([] if found.ok else ["nothing"])


def replaced(model, **fields):
    proof = record_of(model).certificate
    return dataclasses.replace(proof() if callable(proof) else proof, **fields)
