"""Every entry of every kind of model file is forged in turn: refused, or it predicts as the honest model does.

What is accepted is moreover listed as stated, unless the model does not read it or the claim only became weaker: an
entry that a later change adds to a record is refused, is listed, or fails here.
"""

from __future__ import annotations

import warnings

import pytest
from verifier import forging
from zoo import zoo

# Kinds that verify does not take: moments and bases carry no certificate, filters keep none of their rows.
WITHOUT = {"moments", "basis"}
# Changes that make a claim say less, which may always be said.
WEAKER = {("rank", "one more")}  # of a non-negative fit: a coefficient at 0 counts or not
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
            outcome = forging.attempt(forged, file, honest, X, data, folder, forging.lies(entry))
            yield entry, change, outcome, forging.told(entry, forged, outcome.stated)


def wrong(entry, change, outcome, told):
    """Accepted, and it predicts otherwise than the honest model though called proven, or is not listed as stated."""
    weaker = (str(entry).removeprefix("certificate."), change) in WEAKER
    return not outcome.refused and ((outcome.proven and outcome.differs) or (outcome.read and not told and not weaker))


@pytest.mark.parametrize("name", KINDS)
def test_a_forged_entry_is_refused_or_changes_no_prediction(name, tmp_path):
    accepted = [(str(one[0]), one[1]) for one in forgeries(name, tmp_path, 1) if wrong(*one)]
    assert not accepted


@pytest.mark.torture
@pytest.mark.parametrize("name", KINDS)
def test_every_way_of_forging_an_entry_is_refused_or_changes_no_prediction(name, tmp_path):
    accepted = [(str(one[0]), one[1]) for one in forgeries(name, tmp_path, 9) if wrong(*one)]
    assert not accepted
