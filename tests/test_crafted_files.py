"""Crafted model files: every array of every kind shrunk, grown, retyped, removed, added or filled; refused, or of use.

Whatever is loaded predicts, learns and is verified in a child process, so that a signal shows; a refusal is a ModelError.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trueline as tl
from trueline import modelfile
from trueline.cli import main
from trueline.errors import ModelError

HERE = Path(__file__).parent
SHARES = 4  # child processes, one after another


def mutations(array, every):
    """(what was done, the array as it is then; None for without it); with ``every`` more values than one."""
    yield "removed", None
    for axis, n in enumerate(array.shape):
        if n:
            yield f"cut at {axis}", np.take(array, range(n - 1), axis)
            yield f"emptied at {axis}", np.take(array, [], axis)
        wider = [(0, 3 if k == axis else 0) for k in range(array.ndim)]
        yield f"grown at {axis}", np.pad(array, wider)
    yield "one more axis", array[None]
    yield "one number", np.zeros((), dtype=array.dtype)
    if array.ndim > 1:
        yield "flat", array.ravel()
    yield "float32", array.astype(np.float32) if array.dtype != np.float32 else array.astype(np.float64)
    yield "int64", array.astype(np.int64) if array.dtype != np.int64 else array.astype(np.float64)
    yield "bool", array.astype(bool)
    yield "uint8", array.astype(np.uint8) if array.dtype != np.uint8 else array.astype(np.int16)
    if array.dtype.kind == "f":
        yield "NaN", np.full_like(array, np.nan)
    for value in (-1, 1e6 if array.dtype.kind == "f" else 100, 2**31) if every else (2**31,):
        with np.errstate(all="ignore"):
            yield f"all {value}", np.full(array.shape, value).astype(array.dtype)


MUST_BE_REFUSED = ("cut", "emptied", "grown", "one more", "one number", "flat", "float32", "int64", "bool", "uint8")
# Figures that nothing computes with, and arrays of which less or more is another model that is in order.
FREE = (
    "statistics.",
    "hindsight",
    "tried",
    "scores",
    "residuals",
    "held",
    "waiting",
    "loud",
    "spectra",
    "energies",
    "sample",
)
# Files of 0.1 have none of these; without them a loss may not be stated, and no other one is.
MAY_BE_MISSING = ("redundant",)


def use(path, X, y):
    """Load, predict, learn and verify; what came of it."""
    try:
        model = tl.load(path)
    except ModelError:
        return "refused"
    for step in (
        lambda: model.predict(X), lambda: model.partial_fit(X, y), lambda: model.transform(X), lambda: model.process(X, y),
        lambda: model.score_samples(X), lambda: model.predict(X), lambda: tl.verify(model, (X, y)), lambda: model + model,
        lambda: tl.LinearRegression.from_moments(model), lambda: model.summary(),
    ):  # fmt: skip
        try:
            step()
        except (ValueError, AttributeError, TypeError, ArithmeticError):  # refusals, and what this kind does not do
            continue
    return "used"


def child(share, kinds):
    """Everything of one share of the kinds; a line of JSON for each file before it is used, and one behind."""
    import faulthandler
    import tempfile
    import warnings

    from zoo import zoo

    faulthandler.enable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "m.tl"))
        for k, (kind, make) in enumerate(zoo().items()):
            if k % SHARES != share or (kinds and kind not in kinds):
                continue
            model, X, y = make()
            model.save(path)
            stored, arrays, meta = modelfile.read(path)
            assert use(path, X, y) == "used", kind
            for name in _some(arrays):
                for what, made in mutations(arrays[name], bool(kinds)):
                    changed = {k: v for k, v in arrays.items() if k != name} | ({} if made is None else {name: made})
                    Path(path).write_bytes(modelfile.dumps(stored, changed, meta))
                    print(json.dumps([kind, name, what]), flush=True)
                    print(json.dumps(use(path, X, y)), flush=True)
            modelfile.write(path, stored, arrays | {"extra": np.zeros(3)}, meta)
            print(json.dumps([kind, "extra", "added"]), flush=True)
            print(json.dumps(use(path, X, y)), flush=True)


def _some(arrays):
    """Every array; of members and classes that are alike the first two and the last."""
    heads = [name for name in arrays if name.partition(".")[0].isdigit()]
    last = max((int(name.partition(".")[0]) for name in heads), default=0)
    return [name for name in arrays if name not in heads or int(name.partition(".")[0]) in (0, 1, last)]


def run(share, *kinds, **environment):
    import os

    made = subprocess.run(
        [sys.executable, __file__, str(share), *kinds], capture_output=True, text=True, timeout=1500,
        env={**os.environ, **environment},
    )  # fmt: skip
    # LAPACK prints a line of its own when it is given NaN.
    lines = [json.loads(line) for line in made.stdout.splitlines() if line.startswith(('["', '"'))]
    assert made.returncode == 0, (lines[-1:], made.stderr[-3000:])
    return list(zip(lines[::2], lines[1::2]))


@pytest.mark.parametrize("share", range(SHARES))
def test_no_crafted_array_gets_through(share):
    found = run(share)
    assert len(found) > 200
    loose = [
        done
        for done, came in found
        if came == "used" and done[1:] != ["intercept", "one number"] and (done[2] in ("added", "removed") or done[2].startswith(MUST_BE_REFUSED))
        and not any(part in done[1] for part in FREE) and not (done[2] == "removed" and done[1].endswith(MAY_BE_MISSING))
    ]  # fmt: skip
    assert not loose, loose


# ---- the header


def rewritten(path, change):
    """A file whose header was changed, its digest right again."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8 : 8 + size])
    labels = head["__metadata__"]
    header = json.loads(labels["trueline"])
    made = change(header, head)
    labels["trueline"] = json.dumps(header if made is None else made)
    labels["digest"] = "0" * 64
    text = json.dumps(head).encode()
    blank = len(text).to_bytes(8, "little") + text + raw[8 + size :]
    digest = modelfile._digest(blank)
    path.write_bytes(blank.replace(b'"' + b"0" * 64 + b'"', f'"{digest}"'.encode(), 1))


