"""The service: what it answers, what it keeps, what it refuses."""

from __future__ import annotations

import concurrent.futures
import json
import os
import struct
import subprocess
import sys

import httpx
import numpy as np
import pytest
from serving import SPEC, Served, journal, replayed, rows, state_bytes, wait_for

from trueline.modelfile import loads
from trueline.serve.spec import restore


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def model(served, request):
    """A model of its own for each test."""
    name = "t" + str(abs(hash(request.node.name)) % 10**8)
    assert served.http.post("/v1/models", json=SPEC | {"name": name}).status_code == 201
    yield name
    served.http.delete(f"/v1/models/{name}")


GOOD = {"a": 1.0, "b": 2.0, "c": 3.0}


def test_a_label_is_learned_once(served, model):
    made = served.post(f"{model}/predict", {"id": "u", "features": GOOD}).json()
    assert made == {"id": "u", "model": model, "position": 0, "prediction": 0.0}
    assert served.post(f"{model}/learn", {"id": "u", "label": 1.0}).json() == {"id": "u", "model": model, "position": 1}
    again = served.post(f"{model}/learn", {"id": "u", "label": 1})
    assert again.status_code == 200 and again.json() == {"id": "u", "model": model, "position": 1, "replay": True}
    assert served.post(f"{model}/learn", {"id": "u", "label": 2.0}).status_code == 409
    assert served.post(f"{model}/learn", {"id": "u", "label": 1.0, "weight": 2}).status_code == 409
    assert served.http.get(f"/v1/models/{model}").json()["examples"] == 1


def test_an_unknown_id_needs_its_features(served, model):
    assert served.post(f"{model}/learn", {"id": "v", "label": 1.0}).status_code == 404
    repaired = served.post(f"{model}/learn", {"id": "v", "label": 1.0, "features": GOOD})
    assert repaired.status_code == 200 and repaired.json()["position"] == 1
    late = served.post(f"{model}/predict", {"id": "v", "features": GOOD}).json()  # the label came first
    assert late["learned"] == 1 and late["prediction"] != 0.0
    assert served.post(f"{model}/learn", {"label": 1.0, "features": GOOD}).json()["position"] == 2


def test_a_prediction_asked_again_is_the_same(served, model):
    first = served.post(f"{model}/predict", {"id": "w", "features": GOOD}).json()
    served.post(f"{model}/learn", {"label": 5.0, "features": GOOD})
    again = served.post(f"{model}/predict", {"id": "w", "features": GOOD}).json()
    assert again == first | {"replay": True}
    assert served.post(f"{model}/predict", {"id": "w", "features": GOOD | {"a": 2}}).status_code == 409


def test_batches(served, model):
    X, y = rows(250)
    made = served.post(f"{model}/predict", {"rows": [{"id": f"r{k}", "features": x} for k, x in enumerate(X)]})
    assert [row["id"] for row in made.json()["rows"]] == [f"r{k}" for k in range(250)]
    labels = [{"id": f"r{k}", "label": v} for k, v in enumerate(y)]
    learned = served.post(f"{model}/learn", labels)
    assert learned.status_code == 200 and [r["position"] for r in learned.json()["rows"]] == list(range(1, 251))
    mixed = served.post(
        f"{model}/learn",
        [labels[0], {"id": "r1", "label": 99.0}, {"id": "none", "label": 1}, {"label": 1, "features": X[0]}],
    )
    assert mixed.status_code == 207
    assert [r.get("status", 200) for r in mixed.json()["rows"]] == [200, 409, 404, 200]
    assert mixed.json()["rows"][0]["replay"] and mixed.json()["rows"][3]["position"] == 251


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("b", '{"a":1,"b":NaN,"c":3}'), ("b", '{"a":1,"b":Infinity,"c":3}'), ("b", '{"a":1,"b":null,"c":3}'), ("b", '{"a":1,"b":1e309,"c":3}'),
        ("b", '{"a":1,"b":"2","c":3}'), ("b", '{"a":1,"b":[2],"c":3}'), ("b", '{"a":1,"c":3}'), ("d", '{"a":1,"b":2,"c":3,"d":4}'),
        ("a", '{"a":1e200,"b":2,"c":3}'), ("a", '{"a":1' + "0" * 400 + ',"b":2,"c":3}'), ("features", "[1,2,3]"), ("features", "null"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named_and_nothing_changes(served, model, field, text):
    before = served.http.get(f"/v1/models/{model}").json()
    for verb, body in (("predict", '{"features":%s}'), ("learn", '{"label":1,"features":%s}')):
        made = served.http.post(f"/v1/models/{model}/{verb}", content=body % text)
        assert made.status_code == 422, made.text
        assert made.json()["error"]["where"] == field and field in made.json()["error"]["message"]
    assert served.http.get(f"/v1/models/{model}").json() == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"id": "u"}, "label"), ({"id": "u", "label": "x"}, "label"), ({"id": "u", "label": None}, "label"), ({"id": 7, "label": 1}, "id"),
        ({"id": "u", "label": 1, "weight": -1}, "weight"), ({"id": "u", "label": 1, "lable": 1}, "lable"), ({"id": "", "label": 1}, "id"),
        ({"id": "a\nb", "label": 1}, "id"), ([], "rows"), ({"id": "u", "label": True}, "label"), ([3], "label"),
    ],
)  # fmt: skip
def test_a_bad_label_is_named(served, model, body, field):
    made = served.post(f"{model}/learn", body)
    assert made.status_code == 422 and made.json()["error"]["where"] == field


