"""A store that was truncated, flipped or written by another version: refused by name, or harmless; never served wrong."""

from __future__ import annotations

import asyncio
import random
import shutil

import pytest
from serving import SPEC, rows, state_bytes

from trueline.errors import ModelError
from trueline.serve import admin
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store, connect, digest

X, Y = rows(60, seed=5)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A closed store with snapshots, a journal after them and waiting predictions."""
    folder = tmp_path_factory.mktemp("sound")

    async def run():
        service = Service(Store(folder / "s.db"), snapshot_every=20)
        await service.start()
        live = await admin.create(service, check(SPEC))
        await service.predict(live, [{"id": str(k), "features": X[k]} for k in range(60)])
        for k in range(50):
            await service.learn(live, [{"id": str(k), "label": Y[k]}])
        service._task.cancel()
        service.store.close()

    asyncio.run(run())
    return folder / "s.db"


def opened(path):
    """(position, state, answers) of a store, or the refusal."""
    try:
        service = Service(Store(path))
    except ModelError as error:
        assert str(path) in error.message or "snapshot" in error.message or "journal" in error.message, error.message
        return None
    live = service.find("m")
    known = service.store.known(1, [str(k) for k in range(60)])
    made = (
        live.position,
        state_bytes(live.record),
        {id: (e.pid, e.features, e.output, e.position, e.seq, e.label) for id, e in known.items()},
    )
    service.store.abandon()
    return made


def damage(sound, tmp_path, count):
    raw = sound.read_bytes()
    want = opened(shutil.copy(sound, tmp_path / "whole.db"))
    rng = random.Random(2)
    refused = 0
    for k in range(count):
        at = rng.randrange(len(raw))
        bad = raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :] if k % 4 else raw[:at]
        path = tmp_path / f"bad{k}.db"
        path.write_bytes(bad)
        found = opened(path) if bad else None
        refused += found is None
        assert found is None or found == want, f"served wrong after damage at {at}"
        for ending in ("", "-wal", "-shm", ".lock"):
            (tmp_path / f"bad{k}.db{ending}").unlink(missing_ok=True)
    return refused


def test_damage_is_refused_or_harmless(sound, tmp_path):
    assert damage(sound, tmp_path, 160) > 60


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_damage_at_many_places(sound, tmp_path):
    assert damage(sound, tmp_path, 20_000) > 8000


def test_another_version_replays_nothing(sound, tmp_path):
    path = shutil.copy(sound, tmp_path / "v.db")
    base = connect(str(path))
    for row in base.execute("SELECT * FROM snapshot").fetchall():
        old = (row[0], row[1], "0.0.1", row[3])
        base.execute("UPDATE snapshot SET version=?, digest=? WHERE seq=?", ("0.0.1", digest(*old), row[1]))
    base.close()
    with pytest.raises(ModelError, match=r"0\.0\.1"):
        Service(Store(path))


def test_a_flipped_description_of_a_table_is_refused(sound, tmp_path):
    """A bit in the text that says what the columns are called, which SQLite itself does not notice."""
    raw = sound.read_bytes()
    at = raw.index(b"label BLOB, weight REAL")
    for k, bit in ((12, 1), (0, 2), (6, 4)):
        (tmp_path / "f.db").write_bytes(raw[: at + k] + bytes([raw[at + k] ^ bit]) + raw[at + k + 1 :])
        with pytest.raises(ModelError, match="tables of the store"):
            Store(tmp_path / "f.db")
