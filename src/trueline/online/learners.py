"""Records of learners from plain settings: the one place where the command line and the service have theirs made.

``classes`` is 0 for numbers, otherwise how many labels there are; names are the columns. Nothing compiled is imported
before a learner is asked for.
"""

from __future__ import annotations

from typing import Any

from ..errors import UsageError

RADIUS = 10.0  # Σ|weights| of the signed geometry, which needs one


def mixture(classes: int, names: list[str], certificate: bool = True) -> Any:
    """The rate-free default."""
    from .mixture import MixtureModel

    task = "regression" if not classes else "binary" if classes == 2 else "multiclass"
    return widened(MixtureModel(task, list(range(classes)) if classes > 2 else None, certificate), names)


def recursive(names: list[str], certificate: bool = True, intercept: bool = True) -> Any:
    """Recursive least squares."""
    from .recursive_least_squares import RecursiveModel

    return RecursiveModel(certificate=certificate, intercept=intercept, names=names)


def single(
    loss: str,
    geometry: str,
    rate: float | None,
    classes: int,
    names: list[str],
    *,
    keep_rows: bool = False,
    **settings: Any,
) -> Any:
    """A loss in a geometry at a rate; without a rate, at many rates, mixed.

    >>> single("squared", "additive", 0.1, 0, ["a", "b"]).kind, single("logistic", "adaptive", None, 2, ["a"]).kind
    ('online', 'ladder')
    """
    from ..parts.geometries import geometry as geometry_part
    from ..parts.losses import loss as loss_part
    from ..parts.rates import rate as rate_part
    from .ladder import RateMixture
    from .model import OnlineModel

    part = loss_part(loss)
    if (part.targets == "sign") != bool(classes):
        what = "classes" if part.targets == "sign" else "numbers"
        raise UsageError(f"the {loss} loss is for {what}, and the target is not", where="loss")
    space = geometry_part(geometry, **({"radius": RADIUS} if geometry == "signed" else {}))
    settings["classes"] = tuple(range(classes)) if classes > 2 else None
    if rate is None:
        return widened(RateMixture(part, space, **settings), names)
    return OnlineModel(
        part, space, rate_part(rate), names=list(names), keep_rows=keep_rows and classes == 2, **settings
    )


def widened(record: Any, names: list[str]) -> Any:
    """The record with room for these columns, the ones it has first."""
    if hasattr(record, "intake"):
        record.intake = type(record.intake)(list(names), len(names))
    else:
        for member in getattr(record, "members", [record]):
            member._name(list(names))
    return record
