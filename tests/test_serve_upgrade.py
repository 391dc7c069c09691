"""Stores of other versions, refused stores and backups: nothing replayed across versions, nothing changed, nothing unpickled."""

from __future__ import annotations

import asyncio
import hashlib
import json
import pickle
import shutil
import struct
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from serving import SPEC, Served, journal, rows

from trueline.errors import ModelError
from trueline.serve import admin
from trueline.serve.live import Live
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store, connect, digest

X, Y = rows(200, seed=21)
GOLDEN = Path(__file__).parent / "golden"


def learned(path, count=60, **more):
    """A store that learned labels and was stopped in order."""

    async def run():
        service = Service(Store(path), **more)
        await service.start()
        live = await admin.create(service, check(SPEC))
        for k in range(count):
            await service.learn(live, [{"id": str(k), "label": Y[k], "features": X[k]}])
        made = live.predict([struct.pack("3d", *x.values()) for x in X])
        await service.stop()
        return made

    return asyncio.run(run())


def relabelled(path, version):
    """The store as another version would have written it."""
    base = connect(str(path))
    for mid, seq, _, blob, _ in base.execute("SELECT * FROM snapshot").fetchall():
        values = (version, digest(mid, seq, version, blob), mid, seq)
        base.execute("UPDATE snapshot SET version=?, digest=? WHERE mid=? AND seq=?", values)
    base.close()


def test_an_upgrade_starts_from_the_snapshot(tmp_path, monkeypatch):
    """Stopped in order under an older version: nothing is replayed, and predictions are the same."""
    path = tmp_path / "u.db"
    want = learned(path, snapshot_every=25)
    relabelled(path, "0.0.1")
    replays = []
    monkeypatch.setattr(Live, "apply", lambda self, entries: replays.extend(entries))
    service = Service(Store(path))
    live = service.find("m")
    made = live.predict([struct.pack("3d", *x.values()) for x in X])
    service.store.close()
    assert live.position == 60 and not replays
    np.testing.assert_allclose(made, want, rtol=0, atol=1e-12)


