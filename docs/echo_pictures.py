"""The pictures of docs/echo.md: a call, the room being learned, the theorem's bound, the cost of long filters."""

from __future__ import annotations

import itertools
import pathlib
import warnings
from typing import Any

import numpy as np

import trueline as tl
from trueline.signal.echo import EchoCanceller, shift_of, shifted
from trueline.signal.material import Scene, scene
from trueline.signal.meter import Summary
from trueline.signal.picture import draw as draw_call

BLUE, ORANGE, GREEN, GREY = "#1f5fae", "#c4561c", "#23825a", "#a9adb4"


def draw(folder: pathlib.Path) -> None:
    """Draw every picture of the page."""
    folder = pathlib.Path(folder)
    made = scene("double_talk", "office", delay=0.08)
    call(made).savefig(folder / "echo_call.png", dpi=90)
    learning(scene("echo_only", "office")).savefig(folder / "echo_learning.png", dpi=90)
    bound(scene("echo_only", "booth", seconds=12.0, rate=4000)).savefig(folder / "echo_bound.png", dpi=90)
    cost(scene("echo_only", "office", seconds=4.0)).savefig(folder / "echo_cost.png", dpi=90)


def panel(rows: int = 1, size: tuple[float, float] = (8, 3.4)) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.25, lw=0.6)
    return figure, axes


def call(made: Scene) -> Any:
    """The picture of ``trueline echo --plot`` for a call whose second half is double talk."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lag = round(tl.cancel_echo(made.far, made.mic, made.rate).delay * made.rate)
    shift = shift_of(lag, made.rate)
    canceller = EchoCanceller(made.rate)
    canceller.process(shifted(made.far, shift), made.mic)
    response = np.concatenate([np.zeros(shift), canceller.filter.impulse_response])
    return draw_call(Summary(canceller.meter), response, made.rate, canceller.block)


def learning(made: Scene) -> Any:
    """The response learned after a quarter of a second, one second and ten, over the true one."""
    figure, axes = panel(3, (8, 6))
    adaptive = tl.AdaptiveFilter(4096, "kalman", sample_rate=made.rate)
    shown, done = slice(0, round(0.06 * made.rate)), 0
    time = 1000 * np.arange(shown.stop) / made.rate
    for one, seconds in zip(axes, (0.5, 1.5, 10.0)):
        until = round(seconds * made.rate)
        adaptive.process(made.far[done:until], made.mic[done:until])
        done = until
        learned = adaptive.impulse_response
        size = min(len(learned), len(made.response))
        off = np.sum((learned[:size] - made.response[:size]) ** 2) / np.sum(made.response**2)
        one.plot(time, made.response[shown], color=GREY, lw=2.2, label="the room")
        one.plot(time, learned[shown], color=BLUE, lw=0.9, label="learned")
        one.set_title(
            f"after {seconds:g} s: what is wrong has {10 * np.log10(off):.0f} dB of the room's energy".replace(
                "-", "−"
            ),
            loc="left",
            fontsize=10,
        )
    axes[0].legend(frameon=False, loc="upper right")
    axes[-1].set_xlabel("milliseconds")
    return figure


def bound(made: Scene) -> Any:
    """Widrow–Hoff's loss as it is suffered, the best fixed filter's, and the theorem's bound above both."""
    taps = len(made.response)
    windows = np.convolve(made.far**2, np.ones(taps))[: len(made.far)]
    lms = tl.AdaptiveFilter(taps, "lms", rate=0.5 / windows.max(), certify=True, dtype="float64")
    steps = np.arange(0, len(made.far) + 1, made.rate // 2)
    proofs = []
    for start, stop in itertools.pairwise(steps):
        lms.process(made.far[start:stop], made.mic[start:stop])
        proofs.append(lms.certificate())
    time = steps[1:] / made.rate
    figure, (one,) = panel(size=(8, 3.8))
    silent = [float((made.mic[:stop] ** 2).sum()) for stop in steps[1:]]
    one.plot(time, silent, color=GREY, lw=1.4, label="echo, no filter")
    one.plot(time, [proof.bound for proof in proofs], color=ORANGE, lw=1.6, label="the theorem's bound")
    one.plot(time, [proof.loss for proof in proofs], color=BLUE, lw=1.6, label="LMS, as suffered")
    one.plot(time, [proof.best_fixed_loss for proof in proofs], color=GREEN, lw=1.6, label="best fixed filter")
    one.set_yscale("log")
    one.set_xlabel("seconds")
    one.set_ylabel("sum of squared errors")
    one.legend(frameon=False, ncols=2)
    return figure


def cost(made: Scene) -> Any:
    """µs a sample over the taps, both logarithmic."""
    from benchmarks.echo import costs

    figure, (one,) = panel(size=(8, 4))
    for (method, points), colour in zip(costs(made, rounds=8).items(), (GREY, GREEN, BLUE, ORANGE, "0.3")):
        taps, micros = zip(*points)
        one.loglog(taps, micros, "o-", color=colour, lw=1.4, ms=4)
        one.annotate(
            method,
            (taps[-1], micros[-1]),
            (6, {"nlms": 9, "kalman": -2, "fdaf": -8}.get(method, 0)),
            textcoords="offset points",
            va="center",
            color=colour,
        )
    one.axhline(1e6 / made.rate, color="0.5", lw=0.8, ls="--")
    one.annotate(
        "real time at 16 kHz", (16, 1e6 / made.rate), (0, 3), textcoords="offset points", color="0.4", fontsize=9
    )
    one.set_xlim(12, 40_000)
    one.set_xlabel("taps")
    one.set_ylabel("µs a sample")
    return figure
