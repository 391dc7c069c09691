"""The tables of the frozen suite: typed in, generated, or from packages of the test extra.

Each function writes its files into a folder; ``data.csv`` is the main one. Generated numbers come from NumPy's
legacy generator, whose stream is promised never to change, and are written with six digits, so that every
machine reads the same table.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TABLES: dict[str, Callable[[Path], None]] = {}


def table(function: Callable[[Path], None]) -> Callable[[Path], None]:
    TABLES[function.__name__] = function
    return function


def write(path: Path, columns: dict[str, Sequence[Any]], separator: str = ",") -> None:
    """A CSV file; numbers with six digits, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*[map(cell, values) for values in columns.values()]))


def cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def choose(rng: np.random.RandomState, values: Sequence[Any], n: int) -> list[Any]:
    return [values[k] for k in rng.randint(len(values), size=n)]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


# Repeated rows


@table
def titanic(folder: Path) -> None:
    """2,201 people, 24 distinct rows: the British Board of Trade's count of 1912."""
    counts = """1st male child 0 5, 1st female child 0 1, 2nd male child 0 11, 2nd female child 0 13, 3rd male child 35 13,
    3rd female child 17 14, 1st male adult 118 57, 1st female adult 4 140, 2nd male adult 154 14, 2nd female adult 13 80,
    3rd male adult 387 75, 3rd female adult 89 76, crew male adult 670 192, crew female adult 3 20"""
    rows = []
    for line in counts.split(","):
        passage, sex, age, lost, saved = line.split()
        rows += [(passage, sex, age, "no", 0)] * int(lost) + [(passage, sex, age, "yes", 1)] * int(saved)
    order = np.random.RandomState(0).permutation(len(rows))
    columns = zip(*(rows[k] for k in order))
    write(folder / "data.csv", dict(zip(("passage", "sex", "age", "survived", "saved"), columns)))


@table
def ab_test(folder: Path) -> None:
    """1,200 visitors: variant, device, bought; twelve distinct rows."""
    rng = np.random.RandomState(1)
    variant, device = choose(rng, "AB", 1200), choose(rng, ["desktop", "phone", "tablet"], 1200)
    chance = [0.12 + 0.05 * (v == "B") - 0.04 * (d == "phone") for v, d in zip(variant, device)]
    write(
        folder / "data.csv",
        {"variant": variant, "device": device, "bought": (rng.rand(1200) < chance).astype(int).tolist()},
    )


@table
def ratings(folder: Path) -> None:
    """A target of few values on few rows that repeat: 300 answers of 1 to 5."""
    rng = np.random.RandomState(2)
    age, kind = choose(rng, [20, 40, 60], 300), choose(rng, ["a", "b"], 300)
    level = [2.0 + 0.02 * a + (k == "b") for a, k in zip(age, kind)]
    stars = np.clip(np.round(level + rng.normal(size=300)), 1, 5).astype(int)
    write(folder / "data.csv", {"age": age, "kind": kind, "stars": stars.tolist()})


# Small and classic

MTCARS = """21 6 160 110 3.9 2.62 16.46 0 1 4 4|21 6 160 110 3.9 2.875 17.02 0 1 4 4|22.8 4 108 93 3.85 2.32 18.61 1 1 4 1
21.4 6 258 110 3.08 3.215 19.44 1 0 3 1|18.7 8 360 175 3.15 3.44 17.02 0 0 3 2|18.1 6 225 105 2.76 3.46 20.22 1 0 3 1
14.3 8 360 245 3.21 3.57 15.84 0 0 3 4|24.4 4 146.7 62 3.69 3.19 20 1 0 4 2|22.8 4 140.8 95 3.92 3.15 22.9 1 0 4 2
19.2 6 167.6 123 3.92 3.44 18.3 1 0 4 4|17.8 6 167.6 123 3.92 3.44 18.9 1 0 4 4|16.4 8 275.8 180 3.07 4.07 17.4 0 0 3 3
17.3 8 275.8 180 3.07 3.73 17.6 0 0 3 3|15.2 8 275.8 180 3.07 3.78 18 0 0 3 3|10.4 8 472 205 2.93 5.25 17.98 0 0 3 4
10.4 8 460 215 3 5.424 17.82 0 0 3 4|14.7 8 440 230 3.23 5.345 17.42 0 0 3 4|32.4 4 78.7 66 4.08 2.2 19.47 1 1 4 1
30.4 4 75.7 52 4.93 1.615 18.52 1 1 4 2|33.9 4 71.1 65 4.22 1.835 19.9 1 1 4 1|21.5 4 120.1 97 3.7 2.465 20.01 1 0 3 1
15.5 8 318 150 2.76 3.52 16.87 0 0 3 2|15.2 8 304 150 3.15 3.435 17.3 0 0 3 2|13.3 8 350 245 3.73 3.84 15.41 0 0 3 4
19.2 8 400 175 3.08 3.845 17.05 0 0 3 2|27.3 4 79 66 4.08 1.935 18.9 1 1 4 1|26 4 120.3 91 4.43 2.14 16.7 0 1 5 2
30.4 4 95.1 113 3.77 1.513 16.9 1 1 5 2|15.8 8 351 264 4.22 3.17 14.5 0 1 5 4|19.7 6 145 175 3.62 2.77 15.5 0 1 5 6
15 8 301 335 3.54 3.57 14.6 0 1 5 8|21.4 4 121 109 4.11 2.78 18.6 1 1 4 2"""


