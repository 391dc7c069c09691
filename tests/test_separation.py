"""Separated classes have no finite maximum of the likelihood: said by name, and never of classes that overlap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsRestClassifier

import trueline as tl
from trueline.certificates.certificate import Status

NAMES = np.array(["setosa", "versicolor", "virginica"])


def shifted(seed, classes, moved, by, swap=0):
    """Normal rows, those of some classes moved along the first column; ``swap`` of the moved rows stay."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, 200)
    X = rng.normal(size=(200, 3))
    X[np.flatnonzero(np.isin(labels, moved))[swap:], 0] += by
    return X, np.array(list("abcdef"))[labels]


def iris(columns, exception=False):
    X, y = load_iris(return_X_y=True)
    names = NAMES[y]
    if exception:
        names[60] = "setosa"  # a versicolor
    return X[:, columns], names


def level_of_one_class(spoilt):
    """A column that is 1 for examples of one class alone, or of every class where it is spoilt."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(400, 2)), np.arange(400) < 30])
    labels = np.argmax(X[:, :2] @ rng.normal(size=(2, 3)) + rng.gumbel(size=(400, 3)), axis=1)
    labels[:30] = 2
    labels[:2] = [0, 1] if spoilt else 2
    return X, labels


def on_a_line(overlap):
    """Three classes on a line: the first overlaps the second by two rows, so much apart."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    labels = np.where(x < -0.5, 0, np.where(x + 0.3 * rng.normal(size=300) < 0.6, 1, 2))
    last, first = np.argmax(np.where(labels == 0, x, -9.0)), np.argmin(np.where(labels != 0, x, 9.0))
    middle = 0.5 * (x[last] + x[first])
    x[last], x[first] = middle + 0.5 * overlap, middle - 0.5 * overlap
    return x[:, None], labels


def enclosed(seed):
    """A class in the middle of the others: it is told apart without a mistake by no plane."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 200)
    X = rng.normal(size=(200, 3))
    X[labels == 1] *= 0.05
    X[labels != 1] += np.sign(X[labels != 1])
    return X, labels


SEPARATED = {
    "iris": (lambda: iris([0, 1, 2, 3]), "class 'setosa' is separable from the others"),
    "iris, two columns": (lambda: iris([2, 3]), "class 'setosa' is separable from the others"),
    "one of four": (lambda: shifted(0, 4, [1], 12.0), "class 'b' is separable from the others"),
    "two of five": (lambda: shifted(2, 5, [0, 3], 13.0), "classes 'a', 'd' are separable from the others"),
    "a level of one class": (lambda: level_of_one_class(False), "the classes are quasi-separable"),
    "a hair apart": (lambda: on_a_line(-1e-6), "class 0 is separable from the others"),
}
OVERLAPPING = {
    "iris, one exception": lambda: iris([2, 3], exception=True),
    "one of four, one row stays": lambda: shifted(0, 4, [1], 12.0, swap=1),
    "two of five, three rows stay": lambda: shifted(2, 5, [0, 3], 13.0, swap=3),
    "a level of every class": lambda: level_of_one_class(True),
    "a hair of overlap": lambda: on_a_line(1e-6),
    "a little overlap": lambda: on_a_line(1e-3),
    "one class in the middle": lambda: enclosed(4),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_a_class_that_is_separable_alone_withholds_the_errors(name):
    make, words = SEPARATED[name]
    X, y = make()
    for rows in (X, sparse.csr_matrix(X)):
        with pytest.warns(tl.NotProvenWarning, match=words):
            model = tl.LogisticRegression(C=np.inf).fit(rows, y)
        assert model.certificate_.status is Status.DEGENERATE and "add an L2 penalty" in model.certificate_.advice
    summary = model.summary()
    assert words in summary.withheld and np.isnan(summary.std_errors).all() and np.isfinite(summary.estimates).all()
    assert tl.LogisticRegression(C=1.0).fit(X, y).certificate_.proven


@pytest.mark.parametrize("name", OVERLAPPING)
def test_classes_that_overlap_are_not_called_separable(name):
    X, y = OVERLAPPING[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tl.NotProvenWarning)
        model = tl.LogisticRegression(C=np.inf).fit(X, y)
    assert model.certificate_.status is Status.PROVEN and not model.summary().withheld


def test_a_class_against_the_rest_is_named_for_that_class_alone():
    X, y = iris([2, 3])
    with pytest.warns(tl.NotProvenWarning, match="the classes are separable"):
        each = OneVsRestClassifier(tl.LogisticRegression(C=np.inf)).fit(X, y)
    found = [one.certificate_.status is Status.DEGENERATE for one in each.estimators_]
    assert found == [True, False, False]


def test_without_a_constant_the_plane_goes_through_the_origin():
    X, y = shifted(0, 3, [1], 12.0)
    X[:, 1:] += 5.0
    with pytest.warns(tl.NotProvenWarning, match="class 'b' is separable"):
        tl.LogisticRegression(C=np.inf, fit_intercept=False).fit(X - [6.0, 0.0, 0.0], y)


def no_maximum(X, y):
    """Whether some change of the coefficients costs no example anything and gives some example something, by a program."""
    rows, classes = np.column_stack([X, np.ones(len(X))]), int(y.max()) + 1
    gains = np.zeros((len(y), classes, classes, rows.shape[1]))
    for i, k in enumerate(y):
        gains[i, :, k] += rows[i]
        gains[i, range(classes), range(classes)] -= rows[i]
    gains = gains.reshape(len(y) * classes, -1)
    return -linprog(-gains.sum(axis=0), -gains, np.zeros(len(gains)), bounds=(-1, 1)).fun > 1e-7


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.filterwarnings("ignore::trueline.NotProvenWarning")
def test_linear_programming_agrees(classes, levels):
    """Few rows of a strong effect, with and without a column of six levels; in some draws only sets of classes separate."""
    for seed in range(8, 16):
        rng = np.random.default_rng(1000 * classes + seed)
        X, level = rng.normal(size=(60, 2)), rng.integers(0, 6, 60)
        X = np.hstack([X, level[:, None] == np.arange(1, 6)]) if levels else X * rng.choice([1, 3, 10])
        y = np.argmax(1.5 * X @ rng.normal(size=(X.shape[1], classes)) + rng.gumbel(size=(60, classes)), axis=1)
        if len(np.unique(y)) == classes:
            status = tl.LogisticRegression(C=np.inf).fit(X, y).certificate_.status
            assert (status is Status.DEGENERATE) == no_maximum(X, y), (seed, status)
