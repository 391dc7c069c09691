"""Several online learners merged by averaging: one a partition of the rows, each from the same start.

v = Σ_p Σ_t c_t·w_{p,t} / Σ c, the weights before each update: the mean of the learners' own means, by their rows. It
predicts, and it carries the risk bound of all m rounds (``certificates.regret.averaged``); the losses and the bounds of the
runs add, L = Σ L_p ≤ Σ_p bound_p, at the price of one starting term ‖u‖²/η a learner. A mean of learners is not a
learner: it does not go on.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate, Status, from_dict
from ..certificates.regret import RegretCertificate, averaged, bound_status
from ..errors import DataError, UsageError
from ..modelfile import Array
from . import regret, saving, sums
from .best_fixed import UNIT, Least
from .model import OnlineModel
from .rates import Rate
from .redundant_columns import RedundantColumns


@dataclasses.dataclass
class Share:
    """What one learner, or the sum of several, brings to the mean."""

    learners: int
    rows: int
    weight: float  # Σ c
    loss: float  # as the theory counts it
    largest: float
    weights: np.ndarray  # Σ c·w: one row a head, intercept first
    moments: np.ndarray  # Σ c·z zᵀ of squared losses; empty where they are not kept
    proof: RegretCertificate

    @classmethod
    def of(cls, model: OnlineModel) -> Share:
        """A learner that has seen its rows; it keeps the mean of its weights."""
        weight = model.heads[0].weight
        sums = np.array([model.weights(h) for h in range(len(model.heads))]) * weight
        moments = np.zeros((0, 0)) if model.sums is None else model.sums.total()
        proof: Any = regret.of_run(model) if model.certified else model.certificate()
        return cls(
            1, model.examples, weight, regret.total_loss(model), regret.largest_loss(model), sums, moments, proof
        )

    def __add__(self, other: Share) -> Share:
        # The assumptions and the advice shown are those of the learner that is worst off.
        worst = max(self.proof, other.proof, key=lambda p: (p.status is not Status.PROVEN, p.bound))
        # What each learner's own best weights lose in all is less than one vector of weights loses on all rows.
        lowers = [p.best_fixed_lower_bound for p in (self.proof, other.proof) if p.best_fixed_lower_bound is not None]
        proof = dataclasses.replace(
            worst,
            loss=self.proof.loss + other.proof.loss,
            best_fixed_loss=None,
            best_fixed_lower_bound=sum(lowers) if len(lowers) == 2 else None,
            regret=None,
            regret_to=None,
            comparator=None,
            bound=self.proof.bound + other.proof.bound,
        )
        return Share(
            self.learners + other.learners, self.rows + other.rows, self.weight + other.weight, self.loss + other.loss,
            max(self.largest, other.largest), self.weights + other.weights, self.moments + other.moments, proof,
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain metadata; the comparators of single learners stay behind."""
        proof = RegretCertificate(
            **{f.name: getattr(self.proof, f.name) for f in dataclasses.fields(RegretCertificate)}
            | {"comparator": None, "bound_comparator": None}
        )
        numbers = np.array([self.learners, self.rows, self.weight, self.loss, self.largest])
        arrays = {"numbers": numbers, "weights": self.weights, "moments": self.moments}
        return arrays, {"proof": proof.to_dict()}

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """Sums of the learners' weights and moments."""
        return {
            "numbers": Array((5,)),
            "weights": Array(("heads", "width")),
            "moments": Array(("products", "products")),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Share:
        learners, rows, weight, loss, largest = arrays["numbers"].tolist()
        proof: Any = from_dict(meta["proof"])
        return cls(int(learners), int(rows), weight, loss, largest, arrays["weights"], arrays["moments"], proof)


class MergedModel:
    """The mean of several learners, as a record: it predicts as :class:`OnlineModel` does, and cannot learn."""

    kind = "merged"
    takes_parts = True

    def __init__(self, reader: OnlineModel, learners: int, examples: int, proof: Certificate) -> None:
        self.reader, self.learners, self.examples, self.proof = reader, learners, examples, proof
        self.progress: list[dict[str, Any]] = []

    @classmethod
    def of(cls, share: Share, like: OnlineModel) -> MergedModel:
        """The mean of the learners summed in ``share``; ``like`` is one of them, before it learned."""
        if not share.weight > 0.0:
            raise DataError("all weights are zero; at least one row needs a positive weight", where="weights")
        reader = _reader(like.loss, share.weights / share.weight, like.fit_intercept, like.classes, like.names)
        proof = share.proof
        least = Least(proof.comparator, proof.best_fixed_loss, proof.best_fixed_lower_bound)
        if share.moments.size:
            gamma = sums.rounding(share.rows) + share.learners * UNIT
            least = regret.best_fixed(like, share.moments, gamma, RedundantColumns(len(share.moments) - 2))
        several = f"; one learner for each of {share.learners} partitions, losses and bounds summed"
        proof = dataclasses.replace(
            proof, examples=share.rows, status=bound_status(proof.loss, proof.bound, proof.assumptions),
            theorem=proof.theorem + several if share.learners > 1 else proof.theorem,
            **regret.against(least, proof.loss),
        )  # fmt: skip
        if not like.certified:
            return cls(reader, share.learners, share.rows, proof)
        risk = averaged(
            proof, examples=share.rows, mean_loss=share.loss / max(1, share.rows), largest=share.largest,
            loss_range=like.loss_range, confidence=like.confidence, heads=len(like.heads), epochs=1,
            weight=share.weight,
        )  # fmt: skip
        return cls(reader, share.learners, share.rows, risk)

    @property
    def names(self) -> list[str]:
        """Names of the features in order."""
        return self.reader.names

    @property
    def width(self) -> int:
        return self.reader.width

    @property
    def classes(self) -> tuple[Any, ...] | None:
        return self.reader.classes

    @property
    def probabilistic(self) -> bool:
        return self.reader.probabilistic

    @property
    def coef(self) -> np.ndarray:
        """One row a head; a single row is flat."""
        return self.reader.coef

    @property
    def intercept(self) -> Any:
        """The intercept, one a head."""
        return self.reader.intercept

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of rows, on the target's scale."""
        return self.reader.predict(X)

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features."""
        return self.reader.predict_one(features)

    def learn(self, *_: Any, **__: Any) -> Any:
        """Refused."""
        raise UsageError(
            f"this model is the mean of {self.learners} learners, which cannot go on learning; fit it again with all rows",
            where="partial_fit",
        )

    learn_one = learn

    def certificate(self) -> Certificate:
        """What is proven."""
        return self.proof

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain metadata."""
        weights = np.array([self.reader.weights(h) for h in range(len(self.reader.heads))])
        meta = {
            "loss": saving.describe(self.reader.loss),
            "intercept": self.reader.fit_intercept,
            "classes": None if self.classes is None else [saving.plain(label) for label in self.classes],
            "names": self.names,
            "learners": self.learners,
            "examples": self.examples,
            "certificate": self.proof.to_dict(),
        }
        return {"weights": weights}, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """One row of weights a class, or one."""
        classes = meta["classes"]
        heads = 1 if classes is None or len(classes) < 3 else len(classes)
        return {"weights": Array((heads, len(meta["names"]) + 1))}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> MergedModel:
        """The record that ``to_state`` described."""
        loss = saving.rebuild(meta["loss"], "loss", parts)
        classes = None if meta["classes"] is None else tuple(meta["classes"])
        reader = _reader(loss, arrays["weights"], meta["intercept"], classes, meta["names"])
        return cls(reader, meta["learners"], meta["examples"], from_dict(meta["certificate"]))


def _reader(loss: Any, weights: np.ndarray, intercept: bool, classes: Any, names: list[str]) -> OnlineModel:
    """A learner that holds these weights, one row a head, to read them with."""
    made = OnlineModel(
        loss, "additive", Rate(1.0), intercept=intercept, certificate=False, classes=classes, names=names
    )
    for head, row in zip(made.heads, weights, strict=True):
        head.array("dual")[:] = row
    return made