@table
def mtcars(folder: Path) -> None:
    """Motor Trend's 32 cars of 1974."""
    names = ["mpg", "cyl", "disp", "hp", "drat", "wt", "qsec", "vs", "am", "gear", "carb"]
    lines = [line.split() for line in MTCARS.replace("\n", "|").split("|")]
    columns: dict[str, Any] = dict(zip(names, zip(*lines)))
    columns["make"] = [("odd" if float(row[5]) * 1000 % 2 else "even") for row in lines]
    write(folder / "data.csv", columns)


@table
def longley(folder: Path) -> None:
    """NIST's ill-conditioned classic: 16 years, six columns, condition number 1e9."""
    from statsmodels.datasets import longley as source

    frame = source.load_pandas().data
    write(folder / "data.csv", {name: [str(v) for v in frame[name]] for name in frame.columns})


@table
def spector(folder: Path) -> None:
    """32 students, two classes."""
    from statsmodels.datasets import spector as source

    frame = source.load_pandas().data
    write(folder / "data.csv", {name: frame[name].tolist() for name in frame.columns})


@table
def iris(folder: Path) -> None:
    """Three classes by name."""
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    names = ("sepal_length", "sepal_width", "petal_length", "petal_width")
    flower = [("setosa", "versicolor", "virginica")[k] for k in y]
    write(folder / "data.csv", {**dict(zip(names, X.T.tolist())), "flower": flower})


