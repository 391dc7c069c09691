"""Record again, row by row: ``PYTHONPATH=tests python -m frozen.record TABLE CASE [QUANTITY]``.

Prints each row that changed, old and new, as a line for the CHANGELOG. ``--known-wrong "what is wrong"`` marks the
rows instead of comparing them from then on. A case that is not recorded yet is recorded whole.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys

from frozen.cases import CASES
from frozen.comparing import differences, read_rows, run_table, short, write_rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(CASES))
    parser.add_argument("case", help="the name of a case")
    parser.add_argument("quantity", nargs="?", help="one quantity of it; default: those that do not agree")
    parser.add_argument("--known-wrong", metavar="WHY", help="one sentence: what is wrong with the recorded value")
    options = parser.parse_args()
    old = read_rows(options.table)
    if options.case not in {case.name for case in CASES[options.table]}:
        print(
            f"table {options.table} has no case {options.case!r}; cases: {', '.join(c.name for c in CASES[options.table])}"
        )
        return 2
    new = run_table(options.table, options.case)
    of_case = [row for row in old if row.case == options.case]
    apart = {line.partition(": ")[0].partition(" | ")[2] for line in differences(of_case, new)}
    apart |= {row.quantity for row in of_case if row.known_wrong is not None}
    apart |= {row.quantity for row in new} - {row.quantity for row in of_case}
    chosen = {options.quantity} if options.quantity else apart if of_case else {row.quantity for row in new}
    before = {row.quantity: row for row in of_case}
    after = {row.quantity: row for row in new}
    rows = [row for row in old if row.case != options.case or row.quantity not in chosen]
    for quantity in sorted(chosen):
        row = after.get(quantity)
        if row is not None:
            rows.append(dataclasses.replace(row, known_wrong=options.known_wrong))
        was, now = before.get(quantity), row
        print(
            f"- frozen {options.table}, {options.case}, {quantity}: {short(was.value) if was else 'new'} → "
            f"{short(now.value) if now else 'none'}{f' (known to be wrong: {options.known_wrong})' if options.known_wrong else ''}"
        )
    if not chosen:
        print("nothing changed")
    write_rows(options.table, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
