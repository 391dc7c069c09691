"""Exactly once: requests find out what is known of an id, put rows in the open group, and answer after its commit.

An id in flight is known from memory, every other from the store. Nothing is awaited between the look at an id and its
mark, so two requests never both find it free. A failed commit takes the mark back.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ..errors import DataError
from . import spec as specs
from .live import Live
from .store import StoreFailure, StoreFull
from .writer import Entry, Refused, Writer

LONGEST_ID = 256


class Service(Writer):
    """The requests, on top of the writer."""

    # ---- predictions
    def find(self, name: str) -> Live:
        """The model of a name."""
        live = self.models.get(name)
        if live is None:
            raise Refused(404, f"there is no model {specs.shown(name)}; GET /v1/models lists them", "model")
        return live

    async def predict(self, live: Live, items: list[Any]) -> list[dict[str, Any]]:
        """Predict rows, and keep what they were predicted from until their labels come."""
        self._check()
        group = self._group
        answers: list[dict[str, Any]] = []
        fresh: list[tuple[int, str, bytes]] = []
        repeated = False
        for k, item in enumerate(items):
            stored = self._encode(live, item, k, len(items))
            id = self._id(item)
            if id is None:
                self._made += 1
                id = f"{self._prefix}-{self._made}"
            elif (entry := self._known(live, id)) is not None:
                answers.append(self._again(live, id, entry, stored))
                repeated = True
                continue
            fresh.append((len(answers), id, stored))
            answers.append({"id": id, "model": live.name, "position": live.position})
        if len({id for _, id, _ in fresh}) < len(fresh):
            raise Refused(422, "two rows of the batch have the same id; give each row its own", "id")
        at = self.now()
        for (place, id, stored), made in zip(fresh, live.predict([row[2] for row in fresh]) if fresh else ()):
            output = msgspec.json.encode(made)
            pid = self._next_pid
            self._next_pid += 1
            group.predictions.append((pid, live.mid, id, stored, output, live.position, at))
            group.keys.append((live.mid, id))
            self.recent[live.mid, id] = Entry(pid, stored, output, live.position, at)
            answers[place] |= live.outward(made)
        self.counts["predictions"] += len(items)
        if fresh:
            self._wake.set()
            await self._commit_of(group.done)
            place, id, stored = fresh[-1]
            self.shown[live.mid].append({"id": id, "features": stored, "output": output, "label": None})
        if repeated:  # what is in flight when a repeated request comes is on the disk when it is answered
            for busy in (self._committing, group):
                if busy is not None and (busy.predictions or busy.learns):
                    await self._commit_of(busy.done)
        return answers

    async def _commit_of(self, done: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(done)
        except StoreFull:
            raise Refused(507, "the disk is full; nothing was stored, retry later with the same id") from None
        except StoreFailure:
            raise Refused(
                503, "the store failed: the outcome is unknown; retry with the same id after the service is back"
            ) from None

    def _encode(self, live: Live, item: Any, k: int, count: int) -> bytes:
        if not isinstance(item, dict):
            raise Refused(
                422,
                f"{'row ' + str(k) + ' ' if count > 1 else 'the request '}is {specs.shown(item)}; give an object with features",
                "features",
            )
        if "features" not in item:
            raise Refused(422, "field 'features' is missing; give an object of named values", "features")
        for key in item:
            if key not in ("id", "features", "label", "weight"):
                raise Refused(422, f"there is no field {specs.shown(key)}; give id and features", str(key)[:60])
        try:
            return live.shape.encode(item["features"])
        except DataError as error:
            place = f"row {k}: " if count > 1 else ""
            raise Refused(422, place + error.message, error.where) from None

    def _id(self, item: dict[str, Any]) -> str | None:
        id = item.get("id")
        if id is not None and (not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID or not id.isprintable()):
            raise Refused(
                422, f"field 'id' is {specs.shown(id)}; give printable text of 1 to {LONGEST_ID} characters", "id"
            )
        return id

    def _known(self, live: Live, id: str) -> Entry | None:
        """What is known of an id, from memory or from the store."""
        entry = self.recent.get((live.mid, id))
        if entry is not None:
            return entry
        try:
            learned, found = self.store.find_learned(live.mid, id), self.store.find_prediction(live.mid, id)
        except Exception as error:
            self._fail(StoreFailure(str(error)))
            self._wake.set()
            self._check()
            raise
        if found is not None:
            entry = Entry(*found)
        elif learned is not None:
            entry = Entry(None, b"", None, 0, learned[3])
        if entry is not None and learned is not None:
            entry.seq, entry.label, entry.weight = learned[0], learned[1], learned[2]
        if entry is not None:
            self.recent[live.mid, id] = entry
        return entry

    def _again(self, live: Live, id: str, entry: Entry, stored: bytes) -> dict[str, Any]:
        """The answer to a prediction asked for again."""
        if entry.output is None:  # its label came first, with features, or its features are no longer kept
            made = live.predict([stored])[0]
            return {"id": id, "model": live.name, "position": live.position, "learned": entry.seq} | live.outward(made)
        if entry.features != stored:
            raise Refused(409, f"id {specs.shown(id)} was predicted from other features; use a new id", "id")
        return {"id": id, "model": live.name, "position": entry.position, "replay": True} | live.outward(
            msgspec.json.decode(entry.output)
        )

    # ---- labels
    async def learn(self, live: Live, items: list[Any]) -> list[dict[str, Any]]:
        """Learn labels, each once; the answers in order, refusals among them as {"status", "error"}."""
        self._check()
        if live.parent is not None:
            raise Refused(409, f"{live.name!r} learns in the shadow of another model; send labels there", "model")
        checked = [self._checked(live, item, k, len(items)) for k, item in enumerate(items)]
        group = self._group
        answers: list[Any] = []
        fresh: list[tuple[int, Entry]] = []
        waits: list[tuple[int, Entry]] = []
        for id, label, weight, stored in checked:
            try:
                entry, again = self._entry(live, id, label, weight, stored)
            except Refused as refusal:
                answers.append({"id": id, "status": refusal.status} | refusal.body)
                continue
            answer: dict[str, Any] = {"model": live.name}
            if id is not None:
                answer["id"] = id
            if again:
                answer["replay"] = True
                waits.append((len(answers), entry))
            else:
                entry.label, entry.weight, entry.seq = label, weight, 0
                group.learns.append((live, id, entry))
                fresh.append((len(answers), entry))
            answers.append(answer)
        if fresh:
            self._wake.set()
            await self._commit_of(group.done)
        for place, entry in waits:
            if entry.seq == 0:
                await self._replayed(live, answers[place]["id"])
                if entry.seq == 0:
                    raise Refused(503, "the first try of this label was not stored; retry with the same id")
            answers[place]["position"] = entry.seq
        for place, entry in fresh:
            if entry.seq == 0:
                raise Refused(404, f"the model {live.name!r} was deleted", "model")
            answers[place]["position"] = entry.seq
        return answers

    async def _replayed(self, live: Live, id: str) -> None:
        """Wait until a label in flight is on the disk, or has failed."""
        while self.failed is None:
            entry = self.recent.get((live.mid, id))
            if entry is None or entry.seq or entry.label is None:
                return
            await asyncio.sleep(0.001)
        self._check()

    def _checked(self, live: Live, item: Any, k: int, count: int) -> tuple[str | None, bytes, float, bytes | None]:
        if not isinstance(item, dict):
            raise Refused(422, f"row {k} is {specs.shown(item)}; give an object with id and label", "label")
        id = self._id(item)
        stored = self._encode(live, item, k, count) if item.get("features") is not None or id is None else None
        for key in item:
            if key not in ("id", "features", "label", "weight"):
                raise Refused(
                    422, f"there is no field {specs.shown(key)}; give id, label, weight or features", str(key)[:60]
                )
        if "label" not in item:
            raise Refused(422, "field 'label' is missing", "label")
        weight = item.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0.0 < weight <= 1e9:
            raise Refused(422, f"field 'weight' is {specs.shown(weight)}; give a positive number", "weight")
        try:
            return id, live.label(item["label"]), float(weight), stored
        except DataError as error:
            raise Refused(422, (f"row {k}: " if count > 1 else "") + error.message, error.where) from None

    def _entry(
        self, live: Live, id: str | None, label: bytes, weight: float, stored: bytes | None
    ) -> tuple[Entry, bool]:
        """The entry that a label belongs to, and whether it was learned before."""
        if id is None:
            assert stored is not None
            return Entry(None, stored, None, live.position, 0.0), False
        entry = self._known(live, id)
        if entry is None:
            if self.store.find_expired(live.mid, id):
                raise Refused(
                    410,
                    f"the prediction {specs.shown(id)} has expired: the service keeps predictions for {self.retention:g} s",
                    "id",
                )
            if stored is None:
                raise Refused(
                    404,
                    f"no prediction has the id {specs.shown(id)}; give its features in the same request to learn it",
                    "id",
                )
            entry = self.recent[live.mid, id] = Entry(None, stored, None, live.position, self.now())
            return entry, False
        if entry.label is not None:
            if entry.label != label or entry.weight != weight:
                raise Refused(
                    409,
                    f"id {specs.shown(id)} was learned with another label or weight",
                    "label",
                    position=entry.seq or None,
                )
            self.counts["replays"] += 1
            return entry, True
        if entry.at < self.now() - self.retention:
            raise Refused(
                410,
                f"the prediction {specs.shown(id)} has expired: the service keeps predictions for {self.retention:g} s",
                "id",
            )
        return entry, False
