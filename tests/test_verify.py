"""The verifier accepts what is true and catches every field that is forged."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.model.closed import fit_least_squares
from trueline.onepass.moments import Moments
from trueline.verifier.exact_arithmetic import exact_products
from trueline.verifier.verify import verify


def forged(proof, name, value):
    return dataclasses.replace(proof, **{name: value})


def failed(model, data, proof):
    return {check.claim for check in verify(model, data, certificate=proof).checks if not check.held}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1.0, 30.0, 0.01, 5.0] + [0.0, 900.0, 0.0, -3.0]
    return X, X @ [1.0, -0.2, 40.0, 0.0] + 2.0 + rng.normal(size=300)


def test_products_are_exact():
    from fractions import Fraction

    rng = np.random.default_rng(1)
    A = rng.normal(size=(40, 2)) * 10.0 ** rng.integers(-200, 100, size=(40, 2))
    found, unit = exact_products(A, A)
    for i in range(2):
        for j in range(2):
            wanted = sum(Fraction(a) * Fraction(b) for a, b in zip(A[:, i].tolist(), A[:, j].tolist()))
            assert int(found[i, j]) * Fraction(2) ** int(unit[i, j]) == wanted


def test_exact_certificates_hold_and_each_forged_field_is_caught(rows):
    X, y = rows
    model = fit_least_squares(Moments.from_arrays(X, y))
    proof = model.certificate
    assert verify(model, (X, y)).ok
    forgeries = {
        "arithmetic_digits": 16.5, "data_digits": proof.data_digits + 1.5, "condition_number": 0.5 * proof.condition_number,
        "rank": 3, "orthogonality": 1e-3, "status": Status.DEGENERATE,
    }  # fmt: skip
    for name, value in forgeries.items():
        assert name in failed(model, (X, y), forged(proof, name, value)), name
    assert "x1 repeats others" in failed(model, (X, y), dataclasses.replace(proof, dropped=("x1",), rank=3))


def test_coefficients_that_lose_digits_are_caught(rows):
    X, y = rows
    model = fit_least_squares(Moments.from_arrays(X, y))
    for j in range(4):
        model.coef = model.coef.copy()
        kept = model.coef[j]
        model.coef[j] *= 1.0 + 1e-11
        assert "arithmetic_digits" in failed(model, (X, y), model.certificate)
        model.coef[j] = kept


def test_weights_and_dropped_columns(rows):
    X, y = rows
    c = np.random.default_rng(2).random(300)
    assert verify(fit_least_squares(Moments.from_arrays(X, y, c)), (X, y, c)).ok
    doubled = np.column_stack([X, 3.0 * X[:, 0]])
    model = fit_least_squares(Moments.from_arrays(doubled, y))
    assert model.certificate.dropped and verify(model, (doubled, y)).ok
    assert "condition_number" in failed(model, (doubled, y), dataclasses.replace(model.certificate, dropped=(), rank=5))
    exactly = np.column_stack([X, 2.0 * X[:, 0]])
    model = fit_least_squares(Moments.from_arrays(exactly, y))
    assert "rank" in failed(model, (exactly, y), dataclasses.replace(model.certificate, dropped=(), rank=5))


@pytest.mark.parametrize("geometry", ["additive", "normalised", "implicit", "adaptive", "signed"])
def test_regret_by_replay_and_each_forged_field_is_caught(rows, geometry):
    X, y = rows
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rate, extra = (1e-4, {"radius": 20.0}) if geometry == "signed" else (0.05, {})
    learner = tl.OnlineRegressor(geometry=geometry, rate=rate, **extra)
    learner.partial_fit(X, y)
    proof = learner.certificate_
    assert verify(learner, (X, y)).ok, verify(learner, (X, y)).checks
    forgeries = {
        "examples": 299, "loss": proof.loss * 0.999, "best_fixed_loss": proof.best_fixed_loss * 1.001,
        "regret": proof.regret * 0.99, "bound": 0.9 * proof.loss, "comparator": proof.comparator * 1.01,
    }  # fmt: skip
    for name, value in forgeries.items():
        assert failed(learner, (X, y), forged(proof, name, value)), name
    if geometry in ("additive", "normalised"):
        assert "bound" in failed(learner, (X, y), forged(proof, "bound", proof.bound * 1.001))
        assert "bound" in failed(learner, (X, y), forged(proof, "bound_comparator", proof.bound_comparator * 1.1))
        assert "status" in failed(learner, (X, y), forged(proof, "status", Status.VOID))


def test_the_default_mixture_is_replayed_and_its_comparator_recomputed(rows):
    X, y = rows
    learner = tl.OnlineRegressor().partial_fit(X, y)
    proof = learner.certificate_
    assert verify(learner, (X, y)).ok
    for name in ("loss", "best_fixed_loss", "regret"):
        assert failed(learner, (X, y), forged(proof, name, getattr(proof, name) * 0.99)), name
    assert failed(learner, (X[::-1], y[::-1]), proof)


def test_mistakes_by_replay_and_each_forged_field_is_caught():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = (X @ [1.0, -1.0, 2.0] + 0.3 * rng.normal(size=200) > 0).astype(int)
    learner = tl.Perceptron().partial_fit(X, y)
    proof = learner.certificate_
    assert proof.kind == "mistakes" and verify(learner, (X, y)).ok, verify(learner, (X, y)).checks
    forgeries = {
        "examples": 100, "mistakes": proof.mistakes - 1, "radius": proof.radius * 0.9, "slack": proof.slack * 0.5,
        "bound": float(proof.mistakes - 1), "margin": 0.5, "comparator": proof.comparator * 0.9,
    }  # fmt: skip
    for name, value in forgeries.items():
        assert failed(learner, (X, y), forged(proof, name, value)), name


def test_a_table_is_read_as_training_read_it(tmp_path):
    import polars as pl

    path = tmp_path / "t.csv"
    pl.DataFrame(
        {"a": [1.0, 2.0, None, 4.5, 3.0, 2.5], "k": list("xyxyzz"), "y": [1.0, 3.0, 2.0, 5.0, 4.0, 2.0]}
    ).write_csv(path)
    model = tl.LinearRegression().fit(str(path), target="y", missing="mean")
    assert verify(model, str(path)).ok


def test_what_cannot_be_checked_is_refused_in_a_sentence(rows):
    X, y = rows
    model = fit_least_squares(Moments.from_arrays(X, y))
    model.certificate = None
    with pytest.raises(tl.ModelError, match="no certificate"):
        verify(model, (X, y))
    with pytest.raises(tl.DataError, match="one a row"):
        verify(fit_least_squares(Moments.from_arrays(X, y)), (X, y[:10]))
