"""Fitted models as plain records: what the command line and the service use, with no scikit-learn.

A record has a ``kind``, ``to_state() -> (arrays, meta)``, ``declared(arrays, meta)``, which says what arrays a file of
its kind must hold, and the classmethod ``from_state(arrays, meta)``; ``restore`` is the one way from a file to a record,
``save`` and ``load`` put it in one file. ``KINDS`` says where each kind's class lives; it is imported when needed.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..errors import ModelError, TruelineError
from ..modelfile import check_arrays, read, save

__all__ = ["KINDS", "load", "record_class", "restore", "save"]

KINDS: dict[str, str] = {
    "basis": "trueline.data.formula:FittedBasis",
    "linear": "trueline.model.linear:LinearModel",
    "online": "trueline.online.model:OnlineModel",
    "mixture": "trueline.online.mixture:MixtureModel",
    "ladder": "trueline.online.ladder:RateMixture",
    "merged": "trueline.online.merged:MergedModel",
    "recursive": "trueline.online.recursive_least_squares:RecursiveModel",
    "moments": "trueline.onepass.moments:Moments",
    "filter": "trueline.signal.filters:AdaptiveFilter",
    "local": "trueline.beyond.local:LocalModel",
    "components": "trueline.onepass.components:Components",
    "kernel": "trueline.beyond.kernel:KernelModel",
    "boosting": "trueline.beyond.boosting:BoostingModel",
    "network": "trueline.beyond.network:NetworkModel",
    "kernel_perceptron": "trueline.beyond.kernelperceptron:KernelPerceptronModel",
    "density": "trueline.beyond.density:DensityModel",
    "generative": "trueline.beyond.generative:GenerativeModel",
    "ngram": "trueline.beyond.ngram:NGramModel",
}


def load(path: str | os.PathLike[str]) -> Any:
    """The record in a file."""
    return restore(*read(path), where=str(path))


def restore(
    kind: str, arrays: dict[str, Any], meta: dict[str, Any], parts: Any = (), *, where: str = "model file"
) -> Any:
    """The record of what a file holds, once its arrays are what its class declares."""
    made = record_class(kind, where=where)
    try:
        check_arrays(made.declared(arrays, meta), arrays, where)
        takes_parts = getattr(made, "takes_parts", False)
        record = made.from_state(arrays, meta, parts) if takes_parts else made.from_state(arrays, meta)
        if "drawn" in meta:
            record.drawn = tuple(meta["drawn"])  # how a learner drew the order of its rows, and the seed
        return record
    except TruelineError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{where} holds what no such model has: {error.message}", where=where) from None
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        LookupError,
        RecursionError,
        MemoryError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        raise ModelError(
            f"{where} is damaged: its metadata do not fit ({reason}); use an intact copy", where=where
        ) from None


def record_class(kind: str, *, where: str = "model file") -> Any:
    """The class of a kind of record."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ModelError(f"{where} holds a {kind!r}, which this version does not know: upgrade trueline", where=where)
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)
