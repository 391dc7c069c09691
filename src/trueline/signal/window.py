"""The last samples of the far end, as rows for the online engine: samples are written once and never moved, except
that a full buffer starts again at its front (once in thousands of samples), so no window is ever copied.

Everything here goes sample by sample in the order of arrival, so a signal cut into other blocks gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import kernel, teach
from ..data.rows import Sliding

CHUNK = 4096


class Window:
    """``taps`` samples ending at each new one; ``history`` more behind them for methods that look further back."""

    def __init__(self, taps: int, dtype: Any, history: int = 0) -> None:
        self.taps, self.lead = taps, taps + history
        self.signal = np.zeros(self.lead + max(4 * self.lead, 4 * CHUNK), dtype)
        self.head = self.lead
        self.norms = np.zeros(CHUNK)
        self.running = np.zeros(2)  # ‖x‖² of the newest window; samples since it was last summed afresh

    def rows(self, far: np.ndarray) -> Sliding:
        """Take up to CHUNK new samples; row i is the window that ends at the i-th of them."""
        count = len(far)
        if self.head + count > len(self.signal):
            self.signal[: self.lead] = self.signal[self.head - self.lead : self.head]
            self.head = self.lead
        self.signal[self.head : self.head + count] = far
        slide_norms(self.signal, self.head, count, self.taps, self.running, self.norms)
        first = self.head - self.taps + 1
        self.head += count
        return self.sliding(first)

    def sliding(self, first: int) -> Sliding:
        """The rows whose first window begins at this place of the buffer."""
        made = Sliding(self.signal, self.norms, first, self.taps)  # type: ignore[call-arg]
        teach(made)
        return made

    def to_state(self) -> dict[str, np.ndarray]:
        return {"recent": self.signal[self.head - self.lead : self.head].copy(), "running": self.running}

    def adopt(self, arrays: dict[str, np.ndarray]) -> None:
        self.head = self.lead
        self.signal[: self.lead] = arrays["recent"]
        self.running[:] = arrays["running"]


@kernel
def slide_norms(signal, head, count, taps, running, norms):
    """‖x‖² of each new window: one sample enters, one leaves; summed afresh once a window against rounding."""
    total, age = running[0], running[1]
    for i in range(count):
        at = head + i
        new, old = float(signal[at]), float(signal[at - taps])
        total = max(total + (new * new - old * old), 0.0)
        age += 1.0
        if age >= taps:
            age = 0.0
            total = 0.0
            for j in range(at - taps + 1, at + 1):
                total += float(signal[j]) * float(signal[j])
        norms[i] = total
    running[0], running[1] = total, age
