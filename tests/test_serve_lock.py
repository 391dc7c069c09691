"""One process holds a store, under whatever name it opens it; a restore overwrites and removes nothing of others."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import shutil
import threading
import time

import pytest
from serving import SPEC, Served, journal, rows, wait_for

from trueline.errors import ModelError, UsageError
from trueline.serve import admin, lock
from trueline.serve.intake import Refused
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store

X, Y = rows(60, seed=3)


def learn(service, first, last):
    """Labels first … last − 1, all acknowledged."""

    async def run():
        await service.start()
        live = service.models.get("m") or await admin.create(service, check(SPEC))
        items = [{"id": str(k), "label": Y[k], "features": X[k]} for k in range(first, last)]
        answers = await service.learn(live, items)
        assert [one["position"] for one in answers] == list(range(first + 1, last + 1))
        service._task.cancel()

    asyncio.run(run())


def learned(path, count):
    """A store that learned labels and was closed in order."""
    service = Service(Store(path))
    learn(service, 0, count)
    service.store.close()
    return path


def positions(path):
    service = Service(Store(path))
    position = service.find("m").position
    service.store.abandon()
    return position


OTHER_NAMES = {
    "its own": lambda path: path,
    "symbolic link": lambda path: linked(os.symlink, path),
    "link to a link": lambda path: linked(os.symlink, linked(os.symlink, path)),
    "folder by a link": lambda path: linked(os.symlink, path.parent) / path.name,
    "hard link": lambda path: linked(os.link, path),
    "lock removed": lambda path: without_lock(path),
    "hard link, lock removed": lambda path: linked(os.link, without_lock(path)),
}


def linked(how, path):
    to = path.parent.parent / f"{path.name}-{len(list(path.parent.parent.iterdir()))}"
    how(path, to)
    return to


def without_lock(path):
    os.unlink(f"{path}.lock")
    return path


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_second_server_is_refused_under_any_name(tmp_path, name):
    """The first goes on, crashes, and starts again under its own name with everything."""
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "s.db"
    first = Service(Store(path))
    learn(first, 0, 20)
    other = OTHER_NAMES[name](path)
    before = sorted(os.listdir(other.parent))
    with pytest.raises(ModelError, match="in use by another server"):
        Store(other)
    assert sorted(os.listdir(other.parent)) == before
    learn(first, 20, 40)
    first.store.abandon()  # as a crash: the log is left
    assert os.path.getsize(f"{path}-wal") > 0
    if name.startswith("hard link"):
        with pytest.raises(ModelError, match=rf"second name .* own name, {path}"):
            Store(other)
    elif name != "its own":
        assert positions(other) == 40
    assert positions(path) == 40
    assert [entry[1] for entry in journal(path)] == [str(k) for k in range(40)]


def test_a_second_server_process_is_refused(tmp_path):
    """The same between processes, through a link and without the lock file."""
    with Served(tmp_path) as server:
        for k in range(10):
            server.post("m/learn", {"id": str(k), "label": Y[k], "features": X[k]}).raise_for_status()
        os.symlink(tmp_path / "state.db", tmp_path / "link.db")
        os.unlink(tmp_path / "state.db.lock")
        for name in ("link.db", "state.db"):
            with pytest.raises(RuntimeError, match="in use by another server"):
                Served(tmp_path, store=name)
        server.post("m/learn", {"id": "more", "label": 1.0, "features": X[0]}).raise_for_status()
        server.kill()
    assert positions(tmp_path / "state.db") == 11


def test_locks_of_the_process_hold_too(tmp_path, monkeypatch):
    """Where there are no locks of a descriptor: SQLite gives the lock back while it opens a store, and it is taken again."""
    monkeypatch.setattr(lock, "_BY_DESCRIPTOR", None)
    path = tmp_path / "s.db"
    store = Store(path)
    os.unlink(f"{path}.lock")

    def second():
        with pytest.raises(ModelError, match="in use by another server"):
            Store(path)

    process = multiprocessing.get_context("fork").Process(target=second)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    store.close()
    assert Store(path).close() is None


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_nothing_is_acknowledged_that_the_next_start_would_not_find(tmp_path, ending):
    """The database or its log is moved away under a running service: 503, and it stops."""
    service = Service(Store(tmp_path / "s.db"))
    learn(service, 0, 10)
    os.rename(tmp_path / f"s.db{ending}", tmp_path / "away")
    with pytest.raises(Refused) as refused:
        learn(service, 10, 20)
    assert refused.value.status == 503 and "moved or removed" in service.failed
    service.store.abandon()


@pytest.mark.parametrize("left", ["-wal", ".lock"])
def test_no_empty_store_begins_where_one_was(tmp_path, left):
    """SQLite would throw away a log without a database, and the labels in it."""
    service = Service(Store(tmp_path / "s.db"))
    learn(service, 0, 10)
    service.store.abandon()
    os.unlink(tmp_path / "s.db")
    for ending in {"-wal", ".lock", "-shm"} - {left}:
        os.unlink(tmp_path / f"s.db{ending}")
    before = (tmp_path / f"s.db{left}").read_bytes()
    with pytest.raises(ModelError, match=f"s.db{left} shows that there was one"):
        Store(tmp_path / "s.db")
    assert (tmp_path / f"s.db{left}").read_bytes() == before and not (tmp_path / "s.db").exists()


def test_a_moved_store_and_a_copied_one_open(tmp_path):
    """Only a second name of one file is refused."""
    path = learned(tmp_path / "a.db", 10)
    os.rename(path, tmp_path / "b.db")
    service = Service(Store(tmp_path / "b.db"))
    learn(service, 10, 20)
    service.store.close()
    shutil.copy(tmp_path / "b.db", tmp_path / "c.db")
    assert positions(tmp_path / "b.db") == positions(tmp_path / "c.db") == 20


# ---- restore


class Restoring:
    """A restore from a pipe that is fed by hand, in a thread of its own."""

    def __init__(self, tmp_path, raw, store):
        self.raw, self.pipe, self.result = raw, tmp_path / f"pipe{len(list(tmp_path.iterdir()))}", None
        os.mkfifo(self.pipe)
        self.thread = threading.Thread(target=self.run, args=(store,), daemon=True)
        self.thread.start()
        self.feed = open(self.pipe, "wb")  # noqa: SIM115 closed by finish
        self.feed.write(raw[:5000])
        self.feed.flush()
        wait_for(lambda: list(store.parent.glob(f"{store.name}.*.part")))

    def run(self, store):
        try:
            self.result = Store(store, backup=str(self.pipe))
        except Exception as error:
            self.result = error

    def finish(self):
        with contextlib.suppress(BrokenPipeError):
            self.feed.write(self.raw[5000:])
        self.feed.close()
        self.thread.join(30)
        return self.result


def left_in(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_server_that_starts_while_a_backup_is_copied_is_refused(tmp_path):
    raw = learned(tmp_path / "old.db", 30).read_bytes()
    folder = tmp_path / "new"
    folder.mkdir()
    restoring = Restoring(tmp_path, raw, folder / "new.db")
    with pytest.raises(ModelError, match="in use by another server"):
        Store(folder / "new.db")
    with pytest.raises(ModelError, match="in use by another server"):
        Store(folder / "new.db", backup=str(tmp_path / "old.db"))
    service = Service(restoring.finish())
    learn(service, 30, 40)
    service.store.close()
    assert positions(folder / "new.db") == 40 and positions(tmp_path / "old.db") == 30


def test_a_restore_removes_no_file_of_others(tmp_path):
    """A file that appears while the backup is copied stays; the restore takes its own away and nothing else."""
    raw = learned(tmp_path / "old.db", 30).read_bytes()
    folder = tmp_path / "new"
    folder.mkdir()
    restoring = Restoring(tmp_path, raw, folder / "new.db")
    (folder / "new.db").write_bytes(raw)
    assert isinstance(restoring.finish(), UsageError)
    assert left_in(folder) == ["new.db"] and (folder / "new.db").read_bytes() == raw
    assert positions(folder / "new.db") == 30


def test_a_restore_at_a_running_server_is_refused(tmp_path):
    backup = learned(tmp_path / "old.db", 30)
    (tmp_path / "live").mkdir()
    service = Service(Store(tmp_path / "live" / "s.db"))
    learn(service, 0, 10)
    os.unlink(tmp_path / "live" / "s.db.lock")
    for _ in range(2):
        with pytest.raises((ModelError, UsageError), match="never overwrites"):
            Store(tmp_path / "live" / "s.db", backup=str(backup))
    learn(service, 10, 20)
    service.store.abandon()
    assert positions(tmp_path / "live" / "s.db") == 20


def test_two_restores_at_once_end_with_one_store(tmp_path):
    backup = str(learned(tmp_path / "old.db", 30))
    for trial in range(12):
        path, results = tmp_path / f"{trial}.db", []
        start = threading.Barrier(3)

        def restore(path=path, results=results, start=start):
            start.wait()
            try:
                results.append(Store(path, backup=backup))
            except (ModelError, UsageError) as error:
                results.append(error)

        threads = [threading.Thread(target=restore) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        stores = [one for one in results if isinstance(one, Store)]
        assert len(results) == 3 and len(stores) == 1, results
        service = Service(stores[0])
        learn(service, 30, 31)
        service.store.abandon()
        assert positions(path) == 31
        assert not list(tmp_path.glob("*.part"))


def test_a_restore_that_was_killed_can_be_repeated(tmp_path):
    backup = learned(tmp_path / "old.db", 30)
    (tmp_path / "new.db.lock").touch()
    (tmp_path / "new.db.0badcafe.part").write_bytes(backup.read_bytes()[:7000])
    store = Store(tmp_path / "new.db", backup=str(backup))
    store.close()
    assert positions(tmp_path / "new.db") == 30
    with pytest.raises(UsageError, match="never overwrites"):
        Store(tmp_path / "new.db", backup=str(backup))
    os.unlink(tmp_path / "new.db")
    with pytest.raises(
        UsageError, match="never overwrites"
    ):  # the lock file holds the number of an acknowledged commit
        Store(tmp_path / "new.db", backup=str(backup))


@pytest.mark.parametrize(
    "raw",
    [None, b"", b"not a store at all", b"SQLite format 3\0" + b"\1" * 5000],
    ids=["none", "empty", "text", "damaged"],
)
def test_a_backup_that_cannot_be_used_leaves_nothing(tmp_path, raw):
    backup, folder = tmp_path / "backup.db", tmp_path / "new"
    folder.mkdir()
    if raw is not None:
        backup.write_bytes(raw)
    with pytest.raises((ModelError, UsageError)):
        Store(folder / "new.db", backup=str(backup))
    assert left_in(folder) == []


def contend(names, backup, seed, acknowledged):
    """Open the store under one of its names, commit a few rows, let go in order or as in a crash; many times."""
    rng = random.Random(seed)
    with open(acknowledged, "a") as told:
        opened = 0
        for life in range(400):
            try:
                store = Store(rng.choice(names), backup=str(backup) if rng.random() < 0.2 else None)
            except (ModelError, UsageError):
                time.sleep(0.002 * rng.random())
                continue
            os.close(os.open(f"{acknowledged.parent}/held", os.O_CREAT | os.O_EXCL))  # there is no other now
            for k in range(rng.randrange(1, 4)):
                if rng.random() < 0.3:
                    with contextlib.suppress(OSError):
                        os.unlink(f"{names[0]}.lock")
                store.begin()
                store.put("expired", [(1, f"{seed}-{life}-{k}", 0.0)])
                store.seal()
                store.commit()
                told.write(f"{seed}-{life}-{k}\n")
                told.flush()
            os.unlink(f"{acknowledged.parent}/held")
            (store.close if rng.random() < 0.5 else store.abandon)()
            opened += 1
            if opened == 15:
                break


def test_many_processes_on_one_store_under_many_names(tmp_path):
    """With restores among them and the lock file removed at any moment: one at a time, and nothing is lost."""
    backup = learned(tmp_path / "old.db", 3)
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "s.db"
    Store(path).close()
    names = [path, path, linked(os.symlink, path), linked(os.link, path), linked(os.symlink, path.parent) / "s.db"]
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=contend, args=(names, backup, k, tmp_path / f"{k}.txt")) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    said = [line for k in range(3) for line in (tmp_path / f"{k}.txt").read_text().split()]
    store = Store(path)
    found = [row[0] for row in store.run("SELECT id FROM expired")]
    store.close()
    assert sorted(found) == sorted(said) and len(said) > 40
    assert not list((tmp_path / "home").glob("*.part"))
