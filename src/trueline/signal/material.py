"""Test material with known ground truth: who spoke, what the room made of it, what the microphone heard.

``scene("double_talk", room="office")`` makes far end, microphone, true echo and true near end from synthesised voices
and an image-source room; the same call gives the same samples everywhere.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..errors import UsageError, nearest
from .rooms import ROOMS, Room, respond
from .voices import Dice, Voice, speak

KINDS = ("echo_only", "noise", "double_talk", "path_change", "drift", "clipping")
NEAR_FROM, CHANGE_AT = 0.5, 0.5  # as a share of the whole


@dataclasses.dataclass(frozen=True)
class Scene:
    """What was said and heard: ``mic = echo + near + noise`` (clipped where that is the scene)."""

    kind: str
    rate: int
    far: np.ndarray
    mic: np.ndarray
    echo: np.ndarray
    near: np.ndarray
    response: np.ndarray


def scene(
    kind: str = "echo_only",
    room: Room | str = "office",
    far_voice: Voice | str | np.ndarray = "alto",
    near_voice: Voice | str = "bass",
    *,
    seconds: float = 18.0,
    rate: int = 16_000,
    seed: int = 1,
    noise: float = -65.0,
    delay: float = 0.0,
    drift: float = 50.0,
) -> Scene:
    """One scene. ``far_voice`` may be the very samples that the loudspeaker plays. ``noise`` is the noise's level in dB relative to the echo (the scene "noise" uses −30), ``delay``
    in seconds is put before the room, ``drift`` in parts per million is used by the scene "drift".

    >>> made = scene("double_talk", seconds=4.0)
    >>> bool((made.near[: made.rate] == 0).all()), round(float(abs(made.mic).max()), 2) <= 1.0
    (True, True)
    """
    if kind not in KINDS:
        raise UsageError(f"there is no scene named {kind!r}{nearest(kind, KINDS)}", where="kind")
    count = round(seconds * rate)
    far = far_voice[:count] if isinstance(far_voice, np.ndarray) else speak(far_voice, seconds, rate, seed)
    response = _unit(respond(room, rate))
    heard = far
    if kind == "clipping":  # the loudspeaker's amplifier limits what the room hears
        heard = np.clip(far, -0.15, 0.15)
    if delay:
        heard = np.concatenate([np.zeros(round(delay * rate)), heard])[:count]
    echo = _through(heard, response)
    if kind == "path_change":
        box = ROOMS[room] if isinstance(room, str) else room
        (a, b, c), (x, y, z) = box.size, box.microphone
        moved = (a - x, b - y, c - z)  # the microphone is carried across the room
        other = _unit(respond(box._replace(microphone=moved), rate))
        after = int(CHANGE_AT * count)
        echo[after:] = _through(heard, other)[after:]
    if kind == "drift":
        echo = stretch(echo, drift)
    near = np.zeros(count)
    if kind == "double_talk":
        start = int(NEAR_FROM * count)
        near[start:] = speak(near_voice, seconds, rate, seed + 1000)[: count - start]
        near *= _level(echo[start:]) / max(_level(near[start:]), 1e-12)
    level = -30.0 if kind == "noise" else noise
    hum = Dice(seed + 2000).gaussian(count) * _level(echo) * 10 ** (level / 20)
    mic = echo + near + hum
    scale = 0.5 / np.abs(mic).max()
    if kind == "clipping":  # and the microphone's converter saturates
        mic = np.clip(mic * 2, -1 / (2 * scale), 1 / (2 * scale))
    return Scene(kind, rate, far, mic * scale, echo * scale, near * scale, response * scale)


def stranger(seed: int) -> tuple[Room, Voice, Voice, float]:
    """A room, a far and a near voice, and a delay in seconds that nobody has chosen: all drawn from the seed.

    >>> room, far_voice, near_voice, delay = stranger(7)
    >>> 2.2 <= room.size[0] <= 7.5 and 0.12 <= room.reverberation <= 0.25 and 0 <= delay <= 0.15
    True
    """
    dice = Dice(10_000 + seed)
    size = (dice.uniform(2.2, 7.5), dice.uniform(2.0, 6.0), dice.uniform(2.2, 3.2))
    speaker, microphone = (tuple(side * dice.uniform(0.2, 0.8) for side in size) for _ in range(2))
    lowest = (0.0, 60.0, 100.0, 200.0)[int(dice.uniform(0, 4))]
    room = Room(size, speaker, microphone, dice.uniform(0.12, 0.25), lowest)  # type: ignore[arg-type]
    far, near = (Voice(dice.uniform(90, 290), dice.uniform(0.75, 1.1), dice.uniform(3.6, 5.2)) for _ in range(2))
    return room, far, near, dice.uniform(0.0, 0.15)


def stretch(sound: np.ndarray, parts_per_million: float) -> np.ndarray:
    """The same sound read by a clock that runs slow by some parts per million, by windowed-sinc interpolation."""
    from .drift import warp

    return warp(sound, parts_per_million * 1e-6)


def _through(sound: np.ndarray, response: np.ndarray) -> np.ndarray:
    from scipy.signal import oaconvolve

    return oaconvolve(sound, response)[: len(sound)]


def _unit(response: np.ndarray) -> np.ndarray:
    return response / np.sqrt((response**2).sum())


def _level(sound: np.ndarray) -> float:
    return float(np.sqrt(np.mean(sound**2)))
