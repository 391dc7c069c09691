"""Honest models on dull and on hostile rows, and another solver's opinion of their objectives.

    PYTHONPATH=tests python -m verifier.honest 150 424242    # so many of each kind, and the seed

Two counts matter of a verifier: false proofs (it holds, and another solver finds a better objective than the claim
allows) and false alarms (it refuses a model that nobody forged). ``count`` makes both.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from scipy.optimize import linprog, lsq_linear

import trueline as tl
from trueline.errors import TruelineError

TOLERANCE = 2e-6  # of the yardstick: the proof's own tolerance, and as much for the other solver
LD = np.longdouble
QUANTILE = 0.75
LOG_MEAN = ("poisson", "gamma", "tweedie")  # losses of the logarithm of a mean


class Rows(NamedTuple):
    """Rows drawn at random, with the target that the kind of model wants."""

    X: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None


class Convex(NamedTuple):
    """mean loss(score, y) + l1·‖w‖₁ + ½·l2·‖w‖², with an unpenalised intercept; squares also with bounds on w."""

    loss: str
    l1: float = 0.0
    l2: float = 0.0
    lower: float = -np.inf
    upper: float = np.inf


class Kind(NamedTuple):
    """An estimator, what its target looks like, and its objective where another solver can minimise it."""

    name: str
    make: Callable[[], Any]
    target: str
    objective: Convex | None = None
    weighted: bool = True
    table: bool = False  # fitted on a table with a column of words
    sparse: bool = False  # fitted on the columns as a sparse table


class Minimised:
    """``tl.minimize`` with its options, as an estimator."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        self.model_ = tl.minimize(X, y, sample_weight=sample_weight, **self.options)
        self.certificate_ = self.model_.certificate
        self.coef_, self.intercept_ = self.model_.coef, self.model_.intercept


