"""What a model says of itself, as plain records, and the checks of it: no mathematics here, only reading."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, ModelError

Rows = np.ndarray


class Check(NamedTuple):
    """One claim, the number claimed, the number found, and whether the one supports the other."""

    claim: str
    claimed: Any
    found: Any
    held: bool
    note: str = ""


class Claims(list[Check]):
    """The checks of one model; what its certificate claims is read by the name of the field.

    ``covered`` collects the fields that were looked at: ``verify`` refuses a certificate with a checked field that no
    check has covered, so that none can be left out by a branch.
    """

    def __init__(self, certificate: Any) -> None:
        super().__init__()
        self.proof = certificate
        self.covered: set[str] = set()
        self.covered_assumptions: dict[str, set[str]] = {}  # of each that was looked at, what of it was compared
        self.unsure: set[str] = (
            set()
        )  # fields of which rounding, or a corner of the loss, leaves nearly everything open
        self.recomputed: set[str] = set()  # fields of the model itself that the rows confirm or refute

    def holds(self, name: str, found: Any, held: Any, note: str = "", *, field: str = "") -> None:
        """A claim that what was found supports or not; ``field`` names the certificate's field where it differs."""
        self.covered.add(field or name)
        claimed: Any = getattr(self.proof, field or name, None)
        self.append(Check(name, getattr(claimed, "value", claimed), found, bool(held), note))

    def equals(self, name: str, found: float, room: float, note: str = "") -> None:
        """A field that must equal what was found to within ``room``, the rounding of the sums behind both.

        Where rounding leaves everything open the number is finite and stated, not checked.
        """
        claimed = getattr(self.proof, name)
        if room == math.inf:
            self.unsure.add(name)
        self.holds(name, found, is_finite(claimed) and abs(claimed - found) <= room, note)

    def equals_or_unknown(self, name: str, found: float, room: float, note: str = "") -> None:
        """The same of a field that may be left unknown (None)."""
        if getattr(self.proof, name) is None:
            self.covered.add(name)
        else:
            self.equals(name, found, room, note)

    def at_most(self, name: str, found: float, room: float, note: str = "") -> None:
        """A field that must not exceed what was found: a lower bound, or digits."""
        claimed = getattr(self.proof, name)
        self.holds(name, found, is_finite(claimed) and claimed <= found + room, note)

    def at_least(self, name: str, found: float, room: float, note: str = "") -> None:
        """A field that must not fall below what was found: an upper bound."""
        claimed = getattr(self.proof, name)
        self.holds(name, found, is_finite(claimed) and claimed >= found - room, note)

    def absent(self, *names: str) -> None:
        """Fields that say nothing of this kind of model: they must be as they are where nothing is known."""
        unknown = {field.name: field.default for field in dataclasses.fields(self.proof)}
        for name in names:
            value, default = getattr(self.proof, name), unknown[name]
            both = isinstance(value, float) and isinstance(default, float) and math.isnan(value) and math.isnan(default)
            self.holds(name, None, value is default or both, "does not apply here")

    def of_model(self, field: str, claimed: Any, found: Any, held: Any, note: str = "") -> None:
        """A field of the model itself, such as ``intercept`` or ``statistics.rss``, beside what the rows give."""
        self.recomputed.add(field)
        self.append(Check(field, claimed, found, bool(held), note))

    def assumption(self, name: str, found: bool, worst: float | None = None, room: float = 0.0) -> None:
        """An assumption of the certificate, by its name: it held as found, at the worst value found.

        A certificate that leaves it out claims that nothing is assumed, so what does not hold must be there.
        """
        stated = [item for item in self.proof.assumptions if item.name == name]
        held = bool(stated) or found
        for item in stated:
            self.covered_assumptions.setdefault(name, set()).update({"held"} if worst is None else {"held", "worst"})
            same = worst is None or item.worst is None or (is_finite(item.worst) and abs(item.worst - worst) <= room)
            held = held and item.held == found and same
        said = None if not stated else "held" if stated[0].held else "fails"
        self.append(Check(name, said, "held" if found else "fails", held))


