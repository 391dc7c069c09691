"""The table that the tests of commands share, and how they run one."""

from __future__ import annotations

import json
import os

import numpy as np
import polars as pl

from trueline.cli import main

ENV = {**os.environ, "NO_COLOR": "1"}


def write_table(folder):
    """A small table of numbers, a category and a yes/no, with a known answer."""
    rng = np.random.default_rng(3)
    n = 400
    x, z = rng.normal(size=n), rng.normal(size=n) * 50 + 1000
    colour = rng.choice(["red", "green", "blue"], n)
    y = 3.0 + 2.0 * x - 0.01 * z + np.where(colour == "red", 1.5, 0.0) + 0.1 * rng.normal(size=n)
    yes = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    frame = pl.DataFrame({"x": x, "z": z, "colour": colour, "y": y, "answer": yes})
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    frame.head(200).write_csv(folder / "first.csv")
    frame.tail(200).write_csv(folder / "second.csv")
    return folder


def write_model(table):
    path = table / "m.tl"
    assert main(["fit", str(table / "t.csv"), "--target", "y", "--features", "x,z,colour", "-q", "-o", str(path)]) == 0
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def result(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, (out, err)
    return json.loads(out.strip().splitlines()[-1])
