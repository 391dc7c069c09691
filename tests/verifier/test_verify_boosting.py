"""AdaBoost: votes, margins and bounds follow from the rows; forged votes and classes are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced

import trueline as tl

RNG = np.random.default_rng(4)
X = RNG.normal(size=(90, 3))
SCORE = X[:, 0] + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=90)
TWO, THREE = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.5, 0.5])
NAMES = np.array(["no", "yes"])[TWO]
W = RNG.random(90) + 0.1


@pytest.mark.parametrize("y", [TWO, THREE, NAMES], ids=["two", "three", "names"])
@pytest.mark.parametrize(
    "w", [None, W, 1e9 * W, 1e-9 * W, 1.0 * (np.arange(90) % 3 > 0)], ids=["1", "w", "large", "tiny", "zero"]
)
@pytest.mark.parametrize(
    "A", [X, np.round(X), X * 1e-6 + 1e3, np.repeat(X[:30], 3, axis=0)], ids=["plain", "ties", "far", "repeated"]
)
def test_honest_models_verify(A, y, w):
    model = fitted(tl.AdaBoost(15), A, y, w)
    assert not failures(model, (A, y) if w is None else (A, y, w))


def test_a_perfect_stump_and_none_at_all_verify():
    y = (X[:, 0] > 0.1).astype(int)
    assert not failures(fitted(tl.AdaBoost(), X, y), (X, y))
    A, y = np.ones((10, 1)), np.arange(10) % 2
    assert not failures(fitted(tl.AdaBoost(), A, y), (A, y))


@pytest.mark.parametrize("forgery", ["votes", "signs", "thresholds", "classes", "renamed", "fewer"])
def test_forged_votes_are_refused(forgery):
    model = fitted(tl.AdaBoost(15), X, TWO)
    record = copied(model)
    machine = record.machines[0]
    if forgery == "votes":
        machine.votes[3] *= 5.0
    elif forgery == "signs":
        machine.votes[:] = -machine.votes
    elif forgery == "thresholds":
        machine.thresholds[0] += 0.5
    elif forgery == "classes":
        record.classes = record.classes[::-1]
    elif forgery == "renamed":
        record.classes = (0, 7)
    else:
        machine.votes = machine.votes[:-1]
    D, t = np.full(90, 1 / 90), np.where(TWO == 1, 1.0, -1.0)
    f = record.scores(X) * np.abs(machine.votes).sum()
    margins = t * record.scores(X)
    honest = {
        "bound": float(D @ np.exp(-t * f)), "training_error": float(D[margins <= 0].sum()),
        "smallest_margin": float(margins.min()), "median_margin": float(np.sort(margins)[44]),
        "below_theta": float(D[margins <= 0.1].sum()), "rounds": len(machine.votes),
    }  # fmt: skip
    for fields in ({}, honest):
        assert failures(record, (X, TWO), replaced(model, **fields))


def test_every_number_counts():
    model = fitted(tl.AdaBoost(15), X, TWO)
    for name in (
        "rounds",
        "training_error",
        "bound",
        "edge",
        "smallest_margin",
        "median_margin",
        "below_theta",
        "margin_bound",
    ):
        value = getattr(model.certificate_, name)
        for lie in (value * 0.9 - 0.01, math.nan, -math.inf):
            assert failures(model, (X, TWO), replaced(model, **{name: lie})), name
    assert failures(model, (X, TWO, W))
    assert failures(model, (X, 1 - TWO))
