"""Robust lines and lines among outliers: honest ones verify on awkward data, forged ones are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.verifier.verify_robust import psi, rho

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 3))
Y = X @ [1.0, 2.0, -1.0] + 3.0 + 0.5 * RNG.normal(size=120) + 20.0 * (np.arange(120) < 12)
PSIS = ("huber", "bisquare", "hampel", "andrews", "cauchy")
STARTS = ("least-squares", "high-breakdown")


def awkward():
    """(name, rows, targets, weights) that honest fits meet."""
    ones = np.ones(120)
    yield "plain", X, Y, None
    yield "far from zero", X + 1e9, Y + 1e9, None
    yield "scales", X * [1e-6, 1.0, 1e6], Y, None
    yield "small targets", X, 1e-6 * Y, None
    yield "weights", X, Y, RNG.random(120) * 1e9
    yield "zero weights", X, Y, 1.0 * (np.arange(120) % 3 > 0)
    yield "constant column", np.column_stack([X, ones]), Y, None
    yield "near constant", np.column_stack([X, 0.1 * ones]), Y, None
    yield "repeated column", np.column_stack([X, X[:, 0]]), Y, None
    yield "repeated rows", np.repeat(X[:20], 6, axis=0), np.repeat(Y[:20], 6), None
    yield "few rows", X[:6], Y[:6], None
    yield "exact", X, X @ [1.0, 2.0, -1.0] + 3.0 + 20.0 * (np.arange(120) < 12), None
    yield "whole numbers", np.round(X), np.round(Y), None


AWKWARD = list(awkward())


@pytest.mark.parametrize("case", AWKWARD, ids=lambda case: case[0])
def test_honest_lines_verify(case):
    _, A, y, weights = case
    models = [tl.RobustRegression(p, start=s) for p in PSIS for s in STARTS]
    models += [tl.RobustRegression(p, scale="huber", fit_intercept=False) for p in PSIS]
    for model in [*models, tl.OutlierMixture(n_starts=3), tl.OutlierMixture(n_starts=3, fit_intercept=False)]:
        fitted(model, A, y, weights)
        rows = (A, y) if weights is None else (A, y, weights)
        assert not failures(model, rows), (model, model.certificate_)


@pytest.mark.parametrize("name", PSIS)
def test_only_a_convex_objective_is_proven(name):
    status = fitted(tl.RobustRegression(name), X, Y).certificate_.status
    assert status is (Status.PROVEN if name == "huber" else Status.STATIONARY)
    assert fitted(tl.OutlierMixture(), X, Y).certificate_.status is Status.STATIONARY
    for model in (tl.RobustRegression("bisquare"), tl.OutlierMixture()):
        fitted(model, X, Y)
        assert "status" in failures(model, (X, Y), replaced(model, status=Status.PROVEN))


def test_stationary_fits_do_not_warn(recwarn):
    tl.RobustRegression("bisquare").fit(X, Y)
    tl.OutlierMixture().fit(X, Y)
    assert not [w for w in recwarn if issubclass(w.category, tl.NotProvenWarning)]


def test_scales_settle_among_huge_outliers():
    y = np.where(np.arange(120) < 12, 1e6, Y)
    for rule in ("mad", "huber"):
        model = fitted(tl.RobustRegression("bisquare", scale=rule), X, y)
        assert model.certificate_.scale_error <= 0.01 and model.scale_ < 1.0


def honest_numbers(record, name, y=Y):
    """The certificate's numbers of whatever the record says, as the verifier computes them."""
    said = record.statistics
    u = (y - X @ record.coef - record.intercept) / said["scale"]
    constants = tuple(said["tuning"])
    Z = np.column_stack([np.ones(len(X)), X - X.mean(axis=0)])
    slope = psi(name, constants, u)
    steep = np.abs(Z.T @ slope) / np.sqrt((Z**2).sum(axis=0) * (slope @ slope))
    size = np.median(np.abs(u)) / 0.6745
    said["weights"] = slope / u
    return {
        "objective": float(rho(name, constants, u).sum()), "stationarity": float(steep.max()),
        "scale_error": abs(size - 1.0),
    }  # fmt: skip


