"""Numbers for Prometheus, in its text format."""

from __future__ import annotations

import math
from typing import Any

from .events import Events
from .service import Service


def text(service: Service, events: Events) -> str:
    """Everything that is counted or measured, one family after another."""
    lines: list[str] = []

    def family(name: str, kind: str, about: str, values: list[tuple[str, float]]) -> None:
        lines.extend([f"# HELP trueline_{name} {about}", f"# TYPE trueline_{name} {kind}"])
        lines.extend(f"trueline_{name}{label} {value!r}" for label, value in values if math.isfinite(value))

    for key, about in (
        ("labels", "Labels learned by this run."),
        ("predictions", "Predictions served by this run."),
        ("replays", "Labels sent again."),
        ("expired", "Predictions that expired."),
        ("store_errors", "Failed store operations."),
    ):
        family(f"{key}_total", "counter", about, [("", float(service.counts[key]))])
    family(
        "refused_total",
        "counter",
        "Refused requests by status.",
        [
            (f'{{status="{key[7:]}"}}', float(n))
            for key, n in sorted(service.counts.items())
            if key.startswith("status_")
        ],
    )
    models = list(service.models.values())
    proofs = {live.name: live.record.certificate() for live in models}
    for key, about, value in (
        ("position", "Journal position.", lambda v: float(v.position)),
        ("pending", "Predictions that wait for a label.", lambda v: float(service.pending[v.mid])),
        ("loss", "Loss suffered.", lambda v: _stated(proofs[v.name], "loss")),
        ("best_fixed_loss", "Loss of the best fixed weights in hindsight, where it is known.", lambda v: _stated(proofs[v.name], "best_fixed_loss")),
        ("best_member_loss", "Loss of the best member, of models that are mixtures.", lambda v: _stated(proofs[v.name], "best_member_loss")),
        ("bound", "Bound on the loss; proven while trueline_proven is 1.", lambda v: _stated(proofs[v.name], "bound")),
        ("proven", "1 while the bound is proven.", lambda v: float(proofs[v.name].proven)),
        ("delay_excess", "What the delay of labels cost.", lambda v: float(v.tally["excess"])),
        ("window_regret", "Mean regret of the newest window.", lambda v: _newest(v.windows.windows)),
        ("drift_score", "How far the newest window's regret stands out.", lambda v: float(v.windows.describe()["score"])),
        ("drifting", "1 while the newest window's regret stands out.", lambda v: float(v.windows.describe()["drifting"])),
    ):  # fmt: skip
        family(key, "gauge", about, [(f'{{model="{live.name}"}}', value(live)) for live in models])
    family("event_readers", "gauge", "Open event streams.", [("", float(events.readers))])
    return "\n".join(lines) + "\n"


def _stated(proof: Any, name: str) -> float:
    """A number of a certificate; NaN, which is not shown, where there is none."""
    value = getattr(proof, name, None)
    return math.nan if value is None else float(value)


def _newest(windows: list[list[Any]]) -> float:
    return float(windows[-1][2]) if windows and windows[-1][2] is not None else math.nan
