"""Minimising over many columns: working sets, safe screening, and the products and column store that they read by."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from solving import solved

import trueline as tl
from trueline.batch.methods import coordinate, solve
from trueline.batch.problem import build
from trueline.objective.losses import resolve_loss
from trueline.objective.penalties import resolve_penalty
from trueline.solvers import glm_working_set, sparse_columns
from trueline.solvers.sparse_columns import ColumnStore, SparseSlices


def test_wide_problems_screen_safely_and_agree_with_a_peer():
    """The working-set route: nothing that it settles as zero is non-zero at the optimum."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 1200))
    y = np.where(X[:, :4].sum(axis=1) + 0.5 * rng.normal(size=60) > 0, 1, -1)
    alpha = 0.08
    exact = solved(X, y, "logistic", "l1", "fista", alpha=alpha, tol=1e-10)
    part, penalty = resolve_loss("logistic"), resolve_penalty("l1", alpha=alpha)
    risk = build(X, y.astype(float), part, penalty, weights=np.full(60, 1 / 60))
    norms, screened = risk.design.lengths(risk.c), []
    points = coordinate(risk, np.zeros(risk.size))
    for _, point in zip(range(15), points):
        value, point.z, *_ = risk.dual(point)
        point.gap = point.objective - value
        screened.append(glm_working_set.settled(risk, point, norms, 0.25))
    support = exact.coef != 0.0
    assert 0 < support.sum() < 60 and screened[-1].sum() > 1000
    for settled in screened:
        assert not (settled & support).any()
    ours = solved(X, y, "logistic", "l1", "coordinate", alpha=alpha, tol=1e-9)
    assert set(np.flatnonzero(ours.coef)) == set(np.flatnonzero(support))
    assert np.allclose(ours.coef, exact.coef, atol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        peer = LogisticRegression(
            penalty="l1", C=1 / (alpha * 60), solver="liblinear", tol=1e-8, fit_intercept=False
        ).fit(X, y)
    bare = solved(X, y, "logistic", "l1", "coordinate", alpha=alpha, tol=1e-9, intercept=False)
    assert np.allclose(bare.coef, peer.coef_.ravel(), atol=1e-4)
    matrix = sparse.csc_matrix(np.where(np.abs(X) > 1.5, X, 0.0))
    thin = solved(matrix, y, "logistic", "l1", "coordinate", alpha=0.05)
    thick = solved(matrix.toarray(), y, "logistic", "l1", "fista", alpha=0.05, tol=1e-8)
    assert thin.certificate.primal == pytest.approx(thick.certificate.primal, rel=2e-6)


@pytest.mark.parametrize("threads_from", [0, 10**9])
def test_sparse_products_and_the_column_store(threads_from, monkeypatch):
    """One thread or several, rows or columns: the same products, and the same columns however they were asked for."""
    monkeypatch.setattr(sparse_columns, "LONG", threads_from)
    matrix = sparse.random(83, 57, 0.2, random_state=3, format="csr")
    rng = np.random.default_rng(0)
    v, g, c = rng.normal(size=57), rng.normal(size=83), rng.random(83)
    for table in (matrix, matrix.tocsc(), matrix.astype(np.float32)):
        slices = SparseSlices(table)
        whole = table.toarray().astype(float)
        assert np.allclose(slices.times(v), whole @ v, atol=1e-14)
        assert np.allclose(slices.transposed_times(g), g @ whole, atol=1e-14)
        assert np.allclose(slices.square_sums(c), c @ whole**2, atol=1e-14)
        store = ColumnStore(table, slices)
        for chosen, along in (([3, 9, 40], [3, 9, 11, 40]), ([11, 5], [5, 11, 56])):
            rooms, found = store.rooms(np.array(chosen), np.array(along)), np.empty(len(chosen))
            for row in range(83):  # products with rows of the identity are the columns themselves
                store.columns.products(rooms, np.eye(83)[row], found)
                assert np.array_equal(found, whole[row, chosen])


def test_wide_problems_of_every_layout_with_bounds_and_a_penalised_intercept():
    """The working-set route against proximal steps, which know no working set."""
    rng = np.random.default_rng(1)
    matrix = sparse.random(80, 1100, 0.05, random_state=1, format="csr")
    y = np.where(
        matrix @ np.where(np.arange(1100) < 30, 6 * rng.normal(size=1100), 0.0) + rng.logistic(size=80) > 0, 1, -1
    )
    doubled = sparse.csr_matrix(
        (np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr), shape=matrix.shape
    )  # every entry stored in two halves
    asked = [("l1", {}), ("elastic_net", {}), ("nonnegative", {}), ("l1", {"lower": -0.4, "upper": 0.5})]
    for penalty, bounds in asked:
        for intercept in (True, False):
            exact = solved(matrix, y, "logistic", penalty, "fista", alpha=0.01, intercept=intercept, tol=1e-8, **bounds)
            for X in (matrix, doubled, matrix.tocsc(), matrix.toarray()):
                found = solved(X, y, "logistic", penalty, "coordinate", alpha=0.01, intercept=intercept, **bounds)
                assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=1.1e-6)
    held = build(
        matrix, y.astype(float), resolve_loss("squared_hinge"), resolve_penalty("l1", alpha=0.002),
        weights=np.full(80, 1 / 80), intercept_l1=0.002,
    )  # fmt: skip
    outcome, used, _ = solve(held, tol=1e-9)
    assert used == "coordinate" and outcome.certificate.proven and len(outcome.trace) < 40
    best, _, _ = solve(held, "fista", tol=1e-7, max_iter=50_000)
    assert outcome.certificate.primal <= best.certificate.primal * (1 + 1e-9)


def broken_in(matrix, part, place, value):
    """A copy with one number of its arrays changed."""
    made = matrix.copy()
    getattr(made, part)[place] = value
    return made


BREAKS = [("indices", 5, 10**6), ("indices", 0, -3), ("indptr", 4, 10**6), ("indptr", -1, 10**6), ("indptr", 2, -7)]


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize("fault", BREAKS, ids=str)
def test_sparse_matrices_whose_indices_point_outside_are_refused(layout, fault):
    matrix = sparse.random(40, 30, 0.2, random_state=0, format=layout)
    X, y, labels = broken_in(matrix, *fault), np.arange(40.0), np.arange(40) % 2
    uses = [
        lambda: tl.minimize(X, y),
        lambda: tl.minimize(X, labels, loss="logistic", penalty="l1", alpha=0.01),
        lambda: tl.lasso_path(X, y),
        lambda: tl.Lasso(alpha=0.1).fit(X, y),
        lambda: tl.LassoCV(cv=3).fit(X, y),
        lambda: tl.LogisticRegression().fit(X, labels),
        lambda: tl.LinearSVC().fit(X, labels),
        lambda: tl.GeneralizedRegression("poisson").fit(X, y),
        lambda: tl.LinearRegression().fit(X, y),
        lambda: tl.PCA(2).fit(X),
        lambda: tl.WidrowHoff().partial_fit(X, y),
        lambda: tl.OnlineRegressor().partial_fit(X, y),
        lambda: tl.scan(X),
    ]
    for use in uses:
        with pytest.raises(tl.DataError, match="the sparse matrix X is broken"):
            use()
