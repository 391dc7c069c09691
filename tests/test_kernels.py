"""The compiled kernels: they are there, they are not older than their source, and plain Python gives their bits."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import trueline
from trueline import simd
from trueline.batch.centred import SparseTable
from trueline.batch.problem import build
from trueline.batch.scaled import ScaledPenalty
from trueline.echo import sound_walks
from trueline.moments.active_set_newton import ActiveSet
from trueline.nonlinear.boosted_stumps import SortedColumns, add_votes
from trueline.nonlinear.dual_perceptron import Expansion
from trueline.nonlinear.loess_1d import SortedRows, neighbour_widths
from trueline.nonlinear.loess_nd import ScatteredRows
from trueline.objective.losses import resolve_loss
from trueline.objective.penalties import resolve_penalty
from trueline.online.mixture import MixtureModel
from trueline.parts.kernels import Linear
from trueline.solvers.coordinate_descent import DualEpochs, GramModel
from trueline.solvers.glm_working_set import QuadraticModel
from trueline.solvers.sparse_columns import ColumnStore, SparseSlices
from trueline.solvers.sparse_lasso import SparseSteps

PACKAGE = Path(trueline.__file__).parent
KERNELS = sorted(path.with_suffix(".py") for path in PACKAGE.rglob("*.pxd") if not path.with_suffix(".h").exists())
needs_compiler = pytest.mark.skipif(
    not list(PACKAGE.rglob("*.so")) and not list(PACKAGE.rglob("*.pyd")),
    reason="the kernels are plain Python here; install a C compiler and Python's headers, then run make",
)


def lasso_digest(width: int) -> str:
    """A path of coefficients by the active-set kernel; its sums are in our own order, so its bits are the processor's."""
    rng = np.random.default_rng(width)
    X = rng.normal(size=(3 * width, width)).round(3)
    y = (X[:, 0] - X[:, -1] + rng.normal(size=3 * width)).round(3)
    G, c = np.zeros((width, width)), np.zeros(width)
    for row, target in zip(X, y):  # not by BLAS, whose order of sums is not ours
        G += np.outer(row, row)
        c += row * target
    taus = np.abs(c).max() * np.geomspace(0.9, 0.01, 12)
    path = ActiveSet(width, G, c).solve(taus, 0.1 * taus, 1e-10, False)
    return hashlib.sha256(path.tobytes()).hexdigest()


def columns_digest(layout: str) -> str:
    """Steps in the columns of a sparse or dense table: of the lasso, and of a model with curvatures and an intercept."""
    rng = np.random.default_rng(7)
    X = np.where(rng.random((30, 12)) < 0.4, rng.normal(size=(30, 12)).round(2), 0.0)
    X = X if layout == "dense" else sp.csr_matrix(X).asformat(layout)
    y, h, places = rng.normal(size=30).round(2), rng.random(30).round(2), np.arange(12)
    store = ColumnStore(X, None if layout == "dense" else SparseSlices(X))
    model = QuadraticModel(store.columns, store.rooms(places, places), np.zeros(12), rng.normal(size=12).round(2), h)
    model.give_penalty(ScaledPenalty(*np.full((2, 12), 0.1), np.full(12, -0.3), np.full(12, 9.0)), places)
    model.standardise(np.full(12, 0.1), np.full(12, 2.0), 0.3, True)
    model.solve(1e-9, 2, 6)
    found = [*model.moved()[:2]]
    if layout != "dense":
        table = SparseTable(X)
        steps = SparseSteps(table.slices, places, table, np.ones(30), y)
        steps.solve(0.4, 0.1, False, 1e-9, 50)
        found += [np.asarray(steps.b), np.asarray(steps.r)]
    H = GramModel(
        np.eye(12) + 0.3,
        y[:12],
        np.zeros(12),
        ScaledPenalty(*np.full((2, 12), 0.1), np.full(12, -9.0), np.full(12, 9.0)),
    )
    H.descend(50, 1e-12)
    found.append(np.asarray(H.theta))
    risk = build(
        X,
        np.sign(y),
        resolve_loss("hinge"),
        resolve_penalty("l2", alpha=0.1),
        weights=np.full(30, 0.03125),
        intercept=False,
    )
    dual = DualEpochs(risk, 0.1, 0.0)
    for seed in range(5):
        dual.epoch(np.random.default_rng(seed).permutation(30))
    found += [np.asarray(dual.a), np.asarray(dual.w)]
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in found)).hexdigest()


FILTERS = [
    ("lms", {"rate": 0.02, "certify": True}),
    ("nlms", {"dtype": "float64"}),
    ("apa", {}),
    ("rls", {}),
    ("fdaf", {"block": 8}),
    ("kalman", {"block": 8}),
]


