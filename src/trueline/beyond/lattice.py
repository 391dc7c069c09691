"""Histograms and Gaussian mixtures that stream and merge: counts on a lattice whose width is a power of two.

Bin b holds [b·h, (b+1)·h), h = 2^k, so a coarser lattice is a union of a finer one's bins and any two merge exactly
at the coarser width. The width is an eighth of what Freedman and Diaconis's rule asks of the first rows, and doubles
whenever the range needs more than ``BINS`` bins: memory is bounded, whatever comes.

Histogram: the lattice is read at the width that the rule asks of all rows so far, so that streams and parts that were
merged read as one fit of their rows does. Density (n_b + α)/(n + α(L + 1))/h on the L bins of the range; the mass
α/(n + α(L + 1)) outside, half on each side, halved with every bin further out. It integrates to one.

Mixture: each bin also keeps the mean and the scatter of its values. EM over bins, whose rows share responsibilities
r_bk ∝ π_k exp(E_b log N(x; μ_k, σ_k²)), maximises a lower bound of the log-likelihood that never falls (and equals
it where a bin holds one distinct value).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..modelfile import Array
from .families import TINY, Family
from .gaussians import HALF_LOG_2PI, divided

BINS = 512
STEPS = 500


def exponent_for(x: np.ndarray, w: np.ndarray) -> int:
    """k of the width 2^k that Freedman and Diaconis's rule asks of these values; weights are repetitions."""
    low, high = np.quantile(x, [0.25, 0.75], weights=w, method="inverted_cdf")
    width = 2.0 * (high - low) * w.sum() ** (-1 / 3) or (x.max() - x.min()) / 32 or 1.0
    return int(np.clip(np.round(np.log2(width)), -1000, 1000))


def bins_of(x: Any, width: float) -> Any:
    """The number of each value's bin. A value below 0 lies below bin 0, also where the quotient is too small for a float."""
    with np.errstate(over="ignore"):  # a lattice that is far too fine: it is made coarser
        return np.where(x < 0.0, np.minimum(np.floor(x / width), -1.0), np.floor(x / width))


