"""Regret: the best fixed weights in hindsight, and each theorem's bound with its assumptions checked on the stream.

Every bound holds for every comparator u, so any u that can be named gives a valid number; a good u gives a small one.
Squared losses up to 2,000 features: L_u of any u is exact from running moments. Otherwise a second pass over rows
that can be read again, or, on a stream, the form that needs no comparator's loss.

Widrow–Hoff      L ≤ L_u/(1 − κ) + ‖u‖²/η,        κ = η·max c‖x‖² < 1
multiplicative   L ≤ L_u/(1 − κ) + (2/η)·RE(u‖w₁), κ = η·max c·R²/4 < 1, R the range of a row
universal        Σ V_t(w_t) − V_t(u) ≤ B(u, w₁)/η + Σ brackets (+ the penalty of u in every round)
adaptive         regret ≤ Σ_j (max_t (u_j − w_tj)²/(2η) + η)·√(ε + Σ_t g_tj²)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption, Certificate, Status
from ..certificates.regret import (
    BEST_FIXED,
    BEST_MEMBER,
    RegretCertificate,
    StreamCertificate,
    bound_status,
    rounded_up,
)
from ..certificates.regret import averaged as risk_of_mean
from ..objective.user_loss import assumption_of
from . import sums
from .best_fixed import Least
from .comparators import entropic_best, simplex_loss
from .learner_state import LearnerState
from .learning_loop import finished, read_weights
from .redundant_columns import RedundantColumns


def freeze(geometry: Any, state: LearnerState) -> None:
    """Freeze the weights in force as the new candidate; the last one becomes the older."""
    state.array("older")[:] = state.array("newer")
    state.older_loss, state.older_own = state.newer_loss, state.newer_own
    state.older_excess, state.older_at = state.newer_excess, state.newer_at
    state.newer_loss = state.newer_own = state.newer_excess = 0.0
    state.newer_at = state.rounds
    state.array("newer")[:] = read_weights(geometry, state)


def brief(proof: Any) -> dict[str, float | None]:
    """The numbers of a certificate for a line of progress: the best member's loss only where it is what counts."""
    if not isinstance(proof, RegretCertificate):
        return {"bound": getattr(proof, "bound", math.inf)}
    best = {"best_fixed_loss": proof.best_fixed_loss}
    if proof.regret_to == BEST_MEMBER:
        best = {"best_member_loss": proof.best_member_loss}
    return best | {"regret": proof.regret, "bound": proof.bound}


def against(least: Least, loss: float) -> dict[str, Any]:
    """The fields of a certificate that say what the best fixed weights would have lost, and the regret to them."""
    known = least.loss is not None
    return {
        "best_fixed_loss": least.loss,
        "best_fixed_lower_bound": least.lower,
        "comparator": least.weights,
        "regret": loss - least.loss if least.loss is not None else None,
        "regret_to": BEST_FIXED if known else None,
    }


def certificate(model: Any) -> Certificate:
    """What an OnlineModel proves now, with a word where that rests on a user's own loss."""
    return resting_on(model.loss, _certificate(model))


def resting_on(loss: Any, proof: Any) -> Any:
    """The same certificate, which says so if the loss is a user's own."""
    return dataclasses.replace(proof, assumptions=(*proof.assumptions, *assumption_of(loss)))


def _certificate(model: Any) -> Certificate:
    if not model.certified:
        return RegretCertificate(
            status=Status.NOT_PROVEN,
            examples=model.examples,
            loss=loss(model),
            advice="certificate=False: the sums of the bound were not kept",
        )
    if model.kept is not None:
        from .mistakes import mistake_certificate

        return mistake_certificate(model)
    proof = of_run(model)
    return averaged(model, proof) if model.average else proof


def of_run(model: Any) -> Any:
    """What the run proves of its losses, whatever weights are kept of it."""
    proofs = [head_certificate(model, h) for h in range(len(model.heads))]
    return proofs[0] if len(proofs) == 1 else joined(proofs)


