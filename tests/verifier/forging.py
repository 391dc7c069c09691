"""Forged models, generated from the files of honest ones.

A forger changes one entry of a model's file, has the certificate's other numbers recomputed (by the verifier's own
findings, so that nothing but the lie itself is left to notice) and asks ``verify`` again. What is accepted must predict
as the honest model does, or claim no proof.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import warnings
from typing import Any, NamedTuple

import numpy as np

import trueline as tl
from trueline import modelfile
from trueline.errors import TruelineError

ROUNDS = 5  # how often a forger mends what the verifier found
SAME = 1e-6  # predictions that differ by less, relative to their spread, are the same


class Entry(NamedTuple):
    """Where something stands in a model file: an array and an index into it, or the path of a value in the metadata."""

    array: str | None
    path: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.array}{list(self.path) if self.path else ''}" if self.array else ".".join(map(str, self.path))


class File(NamedTuple):
    """The contents of a model file."""

    kind: str
    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]


class Outcome(NamedTuple):
    """What became of a forgery: refused at which door, or accepted; whether it predicts otherwise; what is stated.

    ``read`` says whether the model keeps the change at all: what it does not read misleads nobody.
    """

    refused: str
    proven: bool = False
    differs: bool = False
    stated: tuple[str, ...] = ()
    read: bool = True


def read(model: Any, folder: Any) -> File:
    """The file of a model, as it is after it was loaded once."""
    model.save(folder / "honest.tl")
    tl.load(folder / "honest.tl").save(folder / "honest.tl")
    return File(*modelfile.read(folder / "honest.tl"))


def entries(file: File) -> list[Entry]:
    """Every array, and every number, word and flag of the metadata but what only the estimator's constructor reads."""
    arrays = [Entry(name, ()) for name, value in sorted(file.arrays.items()) if value.size]
    return arrays + [Entry(None, path) for path in _leaves(file.meta) if path[0] not in ("params", "estimator")]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key], (*path, key))]
    if isinstance(value, list):
        few = range(len(value)) if len(value) <= 3 else (0, len(value) - 1)
        return [leaf for key in few for leaf in _leaves(value[key], (*path, key))]
    return [path]


def changed(file: File, entry: Entry) -> list[tuple[str, File]]:
    """The file with the entry made untrue in several ways, each with a name."""
    if entry.array is not None:
        value = file.arrays[entry.array]
        found = []
        for name, other in _arrays(value):
            if not np.array_equal(other, value, equal_nan=value.dtype.kind == "f"):
                found.append((name, file._replace(arrays=file.arrays | {entry.array: other})))
        return found
    meta, value = file.meta, file.meta
    for key in entry.path:
        value = value[key]
    found = []
    for name, other in _values(value):
        meta = copy.deepcopy(file.meta)
        place: Any = meta
        for key in entry.path[:-1]:
            place = place[key]
        place[entry.path[-1]] = other
        found.append((name, file._replace(meta=meta)))
    return found


def _arrays(value: np.ndarray) -> list[tuple[str, np.ndarray]]:
    if value.dtype.kind == "f":
        largest = np.unravel_index(int(np.nanargmax(np.abs(value))), value.shape) if np.isfinite(value).any() else ()
        one = np.array(value)
        one[largest] = one[largest] * 1.01 + 1e-3
        return [("replaced", value * -3.0 + 0.7), ("one entry by a hundredth", one), ("negated", -value)]
    return [("one more", (value + 1).astype(value.dtype)), ("reversed", value[::-1].copy() if value.ndim else value)]


def _values(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, bool):
        return [("flipped", not value)]
    if isinstance(value, int):
        return [("one more", value + 1)]
    if isinstance(value, float):
        return [("half as much again", value * 1.5 + 0.01), ("negated", -value - 0.01), ("-inf", -math.inf)]
    if isinstance(value, str):
        words = {
            "identity": "log",
            "logistic": "identity",
            "log": "identity",
            "softmax": "sign",
            "proven": "degenerate",
        }
        return [("another word", words.get(value, f"{value}x"))]
    return []


def predictions(model: Any, X: Any) -> list[np.ndarray]:
    """All that a user reads from the model about rows."""
    found = []
    for name in ("predict", "predict_proba", "decision_function", "transform", "score_samples", "log_probability"):
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            found.append(np.asarray(method(X)))
        except AttributeError:  # a loss without probabilities
            continue
    return found


