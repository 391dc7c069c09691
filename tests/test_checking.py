"""Every estimator names the column and the row of a value that it cannot use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import trueline as tl
from trueline.errors import DataError

CLASSIFIERS = [tl.LogisticRegression, tl.LinearSVC, tl.OnlineClassifier, tl.KernelPerceptron, tl.AdaBoost]
REGRESSORS = [
    tl.LinearRegression, tl.Ridge, tl.RidgeCV, tl.Lasso, tl.LassoCV, tl.GeneralizedRegression, tl.OnlineRegressor,
    tl.RobustRegression, tl.OutlierMixture, tl.LocalRegression, tl.KernelRegression,
]  # fmt: skip


@pytest.fixture
def table():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["width", "height"])
    return X, np.abs(X["width"].to_numpy())


def refusal(call):
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 250
    return text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [*REGRESSORS, *CLASSIFIERS])
def test_a_bad_value_is_named_by_column_and_row(table, kind):
    X, y = table
    if kind in CLASSIFIERS:
        y = np.where(y > np.median(y), "big", "small")
    bad = X.copy()
    bad.loc[7, "height"], bad.loc[9, "width"] = np.nan, np.inf
    assert "2 unusable entries: column 'height' has NaN in row 7" in refusal(lambda: kind().fit(bad, y))
    assert "column 'x1' has NaN in row 7" in refusal(lambda: kind().fit(bad.to_numpy(), y))
    words = X.astype(object)
    words.loc[3, "width"] = "wide"
    assert "column 'width' has 'wide' in row 3" in refusal(lambda: kind().fit(words, y))
    model = kind().fit(X, y)
    assert "column 'height' has NaN in row 7" in refusal(lambda: model.predict(bad))


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_bad_target_is_named_by_row(table, kind):
    X, y = table
    worse = y.copy()
    worse[[4, 6]] = np.inf, np.nan
    assert refusal(lambda: kind().fit(X, worse)).startswith("y has 2 unusable entries: infinity in row 4")
    assert "y has 'a' in row 0" in refusal(lambda: kind().fit(X, ["a"] * 30))


def test_missing_dates_and_ragged_rows(table):
    X, y = table
    assert "column 'gone' has nothing in row 0" in refusal(lambda: tl.Ridge().fit(X.assign(gone=pd.NA), y))
    dated = X.assign(day=pd.Timestamp("2020-02-29"))
    assert "the date 2020-02-29" in refusal(lambda: tl.LinearRegression().fit(dated, y))
    assert "row 1 of X has 1 entries" in refusal(lambda: tl.LinearRegression().fit([[1, 2], [3]], [1, 2]))


@pytest.mark.parametrize("kind", [tl.Lasso, tl.LinearRegression, tl.OnlineRegressor])
def test_stored_entries_of_sparse_rows_are_named(table, kind):
    y = table[1]
    rows = sp.lil_matrix((30, 5))
    rows[:, 2] = 1.0
    rows[11, 4] = np.nan
    assert "column 'x4' has NaN in row 11" in refusal(lambda: kind().fit(rows.tocsr(), y))
