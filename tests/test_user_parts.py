"""A user's own loss and geometry run through the same engine; docs/online.md shows them, and is run here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import conformance
import numpy as np
import pytest
from conformance import check_geometry

import trueline as tl
from trueline.errors import ModelError
from trueline.objective.loss_interface import PythonLoss
from trueline.objective.losses import resolve_loss
from trueline.objective.user_functions import python_methods
from trueline.objective.user_loss import NUMBERS, user_loss
from trueline.online.geometry_names import resolve_geometry

PAGE = Path(__file__).parent.parent / "docs" / "online.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's Python blocks define, run top to bottom as one file."""
    folder = tmp_path_factory.mktemp("page")
    source = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    (folder / "my_parts.py").write_text(source)
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location("my_parts", folder / "my_parts.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_parts"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_runs_and_its_parts_conform(page):
    check_geometry(resolve_geometry(page.PNorm(3.0)))
    made = resolve_loss(page.LogCosh())
    for s in (-2.0, 0.1, 3.0):
        numeric = (made.value(s + 1e-6, 1.0) - made.value(s - 1e-6, 1.0)) / 2e-6
        assert made.slope(s, 1.0) == pytest.approx(numeric, abs=1e-6)


def test_the_p_norm_geometry_at_two_is_additive(page):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.normal(size=200)
    mine = tl.OnlineRegressor(geometry=page.PNorm(2.0), rate=0.02).fit(X, y)
    theirs = tl.OnlineRegressor(geometry="additive", rate=0.02).fit(X, y)
    np.testing.assert_allclose(mine.coef_, theirs.coef_, rtol=1e-9)
    assert mine.certificate_.proven and mine.certificate_.loss <= mine.certificate_.bound


def test_a_file_with_a_users_part_wants_the_class_back(page, tmp_path):
    X, y = np.eye(4), np.arange(4.0)
    model = tl.OnlineRegressor(page.LogCosh(), "additive", 0.1).fit(X, y)
    model.save(tmp_path / "m.tl")
    with pytest.raises(ModelError, match=r"parts=\[LogCosh\]"):
        tl.load(tmp_path / "m.tl")
    again = tl.load(tmp_path / "m.tl", parts=[page.LogCosh])
    assert (again.predict(X) == model.predict(X)).all()
    assert str(again.certificate_) == str(model.certificate_)


class Own(NamedTuple):
    """Squared, written by a user."""

    unit: float = 1.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        return 0.5 * (score - y) * (score - y)

    def slope(self, score, y):
        return score - y


def test_a_users_loss_runs_in_the_same_compiled_loop_as_a_built_in_one():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 50)), rng.normal(size=2000)
    models = [tl.OnlineRegressor(given, "additive", 0.001, certificate=False).fit(X, y) for given in ("squared", Own())]
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-12)


def test_loss_conformance_catches_a_wrong_slope(monkeypatch):
    class Wrong(NamedTuple):
        """A value and a slope that disagree."""

        unit: float = 1.0
        targets = "real"
        smooth = False

        def value(self, score, y):
            return abs(score - y)

        def slope(self, score, y):
            return 2.0 if score > y else -2.0

        def curvature(self, score, y):
            return 0.0

        def curvature_bound(self):
            return np.inf

        def conjugate(self, slope, y):
            return slope * y

        def slope_range(self, y):
            return -2.0, 2.0

        def mean(self, score):
            return score

    wrong = PythonLoss(Wrong(), python_methods(Wrong(), NUMBERS), user_loss)  # past the check of a first use
    monkeypatch.setattr(conformance, "check_part", lambda part: None)
    with pytest.raises(AssertionError):
        conformance.check_loss(wrong)
