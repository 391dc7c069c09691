"""The certificate of boosting: the product of normalisers bounds the training error, with the margins beside it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .records import Certificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoostingCertificate(Certificate):
    """Weighted training error ≤ Π Z_t, and the part of rows with margin ≤ θ is at most ``margin_bound``.

    A margin is y·f(x)/Σ|α| in [−1, 1]. ``edge`` is the least edge ½ − ε_t of a round: with all edges at least γ the
    product is at most exp(−2γ²T).
    """

    kind: ClassVar[str] = "boosting"
    rounds: int = 0
    training_error: float = float("nan")
    bound: float = float("inf")
    edge: float = float("nan")
    smallest_margin: float = float("nan")
    median_margin: float = float("nan")
    theta: float = 0.1
    below_theta: float = float("nan")
    margin_bound: float = float("inf")

    def claim(self) -> str:
        return (
            f"training error {self.training_error:.6g}, at most {self.bound:.6g} after {self.rounds} rounds; smallest "
            f"margin {self.smallest_margin:.3g}, median {self.median_margin:.3g}"
        )
