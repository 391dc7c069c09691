"""LMS and normalised LMS: the online engine's loop with squared loss, over sliding windows.

lms    w ← w + η e x               the theorem L ≤ L_u/(1 − κ) + ‖u‖²/η needs κ = η·max‖x‖² < 1
nlms   w ← w + η/(ε + ‖x‖²) e x    blind to the loudness of the far end
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..online import state
from ..online.engine import learn
from ..parts.geometries import geometry
from ..parts.losses import loss
from .window import CHUNK, Window


class Steps:
    """The state of an LMS or NLMS filter."""

    def __init__(self, taps: int, normalised: bool, rate: float, epsilon: float, dtype: Any) -> None:
        self.window = Window(taps, dtype)
        self.table = np.zeros((state.TABLE_ROWS, taps + 1), dtype)
        self.numbers = np.zeros(state.NUMBERS)
        self.loss = loss("squared")
        self.geometry = geometry("normalised", epsilon=epsilon) if normalised else geometry("additive")
        for at, value in (
            (state.RATE, rate), (state.BATCH, 1.0), (state.WIDTH, taps), (state.CERTIFY, 1.0), (state.NORMED, 1.0),
        ):  # fmt: skip
            self.numbers[at] = value
        self.resets = 0
        self._mic = np.zeros(CHUNK, dtype)
        self._echo = np.zeros(CHUNK, dtype)
        self._none, self._in_order = np.zeros(0), np.zeros(0, np.int64)

    @property
    def weights(self) -> np.ndarray:
        """The impulse response: the newest sample's weight first."""
        return self.table[state.DUAL, :0:-1]

    def chunk(self, far: np.ndarray, mic: np.ndarray, out: np.ndarray) -> None:
        count = len(far)
        rows = self.window.rows(far)
        self._mic[:count] = mic
        done = 0
        while done < count:
            done = learn(
                rows, self._mic, self._none, self._in_order, done, count, self.loss, self.geometry, None, self.table,
                self.numbers, self._echo,
            )  # fmt: skip
            if done < count:  # a rate too large has made the weights overflow: begin again from nothing
                self.table[state.DUAL] = 0
                self.numbers[state.SIZE2] = 0
                self.resets += 1
        left = self._echo[:count]
        np.subtract(self._mic[:count], left, out=left)
        out[:] = left  # a cast in an assignment needs no buffer

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"weights": self.table[state.DUAL].copy(), "numbers": self.numbers}
        return arrays | self.window.to_state(), {"resets": self.resets}

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.table[state.DUAL], self.numbers[:] = arrays["weights"], arrays["numbers"]
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])
