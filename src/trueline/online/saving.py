"""An online record as arrays and plain metadata, and back: loading is never having stopped.

Built-in parts are stored by name and fields. A user's own part is stored by its qualified name and must be handed
back at loading: nothing is imported because a file says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ModelError
from ..modelfile import Array, whole_numbers
from ..parts.door import part
from ..parts.geometries import GEOMETRIES, Mirrored, geometry
from ..parts.losses import LOSSES
from ..parts.rates import Rate
from . import state
from .best_fixed import Least
from .sums import Sums
from .sums import declared as sums_declared


def describe(given: Any) -> dict[str, Any]:
    """A part as its class's name and its fields."""
    if isinstance(given, Mirrored):
        return {"mirror": describe(given.map)}
    made = type(given)
    return {"name": f"{made.__module__}.{made.__qualname__}", "fields": [float(v) for v in given]}


def rebuild(described: dict[str, Any], known: dict[str, Any], role: str, parts: Any = ()) -> Any:
    """The part that ``describe`` described, of the built-in ones or of those handed in."""
    if "mirror" in described:
        return geometry(rebuild(described["mirror"], known, role, parts))
    classes = [*known.values(), *(item if isinstance(item, type) else type(item) for item in parts)]
    by_name = {f"{made.__module__}.{made.__qualname__}": made for made in classes}
    name = described["name"]
    made = by_name.get(name)
    if made is None:
        # A script's own part lives in __main__ today and may live in a module tomorrow: its last name decides.
        same = [cls for cls in classes[len(known) :] if cls.__qualname__ == name.rpartition(".")[2]]
        made = same[0] if len(same) == 1 else None
    if made is None:
        raise ModelError(
            f"the file uses the {role} {name}, which is not part of trueline; hand its class in: load(path, "
            f"parts=[{name.rpartition('.')[2]}])",
            where=role,
        )
    return part(made(*described["fields"]), known, role, (), {})


