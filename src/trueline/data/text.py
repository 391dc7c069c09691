"""Sparse text, as it flows: svmlight's ``label 3:0.5 17:1`` and Vowpal Wabbit's ``label weight 'tag|space a b:2``.

Both become rows of a CSR matrix whose columns are numbered as their names appear: no hashing, so no collisions, and
every weight keeps its name (``space^a`` in Vowpal Wabbit's own notation, ``a`` in the nameless space). Names that are
whole numbers are the numbers, of any length: ``007`` is ``7``. A line of Vowpal Wabbit's text without a label has the
target NaN: predict it, do not learn from it. What Vowpal Wabbit would drop with a warning is refused with its line.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, UsageError, nearest
from .files import resolve
from .streams import arrivals, standard_input

BLOCK_LINES = 8192


class SparseBlock(NamedTuple):
    """Some rows in CSR form: ``names`` are the columns known so far and may grow from block to block."""

    names: tuple[str, ...]
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None
    tags: tuple[str, ...] | None = None

    def toarray(self) -> np.ndarray:
        """The rows as a dense array."""
        X = np.zeros((len(self.y), len(self.names)))
        np.add.at(X, (np.repeat(np.arange(len(self.y)), np.diff(self.indptr)), self.indices), self.data)
        return X


def text_format(path: str) -> str | None:
    """ "svmlight" or "vw" by a file's suffix, or None.

    >>> text_format("train.svm.gz"), text_format("day1.vw"), text_format("t.csv")
    ('svmlight', 'vw', None)
    """
    bare = path.lower().removesuffix(".gz")
    if bare.endswith((".svm", ".svmlight", ".libsvm")):
        return "svmlight"
    return "vw" if bare.endswith(".vw") else None


def read_text(
    source: Any, form: str, *, known: tuple[str, ...] = (), block_lines: int = BLOCK_LINES
) -> Iterator[SparseBlock]:
    """Blocks of sparse text from a path, ``"-"`` for standard input, or a byte stream.

    ``known`` are the columns of a model that is to be continued; they keep their places.

    >>> import io
    >>> block = next(read_text(io.BytesIO(b"1 2 'first|size height:1.5 wide\\n-1 |size wide\\n"), "vw"))
    >>> block.names, block.toarray().tolist(), block.y.tolist(), block.weights.tolist()
    (('size^height', 'size^wide'), [[1.5, 1.0], [0.0, 1.0]], [1.0, -1.0], [2.0, 1.0])
    """
    readers: dict[str, _ReadLine] = {"svmlight": _svmlight_line, "vw": _vowpal_line}
    if form not in readers:
        raise UsageError(f"there is no text format {form!r}{nearest(form, readers)}", where="format")
    places = {name: k for k, name in enumerate(known)}
    seen = 0
    for describe, number, lines in _blocks(source, block_lines):
        seen += len(lines)
        made = _block(lines, places, describe, number, readers[form])
        if len(made.y):
            yield made
    if not seen:
        raise DataError(
            f"{source if isinstance(source, str) else 'the stream'} is empty: no line to read", where=str(source)
        )


def _blocks(source: Any, block_lines: int) -> Iterator[tuple[str, int, list[bytes]]]:
    """(description, number of the first line, lines) in blocks, and sooner where a pipe pauses."""
    for describe, stream in _streams(source):
        number, rest = 1, b""
        for piece in arrivals(stream):
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            for start in range(0, len(lines), block_lines):
                part = lines[start : start + block_lines]
                yield describe, number, part
                number += len(part)
        if rest.strip():
            yield describe, number, [rest]


def _streams(source: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(source, "read"):
        yield "the stream", source
        return
    if source == "-":
        yield "standard input", standard_input()
        return
    for item in source if isinstance(source, (list, tuple)) else [source]:
        for path in resolve(os.fspath(item)):
            with open(path, "rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
            with gzip.open(path, "rb") if packed else open(path, "rb") as stream:
                yield path, stream


def _block(lines: list[bytes], places: dict[str, int], describe: str, number: int, read: _ReadLine) -> SparseBlock:
    """The rows of some lines, the first of them number ``number``; blank ones are none."""
    data: list[float] = []
    indices: list[int] = []
    indptr = [0]
    heads: list[_Head] = []
    for k, raw in enumerate(lines):
        if not raw.strip():
            continue
        place = f"{describe}:{number + k}"
        try:
            line = raw.removesuffix(b"\r").decode("utf-8-sig" if number + k == 1 else "utf-8")
            if "\r" in line:
                raise ValueError("holds a carriage return, which ends no line here")
            head = read(line, places, data, indices)
        except UnicodeDecodeError:
            raise DataError(f"line {number + k} of {describe} is not UTF-8 text", where=place) from None
        except ValueError as error:
            raise DataError(f"line {number + k} of {describe} {error}", where=place) from None
        if head is not None:
            heads.append(head)
            indptr.append(len(data))
    tags = tuple(head.tag for head in heads)
    weighted = read is _vowpal_line
    return SparseBlock(
        tuple(places), np.array(data), np.array(indices, dtype=np.int64), np.array(indptr, dtype=np.int64),
        np.array([head.label for head in heads]), np.array([head.weight for head in heads]) if weighted else None,
        tags if any(tags) else None,
    )  # fmt: skip


class _Head(NamedTuple):
    """What a line says beside its features."""

    label: float
    weight: float = 1.0
    tag: str = ""


_ReadLine = Callable[[str, dict[str, int], list[float], list[int]], "_Head | None"]


def _place(places: dict[str, int], prefix: str, name: str) -> int:
    """The column of a feature; a name that is a whole number is that number, however it is written."""
    bare = name.lstrip("0") or "0" if name.isascii() and name.isdigit() else name
    return places.setdefault(prefix + bare, len(places))


def _svmlight_line(line: str, places: dict[str, int], data: list[float], indices: list[int]) -> _Head | None:
    """Append the line's features; None for a comment alone."""
    words = line.partition("#")[0].split()
    if not words:
        return None
    label = _number(words[0], words[0], "a label")
    start = len(indices)
    for k, word in enumerate(words[1:]):
        name, _, value = word.partition(":")
        place = places.get(name)
        if place is None:
            if name == "qid" and k == 0 and value.isascii() and value.isdigit():
                continue
            if not (name.isascii() and name.isdigit() and value):
                raise ValueError(
                    f"holds {word!r} where index:value is expected, the index a whole number of at least 0"
                )
            place = _place(places, "", name)
        indices.append(place)
        data.append(_number(value, word, "index:value"))
    if len(set(indices[start:])) < len(indices) - start:
        seen = indices[start:]
        twice = next(place for k, place in enumerate(seen) if place in seen[:k])
        name = next(name for name, place in places.items() if place == twice)
        raise ValueError(f"names index {name} twice; give each index once")
    return _Head(label)


