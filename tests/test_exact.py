"""The error-free Gram matrix, double-double elimination, and digits that are never overclaimed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerances import correct_digits, with_condition

import trueline as tl
from trueline import doubled
from trueline.moments.double_elimination import subtract_outer
from trueline.onepass import exact
from trueline.onepass.moments import Moments
from trueline.onepass.solve import eliminate, factored


def solve(X: Any, y: Any, *, intercept: bool = True, digits: int = 60) -> tuple[list[Any], list[Any]]:
    """(coefficients, standard errors), the intercept first."""
    with mpmath.workdps(digits):
        rows = [([mpmath.mpf(1)] if intercept else []) + [mpmath.mpf(v) for v in row] for row in X]
        A, b = mpmath.matrix(rows), mpmath.matrix([mpmath.mpf(v) for v in y])
        inverse = (A.T * A) ** -1
        beta = inverse * (A.T * b)
        r = b - A * beta
        df = len(y) - A.cols
        s2 = sum(v * v for v in r) / df if df > 0 else mpmath.mpf(0)
        return [beta[j] for j in range(A.cols)], [mpmath.sqrt(s2 * inverse[j, j]) for j in range(A.cols)]


FLOATS = st.floats(-1e100, 1e100, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-100)


def fraction(pair):
    return Fraction(float(pair[0])) + Fraction(float(pair[1]))


@given(FLOATS, FLOATS)
def test_sums_and_products_are_exact(a, b):
    assert fraction(doubled.two_sum(a, b)) == Fraction(a) + Fraction(b)
    assert fraction(doubled.two_prod(a, b)) == Fraction(a) * Fraction(b)


@given(*[st.floats(-1e10, 1e10).filter(lambda v: abs(v) > 1e-10)] * 3)
def test_double_double_operations_keep_a_hundred_bits(a, b, c):
    x = doubled.two_sum(a, b * 2.0**-60)
    y = doubled.two_sum(c, a * 2.0**-58)
    X, Y = fraction(x), fraction(y)
    for found, truth in (
        (doubled.add(*x, *y), X + Y),
        (doubled.multiply(*x, *y), X * Y),
        (doubled.divide(*x, *y), X / Y),
        (doubled.subtract_product(*x, *y, *x), X - X * Y),
    ):
        size = max(abs(truth), abs(X), abs(X * Y)) if truth != X * Y and truth != X / Y else abs(truth)
        assert abs(fraction(found) - truth) <= size * Fraction(2) ** -98


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_block_is_as_exact_as_its_level_promises(level, weighted):
    rng = np.random.default_rng(level)
    Z = rng.normal(size=(300, 4)) * [1.0, 1e8, 1e-8, 3.0] + [0.0, 1e8, 0.0, 1e4]
    weights = rng.uniform(0.1, 3.0, 300) if weighted else None
    high, low = exact.difference(Z.T, exact.shift_of(Z.T))
    assert all(
        Fraction(high[1, i]) + Fraction(low[1, i]) == Fraction(Z[i, 1]) - Fraction(exact.shift_of(Z.T)[1])
        for i in range(300)
    )
    _, _, h, e = exact.gram(high, low, weights, level)
    w = [Fraction(1)] * 300 if weights is None else [Fraction(v) for v in weights]
    exactly = [[Fraction(high[j, i]) + Fraction(low[j, i]) for j in range(4)] for i in range(300)]
    for j in range(4):
        for k in range(4):
            truth = sum(w[i] * exactly[i][j] * exactly[i][k] for i in range(300))
            squares = [float(sum(w[i] * exactly[i][c] ** 2 for i in range(300))) for c in (j, k)]
            size = Fraction(np.sqrt(squares[0] * squares[1]))
            error = abs(Fraction(h[j, k]) + Fraction(e[j, k]) - truth)
            # The float64 sums of level 0 (and of the tails) may drift by a few units more.
            assert error <= 32 * Fraction(exact.UNITS[level]) * size, (j, k)


def test_elimination_takes_the_pivots_row_off_as_doubled_does():
    rng = np.random.default_rng(0)
    A = with_condition(rng, 40, 8, 1e5)  # no pivot is lost in rounding
    H, E = A.T @ A, rng.normal(size=(8, 8)) * 1e-18
    (Lh, _), (Dh, _) = eliminate((H, E))[0]
    assert np.allclose((Lh * Dh) @ Lh.T, H, atol=1e-14)
    ch, cl = rng.normal(size=8), rng.normal(size=8) * 1e-17
    wanted = doubled.subtract_product(H[1:, 1:], E[1:, 1:], ch[1:, None], cl[1:, None], H[0, 1:], E[0, 1:])
    found = H.copy(), E.copy()
    subtract_outer(*found, 0, ch, cl)
    upper = np.triu_indices(7)
    assert all(np.array_equal(got[1:, 1:][upper], want[upper]) for got, want in zip(found, wanted))
    assert np.array_equal(found[0][0], H[0])


def test_inverse_of_a_gram_matrix_that_float64_cannot_factor():
    rng = np.random.default_rng(3)
    X = with_condition(rng, 60, 5, 1e11)
    moments = Moments.from_arrays(X, X @ np.ones(5) + rng.normal(size=60) * 1e-3)
    H, E = moments.total.about_origin()
    factor = factored((H[:5, :5], E[:5, :5]), np.zeros(5), np.zeros(5))
    assert factor.rank == 5 and factor.condition_number > 1e9
    beta, errors = solve(X, X @ np.ones(5) + np.zeros(60), intercept=False)
    assert len(beta) == len(errors) == 5
    got = factor.exact_inverse()
    # G·G⁻¹ = 1 in double-double, where float64 would leave nothing.
    product = np.array(
        [[doubled.dot(H[i, :5], E[i, :5], got[0][:, j], got[1][:, j])[0] for j in range(5)] for i in range(5)]
    )
    assert np.abs(product - np.eye(5)).max() < 1e-3


# ---- against many digits


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(2, 14),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([0.0, 1e-6, 1.0]),
    st.sampled_from([1.0, 1e8, 1e-8]),
    st.sampled_from([0, 1, 2, 2]),
)
def test_digits_are_never_overclaimed(seed, log_condition, d, intercept, noise, scale, level):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(d + 3, 40))
    offset = rng.normal(size=d) if rng.random() < 0.5 else np.zeros(d)
    X = with_condition(rng, n, d, 10**log_condition) * scale + offset
    y = X @ rng.normal(size=d) + noise * scale * rng.normal(size=n)
    moments = Moments.from_arrays(X, y, level=level)
    model = tl.LinearRegression.from_moments(moments, fit_intercept=intercept)
    certificate = model.certificate_
    if certificate.dropped:
        # Only what half a unit in the last place explains may go.
        smallest = np.linalg.svd(X - X.mean(axis=0) if intercept else X, compute_uv=False)[-1]
        assert level < 2 or smallest < 1e-13 * np.linalg.norm(X)
        return
    truth, errors = solve(X, y, intercept=intercept)
    found = np.r_[model.intercept_, model.coef_] if intercept else model.coef_
    got = correct_digits(found, truth)
    assert certificate.digits <= got or got == 15.0
    assert certificate.arithmetic_digits <= got or got == 15.0
    if noise == 1.0 and n > d + 2 and level == 2 and not offset.any():
        assert correct_digits(model.summary().std_errors, errors) >= min(12.0, certificate.arithmetic_digits - 2)


@pytest.mark.parametrize("seed", range(40))
def test_digits_of_plain_products_of_many_rows_are_never_overclaimed(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(500, 9000)), int(rng.integers(1, 6))
    X = with_condition(rng, n, d, 10 ** rng.uniform(0, 5)) + rng.choice([0.0, 1e-2, 10.0]) * rng.normal(size=d)
    y = X @ rng.normal(size=d) + rng.choice([0.1, 1e-6]) * rng.normal(size=n)
    plain, fine = (tl.LinearRegression.from_moments(Moments.from_arrays(X, y, level=level)) for level in (0, 2))
    assert fine.certificate_.arithmetic_digits >= min(plain.certificate_.arithmetic_digits + 1, 15.0)
    truth = [mpmath.mpf(float(v)) for v in (fine.intercept_, *fine.coef_)]
    got = correct_digits(np.r_[plain.intercept_, plain.coef_], truth)
    assert plain.certificate_.arithmetic_digits <= got or got == 15.0


def wampler(degree=5):
    x = np.arange(21.0)
    pattern = [759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048]
    return x[:, None] ** np.arange(1, degree + 1), np.array([*pattern, *pattern[-2::-1]], dtype=float)


@pytest.mark.parametrize("size", [0.0, 1.0, 100.0, 10000.0])
def test_wampler_polynomials(size):
    X, pattern = wampler()
    y = 1 + X.sum(axis=1) + size * pattern
    model = tl.LinearRegression().fit(X, y)
    truth, errors = solve(X, y)
    assert correct_digits(np.r_[model.intercept_, model.coef_], truth) >= 13
    found = model.summary().std_errors
    assert np.all(np.abs(found) < 1e-9) if size == 0 else correct_digits(found, errors) >= 12
    assert model.certificate_.digits <= 15


def test_a_tenth_degree_polynomial_of_filip_s_kind():
    rng = np.random.default_rng(1)
    x = np.round(rng.uniform(-9, -3, 82), 9)
    X = np.cumprod(np.repeat(x[:, None], 10, axis=1), axis=1)
    y = np.round(0.8 + 0.1 * np.sin(x) + 0.003 * rng.normal(size=82), 4)
    model = tl.LinearRegression().fit(X, y)
    truth, errors = solve(X, y, digits=90)
    found = np.r_[model.intercept_, model.coef_]
    assert model.certificate_.rank == 10 and not model.certificate_.dropped
    assert correct_digits(found, truth) >= 9
    assert correct_digits(model.summary().std_errors, errors) >= 8
    assert model.certificate_.digits <= correct_digits(found, truth) + 1


def test_no_intercept():
    X, y = np.array([[4.0], [5.0], [6.0]]), np.array([3.0, 4.0, 4.0])
    model = tl.LinearRegression(fit_intercept=False).fit(X, y)
    truth, errors = solve(X, y, intercept=False)
    assert correct_digits(model.coef_, truth) >= 14 and correct_digits(model.summary().std_errors, errors) >= 14


@pytest.fixture(scope="module")
def hard():
    rng = np.random.default_rng(7)
    X = np.round(rng.normal(size=(50, 3)) * 1000)
    X[:, 2] = X[:, 0] + X[:, 1] + np.round(rng.normal(size=50))
    y = np.round(X @ [1.0, -2.0, 3.0] + 100 * rng.normal(size=50))
    return X, y


@pytest.mark.parametrize("power", [-40, -3, 5, 60])
def test_powers_of_two_change_nothing(hard, power):
    X, y = hard
    base = tl.LinearRegression().fit(X, y)
    scaled = tl.LinearRegression().fit(X * [2.0**power, 1.0, 1.0], y)
    assert np.array_equal(scaled.coef_ * [2.0**power, 1.0, 1.0], base.coef_) and scaled.intercept_ == base.intercept_
    # (Whole numbers that are no longer whole have another data limit; the arithmetic is the same.)
    assert abs(scaled.certificate_.arithmetic_digits - base.certificate_.arithmetic_digits) < 1e-9


def test_integer_shifts_and_order_cost_no_digit(hard):
    X, y = hard
    truth, _ = solve(X, y)
    shifted = X + np.array([1e8, -1e9, 12345.0])
    model = tl.LinearRegression().fit(shifted, y)
    assert correct_digits(model.coef_, truth[1:]) >= 15
    there, _ = solve(shifted, y)
    assert correct_digits([model.intercept_], there[:1]) >= 15
    order = np.random.default_rng(0).permutation(len(y))
    again = tl.LinearRegression().fit(X[order], y[order])
    assert correct_digits(np.r_[again.intercept_, again.coef_], truth) >= 15


def test_decimal_scales_and_shifts_cost_only_what_rounding_explains():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=80)
    for change in (lambda v: v * 1e8, lambda v: v * 1e-8, lambda v: v + 1e8):
        stored = change(X)
        model = tl.LinearRegression().fit(stored, y)
        truth, _ = solve(stored, y)
        assert correct_digits(np.r_[model.intercept_, model.coef_], truth) >= 14.5
        assert model.certificate_.digits <= 15


def test_rank_deficient_columns_are_named():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(60, 3))
    X = np.column_stack([A, 3 * A[:, 0], np.ones(60), A[:, 1] - A[:, 2]])
    y = A @ [1.0, 2.0, 3.0] + rng.normal(size=60)
    least = tl.LinearRegression().fit(X, y)
    assert least.certificate_.dropped == ("x3", "x4", "x5") and least.certificate_.rank == 3
    assert "x3 = 3·x0" in str(least.certificate_) and not least.certificate_.proven
    Z = X - X.mean(axis=0)
    by_svd = np.linalg.lstsq(Z, y - y.mean(), rcond=1e-10)[0]
    assert np.allclose(least.coef_, by_svd, atol=1e-12)
    dropped = tl.LinearRegression(rank="drop").fit(X, y)
    assert np.array_equal(dropped.coef_[3:], [0, 0, 0])
    plain = tl.LinearRegression().fit(A, y)
    assert np.allclose(dropped.coef_[:3], plain.coef_, rtol=1e-13)
    for table in (least.summary(), dropped.summary()):  # one table, whichever solution predicts
        for name in ("estimates", "std_errors", "p_values"):
            assert np.allclose(getattr(table, name)[:4], getattr(plain.summary(), name), rtol=1e-10)
            assert np.isnan(getattr(table, name)[4:]).all()
        assert not table.withheld and "x3 = 3·x0" in table.notes[0] and "x4 is constant" in table.notes[0]


def test_nearly_collinear_columns_are_kept():
    rng = np.random.default_rng(6)
    x = rng.normal(size=100)
    X = np.column_stack([x, x + 1e-7 * rng.normal(size=100)])
    model = tl.LinearRegression().fit(X, X.sum(axis=1))
    assert model.certificate_.rank == 2 and np.allclose(model.coef_, 1.0, atol=1e-6)


def test_a_cheaper_level_is_used_on_easy_data_and_not_on_hard():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=20_000)
    easy = Moments.from_arrays(X, y)
    assert easy.levels[0] >= 2 and easy.levels[2] <= 8
    X[:, 2] = X[:, 0] + 1e-6 * X[:, 2]
    hard_ = Moments.from_arrays(X, X @ [1.0, 2.0, 3.0])
    assert hard_.levels[0] == 0
    strict = Moments.from_arrays(X, y, digits=13)
    assert strict.levels[0] == 0


def test_a_level_shift_in_the_stream_keeps_the_digits():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(16_384, 2))
    X[9000:] += 1e6
    y = X @ [1.0, -1.0] + rng.normal(size=16_384)
    model = tl.LinearRegression(digits=12).fit(X, y)
    reference = tl.LinearRegression.from_moments(Moments.from_arrays(X, y, level=2))
    assert np.allclose(model.coef_, reference.coef_, rtol=1e-12)
    assert model.certificate_.arithmetic_digits >= 12
