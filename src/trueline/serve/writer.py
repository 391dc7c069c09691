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
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec

from .. import __version__
from ..errors import ModelError
from ..modelfile import dumps
from .live import CHUNK, Live
from .store import CHECKPOINT_EVERY, Store, StoreFailure, StoreFull

MOST_RECENT = 50_000


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str, where: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "where": where}} | more


class Entry:
    """A prediction that waits for its label, or had it."""

    __slots__ = ("at", "features", "label", "output", "pid", "position", "seq", "weight")

    def __init__(self, pid: int | None, features: bytes, output: bytes | None, position: int, at: float) -> None:
        self.pid, self.features, self.output, self.position, self.at = pid, features, output, position, at
        self.label: bytes | None = None
        self.weight = 1.0
        self.seq = 0  # 0 with a label: in flight


class Group:
    """Rows that commit together, and who waits for them."""

    def __init__(self) -> None:
        self.predictions: list[tuple[Any, ...]] = []
        self.learns: list[tuple[Live, str | None, Entry]] = []
        self.keys: list[tuple[int, str]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Writer:
    """Several named models over one store, and the one task that changes both."""

    def __init__(self, store: Store, *, retention: float = 7 * 86400.0, snapshot_every: int = 20_000) -> None:
        self.store, self.retention, self.snapshot_every = store, retention, snapshot_every
        self.models: dict[str, Live] = {}
        self.by_mid: dict[int, Live] = {}
        self.recent: collections.OrderedDict[tuple[int, str], Entry] = collections.OrderedDict()
        self.counts: collections.Counter[str] = collections.Counter()
        self.pending: collections.Counter[int] = collections.Counter()
        self.shown: dict[int, collections.deque[dict[str, Any]]] = {}
        self.saved: dict[int, list[int]] = {}
        self.failed: str | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._actions: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._start, self._base = time.monotonic(), store.latest()
        self._made, self._prefix = 0, secrets.token_hex(6)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "commit")
        newest = "SELECT max(coalesce((SELECT max(pid) FROM prediction),0), coalesce((SELECT max(pid) FROM journal),0))"
        self._next_pid = int(next(iter(store.writer.execute(newest)))[0]) + 1
        for mid, name, spec, parent, start in store.models():
            self._recover(Live(mid, name, msgspec.json.decode(spec), parent, start))

    def now(self) -> float:
        """Seconds that this service has run in all."""
        return self._base + time.monotonic() - self._start

    # ---- recovery
    def _recover(self, live: Live) -> None:
        """The newest snapshot, then every label after it, in order."""
        found = self.store.snapshot(live.mid)
        version = __version__
        if found is not None:
            seq, version, raw = found
            live.adopt(raw, f"the snapshot of {live.name} at {seq}")
            live.position = seq
        source = live.parent if live.parent is not None else live.mid
        batch: list[Any] = []
        for seq, _, label, weight, features, output, _ in self.store.journal(source, live.position):
            if version != __version__:
                raise ModelError(
                    f"the model {live.name!r} has labels after its last snapshot, written by trueline {version}, and this is {__version__}; "
                    "start that version once and stop it, so that nothing is replayed across versions",
                    where=live.name,
                )
            batch.append(
                (
                    seq,
                    bytes(features),
                    bytes(label),
                    weight,
                    None if output is None or live.parent is not None else bytes(output),
                )
            )
            if len(batch) >= 1024:
                live.apply(batch)
                batch = []
        if batch:
            live.apply(batch)
        self._enter(live)
        rows = self.store.writer.execute("SELECT seq FROM snapshot WHERE mid=? ORDER BY seq", (live.mid,))
        self.saved[live.mid] = [row[0] for row in rows]
        self.pending[live.mid] = self.store.pending(live.mid, self.now(), self.retention)

    def _enter(self, live: Live) -> None:
        self.models[live.name] = live
        self.by_mid[live.mid] = live
        self.shown[live.mid] = collections.deque(maxlen=12)
        self.saved.setdefault(live.mid, [])

    # ---- the writer
    async def start(self) -> None:
        self._group = Group()
        self._committing: Group | None = None
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
            self.store.close()
        else:
            self.store.abandon()

    async def transact(self, action: Callable[[], Any]) -> Any:
        """Run an action on the store between two groups, in a transaction of its own; what it returns runs after COMMIT."""
        self._check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._actions.append((action, future))
        self._wake.set()
        return await future

    def _check(self) -> None:
        if self.failed is not None:
            raise Refused(503, "the store failed and the service is stopping; retry with the same id after it is back")

    async def _write(self) -> None:
        while self.failed is None:
            await self._wake.wait()
            self._wake.clear()
            while (self._group.predictions or self._group.learns) and self.failed is None:
                self._committing, self._group = self._group, Group()
                await self._commit(self._committing)
                self._committing = None
            while self._actions and self.failed is None:
                await self._act(*self._actions.pop(0))
            if self.failed is None:
                await self._upkeep()
        self._group.done.set_exception(StoreFailure(self.failed))
        self._group.done.exception()
        for _, future in self._actions:
            future.set_exception(StoreFailure(self.failed))

    async def _commit(self, group: Group) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.store.begin()
            # A model may have been deleted while the group was open.
            group.learns = [one for one in group.learns if one[0].mid in self.by_mid]
            self.store.put("prediction", [row for row in group.predictions if row[1] in self.by_mid])
            at = self.now()
            last: dict[int, int] = {}
            rows = []
            for live, id, entry in group.learns:
                seq = last[live.mid] = last.get(live.mid, self.by_mid[live.mid].position) + 1
                entry.position = seq
                own = entry.features if entry.pid is None else None
                rows.append((live.mid, seq, id, entry.label, entry.weight, entry.pid, own, at))
            self.store.put("journal", rows)
            self.store.seal()
            await loop.run_in_executor(self._thread, self.store.commit)
        except (StoreFull, StoreFailure) as error:
            self._undo(group)
            self._fail(error)
            group.done.set_exception(error)
            group.done.exception()  # seen, even where nobody waits any more
            return
        await self._learn(group)
        group.done.set_result(None)

    def _fail(self, error: Exception) -> None:
        self.counts["store_errors"] += 1
        if isinstance(error, StoreFailure):
            self.failed = str(error)
            self.on_failure()

    def _undo(self, group: Group) -> None:
        """Forget what was marked in memory for a group that did not commit."""
        for key in group.keys:
            entry = self.recent.pop(key, None)
            if entry is not None:
                entry.pid = None  # a label of the next group must carry the features itself
        for live, id, _ in group.learns:
            if id is not None:
                self.recent.pop((live.mid, id), None)

    async def _learn(self, group: Group) -> None:
        """Apply a committed group in order, with pauses."""
        for key in group.keys:
            self.pending[key[0]] += 1
        by_model: dict[int, list[Any]] = {}
        for live, id, entry in group.learns:
            assert entry.label is not None
            by_model.setdefault(live.mid, []).append(
                (entry.position, entry.features, entry.label, entry.weight, entry.output)
            )
            entry.seq = entry.position
            if entry.pid is not None:
                self.pending[live.mid] -= 1
            self.shown[live.mid].append(
                {"id": id, "features": entry.features, "output": entry.output, "label": entry.label}
            )
        for mid, entries in by_model.items():
            shadows = [live for live in self.by_mid.values() if live.parent == mid]
            for at in range(0, len(entries), CHUNK):
                self.by_mid[mid].apply(entries[at : at + CHUNK])
                for shadow in shadows:
                    shadow.apply([(*entry[:4], None) for entry in entries[at : at + CHUNK]])
                if len(entries) > at + CHUNK:
                    await asyncio.sleep(0)
        self.counts["labels"] += len(group.learns)
        while len(self.recent) > MOST_RECENT:
            self.recent.popitem(last=False)

    async def _act(self, action: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            self.store.begin()
            finish = action()
            self.store.seal()
            await asyncio.get_running_loop().run_in_executor(self._thread, self.store.commit)
            result = finish() if finish is not None else None
        except (StoreFull, StoreFailure) as error:
            self._fail(error)
            future.set_exception(error)
            future.exception()
        except Exception as error:
            self.store.rollback()
            future.set_exception(error)
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
                newest = self.saved[live.mid][-1] if self.saved[live.mid] else live.start
                if live.parent is None and live.position - newest >= self.snapshot_every:
                    family = [live, *(other for other in self.by_mid.values() if other.parent == live.mid)]
                    states = [(one, one.position, one.state()) for one in family]
                    blobs = [
                        await loop.run_in_executor(self._thread, functools.partial(dumps, *state))
                        for _, _, state in states
                    ]
                    self.store.begin()
                    for (one, position, _), blob in zip(states, blobs):
                        self._put_snapshot(one, position, blob)
                    self.store.seal()
                    await loop.run_in_executor(self._thread, self.store.commit)
        except StoreFull:
            self.counts["store_errors"] += 1
        except StoreFailure as error:
            self._fail(error)

    def _put_snapshot(self, live: Live, position: int, blob: bytes) -> None:
        """A snapshot; features of labels behind the second newest are not needed any more."""
        self.store.put("snapshot", [(live.mid, position, __version__, blob)], replace=True)
        before = self.saved[live.mid]
        kept = [seq for seq in before if seq < position][-1:]
        if kept:
            self.store.run("DELETE FROM snapshot WHERE mid=? AND seq<?", (live.mid, kept[0]))
            if live.parent is None:
                trimmed = before[0] if len(before) > 1 else 0
                self.store.run(
                    "DELETE FROM prediction WHERE pid IN (SELECT pid FROM journal WHERE mid=? AND seq>? AND seq<=? AND pid IS NOT NULL)",
                    (live.mid, trimmed, kept[0]),
                )
        self.saved[live.mid] = [*kept, position]

    def _snapshot_all(self) -> None:
        for live in self.by_mid.values():
            if not self.saved[live.mid] or self.saved[live.mid][-1] != live.position:
                self._put_snapshot(live, live.position, dumps(*live.state()))
