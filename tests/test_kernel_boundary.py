"""Odd arrays at every public door behind which a kernel runs: an answer or a sentence, never a crash.

Everything runs in a child process, so that a signal shows; the child says what it is about to do.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import trueline as tl

N, D = 12, 3
rng = np.random.default_rng(0)
GOOD = rng.normal(size=(N, D)).round(2)
Y = np.where(GOOD[:, 0] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)


def shifted(array):
    """The same numbers at an address that is no multiple of 8."""
    raw = np.frombuffer(b"\0" + array.tobytes(), dtype=np.uint8)[1:]
    return raw.view(array.dtype).reshape(array.shape)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def with_value(value):
    X = GOOD.copy()
    X[3, 1] = value
    return X


def dense():
    yield "float32", GOOD.astype(np.float32)
    yield "float16", GOOD.astype(np.float16)
    yield "long double", GOOD.astype(np.longdouble)
    yield "int8", (10 * GOOD).astype(np.int8)
    yield "uint64 of many digits", np.full((N, D), 2**64 - 1, dtype=np.uint64)
    yield "bool", GOOD > 0
    yield "complex", GOOD + 1j
    yield "objects", GOOD.astype(object)
    yield "objects that are none", np.full((N, D), None)
    yield "strings", GOOD.astype(str)
    yield "words", np.full((N, D), "a")
    yield "dates", np.full((N, D), "2020-01-01", dtype="datetime64[D]")
    yield "records", np.zeros((N, D), dtype=[("a", float), ("b", int)])
    yield "big endian", GOOD.astype(">f8")
    yield "Fortran's order", np.asfortranarray(GOOD)
    yield "every second", np.repeat(GOOD, 2, axis=0)[::2]
    yield "every second column", np.repeat(GOOD, 2, axis=1)[:, ::2]
    yield "backwards", GOOD[::-1, ::-1]
    yield "broadcast", np.broadcast_to(GOOD[:1], (N, D))
    yield "overlapping", np.lib.stride_tricks.as_strided(np.arange(40.0), (N, D), (8, 8))
    yield "read-only", read_only(GOOD)
    yield "unaligned", shifted(GOOD)
    yield "a number", np.float64(3.0)
    yield "one axis", GOOD[:, 0]
    yield "three axes", GOOD[:, :, None]
    yield "no rows", np.empty((0, D))
    yield "no columns", np.empty((N, 0))
    yield "one row", GOOD[:1]
    yield "another width", np.ones((N, D + 2))
    yield "wide", np.ones((N, 300))
    for value in (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324):
        yield str(value), with_value(value)
    yield "huge", np.full((N, D), 1.7e308)
    yield "masked", np.ma.masked_less(GOOD, 0.0)
    yield "a list", GOOD.tolist()
    yield "ragged", [[1.0], [1.0, 2.0]] * 6
    yield "nothing", None
    yield "text", "abc"


def changed(kind, **parts):
    """A sparse matrix whose arrays are put in after SciPy's checks."""
    X = kind(sparse.csr_array(np.where(np.abs(GOOD) > 0.5, GOOD, 0.0)))
    for name, change in parts.items():
        setattr(X, name, change(getattr(X, name).copy()))
    return X


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


