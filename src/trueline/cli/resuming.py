"""What a resumed stream may be told: the learner is what it was made, so options that say otherwise are refused."""

from __future__ import annotations

import contextlib
from typing import Any

from ..errors import UsageError
from .command import given
from .learners import WITHOUT_RATE, as_rate, check_rate


def check_resumed(
    state: Any,
    path: str,
    *,
    target: str | None,
    learner: str,
    loss: str | None,
    rate: str,
    features: list[str] | None,
    weights: str | None,
    derive: dict[str, str],
    where: str | None,
    missing: str,
    classes: list[str] | None,
    form: str | None,
    certificate: bool,
    intercept: bool,
) -> None:
    """Refuse each option that contradicts the saved learner; the same value again is fine."""
    record, schema = state.record, state.schema
    _same("learner", learner if given("--learner") else None, state.learner, path)
    _same("target", target, state.target, path)
    _same("loss", loss, _loss(state), path)
    _same("format", form, state.form or "a table", path)
    if given("--rate"):
        check_rate(state.learner, rate)
        if state.learner not in WITHOUT_RATE:
            _same_rate(rate, record, path)
    if schema is not None:
        _same("missing", missing if given("--missing") else None, schema.missing, path)
        if features is not None and set(features) != set(schema.names):
            _same("features", ",".join(features), ",".join(schema.names), path)
        _same("weights", weights, schema.weights or "none", path)
        _check_derived(schema, derive, where, path)
    if classes is not None:
        _same("classes", ",".join(classes), ",".join(map(str, state.labels)) or "numbers", path)
    own = bool(getattr(record, "fit_intercept", True))
    if own != intercept and (given("--intercept") or given("--no-intercept")):
        words = ("with", "--no-intercept") if own else ("without", "--intercept")
        raise UsageError(
            f"{path} was made {words[0]} an intercept, and goes on so; leave {words[1]} out", where="intercept"
        )
    kept = _certified(state)
    if kept is not None and kept != certificate and (given("--certificate") or given("--no-certificate")):
        words = ("with", "--no-certificate") if kept else ("without", "--certificate")
        raise UsageError(
            f"{path} was made {words[0]} what the bound needs, and goes on so; leave {words[1]} out",
            where="certificate",
        )


def _check_derived(schema: Any, derive: dict[str, str], where: str | None, path: str) -> None:
    """Refuse a derived column that is another one for the learner, or that it has no use for."""
    import polars as pl

    own, used = dict(schema.derive), {*schema.names, schema.target, schema.weights}
    for text in (where, *derive.values()):
        with contextlib.suppress(Exception):  # what is no SQL is refused where it is read
            used |= set(pl.sql_expr(text).meta.root_names()) if text else set()
    for name, text in derive.items():
        _same("derive", f"{name}={text}", f"{name}={own[name]}" if name in own else None, path)
        if name not in used:
            raise UsageError(
                f"--derive makes {name!r}, and the learner in {path} has no such column; leave it out, or begin anew without --resume",
                where="derive",
            )


def _same(option: str, asked: str | None, has: Any, path: str) -> None:
    if asked is not None and has is not None and asked != has:
        raise UsageError(
            f"--{option} says {asked}, but the learner in {path} has {has}; leave the option out, or begin anew without --resume",
            where=option,
        )


def _same_rate(rate: str, record: Any, path: str) -> None:
    own = float(record.rate.base) if record.kind == "online" else None  # None: it finds its own
    asked = None if rate == "auto" else as_rate(rate)
    if asked != own:
        _same("rate", rate, "auto" if own is None else f"{own:g}", path)


def _loss(state: Any) -> str:
    part = getattr(state.record, "loss", None)
    return str(getattr(part, "name", "logistic" if state.labels else "squared"))


def _certified(state: Any) -> bool | None:
    """Whether the learner keeps what its bound needs; None where that makes no difference."""
    record = state.record
    if record.kind == "mixture":
        return None if state.labels else bool(record.keeps_moments)
    return bool(getattr(record, "members", [record])[0].certified)
