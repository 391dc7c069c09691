"""The service as an ASGI application: the guard, bodies within their limits, and the two hot requests, predict and learn.

The guard is asked as soon as the head of a request is whole; nobody's body is read before. Bodies have a size, a time,
and one budget for all of them together. Everything but predict and learn goes to the application behind.
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
ALL_BODIES = 64 * 1024 * 1024  # of all requests together, of bodies that come in pieces
BODY_SECONDS = 30.0
UNREAD_BODY = 64 * 1024  # of a request that is refused: read past, so that its connection stays
UNREAD_SECONDS = 1.0
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
    """A body in, an answer out."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def begin(self, name: str, verb: str, body: bytes, reply: Reply) -> None:
        """Start a request; ``reply`` is called once."""
        service = self.service
        live = service.models.get(name)
        try:
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

    def __init__(self, edge: Edge, guard: Guard, rest: Callable[..., Awaitable[None]]) -> None:
        self.edge, self.guard, self.rest = edge, guard, rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        where = target(path.encode()) if scope["method"] == "POST" else None
        refusal = self.guard.refuse(scope["headers"], where and where[1], path == "/")
        if refusal is not None:  # who may not ask does not learn how far the model is
            await self.refuse(receive, send, Refused(*refusal))
            return
        if where is None:
            await self.rest(scope, receive, send)
            return
        try:
            body = await read(scope["headers"], receive)
        except Refused as refused:
            await self.refuse(receive, send, refused)
            return
        answered: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self.edge.begin(*where, body, lambda *made: None if answered.done() else answered.set_result(made))
        del body
        await respond(send, *await answered)

    async def refuse(self, receive: Any, send: Any, refused: Refused) -> None:
        """An answer to a request whose body was not read: the connection is closed unless the rest of it is short."""
        self.edge.service.counts[f"status_{refused.status}"] += 1
        closing = refused.status == 408 or not await passed(receive)
        await respond(send, refused.status, _encode(refused.body), closing)


class Bodies:
    """How many bytes of bodies that come in pieces are held now, by all requests together."""

    held = 0


async def read(headers: list[tuple[bytes, bytes]], receive: Any) -> bytes:
    """The whole body, within its limits: its size, its time, and the budget of all bodies."""
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or len(value) > 12 or int(value) > LARGEST_BODY):
            raise _too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                return _within(message.get("body", b""))
            return await _pieces(message, receive)
    except TimeoutError:
        raise Refused(408, "the body did not arrive in time", "body") from None


async def _pieces(message: Any, receive: Any) -> bytes:
    """A body that comes in pieces."""
    body = bytearray()
    try:
        while message["type"] == "http.request":
            piece = message.get("body", b"")
            Bodies.held += len(piece)
            body += piece
            if len(body) > LARGEST_BODY:
                raise _too_large()
            if Bodies.held > ALL_BODIES:
                raise Refused(
                    503, "the bodies of other requests take all the memory there is for them; try again later"
                )
            if not message.get("more_body"):
                return bytes(body)
            message = await receive()
        raise Refused(400, "the connection was closed", "body")
    finally:
        Bodies.held -= len(body)


def _within(body: bytes) -> bytes:
    if len(body) > LARGEST_BODY:
        raise _too_large()
    return body


def _too_large() -> Refused:
    return Refused(413, f"the body is larger than {LARGEST_BODY} bytes; send smaller batches", "body")


async def passed(receive: Any) -> bool:
    """Read past the rest of a short body; whether that was all of it."""
    size = 0
    try:
        async with asyncio.timeout(UNREAD_SECONDS):
            while size <= UNREAD_BODY:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return message["type"] == "http.request"
    except TimeoutError:
        pass
    return False


async def respond(send: Any, status: int, body: bytes, closing: bool = False) -> None:
    """One JSON answer."""
    headers = [_TYPE, (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if closing:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
