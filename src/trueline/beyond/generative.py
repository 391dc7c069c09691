"""Bayes' rule on densities: log p(class) + log p(row | class), with per-entity densities and calibrated posteriors.

Entities: rows of the ``own`` class also teach the density of the customer (account, machine …) they belong to. A
customer's density is that of its rows together with ``backoff`` rows' worth of the whole class,

    statistics(customer) + statistics(class) · backoff / n(class),

so a stranger has the population's and an old customer its own. It is set against the other classes by the
log-likelihood ratio.

Calibration: columns that are not independent given the class make posteriors too sure. From rows scored before they
were learned, (τ, b) of p ∝ exp(τ·log p(x, c) + b_c) minimise the log-loss, a convex problem solved by Newton steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dense
from ..modelfile import Array, under
from .density import DensityModel

HELD = 8192
FOLDS = 5


def softmax(scores: np.ndarray) -> np.ndarray:
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


class GenerativeModel:
    """Class densities, class weights, entity densities, and the held-out scores that calibrate. Kind "generative"."""

    kind = "generative"

    def __init__(self, classes: list[Any], density: DensityModel, priors: np.ndarray | None = None) -> None:
        self.classes, self.density, self.priors = classes, density, priors
        self.entities: list[Any] = []
        self.own: DensityModel | None = None  # one group for each entity
        self.own_class = -1
        self.backoff = 10.0
        self.held = np.zeros((0, len(classes) + 2))  # log joint of each class, the label, the weight
        self.calibrated = False
        self.dtype = np.asarray(classes).dtype.str
        self.fitted_on: dict[str, Any] = {}  # columns and names of the table, the entity's included
        self._temper: Any = None
        self._personal: Any = None

    @property
    def certificate(self) -> Any:
        return self.density.certificate

    def grow(self, classes: list[Any]) -> None:
        """Room for classes not seen before."""
        new = [c for c in classes if c not in set(self.classes)]
        if new:
            index = np.concatenate([np.arange(len(self.classes)), np.full(len(new), -1)])
            self.density = self.density.take(index)
            self.classes = [*self.classes, *new]
            self.held = np.zeros((0, len(self.classes) + 2))

    def start_entities(self, own_class: int, backoff: float) -> None:
        self.own_class, self.backoff = own_class, backoff
        self.own = self.density.take(np.array([], dtype=np.int64))

    def entity_codes(self, entity: Sequence[Any], add: bool = False) -> np.ndarray:
        """The number of each row's entity; −1 for a stranger."""
        place = {name: k for k, name in enumerate(self.entities)}
        if add:
            for name in entity:
                if name not in place:
                    place[name] = len(place)
            new = len(place) - len(self.entities)
            if new and self.own is not None:
                self.own = self.own.take(np.concatenate([np.arange(len(self.entities)), np.full(new, -1)]))
            self.entities = list(place)
        return np.array([place.get(name, -1) for name in entity], dtype=np.int64)

    def learn(
        self, table: Sequence[np.ndarray], codes: np.ndarray, weights: np.ndarray, entity: Sequence[Any] | None = None
    ) -> None:
        self.density.learn(table, weights, codes)
        if self.own is not None:  # an entity's columns have the densities of its class
            self.own.revise(self.density.kinds())
        if self.own is not None and entity is not None:
            mine = np.flatnonzero(codes == self.own_class)
            number = self.entity_codes([entity[i] for i in mine.tolist()], add=True)
            self.own.learn([column[mine] for column in table], weights[mine], number, self.density.kinds())
        self._temper = self._personal = None

    def log_priors(self) -> np.ndarray:
        share = self.density.rows if self.priors is None else self.priors
        with np.errstate(divide="ignore"):
            return np.log(share / share.sum()) if share.sum() > 0 else np.zeros(len(self.classes))

    def personal(self) -> DensityModel:
        """Each entity's density backed off to the class, and last the class's own, for strangers."""
        assert self.own is not None
        if self._personal is None:
            crowd = self.density.take(np.array([self.own_class]))
            share = self.backoff / max(float(crowd.rows[0]), 1e-300)
            worth, count = crowd.scaled(share), len(self.entities)
            self._personal = self.own.take(np.append(np.arange(count), -1)) + worth.take(np.zeros(count + 1, np.int64))
            for part in self._personal.parts:
                part.alpha = part.alpha * share  # smoothing is scaled as its rows are: a stranger is the population
        return self._personal

    def log_densities(
        self, table: Sequence[np.ndarray], entity: Sequence[Any] | None = None, relative: bool = False
    ) -> np.ndarray:
        """log p(row | class), rows × classes; an entity's own density where it has one."""
        out = self.density.scores(table, relative=relative and self.own is None)
        if self.own is not None and entity is not None:
            number = self.entity_codes(entity)
            number = np.where(number < 0, len(self.entities), number)
            out[:, self.own_class] = self.personal().log_density(table, number)
        return out

    def log_joint(self, table: Sequence[np.ndarray], entity: Sequence[Any] | None = None) -> np.ndarray:
        return self.log_densities(table, entity) + self.log_priors()

    def hold(self, joint: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        """Keep scores of rows that were not yet learned; the last ``HELD`` of them."""
        fresh = np.column_stack([joint, codes, weights])
        fresh = fresh[np.isfinite(fresh).all(axis=1)]
        self.held = np.vstack([self.held, fresh])[-HELD:]
        self._temper = None

    @property
    def temper(self) -> tuple[float, np.ndarray]:
        if self._temper is None:
            k = len(self.classes)
            usable = self.calibrated and len(self.held) > 0 and len(np.unique(self.held[:, k])) > 1
            held = self.held
            self._temper = (
                temperature(held[:, :k], held[:, k].astype(np.int64), held[:, k + 1]) if usable else (1.0, np.zeros(k))
            )
        return self._temper

    def standing(self, table: Sequence[np.ndarray], entity: Sequence[Any] | None = None) -> np.ndarray:
        """Calibrated log-posteriors but for a constant a row, the largest of each row 0."""
        tau, shift = self.temper
        scores = self.log_densities(table, entity, relative=True)
        if tau != 1.0:
            scores *= tau
        scores += tau * self.log_priors() + shift
        top = scores.max(axis=1, keepdims=True)
        scores -= np.where(np.isfinite(top), top, 0.0)
        return scores

    def posterior(self, table: Sequence[np.ndarray], entity: Sequence[Any] | None = None) -> np.ndarray:
        made = self.standing(table, entity)
        np.exp(made, out=made)
        made /= made.sum(axis=1, keepdims=True)
        return made

    def log_posterior(self, table: Sequence[np.ndarray], entity: Sequence[Any] | None = None) -> np.ndarray:
        scores = self.standing(table, entity)
        with np.errstate(divide="ignore"):
            return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))

    def certify(self) -> None:
        rows = self.density.rows
        with np.errstate(divide="ignore", invalid="ignore"):
            classes = float(np.where(rows > 0, rows * np.log(rows / rows.sum()), 0.0).sum())
        self.density.certificate = self.density.certify(classes)

    def __add__(self, other: GenerativeModel) -> GenerativeModel:
        classes = [*self.classes, *(c for c in other.classes if c not in set(self.classes))]
        place, theirs = {c: k for k, c in enumerate(self.classes)}, {c: k for k, c in enumerate(other.classes)}
        mine = self.density.take(np.array([place.get(c, -1) for c in classes]))
        made = GenerativeModel(classes, mine + other.density.take(np.array([theirs.get(c, -1) for c in classes])))
        made.priors, made.calibrated = self.priors, self.calibrated
        if classes == self.classes == other.classes:
            made.held = np.vstack([self.held, other.held])[-HELD:]
        if self.own is not None and other.own is not None:
            made.own_class = classes.index(self.classes[self.own_class])
            if other.classes[other.own_class] != classes[made.own_class]:
                from ..errors import UsageError

                raise UsageError(
                    "these models keep entities' densities of different classes; name one with entity_class=",
                    where="entity_class",
                )
            made.backoff = self.backoff
            made.entities = [*self.entities, *(e for e in other.entities if e not in set(self.entities))]
            a, b = {e: k for k, e in enumerate(self.entities)}, {e: k for k, e in enumerate(other.entities)}
            made.own = self.own.take(np.array([a.get(e, -1) for e in made.entities], dtype=np.int64)) + other.own.take(
                np.array([b.get(e, -1) for e in made.entities], dtype=np.int64)
            )
        made.certify()
        return made

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = self.density.to_state()
        arrays = {f"class.{k}": v for k, v in arrays.items()} | {"held": self.held}
        if self.priors is not None:
            arrays["priors"] = self.priors
        own = None
        if self.own is not None:
            more, own = self.own.to_state()
            arrays |= {f"own.{k}": v for k, v in more.items()}
        return arrays, {
            "density": meta, "classes": _plain(self.classes), "dtype": self.dtype, "own": own,
            "entities": _plain(self.entities), "own_class": self.own_class, "backoff": self.backoff,
            "calibrated": self.calibrated, "fitted_on": self.fitted_on,
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The densities of the classes, and of entities where there are any."""
        classes = len(meta["classes"])
        made = under("class.", DensityModel.declared(arrays, meta["density"], classes))
        made |= {"held": Array(("held", classes + 2), values="any"), "priors": Array((classes,), optional="priors")}
        if meta["own"] is not None:
            made |= under("own.", DensityModel.declared(arrays, meta["own"], len(meta["entities"])))
        return made

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> GenerativeModel:
        def under(head: str) -> dict[str, np.ndarray]:
            return {k[len(head) :]: v for k, v in arrays.items() if k.startswith(head)}

        density = DensityModel.from_state(under("class."), meta["density"])
        made = cls(meta["classes"], density, arrays.get("priors"))
        made.dtype, made.fitted_on = meta["dtype"], meta["fitted_on"]
        made.held, made.calibrated = arrays["held"], meta["calibrated"]
        made.entities, made.own_class, made.backoff = meta["entities"], meta["own_class"], meta["backoff"]
        if meta["own"] is not None:
            made.own = DensityModel.from_state(under("own."), meta["own"])
        return made


def temperature(joint: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """(τ, b) of least log-loss, with a little ridge towards (1, 0) so that separable scores keep them finite."""
    k, scale = joint.shape[1], max(float(weights.sum()), 1e-300)
    joint = joint - joint.max(axis=1, keepdims=True)
    size = max(1.0, float(np.abs(joint).mean()))
    u, theta = joint / size, np.append(size, np.zeros(k))  # τ = θ₀/size
    start, truth, w = theta.copy(), np.eye(k)[codes], weights / scale

    def loss(t: np.ndarray) -> float:
        s = t[0] * u + t[1:]
        s = s - s.max(axis=1, keepdims=True)
        fit = w @ (np.log(np.exp(s).sum(axis=1)) - (s * truth).sum(axis=1))
        return float(fit + 0.5e-6 * ((t - start) ** 2).sum())

    for _ in range(50):
        p = softmax(theta[0] * u + theta[1:])
        apart = w[:, None] * (p - truth)
        gradient = np.append((apart * u).sum(), apart.sum(axis=0)) + 1e-6 * (theta - start)
        mean = (p * u).sum(axis=1)
        hessian = 1e-6 * np.eye(k + 1)
        hessian[0, 0] += w @ ((p * u * u).sum(axis=1) - mean**2)
        cross = (w[:, None] * p * (u - mean[:, None])).sum(axis=0)
        hessian[0, 1:] += cross
        hessian[1:, 0] += cross
        hessian[1:, 1:] += np.diag(w @ p) - (w[:, None] * p).T @ p
        step = dense.solve(hessian, gradient)
        length, here = 1.0, loss(theta)
        while loss(theta - length * step) > here - 1e-4 * length * (gradient @ step) and length > 1e-8:
            length /= 2
        theta = theta - length * step
        if gradient @ step < 1e-18:
            break
    theta[0] = max(theta[0], 1e-6 * size)
    return float(theta[0] / size), theta[1:]


def _plain(values: Sequence[Any]) -> list[Any]:
    return [v.item() if isinstance(v, np.generic) else v for v in values]