@pytest.mark.parametrize("name", PSIS)
@pytest.mark.parametrize("forgery", ["coefficients", "large scale", "small scale", "least squares", "intercept"])
def test_forged_lines_are_refused(name, forgery):
    model = fitted(tl.RobustRegression(name, start="least-squares"), X, Y)
    record = copied(model)
    if forgery == "coefficients":
        record.coef = np.array([5.0, -7.0, 9.0])
    elif forgery == "intercept":
        record.intercept = 1e6
    elif forgery == "least squares":
        plain = fitted(tl.LinearRegression(), X, Y)
        record.coef, record.intercept = plain.coef_, plain.intercept_
        record.statistics["scale"] = 1e9
    else:
        record.statistics["scale"] = 1e9 if forgery == "large scale" else 1e-9
    record.statistics["dispersion"] = record.statistics["scale"]
    numbers = honest_numbers(record, name)
    gap = {"gap": 0.0} if name == "huber" else {}
    for claimed in (numbers, numbers | {"stationarity": 0.0}, numbers | {"scale_error": 0.0}):
        for status in (Status.PROVEN, Status.STATIONARY):
            lie = replaced(model, **claimed, **gap, status=status)
            assert failures(record, (X, Y), lie)


@pytest.mark.parametrize("scale", [1e9, 1e-9])
def test_a_kept_scale_has_limits(scale):
    model = fitted(tl.RobustRegression("bisquare", start="high-breakdown"), X, Y)
    record = copied(model)
    record.statistics["scale"] = record.statistics["dispersion"] = scale
    if scale > 1.0:
        plain = fitted(tl.LinearRegression(), X, Y)
        record.coef, record.intercept = plain.coef_, plain.intercept_
    lie = replaced(model, **(honest_numbers(record, "bisquare") | {"scale_error": 0.0, "stationarity": 0.0}))
    assert "scale" in failures(record, (X, Y), lie)


@pytest.mark.parametrize(
    "change", [{"coef": np.array([5.0, -7.0, 9.0])}, {"intercept": 1e6}, {"sigma": 1e3}, {"mu": 50.0},
               {"sigma_huge": 1e9}, {"probability": 0.5}, {"probability": 1e-300}], ids=lambda one: str(*one)
)  # fmt: skip
def test_forged_lines_among_outliers_are_refused(change):
    model = fitted(tl.OutlierMixture(), X, Y)
    record = copied(model)
    for name, value in change.items():
        if name in ("coef", "intercept"):
            setattr(record, name, value)
        else:
            record.statistics[name] = value
            record.statistics["sigma_huge"] = max(record.statistics["sigma_huge"], record.statistics["sigma"])
    said, r = record.statistics, Y - X @ record.coef - record.intercept
    line = math.log(said["probability"]) - math.log(said["sigma"]) - 0.5 * (r / said["sigma"]) ** 2
    wide = math.log1p(-said["probability"]) - math.log(said["sigma_huge"])
    both = np.logaddexp(line, wide - 0.5 * ((Y - said["mu"]) / said["sigma_huge"]) ** 2)
    objective = float((both - 0.5 * math.log(2.0 * math.pi)).sum())
    said["log_likelihood"] = objective
    for claimed in ({}, {"objective": objective}, {"objective": objective, "stationarity": 0.0}):
        for status in (Status.PROVEN, Status.STATIONARY):
            assert failures(record, (X, Y), replaced(model, **claimed, status=status))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(value):
    for model in (fitted(tl.RobustRegression(), X, Y), fitted(tl.OutlierMixture(), X, Y)):
        for name in ("objective", "stationarity", "degrees_of_freedom"):
            assert failures(model, (X, Y), replaced(model, **{name: value}))


def test_other_weights_link_and_rows_are_refused():
    model = fitted(tl.RobustRegression(), X, Y)
    assert failures(model, (X, Y, RNG.random(120) + 0.1))
    record = copied(model)
    record.link = "log"
    assert "predictions" in failures(record, (X, Y))
    record = copied(model)
    record.statistics["covariance"] = 4.0 * record.statistics["covariance"]
    assert "standard errors" in failures(record, (X, Y))
    with pytest.raises(tl.DataError, match="NaN, infinity"):
        tl.verify(model, (np.where(X > 2.0, np.inf, X), Y))
