"""Forgeries whose other numbers are true: each was once accepted, or listed nowhere."""

from __future__ import annotations

import copy
import dataclasses
import time
import warnings

import numpy as np
import polars as pl
import pytest
from verifier import forging

import trueline as tl
from trueline import modelfile
from trueline.certificates.certificate import Assumption, Status

RNG = np.random.default_rng(7)
N = 120
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 2.0, -1.0] + 0.5 * RNG.normal(size=N) + 2.0
TWO = (Y > 2.0).astype(int)
THREE = np.digitize(Y, [1.0, 3.0])
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] + 0.5)).astype(float)
FLAT = np.column_stack([X, np.full(N, 2.0)])
EMPTY = np.column_stack([X, np.zeros(N)])


def fitted(model, rows, target=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows) if target is None else model.fit(rows, target)


def record_of(model):
    return next((getattr(model, name) for name in ("model_", "record_") if hasattr(model, name)), model)


def refused(model, data, certificate=None):
    """Whether a forged record is refused, all other numbers of its certificate being the verifier's."""
    record = record_of(model)
    honest = record.certificate() if callable(record.certificate) else record.certificate
    lies = frozenset(
        field.name
        for field in dataclasses.fields(honest)
        if certificate is not None and not forging.same(getattr(certificate, field.name), getattr(honest, field.name))
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return bool(forging.judged(record, data, certificate or honest, lies)[0])


def statistics(record, **values):
    record.statistics = copy.deepcopy(dict(record.statistics)) | values


def beside_the_constant(record):
    record.coef = record.coef + np.array([0.0, 0.0, 0.0, 1e5])
    record.intercept = record.intercept - 2e5


def on_an_empty_column(record):
    record.coef = record.coef + np.array([0.0, 0.0, 0.0, 1e6])


def hidden_errors(record):
    covariance = np.asarray(record.statistics["covariance"]) / 4.0
    statistics(record, covariance=covariance, estimates=3.0 * np.r_[record.intercept, np.ravel(record.coef)])


def moved_bins(record):
    part = next(part for part in record.parts if part.name == "mixture")
    part.stats = part.stats | {"sums": 1.01 * part.stats["sums"]}


def swapped_scores(record):
    record.held = record.held.copy()
    record.held[:, :2] = record.held[:, 1::-1] + 3.0
    record._temper = None


def hidden_weight(record):
    part = next(part for part in record.density.parts if part.name == "mixture")
    part.stats = part.stats | {"weight": -part.stats["weight"]}


def endless_variance(record):
    record.variance = np.r_[record.variance[:-1], 1e300]


CASES = [
    ("a weight beside the constant", tl.GeneralizedRegression("poisson"), FLAT, COUNTS, beside_the_constant),
    ("a weight on an empty column", tl.GeneralizedRegression("huber"), EMPTY, Y, on_an_empty_column),
    ("another penalty shown", tl.Lasso(0.1), X, Y, lambda r: statistics(r, alpha=5.0)),
    ("another penalty chosen", tl.LassoCV(), X, Y, lambda r: statistics(r, **{"estimator.alpha": 5.0})),
    ("errors behind another choice of columns", tl.GeneralizedRegression("poisson"), X, COUNTS, hidden_errors),
    ("landmarks that are no rows", tl.KernelRegression(approximation="nystrom", components=20), X, Y,
     lambda r: setattr(r, "points", 1.0001 * r.points)),
    ("bins that are not the rows'", tl.Density({1: "mixture(2)"}), X, None, moved_bins),
    ("a group of mixtures without weight", tl.GenerativeClassifier("mixture(2)"), X, TWO, hidden_weight),
    ("a last component that varies most", tl.PCA(2), X, None, endless_variance),
    ("scores that calibrate", tl.GenerativeClassifier(calibration="temperature"), X, TWO, swapped_scores),
    ("a million epochs", tl.WidrowHoff(rate=0.02), X, Y, lambda r: setattr(r, "epochs", 10**6)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "model", "rows", "target", "change"), CASES, ids=[case[0] for case in CASES])
def test_a_consistent_forgery_is_refused(name, model, rows, target, change):
    model = fitted(copy.deepcopy(model), rows, target)
    data = (rows,) if target is None else (rows, target)
    assert not refused(model, data)
    record = record_of(model)
    change(record)
    assert refused(record, data)


def test_weights_that_never_moved_are_not_a_matter_of_rounding():
    """At the start equal exponentials leave a score of exactly 0, on one side of the corner."""
    record = fitted(tl.Winnow(), np.abs(X[:50]), TWO[:50]).record_
    record.heads[0].array("dual")[:] = 0.0
    found = tl.verify(record, (np.abs(X[:50]), TWO[:50]))
    assert "weights" in {check.claim for check in found.checks if not check.held}


CLAIMS = [
    ("proven without a digit", tl.LinearRegression(), Y, {"arithmetic_digits": 0.2}),
    ("components proven without a digit", tl.PCA(2), None, {"data_digits": 0.2}),
    ("degenerate, with a penalty", tl.Lasso(0.1), Y, {"status": Status.DEGENERATE}),
    ("degenerate, several classes with a penalty", tl.LogisticRegression(), THREE, {"status": Status.DEGENERATE}),
    ("degenerate, two classes with a penalty of corners", tl.LogisticRegression(penalty="l1"), TWO,
     {"status": Status.DEGENERATE}),
    ("a status that is a word", tl.LinearRegression(), Y, {"status": "proven"}),
    ("void without a theorem", tl.LinearRegression(), Y, {"status": Status.VOID}),
    ("a norm that is no number", tl.LogisticRegression(), TWO, {"gradient_norm": float("nan")}),
    ("a decrement that is no number", tl.LogisticRegression(), TWO, {"newton_decrement": float("nan")}),
    ("a slack that belongs to no margin", tl.Winnow(), TWO, {"slack": 0.0, "status": Status.PROVEN}),
    ("a best member that is no number", tl.WidrowHoff(rate=0.02), Y, {"best_member_loss": float("nan")}),
    ("a margin that is no number", tl.Perceptron(), TWO, {"margin": float("nan")}),
    ("an assumption twice", tl.LinearRegression(), Y, {"assumptions": 2 * (Assumption("the same", True),)}),
    ("a negative norm on corners", tl.GeneralizedRegression("quantile"), Y, {"gradient_norm": -1e-9}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "model", "target", "claims"), CLAIMS, ids=[case[0] for case in CLAIMS])
def test_a_claim_that_cannot_be_is_refused(name, model, target, claims):
    model = fitted(copy.deepcopy(model), X, target)
    data = (X,) if target is None else (X, target)
    assert not refused(model, data)
    assert refused(model, data, dataclasses.replace(model.certificate_, **claims))


SETTINGS = [
    (tl.Ridge(1.0), tl.Ridge(500.0), Y),
    (tl.RidgeCV([0.1, 1.0]), tl.Ridge(500.0), Y),
    (tl.Lasso(0.01), tl.Lasso(1.0), Y),
    (tl.LassoCV(alphas=[0.01, 0.1]), tl.Lasso(1.0), Y),
    (tl.ElasticNet(0.01), tl.ElasticNet(1.0), Y),
    (tl.LogisticRegression(C=100.0), tl.LogisticRegression(C=0.01), TWO),
    (tl.LinearSVC(C=100.0), tl.LinearSVC(C=0.01), TWO),
]


@pytest.mark.parametrize(("asked", "made", "target"), SETTINGS, ids=lambda one: "".join(repr(one).split())[:40])
def test_a_fit_of_another_penalty_than_was_asked_for_is_refused(asked, made, target):
    """Everything else is true: it is an honest model, but not of this estimator."""
    asked, made = (fitted(copy.deepcopy(one), X, target) for one in (asked, made))
    assert tl.verify(asked, (X, target)).ok
    asked.__dict__["_kept"] = made.model_
    asked.coef_, asked.intercept_ = made.coef_, made.intercept_
    assert not tl.verify(asked, (X, target)).ok


def test_a_model_that_refuses_the_rows_it_learned_does_not_hold(tmp_path):
    fitted(tl.AdaBoost(10), X, TWO).save(tmp_path / "m.tl")
    kind, arrays, meta = modelfile.read(tmp_path / "m.tl")
    modelfile.write(tmp_path / "m.tl", kind, arrays, meta | {"width": 4})
    assert not tl.verify(tl.load(tmp_path / "m.tl"), (X, TWO)).ok


@pytest.mark.parametrize(
    "error",
    [RuntimeError, RecursionError, MemoryError, AssertionError, StopIteration, OSError, pl.exceptions.ComputeError],
)
def test_whatever_a_model_fails_with_is_a_refusal_in_a_sentence(error):
    record = copy.deepcopy(fitted(tl.Lasso(0.1), X, Y).model_)

    def fail(rows):
        raise error("broken")

    record.predict = record.score = fail
    with pytest.raises(tl.ModelError, match="cannot be recomputed"):
        tl.verify(record, (X, Y))


def test_more_epochs_than_can_be_learned_again_end_at_once():
    record = fitted(tl.WidrowHoff(rate=0.02), X, Y).record_
    start = time.perf_counter()
    record.epochs = 10**9
    assert refused(record, (X, Y))
    assert time.perf_counter() - start < 5.0


@pytest.mark.parametrize(
    "model", [tl.RecursiveLeastSquares(epochs=2), tl.OnlineRegressor(geometry="additive", epochs=2)]
)
def test_rows_of_no_weight_in_several_epochs_hold(model):
    weights = np.r_[np.zeros(5), np.ones(N - 5)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y, sample_weight=weights)
    assert tl.verify(model, (X, Y, weights)).ok


# What is not recomputed is listed.


def stated(model, data, **replaced):
    certificate = dataclasses.replace(model.certificate_, **replaced) if replaced else None
    return dict(tl.verify(model, data, certificate=certificate).stated)


def test_an_assumption_that_the_verifier_does_not_know_is_stated():
    model = fitted(tl.LinearRegression(), X, Y)
    name = "columns are linearly independent and cause the target"
    more = (*model.certificate_.assumptions, Assumption(name, True, 0.0, 1.0))
    assert stated(model, (X, Y), assumptions=more)[f"assumption: {name}"] == "held"


def test_numbers_of_an_assumption_that_nothing_compared_are_stated():
    model = fitted(tl.LinearRegression(), X, Y)
    (known,) = model.certificate_.assumptions
    found = stated(model, (X, Y), assumptions=(dataclasses.replace(known, worst=-5.0),))
    assert found[f"worst of the assumption: {known.name}"] == -5.0


@pytest.mark.parametrize(
    ("model", "target", "names"),
    [
        (tl.WidrowHoff(rate=0.02), Y, {"progress", "settings", "sums"}),
        (tl.OnlineRegressor(), Y, {"progress"}),
        (tl.RecursiveLeastSquares(), Y, {"progress", "settings"}),
        (tl.Perceptron(), TWO, {"progress", "kept"}),
        (tl.GenerativeClassifier(), TWO, {"density", "class.auto.mean"}),
        (tl.Lasso(0.1), Y, {"statistics.objective"}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_a_record_keeps_and_no_row_shows_is_stated(model, target, names):
    assert names <= stated(fitted(copy.deepcopy(model), X, target), (X, target)).keys()


def test_names_of_terms_are_those_of_the_schema(tmp_path):
    table = pl.DataFrame({"area": X[:, 0], "rooms": X[:, 1], "rent": Y})
    fitted_model = tl.LinearRegression().fit(table, target="rent")
    assert tl.verify(fitted_model, table).ok
    fitted_model.save(tmp_path / "m.tl")
    kind, arrays, meta = modelfile.read(tmp_path / "m.tl")
    modelfile.write(tmp_path / "m.tl", kind, arrays, meta | {"terms": meta["terms"][::-1]})
    assert not tl.verify(tl.load(tmp_path / "m.tl"), table).ok
