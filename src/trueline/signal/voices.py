"""Synthesised speech-like voices: glottal pulses through moving formants, hiss, and pauses between phrases.

Not intelligible, but with what makes speech hard for an adaptive filter: harmonics, a spectrum 40 dB steeper than
white, loudness that changes every syllable and silence between phrases. Exactly reproducible: the only randomness is
PCG64's raw stream, which NumPy promises never to change, turned into numbers here.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Dice:
    """Uniform and Gaussian numbers from PCG64's raw stream."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        return low + (high - low) * (int(self._bits.random_raw()) >> 11) * 2.0**-53

    def gaussian(self, count: int) -> np.ndarray:
        """Box–Muller."""
        raw = (self._bits.random_raw(2 * count) >> np.uint64(11)).astype(float) * 2.0**-53
        return np.sqrt(-2 * np.log1p(-raw[:count])) * np.cos(2 * math.pi * raw[count:])


class Voice(NamedTuple):
    """A speaker: mean pitch in Hz, vocal-tract length relative to an average adult's, syllables per second."""

    pitch: float
    tract: float
    pace: float


VOICES = {
    "alto": Voice(205.0, 0.87, 4.6),
    "bass": Voice(98.0, 1.08, 4.0),
    "tenor": Voice(135.0, 1.0, 5.0),
    "child": Voice(280.0, 0.75, 3.8),
}
# First three formants, in Hz, of a, e, i, o, u and schwa.
_VOWELS = np.array(
    [[730, 1090, 2440], [530, 1840, 2480], [270, 2290, 3010], [570, 840, 2410], [300, 870, 2240], [500, 1500, 2500]],
    dtype=float,
)
_BANDWIDTHS = (70.0, 100.0, 140.0, 220.0, 300.0)


def speak(voice: Voice | str, seconds: float, rate: int = 16_000, seed: int = 0) -> np.ndarray:
    """Speech-like sound of one voice, peak 0.5.

    >>> sound = speak("alto", 1.0, 16_000, seed=3)
    >>> len(sound), round(float(abs(sound).max()), 3)
    (16000, 0.5)
    """
    chosen = VOICES[voice] if isinstance(voice, str) else voice
    dice = Dice(seed)
    count = round(seconds * rate)
    sound = np.zeros(count)
    at = int(dice.uniform(0.02, 0.15) * rate)
    while at < count:
        for _ in range(int(dice.uniform(4, 10))):  # a phrase
            syllable = _syllable(chosen, rate, dice)
            stop = min(count, at + len(syllable))
            if stop > at:
                sound[at:stop] += syllable[: stop - at]
            at += int(len(syllable) * dice.uniform(0.8, 1.0))
        at += int(dice.uniform(0.15, 0.5) * rate)  # a pause for breath
    return 0.5 * sound / max(np.abs(sound).max(), 1e-9)


def _syllable(voice: Voice, rate: int, dice: Dice) -> np.ndarray:
    """An optional consonant's hiss, then a vowel that glides towards another."""
    vowel = _vowel(voice, rate, dice)
    if dice.uniform() < 0.6:
        hiss = _hiss(rate, dice)
        overlap = min(len(hiss) // 3, len(vowel))
        joined = np.zeros(len(hiss) + len(vowel) - overlap)
        joined[: len(hiss)] += hiss
        joined[len(hiss) - overlap :] += vowel
        return joined
    return vowel


def _vowel(voice: Voice, rate: int, dice: Dice) -> np.ndarray:
    from scipy.signal import lfilter

    count = int(dice.uniform(0.7, 1.3) / voice.pace * rate)
    time = np.arange(count) / rate
    pitch = voice.pitch * dice.uniform(0.85, 1.2) * (1 + dice.uniform(-0.15, 0.15) * time / time[-1])
    phase = np.cumsum(pitch / rate * (1 + 0.01 * np.sin(2 * math.pi * 5 * time + dice.uniform(0, 6))))
    # One glottal pulse a period: a smooth opening and a sharper closing, then breath noise.
    turn = phase % 1.0
    source = np.where(turn < 0.6, np.sin(math.pi * turn / 0.6) ** 2 * turn, 0.0)
    source = np.diff(source, prepend=0.0) + 0.004 * dice.gaussian(count)
    start, end = _VOWELS[int(dice.uniform(0, 6))], _VOWELS[int(dice.uniform(0, 6))]
    weight = time / time[-1]
    sound = np.zeros(count)
    for piece in range(2):  # two fixed filters, cross-faded: a glide without time-varying poles
        target = (end if piece else start) / voice.tract
        formants = [*target, 3500 / voice.tract, 4500 / voice.tract]
        part = source
        for centre, width in zip(formants, _BANDWIDTHS):
            if centre < 0.45 * rate:
                radius = math.exp(-math.pi * width / rate)
                poles = [1.0, -2 * radius * math.cos(2 * math.pi * centre / rate), radius * radius]
                part = lfilter([sum(poles)], poles, part)
        sound += part * (weight if piece else 1 - weight)
    edge = np.minimum(1.0, np.minimum(time / 0.02, (time[-1] - time) / 0.05))
    return sound * edge * dice.uniform(0.4, 1.0) / max(np.abs(sound).max(), 1e-9)


def _hiss(rate: int, dice: Dice) -> np.ndarray:
    from scipy.signal import lfilter

    count = int(dice.uniform(0.04, 0.12) * rate)
    centre = dice.uniform(0.2, 0.4) * rate
    poles = [1.0, -2 * 0.8 * math.cos(2 * math.pi * centre / rate), 0.64]
    noise = lfilter([1.0], poles, dice.gaussian(count))
    shape = np.sin(math.pi * np.arange(count) / count)
    return 0.15 * dice.uniform(0.4, 1.0) * shape * noise / max(np.abs(noise).max(), 1e-9)
