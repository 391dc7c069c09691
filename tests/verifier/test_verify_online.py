"""Online learners: honest runs of every kind hold, and nothing in their state or certificate can be changed unnoticed."""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
from verifier import honest

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.certificates.regret import BEST_FIXED, BEST_MEMBER, StreamCertificate
from trueline.errors import TruelineError
from trueline.verifier.verify import verify

RNG = np.random.default_rng(3)
N = 70
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 2.0, -3.0] + 0.5 * RNG.normal(size=N) + 0.3
TWO, THREE = (Y > 0).astype(int), np.digitize(Y, [-2.0, 2.0])
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0])).astype(float)
C = RNG.random(N) + 0.5
TARGETS = {"number": Y, "two": TWO, "three": THREE, "count": COUNTS}
Regressor, Classifier = tl.OnlineRegressor, tl.OnlineClassifier

GEOMETRIES = ("additive", "normalised", "implicit", "adaptive", "multiplicative", "signed")
SETTINGS: list[dict[str, Any]] = [
    {}, {"schedule": "1/sqrt(t)"}, {"schedule": "1/t"}, {"batch_size": 7}, {"fit_intercept": False},
    {"average": True, "loss_range": 1e4}, {"average": True}, {"certificate": False},
]  # fmt: skip
KINDS: list[tuple[Any, str]] = [
    *((Regressor(geometry=g, rate=0.05, **kw), "number") for g in GEOMETRIES for kw in SETTINGS),
    *((Classifier(geometry=g, rate=0.05, **kw), "two") for g in GEOMETRIES for kw in SETTINGS[:4]),
    *((Classifier(geometry=g, rate=0.05), "three") for g in GEOMETRIES),
    *((Regressor(geometry=g), "number") for g in GEOMETRIES),
    *((Classifier(geometry=g), "two") for g in GEOMETRIES),
    *((Classifier(geometry=g), "three") for g in ("additive", "adaptive", "signed")),
    *((Regressor(loss, g, rate=0.05), "number") for g in ("additive", "implicit", "signed")
      for loss in ("absolute", "huber", "quantile", "epsilon_insensitive")),
    *((Regressor("power", g, rate=0.05), "number") for g in ("implicit", "adaptive")),
    *((Classifier(loss, g, rate=0.05), "two") for g in ("normalised", "implicit", "multiplicative")
      for loss in ("hinge", "squared_hinge", "perceptron")),
    *((Regressor("poisson", g, rate=0.02), "count") for g in ("additive", "implicit", "adaptive")),
    (Regressor("poisson", "adaptive"), "count"), (Regressor("huber", "normalised"), "number"),
    *((Regressor(geometry=g, rate=0.05, penalty=p, alpha=0.1, batch_size=b), "number")
      for g in ("additive", "normalised", "implicit") for p in ("l1", "l2", "elastic_net") for b in (1, 5)),
    (Classifier(geometry="additive", rate=0.05, penalty="l2", schedule="1/sqrt(t)"), "two"),
    (Regressor(geometry="additive", penalty="l1", alpha=0.1), "number"),
    (tl.WidrowHoff(), "number"), (tl.WidrowHoff(0.01), "number"), (tl.ExponentiatedGradient(), "number"),
    (tl.Perceptron(), "two"), (tl.Perceptron(), "three"), (tl.Winnow(), "two"), (tl.Winnow(0.01), "three"),
    (tl.RecursiveLeastSquares(), "number"), (tl.RecursiveLeastSquares(forgetting=0.95), "number"),
    (tl.RecursiveLeastSquares(forward=False, fit_intercept=False), "number"),
    (Regressor(), "number"), (Classifier(), "two"), (Classifier(), "three"),
]  # fmt: skip


