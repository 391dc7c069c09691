"""A row that cannot be learned: every learner goes on without it, and with all the others, however labels were grouped."""

from __future__ import annotations

import asyncio
import json
import struct

import numpy as np
import pytest

from trueline.modelfile import dumps
from trueline.serve import admin, drift
from trueline.serve.live import REPEATED, Label, Live
from trueline.serve.service import Service
from trueline.serve.spec import check
from trueline.serve.store import Store

N = 48
RNG = np.random.default_rng(6)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=N)
NUMBERS = [
    None, {"kind": "recursive"}, {"rate": "auto"}, {"rate": 0.01}, {"rate": 0.01, "certificate": False},
    {"geometry": "normalised", "rate": 0.5}, {"geometry": "adaptive", "rate": 0.1}, {"geometry": "signed", "rate": 0.1},
    {"loss": "huber", "rate": 0.01}, {"loss": "poisson", "rate": 0.001},
]  # fmt: skip
CLASSES = [None, {"rate": 0.1}, {"rate": "auto"}, {"loss": "hinge", "rate": 0.1}]
CASES = [("regression", None, learner) for learner in NUMBERS]
CASES += [("classification", [0, 1], learner) for learner in CLASSES]
CASES += [("classification", ["a", "b", "c"], learner) for learner in CLASSES[:3]]


def model(task, classes, learner):
    spec = {"name": "m", "task": task, "features": dict.fromkeys("abc", "number")}
    spec |= {key: value for key, value in (("learner", learner), ("classes", classes)) if value is not None}
    return Live(1, "m", check(spec), None, 0)


def labels(live, rows=X, targets=Y, weights=None):
    """As the journal has them: numbers, counts or classes, as the model takes them."""
    made = []
    for k, (x, t) in enumerate(zip(rows.tolist(), targets.tolist())):
        value = live.classes[int(abs(t) * 7) % len(live.classes)] if live.classes else abs(t)
        weight = 1.0 if weights is None else weights[k]
        made.append(Label(k + 1, struct.pack("3d", *x), live.label(value), weight, None))
    return made


def bits(live):
    arrays, meta = live.record.to_state()
    return {name: array.tobytes() for name, array in arrays.items()}, json.dumps(meta, sort_keys=True)


def apply(live, entries, size, snapshot=None):
    """Learn in groups of a size; with ``snapshot``, restart from a snapshot after so many labels."""
    for at in range(0, len(entries), size):
        live.apply(entries[at : at + size])
        if snapshot is not None and at <= snapshot < at + size:
            again = Live(live.mid, live.name, live.spec, None, 0)
            again.adopt(dumps(*live.state()), "snapshot")
            live = again
    return live


def fail_at(monkeypatch, live, bad, error):
    """The learner raises at these rows, with the rows before them and half of the row itself learned."""
    kind = type(live.record)
    learn = kind.learn

    def failing(self, rows, y, weights=None):
        for k, row in enumerate(rows.tolist()):
            if row in bad:
                learn(self, rows[: k + 1], y[: k + 1], None if weights is None else weights[: k + 1])
                raise error
        return learn(self, rows, y, weights)

    monkeypatch.setattr(kind, "learn", failing)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_that_fails_leaves_all_others_learned(monkeypatch, case):
    live = model(*case)
    weights = [1.0 + k % 3 for k in range(N)]
    entries = labels(live, weights=weights)
    for bad, error in (({0}, ZeroDivisionError()), ({20}, ValueError("x")), ({5, 6, 21, N - 1}, KeyError("y"))):
        want = apply(model(*case), [entry for k, entry in enumerate(entries) if k not in bad], N)
        with monkeypatch.context() as patch:
            fail_at(patch, live, X[sorted(bad)].tolist(), error)
            for size, snapshot in ((1, None), (7, 21), (N, None)):
                found = apply(model(*case), entries, size, snapshot)
                assert bits(found) == bits(want), (bad, size)
                assert found.position == N and found.tally["skipped"] == len(bad)


def test_the_way_back_is_short_and_exact_over_many_labels(monkeypatch):
    """Longer than what is learned again at most: windows, sums and positions are as if the row had never come."""
    count = 3 * REPEATED + 40
    rng = np.random.default_rng(2)
    rows, y = rng.normal(size=(count, 3)), rng.normal(size=count)
    live = model("regression", None, None)
    entries = labels(live, rows, y)
    bad = [REPEATED - 1, REPEATED, 2 * REPEATED + 17]
    fail_at(monkeypatch, live, rows[bad].tolist(), OverflowError())
    made = []
    for size in (1, 100, count):
        found = apply(model("regression", None, None), entries, size)
        kind, arrays, meta = found.state()
        made.append((kind, {n: a.tobytes() for n, a in arrays.items()}, json.dumps(meta, sort_keys=True)))
        assert found.record.examples == count - 3 and found.tally["skipped"] == 3
        assert len(found.windows.windows) == 3
    assert made[0] == made[1] == made[2]


