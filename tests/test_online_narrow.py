"""Weights held in registers give the bits that weights in memory give: blocks, rows, dicts, weights, orders, certificates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from trueline._lanes import NARROW
from trueline.errors import DataError
from trueline.online import state
from trueline.online.model import OnlineModel
from trueline.online.narrow import with_ones
from trueline.parts.geometries import Additive, geometry
from trueline.parts.rates import rate

N = 120


def learner(d: int, intercept: bool, **settings: bool) -> OnlineModel:
    names = [f"x{j}" for j in range(d)]
    settings = {"certificate": False} | settings
    return OnlineModel("squared", geometry("additive"), rate(0.1 / d), intercept=intercept, names=names, **settings)


def rows(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(N, d))
    X[5] = 0.0
    return X, X @ rng.normal(size=d) + rng.normal(size=N)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 15, 16, 23, 30, NARROW, NARROW + 1, 50])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_way_to_learn_gives_the_same_bits(d, intercept):
    X, y = rows(d)
    held = learner(d, intercept)
    before = held.learn(X, y)

    def one_by_one(model):
        examples = [dict(zip(model.names, x.tolist())) for x in X]
        return np.array([model.learn_one(x, float(t)) for x, t in zip(examples, y)])

    def in_pieces(model):
        return np.concatenate([model.learn(X[i : i + 7], y[i : i + 7]) for i in range(0, N, 7)])

    ways = {
        "one by one": (learner(d, intercept), one_by_one),
        "in pieces": (learner(d, intercept), in_pieces),
        "certified": (learner(d, intercept, certificate=True), lambda model: model.learn(X, y)),
        "weighted": (learner(d, intercept), lambda model: model.learn(X, y, np.ones(N))),
        "ordered": (learner(d, intercept), lambda model: model.learn(X, y, order=np.arange(N))),
    }
    for name, (model, learn) in ways.items():
        assert learn(model).tobytes() == before.tobytes(), name
        assert model.weights().tobytes() == held.weights().tobytes(), name
        kept = [state.LOSS, state.ROUNDS, state.WEIGHT]
        assert model.heads[0].numbers[kept].tobytes() == held.heads[0].numbers[kept].tobytes(), name
    again = np.array([held.predict_one(dict(zip(held.names, x.tolist()))) for x in X])
    assert held.predict(X).tobytes() == again.tobytes()


def test_a_narrow_row_that_overflows_keeps_the_state_before_it():
    X, y = rows(3)
    wild, tame = (OnlineModel("squared", geometry("additive"), rate(9.0), certificate=False) for _ in range(2))
    with pytest.raises(DataError, match="the update overflows at row"):
        wild.learn(X, y)
    assert 0 < wild.examples < N
    tame.learn(X[: wild.examples], y[: wild.examples])
    assert wild.weights().tobytes() == tame.weights().tobytes()
    X[4, 1] = np.nan
    mild = learner(3, True)
    with pytest.raises(DataError, match="NaN in row 4"):
        mild.learn(X, y)
    assert mild.examples == 0 and not mild.weights().any()


def test_counts_go_on_as_if_one_by_one():
    for start in (0.0, 5.0, 0.1, 1e15 + 0.5):
        slow = start
        for _ in range(1000):
            slow += 1.0
        assert with_ones(start, 1000) == slow


class Bent(NamedTuple):
    """A loss with more numbers than registers are free."""

    low: float = 0.3
    middle: float = 0.7
    high: float = 1.1
    bend: float = 0.25
    far: float = 1.75
    targets = "real"

    def slope(self, score, y):
        r = score - y
        steep = self.high if abs(r) > self.far else self.middle if abs(r) > self.bend else self.low
        return steep * r

    def value(self, score, y):
        return 0.5 * (score - y) * self.slope(score, y)


class Halved(NamedTuple):
    """Additive steps of half the rate, as a user would write the geometry."""

    share: float = 0.5
    base: Additive = Additive()

    def step(self, rate, norm2):
        return self.share * rate

    def slope(self, loss, score, y, gain):
        return self.base.slope(loss, score, y, gain)

    weight, mass, height = Additive.weight, Additive.mass, Additive.height
    move, excess, conjugate, divergence = Additive.move, Additive.excess, Additive.conjugate, Additive.divergence


@pytest.mark.parametrize("d", [3, 30, NARROW])
def test_numbers_of_a_users_parts_are_the_ones_of_the_other_loop(d):
    X, y = rows(d)

    def made(loss):
        return OnlineModel(loss, geometry(Halved()), rate(0.1 / d), certificate=False)

    found = set()
    for loss in (Bent(), Bent(middle=0.2, far=0.5)):
        held, other = made(loss), made(loss)
        assert held.learn(X, y).tobytes() == other.learn(X, y, np.ones(N)).tobytes()
        assert held.weights().tobytes() == other.weights().tobytes()
        assert held.heads[0].numbers[state.LOSS] == other.heads[0].numbers[state.LOSS]
        found.add(held.weights().tobytes())
    assert len(found) == 2
