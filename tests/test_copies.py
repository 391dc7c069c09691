"""Folds where rows repeat: each copy has its own, and cross-validation agrees with folds that were shuffled."""

from __future__ import annotations

import warnings

import numpy as np
import polars as pl
import pytest
from commands import result
from encoding import scanned
from repeated import as_numbers, titanic, variants
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold, cross_val_score

import trueline as tl
from trueline.data import copies
from trueline.data.copies import Copies

TABLES = {
    "titanic": (titanic(), "survived"),
    "passengers": (titanic(crew=False), "survived"),
    "variants": (variants(), "bought"),
}


def counted(hashes: list[int], most: int) -> list[int]:
    """What ``Copies`` counts, one row after another."""
    table: dict[int, int] = {}
    result = []
    for value in hashes:
        known = value in table or len(table) < most
        result.append(table.get(value, 0) if known else 0)
        if known:
            table[value] = result[-1] + 1
    return result


def test_copies_are_counted_in_any_blocks_and_a_bounded_table(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(copies, "_FIRST", 8)
    for _ in range(40):
        monkeypatch.setattr(copies, "MOST", int(rng.integers(1, 400)))
        different = int(rng.integers(1, 900))
        hashes = rng.integers(1, 2**64 - 1, different, dtype=np.uint64)[rng.integers(0, different, 1500)]
        edges = np.sort(rng.integers(0, 1500, 9))
        counter = Copies()
        found = np.concatenate([counter.before(block) for block in np.split(hashes, edges)])
        assert found.tolist() == counted(hashes.tolist(), copies.MOST)
        assert counter.repeated == np.count_nonzero(found)


def design(table: pl.DataFrame, target: str) -> tuple[np.ndarray, np.ndarray]:
    X = table.drop(target).to_dummies(drop_first=True).to_numpy().astype(float)
    return X, (table[target] == "yes").to_numpy().astype(float)


@pytest.mark.parametrize("name", TABLES)
def test_least_squares_and_penalties_agree_with_shuffled_folds(name):
    table, target = TABLES[name]
    X, y = design(table, target)
    errors = [
        -cross_val_score(
            LinearRegression(), X, y, cv=KFold(5, shuffle=True, random_state=seed), scoring="neg_mean_squared_error"
        ).mean()
        for seed in range(8)
    ]
    moments = tl.scan(as_numbers(table, target), target=target)
    sizes = np.array([part.n for part in moments.parts.values()])
    assert len(sizes) == 5 and sizes.max() < 1.2 * len(y) / 5
    ridge = tl.RidgeCV(alphas=[1e-3, 1.0], scoring="neg_mean_squared_error").fit(
        as_numbers(table, target), target=target
    )
    lasso = tl.LassoCV().fit(as_numbers(table, target), target=target)
    plain = LinearRegression().fit(X, y)
    for found in (-ridge.scores_[0], -ridge.best_score_, lasso.mse_path_.mean(axis=1).min()):
        assert abs(found - np.mean(errors)) < 0.01 * np.mean(errors)
    assert np.linalg.norm(lasso.coef_) > 0.8 * np.linalg.norm(plain.coef_)  # it was 0


@pytest.mark.parametrize("name", ["titanic", "passengers"])
def test_the_command_line_chooses_and_compares_as_shuffled_folds_do(name, tmp_path, capsys):
    table, target = TABLES[name]
    path = tmp_path / "t.csv"
    table.write_csv(path)
    X, y = design(table, target)
    folds = KFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(C=np.inf, tol=1e-8)
    loss = -cross_val_score(model, X, y, cv=folds, scoring="neg_log_loss").mean()
    wrong = 1 - cross_val_score(model, X, y, cv=folds).mean()
    rows = {row["method"]: row for row in result(capsys, "compare", path, "-t", target)["methods"]}
    for method in ("logistic", "logistic, ridge", "logistic, lasso"):
        assert rows[method]["cross_validated"] == pytest.approx(loss, rel=0.02)
        assert rows[method]["wrong"] == pytest.approx(wrong, abs=0.01)
    free = np.linalg.norm(model.fit(X, y).coef_)
    for penalty in ("lasso", "ridge"):
        fitted = result(capsys, "fit", path, "-t", target, "--penalty", penalty)
        coef = [row["estimate"] for row in fitted["coefficients"] if not row["term"].startswith("(")]
        assert np.linalg.norm(coef) > 0.9 * free
    held = result(capsys, "fit", path, "-t", target, "--holdout", "0.3")
    (found,) = (m["value"] for m in held["holdout"] if m["name"] == "log_loss")
    assert found == pytest.approx(loss, rel=0.1)


def test_neither_blocks_nor_order_nor_format_nor_route_move_a_fold(tmp_path):
    table = as_numbers(titanic(), "survived")
    order = np.random.default_rng(1).permutation(len(table))
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet", row_group_size=100)
    table[order].write_csv(tmp_path / "shuffled.csv")
    sizes = []
    pieces = [[table[k : k + rows] for k in range(0, len(table), rows)] for rows in (37, 1000)]
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "shuffled.csv", *pieces):
        moments = tl.scan(source, target="survived")
        sizes.append({fold: (part.n, part.mean[0][-1].round(12)) for fold, part in moments.parts.items()})
    assert all(one == sizes[0] for one in sizes)
    _, _, _, folds = scanned(table, target="survived", folds=5)
    assert (scanned(table, target="survived", folds=5, block_rows=13)[3] == folds).all()
    # Columns of numbers take another route, by columns.
    numbers = table.with_columns(pl.col("class", "age", "sex").cast(pl.Categorical).to_physical().cast(pl.Float64))
    tall = pl.concat([numbers] * 3)
    routes = [
        np.concatenate(
            [b.folds for b in tl.data.encode.Encoder(tall, target="survived", folds=5, apart=apart, block_rows=500)]
        )
        for apart in (False, True)
    ]
    assert (routes[0] == routes[1]).all()


