"""What a demanding user of Dask meets: every door with the same answer as on one machine, or one sentence."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from clusters import distance, one_process, split

import trueline as tl
from trueline.cli import main

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402

__all__ = ["one_process"]  # fixture


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 240
    made = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n) + 5.0, "kind": rng.choice([*"pqr"], n)})
    made["w"] = rng.integers(0, 3, n).astype(float)
    return made.assign(y=made.a - made.b + rng.normal(size=n))


@pytest.mark.parametrize("options", [{}, {"group": "kind"}, {"folds": None}], ids=str)
def test_rows_without_weight_may_vary_where_the_others_do_not(rows, options):
    """In a small partition a column often changes in such rows alone; that is no column of lost squares."""
    there = tl.scan(split(rows, [2] * 120), target="y", weights="w", **options).designed()
    here = tl.scan(rows, target="y", weights="w", **options).designed()
    assert distance(here, there) < 1e-12 and there.schema.constant == here.schema.constant


def test_rows_without_weight_do_not_hide_a_constant_column_on_one_machine_either(rows):
    still = rows[["a", "w", "y"]].assign(c=np.where(rows.w > 0, 4.0, rows.b))
    assert tl.scan(still, target="y", weights="w").schema.constant == ("c",)
    made = tl.LinearRegression().fit(still, target="y", weights="w")
    assert made.certificate_.dropped == ("c",)


def test_principal_components_are_fitted_where_the_rows_are(rows, monkeypatch):
    numbers = rows[["a", "b", "y"]]
    here = tl.PCA(n_components=2).fit(numbers)
    array = da.from_array(numbers.to_numpy(), chunks=(50, 2))
    frame = split(numbers, [100, 0, 140])
    monkeypatch.setattr(da.Array, "__array__", lambda *_: pytest.fail("the whole array came here"))
    monkeypatch.setattr(type(frame), "__array__", lambda *_: pytest.fail("the whole frame came here"))
    for source in (frame, array):
        there = tl.PCA(n_components=2).fit(source)
        np.testing.assert_allclose(there.explained_variance_, here.explained_variance_, rtol=1e-12)
        np.testing.assert_allclose(there.components_, here.components_, rtol=1e-9)
        assert there.certificate_.proven and hasattr(there, "feature_names_in_") == (source is frame)
        np.testing.assert_allclose(there.transform(numbers.to_numpy()), here.transform(numbers), rtol=1e-9, atol=1e-12)
    only = tl.PCA().fit(split(rows, [240]), features=["a", "b"])
    np.testing.assert_allclose(only.components_, tl.PCA().fit(rows[["a", "b"]]).components_, rtol=1e-9)


def test_a_kernel_perceptron_is_refused_whichever_way_it_is_asked(rows):
    array = da.from_array(rows[["a", "b"]].to_numpy(), chunks=(50, 2))
    for ask in (
        lambda: tl.KernelPerceptron().fit(array, array[:, 0] > 0),
        lambda: tl.KernelPerceptron().fit(split(rows, [240]), target="kind"),
    ):
        with pytest.raises(tl.UsageError, match="it is not taken on Dask and Spark: fit a sample") as refusal:
            ask()
        assert "\n" not in str(refusal.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(2)
    place = tmp_path_factory.mktemp("files")
    for k in range(2):
        frame = pl.DataFrame({"a": rng.normal(size=50), "b": rng.normal(size=50)}).with_columns(y=pl.col("a") * 2.0)
        frame = frame.with_columns(y=pl.col("y") + rng.normal(size=50))
        frame.write_parquet(place / f"part{k}.parquet")
        frame.write_csv(place / f"part{k}.tsv", separator="\t")
    frame.rename({"b": "z"}).write_parquet(place / "other.parquet")
    frame.with_columns(pl.col("b").cast(pl.String)).write_parquet(place / "words.parquet")
    frame.write_csv(place / "packed.csv")
    (place / "rubbish.parquet").write_text("no table")
    return place


def said(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["fit", *map(str, arguments), "-t", "y"])
    out = capsys.readouterr()
    return code, out.out, " ".join(out.err.split())


REFUSED = {
    "lacks column 'b', which": (3, ["part0.parquet", "other.parquet"], []),
    "column 'b' of partition 1 is a": (3, ["part0.parquet", "words.parquet"], []),
    "rubbish.parquet is not a Parquet file": (3, ["rubbish.parquet"], []),
    "Install s3fs": (3, ["s3://nowhere/a.parquet"], []),
    "no file matches": (3, ["none*.parquet"], []),
    "cannot be reached": (2, ["part0.parquet"], ["--scheduler", "tcp://127.0.0.1:1"]),
    "there is no Spark master 'local[x]'": (2, ["part0.parquet"], ["--master", "local[x]"]),
    "there is no Spark master 'nonsense'": (2, ["part0.parquet"], ["--master", "nonsense"]),
    "the Spark master spark://127.0.0.1:1 cannot be reached": (2, ["part0.parquet"], ["--master", "spark://127.0.0.1:1"]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_the_command_refuses_in_a_sentence_with_its_exit_code(capsys, folder, sentence):
    code, names, more = REFUSED[sentence]
    if "s3fs" in sentence:
        try:
            import s3fs  # noqa: F401

            pytest.skip("s3fs is installed here")
        except ImportError:
            pass
    if "master" in sentence and not (shutil.which("java") and _has("pyspark")):
        pytest.skip("a Spark master is looked at where there is Java of version 17 or later and pyspark")
    files = [name if "://" in name else folder / name for name in names]
    engine = [] if more else ["--engine", "dask"]
    found, out, err = said(capsys, *files, *engine, *more)
    assert (found, out) == (code, "") and sentence in err and "unexpected" not in err and "Traceback" not in err
    found, out, err = said(capsys, *files, *engine, *more, "--json")
    assert found == code and sentence in json.loads(out)["error"]["message"]


def _has(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_the_command_reads_tabs_folders_and_packed_files(capsys, folder, tmp_path):
    import gzip

    code, out, err = said(capsys, folder / "part*.tsv", "--engine", "dask", "--json")
    assert code == 0, err
    tabs = json.loads(out)
    code, out, err = said(capsys, folder / "part*.parquet", "--engine", "dask", "--json")
    assert [row["estimate"] for row in tabs["coefficients"]] == pytest.approx(
        [row["estimate"] for row in json.loads(out)["coefficients"]], rel=1e-12
    )
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress((folder / "packed.csv").read_bytes()))
    shutil.copy(folder / "part0.parquet", tmp_path / "one.parquet")
    assert said(capsys, tmp_path / "packed.csv.gz", "--engine", "dask", "-q")[0] == 0
    (tmp_path / "packed.csv.gz").unlink()
    code, out, _ = said(capsys, tmp_path, "--engine", "dask", "--json")
    assert code == 0 and json.loads(out)["n"] == 50


def test_the_command_shows_the_progress_of_the_engine(capsys, folder, monkeypatch):
    import sys

    import dask.diagnostics

    shown: list[dict] = []
    made = dask.diagnostics.ProgressBar

    def bar(**options):
        shown.append(options)
        return made(**options)

    monkeypatch.setattr(dask.diagnostics, "ProgressBar", bar)
    assert said(capsys, folder / "part*.parquet", "--engine", "dask")[0] == 0 and not shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert said(capsys, folder / "part*.parquet", "--engine", "dask", "-q")[0] == 0 and not shown
    assert said(capsys, folder / "part*.parquet", "--engine", "dask")[0] == 0
    assert len(shown) == 1 and shown[0]["out"] is sys.stderr


def test_a_formula_names_the_target_and_a_table_without_one_is_refused(rows):
    frame = split(rows, [100, 0, 140])
    for made in (tl.LinearRegression(), tl.Ridge(), tl.RidgeCV(), tl.Lasso(alpha=0.1), tl.LassoCV(alphas=3)):
        with pytest.raises(tl.UsageError, match="give target= to say which column of the table it is"):
            made.fit(frame)
    with pytest.raises(tl.UsageError, match="give target= to say which column"):
        tl.LogisticRegression().fit(frame)
    with pytest.raises(tl.UsageError, match="give target= to say which column"):
        tl.LinearRegression().fit(frame, formula="a + b")


@pytest.mark.parametrize("loss", ["absolute", "quantile"])
def test_a_loss_with_a_corner_is_refused_before_any_job(rows, loss, monkeypatch):
    monkeypatch.setattr("trueline.scale.dask.DaskTable.combine", lambda *_: pytest.fail("a job was started"))
    with pytest.raises(tl.UsageError, match=f"the loss '{loss}' has a corner and is not taken on Dask and Spark"):
        tl.GeneralizedRegression(loss).fit(split(rows[["a", "b", "y"]], [240]), target="y")


def test_components_transform_lazily_where_the_rows_are(rows):
    numbers = rows[["a", "b", "y"]]
    here = tl.PCA(n_components=2).fit(numbers)
    frame, array = split(numbers, [100, 0, 140]), da.from_array(numbers.to_numpy(), chunks=(50, 3))
    made = here.transform(frame)
    assert type(made) is type(frame) and list(made.columns) == list(here.get_feature_names_out())
    np.testing.assert_allclose(made.compute().to_numpy(), here.transform(numbers), rtol=1e-12)
    scores = tl.PCA(n_components=1).fit(numbers.to_numpy()).transform(array)
    assert isinstance(scores, da.Array) and scores.compute().shape == (240, 1)


def test_true_and_false_stay_so(rows):
    table = rows[["a", "b"]].assign(big=rows.y > rows.y.median())
    model = tl.LogisticRegression().fit(split(table, [100, 140]), target="big")
    here = tl.LogisticRegression().fit(table[["a", "b"]], table.big)
    assert model.classes_.dtype == bool and here.classes_.dtype == bool
    found = model.predict(split(table[["a", "b"]], [240])).compute()
    assert (found.to_numpy() == here.predict(table[["a", "b"]])).all()


def test_a_partition_that_dask_cannot_make_is_named(rows):
    frame = split(rows[["a", "b", "y"]], [100, 80, 60])

    def broken(part, partition_info=None):
        if partition_info is not None and partition_info["number"] == 1:
            raise ValueError("no such reading")
        return part

    with pytest.raises(tl.errors.DataError, match=r"partition 1 of the Dask table cannot be made \(.*no such reading"):
        tl.scan(frame.map_partitions(broken, meta=frame._meta), target="y")


def test_targets_of_an_array_are_one_a_row(rows):
    array = da.from_array(rows[["a", "b"]].to_numpy(), chunks=(50, 2))
    for wrong in (da.zeros(7), da.zeros((240, 2)), np.zeros(240)):
        with pytest.raises(tl.errors.UsageError, match=r"one target a row|take a Dask array as y"):
            tl.LinearRegression().fit(array, wrong)
