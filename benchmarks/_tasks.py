"""What against_0_1.py has two trees of trueline do: run as a script, one task a line of standard input, its CPU seconds back."""

import json
import sys
import time
import warnings

warnings.simplefilter("ignore")


def tasks(quick):
    import numpy as np
    from scipy import sparse

    import trueline as tl

    rng = np.random.default_rng(0)
    n = 20_000 if quick else 100_000
    X = rng.normal(size=(n, 30))
    y = X @ rng.normal(size=30) + rng.normal(size=n)
    up = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    narrow = np.ascontiguousarray(X[:, :5])
    wide = rng.normal(size=(n // 5, 500))
    dicts = [{f"x{j}": v for j, v in enumerate(row)} for row in X[: n // 20].tolist()]
    scattered = sparse.random_array((2000, 20_000), density=0.002, rng=np.random.default_rng(1), format="csc")
    paths = rng.normal(size=(1000, 200))
    sound = rng.normal(size=16_000)
    heard = np.convolve(sound, rng.normal(size=64) * np.exp(-np.arange(64) / 10))[:16_000] + 0.01 * rng.normal(
        size=16_000
    )
    bare = {"rate": 0.001, "certificate": False}

    def by_name(make, rows):
        model = make()
        for row, target in zip(rows, y.tolist()):
            model.predict_one(row)
            model.learn_one(row, target)

    def network(unit, batch, rows):
        model = tl.NeuralNetwork((100,), unit, batch_size=batch, epochs=3, patience=9, tol=0.0, random_state=0)
        return model.fit(X[:rows, :20], np.sin(y[:rows]))

    return {
        "LMS, 5 columns": lambda: tl.WidrowHoff(**bare).partial_fit(narrow, y),
        "LMS, 30 columns": lambda: tl.WidrowHoff(**bare).partial_fit(X, y),
        "LMS, 500 columns": lambda: tl.WidrowHoff(rate=1e-4, certificate=False).partial_fit(wide, y[: len(wide)]),
        "LMS, 30 columns, certificate": lambda: tl.WidrowHoff(rate=0.001).partial_fit(X, y),
        "Huber loss, 30 columns": lambda: tl.OnlineRegressor(loss="huber", **bare).partial_fit(X, y),
        "normalised, 30 columns": lambda: tl.OnlineRegressor(loss="squared", geometry="normalised", **bare).partial_fit(X, y),
        "adaptive, 30 columns": lambda: tl.OnlineRegressor(loss="squared", geometry="adaptive", **bare).partial_fit(X, y),
        "adaptive, 30 columns, certificate": lambda: tl.OnlineRegressor(loss="squared", geometry="adaptive", rate=0.001).partial_fit(X, y),
        "exponentiated gradient, 30 columns": lambda: tl.ExponentiatedGradient(**bare).partial_fit(X, y),
        "exponentiated gradient, 30 columns, certificate": lambda: tl.ExponentiatedGradient(rate=0.001).partial_fit(X, y),
        "perceptron, 30 columns": lambda: tl.Perceptron().partial_fit(X, up),
        "recursive least squares, 30 columns": lambda: tl.RecursiveLeastSquares().partial_fit(X[: n // 4], y[: n // 4]),
        "default learner, numbers, 10 columns": lambda: tl.OnlineRegressor().partial_fit(np.ascontiguousarray(X[: n // 10, :10]), y[: n // 10]),
        "default learner, classes, 10 columns": lambda: tl.OnlineClassifier().partial_fit(np.ascontiguousarray(X[: n // 10, :10]), up[: n // 10]),
        "dict rows, LMS, 30 keys": lambda: by_name(lambda: tl.WidrowHoff(rate=0.001), dicts),
        "dict rows, default learner, 30 keys": lambda: by_name(tl.OnlineRegressor, dicts[:500]),
        "lasso path, 1000 × 200": lambda: tl.lasso_path(paths, y[:1000]),
        "lasso, sparse 2000 × 20,000": lambda: tl.Lasso(alpha=0.02).fit(scattered, y[:2000]),
        "logistic, 30 columns": lambda: tl.LogisticRegression().fit(X, up),
        "logistic with L1, 30 columns": lambda: tl.LogisticRegression(penalty="l1", C=0.1).fit(X[: n // 5], up[: n // 5]),
        "network, tanh, batches of 32": lambda: network("tanh", 32, n // 5),
        "network, relu, batches of 200": lambda: network("relu", 200, n // 5),
        "network, tanh, single rows": lambda: network("tanh", 1, n // 50),
        "echo: NLMS, 512 taps": lambda: tl.AdaptiveFilter(512, "nlms").process(sound, heard),
        "echo cancellation, 1 s": lambda: tl.cancel_echo(sound, heard, rate=16_000),
        "lowess, 5000 rows": lambda: tl.LocalRegression().fit(X[:5000, :1], y[:5000]),
        "scan with five folds, 30 columns": lambda: tl.scan({f"x{j}": X[:, j] for j in range(30)} | {"y": y}, target="y", folds=5),
        "kernel perceptron, 500 rows": lambda: tl.KernelPerceptron().fit(X[:500], up[:500]),
        "AdaBoost, 30 columns": lambda: tl.AdaBoost(rounds=20).fit(X[: n // 5], up[: n // 5]),
    }  # fmt: skip


def main():
    known = tasks(sys.argv[1] == "quick")
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        try:
            began = time.process_time()
            known[json.loads(line)]()
            answer = time.process_time() - began
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
