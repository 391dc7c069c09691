"""Probabilities only where a loss has them, and from the first example on where the classes are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.errors import TruelineError, UsageError

rng = np.random.default_rng(3)
X = rng.normal(size=(120, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=120)
LABELS = np.where(Y > 0, "yes", "no")


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "perceptron"])
def test_a_loss_without_probabilities_has_no_predict_proba(loss, tmp_path):
    model = tl.OnlineClassifier(loss=loss)
    for _ in range(2):  # before and after the fit
        assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_proba_one")
        with pytest.raises(AttributeError, match="predict_proba"):
            model.predict_proba(X)
        model.fit(X, LABELS)
    stack = StackingClassifier([("a", tl.OnlineClassifier(loss=loss)), ("b", tl.Perceptron())], cv=3).fit(X, LABELS)
    assert stack.score(X, LABELS) > 0.7
    with pytest.raises(AttributeError):
        VotingClassifier([("a", tl.OnlineClassifier(loss=loss))], voting="soft").fit(X, LABELS).predict_proba(X)
    model.save(tmp_path / "m.tl")
    assert not hasattr(tl.load(tmp_path / "m.tl"), "predict_proba")


def test_the_logistic_loss_has_them():
    for model in (tl.OnlineClassifier(), tl.OnlineClassifier(geometry="additive", rate=0.1)):
        assert hasattr(model, "predict_proba")
        np.testing.assert_allclose(model.fit(X, LABELS).predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_scikit_learns_checks(loss):
    expected = {"check_sample_weight_equivalence_on_dense_data": "an order", "check_sample_weight_equivalence_on_sparse_data": "an order"}  # fmt: skip
    check_estimator(tl.OnlineClassifier(loss=loss), expected_failed_checks=expected, on_skip=None)


def test_before_the_first_label_known_classes_are_equally_likely():
    for classes in ([False, True], ["a", "b", "c"], [3, 1, 2]):
        model = tl.OnlineClassifier(classes=classes)
        first = model.predict_proba_one({"x": 1.0})
        assert first == dict.fromkeys(sorted(classes), 1.0 / len(classes))
        model.learn_one({"x": 1.0}, classes[0])
        assert set(model.predict_proba_one({"x": 1.0})) == set(classes)
    assert tl.OnlineClassifier().predict_proba_one({"x": 1.0}) == {}


def test_a_network_says_what_it_draws_instead():
    model = tl.NeuralNetwork((4,), epochs=3, random_state=0).fit(X, Y)
    with pytest.raises(UsageError, match=r"plot\(\)"):
        model.regret_plot()
    assert model.progress_table().split()[:2] == ["pass", "loss"] and len(model.progress_table().splitlines()) == 4
    model.plot()


TABLE = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    city=np.array(["Bath", "Cork", "Ulm"])[rng.integers(0, 3, 120)], w=rng.uniform(0.5, 2.0, 120), label=LABELS, y=Y
)


def sources(folder):
    TABLE.to_csv(folder / "t.csv", index=False)
    yield from (TABLE, pl.from_pandas(TABLE), str(folder / "t.csv"), {name: TABLE[name].to_numpy() for name in TABLE})


LINEAR = [
    (lambda: tl.LogisticRegression(C=np.inf), "label"), (lambda: tl.LogisticRegression(), "label"), (lambda: tl.LinearSVC(), "label"),
    (lambda: tl.GeneralizedRegression("squared"), "y"), (lambda: tl.GeneralizedRegression("huber"), "y"),
    (lambda: tl.RobustRegression(), "y"), (lambda: tl.OutlierMixture(), "y"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "target"), LINEAR)
def test_linear_models_of_many_passes_read_any_source(make, target, tmp_path):
    dummies = pd.get_dummies(TABLE["city"], prefix="city")[["city_Cork", "city_Ulm"]].to_numpy(dtype=float)
    rows = TABLE["a"].to_numpy() > -1.0
    design = np.column_stack([X[:, :2], dummies])
    direct = make().fit(design[rows], TABLE[target][rows], TABLE["w"][rows])
    for source in sources(tmp_path):
        model = make().fit(source, target=target, features=["a", "b", "city"], weights="w", where="a > -1")
        assert list(model.feature_names_in_) == ["a", "b", "city[Cork]", "city[Ulm]"]
        np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-6, atol=1e-9)
        assert (np.asarray(model.predict(source)) == np.asarray(model.predict(TABLE))).all()
        np.testing.assert_allclose(model.score(TABLE[rows], TABLE[target][rows]), direct.score(design[rows], TABLE[target][rows]))  # fmt: skip
        model.save(tmp_path / "m.tl")
        assert (np.asarray(tl.load(tmp_path / "m.tl").predict(TABLE)) == np.asarray(model.predict(TABLE))).all()
        assert f"{target}" in model.summary().title
    with pytest.raises(UsageError, match="no option 'featrues'; did you mean 'features'"):
        make().fit(TABLE, target=target, featrues=["a"])
    with pytest.raises(UsageError, match="folds is for models of one pass"):
        make().fit(TABLE, target=target, folds=3)


@pytest.mark.parametrize(
    "model",
    [tl.AdaBoost(), tl.KernelRegression(), tl.LocalRegression(), tl.GenerativeClassifier(), tl.NeuralNetwork(),
     tl.OnlineRegressor(), tl.KernelPerceptron(), tl.Perceptron()],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_models_that_take_arrays_say_so(model):
    with pytest.raises(TruelineError, match="array"):
        model.fit(TABLE, target="label")
