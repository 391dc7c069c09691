"""Slow, rude and enormous clients, clocks that jump, and a million labels: the service stays as it is."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import time

import httpx
import numpy as np
import pytest
from serving import SPEC, Served, memory, rows

from trueline.serve import admin
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store

X, Y = rows(4000, seed=5)


def test_clock_jumps_have_no_effect(tmp_path, monkeypatch):
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
    """A thousand sockets that never end their requests: whoever asks properly is answered, before and after them."""
    with Served(tmp_path) as server:
        sockets = slow_sockets(server.address, 1000)
        try:
            for k in range(100):
                assert server.post("m/predict", {"features": X[k]}).status_code == 200
        finally:
            for one in sockets:
                one.close()
        assert server.post("m/learn", {"id": "after", "features": X[0], "label": Y[0]}).json()["position"] == 1


def test_hostile_bodies(tmp_path):
    with Served(tmp_path) as server:
        post = server.http.post
        url = "/v1/models/m/predict"
        post(url, json={"features": X[0]})
        before = memory(server.process.pid)
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
        gap = np.abs(np.array(found["comparator"]) - best).max()
        print(f"resident MB every 50,000 labels: {[size >> 20 for size in sizes]}; best weights differ by {gap:.1e}")
        assert gap < 1e-9
        assert max(sizes[10:]) < sizes[9] + (16 << 20)