def filter_digest(method: str, options: dict[str, object]) -> str:
    """What an adaptive filter leaves of a sound, and its state."""
    rng = np.random.default_rng(5)
    far = rng.normal(size=300).round(3)
    adaptive = trueline.AdaptiveFilter(37, method, **options)
    left = adaptive.process(far, (0.5 * np.roll(far, 2) + 0.1 * rng.normal(size=300)).round(3))
    arrays = [array for _, array in sorted(adaptive.to_state()[0].items())]
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in [left, *arrays])).hexdigest()


def loess_digest(degree: int) -> str:
    """Local fits in one variable, at rows and beyond them, rows of weight 2 among them."""
    rng = np.random.default_rng(degree)
    x = np.sort(rng.uniform(0.0, 9.0, 70).round(2))
    y, case, robust = rng.normal(size=70).round(3), rng.integers(1, 3, 70).astype(float), rng.uniform(size=70).round(3)
    queries = np.append(x, [-1.0, 12.0])
    h, out = np.empty(72), np.empty((72, 4))
    neighbour_widths(x, case, queries, 23.0, h)
    SortedRows(x, y, robust * case, case, degree, False, True).fit(queries, h, out)
    neighbour_widths(x, np.zeros(0), queries, 11.0, h)
    counted = np.empty((72, 4))
    SortedRows(x, y, robust, np.zeros(0), degree, False, True).fit(queries, h, counted)
    return hashlib.sha256(out.tobytes() + counted.tobytes()).hexdigest()


def surface_digest(degree: int) -> str:
    """Local fits in two variables, one query away from all rows."""
    rng = np.random.default_rng(degree)
    Z, y, robust = rng.normal(size=(2, 60)).round(2), rng.normal(size=60).round(3), rng.uniform(size=60).round(3)
    queries, out = np.vstack([Z.T[:20].copy(), [[50.0, 0.0]]]), np.empty((21, 5))
    ScatteredRows(Z, y, 2.0 * robust, np.full(60, 2.0), degree, False, True).fit(queries, np.full(21, 1.5), out)
    return hashlib.sha256(out.tobytes()).hexdigest()


def perceptron_digest(budget: int) -> str:
    """Scores of a linear perceptron in dual form, with and without a budget."""
    rng = np.random.default_rng(budget)
    X, y, out = rng.normal(size=(50, 7)).round(2), rng.choice([-1.0, 1.0], 50), np.empty(50)
    rooms = np.zeros((64, 7)), np.zeros(64), np.zeros(64)
    made = Expansion(Linear(), 1.0, *rooms, budget, (0, 0, 0))
    assert made.learn(X, y, 0, out) == 50 and made.mistakes > 9
    return hashlib.sha256(b"".join(array.tobytes() for array in (out, *rooms))).hexdigest()


def stumps_digest() -> str:
    """The errors of the best stumps of columns with ties, and votes; not the update of weights, which has an exp."""
    rng = np.random.default_rng(0)
    X, y, D, out = rng.integers(0, 9, (60, 4)) * 0.5, rng.choice([-1.0, 1.0], 60), rng.uniform(size=60), np.empty(60)
    columns = np.ascontiguousarray(X.T)
    table = SortedColumns(columns, np.argsort(columns, kind="stable").astype(np.int32), y, D / D.sum())
    table.scan(0, 4)
    j, place, error = table.best()
    add_votes(X, np.array([j, 0, 2]), np.array([1.2, 0.7, 3.0]), np.array([0.3, -0.1, error]), 0, 60, out)
    return hashlib.sha256(out.tobytes() + bytes([j, place % 256])).hexdigest()


