"""Local regression: the windows are fitted anew and the robust weights repeated; forged ones are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced

import trueline as tl
from trueline.certificates.certificate import Status

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=80)
Y[::11] += 5.0
W = RNG.random(80) + 0.2
SETTINGS = [
    {},
    {"degree": 0},
    {"degree": 2, "fraction": 0.8},
    {"kernel": "gaussian"},
    {"bandwidth": 1.5},
    {"bandwidth": 0.7, "kernel": "gaussian"},
    {"robust_iterations": 0},
    {"fraction": "gcv"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("columns", [1, 2])
def test_honest_smoothers_verify_and_are_proven(settings, columns):
    A = X[:, :columns]
    for w in (None, W, 1.0 + (np.arange(80) % 3), 1e9 * W, 1.0 * (np.arange(80) % 4 > 0)):
        model = fitted(tl.LocalRegression(**settings), A, Y, w)
        assert not failures(model, (A, Y) if w is None else (A, Y, w))
        assert model.certificate_.status is Status.PROVEN
    found = tl.verify(fitted(tl.LocalRegression(**settings), A, Y), (A, Y))
    assert "robust" not in dict(found.stated)  # repeated from the first fit


def test_small_weights_do_not_limit_the_degrees_of_freedom():
    """A row has up to one of them whatever its weight: where rounding decides, their number is all that is known."""
    A, w = RNG.normal(size=(11, 35)), 0.2 + 0.5 * RNG.random(11)
    model = fitted(tl.LocalRegression(fraction=0.7, surface="exact"), A, Y[:11], w)
    assert model.certificate_.degrees_of_freedom > w.sum()
    assert not failures(model, (A, Y[:11], w))


@pytest.mark.parametrize(
    "rows",
    [
        (X[:6], Y[:6]),
        (np.repeat(X[:20], 4, axis=0), np.repeat(Y[:20], 4)),
        (X + np.array([1e8, 0.0]), Y),
        (X * [1e-6, 1e6], 1e6 * Y),
        (np.column_stack([X, X[:, 0]]), Y),
        (np.column_stack([X, np.full(80, 1e6)]), Y),
        (np.round(X), Y),
        (np.column_stack([X, X[:, 0] + 1e-5 * RNG.normal(size=80)]), Y),
        (X, X[:, 0]),
        (X, np.full(80, 3.0)),
    ],
    ids=["few", "repeated", "far", "scales", "copy", "constant", "ties", "near copy", "exact", "constant target"],
)
def test_honest_smoothers_of_odd_rows_verify(rows):
    for degree in (1, 2):
        for columns in (1, 2, 3):
            A = rows[0][:, :columns]
            model = fitted(tl.LocalRegression(degree=degree, fraction=1.0), A, rows[1])
            assert not failures(model, (A, rows[1]))


@pytest.mark.parametrize("settings", [{"surface": "interpolate"}, {"delta": 0.1}], ids=str)
def test_honest_surfaces_verify_and_are_not_proven(settings):
    model = fitted(tl.LocalRegression(**settings), X[:, :1], Y)
    assert not failures(model, (X[:, :1], Y)) and model.certificate_.status is Status.NOT_PROVEN
    record = copied(model)
    record.nodes[:, 0] += 1.0
    assert failures(record, (X[:, :1], Y))
    assert "status" in failures(model, (X[:, :1], Y), replaced(model, status=Status.PROVEN))


FORGERIES = {
    "rows": lambda r: setattr(r, "Z", r.Z * 1.01),
    "target": lambda r: setattr(r, "y", r.y + 0.01),
    "robust": lambda r: (setattr(r, "robust", np.ones(80)), setattr(r, "robustness", np.ones(80))),
    "only robust": lambda r: setattr(r, "robust", r.robust[::-1].copy()),
    "unit": lambda r: setattr(r, "unit", 2.0 * r.unit),
    "unit and rows": lambda r: (setattr(r, "unit", r.unit * [3.0, 1.0]), setattr(r, "Z", r.Z / [3.0, 1.0])),
    "fitted": lambda r: setattr(r, "fitted", r.fitted + 1e-4),
    "weights": lambda r: setattr(r, "case", W),
    "sigma": lambda r: setattr(r, "sigma", 0.1 * r.sigma),
    "left": lambda r: setattr(r, "left", 2.0 * r.left),
    "fraction": lambda r: setattr(r, "settings", dataclasses.replace(r.settings, fraction=0.5)),
    "degree": lambda r: setattr(r, "settings", dataclasses.replace(r.settings, degree=0)),
    "kernel": lambda r: setattr(r, "settings", dataclasses.replace(r.settings, kernel="gaussian")),
    "iterations": lambda r: setattr(r, "settings", dataclasses.replace(r.settings, robust_iterations=0)),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_smoothers_are_refused(forgery):
    model = fitted(tl.LocalRegression(), X, Y)
    record = copied(model)
    FORGERIES[forgery](record)
    assert failures(record, (X, Y))


@pytest.mark.parametrize("field", ["objective", "degrees_of_freedom"])
def test_forged_claims_are_refused(field):
    model = fitted(tl.LocalRegression(), X, Y)
    assert field in failures(model, (X, Y), replaced(model, **{field: 0.999 * getattr(model.certificate_, field)}))
    assert "status" in failures(model, (X, Y), replaced(model, status=Status.DEGENERATE))
