"""Counts of false proofs and false alarms on honest models, on dull and on hostile rows."""

from __future__ import annotations

import os

import pytest
from verifier.honest import KINDS, count

DRAWS = 10  # of each kind: some hundreds of models in all
TORTURE = int(os.environ.get("TRUELINE_DRAWS", str(1_000_000 // len(KINDS))))
ALLOWED = {False: 1 / 1000, True: 1 / 100}  # false alarms on dull and on hostile rows


@pytest.mark.parametrize("hostile", [False, True], ids=["dull", "hostile"])
@pytest.mark.parametrize("third", [0, 1, 2])
def test_honest_models_hold_and_what_holds_is_the_optimum(hostile, third):
    total, wrong = count(KINDS[third::3], DRAWS, hostile, seed=1)
    assert not [case for case in wrong if case[2].startswith("false proof")]
    assert total["false alarm"] <= ALLOWED[hostile] * total.total(), wrong


@pytest.mark.torture
@pytest.mark.parametrize("hostile", [False, True], ids=["dull", "hostile"])
def test_a_million_honest_models(hostile):
    total, wrong = count(KINDS, TORTURE, hostile, seed=2)
    print(dict(total), *wrong[:50], sep="\n")
    assert not [case for case in wrong if case[2].startswith("false proof")]
    assert total["false alarm"] <= ALLOWED[hostile] * total.total(), wrong[:20]
