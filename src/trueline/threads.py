"""How many threads trueline may use: one setting, honoured by BLAS, Polars' readers and our own pools.

``TRUELINE_THREADS`` or :func:`set_threads` sets it for the process; ``with limit(n)`` for a block.
Kernels release the GIL and are spread over a thread pool here: Numba's own pools are never started,
since they fight with BLAS's.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .errors import UsageError

_setting: int | None = None
_libraries: Any = None  # what threadpoolctl found loaded, and how many of these were
BRINGING = ("numpy", "scipy.linalg.cython_blas", "scipy.linalg._fblas", "scipy.optimize")  # modules that bring a BLAS
_END: Any = object()


def get_threads() -> int:
    """The number of threads in force (default: all cores that this process may use)."""
    if _setting is not None:
        return _setting
    told = os.environ.get("TRUELINE_THREADS")
    if told:
        return _checked(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(threads: int | None) -> None:
    """Set the number of threads for this process; None goes back to all cores.

    >>> set_threads(1); get_threads()
    1
    >>> set_threads(None)
    """
    global _setting
    _setting = None if threads is None else _checked(threads)


@contextlib.contextmanager
def limit(threads: int | None) -> Iterator[int]:
    """Run a block with this many threads, BLAS included; None keeps the setting."""
    global _setting
    before = _setting
    count = get_threads() if threads is None else _checked(threads)
    if threads is None and before is None and "TRUELINE_THREADS" not in os.environ:
        yield count  # nothing to limit: do not pay for threadpoolctl's look at the loaded libraries
        return
    from threadpoolctl import threadpool_limits

    _setting = count
    try:
        with threadpool_limits(count):
            yield count
    finally:
        _setting = before


def spread(function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
    """Map a function that releases the GIL over items, on as many threads as are allowed, in order.

    The caller's own thread takes part: a pool would cost short readings a third of their time.
    """
    work = list(items)
    threads = min(get_threads(), len(work))
    if threads < 2:
        return [function(item) for item in work]
    made: list[Any] = [None] * len(work)
    failed: list[BaseException] = []
    places = iter(range(len(work)))

    def run() -> None:
        for k in places:
            try:
                made[k] = function(work[k])
            except BaseException as error:
                failed.append(error)
            if failed:
                return

    others = [threading.Thread(target=run) for _ in range(threads - 1)]
    for other in others:
        other.start()
    run()
    for other in others:
        other.join()
    if failed:
        raise failed[0]
    return made


def stream(function: Callable[..., Any], items: Iterable[Any], pool: Any = None) -> Iterator[Any]:
    """As ``spread``, but each result is handed over, in order, while the next ones are still being made.

    A ``pool`` of ``started`` saves starting threads at every call; the function must not use it itself.
    """
    work = list(items)
    if get_threads() == 1 or len(work) < 2:
        yield from map(function, work)
        return
    own = started(len(work)) if pool is None else pool
    waiting = [own.submit(function, item) for item in work]
    try:
        for future in waiting:
            yield future.result()
    finally:
        for future in waiting:
            future.cancel()
        if pool is None:
            own.shutdown()


def started(most: int) -> Any:
    """A pool of as many threads as are allowed, at most so many."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(min(get_threads(), most))


def ahead(items: Iterable[Any]) -> Iterator[Any]:
    """The same items in order, the next one made by another thread while this one is used."""
    from concurrent.futures import ThreadPoolExecutor

    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, iterator, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, iterator, _END)
            yield item
            del item  # not one more than need be


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on the calling thread alone, for work that is spread over threads already."""
    global _libraries
    found = sum(name in sys.modules for name in BRINGING)
    if _libraries is None or _libraries[0] != found:
        from threadpoolctl import ThreadpoolController

        _libraries = found, ThreadpoolController()
    with _libraries[1].limit(limits=1, user_api="blas"):
        yield


def _checked(threads: Any) -> int:
    try:
        count = int(threads)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise UsageError(f"threads must be a whole number of at least 1, not {threads!r}", where="threads")
    return count
