"""The rest of the contract: TLS, fitted models, upgrades, refused stores, shadows across a crash, clients that retry."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys
import threading

import httpx
import numpy as np
import pytest
from serving import SPEC, Served, journal, rows

from trueline.serve import admin
from trueline.serve.client import Client
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store

X, Y = rows(200, seed=21)


def test_a_shadow_survives_a_crash(tmp_path):
    shadow = {"name": "s", "shadow_of": "m", "learner": {"geometry": "normalised", "rate": 0.5}}
    with Served(tmp_path, "--snapshot-every", "30") as server:
        server.post("m/learn", [{"features": x, "label": y} for x, y in zip(X[:20], Y)]).raise_for_status()
        assert server.http.post("/v1/models", json=shadow).status_code == 201
        for k in range(20, 90):
            server.post("m/learn", {"id": str(k), "features": X[k], "label": Y[k]}).raise_for_status()
        want = [server.http.get(f"/v1/models/{name}/coefficients").json() for name in "ms"]
        server.kill()
    with Served(tmp_path) as server:
        assert [server.http.get(f"/v1/models/{name}/coefficients").json() for name in "ms"] == want
        assert server.post("m/promote", {"shadow": "s"}).json()["position"] == 90
        server.kill()
    with Served(tmp_path) as server:
        found = server.http.get("/v1/models/m/coefficients").json()
        assert found["coefficients"] == want[1]["coefficients"]
        assert server.post("m/learn", {"features": X[0], "label": Y[0]}).json()["position"] == 91


def certified(folder):
    """A certificate of its own for 127.0.0.1."""
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "c.pem"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls(tmp_path):
    certified(tmp_path)
    with Served(tmp_path, "--tls-certificate", "c.pem", "--tls-key", "key.pem") as server:
        assert server.address.startswith("https://")
        trust = ssl.create_default_context(cafile=str(tmp_path / "c.pem"))
        with httpx.Client(base_url=server.address, verify=trust) as http:
            made = http.post("/v1/models/m/predict", json={"id": "1", "features": X[0]})
            assert made.status_code == 200
            assert http.post("/v1/models/m/learn", json={"id": "1", "label": 1.0}).json()["position"] == 1
        with pytest.raises(httpx.ConnectError):  # a certificate that nobody vouches for
            httpx.get(f"{server.address}/v2/health/live")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{server.address.replace('https', 'http')}/v2/health/live")


def test_a_fitted_model_predicts_and_does_not_learn(tmp_path):
    towns = ["Bern", "Basel"]
    lines = ["a,town,y"] + [f"{x['a']!r},{towns[k % 2]},{y + k % 2!r}" for k, (x, y) in enumerate(zip(X, Y))]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    run = [sys.executable, "-m", "trueline", "fit", "d.csv", "--target", "y", "--output", "f.tl", "-q"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    import polars as pl

    from trueline.model import record_class
    from trueline.modelfile import loads

    kind, arrays, meta = loads((tmp_path / "f.tl").read_bytes(), where="f.tl")
    model = record_class(kind, where="f.tl").from_state(arrays, meta)
    want = float(np.ravel(model.predict(pl.DataFrame({"a": [0.3], "town": ["Basel"]})))[0])
    with Served(tmp_path, "f.tl", spec=None) as server:
        asked = {"id": "1", "features": {"a": 0.3, "town": "Basel"}}
        assert server.post("f/predict", asked).json()["prediction"] == pytest.approx(want, abs=1e-12)
        refused = server.post("f/learn", {"id": "1", "label": 1.0})
        assert refused.status_code == 409 and "only predicts" in refused.json()["error"]["message"]
        assert "Atlantis" in server.post("f/predict", {"features": {"a": 0.3, "town": "Atlantis"}}).text
        for path in ("", "/certificate", "/coefficients", "/snapshot"):
            assert server.http.get(f"/v1/models/f{path}").status_code == 200, path
        assert server.http.get("/metrics").status_code == 200
        server.kill()
    with Served(tmp_path, spec=None) as server:  # from the store alone
        asked["id"] = "2"
        assert server.post("f/predict", asked).json()["prediction"] == pytest.approx(want, abs=1e-12)


class Dropping(threading.Thread):
    """A relay that passes requests on and cuts two of three connections before the answer comes back."""

    def __init__(self, address):
        super().__init__(daemon=True)
        host, port = address.removeprefix("http://").split(":")
        self.to = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen = self.cut = 0
        self.start()

    @staticmethod
    def message(end):
        """A request or an answer."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            raw += end.recv(65536)
        head, _, body = raw.partition(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while len(body) < size:
            body += end.recv(65536)
        return head + b"\r\n\r\n" + body

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, socket.create_connection(self.to) as server:
                client.settimeout(5)
                server.settimeout(5)
                server.sendall(self.message(client))
                self.seen += 1
                answer = self.message(server)  # the service has answered, so the label is in the journal
                if self.seen % 3:
                    self.cut += 1
                else:
                    client.sendall(answer.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))


