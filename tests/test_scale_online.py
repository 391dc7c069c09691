"""On Dask: online learners, one a partition, merged by averaging."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from clusters import client, online_rows, split
from tolerances import rounding

import trueline as tl

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.dataframe as dd  # noqa: E402

__all__ = ["client"]  # the fixture


def test_online_learners_merge_to_the_mean_of_one_a_partition(client):
    rows, sizes = online_rows(1500), [0, 900, 1, 599]
    learner = tl.OnlineRegressor(geometry="additive", rate=0.1, loss_range=16.0)
    there = learner.fit(split(rows[[*"abc", "y"]], sizes), target="y")
    edges = np.cumsum([0, *sizes])
    local = [
        tl.OnlineRegressor(geometry="additive", rate=0.1, average=True).fit(part[[*"abc"]], part.y)
        for part in (rows.iloc[a:b] for a, b in itertools.pairwise(edges))
        if len(part)
    ]
    share = np.array([900, 1, 599]) / 1500
    np.testing.assert_allclose(there.coef_, share @ [one.coef_ for one in local], rtol=1e-13)
    proof = there.certificate_
    assert proof.proven and proof.examples == 1500
    # The bound of all rounds at once: the mean loss of all learners, and the deviation of 1,500 rows.
    loss = sum(one.certificate_.loss for one in local)
    np.testing.assert_allclose(proof.loss, loss, rtol=1e-13)
    np.testing.assert_allclose(proof.risk_bound, loss / 1500 + 16.0 * np.sqrt(np.log(20.0) / 3000), rtol=1e-12)
    np.testing.assert_allclose(proof.bound, sum(one.certificate_.bound for one in local), rtol=1e-12)
    u, *_ = np.linalg.lstsq(np.column_stack([np.ones(1500), rows[[*"abc"]]]), rows.y, rcond=None)
    best = float(((np.column_stack([np.ones(1500), rows[[*"abc"]]]) @ u - rows.y) ** 2).sum())
    np.testing.assert_allclose(proof.best_fixed_loss, best, rtol=1e-9)
    assert proof.loss <= proof.bound
    found = there.predict(split(rows[[*"abc"]], sizes))
    assert isinstance(found, dd.Series)
    allowed = rounding(rows[[*"abc"]], there.coef_, there.intercept_)
    assert (np.abs(found.compute().to_numpy() - there.predict(rows[[*"abc"]])) <= allowed).all()


def test_one_partition_is_the_averaged_learner_of_one_machine():
    rows = online_rows(400)
    with dask.config.set(scheduler="synchronous"):
        for made in (tl.WidrowHoff(0.1), tl.ExponentiatedGradient(0.01), tl.OnlineRegressor("huber", "adaptive", 0.5)):
            made.set_params(average=True)
            there = made.fit(split(rows[[*"abc", "y"]], [400]), target="y")
            here = type(made)(**made.get_params()).fit(rows[[*"abc"]], rows.y)
            assert (there.coef_ == here.coef_).all()
            assert there.certificate_.risk_bound == here.certificate_.risk_bound


def test_the_risk_of_the_mean_keeps_its_bound():
    fresh = online_rows(20_000, seed=99)
    with dask.config.set(scheduler="synchronous"):
        for seed in range(12):
            rows = online_rows(300, seed)
            made = tl.WidrowHoff(0.2, loss_range=16.0, confidence=0.9)
            made.fit(split(rows[[*"abc", "y"]], [100] * 3), target="y")
            risk = float(((made.predict(fresh[[*"abc"]]) - fresh.y) ** 2).mean())
            assert made.certificate_.proven and risk <= made.certificate_.risk_bound


def test_classifiers_merge_predict_lazily_and_are_saved(client, tmp_path):
    rows = online_rows(1200)
    frame = split(rows[[*"abc", "label"]], [500, 700])
    made = tl.OnlineClassifier(geometry="additive", rate=0.5, loss_range=8.0).fit(frame, target="label")
    assert list(made.classes_) == ["no", "yes"] and made.certificate_.proven
    chances = made.predict_proba(frame)
    assert isinstance(chances, dd.DataFrame) and list(chances.columns) == ["probability_no", "probability_yes"]
    here = made.predict_proba(rows[[*"abc"]])
    np.testing.assert_allclose(chances.compute().to_numpy(), here, rtol=1e-13)
    arrays = made.predict_proba(rows[[*"abc"]].rename(columns=str)), made.decision_function(frame).compute()
    assert arrays[0].shape == (1200, 2) and arrays[1].name == "score"
    assert list(made.predict(frame).compute()) == list(made.predict(rows[[*"abc"]]))
    made.save(tmp_path / "merged.tl")
    same = tl.load(tmp_path / "merged.tl")
    assert (same.predict_proba(rows[[*"abc"]]) == here).all() and same.certificate_ == made.certificate_
    with pytest.raises(tl.UsageError, match="the mean of 2 learners, which cannot go on"):
        made.partial_fit(rows[[*"abc"]], rows.label)
    with pytest.raises(tl.DataError, match="in partition 0: y has the unknown class 'no'"):
        tl.OnlineClassifier(geometry="additive", rate=0.5, classes=("perhaps", "yes")).fit(frame, target="label")


REFUSED = {
    "geometry='auto', a mixture": tl.OnlineRegressor(),
    "rate='auto', a mixture": tl.WidrowHoff(),
    "the theorem of Perceptron counts": tl.Perceptron(),
    "the theorem of Winnow counts": tl.Winnow(),
    "tl.Ridge": tl.RecursiveLeastSquares(),
    "epochs=1": tl.WidrowHoff(0.1, epochs=2),
    "in partition 0: the update overflows": tl.WidrowHoff(1e9),
}


@pytest.mark.parametrize("sentence", REFUSED, ids=[type(one).__name__ for one in REFUSED.values()])
def test_bad_merges_are_refused_in_a_sentence(sentence):
    rows = split(online_rows(60)[[*"abc", "y"]], [30, 30])
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=sentence) as refusal:
        REFUSED[sentence].fit(rows, target="y")
    assert "\n" not in str(refusal.value)
