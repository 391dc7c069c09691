"""``trueline fit --engine``: patterns of files, the same answer as embedded, refusals in a sentence."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

from trueline.cli import main

pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(2)
    place = tmp_path_factory.mktemp("parts")
    for k in range(3):
        X = rng.normal(size=(200, 2))
        yes = np.where(X[:, 0] + rng.normal(size=200) > 0, "yes", "no")
        frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X @ [1.0, -2.0] + rng.normal(size=200), "answer": yes})
        frame.write_parquet(place / f"part{k}.parquet")
        frame.write_csv(place / f"part{k}.csv")
    return place


def said(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["fit", *map(str, arguments), "-q"])
    out = capsys.readouterr()
    return code, out.out, out.err


def fitted(capsys, folder, name, *arguments):
    from trueline.model import load

    path = folder / f"{name}.tl"
    code, out, err = said(capsys, *arguments, "-o", path)
    assert code == 0, (out, err)
    return load(path)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("target", ["y", "answer"])
def test_dask_reads_a_pattern_as_embedded_does(capsys, folder, kind, target):
    question = [folder / f"part*.{kind}", "-t", target, "--features", "a,b", "--penalty", "none"]
    here = fitted(capsys, folder, "here", *question)
    there = fitted(capsys, folder, "there", *question, "--engine", "dask")
    if target == "y":
        np.testing.assert_allclose(there.coef, here.coef, rtol=1e-10)
        return
    # Both are proven to lie within their gaps of the one minimum.
    proofs = here.certificate, there.certificate
    assert all(proof.proven for proof in proofs)
    assert abs(proofs[0].primal - proofs[1].primal) <= proofs[0].gap + proofs[1].gap


@pytest.mark.skipif(
    not shutil.which("java"), reason="Spark needs Java of version 17 or later, and there is none on PATH"
)
@pytest.mark.timeout(180)
def test_spark_reads_a_pattern_as_embedded_does(capsys, folder):
    pytest.importorskip("pyspark", reason="pip install pyspark runs this test")
    question = [folder / "part*.parquet", "-t", "y", "--features", "a,b", "--penalty", "none"]
    here = fitted(capsys, folder, "here", *question)
    there = fitted(capsys, folder, "there", *question, "--engine", "spark", "--master", "local[2]")
    np.testing.assert_allclose(there.coef, here.coef, rtol=1e-10)


REFUSED = {
    "no file matches": ["nothing*.parquet", "--engine", "dask"],
    "there is no engine 'dusk'": ["part*.parquet", "--engine", "dusk"],
    "--scheduler goes with --engine dask": ["part*.parquet", "--engine", "spark", "--scheduler", "tcp://127.0.0.1:1"],
    "the Dask scheduler tcp://127.0.0.1:1 cannot be reached": [
        "part*.parquet", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1",
    ],
    "one kind at a time": ["part*.parquet", "part*.csv", "--engine", "dask"],
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals_are_one_sentence(capsys, folder, sentence):
    files = [one for one in REFUSED[sentence] if "*" in one]
    rest = [one for one in REFUSED[sentence] if "*" not in one]
    code, _, err = said(capsys, *(folder / one for one in files), "-t", "y", *rest)
    assert code in (2, 3) and sentence in " ".join(err.split()), json.dumps(err)
    assert "Traceback" not in err
