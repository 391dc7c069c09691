"""Which columns an encoder uses, checked against the source before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import DataError, UsageError, nearest
from .read import Source
from .refusals import unknown_column

if TYPE_CHECKING:
    from .formula import Formula

INTERCEPT = "(intercept)"


def choose(
    source: Source,
    features: Sequence[str] | None,
    categories: Sequence[str],
    target: str | None,
    weights: str | None,
    group: str | None,
    *,
    target_is_feature: bool = False,
) -> list[str]:
    """The input columns, after every name in the call has been found in the source."""
    for what, name in (("target", target), ("weights", weights), ("group", group)):
        if name is not None and name not in source.names:
            raise unknown_column(name, source.names, what=f"{what} column", source=source.describe)
    chosen = list(features) if features is not None else others(source.names, target, weights, group)
    for name in [*chosen, *categories]:
        if name not in source.names:
            raise unknown_column(name, source.names, source=source.describe)
    if target is not None and target in chosen and not target_is_feature:
        raise UsageError(f"column {target!r} is the target and cannot be a feature too", where=target)
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise UsageError(f"feature {twice!r} is named twice", where=twice)
    reserved = next((name for name in chosen if name.lower() == INTERCEPT), None)
    if reserved is not None:
        raise DataError(
            f"column {reserved!r} of {source.describe} has the name of the model's own constant term; rename the column",
            where=reserved,
        )
    if not chosen:
        raise DataError(f"{source.describe} has no column left to learn from besides the target", where="features")
    return chosen


def text_of(source: Source, names: Sequence[str | None], categories: Sequence[str]) -> list[str]:
    """Those of the names that are columns of plain text, and that nobody called categories."""
    import polars as pl

    return [n for n in names if n is not None and n not in categories and source.dtypes[n] == pl.String]


def others(names: Sequence[str], *used: str | None) -> list[str]:
    """The names not used otherwise."""
    return [name for name in names if name not in used]


def one_of(name: str, value: str, accepted: Sequence[str]) -> None:
    """Refuse an option that is not among the accepted ones."""
    if value not in accepted:
        shown = ", ".join(accepted)
        raise UsageError(f"{name} is one of {shown}, not {value!r}{nearest(str(value), accepted)}", where=name)


def check_formula_options(features: Sequence[str] | None, missing: str) -> None:
    """Refuse what does not go with a formula."""
    if features is not None:
        raise UsageError("give features or a formula, not both", where="formula")
    if missing in ("mean", "indicator"):
        raise UsageError(
            f'missing="{missing}" does not go with a formula, whose terms are not linear in a missing value; '
            'choose "refuse" or "drop"',
            where="missing",
        )


def target_of(formula: Formula | None, target: str | None) -> str | None:
    """The target of a call: its own, or the formula's; two that differ are refused."""
    own = None if formula is None else formula.target
    if target is not None and own is not None and own != target:
        raise UsageError(
            f"the target is {target!r}, and the formula predicts {own!r}; give one of the two", where="target"
        )
    return own if target is None else target


def has_intercept(formula: Formula | None, intercept: bool) -> bool:
    """Whether there is an intercept: not where the call or the formula takes it away; both must not differ."""
    said = None if formula is None else formula.intercept
    if said and not intercept:
        raise UsageError(
            "no intercept was asked for, and the formula asks for one by + 1; give one of the two", where="intercept"
        )
    return intercept and said is not False


def parsed(formula: str | Formula | None) -> Formula | None:
    """A formula given as text or as it is."""
    if not isinstance(formula, str):
        return formula
    from .formula import Formula

    return Formula.parse(formula)
