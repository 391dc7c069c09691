"""Promotion exchanges two learners: what was predicted before keeps its meaning, and nothing that was learned is lost."""

from __future__ import annotations

import asyncio
import math

import pytest
from serving import SPEC, rows, state_bytes

from trueline.serve import admin
from trueline.serve.intake import Refused
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store, connect, digest

X, Y = rows(120, seed=13)
TWO = {"name": "m", "task": "classification", "features": dict.fromkeys("abc", "number")}
THREE = TWO | {"classes": ["low", "mid", "high"]}
SCORES = {"loss": "hinge", "rate": 0.1}


def label(spec, k):
    """The class of a row, or its number."""
    classes = spec.get("classes") or [0, 1]
    return classes[sum(Y[k] > cut for cut in (-1.0, 1.0)[: len(classes) - 1])] if spec.get("task") else Y[k]


def run(tmp_path, work, **options):
    """A service for one piece of work; its store is left as a crash leaves it."""

    async def whole():
        service = Service(Store(tmp_path / "s.db"), **options)
        await service.start()
        try:
            return await work(service)
        finally:
            service._task.cancel()
            service.store.abandon()

    return asyncio.run(whole())


async def begin(service, spec, learner, shadow, labels=50):
    """A model and its shadow, both learned."""
    live = await admin.create(service, check(spec | ({"learner": learner} if learner else {})))
    await admin.create(service, check(spec | {"name": "s", "shadow_of": "m"} | ({"learner": shadow} if shadow else {})))
    await service.learn(live, [{"id": f"t{k}", "features": X[k], "label": label(spec, k)} for k in range(labels)])
    return live


