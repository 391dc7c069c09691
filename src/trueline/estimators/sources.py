"""tl.scan: one pass over any source, here or where a Dask or Spark table lives."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ..engines import engine_of
from ..errors import DataError, UsageError, named_options
from ..onepass.moments import Moments
from .parameters import Checked, unknown_argument

Method = TypeVar("Method", bound=Callable[..., Any])


def lazily(method: Method) -> Method:
    """Let predict, predict_proba, … take a Dask or Spark table: the method runs where the table lives, when asked."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def taken(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        engine = engine_of(X)
        if engine is None:
            return method(self, X, *args, **options)
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        given = dict(signature.bind(self, X, *args, **options).arguments)
        asked = {k: v for k, v in given.items() if k not in ("self", "X")}
        if hasattr(self, "_foresee"):  # what the workers would refuse, perhaps hours later, is refused at the call
            self._foresee(method.__name__, asked)
        return engine.predict(nameless(self, X), X, method.__name__, asked)

    return cast(Method, taken)


def nameless(estimator: Any, X: Any) -> Any:
    """The estimator as it takes X: an array of another engine has no names, so that its columns count by their order.

    So it is with an array here. The copy shares all that was learned.
    """
    if hasattr(X, "columns") or getattr(X, "ndim", 0) != 2:
        return estimator
    known = getattr(estimator, "n_features_in_", None)
    if known is not None and X.shape[1] == X.shape[1] != known:  # a width that is not known is not a number
        raise DataError(
            f"the array has {X.shape[1]} columns and the model {known}; give the columns of the fit, in their order",
            where="X",
        )
    bare = copy.copy(estimator)
    bare.__dict__.pop("feature_names_in_", None)
    for name in ("model_", "record_"):
        record: Any = getattr(bare, name, None)
        if getattr(record, "schema", None) is not None:
            plain = copy.copy(record)
            plain.schema = None
            setattr(bare, name, plain)
    return bare


class ScoredHere(Checked):
    """Mixin before scikit-learn's: its scores are of vectors here, and its own errors tell nothing about that."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As scikit-learn's: R² of a regressor, the share of right labels of a classifier."""
        refuse_there(X, "score", "compute predictions and targets first and give them to a function of sklearn.metrics")
        return super().score(X, y, sample_weight)  # type: ignore[misc, no-any-return]


def refuse_there(X: Any, name: str, remedy: str) -> None:
    """Refuse a Dask or Spark table where a method needs rows here."""
    if engine_of(X) is not None:
        raise UsageError(f"{name} is not taken on Dask and Spark: {remedy}", where="X")


def newton_there(name: str, method: str) -> None:
    """Refuse a method that Dask and Spark do not have; "auto" and scikit-learn's names leave the choice."""
    if method not in ("auto", "newton"):
        raise UsageError(f"on Dask and Spark the method is 'newton', not {method!r}; leave {name} out", where=name)


def paired(
    estimator: Any, X: Any, y: Any, target: Any, source: dict[str, Any], sample_weight: Any = None
) -> tuple[Any, ...]:
    """(y, target, options): a formula may name the target; two Dask arrays become one source with a column ``y``.

    Options are those of :func:`scan`; others, and options that do not go with arrays, are refused by name.
    """
    check_source_options(estimator, source)
    if y is None and source.get("formula") is not None:
        from ..data.choice import parsed, target_of

        target = target_of(parsed(source["formula"]), target)
    if engine_of(X) is None:
        if y is not None or target is None:
            refuse_with_arrays(source if target is None else {"target": target})
        elif sample_weight is not None:
            raise UsageError(
                "the weights of a source are one of its columns: give weights= its name instead of sample_weight",
                where="sample_weight",
            )
        return y, target, source
    if sample_weight is not None:
        raise UsageError("on Dask and Spark the weights are a column: give weights= its name", where="sample_weight")
    if y is not None:
        return None, "y", source | {"y": y}
    if target is None:
        raise UsageError("give target= to say which column of the table it is", where="target")
    return None, target, source


def check_source_options(estimator: Any, options: dict[str, Any]) -> None:
    """Raise for the first option that :func:`scan` does not have."""
    known = [name for name in inspect.signature(scan).parameters if name != "source"]
    for name in options:
        if name not in known:
            own = list(inspect.signature(type(estimator).fit).parameters)[1:-1]
            raise unknown_argument(f"{type(estimator).__name__}.fit", name, [*own, *known])


# What only the folds and the sums of one pass can mean.
ONE_PASS_ONLY = ("folds", "group", "digits", "sample", "fold_seed", "fold_blocks", "progress")