@table
def diabetes(folder: Path) -> None:
    """442 patients, ten columns, all distinct."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    names = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    write(folder / "data.csv", {**dict(zip(names, X.T.tolist())), "progress": y.tolist()})


@table
def counts(folder: Path) -> None:
    """Executions in 17 states (cpunish): counts; and a positive cost beside them."""
    from statsmodels.datasets import cpunish as source

    frame = source.load_pandas().data
    columns: dict[str, Any] = {
        name.lower(): frame[name].tolist() for name in ("EXECUTIONS", "INCOME", "PERPOVERTY", "SOUTH", "DEGREE")
    }
    columns["cost"] = [1.0 + v / 3 + k % 3 for k, v in enumerate(columns["executions"])]
    columns["weight"] = [1 + k % 3 for k in range(len(frame))]
    write(folder / "data.csv", columns)


@table
def grunfeld(folder: Path) -> None:
    """Investment of firms over years: clustered rows, a category, a whole-number year."""
    from statsmodels.datasets import grunfeld as source

    frame = source.load_pandas().data
    columns: dict[str, Any] = {name: frame[name].tolist() for name in ("invest", "value", "capital")}
    write(folder / "data.csv", {**columns, "firm": frame["firm"].tolist(), "year": frame["year"].astype(int).tolist()})


@table
def engel(folder: Path) -> None:
    """Food expenditure against income: quantiles and outliers."""
    from statsmodels.datasets import engel as source

    frame = source.load_pandas().data
    write(folder / "data.csv", {name: frame[name].tolist() for name in frame.columns})


# Columns that are awkward


@table
def dependent(folder: Path) -> None:
    """c = a + 2b, d a copy of a, and two categories of which one settles the other."""
    rng = np.random.RandomState(3)
    a, b = np.round(rng.normal(size=80), 3), np.round(rng.normal(size=80) * 5, 3)
    town = choose(rng, ["Bern", "Genf", "Ulm"], 80)
    country = ["de" if t == "Ulm" else "ch" for t in town]
    y = 1 + a - 0.3 * b + np.array([t == "Genf" for t in town]) + 0.4 * rng.normal(size=80)
    columns = {
        "a": a,
        "b": b,
        "c": a + 2 * b,
        "d": a,
        "town": town,
        "country": country,
        "y": y,
        "w": rng.rand(80) + 0.1,
    }
    write(folder / "data.csv", columns)


@table
def constant(folder: Path) -> None:
    """A column that never changes, one that changes only where the target is missing, and a level met only there."""
    rng = np.random.RandomState(4)
    n = 50
    x = rng.normal(size=n)
    order = choose(rng, ["Bats", "Cats", "Dogs"], n)
    order[7] = order[19] = "Whales"
    y: list[Any] = (2 * x + [o == "Cats" for o in order] + 0.3 * rng.normal(size=n)).tolist()
    y[7] = y[19] = None
    still = [1.0 if v is not None else 2.0 for v in y]
    write(folder / "data.csv", {"x": x, "order": order, "still": still, "unit": [1] * n, "y": y})


@table
def missing(folder: Path) -> None:
    """Missing numbers, words and targets, in different rows."""
    rng = np.random.RandomState(5)
    n = 90
    size, price = rng.rand(n) * 100 + 20, rng.normal(size=n)
    town: list[Any] = choose(rng, ["Bern", "Ulm", "Rom"], n)
    rent: list[Any] = (
        300 + 9 * size + 50 * price + [30 * (t == "Rom") for t in town] + 20 * rng.normal(size=n)
    ).tolist()
    sizes: list[Any] = size.tolist()
    for k in (3, 11, 40, 77):
        sizes[k] = None
    for k in (5, 40, 63):
        town[k] = None
    whole = {"size": sizes, "price": price, "town": town, "rent": rent}
    write(folder / "features.csv", whole)
    for k in (8, 55):
        rent[k] = None
    write(folder / "data.csv", {**whole, "rent": rent})


@table
def dates(folder: Path) -> None:
    """ISO dates and times; day/month dates that are ambiguous; day/month dates with a 13th."""
    from datetime import datetime, timedelta

    rng = np.random.RandomState(6)
    n = 60
    days = [datetime(2020, 1, 1) + timedelta(days=int(k)) for k in rng.randint(0, 700, n)]
    times = [d + timedelta(minutes=int(k)) for d, k in zip(days, rng.randint(0, 1440, n))]
    y = np.array([(d - datetime(2020, 1, 1)).days for d in days]) * 0.01 + rng.normal(size=n)
    iso, stamp = [d.date().isoformat() for d in days], [t.isoformat(sep=" ") for t in times]
    write(folder / "data.csv", {"day": iso, "moment": stamp, "y": y})
    early = [datetime(2020, d.month, d.day % 12 + 1) for d in days]
    write(folder / "slashes.csv", {"day": [d.strftime("%m/%d/%Y") for d in early], "y": y})
    late = [datetime(2020, d.month, d.day % 28 + 1) for d in days]
    write(folder / "american.csv", {"day": [d.strftime("%m/%d/%Y") for d in late], "y": y})


@table
def words(folder: Path) -> None:
    """Text of many scripts, names with quotes, keywords and brackets, booleans."""
    rng = np.random.RandomState(7)
    n = 120
    colour = choose(rng, ["bl'ue", 'r"ed', "ünï", "a,b", "select", "-- x", "日本"], n)
    ok = choose(rng, ["true", "false"], n)
    x = rng.normal(size=n)
    y = x + np.array([len(c) for c in colour]) * 0.5 + np.array([o == "true" for o in ok]) + 0.2 * rng.normal(size=n)
    code = choose(rng, [10, 20, 30], n)
    columns = {"co l'or": colour, "ok": ok, "2nd": x, "code": code, "y": y, "says": choose(rng, ["ja", "nein"], n)}
    write(folder / "data.csv", columns)
    write(folder / "plain.csv", {"colour": choose(rng, ["red", "green"], n), "ok": ok, "x": x, "code": code, "y": y})


@table
def identifier(folder: Path) -> None:
    """A name of its own for every row."""
    rng = np.random.RandomState(8)
    x = rng.normal(size=70)
    write(
        folder / "data.csv",
        {"name": [f"animal {k}" for k in range(70)], "x": x, "y": 2 * x + 0.1 * rng.normal(size=70)},
    )


# Shapes and scales


@table
def wide(folder: Path) -> None:
    """40 rows, 120 columns: more columns than rows."""
    rng = np.random.RandomState(9)
    X = np.round(rng.normal(size=(40, 120)), 3)
    y = X[:, 0] * 3 - X[:, 5] * 2 + 0.3 * rng.normal(size=40)
    columns = {f"x{k}": X[:, k] for k in range(120)}
    write(folder / "data.csv", {**columns, "y": y, "sign": ["up" if v > 0 else "down" for v in y]})


@table
def sparse(folder: Path) -> None:
    """200 rows, 60 columns, one entry in ten; as svmlight text too."""
    rng = np.random.RandomState(10)
    X = np.round(rng.normal(size=(200, 60)), 3) * (rng.rand(200, 60) < 0.1)
    y = X[:, 0] - 2 * X[:, 3] + 0.1 * rng.normal(size=200)
    label = (y + 0.5 * rng.normal(size=200) > 0).astype(int)
    write(folder / "data.csv", {**{f"x{k}": X[:, k] for k in range(60)}, "y": y, "label": label})
    pairs = [" ".join(f"{k + 1}:{v:.6g}" for k, v in enumerate(row) if v) for row in X]
    (folder / "data.svm").write_text("".join(f"{v:.6g} {p}\n" for v, p in zip(y, pairs)))
    (folder / "labels.svm").write_text("".join(f"{2 * v - 1} {p}\n" for v, p in zip(label, pairs)))
    (folder / "large.svm").write_text("1 9007199254740992:1\n0 9007199254740993:2\n1 5:1\n")
    (folder / "shifted.svm").write_text("1 1:1 2:1\n3:1\n0 1:1 0 2:1\n")


@table
def vw(folder: Path) -> None:
    """Vowpal Wabbit's text: spaces, weights, tags, lines without a label."""
    rng = np.random.RandomState(11)
    lines, unlabelled = [], []
    for k in range(150):
        a, b, word = rng.normal(), rng.rand(), choose(rng, ["red", "green", "blue"], 1)[0]
        y = 2 * a + (word == "red") + 0.1 * rng.normal()
        lines.append(f"{y:.5g} {1 + k % 2} 'id{k}|num a:{a:.5g} b:{b:.5g} |word {word}\n")
        unlabelled.append(f"|num a:{a:.5g} b:{b:.5g} |word {word}\n")
    (folder / "data.vw").write_text("".join(lines))
    (folder / "unlabelled.vw").write_text("".join(unlabelled))
    (folder / "mixed.vw").write_text("".join(lines[:40]) + "".join(unlabelled[40:43]) + "".join(lines[43:60]))
    (folder / "anonymous.vw").write_text("".join(f"{k % 3} | :{k % 5} :{k % 7} :{k % 2}\n" for k in range(60)))
    (folder / "tags.vw").write_text("".join(f"{k % 2} {90 + k}| a:{k % 5} b\n" for k in range(40)))
    (folder / "base.vw").write_text("".join(f"{k % 4} 1 0.5 | a:{k % 5} b:{k % 3}\n" for k in range(40)))
    (folder / "colons.vw").write_text("".join(f"{k % 4} | a:{k % 5} b:1:2\n" for k in range(40)))
    (folder / "broken.vw").write_text("1 | a:1\n2 | a:x\n")