def to_state(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Every bit of an OnlineModel."""
    arrays: dict[str, np.ndarray] = {}
    for h, head in enumerate(model.heads):
        arrays[f"table{h}"] = head.table[:, : model.width + 1]
        arrays[f"numbers{h}"] = head.numbers
    if model.sums is not None:
        arrays |= model.sums.to_state()
    if model.kept:
        rows = [X.toarray() if hasattr(X, "toarray") else X for X, _, _ in model.kept]
        width = model.width
        arrays["kept"] = np.vstack([np.pad(X, ((0, 0), (0, width - X.shape[1]))) for X in rows])
        arrays["kept_y"] = np.concatenate([y for _, y, _ in model.kept])
        arrays["kept_head"] = np.concatenate([np.full(len(y), float(h)) for _, y, h in model.kept])
    looked = model.hindsight is not None and model.hindsight["examples"] == model.examples
    for h, trials in enumerate(model.hindsight["heads"] if looked else ()):
        arrays[f"hindsight{h}"] = np.array([np.append(u, value) for u, value in trials])
    least = [
        {"weights": None if one.weights is None else one.weights.tolist(), "loss": one.loss, "lower": one.lower}
        for one in (model.hindsight["least"] if looked else ())
    ]
    meta = {
        "loss": describe(model.loss),
        "geometry": describe(model.geometry),
        "rate": list(model.rate),
        "settings": {
            "l1": model.l1, "l2": model.l2, "intercept": model.fit_intercept, "certificate": model.certified,
            "batch": model.batch, "average": model.average, "loss_range": model.loss_range, "confidence": model.confidence,
            "keep_rows": model.kept is not None, "keep_sums": model.keep_sums, "member": model.quiet,
        },
        "classes": None if model.classes is None else [plain(label) for label in model.classes],
        "names": model._names if model._names is not None else model.width,
        "late": model.late,
        "wrong": model.wrong,
        "epochs": model.epochs,
        "progress": model.progress,
        "least": least,
        "marks": [model._next_record, model._last_loss, model._last_weight],
        "certificate": model.certificate().to_dict() if model.examples and not model.quiet else None,
    }  # fmt: skip
    return arrays, meta


def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
    """A table and numbers of every weight vector; the sums, the rows with mistakes and the comparators where they are kept."""
    names, classes = meta["names"], meta["classes"]
    width = names if isinstance(names, int) else len(names)
    heads = 1 if classes is None or len(classes) < 3 else len(classes)
    loose = "any" if meta["settings"].get("member") else "finite"  # a member of a mixture may have run away

    def counts(numbers: np.ndarray) -> bool:
        return bool(numbers[state.WIDTH] == width and 0.0 <= numbers[state.ROUNDS] <= 2.0**53)

    made = {}
    for h in range(heads):
        made[f"table{h}"] = Array((state.TABLE_ROWS, width + 1), values=loose)
        made[f"numbers{h}"] = Array((state.NUMBERS,), values="any" if loose == "any" else "numbers", holds=counts)
        made[f"hindsight{h}"] = Array((f"trials{h}", width + 2), values="any", optional="hindsight")
    made |= sums_declared(width)
    return made | {
        "kept": Array(("mistakes", width), optional="kept"),
        "kept_y": Array(("mistakes",), optional="kept"),
        "kept_head": Array(("mistakes",), optional="kept", holds=whole_numbers(0, heads - 1)),
    }


def from_state(cls: Any, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> Any:
    """The OnlineModel of a state."""
    _refuse_impossible(meta)
    model = cls(
        rebuild(meta["loss"], LOSSES, "loss", parts),
        rebuild(meta["geometry"], GEOMETRIES, "geometry", parts),
        Rate(*meta["rate"]),
        classes=None if meta["classes"] is None else tuple(meta["classes"]),
        names=meta["names"],
        **meta["settings"],
    )
    for h, head in enumerate(model.heads):
        if not np.array_equal(arrays[f"numbers{h}"][: state.CANDIDATES], head.numbers[: state.CANDIDATES]):
            raise ModelError("the file's learner and its settings do not agree; use an intact copy", where="settings")
        head.table = state.widened(np.array(arrays[f"table{h}"]), model.width)
        head.numbers = np.array(arrays[f"numbers{h}"])
    model.sums = Sums.from_state(arrays, model.width) if "sums" in arrays else None
    if "kept" in arrays:
        erred = arrays["kept_head"]
        model.kept = [(arrays["kept"][erred == h], arrays["kept_y"][erred == h], int(h)) for h in np.unique(erred)]
    if "hindsight0" in arrays:
        heads = [
            [(row[:-1].copy(), float(row[-1])) for row in arrays[f"hindsight{h}"]] for h in range(len(model.heads))
        ]
        # Files of 0.1 do not say which comparator was proven to be the best.
        least = [_least(one, model.width) for one in meta.get("least") or [{}] * len(heads)]
        model.hindsight = {"examples": model.examples, "heads": heads, "least": least}
    model.late, model.epochs, model.wrong = meta["late"], meta["epochs"], meta["wrong"]
    model.progress = meta["progress"]
    model._next_record, model._last_loss, model._last_weight = meta["marks"]
    return model


def _refuse_impossible(meta: dict[str, Any]) -> None:
    """Settings that no learner can have: its certificate would divide by them, or take their logarithm."""
    settings, (base, power) = meta["settings"], meta["rate"]
    batch, confidence, largest = settings["batch"], settings["confidence"], settings["loss_range"]
    possible = {
        "rate": 0.0 < base < math.inf and 0.0 <= power < math.inf,
        "l1": 0.0 <= settings["l1"] < math.inf,
        "l2": 0.0 <= settings["l2"] < math.inf,
        "batch": batch == int(batch) and batch >= 1,
        "confidence": 0.0 < confidence < 1.0,
        "loss_range": largest is None or 0.0 < largest < math.inf,
    }
    for name, held in possible.items():
        if not held:
            raise ModelError(f"no learner has the {name} that the file states; use an intact copy", where=name)


def _least(described: dict[str, Any], width: int) -> Least:
    weights = described.get("weights")
    if weights is not None and len(weights) != width + 1:
        raise ModelError("the best fixed weights in the file do not fit its columns; use an intact copy", where="least")
    return Least(
        None if weights is None else np.array(weights, dtype=float), described.get("loss"), described.get("lower")
    )


def plain(label: Any) -> Any:
    """A class label as JSON knows it."""
    return label.item() if isinstance(label, np.generic) else label
