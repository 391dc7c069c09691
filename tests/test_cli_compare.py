"""``compare``: every model and online learner that fits the task, on numbers, counts, two classes and several."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from trueline.cli import comparing, main
from trueline.errors import DataError

CLASSES = {"mixture", "gradient", "normalised", "implicit", "adagrad", "exponentiated", "perceptron", "winnow"}
NUMBERS = {"mixture", "widrow-hoff", "normalised", "implicit", "adagrad", "exponentiated", "recursive"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(7)
    n = 240
    a, b = rng.normal(size=n), rng.normal(size=n)
    town = rng.choice(["Köln", "東京"], n)
    base = pl.DataFrame({"a": a, "b": b, "town": town})
    score = np.stack([a, b, -a - b], 1) + rng.gumbel(size=(n, 3))
    base.with_columns(y=pl.Series(np.array(["low", "mid", "top"])[score.argmax(1)])).write_csv(place / "three.csv")
    base.with_columns(y=pl.Series(a + rng.logistic(size=n) > 0)).write_csv(place / "two.csv")
    base.with_columns(y=pl.Series(rng.poisson(np.exp(0.5 + 0.5 * a)))).write_parquet(place / "counts.parquet")
    gaps = pl.Series([None if k % 9 == 0 else float(v) for k, v in enumerate(a)])
    base.with_columns(a=gaps, y=pl.Series(3 * a + b + 0.1 * rng.normal(size=n))).write_csv(place / "gaps.csv")
    return place


def found(capsys, *words):
    assert main(["compare", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def methods(record):
    return {row["method"] for row in record["methods"]}


def test_several_classes_are_compared_by_log_loss_and_by_labels(capsys, folder):
    record = found(capsys, folder / "three.csv", "-t", "y", "--folds", "3")
    assert record["task"] == "3 classes" and record["measure"] == "log loss"
    assert methods(record) == {
        "logistic", "logistic, ridge", "logistic, lasso", "logistic, elastic net", *(f"stream: {n}" for n in CLASSES)
    }  # fmt: skip
    by_name = {row["method"]: row for row in record["methods"]}
    assert by_name["logistic"]["cross_validated"] < np.log(3) and by_name["logistic"]["certificate"] == "proven"
    assert by_name["stream: perceptron"]["cross_validated"] is None  # it has no probabilities
    assert all(0 < row["wrong"] < 0.75 and row["seconds"] > 0 for row in record["methods"])


def test_two_classes_have_margins_too_and_the_better_come_first(capsys, folder):
    record = found(capsys, folder / "two.csv", "-t", "y", "--folds", "3")
    assert record["task"] == "two classes" and "squared hinge, ridge" in methods(record)
    errors = [row["cross_validated"] for row in record["methods"]]
    told = [e for e in errors if e is not None]
    assert told == sorted(told) and errors[: len(told)] == told
    labels = [row["wrong"] for row in record["methods"] if row["cross_validated"] is None]
    assert len(labels) == 3 and labels == sorted(labels)


def test_counts_have_the_poisson_loss_and_numbers_every_learner_of_numbers(capsys, folder):
    record = found(capsys, folder / "counts.parquet", "-t", "y", "--folds", "3")
    assert record["task"] == "regression" and record["methods"][0]["method"] == "poisson loss"
    assert {"least squares", "ridge", "lasso", "elastic net", "huber loss", "absolute loss"} <= methods(record)
    assert {f"stream: {name}" for name in NUMBERS} <= methods(record) and "wrong" not in record["methods"][0]


def test_a_contender_that_refuses_is_a_sentence_and_the_others_go_on(capsys, folder, monkeypatch):
    real = comparing.fitted

    def stubborn(asked, loss, *rest, **more):
        if loss == "huber":
            raise DataError("not on these rows")
        if loss == "absolute":
            raise np.linalg.LinAlgError("singular")
        return real(asked, loss, *rest, **more)

    monkeypatch.setattr(comparing, "fitted", stubborn)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["compare", str(folder / "gaps.csv"), "-t", "y", "--missing", "mean", "--folds", "3"]) == 0
    out = capsys.readouterr().out
    assert "huber loss was refused: not on these rows" in out and "absolute loss was refused: LinAlgError" in out
    assert "least squares" in out and "stream: mixture" in out


def test_a_fold_that_diverges_is_no_better_error(folder):
    one = comparing.Method("wild", lambda: (None, [(1.0, np.nan), (np.inf, np.nan)], 0.1, "proven"))
    row = comparing.row(one, [3, 4], root=True)
    assert row["cross_validated"] is None and row["refused"] == "it diverged"


def test_a_fold_of_one_class_is_scored_by_the_classes_of_all_rows():
    # All three rows are of the smaller class, and are said to be of it with 0.9.
    error, wrong = comparing.error_of(np.array([0.1, 0.1, 0.1]), np.zeros(3, int), 2, True)
    assert error == pytest.approx(-np.log(0.9)) and wrong == 0.0


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["three.csv", "gaps.csv"])
def test_the_table_fits_the_screen(capsys, folder, monkeypatch, columns, name):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["compare", str(folder / name), "-t", "y", "--missing", "drop", "--folds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    bars = [line for line in lines if "█" in line]
    assert len(bars) >= 6 and max(line.count("█") for line in bars) <= 60
    assert any("proven" in line for line in lines) and any("seconds" in line for line in lines)


def test_an_elastic_net_goes_down_to_where_its_ridge_is_free_on_the_smallest_column(capsys, tmp_path):
    rng = np.random.default_rng(3)
    large, small = 1e4 * rng.normal(size=300), 0.1 * rng.normal(size=300)
    y = large + 5e5 * small + 10 * rng.normal(size=300)
    pl.DataFrame({"large": large, "small": small, "y": y}).write_csv(tmp_path / "scales.csv")
    found_ = found(capsys, tmp_path / "scales.csv", "-t", "y")
    errors = {row["method"]: row["cross_validated"] for row in found_["methods"]}
    assert errors["elastic net"] < 1.1 * errors["least squares"]


def test_too_few_rows_are_refused_and_words_are_not_aligned_like_numbers(capsys, tmp_path):
    from trueline.report.text import align

    (tmp_path / "two.csv").write_text("a,y\n1,2\n2,3\n")
    assert main(["compare", str(tmp_path / "two.csv"), "-t", "y"]) == 3
    assert "too few" in capsys.readouterr().err
    assert align(["proven", "refused", "1.5"])[:2] == [" proven  ", "refused  "]


def test_the_plot_has_every_contender_with_its_error_bar(tmp_path, capsys):
    from trueline.cli.ranking import draw

    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"x": rng.normal(size=120), "z": rng.normal(size=120)})
    frame = frame.with_columns(**{"$y_1$": 3.0 * frame["x"] + pl.Series(0.1 * rng.normal(size=120))})
    frame.write_csv(tmp_path / "t.csv")
    line = ["compare", str(tmp_path / "t.csv"), "--target", "$y_1$", "--json", "--plot"]
    for ending, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        path = tmp_path / f"out.{ending}"
        assert main([*line, str(path)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert path.read_bytes().startswith(begins) and found["plot"] == str(path)
    ranked = [row["method"] for row in found["methods"] if row["cross_validated"] is not None]
    axes = draw(found).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ranked and len(ranked) > 8
    bars = [container for container in axes.containers if container.has_xerr]
    assert len(bars) == len(ranked)
    for row, bar in zip([r for r in found["methods"] if r["cross_validated"] is not None], bars):
        ((left, _), (right, _)) = bar.lines[2][0].get_segments()[0]
        assert np.isclose(right, row["cross_validated"] + row["std_error"])
        assert np.isclose(left, row["cross_validated"] - row["std_error"]) or axes.get_xscale() == "log"
    assert r"\$y_1\$" in axes.get_title(loc="left")
    refused = [row | {"cross_validated": None, "std_error": None} for row in found["methods"]]
    assert draw(found | {"methods": refused}).axes[0].get_yticklabels() == []


def test_a_plot_that_cannot_be_written_is_refused_before_any_work(tmp_path, capsys, monkeypatch):

    monkeypatch.setattr(comparing, "compared", lambda *given: pytest.fail("it began"))
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    line = ["compare", str(tmp_path / "t.csv"), "--target", "y", "--plot"]
    for name, said in (("out.gif", "must end in .png, .svg, .pdf"), ("no/out.png", "there is no folder")):
        assert main([*line, str(tmp_path / name)]) in (1, 2)
        assert said in capsys.readouterr().err
    both = str(tmp_path / "out.svg")
    assert main([*line, both, "--report", both]) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]
