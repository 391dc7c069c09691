"""No rate to tune: the same learner at geometrically spaced rates over the same rows, mixed with a proof.

Member k suffers L_k with its prediction clipped to the label range seen. The mixture predicts the weighted mean of
the members' scores, weights ∝ exp(−η_t L_k) with η_t = ln K/Δ_{t−1}; Δ adds up how much the mixture's loss exceeds the
mix loss. Then L ≤ L_k + 2Δ for every k (aggregate.py has the proof; it uses only that the loss is convex in the
score), so every member's own theorem bounds the mixture too. A member whose rate overflows
stays at its first weights from then on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate, Status
from ..certificates.regret import BEST_MEMBER, RegretCertificate, bound_status, rounded_up
from ..data.row_access import rows_of
from ..errors import DataError, ModelError, UsageError
from ..modelfile import Array, under, whole_numbers
from . import inputs, regret, saving
from .aggregate import posterior, rate
from .best_fixed import Least
from .comparators import look_back
from .learning_loop import HUGE
from .model import OnlineModel
from .rate_hedge import RateHedge
from .rates import Rate
from .sums import add_rows

RATES = tuple(4.0**k for k in range(-11, 2))  # 2.4e-7 … 4


class RateMixture:
    """One geometry at many rates, mixed. The interface is OnlineModel's.

    >>> model = RateMixture("squared", "additive")
    >>> before = model.learn(np.ones((200, 1)), np.ones(200))
    >>> bool(abs(before[-1] - 1.0) < 0.01), model.certificate().proven
    (True, True)
    """

    kind = "ladder"
    takes_parts = True

    def __init__(
        self, loss: Any, geometry: Any, rates: Any = RATES, schedule_power: float = 0.0, **settings: Any
    ) -> None:
        if settings.get("average"):
            raise UsageError(
                "average=True needs one learner, and rate='auto' is a mixture of them; give a number as rate",
                where="average",
            )
        self.members = [
            OnlineModel(loss, geometry, Rate(float(r), schedule_power), keep_sums=k == 0, member=True, **settings)
            for k, r in enumerate(rates)
        ]
        first = self.members[0]
        self.loss, self.geometry, self.classes, self.unit = first.loss, first.geometry, first.classes, first.unit
        heads = len(first.heads)
        self.losses = np.zeros((heads, len(self.members)))
        self.totals = np.tile([0.0, 0.0, math.inf, -math.inf], (heads, 1))
        self.dead = np.zeros(len(self.members), dtype=bool)
        self.progress: list[dict[str, Any]] = []
        self._marks = [1, 0.0, 0.0]

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # An unpickled array may be a read-only map of a file; the loop writes.
        self.__dict__ |= {name: np.array(v) if isinstance(v, np.ndarray) else v for name, v in saved.items()}

    def fresh(self) -> RateMixture:
        """The same mixture of rates before its first example."""
        first = self.members[0]
        return type(self)(
            self.loss, self.geometry, [member.rate.base for member in self.members], first.rate.power, l1=first.l1,
            l2=first.l2, intercept=first.fit_intercept, certificate=first.certified, batch=first.batch,
            classes=self.classes, names=first.names,
        )  # fmt: skip

    @property
    def names(self) -> list[str]:
        return self.members[0].names

    @property
    def examples(self) -> int:
        return self.members[0].examples if not self.dead[0] else int(self._rounds)

    @property
    def _rounds(self) -> float:
        return max(member.examples for member in self.members)

    @property
    def probabilistic(self) -> bool:
        return self.members[0].probabilistic

    @property
    def squared(self) -> bool:
        return self.members[0].squared

    def losses_of(self, predictions: Any, y: Any) -> np.ndarray:
        """The loss of each prediction of a number, as its members count it."""
        return self.members[0].losses_of(predictions, y)

    @property
    def weighted(self) -> bool:
        """Whether the members' theorem is about losses weighted by their steps, which the mixture does not suffer."""
        return self.geometry.name == "normalised"

    def shares(self, h: int = 0) -> np.ndarray:
        """The members' present weights in the mixture."""
        share = np.empty(len(self.members))
        posterior(self.losses[h], len(share), rate(self.totals[h, 0], len(share)), share)
        return share

    @property
    def coef(self) -> np.ndarray:
        """The weighted mean of the members' coefficients (a mixture is not one linear model)."""
        return self._mean([np.atleast_2d(member.coef) for member in self.members])

    @property
    def fit_intercept(self) -> bool:
        """Whether the members have a constant: all or none."""
        return bool(self.members[0].fit_intercept)

    @property
    def intercept(self) -> Any:
        mean = self._mean([np.atleast_1d(member.intercept)[:, None] for member in self.members])
        return float(mean[0]) if mean.size == 1 else mean[:, 0]

    def _mean(self, values: list[np.ndarray]) -> np.ndarray:
        heads = [np.tensordot(self.shares(h), np.array([v[h] for v in values]), 1) for h in range(len(self.losses))]
        return heads[0] if len(heads) == 1 else np.array(heads)

    def learn(self, X: Any, y: Any, weights: Any = None, order: np.ndarray | None = None) -> np.ndarray:
        """Learn rows in order; the mixture's predictions before each update."""
        first = self.members[0]
        X, targets, weights, sequence, n = first._block(X, y, weights, order)
        for member in self.members[1:]:
            if member.width != first.width:
                member._name(first.names)
        inputs.refuse_bad_rows(X, first.names)
        if not first._may_raise:
            return self._outward(self._learn(X, targets, weights, sequence, n))
        before = self._snapshot()
        try:
            return self._outward(self._learn(X, targets, weights, sequence, n))
        except Exception:  # of a part that a user wrote: back, and row by row up to where it is raised again
            self._restore(before)
            places = sequence if len(sequence) else np.arange(n)
            for place in range(n):
                before = self._snapshot()
                try:
                    self._learn(X, targets, weights, places[place : place + 1], 1)
                except Exception:
                    self._restore(before)
                    raise
            raise

    def _snapshot(self) -> Any:
        """Everything that a block changes."""
        members = [(member, member._snapshot()) for member in self.members]
        return members, self.losses.copy(), self.totals.copy(), self.dead.copy(), len(self.progress), list(self._marks)

    def _restore(self, before: Any) -> None:
        members, self.losses, self.totals, self.dead, lines, self._marks = before
        for member, snapshot in members:
            member._restore(snapshot)
        del self.progress[lines:]

    def _learn(self, X: Any, targets: np.ndarray, weights: np.ndarray, order: np.ndarray, n: int) -> np.ndarray:
        out = np.empty((len(self.losses), n))
        rows, start = rows_of(X), 0
        hedge = RateHedge(self.loss, len(self.members), self.loss.targets == "real")
        while start < n:
            stop = min(n, start + max(1, int(self._marks[0]) - self.examples))
            some = order[start:stop] if len(order) else np.arange(start, stop)
            c = weights[some] if len(weights) else None
            scores = np.array(
                [self._member_scores(k, rows, X, targets, weights, some) for k in range(len(self.members))]
            )
            for h in range(len(out)):
                hedge.learn(scores[:, h], targets[h][some], c, self.losses[h], self.totals[h], out[h, start:stop])
            if self.examples >= self._marks[0]:
                self._record(self.members[0]._label(targets, int(some[-1])), out[:, stop - 1 : stop])
            start = stop
        return out

    def _member_scores(self, k: int, rows: Any, X: Any, targets: Any, weights: Any, some: np.ndarray) -> np.ndarray:
        """A member's scores before each of its updates; one that overflows stays at its first weights."""
        member = self.members[k]
        examples = member._examples(rows, targets, weights, some)
        out = np.empty((len(member.heads), len(some)))
        done = 0
        if not self.dead[k]:
            before = member._snapshot()
            bad = member._learn_rows(examples, X, targets, weights, some, len(some), out)
            if bad is None and not member._runaway():
                return out
            member._restore(before)
            done = 0 if bad is None else bad
            if done:  # what it predicted before the overflow stands
                member._learn_rows(examples, X, targets, weights, some, done, out)
            self.dead[k] = True
            for state in member.heads:
                state.array("dual")[:] = 0.0
            member._name(member.names)
        rest = some[done:]
        out[:, done:] = member.scores(X[rest])
        for state in member.heads:  # the rounds go on, and so do the moments that the first member keeps for all
            state.rounds += len(rest)
            state.weight += float(weights[rest].sum()) if len(weights) else len(rest)
        add_rows(member, X, targets, weights, some, done, len(some))
        return out

    def predict(self, X: Any) -> np.ndarray:
        """The mixture's predictions."""
        X = inputs.matrix(X)
        inputs.check_width(X, len(self.names))
        inputs.refuse_bad_rows(X, self.names)
        return self._outward(self._mixed(np.array([_finite_scores(member, X) for member in self.members])))

    def _mixed(self, scores: np.ndarray) -> np.ndarray:
        if self.loss.targets == "real" and self.totals[0, 2] <= self.totals[0, 3]:
            scores = np.clip(scores, self.totals[:, 2][:, None], self.totals[:, 3][:, None])
        return np.array([self.shares(h) @ scores[:, h] for h in range(len(self.losses))])

    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> Any:
        """Learn one example of named features."""
        features = inputs.named(features)
        targets = self.members[0]._targets([y], 1)
        shares = inputs.weights([weight], 1) if weight != 1.0 else np.empty(0)
        row = self.members[0]._row(features, grow=True)
        row.fill(features)
        inputs.refuse_bad_rows(row.values[None, :], row.keys)
        for member in self.members[1:]:
            if member.width != len(self.names):
                member._name(self.names)
        found = self._outward(self._learn(self._row(row), targets, shares, np.empty(0, dtype=np.int64), 1))
        return float(found[0]) if found.ndim == 1 else found[0]

    def predict_one(self, features: dict[str, float]) -> Any:
        """The prediction for one example of named features."""
        names = set(self.names)
        known = {name: value for name, value in inputs.named(features).items() if name in names}
        row = self.members[0]._row(known, grow=False)
        row.fill(known)
        found = self.predict(self._row(row))
        return float(found[0]) if found.ndim == 1 else found[0]

    def _row(self, row: Any) -> Any:
        """A dict's row as a block of one: dense if every name is there in order."""
        if row.dense:
            return row.values[None, :].copy()
        from scipy.sparse import csr_array

        return csr_array((row.values.copy(), row.columns, [0, len(row.values)]), shape=(1, len(self.names)))

    def _outward(self, out: np.ndarray) -> np.ndarray:
        return self.members[0]._outward(out)

    def _record(self, label: Any, score: np.ndarray) -> None:
        loss = self.unit * float(self.totals[:, 1].sum())
        weight = self.members[0].heads[0].weight
        since = weight - self._marks[2]
        prediction = np.asarray(self._outward(score.copy())).reshape(-1).tolist()
        line = {
            "examples": self.examples,
            "average_loss": loss / weight if weight else 0.0,
            "since_last": (loss - self._marks[1]) / since if since else 0.0,
            "label": label,
            "prediction": prediction[0] if len(prediction) == 1 else prediction,
        }
        if self.members[0].certified:
            line |= regret.brief(self.certificate())
        self.progress.append(line)
        self._marks = [2 * self.examples, loss, float(weight)]

    def look_back(self, X: Any, y: Any, weights: Any = None, repeats: int = 1) -> None:
        """A second pass over the rows that were learned (each ``repeats`` times): comparators for losses not squared."""
        first = self.members[0]
        if not first.certified or first.sums is not None:
            return
        X, targets, share, _, _ = first._block(X, y, weights, None)
        now = max(1, self.examples)
        strengths = (0.0, *(1.0 / member.rate.at(now) for member in self.members[::-3]))
        leaders = [self.members[int(self.shares(h).argmax())] for h in range(len(self.losses))]
        found = [look_back(m, X, targets[h], share, h, repeats, strengths) for h, m in enumerate(leaders)]
        heads, least = map(list, zip(*found))
        first.hindsight = {
            "examples": self.examples,
            "heads": heads,
            "least": least,
        }  # lent to every member, saved with the first

    def certificate(self) -> Any:
        """The mixture's loss, and its bound through the best member's theorem."""
        return regret.resting_on(self.loss, self._certificate())

    def _certificate(self) -> RegretCertificate:
        loss = self.unit * float(self.totals[:, 1].sum())
        if not self.members[0].certified:
            return RegretCertificate(
                status=Status.NOT_PROVEN, examples=self.examples, loss=loss,
                advice="certificate=False: the sums of the bound were not kept",
            )  # fmt: skip
        per_head: list[tuple[float, Any]] = [self._head_bounds(h) for h in range(len(self.losses))]
        bound = sum(head[0] for head in per_head)
        best: Any = per_head[0][1]
        parts = [Least(proof.comparator, proof.best_fixed_loss, proof.best_fixed_lower_bound) for _, proof in per_head]
        least = parts[0] if len(parts) == 1 else regret.sum_of_least(parts)
        member = self.unit * float(self.losses.min(axis=1).sum())
        fields = regret.against(least, loss) | {"best_member_loss": member}
        if least.loss is None and self.members[0].sums is None:
            fields |= {"regret": loss - member, "regret_to": BEST_MEMBER}
        theorem = best.theorem if best.proven and not self.weighted else "L"
        assumptions = best.assumptions if theorem != "L" else ()
        return RegretCertificate(
            advice="every rate overflowed; scale the columns or use geometry='normalised' (--learner)" if self.dead.all() else "",
            status=bound_status(loss, bound, assumptions), assumptions=assumptions,
            theorem=f"min over {len(self.members)} rates of ({theorem}) + 2Δ", examples=self.examples, loss=loss,
            bound=bound, bound_comparator=best.bound_comparator if theorem != "L" else None, **fields,
        )  # fmt: skip

    def _head_bounds(self, h: int) -> tuple[float, Certificate]:
        """(bound, the certificate of the member that gives it) of one head.

        L ≤ L_k + 2Δ for every member k, whatever became of it; L_k has the member's own theorem, where that holds.
        """
        proofs = [self._member_proof(member, h) for member in self.members]
        own = [member.heads[h].step_loss for member in self.members]
        bounds = {
            k: proof.bound + max(0.0, self.unit * (self.losses[h, k] - own[k]))
            for k, proof in enumerate(proofs)
            if proof.proven and not self.dead[k] and not self.weighted
        }
        if not bounds:  # no rate suits these rows, or the theorem counts other losses: the members' losses as they are
            bounds = dict(enumerate(self.unit * self.losses[h]))
        bound, k = min((bound, k) for k, bound in bounds.items())
        return rounded_up(float(bound + 2.0 * self.unit * self.totals[h, 0]), self.examples), proofs[k]

    def _member_proof(self, member: OnlineModel, h: int) -> Any:
        """A member's certificate, with the comparators that the first member keeps for all."""
        held = member.sums, member.hindsight
        member.sums, member.hindsight = self.members[0].sums, self.members[0].hindsight
        try:
            return regret.head_certificate(member, h)
        finally:
            member.sums, member.hindsight = held

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Every member's state and the mixture's own."""
        arrays: dict[str, np.ndarray] = {"losses": self.losses, "totals": self.totals, "dead": self.dead.astype(float)}
        metas = []
        for k, member in enumerate(self.members):
            own, meta = member.to_state()
            arrays |= {f"{k}.{name}": array for name, array in own.items()}
            metas.append(meta)
        return arrays, {
            "members": metas, "progress": self.progress, "marks": self._marks, "classes": metas[0]["classes"],
            "names": self.names, "certificate": self.certificate().to_dict() if self.examples else None,
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """Every member's arrays, and the mixture's own."""
        members = meta["members"]
        first = members[0]
        if any(one["names"] != first["names"] or one["classes"] != first["classes"] for one in members):
            raise ModelError("the members of the mixture have different columns or classes; use an intact copy")
        heads = sum(name.startswith("numbers") for name in saving.declared(arrays, first))
        made = {
            "losses": Array((heads, len(members)), values="numbers"),
            "totals": Array((heads, 4), values="numbers"),
            "dead": Array((len(members),), holds=whole_numbers(0, 1)),
        }
        for k, one in enumerate(members):
            made |= under(f"{k}.", saving.declared(arrays, one))
        return made

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> RateMixture:
        """The mixture of a state."""
        members = []
        for k, own in enumerate(meta["members"]):
            mine = {name.partition(".")[2]: a for name, a in arrays.items() if name.startswith(f"{k}.")}
            members.append(OnlineModel.from_state(mine, own, parts))
        mixture = cls.__new__(cls)
        mixture.members = members
        first = members[0]
        mixture.loss, mixture.geometry = first.loss, first.geometry
        mixture.classes, mixture.unit = first.classes, first.unit
        mixture.losses, mixture.totals = np.array(arrays["losses"]), np.array(arrays["totals"])
        mixture.dead = arrays["dead"] > 0.5
        mixture.progress, mixture._marks = meta["progress"], meta["marks"]
        return mixture


def _finite_scores(member: OnlineModel, X: Any) -> np.ndarray:
    """A member's scores; one whose weights have run away counts as the largest number, not as a refusal."""
    try:
        return member.scores(X)
    except DataError:
        rows = [X @ w[1:] + w[0] for w in (member.weights(h) for h in range(len(member.heads)))]
        return np.clip(np.nan_to_num(np.array(rows), nan=0.0), -HUGE, HUGE)
