"""Requests that nobody should send: each is answered by itself, the others beside it go on, and nothing stays behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import subprocess
import sys
import threading

import httpx
import numpy as np
import pytest
from serving import SPEC, Served, memory, rows, state_bytes, wait_for

from trueline.serve import admin
from trueline.serve.intake import Refused
from trueline.serve.live import Label, Live
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store

X, Y = rows(300, seed=31)
HUGE = {"a": 1e100, "b": 1e100, "c": 1e100}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("odd")) as server:
        yield server


@pytest.mark.parametrize("query", ["", "?long=way"])
def test_bodies_are_let_go(served, query):
    """Sixty requests of 4 MB, learned or refused, on the short way and through ASGI: none of them stays."""
    before = memory(served.process.pid)
    padding = " " * (4 << 20)
    for k in range(60):
        body = json.dumps({"label": 1.0, "features": X[k], **({} if k % 2 else {"odd": 1})}) + padding
        made = served.http.post(f"/v1/models/m/learn{query}", content=body)
        assert made.status_code == (200 if k % 2 else 422)
    assert memory(served.process.pid) - before < 50 << 20


def test_methods_and_escaped_names(served):
    for verb in ("predict", "learn"):
        for method in ("GET", "PUT", "DELETE"):
            made = served.http.request(method, f"/v1/models/m/{verb}")
            assert made.status_code == 405 and made.headers["allow"] == "POST"
    assert served.http.post("/v1/models/%6d/predict", json={"features": X[0]}).json()["model"] == "m"
    assert served.http.post("/v1/models/%256d/predict", json={"features": X[0]}).status_code == 404


@pytest.mark.parametrize("verb", ["predict", "learn"])
@pytest.mark.parametrize("town", [{}, {"town": "Bern"}], ids=["compiled", "any"])
def test_nothing_is_rounded_and_no_key_is_given_twice(served, verb, town):
    """By the decoder that is made for a model and by the other one, alone and in a batch; nothing is learned from it."""
    name = f"keys{len(town)}{verb}"
    spec = {"name": name, "features": {"x": "number", **dict.fromkeys(town, "category")}}
    assert served.http.post("/v1/models", json=spec).status_code == 201
    rest = "".join(f', "{key}": "{value}"' for key, value in town.items())
    label = ', "label": 1' if verb == "learn" else ""
    bad = [
        ('{"features": {"x": 9007199254740993%s}%s}', "9007199254740993"), ('{"features": {"x": 1, "x": 2%s}%s}', "'x' twice"),
        ('{"id": "a", "id": "b", "features": {"x": 1%s}%s}', "'id' twice"),
        ('{"features": {"x": 1%s}, "features": {"x": 2}%s}', "twice"),
    ]  # fmt: skip
    bad += [('{"features": {"x": 1%s}, "label": 9007199254740993}', "9007199254740993")] if label else []
    for text, said in bad:
        body = text % ((rest, label) if text.count("%s") == 2 else rest)
        good = f'{{"features": {{"x": 1{rest}}}{label}}}'
        for sent in (body, f"[{good}, {body}]", f'{{"rows": [{body}]}}'):
            made = served.http.post(f"/v1/models/{name}/{verb}", content=sent)
            assert made.status_code == 422 and said in made.text, (sent, made.text)
    odd = f'{{"features": {{"x": 1152921504606846976{rest}}}, "id": "\\u00e4 \\"quoted\\""{label}}}'
    made = served.http.post(f"/v1/models/{name}/{verb}", content=odd)  # 2**60 is a float64, and texts may have escapes
    assert made.status_code == 200 and made.json()["id"] == 'ä "quoted"', made.text
    assert served.http.get(f"/v1/models/{name}").json()["examples"] == (verb == "learn")


def test_booleans_are_not_numbers(served):
    spec = {"name": "kinds", "features": {"size": "number", "new": "boolean"}, "open": True}
    assert served.http.post("/v1/models", json=spec).status_code == 201
    for features, field in (
        ({"size": True, "new": True}, "size"), ({"size": 1, "new": 1}, "new"), ({"size": 1, "new": "true"}, "new"),
        ({"size": 1, "new": True, "more": [1]}, "more"), ({"size": 1, "new": True, "more": None}, "more"),
    ):  # fmt: skip
        made = served.post("kinds/predict", {"features": features})
        assert made.status_code == 422 and made.json()["error"]["where"] == field, features
    good = {"size": 1, "new": True, "more": False, "kind": "x"}  # what was not declared may be any of the three
    assert served.post("kinds/learn", {"features": good, "label": 1}).status_code == 200
    assert served.post("m/predict", {"features": X[0] | {"b": True}}).json()["error"]["where"] == "b"
    inputs = [{"name": n, "data": [True]} for n in "abc"]
    assert served.http.post("/v2/models/m/infer", json={"inputs": inputs}).status_code == 400
    served.http.delete("/v1/models/kinds")


def test_tensors_are_what_they_say(served):
    good = [{"name": n, "datatype": "FP64", "shape": [2], "data": [1.0, 2.0]} for n in "abc"]
    for change, word in (
        ({"shape": [3]}, "shape"), ({"shape": [1, 2]}, "shape"), ({"shape": "x"}, "shape"), ({"datatype": "TEXT"}, "datatype"),
        ({"datatype": None}, "datatype"), ({"data": 3}, "data"), ({"name": "b"}, "two inputs"), ({"name": 3}, "inputs"),
        ({"data": [1.0, None]}, "'a'"), ({"data": []}, "shape"),
    ):  # fmt: skip
        made = served.http.post("/v2/models/m/infer", json={"inputs": [good[0] | change, *good[1:]]})
        assert made.status_code == 400 and word in made.json()["error"], (change, made.text)
    column = [one | {"shape": [2, 1], "data": [[1.0], [2.0]]} for one in good]
    want = served.http.post("/v2/models/m/infer", json={"inputs": good}).json()["outputs"]
    assert served.http.post("/v2/models/m/versions/1/infer", json={"inputs": column}).json()["outputs"] == want
    assert served.http.get("/v2/models/m/versions/1/ready").status_code == 200
    assert "version" in served.http.get("/v2/models/m/versions/7").json()["error"]


def test_a_new_reader_of_events_gets_the_past(served):
    served.post("m/learn", [{"features": x, "label": y} for x, y in zip(X, Y)]).raise_for_status()

    def past():
        with served.http.stream("GET", "/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    return json.loads(line[6:])["m"]
        return None

    at = served.http.get("/v1/models/m").json()["position"]
    wait_for(lambda: past() and past()[-1][0] == at)
    position, loss, best, bound = past()[-1]
    assert position == at and 0 <= best <= loss <= bound


def alone(tmp_path, work, **more):
    """Work on a service without HTTP."""

    async def run():
        service = Service(Store(tmp_path / "a.db"), **more)
        await service.start()
        live = await admin.create(service, check(SPEC))
        await asyncio.wait_for(work(service, live), 60)
        await service.stop()
        return service

    return asyncio.run(run())


def test_a_row_without_a_finite_prediction_is_refused_alone(tmp_path):
    """Requests that commit in one group: only those that hold the row, or ask for its label, are refused."""

    async def work(service, live):
        await service.learn(live, [{"label": 1e9, "features": X[0]}])
        asked = [
            service.predict(live, [{"id": "bad", "features": HUGE}]),
            service.predict(live, [{"id": "good", "features": X[1]}]),
            service.predict(live, [{"id": "g2", "features": X[2]}, {"id": "b2", "features": HUGE}]),
            service.learn(live, [{"id": "bad", "label": 1.0}, {"id": "good", "label": 1.0}]),
            service.learn(live, [{"id": "good", "label": 1.0}]),
        ]
        bad, good, mixed, labels, again = await asyncio.gather(*asked, return_exceptions=True)
        for refusal in (bad, mixed):
            assert isinstance(refusal, Refused) and refusal.status == 422 and refusal.body["error"]["where"] in "abc"
        assert good[0]["position"] == 1 and np.isfinite(good[0]["prediction"])
        assert labels[0]["status"] == 404 and labels[1]["position"] == 2 and again[0]["replay"]
        assert not {"bad", "b2", "g2"} & set(service.store.known(1, ["bad", "b2", "g2", "good"]))
        assert (service.counts["predictions"], service.counts["labels"], service.counts["replays"]) == (1, 2, 1)

    alone(tmp_path, work)


def test_a_fault_behind_a_commit_stops_the_service(tmp_path, monkeypatch):
    """The label is in the journal and the model failed to learn it: 503, an end, and recovery by replay; nobody waits."""

    async def work(service, live):
        stopped = []
        service.on_failure = lambda: stopped.append(True)
        await service.learn(live, [{"id": "1", "label": Y[0], "features": X[0]}])
        monkeypatch.setattr(Live, "apply", lambda *_: (_ for _ in ()).throw(RuntimeError("a fault\nof its own")))
        waiting = [service.learn(live, [{"id": k, "label": 2.0, "features": X[1]}]) for k in "23"]
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(answer, Refused) and answer.status == 503
        with pytest.raises(Refused, match="stopping"):
            await service.predict(live, [{"features": X[0]}])
        assert stopped and service.failed
        monkeypatch.undo()

    assert alone(tmp_path, work).failed
    service = Service(Store(tmp_path / "a.db"))
    assert service.find("m").position == 3 == service.find("m").record.examples
    service.store.close()


def test_models_come_and_go_while_they_learn(served):
    """Deleted and made again under load, twice at once: no answer but 200, 201, 404 and 409, and the last one is whole."""
    spec = SPEC | {"name": "flux"}
    served.http.post("/v1/models", json=spec)
    done, seen = threading.Event(), []

    def use(who):
        with httpx.Client(base_url=served.address, timeout=60) as http:
            k = 0
            while not done.is_set():
                k += 1
                id = f"{who}-{k}"
                seen.append(http.post("/v1/models/flux/predict", json={"id": id, "features": X[k % 300]}).status_code)
                seen.append(http.post("/v1/models/flux/learn", json={"id": id, "label": 1.0}).status_code)

    def change(_):
        with httpx.Client(base_url=served.address, timeout=60) as http:
            for _ in range(25):
                seen.append(http.delete("/v1/models/flux").status_code)
                seen.append(http.post("/v1/models", json=spec).status_code)
                seen.append(http.post("/v1/models", json={"name": "fluxs", "shadow_of": "flux"}).status_code)
                seen.append(http.post("/v1/models/flux/promote", json={"shadow": "fluxs"}).status_code)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        users = [pool.submit(use, who) for who in "xy"]
        list(pool.map(change, range(2)))
        done.set()
        for user in users:
            user.result(60)
    assert set(seen) <= {200, 201, 404, 409, 422} and 200 in seen and 201 in seen, set(seen)
    served.http.delete("/v1/models/flux")
    assert served.http.post("/v1/models", json=spec).status_code == 201
    assert served.post("flux/learn", {"label": 1, "features": X[0]}).json()["position"] == 1
    names = {one["name"] for one in served.http.get("/v1/models").json()["models"]}
    assert "flux" in names and "fluxs" not in names
    served.http.delete("/v1/models/flux")


def test_a_model_that_is_deleted_twice_takes_no_other_with_it(tmp_path):
    """Delete, make, delete asked for at once: each sees what the one before it left; and the store agrees."""

    async def work(service, live):
        spec = check(SPEC)
        asked = [admin.delete(service, "m"), admin.delete(service, "m"), admin.create(service, spec)]
        first, second, third = await asyncio.gather(*asked, return_exceptions=True)
        assert first is None and isinstance(second, Refused) and second.status == 404
        assert service.find("m") is third and third.mid == 2
        await service.learn(third, [{"label": 1.0, "features": X[0]}])

    alone(tmp_path, work)
    again = Service(Store(tmp_path / "a.db"))
    assert again.find("m").position == 1
    again.store.close()


def test_a_shadow_asked_for_during_a_promotion_starts_where_the_model_is(tmp_path):
    async def work(service, live):
        shadow = check(SPEC | {"name": "s", "shadow_of": "m"})
        await admin.create(service, shadow)
        labels = [{"label": y, "features": x} for x, y in zip(X[:10], Y)]
        asked = [service.learn(live, labels), admin.promote(service, "m", "s"), admin.create(service, check(SPEC | {"name": "t", "shadow_of": "m"}))]  # fmt: skip
        await asyncio.gather(*asked)
        await service.learn(service.find("m"), labels)
        assert service.find("t").position == service.find("m").position == 20
        assert service.find("t").record.examples == 10
        alone.want = state_bytes(service.find("t").record)

    alone(tmp_path, work)
    again = Service(Store(tmp_path / "a.db"))
    assert state_bytes(again.find("t").record) == alone.want
    again.store.close()


LEARNERS = [
    None, {"rate": 0.01}, {"rate": 1e6}, {"rate": "auto"}, {"kind": "recursive"}, {"geometry": "normalised", "rate": 0.5},
    {"geometry": "signed", "rate": 1.0}, {"geometry": "adaptive", "rate": 0.1}, {"loss": "poisson", "rate": 0.01}, {"loss": "huber", "rate": 0.1},
]  # fmt: skip


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_no_number_that_is_taken_in_breaks_a_model(learner):
    """Numbers from 5e-324 to 1e100 in features, labels and weights: what was served is finite, and everything said of it is JSON."""
    spec = check({"name": "m", "features": dict.fromkeys("ab", "number")} | ({"learner": learner} if learner else {}))
    rng = np.random.default_rng(7)
    odd = [0.0, 1.0, -1.0, 5e-324, 1e-300, 1e-150, 1e50, -1e50, 1e100, -1e100]
    live = Live(1, "m", spec, None, 0)
    served = 0
    for k in range(1, 301):
        wild = rng.random() < 0.2
        features = (rng.choice(odd, 2) if wild else rng.normal(size=2)).tobytes()
        label = abs(rng.choice(odd) if wild else rng.normal()) if learner and learner.get("loss") else rng.normal()
        output = None
        if live.predictable(features):
            made = live.predict([features])[0]
            assert np.isfinite(made)
            output, served = json.dumps(made).encode(), served + 1
        else:
            assert live.unpredictable(features)[1] in "ab"
        live.apply(
            [Label(k, features, json.dumps(float(label)).encode(), float(rng.choice([1.0, 1e9, 1e-300])), output)]
        )
    assert live.position == 300 and served > 20
    json.dumps([live.windows.describe(), live.tally], allow_nan=False)
    live.certificate(), live.coefficients(), live.state()


def test_a_streamed_model_with_categories_has_a_shadow(tmp_path):
    """The shadow reads what its model reads: the columns of the model file."""
    towns = ["Bern", "Basel"]
    lines = ["a,town,y"] + [f"{x['a']!r},{towns[k % 2]},{y!r}" for k, (x, y) in enumerate(zip(X, Y))]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    run = [sys.executable, "-m", "trueline", "stream", "d.csv", "--target", "y", "--save", "w.tl", "-q"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    with Served(tmp_path, "w.tl", spec=None) as server:
        shadow = {"name": "s", "shadow_of": "w", "learner": {"geometry": "normalised", "rate": 0.5}}
        assert server.http.post("/v1/models", json=shadow).status_code == 201
        body = [{"features": {"a": x["a"], "town": towns[k % 2]}, "label": Y[k]} for k, x in enumerate(X[:50])]
        server.post("w/learn", body).raise_for_status()
        want = server.http.get("/v1/models/s/coefficients").json()["coefficients"]
        assert any(want.values()) and server.post("w/promote", {"shadow": "s"}).json()["position"] == 50
        server.kill()
    with Served(tmp_path, spec=None) as server:
        assert server.http.get("/v1/models/w/coefficients").json()["coefficients"] == want
        assert server.post("w/learn", body[0]).json()["position"] == 51


def test_a_backup_that_cannot_be_used_leaves_nothing(tmp_path):
    for name, raw in (("text.db", b"not a store at all"), ("half.db", b"SQLite format 3\0" + b"\1" * 5000)):
        (tmp_path / name).write_bytes(raw)
        run = [sys.executable, "-m", "trueline", "serve", "--restore", name, "--store", "new.db", "--port", "0"]
        made = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert made.returncode == 4 and "Traceback" not in made.stderr, made.stderr
        assert not list(tmp_path.glob("new.db*"))
