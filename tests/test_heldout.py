"""Errors on rows left out: one definition for fit and compare, penalties that never saw those rows, ties said to be ties."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from trueline.cli import comparing, main
from trueline.cli.fitting import Asked
from trueline.cli.heldout import mean_over_rows, rooted, tied
from trueline.report import figures

LOSSES = [
    ("squared", "ridge"),
    ("squared", "lasso"),
    ("squared", "elastic"),
    ("logistic", "ridge"),
    ("logistic", "lasso"),
]


@pytest.fixture
def noisy(tmp_path):
    """Few rows of unequal folds, more noise than signal: penalties and folds matter."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(37, 6)) * [1, 1, 10, 1, 0.1, 1]
    y = X[:, 0] + 3 * rng.normal(size=37) * (1 + np.abs(X[:, 1])) + 500
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(6)])
    frame.with_columns(y=pl.Series(y), label=pl.Series(np.where(y > 500, "yes", "no"))).write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def said(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def features(path):
    return ["--features", ",".join(f"x{j}" for j in range(6))]


@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_fit_and_compare_tell_the_same_error_of_the_same_model(capsys, noisy, folds):
    words = [noisy, "--target", "y", *features(noisy), "--folds", folds]
    fit, compare = said(capsys, "fit", *words), said(capsys, "compare", *words)
    plain = next(row for row in fit["cross_validation"] if row["method"] == "least squares")
    ranked = next(row for row in compare["methods"] if row["method"] == "least squares")
    task = comparing.read(Asked(str(noisy), "y", [f"x{j}" for j in range(6)], folds=folds))
    left = np.empty(len(task.y))
    for out in task.parts:
        left[out] = task.y[out] - LinearRegression().fit(task.X[~out], task.y[~out]).predict(task.X[out])
    assert len({int(out.sum()) for out in task.parts}) > 1 or folds == 2  # or any mean of means would do
    for row, error in ((plain, "error"), (ranked, "cross_validated")):
        assert row[error] == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-9)
    assert plain["std_error"] == pytest.approx(ranked["std_error"], rel=1e-9)


def test_the_standard_error_is_the_usual_one_of_equal_folds_and_counts_rows_of_unequal_ones():
    rng = np.random.default_rng(0)
    errors = rng.uniform(1, 2, size=(3, 5))
    mean, spread = mean_over_rows(errors, [20] * 5)
    assert np.allclose(mean, errors.mean(axis=1)) and np.allclose(spread, errors.std(axis=1, ddof=1) / np.sqrt(5))
    sizes = rng.integers(5, 40, 12)
    squares = [rng.exponential(size=n) for n in sizes]
    mean, _ = mean_over_rows([part.mean() for part in squares], sizes)
    assert float(mean) == pytest.approx(np.concatenate(squares).mean())
    root, of_root = rooted(4.0, 0.8)
    assert (float(root), float(of_root)) == (2.0, 0.2) and float(rooted(0.0, 0.0)[1]) == 0.0
    assert np.isnan(mean_over_rows([1.0], [7])[1])
    # A simulation: the spread of the mean over many tables is what one table's folds say it is.
    found = [mean_over_rows([rng.exponential(size=n).mean() for n in sizes], sizes) for _ in range(4000)]
    means, errors = np.array(found).T
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.1)


@pytest.mark.parametrize(("loss", "penalty"), LOSSES)
@pytest.mark.parametrize("folds", [2, 4])
def test_a_penalty_is_chosen_without_the_rows_left_out(tmp_path, monkeypatch, loss, penalty, folds):
    """The fit outside of a fold is the same whatever stands in the fold."""
    rng = np.random.default_rng(6)
    frame = pl.DataFrame(rng.normal(size=(80, 6)), schema=[f"x{j}" for j in range(6)])
    y = 2 * frame["x0"] - frame["x1"] + pl.Series(rng.normal(size=80))
    frame.with_columns(y=y if loss == "squared" else (y > 0)).write_csv(tmp_path / "t.csv")
    task = comparing.read(Asked(str(tmp_path / "t.csv"), "y", folds=folds))
    one = dataclasses.replace(task.asked, loss=loss, penalty=penalty)
    real, made = comparing.fitted, []

    def kept(*arguments):
        made.append(real(*arguments))
        return made[-1]

    monkeypatch.setattr(comparing, "fitted", kept)
    kinds = 0 if task.labels is None else 2
    comparing.solver(task, one, loss, kinds)
    expected, out = made[-folds:], next(task.parts)
    made.clear()
    if kinds:
        other = np.where(out, task.labels[::-1][task.codes], task.y)
    else:
        other = np.where(out, 1e4 * np.sin(np.arange(len(task.y))), task.y)
    comparing.solver(dataclasses.replace(task, y=other), one, loss, kinds)
    np.testing.assert_allclose(made[-folds].coef, expected[0].coef, rtol=1e-9, atol=1e-12)
    assert not np.allclose(made[-folds + 1].coef, expected[1].coef, rtol=1e-3)  # which has those rows


