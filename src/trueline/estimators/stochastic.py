"""Method "stochastic" of ``tl.minimize``: the online engine run over shuffled epochs, each epoch certified as a batch point.

The update is implicit, so no rate can make it diverge; the rate falls as 1/√t. Without a penalty the rows are
standardised; with one they are used as they are, since the engine knows one strength for all coefficients. What is
shown is the better of the last weights and their mean over the later half of the epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from ..batch.methods import advised
from ..batch.risk import Outcome, Point, Risk, run
from ..errors import UsageError
from ..online.model import OnlineModel
from ..online.rates import Rate


def refuse(risk: Risk) -> None:
    """Say what a stochastic run cannot take."""
    penalty, d = risk.penalty, risk.design.d
    if penalty.bounded or not penalty.separable:
        raise UsageError("method 'stochastic' needs L1, L2 or no penalty; use 'fista' or 'coordinate'", where="method")
    if risk.offset is not None:
        raise UsageError("method 'stochastic' takes no offset; use 'newton' or 'fista'", where="method")
    for strengths in (penalty.l1[:d], penalty.l2[:d]):
        if np.ptp(strengths) > 1e-12 * strengths.max(initial=0.0):
            raise UsageError("method 'stochastic' needs one penalty for all coefficients; use 'fista'", where="method")


def stochastic(
    risk: Risk,
    start: np.ndarray,
    named: dict[str, Any],
    *,
    max_iter: int | None,
    tol: float,
    stop: str,
    callback: Any,
) -> Outcome:
    """Run the engine under the batch driver; 50 epochs unless told otherwise."""
    refuse(risk)
    rate = named.get("rate")
    if "step" in named:
        raise UsageError("method 'stochastic' takes no step=: its updates are implicit; leave it out", where="step")
    if rate is not None and not (isinstance(rate, Real) and 0.0 < float(rate) < math.inf):
        raise UsageError(f"rate is {rate!r}; a positive number is accepted", where="rate")
    if stop == "decrement":
        raise UsageError("stop='decrement' needs method 'newton' or 'irls', not 'stochastic'; use 'gap'", where="stop")
    most = 50 if max_iter is None else max_iter
    outcome = run(
        risk,
        epochs(risk, start, None if rate is None else float(rate)),
        stop=stop,
        tol=tol,
        max_iter=most,
        callback=callback,
    )
    return advised(outcome, "stochastic", tol, "", stop)


def epochs(risk: Risk, start: np.ndarray, rate: float | None) -> Iterator[Point]:
    """One point an epoch."""
    design, n, d = risk.design, risk.design.n, risk.design.d
    if design.sparse:
        from scipy.sparse import diags_array

        X: Any = (design.X.tocsr() @ diags_array(1.0 / design.scale)).tocsr()
        norm2 = float(X.multiply(X).sum()) / n
    else:
        X = np.ascontiguousarray((design.X - design.shift) / design.scale, dtype=float)
        norm2 = float(np.einsum("ij,ij->", X, X)) / n
    bound = float(getattr(risk.loss, "curvature_bound", lambda: math.inf)())
    base = rate if rate is not None else 10.0 / ((bound if math.isfinite(bound) else 1.0) * (norm2 + 1.0))
    model = OnlineModel(
        risk.loss,
        "implicit",
        Rate(base, 0.5),
        l1=float(risk.penalty.l1[0]),
        l2=float(risk.penalty.l2[0]),
        intercept=design.intercept,
        certificate=False,
        names=[f"x{j}" for j in range(d)],
    )
    dual = model.heads[0].array("dual")
    dual[1:] = start[:d]
    if design.intercept:
        dual[0] = start[d]
    shuffle = np.random.default_rng(0)
    weights = None if np.ptp(risk.c) == 0.0 else risk.c * n
    seen: list[np.ndarray] = []
    yield risk.point(start)
    while True:
        model.learn(X, risk.y, weights, order=shuffle.permutation(n))
        design.passes += 1.0
        read = model.weights()
        seen.append(np.append(read[1:], read[0]) if design.intercept else read[1:])
        last = risk.point(seen[-1])
        mean = risk.point(np.mean(seen[len(seen) // 2 :], axis=0))
        yield min(last, mean, key=lambda one: one.objective)
