"""What a stream was asked, how far it has come, and what its file keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import UsageError


@dataclasses.dataclass
class Asked:
    """The options of a stream."""

    source: Any
    target: str | None = None
    features: list[str] | None = None
    weights: str | None = None
    where: str | None = None
    derive: dict[str, str] = dataclasses.field(default_factory=dict)
    missing: str = "refuse"
    intercept: bool = True
    form: str | None = None
    classes: list[str] | None = None
    learner: str = "mixture"
    loss: str | None = None
    rate: str = "auto"
    epochs: int = 1
    certificate: bool = True
    progress: bool = False  # whether a bar may be shown
    notes: list[str] = dataclasses.field(default_factory=list)  # what was guessed of the files, once they are open


@dataclasses.dataclass
class State:
    """A learner on its way: the record, what its columns and labels mean, and what has been seen."""

    record: Any
    terms: list[str]
    labels: list[Any]
    schema: Any = None
    target: str | None = None
    learner: str = "mixture"
    form: str | None = None
    loss: float = 0.0
    weight: float = 0.0
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    last: dict[str, Any] = dataclasses.field(default_factory=dict)
    epochs: int = 1  # passes over each source; 0: not the same for all, so no replay can tell the order
    interrupted: bool = False

    def meta(self) -> dict[str, Any]:
        """What a file keeps beside the record."""
        return {
            "schema": None if self.schema is None else self.schema.to_dict(),
            "stream_terms": list(self.terms),
            "labels": list(self.labels),
            "target": self.target,
            "learner": self.learner,
            "form": self.form,
            "seen": [self.loss, self.weight],
            "rows": self.rows,
            "last": self.last,
            "epochs": self.epochs,
        }

    @classmethod
    def resumed(cls, opened: Any) -> State:
        """The state in a file."""
        if opened.kind == "linear" or "stream_terms" not in opened.meta:
            raise UsageError(f"{opened.path} was not made by trueline stream, so it cannot be resumed", where="resume")
        meta = opened.meta
        return cls(
            opened.record, list(meta["stream_terms"]), list(meta["labels"]), opened.schema, meta["target"], meta["learner"],
            meta["form"], float(meta["seen"][0]), float(meta["seen"][1]), [dict(row) for row in meta["rows"]], dict(meta["last"]),
            int(meta.get("epochs", 1)),
        )  # fmt: skip