def averaged(model: Any, proof: Any) -> Certificate:
    """The risk bound of the mean weights, beside the regret of the run that made them."""
    m = model.examples
    return risk_of_mean(
        proof, examples=m, mean_loss=total_loss(model) / max(1, m), largest=largest_loss(model),
        loss_range=model.loss_range, confidence=model.confidence, heads=len(model.heads), epochs=model.epochs,
        weight=model.heads[0].weight,
    )  # fmt: skip


def total_loss(model: Any) -> float:
    """The sum of the losses as the theory counts them, over all heads."""
    return model.unit * sum(state.loss for state in model.heads)  # type: ignore[no-any-return]


def largest_loss(model: Any) -> float:
    """The largest of them in one head."""
    return model.unit * max(state.largest_loss for state in model.heads)  # type: ignore[no-any-return]


def loss(model: Any) -> float:
    """The loss suffered, as the certificate counts it: squared without the half, normalised steps' shares included."""
    return float(model.unit * sum(state.step_loss if model.certified else state.loss for state in model.heads))


def joined(proofs: list[Any]) -> Certificate:
    """One certificate for one head a class: losses and bounds add."""
    worst = max(proofs, key=lambda p: (p.status is not Status.PROVEN, p.bound))
    made = type(worst)
    suffered, bound = sum(p.loss for p in proofs), sum(p.bound for p in proofs)
    extra = (
        {"radius": max(p.radius for p in proofs), "regret_bound": sum(p.regret_bound for p in proofs)}
        if isinstance(worst, StreamCertificate)
        else {}
    )
    at = [p.bound_comparator for p in proofs]
    return made(
        status=bound_status(suffered, bound, worst.assumptions),
        assumptions=worst.assumptions,
        advice=worst.advice,
        examples=proofs[0].examples,
        loss=suffered,
        bound=bound,
        bound_comparator=None if any(u is None for u in at) else np.array(at),
        **against(sum_of_least([Least(None, p.best_fixed_loss, p.best_fixed_lower_bound) for p in proofs]), suffered),
        theorem=f"{worst.theorem}; one against the rest, summed over {len(proofs)} classes",
        **extra,
    )


def sum_of_least(parts: list[Least]) -> Least:
    """What separate problems lose together: known where each is."""
    losses, lowers = [part.loss for part in parts], [part.lower for part in parts]
    found = [lower for lower in lowers if lower is not None]
    return Least(
        None,
        None if None in losses else math.fsum(loss for loss in losses if loss is not None),
        math.fsum(found) if found else None,
    )


class Terms:
    """What the bounds need to know of one head."""

    def __init__(self, model: Any, h: int) -> None:
        self.model = model
        self.state = finished(model.rule, model.heads[h])  # with what an unfinished mini-batch's update will add
        self.first, self.last = model.rate.at(1), model.rate.at(max(1, model.examples))
        self.constant = model.rate.power == 0.0
        self.linked, self.adaptive, self.name = model.geometry.linked, model.geometry.adaptive, model.geometry.name
        self.plain = self.constant and model.batch == 1 and model.l1 + model.l2 == 0.0
        self.rows = model.batch if model.batch > 1 else 1
        self.width = model.width + 1
        self.eta = model.rate.base

    def coordinates(self, u: np.ndarray) -> np.ndarray:
        """u as the geometry sees it: without an unused intercept."""
        return u if self.model.fit_intercept else u[1:]

    def first_term(self, u: np.ndarray) -> float:
        """B(u, w₁)/η, or its replacement for rates that fall."""
        if self.adaptive:
            low, high = self.state.array("low"), self.state.array("high")
            reach = np.maximum(np.abs(u - low), np.abs(u - high))
            epsilon = getattr(self.model.geometry, "epsilon", 0.0)
            memory = np.sqrt(epsilon + self.state.array("memory"))
            terms = (reach**2 / (2.0 * self.last) + self.first) * memory
            return self.rows * float(np.sum(self.coordinates(terms)))
        if self.constant:
            return self.rows * self.model.geometry.divergence(self.coordinates(u)) / self.eta
        if self.linked and self.name in ("multiplicative", "signed"):
            inside = math.isfinite(self.model.geometry.divergence(self.coordinates(u)))
            return self.state.distance / self.last if inside and self.rows == 1 else math.inf
        if self.linked or self.rows > 1:
            return math.inf
        largest = math.sqrt(max(0.0, self.state.largest_size2))
        return (float(np.linalg.norm(u)) + largest) ** 2 / (2.0 * self.last)

    def penalty(self, u: np.ndarray) -> float:
        """The penalty of u in every round."""
        v = u[1:]
        share = self.model.l1 * float(np.abs(v).sum()) + 0.5 * self.model.l2 * float(v @ v)
        return share * self.state.step_weight

    def universal(self, u: np.ndarray, value: float) -> float:
        """The universal bound on the loss, given Σ V(y, u·x)."""
        return value + self.penalty(u) + self.first_term(u) + self.state.excess


