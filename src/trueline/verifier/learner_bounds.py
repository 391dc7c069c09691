"""The bounds of online learners, each term recomputed by the replay.

Every bound holds for every comparator u. With L_u the loss of u, the theorems are

    Widrow–Hoff             L ≤ L_u/(1 − κ) + ‖u‖²/η,         κ = η·max c‖x‖² < 1   (squared loss)
    exponentiated gradient  L ≤ L_u/(1 − κ) + (2/η)·RE(u‖w₁), κ = η·max c·R²/4 < 1  (squared loss, R a row's range)
    universal               L ≤ L_u + B(u, w₁)/η + Σ brackets + the penalty of u in every round
    adaptive                L ≤ L_u + Σ_j (max_t (u_j − w_tj)²/(2η) + η)·√(ε + Σ_t g_tj²)

Which of them apply is decided by the learner's rule, and every term is recomputed from the rows by the replay.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .learner_replay import EPS, LINKED, Run, spread
from .stated_claims import Rows, Rule
from .verify_comparators import Fixed, Stream, is_allowed, loss_of_fixed, near_the_start, newton

PRECISION = 1e-9  # a comparator of nearly the least bound will do: any of them proves one


class Bound(NamedTuple):
    """A theorem's bound at some comparator, the room for its rounding, and κ where it has one."""

    value: float
    room: float
    kappa: float | None = None


