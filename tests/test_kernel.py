"""Kernel regression against scikit-learn and against leaving rows out; the kernel perceptron's bound on any data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import check_estimator
from tolerances import EPS

import trueline as tl
from trueline.beyond.kernel import EXACT_ROWS
from trueline.certificates.certificate import Status


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=80)


class Cauchy(NamedTuple):
    """1/(1 + gamma‖x − z‖²): a user's own kernel."""

    gamma: float = 0.5

    def value(self, dot, norm_x, norm_z):
        return 1.0 / (1.0 + self.gamma * max(0.0, norm_x + norm_z - 2.0 * dot))


def cauchy(X, Z):
    return 1.0 / (1.0 + 0.5 * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


@pytest.mark.parametrize("estimator", [tl.KernelRegression(), tl.KernelPerceptron(epochs=3)])
def test_check_estimator(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize(
    ("kernel", "peer"), [("gaussian", "rbf"), ("polynomial", "poly"), ("linear", "linear"), (cauchy, None)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_kernel_ridge(data, kernel, peer, weighted):
    X, y = data
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else None
    ours = tl.KernelRegression(0.1, kernel=kernel, gamma=0.3, fit_intercept=False).fit(X, y, weights)
    theirs = KernelRidge(alpha=0.1, kernel=peer or "precomputed", gamma=0.3)
    theirs.fit(X if peer else cauchy(X, X), y, weights)
    assert np.allclose(ours.coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-8)
    assert np.allclose(ours.predict(X), theirs.predict(X if peer else cauchy(X, X)), atol=1e-8)
    assert ours.certificate_.proven and ours.certificate_.relative_gap < len(y) * EPS


@pytest.mark.parametrize("form", ["exact", "nystrom", "random_features"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_is_leaving_one_out(data, form, fit_intercept):
    X, y = data
    weights = np.random.default_rng(2).uniform(0.2, 3.0, len(y))
    settings_ = {"gamma": 0.4, "fit_intercept": fit_intercept, "approximation": form, "components": 80}
    model = tl.KernelRegression(0.2, random_state=3, **settings_).fit(X, y, weights)
    assert model.certificate_.proven
    for i in (0, 17, 79):
        others = np.arange(len(y)) != i
        if form == "exact":
            left = tl.KernelRegression(0.2, **settings_).fit(X[others], y[others], weights[others])
            expected = y[i] - left.predict(X[i : i + 1])[0]
        else:  # the same features without the row: its weight next to nothing
            light = np.where(others, weights, 1e-12)
            expected = y[i] - tl.KernelRegression(0.2, random_state=3, **settings_).fit(X, y, light).predict(X[[i]])[0]
        assert model.leave_one_out_residuals_[i] == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_all_landmarks_are_the_exact_answer(data):
    X, y = data
    exact = tl.KernelRegression(0.3).fit(X, y)
    nystrom = tl.KernelRegression(0.3, approximation="nystrom", components=80).fit(X, y)
    assert np.allclose(exact.predict(X), nystrom.predict(X), atol=1e-6)
    assert exact.certificate_.primal == pytest.approx(nystrom.certificate_.primal, rel=1e-7)


def test_penalty_by_leave_one_out(data):
    X, y = data
    for form in ("exact", "nystrom"):
        chosen = tl.KernelRegression("auto", approximation=form, components=60, random_state=0).fit(X, y)
        errors = chosen.model_.tried[:, 1]
        assert chosen.leave_one_out_error_ == pytest.approx(errors.min(), rel=1e-6)
        assert 5 < np.argmin(errors) < len(errors) - 2
        assert chosen.plot().get_xlabel() == "alpha"
    bars = tl.KernelRegression(0.3).fit(X, y).plot()
    assert sum(bar.get_height() for bar in bars.patches) == len(y)


def test_beyond_the_named_size_landmarks_are_used():
    rng = np.random.default_rng(4)
    X = rng.uniform(-3, 3, size=(EXACT_ROWS + 1, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    model = tl.KernelRegression(0.1, gamma=1.0, components=40, random_state=0).fit(X, y)
    assert model.model_.form == "nystrom" and "40 landmarks" in str(model.certificate_)
    assert model.leave_one_out_error_ == pytest.approx(0.01, rel=0.1)


@given(st.integers(0, 10_000), st.floats(-6, 3), st.floats(-3, 1))
@settings(max_examples=25, deadline=None)
def test_no_coefficients_beat_the_dual_value(seed, log_alpha, log_gamma):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 2)) * 10.0 ** rng.integers(-2, 3), rng.standard_cauchy(12)
    alpha, gamma = 10.0**log_alpha, 10.0**log_gamma
    model = tl.KernelRegression(alpha, gamma=gamma).fit(X, y)
    proof = model.certificate_
    K = np.exp(-gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    for size in (0.0, 1e-6, 1e-3, 1.0):
        c = model.coef_ + size * rng.normal(size=12)
        rest = y - K @ c - model.intercept_ - size * rng.normal()
        value = 0.5 * rest @ rest + 0.5 * alpha * c @ K @ c
        assert value >= proof.dual * (1 - 1e-9) - 1e-12
    assert proof.gap >= 0.0 and proof.primal == pytest.approx(proof.dual + proof.gap)


def test_a_users_kernel_runs_compiled_and_is_handed_back(data, tmp_path):
    X, y = data
    part = tl.KernelRegression(0.1, kernel=Cauchy(0.5)).fit(X, y)
    function = tl.KernelRegression(0.1, kernel=cauchy).fit(X, y)
    assert np.allclose(part.predict(X), function.predict(X), atol=1e-9)
    part.save(tmp_path / "k.tl")
    assert (tl.load(tmp_path / "k.tl", parts=[Cauchy]).predict(X) == part.predict(X)).all()
    with pytest.raises(tl.ModelError, match="parts=\\[Cauchy\\]"):
        tl.load(tmp_path / "k.tl")
    with pytest.raises(tl.ModelError, match="cannot be put in a file"):
        function.save(tmp_path / "f.tl")
    with pytest.raises(tl.UsageError, match="positive definite"):
        tl.KernelRegression(0.1, kernel=lambda X, Z: -(X @ Z.T)).fit(X, y)
    weak = tl.KernelRegression(100.0, kernel=lambda X, Z: X @ Z.T - 0.5 * X[:, :1] @ Z[:, :1].T * 4).fit(X, y)
    assert weak.certificate_.status is Status.VOID


def test_saved_and_loaded(data, tmp_path):
    X, y = data
    for form in ("exact", "nystrom", "random_features"):
        model = tl.KernelRegression("auto", approximation=form, components=30).fit(X, y)
        model.save(tmp_path / "m.tl")
        again = tl.load(tmp_path / "m.tl")
        assert (again.predict(X) == model.predict(X)).all()
        assert str(again.certificate_) == str(model.certificate_) and again.certificate_.gap == model.certificate_.gap


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"alpha": -1}, "alpha"), ({"alpha": "best"}, "auto"), ({"kernel": "gausian"}, "did you mean 'gaussian'"),
        ({"gamma": 0}, "gamma"), ({"kernel": "polynomial", "degree": 1.5}, "degree"), ({"approximation": "x"}, "'nystrom' or"),
        ({"components": 0}, "components"), ({"kernel": lambda X, Z: np.ones(3)}, "one value a pair"),
        ({"kernel": "linear", "approximation": "random_features"}, "Gaussian"), ({"tol": -1.0}, "tol"),
    ],
)  # fmt: skip
def test_refusals(data, parameters, match):
    with pytest.raises(tl.UsageError, match=match):
        tl.KernelRegression(**parameters).fit(*data)


# The perceptron


def rings(n, seed):
    rng = np.random.default_rng(seed)
    radius = rng.choice([1.0, 2.0], n)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), np.where(radius > 1.5, "out", "in")


def test_dual_form_with_a_linear_kernel_is_the_perceptron():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.5 * rng.normal(size=300) > 0.2
    ours = tl.KernelPerceptron("linear", fit_intercept=True, epochs=2).fit(X, y)
    theirs = tl.Perceptron(epochs=2).fit(X, y)
    assert ours.certificate_.mistakes == theirs.certificate_.mistakes
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X))
    assert ours.certificate_.bound == pytest.approx(theirs.certificate_.bound, rel=0.02)


