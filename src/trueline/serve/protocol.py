"""Limits that the HTTP server lacks: deadlines for headers and bodies, sizes of both, the number of connections.

One sweeper a second looks at every connection; the hot path only writes down when a request began. A request that is
late is answered 408, a head that is too large 431, a body that is too large 413, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .wire import LARGEST_BODY, refusal_body

HEADER_SECONDS = 10.0
BODY_SECONDS = 30.0
LARGEST_HEAD = 32 * 1024
MOST_HEADERS = 100
MOST_CONNECTIONS = 4096


class Limited(HttpToolsProtocol):
    """uvicorn's protocol with limits."""

    began = 0.0  # when the request that is not yet whole began; 0: none
    head = 0  # bytes of it so far, while its head is not whole
    lines = 0  # bytes of its headers, where they come all at once
    in_body = False
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
        if not self.in_body and self.began and self.head > LARGEST_HEAD and not self.transport.is_closing():
            self.refuse(431, f"the head of the request is larger than {LARGEST_HEAD} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.lines = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self.lines += len(name) + len(value)
        if (len(self.headers) > MOST_HEADERS or self.lines > LARGEST_HEAD) and not self.transport.is_closing():
            self.refuse(431, f"the head has more than {MOST_HEADERS} headers or {LARGEST_HEAD} bytes")
        if (
            name.lower() == b"content-length"
            and value.isdigit()
            and int(value[:20]) > LARGEST_BODY
            and not self.transport.is_closing()
        ):
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches")

    def on_headers_complete(self) -> None:
        if self.transport.is_closing():
            return
        self.in_body, self.head, self.size = True, 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing() or self.cycle is None:
            return
        self.size += len(body)
        if self.size > LARGEST_BODY:
            self.refuse(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches")
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.began, self.in_body, self.head = 0.0, False, 0
        if self.cycle is not None:
            super().on_message_complete()

    def late(self, now: float) -> bool:
        """Whether the request under way has had its time."""
        return self.began > 0.0 and now - self.began > (BODY_SECONDS if self.in_body else HEADER_SECONDS)

    def refuse(self, status: int, message: str) -> None:
        """Answer at once and close."""
        body = refusal_body(status, message)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            length = str(len(body)).encode()
            head = (
                STATUS_LINE[status]
                + b"content-type: application/json\r\ncontent-length: "
                + length
                + b"\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head + body)
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
            if isinstance(one, Limited) and one.late(now) and not one.transport.is_closing():
                one.refuse(408, "the request did not arrive in time")
