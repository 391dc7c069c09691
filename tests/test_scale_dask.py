"""On Dask: the same moments from any partitioning, lazy predictions, refusals that name the partition.

One cluster of two worker processes, on loopback, serves the whole module.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import trueline as tl
from trueline.scale import statistic
from trueline.scale.cluster import Scan, prepared, table_of

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")
pytest.importorskip("distributed", reason="pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return made(4000)


def made(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(n, 4)) * [1.0, 10.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, 3.0], columns=list("abcd"))
    frame["color"] = rng.choice(["blue", "green", "red"], size=n)
    frame.loc[n - 2, "color"] = "unique"  # a level that one partition alone has
    frame["weight"] = rng.integers(0, 4, size=n).astype(float)
    frame.loc[n - 2, "weight"] = 1.0
    frame["y"] = 2.0 * frame.a - 0.1 * frame.b + (frame.color == "red") + rng.normal(size=n)
    return frame


def split(frame: pd.DataFrame, sizes: list[int]) -> dd.DataFrame:
    """A Dask frame with partitions of these sizes."""
    edges = np.concatenate([[0], np.cumsum(sizes)])
    assert edges[-1] == len(frame)
    parts = [frame.iloc[a:b] for a, b in itertools.pairwise(edges)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0], verify_meta=False)


def distance(left: tl.Moments, right: tl.Moments) -> float:
    """The largest difference of products, in units of √(C_ii·C_jj), over all folds."""
    assert left.terms == right.terms and left.parts.keys() == right.parts.keys()
    worst = 0.0
    for name, part in left.parts.items():
        other = right.parts[name]
        assert part.n == other.n
        spread = np.sqrt(np.diagonal(part.products[0]))
        scale = np.outer(spread, spread) + 1e-300
        worst = max(worst, float((np.abs(part.products[0] - other.products[0]) / scale).max()))
        worst = max(
            worst, float((np.abs(part.mean[0] - other.mean[0]) / (np.abs(part.mean[0]) + spread + 1e-300)).max())
        )
    return worst


def same_bits(left: tl.Moments, right: tl.Moments) -> bool:
    (arrays, meta), (others, other) = left.to_state(), right.to_state()
    return meta == other and all(arrays[name].tobytes() == others[name].tobytes() for name in {*arrays, *others})


SIZES = {
    "one": [4000],
    "seven": [571] * 6 + [574],
    "sixty-four": [62] * 63 + [94],
    "empty and skewed": [0, 3990, 0, 0, 1, 1, 0, 8, 0],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_any_partitioning_gives_the_moments_of_one_machine(client, table, sizes):
    here = tl.scan(table, target="y", weights="weight").designed()
    there = tl.scan(split(table, sizes), target="y", weights="weight").designed()
    assert distance(here, there) < 1e-12
    assert there.schema == here.schema
    ours, theirs = (tl.LinearRegression.from_moments(m) for m in (here, there))
    digits = min(ours.certificate_.digits, theirs.certificate_.digits)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10.0**-digits)


def test_twice_the_same_bits_and_any_order_the_same_statistic(client, table):
    frame = split(table, SIZES["seven"])
    first, second = (tl.scan(frame, target="y") for _ in range(2))
    assert same_bits(first, second)
    shuffled = split(table.sample(frac=1.0, random_state=3), SIZES["seven"])
    assert distance(first.designed(), tl.scan(shuffled, target="y").designed()) < 1e-12


def test_a_thousand_partitions_with_folds(client, table):
    here = tl.scan(table, target="y", features=list("abcd"), folds=3)
    there = tl.scan(split(table, [4] * 1000), target="y", features=list("abcd"), folds=3)
    assert distance(here, there) < 1e-12
    ours, theirs = (tl.LinearRegression.from_moments(m) for m in (here, there))
    digits = min(ours.certificate_.digits, theirs.certificate_.digits)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10.0**-digits)


def test_the_size_of_a_statistic_and_its_sample():
    for d in (3, 40):
        rng = np.random.default_rng(d)
        wide = pd.DataFrame(rng.normal(size=(3000, d + 1)), columns=[f"column_{j}" for j in range(d)] + ["y"])
        one, options, _ = prepared(table_of(dd.from_pandas(wide, npartitions=1)), {"target": "y", "folds": 5})
        import polars as pl

        raw = Scan(one.declared, options).run(0, iter([pl.DataFrame(wide)]))
        assert len(raw) <= 5 * (16 * (d + 4) ** 2 + 4096)
        kept, _ = statistic.unpack(raw)
        assert len(kept.sample.rows) > 100
        both = statistic.unpack(
            statistic.merge([raw, Scan(one.declared, options).run(1, iter([pl.DataFrame(-wide)]))])
        )[0]
        # What is left is a true beginning of the sample that one pass would keep.
        whole = tl.scan([wide, -wide], target="y").sample
        assert len(both.sample.rows) and (both.sample.priority == whole.priority[: len(both.sample.rows)]).all()


def test_a_worker_killed_in_the_middle_changes_nothing(client, table):
    def slowly(part: pd.DataFrame) -> pd.DataFrame:
        time.sleep(0.15)
        return part

    frame = split(table, SIZES["seven"]).map_partitions(slowly, meta=table.iloc[:0])
    expected = tl.scan(split(table, SIZES["seven"]), target="y")
    pids = list(client.run(os.getpid).values())
    import threading

    killer = threading.Timer(0.4, os.kill, (pids[0], signal.SIGKILL))
    killer.start()
    found = tl.scan(frame, target="y")
    killer.join()
    assert pids != list(client.run(os.getpid).values())
    assert same_bits(found, expected)
    client.wait_for_workers(2)


def test_arrays_and_cross_validation_agree_with_one_machine(client, table):
    X, y = table[list("abcd")].to_numpy(), table["y"].to_numpy()
    arrays = da.from_array(X, chunks=(700, 2)), da.from_array(y, chunks=700)
    ours = tl.LinearRegression().fit(*arrays)
    here = tl.LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, here.coef_, rtol=1e-11)
    frame = table[[*"abcd", "y"]]
    there = tl.RidgeCV(alphas=(0.1, 1.0, 10.0)).fit(dd.from_pandas(frame, npartitions=5), target="y")
    local = tl.RidgeCV(alphas=(0.1, 1.0, 10.0)).fit(frame, target="y")
    assert there.alpha_ == local.alpha_
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-10)


@pytest.mark.parametrize("missing", ["drop", "mean", "indicator"])
def test_missing_values_by_each_policy(client, table, missing):
    gaps = table.copy()
    gaps.loc[::97, "a"] = np.nan
    gaps.loc[5::501, "color"] = None
    here = tl.scan(gaps, target="y", missing=missing).designed()
    there = tl.scan(split(gaps, SIZES["empty and skewed"]), target="y", missing=missing).designed()
    assert distance(here, there) < 1e-12


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    label = np.where(table.a + rng.normal(size=len(table)) > 0, "yes", "no")
    count = rng.poisson(np.exp(0.3 * table.a + 0.2 * (table.d - 3.0))).astype(float)
    return table[[*"abcd"]].assign(label=label, count=count)


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_logistic_regression_as_on_one_machine(client, table, C):
    rows = labelled(table).drop(columns="count")
    here = tl.LogisticRegression(C=C, tol=1e-9).fit(rows[[*"abcd"]], rows["label"])
    there = tl.LogisticRegression(C=C, tol=1e-9).fit(split(rows, SIZES["empty and skewed"]), target="label")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
    assert there.certificate_.proven and there.certificate_.relative_gap <= 1e-9
    assert there.certificate_.dual <= here.certificate_.primal * (1 + 1e-12)
    assert list(there.classes_) == ["no", "yes"]
    assert there.model_.statistics["jobs"] <= 10  # one an iteration
    guessed = there.predict(split(rows, SIZES["seven"]))
    assert isinstance(guessed, dd.Series)
    assert list(guessed.compute()) == list(here.predict(rows[[*"abcd"]]))


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_generalised_regression_as_on_one_machine(client, table, loss):
    rows = labelled(table).drop(columns="label")
    here = tl.GeneralizedRegression(loss, tol=1e-9).fit(rows[[*"abcd"]], rows["count"])
    there = tl.GeneralizedRegression(loss, tol=1e-9).fit(split(rows, SIZES["seven"]), target="count")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert there.certificate_.proven


def test_what_many_passes_do_not_take_is_said(table):
    rows = labelled(table)
    with pytest.raises(ValueError, match="l1_ratio is 0"):
        tl.LogisticRegression(l1_ratio=1.0).fit(split(rows, [4000]), target="label")
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match="takes two classes"):
            tl.LogisticRegression().fit(split(table[["a", "color"]], [4000]), target="color")
        with pytest.raises(ValueError, match="no penalty and l2"):
            tl.GeneralizedRegression("poisson", penalty="l1").fit(split(rows[["a", "count"]], [4000]), target="count")


def test_predictions_are_lazy_and_keep_their_type(client, table):
    frame = split(table, SIZES["seven"])
    model = tl.LinearRegression().fit(frame, target="y")
    found = model.predict(frame)
    assert isinstance(found, dd.Series) and found.npartitions == 7
    here = model.predict(table)
    np.testing.assert_allclose(found.compute().to_numpy(), here, rtol=1e-14)  # BLAS sums by the block's shape
    rows = table[[*"abcd"]].to_numpy()
    plain = tl.Ridge().fit(rows, table["y"])
    made = plain.predict(da.from_array(rows, chunks=(900, 4)))
    assert isinstance(made, da.Array) and made.chunks == ((900, 900, 900, 900, 400),)
    np.testing.assert_allclose(made.compute(), plain.predict(rows), rtol=1e-14)


def broken(table: pd.DataFrame, change) -> dd.DataFrame:
    parts = [table.iloc[:1000].copy(), table.iloc[1000:2000].copy(), change(table.iloc[2000:].copy())]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=table.iloc[:0], verify_meta=False)


CHANGES = {
    "partition 2 lacks column 'b'": lambda part: part.drop(columns="b"),
    "column 'a' of partition 2 is a category": lambda part: part.assign(a="text"),
    "partition 2 has a column 'z'": lambda part: part.assign(z=1.0),
    "column 'a' of partition 2 has a missing value in row 6": lambda part: part.assign(
        a=np.where(np.arange(len(part)) == 5, np.nan, part.a)
    ),
    "column 'c' of partition 2 has 2000 infinite values": lambda part: part.assign(c=np.inf),
}


@pytest.mark.parametrize("sentence", CHANGES, ids=["lacking", "type", "extra", "missing", "infinite"])
def test_refusals_name_the_partition(client, table, sentence):
    with pytest.raises(tl.DataError, match=sentence) as refusal:
        tl.scan(broken(table, CHANGES[sentence]), target="y")
    assert "\n" not in str(refusal.value)


def test_what_only_the_whole_shows_is_refused_too(client, table):
    with pytest.raises(tl.DataError, match="is constant"):
        tl.scan(split(table.assign(y=1.0), SIZES["seven"]), target="y")
    with pytest.raises(tl.DataError, match="no rows left by where"):
        tl.scan(split(table, SIZES["seven"]), target="y", where="a > 1e9")
    with pytest.raises(tl.UsageError, match="there is no target column 'z'"):
        tl.scan(split(table, SIZES["seven"]), target="z")
    by_level = pd.concat([table[table.color == level] for level in ("red", "blue")])
    sizes = [int((by_level.color == level).sum()) for level in ("red", "blue")]
    there = tl.scan(split(by_level, sizes), target="y").designed()
    assert distance(tl.scan(by_level, target="y").designed(), there) < 1e-12
    assert there.schema.constant == ()


BLOCKER = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "trueline":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture
def elsewhere(tmp_path):
    """(address, scheduler process) of a cluster whose one worker cannot import trueline."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    told = tmp_path / "scheduler.json"
    python = [sys.executable, "-m"]
    common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(told)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*python, "distributed.cli.dask_scheduler", "--port", "0", *common], **quiet)
    worker = subprocess.Popen(
        [*python, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        **quiet,
    )
    try:
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield json.loads(told.read_text())["address"], scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait(10)


@pytest.mark.timeout(120)
def test_a_worker_without_trueline_and_a_scheduler_that_is_gone(elsewhere, table):
    from distributed import Client

    address, scheduler = elsewhere
    frame = split(table, SIZES["seven"])
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}), Client(address, timeout="30s") as client:
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(
            tl.UsageError, match=r"the worker tcp://127.0.0.1:\d+ of Dask has no trueline; install"
        ) as raised:
            tl.scan(frame, target="y")
        assert "\n" not in str(raised.value)
        scheduler.kill()
        scheduler.wait(10)
        deadline = time.monotonic() + 60
        while client.status == "running" and time.monotonic() < deadline:
            time.sleep(0.1)
        with pytest.raises(tl.UsageError, match="the scheduler of Dask cannot be reached; check its address"):
            tl.scan(frame, target="y")


