"""LinearSVC: scikit-learn's objective with its penalised intercept, proven by the dual."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC as Peer
from sklearn.utils.estimator_checks import check_estimator
from tolerances import EPS

import trueline as tl


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)) + 0.5
    return X, np.where(X @ [1.0, -1.0, 0.5, 0.0, 0.2] + 0.7 * rng.normal(size=150) > 0.3, "b", "a")


def test_check_estimator():
    check_estimator(tl.LinearSVC())


@pytest.mark.parametrize(("loss", "penalty"), [("hinge", "l2"), ("squared_hinge", "l2"), ("squared_hinge", "l1")])
@pytest.mark.parametrize("scaling", [1.0, 5.0])
def test_agrees_with_the_peer(data, loss, penalty, scaling):
    X, y = data
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    shared = {"C": 0.3, "intercept_scaling": scaling, "class_weight": "balanced"}
    ours = tl.LinearSVC(penalty, loss, tol=1e-9, **shared).fit(X, y)
    peer = Peer(penalty, loss, dual=loss == "hinge", tol=1e-10, max_iter=1_000_000, **shared).fit(X, y)
    assert ours.certificate_.proven and ours.certificate_.gap >= -1e-12
    assert np.allclose(ours.coef_, peer.coef_, atol=2e-4) and np.allclose(ours.intercept_, peer.intercept_, atol=2e-4)
    assert tl.LinearSVC(penalty, loss, C=0.3).fit(X, y, weights).certificate_.proven


def test_dual_coordinates_and_interior_point_meet(data):
    X, y = data
    dual = tl.LinearSVC(loss="hinge", method="coordinate", C=0.1, tol=1e-6, max_iter=20_000).fit(X, y)
    inner = tl.LinearSVC(loss="hinge", method="interior", C=0.1, tol=1e-8).fit(X, y)
    assert dual.certificate_.proven and inner.certificate_.proven
    assert dual.certificate_.primal == pytest.approx(inner.certificate_.primal, rel=2e-6)
    assert dual.certificate_.dual <= inner.certificate_.primal * (1.0 + len(y) * EPS)


def test_several_classes_saved_and_loaded(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = tl.LinearSVC(C=0.5).fit(X, y)
    peer = Peer(C=0.5, dual=False, tol=1e-10, max_iter=100_000).fit(X, y)
    assert np.allclose(model.coef_, peer.coef_, atol=1e-4) and (model.predict(X) == peer.predict(X)).all()
    model.save(tmp_path / "svc.tl")
    assert (tl.load(tmp_path / "svc.tl").decision_function(X) == model.decision_function(X)).all()


def test_refusals(data):
    X, y = data
    with pytest.raises(tl.UsageError, match="did you mean 'hinge'"):
        tl.LinearSVC(loss="hing").fit(X, y)
    with pytest.raises(tl.UsageError, match="goes with loss='squared_hinge'"):
        tl.LinearSVC("l1", "hinge").fit(X, y)
    with pytest.raises(tl.UsageError, match="a positive number"):
        tl.LinearSVC(C=0.0).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        tl.LinearSVC().fit(X, ["a"] * len(y))
