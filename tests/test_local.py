"""Local regression: R's lowess, the smoother's matrix by definition, leave-one-out by refitting, cells, intervals."""

from __future__ import annotations

import pathlib
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.nonlinear.loess_nd import Cells


def r_output(name: str) -> np.ndarray:
    """R's own lowess output, as statsmodels ships it."""
    statsmodels = pytest.importorskip("statsmodels")
    path = pathlib.Path(statsmodels.__file__).parent / "nonparametric/tests/results" / f"test_lowess_{name}.csv"
    if not path.exists():
        pytest.skip("this statsmodels does not ship R's outputs")
    return np.genfromtxt(path, delimiter=",", skip_header=1)


def wave(n: int, p: int, seed: int = 0, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) * 4.0
    return X, np.sin(X).sum(axis=1) + noise * rng.standard_normal(n)


def smoother(X: np.ndarray, q: np.ndarray, degree: int, weigh) -> np.ndarray:
    """The row l with ŷ(q) = l·y, from its definition."""
    d = X - q
    columns = [np.ones(len(X))]
    if degree > 0:
        columns += list(d.T)
    if degree > 1:
        columns += [d[:, a] * d[:, b] for a in range(d.shape[1]) for b in range(a + 1)]
    B = np.column_stack(columns)
    w = weigh(np.sqrt((d**2).sum(axis=1)))
    root = np.sqrt(w)[:, None]
    return (np.linalg.pinv(root * B) * root.T)[0]


def tricube(k: int):
    def weigh(r):
        h = np.sort(r)[k - 1]
        return np.where(r <= 0.999 * h, (1 - (r / h) ** 3) ** 3, 0.0)

    return weigh


@pytest.mark.parametrize("estimator", [tl.LocalRegression(), tl.LocalRegression(1.0, kernel="gaussian")], ids=str)
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, on_skip=None)


@pytest.mark.parametrize(
    ("name", "column", "options"),
    [
        ("simple", 2, {}),
        ("frac", 2, {"fraction": 2 / 3}),
        ("frac", 3, {"fraction": 0.2}),
        ("iter", 2, {"robust_iterations": 0}),
        ("iter", 3, {"robust_iterations": 3}),
        ("delta", 2, {"fraction": 0.1}),
        ("delta", 3, {"fraction": 0.1, "delta": "R"}),
        ("delta", 4, {"fraction": 0.1, "delta": 1.0}),
    ],
)
def test_r_lowess(name, column, options):
    data = r_output(name)
    if options.get("delta") == "R":
        options = options | {"delta": 0.01 * float(np.ptp(data[:, 0]))}
    mixed = np.random.default_rng(0).permutation(len(data))
    model = tl.LocalRegression(**options).fit(data[mixed, :1], data[mixed, 1])
    np.testing.assert_allclose(model.fitted_, data[mixed, column], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.predict(data[:, :1]), data[:, column], rtol=1e-9, atol=1e-9)
    assert model.certificate_.proven == ("delta" not in options)


def lowess_by_definition(x, y, fraction, iterations):
    """Cleveland's lowess as R documents it, a row at a time: its constants, its rule for rows that nobody weighs."""
    n, robust = len(x), np.ones(len(x))
    k = max(2, min(n, int(fraction * n + 1e-7)))
    for step in range(iterations + 1):
        fitted = np.empty(n)
        for i in range(n):
            r = np.abs(x - x[i])
            h = np.sort(r)[k - 1]
            w = np.where(r <= 0.999 * h, np.where(r <= 0.001 * h, 1.0, (1 - (r / (h or 1.0)) ** 3) ** 3), 0.0) * robust
            if not w.any():
                fitted[i] = y[np.flatnonzero(x == x[i])[0]]
                continue
            w = w / w.sum()
            centre = w @ x
            spread = w @ (x - centre) ** 2
            if h > 0 and np.sqrt(spread) > 0.001 * np.ptp(x):
                w = w * (1 + (x[i] - centre) * (x - centre) / spread)
            fitted[i] = w @ y
        size = np.abs(y - fitted)
        limit = 6 * np.median(size)
        if step == iterations or limit < 1e-7 * size.mean() or limit <= 1e-12 * np.abs(y).max():
            return fitted
        robust = np.where(
            size <= 0.001 * limit, 1.0, np.where(size <= 0.999 * limit, (1 - (size / limit) ** 2) ** 2, 0)
        )
    return fitted


