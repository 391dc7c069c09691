"""LogisticRegression: scikit-learn's meaning, a certified optimum, classes of every kind, inference."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression as Peer
from sklearn.utils.estimator_checks import check_estimator
from tolerances import EPS

import trueline as tl
from trueline.batch.orthant import Pairs
from trueline.batch.softmax import SoftmaxRisk
from trueline.certificates.certificate import Status
from trueline.estimators.proofs import NotProvenWarning


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 100.0, 0.0, -5.0]
    score = X @ [1.0, 0.05, -5.0, 0.3] - 3.5
    return X, (score + rng.logistic(size=400) > 0).astype(int)


def test_check_estimator():
    check_estimator(tl.LogisticRegression())


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_l2_agrees_with_the_peer(binary, C, class_weight):
    X, y = binary
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    ours = tl.LogisticRegression(C=C, class_weight=class_weight).fit(X, y, weights)
    peer = Peer(C=C, class_weight=class_weight, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(X, y, weights)
    assert ours.certificate_.proven
    assert np.allclose(ours.coef_, peer.coef_, rtol=1e-5, atol=1e-7)
    assert np.allclose(ours.intercept_, peer.intercept_, rtol=1e-5)
    assert np.allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert np.allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
def test_multinomial_agrees_with_the_peer(ratio):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = tl.LogisticRegression(C=0.5, l1_ratio=ratio, tol=1e-9).fit(X, names)
    solver = "newton-cholesky" if ratio == 0.0 else "saga"
    peer = Peer(C=0.5, l1_ratio=ratio, solver=solver, tol=1e-7, max_iter=50_000).fit(X, names)
    assert ours.certificate_.proven and ours.coef_.shape == (3, 4)
    w, strength = peer.coef_, 1.0 / (0.5 * len(y))
    loss = -peer.predict_log_proba(X)[np.arange(len(y)), y].mean()
    theirs = loss + strength * (ratio * np.abs(w).sum() + 0.5 * (1.0 - ratio) * (w * w).sum())
    rounding = len(y) * EPS * theirs  # of the sum of the rows' losses
    assert ours.certificate_.dual <= theirs + rounding and ours.certificate_.primal <= theirs * (1.0 + 1e-9)
    assert theirs - ours.certificate_.dual <= 1e-5 * theirs
    assert np.allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-3)
    assert ours.score(X, names) >= 0.93
    if ratio == 1.0:
        assert (ours.coef_ == 0.0).sum() >= 3
    assert np.allclose(ours.intercept_.sum(), 0.0, atol=1e-9)


def test_multinomial_without_penalty_and_with_other_methods():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 3))
    y = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(300, 3)), axis=1)
    ours = tl.LogisticRegression(C=np.inf).fit(X, y)
    assert ours.certificate_.proven and ours.certificate_.relative_gap <= 1e-6
    for solver in ("owlqn", "fista"):
        other = tl.LogisticRegression(C=np.inf, solver=solver, tol=1e-7).fit(X, y)
        assert other.certificate_.primal == pytest.approx(ours.certificate_.primal, rel=1e-6)
    sparse_fit = tl.LogisticRegression(C=1.0).fit(sparse.csr_matrix(X), y)
    dense_fit = tl.LogisticRegression(C=1.0).fit(X, y)
    assert np.allclose(sparse_fit.coef_, dense_fit.coef_, atol=1e-5)


def test_separable_data_are_named():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(NotProvenWarning, match="the classes are separable"):
        model = tl.LogisticRegression(C=np.inf).fit(X, y)
    assert model.certificate_.status is Status.DEGENERATE and "add an L2 penalty" in model.certificate_.advice
    assert tl.LogisticRegression(C=1.0).fit(X, y).certificate_.proven
    rng = np.random.default_rng(0)
    half = np.zeros((200, 2))
    half[:, 0] = rng.normal(size=200)
    labels = (half[:, 0] + rng.logistic(size=200) > 0).astype(int)
    half[:40, 1] = 1.0  # this column is 1 only for one class
    labels[:40] = 1
    with pytest.warns(NotProvenWarning, match="quasi-separable"):
        model = tl.LogisticRegression(C=np.inf).fit(half, labels)
    assert model.certificate_.status is Status.DEGENERATE


def test_inference_agrees_with_statsmodels(binary):
    import statsmodels.api as sm

    X, y = binary
    model = tl.LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    peer = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-12)
    found = model.model_.statistics
    errors = np.sqrt(np.diag(found["covariance"]))
    assert np.allclose(errors, peer.bse, rtol=1e-5)
    assert found["log_likelihood"] == pytest.approx(peer.llf, rel=1e-9)
    assert found["null_deviance"] == pytest.approx(-2 * peer.llnull, rel=1e-9)
    assert found["aic"] == pytest.approx(peer.aic, rel=1e-9) and found["bic"] == pytest.approx(peer.bic, rel=1e-9)


def test_saved_and_loaded_is_the_same(binary, tmp_path):
    X, y = binary
    for labels in (y, np.array(["no", "yes"])[y], load_iris(return_X_y=True)[1][:]):
        rows = X if len(labels) == len(X) else load_iris(return_X_y=True)[0]
        model = tl.LogisticRegression(C=0.5).fit(rows, labels)
        model.save(tmp_path / "m.tl")
        again = tl.load(tmp_path / "m.tl")
        assert type(again) is tl.LogisticRegression and again.get_params() == model.get_params()
        assert (again.predict_proba(rows) == model.predict_proba(rows)).all()
        assert (again.predict(rows) == model.predict(rows)).all()
        assert again.certificate_.gap == model.certificate_.gap


def test_long_inputs_take_the_sampled_fused_route_to_the_same_optimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 4)) + 3.0
    y = (X @ [1.0, -1.0, 0.5, 0.2] - 2.0 + rng.logistic(size=100_000) > 0).astype(int)
    order = np.argsort(y, kind="stable")  # sorted by class: a sample of the first rows would see one class
    model = tl.LogisticRegression().fit(X[order], y[order])
    assert model.certificate_.proven
    peer = Peer(solver="newton-cholesky", tol=1e-9).fit(X, y)
    assert np.allclose(model.coef_, peer.coef_, atol=2e-3) and np.allclose(model.intercept_, peer.intercept_, atol=2e-3)
    small = tl.LogisticRegression().fit(X[order].astype(np.float32), y[order])
    assert small.certificate_.proven and np.allclose(small.coef_, model.coef_, atol=2e-3)


@pytest.mark.parametrize("seed", [0, 4, 5])
@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("kind", ["plain", "weighted", "badly scaled", "nearly separable"])
def test_newton_ends_at_rounding_not_at_a_halved_step(seed, C, kind):
    """The sum of thousands of losses rounds by more than the last steps gain: they are judged by slopes instead."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(12_000, 3)), rng.normal(size=3)
    y = (X @ w * (30.0 if kind == "nearly separable" else 1.0) + rng.logistic(size=12_000) > 0).astype(int)
    weights = rng.exponential(size=12_000) ** 4 if kind == "weighted" else None
    if kind == "badly scaled":
        X = X * [1e6, 1e-6, 1.0] + [1e8, 0.0, -5.0]
    proof = tl.LogisticRegression(C=C, tol=1e-9).fit(X, y, weights).certificate_
    assert proof.proven and proof.gradient_norm <= 1e-10


