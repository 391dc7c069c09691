"""``tl.Basis``: functions of the columns as a scikit-learn transformer; ``scan(formula=…)`` uses the same functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import dense
from ..data.basis import Call, Function, Identity
from ..data.formula import FittedBasis, Formula
from ..data.polynomial import residual
from ..errors import DataError, UsageError, nearest
from ..report.plots import axes
from .checking import validate_data
from .loading import Saved
from .parameters import NONE, That


class Basis(Saved, TransformerMixin, BaseEstimator):
    """Functions of the columns, for a model that is linear in them.

    Parameters
    ----------
    formula:
        Terms joined by ``+``: ``poly(x, 9)``, ``gaussian(x, 10)``, ``sigmoid(x, 5)``, ``spline(x, 8)``, ``log(z)``,
        ``log(z + 1)``, ``lag(x, 2)``, ``lags(x, 5)``, ``x:z`` for a product, a plain name, and ``.`` for every other
        column (also inside: ``poly(., 3)``). Columns of an array without names are x0, x1, …; where a formula
        names exactly as many columns as the array has, they may have any names, in the array's order.
    functions:
        Instead of a formula: a list of functions from :mod:`trueline.data.basis`, of tuples of them (products) and of
        pairs (column, callable); or a dictionary from columns to a callable or a list of callables.

    Attributes
    ----------
    formula_:
        The formula with its constants, which ``fit`` takes from the rows it sees.
    columns_:
        The names of the columns.
    n_features_in_, feature_names_in_:
        As in scikit-learn.

    Notes
    -----
    Polynomials are made orthogonal on the training rows and evaluated in double-double arithmetic;
    :meth:`raw_coefficients` gives the coefficients of x, x², … exactly from theirs. The first rows of a lag, which
    have nothing before them, use the first value (``scan`` leaves those rows out).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> basis = Basis("poly(x, 3)").fit(x)
    >>> design = basis.transform(x)
    >>> design.shape, bool(np.linalg.cond(design) < 2)
    ((50, 3), True)
    >>> coefficients = np.linalg.lstsq(np.c_[np.ones(50), design], 1 + 2 * x[:, 0] ** 3, rcond=None)[0]
    >>> {name: round(value, 10) + 0.0 for name, value in basis.raw_coefficients(coefficients).items()}
    {'(intercept)': 1.0, 'x': 0.0, 'x^2': 0.0, 'x^3': 2.0}

    The progress of diabetes: does a bend in body mass and its product with blood pressure predict better?

    >>> import trueline as tl
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> table = load_diabetes(as_frame=True)
    >>> for formula in ("bmi + bp + s5", "poly(bmi, 2) + bp + s5 + bmi:bp"):
    ...     model = make_pipeline(tl.Basis(formula), tl.LinearRegression())
    ...     print(f"{formula:32s}{cross_val_score(model, table.data, table.target, cv=10).mean():.3f}")
    bmi + bp + s5                   0.439
    poly(bmi, 2) + bp + s5 + bmi:bp 0.449
    """

    legal = {
        "formula": That("a formula", lambda value: isinstance(value, (str, Formula))),
        "functions": NONE
        | That("a list or dictionary of functions", lambda value: isinstance(value, (list, tuple, dict))),
    }

    def __init__(self, formula: str | Formula = "poly(., 2)", *, functions: Any = None) -> None:
        self.formula = formula
        self.functions = functions

    def fit(self, X: Any, y: Any = None) -> Basis:
        """Take the constants of the functions from these rows."""
        X = validate_data(self, X, dtype=np.float64)
        given = getattr(self, "feature_names_in_", None)
        names = [f"x{j}" for j in range(X.shape[1])] if given is None else [str(name) for name in given]
        told = self._told()
        own = told.columns
        if given is None and len(own) == len(names) and not set(own) <= set(names):
            names = own  # the formula's own names for the columns of an array that has none
        formula = told.resolve([name for name in names if name != told.target])
        for column in formula.columns:
            if column not in names:
                raise UsageError(f"there is no column {column!r}{nearest(column, names)}", where=column)
        for column in formula.categories:
            raise UsageError(
                f"C({column}) makes a category, and Basis has numbers only; give the formula to tl.scan, or the column to "
                "scikit-learn's OneHotEncoder",
                where=column,
            )
        self.columns_ = names
        self.formula_ = formula.fix(X, self._known())
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The functions' values, one row per row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        made, names, _ = self.formula_.expand(X, self._known(), hold=True)
        if not np.isfinite(made.sum()):
            bad = ~np.isfinite(made)
            if bad.any():
                k = int(np.argmax(bad.any(axis=0)))
                row = int(np.argmax(bad[:, k]))
                raise DataError(
                    f"{names[k]} is not a finite number in row {row}; leave that row out, or take a function that its "
                    "value has",
                    where=names[k],
                )
        return made

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the functions."""
        check_is_fitted(self)
        return np.array(self.formula_.terms(self._known()), dtype=object)

    def plot(self, X: Any, column: Any = 0, ax: Any = None) -> Any:
        """The functions along one column of these rows, the others at their medians; the matplotlib axes."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        place = self.columns_.index(column) if column in self.columns_ else column
        if isinstance(place, bool) or not isinstance(place, (int, np.integer)) or not 0 <= place < len(self.columns_):
            raise UsageError(f"there is no column {column!r}{nearest(str(column), self.columns_)}", where="column")
        along = np.tile(np.median(rows, axis=0), (400, 1))
        along[:, place] = np.linspace(rows[:, place].min(), rows[:, place].max(), 400)
        made, _, _ = self.formula_.expand(along, self._known(), hold=True)
        ax = axes(ax)
        moving = [k for k in range(made.shape[1]) if np.ptp(made[:, k]) > 0.0]
        for k in moving:
            ax.plot(along[:, place], made[:, k], label=self.get_feature_names_out()[k])
        if 0 < len(moving) <= 12:
            ax.legend(frameon=False, fontsize=8)
        ax.set(xlabel=self.columns_[place], ylabel="value of the function")
        return ax

    def raw_coefficients(self, model: Any, X: Any = None, y: Any = None) -> dict[str, float]:
        """A linear model on this basis as one on x, x², …: exact, then rounded once.

        ``model`` is a fitted linear model, or its intercept followed by its coefficients. Where the raw coefficients
        are many times smaller than the values they add up to, the rounding of the model's own coefficients shows:
        with the training rows X, y of an unpenalised fit a step of refinement in double-double takes it away.
        """
        check_is_fitted(self)
        if hasattr(model, "coef_"):
            numbers = np.r_[np.ravel(model.intercept_)[:1], np.ravel(model.coef_)]
        else:
            numbers = np.asarray(model, dtype=float)
        terms = self.get_feature_names_out()
        if len(numbers) != len(terms) + 1:
            raise UsageError(f"the basis has {len(terms)} functions, the model {len(numbers) - 1}", where="model")
        exact = [Fraction(float(c)) for c in numbers]
        if X is not None:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
            D = np.c_[np.ones(len(rows)), self.transform(rows)]
            low = np.c_[np.zeros(len(rows)), self.formula_.low_parts(rows, self._known(), list(terms))]
            left = residual(D, low, np.asarray(y, dtype=float), numbers)
            exact = [c + Fraction(float(step)) for c, step in zip(exact, dense.lstsq(D, left, rcond=None)[0])]
        intercept, coefficients = self.formula_.raw(list(terms), exact[1:], exact[0])
        return {"(intercept)": intercept} | coefficients

    def raw_covariance(self, covariance: Any) -> np.ndarray:
        """The covariance of the raw coefficients from that of (intercept, coefficients) on this basis."""
        check_is_fitted(self)
        _, matrix = self.formula_.raw_matrix(list(self.get_feature_names_out()))
        C = [[Fraction(float(value)) for value in row] for row in np.asarray(covariance)]
        half = [[sum((t * c for t, c in zip(row, column)), Fraction(0)) for column in zip(*C)] for row in matrix]
        return np.array(
            [[float(sum((h * t for h, t in zip(row, other)), Fraction(0))) for other in matrix] for row in half]
        )

    def _known(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, (name,)) for name in self.columns_]

    def _told(self) -> Formula:
        if self.functions is None:
            return Formula.parse(self.formula) if isinstance(self.formula, str) else self.formula
        given = self.functions
        if isinstance(given, Mapping):
            given = [(name, f) for name, fs in given.items() for f in (fs if isinstance(fs, Sequence) else [fs])]
        if not given:
            raise UsageError("functions is empty; give at least one function of a column", where="functions")
        return Formula(tuple(_product(item) for item in given))

    def _record(self) -> FittedBasis:
        return FittedBasis(self.formula_, tuple(self.columns_), hasattr(self, "feature_names_in_"))

    def _adopt(self, record: FittedBasis) -> None:
        self.formula_ = record.formula
        self.columns_ = list(record.names)
        self.n_features_in_ = len(record.names)
        if record.named:
            self.feature_names_in_ = np.array(record.names, dtype=object)


def _product(item: Any) -> tuple[Function, ...]:
    if isinstance(item, Function):
        return (item,)
    if isinstance(item, str):
        return (Identity(item),)
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str) and callable(item[1]):
        return (Call(item[0], item[1]),)
    if isinstance(item, (tuple, list)) and item and all(isinstance(f, (Function, str)) for f in item):
        return tuple(Identity(f) if isinstance(f, str) else f for f in item)
    raise UsageError(
        f"{item!r} is not a function of a column, a tuple of them, or (column, callable)", where="functions"
    )
