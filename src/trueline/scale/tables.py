"""What an engine must offer, and how a refusal travels from a partition to the caller.

A *task* is a picklable object with ``run(number, tables) -> bytes`` for one partition and ``merge(answers) -> bytes``;
one that says ``in_order`` gets the partitions that the user made, others may get the rows divided otherwise.
An engine runs it on every partition and merges the answers in a tree whose shape depends on the number of
partitions alone, so that the same partitioning gives the same bits. A partition that refuses its rows answers with
the refusal instead of raising: an engine would retry it, and bury the sentence under its own traceback.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from .. import errors, threads
from ..errors import DataError, TruelineError, UsageError

BRANCHES = 8  # answers merged at a time
_GOOD, _BAD = b"+", b"-"


class Task(Protocol):
    """What is done to a partition, and to the answers."""

    def run(self, number: int, tables: Any) -> bytes: ...

    def merge(self, answers: Sequence[bytes]) -> bytes: ...


class Table(Protocol):
    """A table of some engine."""

    describe: str
    declared: dict[str, Any]  # column → Polars type

    def combine(self, task: Task, size: int) -> bytes:
        """One job: the answers of all partitions, each about ``size`` bytes, merged."""
        ...

    def head(self, rows: int) -> Any:
        """Some first rows as a Polars frame."""
        ...

    def unpacked(self, options: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
        """With columns that hold several numbers as columns apart, and the options in their names."""
        ...

    def readable(self, names: Sequence[str] | None) -> Table:
        """With these columns apart, where one that holds several numbers has them."""
        ...

    def select(self, columns: Sequence[str]) -> Table:
        """With fewer columns."""
        ...

    def keep(self, options: dict[str, Any]) -> Table:
        """For several jobs with these options: encoded once, where the engine and the user allow it."""
        ...

    def label_type(self, target: str) -> type:
        """Of what type labels in a column of numbers or truth values are: int, float or bool."""
        ...

    def predicted(self, predictor: Any) -> Any:
        """The engine's own lazy table of predictions."""
        ...


def label_type(dtype: Any) -> type:
    """The same of a column's Polars type."""
    return bool if str(dtype) == "Boolean" else int if dtype.is_integer() else float


def answer(task: Task, number: int, tables: Any) -> bytes:
    """What a partition sends: its answer or its refusal."""
    with one_thread():
        try:
            return _GOOD + task.run(number, tables)
        except TruelineError as error:
            return refusal(number, error)


def refusal(number: int, error: TruelineError) -> bytes:
    """What a partition sends that refuses its rows."""
    text = {"number": number, "class": type(error).__name__, "message": error.message, "where": error.where}
    return _BAD + json.dumps(text).encode()


def merged(task: Task, answers: Sequence[bytes]) -> bytes:
    """Several partitions' answers as one; the refusal of the first partition that refused goes before all."""
    refusals = [raw for raw in answers if raw[:1] == _BAD]
    if refusals:
        return min(refusals, key=lambda raw: json.loads(raw[1:])["number"])
    with one_thread():
        try:
            return _GOOD + task.merge([raw[1:] for raw in answers])
        except TruelineError as error:
            return refusal(0, error)


def tree(task: Task, answers: Sequence[bytes]) -> bytes:
    """All answers merged here, in the shape that every engine uses."""
    level = list(answers)
    while len(level) > 1:
        level = [merged(task, level[k : k + BRANCHES]) for k in range(0, len(level), BRANCHES)]
    return level[0] if level else _GOOD


def opened(raw: bytes) -> bytes:
    """The merged answer, or the refusal raised."""
    if raw[:1] == _BAD:
        told = json.loads(raw[1:])
        kind = getattr(errors, told["class"], DataError)
        raise kind(told["message"], where=told["where"])
    return raw[1:]


_lock = threading.Lock()
_inside = 0
_limits: contextlib.ExitStack | None = None


@functools.cache
def _libraries() -> Any:
    """The libraries with threads of their own; finding them takes 5 ms, so they are looked for once."""
    import scipy.linalg  # noqa: F401 (it brings a BLAS of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and our own pools on one thread: the engine already fills the cores, and sums keep their order.

    The setting belongs to the process; tasks that share it by threads enter together and the last one restores it.
    """
    global _inside, _limits
    with _lock:
        _inside += 1
        if _inside == 1:
            _limits = contextlib.ExitStack()
            _limits.enter_context(_libraries().limit(limits=1))
            before = threads._setting
            threads.set_threads(1)
            _limits.callback(threads.set_threads, before)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limits is not None:
                _limits.close()
                _limits = None


@contextlib.contextmanager
def plain_errors(engine: str) -> Iterator[None]:
    """What an engine says of a failed job as one sentence, where it is a known one."""
    try:
        yield
    except TruelineError:
        raise
    except Exception as error:
        known = _sentence(engine, error)
        if known is None:
            raise
        raise known from None


def known(error: BaseException) -> bool:
    """Whether an engine's error has a sentence of its own."""
    return _sentence("", error) is not None


def _sentence(engine: str, error: BaseException) -> TruelineError | None:
    told, one = [], error
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        told.append(f"{type(one).__name__}: {one}")
        one = one.__cause__ or one.__context__  # type: ignore[assignment]
    text = "\n".join(told)
    if "No module named 'trueline" in text:
        return UsageError(lacking(engine), where=engine)
    if "KilledWorker" in text or "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text:
        return DataError(
            f"{engine} gave up a task after its workers died under it; give the workers more memory or make more, "
            "smaller partitions",
            where=engine,
        )
    unread = _UNREAD.search(text)
    if unread is not None:
        what = " ".join(unread[1].split()).rstrip(". ")[:400]
        return DataError(
            f"{engine} cannot read its files ({what}); give all files the same columns and types", where=engine
        )
    if any(word in text for word in _UNREACHABLE):
        return UsageError(unreachable(engine), where=engine)
    return None


_UNREAD = re.compile(
    r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE)[^\]]*\] (.*?)(?:SQLSTATE|\n\s*at |JVM stacktrace|$)", re.DOTALL
)
_UNREACHABLE = (
    "CommClosedError", "Timed out trying to connect", "Timed out during handshake", "scheduler-connection-lost",
    "lost connection to the scheduler", "ConnectionRefusedError", "failed to connect to all addresses",
)  # fmt: skip


def unreachable(engine: str) -> str:
    """The sentence for a scheduler that does not answer."""
    return f"the scheduler of {engine} cannot be reached; check its address and that it runs"


def lacking(engine: str, worker: str = "") -> str:
    """The sentence for a worker without trueline."""
    which = f"the worker {worker}" if worker else "a worker"
    return f"{which} of {engine} has no trueline; install trueline on every worker, the same version as here"
