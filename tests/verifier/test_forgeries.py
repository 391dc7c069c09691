"""Every entry of every kind of model file is forged in turn: refused, or it predicts as the honest model does."""

from __future__ import annotations

import warnings

import pytest
from verifier import forging
from zoo import zoo

# Kinds that verify does not take: moments and bases carry no certificate, filters keep none of their rows.
WITHOUT = {"moments", "basis"}
KINDS = [name for name in zoo() if name not in WITHOUT and not name.startswith("filter")]


def forgeries(name, folder, most):
    """(entry, change, outcome) of each forgery of one kind; ``most`` ways an entry."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, X, y = zoo()[name]()
    file = forging.read(model, folder)
    data = (X,) if y is None else (X, y)
    honest = forging.predictions(model, X)
    for entry in forging.entries(file):
        for change, forged in forging.changed(file, entry)[:most]:
            lies = frozenset(map(str, entry.path[1:2] if "certificate" in entry.path else ()))
            yield entry, change, forging.attempt(forged, honest, X, data, folder, lies)


def wrong(outcome):
    """Accepted, called proven, and it predicts otherwise than the honest model."""
    return not outcome.refused and outcome.proven and outcome.differs


@pytest.mark.parametrize("name", KINDS)
def test_a_forged_entry_is_refused_or_changes_no_prediction(name, tmp_path):
    accepted = [(str(entry), change) for entry, change, outcome in forgeries(name, tmp_path, 1) if wrong(outcome)]
    assert not accepted


@pytest.mark.torture
@pytest.mark.parametrize("name", KINDS)
def test_every_way_of_forging_an_entry_is_refused_or_changes_no_prediction(name, tmp_path):
    accepted = [(str(entry), change) for entry, change, outcome in forgeries(name, tmp_path, 9) if wrong(outcome)]
    assert not accepted
