"""A search for fits whose certificate claims more digits than hold, by `fit` itself, against exact rational arithmetic.

``make torture`` draws 3,000 of them; the ordinary tests a few. Sizes cross every road that `fit` takes by itself: at
once at the highest level, one block and many blocks at the middle one, and levels by rule.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import mpmath
import numpy as np
import pytest
from tolerances import correct_digits, with_condition

import trueline as tl


def whole(column: np.ndarray) -> tuple[list[int], int]:
    """(numbers, a power of two) with column = numbers / power, exactly."""
    ratios = [float(v).as_integer_ratio() for v in column]
    power = max(bottom for _, bottom in ratios)
    return [top * (power // bottom) for top, bottom in ratios], power


def truth(X: np.ndarray, y: np.ndarray, w: np.ndarray | None, intercept: bool) -> list[Any]:
    """The coefficients, the intercept first, from products in whole numbers of any length."""
    columns = [*([np.ones(len(y))] if intercept else []), *X.T, y]
    made = [whole(column) for column in columns]
    weights = whole(np.ones(len(y)) if w is None else w)[0]
    with mpmath.workdps(200):
        d = len(made) - 1
        G = mpmath.matrix(d, d + 1)
        for i in range(d):
            heavy = [a * b for a, b in zip(made[i][0], weights, strict=True)]
            for j in range(i, d + 1):
                G[i, j] = (
                    mpmath.mpf(sum(a * b for a, b in zip(heavy, made[j][0], strict=True))) / made[i][1] / made[j][1]
                )
                if j < d:
                    G[j, i] = G[i, j]
        return list(mpmath.lu_solve(G[:, :d], G[:, d]))


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, bool]:
    """Rows of a kind, size, scale, offset and noise that the seed chooses."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 7))
    many = 40_000 // d if seed % 25 == 0 else 300
    n = int(rng.choice([rng.integers(d + 2, 40), rng.integers(40, 700), rng.integers(700, 2500), many]))
    kind = rng.choice(["condition", "powers", "near", "whole", "scales", "decimals", "outlier"])
    if kind == "condition":
        X = with_condition(rng, n, d, 10 ** rng.uniform(0, 14))
    elif kind == "powers":
        x = rng.uniform(-1, 1) + rng.uniform(0.1, 9) * rng.random(n)
        X = x[:, None] ** np.arange(1, d + 1)
    elif kind == "near":
        X = rng.normal(size=(n, 1)) + 10 ** rng.uniform(-13, -1) * rng.normal(size=(n, d))
    elif kind == "whole":
        X = rng.integers(-50, 50, (n, d)) + np.rint(10 ** rng.uniform(0, 9))
    elif kind == "scales":
        X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-9, 9, d)
    elif kind == "decimals":
        X = np.round(rng.normal(size=(n, d)), 2) + round(10 ** rng.uniform(0, 7), 1)
    else:
        X = rng.normal(size=(n, d))
        X[rng.integers(n)] *= 10 ** rng.uniform(1, 9)
    if rng.random() < 0.3:
        X = X + 10 ** rng.uniform(-2, 8)
    beta = rng.normal(size=d) * 10.0 ** rng.uniform(-6, 3, d)
    noise = float(rng.choice([0.0, 1e-9, 1e-3, 1.0, 1e4]))
    y = X @ beta + noise * rng.normal(size=n) + rng.choice([0.0, 1.0, 1e6])
    w = rng.uniform(0.01, 10, n) if rng.random() < 0.2 else None
    return np.ascontiguousarray(X, dtype=float), y, w, bool(rng.random() < 0.8)


SEEDS = [pytest.param(range(start, start + 100), marks=pytest.mark.torture) for start in range(100, 3000, 100)]


