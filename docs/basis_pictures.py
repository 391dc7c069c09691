"""The pictures of docs/basis.md: overfitting, error against degree, penalty contours, noise, batch against online.

``draw(folder)`` makes them from code with trueline's own estimators on data generated with fixed seeds.
"""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import numpy as np

import trueline as tl

from .drawing import INK, LINE, SOFT, WARN, drawn


def draw(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """All pictures of the page."""
    return drawn(
        folder,
        "basis",
        overfitting,
        error_against_degree,
        penalty_contours,
        noise,
        batch_against_online,
        lagged_prices,
        style={"lines.linewidth": 1.6},
        dpi=90,
    )


def sine(n: int, seed: int = 4, sigma: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """n points of sin(2πx) with Gaussian noise on [0, 1]."""
    x = np.linspace(0, 1, n)
    return x, np.sin(2 * np.pi * x) + sigma * np.random.default_rng(seed).normal(size=n)


class Polynomial:
    """A polynomial fitted by least squares or with a ridge on the raw powers, through tl.Basis."""

    def __init__(self, x: np.ndarray, y: np.ndarray, degree: int, alpha: float = 0.0) -> None:
        if degree == 0:
            self.raw = np.array([y.mean()])
        elif alpha:
            # The textbook penalises the coefficients of x, x², …; so these are the columns.
            model = tl.Ridge(alpha=alpha).fit(x[:, None] ** np.arange(1, degree + 1), y)
            self.raw = np.r_[model.intercept_, model.coef_]
        else:
            basis = tl.Basis(f"poly(x, {degree})").fit(x[:, None])
            model = tl.LinearRegression().fit(basis.transform(x[:, None]), y)
            self.raw = np.array(list(basis.raw_coefficients(model).values()))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return np.polynomial.polynomial.polyval(x, self.raw)

    @property
    def largest(self) -> float:
        return float(np.abs(self.raw).max())


def overfitting(plt: Any) -> Any:
    """Degree 0, 1, 3, 9 on ten points; then degree 9 with more points or a penalty."""
    figure, axes = plt.subplots(2, 4, figsize=(11, 5.2), sharex=True, sharey=True, layout="constrained")
    grid = np.linspace(0, 1, 400)
    ten, hundred = sine(10), sine(100)
    panels = [(*ten, degree, 0.0, f"degree {degree}") for degree in (0, 1, 3, 9)]
    panels += [
        (*hundred, 9, 0.0, "degree 9, 100 points"),
        (*ten, 9, 1e-6, "degree 9, penalty 10⁻⁶"),
        (*ten, 9, 1e-3, "degree 9, penalty 10⁻³"),
        (*ten, 9, 100.0, "degree 9, penalty 100"),
    ]
    for ax, (x, y, degree, alpha, title) in zip(axes.flat, panels):
        fit = Polynomial(x, y, degree, alpha)
        ax.plot(grid, np.sin(2 * np.pi * grid), color=SOFT, label="truth")
        ax.plot(x, y, "o", ms=4 if len(x) < 50 else 2, mfc="none", color=INK, label="data")
        off = np.sqrt(np.mean((fit(grid) - np.sin(2 * np.pi * grid)) ** 2))
        ax.plot(grid, fit(grid), color=WARN if off > 0.25 else LINE, label="fit")
        size = f"{fit.largest:,.0f}" if fit.largest >= 10 else f"{fit.largest:.2f}"
        ax.set_title(f"{title}\nlargest coefficient {size}")
        ax.set_ylim(-1.8, 1.8)
    axes[0, 0].legend(frameon=False, loc="lower left")
    return figure


def error_against_degree(plt: Any) -> Any:
    """Training, test and cross-validated error by degree, for 10 and 100 points."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    x_test, y_test = sine(2000, seed=99)
    for ax, n in zip(axes, (10, 100)):
        x, y = sine(n)
        degrees = np.arange(10)
        train, test, crossed = [], [], []
        for degree in degrees:
            fit = Polynomial(x, y, degree)
            train.append(np.sqrt(np.mean((fit(x) - y) ** 2)))
            test.append(np.sqrt(np.mean((fit(x_test) - y_test) ** 2)))
            # Leaving row i out changes its residual e to e/(1 − h), h the leverage: no second fit.
            Q = np.linalg.qr(
                np.c_[np.ones(n), tl.Basis(f"poly(x, {max(1, degree)})").fit_transform(x[:, None])][:, : degree + 1]
            )[0]
            left = 1 - np.sum(Q**2, axis=1)
            crossed.append(np.sqrt(np.mean(((fit(x) - y) / left) ** 2)) if left.min() > 1e-9 else np.nan)
        ax.plot(degrees, train, "o-", ms=4, color=LINE, label="training")
        ax.plot(degrees, test, "s-", ms=4, color=WARN, label="new data")
        ax.plot(degrees, crossed, "^--", ms=4, color=SOFT, label="leave one out")
        ax.axhline(0.3, color=INK, lw=0.8, ls=":")
        best = int(np.nanargmin(crossed))
        ax.set_title(f"{n} points: leave one out chooses degree {best}")
        ax.set_xlabel("degree")
        ax.set_ylim(0, 1.2)
    axes[0].set_ylabel("root mean squared error")
    axes[1].text(0, 0.29, "noise", ha="left", va="top", color=INK)
    axes[0].legend(frameon=False)
    return figure


def penalty_contours(plt: Any) -> Any:
    """Contours of the squared error against the ridge's circle and the lasso's diamond, and the solutions between."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.55], [0.0, 0.9]])
    y = X @ np.array([1.9, 0.5]) + 0.5 * rng.normal(size=60)
    X, y = X - X.mean(axis=0), y - y.mean()
    free = tl.LinearRegression(fit_intercept=False).fit(X, y).coef_
    a, b = np.meshgrid(np.linspace(-0.6, 2.6, 200), np.linspace(-1.0, 1.6, 200))
    error = np.mean((y[:, None, None] - X[:, 0, None, None] * a - X[:, 1, None, None] * b) ** 2, axis=0)
    levels = error.min() + np.array([0.02, 0.15, 0.5, 1.1, 2.0, 3.2])
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.1), sharex=True, sharey=True, layout="constrained")
    angle = np.linspace(0, 2 * np.pi, 200)
    for ax, name in zip(axes, ("ridge", "lasso")):
        ax.contour(a, b, error, levels=levels, colors=SOFT, linewidths=1)
        if name == "ridge":
            path = np.array([tl.Ridge(alpha=v, fit_intercept=False).fit(X, y).coef_ for v in np.logspace(-2, 4, 60)])
            chosen = tl.Ridge(alpha=55.0, fit_intercept=False).fit(X, y).coef_
            size = np.hypot(*chosen)
            ax.plot(size * np.cos(angle), size * np.sin(angle), color=LINE)
        else:
            path = np.array([tl.Lasso(alpha=v, fit_intercept=False).fit(X, y).coef_ for v in np.linspace(1e-3, 3, 60)])
            chosen = tl.Lasso(alpha=1.05, fit_intercept=False).fit(X, y).coef_
            size = np.abs(chosen).sum()
            ax.plot(size * np.array([1, 0, -1, 0, 1]), size * np.array([0, 1, 0, -1, 0]), color=LINE)
        ax.plot(*path.T, color=WARN, lw=1, ls="--", label="all penalties")
        ax.plot(*free, "o", color=INK, label="no penalty")
        ax.plot(*chosen, "s", color=LINE, label=f"w = ({chosen[0]:.2f}, {chosen[1] + 0.0:.2f})")
        ax.axhline(0, color=INK, lw=0.6)
        ax.axvline(0, color=INK, lw=0.6)
        ax.set_title({"ridge": "ridge: a circle shrinks both", "lasso": "lasso: a corner sets one to zero"}[name])
        ax.set_xlabel("w₁")
        ax.set_xlim(-1.4, 2.6)
        ax.set_ylim(-1.4, 1.6)
        ax.set_aspect("equal")
        ax.legend(frameon=False, loc="lower right")
    axes[0].set_ylabel("w₂")
    return figure


