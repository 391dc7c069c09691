"""GenerativeClassifier: Bayes' rule on class densities, with a density for each entity if asked."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from ..beyond.density import DensityModel
from ..beyond.generative import FOLDS, GenerativeModel
from ..errors import DataError, UsageError, nearest
from .checking import refuse_target
from .density import Density, Tabular, checked_count, checked_weights, density_plot, generator, names_of
from .ngram import NGram
from .parameters import NONE, Number, OneOf, That, numbers_of
from .tables import as_array, column_number, read_table

__all__ = ["Density", "GenerativeClassifier", "NGram"]


class GenerativeClassifier(Tabular, ClassifierMixin, BaseEstimator):
    """Bayes' rule on class densities: streaming, mergeable, at ease with missing values, with a density per entity.

    Parameters
    ----------
    density, alpha, var_smoothing : as in ``Density``.
    covariance : of the Gaussian columns: "diagonal" (naive Bayes), "full" (quadratic discriminants) or "shared"
        (linear discriminants).
    priors : of the classes, in the order of ``classes_``; None takes their shares of the rows.
    correction : 0 divides scatters by n, the maximum of the likelihood; 1 by n − 1 (a class), which is unbiased.
    calibration : None, or "temperature": posteriors are fitted to rows scored before they were learned (five folds
        in ``fit``, each batch in ``partial_fit``).
    entity : a column (name or number) that says whose row it is. Each entity then has its own density of
        ``entity_class``, backed off to the population by ``backoff`` rows' worth; diagonal covariance only.
    entity_class : the class with entities' densities; None takes the one with the most rows in the first fit.

    Attributes
    ----------
    classes_, class_prior_, class_count_, densities_
    certificate_ : the joint training log-likelihood and how far the family's maximum is above it.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[160.0, 55.0], [165.0, 60.0], [175.0, 75.0], [182.0, 85.0]])
    >>> model = tl.GenerativeClassifier().fit(X, ["f", "f", "m", "m"])
    >>> model.predict([[163.0, np.nan], [np.nan, 80.0]])
    array(['f', 'm'], dtype='<U1')

    Iris with one covariance for its three kinds (linear discriminant analysis); flower 70 is in doubt:

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> flowers = tl.GenerativeClassifier(covariance="shared").fit(X, y)
    >>> round(flowers.score(X, y), 2), flowers.predict_proba(X[[70]]).round(2)
    (0.98, array([[0.  , 0.25, 0.75]]))
    """

    legal = {
        "priors": NONE | numbers_of(Number(0), "a list of numbers, one per class,"),
        "correction": Number(0),
        "calibration": OneOf(None, "temperature"),
        "entity": NONE | That("a column's name or number", lambda value: isinstance(value, (str, int, np.integer))),
        "entity_class": NONE | That("a label", lambda value: isinstance(value, (str, numbers.Number, np.generic))),
        "backoff": Number(0, open=True),
    }

    def __init__(
        self, density="auto", *, covariance="diagonal", priors=None, alpha=1.0, var_smoothing=1e-9, correction=0,
        calibration=None, entity=None, entity_class=None, backoff=10.0,
    ):  # fmt: skip
        self.density = density
        self.covariance = covariance
        self.priors = priors
        self.alpha = alpha
        self.var_smoothing = var_smoothing
        self.correction = correction
        self.calibration = calibration
        self.entity = entity
        self.entity_class = entity_class
        self.backoff = backoff

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn rows and their classes, forgetting any before."""
        return self._learn(X, y, sample_weight, None, fresh=True, folds=FOLDS)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn more rows: the same as one fit of all of them. New classes may come at any time."""
        return self._learn(X, y, sample_weight, classes, fresh=not hasattr(self, "model_"), folds=1)

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any, *, fresh: bool, folds: int) -> Any:
        self._check_options()
        if y is None:
            raise UsageError(f"{type(self).__name__} requires y to be passed, but the target y is None", where="y")
        table = read_table(self, X, reset=fresh)
        y = column_or_1d(y, warn=True)
        check_consistent_length(table[0], y)
        if y.dtype.kind not in "biuUS":  # those are classes whatever they hold
            refuse_target(y, numeric=False)
            check_classification_targets(y)
        weights = checked_weights(sample_weight, len(y))
        table, entity = self._split(table)
        levels, inverse = np.unique(y, return_inverse=True)
        counted = levels if weights.all() else np.unique(y[weights > 0])
        found = sorted({*counted.tolist(), *(() if classes is None else np.asarray(classes).ravel().tolist())})
        if fresh:
            self._classes_like = np.asarray(y).dtype
            model = GenerativeModel(found, self._start(table, weights, len(found)))
            model.calibrated = self.calibration is not None
        else:
            model = self.model_
            model.grow(found)
        place = {c: k for k, c in enumerate(model.classes)}
        codes = np.array([place.get(c, 0) for c in levels.tolist()], dtype=np.int64)[inverse]
        model.priors = self._priors(model)
        if self.entity is not None and model.own is None:
            counts = np.bincount(codes, weights, len(model.classes))
            own = int(np.argmax(counts)) if self.entity_class is None else place.get(self.entity_class, -1)
            if own < 0:
                raise UsageError(
                    f"entity_class is {self.entity_class!r}{nearest(str(self.entity_class), model.classes)}",
                    where="entity_class",
                )
            model.start_entities(own, float(self.backoff))
        if model.calibrated:
            self._rehearse(model, table, codes, weights, entity, folds)
        model.learn(table, codes, weights, entity)
        self._hold(model)
        return self

    def _check_options(self) -> None:
        if self.entity is None and self.entity_class is not None:
            raise UsageError(
                "entity_class goes with entity=, the column that says whose row it is", where="entity_class"
            )
        if self.entity is not None and self.covariance != "diagonal":
            raise UsageError(
                f"entity= with covariance={self.covariance!r}: an entity has too few rows for covariances; "
                "covariance='diagonal' is accepted",
                where="covariance",
            )

    def _start(self, table: list[np.ndarray], weights: np.ndarray, groups: int) -> DensityModel:
        """Class densities without rows; columns are named as the user knows them, the entity's left out."""
        names, density = names_of(self), self.density
        if self.entity is not None:
            out = column_number(self, self.entity, "entity")
            kept = [j for j in range(self.n_features_in_) if j != out]
            labels = [names[j] if names is not None else f"x{j}" for j in kept]
            if isinstance(density, dict):
                if names is None:
                    density = {f"x{k}" if isinstance(k, (int, np.integer)) else k: v for k, v in density.items()}
                density = {k: v for k, v in density.items() if k not in (self.entity, f"x{out}")}
            names = tuple(labels)
        if not table:
            raise DataError("there is no column beside the entity's; at least one is needed", where="X")
        return self._empty(table, weights, groups, names, density)

    def _split(self, table: list[np.ndarray]) -> tuple[list[np.ndarray], list[Any] | None]:
        """The columns that have densities, and whose each row is."""
        if self.entity is None:
            return table, None
        place = column_number(self, self.entity, "entity")
        return [c for j, c in enumerate(table) if j != place], table[place].tolist()

    def _priors(self, model: GenerativeModel) -> np.ndarray | None:
        if self.priors is None:
            return None
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != (len(model.classes),) or (priors < 0).any() or not 0.99 < priors.sum() < 1.01:
            raise UsageError(
                f"priors are {self.priors!r}; {len(model.classes)} numbers from 0 that sum to 1 are accepted",
                where="priors",
            )
        return priors / priors.sum()

    def _rehearse(
        self, model: GenerativeModel, table: list[np.ndarray], codes: np.ndarray, weights: np.ndarray, entity: Any,
        folds: int,
    ) -> None:  # fmt: skip
        """Score rows by a model that has not learned them: this one (a stream) or one of the other folds."""
        if folds == 1:
            if model.density.rows.all():
                model.hold(model.log_joint(table, entity), codes, weights)
            return
        fold = np.arange(len(codes)) % folds

        def part(rows: np.ndarray) -> tuple[list[np.ndarray], Any]:
            return [c[rows] for c in table], None if entity is None else [entity[i] for i in rows]

        for k in range(folds):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            if not len(test) or (np.bincount(codes[train], weights[train], len(model.classes)) == 0).any():
                continue
            other = GenerativeModel(model.classes, self._start(table, weights, len(model.classes)), model.priors)
            if model.own is not None:
                other.start_entities(model.own_class, model.backoff)
            other.density.auto = None  # densities are chosen by all rows, not by those of a fold
            if other.own is not None:
                other.own.auto = None
            rows, whose = part(train)
            other.learn(rows, codes[train], weights[train], whose)
            rows, whose = part(test)
            model.hold(other.log_joint(rows, whose), codes[test], weights[test])

    def _hold(self, model: GenerativeModel) -> None:
        model.certify()
        self.model_, self.certificate_ = model, model.certificate
        classes = np.array(model.classes)
        self.classes_ = classes.astype(self._classes_like) if classes.dtype.kind != "U" else classes
        self.class_count_ = model.density.rows
        self.class_prior_ = np.exp(model.log_priors())
        self.densities_ = model.density.chosen()

    def _table(self, X: Any) -> tuple[list[np.ndarray], list[Any] | None]:
        check_is_fitted(self)
        return self._split(read_table(self, X, reset=False))

    def _asked(self, X: Any, question: str) -> np.ndarray:
        rows = self._table(X)
        return getattr(self.model_, question)(*rows)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-posteriors, rows × classes."""
        return self._asked(X, "log_posterior")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posteriors, rows × classes."""
        return self._asked(X, "posterior")

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        best = np.argmax(self._asked(X, "standing"), axis=1)
        return self.classes_[best]

    def log_likelihood(self, X: Any) -> np.ndarray:
        """log p(row | class), rows × classes."""
        return self._asked(X, "log_densities")

    def log_density(self, X: Any) -> np.ndarray:
        """log p(row), the classes summed out."""
        joint = self._asked(X, "log_joint")
        top = joint.max(axis=1, keepdims=True)
        return (top + np.log(np.exp(joint - top).sum(axis=1, keepdims=True)))[:, 0]

    def log_likelihood_ratio(self, X: Any, positive: Any = None, negative: Any = None) -> np.ndarray:
        """log p(row | positive) − log p(row | negative); the default is the second class against the first, or, with
        ``entity``, the other class against the entity's own."""
        likelihood = self.log_likelihood(X)
        if len(self.classes_) != 2 and (positive is None or negative is None):
            raise UsageError(f"there are {len(self.classes_)} classes; name positive= and negative=", where="positive")
        low = (0 if self.entity is None else self.model_.own_class) if negative is None else self._class(negative)
        high = 1 - low if positive is None else self._class(positive)
        return likelihood[:, high] - likelihood[:, low]

    def _class(self, name: Any) -> int:
        if name not in self.model_.classes:
            raise UsageError(f"there is no class {name!r}{nearest(str(name), self.model_.classes)}", where="positive")
        return self.model_.classes.index(name)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(rows, classes) drawn from the model; entities' own densities are not used."""
        check_is_fitted(self)
        rng = generator(random_state)
        codes = rng.choice(
            len(self.classes_), size=checked_count(n_samples), p=self.class_prior_ / self.class_prior_.sum()
        )
        return as_array(self.model_.density.sample(codes, rng)), self.classes_[codes]

    def sufficient_statistics(self, X: Any) -> np.ndarray:
        """The columns in which this model's log-odds are linear (x and x² of a Gaussian, the levels of a category …)."""
        table, _ = self._table(X)
        return self.model_.density.sufficient(table)

    def discriminative_twin(self, X: Any, y: Any, **parameters: Any) -> Any:
        """Logistic regression in this model's sufficient statistics: the same boundaries, fitted to P(class | row) alone.

        Complete rows only; ``parameters`` go to ``tl.LogisticRegression``. A scikit-learn Pipeline.
        """
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        from .logistic import LogisticRegression

        step = FunctionTransformer(self.sufficient_statistics)
        return make_pipeline(step, StandardScaler(), LogisticRegression(**parameters)).fit(X, y)

    def __add__(self, other: Any) -> Any:
        """The model of both streams."""
        check_is_fitted(self)
        check_is_fitted(other)
        made = type(self)(**self.get_params())
        for name in ("n_features_in_", "feature_names_in_", "_classes_like"):
            if hasattr(self, name):
                setattr(made, name, getattr(self, name))
        made._hold(self.model_ + other.model_)
        return made

    def plot(self, column: Any = 0, ax: Any = None) -> Any:
        """The density of one column in each class, the other columns integrated out; the matplotlib axes."""
        check_is_fitted(self)
        place = column_number(self, column, "column")
        out = None if self.entity is None else column_number(self, self.entity, "entity")
        if place == out:
            raise UsageError(f"column {column!r} says whose row it is and has no density", where="column")
        inner = place - int(out is not None and place > out)
        return density_plot(self.model_.density, inner, [str(c) for c in self.classes_], ax, str(column))

    def _record(self) -> GenerativeModel:
        model = self.model_
        model.dtype = self.classes_.dtype.str
        model.fitted_on = {
            "columns": int(self.n_features_in_),
            "names": None if names_of(self) is None else list(self.feature_names_in_),
        }
        return model

    def _adopt(self, record: GenerativeModel) -> None:
        about = record.fitted_on
        self.n_features_in_ = about["columns"]
        if about["names"] is not None:
            self.feature_names_in_ = np.array(about["names"], dtype=object)
        self._classes_like = np.dtype(record.dtype)
        self._hold(record)
