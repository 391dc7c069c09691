"""How far stated weights can be from the optimum: a dual point found here, and what it proves.

For slopes a of the rows, u = −Zᵀ(c∘a), and any weights w (Fenchel and Young, row by row and column by column):

    P(w) − min P  ≤  Σ c·(V(s) + V*(a) − a·s) + Σ (penalty(w) + penalty*(u) − u·w),

sums of terms that are not negative, so nothing cancels. Whatever a is, the right side is a bound; a good one has the
slopes of the optimum. Newton's steps from the stated weights look for them, with corners of loss and penalty rounded off
a little (Moreau): then slopes lie in their range, and the rounding costs no more than its own size. How the point was found proves nothing and
needs no trust; only ``bound`` is the proof.

A weight that nothing holds has penalty*(u) = ∞ unless u = 0, which rounding never gives. So the bound is taken over
weights whose scores lie within a radius ρ, at ρ·‖u‖ in columns made orthonormal; by convexity weights k times as far can
be better by k times the bound at most. Weights under L1 are no larger than P(w)/l1, or P(w) would be less.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .minimised_problem import Group, Problem
from .orthonormal_columns import Coordinates, coordinates
from .stated_claims import Rows
from .verify_losses import round_corner

EPS = float(np.finfo(float).eps)
LARGEST_MATRIX = 1500  # parameters up to which Newton's matrix is factored; beyond, conjugate gradients
CLOSE = 1e-9  # of the scale: a bound that needs no better
SMOOTH_STEPS, CORNER_STEPS = 30, 30
ROUNDINGS = tuple(
    10.0**-k for k in range(1, 11)
)  # of the mean loss: how far corners are rounded off, one after another


@dataclasses.dataclass(frozen=True)
class Found:
    """No weights have an objective below the stated one less ``gap`` and ``rounding``; some reach ``reached``."""

    gap: float
    rounding: float
    reached: float


def find_dual_point(problem: Problem, scores: Rows, excess: float, scale: float) -> Found:
    """The best bound on the way of Newton's steps; ``excess`` is the stated objective less the least loss of the rows."""
    search = Search(coordinates(problem), scores, excess, scale)
    search.run()
    return Found(search.gap, search.rounding, min(search.reached, excess))


