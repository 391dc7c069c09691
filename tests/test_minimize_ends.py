"""How a minimisation ends and begins: out of iterations, interrupted, by each stop rule, by a step too long, warm."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from solving import problem, solved

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.estimators.minimize import minimize
from trueline.estimators.proofs import NotProvenWarning


def test_out_of_iterations_says_so_with_gap_and_advice():
    X, ys = problem()
    with pytest.warns(NotProvenWarning, match="relative gap of .* allow more iterations") as told:
        solution = minimize(X, ys["logistic"], "logistic", "l1", "fista", alpha=0.01, max_iter=2)
    assert solution.status is Status.NOT_PROVEN and not solution.proven
    assert "not proven" in str(solution.status) and solution.certificate.relative_gap > 1e-6
    assert told[0].filename == __file__ and solution.coefficients is solution.coef
    assert len(solution.trace) == 3 and all(step.seconds >= 0 for step in solution.trace)
    with pytest.warns(NotProvenWarning):
        stochastic = minimize(X, ys["squared"], method="stochastic", max_iter=20)
    assert (
        stochastic.certificate.gap >= 0
        and stochastic.certificate.primal < 1.5 * minimize(X, ys["squared"]).certificate.primal
    )


def test_ctrl_c_returns_the_last_certified_point():
    X, ys = problem()

    def stop(step):
        if step.iteration == 7:
            raise KeyboardInterrupt

    solution = minimize(X, ys["logistic"], "logistic", "l1", "fista", alpha=0.001, callback=stop, tol=1e-12)
    assert solution.status is Status.INTERRUPTED and math.isfinite(solution.certificate.gap)
    assert solution.certificate.primal <= solution.trace[0].objective


def test_stop_rules_by_name():
    X, ys = problem()
    by_gradient = minimize(X, ys["squared"], "squared", "l2", "gradient", alpha=0.1, stop="gradient", tol=1e-6)
    assert by_gradient.certificate.gradient_norm <= 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_decrease = minimize(X, ys["squared"], "squared", "l2", "gradient", alpha=0.1, stop="decrease", tol=1e-3)
    assert len(by_decrease.trace) < len(by_gradient.trace)
    with pytest.raises(tl.UsageError, match="did you mean 'gradient'"):
        minimize(X, ys["squared"], stop="gradiant")


def test_constant_steps_converge_below_the_admissible_range_and_not_above():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=80)
    limit = solved(X, y, method="gradient", step="exact").certificate.largest_step
    inside = solved(X, y, method="gradient", step="constant", rate=0.95 * limit)
    assert inside.proven
    with pytest.warns(NotProvenWarning):
        outside = minimize(X, y, method="gradient", step="constant", rate=1.05 * limit, max_iter=200)
    assert outside.trace[-1].objective > outside.trace[0].objective
    assert solved(X, y, method="gradient", step="constant").proven


def test_paths_are_warm_and_starts_are_used():
    X, ys = problem()
    path = solved(X, ys["squared"], penalty="l1", alpha=[1.0, 0.3, 0.1, 0.03])
    assert [s.alpha for s in path] == [1.0, 0.3, 0.1, 0.03] and all(s.proven for s in path)
    again = solved(X, ys["squared"], penalty="l1", method="fista", alpha=0.03, start=path[-1])
    cold = solved(X, ys["squared"], penalty="l1", method="fista", alpha=0.03)
    assert len(again.trace) < len(cold.trace)


class Limited(NamedTuple):
    """Squared, for scores and targets up to a thousand."""

    limit: float = 1000.0
    smooth = True

    def value(self, score, y):
        if score > self.limit:
            raise ValueError("too high a score")
        return 0.5 * (score - y) * (score - y)

    def slope(self, score, y):
        if score < -self.limit:
            raise KeyError("too low a score")
        return score - y

    def curvature(self, score, y):
        return 1.0


@pytest.mark.parametrize(("size", "error"), [(9e3, ValueError), (-9e3, KeyError)])
@pytest.mark.parametrize("rows", [40, 60_000])
@pytest.mark.parametrize("method", ["newton", "gradient", "fista", "coordinate"])
def test_an_error_of_a_users_loss_comes_out_of_a_fit_as_itself(size, error, rows, method):
    X = np.random.default_rng(0).normal(size=(rows, 2))
    with pytest.raises(error, match="too"):
        tl.minimize(X, np.full(rows, size), Limited(), method=method)
