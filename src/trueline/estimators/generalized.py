"""GeneralizedRegression: Poisson, Gamma, Tweedie, Huber, quantile or a loss of your own, with offset and exposure."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ..engines import engine_of
from ..errors import UsageError
from ..model.iterated import combined_offset, fit_generalized, link_of, refuse_classes
from ..objective.loss_interface import evaluate
from ..objective.losses import resolve_loss
from ..objective.penalties import resolve_penalty
from .logistic import LinearRecord
from .parameters import NONE, Number, Whole
from .proofs import warn_unproven
from .sources import has_intercept, lazily, newton_there, paired


class GeneralizedRegression(LinearRecord, RegressorMixin, BaseEstimator):
    """A generalised linear model with a proof of its optimum.

    Parameters
    ----------
    loss : str or part
        "poisson", "gamma", "tweedie" (log link), "squared", "huber", "quantile", "absolute", "power",
        "epsilon_insensitive", or a NamedTuple of your own with ``value`` and ``slope``.
    power, delta, quantile, epsilon : float
        The field of the loss that has it: Tweedie's power (1 < power < 2) or the power loss's, Huber's delta, the
        quantile, the half-width of the insensitive tube.
    penalty : None, "l1", "l2", "elastic_net" or "nonnegative" (b ≥ 0 and nothing else: alpha plays no part)
    alpha, l1_ratio : float
        The penalty's strength and the share of L1 in the elastic net; the objective is the weighted mean loss plus it.
    fit_intercept : bool
    method, tol, max_iter
        As for ``tl.minimize``.

    Attributes
    ----------
    coef_, intercept_, certificate_, n_iter_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = tl.GeneralizedRegression("poisson").fit(X, [1, 2, 4, 8])
    >>> model.coef_.round(4), model.predict([[4.0]]).round(3), model.certificate_.proven
    (array([0.6931]), array([16.]), True)
    """

    legal = {
        "power": Number(1),
        "delta": Number(0, open=True),
        "quantile": Number(0, 1, open=True),
        "epsilon": Number(0),
        "max_iter": NONE | Whole(1),
    }

    def __init__(
        self,
        loss="poisson",
        *,
        penalty=None,
        alpha=1.0,
        l1_ratio=0.5,
        power=1.5,
        delta=1.35,
        quantile=0.5,
        epsilon=0.1,
        fit_intercept=True,
        method="auto",
        tol=1e-6,
        max_iter=None,
        warm_start=False,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.power = power
        self.delta = delta
        self.quantile = quantile
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def _loss(self) -> Any:
        self._check_parameters()
        fields = {
            "tweedie": {"p": self.power},
            "power": {"p": self.power},
            "huber": {"delta": self.delta},
            "quantile": {"quantile": self.quantile},
            "epsilon_insensitive": {"epsilon": self.epsilon},
        }
        if isinstance(self.loss, str) and self.loss == "tweedie" and not 1.0 < self.power < 2.0:
            raise UsageError(
                f"power is {self.power!r}; Tweedie's lies between 1 and 2 (1 is 'poisson', 2 is 'gamma')", where="power"
            )
        own = fields.get(self.loss, {}) if isinstance(self.loss, str) else {}
        made = resolve_loss(self.loss, **own)
        refuse_classes(made)
        return made

    def _penalty(self) -> Any:
        fields = {"alpha": self.alpha} if self.penalty in ("l1", "l2", "elastic_net") else {}
        if self.penalty == "elastic_net":
            fields["l1_ratio"] = self.l1_ratio
        return resolve_penalty(self.penalty, **fields)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
        target: Any = None,
        **source: Any,
    ) -> Any:
        """Fit; ``offset`` is added to the scores, ``exposure`` multiplies the means (log link).

        Any source is taken with ``target=`` its column's name (other options as for tl.scan); a Dask or Spark table is
        fitted where it lives.
        """
        engine = engine_of(X)
        if engine is not None:
            if offset is not None or exposure is not None:
                raise UsageError("offset and exposure are not taken on Dask and Spark", where="offset")
            loss = self._loss()
            if not getattr(loss, "smooth", True):  # Newton's steps have no curvature to go by, and would stay at 0
                raise UsageError(
                    f"the loss {loss.name!r} has a corner and is not taken on Dask and Spark: take 'huber' there, or fit a "
                    "sample on one machine",
                    where="loss",
                )
            newton_there("method", self.method)
            y, target, options = paired(self, X, y, target, source, sample_weight)
            record = engine.fit_generalized(
                X, target=target, loss=loss, penalty=self._penalty(), fit_intercept=self.fit_intercept,
                tol=self.tol, max_iter=self.max_iter, **options,
            )  # fmt: skip
            self._adopt(record)
            warn_unproven(record.certificate)
            return self
        X, y, sample_weight, kept = self._training_rows(
            X, y, sample_weight, target, source, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32],
            y_numeric=True,
        )  # fmt: skip
        start = None
        if self.warm_start and hasattr(self, "model_") and len(self.model_.coef) == X.shape[1]:
            start = (self.model_.coef, self.model_.intercept)
        record = fit_generalized(
            X,
            y,
            loss=self._loss(),
            penalty=self._penalty(),
            fit_intercept=has_intercept(self, kept.get("schema")),
            sample_weight=sample_weight,
            offset=offset,
            exposure=exposure,
            method=self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            checked=True,
            **kept,
        )
        self._hold(record)
        warn_unproven(record.certificate)
        return self

    def _link(self) -> str:
        return link_of(self._loss())

    @lazily
    def predict(self, X: Any, *, offset: Any = None, exposure: Any = None) -> Any:
        """The mean (or the quantile) of each row; of a Dask or Spark table lazily, where it lives."""
        rows = self._rows(X)
        scores = self.model_.score(rows)
        shift = combined_offset(offset, exposure, len(scores), self.model_.link)
        scores = scores if shift is None else scores + shift
        loss = self._loss()
        if self.model_.link == "log":
            return np.exp(scores)
        return scores if loss.own is None else evaluate(loss, "mean", scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        try:
            kind = getattr(self._loss(), "targets", "real")
        except ValueError:
            kind = "real"
        tags.target_tags.positive_only = kind in ("nonnegative", "positive")
        return tags
