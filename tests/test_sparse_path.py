"""Paths of the lasso and the elastic net: gaps that are valid for anything, conditions that hold at every penalty."""

from __future__ import annotations

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.linear_model import enet_path

import trueline as tl
from trueline.batch.activeset import DenseInner, working_set_path
from trueline.batch.centred import DenseTable, SparseTable
from trueline.batch.lasso import LassoProblem, bridged, gaps_of, largest_penalty, penalty_grid, table_of
from trueline.moments.cholesky_update import CholeskyUpdate
from trueline.onepass.lasso_gap import LassoGaps
from trueline.solvers.sparse_lasso import SparseInner

EXAMPLES = settings(max_examples=25, deadline=None)


def problem(seed: int, n: int, d: int, rho: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    X = np.sqrt(rho) * common + np.sqrt(1 - rho) * rng.normal(size=(n, d))
    w = np.where(rng.random(d) < 0.2, rng.normal(size=d), 0.0)
    return X, X @ w + rng.normal(size=n)


def check_conditions(X, y, alphas, coefs, gaps, l1_ratio=1.0, positive=False, tol=1e-6):
    """The subgradient conditions at every penalty, from X and y alone."""
    n = len(y)
    for alpha, w, gap in zip(alphas, coefs.T, gaps):
        r = y - X @ w
        g = X.T @ r / n - alpha * (1 - l1_ratio) * w
        tau = alpha * l1_ratio
        # A relative gap of tol lets a correlation exceed the bound by about √(2·tol·P)·‖x_j‖/√n.
        objective = r @ r / (2 * n) + tau * np.abs(w).sum() + alpha * (1 - l1_ratio) * (w @ w) / 2
        room = np.sqrt(2 * tol * objective) * np.linalg.norm(X, axis=0).max() / np.sqrt(n) + 1e-12
        assert (g if positive else np.abs(g)).max() <= tau + room
        assert np.abs(g - tau * np.sign(w))[w != 0].max(initial=0.0) <= room
        assert -1e-12 * objective <= gap <= tol * objective


@pytest.fixture(scope="module")
def wide():
    return problem(0, 60, 300)


@pytest.mark.parametrize("order", ["C", "F", "float32", "csc", "csr"])
def test_the_path_meets_the_conditions_in_every_layout(wide, order):
    X, y = wide
    given_ = {
        "C": np.ascontiguousarray,
        "F": np.asfortranarray,
        "float32": lambda a: a.astype(np.float32),
        "csc": sp.csc_matrix,
        "csr": sp.csr_matrix,
    }[order](X)
    alphas, coefs, gaps = tl.lasso_path(given_, y, n_alphas=40, eps=0.01)
    X = X.astype(np.float32).astype(float) if order == "float32" else X
    check_conditions(X, y, alphas, coefs, gaps)
    assert not coefs[:, 0].any() and coefs[:, -1].any()
    assert np.all(np.diff(alphas) < 0)


@pytest.mark.parametrize(("l1_ratio", "positive"), [(1.0, False), (0.5, False), (1.0, True), (0.3, True)])
@pytest.mark.parametrize("shape", [(40, 120), (80, 20)])
def test_agrees_with_scikit_learn_at_a_tight_tolerance(shape, l1_ratio, positive):
    X, y = problem(1, *shape)
    alphas, coefs, gaps = tl.lasso_path(X, y, n_alphas=8, eps=0.03, l1_ratio=l1_ratio, positive=positive, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs_alphas, theirs, _ = enet_path(
            X, y, alphas=alphas, l1_ratio=l1_ratio, positive=positive, tol=1e-15, max_iter=100_000
        )
        automatic, _, _ = enet_path(X, y, alphas=8, eps=0.03, l1_ratio=l1_ratio, positive=positive)
    np.testing.assert_allclose(alphas, theirs_alphas)
    np.testing.assert_allclose(alphas, automatic)
    np.testing.assert_allclose(coefs, theirs, atol=2e-6)
    check_conditions(X, y, alphas, coefs, gaps, l1_ratio, positive, 1e-10)


@EXAMPLES
@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from([1.0, 0.4]), st.booleans())
def test_the_dual_value_never_exceeds_the_optimum_for_any_coefficients(seed, sparse, intercept, l1_ratio, positive):
    rng = np.random.default_rng(seed)
    X, y = problem(seed, 15, 8)
    X = X + 3.0
    weights = rng.integers(0, 3, 15) + (np.arange(15) == 0).astype(float)
    table = table_of(sp.csc_matrix(X) if sparse else X, weights.astype(float), intercept)
    target, _ = table.target(y)
    alphas = np.array([0.3, 0.03])
    best = LassoProblem(X, weights.astype(float), intercept).solve(
        y, alphas, l1_ratio, positive=positive, tolerance=1e-10
    )
    tried = np.column_stack([best.coefs[:, 1] * 0.9, rng.normal(size=8) * 10.0 ** rng.integers(-3, 2)])
    tried = np.maximum(tried, 0.0) if positive else tried
    found = gaps_of(table, target, tried, alphas, l1_ratio, positive)
    assert (found.dual <= best.gaps.primal * (1 + 1e-9)).all()
    assert (found.primal >= best.gaps.dual * (1 - 1e-9)).all()
    # The intercept is at its optimum for these coefficients, so the primal value is what the rows say.
    total = weights.sum()
    for k in range(2):
        fitted = X @ tried[:, k]
        level = np.average(y - fitted, weights=weights) if intercept else 0.0
        loss = weights @ (y - fitted - level) ** 2 / (2 * total)
        w = tried[:, k]
        penalty = alphas[k] * (l1_ratio * np.abs(w).sum() + 0.5 * (1 - l1_ratio) * (w @ w))
        assert found.primal[k] == pytest.approx(loss + penalty, rel=1e-9)


@EXAMPLES
@given(st.integers(0, 10**6), st.booleans())
def test_no_nonzero_of_the_exact_solution_is_left_out(seed, sparse):
    """Coordinate descent on all columns, to the last digit, against working sets that never hold them all."""
    X, y = problem(seed, 20, 60)
    table = SparseTable(sp.csc_matrix(X)) if sparse else DenseTable(X)
    alphas = np.abs(X.T @ y).max() / 20 * np.geomspace(0.9, 0.05, 6)
    c = table.correlate(y[None])[0]
    inner = (SparseInner if sparse else DenseInner)(table, y, 1e-9)
    path = working_set_path(
        table, inner, y, alphas, 1.0, positive=False, tolerance=1e-9, correlations=c, null=y @ y / 40
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, exact, _ = enet_path(X, y, alphas=alphas, l1_ratio=1.0, tol=1e-15, max_iter=100_000)
    for k in range(6):
        surely = np.flatnonzero(np.abs(exact[:, k]) > 1e-4)
        assert path.coefs[surely, k].all()
    np.testing.assert_allclose(path.coefs, exact, atol=1e-4)


@pytest.mark.parametrize("noise", [1e-6, 1e-9, 0.0])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("shape", [(50, 60), (200, 20)])
def test_columns_that_nearly_coincide_still_certify(noise, sparse, shape):
    rng = np.random.default_rng(3)
    X, y = problem(3, *shape)
    X = np.hstack([X, X + noise * rng.normal(size=X.shape)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alphas, coefs, gaps = tl.lasso_path(sp.csc_matrix(X) if sparse else X, y, n_alphas=50, eps=0.01)
    check_conditions(X, y, alphas, coefs, gaps)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_more_active_columns_than_rows_would_allow(l1_ratio):
    """Down to a penalty where the residual is all but gone: the active set fills the rows."""
    X, y = problem(4, 12, 40)
    alphas, coefs, gaps = tl.lasso_path(X, y, n_alphas=60, eps=1e-5, l1_ratio=l1_ratio)
    check_conditions(X, y, alphas, coefs, gaps, l1_ratio)
    if l1_ratio == 1.0:
        assert np.count_nonzero(coefs[:, -1]) <= 12


@pytest.mark.parametrize("shape", [(1, 5), (6, 1), (1, 1)])
def test_one_row_and_one_column(shape):
    X, y = problem(5, *shape)
    alphas, coefs, gaps = tl.lasso_path(X, y, n_alphas=5, eps=0.1)
    check_conditions(X, y, alphas, coefs, gaps)


def test_a_constant_target_and_constant_columns():
    X, y = problem(6, 30, 50)
    X[:, 7] = 5.0
    _, coefs, gaps = tl.lasso_path(X, np.zeros(30), n_alphas=4)
    assert not coefs.any() and not gaps.any()
    for made in (X, sp.csc_matrix(X)):
        fit = LassoProblem(made, None, True).solve(y, np.array([1e-3]))
        assert fit.coefs[7, 0] == 0.0 and fit.certificate().proven


def test_large_means_cost_no_digits():
    X, y = problem(7, 80, 10)
    far = X + 1e6
    for rows in (slice(None), slice(0, 8)):  # the Gram route, and working sets
        near_fit = LassoProblem(X[rows], None, True).solve(y[rows], np.array([0.05]))
        far_fit = LassoProblem(far[rows], None, True).solve(y[rows], np.array([0.05]))
        assert far_fit.certificate().proven
        np.testing.assert_allclose(far_fit.coefs, near_fit.coefs, atol=1e-7)


def test_a_zero_weight_is_a_row_left_out_and_two_is_the_row_twice():
    X, y = problem(8, 30, 60)
    weights = np.random.default_rng(8).integers(0, 3, 30).astype(float)
    twice = np.repeat(np.arange(30), weights.astype(int))
    for layout in (np.asarray, sp.csc_matrix):
        weighed = LassoProblem(layout(X), weights, True).solve(y, np.array([0.1, 0.02]), tolerance=1e-10)
        repeated = LassoProblem(layout(X[twice]), None, True).solve(y[twice], np.array([0.1, 0.02]), tolerance=1e-10)
        np.testing.assert_allclose(weighed.coefs, repeated.coefs, atol=1e-6)
        np.testing.assert_allclose(weighed.intercepts, repeated.intercepts, atol=1e-6)


def test_penalties_far_apart_are_bridged_and_come_back_in_the_order_given():
    grid, places = bridged(np.array([0.01, 1.0, 0.5]), 1.0)
    assert (np.diff(grid) < 0).all() and (grid[:-1] / grid[1:]).max() < 1.7
    np.testing.assert_allclose(grid[places], [0.01, 1.0, 0.5])
    X, y = problem(9, 40, 10)
    fit = LassoProblem(X).solve(y, np.array([0.01, 0.5]))
    assert np.abs(fit.coefs[:, 0]).sum() > np.abs(fit.coefs[:, 1]).sum()


def test_a_large_sparse_support_leaves_newton_for_conjugate_gradients(monkeypatch):
    import trueline.solvers.sparse_lasso as module

    monkeypatch.setattr(module, "SMALL", 20)
    rng = np.random.default_rng(10)
    X = sp.random(200, 400, 0.05, format="csc", random_state=rng)
    y = X @ np.where(rng.random(400) < 0.2, rng.normal(size=400), 0.0) + 0.1 * rng.normal(size=200)
    for l1_ratio, positive in ((1.0, False), (0.6, True)):
        alphas, coefs, gaps = tl.lasso_path(X, y, n_alphas=30, eps=0.01, l1_ratio=l1_ratio, positive=positive)
        assert np.count_nonzero(coefs[:, -1]) > 20
        check_conditions(X.toarray(), y, alphas, coefs, gaps, l1_ratio, positive)
        weights = rng.random(200)
        fit = LassoProblem(X, weights, True).solve(y, alphas, l1_ratio, positive=positive)
        assert (fit.relative <= 1e-6).all()


def test_a_failed_start_is_tried_again_from_zero():
    X, y = problem(11, 30, 50)
    inner = SparseInner(SparseTable(sp.csc_matrix(X)), y, 1e-6)
    inner.add(np.arange(10))
    inner.solve(np.array([1.0]), np.array([0.0]), False)
    assert inner.restart() and not inner.b.any() and not inner.restart()


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
def test_the_factor_follows_columns_in_and_out(seed, k, whole):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, k))
    G, c, signs = X.T @ X, rng.normal(size=k), np.sign(rng.normal(size=k))
    # Without the whole matrix its lower triangle shares a square with the factor, as in ActiveSet.
    square = np.full((k + 1, k), np.nan)
    square[1:][np.tril_indices(k)] = G[np.tril_indices(k)]
    U, stored = (np.empty((k, k)), G) if whole else (square[:k], square[1:])
    factor = CholeskyUpdate(U)
    factor.mu = 0.1
    first, entering = int(rng.integers(0, k + 1)), rng.permutation(k)
    factor.append(stored, c, signs, entering, 0, first)
    factor.append(stored, c, signs, entering, first, k - first)
    assert factor.size == k
    for _ in range(int(rng.integers(0, k))):
        factor.remove(int(rng.integers(0, factor.size)))
    chosen, half = np.asarray(factor.order)[: factor.size], np.asarray(factor.half)[:, : factor.size]
    z = half[0] - 0.7 * half[1]
    factor.solve_upper(z)
    exact = np.linalg.solve(G[np.ix_(chosen, chosen)] + 0.1 * np.eye(factor.size), c[chosen] - 0.7 * signs[chosen])
    np.testing.assert_allclose(z, exact, rtol=1e-8, atol=1e-10)


def test_the_gap_of_the_ridge_end():
    X, y = problem(12, 25, 6)
    for wide in (False, True):
        made = np.hstack([X] * 6) if wide else X
        fit = LassoProblem(made).solve(y, np.array([0.5, 0.1]), 0.0)
        assert (np.abs(fit.relative) < 1e-9).all()
        centred = made - made.mean(0)
        exact = np.linalg.solve(centred.T @ centred + 25 * 0.1 * np.eye(made.shape[1]), centred.T @ (y - y.mean()))
        np.testing.assert_allclose(fit.coefs[:, 1], exact, atol=1e-8)


def test_relative_gap_of_nothing_is_zero():
    assert LassoGaps(np.zeros(1), np.zeros(1)).relative(0.0)[0] == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l1_ratio": 1.5}, "l1_ratio of lasso_path is 1.5"),
        ({"alphas": [-1.0]}, "numbers of at least 0"),
        ({"tol": -1.0}, "tol of lasso_path is -1.0"),
        ({"l1_ratio": 0.0}, "give alphas="),
        ({"eps": 0.0}, "eps of lasso_path is 0.0"),
        ({"n_alphas": 0}, "n_alphas of lasso_path is 0"),
    ],
)
def test_refusals_name_the_place(options, words):
    X, y = problem(13, 5, 3)
    with pytest.raises(ValueError, match=words):
        tl.lasso_path(X, y, **options)


