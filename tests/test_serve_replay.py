"""What a model learns depends on the journal alone: however labels were grouped, the state is the same to the bit."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from trueline.modelfile import dumps, loads
from trueline.serve.drift import WINDOW, Drift, best_fixed, best_logistic
from trueline.serve.live import Label, Live
from trueline.serve.spec import check

RNG = np.random.default_rng(8)
N = 600
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=N)


def model(learner=None, **more):
    spec = {"name": "m", "features": dict.fromkeys("abc", "number")} | more
    return Live(1, "m", check(spec | ({"learner": learner} if learner else {})), None, 0)


def labels(X, y, late=False):
    """As the journal has them; with ``late``, every third was predicted earlier, wrongly."""
    return [
        Label(k + 1, struct.pack("3d", *x), repr(t).encode(), 1.0 + k % 2, b"0.25" if late and k % 3 == 0 else None)
        for k, (x, t) in enumerate(zip(X.tolist(), y.tolist()))
    ]


LEARNERS = [
    {"rate": 0.01}, {"rate": 3.0}, {"rate": 3.0, "certificate": False}, {"geometry": "normalised", "rate": 5.0},
    {"geometry": "signed", "rate": 50.0}, {"kind": "recursive"}, {"rate": "auto"}, None,
]  # fmt: skip


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_grouping_changes_no_bit(learner):
    """Rates that diverge, and rows of 1e99, are skipped in every replay alike; a snapshot in between changes nothing."""
    wild = X.copy()
    wild[100] *= 1e99
    wild[300] *= 1e80
    for rows in (X, wild):
        entries, made = labels(rows, Y, late=True), []
        for size in (1, 7, 256):
            live = model(learner)
            for at in range(0, N, size):
                live.apply(entries[at : at + size])
                if size == 7 and at == 350:
                    again = model(learner)
                    again.adopt(dumps(*live.state()), "snapshot")
                    live = again
            kind, arrays, meta = live.state()
            made.append(
                (kind, {name: array.tobytes() for name, array in arrays.items()}, json.dumps(meta, sort_keys=True))
            )
        assert live.position == N
        assert made[0] == made[1] == made[2]
        if learner == {"rate": 3.0}:
            assert 0 < live.tally["skipped"] < N


def windows(learner, X, y, **more):
    live = model(learner, **more)
    live.apply(labels(X, y))
    return live.windows.describe()


def test_a_windows_regret_is_its_own():
    """The learner's loss less that of the window's own least squares."""
    live, entries, made = model({"rate": 0.01}), labels(X, Y), []
    for entry in entries[:WINDOW]:
        made += live.predict([entry.features])
        live.apply([entry])
    w = np.array([e.weight for e in entries[:WINDOW]])
    Z = np.column_stack([np.ones(WINDOW), X[:WINDOW]]) * np.sqrt(w)[:, None]
    t = Y[:WINDOW] * np.sqrt(w)
    left = t - Z @ np.linalg.lstsq(Z, t, rcond=None)[0]
    mine = w @ (np.array(made) - Y[:WINDOW]) ** 2
    found = live.windows.describe()
    assert found["against"] == "the best fixed weights of each window"
    assert found["windows"] == [
        [WINDOW, pytest.approx(mine / w.sum()), pytest.approx((mine - left @ left) / w.sum(), rel=1e-9)]
    ]


def test_best_fixed_with_columns_that_repeat_or_stand_still():
    Z = np.column_stack([X[:WINDOW], X[:WINDOW, 0], np.full(WINDOW, 7.0)])
    one, spread = best_fixed(Z, Y[:WINDOW], np.ones(WINDOW))
    other, _ = best_fixed(X[:WINDOW], Y[:WINDOW], np.ones(WINDOW))
    assert one == pytest.approx(other, rel=1e-6) and spread == pytest.approx(
        ((Y[:WINDOW] - Y[:WINDOW].mean()) ** 2).sum()
    )


def stream(noise, seed=3, count=16):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count * WINDOW, 3))
    return rows, rows @ [1.0, -2.0, 0.5] + np.repeat(noise, WINDOW) * rng.normal(size=count * WINDOW)


def test_noise_is_not_drift_and_a_moving_target_is():
    """Three times the noise is nine times the loss in the newest window: the weights are right all the same."""
    calm, y = stream([0.3] * 15 + [0.9])
    found = windows({"rate": 0.01}, calm, y)
    losses = [w[1] for w in found["windows"]]
    assert losses[-1] > 6 * np.median(losses[1:-1]) and not found["drifting"], found["score"]
    rows, y = stream([0.3] * 16)
    assert not windows({"rate": 0.01}, rows, y)["drifting"]
    y[15 * WINDOW :] = rows[15 * WINDOW :] @ [-1.0, -2.0, 0.5]
    moved = windows({"rate": 0.01}, rows, y)
    assert moved["drifting"] and moved["windows"][-1][2] > 5 * max(w[2] for w in moved["windows"][1:-1])


def test_a_windows_best_logistic_weights_are_those_of_a_peer():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(4)
    yes = np.where(rng.random(WINDOW) < 1.0 / (1.0 + np.exp(-2.0 * X[:WINDOW, 0] - 0.5)), 1.0, -1.0)
    w = 1.0 + rng.random(WINDOW)
    best, spread = best_logistic(X[:WINDOW], yes, w)
    peer = LogisticRegression(C=1e6, tol=1e-10, max_iter=1000).fit(X[:WINDOW], yes, sample_weight=w)
    want = w @ np.logaddexp(0.0, -yes * peer.decision_function(X[:WINDOW]))
    assert best == pytest.approx(want, rel=1e-3) and best >= want - 1e-6 and spread > best
    separable, _ = best_logistic(X[:WINDOW], np.sign(X[:WINDOW, 0]), w)
    assert 0.0 <= separable < 0.1 * spread


@pytest.mark.parametrize(("classes", "against"), [(2, "of each window"), (3, "")])
def test_drift_of_classes(classes, against):
    """Two classes are held against the window's own best; several, against what the certificate knows."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(9 * WINDOW, 3))
    right = (rows[:, 0] + (1.0 if classes == 2 else 0.1) * rng.logistic(size=len(rows)) > 0).astype(int)
    right[8 * WINDOW :] ^= 1
    entries = [
        Label(k + 1, struct.pack("3d", *x), str(t).encode(), 1.0, None) for k, (x, t) in enumerate(zip(rows, right))
    ]
    live = model({"rate": 0.05}, task="classification", classes=list(range(classes)))
    live.apply(entries[: 8 * WINDOW])
    assert not live.windows.describe()["drifting"]
    live.apply(entries[8 * WINDOW :])
    found = live.windows.describe()
    assert found["drifting"] and against in found["against"]


def test_an_open_window_survives_a_snapshot():
    live = model({"rate": 0.01})
    live.apply(labels(X, Y)[:300])
    raw = dumps(*live.state())
    again = model({"rate": 0.01})
    again.adopt(raw, "snapshot")
    assert len(again.windows.rows) == 300 - WINDOW and again.windows.to_dict() == live.windows.to_dict()
    kept = loads(raw)[2]["service"]["drift"]
    assert Drift(kept).windows == live.windows.windows