def learned(make: Any, how: str, A: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Any:
    learner = copy.deepcopy(make)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        getattr(learner, how)(A, y, sample_weight=weights)
    return learner


def failed(learner: Any, data: Any, certificate: Any = None) -> set[str]:
    """The claims that do not hold; a refusal counts as one."""
    try:
        return {check.claim for check in verify(learner, data, certificate=certificate).checks if not check.held}
    except TruelineError as error:
        return {str(error)}


def named(value: Any) -> str:
    return "".join(repr(value).split()) if not isinstance(value, str) else value


@pytest.mark.parametrize(("make", "target"), KINDS, ids=named)
def test_honest_runs_hold_with_and_without_weights(make, target):
    y = TARGETS[target]
    for how, weights in (("fit", None), ("partial_fit", C)):
        learner = learned(make, how, X, y, weights)
        assert failed(learner, (X, y) if weights is None else (X, y, weights)) == set(), how


@pytest.mark.parametrize("hostile", [False, True])
def test_no_false_alarm_on_dull_and_hostile_rows(hostile):
    kinds = [(make, target) for k, (make, target) in enumerate(KINDS) if k % 3 == 0 or target != "number"]
    tried, alarms = 0, []
    for k, (make, target) in enumerate(kinds):
        rng = np.random.default_rng([11, k, hostile])
        rows = honest.draw(rng, target, hostile, weighted=True)
        try:
            learner = learned(make, "fit" if k % 2 else "partial_fit", *rows)
        except TruelineError:
            continue  # a rate that overflows is refused while it learns
        tried += 1
        found = failed(learner, rows)
        alarms += [(named(make), found)] if found else []
    assert tried >= 40 and not alarms


def test_several_epochs_and_one_row_at_a_time():
    for make, y in ((Regressor(geometry="adaptive", rate=0.1, epochs=3), Y), (tl.Perceptron(epochs=2), TWO)):
        assert not failed(make.fit(X, y), (X, y))
    learner = tl.WidrowHoff(0.02)
    for row, target in zip(X, Y, strict=True):
        learner.learn_one(dict(zip("abc", row, strict=True)), target)
    assert not failed(learner, (X, Y))


# Forged states: what predicts is what was learned.

NAMED = [(make, target) for make, target in KINDS if getattr(make, "certificate", True)][::3]


@pytest.mark.parametrize(("make", "target"), NAMED, ids=named)
def test_other_weights_than_those_learned_are_refused(make, target):
    y = TARGETS[target]
    learner = learned(make, "fit", X, y)
    record, proof = learner.record_, learner.certificate_
    if record.kind == "recursive":
        record.w = record.w * -3.0 + 0.7
    elif record.kind == "mixture":
        name = "table" if record.arrays["table"].size else "w"
        record.arrays[name] = record.arrays[name] * -3.0 + 0.7
    else:
        member = getattr(record, "members", [record])[-1 if record.kind == "online" else 0]
        values = member.heads[-1].array("average" if record.kind == "online" and record.average else "dual")
        values[:] = values * -3.0 + 0.7
    found = failed(learner, (X, y), proof)
    assert found & {"weights", "mean weights", "weights of the members", "state"}, found


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-9])
def test_weights_that_are_off_by_little_are_refused(share):
    for make, y in ((tl.WidrowHoff(0.02), Y), (Classifier(geometry="adaptive", rate=0.1), TWO), (Regressor(), Y)):
        learner = learned(make, "fit", X, y)
        proof, record = learner.certificate_, learner.record_
        table = record.arrays["w"] if record.kind == "mixture" else record.heads[0].array("dual")
        table *= 1.0 + share
        assert failed(learner, (X, y), proof)


def test_rows_in_another_order_and_other_labels_are_refused():
    for make, y in ((tl.WidrowHoff(0.02), Y), (Classifier(), TWO), (tl.Perceptron(), THREE)):
        learner = learned(make, "fit", X, y)
        assert failed(learner, (X[::-1], y[::-1]))
    words = np.array(["no", "yes", "maybe"])
    learner = learned(Classifier(geometry="additive", rate=0.05), "fit", X, words[TWO])
    assert not failed(learner, (X, words[TWO])) and failed(learner, (X, words[THREE]))


# Forged certificates.


def lies(proof: Any) -> dict[str, dict[str, Any]]:
    """What a forger writes into the certificate of a run."""
    high = abs(proof.loss) * 10.0 + 1.0
    return {
        "loss −∞": {"loss": -math.inf, "regret": -math.inf},
        "NaN": {"loss": math.nan},
        "one row less": {"examples": proof.examples - 1},
        "a smaller loss": {"loss": 0.999 * proof.loss, "bound": 0.9995 * proof.loss},
        "best fixed without weights": {
            "comparator": None, "best_fixed_loss": high, "regret_to": BEST_FIXED, "regret": proof.loss - high,
        },
        "the best member as best fixed": {
            "comparator": None, "best_fixed_loss": high, "best_member_loss": high, "regret_to": BEST_MEMBER,
            "regret": proof.loss - high,
        },
        "regret to nothing": {"regret": -1.0, "regret_to": "the best of all weights"},
        "a lower bound too high": {"best_fixed_lower_bound": high},
        "a bound below the loss": {"bound": 0.9 * proof.loss, "status": Status.PROVEN},
        "proven without a bound": {"bound": math.inf, "status": Status.PROVEN},
        "a comparator of another width": {"comparator": np.zeros(2), "best_fixed_loss": 1.0},
    }  # fmt: skip