def _vowpal_line(line: str, places: dict[str, int], data: list[float], indices: list[int]) -> _Head:
    """Append the line's features."""
    head, *spaces = line.split("|")
    if not spaces:
        raise ValueError("has no '|', which begins the features")
    made = _vowpal_head(head)
    for space in spaces:
        blank = space[:1] in ("", " ", "\t")
        features = space.replace("\t", " ").split(" ")
        prefix, scale = "", 1.0
        if not blank:
            name, colon, value = features.pop(0).partition(":")
            if not name:
                raise ValueError(f"holds '|{colon}{value}', a value without the namespace's name")
            prefix, scale = f"{name}^", _number(value, value, "a namespace's value") if colon else 1.0
        nameless = 0
        for feature in features:
            if not feature:
                continue
            name, colon, value = feature.partition(":")
            number = _number(value, feature, "a feature's value") * scale if colon else scale
            if number - number != 0.0:
                raise ValueError(f"holds {feature!r}, whose value is not a finite number")
            if not name:  # Vowpal Wabbit's dense notation, ":1 :2 :3": features 0, 1, 2 of the namespace
                name, nameless = str(nameless), nameless + 1
            place = places.get(prefix + name)
            indices.append(_place(places, prefix, name) if place is None else place)
            data.append(number)
    return made


def _vowpal_head(head: str) -> _Head:
    """``label importance base 'tag``: what touches the bar is the tag, also if it is a number."""
    if "\t" in head:
        raise ValueError("has a tab before '|', where Vowpal Wabbit drops what stands before it; write blanks")
    words = head.split(" ")
    tag = words.pop()
    words = [word for word in words if word]
    if not tag and words and words[-1].startswith("'"):
        tag = words.pop()
    if len(words) > 3:
        raise ValueError(f"has {len(words)} words before '|'; give a label, an importance and a tag at most")
    label = _number(words[0], words[0], "a label") if words else float("nan")
    weight = _number(words[1], words[1], "an importance") if len(words) > 1 else 1.0
    if weight < 0:
        raise ValueError(f"has the importance {weight:g}; it is at least 0")
    if len(words) > 2 and _number(words[2], words[2], "an initial prediction"):
        raise ValueError(
            f"has the initial prediction {words[2]} (the third number), which no learner here adds; subtract it from the "
            "label of squared loss, and leave it out"
        )
    return _Head(label, weight, tag.removeprefix("'"))


def _number(word: str, shown: str, what: str) -> float:
    """A finite decimal number; Python's other spellings (1_000, digits of other scripts) are none."""
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if number - number != 0.0 or "_" in word or not word.isascii():
        raise ValueError(f"holds {shown!r} where {what} is expected; give a finite number")
    return number