def test_rings_are_learned_with_few_mistakes():
    X, y = rings(800, 0)
    model = tl.KernelPerceptron(gamma=1.0).fit(X, y)
    proof = model.certificate_
    assert model.score(*rings(300, 1)) == 1.0
    assert proof.proven and proof.mistakes <= proof.bound < 100 and proof.margin > 0
    w, S = proof.comparator, model.support_
    signs = np.where(np.hypot(*S.T) > 1.5, 1.0, -1.0)
    K = np.exp(-((S[:, None, :] - S[None, :, :]) ** 2).sum(axis=2))
    slack = np.maximum(0.0, 1.0 - signs * (K @ w))
    assert proof.bound == pytest.approx((np.sqrt(w @ K @ w) + np.linalg.norm(slack)) ** 2, rel=1e-5)


def test_budget_keeps_the_newest_and_voids_the_bound():
    X, y = rings(800, 2)
    model = tl.KernelPerceptron(gamma=1.0, budget=8).fit(X, y)
    proof = model.certificate_
    assert len(model.support_) == 8 and proof.mistakes > 8
    assert proof.status is Status.VOID and "budget" in proof.advice and not np.isfinite(proof.bound)
    unhurt = tl.KernelPerceptron(gamma=1.0, budget=500).fit(X, y)
    assert unhurt.certificate_.proven and unhurt.score(X, y) > 0.95


