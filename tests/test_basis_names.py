"""Functions of one kind on one column each keep their own columns, under names that say which is which."""

from __future__ import annotations

import sqlite3

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline.cli import main
from trueline.data.basis import Gaussian, Sigmoid, Spline
from trueline.data.formula import Formula

X = np.linspace(-1, 2, 60)[:, None]

FORMULAS = {
    "gaussian(x, 5, width=0.1) + gaussian(x, 3, width=0.5)": 8,
    "gaussian(x, 3, width=0.5) + gaussian(x, 5, width=0.1)": 8,
    "gaussian(x, 3) + gaussian(x, 3, low=-5, high=5)": 6,
    "sigmoid(x, 1, slope=1) + sigmoid(x, 1, slope=5)": 2,
    "spline(x, 4) + spline(x, 6)": 10,
    "spline(x, 4) + spline(x, 4, 2)": 8,
    "log(x + 3) + log(x + 3.0000001)": 2,
    "poly(x, 2) + poly(x, 3)": 3,
    "poly(x, 2) + poly(x, 3) + poly(x, 2, low=-9, high=9)": 5,
    "x:gaussian(x, 2) + x:gaussian(x, 3) + gaussian(x, 2)": 7,
    "gaussian(x, 2) + gaussian(x, 2)": 2,
}


@pytest.mark.parametrize("text", FORMULAS)
def test_every_function_keeps_its_columns(text):
    basis = tl.Basis(text).fit(X)
    names, design = list(basis.get_feature_names_out()), basis.transform(X)
    assert design.shape[1] == len(names) == len(set(names)) == FORMULAS[text]
    again = Formula.from_dict(basis.formula_.to_dict())
    assert again.terms([("x", ("x",))]) == tuple(names)


def test_each_column_is_that_of_its_function_alone():
    both = tl.Basis("gaussian(x, 5, width=0.1) + gaussian(x, 3, width=0.5)").fit(X).transform(X)
    apart = [tl.Basis(f"gaussian(x, {count}, width={w})").fit(X).transform(X) for count, w in ((5, 0.1), (3, 0.5))]
    np.testing.assert_array_equal(both, np.hstack(apart))


def test_callables_of_one_name():
    functions = [("x0", lambda v: v), ("x0", lambda v: v**2), ("x0", lambda v: v**3), ("x0", np.sin)]
    basis = tl.Basis(functions=functions).fit(X)
    np.testing.assert_array_equal(basis.transform(X), np.hstack([X, X**2, X**3, np.sin(X)]))
    assert list(basis.get_feature_names_out()) == ["<lambda>(x0)", "<lambda>(x0) #2", "<lambda>(x0) #3", "sin(x0)"]


def test_own_centres_and_widths():
    functions = [
        Gaussian("x0", centres=(0.3,), width=0.1), Gaussian("x0", centres=(0.7,), width=0.1),
        Sigmoid("x0", centres=(0.1, 0.2), slope=3.0), Spline("x0", 4), Spline("x0", 5),
    ]  # fmt: skip
    design = tl.Basis(functions=functions).fit(X).transform(X)
    assert design.shape[1] == 1 + 1 + 2 + 4 + 5
    np.testing.assert_allclose(design[:, 1], np.exp(-0.5 * ((X[:, 0] - 0.7) / 0.1) ** 2))


def test_raw_powers_count_a_polynomial_once():
    y = 1 + 2 * X[:, 0] - X[:, 0] ** 3
    basis = tl.Basis("poly(x, 2) + poly(x, 3)").fit(X)
    raw = basis.raw_coefficients(tl.LinearRegression().fit(basis.transform(X), y))
    np.testing.assert_allclose([raw[k] for k in ("(intercept)", "x", "x^2", "x^3")], [1, 2, 0, -1], atol=1e-12)


def test_a_column_with_the_name_of_a_function_is_refused():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "log(x)": [1.0, 0.0, 2.0, 1.0], "y": [1.0, 2.0, 3.0, 5.0]})
    with pytest.raises(tl.UsageError, match=r"two terms of the formula have the name 'log\(x\)'"):
        tl.scan(table, formula="y ~ log(x) + `log(x)`")


def test_scan_command_line_files_and_exports_have_all_of_them(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 2, 80)
    table = pl.DataFrame({"x": x, "y": np.sin(3 * x) + 0.1 * rng.normal(size=80)})
    table.write_csv(tmp_path / "t.csv")
    formula = (
        "y ~ gaussian(x, 3, width=0.3) + gaussian(x, 2, width=0.9) + sigmoid(x, 1, slope=1) + sigmoid(x, 1, slope=5)"
    )
    terms = tl.scan(table, formula=formula).designed().terms
    assert len(terms) == 7
    model = tmp_path / "m.tl"
    assert main(["fit", str(tmp_path / "t.csv"), "--formula", formula, "-q", "-o", str(model)]) == 0
    loaded = tl.load(model)
    assert tuple(loaded.feature_names_in_) == terms
    basis = tl.Basis(formula.partition("~")[2]).fit(table.select("x").to_pandas())
    design = np.c_[np.ones(80), basis.transform(table.select("x").to_pandas())]
    wanted = design @ np.linalg.lstsq(design, table["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(loaded.predict(table), wanted, atol=1e-6)
    for to in ("sql", "python", "c"):
        assert main(["export", str(model), "--to", to, "--output", str(tmp_path / f"e.{to}")]) == 0
    space = {}
    exec((tmp_path / "e.python").read_text(), space)
    np.testing.assert_allclose([space["predict"](row) for row in table.to_dicts()], wanted, atol=1e-6)
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (x, y)")
    base.executemany("INSERT INTO data VALUES (?, ?)", table.rows())
    result = base.execute((tmp_path / "e.sql").read_text()).fetchall()
    np.testing.assert_allclose([row[0] for row in result], wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        ("y ~ z*x + x*z", ["z", "x", "z:x"]),
        ("y ~ log(x):z + z:log(x) + x:z", ["log(x):z", "x:z"]),
        ("y ~ x:x:z + x:z:x + x:z:z", ["x:x:z", "x:z:z"]),
    ],
)
def test_a_product_is_one_term_in_any_order_of_its_factors(formula, terms):
    rng = np.random.default_rng(8)
    x, z = rng.uniform(1, 3, size=(2, 40))
    moments = tl.scan({"x": x, "z": z, "y": x * z + rng.normal(size=40)}, formula=formula)
    assert list(moments.schema.terms) == terms
