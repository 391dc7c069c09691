"""Estimators to files and back: the record of what was learned, plus the class and its parameters. No pickle.

A file names an estimator of trueline, never a module to import; a user's own part must be handed back through
``parts``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import modelfile
from ..errors import ModelError, named_options
from ..model import restore
from ..model import save as save_record
from ..objective.named_function import NamedFunction
from .parameters import Checked

# What a record that was saved without an estimator comes back as.
ESTIMATOR_OF_KIND = {
    "linear": "LinearRegression",
    "online": "OnlineRegressor",
    "mixture": "OnlineRegressor",
    "ladder": "OnlineRegressor",
    "recursive": "RecursiveLeastSquares",
}


class Saved(Checked):
    """Mixin: ``save(path)`` for an estimator with ``_record()`` and ``_adopt(record)``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, whole or not at all; ``trueline.load`` gives it back."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        params = {name: _outward(name, value) for name, value in self.get_params(deep=False).items()}  # type: ignore[attr-defined]
        save_record(self._record(), path, estimator=type(self).__name__, params=params, **self._aside())

    def _aside(self) -> dict[str, Any]:
        """What the estimator knows beside its record and parameters; ``_recall`` takes it back from the file."""
        return {}

    def _recall(self, meta: dict[str, Any]) -> None:
        """Take back what ``_aside`` told."""

    def _record(self) -> Any:
        raise NotImplementedError

    def _adopt(self, record: Any) -> None:
        raise NotImplementedError


@named_options
def load(path: str | os.PathLike[str], parts: Any = ()) -> Any:
    """The estimator in a file, with the predictions it had when it was saved.

    ``parts`` are the classes of your own losses or geometries that the file names.

    >>> import tempfile, os, numpy as np, trueline as tl
    >>> model = tl.WidrowHoff(rate=0.1).fit(np.eye(3), [1.0, 2.0, 3.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "m.tl"))
    ...     same = tl.load(os.path.join(folder, "m.tl"))
    >>> bool((same.predict(np.eye(3)) == model.predict(np.eye(3))).all())
    True
    """
    import trueline

    where = str(path)
    kind, arrays, meta = modelfile.read(path)
    if kind in ("moments", "filter"):
        return restore(kind, arrays, meta, where=where)
    name = meta.get("estimator")
    if name is None:
        name = (
            "OnlineClassifier"
            if meta.get("classes") and kind in ("online", "mixture", "ladder")
            else ESTIMATOR_OF_KIND.get(kind)
        )
    if not isinstance(name, str) or name not in trueline.__all__:
        raise ModelError(
            f"{where} was saved by an estimator unknown to this version ({name!r}): upgrade trueline", where=where
        )
    cls = getattr(trueline, name)
    if not (isinstance(cls, type) and issubclass(cls, Saved)):
        raise ModelError(f"{where} names {name!r}, which is not an estimator that can be loaded", where=where)
    classes = {part if isinstance(part, type) else type(part) for part in parts}
    record = restore(kind, arrays, meta, parts, where=where)
    try:
        estimator = cls(**{key: _inward(value, classes) for key, value in meta.get("params", {}).items()})
        estimator._adopt(record)
        estimator._recall(meta)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        if isinstance(error, ModelError):
            raise
        reason = f"{type(error).__name__}: {error}"[:120]
        raise ModelError(
            f"{where} is damaged: its parameters do not fit {name} ({reason}); use an intact copy", where=where
        ) from None
    return estimator


def _outward(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, NamedFunction) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return {
            "part": f"{type(value).__module__}.{type(value).__qualname__}",
            "fields": [_outward(name, v) for v in value],
        }
    if isinstance(value, type) and hasattr(value, "_fields"):
        return {"part": f"{value.__module__}.{value.__qualname__}", "class": True}
    if isinstance(value, tuple):
        return {"tuple": [_outward(name, item) for item in value]}
    if isinstance(value, list):
        return [_outward(name, item) for item in value]
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, dict):
        return {"dict": [[_outward(name, k), _outward(name, v)] for k, v in value.items()]}
    if isinstance(value, np.random.RandomState):
        return None
    raise ModelError(
        f"parameter {name!r} holds {value!r}, which cannot be put in a file; give a name or numbers", where=name
    )


def _inward(value: Any, classes: set[type]) -> Any:
    """The parameter that ``_outward`` wrote."""
    if isinstance(value, list):
        return [_inward(item, classes) for item in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_inward(item, classes) for item in value["tuple"])
    if "array" in value:
        return np.asarray(value["array"])
    if "dict" in value:
        return {_inward(k, classes): _inward(v, classes) for k, v in value["dict"]}
    from ..objective.losses import LOSSES
    from ..objective.penalties import PENALTIES
    from ..parts.geometries import GEOMETRIES, Mirrored

    known = [*LOSSES.values(), *GEOMETRIES.values(), *PENALTIES.values(), Mirrored, *classes]
    last = value["part"].rpartition(".")[2]
    places = {f"{c.__module__}.{c.__qualname__}": c for c in known}
    ours = known if value["part"].startswith("trueline.") else classes  # whatever module holds it today
    made = places.get(value["part"]) or next((c for c in ours if c.__qualname__ == last), None)
    if made is None:
        raise ModelError(f"the file uses {value['part']}; hand its class in: load(path, parts=[{last}])", where="parts")
    return made if value.get("class") else made(*(_inward(v, classes) for v in value["fields"]))