def head_certificate(model: Any, h: int) -> Certificate:
    """The certificate of one head."""
    terms = Terms(model, h)
    if model.late and terms.linked:
        held = Assumption(
            "every feature is known from the start", False, float(model.late), 0.0, "name them in advance"
        )
        return RegretCertificate(
            status=bound_status(0.0, None, (held,)), assumptions=(held,), examples=model.examples, theorem="universal",
            loss=float(model.unit * terms.state.step_loss),
            advice=f"{model.late} feature(s) appeared after the first example; name all features in advance",
        )  # fmt: skip
    if model.sums is not None:
        return squared_certificate(terms)
    if model.hindsight is not None and model.hindsight["examples"] == model.examples:
        return hindsight_certificate(terms, h)
    return stream_certificate(terms)


@functools.lru_cache(maxsize=2)
def _entropic_best(G: bytes, size: int, intercept: bool, radius: float) -> np.ndarray:
    """The members of a grid of rates have one comparator: the same moments, the same radius."""
    found = entropic_best(np.frombuffer(G).reshape(size, size), intercept, radius, 0.0)
    found.flags.writeable = False
    return found


def best_fixed(model: Any, G: np.ndarray, gamma: float, redundant: RedundantColumns, few: Any = None) -> Least:
    """The best fixed weights of the model's geometry in hindsight, and their loss, from moments of squared losses."""
    if model.geometry.name in ("multiplicative", "signed"):
        radius = float(getattr(model.geometry, "radius", 0.0))
        u = _entropic_best(
            np.ascontiguousarray(G, dtype=np.float64).tobytes(), len(G), bool(model.fit_intercept), radius
        )
        return simplex_loss(G, u, bool(model.fit_intercept), radius, gamma)
    return sums.best_fixed_loss(G, model.fit_intercept, gamma, redundant, few)


def constant_rate(held: bool) -> tuple[Assumption, ...]:
    """The assumption of geometries whose bound needs a constant rate, where it fails."""
    return (
        ()
        if held
        else (Assumption("the rate is constant, one row an update", False, remedy="use schedule='constant'"),)
    )


