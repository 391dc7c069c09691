"""Local and robust regression beside statsmodels and scikit-learn, same data, same run."""

from __future__ import annotations

import time

import numpy as np

import trueline as tl

from .harness import Row, interleaved

NAME = "Local and robust regression"


def curve(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n) * 10.0)
    return x, np.sin(x) + 0.3 * rng.standard_normal(n)


def plane(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 3.0 + rng.standard_normal(n)
    stray = rng.random(n) < 0.1
    y[stray] += 30.0 * rng.standard_normal(stray.sum())
    return X, y


def local(quick: bool) -> list[Row]:
    from statsmodels.nonparametric.smoothers_lowess import lowess

    n = 4_000 if quick else 20_000
    x, y = curve(n)
    tl.LocalRegression(fraction=0.1).fit(x[:200, None], y[:200])
    best, made = interleaved(
        {
            "ours": lambda: tl.LocalRegression(fraction=0.1).fit(x[:, None], y).fitted_,
            "statsmodels": lambda: lowess(y, x, frac=0.1, it=3, delta=0.0, return_sorted=False),
        },
        2 if quick else 3,
    )
    apart = np.abs(made["ours"] - made["statsmodels"]).max()
    rows = [
        Row(
            f"lowess, n = {n:,}, fraction 0.1, 3 robust iterations, a fit at every row",
            best["ours"],
            best["statsmodels"],
            "statsmodels lowess(delta=0)",
            aim=20.0,
            note=f"largest difference {apart:.1e}; ours has standard errors and tr L too",
        )
    ]
    n = 100_000 if quick else 1_000_000
    x, y = curve(n, 1)
    delta = 0.01 * float(np.ptp(x))
    best, made = interleaved(
        {
            "ours": lambda: tl.LocalRegression(fraction=0.1, surface="interpolate").fit(x[:, None], y),
            "statsmodels": lambda: lowess(y, x, frac=0.1, it=3, delta=delta, return_sorted=False),
        },
        1,
    )
    found = made["ours"].certificate_.interpolation_error
    apart = np.abs(made["ours"].fitted_ - made["statsmodels"]).max()
    rows.append(
        Row(
            f"n = {n:,}, by cells of a k-d tree",
            best["ours"],
            best["statsmodels"],
            "statsmodels lowess(delta=0.01 range)",
            note=f"interpolation error {found:.1e} reported; statsmodels' lines lie up to {apart:.1e} from it",
        )
    )
    rng = np.random.default_rng(2)
    X = rng.random((n, 2)) * 4.0
    z = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(n)
    start = time.perf_counter()
    model = tl.LocalRegression(fraction=0.1, surface="interpolate").fit(X, z)
    seconds = time.perf_counter() - start
    rows.append(
        Row(
            f"n = {n:,}, two inputs, by cells",
            seconds,
            seconds,
            "(no peer: itself)",
            note=f"interpolation error {model.certificate_.interpolation_error:.1e}, noise 0.3",
        )
    )
    return rows


def robust(quick: bool) -> list[Row]:
    import statsmodels.api as sm
    from sklearn.linear_model import HuberRegressor

    n, d = (30_000, 20) if quick else (300_000, 50)
    X, y = plane(n, d)
    design = sm.add_constant(X)
    best, made = interleaved(
        {
            "ours": lambda: tl.RobustRegression(tol=1e-6).fit(X, y).coef_,
            "sklearn": lambda: HuberRegressor(epsilon=1.345, alpha=0.0, max_iter=1000).fit(X, y).coef_,
            "statsmodels": lambda: sm.RLM(y, design, M=sm.robust.norms.HuberT()).fit(tol=1e-6).params[1:],
            "bisquare": lambda: tl.RobustRegression("bisquare").fit(X, y).coef_,
        },
        2,
    )
    apart = np.abs(made["ours"] - made["statsmodels"]).max()
    task = f"Huber, {n:,}×{d}, 10% outliers"
    return [
        Row(task, best["ours"], best["sklearn"], "scikit-learn HuberRegressor", aim=2.0, note="its scale is another"),
        Row(
            task,
            best["ours"],
            best["statsmodels"],
            "statsmodels RLM",
            aim=20.0,
            note=f"largest difference of a coefficient {apart:.1e}",
        ),
        Row(
            f"bisquare with a high-breakdown look, {n:,}×{d}",
            best["bisquare"],
            best["statsmodels"],
            "statsmodels RLM (Huber, no such look)",
        ),
    ]


def run(quick: bool) -> list[Row]:
    return local(quick) + robust(quick)