def test_a_row_that_fails_brings_no_column(monkeypatch):
    """Columns that come with their first label: not with one that is skipped."""
    spec = check({"name": "m", "features": {}, "open": True})
    live = Live(1, "m", spec, None, 0)
    entries = [
        Label(k + 1, live.shape.encode({f"f{k % 9}": 1.0 + k}), live.label(float(k)), 1.0, None) for k in range(30)
    ]
    learn = type(live.record).learn

    def failing(self, rows, y, weights=None):
        made = learn(self, rows, y, weights)
        if 5.0 in y:
            raise FloatingPointError
        return made

    monkeypatch.setattr(type(live.record), "learn", failing)
    made = []
    for size in (1, 4, 30):
        live = Live(1, "m", spec, None, 0)
        for at in range(0, 30, size):
            live.apply(entries[at : at + size])
        assert live.columns == ["f0", "f1", "f2", "f3", "f4", "f6", "f7", "f8", "f5"]
        assert live.position == 30 and live.record.examples == 29
        made.append(bits(live))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("classes", [None, ["a", "b", "c"]])
def test_a_window_without_a_comparator_stops_nothing(monkeypatch, classes):
    """The best fixed weights of a window, or of the stream, cannot be found: the labels are learned all the same."""
    case = ("classification" if classes else "regression", classes, {"rate": 0.01})
    live = model(*case)
    rng = np.random.default_rng(5)
    entries = labels(live, rng.normal(size=(600, 3)), rng.normal(size=600))
    want = apply(model(*case), entries, 600).record.examples

    def fail(*_):
        raise np.linalg.LinAlgError if classes is None else KeyError("x")

    monkeypatch.setattr(drift, "best_fixed", fail)
    monkeypatch.setattr(type(live.record), "certificate", fail)
    for size in (1, 100, 600):
        found = apply(model(*case), entries, size)
        assert found.record.examples == want == 600 and found.tally["skipped"] == 0
        assert len(found.windows.windows) == 2 and found.windows.describe()["against"] == "nothing"


def test_the_log_hears_of_labels_that_are_left_out(monkeypatch, caplog):
    """On one line each, whatever the error says, and not of every one."""
    live = model("regression", None, {"rate": 0.01})
    fail_at(monkeypatch, live, X[3:40].tolist(), ValueError("x\nFAKE"))
    live.apply(labels(live))
    assert live.tally["skipped"] == 37
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 6 and not any("\n" in line for line in said)
    assert said[2].startswith("label 7 of m cannot be learned, 4 so far: ValueError(")


def test_out_of_memory_is_no_fault_of_a_row(monkeypatch):
    live = model("regression", None, {"rate": 0.01})
    fail_at(monkeypatch, live, X[[3]].tolist(), MemoryError())
    with pytest.raises(MemoryError):
        live.apply(labels(live))


WEIGHTS = [[1e9, 1e-9], [1e9, 1e-300], [5e-324, 1.0], [1e-300, 1e9, 1e-300], [1.0, 1e-16]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_far_apart_are_learned_in_every_grouping(case):
    """Every weight that the service takes, in any order."""
    for first in WEIGHTS:
        weights = (first + [1.0] * N)[:N]
        made = []
        for size in (1, 7, N):
            live = model(*case)
            found = apply(live, labels(live, weights=weights), size)
            assert found.record.examples + found.tally["skipped"] == N
            made.append((bits(found), found.tally))
        assert made[0] == made[1] == made[2]
        assert case[2] is not None or found.record.examples == N, "the default learner learns them all"


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_labels_behind_odd_weights_are_learned_and_survive_a_crash(tmp_path, classes):
    """One batch, single labels, and a crash: the same model."""
    spec = check({"name": "m", "features": {"a": "number"}} | ({"task": "classification"} if classes else {}))
    rows = [
        {"id": str(k), "features": {"a": x}, "label": int(x > 0) if classes else 3 * x + 1, "weight": w}
        for k, (x, w) in enumerate(zip(X[:, 0].tolist(), [1e9, 1e-9] + [1.0] * N))
    ]

    async def run(path, groups):
        service = Service(Store(path))
        await service.start()
        live = await admin.create(service, spec)
        for group in groups:
            await service.learn(live, group)
        service._task.cancel()
        service.store.abandon()  # as kill −9
        return bits(live), live.record.examples

    made = [asyncio.run(run(tmp_path / "1.db", [rows])), asyncio.run(run(tmp_path / "2.db", [[row] for row in rows]))]
    for name in ("1.db", "2.db"):
        service = Service(Store(tmp_path / name))
        made.append((bits(service.find("m")), service.find("m").record.examples))
        service.store.abandon()
    assert made[0][1] == N
    assert made[0] == made[1] == made[2] == made[3]


def test_windows_are_held_against_the_best_member_where_no_fixed_weights_are_known():
    from trueline.certificates.regret import BEST_MEMBER, RegretCertificate
    from trueline.serve.drift import AGAINST, Drift
    from trueline.serve.events import _compared

    drift = Drift()
    for total in (10.0, 25.0):
        proof = RegretCertificate(loss=total + 2.0, best_member_loss=total, regret=2.0, regret_to=BEST_MEMBER)
        drift.loss, drift.weight = 12.0, 256.0
        drift.close(int(total), None, proof)
    assert AGAINST[drift.against] == "the best member over the whole stream"
    assert [window[2] for window in drift.windows] == [2.0 / 256.0, -3.0 / 256.0]
    assert _compared(proof) == {"best": 25.0, "best_name": "best member"}
    drift.loss, drift.weight = 12.0, 256.0
    drift.close(3, None, RegretCertificate(loss=30.0, best_fixed_loss=20.0))
    assert AGAINST[drift.against] == AGAINST[1] and drift.windows[-1][2] is None  # no share of a sum of another kind
    assert _compared(RegretCertificate(loss=1.0)) == {"best": None, "best_name": "best fixed weights"}