def test_categories_and_open_models(served):
    spec = {"name": "cats", "features": {"size": "number", "colour": {"category": ["red", "blue"]}, "town": "category"}, "open": True,
            "learner": {"geometry": "additive", "rate": 0.1}}  # fmt: skip
    assert served.http.post("/v1/models", json=spec).status_code == 201
    row = {"size": 1.0, "colour": "red", "town": "Bern"}
    assert served.post("cats/predict", {"id": "1", "features": row}).json()["prediction"] == 0.0
    refused = served.post("cats/predict", {"features": row | {"colour": "green"}})
    assert refused.status_code == 422 and "'green'" in refused.text
    served.post("cats/learn", {"id": "1", "label": 2.0})
    served.post("cats/learn", {"features": row | {"extra": 3.0, "kind": "x"}, "label": 1.0})
    found = served.http.get("/v1/models/cats/coefficients").json()["coefficients"]
    assert list(found) == ["size", "colour[red]", "colour[blue]", "town[Bern]", "extra", "kind[x]"]
    assert found["colour[blue]"] == 0.0 and found["extra"] != 0.0
    served.http.delete("/v1/models/cats")


def test_classification(served):
    spec = {
        "name": "cls",
        "task": "classification",
        "classes": ["no", "yes"],
        "features": {"a": "number"},
        "learner": {"rate": 0.5},
    }
    assert served.http.post("/v1/models", json=spec).status_code == 201
    for k in range(20):
        served.post("cls/learn", {"features": {"a": (-1.0) ** k}, "label": ["yes", "no"][k % 2]})
    made = served.post("cls/predict", {"features": {"a": 1.0}}).json()
    assert (
        made["prediction"] == "yes" and abs(sum(made["probabilities"]) - 1.0) < 1e-12 and made["probabilities"][1] > 0.8
    )
    assert served.post("cls/learn", {"features": {"a": 1.0}, "label": "maybe"}).status_code == 422
    served.http.delete("/v1/models/cls")


def test_delayed_labels_are_accounted_for(served, model):
    X, y = rows(60)
    made = served.post(f"{model}/predict", [{"id": str(k), "features": x} for k, x in enumerate(X)]).json()["rows"]
    for k in range(60):
        served.post(f"{model}/learn", {"id": str(k), "label": y[k]})
    found = served.http.get(f"/v1/models/{model}/certificate").json()
    suffered = sum((row["prediction"] - v) ** 2 for row, v in zip(made, y))
    assert found["served"]["loss"] == pytest.approx(suffered, rel=1e-9)
    assert found["served"]["excess"] > 0 and found["certificate"]["proven"]
    assert found["served"]["loss"] <= found["served"]["bound"]


