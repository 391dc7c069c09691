"""Nothing that is given is swallowed: every parameter and every option of every public estimator."""

from __future__ import annotations

import inspect
import re
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier

import trueline as tl
from trueline.errors import TruelineError, UsageError
from trueline.estimators.parameters import HOT
from trueline.objective.penalties import L2


class Nonsense:
    """What no parameter can mean."""

    def __repr__(self) -> str:
        return "Nonsense()"


ESTIMATORS = sorted(
    name for name in tl.__all__ if isinstance(getattr(tl, name), type) and issubclass(getattr(tl, name), BaseEstimator)
)
# Values that are wrong for all parameters of these kinds; what is legal for some is left out for them below.
VALUES = (Nonsense(), "nonsense", -1, -0.5, float("nan"), float("inf"), b"auto", {1, 2}, ["x", None])
rng = np.random.default_rng(5)
X = rng.normal(size=(40, 3))
NUMBERS = np.abs(X[:, 0]) + 1.0 + np.arange(40) % 3
LABELS = np.array(["no", "yes"])[(X[:, 0] + 0.5 * rng.normal(size=40) > 0).astype(int)]


def targets(model):
    if type(model).__name__ == "NGram":
        return (["the cat sat", "the dog ran"],)
    if type(model).__name__ in ("PCA", "Basis", "Density"):
        return (X,)
    return X, (LABELS if is_classifier(model) else NUMBERS)


def parameters():
    for name in ESTIMATORS:
        for parameter in inspect.signature(getattr(tl, name)).parameters:
            yield name, parameter


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_has_one_declaration_of_its_legal_values(name):
    cls = getattr(tl, name)
    assert set(cls.legal_values()) == set(inspect.signature(cls).parameters)
    for parameter, rule in cls.legal_values().items():
        default = inspect.signature(cls).parameters[parameter].default
        assert rule.holds(default), (parameter, default)
        assert rule.words and "  " not in rule.words


@pytest.mark.parametrize(("name", "parameter"), list(parameters()))
def test_a_nonsense_value_is_refused_by_the_parameters_name(name, parameter):
    cls = getattr(tl, name)
    rule = cls.legal_values()[parameter]
    wrong = [value for value in VALUES if not rule.holds(value)]
    assert any(isinstance(value, (Nonsense, str, bytes, set)) for value in wrong), "a rule that everything passes"
    for value in wrong:
        model = cls().set_params(**{parameter: value})
        with pytest.raises(UsageError, match=rf"^{parameter} of {name} is .* is accepted") as refused:
            model.fit(*targets(model))
        assert refused.value.where == parameter
        assert clone(model).get_params(deep=False)[parameter] is not None  # held as it was given until fit


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(n, p) for n, p in parameters() if getattr(tl, n).legal_values()[p].holds(Nonsense())],
)
def test_what_cannot_serve_as_a_part_is_refused_by_its_role(name, parameter):
    model = getattr(tl, name)().set_params(**{parameter: Nonsense()})
    with pytest.raises(UsageError, match=rf"Nonsense\(\) cannot serve as an? {parameter}"):
        model.fit(*targets(model))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if hasattr(getattr(tl, n), "partial_fit")])
def test_a_stream_refuses_nonsense_at_its_first_rows(name):
    cls = getattr(tl, name)
    for parameter in inspect.signature(cls).parameters:
        model = cls().set_params(**{parameter: Nonsense()})
        if cls.legal_values()[parameter].holds(Nonsense()):
            continue
        with pytest.raises(UsageError, match=f"^{parameter} of {name} is Nonsense"):
            model.partial_fit(*targets(model))
        if hasattr(model, "learn_one"):
            with pytest.raises(UsageError, match=f"^{parameter} of {name} is Nonsense"):
                model.learn_one({"a": 1.0}, 1)


def public_methods():
    for name in ESTIMATORS:
        cls = getattr(tl, name)
        for method, value in inspect.getmembers(cls):
            own = isinstance(value, types.FunctionType) and value.__module__.startswith("trueline")
            if own and not method.startswith("_") and method not in HOT:
                yield name, method


@pytest.mark.parametrize(("name", "method"), list(public_methods()))
def test_an_unknown_option_is_refused_by_name(name, method):
    model = getattr(tl, name)()
    if not hasattr(model, method):  # of a loss without probabilities, say
        return
    arguments = targets(model) if method in ("fit", "partial_fit", "discriminative_twin") else ()
    with pytest.raises(TruelineError, match="has no option 'smaple_weigth'"):
        getattr(model, method)(*arguments, smaple_weigth=np.ones(40))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_misspelt_parameter_is_refused_with_the_nearest(name):
    cls = getattr(tl, name)
    first = next(iter(inspect.signature(cls).parameters))
    with pytest.raises(UsageError, match=rf"{name} has no option '{first}x'; did you mean '{first}'"):
        cls(**{first + "x": 1})


