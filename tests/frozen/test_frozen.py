"""What trueline computed before, it computes now: every row of tests/frozen/recorded, at its stated tolerance."""

from __future__ import annotations

import pytest
from frozen.cases import CASES
from frozen.comparing import RECORDED, differences, read_rows, run_table
from frozen.tables import TABLES


@pytest.mark.parametrize("table", sorted(CASES))
def test_recorded_rows(table):
    found = differences(read_rows(table), run_table(table))
    again = f"\nIf a number was corrected: PYTHONPATH=tests python -m frozen.record {table} CASE, and its line into the CHANGELOG."
    assert not found, "\n".join([f"{table}:", *found]) + again


def test_every_table_is_recorded():
    assert set(TABLES) == set(CASES) == {path.stem for path in RECORDED.glob("*.json")}
