"""What the tests of the service share: a server in a process of its own, and the replay that it must equal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

FEATURES = {"a": "number", "b": "number", "c": "number"}
SPEC = {
    "name": "m", "target": "y", "task": "regression", "features": FEATURES,
    "learner": {"geometry": "additive", "rate": 0.01},
}  # fmt: skip


class Served:
    """``trueline serve`` as a child process."""

    def __init__(self, folder: Path, *options: str, spec=SPEC, store: str = "state.db", program: str = "") -> None:
        self.store = folder / store
        arguments = [
            sys.executable,
            *(("-c", program) if program else ("-m", "trueline")),
            "serve",
            "--store",
            str(self.store),
            "--port",
            "0",
            "--json",
            *options,
        ]
        if spec is not None:
            (folder / "schema.json").write_text(json.dumps(spec))
            arguments += ["--features", str(folder / "schema.json")]
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )
        line = self.process.stdout.readline()
        if '"address"' not in line:
            said = line + self.process.stderr.read()
            self.process.wait(30)
            raise RuntimeError(said)
        self.address = json.loads(line)["address"]
        self.http = httpx.Client(base_url=self.address, timeout=300.0)

    def post(self, path: str, body, **more) -> httpx.Response:
        return self.http.post(f"/v1/models/{path}", json=body, **more)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.close()
        return code

    def close(self) -> None:
        self.http.close()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error) -> None:
        if self.process.poll() is None:
            self.kill()


def rows(n: int, seed: int = 0) -> tuple[list[dict[str, float]], list[float]]:
    """Examples of a linear model with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=n)
    return [dict(zip("abc", map(float, x))) for x in X], [float(v) for v in y]


def journal(path: Path) -> list[tuple[int, str, float, bytes]]:
    """(position, id, label, features) as the store has them."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        found = base.execute(
            "SELECT j.seq, j.id, j.label, coalesce(p.features, j.features) FROM journal j LEFT JOIN prediction p ON p.pid=j.pid "
            "WHERE j.mid=1 ORDER BY j.seq"
        ).fetchall()
    return [(seq, id, float(label), features) for seq, id, label, features in found]


def replayed(entries, names=("a", "b", "c"), rate: float = 0.01) -> bytes:
    """The bytes of the record's arrays after learning the labels one by one, with no service at all."""
    from trueline.online.model import OnlineModel
    from trueline.online.rates import rate as rate_part

    model = OnlineModel("squared", "additive", rate_part(rate), names=list(names))
    for features, label in entries:
        model.learn(np.frombuffer(features).reshape(1, -1), np.array([label]))
    return state_bytes(model)


def state_bytes(record) -> bytes:
    arrays, _ = record.to_state()
    return b"".join(name.encode() + np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))


def wait_for(check, seconds: float = 10.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise AssertionError("it did not happen in time")
        time.sleep(0.02)


def memory(pid: int) -> int:
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Nursery:
    """A process with everything imported that forks servers: kill −9 hits a real server process, started in a moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "schema.json").write_text(json.dumps(SPEC))
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()

    def start(self, store: str, *options: str) -> tuple[int, str]:
        """(process id, address) of a new server."""
        self.process.stdin.write(json.dumps([store, *options]) + "\n")
        self.process.stdin.flush()
        pid = int(self.process.stdout.readline())
        told = self.process.stdout.readline()
        if "address" not in told:
            raise RuntimeError(told)
        return pid, json.loads(told)["address"]

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Kill a server and wait until it is gone."""
        os.kill(pid, number)
        self.process.stdin.write(json.dumps(["wait", pid]) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().startswith("gone")

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def nurse(folder: Path) -> None:
    """Fork a server a line."""
    from trueline.serve import admin, app, events, guard, wire  # noqa: F401
    from trueline.serve.launch import serve
    from trueline.serve.live import Label, Live
    from trueline.serve.spec import check

    warm = Live(1, "m", check(SPEC), None, 0)  # everything that a server compiles or loads late, once for all of them
    warm.apply([Label(1, np.ones(3).tobytes(), b"1.0", 1.0, b"0.5")])
    warm.predict([np.ones(3).tobytes()])
    warm.certificate(), warm.coefficients(), warm.state()
    print("ready", flush=True)
    for line in sys.stdin:
        store, *options = json.loads(line)
        if store == "wait":
            os.waitpid(int(options[0]), 0)
            print("gone", flush=True)
            continue
        if os.fork() == 0:
            print(os.getpid(), flush=True)  # by the child, so that nothing it says later can come before
            sys.stdin.close()
            settings = dict(zip(options[::2], options[1::2]))
            every = int(settings.get("--snapshot-every", 20_000))
            retention, name = settings.get("--retention", "7d"), str(folder / "schema.json")
            code = 1
            try:
                code = serve(features=[name], store=store, port=0, retention=retention, snapshot_every=every, json=True)
            except Exception as error:
                print(f"refused: {error}", flush=True)
            finally:
                os._exit(code)


if __name__ == "__main__":
    nurse(Path(sys.argv[1]))
