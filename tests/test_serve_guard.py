"""Who is let in: options that are refused, tokens and their scopes, and pages of other sites."""

from __future__ import annotations

import hmac
import json
import subprocess
import sys
from pathlib import Path

import pytest
from serving import SPEC, Served

from trueline.serve.guard import Guard

GOOD = {"a": 1.0, "b": 2.0, "c": 3.0}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("guarded")) as server:
        yield server


def test_command_line_refusals(tmp_path):
    def run(*options):
        made = subprocess.run(
            [sys.executable, "-m", "trueline", "serve", "--store", str(tmp_path / "s.db"), *options],
            capture_output=True,
            text=True,
            timeout=60,
        )
        return made.returncode, made.stderr

    junk = str(tmp_path / "junk.pem")
    Path(junk).write_text("junk")
    (tmp_path / "bad.json").write_text(json.dumps(SPEC | {"features": {"a": "numeric"}}))
    for options, code, word in (
        (("--host", "0.0.0.0"), 2, "--token-file"), (("--retention", "soon"), 2, "retention"), (("--durability", "none"), 2, "durability"),
        (("--features", str(tmp_path / "bad.json")), 2, "numeric"), (("missing.tl",), 4, "missing.tl"),
        (("--tls-certificate", junk), 2, "--tls-key"), (("--tls-certificate", junk, "--tls-key", "no.pem"), 2, "no.pem"),
        (("--tls-certificate", junk, "--tls-key", junk), 2, "in PEM"),
    ):  # fmt: skip
        found, text = run(*options)
        assert found == code and word in text and "Traceback" not in text, text
    assert not (tmp_path / "s.db").exists()


def test_scopes(tmp_path):
    (tmp_path / "tokens").write_text(
        "# team\npredict ppppppppppppppppp\nlearn lllllllllllllllll\nadmin aaaaaaaaaaaaaaaaa\n"
    )
    with Served(tmp_path, "--token-file", str(tmp_path / "tokens")) as server:

        def status(token, verb, path, **body):
            head = {"authorization": f"Bearer {token * 17}"} if token else {}
            return server.http.request(verb, path, headers=head, **body).status_code

        body = {"json": {"features": GOOD}}
        assert [status(t, "POST", "/v1/models/m/predict", **body) for t in ("", "x", "l", "p", "a")] == [
            401,
            401,
            403,
            200,
            200,
        ]
        assert [
            status(t, "POST", "/v1/models/m/learn", json={"features": GOOD, "label": 1}) for t in ("", "p", "l", "a")
        ] == [401, 403, 200, 200]
        assert [status(t, "GET", "/v1/backup") for t in ("", "p", "l", "a")] == [401, 403, 403, 200]
        assert [status(t, "GET", "/metrics") for t in ("", "p")] == [401, 200]
        assert status("", "GET", "/v2/health/live") == 200 and status("", "GET", "/") == 200


def test_every_token_is_compared_in_constant_time(monkeypatch):
    tokens = [
        (b"a" * 17, frozenset({"predict"})),
        (b"b" * 17, frozenset({"learn"})),
        (b"c" * 17, frozenset({"predict"})),
    ]
    seen = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: seen.append(one) or real(one, other))
    for token, status in ((b"a" * 17, None), (b"b" * 17, 403), (b"x", 401), (b"", 401)):
        seen.clear()
        refusal = Guard(tokens).refuse([(b"host", b"localhost"), (b"authorization", b"Bearer " + token)], "predict")
        assert (refusal and refusal[0]) == status and seen == [known for known, _ in tokens]


def test_other_sites_are_kept_out(served):
    body = {"json": {"features": GOOD}}
    assert (
        served.http.post("/v1/models/m/predict", headers={"origin": "http://evil.example"}, **body).status_code == 403
    )
    assert served.http.post("/v1/models/m/predict", headers={"host": "evil.example"}, **body).status_code == 403
    assert Guard(None).refuse([(b"host", b"evil.example"), (b"host", b"127.0.0.1")], "predict")[0] == 400
    assert served.http.post("/v1/models/m/predict", headers={"origin": served.address}, **body).status_code == 200
