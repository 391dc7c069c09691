"""One dict at a time: any numbers in any order, whatever a dict may do, and the same bits as rows and blocks."""

from __future__ import annotations

import contextlib
import copy
import re
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import trueline as tl
from trueline.errors import DataError


@pytest.fixture(scope="module")
def widrow_hoff():
    return lambda **settings: tl.WidrowHoff(**({"rate": 0.05} | settings))


def test_features_may_appear_and_vanish(widrow_hoff):
    model = widrow_hoff(rate=0.1)
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one({"b": 2.0, "a": 1.0}, 2.0)
    model.learn_one({"c": 1.0}, 0.0)
    model.learn_one({}, 1.0)
    assert model.record_.names == ["a", "b", "c"]
    X = np.array([[1.0, 0, 0], [1, 2, 0], [0, 0, 1], [0, 0, 0]])
    block = widrow_hoff(rate=0.1).fit(X, [1.0, 2.0, 0.0, 1.0])
    np.testing.assert_allclose(model.coef_, block.coef_, rtol=1e-12)
    assert model.certificate_.bound == pytest.approx(block.certificate_.bound)
    assert model.predict_one({"a": 1.0, "never": 5.0}) == pytest.approx(model.coef_[0] + model.intercept_)
    assert model.record_.names == ["a", "b", "c"]


class Stubborn:
    """A number whose reading empties the dict that holds it."""

    rows: dict = {}

    def __float__(self):
        self.rows.clear()
        return 0.5


class Broken:
    """A number that cannot be read."""

    def __float__(self):
        raise RuntimeError("no")


class Word(str):
    """A string of another kind."""


class Rows(dict):
    """A dict of another kind, whose look-up is its own."""

    def __getitem__(self, key):
        return 2.0 * super().__getitem__(key)


def test_dicts_of_any_numbers_in_any_order_are_learned_as_rows(widrow_hoff):
    rows = [
        ({"a": True, "b": 2}, 1.0), ({"c": 0.5, "a": 1}, 2.0), ({"b": np.float64(0.3), "c": np.int64(2)}, 0.5),
        ({"b": 0.2, "a": 0.1}, 1), (OrderedDict(a=0.3, b=0.1), np.float32(2.0)), ({"a": 1.0}, 0.0), ({}, 1.0),
        ({Word("b"): 0.4, "".join(["", "a"]): np.float32(0.5)}, 1.0),
    ] * 9  # fmt: skip
    for settings in ({"certificate": False}, {}):
        one, block = widrow_hoff(**settings), widrow_hoff(**settings)
        for x, y in rows:
            one.predict_one(x)
            one.learn_one(x, y)
        X = np.array([[float(x.get(name, 0.0)) for name in "abc"] for x, _ in rows])
        block.fit(X, [float(y) for _, y in rows])
        np.testing.assert_allclose(one.coef_, block.coef_, rtol=1e-14)
        assert one.predict_one({"a": 1.0, "unknown": 7.0}) == pytest.approx(block.predict([[1.0, 0.0, 0.0]])[0])
        before = one.coef_.tobytes()
        bad = [
            ("x", "not a number"),
            (np.nan, "NaN"),
            (1e300, "too large"),
            (None, "not a number"),
            (10**400, "too large"),
        ]
        for value, words in bad:
            for call in (one.predict_one, lambda x, one=one: one.learn_one(x, 1.0)):
                with pytest.raises(DataError, match=words):
                    call({"a": 1.0, "b": value})
        for call in (one.predict_one, lambda x, one=one: one.learn_one(x, 1.0)):
            with pytest.raises(RuntimeError, match="no"):  # a number's own failure is its own
                call({"a": 1.0, "b": Broken()})
        assert one.coef_.tobytes() == before
        twin = copy.deepcopy(one)
        for _ in range(3):
            one.learn_one({"a": 1.0, "new": 1.0}, 2.0)
        assert twin.coef_.tobytes() == before and twin.predict_one({"a": 1.0}) != one.predict_one({"a": 1.0})
    Stubborn.rows = {"a": 1.0, "b": Stubborn(), "c": 1.0}
    with contextlib.suppress(KeyError):
        one.learn_one(Stubborn.rows, 1.0)
    one.learn_one({"a": 1.0, "b": 1.0, "c": 1.0}, 1.0)
    assert np.isfinite(one.coef_).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.WidrowHoff(rate=0.05), lambda: tl.WidrowHoff(), lambda: tl.RecursiveLeastSquares(),
        lambda: tl.OnlineRegressor(),
    ],
    ids=["fixed", "ladder", "recursive", "mixture"],
)  # fmt: skip
def test_names_of_any_kind_and_refusals_that_name_no_columns(make):
    rng = np.random.default_rng(2)
    numbered, named_ones = make(), make()
    for row in rng.normal(size=(12, 3)).tolist():
        x = dict(zip((0, 1, ("a", "b")), row))
        assert numbered.predict_one(x) == named_ones.predict_one({str(name): value for name, value in x.items()})
        numbered.learn_one(x, row[0])
        named_ones.learn_one({str(name): value for name, value in x.items()}, row[0])
    assert numbered.coef_.tobytes() == named_ones.coef_.tobytes()
    before = list(numbered.record_.names), numbered.coef_.tobytes(), str(numbered.certificate_)
    refused = [
        ([("a", 1.0)], 1.0, 1.0), (None, 1.0, 1.0), ("a", 1.0, 1.0), ({"new": np.nan}, 1.0, 1.0), ({"new": 10**400}, 1.0, 1.0),
        ({"new": None}, 1.0, 1.0), ({"new": 1.0}, np.nan, 1.0), ({"new": 1.0}, "y", 1.0), ({"new": 1.0}, 1.0, -1.0),
        ({"7": 1.0, 7: 1.0}, 1.0, 1.0),
    ]  # fmt: skip
    for x, y, weight in refused:
        with pytest.raises(DataError):
            numbered.learn_one(x, y, weight)
    with pytest.raises(DataError, match="a dict of named features, not list"):
        numbered.predict_one([1.0])
    assert (list(numbered.record_.names), numbered.coef_.tobytes(), str(numbered.certificate_)) == before


