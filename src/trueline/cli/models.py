"""A model file as the commands use it: the record, the schema of its columns, and predictions for frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError

if TYPE_CHECKING:
    import polars as pl


@dataclasses.dataclass
class Opened:
    """A loaded model."""

    path: str
    kind: str
    record: Any
    schema: Any
    meta: dict[str, Any]

    @property
    def target(self) -> str | None:
        """The column that the model predicts, if it knows its name."""
        if self.schema is not None and self.schema.target is not None:
            return str(self.schema.target)
        return self.meta.get("target") or (self.record.targets[0] if self.kind == "linear" else None)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels in the order of their codes; empty for regression."""
        # A streamed learner knows its classes as 0, 1, 2 …; what they are called stands beside it in the file.
        labels = tuple(self.meta.get("labels") or getattr(self.record, "classes", None) or ())
        if labels == (0, 1) and self.kind != "linear" and getattr(self.schema, "target_kind", None) == "boolean":
            return (False, True)
        return labels

    @property
    def names(self) -> list[str]:
        """The terms that the record's weights belong to, in its order."""
        if self.kind == "linear":
            return list(self.record.terms)
        known = self.meta.get("stream_terms") or getattr(self.record, "names", None)
        return list(known or [f"x{j}" for j in range(getattr(self.record, "width", 0))])

    def taking(self, unseen: str) -> Opened:
        """The model with what becomes of levels that it has never seen."""
        if unseen not in ("refuse", "ignore"):
            raise UsageError(f"--unseen is refuse or ignore, not {unseen!r}", where="unseen")
        if unseen == "refuse":
            return self
        if self.schema is None:
            raise UsageError(
                f"{self.path} knows no table's columns, so --unseen does not apply; leave it out", where="unseen"
            )
        return dataclasses.replace(self, schema=dataclasses.replace(self.schema, unseen=unseen))

    def certificate(self) -> Any:
        """What it proves now."""
        proof = getattr(self.record, "certificate", None)
        return proof() if callable(proof) else proof

    def missing(self, policy: str | None) -> Opened:
        """The model with what becomes of rows that lack a value, where the command says it."""
        if policy is None:
            return self
        fitted = None if self.schema is None else self.schema.missing
        if fitted is None:
            raise UsageError(
                f"{self.path} knows no table's columns, so --missing does not apply; leave it out", where="missing"
            )
        if policy not in ("refuse", "drop") and policy != fitted:
            raise UsageError(
                f"{self.path} was fitted with --missing {fitted}; its new rows can have "
                f"{', '.join(dict.fromkeys([fitted, 'refuse', 'drop']))}, not {policy!r}",
                where="missing",
            )
        return dataclasses.replace(self, schema=dataclasses.replace(self.schema, missing=policy))

    def frames(
        self, source: Any, extra: list[str] | None, where: str | None = None
    ) -> Iterator[tuple[pl.DataFrame, np.ndarray]]:
        """Each frame of a source with its design, columns in the record's order; NaN in rows without a prediction."""
        if self.form:
            yield from self._text_frames(source)
            return
        if self.schema is None:
            yield from self._plain_frames(source, where)
            return
        order: list[int] | None = None
        for frame, block in self.schema.frames(source, extra=extra, where=where):
            if order is None:
                order = places(block.terms, self.names)
            yield (
                frame,
                block.X if order == list(range(block.X.shape[1])) else np.ascontiguousarray(picked(block.X, order)),
            )

    @property
    def form(self) -> str | None:
        """The kind of sparse text that the model learned from, if it did."""
        return self.meta.get("form")

    def _text_frames(self, source: Any) -> Iterator[tuple[pl.DataFrame, Any]]:
        """Lines of sparse text: label, weight and tag beside the features that the model knows."""
        import polars as pl
        from scipy.sparse import csr_array

        from ..data.read import Source
        from ..data.text import read_text

        if isinstance(source, Source):
            raise UsageError(f"--separator and --decimal are for tables, not for {self.form} text", where="separator")
        width = len(self.names)
        for block in read_text(source, str(self.form), known=tuple(self.names)):
            X = csr_array((block.data, block.indices, block.indptr), shape=(len(block.y), len(block.names)))
            beside = {"label": pl.Series(block.y).fill_nan(None)}
            if block.weights is not None:
                beside |= {"weight": pl.Series(block.weights), "tag": pl.Series(block.tags or [""] * len(block.y))}
            yield pl.DataFrame(beside), X[:, :width]

    def _plain_frames(self, source: Any, where: str | None = None) -> Iterator[tuple[pl.DataFrame, np.ndarray]]:
        from ..data.read import open_source

        opened = open_source(source, where=where)
        absent = [name for name in self.names if name not in opened.names]
        if absent:
            from ..data.refusals import lacking_column

            raise lacking_column(absent[0], opened.names, opened.describe)
        for frame in opened.frames():
            yield frame, frame.select(self.names).to_numpy().astype(float)

    def naming(self, source: Any, extra: tuple[str | None, ...] = ()) -> Any:
        """The source with the model's names for columns whose own differ from them by the blanks around them alone.

        Headers of text are read without such blanks, and were not always; other files keep theirs.
        """
        if self.meta.get("form"):
            return source
        from ..data.read import open_source

        schema = self.schema
        derived = () if schema is None else tuple(name for name, _ in schema.derive)
        wanted = [
            *(self.names if schema is None else schema.names),
            self.target,
            getattr(schema, "weights", None),
            *extra,
        ]
        table = open_source(source)
        found = {name.strip(): name for name in table.names}
        alike = {
            name: f'"{found[name.strip()]}"'
            for name in wanted
            if name is not None and name not in derived and name not in table.names and name.strip() in found
        }
        alike = {name: text for name, text in alike.items() if text.count('"') == 2}
        if alike:
            return table.refine(derive=alike)
        return source if table.rereadable and not table.notes else table

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Predictions on the target's scale: values, the probability of the last class, or one column a class.

        Rows that lack a value are NaN throughout, and so is their prediction.
        """
        lacking = unpredicted(X)
        if lacking.any():
            known = self.scores(X[~lacking]) if not lacking.all() else self.scores(np.zeros((1, X.shape[1])))[:0]
            scores = np.full((len(lacking), *known.shape[1:]), np.nan)
            scores[~lacking] = known
            return scores
        if self.kind == "linear":
            if self.record.link in ("logistic", "softmax"):
                found = self.record.probabilities(X)
                return found[:, 1] if found.shape[1] == 2 else found
            return np.asarray(self.record.score(X) if self.record.classes else self.record.predict(X), dtype=float)
        return np.asarray(self.record.predict(X), dtype=float)

    def labels(self, scores: np.ndarray) -> np.ndarray:
        """The predicted class of each row."""
        classes = np.asarray(self.classes)
        if scores.ndim == 2:
            return classes[scores.argmax(axis=1)]
        return classes[(scores > (0.5 if self.probabilistic else 0.0)).astype(int)]

    @property
    def probabilistic(self) -> bool:
        """Whether the scores of a classifier are probabilities."""
        if self.kind == "linear":
            return self.record.link in ("logistic", "softmax")
        return self.kind == "mixture" or bool(getattr(self.record, "probabilistic", False))


def unpredicted(X: Any) -> np.ndarray:
    """Which rows of a design are marked as lacking a value."""
    return np.zeros(X.shape[0], dtype=bool) if hasattr(X, "indptr") or not X.shape[1] else np.isnan(X).all(axis=1)


def as_linear(opened: Opened) -> Any:
    """What predicts in an online learner as a linear record; other records as they are."""
    record = opened.record
    if opened.kind != "online":  # the forward step and mixtures predict by more than w·x, and export refuses them
        return record
    from ..model.linear import LinearModel

    if len(getattr(record, "heads", (1,))) > 1:
        raise UsageError(
            f"{opened.path} holds one learner a class, whose probabilities no target can write; stream two labels, or fit",
            where="model",
        )
    loss = getattr(getattr(record, "loss", None), "name", "squared")
    link = {"logistic": "logistic", "poisson": "log", "gamma": "log", "tweedie": "log"}.get(loss, "identity")
    link = "sign" if opened.classes and link == "identity" else link
    return LinearModel(
        tuple(opened.names),
        record.coef,
        float(record.intercept),
        (opened.target or "y",),
        opened.schema,
        link,
        opened.classes,
    )


def places(terms: Any, wanted: list[str]) -> list[int]:
    """Where each wanted term stands, −1 where it does not."""
    index = {term: j for j, term in enumerate(terms)}
    return [index.get(name, -1) for name in wanted]


def picked(X: np.ndarray, order: list[int]) -> np.ndarray:
    """Columns in this order, zeros for −1."""
    out = np.zeros((len(X), len(order)))
    for k, j in enumerate(order):
        if j >= 0:
            out[:, k] = X[:, j]
    return out


def open_model(path: str) -> Opened:
    """The model in a file."""
    from .. import modelfile
    from ..model import restore

    kind, arrays, meta = modelfile.read(path)
    if kind == "moments":
        raise UsageError(f"{path} holds the moments of a scan, not a model; fit one from it in Python", where=path)
    record = restore(kind, arrays, meta, where=path)
    schema = getattr(record, "schema", None)
    if schema is None and isinstance(meta.get("schema"), dict):
        from ..data.schema import Schema

        schema = Schema.from_dict(meta["schema"])
    return Opened(path, kind, record, schema, meta)
