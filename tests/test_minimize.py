"""Every solver by name: the same certified optimum, gaps that bound it from any point, honest ends, plain refusals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from solving import GROUPS, LOSSES, PENALTIES, D, N, options_of, problem, solved

import trueline as tl
from trueline.batch import duality
from trueline.batch.methods import METHODS
from trueline.batch.problem import as_targets, build
from trueline.estimators.minimize import minimize
from trueline.objective.losses import resolve_loss
from trueline.objective.penalties import resolve_penalty


@pytest.mark.parametrize("loss", LOSSES)
def test_every_method_that_fits_reaches_the_same_certified_optimum(loss):
    X, ys = problem()
    fitted = 0
    for penalty in PENALTIES:
        found = {}
        for method in METHODS:
            try:
                solution = solved(X, ys[loss], loss, penalty, method, tol=1e-6, **options_of(penalty, 0.02))
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
        assert solved(X, ys[loss], loss, penalty, **options_of(penalty, 0.02)).proven
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
    part = resolve_loss(loss)
    targets, _ = as_targets(ys[loss], part, N)
    penalty = resolve_penalty(name, alpha=0.1) if name else resolve_penalty(None)
    risk = build(X, targets, part, penalty, weights=np.full(N, 1.0 / N), intercept=intercept)
    key = (loss, name, seed, intercept)
    if key not in OPTIMA:
        if loss in ("absolute", "hinge") and name == "nonnegative":
            return
        OPTIMA[key] = solved(
            X, ys[loss], loss, name, tol=1e-9, intercept=intercept, **options_of(name, 0.1)
        ).certificate.primal
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    theta = rng.normal(size=risk.size) * data.draw(st.sampled_from([0.01, 0.3, 3.0]))
    if name == "nonnegative":
        theta[: risk.design.d] = np.abs(theta[: risk.design.d])
    value = duality.dual_value(risk, risk.point(theta)).value
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
        one = solved(X, ys["logistic"], "logistic", penalty, method, tol=1e-9, **options_of(penalty, 0.02))
        other = solved(same, ys["logistic"], "logistic", penalty, method, tol=1e-9, **options_of(penalty, 0.02))
        assert abs(one.certificate.primal - other.certificate.primal) <= 2e-9
        assert np.allclose(X @ one.coef + one.intercept, X @ other.coef + other.intercept, atol=2e-3)


def test_weights_are_repetitions_and_zero_weights_are_absent():
    X, ys = problem(2)
    counts = np.random.default_rng(0).integers(0, 4, N)
    counts[ys["squared_hinge"] > 0][:1] = 1
    repeated, labels = np.repeat(X, counts, axis=0), np.repeat(ys["logistic"], counts)
    for penalty in ("l1", "l2"):
        one = solved(
            X, ys["logistic"], "logistic", penalty, sample_weight=counts, tol=1e-10, **options_of(penalty, 0.05)
        )
        other = solved(repeated, labels, "logistic", penalty, tol=1e-10, **options_of(penalty, 0.05))
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("scale", [1e2, 1e6])
@pytest.mark.parametrize("penalty", [None, "l2", "l1"])
def test_huber_from_zero_on_targets_of_a_large_scale(scale, penalty):
    """At zero every residual is beyond delta, so that no row has curvature."""
    X, ys = problem(1)
    y = scale * (ys["huber"] - 3.0)
    solution = solved(X, y, "huber", penalty, tol=1e-6, **options_of(penalty, 1e-3))
    assert solution.proven and solution.certificate.gap >= -1e-12 * solution.certificate.primal
    other = minimize(X, y, "absolute", penalty, tol=1e-6) if penalty is None else None
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
    with pytest.raises(tl.DataError, match="1 unusable entry: column 'x1' has NaN in row 3"):
        minimize(np.where(np.arange(N * D).reshape(N, D) == 19, np.nan, X), y)
    with pytest.raises(tl.DataError, match=r"y holds -1\.0 in row"):
        minimize(X, -np.ones(N), "poisson")
    with pytest.raises(tl.UsageError, match="delta goes with 'huber', not with this loss and penalty"):
        minimize(X, y, "squared", delta=2.0)


def test_the_plot_is_drawn(tmp_path):
    X, ys = problem()
    solution = solved(X, ys["squared"], penalty="l1", alpha=0.1, method="fista")
    solution.plot(tmp_path / "gap.png")
    assert (tmp_path / "gap.png").stat().st_size > 5000
    assert "fista" in str(solution) and "proven" in str(solution)