def scattered():
    for kind in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix):
        name = kind.__name__
        yield f"{name}", changed(kind)
        yield f"{name}, index −1", changed(kind, indices=put(0, -1))
        yield f"{name}, index too large", changed(kind, indices=put(0, 12345))
        yield f"{name}, index 2³¹ − 1", changed(kind, indices=put(-1, 2**31 - 1))
        yield f"{name}, starts that fall", changed(kind, indptr=put(1, 9))
        yield f"{name}, starts beyond the data", changed(kind, indptr=put(-1, 10_000))
        yield f"{name}, starts below 0", changed(kind, indptr=put(0, -5))
        yield f"{name}, too few starts", changed(kind, indptr=lambda a: a[:-2])
        yield f"{name}, fewer data", changed(kind, data=lambda a: a[:-3])
        yield f"{name}, fewer indices", changed(kind, indices=lambda a: a[:-3])
        yield f"{name}, int64", changed(kind, indices=lambda a: a.astype(np.int64), indptr=lambda a: a.astype(np.int64))
        yield f"{name}, backwards", changed(kind, indices=lambda a: a[::-1], data=lambda a: a[::-1])
        yield f"{name}, equal indices", changed(kind, indices=lambda a: np.zeros_like(a))
        yield f"{name}, read-only", changed(kind, indices=read_only, indptr=read_only, data=read_only)
        yield f"{name}, unaligned", changed(kind, indices=shifted, indptr=shifted, data=shifted)
        yield f"{name}, float32", changed(kind, data=lambda a: a.astype(np.float32))
        yield f"{name}, complex", changed(kind, data=lambda a: a + 1j)
        yield f"{name}, objects", changed(kind, data=lambda a: a.astype(object))
        yield f"{name}, NaN", changed(kind, data=put(0, np.nan))
        yield f"{name}, every second", changed(kind, data=lambda a: np.repeat(a, 2)[::2])
        yield f"{name}, data of two axes", changed(kind, data=lambda a: a[:, None])
        yield f"{name}, no rows", kind((0, D))
        yield f"{name}, empty", kind((N, D))
    yield "coordinates", sparse.coo_array(GOOD)
    yield "a wide sparse row", sparse.csr_array(([1.0], ([0], [99_999])), shape=(N, 100_000))


def rows():
    yield from dense()
    yield from scattered()


def targets():
    for name, y in (
        ("too short", Y[:-1]), ("too long", np.append(Y, 1.0)), ("a number", 1.0), ("none", None), ("two columns", np.column_stack([Y, Y])),
        ("every second", np.repeat(Y, 2)[::2]), ("read-only", read_only(Y)), ("unaligned", shifted(Y)), ("NaN", put(2, np.nan)(Y.copy())),
        ("inf", put(2, np.inf)(Y.copy())), ("one class", np.ones(N)), ("strings", Y.astype(str)), ("empty", np.empty(0)), ("huge", 1e308 * Y),
        ("complex", Y + 1j), ("objects", Y.astype(object)),
    ):  # fmt: skip
        yield f"y {name}", GOOD, y, None
    for name, w in (
        ("too short", np.ones(N - 1)), ("negative", -np.ones(N)), ("NaN", put(2, np.nan)(np.ones(N))), ("zero", np.zeros(N)), ("huge", np.full(N, 1e308)),
        ("two axes", np.ones((N, 1))), ("strided", np.ones(2 * N)[::2]), ("read-only", read_only(np.ones(N))), ("unaligned", shifted(np.ones(N))),
        ("words", np.full(N, "a")), ("tiny", np.full(N, 5e-324)),
    ):  # fmt: skip
        yield f"weights {name}", GOOD, Y, w


ESTIMATORS = {
    "LinearRegression": lambda: tl.LinearRegression(),
    "Ridge": lambda: tl.Ridge(),
    "Lasso": lambda: tl.Lasso(alpha=0.1),
    "ElasticNet": lambda: tl.ElasticNet(alpha=0.1),
    "LogisticRegression": lambda: tl.LogisticRegression(penalty="l1"),
    "LinearSVC": lambda: tl.LinearSVC(),
    "GeneralizedRegression": lambda: tl.GeneralizedRegression(loss="huber"),
    "RobustRegression": lambda: tl.RobustRegression(),
    "OnlineRegressor": lambda: tl.OnlineRegressor(),
    "OnlineClassifier": lambda: tl.OnlineClassifier(),
    "WidrowHoff": lambda: tl.WidrowHoff(rate=0.01),
    "adaptive": lambda: tl.OnlineRegressor(loss="huber", geometry="adaptive", rate=0.1),
    "ExponentiatedGradient": lambda: tl.ExponentiatedGradient(rate=0.01),
    "Perceptron": lambda: tl.Perceptron(),
    "RecursiveLeastSquares": lambda: tl.RecursiveLeastSquares(),
    "LocalRegression": lambda: tl.LocalRegression(),
    "KernelRegression": lambda: tl.KernelRegression(alpha=0.1),
    "KernelPerceptron": lambda: tl.KernelPerceptron(),
    "NeuralNetwork": lambda: tl.NeuralNetwork((3,), epochs=2),
    "AdaBoost": lambda: tl.AdaBoost(rounds=3),
}
OTHERS = ["filter", "echo", "path", "minimize", "scan", "one"]