@table
def far(folder: Path) -> None:
    """Targets far from zero: arrival as Unix time."""
    rng = np.random.RandomState(12)
    km = np.round(rng.rand(120) * 29 + 1, 3)
    late = np.round(20 * km + rng.normal(size=120), 3)
    write(
        folder / "data.csv",
        {"km": km, "arrive": [f"{1.7e9 + v:.3f}" for v in late], "late": late, "far": [f"{1e6 + v:.3f}" for v in late]},
    )


@table
def few(folder: Path) -> None:
    """Three rows; as many columns as rows; one row; a constant target."""
    write(folder / "data.csv", {"x": [1, 2, 4], "z": [0.5, 0, 1], "y": [1.0, 2.5, 3.0], "same": [7, 7, 7]})
    write(folder / "one.csv", {"x": [1], "y": [2]})
    write(folder / "two.csv", {"x": [1, 2], "y": [2, 3], "word": ["a", "b"]})


@table
def weighted(folder: Path) -> None:
    """Row weights, some of them 0; and two targets."""
    rng = np.random.RandomState(13)
    n = 100
    x, z = rng.normal(size=n), rng.rand(n)
    y = 1 + 2 * x - z + rng.normal(size=n) * (0.2 + z)
    w = np.round(1 / (0.2 + z) ** 2, 4)
    w[::17] = 0.0
    label = (y > 1).astype(int)
    write(folder / "data.csv", {"x": x, "z": z, "y": y, "y2": x * z + 0.1 * rng.normal(size=n), "w": w, "label": label})
    write(folder / "negative.csv", {"x": [1, 2, 3, 5], "y": [1, 2, 2, 4], "w": [1, -1, 2, 1]})


