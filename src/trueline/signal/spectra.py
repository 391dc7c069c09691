"""Long filters in the frequency domain: the tail is cut into partitions of one block, and each block is filtered by
overlap-save: y = last half of irfft(Σ_p X_p·W_p), X_p the spectrum of the last two blocks p blocks ago.

A frame may be filled in pieces of any size, one sample included. The weights stand still inside a frame, so a piece's
output is what the whole frame's would have been, to rounding, with no delay; learning happens when the frame is full
and sees the same numbers however it was filled. FFTs are SciPy's, in single precision; what is between them is
compiled.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._jit import kernel


class Rule(Protocol):
    """How weights answer an error: ``output`` is the echo estimate of the frame, ``learn`` is called when it is full."""

    def output(self, spectra: Spectra) -> np.ndarray: ...

    def learn(self, spectra: Spectra, mic: np.ndarray) -> None: ...


class Spectra:
    """The far end as a filter sees it: the frame being filled and the spectra of the last frames, newest first."""

    def __init__(self, block: int, partitions: int) -> None:
        from scipy import fft

        self.block, self.partitions, self.bins = block, partitions, block + 1
        self.far = np.zeros(2 * block, np.float32)  # the previous block, then the current one
        self.mic = np.zeros(block, np.float32)
        self.fill = 0
        self.X = np.zeros((partitions, self.bins), np.complex64)
        self.newest = 0
        self._rfft, self._irfft = fft.rfft, fft.irfft

    def process(self, rule: Rule, far: np.ndarray, mic: np.ndarray, out: np.ndarray) -> None:
        """Write the error of every sample into ``out``; learn at the end of each frame."""
        done = 0
        while done < len(far):
            count = min(self.block - self.fill, len(far) - done)
            piece = slice(self.fill, self.fill + count)
            self.far[self.block + piece.start : self.block + piece.stop] = far[done : done + count]
            self.mic[piece] = mic[done : done + count]
            self.X[self.newest] = self._rfft(self.far)
            echo = rule.output(self)
            np.subtract(self.mic[piece], echo[piece], out=out[done : done + count])
            self.fill += count
            done += count
            if self.fill == self.block:
                rule.learn(self, self.mic)
                self._turn()

    def _turn(self) -> None:
        self.far[: self.block] = self.far[self.block :]
        self.far[self.block :] = 0
        self.fill = 0
        self.newest = (self.newest - 1) % self.partitions

    def silence(self) -> None:
        """Forget the sound, not what was learned."""
        self.far[:], self.mic[:], self.X[:], self.fill = 0, 0, 0, 0

    def estimates(self, W: np.ndarray) -> np.ndarray:
        """The echo that each filter in W predicts for the current frame."""
        Y = np.empty((W.shape[0], self.bins), np.complex64)
        products(self.X, self.newest, W, Y)
        return self._irfft(Y)[:, self.block :]

    def error_spectra(self, errors: np.ndarray) -> np.ndarray:
        """Spectra of errors in the current half of a frame."""
        padded = np.zeros((errors.shape[0], 2 * self.block), np.float32)
        padded[:, self.block :] = errors
        return self._rfft(padded)

    def constrained(self, G: np.ndarray) -> np.ndarray:
        """G with each partition's response cut to one block, as overlap-save needs."""
        g = self._irfft(G)
        g[..., self.block :] = 0
        return self._rfft(g)

    def response(self, W: np.ndarray) -> np.ndarray:
        """The impulse response of one filter."""
        return self._irfft(W)[:, : self.block].ravel()

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        # Order newest first, so that the file does not depend on where the ring stands.
        return {"far": self.far, "frame": self.mic, "spectra": as_real(np.roll(self.X, -self.newest, 0))}, {
            "fill": self.fill
        }

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.far[:], self.mic[:], self.fill = arrays["far"], arrays["frame"], int(meta["fill"])
        self.X[:], self.newest = as_complex(arrays["spectra"]), 0


def as_real(values: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs: model files hold real arrays."""
    return np.ascontiguousarray(values).view(np.float32)


def as_complex(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.complex64)


@kernel(reassociate=True)
def products(X, newest, W, Y):
    """Y_i = Σ_p X_p·W_ip."""
    partitions = X.shape[0]
    for i in range(W.shape[0]):
        for k in range(X.shape[1]):
            Y[i, k] = 0
        for p in range(partitions):
            row = (newest + p) % partitions
            for k in range(X.shape[1]):
                Y[i, k] += X[row, k] * W[i, p, k]
