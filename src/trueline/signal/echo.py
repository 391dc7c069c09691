"""Echo cancellation without anything to set but the tail: find the delay, learn the room, subtract, say what was wrong.

``cancel_echo`` works on two arrays; ``EchoCanceller`` on blocks as a sound card gives them. Both run the
frequency-domain Kalman filter (echo/kalman_filter.py) on the sound as it is: nothing but the predicted echo is taken
out of the microphone. ``Survey`` looks at a whole recording first, in flat memory.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from ..errors import DataError, UsageError, named_options
from .delay import FOUND, Delay, Envelopes
from .drift import warp
from .filters import AdaptiveFilter
from .meter import Levels, Meter, Summary

MARGIN = 0.004  # seconds of the response kept before the delay found


class EchoWarning(UserWarning):
    """Something about the recordings that limits what any linear canceller can do."""


@dataclasses.dataclass(frozen=True)
class EchoResult:
    """What ``cancel_echo`` gives back.

    ``clean`` is the microphone without the echo, ``echo`` what was subtracted. ``erle`` (dB) and ``double_talk`` have
    one entry a ``block`` of samples; a block is flagged while something other than the predicted echo is heard over an
    active far end, which includes the first moments, before the room is learned. ``delay`` is in seconds. ``drift`` is
    in parts per million, 0 unless seen.
    """

    clean: np.ndarray
    echo: np.ndarray
    erle: np.ndarray
    double_talk: np.ndarray
    delay: float
    drift: float
    rate: float
    block: int
    impulse_response: np.ndarray
    overall_erle: float
    converged_erle: float
    warnings: tuple[str, ...]


class EchoCanceller:
    """Cancel echo in blocks of any size, one sample included, with no delay of its own.

    >>> import numpy as np
    >>> canceller = EchoCanceller(8000, tail=0.064)
    >>> clean = canceller.process(np.zeros(80), np.zeros(80))
    >>> len(clean), float(abs(clean).max())
    (80, 0.0)
    """

    def __init__(self, rate: float, tail: float = 0.256, delay: float = 0.0) -> None:
        self.rate, self.tail = checked_rate(rate), checked_tail(tail)
        if not delay >= 0:
            raise UsageError(f"delay must be at least 0 seconds, not {delay!r}", where="delay")
        self.filter = AdaptiveFilter(max(1, round(tail * self.rate)), "kalman", sample_rate=self.rate)
        self.block: int = self.filter._spectra.block
        self.meter = Meter(self.block, self.block / self.rate)
        self._line = np.zeros(round(delay * self.rate), np.float32)

    def process(self, far: Any, mic: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The block of ``mic`` without the echo of ``far``."""
        far, mic = np.atleast_1d(far), np.atleast_1d(mic)
        self.filter._check(far, mic, out)
        held = far
        if len(self._line):
            joined = np.concatenate([self._line, far.astype(np.float32)])
            held, self._line = joined[: len(far)], joined[len(far) :]
        clean = self.filter.process(held, mic, out)
        self.meter.add(held, mic, clean)
        return clean

    def rewind(self) -> None:
        """Begin another recording, or the same again, with the room already learned."""
        self.filter._spectra.silence()
        self.meter = Meter(self.block, self.block / self.rate)
        self._line[:] = 0


class Survey:
    """A first look at both recordings, block by block: delay, drift, clipping, silence, rates."""

    def __init__(self, rate: float, corrected: bool = False) -> None:
        self.rate, self.corrected = rate, corrected
        self.found = False  # an echo
        self.delay, self.envelopes = Delay(rate), Envelopes(rate)
        self.levels = {"far": Levels(), "mic": Levels()}

    def add(self, far: np.ndarray, mic: np.ndarray) -> None:
        self.delay.add(far, mic)
        self.envelopes.add(far, mic)
        self.levels["far"].add(far)
        self.levels["mic"].add(mic)

    def conclude(self) -> tuple[int, float, tuple[str, ...]]:
        """(delay in samples, drift in parts per million, warnings)."""
        found: list[str] = []
        for name, level in self.levels.items():
            if level.silent:
                found.append(f"{name} is silent: there is no echo to cancel")
            elif level.clipped:
                found.append(f"{name} is clipped at {level.peak:.3g}: a linear filter cannot undo it; lower its level")
        if any(level.silent for level in self.levels.values()):
            return 0, 0.0, tuple(found)
        _, strength = self.delay.estimate()
        lag, drift = self.delay.onset(), self.delay.drift()
        self.found = strength >= FOUND
        if not self.found:
            rates = self.envelopes.mismatch()
            if rates:
                found.append(
                    f"the sample rates differ: mic fits far best as {rates[0]} Hz against {rates[1]} Hz; resample one"
                )
            else:
                found.append("no echo of far was found in mic within one second either way; the delay was left at 0")
            lag = 0
        elif drift.seen:
            remedy = (
                "it was undone"
                if self.corrected
                else "it limits the result; use one clock, or correct_drift=True (--correct-drift)"
            )
            found.append(f"the clocks drift by {drift.parts_per_million:+.0f} parts per million: {remedy}")
        return lag, drift.parts_per_million if drift.seen else 0.0, tuple(found)