def mixture_predictions() -> list[float]:
    """Of the default mixtures before each update: narrow, with filters; sparse and wide, with gradient steps."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 3)).round(2)
    X[:25, 1] = 0.0  # a column that varies late
    wide = sp.random(30, 400, density=0.02, format="csr", random_state=3)
    predictions = []
    for task, classes in (("regression", None), ("binary", None), ("multiclass", [0, 1, 2])):
        for rows in (X, wide):
            scores = np.asarray(rows[:, :2].sum(axis=1)).ravel()
            label = {"regression": scores, "binary": np.where(scores > 0.0, 1.0, -1.0)}
            codes = np.digitize(scores, [-0.5, 0.5]).astype(float)
            model = MixtureModel(task, classes)
            predictions.append(model.learn(rows, label.get(task, codes), np.where(codes > 1.0, 2.0, 1.0)))
            if rows is X:
                named = MixtureModel(task, classes)
                for row, y in zip(X[:9], label.get(task, codes)):
                    predictions.append(np.atleast_1d(named.learn_one(dict(zip("abc", row.tolist())), float(y))))
    return [float(p) for p in np.concatenate([np.ravel(p) for p in predictions])]


def digests() -> list[str]:
    """Of every kernel that uses no function of libm but sqrt."""
    return (
        [lasso_digest(width) for width in (3, 17, 40)]
        + [digest(degree) for digest in (loess_digest, surface_digest) for degree in (0, 1, 2)]
        + [columns_digest(layout) for layout in ("csr", "csc", "dense")]
        + [perceptron_digest(budget) for budget in (0, 9)]
        + [stumps_digest()]
        + [filter_digest(method, options) for method, options in FILTERS]
    )


@needs_compiler
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_every_kernel_is_compiled_and_up_to_date(source):
    name = ".".join(source.relative_to(PACKAGE.parent).with_suffix("").parts)
    binary = Path(importlib.import_module(name).__file__)
    assert binary.suffix in (".so", ".pyd"), f"{name} runs as plain Python; run make"
    if os.access(source, os.W_OK):  # a checkout; in a wheel all files have one time
        for path in (source, source.with_suffix(".pxd"), *PACKAGE.rglob("*.h")):
            assert binary.stat().st_mtime >= path.stat().st_mtime, (
                f"{path.name} was edited after {binary.name}; run make"
            )


@needs_compiler
def test_plain_python_gives_the_bits_of_the_compiled_kernels(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "trueline", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    code = "import test_kernels as t; print(*t.mixture_predictions(), *t.digests(), t.PACKAGE)"
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *plain, package = done.stdout.split()
    assert Path(package) == tmp_path / "trueline"
    predictions = mixture_predictions()  # which take exp and log
    assert np.allclose(np.array(plain[: len(predictions)], dtype=float), predictions, rtol=1e-9, atol=1e-12)
    assert plain[len(predictions) :] == digests()


def test_sums_in_lanes_are_sums():
    rng = np.random.default_rng(0)
    for n in [*range(40), 1000]:
        x, w = rng.normal(size=n), rng.normal(size=n)
        assert simd.dot(x, w, n) == pytest.approx(float(x @ w), abs=1e-12)
        indices = rng.integers(0, max(n, 1), n).astype(np.int32)
        assert simd.gathered_dot(x, indices, 0, n, w) == pytest.approx(float(x @ w[indices]), abs=1e-12)
        single = sound_walks.single_window_dot(x.astype(np.float32), 0, w.astype(np.float32), n)
        A, out = np.zeros((1, n, n)), np.zeros((1, n))
        simd.rank_one(A, 0, x[None], 2.0, 0.25, n)
        assert simd.symmetric_product(A, 0, w, out, n) == pytest.approx(-0.5 * float(x @ w) ** 2, rel=1e-9, abs=1e-9)
        assert single == pytest.approx(float(x @ w), abs=1e-4)


SPARSE = "scipy.sparse.csr_matrix(X)"
USES = {
    "Lasso": "tl.Lasso(alpha=0.1).fit(X, y)",
    "sparse Lasso": f"import scipy.sparse; tl.Lasso(alpha=0.1).fit({SPARSE}, y)",
    "ElasticNetCV": "tl.ElasticNetCV().fit(X, y)",
    "LogisticRegression": "tl.LogisticRegression().fit(X, y > 0).predict_proba(X)",
    "sparse LogisticRegression": f"import scipy.sparse; tl.LogisticRegression(penalty='l1').fit({SPARSE}, y > 0)",
    "three classes": "tl.LogisticRegression().fit(X, np.digitize(y, [-1, 1]))",
    "LinearSVC": "tl.LinearSVC(loss='hinge').fit(X, y > 0)",
    "GeneralizedRegression": "tl.GeneralizedRegression('poisson').fit(X, np.floor(np.abs(y)))",
    "minimize": "tl.minimize(X, y, loss='huber', penalty='l1', alpha=0.1)",
    "minimize by the dual": "tl.minimize(X, y > 0, 'hinge', 'l2', alpha=0.1, method='coordinate', intercept=False, tol=1e-2)",
    "LocalRegression": "tl.LocalRegression().fit(X[:, :1], y).predict(X[:, :1]), tl.LocalRegression().fit(X, y).predict(X)",
    "KernelRegression": "tl.KernelRegression(alpha=0.1).fit(X, y).predict(X)",
    "KernelPerceptron": "tl.KernelPerceptron().fit(X, y > 0).predict(X)",
    "AdaBoost": "tl.AdaBoost(rounds=5).fit(X, y > 0).predict(X)",
    "OnlineRegressor": "m = tl.OnlineRegressor().partial_fit(X, y); m.predict(X); m.learn_one({'x0': 1.0, 'x1': 2.0}, 1.0)",
    "OnlineClassifier": "tl.OnlineClassifier().partial_fit(X, y > 0, classes=[False, True]).predict(X)",
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_a_first_use_compiles_nothing(use, tmp_path):
    code = "import sys, numpy as np, trueline as tl; X = np.random.default_rng(0).normal(size=(60, 2)); y = X[:, 0]"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {use}; print('numba' in sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
