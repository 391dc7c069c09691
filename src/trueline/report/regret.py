"""How an online run went: the records at doubling counts as a table for people and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..certificates.regret import BEST_MEMBER

COLUMNS = (
    ("examples", "examples"),
    ("average_loss", "average loss"),
    ("since_last", "since last"),
    ("label", "label"),
    ("prediction", "prediction"),
    ("best_fixed_loss", "best fixed"),
    ("best_member_loss", "best member"),
    ("regret", "regret"),
    ("bound", "bound"),
)

# Where the table would be wider than a terminal.
SHORTER = {"average loss": "average", "since last": "since", "prediction": "predicted"}
SHORTER |= {"best fixed": "fixed", "best member": "member"}
WIDE = 80


def compared(rows: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """What a run is compared with, by its last row that has it: the key of that loss, and its name in a legend.

    >>> compared([{"best_member_loss": 3.0}]), compared([{"best_fixed_loss": None}])
    (('best_member_loss', 'best member of the mixture'), ('best_fixed_loss', 'best fixed weights in hindsight'))
    """
    for row in reversed(rows):
        if row.get("best_fixed_loss") is not None:
            break
        if row.get("best_member_loss") is not None:
            return "best_member_loss", "best member of the mixture"
    return "best_fixed_loss", "best fixed weights in hindsight"


def progress_table(records: list[dict[str, Any]]) -> str:
    """A plain table, at most 80 columns wide.

    >>> print(progress_table([{"examples": 1, "average_loss": 1.0, "since_last": 1.0, "label": 1.0, "prediction": 0.0}]))
    examples  average loss  since last  label  prediction
           1             1           1      1           0
    """
    shown = [(key, title) for key, title in COLUMNS if any(key in record for record in records)]
    other = {"best_fixed_loss", "best_member_loss"} - {compared(records)[0]}
    shown = [(key, title) for key, title in shown if key not in other or any(r.get(key) is not None for r in records)]
    if any("average_mistakes" in record for record in records):
        shown.insert(3, ("average_mistakes", "mistakes"))
    cells = [[_cell(record[key]) if key in record else "" for key, _ in shown] for record in records]
    for titles in ([title for _, title in shown], [SHORTER.get(title, title) for _, title in shown]):
        widths = [max([len(title), *(len(row[k]) for row in cells)]) for k, title in enumerate(titles)]
        gap = min(2, (WIDE - sum(widths)) // max(1, len(widths) - 1))
        if gap > 0:
            break
    return "\n".join((" " * max(1, gap)).join(c.rjust(w) for c, w in zip(row, widths)) for row in [titles, *cells])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return str(max(range(len(value)), key=value.__getitem__))
    if isinstance(value, float):
        return _number(value) if math.isfinite(value) else ("–" if math.isnan(value) else "∞")
    return str(value) if len(str(value)) <= 9 else f"{str(value)[:8]}…"


def _number(value: float) -> str:
    """Four digits, whole from 10,000 to ten million; two where eight characters hold no more."""
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    usual = f"{value:.4g}"
    return usual if len(usual) <= 8 else f"{value:.2g}"


def _number_or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def regret_plot(records: list[dict[str, Any]], certificate: Any, ax: Any = None) -> Any:
    """Loss suffered, what it is compared with and the bound against examples, axes logarithmic; the matplotlib axes."""
    from .plots import axes

    ax = axes(ax, (7.0, 4.2))
    if hasattr(certificate, "best_fixed_loss") and certificate.examples > (records[-1]["examples"] if records else 0):
        now = {"examples": certificate.examples, "average_loss": certificate.loss / certificate.examples}
        best = {"best_fixed_loss": certificate.best_fixed_loss}
        if certificate.regret_to == BEST_MEMBER:
            best = {"best_member_loss": certificate.best_member_loss}
        records = [*records, now | best | {"bound": certificate.bound}]
    mistakes = hasattr(certificate, "mistakes")
    if mistakes and certificate.examples > (records[-1]["examples"] if records else 0):
        now = {"examples": certificate.examples, "average_mistakes": certificate.mistakes / certificate.examples}
        records = [*records, now | {"average_loss": math.nan, "bound": certificate.bound}]
    seen = [record["examples"] for record in records]
    key, name = compared(records)
    curves: tuple[Any, ...] = (
        ("loss suffered", [r["average_loss"] * r["examples"] for r in records], "#1f6fb4", "-"),
        (name, [_number_or_nan(r.get(key)) for r in records], "#3a8f4d", "-"),
        ("proven bound", [r.get("bound", math.nan) for r in records], "#b2413a", "--"),
    )
    if mistakes:
        counts = [r.get("average_mistakes", math.nan) * r["examples"] for r in records]
        curves = (("mistakes", counts, "#1f6fb4", "-"), ("proven bound", curves[2][1], "#b2413a", "--"))
    # While there are fewer rows than weights the best fixed loss is 0 but for rounding: not worth twenty decades.
    least = 1e-4 * max((v for _, values, _, _ in curves for v in values if math.isfinite(v)), default=1.0)
    for name, values, colour, style in curves:
        pairs = [(n, v) for n, v in zip(seen, values) if math.isfinite(v) and v > least]
        if pairs:
            ax.plot(*zip(*pairs), style, color=colour, linewidth=2, marker="o", markersize=3, label=name)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("examples")
    ax.set_ylabel("mistakes" if mistakes else "total loss")
    ax.set_title(
        f"{certificate.examples:,} examples: {certificate.status.value.replace('_', ' ')}", loc="left", fontsize=10
    )
    if ax.lines:
        ax.legend(frameon=False, fontsize=9, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, which="major", alpha=0.25)
    return ax
