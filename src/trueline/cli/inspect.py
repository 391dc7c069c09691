"""``trueline inspect``: what a model file holds."""

from __future__ import annotations

from typing import Any

from . import options


def inspect(model: options.Model, json: options.Json = False) -> None:
    """Say what a model is, what it was trained on, its coefficients and what it proves.

    [bold]Example[/bold]

    trueline inspect m.tl
    """
    from .console import emit, show
    from .models import open_model

    opened = open_model(model)
    found = describe(opened)
    if json:
        emit(found)
    else:
        show(told(found))


def describe(opened: Any) -> dict[str, Any]:
    """The model as plain values."""
    from .blocks import HIDDEN
    from .telling import coefficient_rows

    proof, schema = opened.certificate(), opened.schema
    return {
        "path": opened.path,
        "kind": opened.kind,
        "estimator": opened.meta.get("estimator"),
        "learner": opened.meta.get("learner"),
        "target": opened.target,
        "classes": list(opened.classes),
        "n": examples(opened),
        "source": opened.meta.get("source"),
        "command": opened.meta.get("command"),
        "columns": []
        if schema is None
        else [
            {"name": c.name, "kind": c.kind, "levels": [level for level in c.levels if level != HIDDEN]}
            for c in schema.columns
        ],
        "where": None if schema is None else schema.where,
        "derive": {} if schema is None else dict(schema.derive),
        "missing": None if schema is None else schema.missing,
        "terms": opened.names,
        "coefficients": coefficient_rows(opened),
        "certificate": None if proof is None else proof.to_dict(),
    }


def examples(opened: Any) -> int | None:
    """Rows that the model has learned from, if it says so."""
    if opened.kind == "linear":
        return opened.record.statistics.get("n")
    seen = getattr(opened.record, "examples", None)
    return None if seen is None else int(seen)


def told(found: dict[str, Any]) -> str:
    """The description as text."""
    from ..report.text import clip
    from .console import paint, width
    from .telling import certificate_text, coefficient_table, wrapped

    facts = [
        ("model", f"{found['estimator'] or found['learner'] or found['kind']}, {found['path']}"),
        (
            "target",
            f"{found['target'] or ''}"
            + (f" ({', '.join(map(str, found['classes'][:6]))})" if found["classes"] else ""),
        ),
        (
            "trained on",
            f"{found['n']:,} rows" + (f" of {found['source']}" if found["source"] else "")
            if found["n"]
            else ("" if found["n"] is None else "nothing yet"),
        ),
        (
            "columns",
            ", ".join(
                f"{c['name']}" + (f" [{len(c['levels'])} levels]" if c["levels"] else "") for c in found["columns"]
            )
            or ", ".join(found["terms"]),
        ),
    ]
    facts = [(name, value.strip()) for name, value in facts if value.strip()]
    facts += [(name, str(found[name])) for name in ("where", "derive") if found[name]]
    if found["missing"] not in (None, "refuse"):
        facts.append(("missing", found["missing"]))
    lines = [f"{paint(name.rjust(11), 'dim')}  {clip(value, max(20, width() - 13))}" for name, value in facts]
    if found["coefficients"]:
        lines += ["", coefficient_table(found["coefficients"], width())]
    if found["certificate"] is not None:
        lines += ["", *wrapped(certificate_text(found["certificate"]), width())]
    if found["command"]:
        lines += ["", *(paint(line, "dim") for line in wrapped(f"made by: {found['command']}", width()))]
    return "\n".join(lines)
