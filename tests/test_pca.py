"""Principal components from moments: variance, reconstruction, randomised, merged, saved."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn import decomposition
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.errors import DataError, UsageError
from trueline.onepass.moments import Moments


@pytest.mark.filterwarnings("ignore")
def test_conforms():
    check_estimator(tl.PCA())


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(300, 6)) @ np.diag([5, 3, 2, 1, 0.5, 0.1]) @ rng.normal(size=(6, 6)) + 10


def test_components_are_eigenvectors_and_restore_the_rows(X):
    pca = tl.PCA().fit(X)
    V, C = pca.components_, np.cov(X.T)
    assert np.allclose(C @ V.T, V.T * pca.explained_variance_, atol=1e-10)
    assert np.isclose(pca.explained_variance_ratio_.sum(), 1) and pca.certificate_.orthogonality < 1e-13
    assert np.allclose(pca.inverse_transform(pca.transform(X)), X, rtol=1e-11)
    assert np.allclose(np.cov(pca.transform(X).T), np.diag(pca.explained_variance_), atol=1e-9)
    white = tl.PCA(3, whiten=True).fit(X)
    assert np.allclose(np.cov(white.transform(X).T), np.eye(3), atol=1e-9)
    assert (V[np.arange(6), np.abs(V).argmax(axis=1)] > 0).all()
    assert list(pca.get_feature_names_out())[:2] == ["pca0", "pca1"]


def test_randomised_merged_and_full_agree(X):
    full = tl.PCA(2).fit(X)
    quick = tl.PCA(2, svd_solver="randomized", random_state=0).fit(X)
    assert np.allclose(full.components_, quick.components_, atol=1e-6)
    halves = Moments.from_arrays(X[:111], X[:111, 0]) + Moments.from_arrays(X[111:], X[111:, 0])
    merged = tl.PCA.from_moments(halves, n_components=2)
    assert np.allclose(full.components_, merged.components_, atol=1e-12) and merged.n_samples_ == 300


def test_wide_rows_and_the_certificate(X):
    wide = tl.PCA().fit(X[:4])
    assert wide.components_.shape == (4, 6) and wide.certificate_.rank == 3
    assert tl.PCA().fit(X).certificate_.digits > 8
    # Digits hold: against extended precision.
    Z = (X - X.mean(axis=0)).astype(np.longdouble)
    truth = np.sort(np.linalg.svd(np.asarray(Z, dtype=float), compute_uv=False) ** 2 / 299)[::-1]
    found = tl.PCA().fit(X)
    error = np.max(np.abs(found.explained_variance_ - truth) / truth)
    assert found.certificate_.digits <= -np.log10(error) + 1


def test_from_a_source_and_a_file(X, tmp_path):
    frame = pl.DataFrame(X, schema=list("abcdef"))
    frame.write_parquet(tmp_path / "x.parquet")
    pca = tl.PCA(2).fit(tmp_path / "x.parquet")
    assert np.allclose(pca.components_, tl.PCA(2).fit(X).components_, atol=1e-12)
    assert np.allclose(pca.transform(frame), tl.PCA(2).fit(X).transform(X), atol=1e-9)
    pca.save(tmp_path / "p.tl")
    back = tl.load(tmp_path / "p.tl")
    assert np.array_equal(back.transform(frame), pca.transform(frame)) and back.certificate_ == pca.certificate_


def test_refusals(X):
    for model, words in (
        (tl.PCA(9), "n_components must lie between 0 and min"),
        (tl.PCA("all"), "n_components of PCA is 'all'"),
        (tl.PCA(svd_solver="magic"), "svd_solver of PCA is 'magic'"),
    ):
        with pytest.raises(UsageError, match=words):
            model.fit(X)
    with pytest.raises(DataError, match="at least 2 rows"):
        tl.PCA.from_moments(Moments.from_arrays(X[:1], X[:1, 0]))


@pytest.mark.parametrize("kept", [2, 5])
def test_likelihood_with_whitening_is_the_peer_s(kept):
    from sklearn import decomposition

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 5))
    ours = tl.PCA(kept, whiten=True).fit(X)
    theirs = decomposition.PCA(kept, whiten=True).fit(X)
    assert np.allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-9)
    assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-9)


def test_settings_of_another_solver_are_refused_and_those_of_this_one_count(X):
    for options in ({"n_oversamples": 3}, {"iterated_power": 2}, {"power_iteration_normalizer": "QR"}):
        name = next(iter(options))
        with pytest.raises(UsageError, match=f"{name} goes with svd_solver='randomized'"):
            tl.PCA(2, **options).fit(X)
        tl.PCA(2, svd_solver="randomized", random_state=0, **options).fit(X)
    with pytest.raises(UsageError, match="tol"):
        tl.PCA(2, tol=1e-3).fit(X)
    with pytest.raises(UsageError, match="power_iteration_normalizer of PCA is 'LU'"):
        tl.PCA(2, svd_solver="randomized", power_iteration_normalizer="LU").fit(X)
    wide = np.random.default_rng(0).normal(size=(300, 60))
    errors = []
    for extra in (1, 40):
        rough = tl.PCA(3, svd_solver="randomized", iterated_power=1, n_oversamples=extra, random_state=0).fit(wide)
        errors.append(abs(rough.explained_variance_ - tl.PCA(3).fit(wide).explained_variance_).max())
    assert errors[1] < 0.3 * errors[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_likeliest_number_of_components_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(50, 7)) * np.array([9, 5, 3, 1, 1, 1, 1.0])
    if seed == 3:
        rows[:, 6] = rows[:, 5]
    assert tl.PCA("mle").fit(rows).n_components_ == decomposition.PCA("mle").fit(rows).n_components_
    with pytest.raises(UsageError, match="at least as many rows as columns"):
        tl.PCA("mle").fit(rows[:5])