RUNS = [
    (tl.WidrowHoff(0.02), "number"), (Regressor(geometry="implicit", rate=0.1), "number"),
    (Regressor(geometry="signed", rate=0.01, radius=9.0), "number"), (Regressor(geometry="adaptive"), "number"),
    (Classifier(geometry="additive", rate=0.05), "two"), (Classifier(geometry="normalised"), "two"),
    (Classifier(geometry="additive", rate=0.05), "three"), (tl.RecursiveLeastSquares(), "number"),
    (Regressor(), "number"), (Classifier(), "two"), (Classifier(), "three"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "target"), RUNS, ids=named)
def test_lies_about_a_run_are_refused(make, target):
    y = TARGETS[target]
    learner = learned(make, "fit", X, y)
    proof = learner.certificate_
    assert not failed(learner, (X, y), proof)
    for name, lie in lies(proof).items():
        assert failed(learner, (X, y), dataclasses.replace(proof, **lie)), name


def test_a_better_comparator_is_found_by_the_verifier():
    """Weights that are nearly the best, with their own loss, are not the best fixed ones."""
    for make, y in (
        (Classifier(geometry="additive", rate=0.05), TWO), (tl.WidrowHoff(0.02), Y),
        (Regressor("poisson", "additive", rate=0.02), COUNTS), (Regressor(geometry="signed", rate=0.01, radius=9.0), Y),
    ):  # fmt: skip
        learner = learned(make, "fit", X, y)
        proof = learner.certificate_
        assert proof.best_fixed_loss is not None
        for u in (0.9 * proof.comparator, np.zeros(4)):
            scores = np.column_stack([np.ones(N), X]) @ u
            signs = np.where(y == 1, 1.0, -1.0)
            losses = {"logistic": np.logaddexp(0.0, -signs * scores), "poisson": np.exp(scores) - y * scores}
            loss = float(losses.get(learner.record_.loss.name, (scores - y) ** 2).sum())
            lie = dataclasses.replace(
                proof, comparator=u, best_fixed_loss=loss, best_fixed_lower_bound=None, regret=proof.loss - loss
            )
            assert "no fixed weights are better" in failed(learner, (X, y), lie)


def test_a_rate_for_which_the_bound_is_void_is_not_proven():
    learner = tl.WidrowHoff(0.5).fit(X, Y)
    proof = learner.certificate_
    assert not failed(learner, (X, Y)) and not proof.proven
    held = tuple(dataclasses.replace(item, held=True, worst=0.5) for item in proof.assumptions)
    for lie in ({"bound_comparator": None}, {"assumptions": held}, {"assumptions": ()}):
        forged = dataclasses.replace(proof, status=Status.PROVEN, bound=1.0001 * proof.loss, **lie)
        assert "status" in failed(learner, (X, Y), forged)


@pytest.mark.parametrize(("make", "target"), [
    (Classifier(geometry="additive", rate=0.05), "two"), (Classifier(geometry="adaptive", rate=0.05), "two"),
    (Classifier(geometry="signed", rate=0.05), "two"), (Classifier("hinge", "implicit", rate=0.1), "three"),
    (Regressor("poisson", "normalised", rate=0.05), "count"),
], ids=named)  # fmt: skip
def test_every_number_of_a_stream_that_is_gone_counts(make, target):
    y = TARGETS[target]
    learner = learned(make, "partial_fit", X, y)
    proof = learner.certificate_
    assert isinstance(proof, StreamCertificate) and not failed(learner, (X, y))
    for name, value in (("radius", 1e12), ("regret_bound", 0.0), ("radius", None), ("regret_bound", -math.inf)):
        assert name in failed(learner, (X, y), dataclasses.replace(proof, **{name: value})), name
    moved = tuple((at, 0.9 * own, other, bound) for at, own, other, bound in proof.candidates)
    for forged in (moved, (*proof.candidates, (1.0, 2.0, 3.0, 4.0))):
        if forged != proof.candidates:
            assert "candidates" in failed(learner, (X, y), dataclasses.replace(proof, candidates=forged))


