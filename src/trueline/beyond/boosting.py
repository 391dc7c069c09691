"""AdaBoost with decision stumps: the multiplicative update on rows, the exact best stump in each round.

D_1 = the rows' weights. Round t: the stump h_t with the least weighted error ε_t, α_t = ½ln((1 − ε_t)/ε_t), and
D_{t+1} ∝ D_t·exp(−α_t y h_t(x)), whose normaliser is Z_t = 2√(ε_t(1 − ε_t)). Then (unrolling the update) the weighted
training error is at most Σ D_1 exp(−y f) = Π Z_t, and the rows with y f ≤ θΣα weigh at most Π Z_t·exp(θα_t).

Every column is sorted once; a round is one scan of each column in its order, so it costs rows × columns and finds the
best of all thresholds, not of a few. The identity Π Z_t = Σ D_1 exp(−y f) is checked from scores computed afresh.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption, Status, from_dict
from ..certificates.likelihood import BoostingCertificate
from ..certificates.regret import bound_status
from ..errors import DataError
from ..modelfile import Array, whole_numbers
from ..nonlinear.boosted_stumps import SortedColumns, add_votes
from ..threads import get_threads, spread

THETA = 0.1
PERFECT = 1e-10  # a stump without error would have infinite weight; its error counts as this much


class Machine:
    """One two-class vote of stumps: features, thresholds and signed votes α."""

    def __init__(self, features: np.ndarray, thresholds: np.ndarray, votes: np.ndarray) -> None:
        self.features, self.thresholds, self.votes = features, thresholds, votes

    def scores(self, X: np.ndarray) -> np.ndarray:
        """f of each row."""
        X, out = np.ascontiguousarray(X, dtype=np.float64), np.zeros(len(X))
        if min(len(self.features), len(self.thresholds)) < len(self.votes) or (self.features >= X.shape[1]).any():
            raise DataError("the stumps do not fit the columns; use an intact copy of the model", where="X")
        step = max(1_000, -(-len(X) // get_threads()))
        stumps = self.features, self.thresholds, self.votes
        spread(lambda a: add_votes(X, *stumps, a, min(a + step, len(X)), out), range(0, len(X), step))
        return out


def sort_columns(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns as rows, and the order of each: done once, shared by all rounds and classes."""
    columns = np.ascontiguousarray(X.T)
    order = np.empty(columns.shape, dtype=np.int32)

    def sort(j: int) -> None:
        order[j] = np.argsort(columns[j], kind="stable")

    spread(sort, range(len(columns)))
    return columns, order


def boost(
    X: np.ndarray, columns: np.ndarray, order: np.ndarray, y: np.ndarray, weights: np.ndarray, rounds: int
) -> tuple[Machine, BoostingCertificate, list[float]]:
    """Boost stumps on y = ±1; the machine, its certificate and the bound after each round."""
    D = weights / weights.sum()
    d = len(columns)
    table = SortedColumns(columns, order, y, D)
    features: list[int] = []
    thresholds: list[float] = []
    votes: list[float] = []
    normalisers: list[float] = []
    edges: list[float] = []
    parts = (
        [p for p in np.array_split(np.arange(d), min(d, get_threads())) if len(p)] if X.size > 20_000 else [range(d)]
    )
    for _ in range(rounds):
        spread(lambda p: table.scan(p[0], p[-1] + 1), parts)
        j, place, error = table.best()
        sign, p = (1.0, place) if place >= 0 else (-1.0, -place - 1)
        threshold = -math.inf
        if p > 0:
            low, high = columns[j, order[j, p - 1]], columns[j, order[j, p]]
            threshold = 0.5 * low + 0.5 * high
            threshold = low if not low <= threshold < high else threshold
        error = max(error, PERFECT)
        if error >= 0.5 - 1e-12:
            break
        alpha = 0.5 * math.log((1.0 - error) / error)
        exact = table.reweigh(j, threshold, sign, alpha)
        features.append(j)
        thresholds.append(threshold)
        votes.append(sign * alpha)
        normalisers.append(exact * math.exp(alpha) + (1.0 - exact) * math.exp(-alpha))
        edges.append(0.5 - exact)
        if error <= PERFECT:
            break
    machine = Machine(np.array(features, dtype=np.int64), np.array(thresholds), np.array(votes))
    return machine, certify(machine, X, y, D, normalisers, edges), np.cumprod(normalisers).tolist()


