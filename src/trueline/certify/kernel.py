"""The certificate of kernel regression: a duality gap, and over which functions the optimum was sought."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .records import GapCertificate


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelCertificate(GapCertificate):
    """½Σw(y − f)² + ½α‖f‖² against a dual value below its minimum over ``scope``.

    ``residual`` is the largest residual of the linear system relative to the largest target; ``leave_one_out`` the
    weighted mean squared error of each row's prediction from all others.
    """

    kind: ClassVar[str] = "kernel"
    scope: str = ""
    residual: float = float("nan")
    leave_one_out: float = float("nan")

    def claim(self) -> str:
        return f"{super().claim()} over {self.scope}, leave-one-out squared error {self.leave_one_out:.6g}"