@pytest.mark.parametrize("n", [2, 3, 4, 7, 10, 21, 60])
def test_lowess_by_definition_with_ties_spikes_and_few_rows(n):
    rng = np.random.default_rng(n)
    for fraction in (0.1, 0.2, 1 / 3, 0.5, 2 / 3, 1.0):
        for iterations in (0, 1, 3):
            x = rng.random(n) * 10
            y = np.sin(x) + 0.3 * rng.standard_normal(n)
            spiked = np.where(np.arange(n) % 7 == 3, y + 50, y)
            places = (
                x,
                np.round(x),
                np.round(x / 3),
                np.full(n, 2.0),
                np.exp(x - 5),
                np.where(np.arange(n) < n // 2, 0, x),
            )
            for place in places:
                for target in (y, spiked, np.full(n, 3.0), 2 * place + 1):
                    model = tl.LocalRegression(fraction=fraction, robust_iterations=iterations)
                    found = model.fit(place[:, None], target).fitted_
                    wanted = lowess_by_definition(place, target, fraction, iterations)
                    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_value_trace_and_errors_are_those_of_the_smoother(p, degree):
    X, y = wave(60, p)
    queries = wave(5, p, seed=1)[0]
    model = tl.LocalRegression(fraction=0.5, degree=degree, robust_iterations=0).fit(X, y)
    unit = X.std(axis=0) if p > 1 else np.ones(1)
    L = np.array([smoother(X / unit, q / unit, degree, tricube(30)) for q in X])
    rows = np.array([smoother(X / unit, q / unit, degree, tricube(30)) for q in queries])
    np.testing.assert_allclose(model.fitted_, L @ y, rtol=1e-8)
    np.testing.assert_allclose(model.predict(queries), rows @ y, rtol=1e-8)
    assert model.degrees_of_freedom_ == pytest.approx(np.trace(L), rel=1e-8)
    left = np.trace((np.eye(60) - L).T @ (np.eye(60) - L))
    assert model.sigma_ == pytest.approx(np.sqrt(((y - L @ y) ** 2).sum() / left), rel=1e-8)
    errors = model.sigma_ * np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(model.standard_errors(queries), errors, rtol=1e-7)
    assert model.gcv_ == pytest.approx(np.mean((y - L @ y) ** 2) / (1 - np.trace(L) / 60) ** 2, rel=1e-8)
    mean, lower, upper = model.predict(queries, interval=0.9, of="mean")
    wide = model.predict(queries, interval=0.9)
    assert (wide.lower < lower).all() and (lower < mean).all() and (upper < wide.upper).all()


@pytest.mark.parametrize("p", [1, 2])
def test_gaussian_weights_and_leave_one_out(p):
    X, y = wave(40, p, seed=2)
    model = tl.LocalRegression(0.7, kernel="gaussian", robust_iterations=0).fit(X, y)
    row = smoother(X, X[3], 1, lambda r: np.exp(-0.5 * (r / 0.7) ** 2))
    assert model.fitted_[3] == pytest.approx(row @ y, rel=1e-9)
    left_out = [
        tl.LocalRegression(0.7, kernel="gaussian", robust_iterations=0)
        .fit(np.delete(X, i, axis=0), np.delete(y, i))
        .predict(X[i : i + 1])[0]
        for i in range(40)
    ]
    assert model.cv_ == pytest.approx(np.mean((y - left_out) ** 2), rel=1e-7)
    far = model.predict(np.full((1, p), 60.0))
    assert np.isfinite(far).all()


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 2),
    st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    st.lists(st.floats(-50, 50), min_size=12, max_size=40),
)
def test_a_polynomial_of_the_degree_is_reproduced(degree, coefficients, places):
    x = np.array([*places, -60.0, 0.5, 60.0, 17.25])
    y = np.polyval(coefficients[: degree + 1], x)
    model = tl.LocalRegression(fraction=1.0, degree=degree, robust_iterations=1).fit(x[:, None], y)
    query = np.array([[-20.0], [1.0], [33.3]])
    size = 1 + np.abs(y).max()
    np.testing.assert_allclose(
        model.predict(query) / size, np.polyval(coefficients[: degree + 1], query[:, 0]) / size, atol=1e-6
    )