def test_the_nearest_option_is_named():
    for model in (tl.LinearRegression(), tl.Ridge(), tl.RidgeCV(), tl.Lasso(), tl.LassoCV(), tl.OnlineRegressor()):
        with pytest.raises(UsageError, match="no option 'smaple_weight'; did you mean 'sample_weight'"):
            model.fit(X, NUMBERS, smaple_weight=np.ones(40))
    with pytest.raises(UsageError, match=r"tl.scan has no option 'mising'; did you mean 'missing'"):
        tl.scan({"x": [1.0, 2.0], "y": [1.0, 2.0]}, target="y", mising="drop")
    with pytest.raises(UsageError, match=r"tl.lasso_path has no option 'n_alpha'; did you mean 'n_alphas'"):
        tl.lasso_path(X, NUMBERS, n_alpha=3)
    with pytest.raises(UsageError, match=r"tl.cancel_echo has no option 'dealy'; did you mean 'delay'"):
        tl.cancel_echo(np.zeros(100), np.zeros(100), 8000, dealy=0.1)
    table = pd.DataFrame(X, columns=list("abc")).assign(y=NUMBERS)
    with pytest.raises(UsageError, match="no option 'mising'; did you mean 'missing'"):
        tl.Ridge().fit(table, target="y", mising="drop")


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if hasattr(getattr(tl, n), "learn_one")])
def test_methods_for_one_example_name_the_nearest_option(name):
    model = getattr(tl, name)()
    row, target = {"a": 1.0}, 1
    with pytest.raises(UsageError, match=rf"{name}.learn_one has no option 'weigth'; did you mean 'weight'"):
        model.learn_one(row, target, weigth=2.0)
    for method in ("predict_one", "predict_proba_one"):
        if hasattr(model, method):
            with pytest.raises(UsageError, match=rf"{name}.{method} has no option 'xs'; did you mean 'x'"):
                getattr(model, method)(row, xs=1.0)


SETTINGS_OF_NO_USE = [
    (None, {"alpha": 0.1}, "alpha=0.1 does nothing without a penalty; name one of 'l1', 'l2'"),
    (None, {"alpha": [0.1, 0.2]}, "does nothing without a penalty"),
    ("none", {"l1_ratio": 0.5}, "l1_ratio=0.5 does nothing without a penalty; name one of 'elastic_net' as penalty"),
    ("box", {"alpha": 1.0}, "penalty='box' has no alpha; leave it out, or name one of 'l1'"),
    ("l2", {"alpha": 1.0, "l1_ratio": 0.3}, "penalty='l2' has no l1_ratio; leave it out, or name one of 'elastic_net'"),
    (L2(2.0), {"alpha": 1.0}, "alpha goes with a penalty by name; give it to your own part itself"),
]


@pytest.mark.parametrize(("penalty", "options", "sentence"), SETTINGS_OF_NO_USE)
def test_minimize_refuses_a_setting_that_the_penalty_has_not(penalty, options, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        tl.minimize(X, NUMBERS, penalty=penalty, **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lss": "huber"}, "has no option 'lss'; did you mean 'loss'?"),
        ({"loss": "quantile", "quantil": 0.3}, "has no option 'quantil'; did you mean 'quantile'?"),
        ({"penalty": "l2", "alhpa": 1.0}, "has no option 'alhpa'; did you mean 'alpha'?"),
    ],
)
def test_minimize_names_the_nearest_option(options, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        tl.minimize(X, NUMBERS, **options)


SOURCE_OPTIONS = {
    "where": "a > 0", "weights": "a", "missing": "drop", "formula": "y ~ a", "features": ["a"], "target": "y"
}  # fmt: skip


@pytest.mark.parametrize("option", SOURCE_OPTIONS)
@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n not in ("NGram", "PCA", "Basis", "Density")])
def test_an_option_of_a_source_is_refused_beside_arrays(name, option):
    model = getattr(tl, name)()
    with pytest.raises(TruelineError, match=option):
        model.fit(*targets(model), **{option: SOURCE_OPTIONS[option]})
    assert not hasattr(model, "coef_") and not hasattr(model, "record_")


def test_rivers_name_for_the_weight_of_an_example():
    by_river, by_name = tl.WidrowHoff(rate=0.1), tl.WidrowHoff(rate=0.1)
    for model, options in ((by_river, {"w": 2.0}), (by_name, {"weight": 2.0})):
        for row, y in zip(X, NUMBERS):
            model.learn_one(dict(zip("abc", row)), y, **options)
    np.testing.assert_array_equal(by_river.coef_, by_name.coef_)
    classifier = tl.OnlineClassifier()
    classifier.learn_one({"a": 1.0}, True, w=3.0)
    with pytest.raises(UsageError, match="River's name for weight"):
        by_river.learn_one({"a": 1.0}, 1.0, weight=2.0, w=3.0)


def test_weights_of_a_source_are_one_of_its_columns():
    table = pd.DataFrame(X, columns=list("abc")).assign(y=NUMBERS, w=np.arange(40) % 2 + 1.0)
    with pytest.raises(UsageError, match="weights="):
        tl.LinearRegression().fit(table, target="y", sample_weight=table["w"])
    weighted = tl.LinearRegression().fit(table, target="y", weights="w")
    direct = tl.LinearRegression().fit(X, NUMBERS, sample_weight=table["w"])
    np.testing.assert_allclose(weighted.coef_, direct.coef_, rtol=1e-12)


def test_a_start_that_no_online_learner_takes_is_refused_in_plain_words():
    with pytest.raises(UsageError, match=r"WidrowHoff\.fit has no option 'coef_init'"):
        tl.WidrowHoff().fit(np.eye(3), np.arange(3.0), coef_init=np.zeros(3))
