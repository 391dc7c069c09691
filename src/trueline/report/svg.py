"""Drawings by hand: axes, ticks, lines, bands, points and cells as inline SVG, coloured by the page's own style.

No script, no font, no library: a figure is a string. Colours are CSS classes (``ink``, ``one``, ``two`` …) so that
one drawing serves the light page, the dark page and paper. Text goes through ``escape``: column names are data.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def escape(text: Any) -> str:
    """Text that is safe inside HTML and attributes."""
    return html.escape(str(text), quote=True)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About so many round numbers that cover an interval.

    >>> nice_ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    span = high - low
    if not math.isfinite(span) or span <= 0.0:
        return [low]
    raw = span / max(count, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next((m * unit for m in (1.0, 2.0, 2.5, 5.0) if m * unit >= raw * (1.0 - 1e-9)), 10.0 * unit)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within an interval, thinned to at most seven; with few of them, 2 and 5 between."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    powers = [10.0**k for k in range(first, last + 1)]
    if len(powers) > 7:
        powers = powers[:: math.ceil(len(powers) / 7)]
    if len(powers) < 3:
        powers = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return powers


def label(value: float) -> str:
    """A tick's label: short, with a true minus and thousands as k and M."""
    size = abs(value)
    if size == 0.0:
        return "0"
    if 1e4 <= size < 1e9:
        unit, mark = (1e6, "M") if size >= 1e6 else (1e3, "k")
        text = f"{value / unit:.4g}{mark}"
    elif size >= 1e9 or size < 1e-3:
        mantissa, _, power = f"{value:.2e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        exponent = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        text = f"10{exponent}" if mantissa == "1" else f"{mantissa}·10{exponent}"
    else:
        text = f"{value:.4g}"
    return text.replace("-", "−")


