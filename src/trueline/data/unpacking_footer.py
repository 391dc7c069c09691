"""Whether a Parquet file's footer is what the format says it is, field by field: damage there must not pass for a table.

A bit that flips in the numbers of a page is found by its checksum or by what unpacks it, if at all. One that flips in
the footer changes what the numbers mean, and most such changes show: a field of another type or number, a name that
two places no longer agree on, rows that no longer add up. Chunks of a file are alike, so each form is looked at once.
"""

from __future__ import annotations

from typing import Any

# Fields by number, and what Thrift's types are here; of lists and structs their own fields are looked at where they matter.
_STATISTICS: dict[int, type] = (
    dict.fromkeys((1, 2, 5, 6), bytes) | dict.fromkeys((3, 4), int) | dict.fromkeys((7, 8), bool)
)
_METADATA: dict[int, type] = {
    **dict.fromkeys((1, 4, 5, 6, 7, 9, 10, 11, 14, 15), int), **dict.fromkeys((2, 3, 8, 13), list), 12: dict, 16: dict,
}  # fmt: skip
_CHUNK: dict[int, type] = {1: bytes, 3: dict} | dict.fromkeys((2, 4, 5, 6, 7), int)
_GROUP: dict[int, type] = {1: list, 4: list} | dict.fromkeys((2, 3, 5, 6, 7), int)
_ELEMENT: dict[int, type] = {4: bytes, 10: dict} | dict.fromkeys((1, 2, 3, 5, 6, 7, 8, 9), int)
_PAIR: dict[int, type] = {1: bytes, 2: bytes}
_FILE: dict[int, type] = {1: int, 2: list, 3: int, 4: list, 5: list, 6: bytes, 7: list}
_ENCODINGS = {*range(10)}
_RANGES = {1: range(8), 3: range(3), 6: range(22)}  # of an element's type, repetition and converted type


def sound(told: dict[int, Any]) -> bool:
    """Whether all fields are of the format's types, and what is told twice is told alike."""
    known: dict[Any, bool] = {}
    if not _fits(told, _FILE, {1, 2, 3, 4}, known):
        return False
    elements, pairs = told[2], told.get(5, [])
    if not (_all(elements, _ELEMENT, {4}, known) and _all(pairs, _PAIR, {1}, known)):
        return False
    for element in elements:
        if any(element.get(number, 0) not in allowed for number, allowed in _RANGES.items()):
            return False
    for text in (told.get(6, b""), *(e[4] for e in elements), *(t for pair in pairs for t in pair.values())):
        text.decode()  # a UnicodeDecodeError is a ValueError: no table for here
    if any(order != {1: {}} for order in told.get(7, ())) or not _all(told[4], _GROUP, {1, 2, 3}, known):
        return False
    wanted = [(element.get(1), [element[4]]) for element in elements[1:]]
    return told[3] == sum(group[3] for group in told[4]) and all(_chunks(group[1], wanted, known) for group in told[4])


def _chunks(chunks: list[Any], wanted: list[Any], known: dict[Any, bool]) -> bool:
    """Whether the chunks of a row group are of these columns' types and names, and packed in a known way."""
    for chunk, column in zip(chunks, wanted):
        if not (_fits(chunk, _CHUNK, {2, 3}, known) and _fits(chunk[3], _METADATA, {1, 2, 3, 4, 5, 6, 7, 9}, known)):
            return False
        about = chunk[3]
        if not (12 not in about or _fits(about[12], _STATISTICS, set(), known)) or not 0 <= about[4] < 8:
            return False
        if (about[1], about[3]) != column or not _ENCODINGS.issuperset(about[2]):
            return False
    return len(chunks) == len(wanted)


def _all(values: list[Any], form: dict[int, type], needed: set[int], known: dict[Any, bool]) -> bool:
    return all(_fits(value, form, needed, known) for value in values)


def _fits(value: Any, form: dict[int, type], needed: set[int], known: dict[Any, bool]) -> bool:
    """Whether a struct has these fields; ``known`` are those, and their types, that were looked at already."""
    if type(value) is not dict:
        return False
    shape = id(form), *value, *map(type, value.values())
    if shape not in known:
        known[shape] = needed <= {*value} <= {*form} and all(type(v) is form[k] for k, v in value.items())
    return known[shape]
