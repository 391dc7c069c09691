"""Partitions of float64 alone take a shorter way, and what several jobs read is kept encoded: nobody may see that."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import numpy as np
import pandas as pd
import pytest
from clusters import SIZES, client, distance, same_bits, split

import trueline as tl
from trueline.data.blocks import Columns
from trueline.data.encode import Encoder
from trueline.scale import looking, passes, statistic
from trueline.scale.cluster import Scan
from trueline.scale.numbers import Encoded, Numbers, as_table

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

__all__ = ["client"]  # the fixture

OPTIONS = {"target": "y", "folds": 3, "features": ["a", "b", "c"]}


@pytest.fixture(scope="module")
def floats() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(4000, 3)) * [1.0, 10.0, 1e-3] + [0.0, 1e4, 0.0], columns=list("abc"))
    frame.iloc[::7, 0] = -0.0
    score = frame.a + 0.1 * (frame.b - 1e4)
    label = (score + rng.logistic(size=4000) > 0).astype(float)
    return frame.assign(y=score + rng.normal(size=4000), label=label)


def pieces(rows: pd.DataFrame) -> dict[str, object]:
    by_columns = [rows[name].to_numpy() for name in rows]
    return {"rows": np.ascontiguousarray(rows.to_numpy()), "columns": Columns(by_columns)}


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("apart", [False, True])
def test_blocks_folds_and_schema_are_those_of_the_encoder(floats, layout, apart):
    rows = floats[[*"abc", "y"]]
    piece = pieces(rows)[layout]
    declared = dict(as_table(piece, dict.fromkeys(rows)).schema)
    short = statistic.encoder_of(3, iter([piece]), declared, OPTIONS, apart=apart)
    assert isinstance(short, Numbers)
    long = Encoder(as_table(piece, declared), part=0, **OPTIONS)
    ours, theirs = list(short), list(long)
    for k in (1, 2, 4):
        joined = [np.concatenate([np.asarray(block[k][:]) for block in blocks]) for blocks in (ours, theirs)]
        np.testing.assert_array_equal(*joined)
    assert ours[0].terms == theirs[0].terms and short.schema == long.schema and short.kinds == long.kinds


BAD = {"an infinite feature": ("b", np.inf), "a gap": ("c", np.nan), "an infinite target": ("y", -np.inf), "no target": ("y", np.nan)}  # fmt: skip


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("what", BAD)
def test_refusals_are_those_of_the_encoder(floats, layout, what):
    name, value = BAD[what]
    rows = floats[[*"abc", "y"]].copy()
    rows.loc[[17, 3001], name] = value
    rows.loc[2000, "a"] = np.nan  # after or before it: one of them is named, the same by both
    piece = pieces(rows)[layout]
    declared = dict(as_table(piece, dict.fromkeys(rows)).schema)
    told = []
    for pieces_of in (piece, as_table(piece, declared)):
        with pytest.raises(tl.DataError) as refusal:
            list(statistic.encoder_of(3, iter([pieces_of]), declared, OPTIONS, apart=layout == "columns"))
        told.append(str(refusal.value))
    assert told[0] == told[1] and "partition 3" in told[0]


@pytest.mark.parametrize("kind", ["scan", "look"])
@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("what", BAD)
def test_columns_that_are_checked_by_their_sums_are_refused_alike(floats, what, folds, kind):
    from trueline.objective.losses import resolve_loss

    name, value = BAD[what]
    rows = floats[[*"abc", "y"]].copy()
    rows.loc[[17, 3001], name] = value
    rows.loc[2000, "a"] = np.nan
    piece = pieces(rows)["columns"]
    declared = dict(as_table(piece, dict.fromkeys(rows)).schema)
    options = OPTIONS | {"folds": folds}
    task = Scan(declared, options) if kind == "scan" else looking.Look(declared, options, resolve_loss("huber"), True)
    with pytest.raises(tl.DataError) as refusal:
        list(statistic.encoder_of(3, iter([piece]), declared, options, apart=True))
    with pytest.raises(tl.DataError) as later:
        task.run(3, iter([piece]))
    assert str(refusal.value) == str(later.value)


def test_huge_numbers_that_are_finite_are_not_taken_for_gaps(floats):
    rows = floats[[*"abc", "y"]].copy()
    rows["b"] *= 1e200
    piece = pieces(rows)["columns"]
    declared = dict(as_table(piece, dict.fromkeys(rows)).schema)
    with pytest.raises(tl.DataError, match="squares overflow"):
        Scan(declared, OPTIONS | {"folds": None}).run(3, iter([piece]))


def test_a_partition_that_is_kept_answers_as_one_that_is_read(floats):
    piece = pieces(floats[[*"abc", "label"]])["columns"]
    declared = dict(as_table(piece, dict.fromkeys([*"abc", "label"])).schema)
    options = {"target": "label", "features": ["a", "b", "c"], "labels": True}
    from trueline.objective.losses import resolve_loss

    look = looking.Look(declared, options, resolve_loss("logistic"), True)
    kept = Encoded(statistic.encoder_of(0, iter([piece]), declared, options, apart=True))
    raw, *others = (look.run(0, source) for source in (iter([piece]), kept, kept))
    assert others == [raw, raw]
    moments, told = pickle.loads(raw).told()
    assert moments.n == len(floats) and told["expansion"].points.keys() == {0}
    theta = np.array([0.1, 0.2, 0.3, 0.4])
    step = passes.Pass(
        declared, options, moments.designed().schema, moments.terms, resolve_loss("logistic"), (0, 1), moments.total.mean[0][:3],
        np.ones(3), True, 4000.0, theta, 0.9 * theta, 0.95 * theta,
    )  # fmt: skip
    assert step.run(0, kept) == step.run(0, iter([piece]))
    scan = Scan(declared, {"target": "label", "folds": None})
    assert scan.run(0, iter([piece.__class__([column[:0] for column in piece.columns])])) == statistic.NOTHING


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_a_persisted_table_gives_the_bits_of_one_that_is_read(client, floats, sizes):
    table = split(floats, sizes)
    kept = table.persist()
    lazy, held = (tl.scan(one, target="y", features=[*"abc"]) for one in (table, kept))
    assert same_bits(lazy, held)
    assert distance(tl.scan(floats[[*"abc", "y"]], target="y"), held) < 1e-12
    fits = [tl.LogisticRegression(tol=1e-9).fit(one, target="label", features=[*"abc"]) for one in (table, kept)]
    assert (fits[0].coef_ == fits[1].coef_).all() and fits[0].certificate_ == fits[1].certificate_
    here = tl.LogisticRegression(tol=1e-9).fit(floats[[*"abc"]], floats.label)
    np.testing.assert_allclose(fits[1].coef_, here.coef_, rtol=1e-8)
    assert fits[1].certificate_.proven


def test_a_refusal_of_a_kept_partition_names_it(client, floats):
    gaps = floats.copy()
    gaps.loc[3999, "b"] = np.nan
    table = split(gaps, SIZES["seven"]).persist()
    with pytest.raises(tl.DataError, match=r"column 'b' of partition 6 has a missing value in row 574"):
        tl.LogisticRegression().fit(table, target="label", features=[*"abc"])


def test_a_worker_killed_between_newton_steps_changes_nothing(client, floats, monkeypatch):
    table = split(floats, SIZES["seven"]).persist()
    expected = tl.LogisticRegression(tol=1e-9).fit(table, target="label", features=[*"abc"])
    from trueline.scale.dask import DaskTable

    pids, jobs, combine = list(client.run(os.getpid).values()), [], DaskTable.combine

    def killing(self, task, size):
        jobs.append(type(task).__name__)
        if len(jobs) == 2:
            os.kill(pids[0], signal.SIGKILL)
        return combine(self, task, size)

    monkeypatch.setattr(DaskTable, "combine", killing)
    found = tl.LogisticRegression(tol=1e-9).fit(table, target="label", features=[*"abc"])
    assert jobs[:2] == ["Look", "Pass"]
    client.wait_for_workers(2, timeout=60)
    assert set(pids) != set(client.run(os.getpid).values())
    assert (found.coef_ == expected.coef_).all() and found.certificate_ == expected.certificate_


def test_arrays_that_are_persisted(floats):
    X, y = floats[[*"abc"]].to_numpy(), floats.label.to_numpy()
    with dask.config.set(scheduler="synchronous"):
        arrays = da.from_array(X, chunks=(1500, 2)).persist(), da.from_array(y, chunks=1500).persist()
        there = tl.LogisticRegression(tol=1e-9).fit(*arrays)
    here = tl.LogisticRegression(tol=1e-9).fit(X, y)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)


def test_a_thread_of_the_user_may_fit_too(floats):
    table = dd.from_pandas(floats, npartitions=3)
    found: list[tl.Moments] = []
    runs = [threading.Thread(target=lambda: found.append(tl.scan(table, target="y"))) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    assert len(found) == 2 and distance(*found) < 1e-13