def test_warm_start_and_refusals(binary):
    X, y = binary
    model = tl.LogisticRegression(warm_start=True, solver="owlqn").fit(X, y)
    first = int(model.n_iter_[0])
    assert int(model.fit(X, y).n_iter_[0]) < first
    for parameters, words in (
        ({"C": -1.0}, "C of LogisticRegression is -1.0"),
        ({"l1_ratio": 2.0}, "l1_ratio of LogisticRegression is 2.0"),
        ({"solver": "newtn"}, "did you mean 'newton'"),
        ({"class_weight": "balancd"}, "class_weight of LogisticRegression is 'balancd'.* mean 'balanced'"),
    ):
        with pytest.raises(tl.UsageError, match=words):
            tl.LogisticRegression(**parameters).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        tl.LogisticRegression().fit(X, np.zeros(len(y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        deprecated = tl.LogisticRegression(penalty=None).fit(X, y)
    assert np.allclose(deprecated.coef_, tl.LogisticRegression(C=np.inf).fit(X, y).coef_)


@pytest.mark.parametrize(("n", "d", "classes"), [(90, 150, 3), (400, 40, 5), (300, 12, 10)])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_several_classes_need_no_matrix_of_all_second_derivatives(monkeypatch, n, d, classes, C):
    from trueline.batch.softmax import SoftmaxRisk

    def refused(self, point):
        raise AssertionError("the matrix of all second derivatives was formed")

    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=d)) + rng.normal(size=d)
    y = (X @ rng.normal(size=(d, classes)) / d + rng.gumbel(size=(n, classes))).argmax(axis=1)
    newton = tl.LogisticRegression(C=C, solver="newton", tol=1e-10).fit(X, y)
    monkeypatch.setattr(SoftmaxRisk, "loss_hessian", refused)
    model = tl.LogisticRegression(C=C).fit(X, y)
    proof, tight = model.certificate_, newton.certificate_
    assert proof.proven and tight.dual - 1e-9 <= proof.primal <= tight.primal + 1e-6 * abs(tight.primal)
    assert proof.dual <= tight.primal + 1e-12
    sharper = tl.LogisticRegression(C=C, tol=1e-10).fit(X, y)
    assert sharper.certificate_.proven and np.allclose(
        sharper.coef_, newton.coef_, atol=1e-3 * np.abs(newton.coef_).max()
    )
    assert np.allclose(sharper.predict_proba(X), newton.predict_proba(X), atol=1e-4)


def test_quasi_newton_pairs_make_the_product_of_bfgs():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(6, 6))
    hessian, bound = root @ root.T + np.eye(6), np.diag(rng.uniform(1.0, 3.0, 6))
    for first, matrix in ((None, np.eye(6)), (lambda g: np.linalg.solve(bound, g), np.linalg.inv(bound))):
        pairs, kept = Pairs(4, 6, first), []
        assert not pairs.add(np.ones(6), np.zeros(6))  # no curvature, no pair
        for _ in range(7):
            step = rng.normal(size=6)
            assert pairs.add(step, hessian @ step)
            kept = [*kept, (step, hessian @ step)][-4:]
            inverse = matrix * (step @ hessian @ step) / (kept[-1][1] @ matrix @ kept[-1][1])
            for s, y in kept:
                left = np.eye(6) - np.outer(s, y) / (s @ y)
                inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
            g = rng.normal(size=6)
            assert np.allclose(pairs.times(g), inverse @ g, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("n", "d", "classes"), [(120, 240, 3), (400, 20, 6)])
def test_few_dual_points_prove_a_fit_of_several_classes(monkeypatch, n, d, classes):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d))
    y = np.argmax(2.0 * X @ rng.normal(size=(d, classes)) / np.sqrt(d) + rng.gumbel(size=(n, classes)), axis=1)
    formed, dual = [], SoftmaxRisk.dual
    monkeypatch.setattr(SoftmaxRisk, "dual", lambda risk, point: formed.append(0) or dual(risk, point))
    model = tl.LogisticRegression(tol=1e-7).fit(X, y)
    # One at the start, one or two where the gradient foretells a proof, one at the end.
    assert model.certificate_.proven and len(formed) <= 5
    best = tl.LogisticRegression(tol=1e-12).fit(X, y).certificate_.dual
    assert model.certificate_.primal - best <= 1e-10 * best
