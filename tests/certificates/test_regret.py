"""What regret certificates state: best fixed losses are exact or None, proven never with a loss above the bound."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

import trueline as tl
from trueline.certificates.certificate import Assumption, Status, from_dict
from trueline.certificates.regret import BEST_FIXED, BEST_MEMBER, bound_status
from trueline.online.redundant_columns import RedundantColumns

LEARNERS = {
    "recursive": tl.RecursiveLeastSquares,
    "default": tl.OnlineRegressor,
    "widrow-hoff": lambda: tl.WidrowHoff(rate=1e-3),
    "rates": lambda: tl.OnlineRegressor(geometry="additive"),
}


def least_squares(X, y, c):
    """The least Σc(y − w₀ − Xw)², by QR in extended precision on columns that are centred and scaled."""
    weight = c.astype(np.longdouble)
    Z = X.astype(np.longdouble) - (weight / weight.sum()) @ X
    left = y.astype(np.longdouble) - (weight / weight.sum()) @ y
    Z, left = Z * np.sqrt(weight)[:, None], left * np.sqrt(weight)
    for k in range(Z.shape[1]):  # Gram and Schmidt, twice for each column
        size = np.sqrt(Z[:, k] @ Z[:, k])
        for _ in range(2):
            for j in range(k):
                Z[:, k] -= (Z[:, j] @ Z[:, k]) * Z[:, j]
        rest = np.sqrt(Z[:, k] @ Z[:, k])
        Z[:, k] = Z[:, k] / rest if rest > 1e-17 * max(size, 1e-300) else 0.0
        left -= (Z[:, k] @ left) * Z[:, k]
    return float(left @ left)


def streams():
    """Dull columns, copies, indicators, scales, and columns that nearly repeat others."""
    kinds = ("dull", "copy", "indicators", "scales", "offset", 1e-3, 1e-6, 1e-9, 1e-12)
    for seed, (kind, n, weighted) in enumerate(itertools.product(kinds, (12, 60, 700), (False, True))):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, int(rng.choice([2, 4]))))
        if kind == "copy":
            X[:, -1] = X[:, 0]
        elif kind == "indicators":
            X = np.column_stack([X, np.eye(3)[rng.integers(0, 3, n)]])
        elif kind == "scales":
            X *= 10.0 ** rng.integers(-4, 5, X.shape[1])
        elif kind == "offset":
            X += 1e5
        elif kind != "dull":
            X[:, -1] = X[:, 0] + kind * rng.normal(size=n)
        y = (X - X.mean(axis=0)) @ rng.normal(size=X.shape[1]) * 10.0 ** rng.integers(-2, 3) + rng.normal(size=n)
        yield kind, X, y, rng.random(n) + 0.01 if weighted else np.ones(n)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_best_fixed_loss_that_is_stated_is_the_least(learner):
    stated = dict.fromkeys(("dull", "copy", "indicators", "scales", "offset", 1e-3, 1e-6, 1e-9, 1e-12), 0)
    for kind, X, y, c in streams():
        try:
            proof = LEARNERS[learner]().partial_fit(X, y, sample_weight=c).certificate_
        except tl.TruelineError:  # a rate too large for these scales
            continue
        least, null = least_squares(X, y, c), float(c @ (y - np.average(y, weights=c)) ** 2)
        if proof.best_fixed_lower_bound is not None:
            assert proof.best_fixed_lower_bound <= least * (1 + 1e-9) + 1e-12 * null, (kind, len(y))
        if proof.best_fixed_loss is not None:
            stated[kind] += 1
            assert abs(proof.best_fixed_loss - least) <= 1.01e-6 * least + 1.01e-9 * null, (kind, len(y))
            assert proof.regret == proof.loss - proof.best_fixed_loss and proof.regret_to == BEST_FIXED
        else:
            assert proof.comparator is None and proof.regret is None and proof.regret_to is None
        assert proof.proven == (bound_status(proof.loss, proof.bound, proof.assumptions) is Status.PROVEN)
    # Exact dependence is told from near dependence, so that dull tables lose nothing.
    assert all(stated[kind] == 6 for kind in ("dull", "copy", "indicators", 1e-3))
    assert stated[1e-9] + stated[1e-12] <= 4  # but for streams with fewer rows than weights


def test_a_level_that_comes_late_joins_its_category():
    rng = np.random.default_rng(0)
    model = tl.OnlineRegressor()
    rows = [{"x": float(x), "c": "ab"[k % 2] if k < 400 else "abz"[k % 3]} for k, x in enumerate(rng.normal(size=600))]
    y = rng.normal(size=600)
    for row, target in zip(rows, y.tolist(), strict=True):
        model.learn_one(row, target)
    X = np.array([[row["x"], row["c"] == "a", row["c"] == "b"] for row in rows], dtype=float)
    assert model.certificate_.best_fixed_loss == pytest.approx(least_squares(X, y, np.ones(600)), rel=1e-9)


def test_redundant_columns_are_forgotten_when_a_row_objects():
    rows = np.array([[1.0, 0.0, 3.0, 3.0], [0.0, 1.0, 4.0, 4.0]])
    known = RedundantColumns.of(rows, np.ones(2))
    assert known.mask(True).tolist() == [False, True, False, True]
    assert known.mask(False).tolist() == [False, False, False, True]
    known.check(np.array([[0.0, 0.0, 5.0, np.nextafter(5.0, 6.0)]]), np.ones(1))
    assert not known.mask(True).any()


def test_a_stream_that_is_saved_goes_on_with_what_it_knows_of_its_columns(tmp_path):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=3000), np.eye(2)[rng.integers(0, 2, 3000)]])
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=3000)
    for made in (tl.OnlineRegressor, tl.RecursiveLeastSquares, lambda: tl.WidrowHoff(rate=0.01)):
        whole, part = made().partial_fit(X, y), made().partial_fit(X[:2500], y[:2500])
        part.save(tmp_path / "m.tl")
        again = tl.load(tmp_path / "m.tl").partial_fit(X[2500:], y[2500:])
        assert again.certificate_.best_fixed_loss == whole.certificate_.best_fixed_loss is not None


def test_classes_are_compared_with_the_best_member_on_a_stream_and_with_fixed_weights_where_rows_can_be_read_again():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0).astype(int)
    mixture = tl.OnlineClassifier().fit(X, y).certificate_
    assert mixture.best_fixed_loss is None and mixture.regret_to == BEST_MEMBER
    assert mixture.regret == mixture.loss - mixture.best_member_loss
    assert "best member" in str(mixture) and "best fixed" not in str(mixture)
    stream = tl.OnlineClassifier(geometry="additive", rate=0.1).partial_fit(X, y, classes=[0, 1]).certificate_
    assert stream.best_fixed_loss is None and stream.regret is None and stream.proven
    fitted = tl.OnlineClassifier(geometry="additive", rate=0.1).fit(X, y).certificate_
    best = tl.LogisticRegression(C=np.inf, tol=1e-12).fit(X, y)
    scores = best.decision_function(X)
    least = float(np.logaddexp(0.0, -np.where(y == 1, scores, -scores)).sum())
    assert fitted.best_fixed_loss == pytest.approx(least, rel=1e-9)
    assert fitted.best_fixed_lower_bound <= least and fitted.regret == fitted.loss - fitted.best_fixed_loss
    apart = tl.OnlineClassifier(geometry="additive", rate=0.1).fit(X, X[:, 0] > 0).certificate_
    assert apart.best_fixed_loss is None  # separable: no weights are the best


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_counts_state_the_best_fixed_loss_when_newton_proves_it(loss):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    mean = np.exp(0.3 + X @ [0.4, -0.2])
    y = rng.poisson(mean).astype(float) if loss == "poisson" else rng.gamma(2.0, mean / 2.0)
    made = {"loss": loss, "geometry": "additive", "rate": 0.001}
    fitted = tl.OnlineRegressor(**made).fit(X, y).certificate_
    best = tl.GeneralizedRegression(loss, alpha=0.0, tol=1e-10).fit(X, y)
    s = best.intercept_ + X @ best.coef_
    least = float(np.sum(np.exp(s) - y * s if loss == "poisson" else s + y * np.exp(-s)))
    assert fitted.best_fixed_loss == pytest.approx(least, rel=1e-7)
    stream = tl.OnlineRegressor(**made).partial_fit(X, y).certificate_
    assert stream.best_fixed_loss is None and stream.regret is None


def test_exponentiated_gradient_states_the_best_of_the_simplex_even_with_near_copies():
    rng = np.random.default_rng(4)
    X = rng.random((200, 4))
    X[:, 3] = X[:, 0] + 1e-10 * rng.normal(size=200)
    y = X @ [0.5, 0.5, 0.0, 0.0] + 0.1 * rng.normal(size=200)
    proof = tl.ExponentiatedGradient(rate=0.1, fit_intercept=False).partial_fit(X, y).certificate_
    grid = [np.array([a, b, 1.0 - a - b]) for a in np.linspace(0, 1, 101) for b in np.linspace(0, 1 - a, 101)]
    reached = min(float(((y - X[:, :3] @ w) ** 2).sum()) for w in grid)
    assert proof.best_fixed_loss <= reached <= proof.best_fixed_loss + 1e-3
    weights = proof.comparator[1:]
    assert proof.best_fixed_loss == pytest.approx(float(((y - X @ weights) ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize("geometry", ["additive", "normalised"])
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_rates_for_columns_of_any_size_count_on_and_say_nothing_wrong(geometry, shift):
    """Columns about 100,000, for which every rate tried is too large, once stopped the counts of the first member."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 3)) + shift
    y = (X - shift) @ [1.0, 2.0, 3.0] + 40.0 + rng.normal(size=500)
    model = tl.OnlineRegressor(geometry=geometry, rate="auto").partial_fit(X, y)
    proof = model.certificate_
    assert proof.examples == 500 and all(line["since_last"] >= 0.0 for line in model.progress_)
    assert math.isfinite(proof.bound) and proof.loss <= proof.bound and proof.proven
    least = least_squares(X, y, np.ones(500))
    if proof.best_fixed_loss is not None:
        assert proof.best_fixed_loss == pytest.approx(least, rel=1e-6)
    assert proof.best_fixed_loss is not None or shift
    assert tl.verify(model, (X, y)).ok


