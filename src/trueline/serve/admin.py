"""What is rare: models made, deleted and promoted, and what time takes away. Each in one transaction between groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from ..modelfile import dumps
from .intake import Refused
from .live import Live
from .service import Service

SWEEP = 1_000  # rows at a time
UNLABELLED = "NOT EXISTS (SELECT 1 FROM journal j WHERE j.mid=prediction.mid AND j.id=prediction.id)"


async def create(service: Service, spec: dict[str, Any], snapshot: bytes | None = None) -> Live:
    """A new model, from a checked description (and perhaps a model file)."""
    parent = None
    if spec.get("shadow_of"):
        parent = service.find(spec["shadow_of"])
        if parent.parent is not None:
            raise Refused(422, "a shadow cannot have a shadow", "shadow_of")
        if parent.frozen:
            raise Refused(409, f"{parent.name!r} only predicts, so that a shadow of it would never learn", "shadow_of")
        if (spec["features"], spec.get("classes"), spec["open"]) != (
            parent.spec["features"],
            parent.spec.get("classes"),
            parent.spec["open"],
        ):
            raise Refused(422, f"a shadow has the features and classes of its model {parent.name!r}", "features")
        spec |= {key: parent.spec[key] for key in ("schema", "columns") if parent.spec.get(key)}  # of a model file

    def action() -> Callable[[], Live]:
        if spec["name"] in service.models:
            raise Refused(
                409, f"there is a model {spec['name']!r} already; delete it first or choose another name", "name"
            )
        above = (
            service.by_mid.get(parent.mid) if parent is not None else None
        )  # as it is now: it may have been promoted
        if parent is not None and above is None:
            raise Refused(404, f"the model {parent.name!r} was deleted", "shadow_of")
        mid = int(next(iter(service.store.run("SELECT coalesce(max(value),0) FROM meta WHERE key='models'")))[0]) + 1
        service.store._put_meta("models", mid)
        start = above.position if above is not None else 0
        live = Live(mid, spec["name"], spec, None if above is None else above.mid, start)
        service.store.put("model", [(mid, spec["name"], msgspec.json.encode(spec), live.parent, start)])
        if snapshot is not None:
            live.adopt(snapshot, f"the model file of {live.name}")
            live.position = 0
            service.saved[mid] = []
            service._put_snapshot(live, 0, dumps(*live.state()))
        elif above is not None:
            service.saved[mid] = []
            service._put_snapshot(live, start, dumps(*live.state()))

        def finish() -> Live:
            service._enter(live)
            return live

        return finish

    return await service.transact(action)


async def delete(service: Service, name: str) -> None:
    """Remove a model, its shadows and everything kept for them."""

    def action() -> Callable[[], None]:
        live = service.find(name)  # now, not when it was asked: another request may have come first
        doomed = [live, *(other for other in service.by_mid.values() if other.parent == live.mid)]
        for one in doomed:
            for table in ("model", "prediction", "journal", "expired", "snapshot"):
                service.store.run(f"DELETE FROM {table} WHERE mid=?", (one.mid,))

        def finish() -> None:
            for one in doomed:
                _forget(service, one)

        return finish

    await service.transact(action, long=True)


def _forget(service: Service, live: Live) -> None:
    """Nothing of a model stays in memory."""
    service.models.pop(live.name, None)
    for table in (service.by_mid, service.shown, service.saved, service.pending):
        table.pop(live.mid, None)  # type: ignore[attr-defined]


async def promote(service: Service, name: str, shadow_name: str) -> Live:
    """The shadow's learner takes the model's place, at this position, in one transaction."""
    live, shadow = service.find(name), service.find(shadow_name)
    if shadow.parent != live.mid:
        raise Refused(409, f"{shadow_name!r} does not learn in the shadow of {name!r}", "shadow")

    def action() -> Callable[[], None]:
        if service.by_mid.get(live.mid) is not live or service.by_mid.get(shadow.mid) is not shadow:
            raise Refused(409, f"{name!r} or {shadow_name!r} was changed by another request", "shadow")
        spec = shadow.spec | {"name": live.name}
        spec.pop("shadow_of", None)
        service.store.put("model", [(live.mid, live.name, msgspec.json.encode(spec), None, live.start)], replace=True)
        for table in ("model", "snapshot"):
            service.store.run(f"DELETE FROM {table} WHERE mid=?", (shadow.mid,))
        service.store.run("DELETE FROM snapshot WHERE mid=?", (live.mid,))
        made = Live(live.mid, live.name, spec, None, live.start)
        made.adopt(dumps(*shadow.state()), f"the state of {shadow_name}")
        service.saved[live.mid] = []
        service._put_snapshot(made, live.position, dumps(*made.state()))

        def finish() -> None:
            service.models[live.name] = service.by_mid[live.mid] = made
            _forget(service, shadow)

        return finish

    await service.transact(action)
    return service.models[name]


async def sweep(service: Service) -> int:
    """Expire predictions beyond the window, and forget what is beyond the second one; how many rows went."""
    cut = service.now() - service.retention
    behind = [
        (live.mid, service.saved[live.mid][0]) for live in service.by_mid.values() if len(service.saved[live.mid]) > 1
    ]
    late, stale = await asyncio.to_thread(_due, service.store.reader, cut, behind)
    if not late and not stale:
        return 0
    run = service.store.run
    gone: list[int] = []  # the model of each prediction that expired

    def action() -> None:
        at = service.now()
        for pid, mid, id in late:  # a label may have come in between
            if not _changed(service, f"DELETE FROM prediction WHERE pid=? AND {UNLABELLED}", (pid,)):
                continue
            service.store.put("expired", [(mid, id, at)], replace=True)
            gone.append(mid)
        run("DELETE FROM expired WHERE at<?", (cut,))
        for mid, first in stale:
            run("DELETE FROM journal WHERE mid=? AND seq>=? AND seq<? AND at<?", (mid, first, first + SWEEP, cut))

    await service.transact(action)
    for mid in gone:
        service.pending[mid] -= 1
    service.counts["expired"] += len(gone)
    return len(gone) + len(stale)


def _due(reader: Any, cut: float, behind: list[tuple[int, int]]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Predictions to expire, and (model, first position) of journals to cut; read beside the writer."""
    late = list(
        reader.execute(
            f"SELECT pid, mid, id FROM prediction WHERE at<? AND {UNLABELLED} ORDER BY pid LIMIT ?", (cut, SWEEP)
        )
    )
    stale = []
    for mid, newest in behind:
        first = next(iter(reader.execute("SELECT seq, at FROM journal WHERE mid=? ORDER BY seq LIMIT 1", (mid,))), None)
        if first is not None and first[1] < cut and first[0] + SWEEP <= newest:
            stale.append((mid, first[0]))
    return late, stale


def _changed(service: Service, statement: str, values: tuple[Any, ...]) -> bool:
    service.store.run(statement, values)
    return bool(next(iter(service.store.run("SELECT changes()")))[0])
