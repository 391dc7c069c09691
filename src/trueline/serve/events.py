"""The live stream: one event a second while something changes, kept for a while so that a reader can resume."""

from __future__ import annotations

import asyncio
import collections
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np

from ..certificates.regret import BEST_MEMBER
from .live import Live
from .service import Service

KEPT = 600
POINTS = 400  # of a model's losses, for a page that is opened later
TERMS_SHOWN = 24
MOST_READERS = 256


class Events:
    """What the page shows, as server-sent events numbered within one run of the service."""

    def __init__(self, service: Service, period: float = 0.5) -> None:
        self.service, self.period = service, period
        self.run = service._prefix
        self.kept: collections.deque[tuple[int, bytes]] = collections.deque(maxlen=KEPT)
        self.count = 0
        self.points: dict[int, list[tuple[Any, ...]]] = {}  # by model: (position, loss, best, bound)
        self.stopping = asyncio.Event()
        self.news = asyncio.Condition()
        self.readers = 0
        self._seen: Any = None
        self._last = (time.monotonic(), service.counts["labels"], service.counts["predictions"])

    async def publish(self) -> None:
        """Make an event whenever something has changed."""
        while not self.stopping.is_set():
            counts = self.service.counts
            seen = (
                counts["labels"],
                counts["predictions"],
                counts["expired"],
                tuple(self.service.models),
                tuple(v.mid for v in self.service.models.values()),
            )
            # One more event after the last change, so that rates fall back to 0.
            if seen != self._seen or self._busy:
                self._busy = seen != self._seen
                self._seen = seen
                await self._make()
            try:
                await asyncio.wait_for(self.stopping.wait(), self.period)
            except TimeoutError:
                continue

    _busy = False

    async def _make(self) -> None:
        now, counts = time.monotonic(), self.service.counts
        then, labels, predictions = self._last
        gone = max(now - then, 1e-3)
        self._last = (now, counts["labels"], counts["predictions"])
        body: dict[str, Any] = {
            "labels_per_second": (counts["labels"] - labels) / gone,
            "predictions_per_second": (counts["predictions"] - predictions) / gone,
            "expired": counts["expired"],
            "models": [self.card(live) for live in list(self.service.models.values())[:50]],
        }
        self._remember(body["models"])
        self.count += 1
        data = msgspec.json.encode(body)
        self.kept.append((self.count, b"id: %s.%d\nevent: state\ndata: %s\n\n" % (self.run.encode(), self.count, data)))
        async with self.news:
            self.news.notify_all()

    def _remember(self, cards: list[dict[str, Any]]) -> None:
        """Add to the losses that a page opened later draws; where there are many, every second one goes."""
        alive = {}
        for card in cards:
            mid = self.service.models[card["name"]].mid
            points = alive[mid] = self.points.get(mid, [])
            if card["position"] > 0 and (not points or points[-1][0] != card["position"]):
                points.append((card["position"], card["loss"], card["best"], card["bound"]))
                if len(points) > POINTS:
                    del points[1:-1:2]
        self.points = alive

    def past(self) -> bytes:
        """The losses so far, as an event without a number."""
        made = {live.name: self.points.get(live.mid, []) for live in self.service.models.values()}
        return b"event: past\ndata: %s\n\n" % msgspec.json.encode(made)

    def card(self, live: Live) -> dict[str, Any]:
        """Everything that the page says of one model."""
        proof = live.record.certificate()
        coef = np.atleast_2d(np.asarray(live.record.coef, dtype=float))[0]
        values = coef.tolist()
        if live.first is None or len(live.first) < len(values):
            live.first = (live.first or []) + values[len(live.first or []) :]
        order = np.argsort(-np.abs(coef), kind="stable")[:TERMS_SHOWN].tolist()
        recent = []
        for item in reversed(self.service.shown[live.mid]):
            entry = item["entry"]
            row = live.shape.row(entry.features, len(live.columns), live.places)[: len(values)]
            parts = row * coef
            top = np.argsort(-np.abs(parts), kind="stable")[:5].tolist()
            recent.append({
                "id": item["id"], "label": None if entry.label is None else msgspec.json.decode(entry.label),
                "prediction": None if entry.output is None else live.outward(live.read(entry.output))["prediction"],
                "contributions": [[live.columns[k], _finite(parts[k])] for k in top if parts[k] != 0.0],
            })  # fmt: skip
        excess = live.tally["excess"]
        return {
            "name": live.name, "target": live.spec["target"], "task": live.spec["task"], "position": live.position,
            "shadow_of": live.spec.get("shadow_of"), "pending": self.service.pending[live.mid],
            "loss": _finite(getattr(proof, "loss", None)), "served_loss": _finite((getattr(proof, "loss", None) or 0.0) + excess),
            "delayed": live.tally["delayed"],
            **_compared(proof), "bound": _finite(getattr(proof, "bound", None)),
            "words": str(proof), "proven": proof.proven, "drift": live.windows.describe(),
            "intercept": _finite(np.ravel(live.record.intercept)[0]), "features": live.shape.describe()[:200],
            "coefficients": [[live.columns[k], _finite(values[k]), _finite(values[k] - live.first[k])] for k in order],
            "recent": recent,
        }  # fmt: skip

    async def stream(self, last: str | None) -> AsyncIterator[bytes]:
        """Events after the one a reader has seen; all that are kept if it is of another run; a new reader gets the past first."""
        run, _, number = (last or "").rpartition(".")
        at = int(number) if run == self.run and number.isdigit() else max(0, self.count - 1 if last is None else 0)
        self.readers += 1
        try:
            yield b"retry: 1000\n\n" + (self.past() if last is None else b"")
            while not self.stopping.is_set():
                for count, event in list(self.kept):
                    if count > at:
                        yield event
                        at = count
                try:
                    async with asyncio.timeout(15.0):
                        async with self.news:
                            while self.count <= at and not self.stopping.is_set():
                                await self.news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.readers -= 1

    async def stop(self) -> None:
        self.stopping.set()
        async with self.news:
            self.news.notify_all()


def _compared(proof: Any) -> dict[str, Any]:
    """The loss that the page draws beside the model's own, and whose it is."""
    fixed, member = (_finite(getattr(proof, name, None)) for name in ("best_fixed_loss", "best_member_loss"))
    if fixed is None and getattr(proof, "regret_to", None) == BEST_MEMBER:
        return {"best": member, "best_name": "best member"}
    return {"best": fixed, "best_name": "best fixed weights"}


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
