"""Densities and classes made of them: parameters are recomputed from the rows; forged ones are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced
from kinds import mixed_table

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.errors import DataError, ModelError

RNG = np.random.default_rng(8)
X = RNG.normal(size=(90, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
TWO, THREE = (X @ [1.0, 2.0, 3.0] > 0).astype(int), np.digitize(X[:, 0], [-0.5, 0.5])
NAMES = np.array(["no", "yes"])[TWO]
W = RNG.random(90) + 0.1
COUNTS = np.column_stack([X[:, 0], RNG.poisson(2.0, 90), RNG.integers(0, 4, 90), RNG.random(90) < 0.3]).astype(float)
KINDS = {1: "poisson", 2: "categorical", 3: "bernoulli"}
COVARIANCES = ("diagonal", "full", "shared")
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "case", ["plain", "far", "scales", "weights", "large", "tiny", "zero", "repeated", "gaps", "few"]
)
def test_honest_gaussians_verify(covariance, case):
    A = {"far": X + 1e6, "scales": X * [1e-6, 1.0, 1e6], "repeated": np.repeat(X[:30], 3, axis=0), "gaps": GAPS}.get(
        case, X
    )
    w = {"weights": W, "large": 1e9 * W, "tiny": 1e-9 * W, "zero": 1.0 * (np.arange(90) % 3 > 0)}.get(case)
    for y in (TWO, THREE, NAMES):
        rows = (A[:25], y[:25]) if case == "few" else (A, y) if w is None else (A, y, w)
        model = fitted(tl.GenerativeClassifier(covariance=covariance), *rows)
        assert not failures(model, rows)
        unproven = case == "gaps" and covariance != "diagonal"
        assert model.certificate_.status is (Status.STATIONARY if unproven else Status.PROVEN)
    if covariance != "shared":
        assert not failures(
            fitted(tl.Density(covariance=covariance), A, None, w), (A, None, np.ones(90) if w is None else w)
        )


@pytest.mark.parametrize("first", ["histogram", "mixture(2)", "mixture(3)", "gaussian"])
@pytest.mark.parametrize("w", [None, W, 1.0 * (np.arange(90) % 3 > 0)], ids=["1", "w", "zero"])
def test_honest_families_verify(first, w):
    for A in (COUNTS, np.where(RNG.random(COUNTS.shape) < 0.1, np.nan, COUNTS)):
        density = fitted(tl.Density({0: first} | KINDS), A, None, w)
        assert not failures(density, (A, None, np.ones(90) if w is None else w))
        model = fitted(tl.GenerativeClassifier({0: first} | KINDS, priors=[0.3, 0.7]), A, TWO, w)
        assert not failures(model, (A, TWO) if w is None else (A, TWO, w))
        assert model.certificate_.proven == ("mixture" not in first)


@pytest.mark.parametrize("column", ["constant", "copy"])
def test_a_singular_covariance_is_degenerate(column):
    A = np.column_stack([X, np.full(90, 0.1) if column == "constant" else X[:, 0]])
    for covariance in ("full", "shared") if column == "copy" else COVARIANCES:
        model = fitted(tl.GenerativeClassifier(covariance=covariance), A, TWO)
        assert model.certificate_.status is Status.DEGENERATE and not failures(model, (A, TWO))
        lie = replaced(model, status=Status.PROVEN, maximum=model.certificate_.log_likelihood, gap=0.0, assumptions=())
        assert "status" in failures(model, (A, TWO), lie)


def forged(model, rows, y, record):
    """The certificate with the likelihood of the forged model, told as the family's maximum."""
    index = np.array([list(record.classes).index(v) if v in record.classes else 0 for v in y.tolist()])
    scores = record.density.scores(list(rows.T))[np.arange(len(y)), index]
    total = float(scores.sum()) + float(np.log(np.bincount(index) / len(y))[index].sum())
    return replaced(model, log_likelihood=total, maximum=total, gap=0.0, status=Status.PROVEN)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("forgery", ["mean", "scatter", "weight", "classes", "renamed", "priors"])