def test_choosing_inside_is_no_optimism_on_noise(capsys, tmp_path):
    """Of pure noise no penalty predicts better than the mean does: a penalty chosen on the very rows pretends to."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        frame = pl.DataFrame(rng.normal(size=(60, 12)), schema=[f"x{j}" for j in range(12)])
        frame.with_columns(y=pl.Series(rng.normal(size=60))).write_csv(tmp_path / "n.csv")
        task = comparing.read(Asked(str(tmp_path / "n.csv"), "y", folds=5))
        one = dataclasses.replace(task.asked, loss="squared", penalty="lasso")
        sizes = [int(out.sum()) for out in task.parts]
        errors = [error for error, _ in comparing.solver(task, one, "squared", 0)[1]]
        mean = [float(np.mean((task.y[out] - task.y[~out].mean()) ** 2)) for out in task.parts]
        ratios.append(float(mean_over_rows(errors, sizes)[0] / mean_over_rows(mean, sizes)[0]))
    assert np.mean(ratios) > 1.0


def test_ties_are_said_in_the_terminal_the_json_and_the_report(capsys, noisy, tmp_path):
    words = ["compare", str(noisy), "--target", "y", *features(noisy)]
    record = said(capsys, *words)
    first = record["methods"][0]
    within = [
        row["method"]
        for row in record["methods"]
        if row["cross_validated"] is not None
        and row["cross_validated"] <= first["cross_validated"] + first["std_error"]
    ]
    assert len(within) > 1 and record["best"] == within
    assert [row["method"] for row in record["methods"] if row["tied_for_best"]] == within
    assert main([*words, "--report", str(tmp_path / "r.html")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"{within[0]}, {within[1]}" in out and "tie for the best: they lie within one standard error" in out
    page = (tmp_path / "r.html").read_text()
    assert f"a tie of {len(within)}" in page and "tie for the best" in page


def test_a_clear_winner_is_no_tie(capsys, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = np.exp(3.0 + X[:, 0])
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": rng.poisson(y)}).write_csv(tmp_path / "c.csv")
    record = said(capsys, "compare", tmp_path / "c.csv", "--target", "y")
    assert record["best"] == ["poisson loss"] == [record["methods"][0]["method"]]
    assert main(["compare", str(tmp_path / "c.csv"), "--target", "y"]) == 0
    assert "poisson loss predicts best, by more than one standard error" in capsys.readouterr().out
    assert tied([1.0, 1.0, 2.0], None) == [True, True, False] and tied([None, None], None) == [False, False]


def test_fit_does_not_call_a_fraction_of_a_standard_error_better(capsys, noisy):
    fit = said(capsys, "fit", noisy, "--target", "y", *features(noisy))
    plain, ridge, _ = fit["cross_validation"]
    assert main(["fit", str(noisy), "--target", "y", *features(noisy)]) == 0
    line = " ".join(capsys.readouterr().out.split())
    apart = abs(plain["error"] - ridge["error"])
    assert ("better" in re.split(r"ridge at|lasso at", line)[1]) == (
        apart > min(plain, ridge, key=lambda r: r["error"])["std_error"]
    )


def test_equal_probabilities_are_never_split_into_two_groups():
    rng = np.random.default_rng(2)
    for levels in (1, 2, 5, 9, 11, 400):
        drawn = rng.choice(rng.uniform(size=levels), 700)
        place = figures.groups(drawn, 10)
        assert all(len(np.unique(place[drawn == value])) == 1 for value in np.unique(drawn))
        order = np.argsort(drawn)
        assert (np.diff(place[order]) >= 0).all() and place.min() >= 0 and place.max() <= 9
    distinct = figures.groups(rng.uniform(size=1000), 10)
    assert np.bincount(distinct).tolist() == [100] * 10
    nearly = np.array([0.3] * 5 + [np.nextafter(0.3, 1)] * 5 + [0.9] * 2)
    assert len(np.unique(figures.groups(nearly, 10)[:10])) == 1


def test_the_calibration_picture_has_one_point_for_each_probability():
    """Two probabilities, rows of each in an order by outcome: the picture has two points, at the two true shares."""
    probability = np.repeat([0.2, 0.7], 100)
    outcome = np.tile(np.r_[np.zeros(50), np.ones(50)], 2)
    drawn = figures.calibration(probability, outcome, "yes")
    assert drawn.count("<circle") == 2


@pytest.mark.parametrize("folds", [19, 37, 74])
def test_as_many_folds_as_rows_have_an_error_too(capsys, noisy, folds):
    words = [noisy, "--target", "y", *features(noisy), "--folds", folds]
    fit, compare = said(capsys, "fit", *words), said(capsys, "compare", *words)
    plain = next(row for row in fit["cross_validation"] if row["method"] == "least squares")
    ranked = next(row for row in compare["methods"] if row["method"] == "least squares")
    assert plain["error"] == pytest.approx(ranked["cross_validated"], rel=1e-9)
    assert any(
        re.match(rf"{folds}-fold cross-validation \(\d+ of the folds have rows\): error", n) for n in fit["notes"]
    )
