"""The writer: groups of rows commit together, models learn what was committed, snapshots bound the replay.

Positions are given when a group is written, so the journal has no gaps; models learn after COMMIT, in the order of
positions. Everything that arrives while the disk works forms the next group. The clock is the service's own (time that
it ran, never the wall clock), so a clock that jumps and a night without power expire nothing.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import logging
import secrets
import time
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from .. import __version__
from ..errors import DataError, ModelError, OlderLayout, TruelineError
from ..modelfile import dumps
from .intake import Refused, Row
from .live import CHUNK, Label, Live
from .rows import parts
from .store import CHECKPOINT_EVERY, Entry, Store, StoreFailure, StoreFull, trimmable

_encode = msgspec.json.Encoder().encode
_new: Any = tuple.__new__  # a named tuple without the call in Python: one for every label
LARGEST_GROUP = 4_096  # rows
OVERDUE = 4 * CHECKPOINT_EVERY
UNKNOWN = "the store failed: the outcome is unknown; retry with the same id after the service is back"
SHOWN = 12  # recent rows on the page


Answer = Callable[[list[dict[str, Any]] | None, BaseException | None], None]


class Job:
    """One request: its rows, what resolves them, and who is told."""

    __slots__ = ("answer", "finish", "mid", "resolve", "rows")

    def __init__(self, mid: int, rows: list[Row], resolve: Callable[..., None], answer: Answer) -> None:
        self.mid, self.rows, self.resolve, self.answer = mid, rows, resolve, answer
        self.finish: Callable[[], list[dict[str, Any]]]

    @staticmethod
    def refusal(error: BaseException | None) -> Refused:
        """What went wrong, as an answer."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, StoreFull):
            return Refused(507, "the disk is full; nothing was stored, retry later with the same id")
        if isinstance(error, StoreFailure):
            return Refused(503, UNKNOWN)
        return Refused(500, "the service has a fault; nothing was stored")


class Group:
    """Requests that commit together: what they ask for and what they put in the store."""

    def __init__(self, at: float, wrong: set[tuple[int, bytes]]) -> None:
        self.at = at
        self.wrong = wrong  # (mid, features) of rows that have no finite prediction
        self.asked: collections.defaultdict[int, list[Entry]] = collections.defaultdict(
            list
        )  # by model, to be predicted
        self.predictions: list[tuple[str, int, Entry]] = []  # (id, mid, entry)
        self.learns: list[tuple[int, str | None, Entry]] = []  # (mid, id, entry) in order of positions
        self.last: dict[int, int] = {}  # the newest position given, by model
        self.counts: collections.Counter[str] = collections.Counter()  # added to the service's after the commit


