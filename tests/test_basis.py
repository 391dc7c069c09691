"""Basis functions: known values, exactness of the way back to powers, formulas, the transformer, and the scan."""

from __future__ import annotations

import json
from fractions import Fraction

import mpmath
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.data.basis import Gaussian, Lag, Log, Poly, Sigmoid, Spline
from trueline.data.formula import Formula
from trueline.data.polynomial import Orthogonal, raw_coefficients
from trueline.data.schema import Schema, encode
from trueline.errors import DataError, ModelError, UsageError


def correct_digits(found, truth) -> float:
    return min(float(-mpmath.log10(abs((mpmath.mpf(f) - t) / t))) if f != t else 17.0 for f, t in zip(found, truth))


def multiprecision_fit(x: np.ndarray, y: np.ndarray, degree: int) -> list:
    """Least squares on 1, x, …, x^degree of the data as stored, in 100 digits."""
    with mpmath.workdps(100):
        A = mpmath.matrix(len(x), degree + 1)
        for i, value in enumerate(x):
            for k in range(degree + 1):
                A[i, k] = mpmath.mpf(float(value)) ** k
        return list(mpmath.lu_solve(A.T * A, A.T * mpmath.matrix([mpmath.mpf(float(v)) for v in y])))


def filip_like(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """82 points on [−9, −3] and a degree-10 fit: powers as columns have a condition number near 1e15."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.uniform(-8.8, -3.1, 82), 9)
    return x, np.round(0.8 + 0.07 * np.sin(1.3 * x) + 0.003 * rng.normal(size=82), 4)


@pytest.mark.parametrize("seed", range(3))
def test_raw_coefficients_keep_twelve_digits_on_filip_like_data(seed):
    x, y = filip_like(seed)
    basis = tl.Basis("poly(x, 10)").fit(x[:, None])
    design = basis.transform(x[:, None])
    assert np.linalg.cond(np.c_[np.ones(82), design]) < 10
    model = tl.LinearRegression().fit(design, y)
    raw = basis.raw_coefficients(model)
    assert list(raw) == ["(intercept)", "x", *(f"x^{k}" for k in range(2, 11))]
    assert correct_digits(raw.values(), multiprecision_fit(x, y, 10)) >= 12


def test_raw_coefficients_on_wamplers_polynomials():
    x = np.arange(21.0)
    for scale in (1, 10):
        y = np.array([float(sum(Fraction(int(v), scale) ** k for k in range(6))) for v in x])
        basis = tl.Basis("poly(x, 5)").fit(x[:, None])
        raw = basis.raw_coefficients(tl.LinearRegression().fit(basis.transform(x[:, None]), y), x[:, None], y)
        truth = [mpmath.mpf(1) / scale**k for k in range(6)] if scale == 1 else multiprecision_fit(x, y, 5)
        assert correct_digits(raw.values(), truth) >= 12


def test_the_covariance_goes_back_too():
    x, _ = filip_like(0)
    basis = tl.Basis("poly(x, 6)").fit(x[:, None])
    D = np.c_[np.ones(82), basis.transform(x[:, None])]
    covariance = basis.raw_covariance(np.linalg.inv(D.T @ D))
    with mpmath.workdps(60):
        A = mpmath.matrix([[mpmath.mpf(float(v)) ** k for k in range(7)] for v in x])
        truth = (A.T * A) ** -1
        assert correct_digits(np.sqrt(np.diag(covariance)), [mpmath.sqrt(truth[k, k]) for k in range(7)]) > 12


@settings(max_examples=60, deadline=None)
@given(centre=st.floats(-1e6, 1e6), width=st.floats(1e-3, 1e6), degree=st.integers(1, 12), seed=st.integers(0, 99))
def test_values_are_those_of_the_exact_polynomials(centre, width, degree, seed):
    x = centre + width * np.random.default_rng(seed).uniform(-1, 1, 30)
    orthogonal = Orthogonal.on(x, degree)
    made = orthogonal.values(x)
    rows = orthogonal.powers()
    for i in (0, 7, 29):
        powers = [Fraction(float(x[i])) ** k for k in range(degree + 1)]
        for k in range(1, degree + 1):
            exact = sum(c * p for c, p in zip(rows[k], powers))
            assert abs(Fraction(float(made[i, k - 1])) - exact) <= Fraction(2, 2**53) * max(
                abs(exact), Fraction(1, 2**40)
            )
    shift, raw = raw_coefficients(orthogonal, [1.0] * degree)
    assert shift == sum(rows[k][0] for k in range(1, degree + 1)) and len(raw) == degree


def test_known_values():
    x = np.linspace(0, 2, 41)
    bumps = Gaussian("x", 3, low=0, high=2).fix(x)
    assert bumps.centres == (0.0, 1.0, 2.0)
    assert np.allclose(bumps.values(x)[:, 1], np.exp(-((x - 1) ** 2) / 2))
    steps = Sigmoid("x", 3, low=0, high=2, slope=2.5).fix(x)
    assert np.allclose(steps.values(x)[:, 2], 1 / (1 + np.exp(-2.5 * (x - 2))))
    assert np.allclose(Log("x", 1.0).values(x)[:, 0], np.log(x + 1))
    assert np.isnan(Lag("x", 2).values(x)[:2]).all() and (Lag("x", 2).values(x)[2:, 0] == x[:-2]).all()


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_splines_are_scipys(degree):
    x = np.random.default_rng(0).uniform(-1, 3, 200)
    spline = Spline("x", 7, degree).fix(x)
    inside = np.linspace(x.min(), x.max() - 1e-9, 300)
    truth = BSpline.design_matrix(inside, np.array(spline.knots), degree).toarray()
    made = spline.values(inside)
    assert made.shape == (300, 7) and np.allclose(made, truth[:, 1:], atol=1e-12)
    assert np.allclose(spline.values(np.array([-99.0, 99.0])), spline.values(np.array([x.min(), x.max()])))


def test_formulas():
    formula = Formula.parse("y ~ poly(x, 9) + log(z) + x:z + C(kind) + lags(p, 2) + `odd name` - 1")
    assert formula.target == "y" and not formula.intercept
    assert formula.columns == ["x", "z", "kind", "p", "odd name"] and formula.memory == 2
    known = [(name, (name,)) for name in formula.columns]
    assert formula.terms(known)[9:] == ("log(z)", "x:z", "kind", "lag(p, 1)", "lag(p, 2)", "odd name")
    assert Formula.parse("a*b").terms([("a", ("a",)), ("b", ("b",))]) == ("a", "b", "a:b")
    assert Formula.parse(". - b").resolve(["a", "b", "c"]).columns == ["a", "c"]
    assert Formula.parse("poly(., 2) + log(c + 1)").resolve(["a", "b", "c"]).columns == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("y ~ poly(x, 3", "not understood"),
        ("y ~", "not understood"),
        ("y ~ ploy(x, 3)", "no function 'ploy'; did you mean 'poly'"),
        ("y ~ poly(x, 0)", "degree must be a whole number from 1 to 50"),
        ("y ~ poly(x, 2.5)", "degree must be a whole number"),
        ("y ~ poly(x, z)", "where a number is expected"),
        ("y ~ poly(3)", "where a column's name is expected"),
        ("y ~ x / z", "neither a column nor a function"),
        ("y ~ poly(x, 2, hgh=3)", "poly takes column, degree, low, high"),
        ("y ~ __import__('os')", "where a column's name is expected"),
        ("y ~ x - poly(x, 2)", "only plain columns"),
        ("y ~ 1", "names no term"),
    ],
)
def test_bad_formulas(text, sentence):
    with pytest.raises(UsageError, match=sentence):
        Formula.parse(text)


FORMULA = "poly(x, 3) + log(z + 1) + x:z + spline(x, 5) + gaussian(z, 3) + sigmoid(z, 2) + sin(x)"


def test_the_transformer_passes_scikit_learns_checks():
    check_estimator(tl.Basis())


def test_the_transformer_in_a_pipeline_and_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 2, (200, 2))
    y = np.sin(2 * X[:, 0]) + np.log1p(X[:, 1]) + 0.01 * rng.normal(size=200)
    model = make_pipeline(tl.Basis(FORMULA), tl.Ridge(alpha=1e-6)).fit(X, y)
    assert model.score(X, y) > 0.999
    basis = model[0]
    basis.save(tmp_path / "basis.tl")
    again = tl.load(tmp_path / "basis.tl")
    assert (again.transform(X) == basis.transform(X)).all()
    assert list(again.get_feature_names_out()) == list(basis.get_feature_names_out())
    named = tl.Basis("poly(width, 2)").fit(pl.DataFrame({"depth": X[:, 0], "width": X[:, 1]}).to_pandas())
    assert list(named.get_feature_names_out()) == ["poly(width)[1]", "poly(width)[2]"]
    with pytest.raises(UsageError, match="no column 'widht'; did you mean 'width'"):
        tl.Basis("log(widht)").fit(pl.DataFrame({"depth": X[:, 0], "width": X[:, 1]}).to_pandas())
    with pytest.raises(DataError, match=r"log\(x\) is not a finite number in row 2; leave"):
        tl.Basis("log(x)").fit(np.ones((3, 1))).transform(np.array([[1.0], [2.0], [-1.0]]))


def test_picture_and_categories_of_the_transformer():
    rng = np.random.default_rng(0)
    X = rng.random((50, 2))
    basis = tl.Basis("poly(x, 3) + log(z) + x:z").fit(X)
    drawn = basis.plot(X, "x")
    assert drawn.get_xlabel() == "x" and [line.get_label() for line in drawn.lines] == [
        "poly(x)[1]", "poly(x)[2]", "poly(x)[3]", "x:z",
    ]  # fmt: skip
    assert [line.get_label() for line in basis.plot(X, 1).lines] == ["log(z)", "x:z"]
    with pytest.raises(UsageError, match="there is no column 'q'"):
        basis.plot(X, "q")
    with pytest.raises(UsageError, match=r"C\(x\) makes a category.*tl.scan"):
        tl.Basis("C(x) + z").fit(X)


def test_functions_by_object(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    basis = tl.Basis(functions=[Poly("x0", 2), ("x0", "x1"), ("x1", np.tanh), ("x1", lambda v: np.c_[v, v**2])]).fit(X)
    made = basis.transform(X)
    assert np.allclose(made[:, 2:4], np.c_[X[:, 0] * X[:, 1], np.tanh(X[:, 1])]) and made.shape == (30, 6)
    with pytest.raises(ModelError, match="cannot be put in a file"):
        basis.save(tmp_path / "basis.tl")
    assert not list(tmp_path.iterdir())
    assert tl.Basis(functions={"x0": [np.sin, np.cos]}).fit_transform(X).shape == (30, 2)
    with pytest.raises(UsageError, match="one row per value"):
        tl.Basis(functions={"x0": lambda v: v.sum()}).fit(X)


def scan_table(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "x": rng.uniform(0, 1, rows),
            "z": rng.uniform(0, 3, rows),
            "c": rng.choice(["a", "b"], rows),
            "y": rng.normal(size=rows),
        }
    )


@pytest.mark.parametrize("block_rows", [1000, 37])
def test_the_scan_and_the_prediction_make_one_design(block_rows):
    data = scan_table(500)
    formula = f"y ~ {FORMULA} + x:c + c + lag(z, 3)"
    encoder = encode(data, formula=formula, block_rows=block_rows)
    blocks = list(encoder)
    schema = Schema.from_dict(json.loads(json.dumps(encoder.schema.to_dict())))
    width = len(encoder.terms)
    X = np.concatenate([np.pad(b.X, ((0, 0), (0, width - b.X.shape[1]))) for b in blocks])
    assert len(X) == 497 and (np.concatenate([b.y for b in blocks]) == data["y"].to_numpy()[3:]).all()
    places, _ = schema.from_scan(encoder.terms)
    assert np.allclose(schema.encode(data).X[3:], X[:, places], rtol=1e-13, atol=1e-13)
    assert np.linalg.matrix_rank(np.c_[np.ones(len(X)), X[:, places]][:, :3]) == 3
    row = dict(zip(("x", "z", "c"), (0.25, 1.5, "b")))
    assert np.allclose(schema.encode_row(row), schema.encode([row]).X[0])


def test_reference_levels_stay_where_nothing_spans_them():
    data = scan_table(100)

    def terms(formula):
        encoder = encode(data, formula=formula, target="y")
        X = np.concatenate([b.X for b in encoder])
        names = encoder.schema.terms
        ones = [np.ones(len(X))] if encoder.formula.intercept else []
        D = np.column_stack([*ones, X[:, encoder.schema.from_scan(encoder.terms)[0]]])
        assert np.linalg.matrix_rank(D) == D.shape[1]
        return names

    assert terms("x + x:c") == ("x", "x:c[b]")
    assert terms("x:c") == ("x:c[a]", "x:c[b]")
    assert terms("c + x:c") == ("c[b]", "x:c[a]", "x:c[b]")
    assert terms("c - 1") == ("c[a]", "c[b]")


def test_a_formula_refuses_what_it_cannot_use():
    data = scan_table(50)
    with pytest.raises(UsageError, match="does not go with a formula"):
        encode(data, formula="y ~ x", missing="mean")
    with pytest.raises(UsageError, match="needs a number, and column 'c' is a category"):
        list(encode(data, formula="y ~ poly(c, 2)"))
    with pytest.raises(DataError, match=r"term 'log\(y\)' is not a finite number"):
        list(encode(data, formula="x ~ log(y)"))
    with pytest.raises(DataError, match="spans no range"):
        list(encode(data.with_columns(x=pl.lit(1.0)), formula="y ~ spline(x, 4)"))


def test_lags_predict_a_price_from_those_before_it():
    """Prices that follow p_t = 0.6 p_{t−1} + 0.3 p_{t−2} + noise: the scan finds the two numbers."""
    rng = np.random.default_rng(0)
    price = [10.0, 10.0]
    for _ in range(4000):
        price.append(1.0 + 0.6 * price[-1] + 0.3 * price[-2] + rng.normal())
    encoder = encode(
        {"price": price, "next": [*price[1:], np.nan]},
        target="next",
        formula="price + lag(price, 1)",
        missing="drop",
        block_rows=333,
    )
    X, y = (np.concatenate(parts) for parts in zip(*((b.X, b.y) for b in encoder)))
    found = np.linalg.lstsq(np.c_[np.ones(len(X)), X], y, rcond=None)[0]
    assert encoder.terms == ("price", "lag(price, 1)") and np.allclose(found[1:], [0.6, 0.3], atol=0.05)


def test_degree_and_penalty_by_cross_validation():
    from sklearn.model_selection import GridSearchCV, KFold

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (120, 1))
    y = np.sin(2 * np.pi * x[:, 0]) + 0.2 * rng.normal(size=120)
    grid = {"basis__formula": [f"poly(x, {k})" for k in (1, 2, 3, 5, 9)], "ridge__alpha": [1e-3, 1.0, 1e3]}
    search = GridSearchCV(make_pipeline(tl.Basis(), tl.Ridge()), grid, cv=KFold(5, shuffle=True, random_state=0)).fit(
        x, y
    )
    assert (
        search.best_params_["basis__formula"] in ("poly(x, 3)", "poly(x, 5)")
        and search.best_params_["ridge__alpha"] < 1e3
    )


def test_a_formula_in_a_scan_gives_the_models():
    data = scan_table(2000).with_columns(y=1.0 + 2.0 * pl.col("x") ** 3 - pl.col("z").log1p())
    moments = tl.scan(data, target="y", formula="y ~ poly(x, 3) + log(z + 1)")
    model = tl.LinearRegression.from_moments(moments)
    formula = Formula.from_dict(moments.schema.formula)
    intercept, raw = formula.raw(moments.schema.terms, model.coef_, model.intercept_)
    truth = {"x": 0.0, "x^2": 0.0, "x^3": 2.0, "log(z + 1)": -1.0}
    assert abs(intercept - 1.0) < 1e-12 and all(abs(raw[name] - value) < 1e-12 for name, value in truth.items())
