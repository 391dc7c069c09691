"""The two hot requests, predict and learn: from headers and a body to an answer. Everything else goes to the application behind.

``Edge.begin`` is the one way in, for the connection's short way (protocol.py) and for ASGI alike; it answers through a
callback, at once for a refusal, after the commit otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from .guard import Guard
from .intake import Refused
from .live import Live
from .service import Service
from .writer import Job

LARGEST_BODY = 8 * 1024 * 1024
_encode = msgspec.json.Encoder().encode
_PREFIX = b"/v1/models/"
_VERBS = (b"predict", b"learn")
_TYPE = (b"content-type", b"application/json")
Reply = Callable[[int, bytes], None]


def target(path: bytes) -> tuple[str, str] | None:
    """(model, verb) of the path of a hot request; None for every other path."""
    if not path.startswith(_PREFIX) or b"%" in path:  # what is escaped is read by ASGI, which hands it over unescaped
        return None
    name, _, verb = path[len(_PREFIX) :].partition(b"/")
    return (name.decode("latin-1"), verb.decode()) if verb in _VERBS else None


class Edge:
    """Headers and a body in, an answer out."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self.service, self.guard = service, guard

    def begin(self, headers: list[tuple[bytes, bytes]], name: str, verb: str, body: bytes, reply: Reply) -> None:
        """Start a request; ``reply`` is called once."""
        service = self.service
        live = service.models.get(name)
        try:
            refusal = self.guard.refuse(headers, verb)
            if refusal is not None:
                live = None  # who may not ask does not learn how far the model is
                raise Refused(*refusal)
            live = service.find(name)
            intake = live.intakes.get(verb) or service.intake(live, verb)
            rows, batch = intake.read(body)

            def answer(answers: list[dict[str, Any]] | None, error: BaseException | None) -> None:
                if answers is None:
                    self.refused(error, live, reply)
                elif not batch:
                    status = answers[0].pop("status", 200)
                    self.send(status, answers[0], reply)
                else:
                    status = 207 if any("status" in one for one in answers) else 200
                    self.send(status, {"rows": answers, "position": live.position}, reply)

            service.submit(verb, live, rows, answer)
        except Refused as refused:
            self.refused(refused, live, reply)

    def refused(self, error: BaseException | None, live: Live | None, reply: Reply) -> None:
        refusal = Job.refusal(error)
        self.send(refusal.status, ({} if live is None else {"position": live.position}) | refusal.body, reply)

    def send(self, status: int, body: Any, reply: Reply) -> None:
        if status >= 400:
            self.service.counts[f"status_{status}"] += 1
        reply(status, _encode(body))


class Wire:
    """The ASGI application of the service."""

    def __init__(self, edge: Edge, rest: Callable[..., Awaitable[None]]) -> None:
        self.edge, self.rest = edge, rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        where = target(scope["path"].encode()) if scope["type"] == "http" else None
        if where is None or scope["method"] != "POST":
            await self.rest(scope, receive, send)
            return
        try:
            body = await read(receive)
        except Refused as refused:
            await respond(send, refused.status, _encode(refused.body))
            return
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self.edge.begin(
            scope["headers"], *where, body, lambda *made: None if answered.done() else answered.set_result(made)
        )
        await respond(send, *await answered)


async def read(receive: Any) -> bytes:
    """The whole body, within the limit."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Refused(400, "the connection was closed", "body")
    body = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the connection was closed", "body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise Refused(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches", "body")
    return b"".join(parts)


async def respond(send: Any, status: int, body: bytes) -> None:
    """One JSON answer."""
    headers = [_TYPE, (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refusal_body(message: str) -> bytes:
    """The body of a refusal by the connection itself."""
    return _encode({"error": {"message": message, "where": None}})
