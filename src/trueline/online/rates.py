"""Rates: η_t = base / t^power at round t. One formula, so one compiled loop serves every schedule."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..errors import UsageError, nearest

SCHEDULES = {"constant": 0.0, "1/sqrt(t)": 0.5, "1/t": 1.0}


class Rate(NamedTuple):
    """base / t^power, t = 1, 2, …"""

    base: float = 0.1
    power: float = 0.0

    def at(self, t):
        return self.base / t**self.power


def rate(base: Any, schedule: str = "constant") -> Rate:
    """The rate of this base and schedule.

    >>> rate(0.5, "1/sqrt(t)").at(4)
    0.25
    """
    if schedule not in SCHEDULES:
        raise UsageError(f"there is no schedule named {schedule!r}{nearest(schedule, SCHEDULES)}", where="schedule")
    number = isinstance(base, (int, float)) or hasattr(base, "__float__")
    if isinstance(base, (bool, str)) or not number or not (0.0 < float(base) < math.inf):
        fall = f"; how it falls is schedule={base!r}" if isinstance(base, str) and base in SCHEDULES else ""
        raise UsageError(f"rate must be a positive number or 'auto', not {base!r}{fall}", where="rate")
    return Rate(float(base), SCHEDULES[schedule])