class Histogram(Family):
    """Counts on the lattice. ``exponent`` is None until the first value."""

    name = "histogram"
    additive = ("weight", "counts", "sums", "squares")
    finer = 3

    def __init__(self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float) -> None:
        self.exponent: int | None = None
        self.fine = True  # older files hold counts at the width at which they are read
        self.low, self.length = 0, 0  # the first bin's number, how many there are
        super().__init__(columns, labels, groups, alpha)

    @property
    def width(self) -> float:
        return 2.0 ** (self.exponent or 0)

    def empty(self, groups: int) -> dict[str, np.ndarray]:
        return {"weight": np.zeros(groups)} | {k: np.zeros((groups, self.length)) for k in self.additive[1:]}

    def bins(self, x: np.ndarray) -> np.ndarray:
        return bins_of(x, self.width)

    def coarser(self) -> Any:
        """The same counts with bins twice as wide; ``sums`` and ``squares`` are about each bin's left end."""
        low = self.low // 2
        length = (self.low + self.length - 1) // 2 - low + 1
        where = (self.low + np.arange(self.length)) // 2 - low
        shift = (self.low + np.arange(self.length)) % 2 * self.width
        c, s, q = (self.stats[k] for k in ("counts", "sums", "squares"))
        moved = {"counts": c, "sums": s + c * shift, "squares": q + 2 * shift * s + c * shift**2}
        stats = {"weight": self.stats["weight"]}
        for k, v in moved.items():
            stats[k] = np.zeros((self.groups, length))
            np.add.at(stats[k].T, where, v.T)
        made = self.like(stats)
        made.low, made.length, made.exponent = low, length, (self.exponent or 0) + 1
        return made

    def reaching(self, low: float, high: float) -> Any:
        """The same counts on a lattice that covers the bins of two values, coarsened until they are few enough."""
        made: Any = self
        if self.length:
            low, high = min(low, self.low * self.width), max(high, (self.low + self.length - 1) * self.width)
        while bins_of(high, made.width) / 2.0 - bins_of(low, made.width) / 2.0 + 0.5 > BINS / 2.0:
            if made.length:
                made = made.coarser()
            else:
                made = made.like(made.stats)
                made.exponent = (made.exponent or 0) + 1
        first, last = int(bins_of(low, made.width)), int(bins_of(high, made.width))
        pad = (made.low - first, last - made.low - made.length + 1) if made.length else (0, last - first + 1)
        stats = {k: v if k == "weight" else np.pad(v, ((0, 0), pad)) for k, v in made.stats.items()}
        made = made.like(stats)
        made.low, made.length = first, last - first + 1
        return made

    def _learn(self, x: np.ndarray, w: np.ndarray, g: np.ndarray, size: int) -> None:
        if not len(x):
            return
        if self.exponent is None:
            self.exponent = exponent_for(x, w) - self.finer
        self.__dict__.update(self.reaching(float(x.min()), float(x.max())).__dict__)
        place = self.bins(x)
        inside = x - place * self.width
        flat = g * self.length + (place - self.low).astype(np.int64)
        for k, v in (("counts", w), ("sums", w * inside), ("squares", w * inside**2)):
            self.stats[k] = self.stats[k] + np.bincount(flat, v, size * self.length).reshape(size, self.length)

    def __add__(self, other: Any) -> Any:
        a, b = self, other
        if b.exponent is None or a.exponent is None:
            whole = a if b.exponent is None else b
            return whole.like(whole.stats | {"weight": a.stats["weight"] + b.stats["weight"]})
        while a.exponent != b.exponent:
            a, b = (a.coarser(), b) if a.exponent < b.exponent else (a, b.coarser())
        low, high = min(a.low, b.low), max(a.low + a.length, b.low + b.length) - 1
        a, b = (part.reaching(low * part.width, high * part.width) for part in (a, b))
        return a.like({k: a.stats[k] + b.stats[k] for k in a.stats})

    def read(self) -> Any:
        """The same counts at the width for so many rows."""
        made: Any = self
        counts = self.stats["counts"].sum(axis=0)
        used = counts > 0
        if not self.fine or not used.any():
            return made
        asked = (self.exponent or 0) + self.finer  # of values that are all the same
        if used.sum() > 1:
            asked = exponent_for((self.low + np.flatnonzero(used) + 0.5) * self.width, counts[used])
        while made.exponent < asked:
            made = made.coarser()
        return made

    def estimate(self) -> Any:
        """The counts as read, the mass of each of their bins, and the mass outside."""
        seen = self.read()
        total = seen.stats["counts"].sum(axis=1, keepdims=True) + self.alpha * (seen.length + 1)
        total = np.where(total > 0, total, 1.0)
        return seen, (seen.stats["counts"] + self.alpha) / total, self.alpha / total[:, 0]

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        if not self.length:
            return np.zeros(len(values))
        seen, mass, outside = self.fitted
        place = seen.bins(np.where(gone, seen.low * seen.width, values)) - seen.low
        beyond = np.maximum(-place, place - seen.length + 1)
        inner = np.clip(place, 0, seen.length - 1).astype(np.int64)
        with np.errstate(divide="ignore"):
            tail = np.log(outside[g]) - (np.maximum(beyond, 0) + 1) * np.log(2.0)
            return np.where(beyond > 0, tail, np.log(mass[g, inner])) - np.log(seen.width)

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen, mass, outside = self.fitted
        ends = np.cumsum(np.hstack([mass, outside[:, None]]), axis=1)[g]
        drawn = (rng.random(len(g))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
        far, left = rng.geometric(0.5, len(g)), rng.random(len(g)) < 0.5
        place = np.where(drawn < seen.length, drawn, np.where(left, -far, seen.length - 1 + far))
        return (seen.low + place + rng.random(len(g))) * seen.width

    def likelihoods(self) -> tuple[float, float]:
        seen, mass, _ = self.fitted
        counts = seen.stats["counts"]
        best = counts / np.maximum(counts.sum(axis=1, keepdims=True), TINY)
        with np.errstate(divide="ignore", invalid="ignore"):
            here = np.where(counts > 0, counts * np.log(mass / seen.width), 0.0)
            top = np.where(counts > 0, counts * np.log(best / seen.width), 0.0)
        return float(here.sum()), float(top.sum())

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        seen = self.fitted[0]
        return (seen.bins(values)[:, None] == seen.low + np.arange(seen.length)).astype(float)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"exponent": self.exponent, "low": self.low, "length": self.length, "fine": self.fine}

    @classmethod
    def declared(cls, meta: dict[str, Any], groups: int) -> dict[str, Array]:
        shape = (groups, int(meta["length"]))
        return {"weight": Array((groups,))} | {name: Array(shape) for name in cls.additive[1:]}

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        super().restore(arrays, meta)
        self.exponent, self.low, self.length = meta["exponent"], meta["low"], meta["length"]
        self.fine = meta.get("fine", False)