def test_robust_iterations_ignore_spikes():
    X, y = wave(200, 1, seed=3, noise=0.05)
    bent = y.copy()
    bent[::17] += 8.0
    plain = tl.LocalRegression(fraction=0.3, degree=2, robust_iterations=0).fit(X, bent)
    robust = tl.LocalRegression(fraction=0.3, degree=2, robust_iterations=4).fit(X, bent)
    truth = np.sin(X[:, 0])
    assert np.abs(robust.fitted_ - truth).max() < 0.1 < np.abs(plain.fitted_ - truth).max()
    assert (robust.robustness_[::17] == 0).all() and robust.sigma_ == pytest.approx(0.05, rel=0.3)


def test_whole_weights_are_repetitions_and_ties_are_averaged():
    X, y = wave(50, 1, seed=4)
    times = np.random.default_rng(4).integers(0, 4, 50)
    options = {"fraction": 0.4, "degree": 2}
    weighed = tl.LocalRegression(**options).fit(X, y, times)
    repeated = tl.LocalRegression(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighed.predict(X), repeated.predict(X), rtol=1e-7)
    assert weighed.degrees_of_freedom_ == pytest.approx(repeated.degrees_of_freedom_)
    assert weighed.sigma_ == pytest.approx(repeated.sigma_)
    tied = tl.LocalRegression(fraction=0.1, robust_iterations=0).fit(
        np.repeat([[1.0], [2.0]], 20, axis=0), np.arange(40.0)
    )
    np.testing.assert_allclose(tied.predict([[1.0], [2.0]]), [9.5, 29.5])


@pytest.mark.parametrize("p", [1, 2])
def test_cells_agree_with_fits_at_every_row_and_say_how_well(p):
    X, y = wave(400, p, seed=5)
    exact = tl.LocalRegression(fraction=0.4, degree=2, surface="exact").fit(X, y)
    cells = tl.LocalRegression(fraction=0.4, degree=2, surface="interpolate").fit(X, y)
    assert not cells.certificate_.proven and exact.certificate_.proven
    seen = cells.certificate_.interpolation_error
    assert 0 < seen < 0.1 and np.abs(cells.fitted_ - exact.fitted_).max() < 0.1
    np.testing.assert_allclose(cells.predict(X), cells.fitted_)
    assert cells.degrees_of_freedom_ == pytest.approx(exact.degrees_of_freedom_, rel=0.05)
    outside = np.full((1, p), 9.0)
    np.testing.assert_allclose(cells.predict(outside), exact.predict(outside), rtol=0.5)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_cells_are_exact_for_quadratic_functions(p):
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(300, p))
    A = rng.normal(size=(p, p))
    cells = Cells.build(Z, 20)
    V = cells.vertices
    values = np.einsum("ij,jk,ik->i", V, A, V) + V.sum(axis=1)
    found = cells.between(Z, cells.locate(Z), values, V @ (A + A.T) + 1.0)
    np.testing.assert_allclose(found, np.einsum("ij,jk,ik->i", Z, A, Z) + Z.sum(axis=1), atol=1e-9)
    leaf = cells.locate(Z)
    assert (np.bincount(leaf) <= 20).all()
    assert (cells.lower[leaf] <= Z).all() and (cells.upper[leaf] >= Z).all()


