"""Exact leave-one-out of a ridge path: by refitting without each row, and in single precision where that is enough."""

import numpy as np
import pytest

from trueline.onepass import leftout
from trueline.onepass.leftout import leave_one_out
from trueline.onepass.moments import Moments
from trueline.onepass.paths import RidgePath

ALLOWED = leftout._ALLOWED  # the relative error that the code bounds before it keeps single precision


def problem(seed, n=25, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, size=d) + rng.normal(size=d)
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_leave_one_out_is_leaving_one_out(fit_intercept, weighted):
    X, y = problem(2)
    w = np.random.default_rng(0).uniform(0.5, 2, 25) if weighted else None
    moments = Moments.from_arrays(X, y, w)
    path = RidgePath(moments.total, 3, fit_intercept)
    found = leave_one_out(path, X, y[:, None], w, np.array([0.3, 30.0]))
    for a, alpha in enumerate((0.3, 30.0)):
        total = 0.0
        for i in range(25):
            rest = np.arange(25) != i
            inner = RidgePath(
                Moments.from_arrays(X[rest], y[rest], None if w is None else w[rest]).total, 3, fit_intercept
            )
            coef = inner.coef(np.array([alpha]))
            total += (1 if w is None else w[i]) * (y[i] - X[i] @ coef[0, 0] - inner.intercepts(coef)[0, 0]) ** 2
        assert np.isclose(found[a, 0], total, rtol=1e-11)


def both_ways(X, y, fit_intercept=True, weights=None):
    """(the scores, whether single precision was tried and kept, the scores in double precision)."""
    Y = y[:, None] if y.ndim == 1 else y
    path = RidgePath(Moments.from_arrays(X, y, weights).total, X.shape[1], fit_intercept)
    alphas, ran = np.geomspace(1e-3, 1e6, 20), []
    singly, doubly = leftout._excess, leftout._in_double
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leftout, "_excess", lambda *args: ran.append("single") or singly(*args))
        patch.setattr(leftout, "_in_double", lambda *args: ran.append("double") or doubly(*args))
        found = leave_one_out(path, X, Y, weights, alphas)
        patch.setattr(leftout, "_ALLOWED", 0.0)
        return found, ran, leave_one_out(path, X, Y, weights, alphas)


def long_table(seed, n=200_000, d=20, targets=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, size=d)
    shape = (d,) if targets is None else (d, targets)
    y = (X / X.std(axis=0)) @ rng.normal(size=shape)
    return X, y + rng.standard_t(5, size=y.shape)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("shift", [0.0, 1.5, 1e5])
def test_single_precision_leaves_scores_and_their_order_right(fit_intercept, weighted, targets, shift):
    X, y = long_table(3, targets=targets)
    X = X + shift * X.std(axis=0)
    weights = np.random.default_rng(5).uniform(0.1, 3.0, len(X)) if weighted else None
    found, ran, exact = both_ways(X, y, fit_intercept, weights)
    # Without an intercept a large shift makes the columns nearly dependent.
    assert ran == [("double" if shift == 1e5 and not fit_intercept else "single"), "double"]
    np.testing.assert_allclose(found, exact, rtol=ALLOWED)
    # The order of any two penalties is right wherever their scores differ by more than that.
    step, error = np.diff(exact, axis=0), 2 * ALLOWED * exact[1:]
    apart = np.abs(step) > error
    assert apart.any() and (np.sign(np.diff(found, axis=0))[apart] == np.sign(step)[apart]).all()


def test_single_precision_reads_any_layout():
    X, y = long_table(6)
    found, ran, exact = both_ways(np.asfortranarray(X), y)
    assert ran[0] == "single"
    np.testing.assert_allclose(found, exact, rtol=ALLOWED)
    found, ran, exact = both_ways(X.astype(np.float32), y)
    assert ran[0] == "single"
    np.testing.assert_allclose(found, exact, rtol=ALLOWED)


def test_single_precision_is_dropped_where_it_would_not_do():
    X, y = long_table(4)
    X /= X.std(axis=0)
    close = X.copy()
    close[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    assert both_ways(close, y)[1][0] == "double"
    assert both_ways(X[:3000], y[:3000])[1][0] == "double"
    explained = X.sum(axis=1)
    assert both_ways(X, explained + 1e-4 * (y - y.mean()))[1][0] == "double"  # nearly exact
    X[7] *= 30.0  # one row with much leverage and nearly all of the error
    y[7] = 1e9
    found, ran, exact = both_ways(X, y)
    assert ran[:2] == ["single", "double"]
    np.testing.assert_array_equal(found, exact)
