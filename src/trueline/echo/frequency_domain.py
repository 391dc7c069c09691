"""Long filters in the frequency domain, and LMS there. The tail is cut into partitions of one block, and each block is filtered by
overlap-save: y = last half of irfft(Σ_p X_p·W_p), X_p the spectrum of the last two blocks p blocks ago.

A method may look back: ``memory`` more frames are kept, and those with a far end can be asked for again. Each frame's
spectrum is kept once, in a ring, however many partitions and older frames use it.

A frame may be filled in pieces of any size, one sample included. The weights stand still inside a frame, so a piece's
output is what the whole frame's would have been, to rounding, with no delay; learning happens when the frame is full
and sees the same numbers however it was filled. FFTs are SciPy's, in single precision; what is between them is
compiled. A call of SciPy's costs as much as ten of these transforms, so what can go through one call does.
"""

from __future__ import annotations

import collections
import math
from typing import Any, Protocol

import cython
import numpy as np

from ..simd import Places
from .sound_walks import Singles, Spectrum

if not cython.compiled:  # compiled, these come from frequency_domain.pxd
    from .sound_walks import power_add, product_add, turned

GOLDEN = 0.6180339887498949  # its multiples, modulo 1, go everywhere and do not return
LEAST = 0.1  # of the loudest far end, in FrequencyLms's steps


class Rule(Protocol):
    """How weights answer an error: ``output`` is the echo estimate of the frame, ``learn`` is called when it is full."""

    def output(self, spectra: Any) -> np.ndarray: ...

    def learn(self, spectra: Any, mic: np.ndarray) -> None: ...