def test_the_risk_of_mean_weights():
    make = Regressor(geometry="additive", rate=0.01, average=True, loss_range=1e4)
    learner = learned(make, "fit", X, Y)
    proof = learner.certificate_
    assert proof.proven and not failed(learner, (X, Y))
    small = 1e-6
    width = small * math.sqrt(math.log(1.0 / (1.0 - proof.confidence)) / (2.0 * N))
    for lie in (
        {"loss_range": small, "risk_bound": proof.mean_loss + width}, {"risk_bound": -math.inf},
        {"confidence": 0.0, "risk_bound": proof.mean_loss}, {"mean_loss": 0.9 * proof.mean_loss},
    ):  # fmt: skip
        assert failed(learner, (X, Y), dataclasses.replace(proof, **lie)), lie
    learner.record_.loss_range = small  # the setting and the certificate
    assert "status" in failed(
        learner, (X, Y), dataclasses.replace(proof, loss_range=small, risk_bound=proof.mean_loss + width)
    )


def test_five_epochs_are_not_one_pass_and_weighted_rows_are_not_independent_draws():
    make = Regressor(geometry="additive", rate=0.01, average=True, loss_range=1e4, epochs=5)
    learner = learned(make, "fit", X, Y)
    proof = learner.certificate_
    assert not proof.proven and not failed(learner, (X, Y))
    held = tuple(dataclasses.replace(item, held=True) for item in proof.assumptions)
    assert failed(learner, (X, Y), dataclasses.replace(proof, status=Status.PROVEN, assumptions=held))
    learner.record_.epochs = 1
    assert "examples" in failed(learner, (X, Y), dataclasses.replace(proof, status=Status.PROVEN, assumptions=held))


def test_a_certificate_of_another_kind_is_refused():
    learner = learned(Regressor(), "fit", X, Y)
    proof = learner.certificate_
    forged = StreamCertificate(
        status=Status.PROVEN, examples=N, loss=proof.loss, bound=1.000001 * proof.loss, radius=1e12, regret_bound=0.0
    )
    assert failed(learner, (X, Y), forged)


def test_the_default_learner_says_who_replayed_it():
    learner = learned(Regressor(), "fit", X, Y)
    notes = {check.claim: check.note for check in verify(learner, (X, Y)).checks}
    assert notes["state"] == notes["loss"] == "replayed by the learner's own code"
    notes = {check.claim: check.note for check in verify(tl.WidrowHoff(0.02).fit(X, Y), (X, Y)).checks}
    assert "own code" not in "".join(notes.values())


# Mistakes.


@pytest.mark.parametrize("make", [tl.Perceptron(), tl.Winnow(0.05)], ids=named)
def test_mistakes_by_replay_and_each_forged_field_is_caught(make):
    A = np.abs(X) if isinstance(make, tl.Winnow) else X
    learner = learned(make, "fit", A, TWO)
    proof = learner.certificate_
    assert proof.kind == "mistakes" and not failed(learner, (A, TWO))
    forgeries = {
        "examples": N - 1, "mistakes": proof.mistakes - 1, "radius": 0.9 * proof.radius, "margin": 1e9,
        "bound": float(proof.mistakes) - 1.0, "comparator": None,
    }  # fmt: skip
    for name, value in forgeries.items():
        forged = dataclasses.replace(proof, **{name: value, "status": Status.PROVEN})
        assert failed(learner, (A, TWO), forged), name
    nothing = {"comparator": None, "margin": 1e9, "slack": 0.0, "bound": float(proof.mistakes), "status": Status.PROVEN}
    assert failed(learner, (A, TWO), dataclasses.replace(proof, **nothing))


def test_rows_of_unequal_weight_have_no_mistake_bound():
    learner = learned(tl.Perceptron(), "fit", X, TWO, C)
    proof = learner.certificate_
    assert not proof.proven and not failed(learner, (X, TWO, C))
    held = tuple(dataclasses.replace(item, held=True) for item in proof.assumptions)
    assert "status" in failed(learner, (X, TWO, C), dataclasses.replace(proof, status=Status.PROVEN, assumptions=held))


# Rounding.


