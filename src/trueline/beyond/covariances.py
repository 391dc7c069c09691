"""Gaussian columns of many groups with covariances, each group's own or one for all.

The statistic of complete rows is (n, mean, centred cross-products), merged by Chan's formula. With missing values one
such statistic for each *pattern* of missing columns is still sufficient, streams and merges; the maximum of the
likelihood is then found by EM over the patterns, never over the rows:

    E: x_m given x_o is Gaussian with mean μ_m + B(x_o − μ_o), B = Σ_mo Σ_oo⁻¹, and covariance Σ_mm − B Σ_om
    M: means and covariances of the completed sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dense
from ..certificates.likelihood import CORRELATED, FLAT
from ..modelfile import Array, whole_numbers
from .gaussians import BLOCK, HALF_LOG_2PI, Gaussian, by_blocks, divided

STEPS = 200


def patterns_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(patterns of present columns, which of them each row has); bits packed, since sorting rows of booleans is slow."""
    if not np.isnan(values.sum()):
        return np.ones((1, values.shape[1]), dtype=bool), np.zeros(len(values), dtype=np.int64)
    present = ~np.isnan(values)
    packed = np.packbits(present, axis=1)
    _, first, which = np.unique(packed.view(f"V{packed.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    return present[first], which.reshape(-1)


def sorted_blocks(group: np.ndarray) -> Any:
    """(rows, groups present, where each starts) of blocks that fit the cache, rows sorted by group."""
    order = np.argsort(group, kind="stable") if (np.diff(group) < 0).any() else None
    for start in range(0, len(group), BLOCK):
        rows = slice(start, start + BLOCK) if order is None else order[start : start + BLOCK]
        present, starts = np.unique(group[rows], return_index=True)
        yield rows, present, starts


def whitening(cov: np.ndarray) -> tuple[np.ndarray, float]:
    """(W with ‖Wz‖² = zᵀΣ⁻¹z, −½·log det 2πΣ)."""
    root = dense.cholesky(cov)
    return dense.solve_triangular(root, np.eye(len(root)), lower=True), -np.log(
        np.diag(root)
    ).sum() - HALF_LOG_2PI * len(root)


def log_determinant(cov: np.ndarray, mean: np.ndarray) -> float:
    """log det Σ; −∞ where a column is constant or a combination of others, but for rounding."""
    variance = np.diagonal(cov)
    if (variance <= FLAT**2 * (mean**2 + variance)).any():
        return -np.inf
    unit = np.sqrt(variance)
    values = dense.eigh(cov / unit / unit[:, None])[0]
    return float(np.log(values).sum() + np.log(variance).sum()) if values[0] > CORRELATED else -np.inf


class Covariant(Gaussian):
    """Gaussian columns with covariances. ``stats`` hold one slot for each pattern: (groups, patterns, …)."""

    name = "full"
    additive = ("weight", "scatter")

    def __init__(
        self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float,
        smoothing: float = 1e-9, correction: float = 0.0, shared: bool = False,
    ) -> None:  # fmt: skip
        self.shared = shared
        self.patterns = np.ones((0, len(columns)), dtype=bool)  # which columns are present
        self.trace: tuple[float, ...] = ()
        super().__init__(columns, labels, groups, alpha, smoothing, correction)

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return bool(self.patterns.all())

    def empty(self, groups: int) -> dict[str, np.ndarray]:
        p, d = self.patterns.shape
        return {
            "weight": np.zeros((groups, p)), "mean": np.zeros((groups, p, d)), "scatter": np.zeros((groups, p, d, d))
        }  # fmt: skip

    def spread_to(self, patterns: np.ndarray) -> Any:
        """The same statistics with slots for ``patterns``, mine first."""
        extra = len(patterns) - len(self.patterns)
        made = self.like({k: np.pad(v, [(0, 0), (0, extra)] + [(0, 0)] * (v.ndim - 2)) for k, v in self.stats.items()})
        made.patterns = patterns
        return made

    def with_patterns(self, found: np.ndarray) -> np.ndarray:
        """My patterns, then those of ``found`` that are new."""
        mine = {p.tobytes() for p in self.patterns}
        return np.array([*self.patterns, *(p for p in found if p.tobytes() not in mine)]).reshape(-1, len(self.columns))

    def learn(self, values: np.ndarray, weights: np.ndarray, group: np.ndarray) -> None:
        found, which = patterns_of(values)
        self.__dict__.update(self.spread_to(self.with_patterns(found)).__dict__)
        place = {p.tobytes(): k for k, p in enumerate(self.patterns)}
        for k, pattern in enumerate(found):
            slot = place[pattern.tobytes()]
            rows = np.flatnonzero(which == k)
            for r, groups, starts in sorted_blocks(group[rows]):
                block = rows[r]
                for c, part in zip(groups, np.split(np.arange(len(block)), starts[1:])):
                    x, w = np.where(pattern, values[block[part]], 0.0), weights[block[part]]
                    n = w.sum()
                    if n <= 0:
                        continue
                    mean = w @ x / n
                    apart = x - mean
                    self.chan(c, slot, n, mean, (apart * w[:, None]).T @ apart)
        self._fitted = None

    def chan(self, c: int, slot: int, n: float, mean: np.ndarray, scatter: np.ndarray) -> None:
        """Merge one more (n, mean, scatter) into a slot."""
        s = self.stats
        before = s["weight"][c, slot]
        total = before + n
        if total <= 0:
            return
        step = mean - s["mean"][c, slot]
        s["scatter"][c, slot] += scatter + before * n / total * np.outer(step, step)
        s["mean"][c, slot] += n / total * step
        s["weight"][c, slot] = total

    def __add__(self, other: Any) -> Any:
        made = self.spread_to(self.with_patterns(other.patterns))
        place = {p.tobytes(): k for k, p in enumerate(made.patterns)}
        for k, pattern in enumerate(other.patterns):
            for c in range(self.groups):
                s = other.stats
                made.chan(c, place[pattern.tobytes()], s["weight"][c, k], s["mean"][c, k], s["scatter"][c, k])
        return made

    def completed(self, mean: np.ndarray, cov: np.ndarray, c: int) -> tuple[float, np.ndarray, np.ndarray, float]:
        """E-step of a group: (n, mean, scatter about it) of completed rows, and the observed log-likelihood."""
        d = len(self.columns)
        n, first, second, fit = 0.0, np.zeros(d), np.zeros((d, d)), 0.0
        for k, o in enumerate(self.patterns):
            w = self.stats["weight"][c, k]
            if w <= 0:
                continue
            n += w
            seen, scatter = self.stats["mean"][c, k][o], self.stats["scatter"][c, k][np.ix_(o, o)]
            if not o.any():
                second += w * cov
                continue
            inverse = dense.inv(cov[np.ix_(o, o)])
            step = seen - mean[o]
            about = scatter + w * np.outer(step, step)
            fit -= 0.5 * (w * (dense.slogdet(2 * np.pi * cov[np.ix_(o, o)])[1]) + (inverse * about).sum())
            map_ = np.zeros((d, int(o.sum())))  # completed row − mean = map · (x_o − mean_o)
            map_[o] = np.eye(int(o.sum()))
            map_[~o] = cov[np.ix_(~o, o)] @ inverse
            left = np.zeros((d, d))
            left[np.ix_(~o, ~o)] = cov[np.ix_(~o, ~o)] - map_[~o] @ cov[np.ix_(o, ~o)]
            first += w * (map_ @ step)
            second += map_ @ about @ map_.T + w * left
        shift = first / n if n > 0 else first
        return n, mean + shift, second - n * np.outer(shift, shift), fit

    def estimate(self) -> tuple[np.ndarray, np.ndarray]:
        d, groups = len(self.columns), self.groups
        ridge = np.eye(d)
        start = [self.available(c) for c in range(groups)]
        total = np.array([s[0] for s in start])
        pool = sum((s[0].sum() for s in start), 0.0)
        middle = divided(sum((s[0] * s[1] for s in start), np.zeros(d)), total.sum(axis=0)) if groups else np.zeros(d)
        wide = divided(
            sum((s[2] + s[0] * (s[1] - middle) ** 2 for s in start), np.zeros(d)), np.maximum(total.sum(axis=0), 1e-300)
        )
        floor = self.floor(wide)
        mean = np.array([np.where(s[0] > 0, s[1], middle) for s in start]).reshape(groups, d)
        cov = np.array([np.diag(wide + floor) for _ in range(groups)]).reshape(groups, d, d)
        self.trace, self.converged = (), self.closed
        if not pool:
            return mean, cov + ridge
        for _ in range(1 if self.closed else STEPS):
            parts = [self.completed(mean[c], cov[c], c) for c in range(groups)]
            if not self.closed:
                self.trace = (*self.trace, sum(p[3] for p in parts))
                if len(self.trace) > 1 and self.trace[-1] - self.trace[-2] <= 1e-10 * (1 + abs(self.trace[-1])):
                    self.converged = True
                    break
            mean = np.array([p[1] if p[0] > 0 else mean[c] for c, p in enumerate(parts)])
            if self.shared:
                used = [p for p in parts if p[0] > 0]
                count = sum(p[0] for p in used) - self.correction * len(used)
                both = sum(p[2] for p in used) / max(count, 1e-9)
                cov = np.array([both + floor * ridge] * groups)
            else:
                cov = np.array(
                    [
                        p[2] / max(p[0] - self.correction, 1e-9) + floor * ridge if p[0] > 0 else np.diag(wide + floor)
                        for p in parts
                    ]
                )
        return mean, cov

    def available(self, c: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, mean, scatter) of each column over the rows that have it."""
        n = self.stats["weight"][c][:, None] * self.patterns
        mean = divided((n * self.stats["mean"][c]).sum(axis=0), n.sum(axis=0))
        own = np.einsum("pii->pi", self.stats["scatter"][c]) * self.patterns
        return n.sum(axis=0), mean, (own + n * (self.stats["mean"][c] - mean) ** 2).sum(axis=0)

    def score(self, values: np.ndarray, g: Any, unknown: float = 0.0) -> np.ndarray:
        mean, cov = self.fitted[0][g], self.fitted[1][g]
        out = np.zeros(len(values))
        patterns, which = patterns_of(values)
        for k, o in enumerate(patterns):
            if not o.any():
                continue
            rows: Any = slice(None) if len(patterns) == 1 else np.flatnonzero(which == k)
            W, constant = whitening(cov[np.ix_(o, o)])
            z = ((values if o.all() else values[:, o])[rows] - mean[o]) @ W.T
            out[rows] = constant - 0.5 * np.einsum("ij,ij->i", z, z)
        return out

    def scores(self, values: np.ndarray, unknown: float = 0.0, relative: bool = False) -> np.ndarray:
        """With one covariance for all groups the square of the row is common: what is left is linear, one product."""
        mean, cov = self.fitted
        middle = mean.mean(axis=0)
        fill = self._linear(mean - middle, cov[0], middle) if self.shared and relative else self._quadratic(mean, cov)
        return self.mended(by_blocks(values, self.groups, fill), values)

    @staticmethod
    def _linear(apart: np.ndarray, cov: np.ndarray, middle: np.ndarray) -> Any:
        slopes = dense.solve(cov, apart.T)
        start = -0.5 * np.einsum("cj,jc->c", apart, slopes)

        def fill(x: np.ndarray, room: np.ndarray, out: np.ndarray) -> None:
            np.subtract(x, middle, out=room)
            out[:] = room @ slopes
            out += start

        return fill

    def _quadratic(self, mean: np.ndarray, cov: np.ndarray) -> Any:
        made = [whitening(one) for one in (cov[:1] if self.shared else cov)] * (self.groups if self.shared else 1)

        def fill(x: np.ndarray, room: np.ndarray, out: np.ndarray) -> None:
            for c, (W, constant) in enumerate(made):
                np.subtract(x, mean[c], out=room)
                z = room @ W.T
                out[:, c] = constant - 0.5 * np.einsum("ij,ij->i", z, z)

        return fill

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, roots = self.fitted[0], dense.cholesky(self.fitted[1])
        noise = rng.standard_normal((len(g), len(self.columns)))
        return mean[g] + np.einsum("nij,nj->ni", roots[g], noise)

    def likelihoods(self) -> tuple[float, float]:
        mean, cov = self.fitted
        here = sum(self.completed(mean[c], cov[c], c)[3] for c in range(self.groups))
        if not self.closed:
            return here, float("nan")
        plain = self.like(self.stats)
        plain.smoothing = plain.correction = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [plain.completed(mean[c], cov[c], c) for c in range(self.groups)]
            n = np.array([p[0] for p in parts])
            scatters = [sum(p[2] for p in parts) / n.sum()] * self.groups if self.shared else [p[2] / max(p[0], 1e-300) for p in parts]  # fmt: skip
            top = 0.0
            for count, scatter, part in zip(n, scatters, parts):
                log = log_determinant(scatter, part[1]) + len(self.columns) * np.log(2 * np.pi)
                top += -0.5 * count * (log + len(self.columns)) if count > 0 else 0.0
        return here, float(top)

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        if self.shared:
            return values
        i, j = np.triu_indices(values.shape[1])
        return np.hstack([values, values[:, i] * values[:, j]])

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays | {"patterns": self.patterns.astype(float)}, meta | {"shared": self.shared}

    @classmethod
    def declared(cls, meta: dict[str, Any], groups: int) -> dict[str, Array]:
        d = len(meta["columns"])
        return {
            "weight": Array((groups, "patterns")), "mean": Array((groups, "patterns", d)),
            "scatter": Array((groups, "patterns", d, d)), "patterns": Array(("patterns", d), holds=whole_numbers(0, 1)),
        }  # fmt: skip

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.patterns = arrays.pop("patterns").astype(bool).reshape(-1, len(self.columns))
        super().restore(arrays, meta)
        self.shared = meta["shared"]