@pytest.mark.parametrize("spec", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize(("learner", "shadow"), [(None, SCORES), (SCORES, None), ({"rate": 0.1}, SCORES)], ids=str)
def test_a_kept_prediction_keeps_its_meaning(tmp_path, spec, learner, shadow):
    """The same answer after the promotion, after a crash, and after the promotion back."""
    ids = [f"p{k}" for k in range(20)]
    items = [{"id": id, "features": X[60 + k]} for k, id in enumerate(ids)]

    async def first(service):
        live = await begin(service, spec, learner, shadow)
        made = await service.predict(live, items)
        promoted = await admin.promote(service, "m", "s")
        assert promoted is service.find("m") and promoted is not live
        return made, await service.predict(promoted, items)

    async def again(service):
        made = await service.predict(service.find("m"), items)
        return made, await service.predict(await admin.promote(service, "m", "s"), items)

    answers = [*run(tmp_path, first), *run(tmp_path, again), run(tmp_path, again)[0]]
    for answer in answers[1:]:
        assert [one | {"replay": None} for one in answer] == [one | {"replay": None} for one in answers[0]]
    assert {"probabilities", "scores", "score"} & set(answers[0][0])


@pytest.mark.parametrize(("learner", "shadow"), [(None, SCORES), (SCORES, None), ({"rate": 0.1}, None)], ids=str)
def test_a_kept_prediction_is_counted_as_what_it_was(tmp_path, learner, shadow):
    """Served losses are −ln p of the probabilities and hinge losses of the scores that were given out."""
    items = [{"id": f"p{k}", "features": X[60 + k]} for k in range(20)]

    async def work(service):
        live = await begin(service, TWO, learner, shadow)
        answers = await service.predict(live, items)
        promoted = await admin.promote(service, "m", "s")
        before = promoted.tally["excess"]
        want = 0.0
        for k, answer in enumerate(answers):
            y = label(TWO, 60 + k)
            packed = promoted.shape.encode(X[60 + k])
            current = promoted.loss(promoted.predict([packed])[0], 2.0 * y - 1.0)
            served = (
                -math.log(answer["probabilities"][y])
                if "probabilities" in answer
                else max(0.0, 1.0 - (2.0 * y - 1.0) * answer["score"])
            )
            want += served - current
            await service.learn(promoted, [{"id": answer["id"], "label": y}])
        assert promoted.tally["excess"] - before == pytest.approx(want, rel=1e-9, abs=1e-12)
        assert promoted.certificate()["served"]["excess"] == promoted.tally["excess"]
        return state_bytes(promoted.record), promoted.tally

    async def recovered(service):
        return state_bytes(service.find("m").record), service.find("m").tally

    assert run(tmp_path, work) == run(tmp_path, recovered)


@pytest.mark.parametrize("spec", [TWO, THREE], ids=["two classes", "three classes"])
def test_a_store_from_before_there_were_kinds(tmp_path, spec):
    """Its predictions are bare numbers of the learner that served them, which a promotion remembers."""
    items = [{"id": f"p{k}", "features": X[60 + k]} for k in range(5)]

    async def first(service):
        live = await begin(service, spec, None, SCORES)
        return await service.predict(live, items)

    want = run(tmp_path, first)
    base = connect(str(tmp_path / "s.db"))
    for row in base.execute("SELECT pid, mid, id, features, output, position, at FROM prediction").fetchall():
        bare = bytes(row[4]).split(b":", 1)[1][:-1]
        old = (*row[:4], bare, *row[5:])
        base.execute("UPDATE prediction SET output=?, digest=? WHERE pid=?", (bare, digest(*old), row[0]))
    base.close()

    async def after(service):
        made = await service.predict(service.find("m"), items)
        return made, await service.predict(await admin.promote(service, "m", "s"), items)

    async def back(service):
        made = await service.predict(service.find("m"), items)
        return made, await service.predict(await admin.promote(service, "m", "s"), items)

    for answers in (*run(tmp_path, after), *run(tmp_path, back)):
        assert answers == [one | {"replay": True} for one in want]


def test_a_shadow_that_learned_nothing_needs_force_and_the_old_model_stays(tmp_path):
    async def work(service):
        live = await admin.create(service, check(SPEC))
        items = [{"id": str(k), "features": X[k], "label": Y[k]} for k in range(60)]
        await service.learn(live, items)
        await admin.create(service, check(SPEC | {"name": "s", "shadow_of": "m", "learner": {"rate": 0.5}}))
        with pytest.raises(Refused, match="learned nothing yet and 'm' has learned 60 labels") as refused:
            await admin.promote(service, "m", "s")
        assert refused.value.status == 409 and service.find("m") is live
        want = state_bytes(live.record)
        made = await admin.promote(service, "m", "s", force=True)
        assert made.record.examples == 0 and made.position == 60
        old = service.find("s")
        assert state_bytes(old.record) == want and old.record.examples == 60 and old.spec["shadow_of"] == "m"
        await service.learn(made, [{"id": "new", "features": X[60], "label": Y[60]}])
        assert old.record.examples == 61 and made.record.examples == 1
        assert (await service.learn(made, items[:1]))[0]["replay"]
        return {name: state_bytes(live.record) for name, live in service.models.items()}

    async def recovered(service):
        found = {name: state_bytes(live.record) for name, live in service.models.items()}
        await admin.promote(service, "m", "s")  # and back again
        assert service.find("m").record.examples == 61 and service.find("s").record.examples == 1
        return found

    assert run(tmp_path, work) == run(tmp_path, recovered)
    state = run(tmp_path, recovered_only)
    assert state == {"m": 61, "s": 1}


async def recovered_only(service):
    return {name: live.record.examples for name, live in service.models.items()}


def test_a_label_without_an_id_is_answered_with_the_one_it_got(tmp_path):
    async def work(service):
        live = await admin.create(service, check(SPEC))
        items = [{"features": X[k], "label": Y[k]} for k in range(5)] + [{"id": "mine", "features": X[5], "label": 1.0}]
        first = await service.learn(live, items)
        ids = [one["id"] for one in first]
        assert len(set(ids)) == 6 and ids[-1] == "mine"
        again = await service.learn(live, [item | {"id": one["id"]} for item, one in zip(items, first)])
        assert again == [one | {"replay": True} for one in first] and live.position == 6
        return ids

    async def recovered(service):
        (one,) = await service.learn(service.find("m"), [{"id": ids[2], "label": Y[2]}])
        assert one["replay"] and one["position"] == 3

    ids = run(tmp_path, work)
    run(tmp_path, recovered)


def test_pending_is_what_waits_in_the_store(tmp_path, monkeypatch):
    """Predictions that were late at a crash, and swept after it, are not counted twice."""
    clock = [0.0]
    monkeypatch.setattr(Service, "now", lambda self: clock[0])

    def waiting(service):
        found = service.store.run("SELECT count(*) FROM prediction WHERE id NOT IN (SELECT id FROM journal)")
        assert service.pending[1] == next(iter(found))[0] >= 0
        return service.pending[1]

    async def first(service):
        live = await admin.create(service, check(SPEC))
        await service.predict(live, [{"id": f"a{k}", "features": X[k]} for k in range(9)])
        clock[0] = 9.5
        await service.predict(live, [{"id": f"b{k}", "features": X[k]} for k in range(4)])
        clock[0] = 11.0  # the first nine are late, and not swept yet
        with_label = await service.learn(live, [{"id": "b0", "label": 1.0}, {"id": "a0", "label": 1.0}])
        assert [one.get("status") for one in with_label] == [None, 410]
        return waiting(service)

    async def second(service):
        assert waiting(service) == 12
        while await admin.sweep(service):
            waiting(service)
        assert waiting(service) == 3 and service.counts["expired"] == 9
        await admin.delete(service, "m")
        assert await admin.sweep(service) == 0 and service.pending[1] == 0

    assert run(tmp_path, first, retention=10.0) == 12
    run(tmp_path, second, retention=10.0)
