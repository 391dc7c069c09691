"""The loop over rows: every way to hand rows in gives the same bits, and a row that cannot be learned leaves all others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from trueline.data.row_access import Rows, rows_of
from trueline.errors import DataError, ModelError
from trueline.model import restore
from trueline.objective.losses import resolve_loss
from trueline.online.geometry_names import resolve_geometry
from trueline.online.ladder import RateMixture
from trueline.online.learning_loop import Examples, Rule, learn, read_weights, scores, sum_masses
from trueline.online.model import OnlineModel
from trueline.online.rates import rate

N = 60


def data(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(N, d))
    X[5] = 0.0
    return X, X @ rng.normal(size=d) + rng.normal(size=N)


def learner(d, intercept=True, geometry="additive", **settings):
    names = [f"x{j}" for j in range(d)]
    return OnlineModel("squared", geometry, rate(0.1 / d), intercept=intercept, names=names, **settings)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 15, 16, 23, 30, 50])
@pytest.mark.parametrize("intercept", [True, False])
def test_every_way_to_learn_gives_the_same_bits(d, intercept):
    X, y = data(d)
    whole = learner(d, intercept, certificate=False)
    before = whole.learn(X, y)

    def one_by_one(model):
        examples = [dict(zip(model.names, x.tolist())) for x in X]
        return np.array([model.learn_one(x, float(t)) for x, t in zip(examples, y)])

    def in_pieces(model):
        return np.concatenate([model.learn(X[i : i + 7], y[i : i + 7]) for i in range(0, N, 7)])

    ways = {
        "one by one": (learner(d, intercept, certificate=False), one_by_one),
        "in pieces": (learner(d, intercept, certificate=False), in_pieces),
        "certified": (learner(d, intercept), lambda model: model.learn(X, y)),
        "weighted": (learner(d, intercept, certificate=False), lambda model: model.learn(X, y, np.ones(N))),
        "ordered": (learner(d, intercept, certificate=False), lambda model: model.learn(X, y, order=np.arange(N))),
    }
    for name, (model, learn_all) in ways.items():
        assert learn_all(model).tobytes() == before.tobytes(), name
        assert model.weights().tobytes() == whole.weights().tobytes(), name
        ours, theirs = model.heads[0], whole.heads[0]
        assert (ours.loss, ours.rounds, ours.weight) == (theirs.loss, theirs.rounds, theirs.weight), name
    again = np.array([whole.predict_one(dict(zip(whole.names, x.tolist()))) for x in X])
    assert again.tobytes() == whole.predict(X).tobytes()


@pytest.mark.parametrize("geometry", ["additive", "normalised", "implicit", "adaptive", "multiplicative", "signed"])
def test_sparse_rows_are_learned_as_dense_ones(geometry):
    X, y = data(12)
    X[np.abs(X) < 0.5] = 0.0
    models = [learner(12, geometry=geometry) for _ in range(2)]
    before = [model.learn(rows, y) for model, rows in zip(models, (X, sparse.csr_array(X)))]
    np.testing.assert_allclose(before[0], before[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(models[0].weights(), models[1].weights(), rtol=1e-12, atol=1e-12)
    assert models[0].certificate().bound == pytest.approx(models[1].certificate().bound, rel=1e-9)


class Whole(NamedTuple):
    """AdaGrad, or exponentiated gradient, as a user may write a geometry of his own."""

    linked_: float = 0.0
    linked = False
    adaptive = True

    def weight(self, dual, total, shift):
        return dual

    def mass(self, dual, shift):
        return 0.0

    def height(self, dual):
        return 0.0

    def step(self, rate, norm2):
        return rate

    def slope(self, loss, score, y, gain):
        return loss.slope(score, y)

    def move(self, dual, memory, gradient, step):
        memory += gradient * gradient
        return dual - step * gradient / math.sqrt(1e-12 + memory), memory

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return 0.0

    def conjugate(self, total, shift):
        return 0.0

    def divergence(self, u):
        return 0.5 * float(np.dot(u, u))


class Entropy(Whole):
    """The same class with the methods of exponentiated gradient."""

    linked, adaptive = True, False

    def weight(self, dual, total, shift):
        return math.exp(dual - shift) / total

    def mass(self, dual, shift):
        return math.exp(dual - shift)

    def height(self, dual):
        return dual

    def move(self, dual, memory, gradient, step):
        return dual - step * gradient, memory

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return max(0.0, slope * score + (after - before) / step)

    def conjugate(self, total, shift):
        return math.log(total) + shift


@pytest.mark.parametrize(("own", "built_in"), [(Whole, "adaptive"), (Entropy, "multiplicative")])
def test_a_whole_geometry_of_a_user_moves_as_the_built_in_one(own, built_in):
    X, y = data(4)
    mine, theirs = learner(4, geometry=own()), learner(4, geometry=built_in)
    np.testing.assert_allclose(mine.learn(X, y), theirs.learn(X, y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mine.weights(), theirs.weights(), rtol=1e-12)
    assert mine.heads[0].excess == pytest.approx(theirs.heads[0].excess, rel=1e-9)


class Fails(Exception):
    """What a user's part raises."""


class Touchy(NamedTuple):
    """Squared loss that fails at one target, in its value or in its slope."""

    at: float = 17.0
    in_slope: float = 0.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        if y == self.at and not self.in_slope:
            raise Fails("value")
        return 0.5 * (score - y) * (score - y)

    def slope(self, score, y):
        if y == self.at and self.in_slope:
            raise Fails("slope")
        return score - y


