"""Where the quotation marks of delimited text go wrong: a mark that is not closed swallows every line behind it.

Polars says only that rows are missing or too many. This looks at the text again, once something is known to be wrong:
a value in marks ends at the next single mark, which the separator or the line's end must follow; "" is the mark itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import DataError

_MARK = b'"'
_ITSELF = 'write "" where a value holds the mark itself'
_SHOWN = 24


def wrong_quotes(lines: Iterable[bytes], separator: str, describe: str, first: int = 1) -> DataError | None:
    """The first value whose marks do not end where it does; ``first`` is the number of the first line.

    >>> print(wrong_quotes([b"x,k\\n", b'1,"a\\n', b"2,b\\n"], ",", "t.csv"))
    line 2 of t.csv opens a quotation mark before 'a' that is never closed; close it, or write "" where a value holds the mark itself
    """
    cut = separator.encode()
    opened: tuple[int, bytes] | None = None  # the line where a value in marks began, and how it began
    for number, line in enumerate(lines, first):
        at = 0
        bare = line.rstrip(b"\r\n")
        while True:
            if opened is not None:
                at = bare.find(_MARK, at)
                if at < 0:
                    break
                if bare[at + 1 : at + 2] == _MARK:
                    at += 2
                    continue
                at += 1
                if at < len(bare) and not bare.startswith(cut, at):
                    return _astray(opened, number, bare[at:], describe)
                opened = None
            elif bare.startswith(_MARK, at):
                opened = number, bare[at + 1 :]
                at += 1
                continue
            at = bare.find(cut, at)
            if at < 0 or bare.find(_MARK, at) < 0:
                break
            at += len(cut)
    if opened is None:
        return None
    number, text = opened
    return _refusal(
        number, f"opens a quotation mark before {_shown(text)} that is never closed; close it, or {_ITSELF}", describe
    )


def inner_quote(lines: Iterable[bytes], describe: str, first: int = 1) -> DataError | None:
    """The first mark inside a value that does not begin with one: read as it stands by some, refused by Polars."""
    for number, line in enumerate(lines, first):
        at = line.find(_MARK)
        if at >= 0:
            shown = _shown(line[max(0, at - _SHOWN // 2) :])
            return _refusal(
                number,
                f'has a quotation mark inside a value, in {shown}; put all of the value in marks and write "" for its own',
                describe,
            )
    return None


def _astray(opened: tuple[int, bytes], number: int, rest: bytes, describe: str) -> DataError:
    start, text = opened
    if start == number:
        return _refusal(number, f"has {_shown(rest)} behind a closing quotation mark; {_ITSELF}", describe)
    told = (
        f"opens a quotation mark before {_shown(text)} that nothing closes before line {number}; close it, or {_ITSELF}"
    )
    return _refusal(start, told, describe)


def _refusal(number: int, told: str, describe: str) -> DataError:
    return DataError(f"line {number} of {describe} {told}", where=f"{describe}:{number}")


def _shown(text: bytes) -> str:
    shown = text.strip().decode("utf-8", "replace")
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")
