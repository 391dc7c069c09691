"""trueline: linear learning with proof.

Every public name is here, on one screen; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from .engines import register as _register

__version__ = "0.1.0"

_NAMES = {
    # one pass
    "scan": "estimators.sources",
    "Moments": "onepass.moments",
    "LinearRegression": "estimators.linear",
    "Ridge": "estimators.ridge",
    "RidgeCV": "estimators.ridge",
    "Lasso": "estimators.sparse",
    "LassoCV": "estimators.sparse",
    "ElasticNet": "estimators.sparse",
    "ElasticNetCV": "estimators.sparse",
    "PCA": "estimators.components",
    # many passes
    "minimize": "estimators.minimize",
    "lasso_path": "estimators.sparse",
    "LogisticRegression": "estimators.logistic",
    "LinearSVC": "estimators.margin",
    "GeneralizedRegression": "estimators.generalized",
    # one example at a time
    "OnlineRegressor": "estimators.online",
    "OnlineClassifier": "estimators.online",
    "WidrowHoff": "estimators.classics",
    "ExponentiatedGradient": "estimators.classics",
    "Perceptron": "estimators.classics",
    "Winnow": "estimators.classics",
    "RecursiveLeastSquares": "estimators.classics",
    # beyond the line
    "Basis": "estimators.basis",
    "LocalRegression": "estimators.local",
    "RobustRegression": "estimators.robust",
    "OutlierMixture": "estimators.robust",
    "KernelRegression": "estimators.kernel",
    "KernelPerceptron": "estimators.kernel",
    "NeuralNetwork": "estimators.network",
    "AdaBoost": "estimators.boosting",
    "GenerativeClassifier": "estimators.generative",
    "Density": "estimators.generative",
    "NGram": "estimators.generative",
    "compare_geometries": "estimators.geometries",
    # sound
    "AdaptiveFilter": "signal",
    "cancel_echo": "signal",
    # trust
    "load": "estimators.loading",
    "verify": "verifier.verify",
    "TruelineError": "errors",
    "UsageError": "errors",
    "DataError": "errors",
    "ModelError": "errors",
    "NotProvenWarning": "estimators.proofs",
    "set_threads": "threads",
}

__all__ = sorted(_NAMES)  # noqa: PLE0605 (a list of strings, made from the table above)


# Tables of these packages are scanned, fitted and predicted where they are.
for _package in ("dask", "pyspark"):
    _register(_package, lambda: importlib.import_module(".scale.cluster", __name__))


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'trueline' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_NAMES, "__version__"])