class Search:
    """Newton's steps, and the best bound seen; the least loss that the rows allow is the first."""

    def __init__(self, at: Coordinates, scores: Rows, excess: float, scale: float) -> None:
        self.at, self.problem, self.stated_scores = at, at.problem, scores
        self.excess, self.scale = excess, scale
        self.gap, self.rounding, self.reached = excess, 0.0, excess
        self.weights, self.scores = at.stated, scores
        self.share = 0.1 * CLOSE  # of the scale: what rounding off the corners of the penalty may cost
        self.target = 1.0
        if self.problem.loss.of_residual:
            self.target = math.sqrt(float(self.problem.c @ self.problem.loss.y**2))

    def run(self) -> None:
        loss = self.problem.loss
        if self.excess <= CLOSE * self.scale:
            return
        if not loss.kinked:
            self.newton(loss, SMOOTH_STEPS)
        if loss.kinked or self.has_corners():
            for share in ROUNDINGS:
                if self.good():
                    break
                self.share = share
                self.newton(loss.smoothed(share * self.scale), CORNER_STEPS)
        self.reach()

    def has_corners(self) -> bool:
        at = self.at
        return bool(at.l1.any() or at.groups or np.isfinite(at.lower).any() or np.isfinite(at.upper).any())

    def good(self) -> bool:
        near = 20.0 * CLOSE if self.problem.loss.kinked else CLOSE
        return self.gap + self.rounding <= max(near * self.scale, 2.0 * self.rounding)

    def newton(self, loss: Any, most: int) -> None:
        """Damped Newton's steps on a smooth objective, ``most`` at most."""
        at, c, stalled = self.at, self.problem.c, 0
        if self.weights is not at.stated:  # scores that were added up step by step drift away from their weights
            self.scores = self.stated_scores + at.scores(self.weights - at.stated)
        widths: Rows | None = None
        for _ in range(most):
            slope = loss.slope(self.scores)
            pull = at.correlations(slope)
            before = self.gap + self.rounding
            self.bound(slope, pull)
            if not loss.kinked and self.good() and self.problem.loss is loss:
                break
            stalled = stalled + 1 if self.gap + self.rounding > 0.5 * before else 0
            if stalled > 5 and self.problem.loss is loss:
                break
            if widths is None:
                widths = self.penalty_widths(pull)
            used = ~self.resting(pull)
            gradient = np.where(used, pull + self.penalty_slope(widths), 0.0)
            step = self.step(loss, gradient, widths, used)
            moved, falls = at.scores(step), float((gradient * step).sum())
            if not (falls > 0.0 and np.isfinite(moved).all()):
                break
            if self.problem.loss.kinked:
                self.bound_along(loss, slope, moved)
            value = float(c @ loss.excess(self.scores)) + self.penalty_value(self.weights, widths)
            length = self.line_search(loss, value, step, moved, falls, widths)
            if length == 0.0:
                break
            self.weights, self.scores = self.weights - length * step, self.scores - length * moved
            if falls <= 1e-3 * CLOSE * self.scale and self.problem.loss is not loss:
                slope = loss.slope(self.scores)
                self.bound(slope, at.correlations(slope))
                break

    def line_search(self, loss: Any, value: float, step: Rows, moved: Rows, falls: float, widths: Rows) -> float:
        """A length at which the objective falls by a part of what its slope foretells (Armijo); 0 if there is none."""
        length, room = 1.0, 4.0 * EPS * abs(value)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(40):
                after = float(self.problem.c @ loss.excess(self.scores - length * moved))
                after += self.penalty_value(self.weights - length * step, widths)
                if after <= value - 1e-4 * length * falls + room:
                    return length
                length *= 0.5
        return 0.0

    # the bound

    def bound(self, slope: Rows, pull: Rows) -> None:
        """What the slopes a of the rows prove, a = V′ at the present scores; ``pull`` is Zᵀ(c∘a)."""
        at, c, loss = self.at, self.problem.c, self.problem.loss
        size = math.sqrt(float(c @ (slope * slope).reshape(len(c), -1).sum(axis=1)))
        noise = 4.0 * EPS * size  # the rounding of a sum over a column of length 1
        rows = float(c @ loss.divergence(self.stated_scores, self.scores, slope))
        rounding = float(c @ loss.divergence_rounding(self.stated_scores, self.scores, slope))
        rounding += size * 4.0 * EPS * float(np.abs(self.problem.stated).sum())  # of the stated scores themselves
        radius = 2.0 * max(float(np.linalg.norm(w[: at.free])) for w in (at.stated, self.weights)) + self.target
        free = pull[: at.free]
        loose = radius * float(np.linalg.norm(free)) + float((free * at.stated[: at.free]).sum())
        rounding += 2.0 * radius * noise * float(np.linalg.norm(at.spread)) * math.sqrt(pull.shape[1])
        held, held_rounding = self.held(-pull, noise)
        gap, rounding = rows + loose + held, rounding + held_rounding
        if np.isfinite(gap + rounding) and gap + rounding < self.gap + self.rounding:
            self.gap, self.rounding = gap, rounding

    def bound_along(self, loss: Any, slope: Rows, moved: Rows) -> None:
        """What the slopes prove that the step foretells: on a corner they are finer than scores, which round, can give."""
        sharp: Any = self.problem.loss
        foretold = np.clip(slope - loss.curvature(self.scores) * moved, sharp.low, sharp.high)
        self.bound(foretold, self.at.correlations(foretold))

    def held(self, u: Rows, noise: float) -> tuple[float, float]:
        """Σ penalty(w) + penalty*(u) − u·w of the held columns, and its rounding."""
        at = self.at
        alone = np.ones(len(u), dtype=bool)
        alone[: at.free] = False
        gap = rounding = 0.0
        for group in at.groups:
            alone[group.columns] = False
            w, most = at.stated[group.columns], self.excess / group.strength
            norm, pulled = float(np.linalg.norm(w)), float(np.linalg.norm(u[group.columns]))
            own = group.strength * norm - float((u[group.columns] * w).sum())
            gap += max(own, 0.0) + most * max(pulled - group.strength, 0.0)
            rounding += noise * math.sqrt(len(w)) * (norm + most * (pulled + noise >= group.strength))
        w, u = at.stated[alone], u[alone]
        l1, l2, lower, upper = (v[alone][:, None] for v in (at.l1, at.l2, at.lower, at.upper))
        radius = far = 2.0 * np.maximum(np.abs(w), np.abs(self.weights[alone])) + self.target
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(l1 > 0.0, self.excess / l1, far)
            far = np.where(l2 > 0.0, np.minimum(math.inf, np.where(l1 > 0.0, far, math.inf)), far)
        low, high = np.maximum(lower, -far), np.minimum(upper, far)
        # What is subtracted is nearly as large: together first, a column at a time.
        value = l1 * np.abs(w) + 0.5 * l2 * w * w - u * w
        sup, best = self.conjugate(u, l1, l2, low, high)
        inflated = [self.conjugate(u + sign * noise, l1, l2, low, high)[0] for sign in (-1.0, 1.0)]
        gap += float(np.maximum(value + sup, 0.0).sum())
        outside = np.maximum(np.maximum(*inflated) - sup, 0.0)
        # A ridge that hardly holds a weight would charge noise²/l2; within the radius noise counts noise·|w|, no more.
        outside = np.where(l1 > 0.0, outside, np.minimum(outside, noise * radius))
        charge = float(outside.sum())
        if charge > CLOSE * self.scale:
            charge = min(charge, self.charge_by_scores(np.flatnonzero(alone)[outside.any(axis=1)], noise))
        rounding += charge + noise * float(np.abs(w).sum())
        rounding += 4.0 * EPS * float((np.abs(u * w) + np.abs(u * best)).sum())
        return gap, rounding

    def charge_by_scores(self, held: Rows, noise: float) -> float:
        """What rounding of u can cost over weights of these columns whose scores lie within a radius, as for free ones.

        A light L1 penalty bounds weights by far more than they are: Σ e·w ≤ ‖e‖/σ·‖scores‖, σ the least length that a
        combination of the columns has.
        """
        at = self.at
        if len(held) > LARGEST_MATRIX:
            return math.inf
        columns = at.columns[:, np.r_[np.arange(at.free), held]]
        least = float(np.linalg.eigvalsh((columns * self.problem.c[:, None]).T @ columns)[0])
        if least <= 1e-10:
            return math.inf
        sizes = np.maximum(np.abs(at.stated), np.abs(self.weights))[np.r_[np.arange(at.free), held]]
        return noise * math.sqrt(columns.shape[1] / least) * (2.0 * float(sizes.sum()) + self.target)

    @staticmethod
    def conjugate(u: Rows, l1: Rows, l2: Rows, low: Rows, high: Rows) -> tuple[Rows, Rows]:
        """The largest u·w − l1·|w| − ½l2·w² over low ≤ w ≤ high, and where it is."""
        beyond = np.sign(u) * np.maximum(np.abs(u) - l1, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.where(l2 > 0.0, beyond / l2, np.where(beyond == 0.0, 0.0, np.sign(beyond) * math.inf))
        best = np.clip(best, low, high)
        return u * best - l1 * np.abs(best) - 0.5 * l2 * best * best, best

    # the penalty, with its corners rounded off

    def penalty_widths(self, pull: Rows) -> Rows:
        """How far a bound may be overstepped by what pulls at a weight: all of them together cost ``share``."""
        steep = np.maximum(self.at.l1[:, None], np.abs(pull))
        return self.corner_cost() / np.maximum(steep, 1e-150) ** 2

    def corner_cost(self) -> float:
        return self.share * self.scale / self.weights.size

    def penalty_value(self, w: Rows, widths: Rows) -> float:
        at = self.at
        out = np.minimum(w - at.lower[:, None], 0.0) ** 2 + np.maximum(w - at.upper[:, None], 0.0) ** 2
        total = float((0.5 * at.l2[:, None] * w * w + 0.5 * out / widths).sum())
        total += float(round_corner(w, at.l1[:, None], self.corner_cost())[0].sum())
        for group in at.groups:
            total += float(round_corner(np.linalg.norm(w[group.columns]), group.strength, self.corner_cost())[0])
        return total

    def penalty_slope(self, widths: Rows) -> Rows:
        at, w = self.at, self.weights
        slope = round_corner(w, at.l1[:, None], self.corner_cost())[1] + at.l2[:, None] * w
        slope += (np.minimum(w - at.lower[:, None], 0.0) + np.maximum(w - at.upper[:, None], 0.0)) / widths
        for group in at.groups:
            norm = float(np.linalg.norm(w[group.columns]))
            steep = float(round_corner(norm, group.strength, self.corner_cost())[1])
            slope[group.columns] += w[group.columns] * (steep / norm if norm else 0.0)
        return slope

    def penalty_curvature(self, widths: Rows) -> Rows:
        """Of each weight alone; a group's norm counts by its curvature across, which is the larger one."""
        at, w = self.at, self.weights
        outside = (w < at.lower[:, None]) | (w > at.upper[:, None])
        found = at.l2[:, None] + outside / widths + round_corner(w, at.l1[:, None], self.corner_cost())[2]
        for group in at.groups:
            found[group.columns] += self.across(group)
        return found

    def across(self, group: Group) -> float:
        """How a group's norm curves across its own direction: slope/norm, at 0 its curvature."""
        norm = float(np.linalg.norm(self.weights[group.columns]))
        _, steep, curved = round_corner(norm, group.strength, self.corner_cost())
        return float(steep) / norm if norm else float(curved)

    def resting(self, pull: Rows) -> Rows:
        """The weights on a corner or a bound that nothing pulls away from it."""
        at, w = self.at, self.weights
        l1, lower, upper = at.l1[:, None], at.lower[:, None], at.upper[:, None]
        slope = pull + at.l2[:, None] * w
        rest = (w == 0.0) & (l1 > 0.0) & (np.abs(slope) <= l1)
        rest |= (w == lower) & (slope + np.where(w >= 0.0, l1, -l1) >= 0.0)
        rest |= (w == upper) & (slope + np.where(w > 0.0, l1, -l1) <= 0.0)
        for group in at.groups:
            if not w[group.columns].any() and np.linalg.norm(pull[group.columns]) <= group.strength:
                rest[group.columns] = True
        return rest

    # Newton's step

    def step(self, loss: Any, gradient: Rows, widths: Rows, used: Rows) -> Rows:
        """H⁻¹·gradient over the weights that are used."""
        diagonal = self.penalty_curvature(widths)
        if int(used.sum()) > LARGEST_MATRIX:
            return self.conjugate_gradients(loss, gradient, diagonal, used)
        step = np.zeros(used.shape)
        matrix = self.group_curvature(self.loss_curvature(loss, used), used)
        matrix[np.diag_indices(len(matrix))] += diagonal[used]
        found = by_cholesky(matrix, gradient[used])
        if found is None and used.shape[1] == 1 and not self.at.groups:
            found = self.by_rows(loss, gradient[used], diagonal[used], used[:, 0])
        step[used] = by_eigenvectors(matrix, gradient[used]) if found is None else found
        return step

    def by_rows(self, loss: Any, gradient: Rows, diagonal: Rows, used: Rows) -> Rows:
        """The same from the rows, where columns that are nearly parallel lose their difference in the matrix."""
        root = np.sqrt(self.problem.c * loss.curvature(self.scores))
        rows = root[:, None] * self.at.columns[:, used]
        triangle = np.asarray(np.linalg.qr(np.vstack([rows, np.diag(np.sqrt(diagonal))]), mode="r"))
        scale = np.sqrt(np.maximum((triangle * triangle).sum(axis=0), 1e-300))
        _, lengths, turned = np.linalg.svd(triangle / scale)
        counted = lengths > EPS * len(scale) * lengths[0]
        turned, lengths = turned[: len(lengths)][counted], lengths[counted]
        return turned.T @ (turned @ (gradient / scale) / lengths**2) / scale

    def loss_curvature(self, loss: Any, used: Rows) -> Rows:
        """Zᵀ(c∘V″)Z over the weights that are used, classes side by side."""
        columns, c = self.at.columns, self.problem.c
        if used.shape[1] == 1:
            curve = c * loss.curvature(self.scores)
            some, these = curve > 0.0, used[:, 0]
            if 2 * int(some.sum()) < len(c):  # corners curve at few rows
                columns, curve = columns[some], curve[some]
            columns = columns if these.all() else columns[:, these]
            return (columns * curve[:, None]).T @ columns
        p, places = loss.probabilities(self.scores), [np.flatnonzero(used[:, k]) for k in range(used.shape[1])]
        blocks = []
        for k, rows in enumerate(places):
            line = []
            for m, others in enumerate(places):
                weight = c * p[:, k] * ((k == m) - p[:, m])
                line.append((columns[:, rows] * weight[:, None]).T @ columns[:, others])
            blocks.append(line)
        found = np.block(blocks)
        order = np.lexsort((np.concatenate([np.full(len(r), k) for k, r in enumerate(places)]), np.concatenate(places)))
        return found[np.ix_(order, order)]

    def group_curvature(self, matrix: Rows, used: Rows) -> Rows:
        """Along a group's own direction its norm curves less than across it."""
        place = np.full(used.shape, -1)
        place[used] = np.arange(int(used.sum()))
        for group in self.at.groups:
            w = self.weights[group.columns]
            norm = float(np.linalg.norm(w))
            if norm > 0.0 and used[group.columns].all():
                along, rows = (w / norm).ravel(), place[group.columns].ravel()
                less = self.across(group) - float(round_corner(norm, group.strength, self.corner_cost())[2])
                matrix[np.ix_(rows, rows)] -= less * np.outer(along, along)
        return matrix

    def conjugate_gradients(self, loss: Any, gradient: Rows, diagonal: Rows, used: Rows) -> Rows:
        """The same without the matrix, 100 products at most."""
        c, many = self.problem.c, used.shape[1]
        p = loss.probabilities(self.scores) if many > 1 else None
        curve = None if many > 1 else c * loss.curvature(self.scores)

        def times(v: Rows) -> Rows:
            moved = self.at.scores(v)
            if p is None:
                bent = curve * moved
            else:
                bent = c[:, None] * p * (moved - (p * moved).sum(axis=1, keepdims=True))
            image = self.at.columns.T @ bent.reshape(len(c), -1)
            return np.where(used, image + diagonal * v, 0.0)

        size = diagonal + float((c if curve is None else curve).sum())  # columns of length 1
        x, left = np.zeros(used.shape), gradient
        scaled = left / size
        way, product = scaled, float((left * scaled).sum())
        first = product
        for _ in range(100):
            image = times(way)
            curved = float((way * image).sum())
            if not (curved > 0.0 and product > 1e-16 * first):
                break
            x, left = x + product / curved * way, left - product / curved * image
            scaled = left / size
            before, product = product, float((left * scaled).sum())
            way = scaled + product / before * way
        return x

    def reach(self) -> None:
        """The objective of the weights that the steps ended with, corners and bounds as they are."""
        at = self.at
        weights = np.clip(self.weights, at.lower[:, None], at.upper[:, None])
        scores = at.scores(weights)
        value = float(self.problem.c @ self.problem.loss.excess(scores))
        value += float((at.l1 @ np.abs(weights) + 0.5 * at.l2 @ weights**2).sum())
        value += sum(group.strength * float(np.linalg.norm(weights[group.columns])) for group in at.groups)
        if math.isfinite(value):
            self.reached = min(self.reached, value)


def by_cholesky(matrix: Rows, right: Rows) -> Rows | None:
    """The solution of a positive definite system; None where too few digits would be left."""
    if not len(matrix):
        return np.zeros(0)
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    try:
        factor = np.linalg.cholesky(matrix / root / root[:, None])
    except np.linalg.LinAlgError:
        return None
    if float(np.diag(factor).min()) <= 1e-5:
        return None
    return np.linalg.solve(factor.T, np.linalg.solve(factor, right / root)) / root


def by_eigenvectors(matrix: Rows, right: Rows) -> Rows:
    """The solution of least norm of a positive semidefinite system."""
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix / root / root[:, None])
    counted = values > 1e-13 * max(float(values[-1]), 1e-300)
    return vectors[:, counted] @ ((vectors[:, counted].T @ (right / root)) / values[counted]) / root
