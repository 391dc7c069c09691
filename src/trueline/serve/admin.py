"""What is rare: models made, deleted and promoted, and what time takes away. Each in one transaction between groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..modelfile import dumps
from .live import Live
from .service import Service
from .writer import Refused

SWEEP = 1_000  # rows at a time


async def create(service: Service, spec: dict[str, Any], snapshot: bytes | None = None) -> Live:
    """A new model, from a checked description (and perhaps a model file)."""
    parent = None
    if spec.get("shadow_of"):
        parent = service.find(spec["shadow_of"])
        if parent.parent is not None:
            raise Refused(422, "a shadow cannot have a shadow", "shadow_of")
        if (spec["features"], spec.get("classes"), spec["open"]) != (
            parent.spec["features"],
            parent.spec.get("classes"),
            parent.spec["open"],
        ) or parent.spec.get("schema"):
            raise Refused(422, f"a shadow has the features and classes of its model {parent.name!r}", "features")

    def action() -> Callable[[], Live]:
        if spec["name"] in service.models:
            raise Refused(
                409, f"there is a model {spec['name']!r} already; delete it first or choose another name", "name"
            )
        if parent is not None and parent.mid not in service.by_mid:
            raise Refused(404, f"the model {parent.name!r} was deleted", "shadow_of")
        mid = int(next(iter(service.store.run("SELECT coalesce(max(value),0) FROM meta WHERE key='models'")))[0]) + 1
        service.store._put_meta("models", mid)
        start = parent.position if parent is not None else 0
        live = Live(mid, spec["name"], spec, None if parent is None else parent.mid, start)
        service.store.put("model", [(mid, spec["name"], msgspec.json.encode(spec), live.parent, start)])
        if snapshot is not None:
            live.adopt(snapshot, f"the model file of {live.name}")
            live.position = 0
            service.saved[mid] = []
            service._put_snapshot(live, 0, dumps(*live.state()))
        elif parent is not None:
            service.saved[mid] = []
            service._put_snapshot(live, start, dumps(*live.state()))

        def finish() -> Live:
            service._enter(live)
            return live

        return finish

    return await service.transact(action)


async def delete(service: Service, name: str) -> None:
    """Remove a model, its shadows and everything kept for them."""
    live = service.find(name)
    doomed = [live, *(other for other in service.by_mid.values() if other.parent == live.mid)]

    def action() -> Callable[[], None]:
        for one in doomed:
            for table in ("model", "prediction", "journal", "expired", "snapshot"):
                service.store.run(f"DELETE FROM {table} WHERE mid=?", (one.mid,))
        return finish

    def finish() -> None:
        for one in doomed:
            service.models.pop(one.name, None)
            service.by_mid.pop(one.mid, None)
            for key in [key for key in service.recent if key[0] == one.mid]:
                del service.recent[key]

    await service.transact(action)


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
            service.models.pop(shadow.name, None)
            service.by_mid.pop(shadow.mid, None)

        return finish

    await service.transact(action)
    return service.models[name]


async def sweep(service: Service) -> int:
    """Expire predictions beyond the window, and forget what is beyond the second one; how many expired."""
    cut = service.now() - service.retention
    rows = [
        row
        for row in service.store.reader.execute(
            "SELECT pid, mid, id, at FROM prediction ORDER BY pid LIMIT ?", (SWEEP,)
        )
        if row[3] < cut
    ]
    waiting = [row for row in rows if service.store.find_learned(row[1], row[2]) is None]
    waiting = [row for row in waiting if (e := service.recent.get((row[1], row[2]))) is None or e.label is None]
    old = next(iter(service.store.reader.execute("SELECT min(at) FROM expired")))[0]
    stale = [
        (live.mid, service.saved[live.mid][0])
        for live in service.by_mid.values()
        if len(service.saved[live.mid]) > 1 and live.parent is None
    ]
    if not waiting and not stale and (old is None or old >= cut):
        return 0

    def action() -> None:
        at = service.now()
        service.store.put("expired", [(mid, id, at) for _, mid, id, _ in waiting], replace=True)
        for pid, *_ in waiting:
            service.store.run("DELETE FROM prediction WHERE pid=?", (pid,))
        service.store.run("DELETE FROM expired WHERE at<?", (cut,))
        for mid, seq in stale:
            service.store.run(
                "DELETE FROM journal WHERE mid=? AND at<? AND seq IN (SELECT seq FROM journal WHERE mid=? AND seq<=? ORDER BY seq LIMIT ?)",
                (mid, cut, mid, seq, SWEEP),
            )

    await service.transact(action)
    for _, mid, id, _ in waiting:
        service.recent.pop((mid, id), None)
        service.pending[mid] -= 1
    service.counts["expired"] += len(waiting)
    return len(waiting)
