"""The penalties as compiled loops call them, and a user's own."""

from __future__ import annotations

import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from conformance import check_penalty

from trueline.errors import UsageError
from trueline.objective.penalties import PENALTIES, resolve_penalty, scaled_prox, scaled_value
from trueline.parts.penalties import PENALTIES as TUPLES


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties(name):
    check_penalty(resolve_penalty(name))


@pytest.mark.parametrize("name", PENALTIES)
def test_the_formulas_of_the_old_kernels_are_the_same(name):
    penalty, old = resolve_penalty(name), TUPLES[name]()
    assert resolve_penalty(old) == penalty
    for w in np.linspace(-3.0, 3.0, 13):
        assert penalty.value(w, 1.5) == old.value(w, 1.5) and penalty.conjugate(w, 1.5) == old.conjugate(w, 1.5)
        assert penalty.prox(w, 0.7, 1.5) == old.prox(w, 0.7, 1.5)


def test_a_penalty_is_a_value_in_its_range():
    penalty = resolve_penalty("elastic_net", alpha=2)
    assert repr(penalty) == "ElasticNet(alpha=2.0, l1_ratio=0.5)" and pickle.loads(pickle.dumps(penalty)) == penalty
    assert resolve_penalty(None) == resolve_penalty("none") != penalty
    for bad in ({"alpha": -1.0}, {"alpha": math.nan}, {"l1_ratio": 1.5}):
        with pytest.raises(UsageError, match="must be"):
            resolve_penalty("elastic_net", **bad)
    with pytest.raises(UsageError, match="did you mean 'elastic_net'"):
        resolve_penalty("elasticnet")


class Ridge(NamedTuple):
    """½alpha·w², written by a user, for weights up to a limit."""

    alpha: float = 1.0

    def value(self, w, weight):
        if w > 1000.0:
            raise ValueError("too large a weight")
        return 0.5 * self.alpha * weight * w * w

    def prox(self, w, step, weight):
        return w / self.more(step * weight)

    def more(self, strength):
        return 1.0 + strength * self.alpha


def test_a_users_own_penalty_gives_what_the_built_in_one_gives():
    mine, built_in = resolve_penalty(Ridge(2)), resolve_penalty("l2", alpha=2.0)
    assert mine == Ridge(2.0) and pickle.loads(pickle.dumps(mine)) == mine and not mine.has("conjugate")
    points, ones = np.linspace(-3.0, 3.0, 13), np.ones(13)
    out = np.empty((2, 13))
    for row, penalty in zip(out, (mine, built_in)):
        scaled_prox(penalty, points, 0.7, 2.0 * ones, ones, row)
    assert (out[0] == out[1]).all()
    assert scaled_value(mine, points, ones, ones) == scaled_value(built_in, points, ones, ones)
    with pytest.raises(ValueError, match="too large"):
        scaled_value(mine, 2000.0 * ones, ones, ones)


def test_a_penalty_without_a_prox_is_refused():
    class Half(NamedTuple):
        unit: float = 1.0

        def value(self, w, weight):
            return 0.0

    with pytest.raises(UsageError, match="it lacks prox"):
        resolve_penalty(Half())
