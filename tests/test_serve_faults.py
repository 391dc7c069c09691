"""Every write, sync, link and commit of a long run fails once: whatever was acknowledged is there after the next start.

The run has snapshots, checkpoints, sweeps that trim the journal, a shadow, crashes, second starts, a backup, restores and
a promotion. One thing fails, by an error or for want of room; requests that are refused are sent again with the same id,
and a service that stops is started again. At every start positions and states are compared with what was acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import struct

import pytest
from faulty import Disk
from serving import FEATURES, rows, state_bytes

from trueline.errors import ModelError, UsageError
from trueline.serve import admin, lock, writer
from trueline.serve.intake import Refused
from trueline.serve.live import Label, Live
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store, StoreFailure, StoreFull

X, Y = rows(200, seed=31)
PACKED = [struct.pack("3d", *x.values()) for x in X]
RETENTION = 2.0  # less than the time between snapshots, so that only these hold trimming back
SPECS = {
    "m": check({"name": "m", "features": FEATURES, "learner": {"rate": 0.01}}),
    "s": check(
        {"name": "s", "features": FEATURES, "learner": {"geometry": "normalised", "rate": 0.5}, "shadow_of": "m"}
    ),
}


class Lost(AssertionError):
    """What was acknowledged is not there."""


class Clocked(Service):
    """A service whose time the run makes."""

    time = 0.0

    def now(self):
        return Clocked.time


class Client:
    """One user of one store: what was acknowledged to them, what they do not know, and what must be so."""

    def __init__(self, path, disk):
        self.path, self.disk = path, disk
        self.learned: list[int] = []  # rows, in order of positions
        self.unsure: list[int] = []  # sent, and answered with 503 or not at all
        self.waiting: dict[int, float] = {}  # rows predicted and never labelled, and when
        self.times: dict[int, float] = {}
        self.models: list[str] = []
        self.exchanged: bool | None = False  # m and s; None: not known
        self.service: Clocked | None = None

    # ---- starting and stopping
    async def start(self, backup=None):
        """Start on the failing disk; whether it runs."""
        for _ in range(3):
            try:
                store = Store(self.path, connect=self.disk.connect, backup=backup)
            except (ModelError, UsageError):
                if not self.disk.hit:
                    raise
                backup = None if os.path.exists(self.path) else backup
                continue
            try:
                self.service = Clocked(store, retention=RETENTION, snapshot_every=10)
            except ModelError as error:
                store.abandon()
                raise Lost(f"the store is refused: {error}") from error
            await self.service.start()
            self.check(self.service)
            return
        raise Lost("the store cannot be opened though only one thing failed")

    def crash(self):
        if self.service is not None:
            self.service._task.cancel()
            self.service.store.abandon()
        self.service = None

    async def stop(self):
        if self.service is not None:
            await self.service.stop()
        self.service = None

    async def call(self, make):
        """A request, sent again until it is answered; None where it may or may not have been done."""
        for _ in range(3):
            if self.service is None or self.service.failed is not None:
                self.crash()
                await self.start()
                return None
            try:
                return await make(self.service)
            except (Refused, StoreFull, StoreFailure) as refused:
                status = getattr(refused, "status", 507 if isinstance(refused, StoreFull) else 503)
                assert status in (503, 507), refused
                assert self.disk.hit, f"refused without a fault: {refused}, {self.service.failed}"
        raise Lost("a service that has room again goes on refusing")

    # ---- requests
    async def create(self, name):
        while name not in self.service.models:
            await self.call(lambda service: admin.create(service, dict(SPECS[name])))
        self.models.append(name)

    async def predict(self, k, keep=False):
        """A prediction; with ``keep`` its label comes only at the end."""
        answer = await self.call(
            lambda service: service.predict(service.find("m"), [{"id": f"{'w' if keep else ''}{k}", "features": X[k]}])
        )
        if keep and answer is not None:
            self.waiting[k] = Clocked.time

    async def learn(self, *ks):
        items = [{"id": str(k), "label": Y[k], "features": X[k]} for k in ks]
        answers = None
        while answers is None:  # it was started again, and knows by now whether they were learned
            self.unsure = [k for k in ks if k not in self.learned]
            answers = await self.call(lambda service: service.learn(service.find("m"), items))
        for k, answer in zip(ks, answers):
            if k not in self.learned:
                self.learned.append(k)
                self.times[k] = Clocked.time
            if answer["position"] != self.learned.index(k) + 1:
                raise Lost(f"label {k} was at {self.learned.index(k) + 1} and is at {answer['position']}")
        self.unsure = []

    async def sweep(self):
        while await self.call(admin.sweep):
            pass

    async def promote(self):
        self.exchanged = None
        while not self.exchanged:
            if await self.call(lambda service: admin.promote(service, "m", "s")) is not None:
                self.exchanged = True

    # ---- what must be so
    def check(self, service):
        """At a start: every acknowledged label at its place, once, and the states that they make."""
        for name in self.models:
            if name not in service.models:
                raise Lost(f"the model {name} is gone")
        if "m" not in service.models:
            return
        position = service.find("m").position
        if position == len(self.learned) + len(self.unsure) and self.unsure:
            self.learned += self.unsure
            self.times |= dict.fromkeys(self.unsure, Clocked.time)
        self.unsure = []
        if position != len(self.learned):
            raise Lost(f"position {position} after {len(self.learned)} acknowledged labels")
        known = service.store.known(1, [str(k) for k in self.learned])
        for at, k in enumerate(self.learned):
            entry = known.get(str(k))
            if entry is None or entry.label is None:
                if self.times[k] >= Clocked.time - RETENTION:
                    raise Lost(f"label {k} is not known any more")
            elif entry.seq != at + 1 or float(entry.label) != Y[k]:
                raise Lost(f"label {k} of position {at + 1} became {entry.label} at {entry.seq}")
        if "s" in service.models:
            mine, other = (state_bytes(service.find(name).record) for name in "ms")
            want = [self.replay(name) for name in "ms"]
            if self.exchanged is None:
                self.exchanged = mine == want[1]
            if [mine, other] != (want[::-1] if self.exchanged else want):
                raise Lost("the states are not those of the acknowledged labels")

    def replay(self, name):
        live = Live(1, name, SPECS[name], None, 0)
        live.apply([Label(at + 1, PACKED[k], live.label(Y[k]), 1.0, None) for at, k in enumerate(self.learned)])
        return state_bytes(live.record)

    async def check_waiting(self):
        """At the end: predictions within the window still take their labels."""
        for k, at in self.waiting.items():
            (answer,) = await self.service.learn(self.service.find("m"), [{"id": f"w{k}", "label": Y[k]}])
            if at >= Clocked.time - RETENTION and "status" in answer:
                raise Lost(f"the prediction w{k} is gone: {answer}")


async def run(folder, disk):
    """The script; the clients at its end."""
    Clocked.time = 0.0
    first, second = Client(str(folder / "a.db"), disk), Client(str(folder / "b.db"), disk)
    rounds = itertools.count()

    async def work(client, count):
        for k in itertools.islice(rounds, count):
            Clocked.time += 1.0
            if k % 3 == 0:
                await client.predict(k)
            if k % 4 == 1:
                await client.predict(k, keep=True)
            await client.learn(*([k, 100 + k] if k % 5 == 0 else [k]))
            await client.learn(client.learned[-1])  # sent twice, learned once
            if k % 4 == 3:
                await client.sweep()

    os.symlink(first.path, folder / "link.db")
    await first.start()
    await first.create("m")
    await first.create("s")
    await work(first, 8)
    for name in (first.path, folder / "link.db"):
        with pytest.raises(ModelError):
            Store(name, connect=disk.connect)
    await work(first, 6)
    first.crash()
    await first.start()
    await work(first, 6)
    backup = str(folder / "backup.db")
    first.service.store.backup(backup)
    second.learned, second.times, second.models = list(first.learned), dict(first.times), ["m", "s"]
    await work(first, 2)
    if disk.kind != "large":
        await first.promote()
    await work(first, 3)
    await first.stop()

    await second.start(backup)
    with pytest.raises((ModelError, UsageError)):
        Store(second.path, connect=disk.connect, backup=backup)
    await work(second, 4)
    second.crash()
    await first.start()
    await work(first, 3)
    first.crash()
    return first, second


def tried(folder, kind, at):
    """The run with one fault, and a look at both stores on a sound disk; the fault that there was."""
    folder.mkdir()
    disk = Disk(kind, at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin, "SWEEP", 3)
        patch.setattr(writer, "CHECKPOINT_EVERY", 20)
        patch.setattr(lock, "os", disk.os)
        try:
            clients = asyncio.run(run(folder, disk))
        finally:
            disk.vfs.unregister()
    for client in clients:
        client.disk = Disk()
        try:
            asyncio.run(looked_at(client))
        finally:
            client.disk.vfs.unregister()
    return disk


async def looked_at(client):
    await client.start()
    await client.check_waiting()
    client.crash()


def test_the_run_has_everything(tmp_path):
    """Without a fault nothing is refused; and all kinds of operations are there to fail."""
    disk = tried(tmp_path / "0", "none", -1)
    counts = {what: disk.log.count(what) for what in set(disk.log)}
    assert counts["commit"] > 60 and counts["sync"] > 60 and counts["write"] > 300
    assert counts["link"] == 1 and counts["pwrite"] > 60 and counts["unlink"] >= 1


def places(log, share):
    """Numbers of operations: all that are rare, and of the others one in so many."""
    seen: dict[str, int] = {}
    for at, what in enumerate(log, 1):
        seen[what] = seen.get(what, 0) + 1
        if log.count(what) < 10 or (seen[what] + 3) % share == 0:
            yield at


@pytest.mark.parametrize("kind", ["once", "tight"])
def test_a_fault_anywhere_loses_nothing(tmp_path, kind):
    log = tried(tmp_path / "0", "none", -1).log
    hits = [what for at in places(log, 40) for what in tried(tmp_path / str(at), kind, at).hit]
    assert {"write", "commit", "link", "pwrite"} <= set(hits) and len(hits) > 20


@pytest.mark.parametrize("at", [100, 250, 400])
def test_a_disk_without_room_for_snapshots_loses_nothing(tmp_path, at):
    """Labels fit, and are acknowledged and swept; no snapshot does from here on."""
    assert len(tried(tmp_path / "0", "large", at).hit) > 1


@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ["once", "tight"])
def test_a_fault_at_every_place_loses_nothing(tmp_path, kind):
    log = tried(tmp_path / "0", "none", -1).log
    assert sum(bool(tried(tmp_path / str(at), kind, at).hit) for at in range(1, len(log) + 1)) > 300


# ---- the run itself is able to see a loss


def test_a_sweep_that_trims_too_much_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(admin, "trimmable", lambda run, mid: 10**9)
    with pytest.raises(Lost, match="refused"):
        tried(tmp_path / "0", "none", -1)


def test_trusting_a_snapshot_before_its_commit_is_seen(tmp_path, monkeypatch):
    """What may be trimmed taken from memory, where a snapshot is entered before it is stored."""
    entered: list[int] = []
    put = writer.Writer._put_snapshots

    def remembering(self, live, snapshots):
        entered.append(snapshots[0][1])
        put(self, live, snapshots)

    monkeypatch.setattr(writer.Writer, "_put_snapshots", remembering)
    monkeypatch.setattr(admin, "trimmable", lambda run, mid: entered[-2] if len(entered) > 1 else 0)
    with pytest.raises(Lost, match="refused"):
        tried(tmp_path / "0", "large", 100)


def test_an_acknowledgement_without_a_commit_is_seen(tmp_path, monkeypatch):
    commit, count = Store.commit, itertools.count()

    def sometimes(self):
        if next(count) % 10 == 5:
            self.writer.execute("ROLLBACK")
        else:
            commit(self)

    monkeypatch.setattr(Store, "commit", sometimes)
    with pytest.raises(Lost):
        tried(tmp_path / "0", "none", -1)


def test_a_label_that_is_learned_twice_is_seen(tmp_path, monkeypatch):
    """Ids forgotten before their time; the store itself refuses to hold one twice."""
    known = Store.known
    monkeypatch.setattr(Store, "known", lambda self, mid, ids: known(self, mid, [id for id in ids if id[-1] != "7"]))
    with pytest.raises(AssertionError, match="UNIQUE"):
        tried(tmp_path / "0", "none", -1)