def noise(plt: Any) -> Any:
    """One line at noise 1, 2 and 4, with its interval for the mean."""
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.2), sharex=True, sharey=True, layout="constrained")
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(0, 10, 60))
    standard = rng.normal(size=60)
    grid = np.linspace(0, 10, 50)
    D = np.c_[np.ones(60), x]
    for ax, sigma in zip(axes, (1, 2, 4)):
        y = 1 + 1.5 * x + sigma * standard
        model = tl.LinearRegression().fit(x[:, None], y)
        fitted = model.predict(grid[:, None])
        s = np.sqrt(np.sum((y - model.predict(x[:, None])) ** 2) / 58)
        G = np.c_[np.ones(50), grid]
        half = 2.0 * s * np.sqrt(np.einsum("ij,jk,ik->i", G, np.linalg.inv(D.T @ D), G))
        ax.plot(x, y, "o", ms=3, mfc="none", color=INK)
        ax.plot(grid, 1 + 1.5 * grid, color=SOFT, label="truth")
        ax.plot(grid, fitted, color=LINE, label="fit")
        ax.fill_between(grid, fitted - half, fitted + half, color=LINE, alpha=0.18, lw=0, label="95 % for the mean")
        error = s / np.sqrt(np.sum((x - x.mean()) ** 2))
        ax.set_title(f"noise {sigma}: slope {model.coef_[0]:.2f} ± {error:.2f}")
        ax.set_xlabel("x")
    axes[0].set_ylabel("y")
    axes[0].legend(frameon=False)
    return figure


