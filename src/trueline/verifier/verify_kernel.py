"""Kernel ridge regression: ½Σw(y − f)² + ½α‖f‖² at its minimum over the functions that the model can be.

f(x) = b + Σ c_i K(x, x_i). With all rows as points any c with 1·c = 0 is a dual point, and weak duality bounds the
distance to the minimum by ½Σ w(r − αc/w)². With landmarks or random features f is linear in finitely many features:
the objective is a quadratic with gradient g and Hessian H, and exactly ½gᵀH⁻¹g above its minimum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import Status
from ..certificates.optimality import PROVEN_GAP, gap_status, relative_gap
from ..errors import ModelError
from .agreement import EPS, same_predictions, same_status
from .kernel_matrices import is_inner_product, kernel_matrix
from .stated_claims import Claims, Given, Rows

KEPT = 1e-12  # directions of the landmarks' span below this part of the largest are none
INNER_PRODUCT = "the kernel is an inner product"


class Expansion(NamedTuple):
    """The model on its rows: features, their inner products, residuals, and what rounding may do to a row's score.

    ``own`` is the rounding of the numbers here, with sums in extended precision; ``room`` that of the model's.
    ``feature_room`` and ``product_rooms`` are the model's rounding of each feature, and of each inner product.
    """

    features: Rows
    products: Rows
    residual: Rows
    own: Rows
    room: Rows
    feature_room: Rows
    product_rooms: Rows

    @property
    def product_room(self) -> float:
        """The rounding of the matrix of inner products, as its norm."""
        return float(np.linalg.norm(self.product_rooms))


def kernel_ridge(out: Claims, given: Given) -> None:
    """The objective, its distance from the minimum, the leave-one-out error, and the predictions of the model."""
    record, proof, X, y, weights = given
    counted = weights > 0.0
    rows, target, w, alpha = X[counted], y[counted].astype(float), weights[counted], float(record.alpha)
    if not 0.0 < alpha < math.inf or record.form not in ("exact", "nystrom", "random_features"):
        raise ModelError(f"alpha is {alpha} and the form {record.form!r}: no kernel ridge has these", where="model")
    model = _expansion(record, rows, target)
    out.recomputed |= {"coef", "intercept"} | ({"points"} if record.form == "exact" else set())
    fitted = target - model.residual
    same_predictions(out, record.predict(X)[counted], fitted, model.room)
    norm = float(record.coef @ model.products @ record.coef)
    primal = 0.5 * float(w @ model.residual**2) + 0.5 * alpha * norm
    norm_room = (len(record.coef) + 2) * EPS * float(np.abs(record.coef) @ np.abs(model.products) @ np.abs(record.coef))
    primal_room = float(w @ (np.abs(model.residual) * model.room + model.room**2)) + alpha * norm_room
    primal_room += len(w) * EPS * primal
    out.equals("primal", primal, primal_room)
    if record.form == "exact":
        positive = is_inner_product(record.shape, model.features)
        gap, gap_own, gap_room = _dual_gap(out, record, target, w, alpha, model)
    else:
        positive = is_inner_product(record.shape, model.products)
        gap, gap_own, gap_room = _quadratic_gap(out, record, target, w, alpha, model)
    out.assumption(INNER_PRODUCT, positive)
    _gap_claims(out, record, primal, primal_room, gap, gap_room)
    null = 0.5 * float(w @ (target - _level(record, target, w)) ** 2)
    relative = relative_gap(gap + gap_own, primal, null, 0.0)
    claimed = relative_gap(float(proof.gap), float(proof.primal), null, 0.0)
    out.equals("relative_gap", claimed, 1e-9 * claimed)
    same_status(out, gap_status(max(gap, 0.0), relative, PROVEN_GAP) if positive else Status.VOID)


def _level(record: Any, target: Rows, w: Rows) -> float:
    """The best constant, where the model has one."""
    return float(w @ target / w.sum()) if record.intercept != 0.0 else 0.0


def _expansion(record: Any, rows: Rows, target: Rows) -> Expansion:
    coef, constant = record.coef, float(record.intercept)
    if record.form == "exact" and not np.array_equal(record.points, rows):
        raise ModelError("the points of the expansion are not the training rows", where="model")
    if record.form == "nystrom" and not {*map(tuple, record.points.tolist())} <= {*map(tuple, rows.tolist())}:
        raise ModelError("the landmarks are not training rows", where="model")
    if record.form == "random_features":
        if record.phases is None or len(record.phases) != len(coef):
            raise ModelError("random features without a phase each are none", where="model")
        angle = rows @ record.points.T + record.phases
        size = math.sqrt(2.0 / len(coef))
        features, products = np.cos(angle) * size, np.eye(len(coef))
        turned = np.abs(rows) @ np.abs(record.points).T + np.abs(record.phases)
        rounding = np.minimum((rows.shape[1] + 2) * EPS * turned + 2.0 * EPS, 2.0) * size
        entries = 4.0 * EPS * np.ones_like(angle) * size  # the features are what was computed here
        product_rooms = np.zeros_like(products)
    else:
        features, entries, rounding = kernel_matrix(record.shape, rows, record.points)
        products, product_rooms = features, rounding
        if record.form != "exact":
            products, _, product_rooms = kernel_matrix(record.shape, record.points, record.points)
    residual = target - np.longdouble(constant) - np.asarray(features, dtype=np.longdouble) @ coef
    sums = np.abs(features) @ np.abs(coef) + abs(constant) + np.abs(target)
    room = rounding @ np.abs(coef) + (len(coef) + 4) * EPS * sums
    long = float(np.finfo(np.longdouble).eps)
    own = entries @ np.abs(coef) + (len(coef) + 4) * long * sums + EPS * np.abs(residual).astype(float)
    return Expansion(features, products, residual.astype(float), own, room, rounding, product_rooms)


def _dual_gap(
    out: Claims, record: Any, target: Rows, w: Rows, alpha: float, model: Expansion
) -> tuple[float, float, float]:
    """Weak duality with the expansion itself as the dual point; and leave-one-out by the inverse of the system."""
    coef, constant = record.coef, float(record.intercept)
    free = constant != 0.0
    # With a constant a dual point sums to 0. The rounding of the sum is taken from the expansion, in extended precision.
    long = np.asarray(coef, dtype=np.longdouble)
    total = long.sum() if free else np.longdouble(0.0)
    shift = np.asarray(w * total / w.sum(), dtype=float)
    point = long - w * total / np.asarray(w, dtype=np.longdouble).sum()
    miss = np.asarray(model.residual - alpha * point / w, dtype=float)
    gap = 0.5 * float(w @ miss**2) + 0.5 * alpha * max(float(shift @ model.features @ shift), 0.0)
    left_over = alpha * abs(constant * float(point.sum())) if free else 0.0
    gap_own, gap_room = (float(w @ (np.abs(miss) * e + 0.5 * e**2)) for e in (model.own, model.room))
    largest = max(float(np.abs(target).max()), 1e-300)
    out.equals("residual", float(np.abs(miss).max()) / largest, 2.0 * float(model.room.max()) / largest)
    system = model.features + np.diag(alpha / w)
    if free:
        # c = S⁻¹(y − b): where y is nearly constant the two parts cancel, and the rounding of each of them stays.
        parts = abs(constant) * float(np.abs(np.linalg.inv(system).sum(axis=1)).sum())
        balanced = abs(float(total)) <= (len(coef) + 2) * EPS * (float(np.abs(coef).sum()) + parts)
        out.holds("dual", float(total), balanced, "coefficients sum to 0: a dual point")
        gap_own, gap_room = gap_own + left_over, gap_room + left_over
    condition = (float(np.abs(model.features).sum(axis=1).max()) + alpha / w.min()) / (alpha / w.max())
    if free:
        border = np.ones((len(w), 1))
        system = np.block([[system, border], [border.T, np.zeros((1, 1))]])
    spread = np.diag(np.linalg.inv(system))[: len(w)]
    left = float(np.average((coef / spread) ** 2, weights=w))
    # The model's own kernel matrix may have lost digits of far columns: ‖δK‖·‖S⁻¹‖ of the inverse are lost with them.
    lost = float(model.feature_room.sum(axis=1).max()) * float(w.max()) / alpha
    out.equals("leave_one_out", left, (64.0 * len(w) * EPS * condition + 4.0 * lost) * left)
    return gap, gap_own, gap_room


def _quadratic_gap(
    out: Claims, record: Any, target: Rows, w: Rows, alpha: float, model: Expansion
) -> tuple[float, float, float]:
    """½gᵀH⁻¹g in features whose inner products are 1 and 0; and leave-one-out by leverages.

    A direction of the landmarks' span that rounding puts on either side of the limit may be one of the model's or not:
    of the possible spans the one is taken whose leave-one-out error is the claimed one.
    """
    values, vectors = np.linalg.eigh(model.products)
    noise = len(values) * EPS * values[-1] + model.product_room
    surely, perhaps = (int((values > KEPT * values[-1] + sign * noise).sum()) for sign in (1.0, -1.0))
    claimed = float(out.proof.leave_one_out)
    spans = [
        _span(record, target, w, alpha, model, values[-rank:], vectors[:, -rank:])
        for rank in range(max(surely, 1), perhaps + 1)
    ]
    span = min(spans, key=lambda one: abs(one.left - claimed))
    out.equals("residual", span.residual, span.residual_room)
    out.equals("leave_one_out", span.left, span.left_room)
    return span.gap, span.gap_own, span.gap_room


class Span(NamedTuple):
    """What is found over one span of features: how far the minimum is, and the leave-one-out error, with rounding."""

    gap: float
    gap_own: float
    gap_room: float
    residual: float
    residual_room: float
    left: float
    left_room: float


def _span(record: Any, target: Rows, w: Rows, alpha: float, model: Expansion, values: Rows, vectors: Rows) -> Span:
    """The quadratic over the features of these directions of the landmarks' products."""
    whiten = vectors / np.sqrt(values)
    features, theta = model.features @ whiten, np.sqrt(values) * (vectors.T @ record.coef)
    free = record.intercept != 0.0
    middle = w @ features / w.sum() if free else np.zeros(features.shape[1])
    centred = features - middle
    level = float(w @ model.residual / w.sum()) if free else 0.0
    # A constant takes up the mean of the residuals: what is left to gain is in the centred features.
    gradient = centred.T @ (w * (model.residual - level)) - alpha * theta
    weighed = centred * w[:, None]
    hessian = weighed.T @ centred + alpha * np.eye(len(theta))
    gain = float(gradient @ np.linalg.solve(hessian, gradient)) + float(w.sum()) * level**2
    # A basis that divides by small roots amplifies the rounding of the coefficients.
    turned = alpha * len(theta) * EPS * np.abs(theta).sum() / math.sqrt(float(values.min() / values[-1]))
    entries = (len(record.coef) * EPS * np.abs(model.features) + model.feature_room) @ np.abs(whiten)
    turned = turned + entries.T @ (w * np.abs(model.residual))
    turned = turned + alpha * np.abs(whiten).T @ (model.product_rooms @ np.abs(record.coef))

    def moved(room: Rows) -> tuple[Rows, float]:
        """How far rounding of the rows' scores moves the gradient, and the gap."""
        lost = np.abs(centred).T @ (w * (room + len(w) * EPS * np.abs(model.residual))) + turned
        size = math.sqrt(float(lost @ np.linalg.solve(hessian, lost)) + float(w @ room) ** 2 / float(w.sum()))
        return lost, math.sqrt(max(gain, 0.0)) * size + 0.5 * size**2

    gap_own, (lost, gap_room) = moved(model.own)[1], moved(model.room)
    start = centred.T @ (w * (target - (w @ target / w.sum() if free else 0.0)))
    length = max(float(np.linalg.norm(start)), 1e-300)
    inverse = np.linalg.inv(hessian)
    own = w * np.einsum("ij,jk,ik->i", centred, inverse, centred) + (w / w.sum() if free else 0.0)
    kept = np.maximum(1.0 - own, 1e-12)
    left = float(np.average((model.residual / kept) ** 2, weights=w))
    # Leverages move with the features (in units of H), with the directions themselves, and with the sums of H.
    drift = math.sqrt(float(w @ np.einsum("ij,jk,ik->i", entries, np.abs(inverse), entries)))
    condition = float(np.trace(hessian)) / alpha / float(values.min() / values[-1])
    relative = 64.0 * len(w) * EPS * condition + 8.0 * drift + 8.0 * model.product_room / float(values.min())
    each = (model.room + np.abs(model.residual) * np.minimum(relative * own + len(w) * EPS, 1.0) / kept) / kept
    each = each + relative * np.abs(target - model.residual - (w @ target / w.sum() if free else 0.0)) / kept
    lost_left = float(np.average(each**2, weights=w))
    return Span(
        0.5 * max(gain, 0.0), gap_own, gap_room,
        float(np.linalg.norm(gradient)) / length, 2.0 * float(np.linalg.norm(lost)) / length,
        left, 2.0 * math.sqrt(left * lost_left) + lost_left + 1e-300,
    )  # fmt: skip


def _gap_claims(out: Claims, record: Any, primal: float, primal_room: float, gap: float, gap_room: float) -> None:
    """Primal − dual = gap, the gap not below the one found, the dual value below the minimum."""
    proof = out.proof
    told = (proof.primal, proof.dual, proof.gap)
    finite = all(isinstance(value, (int, float)) and math.isfinite(value) for value in told)
    together = finite and abs(proof.primal - proof.dual - proof.gap) <= 4.0 * EPS * (
        abs(proof.primal) + abs(proof.dual)
    )
    out.at_least("gap", gap, gap_room)
    out.holds("gap", gap, together and proof.gap >= 0.0, "primal − dual")
    out.at_most("dual", primal - gap, primal_room + gap + gap_room)
    steepness = math.sqrt(2.0 * max(float(proof.gap), 0.0) * (1.0 if record.form == "exact" else float(record.alpha)))
    out.equals("gradient_norm", steepness, 16.0 * EPS * steepness)
