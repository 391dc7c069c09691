"""The routes off the hot path, on Starlette: models, certificates, snapshots, the Open Inference Protocol, metrics, the page."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from .. import __version__
from ..errors import DataError, TruelineError
from ..modelfile import dumps
from . import admin, metrics, tensors
from . import spec as specs
from .events import MOST_READERS, Events
from .guard import Guard
from .intake import Refused, decode
from .live import Live
from .openapi import description
from .service import Service
from .shape import shown
from .store import StoreFailure, StoreFull
from .wire import Edge, Wire, passed, read

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


def answer(body: Any, status: int = 200) -> Response:
    """A JSON answer; numbers that JSON lacks become null."""
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(msgspec.json.encode(body), status, headers, "application/json")


class Rest:
    """The handlers, each a few lines: parse, call, answer."""

    def __init__(self, service: Service, guard: Guard, events: Events) -> None:
        self.service, self.guard, self.events = service, guard, events

    def handler(
        self, call: Callable[[Request], Awaitable[Response]], scope: str | None
    ) -> Callable[[Request], Awaitable[Response]]:
        async def run(request: Request) -> Response:
            try:
                refusal = self.guard.refuse(request.scope["headers"], scope) if scope else None
                if refusal is not None:
                    return await self.unread(request, self.refused(*refusal, request=request, known=False))
                return await call(request)
            except Refused as refused:
                made = self.refused(refused.status, None, request, refused.body)
                return await self.unread(request, made) if refused.status in (408, 413, 503) else made
            except StoreFull:
                return self.refused(507, "the disk is full; nothing was stored", request)
            except StoreFailure:
                return self.refused(503, "the store failed: the outcome is unknown; the service is stopping", request)
            except TruelineError as error:
                return self.refused(422, None, request, error.to_dict())

        return run

    async def unread(self, request: Request, made: Response) -> Response:
        """The answer to a request whose body was not read; its connection is closed unless the rest is short."""
        if made.status_code == 408 or not await passed(request.receive):
            made.headers["connection"] = "close"
        return made

    def refused(
        self, status: int, message: str | None, request: Request, body: Any = None, known: bool = True
    ) -> Response:
        """A refusal; who was let in (``known``) learns how far the model is."""
        self.service.counts[f"status_{status}"] += 1
        live = self.service.models.get(request.path_params.get("name", "")) if known else None
        made = body if body is not None else {"error": {"message": message, "where": None}}
        if request.url.path.startswith("/v2"):  # that protocol's errors are text
            made = made | {"error": made["error"]["message"]}
        return answer(made if live is None else {"position": live.position} | made, status)

    def live(self, request: Request) -> Live:
        version = request.path_params.get("version", "1")
        if version != "1":
            raise Refused(404, f"there is no version {shown(version)}; a live model has version 1 only", "version")
        return self.service.find(request.path_params["name"])

    async def body(self, request: Request) -> Any:
        return decode(await read(request.scope["headers"], request.receive))

    # ---- models
    def summary(self, live: Live) -> dict[str, Any]:
        return {
            "name": live.name, "task": live.spec["task"], "target": live.spec["target"], "features": live.shape.describe(),
            "classes": live.classes or None, "learner": live.record.kind, "position": live.position, "examples": live.record.examples,
            "pending": self.service.pending[live.mid], "shadow_of": live.spec.get("shadow_of"), "open": live.shape.open,
        }  # fmt: skip

    async def models(self, request: Request) -> Response:
        return answer(
            {
                "models": [self.summary(live) for live in self.service.models.values()],
                "retention_seconds": self.service.retention,
            }
        )

    async def model(self, request: Request) -> Response:
        return answer(self.summary(self.live(request)))

    async def create(self, request: Request) -> Response:
        given = await self.body(request)
        if isinstance(given, dict) and isinstance(given.get("shadow_of"), str):
            parent = self.service.find(given["shadow_of"])
            for key in ("features", "classes", "open", "task", "target"):
                if key in parent.spec:
                    given.setdefault(key, parent.spec[key])
        live = await admin.create(self.service, specs.check(given))
        return answer(self.summary(live), 201)

    async def delete(self, request: Request) -> Response:
        live = self.live(request)
        await admin.delete(self.service, live.name)
        return answer({"deleted": live.name, "position": live.position})

    async def promote(self, request: Request) -> Response:
        given = await self.body(request)
        if not isinstance(given, dict) or not isinstance(given.get("shadow"), str):
            raise Refused(
                422,
                "field 'shadow' is missing; give the name of a model that learns in the shadow of this one",
                "shadow",
            )
        for key in given:
            if key not in ("shadow", "force"):
                raise Refused(422, f"there is no field {shown(key)}; give shadow and perhaps force", str(key)[:60])
        force = given.get("force", False)
        if not isinstance(force, bool):
            raise Refused(422, f"field 'force' is {shown(force)}; give true or false", "force")
        live = await admin.promote(self.service, self.live(request).name, given["shadow"], force)
        return answer(self.summary(live))

    async def certificate(self, request: Request) -> Response:
        return answer(self.live(request).certificate())

    async def coefficients(self, request: Request) -> Response:
        return answer(self.live(request).coefficients())

    async def snapshot(self, request: Request) -> Response:
        live = self.live(request)
        raw = await asyncio.to_thread(dumps, *live.state())
        name = {
            "content-disposition": f'attachment; filename="{live.name}.tl"',
            "x-trueline-position": str(live.position),
        }
        return Response(raw, 200, name, "application/octet-stream")

    async def backup(self, request: Request) -> Response:
        handle, path = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(self.service.store.path)), suffix=".backup")
        os.close(handle)

        try:
            await asyncio.to_thread(self.service.store.backup, path)
            file = open(path, "rb")  # noqa: SIM115 closed when it was sent, or by the answer's end
        finally:
            os.unlink(path)  # the open file stays; nothing is left where the client, or the service, goes away

        async def pieces() -> AsyncIterator[bytes]:
            with file:
                while piece := await asyncio.to_thread(file.read, 1 << 20):
                    yield piece

        return StreamingResponse(
            pieces(), 200, {"content-disposition": 'attachment; filename="backup.db"'}, "application/vnd.sqlite3"
        )

    # ---- Open Inference Protocol v2
    async def alive(self, request: Request) -> Response:
        return answer({"live": True})

    async def ready(self, request: Request) -> Response:
        good = self.service.failed is None
        return answer({"ready": good}, 200 if good else 503)

    async def server(self, request: Request) -> Response:
        return answer({"name": "trueline", "version": __version__, "extensions": []})

    async def oip_model(self, request: Request) -> Response:
        live = self.live(request)
        types = {"number": "FP64", "boolean": "BOOL", "category": "BYTES"}
        inputs = [
            {"name": f["name"], "datatype": types.get(f["kind"], "BYTES"), "shape": [-1]} for f in live.shape.describe()
        ]
        output = {"name": "prediction", "datatype": "FP64", "shape": [-1]}
        return answer(
            {
                "name": live.name,
                "versions": ["1"],
                "platform": "trueline",
                "inputs": inputs,
                "outputs": [output],
                "parameters": {"position": live.position},
            }
        )

    async def oip_ready(self, request: Request) -> Response:
        live = self.live(request)
        return answer({"name": live.name, "ready": True, "parameters": {"position": live.position}})

    async def infer(self, request: Request) -> Response:
        live = self.live(request)
        given = await self.body(request)
        rows = tensors.rows(given)
        try:
            made = live.predict([live.shape.encode(row) for row in rows])
        except DataError as error:
            raise Refused(400, error.message, error.where) from None
        flat = [value for one in made for value in (one if isinstance(one, list) else [one])]
        shape = [len(made)] if len(flat) == len(made) else [len(made), len(flat) // max(1, len(made))]
        body = {
            "model_name": live.name,
            "model_version": "1",
            "outputs": [{"name": "prediction", "datatype": "FP64", "shape": shape, "data": flat}],
        }
        if isinstance(given.get("id"), str):
            body["id"] = given["id"]
        return answer(body | {"parameters": {"position": live.position}})

    # ---- watching
    async def metrics(self, request: Request) -> Response:
        return Response(metrics.text(self.service, self.events), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return answer(description())

    async def stream(self, request: Request) -> Response:
        if self.events.readers >= MOST_READERS:
            raise Refused(503, "too many readers of events; try again later")
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(
            self.events.stream(request.headers.get("last-event-id")), 200, headers, "text/event-stream"
        )

    async def page(self, request: Request) -> Response:
        name, kind = PAGE[request.url.path]
        text = resources.files("trueline.serve").joinpath("page", name).read_bytes()
        return Response(
            text,
            200,
            {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"},
            kind,
        )


def application(service: Service, guard: Guard, events: Events, edge: Edge) -> Wire:
    """The whole service as one ASGI application."""
    rest = Rest(service, guard, events)
    table: list[tuple[str, str, Callable[[Request], Awaitable[Response]], str | None]] = [
        ("GET", "/v1/models", rest.models, "predict"),
        ("POST", "/v1/models", rest.create, "admin"),
        ("GET", "/v1/models/{name}", rest.model, "predict"),
        ("DELETE", "/v1/models/{name}", rest.delete, "admin"),
        ("POST", "/v1/models/{name}/promote", rest.promote, "admin"),
        ("GET", "/v1/models/{name}/certificate", rest.certificate, "predict"),
        ("GET", "/v1/models/{name}/coefficients", rest.coefficients, "predict"),
        ("GET", "/v1/models/{name}/snapshot", rest.snapshot, "admin"),
        ("GET", "/v1/backup", rest.backup, "admin"),
        ("GET", "/v2", rest.server, "predict"),
        ("GET", "/v2/health/live", rest.alive, None),
        ("GET", "/v2/health/ready", rest.ready, None),
        *(
            one
            for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
            for one in (
                ("GET", path, rest.oip_model, "predict"),
                ("GET", f"{path}/ready", rest.oip_ready, "predict"),
                ("POST", f"{path}/infer", rest.infer, "predict"),
            )
        ),
        ("GET", "/metrics", rest.metrics, "predict"),
        ("GET", "/openapi.json", rest.openapi, None),
        ("GET", "/events", rest.stream, "predict"),
        *(("GET", path, rest.page, None) for path in PAGE),
    ]
    routes = [Route(path, rest.handler(call, scope), methods=[method]) for method, path, call, scope in table]
    # Their POSTs are answered before they come here (wire.py), but for names that no model has; other methods get 405.
    for verb in ("predict", "learn"):
        routes.append(Route(f"/v1/models/{{name}}/{verb}", rest.handler(rest.model, verb), methods=["POST"]))

    async def missing(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        what = "this path does not take this method" if status == 405 else "there is nothing at this path"
        made = answer({"error": {"message": f"{what}; GET /openapi.json lists what there is", "where": "path"}}, status)
        for name, value in (getattr(error, "headers", None) or {}).items():
            made.headers[name] = value
        return made

    @contextlib.asynccontextmanager
    async def life(app: Any) -> AsyncIterator[None]:
        yield

    behind = Starlette(routes=routes, exception_handlers={404: missing, 405: missing}, lifespan=life)
    behind.router.redirect_slashes = False  # a redirection would repeat the Host that it was given
    return Wire(edge, guard, behind)