def source_rows(
    estimator: Any, source: Any, target: Any, options: dict[str, Any], *, labels: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Any]:
    """(X, y, weights, schema) of a source, for a model that reads its rows several times."""
    from ..data.columns import refuse_identifier
    from ..data.encode import Encoder
    from ..model.training import rows_of

    for name in options:
        if name in ONE_PASS_ONLY:
            raise UsageError(
                f"{name} is for models of one pass (LinearRegression, RidgeCV, LassoCV …); {type(estimator).__name__} has "
                "no use for it",
                where=name,
            )
    if not getattr(estimator, "fit_intercept", True):
        options = {"intercept": False} | options
    encoder = Encoder(source, target=target, labels=labels, **options)
    X, terms, y, weights = rows_of(encoder)
    for column in encoder.schema.columns:
        refuse_identifier(column.name, column.levels, encoder.rows, encoder.source.describe)
    estimator.n_features_in_ = len(terms)
    estimator.feature_names_in_ = np.array(terms, dtype=object)
    return X, y, weights, encoder.schema


def has_intercept(estimator: Any, schema: Any) -> bool:
    """``fit_intercept``, unless the formula of the rows, which their schema keeps, takes the constant away."""
    return bool(getattr(estimator, "fit_intercept", True)) and bool(getattr(schema, "intercept", True))


def refuse_with_arrays(options: dict[str, Any]) -> None:
    """Raise for an option of a source where X and y are arrays."""
    if options:
        name = next(iter(options))
        raise UsageError(
            f"{name} goes with a source that holds its target: fit(table, target='…'); beside arrays X and y it has no "
            "meaning",
            where=name,
        )


@named_options
def scan(
    source: Any,
    *,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    weights: str | None = None,
    where: str | None = None,
    derive: dict[str, str] | None = None,
    missing: str = "refuse",
    folds: int | str | None = 5,
    group: str | None = None,
    digits: float | str = "auto",
    sample: int = 10_000,
    formula: Any = None,
    intercept: bool = True,
    categories: Sequence[str] = (),
    unseen: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
    fold_seed: int = 0,
    fold_blocks: bool | int = False,
    progress: bool | Callable[[int], Any] = False,
    y: Any = None,
) -> Moments:
    """Read a source once, in bounded memory, and keep what every closed-form model needs.

    Parameters
    ----------
    source
        A path, glob or list of CSV, TSV, Parquet, Arrow IPC or NDJSON files (gzip, zstd too), "-" for standard input,
        a pandas, Polars or PyArrow table, NumPy or SciPy sparse arrays, a Dask or Spark frame, or an iterator of them.
    target : str
        The column to predict; None for principal components only.
    features, weights, where, derive, missing, group
        Columns to use (default: all others), the weights' column, an SQL filter, SQL expressions for new columns, what
        to do with missing values ("refuse", "drop", "mean", "indicator"), the column whose values stay in one fold.
    formula, intercept
        Terms as a formula, such as ``"y ~ poly(x, 3) + city"``, which names the target too; ``- 1`` in it, or
        ``intercept=False``, leaves the constant out of every model that is fitted from the moments.
    folds : int
        Folds for cross-validation, by a seeded hash of each row's values.
    digits : "auto" or float
        Correct digits wanted in the coefficients.
    sample : int
        Rows kept, chosen by hash, for pictures.
    categories, unseen, separator, decimal
        Columns of numbers that are codes, what prediction does with a level never seen
        ("error" or "ignore"), the separator of text files, "," where their decimals follow a comma.
    fold_seed, fold_blocks
        The seed of the folds' hash; True for folds in the order of the rows, or the number of rows of a block.
    progress : bool or function
        Show rows and rows per second on standard error, or call a function with the rows read so far.
    y
        The target beside a Dask array of rows.

    Examples
    --------
    >>> import polars as pl, trueline as tl
    >>> table = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [3.0, 5.0, 7.0, 9.0]})
    >>> moments = tl.scan(table, target="y")
    >>> tl.LinearRegression.from_moments(moments).coef_
    array([2.])
    """
    given: dict[str, Any] = {
        "target": target,
        "features": features,
        "weights": weights,
        "where": where,
        "derive": derive,
        "missing": missing,
        "folds": folds,
        "group": group,
        "digits": digits,
        "sample": sample,
    }
    more = {
        "formula": formula, "intercept": intercept, "categories": categories, "unseen": unseen, "separator": separator, "decimal": decimal, "fold_seed": fold_seed,
        "fold_blocks": fold_blocks, "progress": progress, "y": y,
    }  # fmt: skip
    usual = inspect.signature(scan).parameters
    given |= {name: value for name, value in more.items() if value is not usual[name].default}
    engine = engine_of(source)
    if engine is not None:
        return engine.scan(source, **given)  # type: ignore[no-any-return]
    from ..onepass.reading import scan_source

    return scan_source(source, **given)
