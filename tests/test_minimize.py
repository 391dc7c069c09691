"""Every solver by name: the same certified optimum, gaps that bound it from any point, honest ends, plain refusals."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import trueline as tl
from trueline.batch import coordinate, duality, products, workingset
from trueline.batch.columns import ColumnStore
from trueline.batch.methods import METHODS, NotProvenWarning, solve
from trueline.batch.problem import as_targets, build
from trueline.certify.records import Status
from trueline.estimators.minimize import minimize
from trueline.parts.losses import loss as make_loss
from trueline.parts.penalties import penalty as make_penalty

N, D = 120, 6
LOSSES = ("squared", "huber", "logistic", "squared_hinge", "poisson", "gamma", "tweedie", "absolute", "hinge")
PENALTIES = (None, "l2", "l1", "elastic_net", "nonnegative", "box", "group_l1")
GROUPS = np.arange(D) // 2


def problem(seed: int = 0, scales: bool = True) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Columns whose scales span six decades, some far from 0, and a target for every loss."""
    rng = np.random.default_rng(seed)
    spread = np.logspace(-3, 3, D) if scales else np.ones(D)
    X = (rng.normal(size=(N, D)) + rng.normal(size=D)) * spread
    s = X @ (rng.normal(size=D) / spread)
    s -= s.mean()
    real = s + rng.normal(size=N)
    sign = np.where(s + rng.logistic(size=N) > 0, 1, -1)
    count = rng.poisson(np.exp(0.3 * s)).astype(float)
    positive = rng.gamma(2.0, np.exp(0.3 * s)) + 1e-3
    kinds = {"real": real, "sign": sign, "nonnegative": count, "positive": positive}
    return X, {name: kinds[make_loss(name).targets] for name in LOSSES}


def solved(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotProvenWarning)
        return minimize(*arguments, **options)


def options_of(penalty):
    return {"groups": GROUPS} if penalty == "group_l1" else {}


@pytest.mark.parametrize("loss", LOSSES)
def test_every_method_that_fits_reaches_the_same_certified_optimum(loss):
    X, ys = problem()
    fitted = 0
    for penalty in PENALTIES:
        found = {}
        for method in METHODS:
            try:
                solution = solved(X, ys[loss], loss, penalty, method, alpha=0.02, tol=1e-6, **options_of(penalty))
            except tl.UsageError as refusal:
                assert str(refusal).startswith(f"method {method!r} needs ")
                continue
            certificate = solution.certificate
            assert certificate.proven and certificate.relative_gap <= 1e-6
            assert certificate.gap >= -1e-12 * abs(certificate.primal)
            found[method] = certificate
        if not found:  # corners under bounds or groups: nothing fits, and "auto" says so
            assert loss in ("absolute", "hinge") and penalty in ("nonnegative", "box", "group_l1")
            continue
        fitted += len(found)
        best_dual = max(one.dual for one in found.values())
        for method, one in found.items():
            scale = max(abs(one.primal), 1e-3)
            assert one.primal - best_dual <= 1.1e-6 * scale + 1e-12, (loss, penalty, method)
            assert one.primal - best_dual >= -1e-11 * scale, (loss, penalty, method)
        assert solved(X, ys[loss], loss, penalty, alpha=0.02, **options_of(penalty)).proven
    assert fitted >= (4 if loss in ("absolute", "hinge") else 30)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "absolute", "hinge"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_dual_of_any_point_bounds_the_optimum(loss, data):
    """For random weights and intercepts the dual value never exceeds the optimum, with and without an intercept."""
    seed = data.draw(st.integers(0, 3))
    intercept = data.draw(st.booleans())
    name = data.draw(st.sampled_from(["l1", "l2", "elastic_net", None, "nonnegative"]))
    X, ys = problem(seed, scales=False)
    part = make_loss(loss)
    targets, _ = as_targets(ys[loss], part, N)
    penalty = make_penalty(name, alpha=0.1) if name else make_penalty(None)
    risk = build(X, targets, part, penalty, weights=np.full(N, 1.0 / N), intercept=intercept)
    key = (loss, name, seed, intercept)
    if key not in OPTIMA:
        if loss in ("absolute", "hinge") and name == "nonnegative":
            return
        OPTIMA[key] = solved(X, ys[loss], loss, name, alpha=0.1, tol=1e-9, intercept=intercept).certificate.primal
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    theta = rng.normal(size=risk.size) * data.draw(st.sampled_from([0.01, 0.3, 3.0]))
    if name == "nonnegative":
        theta[: risk.design.d] = np.abs(theta[: risk.design.d])
    value, _ = duality.dual_value(risk, risk.point(theta))
    assert value <= OPTIMA[key] + 1e-9 * (1.0 + abs(OPTIMA[key]))
    assert risk.point(theta).objective >= OPTIMA[key] - 1e-9 * (1.0 + abs(OPTIMA[key]))


