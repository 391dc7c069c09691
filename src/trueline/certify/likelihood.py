"""The certificate of a probability model: its log-likelihood, and how far the maximum of the family can be above it.

Both come from the sufficient statistics, so no row is read again. For exponential families the maximum is known in
closed form, and ``gap = maximum − log_likelihood`` is what smoothing costs on the training rows; a mixture's or a
Gaussian's with missing values is a stationary point of EM, whose objective never fell, and is not called proven.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .records import Certificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodCertificate(Certificate):
    """Sums over the training rows, natural logarithms; ``effective_counts`` are the weights of each class."""

    kind: ClassVar[str] = "likelihood"
    rows: float = 0.0
    log_likelihood: float = float("nan")
    maximum: float = float("nan")
    gap: float = float("nan")
    effective_counts: tuple[float, ...] = ()
    iterations: int = 0
    monotone: bool = True

    @property
    def per_row(self) -> float:
        """Log-likelihood of a row, on average."""
        return self.log_likelihood / self.rows if self.rows else float("nan")

    def claim(self) -> str:
        said = f"log-likelihood {self.log_likelihood:.10g} ({self.per_row:.5g} a row)"
        if self.iterations:
            return said + f", EM {'never fell' if self.monotone else 'was not monotone'} in {self.iterations} steps"
        return said + f", at most {self.gap:.2g} below the family's maximum"