def test_a_target_of_the_wrong_shape_is_refused():
    X, y = problem(14, 5, 3)
    with pytest.raises(ValueError, match="a vector of 5 numbers"):
        tl.lasso_path(X, y[:4])
    with pytest.raises(ValueError, match="NaN"):
        tl.lasso_path(X, np.full(5, np.nan))


@pytest.mark.parametrize("shape", [(50, 5), (20, 60)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_refused_without_other_noise(shape, intercept, value, words):
    X = np.random.default_rng(0).normal(size=shape)
    X[3, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            tl.lasso_path(X, np.arange(float(shape[0])), fit_intercept=intercept)


def test_squares_that_overflow_are_refused():
    X = 1e200 * np.random.default_rng(0).normal(size=(50, 5))
    with pytest.raises(tl.DataError, match="overflow"):
        tl.lasso_path(X, np.arange(50.0))


@pytest.mark.parametrize("layout", ["C", "F", "float32"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.7])
def test_a_tall_table_needs_its_whole_gram_matrix_only_for_many_penalties(layout, l1_ratio):
    """Working sets of gathered columns against the whole Gram matrix: the same path, with weights and large means."""
    rng = np.random.default_rng(13)
    X = rng.normal(size=(300, 240)) + 30.0 * rng.normal(size=240)
    X = X.astype(np.float32) if layout == "float32" else np.asarray(X, order=layout)
    y = X[:, :9] @ rng.normal(size=9) + rng.normal(size=300)
    weights = rng.random(300)
    lazy, whole = LassoProblem(X, weights), LassoProblem(X, weights)
    whole.gram()
    top = largest_penalty(lazy.table, lazy.table.target(y)[0], l1_ratio, False)
    alphas = penalty_grid(top, 0.01, 12)
    found, exact = (problem.solve(y, alphas, l1_ratio, tolerance=1e-10) for problem in (lazy, whole))
    assert lazy._gram is None and (found.relative <= 1e-10).all() and found.passes < 12
    np.testing.assert_allclose(found.coefs, exact.coefs, atol=1e-7)
    np.testing.assert_allclose(found.intercepts, exact.intercepts, atol=1e-5)