def test_one_row_of_many_features_and_no_row_at_all():
    for made in (tl.OnlineRegressor, lambda: tl.WidrowHoff(rate=1e-5)):
        wide = made().partial_fit(np.ones((1, 5137)), [2399.0]).certificate_
        assert wide.best_fixed_loss in (None, 0.0)
    few = tl.WidrowHoff(rate=1e-3).partial_fit(np.ones((1, 30)), [3.0]).certificate_
    assert few.best_fixed_loss == pytest.approx(0.0, abs=1e-9)


def test_proven_is_impossible_with_a_loss_above_the_bound_or_without_a_number():
    held, failed = Assumption("a", True), Assumption("b", False)
    assert bound_status(1.0, 1.0, (held,)) is Status.PROVEN
    for value, bound, assumptions in (
        (1.1, 1.0, ()), (math.nan, 1.0, ()), (1.0, math.inf, ()), (1.0, None, ()), (1.0, math.nan, ()), (0.0, 1.0, (held, failed)),
    ):  # fmt: skip
        assert bound_status(value, bound, assumptions) is Status.VOID


def test_files_of_version_0_1_lose_what_their_comparator_was():
    old = {
        "kind": "online",
        "status": "proven",
        "examples": 3,
        "loss": 2.0,
        "comparator_loss": 912.182,
        "regret": -910.0,
        "bound": 4.0,
    }
    new = from_dict(old)
    assert new.best_fixed_loss is None and new.regret is None and new.loss == 2.0 and new.bound == 4.0