def test_shadow_and_promotion(served, model):
    X, y = rows(80)
    served.post(f"{model}/learn", [{"features": x, "label": v} for x, v in zip(X[:40], y[:40])])
    shadow = {"name": f"{model}s", "shadow_of": model, "learner": {"geometry": "normalised", "rate": 0.5}}
    assert served.http.post("/v1/models", json=shadow).status_code == 201
    served.post(f"{model}/learn", [{"features": x, "label": v} for x, v in zip(X[40:], y[40:])])
    assert served.post(f"{model}s/learn", {"features": X[0], "label": 1}).status_code == 409
    want = served.http.get(f"/v1/models/{model}s/coefficients").json()["coefficients"]
    assert served.post(f"{model}/promote", {"shadow": "nobody"}).status_code == 404
    made = served.post(f"{model}/promote", {"shadow": f"{model}s"})
    assert made.status_code == 200 and made.json()["position"] == 80
    assert served.http.get(f"/v1/models/{model}/coefficients").json()["coefficients"] == want
    assert served.http.get(f"/v1/models/{model}s").json()["shadow_of"] == model  # the old learner learns on
    assert served.post(f"{model}/learn", {"features": X[0], "label": 1}).json()["position"] == 81


def test_open_inference_protocol(served, model):
    served.post(f"{model}/learn", {"features": GOOD, "label": 1.0})
    assert served.http.get("/v2/health/live").status_code == served.http.get("/v2/health/ready").status_code == 200
    described = served.http.get(f"/v2/models/{model}").json()
    assert [one["name"] for one in described["inputs"]] == ["a", "b", "c"]
    inputs = [{"name": n, "datatype": "FP64", "shape": [2], "data": [GOOD[n], 0.0]} for n in "abc"]
    made = served.http.post(f"/v2/models/{model}/infer", json={"id": "7", "inputs": inputs}).json()
    plain = served.post(f"{model}/predict", {"features": GOOD}).json()["prediction"]
    assert made["id"] == "7" and made["outputs"][0]["shape"] == [2] and made["outputs"][0]["data"][0] == plain
    assert served.http.post(f"/v2/models/{model}/infer", json={"inputs": inputs[:2]}).status_code == 400


def test_metrics_and_snapshot(served, model, tmp_path):
    X, y = rows(300)
    served.post(f"{model}/learn", [{"features": x, "label": v} for x, v in zip(X, y)])
    text = served.http.get("/metrics").text
    assert f'trueline_position{{model="{model}"}} 300.0' in text and "trueline_labels_total" in text
    raw = served.http.get(f"/v1/models/{model}/snapshot")
    (tmp_path / "m.tl").write_bytes(raw.content)
    from trueline.model import load

    record = load(tmp_path / "m.tl")
    want = replayed([(struct.pack("3d", *x.values()), v) for x, v in zip(X, y)])
    assert state_bytes(record) == want
    drift = served.http.get(f"/v1/models/{model}/certificate").json()["drift"]
    assert len(drift["windows"]) == 1 and not drift["drifting"]


def test_drift_is_signalled(served, model):
    X, y = rows(256 * 12, seed=3)
    body = [{"features": x, "label": v} for x, v in zip(X, y)]
    served.post(f"{model}/learn", body)
    assert not served.http.get(f"/v1/models/{model}/certificate").json()["drift"]["drifting"]
    served.post(f"{model}/learn", [row | {"label": 30.0 - row["label"]} for row in body[:256]])
    assert served.http.get(f"/v1/models/{model}/certificate").json()["drift"]["drifting"]
    assert f'trueline_drifting{{model="{model}"}} 1.0' in served.http.get("/metrics").text


def test_events_resume(served, model):
    def read(count, headers=None):
        found = []
        with served.http.stream("GET", "/events", headers=headers) as stream:
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    found.append(line[4:])
                    if len(found) < count:
                        continue
                    return found
        return found

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read, 3)
        for _ in range(40):
            served.post(f"{model}/learn", {"features": GOOD, "label": 1.0})
            if waiting.done():
                break
            concurrent.futures.wait([waiting], 0.3)
        seen = waiting.result(10)
    assert read(2, {"last-event-id": seen[0]}) == seen[1:3]