OPTIMA: dict[tuple, float] = {}


def test_column_scales_do_not_decide():
    """Badly scaled columns take about as many iterations as well scaled ones, and give the same predictions."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    factor = np.array([1e-6, 1e-3, 1.0, 1e3, 1e6])
    for method in ("gradient", "fista", "owlqn"):
        plain = solved(X, y, method=method)
        scaled = solved(X * factor, y, method=method)
        assert len(scaled.trace) <= len(plain.trace) + 10
        assert np.allclose(scaled.coef * factor, plain.coef, atol=1e-3)


@pytest.mark.parametrize("layout", ["csr", "csc", "fortran", "float32"])
def test_layouts_agree(layout):
    X, ys = problem(1)
    X = np.where(np.abs(X) > 0.5 * np.abs(X).mean(axis=0), X, 0.0).astype(np.float32).astype(float)
    same = {
        "csr": lambda: sparse.csr_matrix(X), "csc": lambda: sparse.csc_matrix(X),
        "fortran": lambda: np.asfortranarray(X), "float32": lambda: X.astype(np.float32),
    }[layout]()  # fmt: skip
    for penalty, method in (("l2", "newton"), ("l1", "coordinate"), ("l1", "fista"), (None, "irls")):
        one = solved(X, ys["logistic"], "logistic", penalty, method, alpha=0.02, tol=1e-9)
        other = solved(same, ys["logistic"], "logistic", penalty, method, alpha=0.02, tol=1e-9)
        assert abs(one.certificate.primal - other.certificate.primal) <= 2e-9
        assert np.allclose(X @ one.coef + one.intercept, X @ other.coef + other.intercept, atol=2e-3)


def test_weights_are_repetitions_and_zero_weights_are_absent():
    X, ys = problem(2)
    counts = np.random.default_rng(0).integers(0, 4, N)
    counts[ys["squared_hinge"] > 0][:1] = 1
    repeated, labels = np.repeat(X, counts, axis=0), np.repeat(ys["logistic"], counts)
    for penalty in ("l1", "l2"):
        one = solved(X, ys["logistic"], "logistic", penalty, alpha=0.05, sample_weight=counts, tol=1e-10)
        other = solved(repeated, labels, "logistic", penalty, alpha=0.05, tol=1e-10)
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-9)


def test_wide_problems_screen_safely_and_agree_with_a_peer():
    """The working-set route: nothing that it settles as zero is non-zero at the optimum."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 1200))
    y = np.where(X[:, :4].sum(axis=1) + 0.5 * rng.normal(size=60) > 0, 1, -1)
    alpha = 0.08
    exact = solved(X, y, "logistic", "l1", "fista", alpha=alpha, tol=1e-10)
    part, penalty = make_loss("logistic"), make_penalty("l1", alpha=alpha)
    risk = build(X, y.astype(float), part, penalty, weights=np.full(60, 1 / 60))
    norms, screened = risk.design.lengths(risk.c), []
    points = coordinate.coordinate(risk, np.zeros(risk.size))
    for _, point in zip(range(15), points):
        value, point.z = risk.dual(point)
        point.gap = point.objective - value
        screened.append(workingset.settled(risk, point, norms, 0.25))
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
    monkeypatch.setattr(products, "LONG", threads_from)
    matrix = sparse.random(83, 57, 0.2, random_state=3, format="csr")
    X, rng = matrix.toarray(), np.random.default_rng(0)
    v, g, c = rng.normal(size=57), rng.normal(size=83), rng.random(83)
    for table in (matrix, matrix.tocsc()):
        assert np.allclose(products.times(table, v), X @ v, atol=1e-14)
        assert np.allclose(products.transposed_times(table, g), g @ X, atol=1e-14)
        assert np.allclose(products.square_sums(table, c), c @ X**2, atol=1e-14)
        store = ColumnStore(table, True)
        for chosen, along in (([3, 9, 40], [3, 9, 11, 40]), ([11, 5], [5, 11, 56])):
            rooms = store.rooms(np.array(chosen), np.array(along))
            for j, room in zip(chosen, rooms, strict=True):
                column = np.zeros(83)
                store.columns.add(room, 1.0, column)
                assert np.array_equal(column, X[:, j])


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
        matrix, y.astype(float), make_loss("squared_hinge"), make_penalty("l1", alpha=0.002),
        weights=np.full(80, 1 / 80), intercept_l1=0.002,
    )  # fmt: skip
    outcome, used, _ = solve(held, tol=1e-9)
    assert used == "coordinate" and outcome.certificate.proven and len(outcome.trace) < 40
    best, _, _ = solve(held, "fista", tol=1e-7, max_iter=50_000)
    assert outcome.certificate.primal <= best.certificate.primal * (1 + 1e-9)