@named_options
def cancel_echo(
    far: Any,
    mic: Any,
    rate: float,
    tail: float = 0.256,
    *,
    delay: float | None = None,
    correct_drift: bool = False,
    passes: int = 1,
) -> EchoResult:
    """Remove the echo of ``far`` from ``mic``: two recordings of one length, as arrays of floats in [−1, 1].

    Parameters
    ----------
    rate : samples per second of both.
    tail : seconds of echo to learn; as long as the room rings.
    delay : seconds between far end and echo; found by itself where it is not given.
    correct_drift : warp the far end by the drift of the clocks found, before cancelling.
    passes : 2 goes over the recording again from what was learned, so the first second is clean too.

    >>> from trueline.signal.material import scene
    >>> made = scene("echo_only", room="booth", seconds=4.0)
    >>> result = cancel_echo(made.far, made.mic, made.rate)
    >>> len(result.clean) == len(made.mic), result.converged_erle > 15
    (True, True)
    """
    far, mic = np.asarray(far), np.asarray(mic)
    rate, tail = checked_rate(rate), checked_tail(tail)
    check_lengths(len(np.atleast_1d(far)), len(np.atleast_1d(mic)), rate, tail)
    if isinstance(passes, bool) or passes not in (1, 2):
        raise UsageError(f"passes must be 1 or 2, not {passes!r}", where="passes")
    canceller = EchoCanceller(rate, tail)
    canceller.filter._check(far, mic, None)
    survey = Survey(rate, correct_drift)
    survey.add(far.astype(float), mic.astype(float))
    lag, drift, found = survey.conclude()
    if delay is not None:
        lag = round(delay * rate)
    for message in found:
        warnings.warn(message, EchoWarning, stacklevel=2)
    heard = warp(far.astype(float), drift * 1e-6) if correct_drift and drift else far
    heard = shifted(heard, shift_of(lag, rate)).astype(np.float32)
    for again in range(passes):
        if again:
            canceller.rewind()
        clean = canceller.process(heard, mic.astype(np.float32)).astype(float)
    summary = Summary(canceller.meter)
    response = np.concatenate([np.zeros(max(0, shift_of(lag, rate))), canceller.filter.impulse_response])
    return EchoResult(
        clean=clean, echo=mic - clean, erle=summary.erle, double_talk=summary.double_talk, delay=lag / rate, drift=drift,
        rate=rate, block=canceller.block, impulse_response=response, overall_erle=summary.overall,
        converged_erle=summary.converged, warnings=found,
    )  # fmt: skip


def shift_of(lag: int, rate: float) -> int:
    """By how much the far end is delayed: a little less than the lag, so that the response's onset is inside."""
    margin = round(MARGIN * rate)
    return lag - margin if lag < 0 or lag > margin else 0


def shifted(far: np.ndarray, shift: int) -> np.ndarray:
    """``far`` later (or, for a negative shift, earlier) by some samples, the same length."""
    if shift == 0:
        return far
    moved = np.zeros_like(far)
    if abs(shift) < len(far):
        if shift > 0:
            moved[shift:] = far[:-shift]
        else:
            moved[:shift] = far[-shift:]
    return moved


def checked_rate(rate: Any) -> float:
    return _between(rate, 1000, 1e6, "rate", "samples per second, from 1,000 to 1,000,000")


def checked_tail(tail: Any) -> float:
    return _between(tail, 0.001, 10, "tail", "from 0.001 to 10 seconds")


def _between(given: Any, low: float, high: float, name: str, accepted: str) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high:
        raise UsageError(f"{name} must be {accepted}, not {given!r}", where=name)
    return number


def check_lengths(far: int, mic: int, rate: float, tail: float) -> None:
    """Refuse recordings that do not fit each other or the tail."""
    if far == 0 or mic == 0:
        raise DataError(f"{'far' if far == 0 else 'mic'} has no samples", where="far" if far == 0 else "mic")
    if far != mic:
        raise DataError(
            f"far has {far} samples but mic has {mic}; cut both to one length (on the command line: --shortest)",
            where="mic",
        )
    if tail * rate > mic:
        raise DataError(
            f"the tail of {tail:g} s is longer than the recording of {mic / rate:.3g} s; use a shorter tail",
            where="tail",
        )
