"""The estimators' own doors for Dask tables: what one machine refuses in a sentence is refused there in the same one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import one_process, split

import trueline as tl
from trueline.cli import main

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402

__all__ = ["one_process"]  # fixture


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    return made.assign(y=made.a - made.b + rng.normal(size=60))


@pytest.fixture
def labelled(rows) -> pd.DataFrame:
    return rows.assign(y=np.where(rows.y > 0, "yes", "no"))


def refusal(ask) -> str:
    with pytest.raises(tl.TruelineError) as refused:
        ask()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_mean_of_learners_cannot_be_replayed_and_says_why(rows, tmp_path, capsys):
    model = tl.OnlineRegressor(geometry="normalised", rate=0.5).fit(split(rows, [30, 30]), target="y")
    for data in (rows, (rows[["a", "b"]].to_numpy(), rows.y.to_numpy())):
        assert "how the rows were divided" in refusal(lambda data=data: tl.verify(model, data))
    model.save(tmp_path / "on.tl")
    rows.to_parquet(tmp_path / "data.parquet")
    code = main(["verify", str(tmp_path / "on.tl"), str(tmp_path / "data.parquet"), "--target", "y"])
    told = capsys.readouterr().err
    assert code == 4 and "how the rows were divided" in told and "please report" not in told


@pytest.mark.parametrize("setting", [{"C": 0}, {"C": -1.0}, {"C": "1"}, {"C": np.nan}, {"solver": "junk"}], ids=str)
def test_settings_of_logistic_regression_are_checked_there_as_here(labelled, setting):
    model = tl.LogisticRegression(**setting)
    here = refusal(lambda: model.fit(labelled[["a", "b"]], labelled.y))
    assert here == refusal(lambda: model.fit(split(labelled, [30, 30]), target="y"))
    assert next(iter(setting)) in here


@pytest.mark.parametrize(
    "setting", [{"loss": "logistic"}, {"loss": "squared_hinge"}, {"loss": "hinge"}, {"method": "junk"}], ids=str
)
def test_settings_of_generalized_regression_are_checked_there_as_here(rows, setting):
    model = tl.GeneralizedRegression(**({"loss": "squared"} | setting))
    here = refusal(lambda: model.fit(rows[["a", "b"]], rows.y))
    assert here == refusal(lambda: model.fit(split(rows, [30, 30]), target="y"))


def test_support_vectors_are_refused_there_in_a_sentence(labelled):
    table = split(labelled, [30, 30])
    for ask in (
        lambda: tl.LinearSVC().fit(table, target="y"),
        lambda: tl.LinearSVC().fit(table[["a", "b"]], table.y),
    ):
        assert "LinearSVC is not taken on Dask and Spark: take tl.LogisticRegression" in refusal(ask)
    assert tl.LinearSVC().fit(labelled, target="y").predict(labelled).shape == (60,)


@pytest.mark.parametrize("options", [{"interval": 2}, {"interval": 1.5}, {"interval": 0.9, "of": "zz"}], ids=str)
def test_an_interval_that_cannot_be_is_refused_at_the_call(rows, options):
    table = split(rows, [30, 30])
    model = tl.LinearRegression().fit(table, target="y")
    here = refusal(lambda: model.predict(rows[["a", "b"]].to_numpy(), **options))
    assert here == refusal(lambda: model.predict(table, **options))
    made = model.predict(table, interval=0.9, of="mean").compute()
    assert list(made.columns) == ["prediction", "low", "high"] and (made.low < made.high).all()


def test_what_a_model_does_not_have_is_refused_at_the_call(rows, labelled):
    table = split(rows, [30, 30])
    ridge = tl.Ridge().fit(table, target="y")
    assert "intervals and tests come from least squares" in refusal(lambda: ridge.predict(table, interval=0.9))
    table = split(labelled, [30, 30])
    online = tl.OnlineClassifier(loss="hinge", geometry="additive", rate=0.1).fit(table, target="y")
    assert not hasattr(online, "predict_proba")
    assert len(online.predict(table).compute()) == 60


def test_scores_and_the_way_back_from_components_are_refused_in_a_sentence(rows, labelled):
    table, labels = split(rows, [30, 30]), split(labelled, [30, 30])
    for model, source in (
        (tl.Ridge(), table),
        (tl.LinearRegression(), table),
        (tl.LogisticRegression(), labels),
        (tl.OnlineRegressor(geometry="normalised", rate=0.5), table),
        (tl.OnlineClassifier(geometry="additive", rate=0.1), labels),
    ):
        model.fit(source, target="y")
        told = refusal(lambda model=model, source=source: model.score(source, source.y))
        assert told.startswith("score is not taken on Dask and Spark: compute predictions")
        here = source.compute()
        assert -1.0 < model.score(here[["a", "b"]].to_numpy(), here.y) <= 1.0
    parts = tl.PCA(n_components=1).fit(table, features=["a", "b"])
    scores = parts.transform(table)
    for ask, word in (
        (lambda: parts.inverse_transform(scores), "inverse_transform"),
        (lambda: parts.inverse_transform(scores.to_dask_array(lengths=True)), "inverse_transform"),
        (lambda: parts.score(table), "a likelihood"),
    ):
        assert refusal(ask).startswith(f"{word} is not taken on Dask and Spark")
    assert parts.inverse_transform(scores.compute().to_numpy()).shape == (60, 2)


def test_a_model_of_a_frame_takes_an_array_there_as_here(rows, labelled):
    """Its columns have no names, so they count by their order."""
    plain = rows[["a", "b"]].to_numpy()
    array = da.from_array(plain, chunks=(25, 1))
    for model, frame in (
        (tl.LinearRegression(), rows),
        (tl.Lasso(alpha=0.01), rows),
        (tl.LogisticRegression(), labelled),
        (tl.OnlineRegressor(geometry="normalised", rate=0.5), rows),
    ):
        model.fit(split(frame, [30, 30]), target="y")
        here, there = model.predict(plain), model.predict(array).compute()
        assert (here == there).all() if frame is labelled else np.allclose(here, there, rtol=1e-12, atol=1e-14)
        assert (
            list(model.feature_names_in_) == ["a", "b"] and len(model.predict(split(frame, [30, 30])).compute()) == 60
        )
        assert "the array has 3 columns and the model 2" in refusal(
            lambda model=model: model.predict(da.zeros((4, 3), chunks=2))
        )
    parts = tl.PCA().fit(split(rows, [30, 30]), features=["a", "b"])
    np.testing.assert_allclose(parts.transform(array).compute(), parts.transform(plain), rtol=1e-12, atol=1e-15)
