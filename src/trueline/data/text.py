"""Sparse text, as it flows: svmlight's ``label 3:0.5 17:1`` and Vowpal Wabbit's ``label weight 'tag|space a b:2``.

Both become rows of a CSR matrix whose columns are numbered as their names appear: no hashing, so no collisions, and
every weight keeps its name (``space^a`` in Vowpal Wabbit's own notation, ``a`` in the nameless space). A feature that
a line names twice adds up. A line without a label has the target NaN: predict it, do not learn from it.
"""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Iterator
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
    readers = {"svmlight": _svmlight, "vw": _vowpal}
    if form not in readers:
        raise UsageError(f"there is no text format {form!r}{nearest(form, readers)}", where="format")
    places = {name: k for k, name in enumerate(known)}
    seen = 0
    for describe, number, lines in _blocks(source, block_lines):
        seen += len(lines)
        made = readers[form](lines, places, describe, number)
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


def _svmlight(lines: list[bytes], places: dict[str, int], describe: str, number: int) -> SparseBlock:
    if any(b"#" in line for line in lines):
        lines = [line.partition(b"#")[0] for line in lines]
    text = b"\n".join(lines)
    if b"qid:" in text:
        lines = [b" ".join(word for word in line.split() if not word.startswith(b"qid:")) for line in lines]
        text = b"\n".join(lines)
    kept = [line for line in lines if line.strip()]
    counts = np.array([line.count(b":") for line in kept], dtype=np.int64)
    numbers = _numbers(text.replace(b":", b" "))
    if numbers is None or len(numbers) != len(kept) + 2 * counts.sum() or not np.isfinite(numbers).all():
        raise _bad_svmlight(lines, describe, number)
    starts = np.r_[0, np.cumsum(2 * counts + 1)]
    labels = np.zeros(len(numbers), dtype=bool)
    labels[starts[:-1]] = True
    pairs = numbers[~labels].reshape(-1, 2)
    if len(pairs) and (pairs[:, 0] != np.floor(pairs[:, 0])).any():
        raise _bad_svmlight(lines, describe, number)
    found, inverse = np.unique(pairs[:, 0].astype(np.int64), return_inverse=True)
    columns = np.array([places.setdefault(str(index), len(places)) for index in found.tolist()], dtype=np.int64)
    indices = columns[inverse] if len(pairs) else np.zeros(0, dtype=np.int64)
    return SparseBlock(tuple(places), pairs[:, 1].copy(), indices, np.r_[0, np.cumsum(counts)], numbers[labels])


def _numbers(text: bytes) -> np.ndarray | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # text that is not a number: NumPy warns and stops there
        try:
            return np.fromstring(text, sep=" ") if text.strip() else np.zeros(0)
        except (ValueError, DeprecationWarning):
            return None


def _bad_svmlight(lines: list[bytes], describe: str, number: int) -> DataError:
    for k, line in enumerate(lines):
        words = line.decode("utf-8", "replace").split()
        for j, word in enumerate(words):
            left, colon, right = word.partition(":")
            good = (not colon and _is_number(left)) if j == 0 else (left.isdigit() and _is_number(right))
            if not good:
                wanted = "a label" if j == 0 else "index:value"
                return DataError(
                    f"line {number + k} of {describe} holds {word!r} where {wanted} is expected",
                    where=f"{describe}:{number + k}",
                )
    return DataError(f"{describe} is not svmlight text (label index:value …) near line {number}", where=describe)


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _vowpal(lines: list[bytes], places: dict[str, int], describe: str, number: int) -> SparseBlock:
    data: list[float] = []
    indices: list[int] = []
    indptr = [0]
    y: list[float] = []
    weights: list[float] = []
    tags: list[str] = []
    for k, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            label, weight, tag = _vowpal_line(line.decode("utf-8"), places, data, indices)
        except UnicodeDecodeError:
            raise DataError(
                f"line {number + k} of {describe} is not UTF-8 text", where=f"{describe}:{number + k}"
            ) from None
        except ValueError as error:
            raise DataError(f"line {number + k} of {describe} {error}", where=f"{describe}:{number + k}") from None
        y.append(label)
        weights.append(weight)
        tags.append(tag)
        indptr.append(len(data))
    return SparseBlock(
        tuple(places), np.array(data), np.array(indices, dtype=np.int64), np.array(indptr, dtype=np.int64), np.array(y),
        np.array(weights), tuple(tags) if any(tags) else None,
    )  # fmt: skip


def _vowpal_line(line: str, places: dict[str, int], data: list[float], indices: list[int]) -> tuple[float, float, str]:
    """Append the line's features; (label, importance, tag)."""
    head, *spaces = line.split("|")
    if not spaces:
        raise ValueError("has no '|', which begins the features")
    words = head.split()
    tag = ""
    if words and (words[-1].startswith("'") or (not head[-1:].isspace() and not _is_number(words[-1]))):
        tag = words.pop().lstrip("'")
    label = _value(words[0], "a label") if words else float("nan")
    weight = _value(words[1], "an importance") if len(words) > 1 else 1.0
    if weight < 0:
        raise ValueError(f"has the importance {weight:g}; it is at least 0")
    for space in spaces:
        features = space.split()
        prefix, scale = "", 1.0
        if features and not space[0].isspace():
            name, _, value = features.pop(0).partition(":")
            prefix, scale = f"{name}^", _value(value, "a namespace's value") if value else 1.0
        for feature in features:
            cut = feature.rfind(":")
            if cut < 0:
                name, number = feature, scale
            else:
                name = feature[:cut]
                try:
                    number = float(feature[cut + 1 :]) * scale
                except ValueError:
                    number = _value(feature[cut + 1 :], "a value")
                if number - number != 0.0:
                    raise ValueError(f"holds {feature!r}, whose value is not a finite number")
            place = places.get(prefix + name)
            if place is None:
                place = places[prefix + name] = len(places)
            indices.append(place)
            data.append(number)
    return label, weight, tag


def _value(word: str, what: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if number - number != 0.0:
        raise ValueError(f"holds {word!r} where {what} is expected; give a finite number")
    return number