def attempts(name):
    """(what, a call) for every odd array at this door."""
    if name in ESTIMATORS:
        make, fitted = ESTIMATORS[name], ESTIMATORS[name]().fit(GOOD, Y)
        for what, X in rows():
            yield f"fit {what}", lambda X=X: make().fit(X, Y)
            yield f"predict {what}", lambda X=X: fitted.predict(X)
            if hasattr(fitted, "partial_fit"):
                yield f"partial_fit {what}", lambda X=X: make().fit(GOOD, Y).partial_fit(X, Y)
        for what, X, y, w in targets():
            yield f"fit {what}", lambda X=X, y=y, w=w: make().fit(X, y, **({} if w is None else {"sample_weight": w}))
    elif name in ("filter", "echo"):
        for what, x in [*dense(), *((f"y {what}", y) for what, _, y, _ in targets())]:
            for method in ("lms", "nlms", "apa", "rls", "fdaf", "kalman") if name == "filter" else ():
                options = {"rate": 0.01} if method == "lms" else {}
                yield f"{method} {what}", lambda x=x, m=method, o=options: tl.AdaptiveFilter(5, m, **o).process(x, Y)
                yield (
                    f"{method} desired {what}",
                    lambda x=x, m=method, o=options: tl.AdaptiveFilter(5, m, **o).process(Y, x),
                )
            if name == "echo":
                yield what, lambda x=x: tl.cancel_echo(x, Y, rate=16000)
    elif name == "path":
        for what, X in rows():
            yield what, lambda X=X: tl.lasso_path(X, Y)
        for what, X, y, _ in targets():
            yield what, lambda X=X, y=y: tl.lasso_path(X, y)
    elif name == "minimize":
        for method in ("coordinate", "proximal", "newton", "gradient", "dual-coordinate"):
            for what, X in rows():
                yield (
                    f"{method} {what}",
                    lambda X=X, m=method: tl.minimize(X, Y, loss="squared", penalty="l2", alpha=0.1, method=m),
                )
    elif name == "scan":
        for what, X in dense():
            yield (
                what,
                lambda X=X: tl.scan(
                    {"x": X[:, 0] if getattr(X, "ndim", 0) == 2 and X.shape[1] else X, "y": Y}, target="y"
                ),
            )
    else:
        values = [
            1,
            1.5,
            True,
            np.float32(2),
            np.nan,
            np.inf,
            None,
            "a",
            10**400,
            1j,
            [],
            {},
            b"x",
            -0.0,
            1e308,
            np.zeros(2),
            2**63,
        ]
        for make in (
            tl.OnlineRegressor,
            tl.OnlineClassifier,
            lambda: tl.WidrowHoff(rate=0.1),
            tl.Perceptron,
            tl.RecursiveLeastSquares,
        ):
            for value in values:
                for x in (
                    {"a": value},
                    {value if isinstance(value, (str, int, float, bytes)) else "k": 1.0},
                    {"a": 1.0, "b": value},
                    value,
                ):
                    yield f"learn_one {x!r:.40}", lambda make=make, x=x: make().learn_one(x, 1)
                    yield (
                        f"predict_one {x!r:.40}",
                        lambda make=make, x=x: make().learn_one({"a": 1.0}, 1).predict_one(x),
                    )
                yield f"target {value!r:.40}", lambda make=make, value=value: make().learn_one({"a": 1.0}, value)
            yield "many names", lambda make=make: make().learn_one({f"x{j}": 1.0 for j in range(3000)}, 1)


def child(name):
    """Try everything at one door; what is neither an answer nor a sentence is printed."""
    warnings.simplefilter("ignore")
    for what, call in attempts(name):
        print("at", what, flush=True)
        try:
            call()
        except (ValueError, TypeError) as error:
            if not str(error).strip():
                print("WRONG no sentence", what, flush=True)
        except Exception as error:
            print(f"WRONG {type(error).__name__}: {error} ({what})", flush=True)
    print("at the end", flush=True)


@pytest.mark.parametrize("name", [*ESTIMATORS, *OTHERS])
def test_odd_arrays_have_an_answer_or_a_sentence(name):
    code = f"import test_kernel_boundary as t; t.child({name!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1:] == ["at the end"], (
        f"{done.returncode} {lines[-1:]}\n{done.stderr[-3000:]}"
    )
    assert not [line for line in lines if line.startswith("WRONG")]
