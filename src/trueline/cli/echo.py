"""``trueline echo``: two recordings in, clean speech out."""

from __future__ import annotations

import math
from typing import Annotated, Any, Optional

from . import options
from .declare import Argument, Option


def echo(
    far: Annotated[
        Optional[str],  # noqa: UP045
        Argument(help="What the loudspeaker played (WAV or FLAC).", show_default=False),
    ] = None,
    mic: Annotated[Optional[str], Argument(help="What the microphone heard.", show_default=False)] = None,  # noqa: UP045
    output: options.Output = None,
    tail: Annotated[str, Option(help="How long the room rings: 256ms, 0.3s.")] = "256ms",
    plot: Annotated[Optional[str], Option(help="Draw it: a PNG, SVG or PDF file.", show_default=False)] = None,  # noqa: UP045
    channel: Annotated[
        Optional[int],  # noqa: UP045
        Option(help="The channel to use of recordings that have several, from 1.", show_default=False),
    ] = None,
    shortest: Annotated[bool, Option("--shortest", help="Cut both recordings to the shorter one.")] = False,
    correct_drift: Annotated[bool, Option("--correct-drift", help="Undo the drift between the two clocks.")] = False,
    demo: Annotated[
        bool, Option("--demo", help="Make a call, far.wav and mic.wav, in this folder and clean it.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Remove the echo of one recording from another. Nothing to tune: the delay and the room are found.

    [bold]Examples[/bold]

    trueline echo far.wav mic.wav -o clean.wav

    trueline echo far.wav mic.wav -o clean.flac --tail 300ms --plot echo.png

    trueline echo --demo --plot echo.png
    """
    from ..errors import UsageError
    from ..signal.files import cancel_files, write_demo
    from .console import emit, paint, progress, say, show
    from .output import check_apart, check_picture

    check_apart((output, plot), ("far.wav", "mic.wav") if demo else (far, mic))
    check_picture(plot)
    if demo:
        if far or mic:
            raise UsageError("--demo makes its own recordings; give no files with it", where="demo")
        (far, mic), output = write_demo(), output or "clean.wav"
        say(f"made {far} and {mic}: both talk at once in the second half")
    if far is None or mic is None:
        raise UsageError("give two recordings, far and mic, or --demo to have a pair made", where="far")
    report = cancel_files(
        far, mic, output, tail=seconds(tail), channel=channel, shortest=shortest, correct_drift=correct_drift,
        through=lambda items, label, total: progress(items, label, None, total),
    )  # fmt: skip
    if plot:
        _draw(report, plot)
    for warning in report.warnings:
        say(f"{paint('warning:', 'yellow')} {warning}")
    if json:
        emit(numbers(report) | {"output": output, "plot": plot})
    else:
        show(told(report, output, plot))


def seconds(text: str) -> float:
    """``256ms``, ``0.256s`` or ``0.256`` in seconds.

    >>> seconds("256ms"), seconds("0.3 s")
    (0.256, 0.3)
    """
    from ..errors import UsageError

    given = text.strip().lower()
    scale = 0.001 if given.endswith("ms") else 1.0
    try:
        return float(given.removesuffix("ms").removesuffix("s")) * scale
    except ValueError:
        raise UsageError(f"--tail takes a time such as 256ms or 0.3s, not {text!r}", where="tail") from None


def numbers(report: Any) -> dict[str, Any]:
    """The report as plain numbers."""
    made = report.summary
    erle = {"first_second": made.first, "overall": made.overall, "converged": made.converged}
    losses = {"before": made.return_loss, "after": made.return_loss + made.converged}
    return {
        "seconds": report.seconds,
        "rate": report.rate,
        "delay": report.delay,
        "drift_ppm": report.drift,
        "erle": _known(erle),
        "echo_return_loss": _known(losses),
        "double_talk": made.talking,
        "real_time_factor": report.real_time_factor,
        "warnings": list(report.warnings),
    }


def _known(values: dict[str, float]) -> dict[str, float | None]:
    """Null for what could not be measured."""
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _level(value: float) -> str:
    return "     –" if math.isnan(value) else f"{value:6.1f}"


def told(report: Any, output: str | None, plot: str | None) -> str:
    """The report for people."""
    made = report.summary
    after = made.return_loss + made.converged
    late = "no echo was found" if report.delay is None else f"the echo comes after {1000 * report.delay:.1f} ms"
    lines = [
        f"{report.seconds:.1f} s at {report.rate:,} Hz; {late}",
        f"echo return loss   {_level(made.return_loss)} dB before, {_level(after).strip()} dB after",
        f"ERLE               {_level(made.first)} dB in the first second, {_level(made.converged).strip()} converged, "
        f"{_level(made.overall).strip()} overall",
        f"double talk        {100 * made.talking:6.1f} % of the far end's time",
        f"speed              {1 / max(report.real_time_factor, 1e-9):6.0f} × real time "
        f"(factor {report.real_time_factor:.4f})",
    ]
    lines += [f"wrote {path}" for path in (output, plot) if path]
    return "\n".join(lines)


def _draw(report: Any, path: str) -> None:
    from ..signal.picture import draw
    from .output import write_picture

    write_picture(path, draw(report.summary, report.impulse_response, report.rate, report.block))
