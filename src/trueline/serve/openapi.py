"""The OpenAPI description of the service."""

from __future__ import annotations

from typing import Any

from .. import __version__

ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"message": {"type": "string"}, "where": {"type": ["string", "null"]}},
            "required": ["message"],
        }
    },
    "required": ["error"],
}
OIP_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
FEATURES = {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean"]}}
PREDICT = {
    "type": "object",
    "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 256}, "features": FEATURES},
    "required": ["features"],
    "additionalProperties": False,
}
LEARN = {
    "type": "object",
    "properties": {"id": {"type": "string", "minLength": 1, "maxLength": 256}, "label": {"type": ["number", "string", "boolean"]}, "weight": {"type": "number", "exclusiveMinimum": 0}, "features": FEATURES},
    "required": ["label"], "additionalProperties": False,
}  # fmt: skip
TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "data": {"type": "array"},
    },
    "required": ["name", "data"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}, "target": {"type": "string"},
        "task": {"enum": ["regression", "classification"]}, "classes": {"type": "array"}, "open": {"type": "boolean"},
        "features": {"type": "object"}, "learner": {"type": "object"}, "shadow_of": {"type": "string"},
    },
    "required": ["name"], "additionalProperties": False,
}  # fmt: skip
MEANING = {
    "200": "done", "201": "made", "207": "done, some rows refused: each such row has its status", "400": "not JSON, or not what the protocol asks",
    "401": "no token", "403": "not allowed", "404": "no such model or prediction", "408": "too slow", "409": "contradicts what is stored",
    "410": "the prediction has expired", "413": "too large", "415": "compressed", "422": "a field that cannot be used, by name",
    "431": "the head is too large", "503": "outcome unknown, retry with the same id", "507": "disk full, nothing stored",
}  # fmt: skip


def _rows(one: dict[str, Any]) -> dict[str, Any]:
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": 10000}
    return {
        "anyOf": [
            one,
            many,
            {"type": "object", "properties": {"rows": many}, "required": ["rows"], "additionalProperties": False},
        ]
    }


def _operation(
    text: str, codes: str, body: Any = None, kind: str = "application/json", named: bool = False, oip: bool = False
) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": text, "responses": {}}
    for code in [*codes.split(), "401", "403", "408", "415", "431"]:
        content = (
            {"application/json": {"schema": OIP_ERROR if oip else ERROR}}
            if code >= "400" and code != "503"
            else {kind: {}}
        )
        made["responses"][code] = {
            "description": MEANING[code],
            "content": content if code != "503" else {"application/json": {}},
        }
    if body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if named:
        made["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    return made


def description() -> dict[str, Any]:
    """What GET /openapi.json answers."""

    def named(text: str, codes: str, **more: Any) -> dict[str, Any]:
        return _operation(text, codes, named=True, **more)

    writes = "400 404 409 413 422 503 507"
    paths = {
        "/v1/models": {"get": _operation("every model", "200"), "post": _operation("make a model", f"201 {writes}", SCHEMA)},
        "/v1/models/{name}": {"get": named("one model", "200 404"), "delete": named("delete a model", "200 404 503 507")},
        "/v1/models/{name}/predict": {"post": named("predict, and keep the features until the label comes", f"200 {writes}", body=_rows(PREDICT))},
        "/v1/models/{name}/learn": {"post": named("learn labels, each once", f"200 207 410 {writes}", body=_rows(LEARN))},
        "/v1/models/{name}/promote": {"post": named("exchange a model and its shadow", f"200 {writes}", body={"type": "object", "properties": {"shadow": {"type": "string"}, "force": {"type": "boolean"}}, "required": ["shadow"]})},
        "/v1/models/{name}/certificate": {"get": named("what the model proves", "200 404")},
        "/v1/models/{name}/coefficients": {"get": named("coefficients by name", "200 404")},
        "/v1/models/{name}/snapshot": {"get": named("the model file", "200 404", kind="application/octet-stream")},
        "/v1/backup": {"get": _operation("a copy of the store", "200", kind="application/vnd.sqlite3")},
        "/v2": {"get": _operation("the server", "200", oip=True)},
        "/v2/health/live": {"get": _operation("whether the process answers", "200")},
        "/v2/health/ready": {"get": _operation("whether the store works", "200 503")},
        "/v2/models/{name}": {"get": named("inputs and outputs", "200 404", oip=True)},
        "/v2/models/{name}/ready": {"get": named("whether the model is there", "200 404", oip=True)},
        "/v2/models/{name}/infer": {"post": named("predict tensors; nothing is kept", "200 400 404 413", oip=True, body={"type": "object", "properties": {"id": {"type": "string"}, "inputs": {"type": "array", "items": TENSOR}}, "required": ["inputs"]})},
        "/metrics": {"get": _operation("Prometheus's text format", "200", kind="text/plain")},
        "/events": {"get": _operation("server-sent events of everything the page shows; resumed by Last-Event-ID", "200 503", kind="text/event-stream")},
        "/": {"get": _operation("the live page", "200", kind="text/html")},
        "/openapi.json": {"get": _operation("this description", "200")},
    }  # fmt: skip
    return {
        "openapi": "3.1.0", "info": {"title": "trueline", "version": __version__, "description": "Predict now, learn when the label arrives, lose nothing."},
        "paths": paths, "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}, "security": [{"token": []}, {}],
    }  # fmt: skip