def test_what_a_loss_finds_together_is_what_it_finds_apart():
    loss = make_loss("logistic")
    for y in (-1.0, 1.0):
        for s in (-800.0, -40.0, -1.5, 0.0, 1e-9, 2.0, 36.0, 800.0):
            apart = loss.value(s, y), loss.slope(s, y), loss.curvature(s, y)
            assert np.allclose(loss.together(s, y), apart, rtol=1e-15, atol=0)


def test_out_of_iterations_says_so_with_gap_and_advice():
    X, ys = problem()
    with pytest.warns(NotProvenWarning, match="relative gap of .* allow more iterations") as told:
        solution = minimize(X, ys["logistic"], "logistic", "l1", "fista", alpha=0.01, max_iter=2)
    assert solution.status is Status.NOT_PROVEN and not solution.proven
    assert "not proven" in str(solution.status) and solution.certificate.relative_gap > 1e-6
    assert told[0].filename == __file__ and solution.coefficients is solution.coef
    assert len(solution.trace) == 3 and all(step.seconds >= 0 for step in solution.trace)
    with pytest.warns(NotProvenWarning):
        stochastic = minimize(X, ys["squared"], method="stochastic", max_iter=20)
    assert (
        stochastic.certificate.gap >= 0
        and stochastic.certificate.primal < 1.5 * minimize(X, ys["squared"]).certificate.primal
    )


def test_ctrl_c_returns_the_last_certified_point():
    X, ys = problem()

    def stop(step):
        if step.iteration == 7:
            raise KeyboardInterrupt

    solution = minimize(X, ys["logistic"], "logistic", "l1", "fista", alpha=0.001, callback=stop, tol=1e-12)
    assert solution.status is Status.INTERRUPTED and math.isfinite(solution.certificate.gap)
    assert solution.certificate.primal <= solution.trace[0].objective


def test_stop_rules_by_name():
    X, ys = problem()
    by_gradient = minimize(X, ys["squared"], "squared", "l2", "gradient", alpha=0.1, stop="gradient", tol=1e-6)
    assert by_gradient.certificate.gradient_norm <= 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_decrease = minimize(X, ys["squared"], "squared", "l2", "gradient", alpha=0.1, stop="decrease", tol=1e-3)
    assert len(by_decrease.trace) < len(by_gradient.trace)
    with pytest.raises(tl.UsageError, match="did you mean 'gradient'"):
        minimize(X, ys["squared"], stop="gradiant")


def test_constant_steps_converge_below_the_admissible_range_and_not_above():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=80)
    limit = solved(X, y, method="gradient", step="exact").certificate.largest_step
    inside = solved(X, y, method="gradient", step="constant", rate=0.95 * limit)
    assert inside.proven
    with pytest.warns(NotProvenWarning):
        outside = minimize(X, y, method="gradient", step="constant", rate=1.05 * limit, max_iter=200)
    assert outside.trace[-1].objective > outside.trace[0].objective
    assert solved(X, y, method="gradient", step="constant").proven


