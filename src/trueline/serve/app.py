"""The routes off the hot path, on Starlette: models, certificates, snapshots, the Open Inference Protocol, metrics, the page."""

from __future__ import annotations

import asyncio
import contextlib
import math
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
from . import admin
from . import spec as specs
from .events import MOST_READERS, Events
from .guard import Guard
from .intake import Refused, decode
from .live import Live
from .openapi import description
from .service import Service
from .store import StoreFailure, StoreFull
from .wire import Edge, Wire, read

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
                    raise Refused(*refusal)
                return await call(request)
            except Refused as refused:
                return answer(refused.body, refused.status)
            except StoreFull:
                return answer({"error": {"message": "the disk is full; nothing was stored", "where": None}}, 507)
            except StoreFailure:
                return answer(
                    {
                        "error": {
                            "message": "the store failed: the outcome is unknown; the service is stopping",
                            "where": None,
                        }
                    },
                    503,
                )
            except TruelineError as error:
                return answer(error.to_dict(), 422)

        return run

    def live(self, request: Request) -> Live:
        return self.service.find(request.path_params["name"])

    async def body(self, request: Request) -> Any:
        return decode(await read(request.receive))

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
                if key in parent.spec and not parent.spec.get("from_file"):
                    given.setdefault(key, parent.spec[key])
        live = await admin.create(self.service, specs.check(given))
        return answer(self.summary(live), 201)

    async def delete(self, request: Request) -> Response:
        await admin.delete(self.service, request.path_params["name"])
        return answer({"deleted": request.path_params["name"]})

    async def promote(self, request: Request) -> Response:
        given = await self.body(request)
        if not isinstance(given, dict) or not isinstance(given.get("shadow"), str):
            raise Refused(
                422,
                "field 'shadow' is missing; give the name of a model that learns in the shadow of this one",
                "shadow",
            )
        self.live(request)
        return answer(self.summary(await admin.promote(self.service, request.path_params["name"], given["shadow"])))

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

        async def pieces() -> AsyncIterator[bytes]:
            try:
                with open(path, "rb") as file:
                    while piece := await asyncio.to_thread(file.read, 1 << 20):
                        yield piece
            finally:
                os.unlink(path)

        try:
            await asyncio.to_thread(self.service.store.backup, path)
        except BaseException:
            os.unlink(path)
            raise
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
            {"name": live.name, "versions": ["1"], "platform": "trueline", "inputs": inputs, "outputs": [output]}
        )

    async def oip_ready(self, request: Request) -> Response:
        self.live(request)
        return answer({"name": request.path_params["name"], "ready": True})

    async def infer(self, request: Request) -> Response:
        live = self.live(request)
        given = await self.body(request)
        rows = _tensors(given)
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
        return Response("\n".join(_metrics(self.service, self.events)) + "\n", media_type="text/plain; version=0.0.4")

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


def _tensors(given: Any) -> list[dict[str, Any]]:
    """The rows of an inference request: one input a feature, all of one length."""
    try:
        inputs = given["inputs"]
        columns = {str(one["name"]): one["data"] for one in inputs}
    except (TypeError, KeyError):
        raise Refused(
            400, "field 'inputs' is not a list of tensors with name, shape, datatype and data", "inputs"
        ) from None
    columns = {
        name: [v for part in data for v in (part if isinstance(part, list) else [part])]
        if isinstance(data, list)
        else None
        for name, data in columns.items()
    }
    for name, data in columns.items():
        if data is None:
            raise Refused(400, f"the data of input {specs.shown(name)} is not a list", "inputs")
    lengths = {len(data) for data in columns.values() if data is not None}
    if len(lengths) != 1 or not 0 < max(lengths) <= 10_000:
        raise Refused(400, "the inputs are not of one length from 1 to 10000", "inputs")
    return [{name: data[k] for name, data in columns.items() if data is not None} for k in range(lengths.pop())]


def _metrics(service: Service, events: Events) -> list[str]:
    """Prometheus's text format."""
    lines = []

    def family(name: str, kind: str, text: str, values: list[tuple[str, float]]) -> None:
        lines.extend([f"# HELP trueline_{name} {text}", f"# TYPE trueline_{name} {kind}"])
        lines.extend(f"trueline_{name}{label} {value!r}" for label, value in values if math.isfinite(value))

    for key, text in (
        ("labels", "Labels learned by this run."),
        ("predictions", "Predictions served by this run."),
        ("replays", "Labels sent again."),
        ("expired", "Predictions that expired."),
        ("store_errors", "Failed store operations."),
    ):
        family(f"{key}_total", "counter", text, [("", float(service.counts[key]))])
    family(
        "refused_total",
        "counter",
        "Refused requests by status.",
        [
            (f'{{status="{key[7:]}"}}', float(n))
            for key, n in sorted(service.counts.items())
            if key.startswith("status_")
        ],
    )
    models = list(service.models.values())
    proofs = {live.name: live.record.certificate() for live in models}
    for key, text, value in (
        ("position", "Journal position.", lambda v: float(v.position)),
        ("pending", "Predictions that wait for a label.", lambda v: float(service.pending[v.mid])),
        ("loss", "Loss suffered.", lambda v: float(getattr(proofs[v.name], "loss", math.nan))),
        ("comparator_loss", "Loss of the best fixed weights in hindsight.", lambda v: float(getattr(proofs[v.name], "comparator_loss", math.nan))),
        ("bound", "Proven bound on the loss.", lambda v: float(getattr(proofs[v.name], "bound", math.nan))),
        ("delay_excess", "What the delay of labels cost.", lambda v: float(v.tally["excess"])),
        ("drift_score", "How far the newest window's loss stands out.", lambda v: float(v.drift()["score"])),
        ("drifting", "1 while the newest window stands out.", lambda v: float(v.drift()["drifting"])),
    ):  # fmt: skip
        family(key, "gauge", text, [(f'{{model="{live.name}"}}', value(live)) for live in models])
    family("event_readers", "gauge", "Open event streams.", [("", float(events.readers))])
    return lines


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
        ("GET", "/v2/models/{name}", rest.oip_model, "predict"),
        ("GET", "/v2/models/{name}/ready", rest.oip_ready, "predict"),
        ("POST", "/v2/models/{name}/infer", rest.infer, "predict"),
        ("GET", "/metrics", rest.metrics, "predict"),
        ("GET", "/openapi.json", rest.openapi, None),
        ("GET", "/events", rest.stream, "predict"),
        *(("GET", path, rest.page, None) for path in PAGE),
    ]
    routes = [Route(path, rest.handler(call, scope), methods=[method]) for method, path, call, scope in table]

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

    return Wire(edge, Starlette(routes=routes, exception_handlers={404: missing, 405: missing}, lifespan=life))
