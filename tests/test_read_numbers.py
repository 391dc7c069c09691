"""Numbers of files to the last bit, and files that are damaged."""

import io
import json
import random
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from trueline.data.read import open_source

ODD = [
    "0", "-0", "0.0", "-0.0", "+1", "1.", ".5", "-.5", "1e0", "1E5", "1e-5", "1e+5", "00012.50", "1e22", "1e23", "1e-22",
    "1e-23", "9007199254740991", "9007199254740992", "9007199254740993.0", "9007199254740993e0",
    "2.2250738585072011e-308", "2.2250738585072014e-308", "2.225073858507201e-308", "4.9e-324", "2.4703282292062328e-324",
    "2.4703282292062327e-324", "1.7976931348623157e308", "1.7976931348623158e308", "123456789012345678901234567890e-10",
    "0.1000000000000000055511151231257827021181583404541015625", "6.02214076e23", "1" + "0" * 300, "0." + "0" * 300 + "1",
    "9" * 40 + ".5", "3." + "14159265358979323846" * 20,
]  # fmt: skip


def numerals(count):
    """Random decimals of all lengths and sizes, and decimals that lie just between two doubles."""
    draw = random.Random(1)
    for _ in range(count):
        digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 25)))
        cut = draw.randint(0, len(digits))
        text = draw.choice(["", "-"]) + digits[:cut] + "." + digits[cut:]
        yield text if draw.random() < 0.4 else f"{text}e{draw.randint(-330, 280)}"
    from fractions import Fraction

    for _ in range(count // 4):
        x = abs(draw.gauss(0, 1)) * 10.0 ** draw.randint(-5, 15)
        middle = (Fraction(x) + Fraction(np.nextafter(x, np.inf).item())) / 2
        scaled = middle * 10**60
        text = str(int(scaled)).rjust(61, "0")
        yield f"{text[:-60]}.{text[-60:]}"


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "pipe"])
def test_numerals_are_read_to_the_last_bit(tmp_path, ending):
    cells = [cell for cell in [*ODD, *numerals(4000)] if cell.strip("-.") and abs(float(cell)) < np.inf]
    if ending == "ndjson":
        cells = [repr(float(cell)) for cell in cells]  # JSON knows fewer spellings
        text = "".join(f'{{"x": {cell}, "y": 1.5}}\n' for cell in cells)
    else:
        text = "x,y\n".replace(",", "\t" if ending == "tsv" else ",") + "".join(
            f"{cell}{chr(9) if ending == 'tsv' else ','}1.5\n" for cell in cells
        )
    path = tmp_path / f"t.{ending}"
    path.write_text(text)
    source = io.BytesIO(text.encode()) if ending == "pipe" else path
    read = np.concatenate([frame["x"].to_numpy() for frame in open_source(source).frames()])
    meant = np.array([float(cell) for cell in cells])
    wrong = np.flatnonzero(read.view(np.int64) != meant.view(np.int64))
    assert not len(wrong), [(cells[k], read[k], meant[k]) for k in wrong[:5]]


DAMAGED = """
import json, sys
import polars as pl
from trueline.data.read import open_source
from trueline.errors import TruelineError

path, raw = sys.argv[1], open(sys.argv[1], "rb").read()
length = int.from_bytes(raw[-8:-4], "little")
start = len(raw) - 8 - length
for bit in range(int(sys.argv[2]), 8 * (length + 8), int(sys.argv[3])):
    damaged = bytearray(raw)
    damaged[start + bit // 8] ^= 1 << bit % 8
    open(path, "wb").write(damaged)
    print(json.dumps(["bit", bit]), flush=True)
    try:
        ours = [row for frame in open_source(path).frames() for row in frame.rows()]
    except TruelineError as error:
        ours = "refused: " + error.message
    try:
        polars = pl.read_parquet(path, glob=False).rows()
    except BaseException as error:
        polars = "refused"
    print(json.dumps([bit, ours, polars]), flush=True)
open(path, "wb").write(raw)
"""


def test_a_damaged_footer_of_parquet_gives_what_polars_gives_or_a_refusal(tmp_path):
    """Every 11th bit of the footer in turn. Polars itself may end the process: a child takes that."""
    path = tmp_path / "t.parquet"
    table = pl.DataFrame({"x": np.arange(40.0), "k": np.arange(40) % 7, "y": np.arange(40.0) ** 2})
    table.write_parquet(path, row_group_size=20, use_pyarrow=False)
    rows = [list(row) for row in table.rows()]
    at, step, seen = 0, 11, 0
    for _ in range(40):  # as many ends of the process as we bear with
        made = subprocess.run(
            [sys.executable, "-c", DAMAGED, str(path), str(at), str(step)], capture_output=True, text=True, timeout=300
        )
        lines = [json.loads(line) for line in made.stdout.splitlines()]
        for bit, *said in (line for line in lines if line[0] != "bit"):
            ours, polars = said
            seen += 1
            # Nothing of our own between Polars and the reader: the same rows, or a sentence.
            assert ours in (rows, polars) or str(ours).startswith("refused: "), (bit, ours)
        if made.returncode == 0:
            break
        assert made.returncode < 0 or "panicked" in made.stderr, made.stderr[-2000:]  # Polars', not a traceback of ours
        assert "trueline" not in made.stderr.rpartition("Traceback")[2], made.stderr[-2000:]
        at = lines[-1][1] + step if lines[-1][0] == "bit" else lines[-1][0] + step
        path.write_bytes(b"")
        table.write_parquet(path, row_group_size=20, use_pyarrow=False)
    assert seen > 300
