"""The cases of the frozen suite that call the library, by table: (call, tolerance) each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from frozen.reading import estimated, fitted, shown, summary_errors

import trueline as tl

Call = tuple[Callable[[Any], dict[str, Any]], float]

CLOSED, NEWTON, PATH = 1e-9, 1e-7, 1e-6


def from_scan(t: Any, make: Any, *, data: str = "data.csv", **options: Any) -> dict[str, Any]:
    """A model from the moments of one scan."""
    moments = tl.scan(t.folder / data, **options)
    return {"columns": list(moments.designed().terms), **estimated(make(moments), None)}


def from_source(t: Any, model: Any, **options: Any) -> dict[str, Any]:
    """A model fitted to a whole table by the names of its columns."""
    return estimated(model.fit(t.frame, **options), t.frame)


def basis(t: Any, formula: str | None = None, functions: Any = None) -> dict[str, Any]:
    """The columns of a basis, and a line fitted on them."""
    made = tl.Basis(functions=functions) if functions else tl.Basis(formula)
    x = t.frame.select("x").to_pandas()
    X = np.asarray(made.fit(x).transform(x))
    return {
        "columns": X.shape[1],
        "design": [float(v) for v in np.abs(X).sum(axis=0)],
        **fitted(tl.Ridge(alpha=0.1), X, t["y"]),
    }


def minimum(*arguments: Any, **options: Any) -> dict[str, Any]:
    solution = tl.minimize(*arguments, **options)
    return {"coefficients": solution.coef, "intercept": solution.intercept}


def streamed(model: Any, X: np.ndarray, y: Any) -> dict[str, Any]:
    """Row by row: what was predicted before each row was learned."""
    made = []
    for k in range(len(X)):
        row = dict(zip("abcdefgh", X[k].tolist()))
        made.append(model.predict_one(row))
        model.learn_one(row, y[k])
    return {"predictions": shown([0.0 if v is None else v for v in made])}


def csr(t: Any) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_matrix(t.X(*[f"x{k}" for k in range(60)]))


def robust_errors(model: Any, X: Any, y: Any, **options: Any) -> dict[str, Any]:
    return {"std_errors": summary_errors(model.fit(X, y).summary(X=X, y=y, **options))}


SENTENCES = ["the cat sat on a chair", "the dog sat on the floor", "a cat saw the dog", "a fat cat sat"]


LIBRARY: dict[str, dict[str, Call]] = {
    "titanic": {
        "ridge from moments": (lambda t: from_scan(t, tl.RidgeCV.from_moments, target="saved", features=["passage", "sex", "age"]), PATH),
        "lasso from moments": (lambda t: from_scan(t, tl.LassoCV.from_moments, target="saved", features=["passage", "sex", "age"]), PATH),
        "squares from moments": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="saved", features=["passage", "sex", "age"]), CLOSED),
    },
    "mtcars": {
        "squares": (lambda t: fitted(tl.LinearRegression(), t.X("wt", "hp"), t["mpg"], summary=True), CLOSED),
        "through the origin": (lambda t: fitted(tl.LinearRegression(fit_intercept=False), t.X("wt"), t["mpg"], summary=True), CLOSED),
        "nonnegative": (lambda t: fitted(tl.LinearRegression(positive=True), t.X("wt", "hp", "qsec"), t["mpg"]), CLOSED),
        "two targets": (lambda t: fitted(tl.LinearRegression(), t.X("wt", "hp"), t.X("mpg", "qsec")), CLOSED),
        "HC3": (lambda t: robust_errors(tl.LinearRegression(), t.X("wt", "hp"), t["mpg"], robust="HC3"), 1e-8),
        "ridge": (lambda t: fitted(tl.Ridge(alpha=2.0), t.X("wt", "hp", "qsec"), t["mpg"]), CLOSED),
        "ridge, chosen": (lambda t: fitted(tl.RidgeCV(alphas=(0.1, 1.0, 10.0)), t.X("wt", "hp", "qsec"), t["mpg"]), CLOSED),
        "lasso": (lambda t: fitted(tl.Lasso(alpha=0.5), t.X("wt", "hp", "qsec"), t["mpg"]), PATH),
        "lasso, chosen": (lambda t: fitted(tl.LassoCV(cv=4), t.X("wt", "hp", "qsec"), t["mpg"]), PATH),
        "elastic net": (lambda t: fitted(tl.ElasticNet(alpha=0.5), t.X("wt", "hp", "qsec"), t["mpg"]), PATH),
        "logistic": (lambda t: fitted(tl.LogisticRegression(C=1.0), t.X("wt"), t["am"]), NEWTON),
        "logistic without penalty": (lambda t: fitted(tl.LogisticRegression(C=np.inf), t.X("wt"), t["am"], summary=True), NEWTON),
        "support vectors": (lambda t: fitted(tl.LinearSVC(C=1.0, loss="hinge"), t.X("wt", "qsec"), t["am"]), 1e-4),
        "components": (lambda t: {"ratios": tl.PCA(2).fit(t.X("wt", "hp", "qsec")).explained_variance_ratio_}, CLOSED),
        "formula of a source": (lambda t: from_source(t, tl.LinearRegression(), target="mpg", formula="mpg ~ wt + log(hp)"), CLOSED),
        "formula alone": (lambda t: from_source(t, tl.LinearRegression(), formula="mpg ~ wt"), CLOSED),
        "formula of another target": (lambda t: from_source(t, tl.LinearRegression(), target="qsec", formula="mpg ~ wt + hp"), CLOSED),
        "log of the target": (lambda t: from_source(t, tl.LinearRegression(), target="mpg", formula="log(mpg) ~ wt"), CLOSED),
        "formula without intercept": (lambda t: from_scan(t, tl.LinearRegression.from_moments, formula="mpg ~ wt - 1"), CLOSED),
        "levels without intercept": (lambda t: from_scan(t, tl.LinearRegression.from_moments, formula="mpg ~ make - 1"), CLOSED),
        "source without intercept": (lambda t: from_source(t, tl.LinearRegression(), target="mpg", formula="mpg ~ 0 + wt"), CLOSED),
        "misspelt weights": (lambda t: fitted(tl.Ridge(), t.X("wt"), t["mpg"], smaple_weight=t["hp"]), CLOSED),
        "unknown robust": (lambda t: robust_errors(tl.LogisticRegression(C=np.inf), t.X("wt"), t["am"], robust="nonsense"), NEWTON),
        "coefficients put in": (lambda t: _assigned(t), CLOSED),
        "masked": (lambda t: fitted(tl.LinearRegression(), t.X("wt"), np.ma.masked_greater(t["mpg"], 20)), CLOSED),
        "unseen level": (lambda t: {"predictions": _unseen(t)}, CLOSED),
    },
    "longley": {
        "squares": (lambda t: fitted(tl.LinearRegression(), t.X("GNPDEFL", "GNP", "UNEMP", "ARMED", "POP", "YEAR"), t["TOTEMP"], summary=True), NEWTON),
        "by QR": (lambda t: minimum(t.X("GNP", "UNEMP"), t["TOTEMP"], method="qr"), NEWTON),
    },
    "spector": {
        "logit": (lambda t: fitted(tl.LogisticRegression(C=np.inf), t.X("GPA", "TUCE", "PSI"), t["GRADE"], summary=True), NEWTON),
        "newton": (lambda t: minimum(t.X("GPA", "TUCE", "PSI"), t["GRADE"], loss="logistic", method="newton"), NEWTON),
        "one newton step of half length": (lambda t: minimum(t.X("GPA", "TUCE", "PSI"), t["GRADE"], loss="logistic", method="newton", step="constant", rate=0.5, max_iter=1, standardise=False), NEWTON),
        "generative": (lambda t: fitted(tl.GenerativeClassifier("gaussian"), t.X("GPA", "TUCE"), t["GRADE"]), 1e-8),
        "boosting": (lambda t: fitted(tl.AdaBoost(rounds=5), t.X("GPA", "TUCE", "PSI"), t["GRADE"]), 1e-8),
    },
    "iris": {
        "softmax": (lambda t: fitted(tl.LogisticRegression(C=1.0), t.X("sepal_length", "petal_width"), t["flower"]), PATH),
        "one against the rest": (lambda t: fitted(tl.LinearSVC(C=0.1), t.X("sepal_length", "petal_width"), t["flower"]), 1e-5),
        "generative": (lambda t: fitted(tl.GenerativeClassifier("gaussian"), t.X("sepal_length", "petal_width"), t["flower"]), 1e-8),
        "table of every class": (lambda t: {"std_errors": summary_errors(tl.LogisticRegression(C=np.inf).fit(t.X("sepal_length", "sepal_width"), t["flower"]).summary())}, 1e-5),
    },
    "diabetes": {
        "path": (lambda t: {"coefficients": np.asarray(tl.lasso_path(t.X("age", "bmi", "bp", "s5"), t["progress"], alphas=[1.0, 0.5, 0.1])[1])}, PATH),
        "ridge": (lambda t: fitted(tl.Ridge(alpha=0.1), t.X("age", "bmi", "bp", "s5"), t["progress"]), CLOSED),
        "kernel": (lambda t: fitted(tl.KernelRegression(alpha=1.0, gamma=50.0), t.X("bmi", "s5"), t["progress"]), 1e-8),
        "fista": (lambda t: minimum(t.X("bmi", "s5", "bp"), t["progress"], penalty="l1", alpha=0.5, method="fista"), 1e-4),
        "group lasso": (lambda t: minimum(t.X("bmi", "s5", "bp", "age"), t["progress"], penalty="group_l1", alpha=0.3, groups=[0, 0, 1, 1]), 1e-4),
    },
    "counts": {
        "poisson": (lambda t: fitted(tl.GeneralizedRegression("poisson", alpha=0), t.X("income", "south", "degree"), t["executions"], summary=True), 1e-6),
        "poisson, robust": (lambda t: robust_errors(tl.GeneralizedRegression("poisson", alpha=0), t.X("income", "south", "degree"), t["executions"], robust="HC1"), 1e-6),
        "gamma": (lambda t: fitted(tl.GeneralizedRegression("gamma", alpha=0), t.X("south", "degree"), t["cost"]), 1e-5),
        "gamma, errors": (lambda t: {"std_errors": summary_errors(tl.GeneralizedRegression("gamma", alpha=0).fit(t.X("south", "degree"), t["cost"]).summary())}, 1e-5),
        "tweedie": (lambda t: fitted(tl.GeneralizedRegression("tweedie", alpha=0), t.X("south", "degree"), t["cost"]), 1e-5),
    },
    "grunfeld": {
        "clustered": (lambda t: robust_errors(tl.LinearRegression(), t.X("value", "capital"), t["invest"], robust="cluster", groups=t["firm"]), 1e-8),
    },
    "dependent": {
        "least norm": (lambda t: fitted(tl.LinearRegression(), t.X("a", "b", "c", "d"), t["y"]), 1e-8),
        "constant step": (lambda t: minimum(t.X("a", "b", "c"), t["y"], method="gradient", step="constant", max_iter=20000), 1e-4),
        "ridge, chosen": (lambda t: fitted(tl.RidgeCV(alphas=(0.1, 1.0)), t.X("a", "b", "c", "d"), t["y"], sample_weight=t["w"]), CLOSED),
    },
    "missing": {
        "drop": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="rent", missing="drop"), CLOSED),
        "mean": (lambda t: from_scan(t, tl.Ridge.from_moments, target="rent", missing="mean", where="rent is not null"), CLOSED),
        "refuse": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="rent"), CLOSED),
    },
    "dates": {"day": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="y", features=["day"]), 1e-8)},
    "identifier": {"name and number": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="y"), CLOSED)},
    "wide": {
        "squares": (lambda t: fitted(tl.LinearRegression(), t.X(*[f"x{k}" for k in range(120)]), t["y"]), 1e-8),
        "lasso": (lambda t: fitted(tl.Lasso(alpha=0.2), t.X(*[f"x{k}" for k in range(120)]), t["y"]), PATH),
        "logistic": (lambda t: fitted(tl.LogisticRegression(C=0.5), t.X(*[f"x{k}" for k in range(120)]), t["sign"]), PATH),
    },
    "sparse": {
        "squares": (lambda t: fitted(tl.LinearRegression(), csr(t), t["y"]), 1e-8),
        "ridge": (lambda t: fitted(tl.Ridge(alpha=1.0), csr(t), t["y"]), 1e-8),
        "lasso": (lambda t: fitted(tl.Lasso(alpha=0.02), csr(t), t["y"]), PATH),
        "logistic": (lambda t: fitted(tl.LogisticRegression(C=1.0), csr(t), t["label"]), PATH),
        "support vectors": (lambda t: fitted(tl.LinearSVC(C=0.5), csr(t), t["label"]), 1e-5),
        "online": (lambda t: fitted(tl.OnlineRegressor(geometry="additive", rate=0.05), csr(t), t["y"]), 1e-8),
    },
    "far": {
        "fista": (lambda t: minimum(t.X("km"), t["far"], method="fista"), 1e-5),
        "nonnegative": (lambda t: minimum(t.X("km"), t["late"], penalty="nonnegative"), 1e-6),
    },
    "few": {
        "wide": (lambda t: fitted(tl.LinearRegression(), np.array([[1.0, 2, 3], [2, 0, 1]]), np.array([1.0, 2.0])), CLOSED),
        "local": (lambda t: fitted(tl.LocalRegression(), t.X("x"), t["y"]), 1e-8),
    },
    "weighted": {
        "squares": (lambda t: fitted(tl.LinearRegression(), t.X("x", "z"), t["y"], sample_weight=t["w"]), CLOSED),
        "two targets": (lambda t: {"std_errors": summary_errors(tl.LinearRegression().fit(t.X("x", "z"), t.X("y", "y2")).summary())}, CLOSED),
        "logistic": (lambda t: fitted(tl.LogisticRegression(C=2.0), t.X("x", "z"), t["label"], sample_weight=t["w"]), NEWTON),
        "moments": (lambda t: from_scan(t, tl.LinearRegression.from_moments, target="y", features=["x", "z"], weights="w"), CLOSED),
    },
    "separable": {
        "table": (lambda t: {"std_errors": summary_errors(tl.LogisticRegression(C=np.inf).fit(t.X("x", "z"), t["side"]).summary())}, 0.1),
        "perceptron": (lambda t: fitted(tl.Perceptron(), t.X("x", "z"), t["side"]), CLOSED),
        "kernel perceptron": (lambda t: fitted(tl.KernelPerceptron(gamma=0.5), t.X("x", "z"), t["side"]), 1e-8),
    },
    "waves": {
        "polynomial": (lambda t: basis(t, "poly(x, 5)"), 1e-8),
        "two widths": (lambda t: basis(t, "gaussian(x, 5, width=0.1) + gaussian(x, 3, width=0.5)"), 1e-7),
        "two sigmoids": (lambda t: basis(t, "sigmoid(x, 1, slope=1) + sigmoid(x, 1, slope=5)"), 1e-8),
        "three functions": (lambda t: basis(t, functions=[("x", lambda v: v), ("x", lambda v: v**2), ("x", lambda v: v**3)]), 1e-8),
        "scan of two widths": (lambda t: from_scan(t, lambda m: tl.Ridge.from_moments(m, alpha=0.1), formula="y ~ gaussian(x, 5, width=0.1) + gaussian(x, 3, width=0.5)"), 1e-6),
        "local": (lambda t: fitted(tl.LocalRegression(bandwidth=0.1, kernel="gaussian", robust_iterations=0), t.X("x"), t["y"]), 1e-7),
        "lowess": (lambda t: fitted(tl.LocalRegression(), t.X("x"), t["y"]), 1e-6),
        "kernel": (lambda t: fitted(tl.KernelRegression(alpha=0.1, gamma=10.0), t.X("x"), t["y"]), 1e-7),
        "network": (lambda t: {"loss": float(((tl.NeuralNetwork(hidden=(4,), activation="tanh", epochs=20, random_state=0).fit(t.X("x"), t["y"]).predict(t.X("x")) - t["y"]) ** 2).mean())}, 1e-6),
    },
    "outliers": {
        "huber": (lambda t: fitted(tl.RobustRegression("huber", tol=1e-10), t.X("x", "z"), t["y"], summary=True), 1e-6),
        "bisquare": (lambda t: fitted(tl.RobustRegression("bisquare", tol=1e-10), t.X("x", "z"), t["y"]), 1e-6),
        "mixture of outliers": (lambda t: fitted(tl.OutlierMixture(), t.X("x", "z"), t["y"]), 1e-5),
        "quantile with a lasso": (lambda t: minimum(t.X("x", "z")[1:], t["y"][1:], loss="quantile", penalty="l1", alpha=5.0), 1e-6),
        "epsilon insensitive": (lambda t: minimum(t.X("x", "z"), t["y"], loss="epsilon_insensitive"), 1e-5),
        "hinge with a lasso": (lambda t: minimum(t.X("x", "z"), t["up"], loss="hinge", penalty="l1", alpha=5.0), 1e-6),
    },
    "engel": {
        "three quarters": (lambda t: fitted(tl.GeneralizedRegression("quantile", quantile=0.75, alpha=0), t.X("income"), t["foodexp"]), 1e-3),
        "errors": (lambda t: {"std_errors": summary_errors(tl.GeneralizedRegression("quantile", alpha=0).fit(t.X("income"), t["foodexp"]).summary())}, 1e-4),
    },
    "drifting": {
        "widrow-hoff": (lambda t: fitted(tl.WidrowHoff(rate=0.05), t.X("a", "b", "c"), t["y"]), 1e-8),
        "recursive": (lambda t: fitted(tl.RecursiveLeastSquares(), t.X("a", "b", "c"), t["y"]), 1e-7),
        "exponentiated": (lambda t: fitted(tl.ExponentiatedGradient(rate=0.05, radius=3.0), t.X("a", "b", "c"), t["y"]), 1e-8),
        "perceptron": (lambda t: fitted(tl.Perceptron(), t.X("a", "b", "c"), t["up"]), 1e-8),
        "one row at a time": (lambda t: streamed(tl.OnlineRegressor(geometry="additive", rate=0.05), t.X("a", "b", "c"), t["y"]), 1e-8),
        "hinge": (lambda t: fitted(tl.OnlineClassifier(loss="hinge", geometry="additive", rate=0.1), t.X("a", "b", "c"), t["up"]), 1e-8),
    },
    "prices": {
        "lags": (lambda t: from_scan(t, tl.LinearRegression.from_moments, formula="price ~ lags(price, 2) + lag(other, 2)"), 1e-8),
    },
    "formats": {"frame": (lambda t: from_scan_of_frame(t), CLOSED)},
    "heights": {
        "generative": (lambda t: fitted(tl.GenerativeClassifier("gaussian"), t.X("height"), t["kind"]), 1e-7),
        "density": (lambda t: {"log_density": shown(tl.Density("gaussian").fit(t.X("height")).log_density(t.X("height")))}, 1e-7),
        "counts": (lambda t: {"log_density": shown(tl.Density("poisson").fit(t.X("children")).log_density(t.X("children")))}, 1e-7),
        "sentences": (lambda t: {"log_probability": tl.NGram(order=3).fit(SENTENCES).log_probability(["a cat sat on the floor", "a fat sat on cat"])}, CLOSED),
    },
    "sound": {
        "filter": (lambda t: {"heard": shown(tl.AdaptiveFilter(8, "lms", rate=0.02).process(t["far"], t["mic"]))}, 1e-5),
    },
}  # fmt: skip


def _assigned(t: Any) -> dict[str, Any]:
    model = tl.LinearRegression().fit(t.X("wt"), t["mpg"])
    model.coef_ = np.array([2.0])
    return {"predictions": shown(model.predict(t.X("wt")))}


def _unseen(t: Any) -> Any:
    model = tl.LinearRegression().fit(t.frame, target="mpg", features=["make", "wt"])
    import polars as pl

    return model.predict(t.frame.with_columns(make=pl.lit("new")))


def from_scan_of_frame(t: Any) -> dict[str, Any]:
    return estimated(tl.LinearRegression.from_moments(tl.scan(t.frame, target="y")), None)