def test_same_id_a_thousand_times_at_once(served, model):
    served.post(f"{model}/predict", {"id": "hot", "features": GOOD})
    body = json.dumps({"id": "hot", "label": 2.5})

    def many(_):
        with httpx.Client(base_url=served.address, timeout=60) as http:
            return [http.post(f"/v1/models/{model}/learn", content=body).json() for _ in range(50)]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = [one for part in pool.map(many, range(20)) for one in part]
    assert len(answers) == 1000 and {a["position"] for a in answers} == {1}
    assert sum("replay" not in a for a in answers) == 1
    assert served.http.get(f"/v1/models/{model}").json()["examples"] == 1


def test_expiry(tmp_path):
    with Served(tmp_path, "--retention", "1s") as server:
        server.post("m/predict", [{"id": "old", "features": GOOD}, {"id": "done", "features": GOOD}])
        server.post("m/learn", {"id": "done", "label": 1.0})
        wait_for(lambda: server.http.get("/v1/models/m").json()["pending"] == 0)
        gone = server.post("m/learn", {"id": "old", "label": 1.0})
        assert gone.status_code == 410 and gone.json()["error"]["where"] == "id"
        assert server.post("m/learn", {"id": "done", "label": 1.0}).json().get("replay")


def test_restart_backup_and_restore_change_nothing(tmp_path):
    X, y = rows(120)
    spec = {k: v for k, v in SPEC.items() if k != "learner"}  # the rate-free default
    with Served(tmp_path, "--snapshot-every", "50", spec=spec) as server:
        server.post("m/predict", [{"id": str(k), "features": x} for k, x in enumerate(X)])
        for k in range(100):
            server.post("m/learn", {"id": str(k), "label": y[k]})
        backup = server.http.get("/v1/backup").content
        probe = server.post("m/predict", {"features": X[0]}).json()["prediction"]
        raw = loads(server.http.get("/v1/models/m/snapshot").content)
        assert server.stop() == 0
    (tmp_path / "backup.db").write_bytes(backup)
    restored = ("--restore", str(tmp_path / "backup.db"), "--store", str(tmp_path / "other.db"))
    for options, store in (((), "state.db"), (restored, "other.db")):
        with Served(tmp_path, *options, spec=spec, store=store) as server:
            assert server.post("m/predict", {"features": X[0]}).json()["prediction"] == probe
            again = loads(server.http.get("/v1/models/m/snapshot").content)
            assert {n: a.tobytes() for n, a in again[1].items()} == {
                n: a.tobytes() for n, a in raw[1].items()
            } and again[2] == raw[2]
            assert server.post("m/learn", {"id": "7", "label": y[7]}).json() == {
                "id": "7",
                "model": "m",
                "position": 8,
                "replay": True,
            }
            assert server.post("m/learn", {"id": "110", "label": y[110]}).json()["position"] == 101


def test_a_streamed_model_goes_live(tmp_path):
    X, y = rows(200)
    lines = ["a,b,c,y"] + [",".join(repr(v) for v in [*x.values(), t]) for x, t in zip(X, y)]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    run = [
        sys.executable,
        "-m",
        "trueline",
        "stream",
        "d.csv",
        "--target",
        "y",
        "--learner",
        "widrow-hoff",
        "--rate",
        "0.01",
        "--save",
        "w.tl",
        "-q",
    ]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    with Served(tmp_path, "w.tl", spec=None) as server:
        made = server.post("w/predict", {"id": "1", "features": X[3]}).json()["prediction"]
        record = restore((tmp_path / "w.tl").read_bytes(), "w.tl")
        assert made == record.predict(np.array([list(X[3].values())]))[0]
        assert server.post("w/learn", {"id": "1", "label": y[3]}).json()["position"] == 1
        assert server.http.get("/v1/models/w").json()["examples"] == 201


def test_journal_in_the_store_is_what_was_learned(served):
    start = served.http.get("/v1/models/m").json()["position"]
    X, y = rows(30, seed=9)
    for x, v in zip(X, y):
        served.post("m/learn", {"features": x, "label": v})
    entries = journal(served.store)
    assert [e[0] for e in entries] == list(range(1, start + 31))
    record = restore(served.http.get("/v1/models/m/snapshot").content, "snapshot")
    assert state_bytes(record) == replayed([(e[3], e[2]) for e in entries])
    assert os.path.exists(str(served.store) + "-wal")
