"""The two hot paths as bare ASGI: read, decode, call the service, answer. Everything else goes to the application behind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from .guard import Guard, body_of
from .service import Service
from .writer import Refused

MOST_ROWS = 10_000  # in a batch
LARGEST_BODY = 8 * 1024 * 1024
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_PREFIX = "/v1/models/"
_TYPE = (b"content-type", b"application/json")
_BATCH = ("rows", "instances")


def decode(body: bytes) -> Any:
    """JSON, or a refusal; NaN, Infinity and 1e309 pass as numbers, so that the field that holds them is named."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        made = json.loads(body)
        with contextlib.suppress(OverflowError):
            _encode(made)  # half a surrogate pair is not text
        return made
    except (ValueError, RecursionError) as error:
        what = "is nested too deep" if isinstance(error, RecursionError) else "is not JSON"
        raise Refused(400, f"the body {what}; send a JSON object", "body") from None


def items_of(given: Any) -> tuple[list[Any], bool]:
    """The rows of a request, and whether it is a batch: an object, a list, or {"rows": [...]}."""
    if isinstance(given, dict) and set(given) == {"rows"}:
        given = given["rows"]
        if not isinstance(given, list):
            raise Refused(422, "field 'rows' is not a list of objects", "rows")
    if not isinstance(given, list):
        return [given], False
    if not 0 < len(given) <= MOST_ROWS:
        raise Refused(422, f"the batch has {len(given)} rows; give 1 to {MOST_ROWS}", "rows")
    return given, True


class Wire:
    """The ASGI application of the service."""

    def __init__(self, service: Service, guard: Guard, rest: Callable[..., Awaitable[None]]) -> None:
        self.service, self.guard, self.rest = service, guard, rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"]
            if path.startswith(_PREFIX):
                name, _, verb = path[len(_PREFIX) :].partition("/")
                if verb in ("predict", "learn"):
                    await self._answer(scope, receive, send, name, verb)
                    return
        await self.rest(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any, name: str, verb: str) -> None:
        service = self.service
        live = service.models.get(name)
        try:
            refusal = self.guard.refuse(scope["headers"], verb)
            if refusal is not None:
                raise Refused(*refusal)
            given = decode(await read(receive))
            items, batch = items_of(given)
            live = service.find(name)
            answers = await (service.predict if verb == "predict" else service.learn)(live, items)
            if batch:
                status = 207 if any("status" in answer for answer in answers) else 200
                body = _encode({"rows": answers, "position": live.position})
            else:
                status = answers[0].pop("status", 200)
                body = _encode({"position": live.position} | answers[0])
        except Refused as refused:
            place = {} if live is None or refused.status in (401, 403) else {"position": live.position}
            status, body = refused.status, _encode(place | refused.body)
        if status >= 400:
            service.counts[f"status_{status}"] += 1
        await reply(send, status, body)


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


async def reply(send: Any, status: int, body: bytes) -> None:
    """One JSON answer."""
    headers = [_TYPE, (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refusal_body(status: int, message: str) -> bytes:
    return _encode(body_of(status, message))
