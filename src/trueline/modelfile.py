"""One model, one file: safetensors (float64 arrays plus JSON), with a digest over every byte. No pickle.

The metadata's ``digest`` is BLAKE2b of the whole file with the digest's own place zeroed, so a change of any
byte, the header's padding included, is seen. Writing goes through a scratch file and a rename: a full disk or
a crash leaves the old file or none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ModelError

FORMAT = 1
Size = int | range | str
_EMPTY = "0" * 64


def dumps(kind: str, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> bytes:
    """The file's bytes."""
    from safetensors.numpy import save

    from . import __version__

    header = {"format": FORMAT, "version": __version__, "kind": kind, "meta": meta}
    tensors = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    blank = save(tensors, {"trueline": json.dumps(header, sort_keys=True), "digest": _EMPTY})
    return _replace_digest(blank, _EMPTY, _digest(blank))


def loads(raw: bytes, *, where: str = "model file") -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """(kind, arrays, meta) of a file's bytes, or a ModelError that names what is wrong."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or size > len(raw) - 8:
        what = (
            "is a pickle, which trueline never loads"
            if raw[:1] == b"\x80"
            else "is not a trueline model or is cut short"
        )
        raise ModelError(f"{where} {what}; save the model again with trueline", where=where)
    try:
        labels = json.loads(raw[8 : 8 + size])["__metadata__"]
        found, header = labels["digest"], json.loads(labels["trueline"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelError(
            f"{where} is not a trueline model, or its header is damaged; use an intact copy", where=where
        ) from None
    if not isinstance(found, str) or len(found) != len(_EMPTY) or _digest(_replace_digest(raw, found, _EMPTY)) != found:
        raise ModelError(f"{where} is damaged: its digest does not match its content; use an intact copy", where=where)
    version = header.get("format") if isinstance(header, dict) else None
    if type(version) is not int or not isinstance(header.get("kind"), str) or not isinstance(header.get("meta"), dict):
        raise ModelError(
            f"{where} has a header that is none of trueline's: it tells no format, kind and metadata; use an intact copy",
            where=where,
        )
    if version > FORMAT:
        raise ModelError(
            f"{where} has format {version}, written by trueline {header.get('version')}; this version reads up to "
            f"{FORMAT}: upgrade trueline",
            where=where,
        )
    try:
        return header["kind"], dict(load(raw)), header["meta"]
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:  # of types that NumPy lacks too
        raise ModelError(
            f"{where} holds arrays that cannot be read ({error}); use an intact copy", where=where
        ) from None


@dataclasses.dataclass(frozen=True)
class Array:
    """What an array of a model file must be; each record class declares its own.

    A size is a number, a range of numbers, or a name that several arrays share. ``values`` are "finite", "numbers" (no
    NaN) or "any". Of an ``optional`` group all arrays are there or none. ``holds`` is asked last, of indices and counts.
    """

    shape: tuple[Size, ...]
    dtype: str = "float64"
    values: str = "finite"
    optional: str = ""
    holds: Callable[[np.ndarray], bool] | None = None

    def fault(self, array: np.ndarray, sizes: dict[str, int]) -> str | None:
        """What is wrong with an array, if anything is; names of sizes get their values from the first array."""
        if array.dtype != np.dtype(self.dtype):
            return f"holds {array.dtype} where {self.dtype} is needed"
        known = tuple(
            sizes.setdefault(size, n) if isinstance(size, str) else size for size, n in zip(self.shape, array.shape)
        )
        fits = len(array.shape) == len(self.shape) and all(
            n in size if isinstance(size, range) else n == size for n, size in zip(array.shape, known)
        )
        if not fits:
            wanted = " × ".join(f"{n.start} to {n.stop - 1}" if isinstance(n, range) else str(n) for n in known)
            return f"has the shape {array.shape} where {wanted or 'one number'} is needed"
        checked = self.values != "any" and array.dtype.kind == "f"
        if checked and (np.isnan(array) if self.values == "numbers" else ~np.isfinite(array)).any():
            return "holds NaN or infinity"
        return None if self.holds is None or self.holds(array) else "holds numbers out of their range"


def check_arrays(declared: Mapping[str, Array], arrays: Mapping[str, np.ndarray], where: str) -> None:
    """Refuse arrays that are not what a record class declares: compiled code reads them without looking.

    >>> check_arrays({"w": Array((3,))}, {"w": np.zeros(2)}, "m.tl")
    Traceback (most recent call last):
    trueline.errors.ModelError: m.tl is damaged: its array 'w' has the shape (2,) where 3 is needed; use an intact copy
    """
    groups = {spec.optional for name, spec in declared.items() if name in arrays}
    sizes: dict[str, int] = {}
    for name in [*declared, *(name for name in arrays if name not in declared)]:
        if name not in declared:
            fault: str | None = "belongs to no such model"
        elif name not in arrays:
            fault = None if declared[name].optional and declared[name].optional not in groups else "is missing"
        else:
            fault = declared[name].fault(arrays[name], sizes)
        if fault is not None:
            raise ModelError(f"{where} is damaged: its array {name!r} {fault}; use an intact copy", where=where)


def under(prefix: str, declared: Mapping[str, Array]) -> dict[str, Array]:
    """The declaration of a record inside another, whose arrays have a prefix."""
    return {
        prefix + name: dataclasses.replace(
            spec,
            shape=tuple(prefix + size if isinstance(size, str) else size for size in spec.shape),
            optional=prefix + spec.optional if spec.optional else "",
        )
        for name, spec in declared.items()
    }


def whole_numbers(low: float, high: float) -> Callable[[np.ndarray], bool]:
    """A rule for indices and counts: whole numbers from low to high."""
    return lambda array: bool(((array >= low) & (array <= high) & (array == np.floor(array))).all())


def write(path: str | os.PathLike[str], kind: str, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write a model file, whole or not at all."""
    write_bytes(path, dumps(kind, arrays, meta))


def save(record: Any, path: str | os.PathLike[str], **meta: Any) -> None:
    """Write a record (``kind`` and ``to_state()``) to a file, whole or not at all."""
    arrays, own = record.to_state()
    write(path, record.kind, arrays, own | meta)


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read a model file."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}; give the path of a saved model", where=str(path)
        ) from None
    return loads(raw, where=str(path))


def write_bytes(path: str | os.PathLike[str], raw: bytes) -> None:
    """Put bytes at a path, whole or not at all, durably; through a link, into what it names."""
    special = is_special(path)
    target = Path(path) if special else Path(os.path.realpath(path))
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if special:
            with open(target, "wb") as file:
                file.write(raw)
            return
        with open(scratch, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise ModelError(
            f"cannot write {path}: {error.strerror}; choose another place or free some space", where=str(path)
        ) from None


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is a device or a pipe at a path: that is written into, and never replaced by a file."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=32).hexdigest()


def _replace_digest(raw: bytes, old: str, new: str) -> bytes:
    size = 8 + int.from_bytes(raw[:8], "little")
    return raw[:size].replace(f'"{old}"'.encode(), f'"{new}"'.encode(), 1) + raw[size:]
