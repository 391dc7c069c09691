"""``python -m benchmarks [--quick] [name …]``: run benchmarks and rewrite their sections of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import pathlib
import pkgutil
import platform
import re

from .harness import Row

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Each section is written by `make bench` (or `python -m benchmarks NAME`): same data, same run, contenders interleaved,
minimum of several rounds, threads as stated. A ratio above 1 says that trueline is better; an aim that was missed is
marked as missed.
"""
PEERS = (
    "numpy scipy numba polars scikit-learn statsmodels river vowpalwabbit celer skglm adelie glum dask dask-ml pyspark "
    "padasip pyroomacoustics"
)


def machine() -> str:
    processor = next(
        (
            line.split(":")[1].strip()
            for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    versions = []
    for name in PEERS.split():
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{processor}, {os.cpu_count()} cores; Python {platform.python_version()}; {', '.join(versions)}."


def table(rows: list[Row]) -> str:
    lines = ["| task | trueline | peer | | ratio | aim | note |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        aim = "" if row.aim is None else f"≥ {row.aim:g} {'met' if row.ratio >= row.aim else '**missed**'}"
        lines.append(
            f"| {row.task} | {row.ours:.4g} {row.unit} | {row.theirs:.4g} {row.unit} | {row.peer} | "
            f"{row.ratio:.2f}× | {aim} | {row.note} |"
        )
    return "\n".join(lines)


def rewrite(name: str, title: str, body: str) -> None:
    text = PAGE.read_text() if PAGE.exists() else HEAD
    section = f"<!-- {name} -->\n## {title}\n\nMeasured on {machine()}\n\n{body}\n<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.S)
    text = pattern.sub(lambda _: section, text) if pattern.search(text) else f"{text.rstrip()}\n\n{section}\n"
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)


def main() -> None:
    package = __package__ or "benchmarks"
    known = [
        m.name
        for m in pkgutil.iter_modules([str(pathlib.Path(__file__).parent)])
        if not m.name.startswith("_") and m.name != "harness"
    ]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(known)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes; the page is not rewritten")
    given = parser.parse_args()
    for name in given.names or known:
        if name not in known:
            parser.error(f"no benchmark named {name!r}; known are {', '.join(known)}")
        module = importlib.import_module(f"{package}.{name}")
        print(f"== {name}: {module.NAME}", flush=True)
        body = table(module.run(given.quick))
        print(body, flush=True)
        if not given.quick:
            rewrite(name, module.NAME, f"`python -m benchmarks {name}`\n\n{body}")


if __name__ == "__main__":
    main()