def differ(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    if len(left) != len(right):
        return True
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape:
            return True
        if a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
            if (a.astype(str) != b.astype(str)).any():
                return True
            continue
        size = max(float(np.nanmax(np.abs(a), initial=0.0)), 1e-300)
        if not np.allclose(a, b, rtol=SAME, atol=SAME * size, equal_nan=True):
            return True
    return False


def attempt(
    file: File, unforged: File, honest: list[np.ndarray], X: Any, data: Any, folder: Any, lies: frozenset[str]
) -> Outcome:
    """Load a forged file and have it verified; ``lies`` are the fields of the certificate that were forged."""
    try:
        modelfile.write(folder / "forged.tl", file.kind, file.arrays, file.meta)
        model = tl.load(folder / "forged.tl")
    except TruelineError:
        return Outcome("file")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            new = predictions(model, X)
        except (ValueError, LookupError):
            new = []  # nothing to compare: verify must refuse it
        reason, certificate, stated = judged(model, data, None, lies)
        if reason:
            return Outcome(reason)
        model.save(folder / "again.tl")
        kept = File(*modelfile.read(folder / "again.tl"))
        return Outcome("", certificate.proven, differ(honest, new), stated, not same_file(kept, unforged))


def same_file(left: File, right: File) -> bool:
    """Whether two files hold the same model."""
    arrays = left.arrays.keys() == right.arrays.keys() and all(
        np.array_equal(value, right.arrays[name], equal_nan=value.dtype.kind == "f")
        for name, value in left.arrays.items()
    )
    return arrays and json.dumps(left.meta, sort_keys=True) == json.dumps(right.meta, sort_keys=True)


def told(entry: Entry, file: File, stated: tuple[str, ...]) -> bool:
    """Whether ``verify`` lists what the entry of a forged file belongs to as stated: by its own name or its holder's."""
    if entry.array is not None:
        name = entry.array
        return any(name == said or name.startswith(f"{said}.") or bare(name) == said for said in stated)
    proof: Any = file.meta.get("certificate")
    path = [str(key) for key in entry.path if not isinstance(key, int)]
    if path[0] == "certificates" and "certificates" not in stated:  # one alone
        proof, path[0] = file.meta["certificates"][0], "certificate"
    if path[:2] == ["certificate", "assumptions"]:
        number = next(key for key in reversed(entry.path) if isinstance(key, int))
        name = proof["assumptions"][number]["name"]
        return f"{path[2]} of the assumption: {name}" in stated or f"assumption: {name}" in stated
    path = path[1:] if path[0] == "certificate" and len(path) > 1 else path
    return any(".".join(path[:k]) in stated for k in range(1, len(path) + 1))


def bare(name: str) -> str:
    """The name of an array without the numbers of its member and its head."""
    return name.lstrip("0123456789.").rstrip("0123456789")


def lies(entry: Entry) -> frozenset[str]:
    """The field of the certificate that the entry is, which a forger leaves as it is."""
    path = [str(key) for key in entry.path if not isinstance(key, int)]
    return frozenset(path[1:2] if path[:1] in (["certificate"], ["certificates"]) else ())


def judged(model: Any, data: Any, certificate: Any, lies: frozenset[str]) -> tuple[str, Any, tuple[str, ...]]:
    """(why it was refused, the certificate at last, what is only stated), after the forger mended what it could.

    Numbers of the certificate that the verifier finds otherwise are replaced by what it found, but for the lies themselves.
    """
    for _ in range(ROUNDS):
        try:
            result = tl.verify(model, data, certificate=certificate)
        except TruelineError as error:
            return str(error)[:80], None, ()
        certificate = model.certificate_ if certificate is None else certificate
        if result.ok:
            return "", certificate, tuple(name for name, _ in result.stated)
        mended = mend(certificate, result, lies)
        if mended is None:
            return ", ".join(check.claim for check in result.checks if not check.held), certificate, ()
        certificate = mended
    return "still refused", certificate, ()


def refused(model: Any, data: Any, certificate: Any, honest: Any) -> bool:
    """Whether a forged model is refused, or is honest about proving nothing once its numbers are the verifier's."""
    names = {field.name for field in dataclasses.fields(certificate)}
    lies = frozenset(name for name in names if not same(getattr(certificate, name), getattr(honest, name, None)))
    reason, final, _ = judged(model, data, certificate, lies)
    return bool(reason) or not final.proven


def same(left: Any, right: Any) -> bool:
    """Whether two fields of a certificate are equal."""
    if left is None or right is None:
        return left is right
    return bool(np.array_equal(left, right)) if isinstance(left, np.ndarray) else bool(left == right)


def mend(certificate: Any, result: Any, lies: frozenset[str]) -> Any:
    """The certificate with all numbers that the verifier found, its status as it was; None if nothing can be mended.

    Those that held are replaced as well: a lower bound of the honest model holds, and gives a forged one away.
    """
    numbers = {
        field.name
        for field in dataclasses.fields(certificate)
        if _number(getattr(certificate, field.name)) and field.name not in lies
    }
    found = {
        check.claim: check.found
        for check in result.checks
        if check.claim in numbers and _number(check.found) and math.isfinite(check.found)
    }
    found = {name: value for name, value in found.items() if value != getattr(certificate, name)}
    return dataclasses.replace(certificate, **found) if found else None


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