def test_a_dict_that_changes_between_calls_is_read_anew(widrow_hoff):
    rng = np.random.default_rng(0)
    model, other = widrow_hoff(certificate=False), widrow_hoff(certificate=False)
    x = {"a": 0.0, "b": 0.0}
    for t in range(40):
        x["a"], x["b"] = rng.normal(size=2).tolist()
        first = model.predict_one(x)
        assert model.predict_one(dict(x)) == first
        x["b"] += 1.0
        assert model.predict_one(x) == pytest.approx(first + (model.coef_[1] if t else 0.0))
        model.learn_one(x, 1.0)
        other.learn_one(dict(reversed(x.items())) if t % 2 else dict(x), 1.0)
        x["c"] = 1.0  # grows, and shrinks again
        del x["c"]
    assert model.coef_.tobytes() == other.coef_.tobytes()
    own = Rows(a=0.5, b=0.5)
    assert model.predict_one(own) == pytest.approx(model.predict_one({"a": 1.0, "b": 1.0}))  # its own look-up counts


def test_rivers_own_evaluation_takes_the_estimators_as_the_page_says():
    river = pytest.importorskip("river", reason="River comes with the extra 'bench'")
    page = (Path(__file__).parent.parent / "docs" / "online.md").read_text()
    code = re.search(r"```py\n(.*?)```", page, re.S)
    assert code is not None and river.__version__
    found = {"tl": tl}
    printed = []
    for line in code[1].splitlines():
        if line.startswith("evaluate."):
            call, _, said = line.partition("  # ")
            printed.append(str(eval(call, found)))
            assert said.startswith(printed[-1][:12]), (said, printed[-1])
        else:
            exec(line, found)
    assert len(printed) == 2


DICT_LEARNERS = {
    "the default": tl.OnlineRegressor,
    "one rate": lambda: tl.WidrowHoff(rate=1e-40),
    "several rates": lambda: tl.OnlineRegressor(geometry="additive", rate="auto"),
    "recursive": tl.RecursiveLeastSquares,
    "network": lambda: tl.NeuralNetwork(hidden=(2,)),
}


