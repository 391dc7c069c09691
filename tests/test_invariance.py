"""Status and optimum do not depend on units, origins, the order of rows or their repetition; proofs agree with peers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.linear_model import ElasticNet as PeerElasticNet

import trueline as tl
from trueline.objective.losses import resolve_loss

N, D = 60, 3
RESIDUAL = ("squared", "absolute", "huber", "quantile", "epsilon_insensitive")
MARGIN = ("logistic", "hinge", "squared_hinge")
FIELDS = {"huber": "delta", "epsilon_insensitive": "epsilon"}  # fields that have the target's unit


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.minimize(*arguments, **options)


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    return X, X @ [1.0, -2.0, 0.0] + rng.standard_t(3, size=N), rng


def same(one, other, unit=1.0, rel=2e-6):
    """The same status, and the same optimum in another unit."""
    a, b = one.certificate, other.certificate
    assert a.status is b.status, (a, b)
    scale = max(abs(a.primal), 1e-3)
    assert b.primal / unit == pytest.approx(a.primal, abs=rel * scale), (a, b)
    for proof in (a, b):
        assert not proof.proven or proof.gap >= 0.0


@pytest.mark.parametrize("penalty", [None, "l1", "l2", "elastic_net"])
@pytest.mark.parametrize("name", RESIDUAL)
def test_origin_and_unit_of_target_and_columns(name, penalty):
    X, y, _ = table()
    fields = {FIELDS[name]: 0.7} if name in FIELDS else {}
    given = {} if penalty is None else {"penalty": penalty, "alpha": 0.05}
    one = quietly(X, y, name, **given, **fields)
    assert one.proven
    for level in (1e3, -1e6, 1.7e9):
        same(one, quietly(X, y + level, name, **given, **fields))
        same(one, quietly(X + level / 1e3, y, name, **given, **fields))
    for unit in (1e-6, 1e6):
        square = unit**2 if name in ("squared", "huber") else unit  # of the loss, hence of the objective
        own = {field: value * unit for field, value in fields.items()}
        strength = {}
        if penalty == "l1":
            strength = {"penalty": "l1", "alpha": 0.05 * square / unit}
        elif penalty == "l2":
            strength = {"penalty": "l2", "alpha": 0.05 * square / unit**2}
        elif penalty == "elastic_net":
            l1, l2 = 0.025 * square / unit, 0.025 * square / unit**2
            strength = {"penalty": "elastic_net", "alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2)}
        same(one, quietly(X, unit * y, name, **strength, **own), square)
        if penalty == "l1":
            scaled = {"penalty": "l1", "alpha": 0.05 * unit}
            same(one, quietly(unit * X, y, name, **scaled, **fields))
        elif penalty is None:
            same(one, quietly(unit * X, y, name, **fields))


@pytest.mark.parametrize("name", (*RESIDUAL, *MARGIN, "poisson", "gamma", "tweedie"))
def test_repeated_rows_and_another_order(name):
    X, y, rng = table(1)
    loss = resolve_loss(name)
    target = {"real": y, "sign": y > 0, "nonnegative": rng.poisson(np.exp(0.2 * y)), "positive": np.exp(0.2 * y)}[
        loss.targets
    ]
    given = {"penalty": "l2", "alpha": 0.01} if loss.targets == "sign" else {}
    one, order = quietly(X, target, name, **given), rng.permutation(N)
    assert one.proven
    same(one, quietly(X[order], target[order], name, **given))
    same(one, quietly(np.vstack([X, X]), np.concatenate([target, target]), name, **given))
    same(one, quietly(X, target, name, sample_weight=np.full(N, 1e-9), **given))
    same(one, quietly(X + 1e4, target, name, **given))


def penalised(name: str, penalty: str, columns: float = 1.0, target: float = 1.0) -> dict:
    """A penalty or bounds as they are in other units of columns and target: weights are in target/column."""
    square = target**2 if name in ("squared", "huber") else target  # the unit of the loss
    l1, l2 = 0.03 * square * columns / target, 0.02 * square * (columns / target) ** 2
    return {
        "l1": {"penalty": "l1", "alpha": l1},
        "l2": {"penalty": "l2", "alpha": l2},
        "elastic_net": {"penalty": "elastic_net", "alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2)},
        "nonnegative": {"penalty": "nonnegative"},
        "box": {"penalty": "box", "lower": -0.5 * target / columns, "upper": 0.7 * target / columns},
    }[penalty]


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net", "nonnegative", "box"])
@pytest.mark.parametrize("name", (*RESIDUAL, *MARGIN, "poisson", "gamma", "tweedie"))
def test_penalties_and_bounds_are_transformed_along(name, penalty):
    X, y, rng = table(4)
    wanted, order = resolve_loss(name).targets, rng.permutation(N)
    t = {"real": y, "sign": y > 0, "nonnegative": rng.poisson(np.exp(0.2 * y)), "positive": np.exp(0.2 * y)}[wanted]
    given = penalised(name, penalty)
    one = quietly(X, t, name, **given)
    cases = [(X[order], t[order], given), (np.tile(X, (2, 1)), np.tile(t, 2), given), (X + 1e4, t, given)]
    cases += [(unit * X, t, penalised(name, penalty, columns=unit)) for unit in (1e-5, 1e5)]
    if wanted == "real":
        cases.append((X, t + 1.7e9, given))
    for A, b, options in cases:
        other = quietly(A, b, name, **options)
        same(one, other)
        assert tl.verify(other, (A, b)).ok
    for unit in (1e-5, 1e5) if wanted == "real" else ():
        field = {FIELDS[name]: 0.7 * unit} if name in FIELDS else {}
        own = {FIELDS[name]: 0.7} if name in FIELDS else {}
        other = quietly(X, unit * t, name, **penalised(name, penalty, target=unit), **field)
        same(quietly(X, t, name, **given, **own), other, unit**2 if name in ("squared", "huber") else unit)
        assert tl.verify(other, (X, unit * t)).ok


@pytest.mark.parametrize("unit", [1e-3, 1e4])
def test_the_unit_of_a_mean_moves_the_intercept_alone(unit):
    X, y, _ = table(5)
    t = np.exp(0.2 * y)
    for name, scale, shift in (
        ("gamma", 1.0, np.log(unit)),
        ("tweedie", unit**0.5, 0.0),
        ("poisson", unit, -unit * np.log(unit) * t.mean()),
    ):
        one, other = quietly(X, t, name), quietly(X, unit * t, name)
        assert one.certificate.status is other.certificate.status and one.proven
        assert (other.certificate.primal - shift) / scale == pytest.approx(one.certificate.primal, rel=3e-6)
        np.testing.assert_allclose(other.coef, one.coef, atol=2e-3)
        assert tl.verify(other, (X, unit * t)).ok


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("name", RESIDUAL)
def test_a_column_of_ones_is_as_good_as_an_intercept(name, column):
    X, y, _ = table(2)
    one = quietly(X, y, name)
    ones = quietly(np.column_stack([X, np.ones(N)]), y + 1e6 * column, name, intercept=False, tol=1e-7)
    if ones.proven:  # a far target costs digits here, since nothing is centred
        assert ones.certificate.primal == pytest.approx(one.certificate.primal, rel=3e-6)
    assert ones.proven or column


@pytest.mark.parametrize("alpha", [1e-4, 0.1])
@pytest.mark.parametrize("estimator", [tl.Lasso, tl.ElasticNet, tl.Ridge, tl.LinearRegression])
def test_estimators_of_squared_loss(estimator, alpha):
    X, y, rng = table(3)
    order = rng.permutation(N)
    given = {} if estimator is tl.LinearRegression else {"alpha": alpha}
    one = estimator(**given).fit(X, y)
    cases = [(X, y + 1e6), (X, y - 1.7e9), (X + 1e5, y), (X[order], y[order])]
    if estimator in (tl.Lasso, tl.ElasticNet):
        cases.append((np.vstack([X, X]), np.concatenate([y, y])))
    for rows, targets in cases:
        other = estimator(**given).fit(rows, targets)
        assert other.certificate_.status is one.certificate_.status
        np.testing.assert_allclose(other.coef_, one.coef_, atol=3e-6)
    assert one.certificate_.proven


def test_arrivals_as_unix_time():
    """Targets at 1.7·10⁹ whose noise is 1: the yardstick is what the distance explains, not the level."""
    rng = np.random.default_rng(0)
    km = rng.uniform(1, 30, 500)
    noise = rng.normal(size=500)
    for name in ("absolute", "huber", "squared"):
        near, far = (quietly(km[:, None], level + 20 * km + noise, name) for level in (0.0, 1.7e9))
        same(near, far)
        assert far.proven and far.coef[0] == pytest.approx(near.coef[0], abs=1e-4)


@pytest.mark.parametrize("method", ["fista", "gradient", "sparsa", "owlqn", "newton", "normal"])
def test_a_target_about_a_million_is_solved_by_every_method(method):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = 1e6 + 20 * X[:, 0] + rng.normal(size=300)
    Z = np.column_stack([np.ones(300), X])
    least = 0.5 * np.mean((y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]) ** 2)
    found = quietly(X, y, method=method)
    assert found.proven and found.certificate.primal == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("method", ["gradient", "fista", "newton"])
def test_counts_about_a_million(method):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 3))
    y = rng.poisson(1e6 * np.exp(0.1 * X[:, 0])).astype(float)
    found = quietly(X, y, "poisson", method=method)
    mean = np.exp(found.scores(X))
    deviance = 2 * np.mean(y * np.log(y / mean) - (y - mean))
    assert found.proven and 0.5 < deviance < 1.5


def objective(X, y, coef, alpha, ratio=1.0):
    """Of lasso and elastic net in extended precision, the intercept at its best."""
    X, y, coef = (np.asarray(v, dtype=np.longdouble) for v in (X, y, coef))
    X, y = X - X[0], y - y[0]  # exactly, and then far origins cost nothing
    left = y - X @ coef
    left -= left.mean()
    return float(0.5 * np.mean(left**2) + alpha * (ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * (coef @ coef)))


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3])
def test_a_lasso_with_little_noise(scale, alpha):
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(200, 1)), rng.normal(size=200)
    X, y = scale * x, scale * x[:, 0] + 0.01 * e
    scanned = tl.scan({"x": X[:, 0], "y": y}, target="y")
    for model in (tl.Lasso(alpha=alpha).fit(X, y), tl.Lasso.from_moments(scanned, alpha=alpha)):
        proof, reached = model.certificate_, objective(X, y, model.coef_, alpha)
        room = 1e-15 * scale**2  # of the sums that the Gram matrix holds
        assert proof.primal == pytest.approx(reached, rel=1e-6, abs=room) and proof.gap >= 0.0
        assert proof.dual <= reached


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12])
@pytest.mark.parametrize("level", [0.0, 1e4])
def test_columns_that_nearly_repeat_others(apart, level):
    """What only the rows show of the difference of two columns is worth a part of the objective that a gap must own."""
    rng = np.random.default_rng(1)
    x, other = rng.normal(size=60), rng.normal(size=60)
    copy = x + apart * rng.normal(size=60)
    X, y = np.column_stack([x, copy, other]) + level, x + rng.normal(size=60)
    Z = np.column_stack([np.ones(60), x, ((X[:, 1] - X[:, 0]) / apart), other])
    least = 0.5 * np.mean((y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]) ** 2)
    for method in ("normal", "qr", "newton", "fista"):
        proof = quietly(X, y, method=method).certificate
        assert proof.dual <= least * (1 + 1e-9) and not (proof.proven and proof.primal > least * (1 + 2e-6)), method
    spread = quietly(Z[:, 1:], y > 0, "logistic", tol=1e-9).certificate.primal
    proof = quietly(X, y > 0, "logistic").certificate
    assert not (proof.proven and proof.primal > spread * (1 + 2e-6))
    corners = quietly(X, y, "absolute")
    assert not [check for check in tl.verify(corners, (X, y)).checks if not check.held]
    model = tl.Lasso(alpha=1e-3).fit(X, y)
    assert model.certificate_.dual <= objective(X, y, model.coef_, 1e-3)


def hostile(rng, k):
    """Dull tables for even k; scales, offsets, near copies, odd weights and few rows for odd ones."""
    n, d = int(rng.integers(8, 60)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    weights, level = np.ones(n), 0.0
    if k % 2:
        X = X * 10.0 ** rng.integers(-6, 7, size=d) + rng.choice([0.0, 1.0, 1e3, 1e6])
        level = float(rng.choice([0.0, 1e3, 1e6, 1e9]))
        if d > 1 and rng.random() < 0.4:
            X[:, -1] = X[:, 0] * (1 + 10.0 ** -rng.integers(3, 13) * rng.normal(size=n))
        if rng.random() < 0.3:
            weights = 10.0 ** rng.integers(-9, 10, size=n)
        if rng.random() < 0.2:
            X, weights = np.repeat(X, 2, axis=0), np.repeat(weights, 2)
    return X, weights, level


def test_proven_lassos_are_what_another_solver_finds():
    rng, proven = np.random.default_rng(5), 0
    for k in range(300):
        X, _, level = hostile(rng, k)
        y = (X / X.std(axis=0).clip(1e-300)) @ rng.normal(size=X.shape[1]) + 10.0 ** rng.integers(-6, 1) * rng.normal(
            size=len(X)
        )
        alpha, ratio = 10.0 ** rng.integers(-6, 0), float(rng.choice([1.0, 0.5]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tl.ElasticNet(alpha=alpha, l1_ratio=ratio).fit(X, y + level)
            peer = PeerElasticNet(alpha=alpha, l1_ratio=ratio, tol=1e-10, max_iter=3000).fit(X, y + level)
        proof = model.certificate_
        if proof.proven:
            proven += 1
            own, other = (objective(X, y + level, w, alpha, ratio) for w in (model.coef_, peer.coef_))
            yardstick = max(own, 1e-3 * 0.5 * float(np.var(y)))
            assert proof.dual <= min(own, other) * (1 + 1e-12) and own - other <= 1.01e-6 * yardstick, (
                k,
                proof,
                own,
                other,
            )
            assert abs(proof.primal - own) <= 1e-6 * yardstick
    assert proven > 270


@pytest.mark.parametrize("name", ["huber", "logistic", "squared_hinge", "poisson", "squared"])
def test_proven_results_are_what_another_solver_finds(name):
    rng, proven, many = np.random.default_rng(6), 0, 40
    loss = resolve_loss(name)
    for k in range(many):
        X, weights, level = hostile(rng, k)
        S = (X - X.mean(axis=0)) / X.std(axis=0).clip(1e-300)
        signal = S @ rng.normal(size=S.shape[1]) + rng.normal(size=len(S))
        if loss.targets == "sign":
            y = np.where(signal > 0, 1.0, -1.0)
            y[0], y[-1] = -1.0, 1.0
        elif loss.targets == "nonnegative":
            y = rng.poisson(np.exp(np.clip(0.5 * signal, -3, 3)) * (1 + level / 1e3)).astype(float)
        else:
            y = signal + level
        found = quietly(X, y, name, sample_weight=weights, penalty="l2", alpha=1e-3)
        if not found.proven:
            continue
        proven += 1
        c = weights / weights.sum()
        # Another solver, in coordinates of its own: columns and target centred and scaled.
        scale, centre = X.std(axis=0).clip(1e-300), X.mean(axis=0)
        base = level if loss.targets == "real" else 0.0

        def total(theta, S=S, y=y, c=c, scale=scale, base=base):
            scores = S @ theta[:-1] + theta[-1]
            values = np.array([loss.value(s, t) for s, t in zip(scores, y - base, strict=True)])
            slopes = np.array([loss.slope(s, t) for s, t in zip(scores, y - base, strict=True)])
            w = theta[:-1] / scale
            value = float(c @ values) + 0.5e-3 * float(w @ w)
            return value, np.append(S.T @ (c * slopes) + 1e-3 * w / scale, float(c @ slopes))

        own = np.append(found.coef * scale, found.intercept - base + centre @ found.coef)
        reached = total(own)[0]
        peer = scipy.optimize.minimize(total, own, jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-12})
        proof = found.certificate
        room = proof.gap / max(proof.relative_gap, 1e-300) if proof.gap > 0 else max(abs(reached), 1e-12)
        assert reached - peer.fun <= 1.05e-6 * room + 1e-9 * abs(reached), (name, k, proof, reached, peer.fun)
        assert proof.dual <= peer.fun + 1e-9 * abs(peer.fun) + 1e-12, (name, k, proof, peer.fun)
    assert proven > 0.7 * many
