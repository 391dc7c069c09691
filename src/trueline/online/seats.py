"""One dict at a time for the mixture: what a like dict needs is laid out once, so that an example costs one call.

A seat knows where each value of a dict goes and holds the loop's arguments with room for one row. It serves dicts that
have the very names it was made for and only numbers; any other dict, a label that must be refused, a weight, and the
rounds after which a record of progress is due take the long way through :class:`Intake`, which finds the words. Both
ways run the same loop on the same row: bit by bit the same.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._jit import direct
from ..data.rounding import EXACT
from . import regress as numbers
from .intake import LIMIT

if TYPE_CHECKING:
    from .mixture import MixtureModel

_SURE = float(EXACT) ** 2  # below this sum of squares, float64 has rounded no whole number
PLAIN_NUMBERS = (float, int, bool, np.float64)


class Seat:
    """The place of one set of names; made anew whenever the model's arrays move."""

    __slots__ = (
        "c", "classes", "dense", "indices", "learned", "loop", "out", "pack", "settings", "size", "starts", "state", "take",
        "totals", "values", "y",
    )  # fmt: skip

    def __init__(self, model: MixtureModel, given: tuple[str, ...]) -> None:
        keys = sorted(given, key=model.intake.known.__getitem__)
        self.size = len(keys)
        self.take: Any = itemgetter(*keys) if self.size > 1 else lambda row: tuple(row[key] for key in keys)
        self.pack = struct.Struct(f"{self.size}d").pack_into
        self.values = np.zeros(self.size)
        self.indices = np.array([model.intake.known[key] for key in keys], dtype=np.int64)
        self.starts = np.array([0, self.size], dtype=np.int64)
        self.y, self.c, self.learned = np.zeros(1), np.ones(1), np.zeros(1)
        self.totals = model.arrays["totals"]
        self.classes = model.class_count
        self.out = np.zeros((1, self.classes) if self.classes else 1)
        self.dense = False
        loop, self.settings, self.state = model.loop()
        self.loop = direct(loop, *self.arguments(self.values, self.out, True))

    def arguments(self, values: np.ndarray, out: np.ndarray, learning: bool) -> tuple[Any, ...]:
        """What the loop takes for one row."""
        row = (values, self.indices, self.starts, False, self.y, self.c, learning)
        return (*row, *self.settings, *self.state, out, self.learned)

    def read(self, features: dict[str, Any], values: Any) -> bool:
        """Whether this dict sits here; its values are then in ``values``."""
        try:
            self.pack(values, 0, *self.take(features))
        except (KeyError, struct.error, OverflowError):
            return False
        # NaN fails too; larger ones may be good, and are asked at length, as are whole numbers beyond what float64 holds.
        squares = values.dot(values)
        return bool(squares < _SURE or (squares <= LIMIT and int not in map(type, features.values())))


def offer_seat(model: MixtureModel, features: dict[str, Any]) -> None:
    """A seat for the names of two dicts in a row; names that change from dict to dict are not worth one."""
    keys = tuple(features)
    if keys != model.asked:
        model.asked = keys
        return
    known = model.intake.known
    if model.centred and not model.filters and len(keys) < model.width:
        return  # the members want zeros for the columns that such dicts lack
    if all(type(key) is str and key in known for key in keys) and not any(
        isinstance(value, str) for value in features.values()
    ):
        model.seat = Seat(model, keys)


def number(label: Any) -> float | None:
    """A label as a float, or None if it must be looked at."""
    if type(label) is float:
        return label
    return float(label) if type(label) in PLAIN_NUMBERS and -EXACT <= label <= EXACT else None


def learn_seated(model: MixtureModel, seat: Seat, features: dict[str, Any], label: Any) -> Any:
    """Learn the dict in the seat of its names; None, with nothing learned, if it must go the long way."""
    target = number(label)
    if target is None or len(features) != seat.size or not seat.read(features, seat.values):
        return None
    if not seat.classes:
        good = -LIMIT <= target <= LIMIT
    elif seat.classes == 2:
        good, target = target in (-1.0, 1.0), (target + 1.0) / 2.0
    else:
        good = target in range(seat.classes)
    before = int(seat.totals.item(numbers.EXAMPLES))
    if not good or before & (before + 1) == 0:  # the next count is a power of two: a record is due
        return None
    seat.y[0] = target
    seat.loop(*seat.arguments(seat.values, seat.out, True))
    if model.hindsight is not None:
        model.hindsight.add(seat, seat.y, seat.learned, seat.c, model.born(), before)
    return shown(seat.out, seat.classes)


def predict_seated(seat: Seat, features: dict[str, Any]) -> Any:
    """The prediction for a dict in the seat of its names, or None; buffers of its own, for other threads may predict."""
    values = np.empty(seat.size)
    if len(features) != seat.size or not seat.read(features, values):
        return None
    out = np.zeros_like(seat.out)
    seat.loop(*seat.arguments(values, out, False))
    return shown(out, seat.classes)


def shown(out: np.ndarray, classes: int) -> Any:
    """One row's prediction as the caller sees it."""
    if not classes:
        return out.item()
    return out.item(1) if classes == 2 else out[0].copy()
