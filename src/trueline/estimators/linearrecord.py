"""What every estimator with a linear record shares: the record, its certificate and its summary."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from ..model.linear import LinearModel, as_terms
from ..report.summary import summarise
from .assigned import Shown
from .loading import Saved
from .sources import ScoredHere


class HoldsLinear(Shown, ScoredHere, Saved):
    """An estimator that predicts by a linear record, whose numbers it shows as ``coef_`` and ``intercept_``.

    Both may be assigned, whole or in part: predictions use them, ``certificate_`` is then None, and ``summary()`` says
    why it has no tests.
    """

    coef_: np.ndarray
    intercept_: Any
    shown = {"coef_": "coef", "intercept_": "intercept"}

    @property
    def model_(self) -> LinearModel:
        """The plain record."""
        return self._agreeing()  # type: ignore[no-any-return]

    @model_.setter
    def model_(self, record: LinearModel) -> None:
        self.__dict__["_kept"] = record

    @property
    def certificate_(self) -> Any:
        """What holds of the fit; None once a coefficient was assigned."""
        return self.model_.certificate

    def _record(self) -> LinearModel:
        check_is_fitted(self)
        return self.model_

    def _link(self) -> str:
        """How scores become predictions, for coefficients that were assigned before any fit."""
        return "identity"

    def _from_shown(self) -> LinearModel:
        estimator: Any = self
        if "coef_" not in self.__dict__:
            return super()._from_shown()  # type: ignore[no-any-return]
        coef = np.asarray(self.coef_, dtype=float)
        intercept = np.asarray(self.__dict__.get("intercept_", 0.0), dtype=float)
        link = self._link()
        classes = tuple(np.asarray(estimator.classes_).tolist()) if link in ("logistic", "softmax", "sign") else ()
        if len(classes) == 2:
            coef, intercept = coef.reshape(-1), intercept.reshape(-1)[:1]
        rows = (len(classes),) if len(classes) > 2 else coef.shape[:-1]
        if coef.ndim not in (1, 2) or coef.shape[:-1] != rows or intercept.size not in (1, *rows):
            raise DataError(
                f"coef_ was assigned an array of shape {coef.shape} and intercept_ one of {intercept.shape}; give one row "
                "of coefficients per target or class, and as many intercepts",
                where="coef_",
            )
        terms = as_terms(getattr(self, "feature_names_in_", None), coef.shape[-1])
        constant: Any = np.broadcast_to(intercept.ravel(), rows).copy() if rows else float(intercept.ravel()[0])
        targets = ("y",) if not rows or classes else tuple(f"y{k}" for k in range(rows[0]))
        return LinearModel(
            terms,
            coef.copy(),
            constant,
            targets,
            None,
            link,
            classes,
            statistics={"family": "linear", "assigned": True},
        )

    def summary(
        self,
        *,
        level: float = 0.95,
        target: int | str | None = None,
        robust: str | None = None,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        """The table of coefficients, standard errors, tests and intervals, and the fit's figures.

        Parameters
        ----------
        level : float
            Of the intervals.
        target : int or str
            One of several targets or classes; None shows all of them.
        robust : "HC0", "HC1", "HC2", "HC3" or "cluster"
            Errors that hold when rows differ in spread, or go together in groups. They need the rows of the fit once
            more: ``X`` and ``y`` (or a source as ``X``), with ``sample_weight``, ``offset`` and ``exposure`` where the
            fit had them.
        groups : array or str
            For "cluster": one label per row, or the name of a column of the source.
        """
        check_is_fitted(self)
        return summarise(
            self.model_, level=level, target=target, robust=robust, X=X, y=y, sample_weight=sample_weight,
            groups=groups, offset=offset, exposure=exposure,
        )  # fmt: skip