KINDS = [
    Kind("least squares", tl.LinearRegression, "number", Convex("squared")),
    Kind("ridge", lambda: tl.Ridge(2.0), "number"),
    Kind("lasso", lambda: tl.Lasso(0.1), "number", Convex("squared", l1=0.1)),
    Kind("lasso, small penalty", lambda: tl.Lasso(1e-6), "number", Convex("squared", l1=1e-6)),
    Kind("elastic net", lambda: tl.ElasticNet(0.1), "number", Convex("squared", l1=0.05, l2=0.05)),
    Kind("huber", lambda: tl.GeneralizedRegression(loss="huber"), "number", Convex("huber")),
    Kind("absolute", lambda: tl.GeneralizedRegression(loss="absolute"), "number", Convex("absolute"), weighted=False),
    Kind("logistic", tl.LogisticRegression, "two"),
    Kind("several classes", tl.LogisticRegression, "three"),
    Kind("squared hinge", tl.LinearSVC, "two"),
    Kind("poisson", lambda: tl.GeneralizedRegression(loss="poisson"), "count", Convex("poisson")),
    Kind("gamma", lambda: tl.GeneralizedRegression(loss="gamma"), "positive", Convex("gamma")),
    Kind("tweedie", lambda: tl.GeneralizedRegression(loss="tweedie"), "count", Convex("tweedie")),
    Kind(
        "quantile",
        lambda: tl.GeneralizedRegression(loss="quantile", quantile=QUANTILE),
        "number",
        Convex("quantile"),
        weighted=False,
    ),
    Kind("hinge", lambda: tl.LinearSVC(loss="hinge"), "two"),
    Kind("nonnegative", lambda: tl.LinearRegression(positive=True), "number", Convex("squared", lower=0.0)),
    Kind("lasso, nonnegative", lambda: tl.Lasso(0.1, positive=True), "number"),
    Kind(
        "bounds",
        lambda: Minimised(penalty="box", lower=-0.5, upper=0.5),
        "number",
        Convex("squared", lower=-0.5, upper=0.5),
    ),
    Kind("several targets", tl.LinearRegression, "pair"),
    Kind("several targets, ridge", lambda: tl.Ridge(2.0), "pair"),
    Kind("several targets, lasso", lambda: tl.Lasso(0.1), "pair"),
    Kind("ridge, chosen", tl.RidgeCV, "number"),
    Kind("lasso, chosen", lambda: tl.LassoCV(cv=4), "number"),
    Kind("elastic net, chosen", lambda: tl.ElasticNetCV(cv=4), "number"),
    Kind("table, least squares", tl.LinearRegression, "number", weighted=False, table=True),
    Kind("table, logistic", tl.LogisticRegression, "two", weighted=False, table=True),
    Kind("principal components", lambda: tl.PCA(2), "none", weighted=False),
    Kind("robust", tl.RobustRegression, "number"),
    Kind("kernel", tl.KernelRegression, "number"),
    Kind("boosting", lambda: tl.AdaBoost(rounds=10), "two"),
    Kind("generative", tl.GenerativeClassifier, "two"),
    *(
        Kind(f"robust, {psi}, {start}", lambda psi=psi, start=start: tl.RobustRegression(psi, start=start), "number")
        for psi, start in [
            ("huber", "high-breakdown"),
            ("bisquare", "auto"),
            ("bisquare", "high-breakdown"),
            ("hampel", "auto"),
            ("andrews", "auto"),
            ("cauchy", "auto"),
        ]
    ),
    Kind("robust, proposal 2", lambda: tl.RobustRegression(scale="huber"), "number"),
    Kind("line among outliers", lambda: tl.OutlierMixture(n_starts=4), "number"),
    Kind(
        "kernel, landmarks",
        lambda: tl.KernelRegression(approximation="nystrom", components=10, random_state=0),
        "number",
    ),
    Kind(
        "kernel, random features",
        lambda: tl.KernelRegression(approximation="random_features", components=10, random_state=0),
        "number",
    ),
    Kind("kernel, polynomial", lambda: tl.KernelRegression(kernel="polynomial"), "number"),
    Kind("boosting, several classes", lambda: tl.AdaBoost(rounds=10), "three"),
    Kind("network", lambda: tl.NeuralNetwork((4,), epochs=3), "number"),
    Kind("network, two classes", lambda: tl.NeuralNetwork((4, 3), loss="logistic", epochs=3), "two"),
    Kind("generative, several classes", lambda: tl.GenerativeClassifier("auto"), "three"),
    Kind("naive Bayes", lambda: tl.GenerativeClassifier("gaussian"), "three"),
    Kind("linear discriminants", lambda: tl.GenerativeClassifier("gaussian", covariance="shared"), "three"),
    Kind("quadratic discriminants", lambda: tl.GenerativeClassifier("gaussian", covariance="full"), "two"),
    Kind("generative, histograms", lambda: tl.GenerativeClassifier("histogram"), "two"),
    Kind("generative, mixtures", lambda: tl.GenerativeClassifier("mixture(2)"), "two"),
    Kind("density", tl.Density, "none", weighted=False),
    Kind("density, covariances", lambda: tl.Density("gaussian", covariance="full"), "none", weighted=False),
    Kind("density, mixtures", lambda: tl.Density("mixture(2)"), "none", weighted=False),
    Kind("local", tl.LocalRegression, "number"),
    Kind("Widrow-Hoff", tl.WidrowHoff, "number", weighted=False),
    Kind("gradient, rates mixed", lambda: tl.OnlineRegressor(geometry="additive"), "number", weighted=False),
    Kind("adaptive", lambda: tl.OnlineRegressor(geometry="adaptive", rate=0.1), "number", weighted=False),
    Kind("exponentiated gradient", tl.ExponentiatedGradient, "number", weighted=False),
    Kind("recursive", tl.RecursiveLeastSquares, "number", weighted=False),
    Kind("perceptron", tl.Perceptron, "two", weighted=False),
    Kind("kernel perceptron", tl.KernelPerceptron, "two", weighted=False),
    Kind("online logistic", lambda: tl.OnlineClassifier(geometry="additive"), "two", weighted=False),
    Kind("default, numbers", tl.OnlineRegressor, "number", weighted=False),
    Kind("default, two classes", tl.OnlineClassifier, "two", weighted=False),
    Kind("default, several classes", tl.OnlineClassifier, "three", weighted=False),
    Kind("ridge, sparse", lambda: tl.Ridge(2.0), "number", sparse=True),
    Kind("lasso, sparse", lambda: tl.Lasso(0.1), "number", Convex("squared", l1=0.1), sparse=True),
    Kind("huber, sparse", lambda: tl.GeneralizedRegression("huber"), "number", Convex("huber"), sparse=True),
    Kind("poisson, sparse", lambda: tl.GeneralizedRegression("poisson"), "count", Convex("poisson"), sparse=True),
    Kind("logistic, sparse", tl.LogisticRegression, "two", sparse=True),
    Kind("squared hinge, sparse", tl.LinearSVC, "two", sparse=True),
]


