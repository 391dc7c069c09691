"""What the service promises when things break: none lost, none twice, never served wrong."""

from __future__ import annotations

import asyncio
import contextlib
import http.client as http_client
import json
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import httpx
import pytest
from faulty import Disk
from serving import SPEC, Nursery, Served, journal, memory, replayed, rows, state_bytes

from trueline.errors import ModelError
from trueline.serve import admin
from trueline.serve.intake import Refused
from trueline.serve.service import Service
from trueline.serve.spec import check, restore
from trueline.serve.store import Store, connect

X, Y = rows(4000, seed=5)
PACKED = [struct.pack("3d", *x.values()) for x in X]


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("nursery"))
    yield made
    made.close()


# ---- kill −9


class Load(threading.Thread):
    """Sends labels until the server dies; remembers which were acknowledged and which are in doubt."""

    def __init__(self, address: str, name: str, start: int) -> None:
        super().__init__()
        self.address, self.who, self.next = address, name, start
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.doubtful: list[tuple[str, int]] = []

    def run(self) -> None:
        http = http_client.HTTPConnection(self.address.removeprefix("http://"), timeout=10)

        def post(verb: str, body: dict) -> dict:
            http.request("POST", f"/v1/models/m/{verb}", json.dumps(body))
            answer = http.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise OSError(text)
            return json.loads(text)

        with contextlib.closing(http):
            while True:
                k = self.next
                id = f"{self.who}-{k}"
                body = {"id": id, "label": Y[k % 4000]}
                try:
                    if k % 3:
                        post("predict", {"id": id, "features": X[k % 4000]})
                    else:
                        body["features"] = X[k % 4000]
                    self.doubtful.append((id, k))
                    answer = post("learn", body)
                except (OSError, http_client.HTTPException):
                    return
                self.doubtful.pop()
                self.acknowledged[id] = (k, answer["position"])
                self.next += 1


def killed(nursery, store, rounds, seed):
    """Kill servers under load; the acknowledged labels by id."""
    rng = random.Random(seed)
    known: dict[str, tuple[int, int]] = {}
    doubtful: list[tuple[str, int]] = []
    starts = [0, 10_000]
    http = httpx.Client(timeout=10, limits=httpx.Limits(max_keepalive_connections=0))
    for _ in range(rounds):
        pid, address = nursery.start(str(store), "--snapshot-every", "37")
        for id, k in doubtful:  # in doubt: asked again with the same id, and never learned twice
            again = {"id": id, "label": Y[k % 4000], "features": X[k % 4000]}
            answer = http.post(f"{address}/v1/models/m/learn", json=again).raise_for_status()
            known[id] = (k, answer.json()["position"])
        loads = [Load(address, f"w{w}", starts[w]) for w in range(2)]
        for load in loads:
            load.start()
        time.sleep(rng.uniform(0.005, 0.3))
        nursery.kill(pid)
        doubtful = []
        for w, load in enumerate(loads):
            load.join(20)
            known |= load.acknowledged
            doubtful += load.doubtful
            starts[w] = load.next + 1
    return known