def online_rows(n: int, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(-1.0, 1.0, size=(n, 3)), columns=list("abc"))
    score = frame.a - 0.5 * frame.b
    noisy = score + rng.uniform(-0.5, 0.5, size=n)
    return frame.assign(y=noisy, label=np.where(noisy > 0.0, "yes", "no"))


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
    np.testing.assert_allclose(proof.comparator_loss, best, rtol=1e-9)
    assert proof.loss <= proof.bound
    found = there.predict(split(rows[[*"abc"]], sizes))
    assert isinstance(found, dd.Series)
    np.testing.assert_allclose(found.compute(), there.predict(rows[[*"abc"]]), rtol=1e-14)


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


def test_intervals_are_lazy_too(client, table):
    frame = split(table, SIZES["seven"])
    model = tl.LinearRegression().fit(frame, target="y")
    found = model.predict(frame, interval=0.9)
    assert isinstance(found, dd.DataFrame) and list(found.columns) == ["prediction", "low", "high"]
    here = model.predict(table, interval=0.9)
    np.testing.assert_allclose(found.compute()["low"], here.lower, rtol=1e-12)
    rows = table[[*"abcd"]].to_numpy()
    plain = tl.LinearRegression().fit(rows, table["y"])
    made = plain.predict(da.from_array(rows, chunks=(900, 4)), interval=0.9)
    assert isinstance(made.upper, da.Array)
    np.testing.assert_allclose(made.upper.compute(), plain.predict(rows, interval=0.9).upper, rtol=1e-12)
    gaps = table.assign(a=np.where(np.arange(len(table)) == 3999, np.nan, table.a))
    with pytest.raises(tl.DataError, match="in partition 6: "):
        model.predict(split(gaps, SIZES["seven"])).compute()