@pytest.mark.parametrize("options", [{"fraction": "gcv"}, {"bandwidth": "cv", "kernel": "gaussian"}], ids=str)
def test_the_width_of_least_score_is_chosen(options):
    X, y = wave(150, 1, seed=7)
    model = tl.LocalRegression(**options, robust_iterations=0).fit(X, y)
    chosen = model.fraction_ if "fraction" in options else model.bandwidth_
    assert chosen == model.tried_[np.argmin(model.scores_)] and len(model.tried_) == len(model.scores_)
    assert np.mean((model.fitted_ - np.sin(X[:, 0])) ** 2) < 0.01


def test_spikes_do_not_lead_to_a_width_that_follows_them():
    X, y = wave(150, 1, seed=9)
    y[::12] += 5.0
    model = tl.LocalRegression(fraction="gcv", degree=2).fit(X, y)
    assert model.fraction_ > 0.15 and np.mean((model.fitted_ - np.sin(X[:, 0])) ** 2) < 0.02


def test_intervals_cover():
    hits = []
    for seed in range(20):
        X, y = wave(100, 1, seed=seed)
        model = tl.LocalRegression(fraction=0.35, degree=2, robust_iterations=0).fit(X, y)
        Q, fresh = wave(50, 1, seed=1000 + seed)
        _, lower, upper = model.predict(Q, interval=0.9)
        hits.append(np.mean((lower <= fresh) & (fresh <= upper)))
    assert 0.85 < np.mean(hits) < 0.95


@pytest.mark.parametrize(
    "options", [{"fraction": 0.5}, {"surface": "interpolate"}, {"delta": 0.3}, {"fraction": "gcv"}], ids=str
)
def test_saved_and_loaded_predictions_are_identical(options, tmp_path):
    X, y = wave(60, 1, seed=8)
    model = tl.LocalRegression(**options).fit(X, y)
    model.save(tmp_path / "m.tl")
    same = tl.load(tmp_path / "m.tl")
    Q = np.linspace(-1, 5, 40)[:, None]
    np.testing.assert_array_equal(same.predict(Q), model.predict(Q))
    np.testing.assert_array_equal(same.standard_errors(Q), model.standard_errors(Q))
    assert same.get_params() == model.get_params() and str(same.certificate_) == str(model.certificate_)
    fitted = {name for name in vars(model) if name.endswith("_") and name not in ("model_", "certificate_")}
    assert fitted <= set(vars(same)) and {"robustness_", "fitted_"} <= fitted
    for name in fitted:
        np.testing.assert_array_equal(getattr(same, name), getattr(model, name))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"fraction": 0.0}, "fraction"),
        ({"fraction": 1.5}, "in .0, 1. is accepted"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"bandwidth": 1.0, "fraction": 0.5}, "give one"),
        ({"degree": 3}, "degree"),
        ({"kernel": "box"}, "tricube"),
        ({"robust_iterations": -1}, "robust_iterations"),
        ({"surface": "smooth"}, "surface"),
        ({"delta": float("nan")}, "delta"),
        ({"fraction": "aic"}, "'gcv' or 'cv'"),
    ],
)
def test_refusals(options, word):
    X, y = wave(10, 1)
    with pytest.raises(ValueError, match=word):
        tl.LocalRegression(**options).fit(X, y)
    with pytest.raises(ValueError, match="zero"):
        tl.LocalRegression().fit(X, y, np.zeros(10))


