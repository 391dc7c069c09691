"""The data of ``trueline demo``: a generated table of flats to rent (make.py writes rents.csv); a page of English."""

from __future__ import annotations

from pathlib import Path

RENTS = Path(__file__).parent / "rents.csv"
TEXT = Path(__file__).parent / "page.txt"
