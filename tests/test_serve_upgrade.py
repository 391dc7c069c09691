"""Stores of other versions, refused stores and backups: nothing replayed across versions, nothing changed, nothing unpickled."""

from __future__ import annotations

import asyncio
import shutil
import struct
import threading
from pathlib import Path

import httpx
import pytest
from serving import SPEC, Served, journal, rows

from trueline.errors import ModelError
from trueline.serve import admin
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