@given(st.integers(0, 10_000), st.booleans(), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_mistakes_never_exceed_the_bound(seed, intercept, epochs):
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy(size=(60, 2)) * 10.0 ** rng.integers(-1, 2)
    y = rng.choice([0, 1], 60)
    y[:2] = 0, 1
    proof = tl.KernelPerceptron(gamma=0.5, fit_intercept=intercept, epochs=epochs).fit(X, y).certificate_
    assert proof.proven and proof.mistakes <= proof.bound


def test_many_mistakes_are_bounded_in_a_span(monkeypatch):
    import trueline.beyond.kernelperceptron as module

    X, y = rings(400, 5)
    y[:60] = np.where(np.arange(60) % 2, "in", "out")
    model = tl.KernelPerceptron(gamma=1.0).fit(X, y)
    whole = model.certificate_.bound
    monkeypatch.setattr(module, "FACTORED", 20)
    part = model.certificate_
    assert part.proven and part.mistakes <= part.bound and part.bound >= 0.9 * whole


def test_stops_and_goes_on_as_if_never_stopped(tmp_path):
    X, y = rings(300, 3)
    for budget in (None, 10):
        whole = tl.KernelPerceptron(gamma=1.0, budget=budget).fit(X, y)
        half = tl.KernelPerceptron(gamma=1.0, budget=budget).partial_fit(X[:150], y[:150])
        half.save(tmp_path / "p.tl")
        half = tl.load(tmp_path / "p.tl").partial_fit(X[150:], y[150:])
        assert (half.decision_function(X) == whole.decision_function(X)).all()
        assert half.certificate_.mistakes == whole.certificate_.mistakes


def test_dicts_and_several_classes():
    X, y = rings(200, 4)
    one = tl.KernelPerceptron(gamma=1.0, classes=["in", "out"])
    for row, label in zip(X, y):
        one.learn_one({"a": row[0], "b": row[1]}, label)
    block = tl.KernelPerceptron(gamma=1.0).fit(X, y)
    assert [one.predict_one({"a": a, "b": b}) for a, b in X[:20]] == block.predict(X[:20]).tolist()
    three = np.where(X[:, 0] > 0.5, "right", y)
    model = tl.KernelPerceptron(gamma=1.0, epochs=5).fit(X, three)
    assert model.score(X, three) > 0.9 and model.certificate_.proven
    with pytest.raises(ValueError, match="budget"):
        tl.KernelPerceptron(budget=0).fit(X, y)


def test_kernel_perceptron_tells_its_progress(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    for y in ((X[:, 0] > 0).astype(int), np.array(list("abc"))[(X[:, 0] > 0) * 1 + (X[:, 1] > 0)]):
        whole = tl.KernelPerceptron(gamma=0.3).fit(X, y)
        assert [line["examples"] for line in whole.progress_] == [2**k for k in range(8)]
        pieces = tl.KernelPerceptron(gamma=0.3)
        for i in range(0, 200, 37):
            pieces.partial_fit(X[i : i + 37], y[i : i + 37], classes=np.unique(y))
        pieces.save(tmp_path / "half.tl")
        assert whole.progress_ == pieces.progress_ == tl.load(tmp_path / "half.tl").progress_
        for line in whole.progress_:
            start = tl.KernelPerceptron(gamma=0.3, classes=np.unique(y)).fit(
                X[: line["examples"]], y[: line["examples"]]
            )
            assert line["bound"] == pytest.approx(start.certificate_.bound, rel=1e-9)
        drawn = whole.regret_plot()
        assert drawn.get_ylabel() == "mistakes" and drawn.lines[-1].get_xdata()[-1] == 200
    assert all("bound" not in line for line in tl.KernelPerceptron(budget=5).fit(X, X[:, 0] > 0).progress_)
