"""Fitted models as plain records: what the command line and the service use, with no scikit-learn.

A record has a ``kind``, ``to_state() -> (arrays, meta)`` and the classmethod ``from_state(arrays, meta)``;
``save`` and ``load`` put it in one file. ``KINDS`` says where each kind's class lives; it is imported when needed.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..errors import ModelError
from ..modelfile import read, save

__all__ = ["KINDS", "load", "record_class", "save"]

KINDS: dict[str, str] = {
    "basis": "trueline.data.formula:FittedBasis",
    "linear": "trueline.model.linear:LinearModel",
    "online": "trueline.online.model:OnlineModel",
    "mixture": "trueline.online.mixture:MixtureModel",
    "ladder": "trueline.online.ladder:RateMixture",
    "merged": "trueline.online.merged:MergedModel",
    "recursive": "trueline.online.recursive:RecursiveModel",
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
    kind, arrays, meta = read(path)
    return record_class(kind, where=str(path)).from_state(arrays, meta)


def record_class(kind: str, *, where: str = "model file") -> Any:
    """The class of a kind of record."""
    if kind not in KINDS:
        raise ModelError(f"{where} holds a {kind!r}, which this version does not know: upgrade trueline", where=where)
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name)
