"""Losses with corners: true zeros and rows met exactly, every penalty, and an "auto" that never picks what refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import QuantileRegressor
from solving import options_of, solved

import trueline as tl
from trueline.objective.losses import LOSSES

CORNERED = ("absolute", "quantile", "epsilon_insensitive", "hinge", "perceptron", "power", "huber")
PENALTIES = (None, "l1", "l2", "elastic_net", "nonnegative", "box", "group_l1")


def table(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    y = X[:, :2] @ [2.0, -1.0] + rng.standard_t(3, size=n) + 5.0
    return rng, X, y


@pytest.mark.parametrize("seed", range(12))
def test_the_same_zeros_as_the_linear_program_of_the_peer(seed):
    rng, X, y = table(seed, int(20 + 7 * seed), 3 + seed)
    quantile, alpha = rng.choice([0.1, 0.5, 0.8]), rng.choice([0.01, 0.1, 0.4])
    peer = QuantileRegressor(quantile=quantile, alpha=alpha, solver="highs").fit(X, y)
    ours = solved(X, y, "quantile", "l1", quantile=quantile, alpha=alpha)
    assert (ours.coef == 0.0).tolist() == (peer.coef_ == 0.0).tolist()
    assert np.allclose(ours.coef, peer.coef_, atol=1e-8) and ours.intercept == pytest.approx(peer.intercept_, abs=1e-8)
    model = tl.GeneralizedRegression("quantile", quantile=quantile, penalty="l1", alpha=alpha).fit(X, y)
    assert (model.coef_ == 0.0).tolist() == (peer.coef_ == 0.0).tolist()
    # As many rows are met exactly as there are coefficients in use, the constant among them.
    met = np.abs(y - X @ ours.coef - ours.intercept) <= 1e-12 * (1.0 + np.abs(y))
    assert met.sum() >= np.count_nonzero(ours.coef) + 1


@pytest.mark.parametrize("loss", ["absolute", "huber", "hinge", "epsilon_insensitive", "quantile"])
@pytest.mark.parametrize("seed", range(4))
def test_zeros_are_zeros_and_the_optimality_conditions_hold(loss, seed):
    _, X, y = table(seed, 60, 10)
    if loss == "hinge":
        y = np.where(y > np.median(y), 1.0, -1.0)
    options = {"delta": 0.5, "method": "interior"} if loss == "huber" else {}
    strong = solved(X, y, loss, "l1", alpha=50.0, **options)
    assert not strong.coef.any()
    middle = solved(X, y, loss, "l1", alpha=0.15, **options)
    tight = solved(X, y, loss, "l1", alpha=0.15, tol=1e-12, **options)
    assert 0 < np.count_nonzero(middle.coef) < 10
    assert (middle.coef == 0.0).tolist() == (tight.coef == 0.0).tolist()
    assert np.abs(middle.coef[middle.coef != 0.0]).min() > 1e-6
    assert middle.certificate.relative_gap <= 1e-9 and tight.certificate.relative_gap <= 1e-12


def test_weights_duplicates_and_degenerate_rows():
    rng, X, y = table(3, 30, 4)
    weights = rng.integers(0, 4, size=30).astype(float)
    rows = np.repeat(np.arange(30), weights.astype(int))
    weighted = solved(X, y, "absolute", "l1", alpha=0.1, sample_weight=weights)
    repeated = solved(X[rows], y[rows], "absolute", "l1", alpha=0.1)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-10)
    twice = np.column_stack([X, X[:, 0]])  # no single optimum: any of them, proven
    assert solved(twice, y, "absolute", "l1", alpha=0.1).proven
    assert solved(np.column_stack([X, np.ones(30)]), np.round(y), "absolute").proven
    assert solved(X, np.zeros(30), "absolute", "l1", alpha=0.1).certificate.primal == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("loss", CORNERED)
@pytest.mark.parametrize("shape", ["tall", "wide", "sparse"])
def test_auto_fits_every_penalty(loss, shape):
    rng = np.random.default_rng(8)
    n, d = (22, 30) if shape == "wide" else (60, 6)
    X = rng.normal(size=(n, d)) + 0.5
    if shape == "sparse":
        X[rng.random(X.shape) < 0.6] = 0.0
    s = X[:, 0] - X[:, 1]
    sign = LOSSES[loss].targets == "sign"
    y = np.where(s + rng.logistic(size=n) > np.median(s), 1.0, -1.0) if sign else s + rng.normal(size=n)
    given = sparse.csr_matrix(X) if shape == "sparse" else X
    fields = {"p": 1.0} if loss == "power" else {}
    for penalty in PENALTIES:
        for intercept in (True, False):
            options = options_of(penalty, 0.05) | ({"groups": np.arange(d) // 2} if penalty == "group_l1" else {})
            found = solved(given, y, loss, penalty, intercept=intercept, **options, **fields)
            assert found.proven, (penalty, intercept, found)
            coef = found.coef
            if penalty == "nonnegative":
                assert (coef >= 0.0).all()
            if penalty == "box":
                assert (np.abs(coef) <= 1.0).all()


def test_the_insensitive_tube_is_fitted_by_every_default():
    _, X, y = table(1, 50, 4)
    for penalty in (None, "l1", "l2", "elastic_net", "nonnegative"):
        for intercept in (True, False):
            model = tl.GeneralizedRegression(
                "epsilon_insensitive", penalty=penalty, alpha=0.05, epsilon=0.3, fit_intercept=intercept
            ).fit(X, y)
            assert model.certificate_.proven
    assert tl.minimize(X, y, "epsilon_insensitive").proven
    wide = solved(X, y, "epsilon_insensitive", epsilon=100.0)
    assert wide.certificate.primal <= 1e-12  # every row is inside the tube


def test_bounds_and_groups_with_corners_agree_with_a_linear_program():
    from scipy.optimize import linprog

    _, X, y = table(5, 40, 5)
    n, d = X.shape
    found = solved(X, y, "absolute", lower=-0.4, upper=0.7)
    # min Σ(u + v)/n, X w + b + u − v = y
    cost = np.r_[np.zeros(d + 1), np.full(2 * n, 1.0 / n)]
    equal = np.hstack([X, np.ones((n, 1)), np.eye(n), -np.eye(n)])
    bounds = [(-0.4, 0.7)] * d + [(None, None)] + [(0, None)] * (2 * n)
    peer = linprog(cost, A_eq=equal, b_eq=y, bounds=bounds)
    assert found.certificate.primal == pytest.approx(peer.fun, rel=1e-9)
    assert np.allclose(found.coef, peer.x[:d], atol=1e-7)
    # One column a group is the lasso.
    alone = solved(X, y, "absolute", "group_l1", alpha=0.1, groups=np.arange(d), tol=1e-8)
    lasso = solved(X, y, "absolute", "l1", alpha=0.1, tol=1e-8)
    assert alone.certificate.primal == pytest.approx(lasso.certificate.primal, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.3, 0.45, 0.8])
def test_what_is_solved_to_rounding_is_a_true_zero(alpha):
    """A coefficient on the edge of its penalty's corner is solved for, and ends beside 0 by rounding alone."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 1, 200), rng.normal(size=200)])
    rng.choice(list("abc"), 200)
    y = X @ [2.0, 1.0] - 0.5 + 0.1 * rng.normal(size=200)
    coef = tl.minimize(X, (y > 0) * 1.0, loss="hinge", penalty="elastic_net", alpha=alpha).coef
    assert not ((coef != 0.0) & (np.abs(coef) < 1e-9)).any(), coef