def check_killed(nursery, store, known):
    pid, address = nursery.start(str(store))
    with httpx.Client(base_url=address, timeout=30) as http:
        raw = http.get("/v1/models/m/snapshot").content
        some = list(known.items())[:: max(1, len(known) // 50)]
        for id, (k, position) in some:  # across crashes too, the same id is one update
            answer = http.post("/v1/models/m/learn", json={"id": id, "label": Y[k % 4000]}).json()
            assert answer.get("replay") and answer["position"] == position
    nursery.kill(pid, signal.SIGTERM)
    entries = journal(store)
    assert [e[0] for e in entries] == list(range(1, len(entries) + 1))
    ids = [e[1] for e in entries]
    assert len(set(ids)) == len(ids), "learned twice"
    place = {e[1]: e for e in entries}
    for id, (k, position) in known.items():
        assert id in place, f"{id} was acknowledged and lost"
        assert place[id][0] == position and place[id][2] == Y[k % 4000]
    order = [int(id.rpartition("-")[2]) % 4000 for id in ids]
    assert state_bytes(restore(raw, "snapshot")) == replayed([(PACKED[k], Y[k]) for k in order])
    return len(known)


def test_kill_nine_fifty_times(nursery, tmp_path):
    known = killed(nursery, tmp_path / "k.db", 50, 1)
    assert check_killed(nursery, tmp_path / "k.db", known) > 200


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_kill_nine_two_thousand_times(nursery, tmp_path):
    for part in range(20):
        known = killed(nursery, tmp_path / f"k{part}.db", 100, part)
        assert check_killed(nursery, tmp_path / f"k{part}.db", known) > 200


# ---- a failing disk


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


# ---- a damaged store


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


def test_a_damaged_log_is_refused(nursery, tmp_path):
    """SQLite takes a broken log for a crash before the commit; the mark beside the store knows better."""
    store = tmp_path / "w.db"
    pid, address = nursery.start(str(store))
    with httpx.Client(base_url=address) as http:
        for k in range(30):
            http.post("/v1/models/m/learn", json={"id": str(k), "label": Y[k], "features": X[k]}).raise_for_status()
    nursery.kill(pid)
    whole = shutil.copytree(tmp_path, tmp_path.parent / "whole")
    log = tmp_path / "w.db-wal"
    raw = log.read_bytes()
    log.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(ModelError, match="acknowledged"):
        Store(store)
    assert Service(Store(whole / "w.db")).find("m").position == 30


def test_a_second_server_refuses(nursery, tmp_path):
    pid, _ = nursery.start(str(tmp_path / "two.db"))
    with pytest.raises(RuntimeError, match="in use by another server"):
        nursery.start(str(tmp_path / "two.db"))
    nursery.kill(pid)
    pid, _ = nursery.start(str(tmp_path / "two.db"))  # a crash gives the lock back
    nursery.kill(pid)


def test_another_version_replays_nothing(sound, tmp_path):
    path = shutil.copy(sound, tmp_path / "v.db")
    base = connect(str(path))
    from trueline.serve.store import digest

    for row in base.execute("SELECT * FROM snapshot").fetchall():
        old = (row[0], row[1], "0.0.1", row[3])
        base.execute("UPDATE snapshot SET version=?, digest=? WHERE seq=?", ("0.0.1", digest(*old), row[1]))
    base.close()
    with pytest.raises(ModelError, match=r"0\.0\.1"):
        Service(Store(path))


def test_clock_jumps_have_no_effect(nursery, tmp_path, monkeypatch):
    """The service asks no wall clock: years forward and back between two calls expire nothing."""

    async def run():
        service = Service(Store(tmp_path / "c.db"), retention=60.0)
        await service.start()
        live = await admin.create(service, check(SPEC))
        await service.predict(live, [{"id": "u", "features": X[0]}])
        for year in (1980, 2100):
            monkeypatch.setattr(time, "time", lambda year=year: (year - 1970) * 3.2e7)
            await admin.sweep(service)
        assert (await service.learn(live, [{"id": "u", "label": 1.0}]))[0]["position"] == 1
        await service.stop()

    asyncio.run(run())


# ---- clients that misbehave


def p99(http, count=200):
    took = []
    for k in range(count):
        start = time.perf_counter()
        http.post("/v1/models/m/predict", json={"features": X[k]}).raise_for_status()
        took.append(time.perf_counter() - start)
    return sorted(took)[int(0.99 * count)]


def slow_sockets(address, count):
    """Sockets that say nothing, stop within the headers, or stop within the body."""
    host, port = address.removeprefix("http://").split(":")
    sockets = []
    for k in range(count):
        one = socket.create_connection((host, int(port)), timeout=10)
        one.sendall(
            [
                b"",
                b"POST /v1/models/m/learn HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                b"POST /v1/models/m/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90\r\n\r\n{",
            ][k % 3]
        )
        sockets.append(one)
    return sockets


def test_slow_and_idle_sockets(tmp_path):
    """Windows with 1,000 slow sockets and without them take turns; the medians of their p99 are compared."""
    with Served(tmp_path) as server:
        p99(server.http, 100)
        alone, beside = [], []
        for turn in range(5):
            alone.append(p99(server.http))
            sockets = slow_sockets(server.address, 1000)
            try:
                beside.append(p99(server.http))
                if turn == 4:
                    sockets[1].settimeout(20)
                    assert b" 408 " in sockets[1].recv(200)  # slow headers are cut off
            finally:
                for one in sockets:
                    one.close()
        assert statistics.median(beside) < 2.0 * statistics.median(alone), (alone, beside)


def test_hostile_bodies(tmp_path):
    with Served(tmp_path) as server:
        post = server.http.post
        url = "/v1/models/m/predict"
        post(url, json={"features": X[0]})
        before = memory(server.process.pid)
        import gzip

        giant = b'{"features":{"a":' + b"1" * (20 << 20) + b"}}"
        for _ in range(3):
            with contextlib.suppress(httpx.WriteError):  # it may be cut off while it is sending
                assert post(url, content=giant).status_code == 413
        for body, status in (
            (b"[" * 1_000_000, 400), (b'{"a":' * 200_000, 400), (b'{"features":' + b'{"a":' * 50_000, 400), (b"\xff\xfe", 400), (b"", 400),
            (b"{", 400), (b'{"features":{"a":"\\ud800","b":1,"c":1}}', 400), (json.dumps({"features": {f"f{k}": 1 for k in range(20_000)}}).encode(), 422),
            (json.dumps([{"features": X[0]}] * 10_001).encode(), 422), (json.dumps({"features": X[0], "id": "x" * 5000}).encode(), 422),
        ):  # fmt: skip
            assert post(url, content=body).status_code == status, body[:40]
        bomb = gzip.compress(b"0" * (50 << 20))
        assert post(url, content=bomb, headers={"content-encoding": "gzip"}).status_code == 415
        assert post(url, content=b"{}", headers={"x-big": "y" * 40_000}).status_code == 431
        assert post(url, content=b"{}", headers={f"x-{k}": "y" for k in range(200)}).status_code == 431
        assert post("/v1/models/..%2f..%2fetc%2fpasswd/predict", content=b"{}").status_code == 404
        assert memory(server.process.pid) - before < 50 << 20
        assert post(url, json={"features": X[0]}).status_code == 200


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_a_soak_of_a_million_labels(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    with Served(tmp_path, "--retention", "20s", "--snapshot-every", "20000") as server:
        G, sizes = np.zeros((5, 5)), []
        for step in range(1000):
            data = rng.normal(size=(1000, 3))
            y = data @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=1000)
            body = [
                {"id": f"{step}-{k}", "features": dict(zip("abc", x)), "label": v}
                for k, (x, v) in enumerate(zip(data.tolist(), y.tolist()))
            ]
            server.post("m/learn", body).raise_for_status()
            Z = np.column_stack([np.ones(1000), data, y])
            G += Z.T @ Z
            if step % 50 == 49:
                sizes.append(memory(server.process.pid))
        found = server.http.get("/v1/models/m/certificate").json()["certificate"]
        best = np.linalg.solve(G[:4, :4], G[:4, 4])
        assert np.abs(np.array(found["comparator"]) - best).max() < 1e-9
        assert max(sizes[10:]) < 1.1 * sizes[9] + (16 << 20)
