"""A model's description (schema.json or a model file) and the learner that it asks for."""

from __future__ import annotations

import re
from typing import Any

from ..errors import ModelError, UsageError, nearest
from ..online.learners import mixture, recursive, single
from .shape import Shape, shown

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
KEYS = ("name", "target", "task", "features", "learner", "classes", "open", "shadow_of")
LEARNER_KEYS = ("kind", "loss", "geometry", "rate", "l1", "l2", "intercept", "certificate")
TASKS = ("regression", "classification")


def check_name(name: Any) -> str:
    """A model's name: a word for addresses and files."""
    if not isinstance(name, str) or not NAME.match(name):
        raise UsageError(
            f"the name {shown(name)} is not 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first",
            where="name",
        )
    return name


def check(spec: Any) -> dict[str, Any]:
    """A schema.json, complete: every key checked, the defaults put in."""
    if not isinstance(spec, dict):
        raise UsageError("the schema is not a JSON object with name, target, task and features", where="schema")
    for key in spec:
        if key not in KEYS:
            raise UsageError(f"the schema has no key {shown(key)}{nearest(str(key), KEYS)}", where=str(key)[:60])
    made = dict(spec)
    check_name(made.get("name"))
    made.setdefault("target", "y")
    made.setdefault("task", "regression")
    made.setdefault("open", False)
    made.setdefault("features", {})
    if not isinstance(made["target"], str):
        raise UsageError(f"target is {shown(made['target'])}; give the name of what is predicted", where="target")
    if made["task"] not in TASKS:
        raise UsageError(f'task is {shown(made["task"])}; give "regression" or "classification"', where="task")
    if not isinstance(made["open"], bool):
        raise UsageError(f"open is {shown(made['open'])}; give true or false", where="open")
    classes = made.get("classes")
    if made["task"] == "classification":
        classes = [0, 1] if classes is None else classes
        plain = (
            isinstance(classes, list)
            and 2 <= len(classes) <= 1000
            and all(type(c) in (str, int, bool) for c in classes)
        )
        if not plain or len({str(c) for c in classes}) < len(classes):
            raise UsageError(
                "classes is a list of two or more different labels (strings or whole numbers)", where="classes"
            )
        made["classes"] = classes
    elif classes is not None:
        raise UsageError("classes is for classification; this task is regression", where="classes")
    Shape(made.get("features", {}), made["open"])
    learner = made.get("learner")
    if learner is not None and not isinstance(learner, dict):
        raise UsageError(
            f'learner is {shown(learner)}; give an object such as {{"geometry": "additive", "rate": 0.01}}',
            where="learner",
        )
    fresh(made, [])  # a learner that cannot be made is refused now
    return made


def fresh(spec: dict[str, Any], columns: list[str]) -> Any:
    """The learner of a description, before its first example."""
    given = dict(spec.get("learner") or {})
    for key in given:
        if key not in LEARNER_KEYS:
            raise UsageError(
                f"the learner has no setting {shown(key)}{nearest(str(key), LEARNER_KEYS)}",
                where=f"learner.{str(key)[:40]}",
            )
    classes = len(spec.get("classes") or ())
    kind = given.pop("kind", "mixture" if not set(given) - {"certificate"} else "online")
    certificate = _flag(given, "certificate")
    if kind == "mixture":
        return mixture(classes, columns, certificate)
    if kind == "recursive":
        if classes:
            raise UsageError(
                "the recursive learner predicts numbers; leave the learner out for classification", where="learner"
            )
        return recursive(columns, certificate)
    if kind != "online":
        raise UsageError(
            f'the learner\'s kind is {shown(kind)}; give "mixture", "online" or "recursive"', where="learner.kind"
        )
    return _online(given, classes, columns, certificate)


def _flag(given: dict[str, Any], key: str) -> bool:
    value = given.pop(key, True)
    if not isinstance(value, bool):
        raise UsageError(f"learner.{key} is {shown(value)}; give true or false", where=f"learner.{key}")
    return value


def _online(given: dict[str, Any], classes: int, columns: list[str], certificate: bool) -> Any:
    intercept = _flag(given, "intercept")
    for key in ("loss", "geometry"):
        if not isinstance(given.get(key, ""), str):
            raise UsageError(f"learner.{key} is {shown(given[key])}; give a name", where=f"learner.{key}")
    auto = given.get("rate") == "auto"  # many rates, mixed
    for key in ("l1", "l2") if auto else ("rate", "l1", "l2"):
        value = given.get(key, 0.01)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0.0 <= value <= 1e6
            or (key == "rate" and value == 0.0)
        ):
            raise UsageError(f"learner.{key} is {shown(value)}; give a positive number", where=f"learner.{key}")
    return single(
        given.get("loss", "logistic" if classes else "squared"), given.get("geometry", "additive"),
        None if auto else float(given.get("rate", 0.01)), classes, columns, certificate=certificate, intercept=intercept,
        l1=float(given.get("l1", 0.0)), l2=float(given.get("l2", 0.0)),
    )  # fmt: skip


def from_file(raw: bytes, name: str, where: str) -> tuple[dict[str, Any], bytes]:
    """The description of a model file, and its bytes, which are the first snapshot."""
    from ..modelfile import loads

    kind, _, meta = loads(raw, where=where)
    if kind not in ("online", "mixture", "recursive", "ladder", "linear"):
        raise ModelError(
            f"{where} holds a {kind!r} model, which cannot be served; serve one made by trueline stream or trueline fit",
            where=where,
        )
    record = restore(raw, where)
    if kind == "linear":
        columns, target = list(meta["terms"]), meta["targets"][0]
        if len(meta["targets"]) > 1:
            raise ModelError(f"{where} has {len(meta['targets'])} targets; serve a model of one", where=where)
    else:
        columns = list(meta.get("stream_terms") or record.names or [f"x{j}" for j in range(record.width)])
        target = meta.get("target") or "y"
    labels = list(meta.get("labels") or meta.get("classes") or ())
    if not labels and _signed(record):
        labels = [-1, 1]
    spec: dict[str, Any] = {
        "name": check_name(name), "target": target, "open": False, "from_file": True,
        "task": "classification" if labels else "regression", "columns": columns,
        "schema": meta.get("schema"), "features": dict.fromkeys(columns, "number"),
    }  # fmt: skip
    if labels:
        spec["classes"] = labels
    return spec, raw


def _signed(record: Any) -> bool:
    return getattr(record, "task", "") == "binary" or getattr(getattr(record, "loss", None), "targets", "") == "sign"


def shape_of(spec: dict[str, Any]) -> Shape:
    """What a description accepts."""
    if spec.get("schema"):
        from ..data.schema import Schema
        from .shape import SchemaShape

        return SchemaShape(Schema.from_dict(spec["schema"]), spec["columns"])
    return Shape(spec["features"], spec["open"])


def restore(raw: bytes, where: str) -> Any:
    """The record in a model file's bytes; nothing in the file says what to import."""
    from .. import model
    from ..modelfile import loads

    kind, arrays, meta = loads(raw, where=where)
    record = model.restore(kind, arrays, meta, where=where)
    if kind == "linear":
        from .fitted import Fitted

        return Fitted(record)
    return record
