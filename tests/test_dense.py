"""Dense factorisations go through one place, which takes one BLAS thread for small ones and puts the setting back."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

import trueline
from trueline import dense, threads

SOURCE = Path(trueline.__file__).parent


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture
def two():
    """BLAS at two threads, whatever the machine has."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS was built for one thread")
        yield


def test_no_other_module_factorises_by_itself():
    names = "cholesky|cond|eigh|eigvalsh|inv|lstsq|matrix_rank|pinv|qr|slogdet|solve|svd"
    called = re.compile(rf"np\.linalg\.({names})\(|from scipy\.linalg import (?!lapack)|linalg\.norm\([^()]*, 2\)")
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path.name != "dense.py" and "verifier" not in path.parts  # the verifier shares no code
        for line in path.read_text().splitlines()
        if called.search(line) and not line.lstrip().startswith((">>>", "..."))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 4), 2), ((40, 40), 1), ((512, 512), 1), ((513, 513), 2), ((9000, 40), 1), ((10**6, 40), 2), ((40, 10**6), 2)],
)
def test_how_many_threads_a_shape_gets(two, shape, expected):
    with dense.alone(*shape):
        assert blas_threads() == {expected}
    assert blas_threads() == {2}


def test_every_function_is_the_librarys(two):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 30))
    G, b = A.T @ A, rng.normal(size=30)
    assert np.allclose(dense.solve(G, b), np.linalg.solve(G, b)) and dense.matrix_rank(A) == 30
    assert np.allclose(dense.cho_solve(dense.cho_factor(G), b), np.linalg.solve(G, b))
    assert np.allclose(dense.lstsq(A, A @ b, rcond=None)[0], b) and np.allclose(dense.inv(G) @ G, np.eye(30))
    values, vectors = dense.eigh(G)
    assert np.allclose(vectors * values @ vectors.T, G) and np.allclose(dense.eigvalsh(G), values)
    assert dense.spectral_norm(A) == pytest.approx(np.sqrt(values[-1])) and dense.spectral_norm(A[:0]) == 0.0
    Q, R, order = dense.pivoted_qr(A)
    assert np.allclose(Q @ R, A[:, order])
    lower = dense.cholesky(G)
    assert np.allclose(
        dense.solve_triangular(lower, b, lower=True), scipy.linalg.solve_triangular(lower, b, lower=True)
    )
    with pytest.raises(np.linalg.LinAlgError):
        dense.cho_factor(-G)
    assert blas_threads() == {2}


def test_threads_that_overlap_leave_the_setting_as_it_was(two):
    """A comes in, B comes in, A leaves, B leaves: B must not put back the 1 that it met."""
    inside, left = threading.Event(), threading.Event()

    def second() -> None:
        with threads.one_blas_thread():
            inside.set()
            assert left.wait(30)

    other = threading.Thread(target=second)
    with threads.one_blas_thread():
        other.start()
        assert inside.wait(30)
        with threads.one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    left.set()
    other.join()
    assert blas_threads() == {2}
    with threads.one_blas_thread():
        assert blas_threads() == {1}


def test_a_failure_inside_puts_the_setting_back(two):
    with pytest.raises(np.linalg.LinAlgError):
        dense.cholesky(-np.eye(100))
    assert blas_threads() == {2}