def draw(rng: np.random.Generator, target: str, hostile: bool, weighted: bool) -> Rows:
    """Normal columns, categories and counts at ordinary scales; or scales, offsets, copies and weights that hurt."""
    n, d = int(rng.integers(20, 120)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, d))
    X[:, -1] = rng.integers(0, 3, n)
    if rng.random() < 0.3:
        X[:, 0] = rng.poisson(3.0, n)
    signal = X @ rng.normal(size=d) + rng.choice([0.1, 1.0]) * rng.normal(size=n)
    weights = rng.random(n) + 0.5 if weighted and rng.random() < 0.3 else None
    if hostile:
        for trouble in rng.choice(len(TROUBLES), size=int(rng.integers(1, 3)), replace=False):
            X, signal = TROUBLES[trouble](rng, X, signal)
        if weighted and rng.random() < 0.2:
            weights = 10.0 ** rng.uniform(-9.0, 9.0, len(X))
        weights = None if weights is None else weights[: len(X)]
    return Rows(X, make_target(rng, signal, target, hostile), weights)


def make_target(rng: np.random.Generator, signal: np.ndarray, target: str, hostile: bool) -> np.ndarray | None:
    spread = max(float(signal.std()), 1e-300)
    scaled = (signal - signal.mean()) / spread
    if target == "number":
        return signal
    if target == "pair":
        return np.column_stack([signal, spread * rng.normal(size=len(signal)) - signal])
    if target == "positive":
        return np.exp(np.clip(scaled, -3.0, 3.0)) * rng.gamma(2.0, size=len(scaled))
    if target == "two":
        y = (scaled + 0.5 * rng.normal(size=len(scaled)) > 0).astype(int)
        y[:2] = [0, 1]
        if hostile and rng.random() < 0.2:  # a class of one row
            y[:] = 0
            y[int(rng.integers(len(y)))] = 1
        return y
    if target == "three":
        y = np.digitize(scaled + 0.5 * rng.normal(size=len(scaled)), [-0.5, 0.5])
        y[:3] = [0, 1, 2]
        return y
    if target == "count":
        return rng.poisson(np.exp(np.clip(scaled, -3.0, 3.0))).astype(float) + (1.0 * (np.arange(len(scaled)) < 1))
    return None


def scales(rng, X, y):
    return X * 10.0 ** rng.uniform(-6.0, 6.0, X.shape[1]), y * 10.0 ** rng.uniform(-6.0, 6.0)


def offsets(rng, X, y):
    return X + 10.0 ** rng.uniform(0.0, 9.0, X.shape[1]) * (rng.random(X.shape[1]) < 0.5), y


def far_target(rng, X, y):
    return X, y + 10.0 ** rng.uniform(2.0, 9.0)


def near_copy(rng, X, y):
    return np.column_stack([X, X[:, 0] + 10.0 ** rng.uniform(-12.0, -3.0) * rng.normal(size=len(X))]), y