def test_paths_are_warm_and_starts_are_used():
    X, ys = problem()
    path = solved(X, ys["squared"], penalty="l1", alpha=[1.0, 0.3, 0.1, 0.03])
    assert [s.alpha for s in path] == [1.0, 0.3, 0.1, 0.03] and all(s.proven for s in path)
    again = solved(X, ys["squared"], penalty="l1", method="fista", alpha=0.03, start=path[-1])
    cold = solved(X, ys["squared"], penalty="l1", method="fista", alpha=0.03)
    assert len(again.trace) < len(cold.trace)


@pytest.mark.parametrize("scale", [1e2, 1e6])
@pytest.mark.parametrize("penalty", [None, "l2", "l1"])
def test_huber_from_zero_on_targets_of_a_large_scale(scale, penalty):
    """At zero every residual is beyond delta, so that no row has curvature."""
    X, ys = problem(1)
    y = scale * (ys["huber"] - 3.0)
    solution = solved(X, y, "huber", penalty, alpha=1e-3, tol=1e-6)
    assert solution.proven and solution.certificate.gap >= -1e-12 * solution.certificate.primal
    other = minimize(X, y, "absolute", penalty, alpha=1e-3, tol=1e-6) if penalty is None else None
    if other is not None:  # delta·|r| − ½delta² ≤ huber ≤ delta·|r|
        delta = 1.35
        assert solution.certificate.dual <= delta * other.certificate.primal
        assert solution.certificate.primal >= delta * other.certificate.dual - 0.5 * delta**2


def test_the_insensitive_tube_agrees_with_the_peer():
    from sklearn.svm import LinearSVR

    X, ys = problem(2, scales=False)
    y, C, epsilon = ys["squared"], 0.3, 0.25
    ours = solved(
        X,
        y,
        "epsilon_insensitive",
        "l2",
        epsilon=epsilon,
        alpha=1.0 / (C * N),
        intercept=False,
        tol=1e-7,
        max_iter=50_000,
    )
    peer = LinearSVR(C=C, epsilon=epsilon, fit_intercept=False, tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, y)
    r = np.abs(y - X @ peer.coef_)
    theirs = np.maximum(r - epsilon, 0.0).mean() + 0.5 * (peer.coef_ @ peer.coef_) / (C * N)
    assert ours.certificate.dual <= theirs and ours.certificate.primal <= theirs * (1.0 + 1e-6)
    assert np.allclose(ours.coef, peer.coef_, atol=1e-3)
    with pytest.raises(tl.UsageError, match="method 'newton' needs"):
        minimize(X, y, "epsilon_insensitive", "l2", "newton")


def test_glmnets_problem_in_another_scaling():
    """‖y − Xβ‖² + λ‖β‖₁ without intercept is 2n times the mean form with alpha = λ/(2n): checked by its conditions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 20))
    y = X[:, :5] @ rng.normal(size=5) + rng.normal(size=100)
    solution = solved(X, y, penalty="l1", alpha=8.0 / 200, intercept=False, tol=1e-12)
    correlation = 2 * X.T @ (y - X @ solution.coef)
    moved = solution.coef != 0
    assert np.allclose(correlation[moved], 8.0 * np.sign(solution.coef[moved]), atol=1e-4)
    assert (np.abs(correlation[~moved]) <= 8.0 + 1e-4).all()


def test_penalty_weights_bounds_and_groups_mean_what_they_say():
    X, ys = problem(scales=False)
    y = ys["squared"]
    weights = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1e6])
    solution = solved(X, y, penalty="l1", alpha=0.3, penalty_weights=weights)
    assert solution.coef[5] == 0.0 and solution.coef[0] != 0.0
    boxed = solved(X, y, penalty="l2", alpha=0.01, lower=-0.1, upper=0.2)
    assert boxed.coef.min() >= -0.1 - 1e-12 and boxed.coef.max() <= 0.2 + 1e-12 and boxed.proven
    grouped = solved(X, y, penalty="group_l1", alpha=0.6, groups=GROUPS)
    zero = [not grouped.coef[g == GROUPS].any() for g in range(3)]
    whole = [bool((grouped.coef[g == GROUPS] != 0).all()) for g in range(3)]
    assert any(zero) and all(z or w for z, w in zip(zero, whole, strict=True))


class Tilted(NamedTuple):
    """A user's own loss: value and slope only."""

    lean: float = 0.7
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = score - y
        return self.lean * r * r if r > 0.0 else (1.0 - self.lean) * r * r

    def slope(self, score, y):
        r = score - y
        return 2.0 * self.lean * r if r > 0.0 else 2.0 * (1.0 - self.lean) * r


