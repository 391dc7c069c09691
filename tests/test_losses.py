"""The losses as compiled loops call them, and a user's own."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from conformance import SCORES, TARGETS, check_loss

from trueline.errors import UsageError
from trueline.objective.loss_interface import PointerLoss, derivatives, evaluate
from trueline.objective.losses import LOSSES, resolve_loss
from trueline.objective.named_function import COMPILED
from trueline.parts.losses import LOSSES as TUPLES


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    check_loss(resolve_loss(name))


@pytest.mark.parametrize("name", LOSSES)
def test_the_formulas_of_the_old_kernels_are_the_same(name):
    loss, old = resolve_loss(name), TUPLES[name]()
    assert resolve_loss(old) == loss and loss.curvature_bound() == old.curvature_bound()
    for y in TARGETS[old.targets]:
        assert loss.slope_range(y) == old.slope_range(y)
        for method in ("value", "slope", "curvature"):
            assert evaluate(loss, method, SCORES, y).tolist() == [getattr(old, method)(s, y) for s in SCORES]
        for a in np.linspace(-2.0, 2.0, 9):
            assert loss.conjugate(a, y) == pytest.approx(old.conjugate(a, y), rel=1e-13)
    if hasattr(old, "prox"):
        for y in TARGETS[old.targets]:
            assert evaluate(loss, "prox", SCORES, y, 0.7).tolist() == [old.prox(s, y, 0.7) for s in SCORES]
    assert evaluate(loss, "mean", SCORES).tolist() == [old.mean(s) for s in SCORES]


def test_one_exponential_gives_what_three_give_at_any_score():
    loss, scores = resolve_loss("logistic"), np.array([-800.0, -40.0, -1.5, 0.0, 1e-9, 2.0, 36.0, 800.0])
    for y in (-1.0, 1.0):
        slope, curvature = np.empty(8), np.empty(8)
        derivatives(loss, scores, np.full(8, y), np.ones(8), slope, curvature)
        np.testing.assert_allclose(slope, evaluate(loss, "slope", scores, y), rtol=1e-15)
        np.testing.assert_allclose(curvature, evaluate(loss, "curvature", scores, y), rtol=1e-15)


def test_a_loss_is_a_value():
    loss = resolve_loss("huber", delta=2)
    assert loss == resolve_loss("huber", delta=2.0) != resolve_loss("huber") and repr(loss) == "Huber(delta=2.0)"
    assert pickle.loads(pickle.dumps(loss)) == copy.deepcopy(loss) == loss and hash(copy.copy(loss)) == hash(loss)
    assert loss._asdict() == {"delta": 2.0} and loss._replace(delta=1.0).delta == 1.0 and [*loss] == [2.0]
    for bad in (0.0, -1.0, math.inf, "2"):
        with pytest.raises(UsageError, match="delta must be above 0"):
            resolve_loss("huber", delta=bad)


class Clipped(NamedTuple):
    """Huber's loss, written by a user."""

    delta: float = 1.35
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = abs(score - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def slope(self, score, y):
        return self.clip(score - y)

    def slope_range(self, y):
        return -self.delta, self.delta

    def clip(self, r):
        return max(-self.delta, min(self.delta, r))


class Refusing(NamedTuple):
    """Squared, with limits."""

    limit: float = 1000.0
    targets = "real"

    def value(self, score, y):
        if score > self.limit:
            raise ValueError("too high a score")
        return 0.5 * (score - y) * (score - y)

    def slope(self, score, y):
        if score < -self.limit:
            raise KeyError("too low a score")
        return score - y


def test_a_users_own_loss_gives_what_the_built_in_one_gives():
    loss = resolve_loss(Clipped(2))
    if COMPILED:
        pytest.importorskip("numba")
        assert isinstance(loss, PointerLoss)
    assert loss == Clipped(2.0) and repr(loss) == "Clipped(delta=2.0)" and loss.smooth and loss.targets == "real"
    assert pickle.loads(pickle.dumps(loss)) == loss is resolve_loss(Clipped(2.0))
    assert loss.has("slope") and not loss.has("curvature") and loss.mean(0.3) == 0.3
    for method in ("value", "slope"):
        built_in = evaluate(resolve_loss("huber", delta=2.0), method, SCORES, 0.5)
        assert evaluate(loss, method, SCORES, 0.5).tolist() == built_in.tolist()
    assert evaluate(loss, "lowest_slope", SCORES).tolist() == [-2.0] * len(SCORES)
    assert evaluate(loss, "highest_slope", SCORES).tolist() == [2.0] * len(SCORES) and loss.has("slope_range")


@pytest.mark.parametrize(("score", "error"), [(1e4, ValueError), (-1e4, KeyError)])
def test_a_users_error_comes_out_as_itself(score, error):
    loss = resolve_loss(Refusing())
    scores = np.array([1.0, score, 2.0])
    with pytest.raises(error, match="too"):
        evaluate(loss, "value" if score > 0.0 else "slope", scores, 0.0)
    with pytest.raises(error, match="too"):
        derivatives(loss, scores, np.zeros(3), np.ones(3), np.empty(3), np.empty(0))


def test_a_division_by_zero_is_pythons_own_error():
    class Divided(NamedTuple):
        width: float = 0.5

        def value(self, score, y):
            return (score - y) ** 2 / self.width

        def slope(self, score, y):
            return 2.0 * (score - y) / (self.width if abs(score) < 1e4 else 0.0)

    loss = resolve_loss(Divided())
    assert evaluate(loss, "slope", [1.0], 0.0).tolist() == [4.0]
    with pytest.raises(ZeroDivisionError):
        evaluate(loss, "slope", [1.0, 2e4], 0.0)


def test_what_numba_cannot_compile_runs_as_python_and_says_so_once(recwarn):
    class Looked(NamedTuple):
        half: str = "0.5"

        def value(self, score, y):
            return json.loads(self.half) * (score - y) ** 2

        def slope(self, score, y):
            return 2.0 * json.loads(self.half) * (score - y)

    loss = resolve_loss(Looked())
    assert evaluate(loss, "value", [3.0, 2.0], 1.0).tolist() == [2.0, 0.5]
    assert evaluate(loss, "slope", [3.0, 2.0], 1.0).tolist() == [2.0, 1.0]
    said = [str(one.message) for one in recwarn if "plain Python" in str(one.message)]
    assert len(said) == COMPILED and all("Looked" in one for one in said)


def test_a_c_function_is_a_loss(recwarn):
    from ctypes import CFUNCTYPE, c_double

    from scipy import LowLevelCallable

    two = CFUNCTYPE(c_double, c_double, c_double)
    value, slope = two(lambda s, y: 0.5 * (s - y) ** 2), two(lambda s, y: s - y)

    class Given:
        targets = "real"

        def __init__(self):
            self.value, self.slope = LowLevelCallable(value), LowLevelCallable(slope)

    loss = resolve_loss(Given())
    assert isinstance(loss, PointerLoss)
    assert evaluate(loss, "value", [3.0, 2.0], 1.0).tolist() == [2.0, 0.5]
    assert evaluate(loss, "slope", [3.0, 2.0], 1.0).tolist() == [2.0, 1.0]
    assert not [one for one in recwarn if "plain Python" in str(one.message)]

    class Short(Given):
        def __init__(self):
            super().__init__()
            self.slope = LowLevelCallable(CFUNCTYPE(c_double, c_double)(lambda s: s))

    with pytest.raises(UsageError, match=r"double \(double, double\)"):
        resolve_loss(Short())


def test_a_cython_function_is_a_loss():
    import ctypes

    from scipy import LowLevelCallable

    two = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    keep = [two(lambda s, y: 0.5 * (s - y) ** 2), two(lambda s, y: s - y)]
    capsule = ctypes.pythonapi.PyCapsule_New  # what a cdef function that is exported looks like
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Exported(NamedTuple):
        unit: float = 1.0
        value = LowLevelCallable(capsule(keep[0], b"double (double, double)", None))
        slope = LowLevelCallable(capsule(keep[1], b"double (double, double)", None))

    loss = resolve_loss(Exported())
    assert isinstance(loss, PointerLoss) and evaluate(loss, "slope", [3.0, 2.0], 1.0).tolist() == [2.0, 1.0]
    assert evaluate(loss, "value", [3.0, 2.0], 1.0).tolist() == [2.0, 0.5]


def test_a_loss_that_lacks_a_method_is_refused():
    class Half(NamedTuple):
        unit: float = 1.0

        def value(self, score, y):
            return 0.0

    with pytest.raises(UsageError, match="it lacks slope"):
        resolve_loss(Half())
    with pytest.raises(UsageError, match="did you mean 'huber'"):
        resolve_loss("hubber")


def test_only_a_users_own_loss_has_an_object_behind_it():
    assert resolve_loss(Clipped(2.0)).part == Clipped(2.0)
    assert getattr(resolve_loss("huber"), "part", None) is None and resolve_loss("huber").own is None
