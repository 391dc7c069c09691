"""Honest streams verify where exp and log differ in the last place, as they do between processors."""

from __future__ import annotations

import importlib
import math
import pkgutil
from types import ModuleType

import numpy as np
import pytest
from verifier import honest
from verifier.test_verify_online import KINDS, failed, learned, named

import trueline.verifier
from trueline.errors import TruelineError

FUNCTIONS = ("exp", "log", "log1p", "expm1", "logaddexp", "log2", "log10")


class OtherProcessor:
    """NumPy or math as another processor has it: an exponential or logarithm that is rounded may be one unit off.

    It gives the same result for the same argument, and those that every processor has exactly (exp(0) = 1, log(1) = 0).
    """

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str):
        found = getattr(self.module, name)
        return self.moved(found) if name in FUNCTIONS else found

    def moved(self, function):
        def other(*args, **options):
            values = np.asarray(function(*args, **options), dtype=float)
            to = np.array([-np.inf, 0.0, np.inf])[values.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) % np.uint64(3)]
            exact = (to == 0.0) | np.isin(values, (0.0, 1.0)) | ~np.isfinite(values)
            values = np.where(exact, values, np.nextafter(values, to))
            return float(values) if self.module is math else values[()]

        if hasattr(function, "reduce"):
            other.reduce = self.moved(function.reduce)
        return other


@pytest.fixture
def other_processor(monkeypatch):
    """Every module of the verifier calculates on another processor from here on."""
    for part in pkgutil.iter_modules(trueline.verifier.__path__):
        module = importlib.import_module(f"trueline.verifier.{part.name}")
        for name, original in (("np", np), ("math", math)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, OtherProcessor(original))


@pytest.mark.parametrize(
    "part, hostile",  # every kind on one sort of rows; on both where there is time
    [
        pytest.param(
            k, hostile, id=f"{k}-{'hostile' if hostile else 'dull'}", marks=[pytest.mark.torture] * (k % 2 != hostile)
        )
        for k in range(4)
        for hostile in (False, True)
    ],
)
def test_streams_learned_on_another_processor_hold(hostile, part, other_processor):
    tried, alarms = 0, []
    for k, (make, target) in list(enumerate(KINDS))[part::4]:
        rows = honest.draw(np.random.default_rng([17, k, hostile]), target, hostile, weighted=True)
        try:
            learner = learned(make, "fit", *rows)
        except TruelineError:
            continue  # a rate that overflows is refused while it learns
        tried += 1
        found = failed(learner, rows if rows.weights is not None else rows[:2])
        alarms += [(named(make), k, found)] if found else []
    assert tried >= 20 and not alarms
