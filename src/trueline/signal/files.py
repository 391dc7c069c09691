"""Echo cancellation from file to file, in blocks: memory does not grow with the recording.

The recordings are read twice: once to find the delay, the drift and what is wrong, once to cancel. The clean file
appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, UsageError
from .drift import warp
from .echo import EchoCanceller, Survey, check_lengths, checked_tail, shift_of
from .meter import Summary

CHUNK = 1 << 16
_AROUND = 20  # samples that interpolation needs on either side


class Recording:
    """One channel of a sound file, read anywhere; outside of the file there is silence."""

    def __init__(self, path: str, role: str, channel: int | None) -> None:
        sound = _soundfile()
        if not os.path.isfile(path):
            raise DataError(f"there is no file {path}; give a WAV or FLAC file as {role}", where=role)
        try:
            self.file = sound.SoundFile(path)
        except sound.LibsndfileError as error:
            why = str(error).partition(":")[2].strip(" .'") or str(error)
            raise DataError(
                f"{path} is not a sound file that can be read ({why}); give WAV or FLAC", where=role
            ) from None
        self.path, self.role, self.rate, self.frames = path, role, self.file.samplerate, self.file.frames
        if self.file.channels > 1 and channel is None:
            raise DataError(
                f"{path} has {self.file.channels} channels; choose one with --channel 1 to --channel "
                f"{self.file.channels}",
                where=role,
            )
        if channel is not None and not 1 <= channel <= max(1, self.file.channels) and self.file.channels > 1:
            raise UsageError(f"{path} has no channel {channel}; it has 1 to {self.file.channels}", where="channel")
        self.channel = 0 if self.file.channels == 1 else int(channel or 1) - 1

    def read(self, start: int, count: int) -> np.ndarray:
        """Samples start … start + count − 1 as float32 in [−1, 1]."""
        made = np.zeros(count, np.float32)
        first, last = max(0, start), min(self.frames, start + count)
        if first < last:
            self.file.seek(first)
            made[first - start : last - start] = self.file.read(last - first, "float32", always_2d=True)[
                :, self.channel
            ]
        bad = ~np.isfinite(made)
        if bad.any():
            at = start + int(np.argmax(bad))
            raise DataError(f"{self.path} has a sample that is not a finite number, the first at {at}", where=self.role)
        return made


class FileReport(NamedTuple):
    """What was done: numbers for people and programs, arrays for the picture."""

    seconds: float
    rate: int
    delay: float | None
    drift: float
    summary: Summary
    real_time_factor: float
    impulse_response: np.ndarray
    block: int
    warnings: tuple[str, ...]


def cancel_files(
    far: str,
    mic: str,
    output: str | None,
    *,
    tail: float = 0.256,
    channel: int | None = None,
    shortest: bool = False,
    correct_drift: bool = False,
    through: Callable[[Any, str, int], Any] = lambda items, label, total: items,
) -> FileReport:
    """Write ``mic`` without the echo of ``far`` to ``output``. ``through`` wraps the loops, to show progress."""
    tail = checked_tail(tail)
    played, heard = Recording(far, "far", channel), Recording(mic, "mic", channel)
    if played.rate != heard.rate:
        raise DataError(
            f"{far} has {played.rate} samples per second but {mic} has {heard.rate}; resample one of them", where="mic"
        )
    rate = heard.rate
    frames = min(played.frames, heard.frames) if shortest else heard.frames
    check_lengths(frames if shortest else played.frames, frames, rate, tail)
    place = _place(output, heard)
    starts = range(0, frames, CHUNK)
    survey = Survey(rate, correct_drift)
    for start in through(starts, "listening", len(starts)):
        count = min(CHUNK, frames - start)
        survey.add(played.read(start, count), heard.read(start, count))
    lag, drift, warnings = survey.conclude()
    shift = shift_of(lag, rate)
    slope = drift * 1e-6 if correct_drift else 0.0
    EchoCanceller(rate, tail).process(silence := np.zeros(4096, np.float32), silence)  # compile before the clock starts
    canceller = EchoCanceller(rate, tail)
    spent = 0.0
    with _clean_file(place, rate) as write:
        for start in through(starts, "cancelling", len(starts)):
            count = min(CHUNK, frames - start)
            far_piece, mic_piece = _moved(played, start - shift, count, slope), heard.read(start, count)
            began = time.perf_counter()
            clean = canceller.process(far_piece, mic_piece)
            spent += time.perf_counter() - began
            write(clean)
    response = np.concatenate([np.zeros(max(0, shift), np.float32), canceller.filter.impulse_response])
    return FileReport(
        frames / rate, rate, lag / rate if survey.found else None, drift, Summary(canceller.meter), spent * rate / frames, response,
        canceller.block, warnings,
    )  # fmt: skip


def write_demo(folder: str = "") -> tuple[str, str]:
    """Write ``far.wav`` and ``mic.wav``, a synthesised call whose second half is double talk; the same bytes each time."""
    from .material import scene

    sound = _soundfile()
    paths = os.path.join(folder, "far.wav"), os.path.join(folder, "mic.wav")
    for path in paths:
        if os.path.exists(path):
            raise UsageError(f"{path} is already there; run the demo in an empty folder", where="demo")
    made = scene("double_talk", "office", delay=0.08)
    for path, samples in zip(paths, (made.far, made.mic)):
        try:
            sound.write(path, samples, made.rate, subtype="PCM_16")
        except (OSError, sound.LibsndfileError) as error:
            raise DataError(f"cannot write {path}: {error}; run the demo in another folder", where="demo") from None
    return paths


def _moved(played: Recording, start: int, count: int, slope: float) -> np.ndarray:
    """The far end from ``start`` on, warped by the clocks' drift."""
    if slope == 0:
        return played.read(start, count)
    first = math.floor(start - slope * start) - _AROUND
    piece = played.read(first, count + 2 * _AROUND + math.ceil(abs(slope) * count))
    return warp(piece.astype(float), slope, start, count, first).astype(np.float32)


def _place(output: str | None, like: Recording) -> tuple[Path, str, str] | None:
    """(path, format, subtype) of the output, checked before any work: the microphone's subtype where it fits."""
    if output is None:
        return None
    sound, target = _soundfile(), Path(output)
    kind = target.suffix.lstrip(".").upper()
    if kind not in sound.available_formats():
        raise UsageError(f"cannot write {output}: its name must end in .wav or .flac", where="output")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {target.parent}; make it first", where="output")
    subtype = like.file.subtype
    return target, kind, subtype if sound.check_format(kind, subtype) else sound.default_subtype(kind)


@contextlib.contextmanager
def _clean_file(place: tuple[Path, str, str] | None, rate: int) -> Any:
    """A function that appends to the output file, which is put in place at the end."""
    if place is None:
        yield lambda block: None
        return
    sound = _soundfile()
    target, kind, subtype = place
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with sound.SoundFile(scratch, "w", rate, 1, subtype, format=kind) as file:
            yield file.write
        scratch.replace(target)
    except (OSError, sound.LibsndfileError) as error:
        raise DataError(f"cannot write {target}: {error}; choose another place", where="output") from None
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError:
        raise UsageError("reading sound files needs soundfile: pip install 'trueline[audio]'", where="audio") from None
    return soundfile