def squared_certificate(terms: Terms) -> Certificate:
    """Squared loss with running moments: the loss of every comparator is known."""
    model, state, eta = terms.model, terms.state, terms.eta
    G, few, gamma = model.sums.total(), model.sums.few(), sums.rounding(model.examples)
    intercept = model.fit_intercept
    assumptions: tuple[Assumption, ...] = ()
    advice, theorem = "", ""
    radius = getattr(model.geometry, "radius", 0.0)
    least = best_fixed(model, G, gamma, model.sums.redundant(), few)
    bound: float = math.inf
    bound_u: np.ndarray | None = None
    if terms.name in ("additive", "normalised") and terms.plain:
        theorem = "Widrow–Hoff: L ≤ L_u/(1 − κ) + ‖u‖²/η"
        if terms.name == "normalised":
            theorem += ", losses weighted by 1/(ε + ‖x‖²)"
        kappa = eta * state.reach
        assumptions, advice = (reach_assumption(terms, kappa),), reach_advice(terms, kappa)
        if kappa < 1.0:
            bound_u = sums.best(G, (1.0 - kappa) / eta, intercept, few)
            bound = sums.loss_of(G, bound_u, gamma) / (1.0 - kappa) + float(bound_u @ bound_u) / eta
    elif terms.name in ("multiplicative", "signed") and terms.plain:
        theorem = "exponentiated gradient: L ≤ L_u/(1 − κ) + (2/η)·RE(u‖w₁)"
        spread = state.range if terms.name == "multiplicative" else 2.0 * radius * state.peak
        kappa = eta * spread * spread / 4.0
        held = kappa < 1.0
        limit = 4.0 / spread**2 if spread else math.inf
        remedy = f"use rate < {below(limit)} or scale the columns"
        assumptions = (Assumption("κ = η·R²/4 < 1", held, kappa, 1.0, remedy),)
        if held:
            bound_u = entropic_best(G, intercept, radius, 2.0 * (1.0 - kappa) / eta)
            bound = sums.loss_of(G, bound_u, gamma) / (1.0 - kappa) + 2.0 / eta * model.geometry.divergence(
                terms.coordinates(bound_u)
            )
        else:
            advice = f"largest range of a row is {spread:.3g}; with rate {eta:g} the bound is void; {remedy}"
    else:
        theorem = (
            "adaptive: Σ_j (max(u_j − w_tj)²/(2η) + η)·√Σg²" if terms.adaptive else "universal: B(u, w₁)/η + Σ brackets"
        )
        trials = [np.zeros(len(G) - 1)] + ([least.weights] if least.weights is not None else [])
        if not terms.linked:
            strengths = (0.1, 1.0, 10.0, 100.0) if terms.adaptive or not terms.constant else (1.0,)
            trials += [sums.best(G, s / terms.last + model.l2 * state.step_weight, intercept, few) for s in strengths]
        elif terms.name in ("multiplicative", "signed"):
            trials.append(entropic_best(G, intercept, radius, 2.0 / eta))
        else:
            trials += [sums.best(G, s / terms.last, intercept, few) for s in (0.1, 1.0, 10.0)]
        found = [(2.0 * terms.universal(u, 0.5 * sums.loss_of(G, u, gamma)), k) for k, u in enumerate(trials)]
        bound, k = min(found)
        bound_u = trials[k]
        if not math.isfinite(bound):
            bound_u, assumptions = None, constant_rate(False)
            advice = "this geometry has a bound for a constant rate only; use schedule='constant'"
    suffered, bound = 2.0 * state.step_loss, rounded_up(bound, model.examples)
    return RegretCertificate(
        status=bound_status(suffered, bound, assumptions), assumptions=assumptions, advice=advice, theorem=theorem,
        examples=model.examples, loss=suffered, bound=bound, bound_comparator=bound_u, **against(least, suffered),
    )  # fmt: skip


def reach_assumption(terms: Terms, kappa: float) -> Assumption:
    reach = terms.state.reach
    remedy = f"use rate ≤ {below(1.0 / reach)} or geometry='normalised' (--learner)" if reach else ""
    return Assumption("κ = η·max c‖x‖² < 1", kappa < 1.0, kappa, 1.0, remedy)


def reach_advice(terms: Terms, kappa: float) -> str:
    """The sentence that a user needs when the rate is too large."""
    if kappa < 1.0:
        return ""
    if terms.name == "normalised":
        return f"with rate {terms.eta:g} the bound is void; use a rate below 1"
    largest = terms.state.reach
    return (
        f"largest ‖x‖ seen is {math.sqrt(largest):.2g}; with rate {terms.eta:g} the bound is void; "
        f"use rate ≤ {below(1.0 / largest)} or geometry='normalised' (--learner)"
    )