class Capped(NamedTuple):
    """A user's own penalty: |w| up to a cap on w."""

    alpha: float = 0.1
    cap: float = 0.5

    def value(self, w, weight):
        return self.alpha * weight * abs(w) if abs(w) <= self.cap else math.inf

    def prox(self, w, step, weight):
        size = max(0.0, abs(w) - step * self.alpha * weight)
        return math.copysign(min(size, self.cap), w)

    def conjugate(self, z, weight):
        return self.cap * max(0.0, abs(z) - self.alpha * weight)


def test_a_users_loss_and_penalty_are_certified_too():
    X, ys = problem(scales=False)
    own = solved(X, ys["squared"], Tilted(), "l2", alpha=0.1)
    assert own.proven and own.method == "owlqn"
    capped = solved(X, ys["squared"], Tilted(), Capped())
    assert capped.proven and np.abs(capped.coef).max() <= 0.5 + 1e-12 and capped.method == "fista"
    with pytest.raises(tl.UsageError, match="needs a loss with a curvature"):
        minimize(X, ys["squared"], Tilted(), "l2", "newton")


def test_edges_one_row_one_column_constant_collinear_wide():
    one_row = solved(np.array([[2.0, -1.0]]), [3.0], penalty="l2", alpha=0.5)
    assert one_row.proven and one_row.intercept == pytest.approx(3.0)
    one_column = solved(np.arange(5.0)[:, None], [0.0, 1.0, 2.0, 3.0, 5.0])
    assert one_column.coef[0] == pytest.approx(1.2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=40)
    constant = solved(np.column_stack([X, np.full(40, 7.0)]), y, penalty="l1", alpha=0.1)
    assert constant.proven and constant.coef[3] == 0.0
    collinear = np.column_stack([X, X[:, 0], 3 * X[:, 1]])
    for method in ("newton", "irls", "normal", "qr", "svd", "coordinate", "fista"):
        assert solved(collinear, y, method=method).certificate.primal == pytest.approx(
            solved(X, y).certificate.primal, rel=1e-6
        )
    wide = rng.normal(size=(10, 40))
    assert solved(wide, rng.normal(size=10), penalty="l1", alpha=0.05).proven
    assert solved(wide, rng.normal(size=10), penalty="l2", alpha=0.05, method="newton").proven


def test_refusals_name_the_place_and_the_remedy():
    X, ys = problem(scales=False)
    y = ys["squared"]
    with pytest.raises(tl.UsageError, match="no method named 'newtn'; did you mean 'newton'"):
        minimize(X, y, method="newtn")
    with pytest.raises(tl.UsageError, match="no loss named 'hubr'; did you mean 'huber'"):
        minimize(X, y, loss="hubr")
    with pytest.raises(tl.UsageError, match="alpha must be 0 or more, not -1"):
        minimize(X, y, penalty="l1", alpha=-1.0)
    with pytest.raises(tl.UsageError, match="method 'newton' needs a penalty without corners"):
        minimize(X, y, penalty="l1", method="newton")
    with pytest.raises(tl.UsageError, match="method 'svd' needs squared loss"):
        minimize(X, ys["logistic"], "logistic", method="svd")
    with pytest.raises(tl.UsageError, match="needs `groups`"):
        minimize(X, y, penalty="group_l1")
    with pytest.raises(tl.DataError, match="one class"):
        minimize(X, np.ones(N), "logistic")
    with pytest.raises(tl.DataError, match="1 NaN or infinite values, the first in row 3, column 1"):
        minimize(np.where(np.arange(N * D).reshape(N, D) == 19, np.nan, X), y)
    with pytest.raises(tl.DataError, match=r"y holds -1\.0 in row"):
        minimize(X, -np.ones(N), "poisson")
    with pytest.raises(tl.UsageError, match="no parameter 'delta'"):
        minimize(X, y, "squared", delta=2.0)


def test_the_plot_is_drawn(tmp_path):
    X, ys = problem()
    solution = solved(X, ys["squared"], penalty="l1", alpha=0.1, method="fista")
    solution.plot(tmp_path / "gap.png")
    assert (tmp_path / "gap.png").stat().st_size > 5000
    assert "fista" in str(solution) and "proven" in str(solution)