class Spectra:
    """Both ends as a filter sees them: the frame being filled, and a ring of the last ones, each a row after its successor."""

    def __init__(self, block: int, partitions: int, memory: int = 0) -> None:
        from scipy import fft

        self.block, self.partitions, self.memory, self.bins = block, partitions, memory, block + 1
        self.far = np.zeros(2 * block, np.float32)  # the previous block, then the current one
        self.mic = np.zeros(block, np.float32)
        self.fill = 0
        self.X = np.zeros((partitions + memory, self.bins), np.complex64)
        self.mics = np.zeros((partitions + memory, block) if memory else (0, block), np.float32)
        self.newest = 0
        self.frames = 0
        self.loud: collections.deque[int] = collections.deque()  # the remembered frames' numbers, oldest first
        self.rfft, self.irfft = fft.rfft, fft.irfft

    def process(self, rule: Rule, far: np.ndarray, mic: np.ndarray, out: np.ndarray) -> None:
        """Write the error of every sample into ``out``; learn at the end of each frame."""
        done = 0
        while done < len(far):
            count = min(self.block - self.fill, len(far) - done)
            piece = slice(self.fill, self.fill + count)
            self.far[self.block + piece.start : self.block + piece.stop] = far[done : done + count]
            self.mic[piece] = mic[done : done + count]
            self.X[self.newest] = self.rfft(self.far)
            self.fill += count
            if self.full:
                self.frames += 1
                if self.loud and self.loud[0] < self.frames - self.memory:
                    self.loud.popleft()
            echo = rule.output(self)
            np.subtract(self.mic[piece], echo[piece], out=out[done : done + count])
            done += count
            if self.full:
                rule.learn(self, self.mic)
                self._turn()

    @property
    def full(self) -> bool:
        """Is the frame complete, so that ``learn`` comes next?"""
        return self.fill == self.block

    def _turn(self) -> None:
        self.far[: self.block] = self.far[self.block :]
        self.far[self.block :] = 0
        self.fill = 0
        self.newest = (self.newest - 1) % len(self.X)

    def remember(self) -> None:
        """Let the current frame be one of those that ``older`` gives."""
        self.mics[self.newest] = self.mic
        self.loud.append(self.frames)

    def older(self, span: int) -> int:
        """The row of one of the last ``span`` remembered frames, another each time; the current one if there is none."""
        count = min(span, len(self.loud))
        if not count:
            return self.newest
        pick = int(count * (GOLDEN * self.frames % 1))
        return (self.newest + self.frames - self.loud[-1 - pick]) % len(self.X)

    def silence(self) -> None:
        """Forget the sound, not what was learned."""
        self.far[:], self.mic[:], self.X[:], self.fill = 0, 0, 0, 0
        self.loud.clear()

    def estimates(self, W: np.ndarray, rows: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The echo that the filters in W, taken in turn, predict for the frames at these rows: in the second halves.

        ``Y`` is room for their spectra; what it holds in further rows is transformed with them.
        """
        products(self.X, rows, W, Y)
        return self.irfft(Y)

    def error_spectra(self, errors: np.ndarray) -> np.ndarray:
        """Spectra of errors in the current half of a frame."""
        padded = np.zeros((errors.shape[0], 2 * self.block), np.float32)
        padded[:, self.block :] = errors
        return self.rfft(padded)

    def constrained(self, G: np.ndarray) -> np.ndarray:
        """G with each partition's response cut to one block, as overlap-save needs."""
        g = self.irfft(G)
        g[..., self.block :] = 0
        return self.rfft(g)

    def response(self, W: np.ndarray) -> np.ndarray:
        """The impulse response of one filter."""
        return self.irfft(W)[:, : self.block].ravel()

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        # Order newest first, so that the file does not depend on where the ring stands.
        arrays = {"far": self.far, "frame": self.mic, "spectra": as_real(np.roll(self.X, -self.newest, 0))}
        if self.memory:
            arrays |= {"mics": np.roll(self.mics, -self.newest, 0), "loud": np.array(self.loud, float)}
        return arrays, {"fill": self.fill, "frames": self.frames}

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.far[:], self.mic[:], self.fill = arrays["far"], arrays["frame"], int(meta["fill"])
        rows = as_complex(arrays["spectra"])
        self.X[: len(rows)], self.newest, self.frames = rows, 0, int(meta.get("frames", 0))
        if "mics" in arrays:  # not in files from before frames were remembered
            self.mics[:] = arrays["mics"]
            self.loud = collections.deque(int(number) for number in arrays["loud"])


def as_real(values: np.ndarray) -> np.ndarray:
    """Complex numbers as pairs: model files hold real arrays."""
    return np.ascontiguousarray(values).view(np.float32)


def as_complex(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.complex64)


class FrequencyLms:
    """Each bin takes a step of its own, normalised by the far end's power in it.

    W += constrained(rate·conj(X)·E/(½Σ_p|X_p|² + ε)), ε relative to the loudest far end so far.
    """

    def __init__(self, block: int, partitions: int, rate: float) -> None:
        self.rate = rate
        self.W = np.zeros((1, partitions, block + 1), np.complex64)
        self.loudest = 0.0
        self.resets = 0
        self._G = np.zeros_like(self.W)
        self._row, self._Y = np.zeros(1, np.int64), np.zeros((1, block + 1), np.complex64)
        self._power = np.zeros(block + 1, np.float32)
        self._echo = np.zeros(block, np.float32)

    @property
    def weights(self) -> np.ndarray:
        return self.W[0]

    def output(self, spectra: Spectra) -> np.ndarray:
        self._row[0] = spectra.newest
        self._echo = spectra.estimates(self.W, self._row, self._Y)[0, spectra.block :]
        return self._echo if math.isfinite(self._echo @ self._echo) else np.zeros_like(self._echo)

    def learn(self, spectra: Spectra, mic: np.ndarray) -> None:
        error = (mic - self._echo)[None]
        if not math.isfinite(error[0] @ error[0]):
            self.W[:] = 0
            self.resets += 1
            return
        half_power(spectra.X, self._power)
        self.loudest = max(self.loudest, float(self._power.mean()))
        if self.loudest == 0:
            return
        scale = np.float32(self.rate) / (self._power + np.float32(LEAST * self.loudest))
        conjugate_products(spectra.X, spectra.newest, spectra.error_spectra(error)[0] * scale, self._G)
        self.W += spectra.constrained(self._G)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"W": as_real(self.W)}, {"loudest": self.loudest, "resets": self.resets}

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.W[:] = as_complex(arrays["W"])
        self.loudest, self.resets = float(meta["loudest"]), int(meta["resets"])


def products(X: Spectrum, rows: Places, W: Spectrum, Y: Spectrum) -> None:
    """Y_j = Σ_p X_p·W_p, X_0 at the j-th row, W each filter in turn."""
    j: cython.Py_ssize_t
    p: cython.Py_ssize_t
    filters: cython.Py_ssize_t = W.shape[0]
    for j in range(rows.shape[0]):
        Y[j, :] = 0.0
        for p in range(W.shape[1]):
            product_add(X, (rows[j] + p) % X.shape[0], W, j % filters, p, Y, j)


def half_power(X: Spectrum, power: Singles) -> None:
    """½Σ_p|X_p|²."""
    p: cython.Py_ssize_t
    power[:] = 0.0
    for p in range(X.shape[0]):
        power_add(X, p, power)


def conjugate_products(X: Spectrum, newest: cython.Py_ssize_t, E: Spectrum, G: Spectrum) -> None:
    """G_p = conj(X_p)·E."""
    p: cython.Py_ssize_t
    for p in range(X.shape[0]):
        turned(X, (newest + p) % X.shape[0], E, G, p)
