"""Strangers, slow clients and clients that go away take bounded memory; nobody's body is read before the guard has passed it."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest
from serving import SPEC, Served, memory, rows, wait_for

from trueline.serve.guard import ANY_ADDRESS, LOOPBACK, Guard

TOKEN = "predict,learn " + "a" * 32
X = rows(4)[0]
GOOD = {"features": X[0]}
PATH = "/v1/models/m/predict"


def connect(server):
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 10)


def head(length, path=PATH, **more):
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in more.items()), "", ""]).encode()


def part_of_a_body(server, length, sent, path=PATH, **more):
    """A connection that has sent a head and some of its body; None where it was cut off."""
    one = connect(server)
    try:
        one.sendall(head(length, path, **more))
        one.sendall(b" " * sent)
    except OSError:
        one.close()
        return None
    return one


def grown(server, before):
    return (memory(server.process.pid) - before) >> 20


def aborted(server, count, sent, **more):
    for _ in range(count):
        one = part_of_a_body(server, 8 << 20, sent, **more)
        if one is not None:
            one.close()


@pytest.fixture
def tokens(tmp_path):
    (tmp_path / "tokens").write_text(TOKEN + "\n")
    with Served(tmp_path, "--token-file", str(tmp_path / "tokens")) as server:
        server.http.headers["authorization"] = "Bearer " + "a" * 32
        assert server.http.post(PATH, json=GOOD).status_code == 200
        yield server


def test_aborted_bodies_of_strangers_leave_nothing(tokens):
    aborted(tokens, 50, 1 << 18)
    before = memory(tokens.process.pid)
    aborted(tokens, 1000, 1 << 18)
    aborted(tokens, 100, 1 << 18, path="/v1/models")
    aborted(tokens, 100, 1 << 18, path="/nothing")
    assert grown(tokens, before) < 64
    assert tokens.http.post(PATH, json=GOOD).status_code == 200


def test_aborted_bodies_of_those_let_in_leave_nothing(tokens):
    more = {"Authorization": "Bearer " + "a" * 32}
    aborted(tokens, 20, 1 << 19, **more)
    before = memory(tokens.process.pid)
    aborted(tokens, 300, 1 << 19, **more)
    assert grown(tokens, before) < 64
    assert tokens.http.post(PATH, json=GOOD).status_code == 200


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_aborted_bodies_in_full_size(tokens):
    aborted(tokens, 20, (8 << 20) - 1)
    before = memory(tokens.process.pid)
    aborted(tokens, 1000, (8 << 20) - 1)
    aborted(tokens, 1000, (8 << 20) - 1, Authorization="Bearer " + "a" * 32)
    assert grown(tokens, before) < 128
    assert tokens.http.post(PATH, json=GOOD).status_code == 200


def many_at_once(server, count, sent):
    before = memory(server.process.pid)
    sockets = [part_of_a_body(server, 8 << 20, sent) for _ in range(count)]
    try:
        assert server.http.post(PATH, json=GOOD).status_code == 200  # a small body needs no part of the budget
        # 64 MB of bodies, as much again for the allocator, and what waits in 200 connections
        assert grown(server, before) < 256
        refused = 0
        for one in sockets:
            if one is None:
                refused += 1
                continue
            one.settimeout(0.01)
            with contextlib.suppress(OSError):
                refused += b" 503 " in one.recv(300)
        assert refused
    finally:
        for one in sockets:
            if one is not None:
                one.close()
    large = json.dumps([GOOD] * 9000).encode() + b" " * (4 << 20)
    wait_for(lambda: server.http.post(PATH, content=large).status_code == 200, 20)  # the budget is free again


def test_many_bodies_at_once_have_one_budget(tmp_path):
    with Served(tmp_path) as server:
        assert server.http.post(PATH, json=GOOD).status_code == 200
        many_at_once(server, 200, 1 << 20)


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_many_bodies_at_once_in_full_size(tmp_path):
    with Served(tmp_path) as server:
        for _ in range(5):
            many_at_once(server, 200, (8 << 20) - 1)


SMALL = "import trueline.serve.wire as w, trueline.serve.launch as l; w.BODY_SECONDS = 1.0; l.MOST_CONNECTIONS = 40; from trueline.cli import main; import sys; sys.exit(main())"


def test_slow_bodies_and_too_many_connections(tmp_path):
    """The limits made small in a real server: a body that stops is cut off, and one connection too many is turned away."""
    with Served(tmp_path, program=SMALL) as server:
        for path in (PATH, "/v1/models", "/v2/models/m/infer"):
            for sent in (0, 5, 200_000):
                one = part_of_a_body(server, 300_000, sent, path)
                one.settimeout(20)
                assert b" 408 " in one.recv(300), path
                one.close()
        sockets = [connect(server) for _ in range(45)]
        time.sleep(0.2)
        sockets[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        sockets[-1].settimeout(20)
        assert b" 503 " in sockets[-1].recv(300)
        for one in sockets:
            one.close()
        wait_for(lambda: server.http.post(PATH, json=GOOD).status_code == 200)


def test_a_stranger_is_refused_before_the_body(tokens):
    """The answer comes when the head is whole; a body that was announced does not delay it by more than a moment."""
    for path, status in ((PATH, b" 401 "), ("/v1/models", b" 401 "), ("/v2/models/m/infer", b" 401 ")):
        one = part_of_a_body(tokens, 8 << 20, 0, path)
        one.settimeout(20)
        assert status in one.recv(300)
        one.close()
    one = part_of_a_body(tokens, 9 << 20, 0, PATH, Authorization="Bearer " + "a" * 32)
    one.settimeout(20)
    assert b" 413 " in one.recv(300)
    one.close()


def test_a_head_without_end_is_cut_off_where_there_are_strangers(tokens):
    before = memory(tokens.process.pid)
    for line in (b"a" * (1 << 16), b"a:b\r\n" * 10_000):
        one = connect(tokens)
        with pytest.raises(OSError):
            one.sendall(b"POST /v1/models/m/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            for _ in range(1000):
                one.sendall(line)
        one.close()
    assert grown(tokens, before) < 32
    assert tokens.http.post(PATH, json=GOOD).status_code == 200


HOST = (b"host", b"127.0.0.1:8000")


@pytest.mark.parametrize(
    "headers, status",
    [
        ([HOST], None),
        ([(b"host", b"localhost")], None),
        ([(b"host", b"LOCALHOST:80")], None),
        ([(b"host", b"[::1]:8000")], None),
        ([HOST, (b"sec-fetch-site", b"same-origin")], None),
        ([HOST, (b"sec-fetch-site", b"none")], None),
        ([HOST, (b"origin", b"http://127.0.0.1:8000")], None),
        ([HOST, (b"transfer-encoding", b"chunked")], None),
        ([], 403),
        ([(b"host", b"")], 403),
        ([(b"host", b""), (b"origin", b"null")], 403),
        ([(b"host", b"evil.example")], 403),
        ([(b"host", b"127.0.0.1:80@evil")], 403),
        ([(b"host", b"127.0.0.1:80#.evil")], 403),
        ([(b"host", b"evil@127.0.0.1")], 403),
        ([(b"host", b"127.0.0.1, evil.example")], 403),
        ([(b"host", b"127.0.0.1 ")], 403),
        ([(b"host", b"127.0.0.1.evil.example")], 403),
        ([(b"host", b"localhost.evil.example")], 403),
        ([(b"host", b"[::1]evil")], 403),
        ([(b"host", b"192.168.0.7")], 403),
        ([(b"host", b"127.0.0.1:99999999")], 403),
        ([HOST, HOST], 400),
        ([HOST, (b"host", b"evil.example")], 400),
        ([HOST, (b"origin", b"null")], 403),
        ([HOST, (b"origin", b"http://127.0.0.1:8001")], 403),
        ([HOST, (b"origin", b"http://evil.example")], 403),
        ([HOST, (b"origin", b"http://127.0.0.1:8000"), (b"origin", b"http://evil.example")], 400),
        ([HOST, (b"sec-fetch-site", b"cross-site")], 403),
        ([HOST, (b"sec-fetch-site", b"same-site")], 403),
        ([HOST, (b"sec-fetch-site", b"same-origin"), (b"sec-fetch-site", b"cross-site")], 403),
        ([HOST, (b"sec-fetch-site", b"CROSS-SITE")], 403),
        ([HOST, (b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")], 400),
        ([HOST, (b"transfer-encoding", b"gzip, chunked")], 501),
        ([HOST, (b"transfer-encoding", b"chunked, gzip")], 501),
        ([HOST, (b"content-encoding", b"gzip")], 415),
        ([HOST, (b"x", b"y" * 40_000)], 431),
        ([HOST, *[(b"x", b"y")] * 100], 431),
    ],
)
def test_heads(headers, status):
    for guard in (Guard(None), Guard([(b"t" * 16, frozenset({"predict"}))])):
        refusal = guard.refuse(headers, None)
        assert (refusal and refusal[0]) == status
        assert (guard.refuse(headers, None) and refusal[0]) == status  # also when the host is known by now


def test_hosts_that_were_allowed():
    guard = Guard(None, [*LOOPBACK, "models.example.org"])
    assert guard.refuse([(b"host", b"Models.Example.org:443")], None) is None
    assert guard.refuse([(b"host", b"example.org")], None)[0] == 403
    off_loopback = Guard([(b"t" * 16, frozenset({"predict"}))], [*LOOPBACK, ANY_ADDRESS])
    for host, passes in (
        (b"192.168.0.7:8000", True),
        (b"[fe80::1]", True),
        (b"evil.example", False),
        (b"1.2.3", False),
    ):
        assert (off_loopback.refuse([(b"host", host)], None) is None) == passes


def test_pages_of_other_sites_reach_the_page_alone(served):
    for site in ("cross-site", "same-site"):
        headers = {"sec-fetch-site": site}
        assert served.http.get("/", headers=headers).status_code == 200
        for path in ("/v1/models", "/v1/backup", "/v1/models/m", "/metrics", "/events", "/openapi.json", "/v2",
                     "/v2/health/live", "/page.js", "/v1/models/m/snapshot", "/v1/models/", "/nothing"):  # fmt: skip
            assert served.http.get(path, headers=headers).status_code == 403, path
        assert served.http.post(PATH, json=GOOD, headers=headers).status_code == 403
    for path in ("/", "/v1/models", "/v1/models/", "/v2/health/live", "/openapi.json"):
        made = served.http.get(path, headers={"host": "evil.example"})
        assert made.status_code == 403 and "evil" not in str(made.headers) and "evil" not in made.text
    assert served.http.get("/v1/models/").status_code == 404


def test_bodies_whose_encoding_is_not_read_are_refused(served):
    one = connect(served)
    one.sendall(
        b"POST /v1/models/m/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    one.settimeout(20)
    assert one.recv(300).startswith((b"HTTP/1.1 501", b"HTTP/1.1 400"))
    one.close()


def test_two_authorization_headers(tokens):
    headers = [("authorization", "Bearer " + "a" * 32), ("authorization", "Bearer wrong")]
    for order in (headers, headers[::-1]):
        assert tokens.http.post(PATH, json=GOOD, headers=order).status_code == 400


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("limits"), spec=SPEC) as server:
        yield server


def test_allow_host(tmp_path):
    with Served(tmp_path, "--allow-host", "models.example.org") as server:
        assert server.http.get("/v1/models", headers={"host": "models.example.org"}).status_code == 200
        assert server.http.get("/v1/models", headers={"host": "other.example.org"}).status_code == 403
    from trueline.cli import main

    assert main(["serve", "--allow-host", "http://x/", "--store", str(tmp_path / "no.db")]) == 2


def test_answers_hold_no_raw_names(served):
    """Names of columns and models that come back in an answer are JSON, on one line, and in no header."""
    for name in ('a"\r\nx: y', "\x1b[2J", "<script>", "a\0b", "\u2028", "x" * 5000):
        spec = {"name": "n", "features": {name: "number"}, "learner": {"geometry": "additive", "rate": 0.1}}
        for made in (
            served.http.post("/v1/models", json=spec),
            served.http.post("/v1/models/n/predict", json={"features": {name: "?"}}),
            served.http.post(PATH, json={"features": {name: 1.0}}),
            served.http.post("/v1/models", json=spec | {"name": name}),
        ):
            assert (
                made.status_code < 500 and "\n" not in made.text and "\x1b" not in made.text and "\0" not in made.text
            )
            assert json.loads(made.text) is not None
            assert all(name not in value for value in made.headers.values())
        served.http.delete("/v1/models/n")
