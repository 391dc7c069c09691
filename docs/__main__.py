"""``python -m docs [name …]``: writes what is generated here: the help of every command (cli) and each page's pictures."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pathlib
import pkgutil
import sys

HERE = pathlib.Path(__file__).parent
NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "LINES": "40"}


def help_page() -> str:
    """docs/cli.md: the introduction by hand (cli_intro.md), then the help of each command as it prints it."""
    from trueline.cli import main
    from trueline.cli.tree import GROUPS

    def printed(*arguments: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(list(arguments))
        return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())

    before = {name: os.environ.get(name) for name in NARROW}
    os.environ.update(NARROW)
    try:
        parts = [(HERE / "cli_intro.md").read_text().strip(), "", "```", printed("--help"), "```", ""]
        for group, entries in GROUPS.items():
            parts += [f"## {group}", ""]
            for name in entries:
                parts += [f"### trueline {name}", "", "```", printed(name, "--help"), "```", ""]
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    return "\n".join(parts).rstrip() + "\n"


def run(names: list[str]) -> None:
    if not names or "cli" in names:
        (HERE / "cli.md").write_text(help_page())
        print("docs/cli.md")
    pictures = HERE / "pictures"
    pictures.mkdir(exist_ok=True)
    for module in pkgutil.iter_modules([str(HERE)]):
        if module.name == "__main__" or (names and module.name not in names):
            continue
        draw = getattr(importlib.import_module(f"docs.{module.name}"), "draw", None)
        if draw is not None:
            before = {path: path.stat().st_mtime_ns for path in pictures.iterdir()}
            draw(pictures)
            for path in sorted(pictures.iterdir()):
                if before.get(path) != path.stat().st_mtime_ns:
                    print(f"docs/pictures/{path.name} ({path.stat().st_size // 1000} kB)")


if __name__ == "__main__":
    run(sys.argv[1:])