class Mixture(Histogram):
    """A mixture of ``parts`` Gaussians in each group, by EM over a fine lattice."""

    name = "mixture"
    closed = False

    def __init__(
        self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float, parts: int = 2
    ) -> None:
        self.parts = parts
        self.trace: tuple[float, ...] = ()
        super().__init__(columns, labels, groups, alpha)

    def estimate(self) -> tuple[np.ndarray, ...]:
        """(shares, means, variances), each groups × parts. Two starts; the better bound is kept."""
        left = (self.low + np.arange(self.length)) * self.width
        shares = np.full((self.groups, self.parts), 1.0 / self.parts)
        means, variances = np.zeros_like(shares), np.ones_like(shares)
        self.trace, self.converged = (), True
        whole = self.pooled().stats
        for c in range(self.groups):
            own = {k: v[c] for k, v in self.stats.items()}
            own = own if own["weight"] > 0 else {k: v[0] for k, v in whole.items()}
            used = own["counts"] > 0
            if not used.any():
                continue
            n, mean = own["counts"][used], left[used] + own["sums"][used] / own["counts"][used]
            within = np.maximum(own["squares"][used] / n - (mean - left[used]) ** 2, 0.0)
            runs = [self.climb(n, mean, within, split) for split in (False, True)]
            shares[c], means[c], variances[c], trace = max(runs, key=lambda run: run[3][-1])
            self.converged = self.converged and len(trace) < STEPS
            self.trace = (*self.trace, *trace) if self.groups == 1 else (*self.trace, trace[-1])
        return shares, means, variances

    def climb(self, n: np.ndarray, mean: np.ndarray, within: np.ndarray, split: bool) -> tuple[Any, Any, Any, list]:
        """EM from quantiles (with narrow parts if ``split``): shares, means, variances and the bound at each step."""
        k, total = self.parts, n.sum()
        middle = n @ mean / total
        spread = n @ (within + (mean - middle) ** 2) / total
        floor = max(self.width**2 / 12 * 1e-3, 1e-6 * spread, 1e-300)
        order, reach = np.cumsum(n) / total, (np.arange(k) + 0.5) / k
        centres = mean[np.minimum(np.searchsorted(order, reach), len(mean) - 1)].astype(float)
        variance = np.full(k, spread / (k * k if split else 1.0) + floor)
        share, trace = np.full(k, 1.0 / k), []
        for _ in range(STEPS):
            square = within[:, None] + (mean[:, None] - centres) ** 2
            with np.errstate(divide="ignore"):
                log = np.log(share) - 0.5 * (np.log(variance) + square / variance) - HALF_LOG_2PI
            top = log.max(axis=1, keepdims=True)
            weight = np.exp(log - top)
            size = weight.sum(axis=1, keepdims=True)
            trace.append(float(n @ (top + np.log(size))[:, 0]))
            if len(trace) == STEPS or (len(trace) > 1 and trace[-1] - trace[-2] <= 1e-9 * total):
                break  # with the parameters that this bound is of
            weight *= n[:, None] / size
            mass = weight.sum(axis=0)
            share = mass / total
            centres = np.where(mass > 0, divided(weight.T @ mean, mass), centres)
            square = within[:, None] + (mean[:, None] - centres) ** 2
            variance = np.maximum(divided((weight * square).sum(axis=0), mass), floor)
        return share, centres, variance, trace

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        share, mean, variance = (part[g] for part in self.fitted)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(share) - 0.5 * (np.log(variance) + (values[:, None] - mean) ** 2 / variance) - HALF_LOG_2PI
            top = log.max(axis=1, keepdims=True)
            return (top + np.log(np.exp(log - top).sum(axis=1, keepdims=True)))[:, 0]

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        share, mean, variance = self.fitted
        ends = np.cumsum(share, axis=1)[g]
        k = np.minimum((rng.random(len(g))[:, None] >= ends).sum(axis=1), self.parts - 1)
        return mean[g, k] + np.sqrt(variance[g, k]) * rng.standard_normal(len(g))

    def likelihoods(self) -> tuple[float, float]:
        """The bound that EM raised, over groups that have rows; the maximum is not known."""
        _ = self.fitted
        full = self.groups == 1
        return float(self.trace[-1] if full and self.trace else sum(self.trace)), float("nan")

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        """No finite statistic makes a mixture's log-odds linear: its log-densities themselves are given."""
        return np.column_stack([self.score(values, c) for c in range(self.groups)])

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"parts": self.parts}

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        super().restore(arrays, meta)
        self.parts = meta["parts"]


def mixture_parts(text: str) -> int | None:
    """3 of ``"mixture(3)"``, 2 of ``"mixture"``, None of anything else."""
    found = re.fullmatch(r"mixture(?:\((\d+)\))?", text)
    return None if found is None or found[1] == "0" else int(found[1] or 2)