def test_a_client_sends_again_and_learns_once(tmp_path):
    with Served(tmp_path) as server:
        relay = Dropping(server.address)
        with Client(relay.address, "m", tries=6, timeout=10) as client:
            for k in range(8):
                made = client.predict(X[k])
                assert client.learn(made["id"], Y[k])["position"] == k + 1
        relay.listener.close()
        assert relay.cut >= 16
        assert server.stop() == 0
        entries = journal(server.store)
    assert len(entries) == 8 and len({e[1] for e in entries}) == 8


def test_every_answer_about_a_model_carries_its_position(tmp_path):
    """Successes and refusals alike, on the short way and on the long one; who is not let in learns nothing."""
    with Served(tmp_path) as server:
        server.post("m/learn", [{"id": str(k), "features": X[k], "label": Y[k]} for k in range(3)]).raise_for_status()
        shadow = {"name": "s", "shadow_of": "m"}
        bad = {"features": X[0] | {"a": None}}
        inputs = [{"name": n, "datatype": "FP64", "shape": [1], "data": [0.0]} for n in "abc"]
        for method, path, body, status in (
            ("POST", "/v1/models/m/predict", {"features": X[0]}, 200), ("POST", "/v1/models/m/predict", bad, 422),
            ("POST", "/v1/models/m/predict", [{"features": X[0]}], 200), ("POST", "/v1/models/m/learn", {"id": "9", "label": 1}, 404),
            ("POST", "/v1/models/m/learn", {"id": "2", "label": Y[2]}, 200), ("POST", "/v1/models/m/learn", {"id": "2", "label": 77}, 409),
            ("POST", "/v1/models/m/learn", [{"id": "9", "label": 1}], 207), ("POST", "/v1/models/m/learn", "{", 400),
            ("GET", "/v1/models/m", None, 200), ("GET", "/v1/models/m/certificate", None, 200), ("GET", "/v1/models/m/coefficients", None, 200),
            ("POST", "/v1/models", shadow, 201), ("POST", "/v1/models/s/learn", {"features": X[0], "label": 1}, 409),
            ("POST", "/v1/models/m/promote", {}, 422), ("POST", "/v1/models/m/promote", {"shadow": "m"}, 409), ("POST", "/v1/models/m/promote", "{", 400),
            ("POST", "/v1/models/m/promote", {"shadow": "s"}, 409), ("POST", "/v1/models/m/promote", {"shadow": "s", "force": True}, 200), ("POST", "/v2/models/m/infer", {"inputs": 3}, 400),
            ("POST", "/v2/models/m/infer", {"inputs": inputs}, 200), ("GET", "/v2/models/m", None, 200), ("GET", "/v2/models/m/ready", None, 200),
            ("DELETE", "/v1/models/m", None, 200),
        ):  # fmt: skip
            sent = {} if body is None else {"content": body} if isinstance(body, str) else {"json": body}
            made = server.http.request(method, path, **sent)
            assert made.status_code == status, (method, path, body, made.text)
            told = made.json()
            assert (told | told.get("parameters", {})).get("position") == 3, (method, path, body, told)
        foreign = server.http.get("/v1/models/m", headers={"host": "evil.example"})
        assert foreign.status_code == 403 and "position" not in foreign.text


def test_what_clients_send_cannot_write_a_line_of_the_log(tmp_path, caplog, monkeypatch):
    """An unexpected error inside a group is told on one line, whatever its message holds, and nothing is stored."""

    async def run():
        service = Service(Store(tmp_path / "l.db"))
        await service.start()
        live = await admin.create(service, check(SPEC))
        monkeypatch.setattr(
            type(live), "predict", lambda *_: (_ for _ in ()).throw(ValueError("x\n\x1b[31mFAKE: all is well"))
        )
        with pytest.raises(Exception, match="has a fault"):
            await service.predict(live, [{"id": "1", "features": X[0]}])
        monkeypatch.undo()
        assert not service.store.known(1, ["1"])
        assert (await service.predict(live, [{"id": "1", "features": X[0]}]))[0]["prediction"] == 0.0
        await service.stop()

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if record.name == "trueline.serve"]
    assert len(lines) == 1 and "FAKE" in lines[0] and lines[0].isprintable()
