"""One model, one file: safetensors (float64 arrays plus JSON), with a digest over every byte. No pickle.

The metadata's ``digest`` is BLAKE2b of the whole file with the digest's own place zeroed, so a change of any
byte, the header's padding included, is seen. Writing goes through a scratch file and a rename: a full disk or
a crash leaves the old file or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ModelError

FORMAT = 1
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
    if header["format"] > FORMAT:
        raise ModelError(
            f"{where} has format {header['format']}, written by trueline {header['version']}; this version reads up to "
            f"{FORMAT}: upgrade trueline",
            where=where,
        )
    try:
        return header["kind"], dict(load(raw)), header["meta"]
    except SafetensorError as error:
        raise ModelError(
            f"{where} holds arrays that cannot be read ({error}); use an intact copy", where=where
        ) from None


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
