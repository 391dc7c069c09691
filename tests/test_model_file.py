"""Model files: exact round trip, every damaged byte is seen, nothing half-written."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from trueline import modelfile as file
from trueline.errors import ModelError

ARRAYS = {"coef": np.array([1.5, -2.0, np.pi]), "empty": np.zeros((0, 3)), "scalar": np.array(7.0)}


def test_round_trip_is_exact(tmp_path):
    path = tmp_path / "m.tl"
    file.write(path, "linear", ARRAYS, {"a": [1, 2.5, None, float("inf")]})
    kind, arrays, meta = file.read(path)
    assert kind == "linear" and meta == {"a": [1, 2.5, None, float("inf")]}
    for name, array in ARRAYS.items():
        assert arrays[name].tobytes() == array.tobytes() and arrays[name].shape == array.shape
    assert [p.name for p in tmp_path.iterdir()] == ["m.tl"]


def test_every_flipped_byte_and_every_truncation_is_refused():
    raw = file.dumps("linear", ARRAYS, {"name": "x"})
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 1
        with pytest.raises(ModelError):
            file.loads(bytes(damaged))
    for size in range(len(raw)):
        with pytest.raises(ModelError):
            file.loads(raw[:size])


def test_a_pickle_and_a_newer_format_are_refused_by_name(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="pickle"):
        file.loads(pickle.dumps({"coef": 1}))
    monkeypatch.setattr(file, "FORMAT", 2)
    newer = file.dumps("linear", ARRAYS, {})
    monkeypatch.undo()
    with pytest.raises(ModelError, match="upgrade"):
        file.loads(newer)


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    with pytest.raises(ModelError, match="cannot write"):
        file.write(tmp_path / "no" / "such" / "m.tl", "linear", ARRAYS, {})
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_plain_json():
    raw = file.dumps("linear", ARRAYS, {"x": 1})
    size = int.from_bytes(raw[:8], "little")
    assert json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["trueline"])["kind"] == "linear"