@table
def separable(folder: Path) -> None:
    """Two classes that a line divides."""
    rng = np.random.RandomState(14)
    x, z = rng.normal(size=60), rng.normal(size=60)
    keep = np.abs(x + z) > 0.3
    write(folder / "data.csv", {"x": x[keep], "z": z[keep], "side": ["a" if v > 0 else "b" for v in (x + z)[keep]]})


@table
def waves(folder: Path) -> None:
    """One sine with noise: bases, local fits, kernels, networks."""
    rng = np.random.RandomState(15)
    x = np.sort(rng.rand(70))
    y = np.sin(2 * np.pi * x) + 0.1 * rng.normal(size=70)
    city = choose(rng, ["Bern", "Rom", "Ulm"], 70)
    rent = 2 * x + np.array([len(c) == 4 for c in city]) + 0.1 * rng.normal(size=70)
    write(
        folder / "data.csv", {"x": x, "z": rng.rand(70), "city": city, "y": y, "rent": rent, "up": (y > 0).astype(int)}
    )


@table
def outliers(folder: Path) -> None:
    """A line, and one row in eight far from it."""
    rng = np.random.RandomState(16)
    x, z = rng.normal(size=80), rng.normal(size=80)
    y = 1 + 2 * x - z + 0.2 * rng.normal(size=80)
    y[::8] += 15 + 5 * rng.rand(10)
    write(folder / "data.csv", {"x": x, "z": z, "y": y, "up": (y > 2).astype(int)})


# Streams


@table
def trump(folder: Path) -> None:
    """River's TrumpApproval: 1,001 days of polls, a target that hardly moves."""
    from river.datasets import TrumpApproval

    rows = [{**x, "approval": y} for x, y in TrumpApproval()]
    write(folder / "data.csv", {name: [float(row[name]) for row in rows] for name in rows[0]})


@table
def phishing(folder: Path) -> None:
    """River's Phishing: 1,250 sites, two classes."""
    from river.datasets import Phishing

    rows = [{**x, "bad": y} for x, y in Phishing()]
    write(
        folder / "data.csv",
        {name: [float(r[name]) if name != "bad" else str(r[name]).lower() for r in rows] for name in rows[0]},
    )


@table
def drifting(folder: Path) -> None:
    """A stream whose weights change half way; three classes by name beside it."""
    rng = np.random.RandomState(17)
    n = 400
    X = rng.normal(size=(n, 3))
    W = np.where(np.arange(n)[:, None] < 200, [1.0, -2.0, 0.5], [-1.0, 0.5, 2.0])
    y = (X * W).sum(axis=1) + 0.1 * rng.normal(size=n)
    kind = [("low", "middle", "high")[int(v > -1) + int(v > 1)] for v in y]
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "kind": kind, "up": (y > 0).astype(int)}
    write(folder / "data.csv", columns)
    write(folder / "first.csv", {k: v[:150] for k, v in columns.items()})
    write(folder / "second.csv", {k: v[150:] for k, v in columns.items()})
    write(
        folder / "votes.csv",
        {k: (X[:, j] > 0).astype(int) for j, k in enumerate("abc")} | {"up": (X[:, 1] > 0).astype(int)},
    )