def weighed(X, y, w, q, degree, fraction):
    """The local fit at q by its definition: the nearest share of the rows, tricube weights, weighted least squares."""
    p = X.shape[1]
    least = 2 if p == 1 and degree < 2 else (1, 1 + p, 1 + p + p * (p + 1) // 2)[degree] + 1
    k = min(max(least, int(fraction * w.sum() + 1e-7)), int(w.sum()))
    unit = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, axis=0, weights=w)) if p > 1 else np.ones(1)
    away = np.sqrt((((X - q) / np.where(unit > 0, unit, 1.0)) ** 2).sum(axis=1))
    h = np.repeat(np.sort(away), w[np.argsort(away)].astype(int))[k - 1]
    h = h if (away <= 0.999 * h).any() else h / 0.99  # all on the rim: a little further
    weights = np.where(away <= 0.999 * h, (1.0 - (away / h) ** 3) ** 3, 0.0) * w if h > 0 else w * (away == 0)
    t = X - q
    design = [np.ones(len(X))] + ([t[:, j] for j in range(X.shape[1])] if degree else [])
    if degree == 2:
        design += [t[:, i] * t[:, j] for i in range(X.shape[1]) for j in range(i + 1)]
    D = np.sqrt(weights)[:, None] * np.column_stack(design)
    scaled = D / np.maximum(np.linalg.norm(D, axis=0), 1e-300)
    if np.linalg.matrix_rank(scaled, tol=1e-3) < D.shape[1]:
        return None  # too few places for the polynomial: a lower one is taken
    return np.linalg.lstsq(D, np.sqrt(weights) * y, rcond=None)[0][0]


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("columns", [1, 2])
def test_few_rows_are_fitted_as_weighted_least_squares(columns, degree):
    compared = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = 1 + seed % 9
        X = np.round(rng.normal(size=(n, columns)), 0 if seed % 3 == 0 else 6)
        y = 5.0 + rng.normal(size=n)
        w = rng.integers(0, 3, n).astype(float) if seed % 4 == 1 else np.ones(n)
        w[0] = 1.0
        fraction = (0.4, 0.7, 1.0)[seed % 3]
        model = tl.LocalRegression(fraction=fraction, degree=degree, robust_iterations=0).fit(X, y, w)
        queries = np.vstack([X + 0.37, X.mean(axis=0) + 0.1])
        found = model.predict(queries)
        assert np.isfinite(found).all() and np.isfinite(model.fitted_).all()
        assert len(model.fitted_) == n
        for q, value in zip(queries, found):
            expected = weighed(X[w > 0], y[w > 0], w[w > 0], q, degree, fraction)
            if expected is not None:
                np.testing.assert_allclose(value, expected, rtol=1e-5)
                compared += 1
    assert compared > 60


@pytest.mark.parametrize("kernel", ["tricube", "gaussian"])
@pytest.mark.parametrize(
    "options", [{}, {"bandwidth": 1e-9}, {"bandwidth": 2.0}, {"fraction": "gcv"}, {"bandwidth": "cv"}]
)
def test_rows_of_one_place_predict_their_mean(kernel, options):
    y = np.array([1.0, 2.0, 6.0])
    for columns in (1, 3):
        X = np.full((3, columns), 7.0)
        model = tl.LocalRegression(kernel=kernel, robust_iterations=0, **options).fit(X, y)
        np.testing.assert_allclose(model.predict(X[:2] + np.array([[0.0], [1.0]])), 3.0)
        model = tl.LocalRegression(kernel=kernel, **options).fit(X[:1], y[:1])
        np.testing.assert_allclose(model.predict(X + 5.0), 1.0)
        assert not model.certificate_.proven  # one row says nothing about errors


def test_a_curve_through_all_its_rows_is_not_called_proven():
    model = tl.LocalRegression(fraction=1.0, degree=2, robust_iterations=0).fit([[0.0], [1.0], [3.0]], [1.0, 2.0, 0.0])
    assert model.certificate_.status.name == "DEGENERATE" and "more rows" in model.certificate_.advice
    with pytest.raises(ValueError, match="no residual"):
        model.predict([[0.5]], interval=0.9)


def test_a_narrow_bell_far_from_every_row_takes_the_nearest():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(12, 3)) * 1e5, rng.normal(size=12)
    model = tl.LocalRegression(bandwidth=1e-9, kernel="gaussian", degree=0, robust_iterations=0).fit(X, y)
    queries = X * 1.1
    nearest = y[((queries[:, None] - X) ** 2).sum(axis=2).argmin(axis=1)]
    np.testing.assert_allclose(model.predict(queries), nearest)
