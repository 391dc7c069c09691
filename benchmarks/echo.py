"""Echo cancellers on the same files: trueline, SpeexDSP (the system's library, by ctypes), padasip, pyroomacoustics.

Quality is the ratio of what the peer leaves to what trueline leaves, in energy: 4.0× is 6 dB. SpeexDSP runs at its
better frame size of each scene, 8 or 16 ms, and where there is a delay it is given the far end with the true delay,
which trueline finds. Its notch filter changes the near end by itself, so its near-end distortion is measured against
what it makes of the near end alone; trueline's against the near end itself. All cancellers go over the recording once.

trueline's constants were chosen on the five named rooms, on the strangers of seeds 101 to 116 and 301 to 320, and on the
varied scenes of seeds 401 to 420 and twenty much like them; the search for the first arrival on seeds 1001 to 1040, after
varied scene 610 had shown that it was missing. The rows "unseen" draw rooms, voices and delays, the rows "varied" also
the reverberation (0.15 to 0.5 s, the tail covers it), the sample rate, what is played and the noise, from other seeds,
used for nothing but these rows.
Noise bounds what anybody can gain; the rows name that bound, which is the ERLE of a filter that knows the room.
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
from trueline.signal.voices import Dice

from .harness import Row, interleaved

NAME = "Echo cancellation"
TAIL, RATE = 0.256, 16_000
TAPS = round(TAIL * RATE)
PAIRS = (("alto", "bass", 1), ("tenor", "child", 12), ("bass", "alto", 23), ("child", "tenor", 34))  # the rows use two
UNSEEN, VARIED = range(501, 521), range(701, 721)
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


def speex_cancel(
    speex: Any, far: np.ndarray, mic: np.ndarray, frame: int, rate: int = RATE, tail: float = TAIL
) -> np.ndarray:
    """What SpeexDSP sends instead of the microphone's sound."""
    state = speex.speex_echo_state_init(frame, round(tail * rate))
    speex.speex_echo_ctl(state, SET_SAMPLING_RATE, ctypes.byref(ctypes.c_int(rate)))
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
    window, change = made.rate // 4, len(clean) // 2
    loud = 1e-3 * float(np.mean(made.echo**2))
    for start in range(change, len(clean) - window, window // 4):
        part = slice(start, start + window)
        if np.mean(made.echo[part] ** 2) > loud and decibels(made.mic[part], clean[part]) >= 20:
            return (start + window - change) / made.rate
    return (len(clean) - change) / made.rate


def score(made: Scene, clean: np.ndarray, near: np.ndarray) -> float:
    """ERLE of the second half, near-end SDR of the second half, or seconds to 20 dB again."""
    half = slice(len(clean) // 2, None)
    if made.kind == "double_talk":
        return decibels(near[half], (clean - near)[half])
    return again(made, clean) if made.kind == "path_change" else decibels(made.mic[half], clean[half])


def cancelled(made: Scene, tail: float = TAIL) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.cancel_echo(made.far, made.mic, made.rate, tail).clean


Case = tuple[str, Any, Any, Any, dict[str, Any], float]  # group, room, far voice, near voice, the rest, the tail


def named(rooms: list[str], pairs: Any, lowest: float) -> list[Case]:
    """The rooms that the constants were chosen on."""
    return [
        (room, ROOMS[room]._replace(lowest=lowest), far, near, {"seed": seed}, TAIL)
        for room in rooms
        for far, near, seed in pairs
    ]


def unseen(seeds: Any) -> list[Case]:
    """Rooms, voices and delays drawn from seeds, each room with one pair of voices."""
    cases: list[Case] = []
    for seed in seeds:
        room, far, near, delay = stranger(seed)
        cases.append((f"seed {seed}: {room.reverberation:.2f} s, from {room.lowest:.0f} Hz", room, far, near,
                      {"seed": seed, "delay": delay}, TAIL))  # fmt: skip
    return cases


def varied(seeds: Any) -> list[Case]:
    """Larger rooms too, both telephone rates, speech, music and noise played, a noisier microphone."""
    cases: list[Case] = []
    for seed in seeds:
        dice = Dice(20_000 + seed)
        room, far, near, delay = stranger(seed)
        room = room._replace(reverberation=dice.uniform(0.15, 0.5))
        rate = 16_000 if dice.uniform() < 0.7 else 8_000
        noise = dice.uniform(-50, -25) if dice.uniform() < 0.6 else -65.0
        kind = ("speech", "speech", "speech", "music", "noise")[int(dice.uniform(0, 5))]
        played: Any = far
        if kind == "noise":
            played = np.clip(0.12 * dice.gaussian(18 * rate), -1, 1)
        elif kind == "music":
            played = music(18.0, rate, dice)
        name = f"seed {seed}: {kind}, {room.reverberation:.2f} s, {rate // 1000} kHz, noise {noise:.0f} dB"
        more = {"seed": seed, "delay": delay, "rate": rate, "noise": noise}
        cases.append((name, room, played, near, more, max(TAIL, np.ceil(room.reverberation / 0.016) * 0.016)))
    return cases


def music(seconds: float, rate: int, dice: Dice) -> np.ndarray:
    """Chords of plucked strings, slightly out of harmony, and a drum."""
    sound, at, beat = np.zeros(round(seconds * rate)), 0, int(dice.uniform(0.25, 0.5) * rate)
    while at < len(sound):
        for _ in range(int(dice.uniform(1, 4))):
            pitch = 110 * 2 ** (int(dice.uniform(0, 30)) / 12)
            time = np.arange(int(dice.uniform(0.4, 1.5) * rate)) / rate
            for k in range(1, 13):
                if pitch * k < 0.45 * rate:
                    tone = np.sin(2 * np.pi * pitch * k * np.sqrt(1 + 2e-4 * k * k) * time + dice.uniform(0, 6))
                    tone *= np.minimum(1, time / 0.005) * k**-1.2 * np.exp(-time * (2 + 0.6 * k))
                    sound[at : at + len(tone)] += tone[: len(sound) - at]
        if dice.uniform() < 0.6:
            hit = 0.6 * np.exp(-40 * np.arange(int(0.12 * rate)) / rate) * dice.gaussian(int(0.12 * rate))
            sound[at : at + len(hit)] += hit[: len(sound) - at]
        at += beat
    return 0.5 * sound / np.abs(sound).max()


def compared(speex: Any, kind: str, case: Case) -> tuple[float, float, float]:
    """(ours, SpeexDSP's at its better frame size, what noise allows) of one scene."""
    _, room, far_voice, near_voice, more, tail = case
    made = scene(kind, room, far_voice, near_voice, **more)
    ours = score(made, cancelled(made, tail), made.near)
    late = np.concatenate([np.zeros(round(more.get("delay", 0.0) * made.rate)), made.far])[: len(made.mic)]
    peers = []
    for frame in (made.rate // 125, made.rate * 2 // 125):
        near = made.near
        if kind == "double_talk":
            near = speex_cancel(speex, np.zeros_like(late), made.near, frame, made.rate, tail)
        peers.append(score(made, speex_cancel(speex, late, made.mic, frame, made.rate, tail), near))
    bound = score(made, made.mic - made.echo, made.near)
    return ours, min(peers) if kind == "path_change" else max(peers), bound


WHAT = {
    "echo_only": ("echo left over", "ERLE"),
    "noise": ("echo and noise left over, noise at −30 dB", "ERLE"),
    "double_talk": ("near-end distortion in double talk", "SDR"),
    "drift": ("echo left over, clocks 50 ppm apart", "ERLE"),
    "path_change": ("20 dB again after a path change", "time"),
}


def against_speex(speex: Any, label: str, cases: list[Case], kinds: Any = tuple(WHAT), aims: bool = True) -> list[Row]:
    """The typical scene (the median gain) and the worst room of each kind of scene."""
    rows = []
    for kind in kinds:
        task, unit = f"{WHAT[kind][0]}{label}", WHAT[kind][1]
        found: dict[str, list[tuple[float, float, float]]] = {}
        for case in cases:
            found.setdefault(case[0], []).append(compared(speex, kind, case))
        every = [scores for group in found.values() for scores in group]
        if kind == "path_change":
            ours, theirs = (statistics.median(side) for side in list(zip(*every))[:2])
            half, sooner = (sum(a <= b * share for a, b, _ in every) for share in (0.5, 1.0))
            note = f"median of {len(every)}; in at most half the time in {half}, not later in {sooner}"
            rows.append(Row(task, ours, theirs, "SpeexDSP", "s", 2.0 if aims else None, note))
            continue
        gains = sorted(every, key=lambda scores: scores[0] - scores[1])
        typical, worst_aim = gains[len(gains) // 2], {"echo_only": THREE_DB, "double_talk": SIX_DB}.get(kind)
        aim = SIX_DB if worst_aim else None
        rows.append(_energy(f"{task}, typical", typical, unit, aim if aims else None))
        means = {room: np.mean(group, axis=0) for room, group in found.items()}
        worst = min(means, key=lambda room: means[room][0] - means[room][1])
        rows.append(_energy(f"{task}, worst room ({worst})", tuple(means[worst]), unit, worst_aim if aims else None))
        if len(gains) > len(means):
            least = gains[0][0] - gains[0][1]
            rows[-1].note += f" (mean of its voices; worst of all {len(gains)} scenes {least:+.1f} dB)"
    return rows


def _energy(task: str, scores: tuple[float, ...], unit: str, aim: float | None) -> Row:
    ours, theirs, bound = scores
    note = f"{unit} {ours:.1f} dB against {theirs:.1f} dB: {ours - theirs:+.1f} dB; noise allows {bound:.1f}"
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
        rows += against_speex(speex, ", varied", varied(VARIED[:2] if quick else VARIED), spoken, aims=False)
    made = scene("echo_only", "office")
    return rows + speeds(made, quick) + block_times(made) + growth(made)