def test_forged_gaussians_are_refused(covariance, forgery):
    model = fitted(tl.GenerativeClassifier(covariance=covariance), X, TWO)
    record = copied(model)
    part = record.density.parts[0]
    if forgery in ("mean", "scatter", "weight"):
        change = -4.0 if forgery == "mean" else 1.5
        part.stats[forgery] = part.stats[forgery] * change
        part._fitted = None
    elif forgery == "classes":
        record.classes = record.classes[::-1]
    elif forgery == "renamed":
        record.classes = [0, 7]
    else:
        record.priors = np.array([0.5, 5.0])
    for lie in (replaced(model), forged(model, X, TWO, record)):
        assert failures(record, (X, TWO), lie)


@pytest.mark.parametrize("place", range(4))
def test_forged_counts_are_refused(place):
    model = fitted(tl.Density({0: "histogram"} | KINDS), COUNTS)
    record = copied(model)
    part = next(part for part in record.parts if part.columns == (place,))
    name = "counts" if "counts" in part.stats else "total"
    part.stats[name] = part.stats[name] * np.linspace(0.5, 1.5, part.stats[name].shape[-1])
    part._fitted = None
    total = float(record.scores(list(COUNTS.T)).sum())
    assert failures(record, (COUNTS,), replaced(model, log_likelihood=total, maximum=total, gap=0.0))


def test_every_number_counts_and_infinity_is_refused():
    model = fitted(tl.GenerativeClassifier(), X, TWO)
    for name in ("rows", "log_likelihood", "maximum", "gap"):
        for lie in (0.9 * getattr(model.certificate_, name) - 0.01, math.nan, math.inf, -math.inf):
            assert failures(model, (X, TWO), replaced(model, **{name: lie})), name
    assert failures(model, (X, TWO), replaced(model, effective_counts=(1.0, 2.0)))
    assert failures(model, (X, TWO, W)) and failures(model, (X, 1 - TWO))
    with pytest.raises(tl.DataError):
        tl.verify(model, (np.where(X > 2.0, np.inf, X), TWO))


def test_mixtures_are_stationary_and_never_proven():
    model = fitted(tl.Density("mixture(2)"), X[:, :1])
    assert model.certificate_.status is Status.STATIONARY
    assert "status" in failures(model, (X[:, :1],), replaced(model, status=Status.PROVEN))
    record = copied(model)
    shares, means, variances = record.parts[0].fitted
    record.parts[0]._fitted = (shares, means + 1.0, variances)
    assert failures(record, (X[:, :1],))


@pytest.mark.parametrize("form", ["polars", "pandas", "array"])
def test_tables_with_words_verify_and_forged_levels_are_refused(form):
    frame, labels, kinds = mixed_table()
    table = {"polars": frame, "pandas": frame.to_pandas(), "array": frame.to_pandas().to_numpy(dtype=object)}[form]
    kinds = kinds if form != "array" else dict(zip((0, 3, 4), kinds.values(), strict=True))
    model = fitted(tl.GenerativeClassifier(kinds), table, labels)
    assert not failures(model, (table, labels)) and model.certificate_.status is Status.STATIONARY
    record = copied(model)
    towns = next(part for part in record.density.parts if part.name == "categorical")
    towns.stats["counts"] = towns.stats["counts"][:, ::-1].copy()
    towns._fitted = None
    assert "log-densities" in failures(record, (table, labels), model.certificate_)


def test_words_where_a_model_takes_numbers_are_refused_in_a_sentence():
    model = fitted(tl.LinearRegression(), X, X[:, 0])
    with pytest.raises(DataError, match="numbers alone"):
        tl.verify(model, (np.array([["a", "b", "c"]] * 90), X[:, 0]))


SETTINGS = {
    "smoothing": lambda r: setattr(r.density.parts[0], "smoothing", 0.3),
    "correction": lambda r: setattr(r.density.parts[0], "correction", 5.0),
    "priors": lambda r: setattr(r, "priors", np.array([0.5, 0.5])),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_model_has_the_settings_that_its_estimator_was_asked_for(covariance, setting):
    model = fitted(tl.GenerativeClassifier(covariance=covariance), X, TWO)
    SETTINGS[setting](model.model_)
    assert setting in failures(model, (X, TWO))


def test_a_certificate_that_cannot_be_computed_is_a_sentence():
    class Broken:
        kind = "density"

        @property
        def certificate(self):
            raise np.linalg.LinAlgError("the matrix is not positive definite")

    with pytest.raises(ModelError, match="cannot be recomputed"):
        tl.verify(Broken(), (X,))
