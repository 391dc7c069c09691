"""Whether a result is proven is decided in ``certificates/``, from numbers; nobody else decides, and nobody else divides."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import trueline
import trueline as tl
from trueline.certificates.certificate import Assumption, Status
from trueline.certificates.likelihood import likelihood_status, line_status, local_status
from trueline.certificates.optimality import components_status, exact_status, gap_certificate, gap_status
from trueline.certificates.regret import bound_status

ROOT = Path(trueline.__file__).parent
FAILED = (Assumption("it holds", False),)
GIVES = re.compile(r"(status\s*=|return|,|\?|else)\s*\(?Status\.PROVEN\b")
DIVIDES = re.compile(r"\bgap\w*(\[[^]]*\])?\s*/\s*(max\(|abs\(|\w*(primal|objective|null|scale))")
# The product of normalisers is recomputed: it holds or it does not, and ``bound_status`` has said which.
ALLOWED = {"beyond/boosting.py"}


def sources():
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(("certificates/", "verifier/")):
            yield place, path.read_text()


def test_nobody_else_says_proven():
    assert {place for place, text in sources() if GIVES.search(text)} <= ALLOWED


def test_nobody_else_divides_a_gap():
    assert not {place for place, text in sources() if DIVIDES.search(text)}


@pytest.mark.parametrize(
    "status",
    [
        gap_status(-1e-300, 0.0, 1e-6),
        gap_status(math.nan, math.nan, 1e-6),
        gap_status(0.0, 0.0, 1e-6, FAILED),
        gap_status(1.0, 0.5, 1e9),
        gap_certificate(0.5, 0.6, null=1.0, saturated=0.0).status,
        gap_certificate(0.5, 0.6, null=1.0, saturated=0.0, status=Status.PROVEN).status,
        gap_certificate(0.5, 0.5, null=1.0, saturated=0.0, assumptions=FAILED).status,
        gap_certificate(math.inf, 0.5, null=1.0, saturated=0.0).status,
        bound_status(5.0, 4.0, ()),
        bound_status(3.0, 4.0, FAILED),
        bound_status(3.0, math.inf, ()),
        bound_status(math.nan, 4.0, ()),
        bound_status(3.0, None, ()),
        exact_status(0.99, ()),
        exact_status(math.nan, ()),
        exact_status(15.0, ("x",)),
        components_status(True, 0.0, 0.9),
        components_status(True, 1.0, 15.0),
        components_status(False, 0.0, 15.0),
        line_status(True, 1.0, -1.0, 0.0, 0.0),
        line_status(False, 1.0, 0.0, 0.0, 0.0),
        likelihood_status(-1.0, 10.0),
        likelihood_status(math.nan, 10.0),
        likelihood_status(0.0, 10.0, flat=True),
        likelihood_status(0.0, 10.0, closed=False),
        local_status(False, True),
        local_status(True, False),
    ],
)  # fmt: skip
def test_none_of_these_is_proven(status):
    assert status is not Status.PROVEN


def test_components_of_which_no_digit_holds_are_not_proven():
    """A spread of a few units in the last place of 10⁹ has a direction, but no digit of its variance is known."""
    rng = np.random.default_rng(2)
    X = 1e9 + np.column_stack([rng.normal(size=40), 3e-7 * rng.integers(-1, 2, 40)])
    found = tl.PCA(2).fit(X)
    assert not found.certificate_.proven and found.certificate_.digits < 1.0
    assert tl.verify(found, (X,)).ok
