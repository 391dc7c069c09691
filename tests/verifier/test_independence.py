"""The verifier imports NumPy, scipy.sparse, the records of certificates, errors and the standard library, nothing else."""

import ast
import sys
from pathlib import Path

import pytest

from trueline import verifier

FILES = sorted(Path(verifier.__file__).parent.glob("*.py"))
ROOMS = ("..certificates", "..errors")
OTHERS = ("numpy", "scipy.sparse")


def imported(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_verifier_imports_nothing_that_it_verifies(path):
    for name in imported(path.read_text()):
        own = name.startswith(".") and not name.startswith("..")
        plain = name.split(".")[0] in sys.stdlib_module_names
        assert own or plain or name in OTHERS or name.startswith(ROOMS), name