def test_a_row_that_comes_once_keeps_its_fold_whatever_is_around_it():
    rng = np.random.default_rng(3)
    single = pl.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300)})
    folds = scanned(single, target="y", folds=5)[3]
    more = pl.concat([single[:1]] * 50 + [single])
    again = scanned(more, target="y", folds=5)[3]
    assert (again[51:] == folds[1:]).all() and again[0] == folds[0]
    assert len(set(again[:51])) == 5


def test_merged_halves_have_the_coefficients_of_the_whole_and_weights_count():
    table = as_numbers(titanic(), "survived").with_columns(w=pl.int_range(pl.len()) % 3 + 1.0)
    options = {"target": "survived", "weights": "w"}
    whole = tl.scan(table, **options)
    halves = tl.scan(table[:900], **options) + tl.scan(table[900:], **options)
    ours, theirs = (tl.LinearRegression.from_moments(m.designed()) for m in (whole, halves))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
    assert sum(part.n for part in whole.parts.values()) == len(table)
    assert min(part.n for part in whole.parts.values()) > 0.8 * len(table) / 5


def test_copies_on_partitions_have_folds_of_their_own():
    dask = pytest.importorskip("dask")
    from clusters import split

    table = as_numbers(titanic(), "survived")
    order = np.random.default_rng(2).permutation(len(table))
    with dask.config.set(scheduler="synchronous"):
        here = tl.scan(table, target="survived")
        for frame in (table, table[order]):
            there = tl.scan(split(frame.to_pandas(), [500, 1, 700, 600, 400]), target="survived")
            sizes = [part.n for part in there.parts.values()]
            assert max(sizes) < 1.25 * len(table) / 5
            ours, theirs = (tl.LinearRegression.from_moments(m.designed()) for m in (here, there))
            np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-12)
        one = tl.scan(split(table.to_pandas(), [len(table)]), target="survived")
    assert {k: p.n for k, p in one.parts.items()} == {k: p.n for k, p in here.parts.items()}


def test_unequal_folds_and_a_full_table_are_warned_of(monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(4)
    table = pl.DataFrame(
        {"x": rng.normal(size=400), "g": np.minimum(np.arange(400) // 3, 60), "y": rng.normal(size=400)}
    )
    with pytest.warns(UserWarning, match=r"largest of 5 folds has \d+ of 400 rows.*'g'"):
        tl.scan(table, target="y", group="g", features=["x"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.scan(table, target="y")
        tl.scan(as_numbers(titanic(), "survived"), target="survived")
    monkeypatch.setattr(copies, "MOST", 8)
    with pytest.warns(UserWarning, match="different rows, and some repeat"):
        tl.scan(as_numbers(titanic(), "survived"), target="survived")
    titanic().write_csv(tmp_path / "t.csv")
    notes = result(capsys, "fit", tmp_path / "t.csv", "-t", "survived", "--penalty", "ridge")["notes"]
    assert any("some repeat" in note for note in notes)


def test_compare_notes_unequal_folds_and_a_full_table_as_fit_does(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(copies, "MOST", 8)
    as_numbers(titanic(), "survived").write_csv(tmp_path / "t.csv")
    found = {
        command: result(capsys, command, tmp_path / "t.csv", "-t", "survived", *beside)["notes"]
        for command, beside in (("fit", ["--loss", "squared"]), ("compare", []))
    }
    for notes in found.values():
        assert any("some repeat" in note for note in notes)
        assert any("the largest of 5 folds" in note for note in notes)


@pytest.mark.parametrize("partitions", [[2201], [500, 1, 700, 600, 400]])
def test_a_full_table_of_a_partition_is_told_to_the_caller(partitions, monkeypatch, tmp_path, capsys):
    """Not in the log of a worker: the statistic carries it through every merge, and the command line prints it."""
    dask = pytest.importorskip("dask")
    from clusters import split

    table = as_numbers(titanic(), "survived")
    monkeypatch.setattr(copies, "MOST", 8)
    with dask.config.set(scheduler="synchronous"):
        with pytest.warns(UserWarning, match="different rows, and some repeat") as found:
            tl.scan(split(table.to_pandas(), partitions), target="survived")
        assert sum("some repeat" in str(one.message) for one in found) == 1
        table.write_parquet(tmp_path / "t.parquet")
        words = ["fit", tmp_path / "t.parquet", "-t", "survived", "--loss", "squared", "--engine", "dask"]
        assert any("some repeat" in note for note in result(capsys, *words)["notes"])
