"""The durable service beside a bare ASGI echo, a Starlette echo, the store alone and River in FastAPI without durability.

30 features a request, the load generator beside the server on the same machine, 64 keep-alive connections. Each
contender is a process of its own; rounds are interleaved and the best rate of each counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .harness import Row

NAME = "service"
CONNECTIONS = 64
FEATURES = {f"x{k}": 0.01 * k - 0.1 for k in range(30)}
SPEC = {
    "name": "m", "features": dict.fromkeys(FEATURES, "number"), "learner": {"geometry": "additive", "rate": 0.001, "certificate": True},
}  # fmt: skip

ECHO = """
import uvicorn, sys
async def app(scope, receive, send):
    body = (await receive()).get("body", b"")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
"""
STARLETTE = """
import uvicorn, sys
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def echo(request):
    return JSONResponse(await request.json())
app = Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])])
"""
RIVER = """
import uvicorn, sys
from fastapi import FastAPI, Request
from river import linear_model, optim
model = linear_model.LinearRegression(optimizer=optim.SGD(0.001))
waiting = {}
app = FastAPI()
@app.post("/v1/models/m/predict")
async def predict(request: Request):
    body = await request.json()
    waiting[body["id"]] = body["features"]
    return {"id": body["id"], "prediction": model.predict_one(body["features"])}
@app.post("/v1/models/m/learn")
async def learn(request: Request):
    body = await request.json()
    model.learn_one(body["features"], body["label"])
    return {"id": body["id"]}
