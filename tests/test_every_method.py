"""Every loss, penalty and method of ``tl.minimize``: one optimum, one status, in any units, origins and order of rows."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
import pytest

import trueline as tl
from trueline.batch.methods import METHODS
from trueline.errors import UsageError
from trueline.objective.losses import LOSSES

PENALTIES = (None, "l1", "l2", "elastic_net", "group_l1", "nonnegative", "box")
RESIDUAL = {"squared": 2.0, "huber": 2.0, "power": 3.0, "absolute": 1.0, "quantile": 1.0, "epsilon_insensitive": 1.0}
IN_UNITS_OF_Y = ("delta", "epsilon")
TOLERANCE = 2.2e-6  # of the yardstick: two proofs, each within a millionth
# The dual steps of a loss with corners, one row at a time, may end at their last epoch: not proven, and said so.
SLOW = {(loss, "coordinate") for loss in ("absolute", "quantile", "epsilon_insensitive", "hinge", "perceptron")}
PROBLEMS = int(os.environ.get("TRUELINE_PROBLEMS", "1000"))


def drawn(rng, loss, penalty):
    """Rows, target, weights, and the options of a problem."""
    n, d = int(rng.integers(20, 80)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d))
    X[:, -1] = rng.integers(0, 3, n) if rng.random() < 0.5 else X[:, -1]
    s = X @ (rng.normal(size=d) * (rng.random(d) < 0.7)) + rng.choice([0.3, 1.0]) * rng.normal(size=n)
    mean = np.exp(np.clip(0.4 * s, -3.0, 3.0))
    kind = LOSSES[loss].targets
    y = {"real": s, "sign": s + rng.normal(size=n) > 0, "nonnegative": rng.poisson(mean) + 0.0,
         "positive": mean * rng.gamma(2.0, size=n) + 1e-3}[kind]  # fmt: skip
    y[:2] = [1, 0] if kind in ("sign", "nonnegative") else y[:2]
    options = {"intercept": bool(rng.random() < 0.8)}
    options |= {"huber": {"delta": rng.uniform(0.3, 2.0)}, "quantile": {"quantile": rng.uniform(0.1, 0.9)},
                "epsilon_insensitive": {"epsilon": rng.uniform(0.05, 0.5)}}.get(loss, {})  # fmt: skip
    options |= {"penalty": penalty} if penalty else {}
    strength = 10.0 ** rng.uniform(-3.0, -0.5, 2)
    if penalty in ("l1", "l2", "group_l1"):
        options["alpha"] = strength[0]
    if penalty == "elastic_net":
        options |= {"alpha": strength.sum(), "l1_ratio": strength[0] / strength.sum()}
    if penalty == "group_l1":
        options["groups"] = rng.integers(0, 2, d)
    if penalty == "box":
        options |= {"lower": -rng.random(), "upper": rng.random()}
    return X, y, None if rng.random() < 0.7 else rng.random(n) + 0.2, options


def in_units(options, loss, columns, target):
    """The same problem where columns and target have other units, and the unit of its objective."""
    objective = target ** RESIDUAL[loss] if loss in RESIDUAL else 1.0
    target = target if loss in RESIDUAL else 1.0
    l1, l2 = objective * columns / target, objective * (columns / target) ** 2
    moved = {name: value * target for name, value in options.items() if name in IN_UNITS_OF_Y}
    moved |= {name: options[name] * target / columns for name in ("lower", "upper") if name in options}
    if options.get("penalty") == "elastic_net":
        one, two = options["alpha"] * options["l1_ratio"] * l1, options["alpha"] * (1.0 - options["l1_ratio"]) * l2
        moved |= {"alpha": one + two, "l1_ratio": one / (one + two)}
    elif "alpha" in options:
        moved["alpha"] = options["alpha"] * (l2 if options["penalty"] == "l2" else l1)
    return options | moved, objective


def fit(rows, loss, options, method):
    X, y, weights = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.minimize(X, y, loss, method=method, sample_weight=weights, **options)


def elsewhere(rng, rows, loss, options):
    """(name, rows, options, unit of the objective) of problems that have the same answer."""
    X, y, weights = rows
    order, unit = rng.permutation(len(y)), 10.0 ** rng.uniform(-5.0, 5.0)
    same = [("order", (X[order], y[order], None if weights is None else weights[order]), options, 1.0)]
    twice = None if weights is None else np.tile(weights, 2)
    same.append(("doubled", (np.tile(X, (2, 1)), np.tile(y, 2), twice), options, 1.0))
    same.append(("c·X", (unit * X, y, weights), *in_units(options, loss, unit, 1.0)))
    if loss in RESIDUAL:
        same.append(("c·y", (X, unit * y, weights), *in_units(options, loss, 1.0, unit)))
    if options["intercept"]:
        same.append(("X + c", (X + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(0.0, 5.0), y, weights), options, 1.0))
        if loss in RESIDUAL:
            far = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(0.0, 9.2)
            same.append(("y + c", (X, y + far, weights), options, 1.0))
    return same


def yardstick(*proofs):
    known = [p.gap / p.relative_gap for p in proofs if p.gap > 0.0 and 0.0 < p.relative_gap < math.inf]
    return max(known, default=max(abs(p.primal) for p in proofs))


def one_problem(rng, loss, penalty):
    """All that fails of one problem, by every method, and of one method and the chosen one elsewhere."""
    *rows, options = drawn(rng, loss, penalty)
    found = {}
    for method in ("auto", *METHODS):
        try:
            found[method] = fit(rows, loss, options, method)
        except UsageError:
            continue  # a method, or every method, that is not for this loss and penalty
    if "auto" not in found:
        return []
    wrong, first = [], found["auto"].certificate
    for method, one in found.items():
        wrong += compared(method, one, first, 1.0, rows, slow=(loss, method) in SLOW)
    other = str(rng.choice(list(found)))
    for name, moved, given, unit in elsewhere(rng, rows, loss, options):
        for method in {"auto", other}:
            slow = (loss, method) in SLOW
            wrong += compared(f"{method}, {name}", fit(moved, loss, given, method), first, unit, moved, slow)
    return [(loss, penalty, *one) for one in wrong]


def compared(name, one, first, unit, rows, slow):
    proof, wrong = one.certificate, []
    if proof.status is not first.status and not slow:
        wrong.append((name, f"{first.status.value} and {proof.status.value}"))
    near = abs(proof.primal / unit - first.primal) <= TOLERANCE * max(yardstick(first), yardstick(proof) / unit)
    if proof.proven and first.proven and not near:
        wrong.append((name, f"{first.primal} and {proof.primal / unit}"))
    checked = tl.verify(one, tuple(part for part in rows if part is not None))
    return wrong if checked.ok else [*wrong, (name, str(checked))]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_one_optimum_and_one_status(loss, penalty):
    rng = np.random.default_rng([sorted(LOSSES).index(loss), PENALTIES.index(penalty)])
    assert not one_problem(rng, loss, penalty)


@pytest.mark.parametrize(
    "loss, penalty, columns",
    [("huber", "elastic_net", 1), ("huber", "l1", 1), ("huber", "group_l1", 1)],
)
def test_a_column_along_which_no_row_curves_is_moved(loss, penalty, columns):
    """All rows with a value in this column are beyond delta: the loss is flat there, and steps by its curvature stop."""
    x = np.r_[np.zeros(20), np.ones(20)][:, None]
    y = np.r_[0.1 * np.ones(20), 3.0 * np.ones(20)]
    groups = {"groups": [0]} if penalty == "group_l1" else {}
    for method in ("auto", "fista"):
        found = fit((x, y, None), loss, {"penalty": penalty, "alpha": 0.1, "intercept": False, **groups}, method)
        assert found.proven and found.coef[0] > 1.0


def test_gradient_steps_that_only_turn_over_the_optimum_are_not_taken():
    """One standardised column under a heavy ridge: twice the best step ends at the same objective, again and again."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        x, y = rng.normal(size=(50, 1)), rng.normal(size=50)
        assert fit((x, y, None), "squared", {"penalty": "l2", "alpha": 10.0 ** rng.uniform(-1, 1)}, "gradient").proven


@pytest.mark.parametrize("bound", [0.7, 1.0 / 3.0, 0.1])
def test_a_bound_is_kept_to_the_last_digit(bound):
    """A bound that is scaled with its column and back may be a rounding off."""
    rng = np.random.default_rng(4)
    for k in range(10):
        X = rng.normal(size=(30, 3)) * 10.0 ** rng.uniform(-3.0, 3.0, 3)
        y = np.exp(0.3 * X[:, 0] / np.abs(X[:, 0]).max()) * rng.gamma(2.0, size=30)
        for method in ("auto", "fista"):
            found = fit((X, y, None), "gamma", {"lower": -bound * 1e-3, "upper": bound * 1e-3}, method)
            assert (np.abs(found.coef) <= bound * 1e-3).all() and tl.verify(found, (X, y)).ok, (k, method)


@pytest.mark.torture
def test_thousands_of_problems():
    wrong = []
    for k in range(PROBLEMS):
        rng = np.random.default_rng([7, k])
        wrong += one_problem(rng, str(rng.choice(sorted(LOSSES))), PENALTIES[int(rng.integers(len(PENALTIES)))])
    print(*wrong[:50], sep="\n")
    assert not wrong
