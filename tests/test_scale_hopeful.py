"""A partition's first rows are multiplied in plain float64 only where that is enough, and nobody may lose digits by it."""

from __future__ import annotations

import numpy as np
import pytest

import trueline as tl
from trueline.data.blocks import Block, Columns
from trueline.onepass.moments import Moments

TERMS = ("a", "b", "c", "d")


def moments(X, y, *, hopeful, folds=None, weights=None, apart=True, digits="auto"):
    rows = Columns([np.ascontiguousarray(column) for column in X.T]) if apart else np.ascontiguousarray(X)
    block = Block(TERMS[: X.shape[1]], rows, y, weights, folds)
    return Moments.from_blocks([block], digits=digits, sample=0, hopeful=hopeful)


def table(kind: str, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 4)) * [1.0, 30.0, 1e-4, 2.0] + [0.5, -4.0, 1e-5, 0.0]
    if kind == "far":
        X += [1e3, 1e5, 7.0, 1e4]
    if kind == "steps":  # other rows than the first lie elsewhere
        X[5_000:] += [50.0, 0.0, 0.0, 1e3]
    y = X @ [1.0, -0.02, 300.0, 0.7] + rng.normal(size=n)
    if kind == "collinear":
        X[:, 3] = X[:, 0] + 1e-9 * X[:, 3]
    if kind == "twice":
        X[:, 3] = X[:, 0]
    if kind == "constant":
        X[:, 2] = 3.0
    if kind == "exact":  # without noise every digit of the coefficients is asked for
        X = np.vander(np.linspace(1.0, 2.0, n), 5)[:, :4]
        y = X @ [1.0, 2.0, 3.0, 4.0]
    return X, y


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("folds", [0, 3])
@pytest.mark.parametrize("kind", ["near", "far"])
def test_plain_products_where_they_are_enough(kind, folds, apart):
    X, y = table(kind)
    parted = np.arange(len(X)) * 7 % folds if folds else None
    ours = moments(X, y, hopeful=True, folds=parted, apart=apart)
    careful = moments(X, y, hopeful=False, folds=parted, apart=apart)
    assert ours.levels[1:] == (0, 0) and careful.levels[2] > 0
    assert ours.n == careful.n and list(ours.parts) == list(careful.parts)
    for name, part in careful.parts.items():
        C, mine = part.products[0], ours.parts[name].products[0]
        scale = np.sqrt(np.outer(np.diagonal(C), np.diagonal(C)))
        assert np.abs(mine - C).max(initial=0.0, where=scale > 0) / scale.max() < 1e-13
        assert (np.abs(mine - C) <= 1e-13 * scale).all()
    exact = tl.LinearRegression.from_moments(Moments.from_arrays(X, y, level=2))
    fitted = tl.LinearRegression.from_moments(ours)
    claimed = fitted.certificate_.digits
    assert claimed >= 9
    assert np.allclose(fitted.coef_, exact.coef_, rtol=10.0**-claimed, atol=0.0)


@pytest.mark.parametrize("kind", ["steps", "collinear", "twice", "constant", "exact"])
def test_what_needs_care_gets_the_same_bits_as_ever(kind):
    X, y = table(kind)
    ours, careful = moments(X, y, hopeful=True), moments(X, y, hopeful=False)
    assert ours.levels == careful.levels and ours.levels[2] > 0
    for mine, theirs in zip(ours.total.products + ours.total.mean, careful.total.products + careful.total.mean):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(ours.total.noise, careful.total.noise)
    assert (ours.integer == careful.integer).all()


def test_weights_whole_numbers_and_few_rows():
    X, y = table("near")
    X[:, 1] = np.rint(X[:, 1])
    weights = np.random.default_rng(3).uniform(0.5, 2.0, size=len(y))
    ours, careful = (moments(X, y, hopeful=hopeful, weights=weights) for hopeful in (True, False))
    C, mine = careful.total.products[0], ours.total.products[0]
    assert ours.levels[1:] == (0, 0)
    assert (np.abs(mine - C) <= 1e-13 * np.sqrt(np.outer(np.diagonal(C), np.diagonal(C)))).all()
    assert ours.integer.tolist() == careful.integer.tolist() == [False, True, False, False, False]
    few = moments(X[:1500], y[:1500], hopeful=True)  # too few for a factor: care costs little
    assert few.levels[0] == 0 and few.levels[2] > 0