def prints(folder):
    """Digests of the files of a store, but for SQLite's shared memory, which holds nothing."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
        if not file.name.endswith("-shm")
    }


@pytest.mark.parametrize("how", ["digest", "log", "version"])
def test_a_refused_store_is_left_as_it_was(tmp_path, how):
    (tmp_path / "first").mkdir()
    path = tmp_path / "first" / "r.db"

    async def run():
        service = Service(Store(path))
        await service.start()
        live = await admin.create(service, check(SPEC))
        await service.learn(live, [{"id": str(k), "label": Y[k], "features": X[k]} for k in range(30)])
        if how == "version":
            await service.transact(service._snapshot_all)
            await service.learn(live, [{"label": Y[31], "features": X[31]}])
        folder = shutil.copytree(tmp_path / "first", tmp_path / "crashed")  # as a crash leaves it, with its log
        await service.stop()
        return folder

    folder = asyncio.run(run())
    store = folder / "r.db"
    log = folder / "r.db-wal"
    assert log.stat().st_size > 0
    if how == "log":
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    else:
        held, base = connect(str(store), readonly=True), connect(str(store))
        held.execute("SELECT count(*) FROM journal").fetchall()  # keeps the log from being folded in
        if how == "digest":
            base.execute("UPDATE journal SET weight=2.0 WHERE seq=7")
        else:
            mid, seq, _, blob, _ = base.execute("SELECT * FROM snapshot ORDER BY seq DESC").fetchone()
            base.execute("UPDATE snapshot SET version='0.0.1', digest=?", (digest(mid, seq, "0.0.1", blob),))
        base.close()
        held.close()
    before = prints(folder)
    opened = None
    with pytest.raises(ModelError):
        opened = Store(store)
        Service(opened)
    if opened is not None:
        opened.abandon()  # as trueline serve does
    assert prints(folder) == before


def test_nothing_served_is_unpickled(tmp_path, monkeypatch):
    """A store and a model file are read back with pickle taken away."""
    path = tmp_path / "p.db"
    want = learned(path, snapshot_every=25)

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    service = Service(Store(path))
    made = service.find("m").predict([struct.pack("3d", *x.values()) for x in X])
    service.store.close()
    assert made == want


LEARNERS = {
    "m": SPEC["learner"],
    "free": None,
    "rls": {"kind": "recursive"},
    "yes": {"geometry": "adaptive", "rate": 0.1},
}


def make_golden(folder):
    """How tests/golden/store_1.db was made, and what it predicts; stopped in order, under the name of an older version."""

    async def run():
        service = Service(Store(folder / "store_1.db"))
        await service.start()
        for name, learner in LEARNERS.items():
            more = {"learner": learner} if learner else {}
            spec = {k: v for k, v in SPEC.items() if k != "learner"} | {"name": name} | more
            live = await admin.create(service, check(spec | ({"task": "classification"} if name == "yes" else {})))
            for k in range(60):
                label = Y[k] if name != "yes" else int(Y[k] > 0)
                await service.learn(live, [{"id": str(k), "label": label, "features": X[k]}])
        told = {name: live.predict(packed(20)) for name, live in service.models.items()}
        await service.stop()
        return told

    (folder / "store_1.json").write_text(json.dumps(asyncio.run(run())))
    relabelled(folder / "store_1.db", "0.0.1")
    for ending in ("-wal", "-shm", ".lock"):
        (folder / f"store_1.db{ending}").unlink(missing_ok=True)


def packed(count):
    return [struct.pack("3d", *x.values()) for x in X[:count]]


def test_a_store_of_an_earlier_day(tmp_path):
    """It was written by the code of its day and by name by an older version: what its learners learned is learned again
    from its journal, the same predictions to 1e-12; then it goes on."""
    path = shutil.copy(GOLDEN / "store_1.db", tmp_path / "s.db")
    service = Service(Store(path))
    for name, want in json.loads((GOLDEN / "store_1.json").read_text()).items():
        np.testing.assert_allclose(service.find(name).predict(packed(20)), want, rtol=0, atol=1e-12, err_msg=name)
        assert service.find(name).position == 60
    service.store.close()
    with Served(tmp_path, spec=None, store="s.db") as server:
        assert server.post("free/learn", {"id": "7", "label": Y[7]}).json()["replay"]
        assert server.post("free/learn", {"id": "n", "label": 1.0, "features": X[0]}).json()["position"] == 61


def test_a_learner_of_an_older_layout_with_labels_of_another_is_refused(tmp_path, monkeypatch):
    path = shutil.copy(GOLDEN / "store_1.db", tmp_path / "s.db")
    found = Store.models
    monkeypatch.setattr(Store, "models", lambda self: [(*row[:4], 5) for row in found(self)])
    with pytest.raises(ModelError, match="older layout"):
        Service(Store(path))


def test_a_backup_under_load_is_whole(tmp_path):
    """Taken while labels arrive: a sound store that holds a beginning of the journal."""
    with Served(tmp_path) as server:
        done = threading.Event()
        sent = []

        def load():
            while not done.is_set():
                k = len(sent)
                body = [{"id": f"{k}-{j}", "features": X[j], "label": Y[j]} for j in range(50)]
                sent.append(server.post("m/learn", body).raise_for_status().json()["position"])

        thread = threading.Thread(target=load)
        thread.start()
        backups = []
        with httpx.Client(base_url=server.address, timeout=60) as http:
            for _ in range(3):
                before = len(sent)
                backups.append((before, http.get("/v1/backup").raise_for_status().content))
        done.set()
        thread.join(60)
    for k, (before, raw) in enumerate(backups):
        path = tmp_path / f"b{k}.db"
        path.write_bytes(raw)
        service = Service(Store(path))
        position = service.find("m").position
        service.store.close()
        assert 50 * before <= position <= sent[-1] and position % 50 == 0
        assert [e[0] for e in journal(path)] == list(range(1, position + 1))


def test_durability_is_what_was_asked_for(tmp_path):
    """full syncs at every commit; process leaves that out, and survives kill −9 all the same."""
    for durability, level in (("full", 2), ("process", 0)):
        store = Store(tmp_path / f"{durability}.db", durability)
        assert store.writer.execute("PRAGMA synchronous").fetchone() == (level,)
        store.close()
    with Served(tmp_path, "--durability", "process") as server:
        for k in range(20):
            server.post("m/learn", {"id": str(k), "features": X[k], "label": Y[k]}).raise_for_status()
        server.kill()
    with Served(tmp_path) as server:
        assert server.http.get("/v1/models/m").json()["position"] == 20


if __name__ == "__main__":
    make_golden(GOLDEN)