def test_scores_within_rounding_of_a_kink_may_fall_on_either_side():
    """Decimal rows whose scores are 0 but for rounding, which depends on the order of summation."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.integers(-3, 4, size=(25, 3)) / 10.0
        y = (A @ [1.0, -1.0, 1.0] > 0).astype(int)
        y[:2] = [0, 1]
        for make in (tl.Perceptron(), Classifier("perceptron", "additive", rate=0.3)):
            assert not failed(learned(make, "fit", A, y), (A, y)), seed


def test_a_column_too_still_for_the_learner_leaves_the_best_fixed_loss_unstated():
    rng = np.random.default_rng(0)
    still = 7e8 + 1e-4 * rng.integers(0, 3, 100)  # it varies in its thirteenth digit, and the target with it
    X = np.column_stack([rng.normal(size=100), still])
    y = X[:, 0] + 1e4 * (still - 7e8) + 0.1 * rng.normal(size=100)
    model = tl.OnlineRegressor().fit(X, y)
    assert model.certificate_.best_fixed_loss is None and model.certificate_.best_fixed_lower_bound is None
    assert tl.verify(model, (X, y)).ok


@pytest.mark.parametrize(
    "make",
    [tl.RecursiveLeastSquares, tl.WidrowHoff, tl.OnlineRegressor, lambda: tl.OnlineRegressor(geometry="additive")],
    ids=["recursive", "Widrow-Hoff", "default", "rates mixed"],
)
def test_rows_that_were_learned_several_times_are_replayed_as_often(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=40)
    model = make()
    for _ in range(3):
        model.partial_fit(X, y)
    assert tl.verify(model, (X, y)).ok
    assert not tl.verify(model, (X[:20], y[:20])).ok


@pytest.mark.parametrize(
    "seed, k, hostile",
    [
        (41, 45, False),  # a risk bound needs no bound of the regret, whose κ is too large here
        (40, 27, True),  # mini-batches whose gradients cancel
    ],
)
def test_streams_that_once_raised_an_alarm(seed, k, hostile):
    make, target = KINDS[k]
    rows = honest.draw(np.random.default_rng([seed, k, hostile]), target, hostile, weighted=True)
    assert not failed(learned(make, "fit", *rows), rows if rows.weights is not None else rows[:2])


DRAWN: list[tuple[Any, str]] = [
    (tl.WidrowHoff(0.01), "number"), (tl.WidrowHoff(), "number"), (tl.WidrowHoff(0.01, average=True), "number"),
    (tl.RecursiveLeastSquares(), "number"), (Regressor(), "number"), (Classifier(), "three"), (tl.Perceptron(), "two"),
    (tl.KernelPerceptron(), "two"),
]  # fmt: skip


@pytest.mark.parametrize("order", ["shuffled", "uniform"])
@pytest.mark.parametrize(("make", "target"), DRAWN, ids=named)
def test_rows_in_an_order_that_the_learner_drew_are_replayed_in_it(make, target, order, tmp_path):
    y = TARGETS[target]
    for seed in (3, None, np.random.RandomState(1)):
        learner = copy.deepcopy(make).set_params(order=order, epochs=2, random_state=seed).fit(X, y)
        learner.save(tmp_path / "m.tl")
        assert failed(learner, (X, y)) == failed(tl.load(tmp_path / "m.tl"), (X, y)) == set()
    for drawn in (None, (order, 4), ("sorted", 1), (order, -1), (order, "x")):
        learner.record_.drawn = drawn
        assert failed(learner, (X, y)), drawn


def test_a_bound_of_several_classes_names_its_comparators():
    """Where more columns than rows share one total, other comparators than the learner's give worse bounds."""
    A, y = np.random.default_rng(2).normal(size=(16, 32)), np.arange(16) % 3
    for rate in (0.1, "auto"):
        learner = Classifier(geometry="signed", rate=rate).fit(A, y)
        assert failed(learner, (A, y)) == set()
    proof = Classifier(geometry="signed", rate=0.1).fit(A, y).certificate_
    assert np.shape(proof.bound_comparator) == (3, 33)


@pytest.mark.parametrize("seed", [37, 48])
def test_a_rate_that_leaps_between_corners_is_known_by_its_exponents(seed):
    """Copies of such a member end at one corner, and so hide how far their exponents are apart."""
    rng = np.random.default_rng(seed)
    A = np.round(100.0 * rng.dirichlet(np.ones(4), 250), 1)
    y = np.round(0.3 * A @ rng.normal(size=4) + 5.0 * rng.normal(size=250))
    c = rng.integers(0, 3, 250).astype(float)
    learner = learned(Regressor(geometry="signed"), "fit", A, y, c)
    assert failed(learner, (A, y, c)) == set()


@pytest.mark.parametrize("settings", [{}, {"fit_intercept": True}, {"kernel": "polynomial", "degree": 2}], ids=str)
def test_repeated_rows_that_left_the_budget_cancel_as_they_did(settings):
    """Counts repeat rows: scores that are 0 but for rounding, in rounds whose rows the learner no longer holds."""
    for seed in range(4, 10):
        rng = np.random.default_rng(seed)
        A = (rng.poisson(2, size=(150, 2)) * (rng.random((150, 1)) < 0.3)).astype(float)
        y = rng.integers(0, 3, 150)
        learner = tl.KernelPerceptron(budget=10, **settings).fit(A, y)
        assert failed(learner, (A, y)) == set()
