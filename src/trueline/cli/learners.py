"""Online learners by the names that the command line gives them, as plain records."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import UsageError, nearest
from ..online.learners import mixture, recursive, single, widened

ALONE = "adaptive"  # the geometry of the default learner where there is no intercept, which the mixture has

__all__ = ["LEARNERS", "as_rate", "known", "make", "widened"]


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

WITHOUT_RATE = ("perceptron", "recursive")


def known(name: str) -> Learner:
    """The learner of this name."""
    if name not in LEARNERS:
        raise UsageError(f"there is no learner {name!r}{nearest(name, LEARNERS)}", where="learner")
    return LEARNERS[name]


def check_rate(name: str, rate: str) -> None:
    """Refuse a rate for a learner that has none."""
    if rate != "auto" and name in WITHOUT_RATE:
        raise UsageError(f"the learner {name!r} has no rate to choose; leave --rate out", where="rate")


def make(
    name: str, loss: str | None, rate: str, classes: int, names: list[str], certificate: bool, intercept: bool = True
) -> Any:
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
        if rate != "auto":
            raise UsageError(
                "the mixture chooses its own rates; --rate needs another --learner, such as widrow-hoff", where="rate"
            )
        if not intercept:
            return single(own, ALONE, None, classes, names, certificate=certificate, intercept=False)
        return mixture(classes, names, certificate)
    check_rate(name, rate)
    if chosen.geometry == "recursive":
        return recursive(names, certificate, intercept)
    step = 1.0 if name == "perceptron" else None if rate == "auto" else as_rate(rate)
    keep = certificate and name in ("perceptron", "winnow")
    return single(
        loss or own, chosen.geometry, step, classes, names, keep_rows=keep and step is not None,
        certificate=certificate, intercept=intercept,
    )  # fmt: skip


def awaken(name: str) -> None:
    """Import what the learner will need, while another thread reads the first rows: a seventh of a short run."""
    if known(name).geometry not in ("auto", "recursive"):
        from ..online import ladder  # noqa: F401


def as_rate(text: str) -> float:
    """The rate as a number."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise UsageError(f"--rate is a positive number or auto, not {text!r}", where="rate")
    return value