def certify(
    machine: Machine, X: np.ndarray, y: np.ndarray, D: np.ndarray, normalisers: list[float], edges: list[float]
) -> BoostingCertificate:
    """Error, bound and margins, from scores computed afresh."""
    if not normalisers:
        wrong = float(D[y < 0.0].sum())
        return BoostingCertificate(
            status=Status.DEGENERATE, training_error=min(wrong, 1.0 - wrong), bound=1.0,
            advice="no stump is better than chance on these rows; add columns or use another kind of model",
        )  # fmt: skip
    scores = machine.scores(X)
    mass = float(np.abs(machine.votes).sum())
    margins = y * scores / mass
    product = float(np.prod(normalisers))
    exponential = float(D @ np.exp(-y * scores))
    same = abs(exponential - product) <= 1e-6 * max(product, 1e-12) + 1e-14
    error = float(D[margins <= 0.0].sum())
    factor = math.exp(min(THETA * mass, 700.0))
    order = np.argsort(margins)
    middle = order[min(int(np.searchsorted(np.cumsum(D[order]), 0.5)), len(D) - 1)]
    bound = product * (1.0 + 1e-12)
    identity = Assumption("the product of normalisers is the mean of exp(−y·f)", same, abs(exponential - product), 1e-6)
    holds = bound_status(error, bound, (identity,)) is Status.PROVEN
    return BoostingCertificate(
        status=Status.PROVEN if holds else Status.NOT_PROVEN,
        assumptions=(identity,),
        advice="" if holds else "the running product lost digits; use fewer rounds",
        rounds=len(normalisers), training_error=error, bound=bound, edge=min(edges),
        smallest_margin=float(margins.min()), median_margin=float(margins[middle]), theta=THETA,
        below_theta=float(D[margins <= THETA].sum()), margin_bound=min(1.0, product * factor),
    )  # fmt: skip


class BoostingModel:
    """The record: one machine for two classes, otherwise one a class against the rest."""

    kind = "boosting"

    def __init__(
        self, machines: list[Machine], certificates: list[BoostingCertificate], bounds: list[list[float]], classes: Any,
        width: int, names: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        self.machines, self.certificates, self.bounds = machines, certificates, bounds
        self.classes, self.width, self.names = tuple(classes), width, names

    @property
    def certificate(self) -> BoostingCertificate:
        """Of several classes, the one that proves least."""
        return max(self.certificates, key=lambda proof: (not proof.proven, proof.bound))

    def scores(self, X: np.ndarray) -> np.ndarray:
        """One score a row for two classes, otherwise one a row and class, each divided by its machine's votes."""
        found = [m.scores(X) / max(float(np.abs(m.votes).sum()), 1e-300) for m in self.machines]
        return found[0] if len(found) == 1 else np.column_stack(found)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain metadata."""
        arrays: dict[str, np.ndarray] = {}
        for k, machine in enumerate(self.machines):
            arrays |= {f"{name}{k}": getattr(machine, name) for name in ("features", "thresholds", "votes")}
            arrays[f"bounds{k}"] = np.array(self.bounds[k])
        return arrays, {
            "classes": list(self.classes), "width": self.width,
            "names": None if self.names is None else list(self.names),
            "certificates": [proof.to_dict() for proof in self.certificates],
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """A feature, a threshold and a vote for every round of every machine."""
        made = {}
        for k in range(len(meta["certificates"])):
            rounds = f"rounds{k}"
            made[f"features{k}"] = Array((rounds,), "int64", holds=whole_numbers(0, meta["width"] - 1))
            made |= {f"thresholds{k}": Array((rounds,), values="numbers"), f"votes{k}": Array((rounds,))}
            made[f"bounds{k}"] = Array((rounds,), values="any")
        return made

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> BoostingModel:
        """The record of a state."""
        proofs: list[Any] = [from_dict(item) for item in meta["certificates"]]
        machines = [
            Machine(arrays[f"features{k}"], arrays[f"thresholds{k}"], arrays[f"votes{k}"]) for k in range(len(proofs))
        ]
        bounds = [arrays[f"bounds{k}"].tolist() for k in range(len(proofs))]
        names = None if meta["names"] is None else tuple(meta["names"])
        return cls(machines, proofs, bounds, meta["classes"], meta["width"], names)
