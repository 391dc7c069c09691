"""What a verification is: claims, what was found for each, and whether the one supports the other."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Check:
    """One claim, the number claimed, the number found, and whether the one supports the other."""

    claim: str
    claimed: Any
    found: Any
    held: bool
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Verification:
    """All checks of one certificate; ``ok`` when there are some and every one holds."""

    kind: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.held for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "kind": self.kind, "checks": [dataclasses.asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        failed = ", ".join(check.claim for check in self.checks if not check.held)
        return f"{len(self.checks)} claims hold" if self.ok else f"does not hold: {failed or 'nothing to check'}"


class Claims:
    """Collects the checks of one certificate; what is claimed is read from its fields by name."""

    def __init__(self, proof: Any, replay: Any = None) -> None:
        self.proof, self.replay = proof, replay
        self.checks: list[Check] = []

    def claimed(self, name: str) -> Any:
        value: Any = getattr(self.proof, name, None)
        return value.value if hasattr(value, "value") else value

    def holds(self, name: str, found: Any, held: Any, note: str = "", *, field: str | None = None) -> None:
        """A claim that the found number supports or not."""
        self.checks.append(Check(name, self.claimed(field or name), found, bool(held), note))

    def status(self, proven: Any, held: Any, note: str = "") -> None:
        """Whether what was found proves the result, in the words of the claim."""
        self.holds("status", "proven" if proven else "not_proven", held, note)

    def near(self, name: str, found: float, tolerance: float, scale: float | None = None, note: str = "") -> None:
        """A claim that must equal the found number, to a share of the larger of the two or of a scale."""
        claimed = self.claimed(name)
        size = max(abs(claimed), abs(found)) if scale is None else scale
        self.holds(name, found, claimed == found or abs(claimed - found) <= tolerance * size, note)
