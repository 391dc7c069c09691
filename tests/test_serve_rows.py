"""Rows go into the store many in a statement, and the log stays short under a load that never pauses."""

from __future__ import annotations

import asyncio

from serving import SPEC, rows

from trueline.serve import admin, writer
from trueline.serve.rows import BLOCKS, parts
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Entry, Store


def entry(k, pid=None, output=None):
    made = Entry(pid, bytes([k % 256]) * 24, output, 0, 1.0)
    made.label, made.seq, made.weight = b"1.5", k + 1, 2.0
    return made


def test_every_size_of_statement_stores_rows_that_match_their_digests(tmp_path):
    """Predictions, their labels, labels with features and labels without an id, in every size of statement."""
    count = sum(BLOCKS) + 3
    store = Store(tmp_path / "s.db")
    waiting = [(f"p{k}", 1, entry(k, pid=k + 1, output=b"0.5")) for k in range(count)]
    learns = [(1, id, one) for id, _, one in waiting]
    learns += [(1, f"g{k}" if k % 2 else None, entry(count + k)) for k in range(count)]
    store.begin()
    store.fill(parts(waiting, learns, 3.0))
    store.commit()
    store.close()
    again = Store(tmp_path / "s.db")  # checks the digest of every row
    found = list(again.journal(1, 0))
    known = again.known(1, [id for _, id, _ in learns if id])
    again.close()
    assert [row[0] for row in found] == list(range(1, 2 * count + 1))
    assert [row[1] for row in found] == [id for _, id, _ in learns]
    assert [bytes(row[4]) for row in found] == [one.features for _, _, one in learns]
    assert len(known) == count + sum(k % 2 for k in range(count))
    assert all(one.label == b"1.5" and one.weight == 2.0 for one in known.values())


def test_the_log_stays_short_under_a_load_that_never_pauses(tmp_path, monkeypatch):
    """Requests wait at every moment; checkpoints and snapshots are made all the same."""
    monkeypatch.setattr(writer, "OVERDUE", 400)
    monkeypatch.setattr(writer, "CHECKPOINT_EVERY", 100)
    X, Y = rows(50)
    most = 0

    async def run():
        nonlocal most
        service = Service(Store(tmp_path / "s.db"), snapshot_every=500)
        await service.start()
        live = await admin.create(service, check(SPEC))
        done = asyncio.Event()

        def again(made, error):
            nonlocal most
            assert error is None
            most = max(most, service.store.rows)
            if live.position < 4000:
                ask()
            else:
                done.set()

        def ask():
            items = [{"features": x, "label": y} for x, y in zip(X, Y)]
            service.submit("learn", live, service.intake(live, "learn").rows(items), again)

        for _ in range(3):
            ask()
        await asyncio.wait_for(done.wait(), 60)
        saved = [row[0] for row in service.store.run("SELECT seq FROM snapshot ORDER BY seq")]
        await service.stop()
        return saved

    saved = asyncio.run(run())
    assert most <= 400 + 3 * len(X)
    assert saved and saved[-1] >= 3000
