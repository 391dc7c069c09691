"""Gaps of minimised objectives: what is true holds, for every loss and penalty; what is forged is refused."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
import scipy.optimize

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.certificates.optimality import PROVEN_GAP

RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 4)) * [1.0, 20.0, 0.1, 3.0] + [0.0, 300.0, -3.0, 1.0]
SCORE = (X - X.mean(axis=0)) / X.std(axis=0) @ [1.0, -0.5, 0.3, 0.0]
REAL = SCORE + RNG.normal(size=80)
TWO = (SCORE + RNG.logistic(size=80) > 0).astype(int)
THREE = np.array(["a", "b", "c"])[np.digitize(SCORE + RNG.logistic(size=80), [-0.7, 0.7])]
COUNTS = RNG.poisson(np.exp(0.4 * SCORE + 0.5)).astype(float)
AMOUNTS = np.exp(0.3 * SCORE) * RNG.gamma(2.0, 0.5, 80)
WEIGHTS = RNG.uniform(0.1, 3.0, 80)

TARGETS = {
    "squared": REAL, "huber": REAL, "absolute": REAL, "quantile": REAL, "epsilon_insensitive": REAL, "power": REAL,
    "logistic": TWO, "hinge": TWO, "squared_hinge": TWO, "poisson": COUNTS, "tweedie": COUNTS, "gamma": AMOUNTS,
}  # fmt: skip
PENALTIES = {
    "none": {}, "no intercept": {"intercept": False}, "l1": {"penalty": "l1", "alpha": 0.05},
    "l2": {"penalty": "l2", "alpha": 0.05}, "elastic net": {"penalty": "elastic_net", "alpha": 0.05},
    "nonnegative": {"penalty": "nonnegative"}, "box": {"lower": -0.05, "upper": [0.1, 0.2, 0.3, math.inf]},
    "l1 and bounds": {"penalty": "l1", "alpha": 0.02, "lower": 0.0}, "weighted rows": {"sample_weight": WEIGHTS},
    "factors": {"penalty": "l1", "alpha": 0.05, "penalty_weights": [0.0, 1.0, 2.0, 0.5]},
    "groups": {"penalty": "group_l1", "alpha": 0.03, "groups": [0, 1, 0, 1]},
}  # fmt: skip


def minimised(loss, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.minimize(X, TARGETS[loss], loss=loss, **options)


def rows(loss, options):
    given = (X, TARGETS[loss])
    return (*given, options["sample_weight"]) if "sample_weight" in options else given


def failed(model, data, certificate=None):
    return {check.claim for check in tl.verify(model, data, certificate=certificate).checks if not check.held}


def found(model, data, claim, certificate=None):
    return next(c.found for c in tl.verify(model, data, certificate=certificate).checks if c.claim == claim)


def flattered(model, data, proof):
    """The certificate of other weights: every number is recomputed honestly, and the gap is said to be small."""
    primal = float(found(model, data, "primal", proof))
    return dataclasses.replace(
        proof, status=Status.PROVEN, primal=primal, dual=primal, gap=0.0, relative_gap=0.0, gradient_norm=None,
        newton_decrement=None, largest_step=None,
    )  # fmt: skip


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", TARGETS)
def test_what_a_solver_proves_is_proven_again_and_other_weights_are_not(loss, penalty):
    options = PENALTIES[penalty]
    try:
        solution = minimised(loss, **options)
    except tl.UsageError:
        return  # no method takes this loss with this penalty
    data = rows(loss, options)
    assert failed(solution, data) == set(), tl.verify(solution, data).checks
    if solution.proven:
        assert found(solution, data, "status") == "proven"
    worse = dataclasses.replace(solution, coef=solution.coef * 0.95 + 0.001 * (solution.coef == 0.0))
    assert failed(worse, data, flattered(worse, data, solution.certificate)) & {"status", "dual", "bounds"}


ESTIMATORS = {
    "svc": (tl.LinearSVC(C=0.1, intercept_scaling=3.0), TWO),
    "svc of three classes": (tl.LinearSVC(class_weight="balanced"), THREE),
    "svc with l1": (tl.LinearSVC(penalty="l1", C=0.3), TWO),
    "hinge of three classes": (tl.LinearSVC(loss="hinge"), THREE),
    "logistic": (tl.LogisticRegression(C=math.inf), TWO),
    "logistic with class weights": (tl.LogisticRegression(class_weight={0: 2.0, 1: 0.5}), TWO),
    "softmax": (tl.LogisticRegression(C=1.0), THREE),
    "softmax with l1": (tl.LogisticRegression(C=1.0, l1_ratio=0.7), THREE),
    "softmax without penalty": (tl.LogisticRegression(C=math.inf), THREE),
    "lasso of two targets": (tl.Lasso(0.05), np.column_stack([REAL, REAL**2])),
    "positive lasso": (tl.Lasso(0.05, positive=True), REAL),
    "elastic net without intercept": (tl.ElasticNet(0.05, fit_intercept=False), REAL),
    "lasso by cross-validation": (tl.LassoCV(), REAL),
    "poisson ridge": (tl.GeneralizedRegression("poisson", penalty="l2", alpha=0.1), COUNTS),
    "nonnegative gamma": (tl.GeneralizedRegression("gamma", penalty="nonnegative"), AMOUNTS),
    "quantile": (tl.GeneralizedRegression("quantile", quantile=0.8), REAL),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_hold_and_each_forged_number_is_caught(name):
    model, y = ESTIMATORS[name]
    model.fit(X, y)
    proof, data = model.certificate_, (X, y)
    assert proof.proven and failed(model, data) == set(), tl.verify(model, data).checks
    size = max(abs(proof.primal), 1e-2)
    forgeries = {
        "primal": proof.primal + 1e-6 * size, "dual": proof.primal + 1e-4 * size, "gap": proof.gap + 1e-5 * size,
        "relative_gap": proof.relative_gap + 1e-3, "status": Status.VOID,
    }  # fmt: skip
    if proof.gradient_norm is not None and "hinge" not in name and name != "quantile":
        forgeries["gradient_norm"] = proof.gradient_norm * (1.0 + 1e-4) + 1e-9
    for field, value in forgeries.items():
        assert failed(model, data, dataclasses.replace(proof, **{field: value})), field
        if isinstance(value, float):
            for strange in (math.nan, math.inf, -math.inf):
                lie = dataclasses.replace(proof, **{field: strange})
                assert failed(model, data, lie) or (field == "gradient_norm" and math.isnan(strange)), (field, strange)


def test_the_problem_that_was_checked_is_shown():
    checks = {c.claim: c for c in tl.verify(minimised("huber", penalty="l1", alpha=0.05), (X, REAL)).checks}
    assert checks["problem"].claimed == "mean huber(1.35) loss + l1 penalty, alpha 0.05, free intercept"


def with_objective(model, **changes):
    model.model_.statistics["objective"] = model.model_.statistics["objective"] | changes
    return model


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"alpha": -202.8}, "alpha is -202.8"),
        ({"alpha": math.inf}, "alpha is inf"),
        ({"l1_ratio": 1.5}, "l1_ratio is 1.5"),
        ({"loss_fields": [0.0]}, "field of the loss"),
        ({"loss": "mine"}, "the loss 'mine'"),
        ({"penalty": "mine"}, "penalty mine"),
        ({"sharpness": 2.0}, "'sharpness'"),
        ({"offset": True}, "offset"),
        ({"bounded": True}, "bounds that the model does not state"),
        ({"class_factors": [1.0, -1.0]}, "class_factors"),
        ({"weights": [1.0, 1.0]}, "for 4 columns"),
        ({"weights": [1.0, -1.0, 1.0, 1.0]}, "0 or more"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(changes, said):
    model = tl.ElasticNet(0.05).fit(X, REAL)
    with pytest.raises(tl.ModelError, match=said):
        tl.verify(with_objective(model, **changes), (X, REAL))


def test_the_tolerance_is_the_verifiers_own():
    for loss in ("absolute", "quantile", "logistic"):
        solution = minimised(loss)
        useless = dataclasses.replace(
            solution, coef=0.0 * solution.coef, intercept=0.0, objective=solution.objective | {"tolerance": 1e9}
        )
        data = rows(loss, {})
        lie = flattered(useless, data, solution.certificate)
        assert "status" in failed(useless, data, lie)
        assert "status" in failed(useless, data, dataclasses.replace(lie, relative_gap=PROVEN_GAP))


def test_weights_outside_their_bounds_are_refused():
    model = tl.Lasso(0.05).fit(X, -REAL)
    assert (model.coef_ < 0).any()
    assert "bounds" in failed(with_objective(model, positive=True), (X, -REAL))


def test_an_intercept_where_there_is_none_is_refused():
    model = tl.Lasso(0.05, fit_intercept=False).fit(X, REAL)
    proof, record = model.certificate_, model.model_
    record.intercept = 1e6
    assert {"intercept", "predict"} <= failed(record, (X, REAL), proof)


def test_a_lasso_of_zeros_is_refused_however_far_the_target_is_from_zero():
    y = 1e6 + 20.0 * X[:, 0] + RNG.normal(size=80)
    model = tl.Lasso(0.1).fit(X, y)
    assert failed(model, (X, y)) == set()
    proof, record = model.certificate_, model.model_
    record.coef, record.intercept = np.zeros(4), y.mean()
    assert "status" in failed(record, (X, y), flattered(record, (X, y), proof))


def test_labels_are_those_of_the_model():
    model = tl.LogisticRegression().fit(X, TWO)
    with pytest.raises(tl.DataError, match="none of the model's classes"):
        tl.verify(model, (X, np.where(np.arange(80) == 3, 2, TWO)))
    assert "classes" in failed(model, (X, np.zeros(80, dtype=int)))


def test_rows_that_are_no_numbers_are_refused_at_once():
    model = tl.Lasso(0.1).fit(X, REAL)
    for value in (1e308, math.inf, math.nan):
        strange = X.copy()
        strange[3, 1] = value
        with pytest.raises(tl.DataError, match="1e150"):
            tl.verify(model, (strange, REAL))


@pytest.mark.parametrize("level", [0.0, 1e6, 1.7e9])
@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "quantile"])
def test_a_target_far_from_zero_is_judged_as_one_that_is_near(loss, level):
    """Arrival as Unix time: what is 15 % worse than the best is not proven, and the best is."""
    y = REAL + level
    solution = tl.minimize(X, y, loss=loss)
    assert failed(solution, (X, y)) == set(), tl.verify(solution, (X, y)).checks
    worse = dataclasses.replace(
        solution, coef=0.8 * solution.coef, intercept=y.mean() - 0.8 * X.mean(axis=0) @ solution.coef
    )
    assert "status" in failed(worse, (X, y), flattered(worse, (X, y), solution.certificate))


def another_solver(loss, alpha_l1, alpha_l2):
    """The least objective found by SciPy: L-BFGS-B on w = p − q, p, q ≥ 0, or a linear program."""
    S = (X - X.mean(axis=0)) / X.std(axis=0)
    y = 2.0 * TWO - 1.0 if loss == "logistic" else TARGETS[loss]
    n, d = S.shape
    if loss == "quantile":
        cost = np.r_[np.zeros(d + 1), np.full(2 * n, 0.5 / n)]
        A = np.hstack([np.ones((n, 1)), S, np.eye(n), -np.eye(n)])
        bounds = [(None, None)] * (d + 1) + [(0, None)] * (2 * n)
        return scipy.optimize.linprog(cost, A_eq=A, b_eq=y, bounds=bounds).fun

    def objective(v):
        w, s = v[1 : d + 1] - v[d + 1 :], v[0] + S @ (v[1 : d + 1] - v[d + 1 :])
        value, slope = {
            "squared": lambda: (0.5 * (s - y) ** 2, s - y),
            "logistic": lambda: (np.logaddexp(0, -y * s), -y / (1 + np.exp(y * s))),
            "poisson": lambda: (np.exp(s) - y * s, np.exp(s) - y),
        }[loss]()
        g = S.T @ slope / n + alpha_l2 * w
        total = value.mean() + alpha_l1 * v[1:].sum() + 0.5 * alpha_l2 * w @ w
        return total, np.r_[slope.mean(), g + alpha_l1, -g + alpha_l1]

    bounds = [(None, None)] + [(0, None)] * (2 * d)
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return scipy.optimize.minimize(
        objective, np.zeros(2 * d + 1), jac=True, bounds=bounds, method="L-BFGS-B", options=options
    ).fun


@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "quantile"])
def test_where_it_holds_another_solver_finds_the_same_objective(loss, l1):
    S = (X - X.mean(axis=0)) / X.std(axis=0)
    l1 = 0.0 if loss == "quantile" else l1
    solution = tl.minimize(S, TARGETS[loss], loss=loss, penalty="l1" if l1 else None, alpha=l1 or None)
    assert tl.verify(solution, (S, TARGETS[loss])).ok and solution.proven
    assert solution.certificate.primal == pytest.approx(another_solver(loss, l1, 0.0), rel=2e-6)


@pytest.mark.parametrize("method", ["gradient", "fista"])
def test_columns_that_were_not_standardised_hold(method):
    small = (X - X.mean(axis=0)) / X.std(axis=0) * [1.0, 2.0, 0.5, 1.5] + 0.3
    solution = tl.minimize(small, REAL, penalty="l2", alpha=0.2, method=method, standardise=False)
    assert solution.certificate.proven and failed(solution, (small, REAL)) == set()


@pytest.mark.parametrize("model", [tl.Lasso(0.1), tl.LassoCV(cv=3), tl.ElasticNetCV(cv=3), tl.RidgeCV()], ids=repr)
def test_rows_of_weight_0_count_or_not(model):
    rng = np.random.default_rng(0)
    A, c = rng.normal(size=(60, 3)), rng.integers(0, 3, 60).astype(float)
    t = A[:, 0] + rng.normal(size=60)
    assert tl.verify(model.fit(A, t, sample_weight=c), (A, t, c)).ok
    model.model_.statistics["n"] = 50
    assert not tl.verify(model, (A, t, c)).ok
