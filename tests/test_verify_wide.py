"""Many columns: the shorter way to the solution of normal equations is as sure as elimination, or is not taken."""

from __future__ import annotations

import dataclasses
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest

from trueline.model.closed import fit_least_squares, fit_ridge
from trueline.onepass.moments import Moments
from trueline.verifier import exact_arithmetic as inverse
from trueline.verifier.exact_arithmetic import decimals, eliminated, gram
from trueline.verifier.exact_arithmetic import solved as refined
from trueline.verifier.verify import verify

K = 70


def equations(spread, scale=1.0, k=K, seed=0):
    """Normal equations of columns whose singular values are spread over a factor."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=shape))[0] for shape in ((200, k), (k, k)))
    X = (U * np.logspace(0, -np.log10(spread), k)) @ V.T * 10.0 ** rng.uniform(-scale, scale, k)
    G = gram(np.column_stack([X, X @ rng.normal(size=k) + rng.normal(size=200)]), np.ones(200))
    return G[:k, :k], G[:k, k]


@pytest.fixture
def counted(monkeypatch):
    """How often the equations were eliminated after all."""
    calls = []

    def watched(G, right):
        calls.append(len(G))
        return eliminated(G, right)

    monkeypatch.setattr(inverse, "eliminated", watched)
    return calls


@pytest.mark.parametrize("spread", [1.0, 10.0, 1e3, 1e4])
def test_it_finds_what_elimination_finds(spread, counted):
    with localcontext(Context(prec=120)):
        G, right = equations(spread, scale=5.0)
        (x, V), (wanted, W) = refined(G, right, 0), eliminated(G, right)
        assert not counted
        size = [v.sqrt() for v in np.diag(G)]
        apart = max(abs(a - b) * s for a, b, s in zip(x, wanted, size))
        assert apart <= Decimal("1e-50") * max(abs(b) * s for b, s in zip(wanted, size))
        W = W.astype(float)
        assert np.abs(np.diag(V) / np.diag(W) - 1.0).max() <= inverse.NEAR
        assert np.abs(V - W).max() <= 1e-9 * np.abs(W).max()


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e9])
def test_columns_far_from_zero_are_centred(shift, counted):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, K)) + shift
    with localcontext(Context(prec=120)):
        G = gram(np.column_stack([np.ones(200), X, rng.normal(size=200)]), rng.uniform(0.5, 2.0, 200))
        (x, V), (wanted, W) = (way(G[:-1, :-1], G[:-1, -1]) for way in (lambda G, b: refined(G, b, 1), eliminated))
        assert not counted
        assert max(abs(a / b - 1) for a, b in zip(x, wanted)) <= Decimal("1e-50")
        V, W = V[1:, 1:], W[1:, 1:].astype(float)
        assert np.abs(np.diag(V) / np.diag(W) - 1.0).max() <= inverse.NEAR
        # A constant beside the constants repeats it.
        with pytest.raises(ZeroDivisionError):
            again = gram(np.column_stack([np.ones(200), X, np.full(200, 3.0)]), np.ones(200))
            refined(again, again[:, 0], 1)


@pytest.mark.parametrize("spread", [1e7, 1e12, 1e16])
def test_what_float64_cannot_hold_is_eliminated(spread, counted):
    with localcontext(Context(prec=120)):
        G, right = equations(spread)
        x, _ = refined(G, right, 0)
        assert counted == [K]
        assert max(abs(G @ x - right)) < Decimal("1e-60") * max(abs(right))


def test_repeated_columns_and_odd_sizes_go_the_long_way(counted):
    with localcontext(Context(prec=120)):
        G, right = equations(2.0)
        again = [*range(K), 3]
        with pytest.raises(ZeroDivisionError) as place:
            refined(G[np.ix_(again, again)], right[again], 0)
        assert place.value.args == (K,) and counted == [K + 1]
        tiny = decimals(np.full(K, 1e-170))
        refined(G * tiny[:, None] * tiny, right * tiny, 0)
        assert len(counted) == 2


def test_a_wrong_inverse_is_not_believed(monkeypatch, counted):
    true = np.linalg.inv
    with localcontext(Context(prec=120)):
        G, right = equations(100.0)
        wanted = eliminated(G, right)[0]
        for wrong in (
            lambda M: true(M) * 1.2,
            lambda M: np.zeros_like(M),
            lambda M: true(M) + np.nan,
            lambda M: true(M).T * 1e9,
        ):
            monkeypatch.setattr(inverse.np.linalg, "inv", wrong)
            counted.clear()
            assert (refined(G, right, 0)[0] == wanted).all() and counted == [K]
        # A little wrong is mended, and then right.
        monkeypatch.setattr(inverse.np.linalg, "inv", lambda M: true(M) * (1.0 + 1e-4))
        counted.clear()
        x = refined(G, right, 0)[0]
        assert not counted and max(abs(x - wanted)) <= Decimal("1e-50") * max(abs(wanted))


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 90)) * 10.0 ** rng.integers(-3, 4, 90) + rng.integers(0, 9, 90)
    X[:, 5] = X[:, 4] + 0.01 * X[:, 5] / np.abs(X[:, 5]).max()
    return X, X @ (rng.normal(size=90) / np.abs(X).mean(axis=0)) + rng.normal(size=400)


@pytest.mark.parametrize("ridge", [0.0, 2.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_forged_certificates_of_many_columns_are_caught(wide, ridge, weighted, counted):
    X, y = wide
    c = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else None
    moments = Moments.from_arrays(X, y, c)
    model = fit_ridge(moments, np.array([ridge])) if ridge else fit_least_squares(moments)
    data = (X, y, c) if weighted else (X, y)
    proof = model.certificate
    found = verify(model, data)
    assert found.ok and not counted, found

    def failed(**changes):
        made = verify(model, data, certificate=dataclasses.replace(proof, **changes))
        return {check.claim for check in made.checks if not check.held}

    assert "arithmetic_digits" in failed(arithmetic_digits=16.5)
    assert "data_digits" in failed(data_digits=proof.data_digits + 1.1)
    assert "condition_number" in failed(condition_number=proof.condition_number * 1.002)
    assert "rank" in failed(rank=89)
    assert "orthogonality" in failed(orthogonality=1e-3)
    for j in (0, 4, 89):
        kept = model.coef.copy()
        model.coef = kept.copy()
        model.coef.ravel()[j] *= 1.0 + 1e-10
        assert "arithmetic_digits" in failed()
        model.coef = kept
    assert not counted