def is_finite(value: Any) -> bool:
    """Whether it is a number, and neither NaN nor infinite."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)


class Given(NamedTuple):
    """A model, its certificate, and the rows it was trained on, in their order."""

    record: Any
    proof: Any
    X: Rows
    y: Rows
    c: Rows


class Rule(NamedTuple):
    """How an online learner moves: V and its parameter, the geometry and its own (ε or a radius), rates base/tᵖ.

    Several ``rates`` are those of a mixture. ``user_loss`` is a loss that is none of the verifier's.
    """

    loss: str = "squared"
    loss_parameter: float = 0.0
    geometry: str = ""
    parameter: float = 0.0
    rates: tuple[float, ...] = (0.0,)
    power: float = 0.0
    has_intercept: bool = True
    l1: float = 0.0
    l2: float = 0.0
    batch: int = 1
    average: bool = False
    user_loss: Any = None

    @property
    def unit(self) -> float:
        """Certificates sum squares without the half."""
        return 2.0 if self.loss == "squared" else 1.0

    @property
    def plain(self) -> bool:
        """A constant rate, one row at a time, no penalty: what the theorems of squared losses ask for."""
        return self.power == 0.0 and self.batch == 1 and self.l1 + self.l2 == 0.0


def given(model: Any, data: Any, certificate: Any) -> Given:
    """Of an estimator or a record and its training data: arrays, or a table that the model reads as training did."""
    record = next((getattr(model, name) for name in ("model_", "record_") if hasattr(model, name)), model)
    proof = getattr(record, "certificate", None) if certificate is None else certificate
    proof = proof() if callable(proof) else proof
    if proof is None:
        raise ModelError("the model carries no certificate, so there is nothing to verify", where="certificate")
    if getattr(record, "kind", "") == "merged":  # neither its learners nor their rows are told apart any more
        raise ModelError(
            "there is no independent check of a mean of one learner a partition: it depends on how the rows were divided, "
            "which the data alone do not tell; fit the learner on one machine to verify it",
            where="model",
        )
    if getattr(record, "kind", "") == "ngram":
        texts = data[0] if isinstance(data, tuple) else data
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DataError("the rows of an n-gram model are texts; give those that it was trained on", where="data")
        return Given(record, proof, np.array(texts, dtype=object), np.zeros(len(texts)), np.ones(len(texts)))
    if not isinstance(data, tuple):
        data = record.training_rows(data) if hasattr(record, "training_rows") else (data,)
    X, y, c = (*data, None, None)[:3]
    y = np.zeros(X.shape[0]) if y is None else y
    X, y = as_rows(X, words=getattr(record, "kind", "") in ("generative", "density")), np.asarray(y)
    c = np.ones(len(X)) if c is None else np.asarray(c, dtype=float)
    if X.ndim != 2 or len(y) != len(X) or len(c) != len(X):
        raise DataError(f"X has shape {X.shape}, y {len(y)} entries, weights {len(c)}: give one a row", where="data")
    if not len(X):
        raise DataError("there are no rows to verify with; give those that the model was trained on", where="data")
    if not (np.isfinite(c).all() and (c >= 0.0).all() and (c > 0.0).any()):
        raise DataError("the weights are not finite numbers of at least 0, one of them positive", where="weights")
    return Given(record, proof, X, y, c)


def as_rows(X: Any, words: bool) -> Rows:
    """A matrix of numbers; with ``words``, of objects where a column of a table holds text, None where it is missing."""
    X = X.toarray() if hasattr(X, "toarray") else X
    try:
        return np.asarray(X, dtype=float)
    except (TypeError, ValueError) as error:
        if not words:
            raise DataError(f"X does not hold numbers alone ({error}); give the training rows", where="X") from None
    names = list(X.columns) if hasattr(X, "columns") else []
    columns = [np.asarray(X[name], dtype=object) for name in names] or list(np.asarray(X, dtype=object).T)
    made = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        missing = [value is None or value != value for value in column.tolist()]
        text = any(isinstance(value, str) for value in column.tolist())
        for i, value in enumerate(column.tolist()):
            made[i, j] = (str(value) if text else float(value)) if not missing[i] else None if text else math.nan
    return made


MOST_NUMBERS = 10**9  # of rows that are learned again, all epochs together
LARGEST = 1e150  # products of larger numbers would overflow, and no fit takes them


def check_numbers(told: Given, *, missing: bool = False) -> None:
    """Refuse rows that no fit takes, before any arithmetic: their sums would not be numbers.

    ``missing`` allows NaN, which densities take for a value that is not there; infinity never is.
    """
    for name, values in (("X", told.X), ("y", told.y)):
        if values.dtype.kind not in "fiu":
            continue
        counted = values if (told.c > 0).all() else values[told.c > 0]
        if missing:
            counted = counted[~np.isnan(counted)]
        if counted.size and not (counted.min() >= -LARGEST and counted.max() <= LARGEST):  # neither is true of NaN
            raise DataError(f"{name} holds NaN, infinity or numbers beyond 1e150; give the training rows", where=name)


def rule_of(record: Any) -> Rule:
    """The rule of a named learner, or of the members of a mixture of rates, from the settings that the record keeps."""
    members = getattr(record, "members", [record])
    first = members[0]
    loss, geometry = first.loss, first.geometry
    own = not type(loss).__module__.startswith("trueline.")
    known = type(geometry).__module__.startswith("trueline.")
    settings = (first.rate.power, float(first.l1), float(first.l2), int(first.batch))
    if not all(math.isfinite(value) and value >= 0.0 for value in (*settings, *(m.rate.base for m in members))):
        raise ModelError("the learner's rates, penalties or mini-batches are not numbers of at least 0", where="model")
    same = [(m.loss, m.geometry, m.rate.power, m.l1, m.l2, m.batch, m.fit_intercept) for m in members]
    if any(other != same[0] for other in same):
        raise ModelError("the members of the mixture differ in more than their rates", where="model")
    return Rule(
        loss="of the user's own" if own else loss.name,
        loss_parameter=0.0 if own else float((*loss, 0.0)[0]),
        geometry=geometry.name if known else "of the user's own",
        parameter=float((*geometry, 0.0)[0]) if known and geometry.name in _PARAMETERS else 0.0,
        rates=tuple(float(member.rate.base) for member in members),
        power=settings[0],
        has_intercept=bool(first.fit_intercept),
        l1=settings[1],
        l2=settings[2],
        batch=settings[3],
        average=bool(first.average),
        user_loss=loss if own else None,
    )


_PARAMETERS = ("normalised", "adaptive", "signed")


def targets_of(record: Any, y: Rows, lines: int) -> Rows:
    """What each weight vector learned: numbers, or ±1: the second of two classes, or each of several, against the rest."""
    if getattr(record.loss, "targets", "") != "sign":
        return numbers_of(y)[None, :]
    index = classes_of(record, y, max(2, lines))
    return np.array([np.where(index == k, 1.0, -1.0) for k in (range(lines) if lines > 1 else (1,))])


def numbers_of(y: Rows) -> Rows:
    """Targets that are numbers."""
    try:
        values = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        raise DataError("the targets are not numbers, and the model learned numbers", where="y") from None
    if values.ndim != 1:
        raise DataError("an online learner has one target", where="y")
    return values


def classes_of(record: Any, y: Rows, count: int) -> Rows:
    """The number of each row's class among the record's; a label that is none of them is refused.

    Where the record numbers its classes, labels are numbered as they are sorted.
    """
    labels = None if getattr(record, "classes", None) is None else [*record.classes]
    seen = np.unique(y)
    if labels is not None and np.isin(seen, np.array(labels)).all():
        places = {label: k for k, label in enumerate(labels)}
        return np.array([places[label] for label in np.asarray(y).tolist()])
    numbered = labels is None or labels == list(range(count))
    if numbered and len(seen) == 1 and seen[0] in (-1, 0, 1):  # two classes of which one came
        return np.full(len(y), int(seen[0] == 1))
    if not numbered or len(seen) != count:
        shown = ", ".join(str(label) for label in seen[:8].tolist())
        raise DataError(f"the labels {shown} are not the model's {count} classes; give the training rows", where="y")
    return np.searchsorted(seen, y)


def in_order(told: Given) -> Given:
    """The rows as they were learned: once for each epoch."""
    learned, rows = int(told.record.examples), int((told.c > 0.0).sum())
    # Of learners that do not count their passes; some count rows of weight 0 as well.
    whole = next((learned // count for count in (len(told.X), rows) if learned and learned % count == 0), 1)
    passes = int(getattr(told.record, "epochs", whole) or 1)
    if passes < 1 or passes * rows > max(learned, rows):
        raise ModelError(f"{passes:,} epochs of {rows:,} rows are not the {learned:,} that it learned", where="epochs")
    if passes * told.X.size > MOST_NUMBERS:
        raise NotImplementedError(f"{passes:,} epochs of {rows:,} rows: that is too much to learn again")
    order = drawn_order(told.record, len(told.c), passes)
    X, y, c = (v[order] for v in (told.X, told.y, told.c))
    return told._replace(X=X, y=y, c=c)


def drawn_order(record: Any, n: int, passes: int) -> Rows:
    """The numbers of the rows as they were learned: as they are, or in the order that the record's seed draws."""
    drawn = getattr(record, "drawn", None)
    if drawn is None:
        return np.tile(np.arange(n), passes)
    try:
        (how, seed), draw = (
            drawn,
            {"shuffled": lambda rng: rng.permutation(n), "uniform": lambda rng: rng.randint(0, n, n)},
        )
        rng = np.random.RandomState(seed)  # whose stream NumPy keeps the same in all versions
        return np.concatenate([draw[how](rng) for _ in range(passes)])
    except (TypeError, ValueError, KeyError):
        raise ModelError(f"no order of rows is drawn by {drawn!r}", where="drawn") from None