def batch_against_online(plt: Any) -> Any:
    """Mean squared error after each pass over the same rows: gradient descent, Widrow–Hoff, and their limit."""
    rng = np.random.default_rng(11)
    n, d, passes = 2000, 10, 30
    X = rng.normal(size=(n, d)) * np.geomspace(1, 0.15, d) / np.sqrt(d)
    y = X @ (rng.normal(size=d) * 4) + 0.5 * rng.normal(size=n)
    limit = np.mean((y - tl.LinearRegression(fit_intercept=False).fit(X, y).predict(X)) ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty passes prove nothing yet, and minimize says so
        solution = tl.minimize(
            X, y, method="gradient", intercept=False, standardise=False, max_iter=passes, step="exact"
        )
    figure, ax = plt.subplots(figsize=(6.6, 3.6), layout="constrained")
    ax.plot(
        [step.iteration for step in solution.trace],
        [2 * step.objective - limit for step in solution.trace],
        "o-", ms=3, color=INK, label="batch gradient descent, best step",
    )  # fmt: skip
    for rate, colour in ((0.3, WARN), (0.03, LINE)):
        learner = tl.WidrowHoff(rate=rate, fit_intercept=False)
        errors = [np.mean(y**2)]
        for _ in range(passes):
            learner.partial_fit(X, y)
            errors.append(np.mean((y - learner.predict(X)) ** 2))
        ax.plot(
            range(passes + 1),
            np.array(errors) - limit,
            "s-",
            ms=3,
            color=colour,
            label=f"online (Widrow–Hoff), rate {rate}",
        )
    ax.set_yscale("log")
    ax.set_xlabel("passes over the rows")
    ax.set_ylabel("mean squared error above least squares")
    ax.legend(frameon=False, loc="upper right")
    return figure


def prices(n: int = 1500, seed: int = 5) -> np.ndarray:
    """A generated price that follows its last two values, with noise."""
    rng = np.random.default_rng(seed)
    p = [100.0, 100.0]
    for _ in range(n - 2):
        p.append(3.0 + 1.25 * p[-1] - 0.28 * p[-2] + rng.normal())
    return np.array(p)


def lagged_prices(plt: Any) -> Any:
    """A price predicted from the prices before it: lags of a time-ordered column in a scan."""
    p = prices()
    moments = tl.scan({"price": p[:1200]}, target="price", formula="price ~ lags(price, 4)", folds=None)
    model = tl.LinearRegression.from_moments(moments)
    names = list(moments.schema.terms)
    design = np.column_stack([p[1200 - k : -k] for k in range(1, 5)])
    predicted = design @ model.coef_ + model.intercept_
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained", gridspec_kw={"width_ratios": [2, 1]})
    axes[0].plot(p[1200:1300], color=SOFT, lw=3, label="price")
    axes[0].plot(predicted[:100], color=LINE, lw=1.2, label="predicted the day before")
    axes[0].set_title(
        f"error {np.std(p[1200:] - predicted):.2f} against {np.std(np.diff(p[1199:])):.2f} for “same as yesterday”"
    )
    axes[0].set_xlabel("day")
    axes[0].legend(frameon=False)
    axes[1].barh(names, model.coef_, color=LINE)
    axes[1].axvline(0, color=INK, lw=0.6)
    axes[1].invert_yaxis()
    axes[1].set_title("coefficients (truth 1.25, −0.28, 0, 0)")
    return figure