class Line:
    """One weight vector of a replay, with what the theorems need to know of it."""

    def __init__(self, rule: Rule, run: Run, Z: Rows, targets: Rows, line: int) -> None:
        self.rule, self.run, self.index = rule, run, line
        self.rate = float(np.repeat(rule.rates, len(targets))[line])
        self.stream = Stream(rule, Z, targets[line % len(targets)], run.shares)
        self.last = self.rate / max(1, len(Z)) ** rule.power

    def kappa(self) -> float | None:
        """κ of the theorem for squared losses, where there is one."""
        if self.rule.loss != "squared" or not self.rule.plain:
            return None
        used = self.stream.Z[:, self.stream.first :]
        if self.rule.geometry in ("additive", "normalised"):
            return self.rate * float(np.max(self.run.shares * (used**2).sum(axis=1), initial=0.0))
        if self.rule.geometry not in LINKED or not used.shape[1]:
            return None
        root = np.sqrt(self.run.shares)
        ranges = root * (used.max(axis=1) - used.min(axis=1))
        if self.rule.geometry == "signed":
            ranges = 2.0 * self.rule.parameter * root * np.abs(used).max(axis=1)
        return self.rate * float(ranges.max()) ** 2 / 4.0

    def bounds(self, u: Rows, fixed: Fixed | None = None) -> list[Bound]:
        """The bounds of every theorem that applies at the comparator u, whose loss may be known already."""
        fixed = loss_of_fixed(self.stream, u) if fixed is None else fixed
        kappa, found = self.kappa(), list[Bound]()
        distance = self.divergence(u)
        if kappa is not None and kappa < 1.0:
            value = fixed.loss / (1.0 - kappa) + 2.0 * distance / self.rate
            blur = (len(u) + 8) * EPS * (kappa * fixed.loss / (1.0 - kappa) ** 2 + value)
            found.append(Bound(value, 2.0 * fixed.room / (1.0 - kappa) + 8.0 * blur, kappa))
        over = self.rule.unit * (self.first_term(u) + self.run.excess[:, self.index])
        value = fixed.loss + self.rule.unit * self.penalty(u) + float(over[0])
        if math.isfinite(value):
            rounding = 8.0 * (len(self.stream.t) + len(u)) * EPS * (abs(value) + abs(fixed.loss))
            found.append(Bound(value, 2.0 * fixed.room + float(spread(over)) + rounding))
        return found

    def divergence(self, u: Rows) -> float:
        """B(u, w₁): half the squared length, or the relative entropy to the start; infinite outside of the geometry."""
        if not is_allowed(self.stream, u):
            return math.inf
        used = u[self.stream.first :]
        if self.rule.geometry not in LINKED:
            return 0.5 * float(used @ used)
        if self.rule.geometry == "signed":  # what the sizes leave of the radius goes to both signs alike
            sizes = np.abs(used) / self.rule.parameter
            share = 0.5 * max(0.0, 1.0 - float(sizes.sum())) / len(used)
            used = np.concatenate([sizes + share, np.full(len(used), share)])
        inside = used[used > 0.0]
        return max(0.0, float(inside @ np.log(inside)) + math.log(len(used)))

    def first_term(self, u: Rows) -> Rows:
        """B(u, w₁)/η, or what stands for it where rates fall or are each coordinate's own; of every copy of the replay."""
        rule, run, at = self.rule, self.run, self.index
        rows = float(rule.batch)
        if rule.geometry == "adaptive":
            reach = np.maximum(np.abs(u - run.low[:, at]), np.abs(u - run.high[:, at]))
            terms = (reach**2 / (2.0 * self.last) + self.rate) * np.sqrt(rule.parameter + run.memory[:, at])
            return np.asarray(rows * terms[:, self.stream.first :].sum(axis=1))
        copies = np.ones(len(run.excess))
        if rule.power == 0.0:
            return rows * self.divergence(u) / self.rate * copies
        if rule.batch > 1 or not math.isfinite(self.divergence(u)):
            return math.inf * copies
        if rule.geometry in LINKED:
            return np.asarray(run.farthest[:, at] / self.last)
        return np.asarray((float(np.linalg.norm(u)) + run.longest[:, at]) ** 2 / (2.0 * self.last))

    def penalty(self, u: Rows) -> float:
        """The penalty of u in every round."""
        v = u[1:]
        share = self.rule.l1 * float(np.abs(v).sum()) + 0.5 * self.rule.l2 * float(v @ v)
        return share * float(self.run.shares.sum())

    def least_bound(self, starts: list[Rows]) -> Bound:
        """The least bound over comparators that the verifier finds itself: Newton's steps with the distance as a ridge."""
        trials = [u for u in starts if is_allowed(self.stream, u)]
        trials.append(self.run.start)
        if self.rule.geometry in LINKED:
            weight = self.rule.batch / self.rate if self.rule.power == 0.0 else 0.0
            trials.append(near_the_start(self.stream, self.run.start, weight))
        else:
            trials += self.short_comparators()
        found = [bound for u in trials for bound in self.bounds(u)]
        return min(found) if found else Bound(math.inf, 0.0)

    def short_comparators(self, start: Rows | None = None) -> list[Rows]:
        """Comparators that weigh their loss against their distance; lengths that are no squares are majorised by some."""
        stream, found = self.stream, list[Rows]()
        low, high = self.run.low[0, self.index], self.run.high[0, self.index]
        memory = np.sqrt(self.rule.parameter + self.run.memory[0, self.index])
        centre, half = (
            (0.5 * (low + high), 0.5 * (high - low)) if self.rule.geometry == "adaptive" else (0.0 * low, 0.0)
        )
        kappa = self.kappa()
        base = (1.0 - kappa if kappa is not None and kappa < 1.0 else 1.0) * self.rule.batch
        extra = self.rule.l2 * float(self.run.shares.sum())
        u = np.zeros(stream.Z.shape[1]) if start is None else start
        for _ in range(4):
            ridge = np.full(len(u), base / self.last)
            if self.rule.geometry == "adaptive":
                ridge = memory / self.last * (1.0 + half / np.maximum(np.abs(u - centre), 1e-3 * (1e-12 + half)))
            elif self.rule.power > 0.0:
                longest = float(self.run.longest[0, self.index])
                ridge *= 1.0 + longest / max(float(np.linalg.norm(u)), 1e-3 * (1e-12 + longest))
            ridge[1:] += extra
            first = stream.first
            u = u.copy()
            u[first:] = newton(
                stream, stream.Z[:, first:], u[first:], ridge[first:], centre[first:], least_gain=PRECISION
            )
            found.append(u)
            if self.rule.geometry != "adaptive" and self.rule.power == 0.0:
                break
        return found
