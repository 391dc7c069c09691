"""The clients against a real server, retries across a crash, and property-based requests from the description."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest
from serving import Nursery, journal, rows

from trueline.errors import DataError
from trueline.serve.client import AsyncClient, Client, ServiceError


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(tmp_path_factory.mktemp("clients"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(nursery, tmp_path_factory):
    pid, address = nursery.start(str(tmp_path_factory.mktemp("store") / "c.db"))
    yield address
    nursery.kill(pid, signal.SIGTERM)


X, Y = rows(1500, seed=11)


def test_client(server):
    with Client(server, "m") as client:
        made = client.predict(X[0])
        first = client.learn(made["id"], Y[0])
        assert client.learn(made["id"], Y[0]) == first | {"replay": True}
        with pytest.raises(ServiceError) as refusal:
            client.learn(made["id"], Y[0] + 1)
        assert refusal.value.status == 409
        with pytest.raises(ServiceError, match="'b' is missing"):
            client.predict({"a": 1.0, "c": 1.0})
        many = client.predict_many([{"features": x} for x in X])
        learned = client.learn_many([{"id": row["id"], "label": y} for row, y in zip(many, Y)])
        assert [row["position"] for row in learned] == list(range(2, 1502))
        assert client.certificate()["certificate"]["examples"] == 1501


def test_batches_fit_the_service(server, monkeypatch):
    """By rows and by bytes: rows of 100 kB go in pieces that the service takes."""
    sent = []
    with Client(server, "m") as client:
        real = client.http.post
        monkeypatch.setattr(client.http, "post", lambda *a, **k: sent.append(len(k["content"])) or real(*a, **k))
        wide = [{"id": f"w{k}", "features": X[0] | {"d" * 100_000: 1.0}} for k in range(100)]
        with pytest.raises(ServiceError, match="not a feature"):
            client.predict_many(wide)
        assert sent[0] < 5 << 20
        sent.clear()
        assert len(client.predict_many([{"features": X[k % 1500]} for k in range(2100)])) == 2100 and len(sent) == 3
        with pytest.raises(ServiceError, match="'b' is nan"):
            client.predict(X[0] | {"b": float("nan")})
        with pytest.raises(DataError, match="JSON"):
            client.predict({"a": object()})
        with pytest.raises(DataError, match="no rows"):
            client.predict_many([])


def test_async_client(server):
    async def run():
        async with AsyncClient(server, "m") as client:
            made = await asyncio.gather(*(client.predict(x) for x in X[:50]))
            learned = await asyncio.gather(*(client.learn(row["id"], y) for row, y in zip(made, Y)))
            assert len({row["position"] for row in learned}) == 50
            again = await client.learn_many([{"id": row["id"], "label": y} for row, y in zip(made, Y)])
            assert all(row["replay"] for row in again)

    asyncio.run(run())


def test_a_retry_across_a_crash_learns_once(nursery, tmp_path):
    store = tmp_path / "r.db"
    pid, address = nursery.start(str(store))
    with Client(address, "m", tries=3) as client:
        client.learn("u", 1.0, features=X[0])
        nursery.kill(pid)
        pid, again = nursery.start(str(store))
        with Client(again, "m") as second:
            assert second.learn("u", 1.0)["replay"]
    nursery.kill(pid)
    assert [row[1] for row in journal(store)] == ["u"]


def renamed(body):
    """The same body with the generated numbers under the model's own names, so that many are taken and learned."""
    for row in body if isinstance(body, list) else body.get("rows", [body]) if isinstance(body, dict) else ():
        if isinstance(row, dict) and isinstance(row.get("features"), dict):
            numbers = [v for v in row["features"].values() if isinstance(v, (int, float)) and not isinstance(v, bool)]
            row["features"] = dict(zip("abc", [*numbers, 1e100, -1.0, 0][:3]))


def fuzz(server, examples):
    import schemathesis
    from hypothesis import HealthCheck, given, settings

    description = httpx.get(f"{server}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(description)
    seen = []

    from schemathesis.core.result import Ok

    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        made = operation.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def one(case):
            if case.method.upper() == "DELETE" or case.path in ("/v1/backup", "/events"):  # a stream never ends
                return
            if case.path_parameters and len(seen) % 4:
                case.path_parameters["name"] = "m"
                if len(seen) % 2:
                    renamed(case.body)
            answer = case.call(base_url=server, timeout=300)
            seen.append(answer.status_code)
            assert answer.status_code < 500, (case.method, case.path, case.body, answer.text)

        given(case=made.as_strategy())(one)()
    return seen


def test_no_request_makes_a_server_error(server):
    seen = fuzz(server, 6)
    assert len(seen) > 60 and 200 in seen and {404, 422} & set(seen)


@pytest.mark.torture
@pytest.mark.timeout(0)
def test_no_request_of_many_makes_a_server_error(server):
    assert len(fuzz(server, 1000)) > 5000
