"""The Python of README and docs runs as it is printed, on data of the kinds that the page speaks of.

docs/online.md is run by test_user_parts.py.
"""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from serving import Served

import trueline as tl
from trueline.cli import main

ROOT = Path(__file__).parent.parent


def blocks(page: str) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert found, f"{page} has no Python"
    return found


def run(page: str, names: dict, first: int = 0, last: int | None = None) -> dict:
    """Run the page's blocks top to bottom in ``names``, which holds what the page takes as given."""
    for text in blocks(page)[first:last]:
        exec(compile(text, page, "exec"), names)
    return names


@pytest.fixture
def given(tmp_path, monkeypatch):
    """X and y, a place to write in, and tl."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(200, 4))
    return {"tl": tl, "np": np, "X": X, "y": X @ [1.0, -2.0, 0.0, 3.0] + rng.normal(size=200)}


def frame(n: int = 400, **columns) -> pl.DataFrame:
    rng = np.random.default_rng(8)
    return pl.DataFrame({name: make(rng, n) for name, make in columns.items()})


def number(rng, n):
    return rng.gamma(4.0, size=n)


def town(rng, n):
    return rng.choice(["Bern", "Thun", "Biel"], n)


def test_readme(given):
    Path("rides").mkdir()
    for part in "ab":
        frame(fare=number, distance=number, minutes=number).write_parquet(f"rides/{part}.parquet")
    names = run("README.md", given)
    assert names["model"].certificate_.proven and names["moments"].n == 800
    assert names["learner"].certificate_.loss <= names["learner"].certificate_.bound


def test_the_commands_of_readme(given, capsys):
    rents = frame(rent=number, size=number, town=town)
    rents.write_csv("rents.csv")
    rents.drop("rent").head(20).write_csv("new.csv")
    frame(fare=number, distance=number).write_csv("rides.csv")
    commands = re.findall(r"^\$ trueline (.*)$", (ROOT / "README.md").read_text(), re.M)
    assert [command.split()[0] for command in commands] == ["fit", "predict", "verify", "export", "stream"]
    for command in commands:
        assert main(shlex.split(command, comments=True)) == 0, capsys.readouterr().err
    assert Path("rent.html").stat().st_size > 10_000


def test_basis(given):
    rents = frame(rent=number, size=number, city=town)
    rents.write_parquet("rents.parquet")
    both = frame(x=number, z=number)
    run("docs/basis.md", given | {"X": both, "y": both["x"].to_numpy()}, last=1)
    x = np.linspace(-1.0, 1.0, 60)
    names = given | {"x": x[:, None], "y": np.cos(x), "covariance": np.eye(11)}
    run("docs/basis.md", names, first=1)
    raw = names["basis"].raw_coefficients(names["model"])
    assert abs(raw["x^2"] + 0.5) < 1e-6 and abs(raw["(intercept)"] - 1.0) < 1e-9


def test_certificates():
    text = "\n".join(blocks("docs/certificates.md"))
    test = doctest.DocTestParser().get_doctest(text, {}, "certificates.md", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_clusters(given):
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: pip install 'trueline[dask]'")
    import pandas as pd

    X = given["X"]
    label = np.where(X[:, 0] + np.random.default_rng(9).normal(size=200) > 0, "yes", "no")
    table = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(y=given["y"]), npartitions=3)
    labelled = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")).assign(label=label), npartitions=3)
    lines = blocks("docs/clusters.md")[0].splitlines()
    for line in lines:
        if line.startswith("tl.LogisticRegression"):
            names = given | {"table": labelled}
            exec(f"model = {line}", names)
            classifier = names["model"]
        elif "predict_proba" in line:
            made = eval(line.partition("#")[0].strip(), given | {"table": labelled, "model": classifier})
            assert list(made.columns) == ["probability_no", "probability_yes"]
        elif line.startswith("model."):
            model = tl.LinearRegression().fit(table, target="y")
            made = eval(line.partition("#")[0].strip(), given | {"table": table, "model": model})
            assert type(made).__module__.startswith("dask") and len(made.compute()) == 200
        else:
            exec(line, given | {"table": table})


def test_echo(given):
    rng = np.random.default_rng(3)
    far = rng.normal(size=16_000)
    mic = np.convolve(far, [0.0, 0.5, 0.2])[:16_000]
    sent: list[np.ndarray] = []
    names = run(
        "docs/echo.md",
        given | {"far": far, "mic": mic, "far_block": far[:100], "mic_block": mic[:100], "send": sent.append},
    )
    assert len(names["result"].clean) == 16_000 and len(sent[0]) == 100
    assert len(names["made"].far) == len(names["made"].mic)


def test_lasso(given, capsys):
    for k in range(2):
        frame(fare=number, distance=number, minutes=number).write_parquet(f"trips-{k}.parquet")
    names = run("docs/lasso.md", given)
    assert names["coefs"].shape == (4, 100) and names["gaps"].shape == (100,)
    assert capsys.readouterr().out.startswith("proven: objective ")


def test_local_and_robust(given, capsys):
    x = np.sort(given["X"][:, :1], axis=0)
    names = run("docs/local_robust.md", given | {"X": x, "y": np.sin(x[:, 0]), "new": x[::7]})
    assert len(names["mean"]) == len(x[::7]) and np.all(names["lower"] <= names["upper"])
    assert "never rose" in capsys.readouterr().out


def test_mixture(given, capsys):
    rows = ({"kind": "odd" if k % 2 else "even", "k": float(k % 7)} for k in range(100))
    names = run("docs/mixture.md", given | {"stream": [(x, x["k"] + (x["kind"] == "odd")) for x in rows]})
    assert names["model"].certificate_.examples == 100 and "bound" in capsys.readouterr().out


def test_one_pass(given, capsys):
    for k in range(2):
        frame(price=number, size=number, rooms=number).write_parquet(f"flats-{k}.parquet")
    names = run("docs/onepass.md", given)
    assert names["line"].feature_names_in_.tolist() == ["size", "rooms", "log_size"]
    assert names["parts"].components_.shape == (3, 3) and "proven: " in capsys.readouterr().out


def test_probability(given):
    rng = np.random.default_rng(5)
    calls = frame(minutes=number, calls=lambda rng, n: rng.poisson(3, n), town=town)
    days = [tl.Density({"minutes": "gaussian"}).fit(calls.select("minutes")) for _ in range(2)]
    holes = given["X"].copy()
    holes[::9, 1] = np.nan
    names = given | {"frame": calls, "monday": days[0], "tuesday": days[1], "X": holes, "y": rng.integers(0, 2, 200)}
    run("docs/probability.md", names, last=1)
    log = frame(800, customer=lambda rng, n: rng.choice(["ann", "bob"], n), minutes=number)
    names = given | {"calls": log, "label": rng.integers(0, 2, 800), "new_calls": log.head(5)}
    run("docs/probability.md", names, first=1, last=2)
    assert len(names["suspicion"]) == 5
    names = run("docs/probability.md", given, first=2)
    assert names["model"].rank(["I fat on a chair", "I sat on a chair"]) == ["I sat on a chair", "I fat on a chair"]


def test_service(tmp_path):
    spec = {
        "name": "rents", "target": "rent", "task": "regression",
        "features": {"rooms": "number", "balcony": "boolean", "town": "category"},
    }  # fmt: skip
    with Served(tmp_path, spec=spec) as served:
        text = blocks("docs/service.md")[0]
        assert "http://127.0.0.1:8000" in text
        exec(compile(text.replace("http://127.0.0.1:8000", served.address), "service.md", "exec"), {})
        assert served.stop() == 0


def test_solvers(given):
    names = run("docs/solvers.md", given | {"y": np.sign(given["y"])})
    assert names["solution"].certificate.proven and Path("gap.png").stat().st_size > 1000