class TouchyMap(NamedTuple):
    """The map of the additive geometry, which fails where θ is large."""

    limit: float = 0.05

    def weight(self, dual, total):
        return dual

    def mass(self, dual):
        if abs(dual) > self.limit:
            raise Fails("mass")
        return 0.5 * dual * dual

    def conjugate(self, total):
        return total

    def divergence(self, u):
        return 0.5 * float(np.dot(u, u))


@pytest.mark.parametrize("in_slope", [0.0, 1.0])
@pytest.mark.parametrize("certificate", [True, False])
@pytest.mark.parametrize("make", [OnlineModel, RateMixture])
def test_an_error_of_a_users_loss_comes_out_and_the_rows_before_it_stay_learned(make, certificate, in_slope):
    X, y = data(3)
    y[41] = 17.0
    settings = {"certificate": certificate}
    loss = Touchy(17.0, in_slope)
    models = [make(loss, "additive", *([rate(0.01)] if make is OnlineModel else []), **settings) for _ in range(2)]
    with pytest.raises(Fails, match="slope" if in_slope else "value"):
        models[0].learn(X, y)
    models[1].learn(X[:41], y[:41])
    assert models[0].examples == models[1].examples == 41
    for model in models:
        model.learn(X[42:], y[42:])
    assert models[0].predict(X).tobytes() == models[1].predict(X).tobytes()
    names = [f"x{j}" for j in range(3)]
    one = make(loss, "additive", *([rate(0.01)] if make is OnlineModel else []), **settings)
    for x, t in zip(X[:40], y[:40]):
        one.learn_one(dict(zip(names, x.tolist())), float(t))
    kept = one.predict(X).tobytes()
    with pytest.raises(Fails):
        one.learn_one(dict(zip(names, X[41].tolist())), 17.0)
    assert one.examples == 40 and one.predict(X).tobytes() == kept


def test_an_error_of_a_users_mirror_map_leaves_the_state_before_the_row():
    X, y = data(3)
    model = OnlineModel("squared", TouchyMap(), rate(0.001), names=["a", "b", "c"])
    with pytest.raises(Fails, match="mass"):
        model.learn(np.tile(X, (20, 1)), np.tile(y, 20))
    done = model.examples
    other = OnlineModel("squared", TouchyMap(), rate(0.001), names=["a", "b", "c"])
    other.learn(np.tile(X, (20, 1))[:done], np.tile(y, 20)[:done])
    assert done > 0 and model.weights().tobytes() == other.weights().tobytes()


def test_a_row_that_overflows_leaves_the_state_before_it():
    X, y = data(3)
    X[30] *= 1e60
    model, other = learner(3), learner(3)
    with pytest.raises(DataError, match=r"row 3[01]"):
        model.learn(X, y)
    other.learn(X[: model.examples], y[: model.examples])
    assert model.weights().tobytes() == other.weights().tobytes()


def test_rows_that_do_not_fit_are_refused():
    good = sparse.csr_array(np.eye(3))
    for change in (
        lambda rows: rows.indices.__setitem__(0, 7),
        lambda rows: rows.indices.__setitem__(0, -1),
        lambda rows: rows.indptr.__setitem__(1, 9),
        lambda rows: rows.indptr.__setitem__(3, 400),
    ):
        rows = good.copy()
        change(rows)
        with pytest.raises(DataError, match="build it anew"):
            rows_of(rows)
    with pytest.raises(DataError, match="entries are not"):
        Rows(np.zeros(5), (2, 3))
    rows = rows_of(np.ones((2, 3)))
    with pytest.raises(ValueError, match="targets"):
        Examples(rows, np.zeros(1))
    with pytest.raises(ValueError, match="order"):
        Examples(rows, np.zeros(2), None, [0, 2])
    rule = Rule(resolve_loss("squared"), resolve_geometry("adaptive"), (0.1, 0.0))
    other = Rule(resolve_loss("squared"), resolve_geometry("additive"), (0.1, 0.0))
    examples = Examples(rows, np.zeros(2))
    for state, out in ((rule.state(2), np.zeros(2)), (rule.state(3), np.zeros(1)), (other.state(3), np.zeros(2))):
        with pytest.raises(ValueError, match="fit together"):
            learn(examples, 0, 2, rule, state, out)
    with pytest.raises(ValueError, match="fit together"):
        scores(rows, rule.geometry, rule.state(2), np.zeros(2))


def test_a_state_goes_on_after_a_pickle_and_a_file_of_an_older_layout_is_refused():
    import pickle

    X, y = data(4)
    geometry = resolve_geometry("signed", radius=3.0)
    rule = Rule(resolve_loss("huber"), geometry, (0.1, 0.5))
    states = [rule.state(4)]
    sum_masses(geometry, states[0])
    examples = Examples(rows_of(X), y)
    learn(examples, 0, 30, rule, states[0], np.empty(N))
    states.append(pickle.loads(pickle.dumps(states[0])))
    for state in states:
        learn(examples, 30, N, pickle.loads(pickle.dumps(rule)), state, np.empty(N))
    assert read_weights(geometry, states[0]).tobytes() == read_weights(geometry, states[1]).tobytes()
    assert states[0].sums().tobytes() == states[1].sums().tobytes()
    meta = learner(4).to_state()[1]
    with pytest.raises(ModelError, match="older layout"):
        del meta["arrays"]
        restore("online", {"table0": np.zeros((11, 5)), "numbers0": np.zeros(48)}, meta)