class Half(NamedTuple):
    """A student's factor: the slope is half of the value's."""

    unit: float = 1.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        return (score - y) ** 2

    def slope(self, score, y):
        return score - y


class Concave(NamedTuple):
    unit: float = 1.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        return math.log1p((score - y) ** 2)

    def slope(self, score, y):
        return 2.0 * (score - y) / (1.0 + (score - y) ** 2)


class Smooth(NamedTuple):
    """ln cosh, written as a user would."""

    unit: float = 1.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = abs(score - y)
        return r + math.log1p(math.exp(-2.0 * r)) - math.log(2.0)

    def slope(self, score, y):
        return math.tanh(score - y)


def test_a_users_own_loss_is_checked_at_its_first_use_and_its_claims_say_so():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + 0.1 * rng.normal(size=60)
    doors = (
        lambda loss: tl.OnlineRegressor(loss, geometry="additive", rate=0.01).fit(X, y).certificate_,
        lambda loss: tl.OnlineRegressor(loss, geometry="additive").partial_fit(X, y).certificate_,
        lambda loss: tl.minimize(X, y, loss, "l2", alpha=0.1).certificate,
        lambda loss: tl.GeneralizedRegression(loss, alpha=0.1).fit(X, y).certificate_,
    )
    for door in doors:
        with pytest.raises(
            tl.UsageError, match=r"the slope of the loss Half at score .* is -310, but its value rises by -620"
        ):
            door(Half())
        with pytest.raises(tl.UsageError, match="the loss Concave is not convex"):
            door(Concave())
        proof = door(Smooth())
        assert proof.proven and any("your own loss" in item.name for item in proof.assumptions)
        assert any("what only you can know" in sentence for sentence in proof.explain())
    assert not tl.OnlineRegressor("huber", geometry="additive", rate=0.01).fit(X, y).certificate_.assumptions
