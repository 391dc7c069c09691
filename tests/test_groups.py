"""Groups reach the splitter of cross-validated estimators, directly and by scikit-learn's routing."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, KFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import trueline as tl
from trueline.errors import UsageError

rng = np.random.default_rng(8)
N = 90
G = rng.permutation(np.repeat(np.arange(9), 10))
X = rng.normal(size=(N, 4)) + 2.0 * rng.normal(size=(9, 4))[G]
Y = X @ [1.0, 0.5, 0.0, 0.0] + 3.0 * rng.normal(size=9)[G] + rng.normal(size=N)
ALPHAS = np.geomspace(1e-3, 1e3, 12)
MAKERS = {
    "RidgeCV": lambda cv: tl.RidgeCV(alphas=ALPHAS, cv=cv),
    "LassoCV": lambda cv: tl.LassoCV(alphas=ALPHAS / 100, cv=cv),
    "ElasticNetCV": lambda cv: tl.ElasticNetCV(alphas=ALPHAS / 100, cv=cv),
}


def curve(model):
    return model.scores_ if hasattr(model, "scores_") else model.mse_path_


@pytest.mark.parametrize("splitter", [GroupKFold(3), LeaveOneGroupOut(), GroupShuffleSplit(4, random_state=1)])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_groups_given_to_fit_split_the_rows(make, splitter):
    grouped = make(splitter).fit(X, Y, groups=G)
    listed = make(list(splitter.split(X, Y, G))).fit(X, Y)
    np.testing.assert_allclose(curve(grouped), curve(listed), rtol=1e-10)
    assert grouped.alpha_ == listed.alpha_
    plain = make(KFold(3)).fit(X, Y)
    assert curve(plain).shape != curve(grouped).shape or not np.allclose(curve(plain), curve(grouped), rtol=1e-3)


@pytest.mark.parametrize("cv", [None, 5, KFold(3), "splits"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_groups_that_nothing_would_look_at_are_refused(make, cv):
    cv = list(KFold(3).split(X)) if cv == "splits" else cv
    with pytest.raises(UsageError, match=r"groups goes with a splitter.*GroupKFold"):
        make(cv).fit(X, Y, groups=G)
    with pytest.raises(UsageError, match="group="):
        make(GroupKFold(3)).fit({"x": X[:, 0], "y": Y, "g": G}, target="y", groups=G)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_routing_brings_groups_to_the_splitter(make):
    listed = make(list(GroupKFold(3).split(X, Y, G))).fit(X, Y)
    with sklearn.config_context(enable_metadata_routing=True):
        direct = make(GroupKFold(3)).fit(X, Y, groups=G)
        np.testing.assert_allclose(curve(direct), curve(listed), rtol=1e-10)
        inside = make_pipeline(StandardScaler(), make(GroupKFold(3))).fit(X, Y, groups=G)
        scaled = make(list(GroupKFold(3).split(X, Y, G))).fit(StandardScaler().fit_transform(X), Y)
        np.testing.assert_allclose(curve(inside[-1]), curve(scaled), rtol=1e-8)
        search = GridSearchCV(make(GroupKFold(3)), {"fit_intercept": [True, False]}, cv=GroupKFold(2))
        search.fit(X, Y, groups=G)
        best = make(list(GroupKFold(3).split(X, Y, G))).set_params(**search.best_params_).fit(X, Y)
        np.testing.assert_allclose(curve(search.best_estimator_), curve(best), rtol=1e-10)
        weighted = make(GroupKFold(3)).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(
            weighted, X, Y, cv=GroupKFold(2), params={"groups": G, "sample_weight": np.ones(N)}, error_score="raise"
        )
        assert np.isfinite(found["test_score"]).all()


def test_weights_and_groups_together():
    w = rng.uniform(0.5, 2.0, N)
    for make in MAKERS.values():
        grouped = make(GroupKFold(3)).fit(X, Y, w, groups=G)
        listed = make(list(GroupKFold(3).split(X, Y, G))).fit(X, Y, w)
        np.testing.assert_allclose(curve(grouped), curve(listed), rtol=1e-10)
