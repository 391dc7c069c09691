"""An online record as arrays and plain metadata, and back: loading is never having stopped.

Built-in parts are stored by name and fields. A user's own part is stored by its qualified name and must be handed
back at loading: nothing is imported because a file says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ModelError, OlderLayout
from ..modelfile import Array, whole_numbers
from ..objective.loss_interface import PythonLoss
from ..objective.losses import LOSSES, resolve_loss
from ..parts.door import lacking_part, own_class
from .best_fixed import Least
from .exponentiated_gradient import Mirrored, OwnGeometry
from .geometry_names import GEOMETRIES, resolve_geometry
from .learner_state import ARRAYS, SUMS, LearnerState
from .rates import Rate
from .sums import Sums
from .sums import declared as sums_declared


def describe(given: Any) -> dict[str, Any]:
    """A part by its name, a user's own by its class's, and its fields."""
    own = isinstance(given, (PythonLoss, Mirrored, OwnGeometry))
    if own:
        given = given.map if isinstance(given, Mirrored) else given.part
    made = type(given)
    name = f"{made.__module__}.{made.__qualname__}" if own else given.name
    return {"name": name, "own": own, "fields": [float(v) for v in given]}


def rebuild(described: dict[str, Any], role: str, parts: Any = ()) -> Any:
    """The part that ``describe`` described, of the built-in ones or of those handed in."""
    known, resolve = (LOSSES, resolve_loss) if role == "loss" else (GEOMETRIES, resolve_geometry)
    name, fields = described["name"], described["fields"]
    if "own" not in described and name.startswith("trueline."):  # of a file of 0.1.0, by the class's place then
        made = next(cls for cls in known.values() if cls.__qualname__ == name.rpartition(".")[2])
        return resolve(made.name, **dict(zip(made._fields, fields)))
    if not described.get("own", True):
        made = known[name]
        return resolve(name, **dict(zip(made._fields, fields, strict=True)))
    classes = [item if isinstance(item, type) else type(item) for item in parts]
    by_name = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}
    own = by_name.get(name) or own_class(name, classes)
    if own is None:
        raise lacking_part(name, role)
    return resolve(own(*fields))


def to_state(model: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Every bit of an OnlineModel."""
    arrays: dict[str, np.ndarray] = {}
    for h, head in enumerate(model.heads):
        arrays |= {f"{name}{h}": array for name, array in head.to_arrays().items()}
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
        "arrays": model.heads[0].used(),
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
    """Weights and sums of every weight vector; the moments, the rows with mistakes and the comparators where they are kept."""
    if "arrays" not in meta:
        raise OlderLayout(
            "the file holds a learner of an older layout, which this version does not read; let it learn anew"
        )
    names, classes, settings = meta["names"], meta["classes"], meta["settings"]
    width = names if isinstance(names, int) else len(names)
    heads = 1 if classes is None or len(classes) < 3 else len(classes)
    loose = "any" if settings.get("member") else "finite"  # a member of a mixture may have run away
    used = meta["arrays"]
    if not {"dual"} <= set(used) <= set(ARRAYS):
        raise ModelError("the file names arrays that no learner has; use an intact copy", where="arrays")
    rounds, waiting = list(SUMS).index("rounds"), list(SUMS).index("waiting")
    rows = settings["batch"] if "pending" in used else 1

    def counts(sums: np.ndarray) -> bool:
        return bool(0.0 <= sums[rounds] <= 2.0**53 and 0.0 <= sums[waiting] < rows and sums[waiting] % 1.0 == 0.0)

    made = {}
    for h in range(heads):
        for name in used:
            made[f"{name}{h}"] = Array((width + 1,), values=loose)
        made[f"numbers{h}"] = Array((len(SUMS),), values="any" if loose == "any" else "numbers", holds=counts)
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
        rebuild(meta["loss"], "loss", parts),
        rebuild(meta["geometry"], "geometry", parts),
        Rate(*meta["rate"]),
        classes=None if meta["classes"] is None else tuple(meta["classes"]),
        names=meta["names"],
        **meta["settings"],
    )
    if (set(meta["arrays"]) ^ set(model.heads[0].used())) - {"older", "newer"}:
        raise ModelError("the file's learner and its settings do not agree; use an intact copy", where="settings")
    for h in range(len(model.heads)):
        model.heads[h] = state = LearnerState(model.width, model.fit_intercept, meta["arrays"])
        state.take({name: arrays[f"{name}{h}"] for name in [*meta["arrays"], "numbers"]})
        if not model.rule.suits(state):
            raise ModelError("the file's learner and its settings do not agree; use an intact copy", where="settings")
    model.sums = Sums.from_state(arrays, model.width) if "sums" in arrays else None
    if "kept" in arrays:
        erred = arrays["kept_head"]
        model.kept = [(arrays["kept"][erred == h], arrays["kept_y"][erred == h], int(h)) for h in np.unique(erred)]
    if "hindsight0" in arrays:
        heads = [
            [(row[:-1].copy(), float(row[-1])) for row in arrays[f"hindsight{h}"]] for h in range(len(model.heads))
        ]
        least = [_least(one, model.width) for one in meta["least"]]
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
