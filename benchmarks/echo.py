"""Echo cancellers on the same files: trueline, SpeexDSP (the system's library, by ctypes), padasip, pyroomacoustics.

Quality is the ratio of what the peer leaves to what trueline leaves, in energy: 4.0× is 6 dB. SpeexDSP runs at its
better frame size of each scene, 128 or 256 samples. Its notch filter changes the near end by itself, so its near-end
distortion is measured against what it makes of the near end alone; trueline's against the near end itself. All
cancellers go over the recording once. trueline's constants were chosen on the five named rooms and on the rooms of
seeds 101 to 116; the rooms, voices and delays of the rows "unseen" are drawn from other seeds and were used for nothing
but these rows.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import statistics
import time
import warnings
from typing import Any

import numpy as np

import trueline as tl
from trueline.signal.material import Scene, scene, stranger
from trueline.signal.rooms import ROOMS

from .harness import Row, interleaved

NAME = "Echo cancellation"
TAIL, RATE = 0.256, 16_000
TAPS = round(TAIL * RATE)
PAIRS = (("alto", "bass", 1), ("tenor", "child", 12), ("bass", "alto", 23), ("child", "tenor", 34))  # the rows use two
UNSEEN = range(201, 213)
SIX_DB, THREE_DB = 10**0.6, 10**0.3
SET_SAMPLING_RATE = 24


def speex_library() -> Any:
    """SpeexDSP, or None where it is not installed (Debian's package is libspeexdsp1)."""
    try:
        speex = ctypes.CDLL(ctypes.util.find_library("speexdsp") or "libspeexdsp.so.1")
    except OSError:
        return None
    speex.speex_echo_state_init.restype = ctypes.c_void_p
    speex.speex_echo_state_init.argtypes = [ctypes.c_int, ctypes.c_int]
    speex.speex_echo_cancellation.argtypes = [ctypes.c_void_p] * 4
    speex.speex_echo_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    speex.speex_echo_state_destroy.argtypes = [ctypes.c_void_p]
    return speex


def speex_cancel(speex: Any, far: np.ndarray, mic: np.ndarray, frame: int) -> np.ndarray:
    """What SpeexDSP sends instead of the microphone's sound."""
    state = speex.speex_echo_state_init(frame, TAPS)
    speex.speex_echo_ctl(state, SET_SAMPLING_RATE, ctypes.byref(ctypes.c_int(RATE)))
    play, heard = (np.round(np.clip(sound, -1, 1) * 32767).astype(np.int16) for sound in (far, mic))
    clean = np.zeros(len(mic), np.int16)
    for start in range(0, len(mic) - frame + 1, frame):
        at = 2 * start
        speex.speex_echo_cancellation(state, heard.ctypes.data + at, play.ctypes.data + at, clean.ctypes.data + at)
    speex.speex_echo_state_destroy(state)
    return clean / 32767


def decibels(above: np.ndarray, below: np.ndarray) -> float:
    return float(10 * np.log10((above**2).sum() / (below**2).sum()))


def again(made: Scene, clean: np.ndarray) -> float:
    """Seconds after the change until 250 ms with sound have 20 dB of ERLE; all that is left if that never comes."""
    window, change = RATE // 4, len(clean) // 2
    loud = 1e-3 * float(np.mean(made.echo**2))
    for start in range(change, len(clean) - window, window // 4):
        part = slice(start, start + window)
        if np.mean(made.echo[part] ** 2) > loud and decibels(made.mic[part], clean[part]) >= 20:
            return (start + window - change) / RATE
    return (len(clean) - change) / RATE


def score(made: Scene, clean: np.ndarray, near: np.ndarray) -> float:
    """ERLE of the second half, near-end SDR of the second half, or seconds to 20 dB again."""
    half = slice(len(clean) // 2, None)
    if made.kind == "double_talk":
        return decibels(near[half], (clean - near)[half])
    return again(made, clean) if made.kind == "path_change" else decibels(made.mic[half], clean[half])


def cancelled(made: Scene) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.cancel_echo(made.far, made.mic, made.rate, TAIL).clean


Case = tuple[str, Any, Any, Any, dict[str, Any]]  # group, room, far voice, near voice, the rest


def named(rooms: list[str], pairs: Any, lowest: float) -> list[Case]:
    """The rooms that the constants were chosen on."""
    return [
        (room, ROOMS[room]._replace(lowest=lowest), far, near, {"seed": seed})
        for room in rooms
        for far, near, seed in pairs
    ]


def unseen(seeds: Any) -> list[Case]:
    """Rooms, voices and delays drawn from seeds, each room with one pair of voices."""
    cases: list[Case] = []
    for seed in seeds:
        room, far, near, delay = stranger(seed)
        cases.append((f"seed {seed}: {room.reverberation:.2f} s, from {room.lowest:.0f} Hz", room, far, near,
                      {"seed": seed, "delay": delay}))  # fmt: skip
    return cases


def compared(speex: Any, kind: str, case: Case) -> tuple[float, float]:
    """(ours, SpeexDSP's at its better frame size) of one scene."""
    _, room, far_voice, near_voice, more = case
    made = scene(kind, room, far_voice, near_voice, **more)
    ours = score(made, cancelled(made), made.near)
    peers = []
    for frame in (128, 256):
        near = made.near
        if kind == "double_talk":
            near = speex_cancel(speex, np.zeros_like(made.far), made.near, frame)
        peers.append(score(made, speex_cancel(speex, made.far, made.mic, frame), near))
    return ours, min(peers) if kind == "path_change" else max(peers)


WHAT = {
    "echo_only": ("echo left over", "ERLE"),
    "noise": ("echo and noise left over, noise at −30 dB", "ERLE"),
    "double_talk": ("near-end distortion in double talk", "SDR"),
    "drift": ("echo left over, clocks 50 ppm apart", "ERLE"),
    "path_change": ("20 dB again after a path change", "time"),
}


def against_speex(speex: Any, label: str, cases: list[Case], kinds: Any = tuple(WHAT)) -> list[Row]:
    rows = []
    for kind in kinds:
        task, unit = f"{WHAT[kind][0]}{label}", WHAT[kind][1]
        found: dict[str, list[tuple[float, float]]] = {}
        for case in cases:
            found.setdefault(case[0], []).append(compared(speex, kind, case))
        every = [pair for pairs in found.values() for pair in pairs]
        if kind == "path_change":
            ours, theirs = (statistics.median(side) for side in zip(*every))
            wins = sum(a <= b / 2 for a, b in every)
            note = (
                f"median of {len(every)}; in at most half the time in {wins}, sooner in {sum(a < b for a, b in every)}"
            )
            rows.append(Row(task, ours, theirs, "SpeexDSP", "s", 2.0, note))
            continue
        gains = sorted(every, key=lambda pair: pair[0] - pair[1])
        typical = gains[len(gains) // 2]
        rows.append(
            _energy(f"{task}, typical", typical, unit, SIX_DB if kind in ("echo_only", "double_talk") else None)
        )
        means = {room: np.mean(pairs, axis=0) for room, pairs in found.items()}
        worst = min(means, key=lambda room: means[room][0] - means[room][1])
        aim = {"echo_only": THREE_DB, "double_talk": SIX_DB}.get(kind)
        rows.append(_energy(f"{task}, worst room ({worst})", tuple(means[worst]), unit, aim))
        if len(gains) > len(means):
            rows[
                -1
            ].note += f" (mean of its voices; worst of all {len(gains)} scenes {gains[0][0] - gains[0][1]:+.1f} dB)"
    return rows


def _energy(task: str, pair: tuple[float, float], unit: str, aim: float | None) -> Row:
    ours, theirs = pair
    note = f"{unit} {ours:.1f} dB against {theirs:.1f} dB: {ours - theirs:+.1f} dB"
    return Row(task, 10 ** (-ours / 10), 10 ** (-theirs / 10), "SpeexDSP", "of the energy", aim, note)


def speeds(made: Scene, quick: bool) -> list[Row]:
    """Seconds for the same samples: NLMS against padasip and pyroomacoustics, the canceller against real time."""
    import padasip
    import pyroomacoustics

    far, mic = made.far.astype(np.float32), made.mic.astype(np.float32)
    rows = []
    for taps in (256, 1600, 4096):
        count = 2000
        padded = np.concatenate([np.zeros(taps - 1, np.float32), far[RATE : RATE + count]])
        windows = np.lib.stride_tricks.sliding_window_view(padded, taps)[:, ::-1].astype(float)
        part, target = far[RATE : RATE + count], mic[RATE : RATE + count]

        def ours(taps: int = taps) -> Any:
            return tl.AdaptiveFilter(taps, "nlms").process(far, mic)

        def theirs(taps: int = taps, windows: Any = windows, target: Any = target) -> Any:
            return padasip.filters.FilterNLMS(n=taps, mu=0.5, w="zeros").run(target.astype(float), windows)

        def others(taps: int = taps, part: Any = part, target: Any = target) -> Any:
            nlms = pyroomacoustics.adaptive.NLMS(taps, mu=0.5)
            for x, d in zip(part, target):
                nlms.update(x, d)

        ours()
        best, _ = interleaved({"ours": ours, "padasip": theirs, "pyroomacoustics": others}, 2 if quick else 5)
        per_sample = 1e6 * best["ours"] / len(far)
        for peer, aim in (("padasip", 20.0), ("pyroomacoustics", None)):
            note = "its windows made beforehand" if peer == "padasip" else ""
            rows.append(Row(f"NLMS, {taps} taps", per_sample, 1e6 * best[peer] / count, peer, "µs a sample", aim, note))
    seconds = len(far) / RATE

    def kalman() -> Any:
        return tl.AdaptiveFilter(TAPS, "kalman", sample_rate=RATE).process(far, mic)

    kalman()
    best, _ = interleaved({"kalman": kalman, "cancel_echo": lambda: cancelled(made)}, 2 if quick else 5)
    rows.append(Row("'kalman', 16 kHz, 256 ms", best["kalman"], seconds, "real time", "s", 50.0, "one core"))
    rows.append(
        Row("cancel_echo, delay and drift found", best["cancel_echo"], seconds, "real time", "s", 50.0, "one core")
    )
    return rows


def block_times(made: Scene) -> list[Row]:
    """The 99.9th percentile of one block's time against half a block."""
    far, mic = made.far.astype(np.float32), made.mic.astype(np.float32)
    rows = []
    for method in ("fdaf", "kalman"):
        adaptive = tl.AdaptiveFilter(TAPS, method, sample_rate=RATE)
        block = adaptive._spectra.block
        adaptive.process(far[:block], mic[:block])
        gc.collect()
        times = []
        for start in range(block, len(far) - block, block):
            began = time.perf_counter()
            adaptive.process(far[start : start + block], mic[start : start + block])
            times.append(time.perf_counter() - began)
        slow = float(np.quantile(times, 0.999))
        rows.append(
            Row(
                f"'{method}', 99.9th percentile of a block",
                1e3 * slow,
                1e3 * block / RATE / 2,
                "half a block",
                "ms",
                1.0,
            )
        )
    return rows


def costs(made: Scene, rounds: int = 3) -> dict[str, list[tuple[int, float]]]:
    """µs a sample of each method over the taps; docs/echo_pictures.py draws it."""
    far, mic = (sound[: 2 * RATE].astype(np.float32) for sound in (made.far, made.mic))
    found: dict[str, list[tuple[int, float]]] = {}
    for method, sizes in {
        "nlms": (256, 1024, 4096, 16_384), "fdaf": (256, 1024, 4096, 16_384), "kalman": (256, 1024, 4096, 16_384),
        "apa": (64, 256, 1024), "rls": (16, 64, 256),
    }.items():  # fmt: skip
        count = 2000 if method == "rls" else len(far)
        for taps in sizes:
            runs = []
            for _ in range(rounds + 1):
                adaptive = tl.AdaptiveFilter(taps, method)
                began = time.perf_counter()
                adaptive.process(far[:count], mic[:count])
                runs.append(time.perf_counter() - began)
            found.setdefault(method, []).append((taps, 1e6 * min(runs[1:]) / count))
    return found


def growth(made: Scene) -> list[Row]:
    """By how much a sample's cost grows when the taps grow 64-fold."""
    found = costs(made)
    rows = []
    for method in ("fdaf", "kalman", "nlms"):
        (few, cheap), *_, (many, dear) = found[method]
        note = f"{cheap:.2f} to {dear:.2f} µs a sample from {few} to {many} taps"
        aim = None if method == "nlms" else 4.0
        rows.append(
            Row(f"'{method}', growth of the cost", dear / cheap, many / few, "growth of the taps", "×", aim, note)
        )
    return rows


def run(quick: bool) -> list[Row]:
    speex = speex_library()
    rooms = ["office", "meeting"] if quick else list(ROOMS)
    rows: list[Row] = []
    if speex is None:
        print("libspeexdsp is not installed: its rows are left out")
    else:
        pairs = PAIRS[:1] if quick else PAIRS[:2]
        spoken = ("echo_only", "double_talk", "path_change")
        rows += against_speex(speex, "", named(rooms, pairs, 100.0))
        rows += against_speex(speex, ", rumbling loudspeakers", named(rooms, pairs[:1], 0.0), spoken)
        rows += against_speex(speex, ", unseen", unseen(UNSEEN[:2] if quick else UNSEEN), spoken)
    made = scene("echo_only", "office")
    return rows + speeds(made, quick) + block_times(made) + growth(made)