@table
def prices(folder: Path) -> None:
    """A price in the order of time: lags."""
    rng = np.random.RandomState(18)
    price, other = [100.0, 100.5, 99.8], [50.0, 50.2, 50.1]
    for _ in range(117):
        other.append(25 + 0.5 * other[-1] + 0.3 * rng.normal())
        price.append(20 + 0.5 * price[-1] + 0.1 * price[-2] + 0.4 * other[-2] + 0.5 * rng.normal())
    write(folder / "data.csv", {"price": price, "other": other})


@table
def served(folder: Path) -> None:
    """Examples for the live service."""
    rng = np.random.RandomState(19)
    X = np.round(rng.normal(size=(120, 2)), 4)
    town = choose(rng, ["Bern", "Basel", "Ulm"], 120)
    y = np.round(X @ [2.0, -1.0] + [t == "Ulm" for t in town] + 0.1 * rng.normal(size=120), 4)
    rows = [{"a": a, "b": b, "town": t} for (a, b), t in zip(X.tolist(), town)]
    (folder / "rows.json").write_text(json.dumps([rows, y.tolist()]))
    write(folder / "data.csv", {"a": X[:, 0], "b": X[:, 1], "town": town, "y": y})


# Formats


@table
def formats(folder: Path) -> None:
    """One table in several formats; then files that cannot be read."""
    import gzip

    import polars as pl

    rng = np.random.RandomState(20)
    n = 60
    x, town = np.round(rng.normal(size=n), 4), choose(rng, ["Bern", "Ulm"], n)
    y = np.round(3 * x + [t == "Ulm" for t in town] + 0.2 * rng.normal(size=n), 4)
    columns = {"x": x, "town": town, "y": y}
    write(folder / "data.csv", columns)
    write(folder / "data.tsv", columns, "\t")
    with gzip.open(folder / "data.csv.gz", "wt") as file:
        file.write((folder / "data.csv").read_text())
    frame = pl.read_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    frame.write_ipc(folder / "data.arrow")
    frame.write_ndjson(folder / "data.ndjson")
    text = (folder / "data.csv").read_text()
    (folder / "comma.csv").write_text(text.replace(",", ";").replace(".", ","))
    lines = text.splitlines()
    broken = {
        "ragged": [*lines[:10], "1,Bern", *lines[10:]],
        "word": [*lines[:10], "one,Bern,2", *lines[10:]],
        "infinite": [*lines[:10], "inf,Bern,2", *lines[10:]],
        "twice": ["x,x,y", "1,2,3", "2,3,4"],
        "header": lines[:1],
        "quote": [*lines[:10], '1,"Bern,2', *lines[10:]],
        "empty": [],
        "hole": [*lines[:10], ",Bern,2", *lines[10:]],
    }
    for name, rows in broken.items():
        (folder / f"{name}.csv").write_text("".join(f"{row}\n" for row in rows))
    (folder / "notutf8.csv").write_bytes(text.replace("Ulm", "Köln").encode("latin-1"))
    (folder / "keys.ndjson").write_text(
        '{"x": 1, "x": 5, "y": 1}\n{"x": 2, "y": 2}\n{"x": 3, "y": 2.5}\n{"x": 5, "y": 6}\n'
    )
    (folder / "cut.parquet").write_bytes((folder / "data.parquet").read_bytes()[:-20])
    (folder / "notmodel.tl").write_text("nothing")
    write(folder / "beyond.csv", {"x": [9007199254740993, 9007199254740995, 9007199254740999], "y": [1, 2, 3]})


# Beyond linear models


@table
def heights(folder: Path) -> None:
    """Heights of two kinds of people: densities and generative classifiers; and sentences."""
    rng = np.random.RandomState(21)
    kind = choose(rng, ["f", "m"], 120)
    height = [165 + 13 * (k == "m") + 7 * rng.normal() for k in kind]
    write(folder / "data.csv", {"height": height, "children": rng.poisson(1.5, 120).tolist(), "kind": kind})


@table
def sound(folder: Path) -> None:
    """A far-end signal, and a microphone that hears its echo."""
    rng = np.random.RandomState(22)
    far_end = rng.normal(size=600)
    room = np.r_[np.zeros(3), 0.6, -0.3, 0.1]
    mic = np.convolve(far_end, room)[:600] + 0.01 * rng.normal(size=600)
    write(folder / "data.csv", {"far": far_end, "mic": mic})