class Axes:
    """One drawing with its scales; every method adds marks, ``done`` gives the string."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        size: tuple[int, int] = (560, 320),
        margins: tuple[int, int, int, int] = (14, 16, 44, 58),
        x_log: bool = False,
        y_log: bool = False,
        x_name: str = "",
        y_name: str = "",
    ) -> None:
        self.width, self.height = size
        self.top, self.right, self.bottom, self.left = margins
        self.x_range, self.y_range = _padded(x, x_log), _padded(y, y_log)
        self.x_log, self.y_log = x_log, y_log
        self.x_name, self.y_name = x_name, y_name
        self.under: list[str] = []
        self.marks: list[str] = []
        self.over: list[str] = []

    def px(self, x: Any) -> np.ndarray:
        """Horizontal places."""
        room = self.width - self.left - self.right
        return self.left + room * _share(x, self.x_range, self.x_log)

    def py(self, y: Any) -> np.ndarray:
        """Vertical places."""
        room = self.height - self.top - self.bottom
        return self.height - self.bottom - room * _share(y, self.y_range, self.y_log)

    def frame(self, *, x_ticks: Sequence[float] | None = None, y_ticks: Sequence[float] | None = None) -> Axes:
        """Grid, ticks and names."""
        xs = (
            x_ticks
            if x_ticks is not None
            else (
                log_ticks(min(self.x_range), max(self.x_range))
                if self.x_log
                else nice_ticks(min(self.x_range), max(self.x_range), 6)
            )
        )
        ys = (
            y_ticks
            if y_ticks is not None
            else (
                log_ticks(min(self.y_range), max(self.y_range))
                if self.y_log
                else nice_ticks(min(self.y_range), max(self.y_range), 5)
            )
        )
        base, start = self.height - self.bottom, self.left
        for value in xs:
            at = float(self.px(value))
            self.under.append(f'<path class="grid" d="M{at:.1f} {self.top}V{base}"/>')
            self.over.append(
                f'<text class="tick" x="{at:.1f}" y="{base + 16}" text-anchor="middle">{label(value)}</text>'
            )
        for value in ys:
            at = float(self.py(value))
            self.under.append(f'<path class="grid" d="M{start} {at:.1f}H{self.width - self.right}"/>')
            self.over.append(
                f'<text class="tick" x="{start - 7}" y="{at + 3.5:.1f}" text-anchor="end">{label(value)}</text>'
            )
        if self.x_name:
            middle = (self.left + self.width - self.right) / 2
            self.over.append(
                f'<text class="name" x="{middle:.0f}" y="{self.height - 8}" text-anchor="middle">{escape(self.x_name)}</text>'
            )
        if self.y_name:
            middle = (self.top + base) / 2
            self.over.append(
                f'<text class="name" transform="translate(13 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(self.y_name)}</text>'
            )
        return self

    def line(self, x: Any, y: Any, style: str = "one", *, dashed: bool = False, thin: bool = False) -> Axes:
        """A line through the finite points; it breaks where they do."""
        px, py = np.atleast_1d(self.px(x)), np.atleast_1d(self.py(y))
        parts, pen = [], "M"
        for a, b in zip(px, py):
            if not (math.isfinite(a) and math.isfinite(b)):
                pen = "M"
                continue
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        extra = (" dashed" if dashed else "") + (" thin" if thin else "")
        self.marks.append(f'<path class="line {style}{extra}" d="{"".join(parts)}"/>')
        return self

    def band(self, x: Any, low: Any, high: Any, style: str = "one") -> Axes:
        """The area between two lines."""
        px, a, b = self.px(x), self.py(low), self.py(high)
        keep = np.isfinite(px) & np.isfinite(a) & np.isfinite(b)
        if not keep.any():
            return self
        there = "L".join(f"{u:.1f} {v:.1f}" for u, v in zip(px[keep], a[keep]))
        back = "L".join(f"{u:.1f} {v:.1f}" for u, v in zip(px[keep][::-1], b[keep][::-1]))
        self.marks.append(f'<path class="band {style}" d="M{there}L{back}Z"/>')
        return self

    def points(self, x: Any, y: Any, style: str = "one", radius: float = 3.0) -> Axes:
        """Dots."""
        for a, b in zip(np.atleast_1d(self.px(x)), np.atleast_1d(self.py(y))):
            if math.isfinite(a) and math.isfinite(b):
                self.marks.append(f'<circle class="dot {style}" cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"/>')
        return self

    def cells(self, x_edges: np.ndarray, y_edges: np.ndarray, counts: np.ndarray, style: str = "one") -> Axes:
        """Counts as shaded cells, the shade by the square root so that thin regions are seen."""
        top = counts.max() or 1.0
        px, py = self.px(x_edges), self.py(y_edges)
        for i, j in zip(*np.nonzero(counts)):
            shade = 0.12 + 0.88 * math.sqrt(counts[i, j] / top)
            self.marks.append(
                f'<rect class="cell {style}" x="{px[i]:.1f}" y="{py[j + 1]:.1f}" width="{px[i + 1] - px[i] + 0.3:.1f}" '
                f'height="{py[j] - py[j + 1] + 0.3:.1f}" fill-opacity="{shade:.2f}"/>'
            )
        return self

    def rule(self, *, x: float | None = None, y: float | None = None, style: str = "ink", dashed: bool = False) -> Axes:
        """A line across the whole drawing at one value."""
        path = (
            f"M{float(self.px(x)):.1f} {self.top}V{self.height - self.bottom}"
            if x is not None
            else f"M{self.left} {float(self.py(y)):.1f}H{self.width - self.right}"
        )
        self.marks.append(f'<path class="line thin {style}{" dashed" if dashed else ""}" d="{path}"/>')
        return self

    def note(
        self, x: float, y: float, text: str, style: str = "tick", anchor: str = "start", dx: float = 0, dy: float = 0
    ) -> Axes:
        """Words at a place in the data."""
        a, b = float(self.px(x)) + dx, float(self.py(y)) + dy
        self.over.append(f'<text class="{style}" x="{a:.1f}" y="{b:.1f}" text-anchor="{anchor}">{escape(text)}</text>')
        return self

    def legend(self, entries: Sequence[tuple[str, str, bool]], *, at: tuple[float, float] | None = None) -> Axes:
        """Names of the lines, in a row above the drawing: (name, style, dashed)."""
        x, y = at if at is not None else (self.left + 4.0, self.top - 8.0)
        for name, style, dashed in entries:
            self.over.append(f'<path class="line {style}{" dashed" if dashed else ""}" d="M{x:.0f} {y - 4:.0f}h18"/>')
            self.over.append(f'<text class="tick" x="{x + 23:.0f}" y="{y:.0f}">{escape(name)}</text>')
            x += 23 + 6.4 * len(name) + 16
        return self

    def done(self, title: str, description: str = "") -> str:
        """The drawing, named for people who hear it instead."""
        body = "".join([*self.under, *self.marks, *self.over])
        told = f"<desc>{escape(description)}</desc>" if description else ""
        return (
            f'<svg class="figure" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(title)}" '
            f'preserveAspectRatio="xMidYMid meet"><title>{escape(title)}</title>{told}{body}</svg>'
        )


def _share(values: Any, ends: tuple[float, float], log: bool) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    low, high = ends
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            values, low, high = np.log10(values), math.log10(low), math.log10(high)
    return (values - low) / (high - low)


def _padded(ends: tuple[float, float], log: bool) -> tuple[float, float]:
    """Finite, distinct ends: an axis of one value still has a length."""
    low, high = float(ends[0]), float(ends[1])
    if not (math.isfinite(low) and math.isfinite(high)):
        low, high = (1.0, 10.0) if log else (0.0, 1.0)
    if log:
        low, high = max(low, 1e-300), max(high, 1e-300)
        return (low / 2.0, low * 2.0) if high == low else (low, high)
    if abs(high - low) <= 1e-12 * max(abs(low), abs(high)):
        half = 0.5 * max(abs(low), 1.0)
        return low - half, high + half
    return low, high
