"""A column that never varies and the intercept are one number: the weight is 0, and the intercept has it all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

import trueline as tl
from trueline.batch.design import still_columns

RNG = np.random.default_rng(8)
N = 60
X = RNG.normal(size=(N, 3))
X[:, 0] *= RNG.random(N) < 0.5
Y = X @ [1.0, -0.5, 0.0] + RNG.normal(size=N)
TARGETS = {"squared": Y, "huber": Y, "absolute": Y, "logistic": Y > 0, "hinge": Y > 0, "poisson": np.exp(Y).round()}
SPREAD = 10.0 ** RNG.uniform(-9.0, 9.0, N)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.minimize(*arguments, **options)


def tables(value):
    Z = np.column_stack([X, np.full(N, value)])
    return {"dense": Z, "csr": scipy.sparse.csr_array(Z), "csc": scipy.sparse.csc_array(Z)}


@pytest.mark.parametrize("shape", ["dense", "csr", "csc"])
@pytest.mark.parametrize("value", [0.0, 1.0, -1e6])
@pytest.mark.parametrize("loss", sorted(TARGETS))
def test_every_method_leaves_it_at_0_and_verify_holds(loss, value, shape):
    table, y = tables(value)[shape], TARGETS[loss]
    for method in ("auto", "gradient", "fista", "newton", "coordinate", "owlqn", "interior"):
        for penalty in ({}, {"penalty": "l2", "alpha": 0.01}):
            try:
                found = quietly(table, y, loss, method=method, **penalty)
            except tl.errors.UsageError:
                continue  # a method that this loss or penalty is not for
            assert found.coef[3] == 0.0
            if abs(value) <= 1.0:  # sparse columns are not shifted: what lies far from 0 is left to the others
                assert tl.verify(found, (table, y)).ok, (method, penalty)


@pytest.mark.parametrize(
    "model", [tl.LogisticRegression(), tl.GeneralizedRegression("huber"), tl.LinearSVC()], ids=repr
)
def test_beside_weights_that_differ_by_eighteen_orders(model):
    table = tables(1.0)["dense"]
    y = Y if isinstance(model, tl.GeneralizedRegression) else (Y > 0).astype(int)
    model.fit(table, y, sample_weight=SPREAD)
    assert not [c for c in tl.verify(model, (table, y, SPREAD)).checks if "vary" in c.claim and not c.held]


def test_bounds_that_leave_out_0_keep_the_weight():
    table = tables(1.0)["dense"]
    found = quietly(table, Y, lower=[-9.0, -9.0, -9.0, 0.5], upper=9.0)
    assert found.coef[3] == 0.5 and tl.verify(found, (table, Y)).ok


def test_rows_without_weight_do_not_count():
    Z = np.column_stack([X, np.ones(N)])
    Z[0, 3] = 7.0
    weights = np.r_[0.0, np.full(N - 1, 1.0)]
    assert still_columns(Z, weights)[0].tolist() == [3]
    assert still_columns(Z, np.ones(N))[0].tolist() == []
    found = quietly(Z, Y, "huber", sample_weight=weights)
    assert found.coef[3] == 0.0 and tl.verify(found, (Z, Y, weights)).ok
