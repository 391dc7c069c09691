"""Every estimator's certificate is verified from its data, and no number in it can be changed unnoticed."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings

import numpy as np
import pytest

import trueline as tl

RNG = np.random.default_rng(7)
X = RNG.normal(size=(120, 3)) * [1.0, 30.0, 0.1] + [0.0, 900.0, -3.0]
S = (X - X.mean(axis=0)) / X.std(axis=0)
Y = X @ [1.0, 0.1, 3.0] + RNG.normal(size=120) + 30.0 * (np.arange(120) < 6)
TWO, THREE = (np.median(Y) < Y).astype(int), np.digitize(Y, np.quantile(Y, [0.33, 0.66]))
COUNTS = RNG.poisson(np.exp(0.3 * S[:, 0])).astype(float)
BOTH = np.column_stack([Y, Y**2])
W = RNG.random(120) + 0.1

CASES = [
    (tl.LinearRegression(), X, Y), (tl.LinearRegression(fit_intercept=False), X, BOTH), (tl.LinearRegression(method="qr"), X, Y),
    (tl.LinearRegression(positive=True), X, -Y), (tl.LinearRegression(), RNG.normal(size=(20, 100)), Y[:20]),
    (tl.Ridge(3.0), X, Y), (tl.Ridge(3.0, standardize=True), X, Y), (tl.Ridge([1.0, 3.0]), X, BOTH),
    (tl.Ridge(3.0, positive=True), X, -Y), (tl.RidgeCV(), X, Y), (tl.RidgeCV(cv=5), X, Y),
    (tl.Lasso(0.1), X, Y), (tl.Lasso(0.1, positive=True), X, Y), (tl.Lasso(0.1), X, BOTH), (tl.LassoCV(), X, Y),
    (tl.ElasticNet(0.1, fit_intercept=False), X, Y), (tl.ElasticNetCV(), X, Y), (tl.PCA(2), X, None),
    (tl.LogisticRegression(), X, TWO), (tl.LogisticRegression(solver="fista"), X, TWO), (tl.LogisticRegression(), X, THREE),
    (tl.LinearSVC(), X, TWO), (tl.GeneralizedRegression(loss="poisson"), X, COUNTS), (tl.GeneralizedRegression(loss="huber"), X, Y),
    (tl.OnlineRegressor(), X, Y), (tl.OnlineRegressor(geometry="additive"), X, Y), (tl.OnlineClassifier(), X, TWO),
    (tl.OnlineRegressor(geometry="additive", rate=1e-6, epochs=2), X, Y), (tl.OnlineClassifier(), X, THREE),
    (tl.OnlineRegressor(geometry="additive", rate=1e-6, batch_size=8, penalty="l1"), X, Y),
    (tl.OnlineRegressor(geometry="additive", rate=1e-3, average=True, loss_range=1e9), S, Y),
    (tl.OnlineClassifier(geometry="additive", rate=1e-6), X, THREE), (tl.ExponentiatedGradient(), S, Y), (tl.WidrowHoff(), X, Y),
    (tl.Perceptron(), X, TWO), (tl.Perceptron(epochs=2), X, THREE), (tl.Winnow(), np.abs(S), TWO), (tl.RecursiveLeastSquares(), X, Y),
    (tl.LocalRegression(), X[:, :1], Y), (tl.LocalRegression(degree=2, kernel="gaussian"), S[:, :2], Y),
    (tl.RobustRegression(), X, Y), (tl.RobustRegression(psi="bisquare"), X, Y), (tl.RobustRegression(psi="hampel"), X, Y),
    (tl.RobustRegression(psi="andrews"), X, Y), (tl.RobustRegression(psi="cauchy"), X, Y), (tl.OutlierMixture(), X, Y),
    (tl.KernelRegression(), S, Y), (tl.KernelRegression(kernel=lambda A, B: A @ B.T + 1.0), S, Y), (tl.KernelRegression(kernel="polynomial", approximation="nystrom"), S, Y),
    (tl.KernelPerceptron(), S, THREE), (tl.NeuralNetwork(hidden=(4, 2), epochs=5, random_state=0), S, Y),
    (tl.AdaBoost(), X, THREE), (tl.GenerativeClassifier(), X, TWO), (tl.GenerativeClassifier(covariance="full"), X, TWO),
]  # fmt: skip


def named(case):
    # A function's address differs from process to process, and test workers must agree on names.
    return re.sub(r"at0x[0-9a-f]+", "", repr(case[0]).replace("\n", "").replace(" ", ""))


def rows_of(A, y, weights=None):
    return tuple(v for v in (A, y, weights) if v is not None)


def changed(proof):
    """(field, the same certificate with that number made better or otherwise untrue)."""
    for field in dataclasses.fields(proof):
        value = getattr(proof, field.name)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
            or field.name in proof.stated()
        ):
            continue
        if field.name == "bound":  # a larger bound is true as well; a smaller one than the loss is not
            least = getattr(proof, "loss", getattr(proof, "mistakes", value))
            yield field.name, dataclasses.replace(proof, bound=0.9 * least)
        elif field.name.endswith("digits"):
            yield field.name, dataclasses.replace(proof, arithmetic_digits=18.0, data_digits=18.0)
        else:
            yield (
                field.name,
                dataclasses.replace(proof, **{field.name: value * 1.5 + (1 if isinstance(value, int) else 0.01)}),
            )


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_certificate_is_verified_and_every_number_in_it_counts(case):
    learner, A, y = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(A, y)
    found = tl.verify(learner, rows_of(A, y))
    assert found.ok, [check for check in found.checks if not check.held]
    proof = learner.certificate_
    if not proof.proven and proof.kind not in ("stationary", "averaged", "regret"):
        return  # of a result that claims little, little can be forged
    for name, lie in changed(proof):
        if (name == "examples" and proof.kind == "stationary") or (name == "residual" and "landmarks" in proof.scope):
            continue  # told, like the words
        assert not tl.verify(learner, rows_of(A, y), certificate=lie).ok, name


@pytest.mark.parametrize("learner", [tl.Ridge(2.0), tl.Lasso(0.1), tl.LogisticRegression(), tl.RobustRegression(), tl.KernelRegression(),
                                     tl.AdaBoost(), tl.LocalRegression(), tl.GenerativeClassifier()], ids=repr)  # fmt: skip
def test_weights_of_rows_are_part_of_it(learner):
    y = TWO if hasattr(learner, "predict_proba") or isinstance(learner, tl.AdaBoost) else Y
    A = S[:, :1] if isinstance(learner, tl.LocalRegression) else S
    learner.fit(A, y, sample_weight=W)
    assert tl.verify(learner, (A, y, W)).ok
    assert not tl.verify(learner, (A, y)).ok


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "absolute", "squared_hinge"])
def test_solutions_of_every_method_are_verified(loss):
    y = TWO if loss in ("logistic", "squared_hinge") else Y
    tried = 0
    for penalty in (None, "l1", "l2", "elastic_net", "nonnegative"):
        for method in (
            "auto",
            "gradient",
            "newton",
            "irls",
            "coordinate",
            "fista",
            "sparsa",
            "owlqn",
            "interior",
            "normal",
            "svd",
        ):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    strength = {} if penalty is None else {"alpha": 0.1}
                    solution = tl.minimize(S, y, loss=loss, penalty=penalty, method=method, **strength)
            except tl.UsageError:
                continue  # not for this loss or penalty
            found = tl.verify(solution, (S, y))
            assert found.ok, (penalty, method, [check for check in found.checks if not check.held])
            step = solution.certificate.largest_step
            if step is not None:
                lie = dataclasses.replace(solution.certificate, largest_step=1.1 * step)
                assert not tl.verify(solution, (S, y), certificate=lie).ok
            tried += 1
    assert tried >= 5


def test_what_has_no_check_is_refused_by_name():
    with pytest.raises(tl.ModelError, match="an offset"):
        tl.verify(tl.minimize(S, Y, offset=S[:, 0]), (S, Y))
