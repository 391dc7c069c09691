"""A streamed model learned again from its rows, for ``verify``: its columns come one by one, as they did."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np

from . import learners
from .state import Asked, State
from .streaming import stream


def replayed(opened: Any, source: Any) -> tuple[np.ndarray, Any]:
    """The predictions of a streamed model made again, its columns coming one by one as they did, and the learner then."""
    state = State.resumed(opened)
    record = _without_columns(state.record).fresh()
    fresh = dataclasses.replace(state, record=record, terms=[], loss=0.0, weight=0.0, rows=[], last={})
    plain = [] if state.schema is None else [c.name for c in state.schema.columns if c.kind != "category"]
    learners.widened(fresh.record, plain)
    fresh.terms = plain
    made: list[np.ndarray] = []
    asked = Asked(source, state.target, form=state.form, learner=state.learner)
    for _ in range(max(1, state.epochs)):
        stream(asked, fresh, lambda row: None, lambda values, _, learned: made.append(values) if learned else None)
    return np.concatenate(made), fresh.record


def _without_columns(record: Any) -> Any:
    """The record for ``fresh()`` to make a learner that has no columns yet: those are named as they come."""
    bare = copy.copy(record)
    if record.kind == "ladder":
        bare.members = [copy.copy(member) for member in record.members]
        bare.members[0]._names = []
    elif record.kind == "recursive":
        bare.names = []
    return bare
