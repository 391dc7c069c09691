"""Python clients: retries are safe, because every prediction and label has an id and the service learns an id once.

A request whose outcome is unknown (a lost connection, 503, 507, 429, 408) is sent again with the same ids and growing
pauses; a refusal is raised at once with the service's own sentence.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from ..errors import DataError, TruelineError

AGAIN = (408, 429, 502, 503, 504, 507)
ROWS, BYTES = 1000, 4 << 20  # in one request
JSON = {"content-type": "application/json"}


class ServiceError(TruelineError):
    """A refusal of the service, with its HTTP status."""

    kind = "service"

    def __init__(self, status: int, message: str, where: str | None = None) -> None:
        super().__init__(message, where=where)
        self.status = status


def _identified(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that all have an id, so that sending them twice is the same as once."""
    return [row if row.get("id") else row | {"id": uuid.uuid4().hex} for row in rows]


def _pauses(tries: int) -> Iterator[float]:
    for k in range(tries):
        yield min(5.0, 0.05 * 2**k) * random.uniform(0.5, 1.0)


def _read(answer: httpx.Response) -> Any:
    if answer.status_code < 400:
        return answer.json()
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": answer.text[:200]}
    raise ServiceError(answer.status_code, error.get("message", ""), error.get("where"))


def _encoded(body: Any) -> bytes:
    """JSON; NaN goes as it is, so that the service names the field."""
    try:
        return json.dumps(body, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise DataError(
            f"this cannot be sent as JSON: {error}; give numbers, text and booleans", where="rows"
        ) from None


def _parts(rows: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """Batches as bodies, each of at most ``ROWS`` rows and about ``BYTES`` bytes."""
    if not rows:
        raise DataError("there are no rows; give a list of dictionaries", where="rows")
    part: list[bytes] = []
    size = 0
    for row in _identified(rows):
        one = _encoded(row)
        if part and (len(part) == ROWS or size + len(one) > BYTES):
            yield b"[" + b",".join(part) + b"]"
            part, size = [], 0
        part.append(one)
        size += len(one) + 1
    yield b"[" + b",".join(part) + b"]"


class _Calls:
    def __init__(self, model: str, token: str | None, tries: int) -> None:
        self.model, self.tries = model, tries
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def _path(self, verb: str) -> str:
        return f"/v1/models/{self.model}/{verb}"


class Client(_Calls):
    """A client that waits.

    Parameters
    ----------
    address : where the service listens, such as "http://127.0.0.1:8000"
    model : the model's name
    token : a bearer token, if the service wants one
    tries : how often a request whose outcome is unknown is sent again

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", "rents")
    >>> made = client.predict({"rooms": 3, "area": 71.0})     # doctest: +SKIP
    >>> client.learn(made["id"], 1250.0)["position"]          # doctest: +SKIP
    1
    """

    def __init__(
        self, address: str, model: str, *, token: str | None = None, tries: int = 6, timeout: float = 30.0
    ) -> None:
        super().__init__(model, token, tries)
        self.http = httpx.Client(base_url=address, timeout=timeout, headers=self.headers)

    def predict(self, features: dict[str, Any], id: str | None = None) -> dict[str, Any]:
        """Predict one row; the answer has its id, to which the label belongs."""
        return self._send("predict", _encoded(_identified([{"features": features} | ({"id": id} if id else {})])[0]))

    def learn(
        self, id: str, label: Any, *, weight: float = 1.0, features: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Learn the label of a prediction; with ``features``, also one that the service never saw."""
        extra = {} if features is None else {"features": features}
        return self._send("learn", _encoded({"id": id, "label": label, "weight": weight} | extra))

    def predict_many(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Predict rows {"features", "id"?} in batches."""
        return [one for part in _parts(rows) for one in self._send("predict", part)["rows"]]

    def learn_many(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Learn rows {"id", "label", "weight"?, "features"?} in batches; refused rows come back with their status."""
        return [one for part in _parts(rows) for one in self._send("learn", part)["rows"]]

    def certificate(self) -> dict[str, Any]:
        """What the model proves now."""
        return _read(self.http.get(self._path("certificate")))

    def _send(self, verb: str, body: bytes) -> Any:
        for pause in _pauses(self.tries):
            try:
                answer = self.http.post(self._path(verb), content=body, headers=JSON)
            except httpx.TransportError:
                time.sleep(pause)
                continue
            if answer.status_code not in AGAIN:
                return _read(answer)
            time.sleep(pause)
        return _read(self.http.post(self._path(verb), content=body, headers=JSON))

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class AsyncClient(_Calls):
    """The same for asyncio, with ``async with`` and ``await``."""

    def __init__(
        self, address: str, model: str, *, token: str | None = None, tries: int = 6, timeout: float = 30.0
    ) -> None:
        super().__init__(model, token, tries)
        self.http = httpx.AsyncClient(base_url=address, timeout=timeout, headers=self.headers)

    async def predict(self, features: dict[str, Any], id: str | None = None) -> dict[str, Any]:
        """Predict one row."""
        row = _identified([{"features": features} | ({"id": id} if id else {})])[0]
        return await self._send("predict", _encoded(row))

    async def learn(
        self, id: str, label: Any, *, weight: float = 1.0, features: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Learn the label of a prediction."""
        extra = {} if features is None else {"features": features}
        return await self._send("learn", _encoded({"id": id, "label": label, "weight": weight} | extra))

    async def predict_many(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Predict rows in batches."""
        return [one for part in _parts(rows) for one in (await self._send("predict", part))["rows"]]

    async def learn_many(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Learn rows in batches."""
        return [one for part in _parts(rows) for one in (await self._send("learn", part))["rows"]]

    async def certificate(self) -> dict[str, Any]:
        """What the model proves now."""
        return _read(await self.http.get(self._path("certificate")))

    async def _send(self, verb: str, body: bytes) -> Any:
        for pause in _pauses(self.tries):
            try:
                answer = await self.http.post(self._path(verb), content=body, headers=JSON)
            except httpx.TransportError:
                await asyncio.sleep(pause)
                continue
            if answer.status_code not in AGAIN:
                return _read(answer)
            await asyncio.sleep(pause)
        return _read(await self.http.post(self._path(verb), content=body, headers=JSON))

    async def close(self) -> None:
        await self.http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()
