"""The connection: limits that the HTTP server lacks, and the short way of the two hot requests.

One sweeper a second looks at every connection; a request only writes down when it began. What is late is answered 408,
a head that is too large 431, a body that is too large 413, and the connection is closed.

POST …/predict and …/learn on a kept-alive connection go straight from the parser to the service and back: no scope, no
task, no events. Whatever is out of the ordinary (pipelined, HTTP/1.0, Expect, a client that does not read) takes the
long way through ASGI, where the same ``Edge`` answers.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .wire import LARGEST_BODY, Edge, refusal_body, target

HEADER_SECONDS = 10.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 65.0
LARGEST_HEAD = 32 * 1024
MOST_HEADERS = 100
MOST_CONNECTIONS = 4096
_JSON = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_HEADS = {status: line + _JSON for status, line in STATUS_LINE.items()}
_UNAUTHORISED = STATUS_LINE[401] + b"www-authenticate: Bearer\r\n" + _JSON
_CLOSING = b"connection: close\r\n"


class Nobody:
    """The event that nobody waits for: what came, or that the connection went, the parser and ``reply`` see to."""

    def set(self) -> None:
        """Told, and not heard."""


class Short:
    """A hot request; to the HTTP server it looks like a cycle of its own.

    Nothing in it refers to itself: a body that waited for the collector of cycles would stay for thousands of requests.
    """

    __slots__ = ("body", "disconnected", "keep_alive", "protocol", "response_complete", "where")
    response_started = False
    message_event = Nobody()

    def __init__(self, protocol: Limited, where: tuple[str, str]) -> None:
        self.protocol, self.where = protocol, where
        self.body: bytes | bytearray = b""
        self.response_complete = self.disconnected = False
        self.keep_alive = True

    def reply(self, status: int, body: bytes) -> None:
        """The answer, once."""
        self.response_complete = True
        protocol = self.protocol
        transport = protocol.transport
        if self.disconnected or transport.is_closing():
            return
        head = _HEADS[status] if status != 401 else _UNAUTHORISED
        if not self.keep_alive:
            head = head.replace(b"\r\n", b"\r\n" + _CLOSING, 1)
        transport.write(head % (len(body), body))
        protocol.idle = time.monotonic()
        protocol.server_state.total_requests += 1
        if not self.keep_alive:
            transport.close()
        elif protocol.pipeline:
            protocol.on_response_complete()


class Limited(HttpToolsProtocol):
    """uvicorn's protocol with limits and a short way."""

    edge: Edge
    began = 0.0  # when the request that is not yet whole began; 0: none
    idle = 0.0  # when the last hot request was answered
    head = 0  # bytes of the request so far, while its head is not whole
    lines = 0  # bytes of its headers, where they come all at once
    in_body = False
    short: Short | None = None
    size = 0

    def connection_made(self, transport: Any) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began = time.monotonic()
        if len(self.connections) > MOST_CONNECTIONS:
            self.refuse(503, "too many connections; try again later")

    def data_received(self, data: bytes) -> None:
        if self.began == 0.0:
            self.began = time.monotonic()
        if not self.in_body:
            self.head += len(data)
        super().data_received(data)
        # A head that comes in small pieces is counted here; data behind a whole head count as its body.
        if self.head > LARGEST_HEAD and not self.in_body and self.began and not self.transport.is_closing():
            self.refuse(431, f"the head of the request is larger than {LARGEST_HEAD} bytes")

    def on_message_begin(self) -> None:
        self.url, self.headers, self.lines = b"", [], 0
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.headers.append((name, value))
        self.lines += len(name) + len(value)
        if self.lines > LARGEST_HEAD or len(self.headers) > MOST_HEADERS:
            if not self.transport.is_closing():
                self.refuse(431, f"the head has more than {MOST_HEADERS} headers or {LARGEST_HEAD} bytes")
        elif name == b"content-length":
            if value.isdigit() and int(value[:20]) > LARGEST_BODY and not self.transport.is_closing():
                self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches")
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        if self.transport.is_closing():
            return
        self.in_body, self.head, self.size = True, 0, 0
        where = self._hot()
        if where is not None:
            self.short = Short(self, where)
            self.cycle = self.short  # type: ignore[assignment]
            return
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # the scope, which only the long way needs
        self.url, self.expect_100_continue = url, expect
        self.headers.extend(headers)
        super().on_headers_complete()

    def _hot(self) -> tuple[str, str] | None:
        """(model, verb) of a request that may take the short way."""
        where = target(self.url) if self.parser.get_method() == b"POST" else None
        if where is None or self.expect_100_continue or self.flow.write_paused:
            return None
        if self.cycle is not None and not self.cycle.response_complete:
            return None
        if (
            not self.parser.should_keep_alive()
            or self.parser.get_http_version() != "1.1"
            or self.parser.should_upgrade()
        ):
            return None
        return where

    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing() or self.cycle is None:
            return
        self.size += len(body)
        if self.size > LARGEST_BODY:
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches")
            return
        short = self.short
        if short is None:
            super().on_body(body)
        elif not short.body:
            short.body = body
        else:
            if isinstance(short.body, bytes):
                short.body = bytearray(short.body)
            short.body += body

    def on_message_complete(self) -> None:
        self.began, self.in_body, self.head = 0.0, False, 0
        if self.transport.is_closing() or self.cycle is None:
            return
        short = self.short
        if short is None:
            super().on_message_complete()
            return
        self.short = None
        body, short.body = bytes(short.body), b""
        self.edge.begin(self.headers, *short.where, body, short.reply)

    def late(self, now: float) -> bool:
        """Whether a request has taken longer than it may."""
        return self.began > 0.0 and now - self.began > (BODY_SECONDS if self.in_body else HEADER_SECONDS)

    def spent(self, now: float) -> bool:
        """Whether nothing has come since the last hot request for too long."""
        done = self.cycle is None or self.cycle.response_complete
        return self.idle > 0.0 and self.began == 0.0 and done and now - self.idle > IDLE_SECONDS

    def refuse(self, status: int, message: str) -> None:
        """Answer at once and close."""
        body = refusal_body(message)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write((STATUS_LINE[status] + _CLOSING + _JSON) % (len(body), body))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


async def sweep_connections(connections: set[Any]) -> None:
    """Close what is late, once a second, for ever."""
    while True:
        await asyncio.sleep(1.0)
        now = time.monotonic()
        for one in list(connections):
            if not isinstance(one, Limited) or one.transport.is_closing():
                continue
            if one.late(now):
                one.refuse(408, "the request did not arrive in time")
            elif one.spent(now) and one.timeout_keep_alive_task is None:
                one.transport.close()
