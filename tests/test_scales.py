"""Columns of any size: a power of two changes no digit, and what float64 cannot square is refused with its remedy."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from tolerances import EPS

import trueline as tl
from trueline.errors import DataError


def problem(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.normal(size=n)


@pytest.mark.parametrize("rows", [60, 6000])
@pytest.mark.parametrize("exponent", [-430, -330, -60, 60, 330, 490])
def test_a_power_of_two_changes_no_digit(rows, exponent):
    X, y = problem(rows)
    scale = 2.0**exponent
    plain = tl.LinearRegression().fit(X, y)
    shrunk = tl.Ridge(alpha=1.0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = tl.LinearRegression().fit(X * scale, y)
        tall = tl.LinearRegression().fit(X, y * scale)
        ridge = tl.Ridge(alpha=scale * scale).fit(X * scale, y)
        errors = wide.summary().std_errors, tall.summary().std_errors
    # At the ends of the range a higher level is taken: each is right to the digits that it claims.
    claimed = 2 * 10.0**-plain.certificate_.arithmetic_digits
    np.testing.assert_allclose(wide.coef_ * scale, plain.coef_, rtol=claimed)
    np.testing.assert_allclose(tall.coef_ / scale, plain.coef_, rtol=claimed)
    # A ridge is made from the eigenvalues of a Gram matrix, each within a few EPS of the largest.
    condition = np.linalg.cond(X - X.mean(axis=0)) ** 2
    np.testing.assert_allclose(ridge.coef_ * scale, shrunk.coef_, rtol=4 * condition * EPS)
    for found in (wide, tall):
        assert found.certificate_.proven
        assert found.certificate_.arithmetic_digits == pytest.approx(plain.certificate_.arithmetic_digits, abs=0.05)
        # Numbers beyond 2⁵³ are all whole, and count as exact.
        assert exponent > 0 or found.certificate_.data_digits == pytest.approx(plain.certificate_.data_digits, abs=0.05)
    expected = plain.summary().std_errors
    np.testing.assert_allclose(errors[0] * [1, scale, scale, scale], expected, rtol=1e-14)
    np.testing.assert_allclose(errors[1] / scale, expected, rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-140, 1e-160, 1e-200, 1e-300])
def test_columns_too_small_to_be_squared_are_refused_by_name(scale):
    X, y = problem(50)
    X[:, 1] *= scale
    with pytest.raises(DataError, match=r"'x1' varies by less than 1e-135.*multiply it by a power of ten"):
        tl.LinearRegression().fit(X, y)
    with pytest.raises(DataError, match=r"'b' varies by less than 1e-135"):
        tl.LinearRegression().fit({"a": X[:, 0], "b": X[:, 1], "y": y}, target="y")
    with pytest.raises(DataError, match=r"'x1' varies by less than 1e-135"):
        tl.RidgeCV().fit(sparse.coo_array(X), y)
    with pytest.raises(DataError, match=r"'y' varies by less than 1e-135"):
        tl.LinearRegression().fit(X[:, :1], y * scale)


@pytest.mark.parametrize("value", [0.0, 1e-200, 0.1, 1e140])
def test_a_constant_column_is_dropped_whatever_its_size(value):
    X, y = problem(50)
    X[:, 1] = value
    found = tl.LinearRegression().fit(X, y)
    assert found.certificate_.dropped == ("x1",)
    np.testing.assert_allclose(found.coef_[[0, 2]], tl.LinearRegression().fit(X[:, [0, 2]], y).coef_, rtol=1e-13)
    weights = np.ones(50)
    weights[7], X[7, 1] = 0.0, 5.0  # a row that does not count
    assert tl.LinearRegression().fit(X, y, weights).certificate_.dropped == ("x1",)


@pytest.mark.parametrize("rows", [300, 6000])
@pytest.mark.parametrize("value", [0.1, 1000.1, 1e8 / 3, 1e140])
def test_a_constant_column_is_dropped_whatever_the_weights(rows, value):
    """Its weighted squares about the mean are not exactly 0, but what rounding leaves of them is no column."""
    X, y = problem(rows)
    X[:, 1] = value
    weights = np.random.default_rng(3).random(rows)
    for method in ("normal", "qr", "svd"):
        found = tl.LinearRegression(method=method).fit(X, y, weights)
        plain = tl.LinearRegression().fit(X[:, [0, 2]], y, weights)
        assert found.certificate_.dropped == ("x1",) and found.coef_[1] == 0.0
        np.testing.assert_allclose(found.coef_[[0, 2]], plain.coef_, rtol=1e-11)
        assert found.intercept_ == pytest.approx(plain.intercept_, rel=1e-10)


def test_the_least_norm_is_that_of_the_columns_as_given():
    X, y = problem(50)
    X = np.column_stack([X, 2.0**300 * X[:, 0]])
    with np.errstate(all="ignore"):
        found = tl.LinearRegression().fit(X, y)
    assert found.certificate_.dropped == ("x3",)
    plain = tl.LinearRegression().fit(X[:, :3], y).coef_
    np.testing.assert_allclose(found.coef_[1:3], plain[1:], rtol=1e-12)
    np.testing.assert_allclose(found.coef_[3] * 2.0**300, plain[0], rtol=1e-12)  # nearly all of it
    assert abs(found.coef_[0]) < 1e-80


LASSOES = {
    "Lasso": lambda X, y: tl.Lasso(alpha=0.1).fit(X, y).coef_,
    "ElasticNet": lambda X, y: tl.ElasticNet(alpha=0.1).fit(X, y).coef_,
    "LassoCV": lambda X, y: tl.LassoCV(cv=3, alphas=5).fit(X, y).coef_,
    "ElasticNetCV": lambda X, y: tl.ElasticNetCV(cv=3, alphas=5).fit(X, y).coef_,
    "lasso_path": lambda X, y: tl.lasso_path(X, y, alphas=5)[1],
    "PCA": lambda X, y: tl.PCA().fit(X).components_,
}


@pytest.mark.parametrize("shape", [(50, 3), (20, 30)], ids=["long", "wide"])
@pytest.mark.parametrize("name", LASSOES)
def test_every_closed_form_refuses_what_float64_cannot_square(name, shape):
    rng = np.random.default_rng(1)
    X = rng.normal(size=shape)
    y = X[:, 0] + rng.normal(size=shape[0])
    fit = LASSOES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor, told in [(1e-160, "varies by less than 1e-135"), (1e160, "beyond 1e150"), (np.nan, "NaN in row 0")]:
            extreme = X.copy()
            extreme[:, 1] *= factor
            with pytest.raises(DataError, match=rf"column 'x1' .*{told}"):
                fit(extreme, y)
        single = X.copy()
        single[shape[0] // 2 + 1, 2] = -1e200  # one number among ordinary ones
        with pytest.raises(DataError, match=r"'x2' .*beyond 1e150"):
            fit(single, y)
        if name != "PCA":
            for factor, told in [(1e-160, "varies by less than 1e-135"), (1e160, "beyond 1e150")]:
                with pytest.raises(DataError, match=f"'y' .*{told}"):
                    fit(X, y * factor)
        constant = X.copy()
        constant[:, 1] = 1e-200
        fit(constant, y)


@pytest.mark.parametrize("name", [name for name in LASSOES if name != "PCA"])
def test_sparse_matrices_of_extreme_numbers_are_refused_too(name):
    X = sparse.random_array((60, 20), density=0.3, rng=np.random.default_rng(2), format="csr")
    y = X @ np.ones(20)
    fit = LASSOES[name]
    fit(X, y)
    with pytest.raises(DataError, match="varies by less than 1e-135"):
        fit(X * 1e-160, y)
    huge = X.copy()
    huge.data[7] = 1e200
    with pytest.raises(DataError, match=rf"'x{huge.indices[7]}' .*beyond 1e150"):
        fit(huge, y)


@pytest.mark.parametrize("exponent", [-430, -330, 330, 490])
def test_components_of_columns_of_any_size(exponent):
    X, _ = problem(60)
    plain = tl.PCA().fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tl.PCA().fit(X * 2.0**exponent)
    np.testing.assert_allclose(found.components_, plain.components_, rtol=1e-13)
    np.testing.assert_allclose(
        np.ldexp(found.explained_variance_, -2 * exponent), plain.explained_variance_, rtol=1e-14
    )
    assert found.certificate_.digits == pytest.approx(plain.certificate_.digits, abs=0.1) or exponent > 0


@pytest.mark.parametrize("exponent", [-430, -330, 330, 490])
def test_a_lasso_of_columns_of_any_size(exponent):
    X, y = problem(60)
    scale = 2.0**exponent
    plain = tl.Lasso(alpha=0.1, tol=1e-12).fit(X, y)
    found = tl.Lasso(alpha=0.1 * scale, tol=1e-12).fit(X * scale, y)
    assert found.certificate_.proven
    np.testing.assert_allclose(found.coef_ * scale, plain.coef_, rtol=1e-12)


@pytest.mark.parametrize("far", [1e5, 1e9])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber", "absolute", "softmax"])
def test_columns_far_from_zero_are_proven(loss, far):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 6)) + far * np.arange(6)
    signal = (X - X.mean(axis=0)) @ rng.normal(size=6) / 3.0 + rng.normal(size=300)
    targets = {
        "logistic": signal > 0,
        "poisson": rng.poisson(np.exp(signal)),
        "softmax": np.digitize(signal, [-0.5, 0.5]),
    }
    y = np.asarray(targets.get(loss, signal), dtype=float)
    model = tl.LogisticRegression(C=np.inf) if loss in ("logistic", "softmax") else tl.GeneralizedRegression(loss=loss)
    model.fit(X, y)
    assert model.certificate_.proven
    assert tl.verify(model, (X, y)).ok
