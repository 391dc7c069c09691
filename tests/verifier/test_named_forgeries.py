"""Forgeries that a person would think of, on every kind of model that they fit: each is refused.

After the change the certificate's other numbers are replaced by what the verifier finds, so that only the lie itself is
left to notice.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from verifier import forging

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.certificates.regret import StreamCertificate

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 2.0, 3.0] + 0.5 * RNG.normal(size=N)
TWO = (Y > 0).astype(int)
THREE = np.digitize(Y, [-2.0, 2.0])
COUNTS = np.abs(np.round(Y))
FAR = 1e6 + 20.0 * X[:, 0] + RNG.normal(size=N)
REPEATED = np.column_stack([X, X[:, 0]])
LONG = np.where(np.arange(N) % 2 == 0, 1.0, -1.0)[:, None]


class Case(NamedTuple):
    """A model, its rows, and what the forger does to its record; a change may return another certificate."""

    name: str
    model: Any
    X: np.ndarray
    y: np.ndarray | None
    change: Callable[[Any, Any], Any]


def put(**values: Any) -> Callable[[Any, Any], None]:
    """Write these into the record; a function gets the old value."""

    def change(record: Any, certificate: Any) -> None:
        for name, value in values.items():
            old = getattr(record, name)
            setattr(record, name, value(old) if callable(value) else value)

    return change


def problem(**values: Any) -> Callable[[Any, Any], None]:
    """Write these into the problem that the record says it solves."""

    def change(record: Any, certificate: Any) -> None:
        record.statistics = copy.deepcopy(record.statistics)
        record.statistics["objective"].update(values)

    return change


def claim(**values: Any) -> Callable[[Any, Any], Any]:
    """Write these into the certificate; a function gets the certificate."""

    def change(record: Any, certificate: Any) -> Any:
        return dataclasses.replace(certificate, **{k: v(certificate) if callable(v) else v for k, v in values.items()})

    return change


def both(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def change(record: Any, certificate: Any) -> Any:
        first(record, certificate)
        return second(record, certificate)

    return change


def everywhere(value: float) -> Callable[[Any], Any]:
    return lambda old: value if np.ndim(old) == 0 else np.full(np.shape(old), value)


def linear(intercept: bool = True) -> list[tuple[Any, np.ndarray]]:
    """Every estimator whose model is a line, with its target."""
    return [
        (tl.LinearRegression(fit_intercept=intercept), Y),
        (tl.Ridge(1.0, fit_intercept=intercept), Y),
        (tl.Lasso(0.1, fit_intercept=intercept), Y),
        (tl.ElasticNet(0.1, fit_intercept=intercept), Y),
        (tl.LogisticRegression(fit_intercept=intercept), TWO),
        (tl.LogisticRegression(fit_intercept=intercept), THREE),
        (tl.LinearSVC(fit_intercept=intercept), TWO),
        (tl.GeneralizedRegression(loss="poisson", fit_intercept=intercept), COUNTS),
        (tl.GeneralizedRegression(loss="huber", fit_intercept=intercept), Y),
        (tl.GeneralizedRegression(loss="absolute", fit_intercept=intercept), Y),
        (tl.RobustRegression(fit_intercept=intercept), Y),
    ]


def online() -> list[tuple[Any, np.ndarray, np.ndarray]]:
    return [
        (tl.WidrowHoff(rate=0.02), X, Y),
        (tl.OnlineRegressor(geometry="adaptive", rate=0.1), X, Y),
        (tl.OnlineRegressor(geometry="normalised", rate=0.5), X, Y),
        (tl.OnlineRegressor(geometry="additive"), X, Y),
        (tl.OnlineRegressor(), X, Y),
        (tl.OnlineClassifier(), X, TWO),
        (tl.OnlineClassifier(), X, THREE),
        (tl.OnlineClassifier(geometry="additive", rate=0.05), X, TWO),
        (tl.OnlineClassifier(geometry="additive", rate=0.05), X, THREE),
        (tl.ExponentiatedGradient(rate=0.01), X, Y),
        (tl.RecursiveLeastSquares(), X, Y),
    ]


def short(model: Any) -> str:
    return "".join(repr(model).split())


MILLION = put(intercept=everywhere(1e6))
WRONG = {"identity": "log", "log": "identity", "logistic": "identity", "softmax": "sign", "sign": "identity"}
CASES = [
    *(Case("an intercept of a million in a model without one", m, X, y, MILLION) for m, y in linear(intercept=False)),
    *(Case("an intercept of a million", m, X, y, MILLION) for m, y in linear()),
    *(Case("another link", m, X, y, put(link=lambda old: WRONG[old])) for m, y in linear()),
    *(Case("coefficients three times as large", m, X, y, put(coef=lambda old: 3.0 * old)) for m, y in linear()),
    *(Case("minus infinity for a number", m, X, y, lambda record, certificate: infinite(certificate)) for m, y in linear()),
    Case("a dropped column that is none, and any intercept", tl.LinearRegression(), X, Y,
         both(MILLION, claim(dropped=("zzz",)))),
    Case("a dropped column that is none, small coefficients wrong", tl.LinearRegression(), X * [1e-6, 1.0, 1.0], Y,
         both(put(coef=lambda old: old * [1.0, -5.0, 7.0]), claim(dropped=("zzz",), arithmetic_digits=6.0))),
    Case("coefficients where a column repeats another", tl.LinearRegression(), REPEATED, Y,
         put(coef=np.array([7.0, -100.0, 42.0, 0.0]), intercept=1e6)),
    Case("non-negative, with negative coefficients", tl.Lasso(1e-3), X, -Y, problem(positive=True)),
    Case("a lasso of zeros on a target far from zero", tl.Lasso(1e-3), X, FAR,
         put(coef=np.zeros(3), intercept=float(FAR.mean()))),
    *(Case("a loose tolerance and weights of no use", tl.GeneralizedRegression(loss=loss, alpha=0.01), X, Y,
           both(problem(tolerance=1e9), put(coef=everywhere(0.01), intercept=everywhere(0.0))))
      for loss in ("absolute", "quantile", "huber", "squared")),
    Case("a loose tolerance and all weights 0", tl.LogisticRegression(), X, TWO,
         both(problem(tolerance=1e9), put(coef=everywhere(0.0), intercept=everywhere(0.0)))),
    *(Case("a negative ridge", tl.GeneralizedRegression(loss="squared", alpha=0.1, penalty="l2"), X, Y,
           lambda record, certificate, alpha=alpha: negative_ridge(record, alpha)) for alpha in (-0.5, -2.0, -50.0)),
    *(Case("non-negative least squares at 0", tl.LinearRegression(positive=True), X, offset + 5.0 * X[:, 0],
           both(put(coef=np.zeros(3), intercept=offset + 5.0 * float(X[:, 0].mean())),
                claim(rank=0, condition_number=1.0, arithmetic_digits=15.0, orthogonality=0.0))) for offset in (1e6, 1e9)),
    Case("a slope of 0 where targets are 10¹⁵ and 10¹⁵ + 1", tl.LinearRegression(), LONG, 1e15 + (LONG[:, 0] + 1.0) / 2.0,
         put(coef=np.zeros(1))),
    Case("intervals a thousand times too narrow", tl.LinearRegression(), X, Y,
         lambda record, certificate: narrow(record)),
    *(Case("no comparator, regret −10⁹, bound = loss", m, A, y,
           claim(comparator=None, bound_comparator=None, best_fixed_loss=1e9, regret=lambda c: c.loss - 1e9,
                 regret_to="the best fixed weights", bound=lambda c: c.loss * (1.0 + 1e-12), status=Status.PROVEN))
      for m, A, y in online()),
    *(Case("loss and regret −∞", m, A, y, claim(loss=-math.inf, regret=-math.inf)) for m, A, y in online()),
    *(Case("a bound below the loss", m, A, y, claim(bound=lambda c: 0.9 * c.loss, status=Status.PROVEN))
      for m, A, y in online()),
    *(Case("regret at most 0 against every comparator of size 10¹²", m, A, y,
           lambda record, certificate: every_comparator(certificate)) for m, A, y in online()),
    Case("best fixed weights 0 for the logistic loss", tl.OnlineClassifier(geometry="additive", rate=0.05), X, TWO,
         claim(comparator=np.zeros(4), best_fixed_loss=N * math.log(2.0), regret=lambda c: c.loss - N * math.log(2.0),
               regret_to="the best fixed weights")),
    Case("the best member called best fixed", tl.OnlineClassifier(), X, TWO,
         claim(best_fixed_loss=lambda c: c.best_member_loss, regret_to="the best fixed weights",
               regret=lambda c: c.loss - c.best_member_loss)),
    Case("a rate for which the bound is void", tl.WidrowHoff(rate=0.5), X, Y,
         claim(status=Status.PROVEN, bound=lambda c: abs(c.loss) * 1.0001, bound_comparator=None, assumptions=())),
    *(Case("margin 10⁹, bound = mistakes", m, A, TWO,
           claim(comparator=None, margin=1e9, slack=0.0, bound=lambda c: float(c.mistakes), status=Status.PROVEN))
      for m, A in ((tl.Perceptron(), X), (tl.Winnow(), np.abs(X)), (tl.KernelPerceptron(), X))),
    Case("losses said to lie in [0, 10⁻⁶]",
         tl.OnlineRegressor(geometry="additive", rate=1e-3, average=True, loss_range=1e9), X, Y,
         lambda record, certificate: small_losses(certificate, 1e-6)),
    Case("five epochs as one pass",
         tl.OnlineRegressor(geometry="additive", rate=1e-3, average=True, loss_range=1e9, epochs=5), X, Y,
         lambda record, certificate: all_held(certificate)),
    Case("a risk of at most −∞", tl.OnlineRegressor(geometry="additive", rate=1e-3, average=True, loss_range=1e9), X, Y,
         claim(risk_bound=-math.inf)),
    *(Case("a robust line that is not stationary", tl.RobustRegression(psi=psi), X, Y,
           both(put(coef=np.array([5.0, -7.0, 9.0]), intercept=100.0), claim(status=Status.PROVEN)))
      for psi in ("huber", "bisquare", "hampel", "andrews", "cauchy")),
    Case("a robust line at a scale of 10⁹", tl.RobustRegression(psi="bisquare"), X, Y,
         lambda record, certificate: at_scale(record, 1e9)),
    Case("a line among outliers that is not stationary", tl.OutlierMixture(), X, Y,
         both(put(coef=np.array([5.0, -7.0, 9.0])), claim(status=Status.PROVEN))),
    *(Case("a kernel regression of zeros", tl.KernelRegression(approximation=form), X, Y,
           both(put(coef=everywhere(0.0)), claim(dual=lambda c: c.primal, gap=0.0, relative_gap=0.0, gradient_norm=0.0)))
      for form in ("exact", "nystrom", "random_features")),
    Case("PCA by the smallest components", tl.PCA(2), X, None, lambda record, certificate: smallest(record)),
]  # fmt: skip


def infinite(certificate: Any) -> Any:
    numbers = [f.name for f in dataclasses.fields(certificate) if isinstance(getattr(certificate, f.name), float)]
    return dataclasses.replace(certificate, **{numbers[0]: -math.inf})


def negative_ridge(record: Any, alpha: float) -> None:
    """The stationary point of a concave problem."""
    problem(alpha=alpha)(record, None)
    Z = X - X.mean(axis=0)
    w = np.linalg.solve(Z.T @ Z / N + alpha * np.eye(3), Z.T @ (Y - Y.mean()) / N)
    record.coef = w.reshape(np.shape(record.coef))
    record.intercept = everywhere(float(Y.mean() - X.mean(axis=0) @ w))(record.intercept)


def narrow(record: Any) -> None:
    record.statistics = dict(record.statistics) | {"rss": np.asarray(record.statistics["rss"]) * 1e-6}


def every_comparator(certificate: Any) -> Any:
    return StreamCertificate(
        status=Status.PROVEN, examples=certificate.examples, loss=certificate.loss,
        bound=certificate.loss * (1.0 + 1e-6), radius=1e12, regret_bound=0.0,
    )  # fmt: skip


def small_losses(certificate: Any, B: float) -> Any:
    width = B * math.sqrt(math.log(1.0 / (1.0 - certificate.confidence)) / (2.0 * N))
    return dataclasses.replace(
        all_held(certificate), loss_range=B, risk_bound=certificate.mean_loss + width, status=Status.PROVEN
    )


def all_held(certificate: Any) -> Any:
    held = tuple(dataclasses.replace(a, held=True, worst=0.0, limit=1.0) for a in certificate.assumptions)
    return dataclasses.replace(certificate, assumptions=held, status=Status.PROVEN, advice="")


def at_scale(record: Any, scale: float) -> None:
    record.statistics = dict(record.statistics) | {"scale": scale}
    record.coef, record.intercept = np.array([5.0, -7.0, 9.0]), 100.0


def smallest(record: Any) -> None:
    values, vectors = np.linalg.eigh(np.cov(X.T))
    record.vectors, record.variance = vectors.T[:2].copy(), values[:2].copy()


def identify(case: Case) -> str:
    return f"{case.name}: {short(case.model)}"


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_a_forgery_is_refused(case):
    model = copy.deepcopy(case.model)
    data = (case.X,) if case.y is None else (case.X, case.y)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model.fit(*data)
        record = getattr(model, "model_", None) or getattr(model, "record_", model)
        honest = model.certificate_
        certificate = case.change(record, honest) or honest
        assert forging.refused(record, data, certificate, honest)


@pytest.mark.parametrize("labels", ["numbers", "words"])
def test_rows_with_a_label_that_the_model_does_not_know_are_refused(labels):
    three = THREE if labels == "numbers" else np.array(["no", "yes", "maybe"])[THREE]
    two = np.where(three == three[0], three, np.unique(three[three != three[0]])[0])
    model = tl.LogisticRegression().fit(X, two)
    assert forging.refused(model, (X, three), model.certificate_, model.certificate_)