class Writer:
    """Several named models over one store, and the one task that changes both."""

    def __init__(self, store: Store, *, retention: float = 7 * 86400.0, snapshot_every: int = 20_000) -> None:
        self.store, self.retention, self.snapshot_every = store, retention, snapshot_every
        self.models: dict[str, Live] = {}
        self.by_mid: dict[int, Live] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.pending: collections.Counter[int] = collections.Counter()
        self.shown: dict[int, collections.deque[dict[str, Any]]] = {}
        self.due: dict[int, int] = {}  # the position at which the next snapshot is tried
        self.failed: str | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._actions: list[tuple[Callable[[], Any], asyncio.Future[Any], bool]] = []
        self._start, self._base = time.monotonic(), store.latest()
        self._made, self._prefix = 0, secrets.token_hex(6)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "commit")
        newest = "SELECT max(coalesce((SELECT max(pid) FROM prediction),0), coalesce((SELECT max(pid) FROM journal),0))"
        self._next_pid = int(next(iter(store.writer.execute(newest)))[0]) + 1
        try:
            for mid, name, spec, parent, start in store.models():
                self._recover(Live(mid, name, msgspec.json.decode(spec), parent, start))
        except TruelineError:
            raise
        except Exception as error:
            raise ModelError(
                f"the store {store.path} cannot be read ({error}); use an intact copy", where=store.path
            ) from error

    def now(self) -> float:
        """Seconds that this service has run in all."""
        return self._base + time.monotonic() - self._start

    # ---- recovery
    def _recover(self, live: Live) -> None:
        """The newest snapshot, then every label after it, in order; all labels where a learner's layout has changed."""
        found = self.store.snapshot(live.mid)
        version = __version__
        if found is not None:
            seq, version, raw = found
            try:
                live.adopt(raw, f"the snapshot of {live.name} at {seq}")
                live.position = seq
            except OlderLayout:
                # A model of a file, or one that began with another's labels, is more than its journal.
                if live.start > 0 or live.parent is not None or live.spec.get("columns"):
                    raise
                found, version = None, __version__
        source = live.parent if live.parent is not None else live.mid
        batch: list[Label] = []
        for seq, _, label, weight, features, output, _ in self.store.journal(source, live.position):
            if version != __version__:
                raise ModelError(
                    f"the model {live.name!r} has labels after its last snapshot, written by trueline {version}, and this is {__version__}; "
                    "start that version once and stop it, so that nothing is replayed across versions",
                    where=live.name,
                )
            served = None if output is None or live.parent is not None else bytes(output)
            batch.append(Label(seq, bytes(features), bytes(label), weight, served))
            if len(batch) >= 1024:
                live.apply(batch)
                batch = []
        if batch:
            live.apply(batch)
        self._enter(live)
        self.due[live.mid] = (live.start if found is None else found[0]) + self.snapshot_every
        self.pending[live.mid] = self.store.pending(live.mid)

    def _enter(self, live: Live) -> None:
        self.models[live.name] = live
        self.by_mid[live.mid] = live
        self.shown[live.mid] = collections.deque(maxlen=SHOWN)
        self.due[live.mid] = live.position + self.snapshot_every

    # ---- the writer
    async def start(self) -> None:
        self._jobs: list[Job] = []
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._write())

    async def stop(self) -> None:
        """Finish what was accepted, snapshot every model, close."""
        if self.failed is None:
            with contextlib.suppress(StoreFailure, StoreFull, Refused):
                await self.transact(self._snapshot_all)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
        if self.failed is None:
            try:
                self.store.close()
            except StoreFailure as error:
                self._fail(error)
        else:
            self.store.abandon()

    async def transact(self, action: Callable[[], Any], *, long: bool = False) -> Any:
        """Run an action on the store between two groups, in a transaction of its own; what it returns runs after COMMIT.

        One that may take ``long`` and touches the store alone runs in the thread, so that the service goes on reading.
        """
        self._check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._actions.append((action, future, long))
        self._wake.set()
        return await future

    def _check(self) -> None:
        if self.failed is not None:
            raise Refused(503, "the store failed and the service is stopping; retry with the same id after it is back")

    async def _write(self) -> None:
        try:
            while self.failed is None:
                await self._wake.wait()
                self._wake.clear()
                while self._jobs and self.failed is None:
                    await asyncio.sleep(0)  # what arrived with the first request joins its group
                    await self._commit(self._take())
                    if self.store.rows >= OVERDUE and self.failed is None:
                        await self._upkeep()  # under a load that never pauses the log must not grow for ever
                while self._actions and self.failed is None:
                    await self._act(*self._actions.pop(0))
                if self.failed is None:
                    await self._upkeep()
        except Exception as error:  # a fault of the service's own: a writer that is gone must not be waited for
            self._stop(error)
        assert self.failed is not None
        self._give_up(self._jobs, StoreFailure(self.failed))
        for _, future, _ in self._actions:
            _settle(future, StoreFailure(self.failed))

    def _take(self) -> list[Job]:
        """The requests of the next group."""
        jobs, rows = self._jobs, 0
        for k, job in enumerate(jobs):
            rows += len(job.rows)
            if rows > LARGEST_GROUP and k:
                self._jobs = jobs[k:]
                return jobs[:k]
        self._jobs = []
        return jobs

    async def _commit(self, jobs: list[Job]) -> None:
        """One group: look, predict, write, COMMIT, learn, answer."""
        try:
            self.store.begin()
            group, jobs = self._resolve(jobs, set())
            if wrong := self._predict(
                group
            ):  # rare: the requests that hold such rows are refused, and the others begin again
                group, jobs = self._resolve(jobs, wrong)
                self._predict(group)
            if group.predictions or group.learns:
                self.store.fill(parts(group.predictions, group.learns, group.at))
                await asyncio.get_running_loop().run_in_executor(self._thread, self.store.commit)
            else:
                self.store.rollback()
        except (StoreFull, StoreFailure) as error:
            self._fail(error)
            self._give_up(jobs, error)
            return
        except Exception as error:  # nothing was promised; the group is given up whole
            _tell("a group failed", error)
            self.store.rollback()
            self._give_up(jobs, error)
            return
        try:
            await self._learn(group)
        except Exception as error:  # the journal has it and the model does not: stop, and recover from the journal
            self._stop(error)
            self._give_up(jobs, StoreFailure(str(error)))
            return
        self.counts.update(group.counts)
        for job in jobs:
            job.answer(job.finish(), None)

    def _give_up(self, jobs: list[Job], error: BaseException) -> None:
        for job in jobs:
            job.answer(None, error)

    def _predict(self, group: Group) -> set[tuple[int, bytes]]:
        """Fill the predictions in; (mid, features) of those that have none."""
        wrong: set[tuple[int, bytes]] = set()
        for mid, entries in group.asked.items():
            live, stored = self.by_mid[mid], [entry.features for entry in entries]
            try:
                for entry, made in zip(entries, live.predict(stored)):
                    entry.made = live.tag(made)
                    entry.output = _encode(entry.made)
            except DataError:
                wrong.update((mid, one) for one in stored if not live.predictable(one))
        return wrong

    def _resolve(self, jobs: list[Job], wrong: set[tuple[int, bytes]]) -> tuple[Group, list[Job]]:
        """What the requests of a group become; those that are refused are answered at once."""
        group, kept = Group(self.now(), wrong), []
        wanted: dict[int, list[str]] = {}
        for job in jobs:
            wanted.setdefault(job.mid, []).extend([row[0] for row in job.rows if row[0] is not None])
        known = {mid: self.store.known(mid, ids) if ids else {} for mid, ids in wanted.items()}
        for job in jobs:
            live = self.by_mid.get(job.mid)
            try:
                if live is None:
                    raise Refused(404, "the model was deleted", "model")
                job.resolve(job, live, known[job.mid], group)
                kept.append(job)
            except Refused as refusal:
                job.answer(None, refusal)
        return group, kept

    def _fail(self, error: Exception) -> None:
        self.counts["store_errors"] += 1
        if isinstance(error, StoreFailure):
            self.failed = str(error)
            self.on_failure()

    def _stop(self, error: Exception) -> None:
        """The service has a fault behind a commit."""
        _tell("the writer failed", error)
        self._fail(StoreFailure(f"a fault of the service: {error!a}"))

    async def _learn(self, group: Group) -> None:
        """Apply a committed group in order, with pauses."""
        self.pending.update(mid for _, mid, _ in group.predictions)
        by_model: dict[int, list[Entry]] = {}
        for mid, _, entry in group.learns:
            by_model.setdefault(mid, []).append(entry)
            if entry.pid is not None:
                self.pending[mid] -= 1
        for made, mid, entry in group.predictions[-SHOWN:]:
            self.shown[mid].append({"id": made, "entry": entry})
        for mid, id, entry in group.learns[-SHOWN:]:
            waiting = [one for one in self.shown[mid] if id is not None and one["id"] == id]
            if waiting:
                waiting[0]["entry"] = entry  # the label of a prediction that is shown
            else:
                self.shown[mid].append({"id": id, "entry": entry})
        for mid, entries in by_model.items():
            shadows = [live for live in self.by_mid.values() if live.parent == mid]
            for at in range(0, len(entries), CHUNK):
                part = [_new(Label, (e.seq, e.features, e.label, e.weight, e.output)) for e in entries[at : at + CHUNK]]
                self.by_mid[mid].apply(part)
                for shadow in shadows:
                    shadow.apply([label._replace(output=None) for label in part])
                if len(entries) > at + CHUNK:
                    await asyncio.sleep(0)
        group.counts["labels"] = len(group.learns)

    async def _act(self, action: Callable[[], Any], future: asyncio.Future[Any], long: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.store.begin()
            finish = await loop.run_in_executor(self._thread, action) if long else action()
            self.store.seal()
            await loop.run_in_executor(self._thread, self.store.commit)
            result = finish() if finish is not None else None
        except (StoreFull, StoreFailure) as error:
            self._fail(error)
            _settle(future, error)
        except Exception as error:
            self.store.rollback()
            _settle(future, error)
        else:
            if not future.cancelled():
                future.set_result(result)

    async def _upkeep(self) -> None:
        """Checkpoints and snapshots, when due."""
        loop = asyncio.get_running_loop()
        try:
            if self.store.rows >= CHECKPOINT_EVERY:
                await loop.run_in_executor(self._thread, self.store.checkpoint)
            for live in list(self.by_mid.values()):
                if live.parent is None and live.position >= self.due[live.mid]:
                    # Should the disk be full now, it is tried again after as many labels. Nothing else depends on this
                    # number: what a snapshot allows to trim is read from the store.
                    self.due[live.mid] = live.position + self.snapshot_every
                    states = [(one, one.position, one.state()) for one in self.family(live)]
                    blobs = [
                        await loop.run_in_executor(self._thread, functools.partial(dumps, *state))
                        for _, _, state in states
                    ]
                    self.store.begin()
                    self._put_snapshots(live, [(one, at, blob) for (one, at, _), blob in zip(states, blobs)])
                    self.store.seal()
                    await loop.run_in_executor(self._thread, self.store.commit)
        except StoreFull:
            self.counts["store_errors"] += 1
        except StoreFailure as error:
            self._fail(error)

    def family(self, live: Live) -> list[Live]:
        """A model and its shadows, which learn from one journal."""
        return [live, *(other for other in self.by_mid.values() if other.parent == live.mid)]

    def _put_snapshots(self, live: Live, snapshots: list[tuple[Live, int, bytes]]) -> None:
        """Snapshots of a model's family; the older ones, and features that no start needs any more, go with them."""
        run = self.store.run
        before = trimmable(run, live.mid)
        for one, position, blob in snapshots:
            self.put_snapshot(one, position, blob)
            newest = "SELECT seq FROM snapshot WHERE mid=? ORDER BY seq DESC LIMIT 2"
            run(f"DELETE FROM snapshot WHERE mid=? AND seq NOT IN ({newest})", (one.mid, one.mid))
        run(
            "DELETE FROM prediction WHERE pid IN (SELECT pid FROM journal WHERE mid=? AND seq>? AND seq<=? AND pid IS NOT NULL)",
            (live.mid, before, trimmable(run, live.mid)),
        )

    def put_snapshot(self, live: Live, position: int, blob: bytes) -> None:
        self.store.put("snapshot", [(live.mid, position, __version__, blob)], replace=True)

    def _snapshot_all(self) -> None:
        for live in self.by_mid.values():
            if live.parent is None:
                stale = [one for one in self.family(live) if self.store.newest(one.mid) != one.position]
                self._put_snapshots(live, [(one, one.position, dumps(*one.state())) for one in stale])


def _tell(what: str, error: Exception) -> None:
    """One line of the log: where it happened, and everything escaped that could pass for a line of its own."""
    places = " < ".join(f"{one.name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)[::-1])
    logging.getLogger("trueline.serve").error("%s: %s in %s", what, ascii(error), places)


def _settle(future: asyncio.Future[Any], error: BaseException) -> None:
    """Tell who waits, if somebody still does."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen, even where nobody waits any more
