"""What all tests share: the grouping of tests that run side by side, and a look at every refusal of a command."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import trueline

PACKAGE = Path(trueline.__file__).parent
# Compiled kernels are in place before pytest collects doctests: it would load their .py files, and run those.
for _types in PACKAGE.rglob("*.pxd"):
    importlib.import_module(".".join(("trueline", *_types.relative_to(PACKAGE).with_suffix("").parts)))

SPARK = ("test_scale_odd_spark.py", "test_scale_spark.py", "test_scale_vectors.py")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if config.pluginmanager.has_plugin("xdist") else ():
        item.add_marker(pytest.mark.xdist_group("spark" if item.path.name in SPARK else str(item.path)))


@pytest.fixture(autouse=True)
def remedies_that_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option that a refusal names is one of the command that refuses, whatever test brought it about.

    A word of Python's (``features=``) stands beside the option it is here, or says that it is Python's. What the command line itself holds does not count.
    """
    from trueline import cli

    plain = cli._refuse

    def checked(error: cli.TruelineError, arguments: list[str]) -> int:
        code = plain(error, arguments)
        named = set() if error.message.startswith("no such option") else options_named(error.message)
        unknown = named - options_of(arguments[0] if arguments else "") - {"--help", "--version"}
        unknown -= {word.partition("=")[0] for word in arguments}
        foreign = pythons_words(error.message)
        assert not foreign, f"{foreign} is no word of the command line in: {error.message}"
        assert not unknown, f"{arguments[0]} has no {', '.join(unknown)}, and says: {error.message}"
        return code

    monkeypatch.setattr(cli, "_refuse", checked)


def options_named(sentence: str) -> set[str]:
    """The options that a sentence speaks of, but for commands in backquotes and how a model was made."""
    left = re.sub(r"`[^`]*`|\bwas \w+ with(out)? --[a-z0-9-]+", "", sentence)
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", left))


def pythons_words(sentence: str) -> list[str]:
    """Python's arguments that a sentence speaks of without saying so, or what they are on the command line."""
    left = re.sub(
        r"[a-z_]+=(?:'[^']*')?(?: or '\w+')? \((?:--|in Python)[^)]*\)|\([a-z_]+= in Python[^)]*\)", "", sentence
    )
    left = re.sub(r"(?<!=)'[^']*'", "", left)  # what stands in the data
    return re.findall(r"(?<![\w-])[a-z_]{3,}=(?=[\s,;.:)]|$)", left)


def options_of(command: str) -> set[str]:
    """The options that a command has, as written on the command line."""
    from trueline.cli.tree import commands, load

    if command not in commands():
        return set()
    return {flag for parameter in load(command).params for flag in (*parameter.opts, *parameter.secondary_opts)}
