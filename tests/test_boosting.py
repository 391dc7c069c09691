"""AdaBoost: the best stump by brute force, the bound on any data, agreement with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.certificates.certificate import Status


def test_check_estimator():
    check_estimator(tl.AdaBoost(rounds=20))


@given(st.integers(0, 100_000))
@settings(max_examples=40, deadline=None)
def test_every_stump_is_the_best_one_and_the_bound_holds(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, 15)), int(rng.integers(1, 4))
    X = rng.integers(0, 5, size=(n, d)) * 10.0 ** rng.integers(-3, 4)
    y = rng.choice([0, 1], n)
    y[:2] = 0, 1
    weights = rng.uniform(0.1, 3.0, n)
    model = tl.AdaBoost(rounds=6).fit(X, y, weights)
    proof, t = model.certificate_, np.where(y == 1, 1.0, -1.0)
    D = weights / weights.sum()
    product = 1.0
    for column, threshold, vote in model.stumps_:
        h = np.where(X[:, column] > threshold, 1.0, -1.0) * np.sign(vote)
        error = D[h != t].sum()
        cuts = [(X[:, [j]] > v) for j in range(d) for v in [-np.inf, *np.unique(X[:, j])]]
        least = min(min(e, 1 - e) for e in (D[np.where(cut[:, 0], 1.0, -1.0) != t].sum() for cut in cuts))
        assert error == pytest.approx(least, abs=1e-9)
        D = D * np.exp(-abs(vote) * t * h)
        product *= D.sum()
        D /= D.sum()
    if model.stumps_:
        assert proof.proven and proof.bound == pytest.approx(product, rel=1e-9)
        wrong = model.decision_function(X) * t <= 0.0
        assert proof.training_error == pytest.approx(weights[wrong].sum() / weights.sum(), abs=1e-12)
        assert proof.training_error <= proof.bound <= np.exp(-2 * len(model.stumps_) * proof.edge**2) * (1 + 1e-9)
        assert proof.below_theta <= proof.margin_bound + 1e-12
    else:
        assert proof.status is Status.DEGENERATE


def test_agrees_with_the_peer_on_real_data(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    A, B, a, b = train_test_split(X, y, random_state=0)
    ours = tl.AdaBoost(rounds=60).fit(A, a)
    peer = AdaBoostClassifier(n_estimators=60, random_state=0).fit(A, a)
    assert ours.score(B, b) >= peer.score(B, b) - 0.02
    first = peer.estimators_[0].tree_
    assert ours.stumps_[0][0] == first.feature[0] and ours.stumps_[0][1] == pytest.approx(first.threshold[0])
    proof = ours.certificate_
    assert proof.proven and proof.training_error <= proof.bound < 0.01 and proof.smallest_margin > 0
    assert np.all(np.diff(ours.bounds_[0]) < 0)
    ours.save(tmp_path / "b.tl")
    again = tl.load(tmp_path / "b.tl")
    assert (again.decision_function(B) == ours.decision_function(B)).all() and again.certificate_ == proof


def test_several_classes_and_refusals():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = tl.AdaBoost(rounds=40).fit(X, names)
    assert model.score(X, names) > 0.95 and model.certificate_.proven and len(model.bounds_) == 3
    assert model.plot().get_xlabel() == "round"
    flat = tl.AdaBoost().fit(np.ones((4, 1)), [0, 1, 0, 1])
    assert flat.certificate_.status is Status.DEGENERATE and not flat.stumps_
    with pytest.raises(tl.UsageError, match="rounds"):
        tl.AdaBoost(rounds=0).fit(X, y)
    with pytest.raises(tl.DataError, match="one class only"):
        tl.AdaBoost().fit(X, np.zeros(150))


def test_the_bounds_foretell_which_family_wins():
    found = tl.compare_geometries(dimensions=120, examples=600, random_state=1)
    sparse, dense = (
        {c.figure: c for c in found.contests if c.world == world}
        for world in dict.fromkeys(c.world for c in found.contests)
    )
    for contest in (sparse["squared loss"], sparse["mistakes"], dense["squared loss"], dense["mistakes"]):
        assert all(m <= b for m, b in zip(contest.measured, contest.bounds))
    assert sparse["squared loss"].foretold == sparse["squared loss"].winner == "multiplicative"
    assert sparse["mistakes"].foretold == sparse["mistakes"].winner == "multiplicative"
    assert dense["squared loss"].foretold == dense["squared loss"].winner == "additive"
    assert dense["test error"].foretold == dense["test error"].winner == "additive"
    assert found.plot()[0].get_xlabel() == "examples" and "Winnow" in str(found)
    assert found.to_dict()["contests"][0]["winner"] == "multiplicative"
    with pytest.raises(tl.UsageError, match="odd"):
        tl.compare_geometries(relevant=2)
