"""Command lines read without Typer mean what they mean to Typer."""

from __future__ import annotations

import inspect

import pytest

from trueline.cli import declare, tree

LINES = [
    "fit a.csv b.csv --target y -o m.tl --alpha=0.5 --folds 3 --l1-ratio .25 --derive p=q --derive r=s --json",
    "fit - -t y --holdout 0.2 -q",
    "stream --epochs 2 --no-certificate a.csv --target y --rate 0.005 --predictions -",
    "stream a.vw --certificate",
    "predict m.tl a.csv b.csv --interval 0.95",
    "verify m.tl a.csv --json",
    "inspect m.tl",
    "export m.tl --to c",
    "evaluate m.tl a.csv",
    "compare a.csv --target y --folds 4",
    "echo far.wav mic.wav --shortest --channel 2 --tail 300ms",
    "echo --demo",
    "demo",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_read_without_typer_is_read_as_typer_reads_it(line):
    name, *given = line.split()
    function = tree._function(name)
    values = declare.read(function, given)
    assert values is not None
    own = {p.name: p.default for p in inspect.signature(function).parameters.values()} | values
    context = tree.load(name).make_context(name, given)
    for key, value in context.params.items():
        assert own[key] == value or (own[key] is None and not value), key


@pytest.mark.parametrize(
    "line",
    [
        "fit --help", "fit", "fit a.csv --folds three", "fit a.csv --folds -3", "fit a.csv --nothing 1", "fit a.csv -t",
        "fit a.csv --json=yes", "fit a.csv --target --json", "fit -ty a.csv", "inspect m.tl other", "fit -- a.csv",
        "fit a.csv --target=", "echo far.wav mic.wav --channel 1.5", "predict m.tl", "fit a.csv --fold 3",
    ],
)  # fmt: skip
def test_what_is_not_plainly_right_is_left_to_typer(line):
    name, *given = line.split()
    assert declare.read(tree._function(name), given) is None