def repeated_rows(rng, X, y):
    rows = rng.integers(0, max(2, len(X) // 5), len(X))
    return X[rows], y[rows]


def few_rows(rng, X, y):
    rows = slice(0, max(6, X.shape[1] - 1))
    return X[rows], y[rows]


def constant_column(rng, X, y):
    return np.column_stack([X, np.full(len(X), rng.choice([0.0, 1.0, 1e6]))]), y


TROUBLES = [scales, offsets, far_target, near_copy, repeated_rows, few_rows, constant_column]


def losses(name: str, s: Any, y: Any) -> tuple[Any, Any, Any]:
    """Value, slope and curvature of each row, in the precision of what is given."""
    r = s - y
    if name == "squared":
        return r * r / 2, r, np.ones_like(r)
    if name == "huber":
        near = np.abs(r) <= LD(1.35)
        return np.where(near, r * r / 2, LD(1.35) * (np.abs(r) - LD(1.35) / 2)), np.clip(r, -1.35, 1.35), 1.0 * near
    if name == "absolute":
        return np.abs(r), np.sign(r), np.zeros_like(r)
    if name == "quantile":
        return np.maximum(-QUANTILE * r, (1 - QUANTILE) * r), np.where(r > 0, 1 - QUANTILE, -QUANTILE), np.zeros_like(r)
    if name == "gamma":
        ratio = y * np.exp(-s)
        return s + ratio, 1 - ratio, ratio
    if name == "tweedie":  # of power 1.5
        up, down = np.exp(s / 2), y * np.exp(-s / 2)
        return 2 * up + 2 * down, up - down, (up + down) / 2
    mean = np.exp(s)
    return mean - y * s, mean - y, mean


def value(problem: Convex, rows: Rows, w: np.ndarray, b: float) -> float:
    """The objective in extended precision."""
    X, y = rows.X.astype(LD), np.asarray(rows.y, dtype=LD)
    c = np.ones(len(y), dtype=LD) if rows.weights is None else rows.weights.astype(LD)
    each = losses(problem.loss, X @ w.astype(LD) + LD(b), y)[0]
    penalty = LD(problem.l1) * np.abs(w.astype(LD)).sum() + LD(problem.l2) * (w.astype(LD) ** 2).sum() / 2
    return float((c @ each) / c.sum() + penalty)


def better(problem: Convex, rows: Rows, w: np.ndarray, b: float) -> float:
    """The least objective that other methods reach: a linear programme, or coordinate descent on Newton's quadratics."""
    if problem.loss in ("absolute", "quantile"):
        return value(problem, rows, *_linear_programme(rows, w, b, 0.5 if problem.loss == "absolute" else QUANTILE))
    if np.isfinite(problem.lower):
        return value(problem, rows, *_bounded_squares(problem, rows))
    return min(value(problem, rows, *_descend(problem, rows, *start)) for start in ((w, b), (0.0 * w, None)))


def _descend(problem: Convex, rows: Rows, w: np.ndarray, b: float | None) -> tuple[np.ndarray, float]:
    X, y = rows.X, np.asarray(rows.y, dtype=float)
    c = np.ones(len(y)) if rows.weights is None else rows.weights
    c = c / c.sum()
    centre = c @ X
    size = np.sqrt(c @ (X - centre) ** 2)
    size[size <= 1e-12 * np.abs(centre)] = np.inf
    Z, v = (X - centre) / size, np.where(np.isinf(size), 0.0, w * size)
    level = (
        float(np.log(max(c @ y, 1e-300)) if problem.loss in LOG_MEAN else c @ y) if b is None else float(b + centre @ w)
    )
    l1, l2 = problem.l1 / size, problem.l2 / size**2
    best, last = (w, level - float(centre @ w)), np.inf
    for _ in range(40):
        _, slope, curve = losses(problem.loss, Z @ v + level, y)
        h = np.asarray(c * np.maximum(curve, 1e-8), dtype=float)
        A, g = (Z * h[:, None]).T @ Z + np.diag(l2), Z.T @ (c * slope) + l2 * v
        step, shift = np.zeros(len(v)), -float(c @ slope) / max(float(h.sum()), 1e-300)
        for _ in range(300):
            before = step.copy()
            for j in range(len(v)):
                if A[j, j] <= 0.0:
                    continue
                pull = A[j, j] * (v[j] + step[j]) - (g[j] + A[j] @ step + shift * float(h @ Z[:, j]))
                step[j] = np.sign(pull) * max(abs(pull) - l1[j], 0.0) / A[j, j] - v[j]
            shift = -(float(c @ slope) + float(h @ (Z @ step))) / max(float(h.sum()), 1e-300)
            if np.abs(step - before).max() <= 1e-14 * (1.0 + np.abs(v).max()):
                break
        for length in 0.5 ** np.arange(20):
            there = (v + length * step, level + length * shift)
            found = np.where(np.isinf(size), 0.0, there[0] / size)
            now = value(problem, rows, found, there[1] - float(centre @ found))
            if now < last:
                break
        else:
            break
        gain, last = last - now, now
        (v, level), best = there, (found, there[1] - float(centre @ found))
        if gain <= 1e-14 * abs(now):
            break
    return best


def _bounded_squares(problem: Convex, rows: Rows) -> tuple[np.ndarray, float]:
    """The weights of least squares within bounds, on centred columns of size 1."""
    c = np.ones(len(rows.X)) if rows.weights is None else rows.weights
    c, y = c / c.sum(), np.asarray(rows.y, dtype=float)
    centre, level = c @ rows.X, float(c @ y)
    size = np.sqrt(c @ (rows.X - centre) ** 2)
    size[size <= 1e-12 * np.abs(centre)] = 1.0
    root = np.sqrt(c)[:, None]
    bounds = (problem.lower * size, problem.upper * size)
    found = lsq_linear(root * (rows.X - centre) / size, root[:, 0] * (y - level), bounds, method="bvls", tol=1e-14)
    weights = np.clip(found.x / size, problem.lower, problem.upper)
    return weights, level - float(centre @ weights)


def _linear_programme(rows: Rows, w: np.ndarray, b: float, share: float) -> tuple[np.ndarray, float]:
    """The weights of the least mean of quantile losses, on a centred target and columns of size 1; (w, b) where none are found."""
    y = np.asarray(rows.y, dtype=float)
    level, centre = float(np.median(y)), np.median(rows.X, axis=0)
    spread = max(float(np.abs(y - level).max()), 1e-300)
    size = np.abs(rows.X - centre).max(axis=0)
    size[size == 0.0] = np.inf
    Z = np.column_stack([np.ones(len(y)), (rows.X - centre) / size])
    n, d = Z.shape
    cost = np.r_[np.zeros(d), np.full(n, share / n), np.full(n, (1.0 - share) / n)]
    equal = np.hstack([Z, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    found = linprog(cost, A_eq=equal, b_eq=(y - level) / spread, bounds=bounds, method="highs")
    if found.status != 0:
        return w, b
    weights = spread * found.x[1:d] / size
    return weights, level + spread * float(found.x[0]) - float(centre @ weights)


def yardstick(problem: Convex, rows: Rows, reached: float) -> float:
    """What a relative gap is divided by: the objective, or a thousandth of the best constant's, above the least loss."""
    y = np.asarray(rows.y, dtype=float)
    c = np.ones(len(y)) if rows.weights is None else rows.weights
    level = np.log(max(np.average(y, weights=c), 1e-300)) if problem.loss in LOG_MEAN else np.average(y, weights=c)
    null = value(problem, rows, np.zeros(rows.X.shape[1]), float(level))
    least = 0.0
    if problem.loss in LOG_MEAN:
        logs = np.where(y > 0, np.log(np.maximum(y, 1e-300)), 0.0)
        each = {"poisson": y - y * logs, "gamma": logs + 1.0, "tweedie": 4.0 * np.sqrt(y)}[problem.loss]
        least = float(np.average(each, weights=c))
    return max(reached - least, 1e-3 * (null - least))


def as_table(rows: Rows) -> pd.DataFrame:
    """The columns by name, words in place of the last, and the target."""
    table = pd.DataFrame(rows.X[:, :-1], columns=[f"x{j}" for j in range(rows.X.shape[1] - 1)])
    ranks = np.unique(rows.X[:, -1], return_inverse=True)[1] % 3
    return table.assign(words=np.array(["red", "green", "blue"])[ranks], y=rows.y)


def judge(kind: Kind, rows: Rows) -> str:
    """'held', 'false proof', 'false alarm', or 'refused' where the fit or the verifier says why it cannot."""
    X: Any = scipy.sparse.csr_array(rows.X) if kind.sparse else rows.X
    data: Any = tuple(part for part in (X, rows.y, rows.weights) if part is not None)
    if kind.table:
        data = as_table(rows)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = kind.make()
            weights = {} if rows.weights is None else {"sample_weight": rows.weights}
            if kind.table:
                model.fit(data, target="y")
            elif rows.y is None:
                model.fit(X)
            else:
                model.fit(X, rows.y, **weights)
        except TruelineError:
            return "refused by fit"
        try:
            result = tl.verify(model, data)
        except TruelineError as error:  # rows that the fit took are no excuse
            return f"false alarm: cannot be checked: {str(error)[:60]}"
        if not result.ok:
            return "false alarm: " + ", ".join(check.claim for check in result.checks if not check.held)
        if kind.objective is None or not model.certificate_.proven:
            return "held" if model.certificate_.proven else "held, not proven"
        w, b = np.ravel(model.coef_).astype(float), float(np.ravel(model.intercept_)[0])
        reached = value(kind.objective, rows, w, b)
        least = better(kind.objective, rows, w, b)
        room = TOLERANCE * yardstick(kind.objective, rows, reached)
        return "held" if reached - least <= room else f"false proof: {reached!r} where {least!r} is reached"


def count(kinds: list[Kind], draws: int, hostile: bool, seed: int) -> tuple[Counter, list[tuple[str, int, str]]]:
    """Outcomes by their first words, and each false proof or alarm with the seed that draws it again."""
    total: Counter = Counter()
    wrong = []
    for at in range(draws):
        for number, kind in enumerate(kinds):
            rng = np.random.default_rng([seed, hostile, at, number])
            outcome = judge(kind, draw(rng, kind.target, hostile, kind.weighted))
            total[outcome.split(":")[0]] += 1
            if outcome.startswith("false"):
                wrong.append((kind.name, at, outcome))
    return total, wrong


if __name__ == "__main__":
    for troubled in (False, True):
        print("hostile" if troubled else "dull", *count(KINDS, int(sys.argv[1]), troubled, int(sys.argv[2])), sep="\n")
