"""The one yardstick of gaps, and the rule by which a gap proves a result."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize

import trueline as tl
from trueline.batch.problem import build
from trueline.batch.reference import best_constant
from trueline.certificates.certificate import Status, from_dict
from trueline.certificates.optimality import PROVEN_GAP, gap_certificate, relative_gap
from trueline.estimators.proofs import NotProvenWarning
from trueline.objective.losses import LOSSES, resolve_loss
from trueline.objective.penalties import resolve_penalty

NONE = np.zeros(0)


def targets(loss, n, rng):
    """Some of what a loss takes."""
    return {
        "real": rng.normal(size=n),
        "sign": np.where(rng.random(n) < 0.3, 1.0, -1.0),
        "nonnegative": rng.poisson(2.0, n) * 1.0,
        "positive": rng.gamma(2.0, 1.0, n) + 0.1,
    }[loss.targets]


@pytest.mark.parametrize(
    "gap, primal, null, saturated, expected",
    [
        (0.01, 0.5, 1.0, 0.0, 0.02),
        (0.01, 100.5, 101.0, 100.0, 0.02),
        (0.01, -12.5, -12.0, -13.0, 0.02),
        (1e-9, 0.0, 1.0, 0.0, 1e-6),  # an exact fit has no accuracy of its own
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (1e-9, 0.0, 0.0, 0.0, math.inf),
        (0.1, 1.0, 1.0, -math.inf, math.inf),  # where the least loss is not known no gap is small
        (0.1, 1.0, math.nan, 0.0, math.inf),
        (math.inf, 1.0, 1.0, 0.0, math.inf),
    ],
)
def test_a_gap_is_measured_by_what_there_is_to_explain(gap, primal, null, saturated, expected):
    assert relative_gap(gap, primal, null, saturated) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "primal, dual, tolerance, status",
    [
        (0.5, 0.5 - 1e-7, 1e-6, Status.PROVEN),
        (0.5, 0.5, 1e-6, Status.PROVEN),
        (0.5, 0.5 - 1e-7, 1e-9, Status.NOT_PROVEN),
        (0.5, 0.5 - 1e-4, 1e-3, Status.NOT_PROVEN),  # what was asked for, but no proof
        (0.5, 0.5 + 1e-15, 1e-6, Status.NOT_PROVEN),  # a contradiction
        (0.5, -math.inf, 1e-6, Status.NOT_PROVEN),
        (math.nan, 0.5, 1e-6, Status.NOT_PROVEN),
        (math.inf, 0.5, 1e-6, Status.NOT_PROVEN),
    ],
)
def test_what_proves(primal, dual, tolerance, status):
    made = gap_certificate(primal, dual, null=1.0, saturated=0.0, tolerance=tolerance)
    assert made.status is status
    asked = gap_certificate(primal, dual, null=1.0, saturated=0.0, tolerance=tolerance, status=Status.PROVEN)
    assert asked.status is status  # nobody overrides the lack of a proof
    assert made.gradient_norm is made.newton_decrement is made.largest_step is None  # unknown is None, never NaN
    assert from_dict(made.to_dict()).status is status


def test_a_loose_tolerance_is_met_in_silence_but_proves_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotProvenWarning)
        found = tl.minimize(X, y, "huber", "l1", "fista", alpha=0.01, tol=1e-2)
        model = tl.LogisticRegression(solver="gradient", tol=1e-2).fit(X, y > 0)
    for proof in (found.certificate, model.certificate_):
        assert proof.reached and PROVEN_GAP < proof.relative_gap <= 1e-2 and not proof.proven
        assert "lower tol" in proof.advice


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("offset", [False, True])
def test_null_is_the_loss_of_the_best_constant(name, offset):
    rng, loss = np.random.default_rng(1), resolve_loss(name)
    y, c = targets(loss, 60, rng), rng.random(60)
    c /= c.sum()
    shift = rng.normal(size=60) if offset else NONE
    _, found = best_constant(loss, y, c, shift)

    def total(constant):
        return sum(
            ci * loss.value(constant + oi, yi)
            for ci, yi, oi in zip(c, y, shift if offset else np.zeros(60), strict=True)
        )

    peer = scipy.optimize.minimize_scalar(total, bounds=(-8, 8), method="bounded", options={"xatol": 1e-10})
    assert found == pytest.approx(peer.fun, rel=1e-6, abs=1e-6) and found <= peer.fun + 1e-12


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_saturated_is_the_least_that_any_scores_reach(name):
    rng, loss = np.random.default_rng(2), resolve_loss(name)
    y = targets(loss, 20, rng)
    c = np.full(20, 1 / 20)
    risk = build(rng.normal(size=(20, 2)), y, loss, resolve_penalty(None), weights=c)
    least = np.mean([min(loss.value(s, t) for s in [t, *np.linspace(-40, 40, 8001)]) for t in risk.y])
    found = risk.reference()
    assert found.saturated <= least + 1e-12 and found.saturated == pytest.approx(least, abs=1e-4)
    assert found.least <= found.saturated <= found.null


@pytest.mark.parametrize("kind", ["intercept", "a column of ones", "another constant", "columns that sum to 1"])
@pytest.mark.parametrize("sparse", [False, True])
def test_where_a_constant_is_in_reach_the_level_does_not_count(kind, sparse):
    import scipy.sparse

    rng, n = np.random.default_rng(3), 80
    X = plain = rng.normal(size=(n, 2))
    if kind == "a column of ones":
        X = np.column_stack([X, np.ones(n)])
    elif kind == "another constant":
        X = np.column_stack([np.full(n, -3.5), X])
    elif kind == "columns that sum to 1":
        X = np.column_stack([X, np.eye(3)[rng.integers(0, 3, n)]])
    given = scipy.sparse.csr_matrix(X) if sparse else X
    y = rng.normal(size=n)
    for name in ("squared", "absolute", "huber"):
        nulls = []
        for level in (0.0, 1e6):
            risk = build(
                given, y + level, resolve_loss(name), resolve_penalty(None), weights=np.full(n, 1 / n),
                intercept=kind == "intercept",
            )  # fmt: skip
            nulls.append(risk.reference().null)
        assert nulls[1] == pytest.approx(nulls[0], rel=1e-6)
    bare = build(
        plain, y + 1e6, resolve_loss("squared"), resolve_penalty(None), weights=np.full(n, 1 / n), intercept=False
    )
    assert bare.reference().null > 1e11  # no constant is in reach: w = 0 is where one begins


class Endless(NamedTuple):
    """√(1 + r²) − 2r: no score has the least value, so what there is to explain is not known."""

    unit: float = 1.0
    name = "endless"
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = score - y
        return math.sqrt(1.0 + r * r) - 2.0 * r

    def slope(self, score, y):
        r = score - y
        return r / math.sqrt(1.0 + r * r) - 2.0

    def curvature(self, score, y):
        r = score - y
        return (1.0 + r * r) ** -1.5


def test_an_own_loss_whose_least_value_is_not_found_is_never_proven():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    with pytest.warns(NotProvenWarning):
        found = tl.minimize(X, y, Endless(), "l2", alpha=1.0, intercept=False)
    assert not found.proven and found.certificate.relative_gap == math.inf
    assert abs(found.certificate.gap) < 1e-9  # the optimum is found all the same