"""
RUN = '\nuvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False, http="httptools", loop="uvloop", lifespan="off")\n'


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Contender:
    """A server in a process of its own."""

    def __init__(self, source: str | None, folder: Path) -> None:
        if source is not None:
            self.port = _free_port()
            self.process = subprocess.Popen([sys.executable, "-c", source + RUN, str(self.port)])
            end = time.monotonic() + 60
            import socket

            while time.monotonic() < end:
                try:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    return
                except OSError:
                    time.sleep(0.1)
            raise RuntimeError("a server did not start")
        (folder / "schema.json").write_text(json.dumps(SPEC))
        command = [
            sys.executable,
            "-m",
            "trueline",
            "serve",
            "--features",
            "schema.json",
            "--store",
            "s.db",
            "--port",
            "0",
            "--json",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["address"].rpartition(":")[2])

    def close(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait(30)


class Caller(asyncio.Protocol):
    """One keep-alive connection: sends the next request when the answer is whole."""

    def __init__(self, make: Callable[[], bytes], until: float, took: list[float], bad: list[bytes]) -> None:
        self.make, self.until, self.took, self.bad = make, until, took, bad
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.need = -1

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.started = time.perf_counter()
        self.transport.write(self.make())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.need < 0:
            head, found, _ = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            low = head.lower()
            at = low.index(b"content-length:") + 15
            self.need = len(head) + 4 + int(low[at:].split(b"\r\n", 1)[0])
        if len(self.buffer) < self.need:
            return
        now = time.perf_counter()
        if not self.buffer.startswith(b"HTTP/1.1 200"):
            self.bad.append(self.buffer[:300])
        self.took.append(now - self.started)
        self.buffer, self.need = b"", -1
        if now < self.until and not self.bad:
            self.send()
        elif not self.done.done():
            self.transport.close()
            self.done.set_result(None)


def _request(path: str, body: Any) -> bytes:
    raw = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(raw),
        raw,
    )


async def _drive(port: int, make: Callable[[], bytes], seconds: float) -> tuple[float, float, float]:
    """(requests per second, p50, p99 in milliseconds)."""
    took: list[float] = []
    bad: list[bytes] = []
    start = time.perf_counter()
    loop = asyncio.get_running_loop()
    pairs = [
        await loop.create_connection(lambda: Caller(make, start + seconds, took, bad), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(caller.done for _, caller in pairs))
    if bad:
        raise RuntimeError(bad[0].decode("latin-1"))
    took.sort()
    return len(took) / (time.perf_counter() - start), 1e3 * took[len(took) // 2], 1e3 * took[int(0.99 * len(took))]


def _maker(verb: str, batch: int = 0) -> Callable[[], bytes]:
    """Requests with ever new ids, their fixed part made once."""
    count = 0
    run = os.urandom(4).hex()
    features = json.dumps(FEATURES)
    tail = ',"label":1.5}' if verb == "learn" else "}"
    path = f"/v1/models/m/{verb}"

    head, rest = f'{{"id":"{run}', f'","features":{features}{tail}'
    between = f"{rest},{head}"
    step = batch or 1

    def make() -> bytes:
        nonlocal count
        body = head + between.join(map(str, range(count, count + step))) + rest
        raw = (f"[{body}]" if batch else body).encode()
        count += step
        return b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(raw), raw)

    return make


def _store_alone(folder: Path, seconds: float, group: int) -> float:
    """Journal rows per second in groups of this many, durable, with no HTTP and no model: what the service cannot exceed."""
    import struct

    from trueline.serve.rows import parts
    from trueline.serve.store import CHECKPOINT_EVERY, Entry, Store

    store = Store(folder / f"alone{group}.db")
    row, seq, start = struct.pack("30d", *FEATURES.values()), 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        store.begin()
        learns = []
        for k in range(group):
            entry = Entry(None, row, None, 0, 0.0)
            entry.label, entry.seq = b"1.5", seq + k + 1
            learns.append((1, f"i{seq + k}", entry))
        store.fill(parts([], learns, 0.0))
        store.commit()
        seq += group
        if store.rows >= CHECKPOINT_EVERY:
            store.checkpoint()
    rate = seq / (time.perf_counter() - start)
    store.close()
    return rate


def run(quick: bool = False) -> list[Row]:
    """Rates at 64 connections."""
    seconds, rounds = (1.0, 2) if quick else (3.0, 4)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = {
            "trueline": Contender(None, folder),
            "echo": Contender(ECHO, folder),
            "starlette": Contender(STARLETTE, folder),
            "river": Contender(RIVER, folder),
        }
        plan = {
            "echo": ("echo", "predict", 0), "starlette": ("starlette", "predict", 0), "river predict": ("river", "predict", 0), "river learn": ("river", "learn", 0),
            "predict": ("trueline", "predict", 0), "learn": ("trueline", "learn", 0), "predict 100": ("trueline", "predict", 100), "learn 100": ("trueline", "learn", 100),
        }  # fmt: skip
        best: dict[str, tuple[float, float, float]] = {}
        try:
            for _ in range(rounds):
                for key, (who, verb, batch) in plan.items():
                    found = asyncio.run(_drive(servers[who].port, _maker(verb, batch), seconds))
                    if key not in best or found[0] > best[key][0]:
                        best[key] = found
            alone = {group: _store_alone(folder, seconds, group) for group in (64, 4096)}
        finally:
            for server in servers.values():
                server.close()

    def note(key: str) -> str:
        return f"p50 {best[key][1]:.1f} ms, p99 {best[key][2]:.1f} ms"

    def rate(task: str, key: str, peer: str, other: str, aim: float | None = None) -> Row:
        return Row(task, best[key][0], best[other][0], peer, "requests/s", aim, note(key), larger_is_better=True)

    made = [
        rate("single predict, durable", "predict", "bare ASGI echo", "echo", 0.5),
        rate("single learn, durable", "learn", "bare ASGI echo", "echo", 0.45),
        rate("single predict, durable", "predict", "Starlette JSON echo", "starlette"),
        rate("single learn, durable", "learn", "Starlette JSON echo", "starlette"),
        rate("single predict, durable", "predict", "River in FastAPI, not durable", "river predict", 3.0),
        rate("single learn, durable", "learn", "River in FastAPI, not durable", "river learn", 3.0),
        Row("labels in batches of 100, durable", 100.0 * best["learn 100"][0], 50_000.0, "50,000 labels/s", "labels/s", 1.0, note("learn 100"), True),
        Row("predictions in batches of 100, durable", 100.0 * best["predict 100"][0], 50_000.0, "50,000 predictions/s", "predictions/s", None, note("predict 100"), True),
        Row("single learn, durable", best["learn"][0], alone[64], "the store alone, groups of 64", "labels/s", None, note("learn"), True),
        Row("labels in batches of 100, durable", 100.0 * best["learn 100"][0], alone[4096], "the store alone, groups of 4096", "labels/s", None, note("learn 100"), True),
    ]  # fmt: skip
    return made


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(
            f"{row.task}: {row.ours:,.0f} {row.unit} against {row.theirs:,.0f} ({row.peer}): {row.ratio:.2f}x, aim {row.aim}; {row.note}"
        )
