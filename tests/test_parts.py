"""Every geometry through the conformance suite, the rates, and what they refuse."""

from __future__ import annotations

import pytest
from conformance import check_geometry

from trueline.errors import UsageError
from trueline.objective.losses import resolve_loss
from trueline.online.geometry_names import GEOMETRIES, resolve_geometry
from trueline.online.rates import rate


def test_power_losses_are_absolute_and_squared():
    for p, other in ((1.0, resolve_loss("absolute")), (2.0, resolve_loss("squared"))):
        power = resolve_loss("power", p=p)
        for s in (-2.0, 0.5, 3.0):
            assert power.value(s, 1.0) == pytest.approx(other.value(s, 1.0))
            assert power.slope(s, 1.0) == pytest.approx(other.slope(s, 1.0))


@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometries(name):
    check_geometry(resolve_geometry(name))


def test_rates():
    assert [rate(0.5, s).at(4) for s in ("constant", "1/sqrt(t)", "1/t")] == [0.5, 0.25, 0.125]
    for bad in (0.0, -1.0, float("inf"), float("nan"), "fast", True):
        with pytest.raises(UsageError, match="rate"):
            rate(bad)
    with pytest.raises(UsageError, match="did you mean"):
        rate(0.1, "1/sqrt t")


def test_the_door_names_what_is_missing():
    class Half(tuple):
        pass

    with pytest.raises(UsageError, match="did you mean 'additive'"):
        resolve_geometry("aditive")
    with pytest.raises(UsageError, match="lacks"):
        resolve_geometry(Half())
