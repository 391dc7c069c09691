"""What used to end in exceptions of other libraries is refused in a sentence, with the exit code of its kind."""

from __future__ import annotations

import numpy as np
import pytest

import trueline as tl

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X @ [1.0, 2.0, 3.0] + rng.normal(size=60)
two = (y > 0).astype(int)

MODELS = {
    "linear": lambda: tl.LinearRegression().fit(X, y), "ridge": lambda: tl.Ridge().fit(X, y), "lasso": lambda: tl.Lasso(0.1).fit(X, y),
    "logistic": lambda: tl.LogisticRegression().fit(X, two), "gradient": lambda: tl.WidrowHoff(rate=0.01).fit(X, y),
    "recursive": lambda: tl.RecursiveLeastSquares().fit(X, y), "perceptron": lambda: tl.Perceptron().fit(X, two),
    "components": lambda: tl.PCA(2).fit(X), "kernel": lambda: tl.KernelRegression().fit(X, y), "local": lambda: tl.LocalRegression().fit(X, y),
    "boosting": lambda: tl.AdaBoost(5).fit(X, two), "robust": lambda: tl.RobustRegression().fit(X, y),
    "generative": lambda: tl.GenerativeClassifier().fit(X, two),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_nothing_can_be_verified_with(name):
    model = MODELS[name]()
    target = two if name in ("logistic", "perceptron", "boosting", "generative") else y
    for rows in (
        (X[:0], target[:0]), (X, target, np.zeros(60)), (X, target, np.full(60, np.nan)), (X, target, -np.ones(60)),
        (X, target[:5]), (X[:, 0], target),
    ):  # fmt: skip
        with pytest.raises(tl.DataError) as refusal:
            tl.verify(model, rows)
        assert refusal.value.exit_code == 3 and "\n" not in str(refusal.value)
    odd = X.copy()
    for value in (np.nan, np.inf, 1e308):
        odd[7, 1] = value
        for rows in ((odd, target), (X[:, :2], target), (X[:1], target[:1]), (X, np.array(["a"] * 60))):
            try:
                tl.verify(model, rows)
            except tl.TruelineError as refusal:
                assert "\n" not in str(refusal)


FITS = {
    "LassoCV": tl.LassoCV, "ElasticNetCV": tl.ElasticNetCV, "RidgeCV": tl.RidgeCV, "Lasso": lambda: tl.Lasso(0.1), "LinearRegression": tl.LinearRegression,
    "LocalRegression": tl.LocalRegression, "local, bandwidth": lambda: tl.LocalRegression(bandwidth=0.5),
    "local, degree 2": lambda: tl.LocalRegression(degree=2), "local, cells": lambda: tl.LocalRegression(surface="interpolate"),
    "KernelRegression": tl.KernelRegression, "RobustRegression": tl.RobustRegression,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_few_rows_of_positive_weight(name):
    """A fit that predicts numbers, or a refusal of the data."""
    for count in (0, 1, 2, 3, 4, 6, 40):
        weights = np.zeros(60)
        weights[:count] = 1.0
        try:
            found = FITS[name]().fit(X, y, sample_weight=weights).predict(X)
            assert count and np.isfinite(found).all(), count
        except tl.TruelineError as refusal:
            assert refusal.exit_code in (2, 3) and "\n" not in str(refusal) and count < 40
