"""Kernel ridge: every form is checked against the minimum of its objective; forged functions are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced

import trueline as tl
from trueline.certificates.certificate import Status

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80) + 2.0
W = RNG.random(80) + 0.1
FORMS = ("exact", "nystrom", "random_features")


def model_of(form, **options):
    return tl.KernelRegression(approximation=form, components=20, random_state=0, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "case", ["plain", "far", "scaled", "weights", "large weights", "zero weights", "repeated", "no constant", "few"]
)
def test_honest_models_verify(form, case):
    A, y, w = X, Y, None
    A, y = {"far": (X + 1e6, Y + 1e6), "scaled": (X * 1e-6, Y * 1e6), "repeated": (np.repeat(X[:20], 4, axis=0), np.repeat(Y[:20], 4)),
            "few": (X[:4], Y[:4])}.get(case, (A, y))  # fmt: skip
    w = {"weights": W, "large weights": 1e9 * W, "zero weights": 1.0 * (np.arange(80) % 3 > 0)}.get(case)
    model = fitted(model_of(form, fit_intercept=case != "no constant"), A, y, w)
    assert not failures(model, (A, y) if w is None else (A, y, w))
    assert model.certificate_.proven


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("forgery", ["zero", "larger", "constant", "penalty"])
def test_forged_functions_are_refused(form, forgery):
    model = fitted(model_of(form), X, Y)
    record = copied(model)
    if forgery == "zero":
        record.coef = np.zeros_like(record.coef)
    elif forgery == "larger":
        record.coef = 1.01 * record.coef
    elif forgery == "constant":
        record.intercept += 1e6
    else:
        record.alpha = 10.0 * record.alpha
    r = Y - record.predict(X)
    if form == "random_features":
        norm = float(record.coef @ record.coef)
    else:
        square = ((record.points[:, None] - record.points) ** 2).sum(axis=2)
        norm = float(record.coef @ np.exp(-record.shape.gamma * square) @ record.coef)
    primal = 0.5 * float(r @ r) + 0.5 * record.alpha * norm
    for fields in (
        {},
        {"primal": primal, "dual": primal, "gap": 0.0, "relative_gap": 0.0, "gradient_norm": 0.0, "residual": 0.0},
    ):
        assert failures(record, (X, Y), replaced(model, status=Status.PROVEN, **fields))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(value):
    model = fitted(model_of("exact"), X, Y)
    for name in ("primal", "dual", "gap", "relative_gap", "gradient_norm", "residual", "leave_one_out"):
        assert failures(model, (X, Y), replaced(model, **{name: value}))


def test_other_weights_and_other_points_are_refused():
    model = fitted(model_of("exact"), X, Y)
    assert failures(model, (X, Y, W))
    record = copied(model)
    record.points = record.points + 0.01
    assert failures(record, (X, Y))


def test_a_kernel_that_is_no_inner_product_is_void():
    model = fitted(tl.KernelRegression(kernel=lambda A, B: -0.01 * (A @ B.T), alpha=5.0), X, Y)
    assert model.certificate_.status is Status.VOID and not failures(model, (X, Y))
    assert failures(model, (X, Y), replaced(model, status=Status.PROVEN))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e5])
def test_small_noise_on_a_target_far_from_zero_is_no_alarm(form, size):
    rng = np.random.default_rng(5)
    A = rng.normal(size=(58, 3)) * [3e3, 0.1, 0.1]
    y = 1.66e6 * size + 3e-5 * size * rng.normal(size=58)
    model = fitted(tl.KernelRegression(approximation=form, components=10, random_state=0), A, y)
    assert not failures(model, (A, y))


@pytest.mark.parametrize("form", ["exact", "nystrom"])
def test_years_and_their_squares_keep_the_digits_of_near_rows(form):
    """‖x‖² + ‖z‖² − 2x·z lost them: objectives off by 3·10⁻⁴ were called proven, and the verifier refused them."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        year = rng.integers(1990, 2024, 60).astype(float)
        A, t = (
            np.column_stack([year, rng.normal(size=60), year**2]),
            1e3 * rng.normal(size=60) + 100.0 * (year - 2000.0),
        )
        model = tl.KernelRegression(1e-4, gamma=0.5, approximation=form, components=40, random_state=0).fit(A, t)
        assert tl.verify(model, (A, t)).ok
        if form == "exact":
            K = np.exp(-0.5 * ((A[:, None] - A) ** 2).sum(axis=2))
            np.testing.assert_allclose(model.predict(A), K @ model.model_.coef + model.model_.intercept, rtol=1e-9)
