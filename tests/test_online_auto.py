"""geometry="auto" where the full mixture does not fit, and what mixed rates prove of rows that can be read again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import trueline as tl
from trueline.objective.losses import resolve_loss


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3)) * [1.0, 20.0, 0.1]
    return X, X @ [1.0, 0.1, 5.0] + 0.5 + rng.standard_t(3, size=400)


@pytest.mark.parametrize(
    ("settings", "kind", "geometry"),
    [
        ({}, "mixture", ""),
        ({"loss": "huber"}, "ladder", "Adaptive"),
        ({"fit_intercept": False}, "ladder", "Adaptive"),
        ({"batch_size": 10}, "ladder", "Adaptive"),
        ({"penalty": "l1"}, "ladder", "Normalised"),
        ({"rate": 0.001}, "online", "Additive"),
        ({"rate": 0.001, "average": True, "penalty": "l2"}, "online", "Additive"),
    ],
)
def test_auto_fits_what_is_asked(data, settings, kind, geometry):
    X, y = data
    model = tl.OnlineRegressor(**settings).fit(X, y)
    assert model.record_.kind == kind and type(getattr(model.record_, "geometry", None)).__name__ in (
        geometry,
        "NoneType",
    )
    assert np.mean(np.abs(model.predict(X) - y)) < np.mean(np.abs(y - np.median(y)))
    if settings.get("fit_intercept") is False:
        assert model.intercept_ == 0.0


def test_auto_refuses_to_average_a_mixture(data):
    for settings in ({}, {"loss": "huber"}, {"penalty": "l1"}):
        with pytest.raises(tl.UsageError, match="average=True needs one learner"):
            tl.OnlineRegressor(average=True, **settings).fit(*data)


def test_auto_classifies_with_hinge(data):
    X, y = data
    for labels in (y > 0, np.digitize(y, [-2.0, 2.0])):
        model = tl.OnlineClassifier(loss="hinge").fit(X, labels)
        proof = model.certificate_
        assert model.score(X, labels) > 0.7 and proof.proven and proof.loss <= proof.bound
        assert proof.best_fixed_loss is None  # nothing proves which weights have the least hinge loss
        assert proof.regret == proof.loss - proof.best_member_loss and proof.regret_to == "the best member"


@pytest.mark.parametrize("geometry", ["adaptive", "normalised", "signed"])
def test_mixed_rates_look_back(data, geometry, tmp_path):
    X, y = data
    X = X / np.abs(X).max(axis=0)
    model = tl.OnlineRegressor(loss="huber", geometry=geometry, radius=20.0, epochs=2).fit(X, y)
    proof = model.certificate_
    assert proof.proven and proof.loss <= proof.bound
    part = resolve_loss("huber")
    Z = np.column_stack([np.ones(len(y)), X])

    def twice(u: np.ndarray) -> float:
        return 2.0 * sum(part.value(score, target) for score, target in zip(Z @ u, y))

    # Weights with a small loss are found, over both passes, and stated as the best only if that is proven.
    least = minimize(twice, np.zeros(Z.shape[1]), method="BFGS").fun
    if proof.best_fixed_loss is not None:
        assert geometry == "signed" or least - 1e-6 <= proof.best_fixed_loss <= (1 + 1e-6) * least
    if proof.best_fixed_lower_bound is not None:
        assert geometry == "signed" or proof.best_fixed_lower_bound <= least * (1 + 1e-9)
    model.save(tmp_path / "model.tl")
    again = tl.load(tmp_path / "model.tl").certificate_
    assert (again.best_fixed_loss, again.bound) == (proof.best_fixed_loss, proof.bound)


def test_normalised_rates_count_losses_as_they_are(data):
    X, y = data
    proof = tl.OnlineRegressor(geometry="normalised").fit(X, y).certificate_
    Z = np.column_stack([np.ones(len(y)), X])
    residual = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    assert proof.best_fixed_loss == pytest.approx(residual @ residual)
