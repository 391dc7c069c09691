"""What can honestly be said of a network: how flat the loss is where training ended, and nothing more."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .records import Certificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class StationaryCertificate(Certificate):
    """The mean loss and the norm of its gradient at the end, and at the start for comparison; never a proof.

    The objective is not convex: a gradient of 0 would show a stationary point, not the best network.
    """

    kind: ClassVar[str] = "stationary"
    examples: int = 0
    loss: float = float("nan")
    gradient_norm: float = float("nan")
    start_loss: float = float("nan")
    start_gradient_norm: float = float("nan")
    validation_loss: float = float("nan")
    rows: str = ""

    def claim(self) -> str:
        return (
            f"mean loss {self.loss:.6g} (from {self.start_loss:.6g}), gradient norm {self.gradient_norm:.3g} (from "
            f"{self.start_gradient_norm:.3g}) on {self.rows}"
        )
