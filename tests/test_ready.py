"""Machine code that an earlier process left runs without Numba, to the same bits, and what does not fit is refused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from trueline import _ready


class Squared(NamedTuple):
    unit: float


def test_values_and_numba_types_are_described_in_the_same_words():
    numba = pytest.importorskip("numba")
    table = np.zeros((3, 4))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    given = [None, True, 3, 2.5, np.float64(1.0), table, table.T, table[:, ::2], frozen, np.zeros(2, dtype=np.uint32)]
    given += [Squared(1.0), (1.0, 2)]
    for value in given:
        assert _ready.of_value(value) == _ready.of_type(numba.typeof(value)), value
    with pytest.raises(_ready.Unready):
        _ready.of_value("text")
    assert [leaf.value for leaf in _ready.flat((1.5, 2))] == [1.5, 2]
