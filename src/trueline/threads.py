"""How many threads trueline may use: one setting, honoured by BLAS and our own pools.

``TRUELINE_THREADS`` or :func:`set_threads` sets it for the process; ``with limit(n)`` for a block.
Polars' readers have a setting of their own, ``POLARS_MAX_THREADS``, which it reads when it is imported. Kernels release
the GIL and are spread over a thread pool here.
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


class _Limit:
    """BLAS's setting, which is one for the whole process, taken down to 1 by one thread at a time.

    A second thread that put back what it met would put back the first one's 1, for ever; so only the thread that took
    the setting down puts it back, and one that comes in meanwhile leaves it as it is.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner, self.depth, self.loaded = 0, 0, -1
        self.controller: Any = None
        self.limits = contextlib.ExitStack()

    def enter(self) -> bool:
        with self.lock:
            if self.depth and self.owner != threading.get_ident():
                return False
            loaded = sum(name in sys.modules for name in BRINGING)
            if self.controller is None or loaded != self.loaded:
                from threadpoolctl import ThreadpoolController

                self.controller = ThreadpoolController()
            if not self.depth or loaded != self.loaded:  # a library that came meanwhile is limited too
                self.limits.enter_context(self.controller.limit(limits=1, user_api="blas"))
            self.owner, self.loaded = threading.get_ident(), loaded
            self.depth += 1
            return True

    def leave(self) -> None:
        with self.lock:
            self.depth -= 1
            if not self.depth:
                self.limits.close()


_limit = _Limit()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on the calling thread alone, for work that is small, or spread over threads already."""
    limit = _limit
    mine = limit.enter()
    try:
        yield
    finally:
        if mine:
            limit.leave()


def _forked() -> None:
    """The child of a fork has none of the threads that may have held the limit."""
    global _limit
    _limit = _Limit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _checked(threads: Any) -> int:
    try:
        count = int(threads)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise UsageError(f"threads must be a whole number of at least 1, not {threads!r}", where="threads")
    return count
