"""A disk that fails, fills up or loses power: refuse or stop, and lose nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import struct
import subprocess
import sys

import httpx
import pytest
from faulty import Disk
from serving import SPEC, journal, replayed, rows, state_bytes

from trueline.serve import admin
from trueline.serve.intake import Refused
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store, StoreFull

X, Y = rows(4000, seed=5)
PACKED = [struct.pack("3d", *x.values()) for x in X]


async def served_on(disk, path, labels=12):
    """Run labels through a service on this disk; those acknowledged, and the service."""
    acknowledged = []
    store = Store(path, connect=disk.connect)
    disk.making = bool(disk.hit)
    service = Service(store, snapshot_every=5)
    await service.start()
    try:
        if "m" not in service.models:
            await admin.create(service, check(SPEC))
        for k in range(labels):
            if k == labels - 3:
                disk.lifted = True
            try:
                live = service.find("m")
                if k % 2:
                    await service.predict(live, [{"id": str(k), "features": X[k]}])
                answer = await service.learn(live, [{"id": str(k), "label": Y[k], "features": X[k]}])
                acknowledged.append((k, answer[0]["position"]))
            except Refused as refused:
                assert refused.status in (503, 507)
        await asyncio.sleep(0)
    finally:
        await service.stop()
    return acknowledged, service


def after(path, acknowledged):
    """Recover on a sound disk: every acknowledged label is there, once, and the state is its replay."""
    service = Service(Store(path))
    if acknowledged:
        entries = journal(path)
        ids = [e[1] for e in entries]
        assert len(ids) == len(set(ids))
        for k, position in acknowledged:
            assert entries[position - 1][0] == position and ids[position - 1] == str(k)
        live = service.find("m")
        assert live.position == len(entries)
        assert state_bytes(live.record) == replayed([(PACKED[int(i)], Y[int(i)]) for i in ids])
    service.store.close()


@pytest.mark.parametrize("kind", ["once", "ever", "sync", "full"])
def test_a_fault_at_every_operation(tmp_path, kind):
    """Error once, for ever, in fsync, and a full disk: stop or refuse, and lose nothing."""
    disk = Disk()
    asyncio.run(served_on(disk, str(tmp_path / "0.db")))
    total = disk.count
    assert total > 60
    hits, kept = 0, 0
    for at in range(1, total + 1):
        path = str(tmp_path / f"{at}.db")
        disk = Disk(kind, at)
        try:
            acknowledged, service = asyncio.run(served_on(disk, path))
        except Exception as error:  # the store could not even be opened or the model made: nothing was promised
            assert type(error).__name__ in ("ModelError", "StoreFailure", "StoreFull", "Refused"), error
            continue
        finally:
            disk.vfs.unregister()
            # While SQLite makes a new file it may try again by itself; nothing is promised yet.
            assert disk.making or disk.syncs_after == 0, "an fsync that failed was tried again"
        if disk.hit:
            hits += 1
            if kind == "sync" and not disk.making:
                assert service.failed is not None
            if kind == "full":
                assert service.failed is None and (not acknowledged or acknowledged[-1][0] == 11), (
                    "goes on when there is room again"
                )
        kept += len(acknowledged)
        after(path, acknowledged)
    assert hits > 10 and kept > 20


def test_a_power_cut_loses_nothing_acknowledged(tmp_path):
    """Only what was synced survives: after each acknowledgement, start from that."""
    keep = tmp_path / "kept"
    keep.mkdir()
    disk = Disk(keep=keep)
    seen = []

    async def run():
        service = Service(Store(str(tmp_path / "p.db"), connect=disk.connect), snapshot_every=5)
        await service.start()
        await admin.create(service, check(SPEC))
        for k in range(24):
            live = service.find("m")
            if k % 2:
                await service.predict(live, [{"id": str(k), "features": X[k]}])
            answer = await service.learn(live, [{"id": str(k), "label": Y[k], "features": X[k]}])
            seen.append((k, answer[0]["position"]))
            if k % 3 == 0:
                cut = tmp_path / f"cut{k}"
                shutil.copytree(keep, cut)
                after(cut / "p.db", seen)
        await service.stop()

    asyncio.run(run())
    disk.vfs.unregister()
    assert len(seen) == 24


def test_a_backup_without_room_is_told_as_such(tmp_path, monkeypatch):
    """The copy fails, not the store: what is being written to it goes on."""
    store = Store(tmp_path / "s.db")
    store.begin()
    store.put("expired", [(1, "a", 0.0)])
    connect = sqlite3.connect

    class Small(sqlite3.Connection):
        def backup(self, target, **more):
            target.execute("PRAGMA max_page_count=2")
            target.execute(
                "CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 9999) SELECT i FROM n"
            )

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k | {"factory": Small}))
    with pytest.raises(StoreFull):
        store.backup(str(tmp_path / "copy.db"))
    monkeypatch.undo()
    store.seal()
    store.commit()
    assert [row[1] for row in store.run("SELECT * FROM expired")] == ["a"]
    store.close()


def test_the_server_exits_when_the_disk_fails(tmp_path):
    """RLIMIT_FSIZE makes a write fail in a real server: 503 or 507, nothing lost, and it does not hang."""
    limit = f"import resource,sys; resource.setrlimit(resource.RLIMIT_FSIZE,(400000,400000)); import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); sys.argv=['trueline','serve','--store',{str(tmp_path / 'f.db')!r},'--port','0','--json','--features',{str(tmp_path / 's.json')!r}]; from trueline.cli import main; sys.exit(main())"
    (tmp_path / "s.json").write_text(json.dumps(SPEC))
    process = subprocess.Popen([sys.executable, "-c", limit], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = json.loads(process.stdout.readline())["address"]
    acknowledged = []
    with httpx.Client(base_url=address, timeout=10) as http:
        for k in range(4000):
            try:
                answer = http.post("/v1/models/m/learn", json={"id": str(k), "label": Y[k], "features": X[k]})
            except httpx.HTTPError:
                break
            if answer.status_code != 200:
                assert answer.status_code in (503, 507)
                break
            acknowledged.append((k, answer.json()["position"]))
    if process.poll() is None and answer.status_code == 507:
        process.terminate()
    code = process.wait(20)
    text = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert "Traceback" not in text
    assert code != 0 or answer.status_code == 507
    assert len(acknowledged) > 10
    after(str(tmp_path / "f.db"), acknowledged)
