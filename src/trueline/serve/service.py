"""Exactly once: what is known of an id decides what a row of a request becomes.

The writer hands over groups of requests, one group after another, inside the group's transaction. All ids of a group
are looked up at once; nothing else is in flight, so the store and the group itself are all that there is to know. Every
answer is made before COMMIT and given after it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .intake import Intake, Refused, Row
from .live import Live
from .shape import shown
from .store import Entry
from .writer import Answer, Group, Job, Writer

LEARNS = "serve a model that trueline stream saved, or a schema.json, to learn"


class Service(Writer):
    """The requests, on top of the writer."""

    def find(self, name: str) -> Live:
        """The model of a name."""
        live = self.models.get(name)
        if live is None:
            raise Refused(404, f"there is no model {shown(name)}; GET /v1/models lists them", "model")
        return live

    def intake(self, live: Live, verb: str) -> Intake:
        """How requests of a model are read, made once."""
        found = live.intakes.get(verb)
        if found is None:
            found = live.intakes[verb] = Intake(live, verb)
        return found

    def submit(self, verb: str, live: Live, rows: list[Row], answer: Answer) -> None:
        """Put a request in the next group; ``answer`` is called once, after its commit, unless it is refused here."""
        self._check()
        if verb == "predict":
            resolve = self._predictions
        elif live.parent is not None:
            raise Refused(409, f"{live.name!r} learns in the shadow of another model; send labels there", "model")
        elif live.frozen:
            raise Refused(409, f"{live.name!r} was fitted to a whole table and only predicts; {LEARNS}", "model")
        else:
            resolve = self._labels
        self._jobs.append(Job(live.mid, rows, resolve, answer))
        self._wake.set()

    async def predict(self, live: Live, items: list[Any]) -> list[dict[str, Any]]:
        """Predict rows, and keep what they were predicted from until their labels come."""
        return await self._ask("predict", live, items)

    async def learn(self, live: Live, items: list[Any]) -> list[dict[str, Any]]:
        """Learn labels, each once; the answers in order, refusals among them as {"status", "error"}."""
        return await self._ask("learn", live, items)

    async def _ask(self, verb: str, live: Live, items: list[Any]) -> list[dict[str, Any]]:
        answered: asyncio.Future[list[dict[str, Any]]] = asyncio.get_running_loop().create_future()

        def answer(made: list[dict[str, Any]] | None, error: BaseException | None) -> None:
            if answered.done():
                return
            if made is not None:
                answered.set_result(made)
            else:
                answered.set_exception(Job.refusal(error))

        self.submit(verb, live, self.intake(live, verb).rows(items), answer)
        return await answered

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._prefix}-{self._made}"

    # ---- predictions
    def _predictions(self, job: Job, live: Live, known: dict[str, Entry], group: Group) -> None:
        """All rows or none."""
        made: list[tuple[str, Entry, int]] = []
        for row in job.rows:
            assert row.features is not None
            if group.wrong and (live.mid, row.features) in group.wrong:
                raise Refused(422, *live.unpredictable(row.features))
            id = row.id
            learned = 0
            if id is None:
                id = self._new_id()
            elif (entry := known.get(id)) is not None and not entry.expired:
                if entry.pid is not None:
                    if entry.features != row.features:
                        raise Refused(409, f"id {shown(id)} was predicted from other features; use a new id", "id")
                    made.append((id, entry, -1))
                    continue
                learned = entry.seq  # its label came first, or its features are no longer kept
            made.append((id, Entry(None, row.features, None, live.position, group.at), learned))
        for id, entry, learned in made:
            if learned < 0:
                continue
            group.asked[live.mid].append(entry)
            if learned == 0:
                entry.pid = self._next_pid
                self._next_pid += 1
                known[id] = entry
                group.predictions.append((id, live.mid, entry))
        group.counts["predictions"] += len(made)
        job.finish = lambda: [self._served(live, *one) for one in made]

    def _served(self, live: Live, id: str, entry: Entry, learned: int) -> dict[str, Any]:
        answer = {"id": id, "model": live.name, "position": entry.position}
        if learned > 0:
            answer["learned"] = learned
        elif learned < 0:
            answer["replay"] = True
        if entry.made is None:
            assert entry.output is not None
            entry.made = live.read(entry.output)
        return answer | live.outward(entry.made)

    # ---- labels
    def _labels(self, job: Job, live: Live, known: dict[str, Entry], group: Group) -> None:
        """Each row on its own."""
        answers: list[dict[str, Any]] = []
        mid, name, at, first = live.mid, live.name, group.at, live.position
        last = group.last.get(mid, first)
        for row in job.rows:
            id, features, label, weight = row
            entry = known.get(id) if id is not None else None
            if entry is not None or features is None:
                try:
                    entry = self._waiting(row, entry, group)
                except Refused as refusal:
                    answers.append({"id": id, "status": refusal.status, "position": first} | refusal.body)
                    continue
                if entry.seq:
                    group.counts["replays"] += 1
                    answers.append({"model": name, "id": id, "replay": True, "position": entry.seq})
                    continue
            else:
                entry = Entry(None, features, None, first, at)
                if id is None:
                    id = self._new_id()
                known[id] = entry
            last += 1
            entry.label, entry.weight, entry.seq = label, weight, last
            group.learns.append((mid, id, entry))
            answers.append({"model": name, "id": id, "position": last})
        group.last[mid] = last
        job.finish = lambda: answers

    def _waiting(self, row: Row, entry: Entry | None, group: Group) -> Entry:
        """The entry that a label belongs to; it has its position already if the label was learned before."""
        if entry is None:
            raise Refused(
                404,
                f"no prediction has the id {shown(row.id)}; give its features in the same request to learn it",
                "id",
            )
        if entry.label is not None:
            if entry.label != row.label or entry.weight != row.weight:
                raise Refused(
                    409, f"id {shown(row.id)} was learned with another label or weight", "label", position=entry.seq
                )
        elif entry.expired or entry.at < group.at - self.retention:
            raise Refused(
                410,
                f"the prediction {shown(row.id)} has expired: the service keeps predictions for {self.retention:g} s",
                "id",
            )
        return entry
