"""Block coordinate descent: the columns of a group move together.

On the quadratic model of the loss at a point, block B takes proximal gradient steps with its own λ_max(H_BB), the
others held; sweeps over the blocks repeat until the model is solved, then a line search. Without groups the blocks are
runs of eight columns, and a free parameter (the intercept) is a block by itself, solved exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import dense
from .gradient import Patience, curved, descend_to, profile_intercept
from .risk import Point, Risk
from .scaled import ScaledPenalty

RUN = 8
CHUNK = 2000  # parameters beyond which blocks read their columns instead of a formed matrix


def blocks_of(risk: Risk) -> list[np.ndarray]:
    """Groups if there are any, otherwise runs of columns; then the intercept."""
    d = risk.design.d
    blocks = list(risk.penalty.groups) or [np.arange(k, min(k + RUN, d)) for k in range(0, d, RUN)]
    return [*blocks, np.array([d])] if risk.design.intercept else blocks


def _restricted(penalty: ScaledPenalty, block: np.ndarray, k: int) -> ScaledPenalty:
    part = ScaledPenalty(penalty.l1[block], penalty.l2[block], penalty.lower[block], penalty.upper[block])
    if penalty.groups and k < len(penalty.groups):
        part.groups, part.strengths = [np.arange(len(block))], penalty.strengths[k : k + 1]
    return part


def block(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Block coordinate descent on successive quadratic models."""
    blocks = blocks_of(risk)
    parts = [_restricted(risk.penalty, members, k) for k, members in enumerate(blocks)]
    point = profile_intercept(risk, risk.point(risk.penalty.prox(start, 0.0)))
    quadratic = getattr(risk.loss, "name", "") == "squared"
    formed = risk.size <= CHUNK
    H: np.ndarray | None = None
    own: list[np.ndarray] = []
    patience = Patience(risk)
    while True:
        yield point
        h = point.curvature
        if H is None or not quadratic:
            if formed:
                H = curved(risk, risk.design.hessian(h))
                own = [H[np.ix_(b, b)] for b in blocks]
            else:
                H = np.zeros((0, 0))
                own = [risk.design.hessian(h, b) for b in blocks]
        theta, q = point.theta.copy(), risk.gradient(point).copy()
        change = np.zeros(risk.design.n)
        sizes = [float(dense.eigvalsh(m)[-1]) for m in own]
        first = 0.0
        for _ in range(200 if formed else 3):
            largest = 0.0
            for members, part, matrix, size in zip(blocks, parts, own, sizes, strict=True):
                if size <= 0.0:
                    continue
                columns = None if formed else risk.design.dense_columns(members)
                slope = q[members] if columns is None else q[members] + columns.T @ (h * change)
                old = theta[members]
                new = _minimised(part, old, slope, matrix, size)
                move = new - old
                if not move.any():
                    continue
                theta[members] = new
                if columns is None:
                    q += H[:, members] @ move
                else:
                    change += columns @ move
                largest = max(largest, size * float(move @ move))
            first = max(first, largest)
            if largest <= 1e-12 * first:
                break
        image = risk.design.scores(theta - point.theta) if formed else change
        following = descend_to(risk, point, theta, image)
        if following is not None:
            following = profile_intercept(risk, following)
        if following is None or patience.over(point, following):
            return
        point = following


def _minimised(part: ScaledPenalty, old: np.ndarray, slope: np.ndarray, matrix: np.ndarray, size: float) -> np.ndarray:
    """A few proximal gradient steps on one block's model."""
    new = old
    for _ in range(10):
        g = slope + matrix @ (new - old)
        following = part.prox(new - g / size, 1.0 / size)
        moved = np.abs(following - new).max(initial=0.0)
        new = following
        if moved <= 1e-12 * max(1.0, float(np.abs(new).max(initial=0.0))):
            break
    return new
