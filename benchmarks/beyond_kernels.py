"""Kernels, networks and boosting against scikit-learn's, at equal answers or equal loss."""

from __future__ import annotations

import warnings

import numpy as np

from .harness import Row, interleaved

NAME = "Beyond the line: kernels, networks, boosting"


def run(quick: bool) -> list[Row]:
    warnings.simplefilter("ignore")
    return [*_kernel(quick), *_network(quick), *_boosting(quick)]


def _kernel(quick: bool) -> list[Row]:
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    import trueline as tl

    rng = np.random.default_rng(0)
    n = 1000 if quick else 3000
    X = rng.normal(size=(n, 8))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    one = {
        "ours": lambda: tl.KernelRegression(0.1, gamma=0.1, fit_intercept=False).fit(X, y),
        "theirs": lambda: KernelRidge(alpha=0.1, kernel="rbf", gamma=0.1).fit(X, y),
    }
    one["ours"]()
    best, made = interleaved(one, 3)
    apart = float(np.abs(made["ours"].predict(X) - made["theirs"].predict(X)).max())
    m = n // 3
    grid = {"alpha": np.logspace(-6, 3, 34).tolist()}
    chosen = {
        "ours": lambda: tl.KernelRegression("auto", gamma=0.1).fit(X[:m], y[:m]),
        "theirs": lambda: GridSearchCV(KernelRidge(kernel="rbf", gamma=0.1), grid, cv=5).fit(X[:m], y[:m]),
    }
    choice, _ = interleaved(chosen, 2)
    note = f"ours also leaves each row out and certifies; predictions {apart:.1g} apart"
    return [
        Row(f"kernel ridge, {n} rows × 8", best["ours"], best["theirs"], "KernelRidge", note=note),
        Row(
            f"penalty of 34 by validation, {m} rows", choice["ours"], choice["theirs"], "GridSearchCV(KernelRidge, cv=5)",
            note="ours leaves one out, theirs five folds",
        ),
    ]  # fmt: skip


def _network(quick: bool) -> list[Row]:
    from sklearn.neural_network import MLPRegressor

    import trueline as tl

    rng = np.random.default_rng(1)
    n, passes = (4000, 3) if quick else (20_000, 10)
    X = rng.normal(size=(n, 20))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    rows = []
    for unit, batch in (("tanh", 32), ("relu", 32), ("tanh", 200), ("relu", 200)):
        shared = {"batch_size": batch, "random_state": 0, "tol": 0.0}
        contenders = {
            "ours": lambda: tl.NeuralNetwork((100,), unit, epochs=passes, patience=passes, **shared).fit(X, y),  # noqa: B023
            "theirs": lambda: MLPRegressor(
                hidden_layer_sizes=(100,), activation=unit, max_iter=passes, n_iter_no_change=passes, alpha=0.0, **shared  # noqa: B023
            ).fit(X, y),
        }  # fmt: skip
        contenders["ours"]()
        best, made = interleaved(contenders, 4)
        loss = {name: 0.5 * float(np.mean((model.predict(X) - y) ** 2)) for name, model in made.items()}
        note = f"{passes} passes of Adam at 0.001; mean loss {loss['ours']:.3g} against {loss['theirs']:.3g}"
        rows.append(
            Row(
                f"network 20-100-1, {unit}, batches of {batch}",
                n * passes / best["ours"],
                n * passes / best["theirs"],
                "MLPRegressor",
                "examples/s",
                3.0,
                note,
                larger_is_better=True,
            )
        )
    few = 2000 if not quick else 500
    online = {
        "ours": lambda: tl.NeuralNetwork((100,), batch_size=1, random_state=0).partial_fit(X[:few], y[:few]),
        "theirs": lambda: MLPRegressor(
            hidden_layer_sizes=(100,), activation="tanh", batch_size=1, max_iter=1, alpha=0.0, random_state=0
        ).fit(X[:few], y[:few]),
    }
    best, _ = interleaved(online, 2)
    rows.append(
        Row("network 20-100-1, tanh, a row at a time", few / best["ours"], few / best["theirs"], "MLPRegressor",
            "examples/s", 3.0, larger_is_better=True)
    )  # fmt: skip
    return rows


def _boosting(quick: bool) -> list[Row]:
    from sklearn.ensemble import AdaBoostClassifier

    import trueline as tl

    rng = np.random.default_rng(2)
    n = 2000 if quick else 20_000
    X = rng.normal(size=(n, 20))
    y = (X[:, :5] ** 2).sum(axis=1) > 5.0
    contenders = {
        "ours": lambda: tl.AdaBoost(rounds=100).fit(X, y),
        "theirs": lambda: AdaBoostClassifier(n_estimators=100, random_state=0).fit(X, y),
    }
    contenders["ours"]()
    best, made = interleaved(contenders, 2)
    right = {name: model.score(X, y) for name, model in made.items()}
    note = f"training accuracy {right['ours']:.4f} against {right['theirs']:.4f}"
    return [Row(f"AdaBoost, 100 stumps, {n} rows × 20", best["ours"], best["theirs"], "AdaBoostClassifier", note=note)]
