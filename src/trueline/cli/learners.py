"""Online learners by the names that the command line gives them, as plain records."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import UsageError, nearest


@dataclasses.dataclass(frozen=True)
class Learner:
    """How a named learner is made: its geometry, its loss for numbers and for classes (None: cannot)."""

    geometry: str
    numbers: str | None
    classes: str | None
    fixed: bool = False  # whether the loss is the learner's own


LEARNERS = {
    "mixture": Learner("auto", "squared", "logistic", True),
    "widrow-hoff": Learner("additive", "squared", None, True),
    "gradient": Learner("additive", "squared", "logistic"),
    "normalised": Learner("normalised", "squared", "logistic"),
    "implicit": Learner("implicit", "squared", "logistic"),
    "adagrad": Learner("adaptive", "squared", "logistic"),
    "exponentiated": Learner("signed", "squared", "logistic"),
    "recursive": Learner("recursive", "squared", None, True),
    "perceptron": Learner("additive", None, "perceptron", True),
    "winnow": Learner("signed", None, "perceptron", True),
}
RADIUS = 10.0


def known(name: str) -> Learner:
    """The learner of this name."""
    if name not in LEARNERS:
        raise UsageError(f"there is no learner {name!r}{nearest(name, LEARNERS)}", where="learner")
    return LEARNERS[name]


def make(name: str, loss: str | None, rate: str, classes: int, names: list[str], certificate: bool) -> Any:
    """The record of a learner; ``classes`` is 0 for numbers, otherwise how many labels there are."""
    chosen = known(name)
    own = chosen.classes if classes else chosen.numbers
    if own is None:
        raise UsageError(
            f"the learner {name!r} predicts {'numbers' if classes else 'classes'}, and the target has {'labels' if classes else 'numbers'}; try --learner mixture",
            where="learner",
        )
    if loss is not None and loss != own and chosen.fixed:
        raise UsageError(
            f"the learner {name!r} has the {own} loss; for {loss!r} choose gradient, normalised, implicit or adagrad",
            where="loss",
        )
    if chosen.geometry == "auto":
        return widened(_mixture(rate, classes, certificate), names)
    if chosen.geometry == "recursive":
        from ..online.recursive import RecursiveModel

        return RecursiveModel(certificate=certificate, names=names)
    return _online(name, chosen, loss or own, rate, classes, names, certificate)


def _mixture(rate: str, classes: int, certificate: bool) -> Any:
    from ..online.mixture import MixtureModel

    if rate != "auto":
        raise UsageError(
            "the mixture chooses its own rates; --rate needs another --learner, such as widrow-hoff", where="rate"
        )
    task = "regression" if not classes else "binary" if classes == 2 else "multiclass"
    return MixtureModel(task, list(range(classes)) if classes > 2 else None, certificate)


def _online(name: str, chosen: Learner, loss: str, rate: str, classes: int, names: list[str], certificate: bool) -> Any:
    from ..online.model import OnlineModel
    from ..parts.geometries import geometry
    from ..parts.losses import loss as loss_part
    from ..parts.rates import rate as rate_part

    part = loss_part(loss)
    if (part.targets == "sign") != bool(classes):
        raise UsageError(
            f"the {loss} loss is for {'two classes' if part.targets == 'sign' else 'numbers'}, and the target is not",
            where="loss",
        )
    space = geometry(chosen.geometry, **({"radius": RADIUS} if chosen.geometry == "signed" else {}))
    settings: dict[str, Any] = {"certificate": certificate, "classes": tuple(range(classes)) if classes > 2 else None}
    if name == "perceptron":
        return OnlineModel(part, space, rate_part(1.0), names=names, keep_rows=certificate and classes == 2, **settings)
    if rate == "auto":
        from ..online.ladder import RateMixture

        return widened(RateMixture(part, space, **settings), names)
    return OnlineModel(
        part,
        space,
        rate_part(as_rate(rate)),
        names=names,
        keep_rows=name == "winnow" and certificate and classes == 2,
        **settings,
    )


def as_rate(text: str) -> float:
    """The rate as a number."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise UsageError(f"--rate is a positive number or auto, not {text!r}", where="rate")
    return value


def widened(record: Any, names: list[str]) -> Any:
    """The record with room for these columns, the ones it has first."""
    if hasattr(record, "intake"):
        record.intake = type(record.intake)(names, len(names))
    else:
        for member in getattr(record, "members", [record]):
            member._name(list(names))
    return record
