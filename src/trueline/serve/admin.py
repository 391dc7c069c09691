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
from .store import UNLABELLED, trimmable

SWEEP = 1_000  # rows at a time


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
            service.put_snapshot(live, 0, dumps(*live.state()))
        elif above is not None:
            service.put_snapshot(live, start, dumps(*live.state()))

        def finish() -> Live:
            service._enter(live)
            return live

        return finish

    return await service.transact(action)


async def delete(service: Service, name: str) -> None:
    """Remove a model, its shadows and everything kept for them."""

    def action() -> Callable[[], None]:
        live = service.find(name)  # now, not when it was asked: another request may have come first
        doomed = service.family(live)
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
    for table in (service.by_mid, service.shown, service.due, service.pending):
        table.pop(live.mid, None)  # type: ignore[attr-defined]


async def promote(service: Service, name: str, shadow_name: str, force: bool = False) -> Live:
    """Exchange the learners of a model and its shadow, at this position, in one transaction.

    The old learner goes on as the shadow: promoting it brings it back.
    """
    live, shadow = service.find(name), service.find(shadow_name)
    if shadow.parent != live.mid:
        raise Refused(409, f"{shadow_name!r} does not learn in the shadow of {name!r}", "shadow")

    def action() -> Callable[[], None]:
        if service.by_mid.get(live.mid) is not live or service.by_mid.get(shadow.mid) is not shadow:
            raise Refused(409, f"{name!r} or {shadow_name!r} was changed by another request", "shadow")
        if not shadow.record.examples and not force:
            raise Refused(
                409,
                f'{shadow_name!r} has learned nothing yet and {name!r} has learned {live.record.examples} labels; wait for labels, or give "force": true',
                "force",
            )
        exchanged = (
            _with_learner(live, shadow, shadow.spec | {"name": live.name, "shadow_of": None}),
            _with_learner(shadow, live, live.spec | {"name": shadow.name, "shadow_of": live.name}),
        )
        for one in exchanged:
            row = (one.mid, one.name, msgspec.json.encode(one.spec), one.parent, one.start)
            service.store.put("model", [row], replace=True)
            service.store.run("DELETE FROM snapshot WHERE mid=?", (one.mid,))
            service.put_snapshot(one, one.position, dumps(*one.state()))

        def finish() -> None:
            for one in exchanged:
                service.models[one.name] = service.by_mid[one.mid] = one
                service.due[one.mid] = one.position + service.snapshot_every

        return finish

    await service.transact(action)
    return service.models[name]


def _with_learner(place: Live, other: Live, spec: dict[str, Any]) -> Live:
    """A model in the place of one, with the learner and description of another."""
    if place.classes:
        spec["untagged"] = place.spec.get("untagged", place.output_kind)  # of predictions kept by 0.1
    live = Live(place.mid, place.name, spec, place.parent, place.start)
    live.adopt(dumps(*other.state()), f"the state of {other.name}")
    return live


async def sweep(service: Service) -> int:
    """Expire predictions beyond the window, and forget what is beyond the second one; how many rows went."""
    cut = service.now() - service.retention
    journals = [live.mid for live in service.by_mid.values() if live.parent is None]
    late, stale = await asyncio.to_thread(_due, service.store.reader.execute, cut, journals)
    if not late and not stale:
        return 0
    run = service.store.run

    def action() -> Callable[[], int]:
        at = service.now()
        gone: list[int] = []  # the model of each prediction that expired
        for pid, mid, id in late:  # a label may have come in between
            if _changed(service, f"DELETE FROM prediction WHERE pid=? AND {UNLABELLED}", (pid,)):
                service.store.put("expired", [(mid, id, at)], replace=True)
                gone.append(mid)
        run("DELETE FROM expired WHERE at<?", (cut,))
        trimmed = 0
        for mid, first in stale:  # how far is asked again: what was read beside the writer may be no longer so
            last = min(first + SWEEP - 1, trimmable(run, mid))
            trimmed += _changed(service, "DELETE FROM journal WHERE mid=? AND seq<=? AND at<?", (mid, last, cut))

        def finish() -> int:
            for mid in gone:
                if mid in service.by_mid:
                    service.pending[mid] -= 1
            service.counts["expired"] += len(gone)
            return len(gone) + trimmed

        return finish

    return int(await service.transact(action))


def _due(run: Callable[..., Any], cut: float, journals: list[int]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Predictions to expire, and (model, first position) of journals to cut; read beside the writer."""
    late = list(
        run(f"SELECT pid, mid, id FROM prediction WHERE at<? AND {UNLABELLED} ORDER BY pid LIMIT ?", (cut, SWEEP))
    )
    stale = []
    for mid in journals:
        first = next(iter(run("SELECT seq, at FROM journal WHERE mid=? ORDER BY seq LIMIT 1", (mid,))), None)
        if first is not None and first[1] < cut and first[0] + SWEEP <= trimmable(run, mid):
            stale.append((mid, first[0]))
    return late, stale


def _changed(service: Service, statement: str, values: tuple[Any, ...]) -> int:
    service.store.run(statement, values)
    return int(next(iter(service.store.run("SELECT changes()")))[0])
