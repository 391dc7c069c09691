"""Paths on the Gram matrix: gaps that bound the excess, ridge for every penalty, folds without the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueline.errors import DataError, UsageError
from trueline.onepass.folds import choose, ridge_scores
from trueline.onepass.moments import Moments
from trueline.onepass.paths import (
    RidgePath,
    cross_validate_paths,
    gram_gaps,
    gram_path,
    held_out,
    moment_gram,
    penalty_grid,
    standard_scales,
)


def problem(seed=0, n=120, d=6, correlation=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + correlation * rng.normal(size=(n, 1)) + rng.normal(size=d)
    return X, X @ np.where(rng.random(d) < 0.5, rng.normal(size=d), 0.0) + rng.normal(size=n)


def objective(X, y, w, alpha, l1_ratio):
    Z, t = X - X.mean(axis=0), y - y.mean()
    return (
        ((t - Z @ w) ** 2).sum() / (2 * len(y))
        + alpha * l1_ratio * np.abs(w).sum()
        + 0.5 * alpha * (1 - l1_ratio) * (w**2).sum()
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.floats(0.001, 1.0), st.sampled_from([0.1, 0.5, 1.0]), st.booleans(), st.floats(0, 5))
def test_the_gap_bounds_the_excess_of_any_stop(seed, share, l1_ratio, positive, correlation):
    X, y = problem(seed, correlation=correlation)
    total = Moments.from_arrays(X, y).total
    C, c, yy = moment_gram(total, 6)
    alpha = share * penalty_grid(total, 6, l1_ratio=l1_ratio)[0]
    good, gaps = gram_path(C, c, yy, 120, [alpha], l1_ratio, positive=positive, tol=1e-13)
    assert not positive or (good >= 0).all()
    best = objective(X, y, good[0], alpha, l1_ratio)
    assert gaps.gap[0] <= 1e-12 * yy / 120 and gaps.primal[0] == pytest.approx(best, rel=1e-9)
    for size in (0.0, 0.1, 1.0, 100.0):  # anywhere, far or near
        rough = good + size * np.abs(good).max() * np.random.default_rng(seed).normal(size=(1, 6))
        rough = np.maximum(rough, 0.0) if positive else rough
        bound = gram_gaps(C, c, yy, 120, rough, np.array([alpha]), l1_ratio, positive).gap[0]
        excess = objective(X, y, rough[0], alpha, l1_ratio) - best
        assert -1e-12 * yy <= excess <= bound + 1e-11 * (yy + excess)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4, 0.0])
def test_a_path_and_its_last_penalty_alone_agree(l1_ratio):
    X, y = problem(3, d=13, n=200)
    total = Moments.from_arrays(X, y).total
    C, c, yy = moment_gram(total, 13)
    alphas = penalty_grid(total, 13, count=10, l1_ratio=max(l1_ratio, 1e-3))
    path, proof = gram_path(C, c, yy, 200, alphas, l1_ratio, tol=1e-12)
    assert path.shape == (10, 13) and (proof.gap <= 1e-11 * yy / 200).all()
    # One small penalty alone is reached from above, not in one jump.
    alone, proof = gram_path(C, c, yy, 200, alphas[-1:], l1_ratio, tol=1e-12)
    assert np.allclose(alone[0], path[-1], atol=1e-7)


def test_columns_that_coincide_still_close_the_gap():
    X, y = problem(4, d=4)
    X = np.column_stack([X, X[:, 0], X[:, 1] + 1e-7 * np.random.default_rng(0).normal(size=len(y))])
    total = Moments.from_arrays(X, y).total
    C, c, yy = moment_gram(total, 6)
    _, gaps = gram_path(C, c, yy, len(y), penalty_grid(total, 6, count=30))
    assert (gaps.gap <= 1e-8 * yy / len(y)).all()


def test_ridge_path_is_each_solve():
    X, y = problem(1)
    moments = Moments.from_arrays(X, y)
    for scales in (None, standard_scales(moments.total, 6)):
        path = RidgePath(moments.total, 6, True, scales)
        alphas = np.array([0.0, 0.1, 10.0, 1e4])
        coefs = path.coef(alphas)
        Z = X - X.mean(axis=0)
        unit = np.ones(6) if scales is None else scales**2
        for a, alpha in enumerate(alphas):
            direct = np.linalg.solve(Z.T @ Z + alpha * np.diag(unit), Z.T @ (y - y.mean()))
            assert np.allclose(coefs[a, 0], direct, rtol=1e-11)
            fitted = path.intercepts(coefs)[a, 0] + X @ coefs[a, 0]
            assert np.isclose(path.residual_squares(coefs)[a, 0], ((y - fitted) ** 2).sum(), rtol=1e-12)
        H = Z @ np.linalg.solve(Z.T @ Z + 10 * np.diag(unit), Z.T) + 1 / len(y)
        assert np.isclose(path.degrees(np.array([10.0]))[0], np.trace(H), rtol=1e-12)


def test_held_out_squares_come_from_moments():
    X, y = problem(5)
    part = Moments.from_arrays(X, y).total
    coefs = np.random.default_rng(0).normal(size=(4, 1, 6))
    levels = np.random.default_rng(1).normal(size=(4, 1))
    found = held_out(part, coefs, levels, 6)[:, 0]
    assert np.allclose(
        found, [((y - X @ b[0] - v[0]) ** 2).sum() for b, v in zip(coefs, levels, strict=True)], rtol=1e-12
    )


def test_folds_choose_what_the_rows_would():
    X, y = problem(6)
    folds = np.arange(120) % 4
    moments = Moments.from_arrays(X, y, folds=folds)
    alphas = penalty_grid(moments.total, 6, count=20)
    errors = cross_validate_paths(moments, alphas, tol=1e-12)
    for k in range(4):
        train = folds != k
        inner = Moments.from_arrays(X[train], y[train]).total
        coefs, _ = gram_path(*moment_gram(inner, 6), train.sum(), alphas, tol=1e-12)
        predicted = y[train].mean() + (X[~train] - X[train].mean(axis=0)) @ coefs.T
        assert np.allclose(errors[:, k], ((y[~train, None] - predicted) ** 2).mean(axis=0), rtol=1e-9)


def test_one_standard_error_choice():
    scores = np.array([[1.0, 1.2], [1.3, 1.1], [1.1, 1.1], [0.0, 0.0]])
    alphas = np.array([1.0, 2.0, 3.0, 4.0])
    assert choose(scores, alphas) == 1
    assert choose(scores, alphas, "one-standard-error") == 2
    with pytest.raises(UsageError, match="choice must be one of"):
        choose(scores, alphas, "lucky")
    X, y = problem(0)
    with pytest.raises(DataError, match="one fold only"):
        ridge_scores(Moments.from_arrays(X, y), alphas)
    with pytest.raises(UsageError, match="scoring is one of"):
        ridge_scores(Moments.from_arrays(X, y, folds=np.arange(120) % 2), alphas, scoring="max_error")