def below(limit: float) -> str:
    """A rate just under the limit, in two digits."""
    if not 0.0 < limit < math.inf:
        return "any"
    digits = 1 - math.floor(math.log10(limit))
    floor = math.floor(limit * 10.0**digits * (1.0 - 1e-9)) / 10.0**digits
    return f"{floor:.2g}"


def hindsight_certificate(terms: Terms, h: int) -> Certificate:
    """Any loss on rows that were read again: L_u is exact for the comparators found."""
    model, seen, unit = terms.model, terms.model.hindsight, terms.model.unit
    suffered = unit * terms.state.step_loss
    trials = seen["heads"][h]
    bound, k = min((rounded_up(unit * terms.universal(u, v), model.examples), k) for k, (u, v) in enumerate(trials))
    finite = math.isfinite(bound)
    assumptions = constant_rate(finite)
    return RegretCertificate(
        status=bound_status(suffered, bound, assumptions), assumptions=assumptions,
        advice="" if finite else "this geometry has a bound for a constant rate only; use schedule='constant'",
        theorem="adaptive: Σ_j (max(u_j − w_tj)²/(2η) + η)·√Σg²" if terms.adaptive else "universal: B(u, w₁)/η + Σ brackets",
        examples=model.examples, loss=suffered, bound=bound, bound_comparator=trials[k][0] if finite else None,
        **against(seen["least"][h].times(unit), suffered),
    )  # fmt: skip


def stream_certificate(terms: Terms) -> Certificate:
    """Rows that are gone: every comparator of a stated size at once, and the candidates frozen on the way."""
    model, state, unit = terms.model, terms.state, terms.model.unit
    suffered = unit * state.step_loss
    start = state.array("start").copy() if terms.linked else np.zeros(terms.width)
    start_loss, excess = state.zero_loss, state.excess
    weights = read_weights(model.geometry, state)
    if terms.linked and terms.name in ("multiplicative", "signed"):
        radius = getattr(model.geometry, "radius", 1.0)
        corners = math.log(len(terms.coordinates(weights)) * (2 if terms.name == "signed" else 1))
        regret_bound = (corners / terms.eta if terms.constant else state.distance / terms.last) + excess
    elif terms.linked:
        radius = 2.0 * float(np.linalg.norm(weights))
        regret_bound = terms.first_term(2.0 * weights) + excess
    elif terms.adaptive:
        low, high = np.abs(state.array("low")), np.abs(state.array("high"))
        size = np.maximum(low, high)
        radius = float(size.max(initial=0.0))
        corner = np.where(low > high, size, -size)
        regret_bound = terms.first_term(corner)
    else:
        radius = 2.0 * float(np.linalg.norm(weights))
        edge = np.zeros(terms.width)
        edge[0] = radius
        worst = terms.model.l1 * radius * math.sqrt(terms.width) + 0.5 * terms.model.l2 * radius**2
        regret_bound = terms.first_term(edge) + excess + worst * state.step_weight
    candidates: tuple[Any, ...] = ()
    if terms.constant and terms.rows == 1 and not terms.adaptive:
        candidates = tuple(
            (at, unit * own, unit * other, unit * (other + more) if terms.plain else math.inf)
            for at, own, other, more in (
                (state.older_at, state.older_own, state.older_loss, state.older_excess),
                (state.newer_at, state.newer_own, state.newer_loss, state.newer_excess),
            )
            if 0.0 < at < state.rounds
        )  # fmt: skip
    bound = rounded_up(unit * terms.universal(start, start_loss), model.examples)
    finite = math.isfinite(bound)
    assumptions = constant_rate(finite)
    return StreamCertificate(
        status=bound_status(suffered, bound, assumptions), assumptions=assumptions,
        advice="" if finite else "this geometry has a bound for a constant rate only; use schedule='constant'",
        theorem="adaptive, on a stream" if terms.adaptive else "universal, on a stream: B(u, w₁)/η + Σ brackets",
        examples=model.examples, loss=suffered, bound=bound, bound_comparator=start, radius=radius,
        regret_bound=unit * float(regret_bound), candidates=candidates,
    )  # fmt: skip
