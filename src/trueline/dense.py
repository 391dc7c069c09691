"""Dense factorisations: every one goes through here, and small ones run on one BLAS thread.

BLAS's threads wait for each other at each column of a factorisation. Where another process wants the same cores, a wait
lasts until the scheduler comes round: measured with OpenBLAS on two busy cores, milliseconds on one thread and on two::

    columns            30          100         200         500          800
    eigh         0.07 / 32   0.7 / 264    16 / 759    77 / 1569   192 / 6165
    svd           0.1 / 0.2    2 / 564    19 / 288    82 / 387    529 / 5664
    solve        0.01 / 0.02 0.1 / 184   0.3 / 248     7 / 38      23 / 346

On idle cores two threads save at most half of the first figure. Below ``MOST`` columns that is less than a blink, so one
thread is the better bet; above, a machine with many cores would be left idle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from .threads import one_blas_thread

LEAST, MOST = 16, 512  # columns: BLAS takes no threads below LEAST by itself
Function = TypeVar("Function", bound=Callable[..., Any])


def alone(*shape: int) -> AbstractContextManager[None]:
    """BLAS on one thread where factorising a matrix of this shape is no more work than MOST columns of MOST rows.

    >>> with alone(40, 40):
    ...     lower = np.linalg.cholesky(np.eye(40))
    """
    rows, columns = (*shape, *shape)[:2]
    few, many = sorted((rows, columns))
    return one_blas_thread() if few > LEAST and few * few * many <= MOST**3 else nullcontext()


def _routed(function: Function) -> Function:
    @functools.wraps(function)
    def run(matrix: Any, *arguments: Any, **options: Any) -> Any:
        with alone(*np.shape(matrix)[-2:]):
            return function(matrix, *arguments, **options)

    return run  # type: ignore[return-value]


def _of_scipy(name: str) -> Callable[..., Any]:
    """A function of scipy.linalg, which is imported at its first use: commands start without SciPy."""

    def run(matrix: Any, *arguments: Any, **options: Any) -> Any:
        import scipy.linalg  # before `alone`, which limits the BLAS libraries that are loaded

        return _routed(getattr(scipy.linalg, name))(matrix, *arguments, **options)

    return run


cholesky = _routed(np.linalg.cholesky)
cond = _routed(np.linalg.cond)
eigh = _routed(np.linalg.eigh)
eigvalsh = _routed(np.linalg.eigvalsh)
inv = _routed(np.linalg.inv)
lstsq = _routed(np.linalg.lstsq)
matrix_rank = _routed(np.linalg.matrix_rank)
qr = _routed(np.linalg.qr)
slogdet = _routed(np.linalg.slogdet)
solve = _routed(np.linalg.solve)
svd = _routed(np.linalg.svd)
cho_factor = _of_scipy("cho_factor")
pivoted_qr = functools.partial(_of_scipy("qr"), mode="economic", pivoting=True)
solve_triangular = _of_scipy("solve_triangular")


def cho_solve(factor: tuple[np.ndarray, bool], right: np.ndarray, **options: Any) -> np.ndarray:
    """The solution for a factor of ``cho_factor``."""
    import scipy.linalg

    with alone(*factor[0].shape):
        return np.asarray(scipy.linalg.cho_solve(factor, right, **options))


def spectral_norm(matrix: np.ndarray) -> float:
    """The largest singular value."""
    return float(svd(matrix, compute_uv=False)[0]) if matrix.size else 0.0
