"""Density: the probability density of a table, and what it shares with the classifier built on it."""

from __future__ import annotations

import functools
import operator
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from ..beyond.density import COVARIANCES, NAMES, DensityModel, is_density
from ..errors import DataError, UsageError
from ..onepass.moments import refuse_weights
from ..report.plots import axes
from .checking import check_weights
from .loading import Saved
from .parameters import Checked, Number, OneOf, That
from .tables import as_array, column_number, read_table


def checked_weights(sample_weight: Any, rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(rows)
    weights = check_weights(sample_weight, np.empty((rows, 1)))
    refuse_weights(weights)
    if not weights.any():
        raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
    return weights


def checked_count(n_samples: Any) -> int:
    if isinstance(n_samples, bool) or not isinstance(n_samples, Real) or float(n_samples) % 1 or float(n_samples) < 1:
        raise UsageError(f"n_samples is {n_samples!r}; a whole number of at least 1 is accepted", where="n_samples")
    return int(float(n_samples))


def generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def names_of(estimator: Any) -> tuple[str, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(names)


class Mergeable(Checked):
    """Models that are sums over rows: ``a.merge(b, c)`` is ``a + b + c``."""

    def merge(self, *others: Any) -> Any:
        """The model of all their rows, as if one had learned them; none of them changes."""
        return functools.reduce(operator.add, others, self)


class Tabular(Mergeable, Saved):
    """What both share: missing values are welcome."""

    legal = {
        "density": That("the name of a density or a dict of them by column", is_density, NAMES),
        "covariance": OneOf(*COVARIANCES),
        "var_smoothing": Number(0),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags

    def _empty(
        self, table: list[np.ndarray], weights: np.ndarray, groups: int, names: Any, density: Any
    ) -> DensityModel:
        me: Any = self
        return DensityModel.start(
            table, weights, groups, density=density, covariance=me.covariance, names=names, alpha=me.alpha,
            smoothing=me.var_smoothing, correction=getattr(me, "correction", 0.0),
        )  # fmt: skip


COUNTED = ("poisson", "bernoulli", "categorical")


def density_plot(model: DensityModel, place: int, labels: list[str], ax: Any, name: str) -> Any:
    """The density of one column in every group, over all but its far tails: curves, or bars where it is counted."""
    ax = axes(ax, (6.4, 3.6))
    groups = np.repeat(np.arange(model.groups), 2000 // model.groups + 1)
    drawn = model.sample(groups, np.random.default_rng(0))[place]
    kind = list(model.chosen().values())[place]
    if kind in COUNTED:
        value = np.unique(drawn) if kind != "poisson" else np.arange(drawn.min(), drawn.max() + 1)
    else:
        low, high = np.quantile(drawn, [0.001, 0.999])
        value = np.linspace(low, high, 400)
    table = [value if j == place else np.full(len(value), np.nan) for j in range(model.columns)]
    height = np.exp(model.log_density(table))
    for k, label in enumerate(labels):
        if kind in COUNTED:
            wide = 0.8 / len(labels)
            ax.bar(np.arange(len(value)) + (k + 0.5) * wide - 0.4, height[:, k], wide, label=label or None)
        else:
            ax.plot(value, height[:, k], label=label or None)
    if kind in COUNTED:
        shown = np.arange(0, len(value), -(-len(value) // 20))
        ax.set_xticks(shown, [f"{value[k]:g}" if value.dtype != object else str(value[k]) for k in shown])
    if any(labels):
        ax.legend(frameon=False)
    ax.set(xlabel=name, ylabel="probability" if kind in COUNTED else "density", ylim=(0, None))
    return ax


class Density(Tabular, DensityMixin, BaseEstimator):
    """The probability density of a table's rows: fit, stream, merge, score, sample.

    Parameters
    ----------
    density : "auto", the name of one density for every column, or a dict of them by column name or number: "gaussian",
        "poisson", "categorical" (strings or numbers), "bernoulli", "histogram", "mixture" or "mixture(3)" (of
        Gaussians). "auto", which columns not named in the dict have, goes by the values: 0 and 1 are a
        Bernoulli, counts a Poisson, strings categories, other numbers Gaussian. On a stream the choice follows the
        rows, so that learning row by row ends where one fit ends (with ``covariance="diagonal"``).
    covariance : "diagonal", or "full": the Gaussian columns have covariances.
    alpha : rows' worth of smoothing in counts (of every level, bin, or the common rate).
    var_smoothing : the share of the largest variance that is added to all variances.

    Missing values (NaN, None) are integrated out, in fit and in scores.

    Attributes
    ----------
    densities_ : the density of each column.
    certificate_ : the training log-likelihood and how far the family's maximum is above it.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> heights = np.array([[162.0], [170.0], [178.0]])
    >>> model = tl.Density("gaussian").fit(heights)
    >>> model.log_density([[170.0]]).round(3)
    array([-2.796])
    >>> both = tl.Density("gaussian").fit(heights[:2]).merge(tl.Density("gaussian").fit(heights[2:]))
    >>> bool(np.isclose(both.score(heights), model.score(heights)))
    True

    The petals of three kinds of iris, which one Gaussian describes badly:

    >>> from sklearn.datasets import load_iris
    >>> petals = load_iris().data[:, 2:3]
    >>> {kind: round(float(tl.Density(kind).fit(petals).score(petals)), 2) for kind in ("gaussian", "mixture")}
    {'gaussian': -1.98, 'mixture': -1.34}
    """

    def __init__(self, density="auto", *, covariance="diagonal", alpha=1.0, var_smoothing=1e-9):
        self.density = density
        self.covariance = covariance
        self.alpha = alpha
        self.var_smoothing = var_smoothing

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn rows, forgetting any before."""
        return self._learn(X, sample_weight, fresh=True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn more rows: the same as one fit of all of them."""
        return self._learn(X, sample_weight, fresh=not hasattr(self, "model_"))

    def _learn(self, X: Any, sample_weight: Any, fresh: bool) -> Any:
        table = read_table(self, X, reset=fresh)
        weights = checked_weights(sample_weight, len(table[0]))
        model = self._empty(table, weights, 1, names_of(self), self.density) if fresh else self.model_
        model.learn(table, weights, np.zeros(len(weights), dtype=np.int64))
        self._hold(model)
        return self

    def _hold(self, model: DensityModel) -> None:
        model.certificate = model.certify()
        self.model_, self.certificate_, self.densities_ = model, model.certificate, model.chosen()

    def log_density(self, X: Any) -> np.ndarray:
        """The log-density of each row; −inf for a category never seen."""
        check_is_fitted(self)
        return self.model_.log_density(read_table(self, X, reset=False), unknown=-np.inf)[:, 0]

    score_samples = log_density

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-density of rows."""
        return float(self.log_density(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Rows drawn from the density."""
        check_is_fitted(self)
        group = np.zeros(checked_count(n_samples), dtype=np.int64)
        return as_array(self.model_.sample(group, generator(random_state)))

    def __add__(self, other: Any) -> Any:
        """The model of both streams."""
        check_is_fitted(self)
        check_is_fitted(other)
        made = type(self)(**self.get_params())
        made._adopt(self.model_ + other.model_)
        return made

    def plot(self, column: Any = 0, ax: Any = None) -> Any:
        """The density of one column, the others integrated out; the matplotlib axes."""
        check_is_fitted(self)
        return density_plot(self.model_, column_number(self, column, "column"), [""], ax, str(column))

    def _record(self) -> DensityModel:
        return self.model_

    def _adopt(self, record: DensityModel) -> None:
        self.n_features_in_ = record.columns
        if record.names is not None:
            self.feature_names_in_ = np.array(record.names, dtype=object)
        self._hold(record)
