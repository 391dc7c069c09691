"""Rooms: the response from a loudspeaker to a microphone in a box, by mirror images.

Every reflection in a rectangular room is the direct sound of a mirrored source. An image at distance D arrives after
D/c seconds, weakened by 1/D and by one factor a wall it was mirrored in. The factor is found by bisection so that the
room's energy really falls at the rate asked for (Sabine's and Eyring's formulas assume a diffuse field, which a box
is not: its late sound flutters between the hardest pair of walls). Arrivals between samples are placed by a windowed
sinc. Reflections that never change sign add up to a large gain at 0 Hz that no loudspeaker radiates, so the response
is high-passed as a loudspeaker would, at 100 Hz unless the room says otherwise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

SPEED_OF_SOUND = 343.0
_HALF_WIDTH = 20


class Room(NamedTuple):
    """A box: size, loudspeaker and microphone positions in metres, reverberation time (60 dB) in seconds, and the
    lowest frequency in Hz that the loudspeaker radiates (0: all of it, rumble included)."""

    size: tuple[float, float, float]
    speaker: tuple[float, float, float]
    microphone: tuple[float, float, float]
    reverberation: float
    lowest: float = 100.0


ROOMS = {
    "booth": Room((2.6, 2.1, 2.3), (0.9, 1.0, 1.1), (1.3, 1.35, 1.2), 0.15),
    "office": Room((4.2, 3.4, 2.6), (1.6, 1.2, 0.9), (2.0, 1.9, 1.1), 0.2),
    "kitchen": Room((3.6, 3.1, 2.5), (0.8, 2.3, 1.3), (2.1, 1.2, 1.2), 0.25),
    "parlour": Room((5.4, 4.3, 2.7), (1.3, 1.1, 1.0), (3.2, 2.4, 0.9), 0.25),
    "meeting": Room((6.5, 5.1, 2.9), (2.4, 2.2, 0.8), (3.6, 2.9, 0.8), 0.3),
}


def respond(room: Room | str, rate: int = 16_000, seconds: float | None = None) -> np.ndarray:
    """The impulse response of a room, scaled so that the direct sound would be 1 at one metre.

    >>> response = respond("booth", 16_000)
    >>> int(abs(response).argmax()), len(response)  # the direct path: 0.54 m
    (25, 2400)
    """
    box = ROOMS[room] if isinstance(room, str) else room
    count = round((box.reverberation if seconds is None else seconds) * rate)
    size = np.array(box.size)
    reach = np.ceil(count / rate * SPEED_OF_SOUND / (2 * size)).astype(int) + 1
    offsets, bounces = [], []
    for axis in range(3):
        n = np.arange(-reach[axis], reach[axis] + 1)
        same = 2 * n * size[axis] + box.speaker[axis] - box.microphone[axis]
        mirrored = 2 * n * size[axis] - box.speaker[axis] - box.microphone[axis]
        offsets.append(np.concatenate([same, mirrored]))
        bounces.append(np.concatenate([np.abs(2 * n), np.abs(2 * n - 1)]))
    distance = np.sqrt(
        (offsets[0] ** 2)[:, None, None] + (offsets[1] ** 2)[None, :, None] + (offsets[2] ** 2)[None, None, :]
    )
    order = bounces[0][:, None, None] + bounces[1][None, :, None] + bounces[2][None, None, :]
    arrival = distance * (rate / SPEED_OF_SOUND)
    heard = arrival < count
    arrival, distance, order = arrival[heard], np.maximum(distance[heard], 0.05), order[heard]
    wall = _wall(arrival / rate, distance, order, box.reverberation)
    return _radiated(_place(arrival, wall**order / distance, count), rate, box.lowest)


def _radiated(response: np.ndarray, rate: int, lowest: float) -> np.ndarray:
    """Through a loudspeaker in a closed box: 12 dB an octave below its lowest frequency."""
    from scipy.signal import butter, lfilter

    return lfilter(*butter(2, lowest, "highpass", fs=rate), response) if lowest else response


def _wall(arrival: np.ndarray, distance: np.ndarray, order: np.ndarray, reverberation: float) -> float:
    """The factor a reflection at which the energy still to come falls from −5 to −25 dB in a third of the time."""
    slot = (arrival * 1000).astype(int)
    low, high = 0.0, 1.0
    for _ in range(20):
        wall = (low + high) / 2
        energy = np.bincount(slot, wall ** (2.0 * order) / distance**2)
        to_come = np.cumsum(energy[::-1])[::-1]
        level = 10 * np.log10(np.maximum(to_come / to_come[0], 1e-30))
        span = (np.searchsorted(-level, 25) - np.searchsorted(-level, 5)) / 1000
        low, high = (wall, high) if span < reverberation / 3 else (low, wall)
    return low


def _place(arrival: np.ndarray, strength: np.ndarray, count: int) -> np.ndarray:
    """Add pulses at fractional times, each as a Hann-windowed sinc."""
    response = np.zeros(count + 2 * _HALF_WIDTH + 1)
    first = np.floor(arrival).astype(int)
    for k in range(-_HALF_WIDTH + 1, _HALF_WIDTH + 1):
        offset = k - (arrival - first)
        window = 0.5 + 0.5 * np.cos(math.pi * offset / (_HALF_WIDTH + 1))
        response += np.bincount(first + k + _HALF_WIDTH, strength * np.sinc(offset) * window, len(response))
    return response[_HALF_WIDTH : _HALF_WIDTH + count]