def put(*keys, value):
    def change(header, head):
        place = header
        for key in keys[:-1]:
            place = place[key]
        if value is ...:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value

    return change


HEADERS = {
    "format as text": put("format", value="1"), "no format": put("format", value=...), "format a truth": put("format", value=True),
    "format a list": put("format", value=[1]), "no kind": put("kind", value=...), "kind a list": put("kind", value=["linear"]),
    "kind a number": put("kind", value=3), "kind a path": put("kind", value="../../x"), "no metadata": put("meta", value=...),
    "metadata a list": put("meta", value=[]), "header a number": lambda header, head: 7, "header a list": lambda header, head: [],
    "header null": lambda header, head: "null", "BF16": lambda header, head: head["coef"].update(dtype="BF16", shape=[12]),
    "F8": lambda header, head: head["coef"].update(dtype="F8_E5M2", shape=[24]),
    "BOOL": lambda header, head: head["coef"].update(dtype="BOOL", shape=[24]),
    "no terms": put("meta", "terms", value=...), "terms a number": put("meta", "terms", value=5), "terms null": put("meta", "terms", value=None),
    "fewer terms": put("meta", "terms", value=["x0"]), "link": put("meta", "link", value="x"), "link a list": put("meta", "link", value=[]),
    "classes a number": put("meta", "classes", value=1), "no targets": put("meta", "targets", value=[]),
    "schema a number": put("meta", "schema", value=3), "schema empty": put("meta", "schema", value={}),
    "certificate a number": put("meta", "certificate", value=3), "certificate empty": put("meta", "certificate", value={}),
    "statistics a list": put("meta", "statistics", value=[]), "estimator a list": put("meta", "estimator", value=[]),
    "estimator load": put("meta", "estimator", value="load"), "params a list": put("meta", "params", value=[1]),
    "params unknown": put("meta", "params", value={"nonsense": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", HEADERS)
def test_odd_headers(what, tmp_path, capsys):
    path = tmp_path / "m.tl"
    X = np.random.default_rng(0).normal(size=(30, 3))
    tl.LinearRegression().fit(X, X @ [1.0, 2.0, 3.0]).save(path)
    rewritten(path, lambda header, head: None)
    tl.load(path)
    rewritten(path, HEADERS[what])
    with pytest.raises(ModelError) as refusal:
        tl.load(path)
    assert "\n" not in str(refusal.value)
    if not what.startswith(("estimator", "params")):  # which the command line does not look at
        for line in (
            ["inspect", str(path)],
            ["export", str(path)],
            ["serve", str(path), "--store", str(tmp_path / "s.db")],
        ):
            assert main(line) == 4, line
            assert "unexpected" not in capsys.readouterr().err


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    child(int(sys.argv[1]), sys.argv[2:])
