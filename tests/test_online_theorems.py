"""Every theorem on adversarial sequences: the potential lemma at each step, each bound, resuming bit by bit.

The sequences are short and the combinations many, so this file runs as plain Python (the same source as the compiled
code): under a compiling interpreter its one test starts it again with NUMBA_DISABLE_JIT=1.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trueline import _jit
from trueline.certificates.regret import StreamCertificate
from trueline.online.ladder import RateMixture
from trueline.online.model import OnlineModel
from trueline.online.recursive_least_squares import RecursiveModel
from trueline.parts.geometries import geometry
from trueline.parts.rates import rate

# Sequences a theorem is tried on: few and always the same ones, or, by ``make torture``, many and new ones each time.
TRIALS = int(os.environ.get("TRUELINE_THEOREM_TRIALS", "0"))


class PNorm(NamedTuple):
    """½‖w‖_p² as a mirror map."""

    p: float = 3.0

    def weight(self, dual, total):
        q = self.p / (self.p - 1.0)
        if dual == 0.0 or total == 0.0:
            return 0.0
        size = abs(dual) ** (q - 1.0) * total ** ((2.0 - q) / q)
        return size if dual > 0.0 else -size

    def mass(self, dual):
        return abs(dual) ** (self.p / (self.p - 1.0))

    def conjugate(self, total):
        q = self.p / (self.p - 1.0)
        return 0.5 * total ** (2.0 / q) if total > 0.0 else 0.0

    def divergence(self, u):
        # ψ(u) = ½‖u‖_p² has the conjugate ½‖θ‖_q²
        return 0.5 * float(np.sum(np.abs(u) ** self.p) ** (2.0 / self.p))


entry = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0]), st.floats(-2.0, 2.0, width=32))
label = st.one_of(st.sampled_from([-1.0, 0.0, 1.0, 3.0]), st.floats(-3.0, 3.0, width=32))


def trials(few: int):
    return settings(
        max_examples=TRIALS or few, deadline=None, derandomize=not TRIALS, suppress_health_check=list(HealthCheck)
    )


quick = trials(15)


@st.composite
def sequences(draw, labels=label):
    d = draw(st.integers(1, 3))
    n = draw(st.integers(1, 14))
    X = np.array(draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(draw(st.lists(labels, min_size=n, max_size=n)))
    weights = draw(st.sampled_from([None, "mixed"]))
    return X, y, None if weights is None else np.resize([1.0, 0.5, 2.0, 0.0], n)


signs = sequences(st.sampled_from([-1.0, 1.0]))
GEOMETRIES = ("additive", "normalised", "implicit", "adaptive", "multiplicative", "signed", "mirror")


def make(name: str):
    return geometry(PNorm()) if name == "mirror" else geometry(name, **({"radius": 3.0} if name == "signed" else {}))


def holds(proof) -> None:
    if proof.proven:
        assert proof.loss <= proof.bound * (1.0 + 1e-9) + 1e-9, str(proof)
    else:
        assert proof.advice


@pytest.mark.skipif(not _jit.PLAIN, reason="runs in plain Python")
class TestTheorems:
    @quick
    @given(sequences(), st.floats(0.001, 0.4), st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=4))
    def test_potential_lemma_at_every_step(self, data, eta, u):
        X, y, _ = data
        u = np.array(u[: X.shape[1] + 1])
        model = OnlineModel("squared", make("additive"), rate(eta))
        for x, target in zip(X, y):
            z = np.append(1.0, x)
            kappa = eta * float(z @ z)
            before = model.weights() if model.names else np.zeros(len(z))
            model.learn(x[None, :], [target])
            if kappa >= 1.0:
                continue
            e, g = before @ z - target, u @ z - target
            change = np.sum((model.weights() - u) ** 2) - np.sum((before - u) ** 2)
            assert change <= -eta * e * e + eta / (1.0 - kappa) * g * g + 1e-9

    @quick
    @given(sequences(), st.sampled_from(GEOMETRIES), st.sampled_from([0.01, 0.1, 0.5]), st.booleans(), st.booleans())
    def test_squared_loss_bounds(self, data, name, eta, intercept, falling):
        X, y, weights = data
        schedule = "1/sqrt(t)" if falling else "constant"
        model = OnlineModel("squared", make(name), rate(eta, schedule), intercept=intercept)
        model.learn(X, y, weights)
        proof = model.certificate()
        holds(proof)
        if proof.best_fixed_loss is not None:
            assert proof.regret == pytest.approx(proof.loss - proof.best_fixed_loss)
        for line in model.progress:
            if np.isfinite(line["bound"]):
                assert line["average_loss"] >= 0.0

    @quick
    @given(sequences(), st.sampled_from(["absolute", "huber", "power"]), st.sampled_from(GEOMETRIES), st.booleans())
    def test_other_losses_with_a_second_pass_and_on_a_stream(self, data, loss, name, again):
        X, y, weights = data
        model = OnlineModel(loss, make(name), rate(0.1))
        model.learn(X, y, weights)
        stream = model.certificate()
        assert isinstance(stream, StreamCertificate)
        holds(stream)
        for _, own, _, bound in stream.candidates:
            assert own <= bound * (1.0 + 1e-9) + 1e-9
        model.look_back(X, y, weights)
        proof = model.certificate()
        assert not isinstance(proof, StreamCertificate)
        holds(proof)
        if name in ("additive", "implicit"):
            # the stream's form: no comparator of that size does better by more than the regret bound
            c = np.ones(len(y)) if weights is None else weights
            for direction in np.random.default_rng(0).normal(size=(5, X.shape[1] + 1)):
                u = direction / np.linalg.norm(direction) * stream.radius
                scores = X @ u[1:] + u[0]
                value = sum(w * model.loss.value(s, t) for w, s, t in zip(c, scores, y))
                assert stream.loss - value <= stream.regret_bound + 1e-9

    @quick
    @given(signs, st.sampled_from(["logistic", "hinge", "squared_hinge"]), st.sampled_from(GEOMETRIES), st.booleans())
    def test_classification_losses(self, data, loss, name, falling):
        X, y, weights = data
        model = OnlineModel(loss, make(name), rate(0.2, "1/t" if falling else "constant"))
        model.learn(X, y, weights)
        holds(model.certificate())
        model.look_back(X, y, weights)
        holds(model.certificate())

    @quick
    @given(
        sequences(), st.sampled_from(["additive", "normalised", "implicit"]), st.sampled_from([(0.3, 0.0), (0.0, 0.5), (0.1, 0.2)])
    )  # fmt: skip
    def test_penalised_bounds_and_lazy_equals_eager(self, data, name, strengths):
        from scipy import sparse

        X, y, weights = data
        l1, l2 = strengths
        model = OnlineModel("squared", make(name), rate(0.1), l1=l1, l2=l2)
        lazy = OnlineModel("squared", make(name), rate(0.1), l1=l1, l2=l2)
        model.learn(X, y, weights)
        holds(model.certificate())
        lazy.learn(sparse.csr_matrix(X), y, weights)
        assert lazy.weights() == pytest.approx(model.weights(), rel=1e-9, abs=1e-12)
        assert ((lazy.weights() == 0.0) == (model.weights() == 0.0)).all()

    @quick
    @given(sequences(), st.sampled_from(GEOMETRIES), st.integers(2, 5))
    def test_mini_batches(self, data, name, batch):
        X, y, weights = data
        model = OnlineModel("squared", make(name), rate(0.1), batch=batch)
        model.learn(X, y, weights)
        holds(model.certificate())

    @pytest.mark.parametrize("seed", [2305, 2613, 2936])
    def test_a_batch_in_a_multiplicative_geometry_counts_the_weights_before_it(self, seed):
        # With the total as the batch's own moves change it, these losses are 4 to 5 % above the bound.
        rng = np.random.default_rng(seed)
        X, y = rng.uniform(-2.0, 2.0, size=(6, 2)).round(1), rng.uniform(-2.0, 2.0, size=6).round(1)
        model = OnlineModel("squared", make("multiplicative"), rate(0.3), batch=3)
        model.learn(X, y)
        proof = model.certificate()
        assert proof.proven
        assert proof.loss <= proof.bound

    def test_a_batch_of_like_rows_steps_as_one_row_does(self):
        x, y = np.array([[3.0, -1.0]]), np.array([2.0])
        for name in GEOMETRIES:
            one, many = (OnlineModel("huber", make(name), rate(0.1), batch=b) for b in (1, 4))
            one.learn(x, y)
            many.learn(np.repeat(x, 4, axis=0), np.repeat(y, 4))
            assert many.weights() == pytest.approx(one.weights(), rel=1e-12), name

    @quick
    @given(signs, st.booleans(), st.booleans(), st.floats(0.05, 1.0))
    def test_mistake_bounds(self, data, winnow, intercept, eta):
        X, y, _ = data
        made = geometry("signed", radius=1.0) if winnow else make("additive")
        model = OnlineModel("perceptron", made, rate(eta if winnow else 1.0), keep_rows=True, intercept=intercept)
        model.learn(X, y)
        model.learn(X, y)  # a revisit counts as rounds of its own
        proof = model.certificate()
        if proof.proven:
            assert proof.mistakes <= proof.bound + 1e-9
        assert winnow or proof.proven

    @quick
    @given(sequences(), st.booleans(), st.sampled_from([0.1, 1.0, 10.0]))
    def test_recursive_least_squares(self, data, forward, ridge):
        X, y, weights = data
        model = RecursiveModel(ridge, forward=forward)
        model.learn(X, y, weights)
        holds(model.certificate())
        # the weights are the ridge solution, intercept penalised as well
        Z = np.column_stack([np.ones(len(y)), X])
        c = np.ones(len(y)) if weights is None else weights
        exact = np.linalg.solve(ridge * np.eye(Z.shape[1]) + (Z.T * c) @ Z, Z.T @ (c * y))
        assert model.w == pytest.approx(exact, abs=1e-7)

    @trials(4)
    @given(sequences(), st.sampled_from(["additive", "normalised", "signed"]))
    def test_ladder_of_rates(self, data, name):
        X, y, weights = data
        model = RateMixture("squared", make(name))
        model.learn(100.0 * X, y, weights)  # the larger rates overflow
        proof = model.certificate()
        holds(proof)
        assert proof.loss <= 2.0 * (model.losses[0].min() + 2.0 * model.totals[0, 0]) + 1e-9

    @trials(12)
    @given(sequences(), st.sampled_from(GEOMETRIES), st.integers(0, 13), st.sampled_from([1, 3]), st.booleans())
    def test_rows_blocks_and_resuming_are_bit_identical(self, data, name, cut, batch, average):
        X, y, weights = data
        names = [f"x{j}" for j in range(X.shape[1])]
        settled = {"batch": batch, "average": average}
        whole = OnlineModel("squared", make(name), rate(0.1), names=names, **settled)
        before = whole.learn(X, y, weights)
        rows = OnlineModel("squared", make(name), rate(0.1), names=names, **settled)
        for i, x in enumerate(X):
            weight = 1.0 if weights is None else float(weights[i])
            assert rows.learn_one(dict(zip(names, x.tolist())), float(y[i]), weight) == before[i]
        halves = OnlineModel("squared", make(name), rate(0.1), names=names, **settled)
        cut = min(cut, len(y))
        halves.learn(X[:cut], y[:cut], None if weights is None else weights[:cut])
        halves = OnlineModel.from_state(*halves.to_state(), parts=[PNorm])
        halves.learn(X[cut:], y[cut:], None if weights is None else weights[cut:])
        for other in (rows, halves):
            assert other.weights().tobytes() == whole.weights().tobytes()
            assert other.heads[0].numbers.tobytes() == whole.heads[0].numbers.tobytes()
            assert str(other.certificate()) == str(whole.certificate())
            assert other.progress == whole.progress

    def test_averages_are_means_of_the_weights_before_each_update(self):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
        for name, l1 in itertools.chain(((g, 0.0) for g in GEOMETRIES), [("additive", 0.05)]):
            model = OnlineModel("squared", make(name), rate(0.1), average=True, l1=l1)
            other = OnlineModel("squared", make(name), rate(0.1), l1=l1, names=["x0", "x1"])
            sums = np.zeros(3)
            for x, t in zip(X, y):
                sums += other.weights()
                other.learn(x[None, :], [t])
            model.learn(X, y)
            assert model.weights() == pytest.approx(sums / 20, abs=1e-12)


if not _jit.PLAIN:
    THEOREMS = [name for name, test in vars(TestTheorems).items() if getattr(test, "is_hypothesis_test", False)]
    PARTS = 4  # of a theorem's many sequences, so that each part ends long before pytest's limit

    def plainly(trials: int, *only: str) -> None:
        chosen = [f"{Path(__file__)}::TestTheorems::{name}" for name in only] or [str(Path(__file__))]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=0", "-p", "no:cacheprovider", *chosen],
            env=os.environ | {"NUMBA_DISABLE_JIT": "1", "TRUELINE_THEOREM_TRIALS": str(trials)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-4000:]

    def test_theorems_in_plain_python():
        plainly(0)

    @pytest.mark.torture
    @pytest.mark.parametrize("part", range(PARTS))
    @pytest.mark.parametrize("theorem", THEOREMS)
    def test_theorems_on_a_thousand_more_sequences(theorem, part):
        plainly(1000 // PARTS, theorem)
