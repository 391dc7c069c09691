"""The best fixed weights in hindsight of exponentiated gradient: exact on the simplex and on the ball of the 1-norm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trueline as tl
from trueline.online.comparators import entropic_best, simplex_best


def moments(X, y):
    Z = np.column_stack([np.ones(len(y)), X, y])
    return Z.T @ Z


@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([0.0, 0.5, 1.0, 10.0]), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_weights_are_better_by_the_optimality_conditions(seed, d, radius, dependent, intercept):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d))
    if dependent and d > 1:
        X[:, -1] = X[:, 0]
    y = X @ rng.dirichlet(np.ones(d)) + rng.choice([0.0, 0.1, 3.0]) * rng.normal(size=n) + rng.choice([0.0, 5.0])
    u = entropic_best(moments(X, y), intercept, radius, 0.0)
    rows = np.column_stack([np.ones(n), X])
    if not intercept:
        assert u[0] == 0.0
        rows = rows[:, 1:]
        u = u[1:]
    loss = float(((y - rows @ u) ** 2).sum())
    pull = -2.0 * rows.T @ (y - rows @ u)
    scale = float((y @ y) + (rows**2).sum() * max(1.0, radius) ** 2)
    if radius:
        assert np.abs(u).sum() <= radius * (1.0 + 1e-12)
        gap = float(pull @ u) + radius * float(np.abs(pull).max())
    else:
        assert (u >= 0.0).all() and u.sum() == pytest.approx(1.0, abs=1e-12)
        gap = float(pull @ u - pull.min())
    assert -1e-12 * scale <= gap <= 1e-12 * scale  # loss − gap bounds every other loss from below
    for _ in range(20):  # and in other words: none of these is better
        other = rng.dirichlet(np.full(len(u), 0.3))
        other = radius * rng.choice([-1.0, 1.0], size=len(u)) * other if radius else other
        assert float(((y - rows @ other) ** 2).sum()) >= loss - 1e-11 * scale


def test_hand_made_corners():
    assert simplex_best(np.eye(2), np.array([5.0, 0.0])).tolist() == [1.0, 0.0]
    assert simplex_best(np.eye(3), np.zeros(3)) == pytest.approx([1 / 3] * 3)
    assert simplex_best(np.zeros((1, 1)), np.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("signed", [False, True])
def test_the_certificate_states_the_best_fixed_loss(signed):
    rng = np.random.default_rng(4)
    X = rng.uniform(-1.0, 1.0, size=(200, 6))
    y = X @ [0.5, 0.3, 0.2, 0.0, 0.0, 0.0] + 0.1 * rng.normal(size=200)
    options = {"signed": True, "radius": 1.0} if signed else {"signed": False}
    model = tl.ExponentiatedGradient(rate=0.1, fit_intercept=False, **options).fit(X, y)
    proof = model.certificate_
    u = entropic_best(moments(X, y), False, 1.0 if signed else 0.0, 0.0)[1:]
    assert proof.best_fixed_loss == pytest.approx(float(((y - X @ u) ** 2).sum()), rel=1e-10)
    assert proof.loss <= proof.bound
