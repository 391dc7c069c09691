"""Nothing of trueline leans on what another project keeps for itself, or changes what belongs to the whole process.

Read from the source: imports of private modules and names (a leading underscore, and the modules named below), private
attributes of modules, ctypes, changes of the environment, the end of the process, the collector's settings. An
exception is a file and a rule, with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "trueline"
INTERNAL = ("numba.core", "numba.np", "numba.cpython", "llvmlite", "uvicorn.protocols", "numpy.core")
ENVIRONMENT = {"setdefault", "pop", "popitem", "update", "clear", "__setitem__", "__delitem__"}
PROCESS = {"os._exit", "os.putenv", "os.unsetenv", "gc.set_threshold", "gc.freeze", "gc.disable", "mallopt"}

EXCEPTIONS = {
    ("model/cfunction.py", "ctypes"): "calls the library that was compiled from the exported model, to compare",
    ("objective/uncompiled_math.py", "ctypes"): "calls a user's C functions by their address where kernels run uncompiled",
    ("objective/user_functions.py", "ctypes"): "takes that address out of SciPy's LowLevelCallable",
    ("cli/elsewhere.py", "environment"): "Spark's own processes, which the command starts, are told by it alone where to listen and to keep still",
}  # fmt: skip


def findings(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """(rule, line, what) for everything that a module should not do."""
    modules: dict[str, str] = {}  # names of other projects' modules here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                yield from _imported(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module != "__future__":
            for alias in node.names:
                yield from _imported(f"{node.module}.{alias.name}", node.lineno)
                modules.setdefault(alias.asname or alias.name, f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = _dotted(node, modules)
            if name in PROCESS:
                yield "process", node.lineno, name
            elif name and _private(node.attr) and not name.startswith("trueline"):
                yield "private", node.lineno, name
            elif node.attr in ENVIRONMENT and _dotted(node.value, modules) == "os.environ":
                yield "environment", node.lineno, name
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if _dotted(node.value, modules) == "os.environ":
                yield "environment", node.lineno, "os.environ[…]"
        elif isinstance(node, ast.AugAssign) and _dotted(node.target, modules) == "os.environ":
            yield "environment", node.lineno, "os.environ"


def foreign_attributes(trees: dict[str, ast.AST]) -> Iterator[tuple[str, int, str]]:
    """(file, line, name) of private attributes that no file of ours defines: so they are another project's."""
    ours = {"_fields", "_replace", "_asdict", "_make"}  # of named tuples, public
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                ours.add(node.name)
            elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Store):
                ours.add(node.attr if isinstance(node, ast.Attribute) else node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                ours.add(node.value)  # set by its name
            elif isinstance(node, ast.alias):
                ours.add(node.asname or node.name.split(".")[-1])
    for place, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _private(node.attr) and node.attr not in ours:
                yield place, node.lineno, node.attr


def _imported(name: str, line: int) -> Iterator[tuple[str, int, str]]:
    if name.split(".")[0] == "trueline":
        return
    if name.split(".")[0] == "ctypes":
        yield "ctypes", line, name
    elif name in PROCESS:
        yield "process", line, name
    elif any(map(_private, name.split("."))) or any(f"{name}.".startswith(f"{module}.") for module in INTERNAL):
        yield "private", line, name


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _dotted(node: ast.AST, modules: dict[str, str]) -> str:
    """A chain of attributes of an imported module with its full name, or nothing."""
    if isinstance(node, ast.Name):
        return modules.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, modules)
        return f"{before}.{node.attr}" if before else ""
    return ""


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_public_interfaces_and_only_our_own_process(path):
    place = path.relative_to(SOURCE).as_posix()
    found = list(findings(ast.parse(path.read_text(encoding="utf-8"))))
    wrong = [f"{place}:{line}: {rule}: {what}" for rule, line, what in found if (place, rule) not in EXCEPTIONS]
    assert not wrong, "\n".join(wrong)


def test_no_private_attribute_of_other_projects_objects():
    trees = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    wrong = [f"{place}:{line}: {name}" for place, line, name in foreign_attributes(trees)]
    assert not wrong, "\n".join(wrong)
    planted = {"a.py": ast.parse("def f(x):\n    x._own = 1\n    return x._own, x._theirs")}
    assert list(foreign_attributes(planted)) == [("a.py", 3, "_theirs")]


def test_every_exception_is_needed():
    for place, rule in EXCEPTIONS:
        found = findings(ast.parse((SOURCE / place).read_text(encoding="utf-8")))
        assert rule in {one for one, _, _ in found}, f"{place} needs no exception from {rule} any more"


@pytest.mark.parametrize(
    ("text", "rule"),
    [("import numba.core.types", "private"), ("from numba.core import types as t", "private"), ("from llvmlite import ir", "private"),
     ("import numpy as np\nnp._globals", "private"), ("from scipy import linalg\nlinalg._fblas", "private"),
     ("from sklearn.utils import _array_api", "private"), ("def f():\n    from uvicorn.protocols.http import auto", "private"),
     ("import polars as pl\npl._plr.x()", "private"), ("import atexit\natexit._run_exitfuncs()", "private"),
     ("from ctypes import CDLL\nCDLL(None)", "ctypes"), ("import os\nos.environ['A'] = '1'", "environment"),
     ("import os\ndel os.environ['A']", "environment"), ("from os import environ\nenviron.setdefault('A', '1')", "environment"),
     ("import os\nos.environ |= {}", "environment"), ("import os\nos._exit(0)", "process"), ("import gc\ngc.set_threshold(9)", "process"),
     ("from os import _exit", "process")],
)  # fmt: skip
def test_the_look_sees(text, rule):
    assert rule in {one for one, _, _ in findings(ast.parse(text))}


def test_the_look_lets_pass():
    text = "import os, numpy as np\nfrom . import _x\nfrom trueline import _y\nos.environ.get('A')\nnp.__version__\nself._y = os.environ['A']"
    assert not list(findings(ast.parse(text)))