@pytest.mark.parametrize("seeds", [range(100), *SEEDS], ids=lambda seeds: f"{seeds.start}")
def test_no_fit_claims_a_digit_too_many(seeds):
    seen: Counter[str] = Counter()
    worst = -15.0
    for seed in seeds:
        X, y, w, intercept = drawn(seed)
        model = tl.LinearRegression(fit_intercept=intercept).fit(X, y, w)
        claimed = model.certificate_
        if claimed.dropped:
            seen["dropped"] += 1
            continue
        found = np.r_[model.intercept_, model.coef_] if intercept else model.coef_
        got = correct_digits(found, truth(X, y, w, intercept))
        seen["fits"] += 1
        seen["claims above 12 digits"] += claimed.digits > 12
        if got < 15.0:
            worst = max(worst, claimed.digits - got)
            assert claimed.digits <= got + 1, f"seed {seed}: {claimed.digits:.2f} claimed, {got:.2f} hold"
            assert claimed.arithmetic_digits <= got + 1, f"seed {seed}: {claimed.arithmetic_digits:.2f}, {got:.2f}"
    print(f"{dict(seen)}; the boldest claim lies {worst:+.2f} digits from the truth")
    assert seen["fits"] > 60


def through_the_origin(seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """(X, y, which of [intercept, coefficients] are 0 exactly), in whole numbers, from mirrored rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    half = rng.integers(-9, 10, (int(rng.integers(10, 200)), d)).astype(float)
    beta = rng.integers(1, 9, d)
    noise = rng.integers(-5, 6, len(half)) * int(rng.integers(0, 2))
    X, y = np.r_[half, -half], np.r_[half @ beta + noise, -(half @ beta + noise)]
    gone = [0]
    if seed % 2:  # a column that is even in the rows' sign has no part in what is odd
        X = np.column_stack([X, np.r_[half[:, 0] ** 2, half[:, 0] ** 2]])
        gone.append(d + 1)
    return X * 2.0 ** rng.integers(-40, 40), y, gone


@pytest.mark.parametrize("seed", range(20))
def test_what_is_0_by_the_structure_of_the_data_costs_no_digit(seed):
    X, y, gone = through_the_origin(seed)
    for rows in (X, np.column_stack([X, X[:, 0]])):
        model = tl.LinearRegression(rank="drop").fit(rows, y)
        claimed = model.certificate_
        found = np.r_[model.intercept_, model.coef_[: X.shape[1]]]
        exact = truth(X, y, None, True)
        scale = np.r_[1.0, np.sqrt((X**2).mean(axis=0))] / y.std()
        assert (np.abs(found[gone]) * scale[gone] <= 2.0**-80).all()
        others = [j for j in range(len(found)) if j not in gone]
        got = correct_digits(found[others], [exact[j] for j in others])
        assert claimed.digits <= got + 1 and claimed.digits > 12
        assert "0 as far as rounding can tell: the intercept" in claimed.advice
        assert claimed.dropped == (() if rows is X else (f"x{X.shape[1]}",))


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_few_digits_of_something_small_are_told_by_its_name(shift):
    """Centred data: the intercept that their rounding leaves is there, and is exactly known, but means nothing."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 2)) + shift
    y = X @ [1.0, 2.0] + rng.normal(size=300)
    X, y = X - X.mean(axis=0), y - y.mean()
    model = tl.LinearRegression().fit(X, y)
    claimed = model.certificate_
    got = correct_digits(np.r_[model.intercept_, model.coef_], truth(X, y, None, True))
    assert claimed.digits <= got + 1
    assert claimed.digits > 6 or "the intercept" in claimed.advice


@pytest.mark.parametrize("exponent", [-400, -200, 100, 300, 450])
def test_dependent_columns_of_extreme_sizes_warn_of_nothing(exponent):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=60)
    plain = tl.LinearRegression().fit(X, y)
    for rank in ("minimum-norm", "drop"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = tl.LinearRegression(rank=rank).fit(np.column_stack([X, 2.0**exponent * X.sum(axis=1)]), y)
            claimed = found.certificate_
        assert claimed.dropped == ("x2",) and claimed.digits > 12
        np.testing.assert_allclose(
            X @ found.coef_[:2] + found.coef_[2] * 2.0**exponent * X.sum(axis=1), X @ plain.coef_, rtol=1e-11
        )