@pytest.mark.parametrize("learner", DICT_LEARNERS)
def test_whole_numbers_that_would_be_rounded_are_refused_by_every_learner(learner):
    """At the first example and later, where a dict like the last one takes a shorter way; nothing is learned from it."""
    model = DICT_LEARNERS[learner]()
    for seen in (0, 1, 2, 5):
        while seen and model.record_.examples < seen:
            model.learn_one({"x": 0.5, "id": 3}, 1.0)
        for bad in (2**53 + 1, -(2**53) - 1, 10**400):
            with pytest.raises(DataError, match=r"'id'.*(would round|too large)"):
                model.learn_one({"x": 0.5, "id": bad}, 1.0)
        if seen:
            with pytest.raises(DataError, match="'id'"):
                model.predict_one({"x": 0.5, "id": 2**53 + 1})
            with pytest.raises(DataError, match="would round"):
                model.learn_one({"x": 0.5, "id": 3}, 2**53 + 1)
            assert model.record_.examples == seen
    model.learn_one({"x": 0.5, "id": 2**60}, 1.0)
    model.learn_one({"x": 0.5, "id": float(2**60 + 2**9)}, 1.0)
    assert model.record_.examples == 7


FAST_LEARNERS = {
    "additive": lambda: tl.WidrowHoff(rate=0.05),
    "normalised": lambda: tl.OnlineRegressor(geometry="normalised", rate=0.5),
    "adaptive": lambda: tl.OnlineRegressor(geometry="adaptive", rate=0.1, certificate=False),
    "positive": lambda: tl.ExponentiatedGradient(rate=0.05),
    "counts": lambda: tl.OnlineRegressor(loss="poisson", geometry="additive", rate=0.01),
    "mean": lambda: tl.WidrowHoff(rate=0.05, average=True),
    "recursive": tl.RecursiveLeastSquares,
    "labels": lambda: tl.Perceptron(classes=[0, 1]),
}


@pytest.mark.parametrize("learner", FAST_LEARNERS)
def test_dicts_of_one_set_of_names_are_learned_as_rows_of_a_table_to_the_bit(learner):
    rng = np.random.default_rng(4)
    X = rng.uniform(0.1, 1.0, size=(1100, 5))  # more than a block of the moments
    y = (X[:, 0] > 0.5).astype(int) if learner == "labels" else rng.integers(0, 4, size=len(X)).astype(float)
    dicts, table = FAST_LEARNERS[learner](), FAST_LEARNERS[learner]()
    for t, (x, label) in enumerate(zip(X, y.tolist())):
        row = {f"x{j}": value for j, value in enumerate(x.tolist())}
        row = dict(reversed(row.items())) if t % 3 == 2 else row
        dicts.predict_one(row)
        dicts.learn_one(row, label)
        if learner == "labels":
            table.partial_fit(x[None], [label], classes=[0, 1])
        else:
            table.partial_fit(x[None], [label])
    assert dicts.coef_.tobytes() == table.coef_.tobytes()
    assert dicts.record_.names == table.record_.names
    assert dicts.certificate_.to_dict() == table.certificate_.to_dict()
    assert dicts.progress_ == table.progress_
    x = {f"x{j}": 0.5 for j in range(5)}
    assert dicts.predict_one(x) == table.predict(np.full((1, 5), 0.5))[0]
    twin = copy.deepcopy(dicts)
    for model in (dicts, twin):
        model.learn_one(x, int(y[0]))
    assert twin.coef_.tobytes() == dicts.coef_.tobytes()


def test_weights_that_would_overflow_leave_recursive_least_squares_as_it_was():
    model = tl.RecursiveLeastSquares(ridge=1e-12)
    for t in range(4):
        model.learn_one({"a": 1e-9 * (t + 1), "b": 1e-9}, 1.0)
    before = model.coef_.tobytes(), model.record_.P.tobytes(), model.record_.examples
    with pytest.raises(DataError, match="overflows"):
        model.learn_one({"a": 1e-9, "b": -3e-9}, 1e100)
    assert (model.coef_.tobytes(), model.record_.P.tobytes(), model.record_.examples) == before
    model.learn_one({"a": 1e-9, "b": 2e-9}, 1.0)
    assert model.record_.examples == 5
