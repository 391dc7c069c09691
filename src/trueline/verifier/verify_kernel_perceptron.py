"""The perceptron in its dual form: every round again, the rows that it keeps, and N ≤ (R‖w‖ + ‖ξ‖₂)² in the kernel's space.

f(x) = Σ y_j (K(x_j, x) + e) over the rounds of mistakes, y·f(x) ≤ 0; e is 1 where the model has a constant. With a
budget the oldest row leaves. A score that rounding can bring to either side of 0 is a mistake or none: there the record's
own rows tell which, and both are what the rule says to within rounding.

The comparator is w = Σ a_j φ(x_j): ‖w‖² = aᵀGa, and the margin of row i is y_i (Ga)_i, with G the kernel matrix of the
rows of mistakes. The model finds them by eigenvectors of G, with directions down to 1e-10 of the largest; its numbers
agree with these to within rows·EPS·tr(G)·‖a‖².
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import Status
from ..certificates.regret import bound_status
from ..errors import ModelError
from .agreement import EPS, same_predictions, same_status
from .kernel_matrices import is_inner_product, kernel_matrix
from .stated_claims import Claims, Given, Rows, classes_of, drawn_order, is_finite

ROUNDED_UP = 2e-12  # learners raise their bounds by 1e-12 of themselves
MOST_ROUNDS = 10**8
TRIALS = 64  # replays in which one round is decided otherwise
STAYS, INNER_PRODUCT = "every mistake stays in the expansion", "the kernel is an inner product"


class Replay(NamedTuple):
    """One learner of ±1: the rows that it holds at the end, oldest first, its mistakes, and its scores on the rows."""

    held: list[int]
    signs: Rows
    mistakes: int
    loss: float
    loss_room: float
    scores: Rows
    room: Rows
    unsure: list[int]  # rounds that rounding decided, and of which the record tells nothing


def kernel_perceptron(out: Claims, given: Given) -> None:
    """Every head is replayed; the certificate is that of one of them."""
    record, proof, X, y, c = given
    if not (c == 1.0).all():
        raise ModelError("the kernel perceptron counts rounds and takes no weights; verify it without", where="weights")
    heads, extra = record.heads, float(record.extra)
    classes = list(record.classes)
    if extra not in (0.0, 1.0) or len(heads) != (1 if len(classes) == 2 else len(classes)):
        raise ModelError(
            "the kernel perceptron has one head a class, or one for two, and a constant of 0 or 1", where="model"
        )
    if record.budget is not None and not (isinstance(record.budget, int) and record.budget > 0):
        raise ModelError(f"a budget of {record.budget} rows is none", where="model")
    index = classes_of(record, y, len(classes))
    distinct = len(set(classes)) == len(classes)
    out.of_model("classes", tuple(classes), None, distinct, "every label in the rows, each once")
    passes = _passes(out, record, proof, len(X))
    if not passes:
        out.covered |= set(proof.checked)
        return
    targets = [np.where(index == k, 1.0, -1.0) for k in ((1,) if len(heads) == 1 else range(len(heads)))]
    order = drawn_order(record, len(X), passes)
    runs = [matching_run(record, head, X, target, order, extra) for head, target in zip(heads, targets, strict=True)]
    for number, (head, run) in enumerate(zip(heads, runs, strict=True)):
        _check_state(out, number, head, run, X, record.budget)
    scores, room = (np.column_stack([getattr(run, name) for run in runs]) for name in ("scores", "room"))
    flat = len(runs) == 1
    same_predictions(out, record.predict(X), scores[:, 0] if flat else scores, room[:, 0] if flat else room)
    loss, loss_room = sum(run.loss for run in runs), sum(run.loss_room for run in runs)
    if record.progress:  # files of older versions have neither
        out.of_model("loss", record.loss, loss, is_finite(record.loss) and abs(record.loss - loss) <= loss_room)
    _check_claims(out, record, runs, X)


def _passes(out: Claims, record: Any, proof: Any, n: int) -> int:
    """How often the rows were learned: the record counts its examples."""
    examples = record.examples
    whole = isinstance(examples, int) and examples > 0 and examples % n == 0
    if whole and examples * max(1, record.heads[0].size) > MOST_ROUNDS * 100:
        raise ModelError(f"{examples:,} rounds are too many to replay", where="model")
    out.of_model("examples", examples, n, whole, "a whole number of passes over the rows")
    out.holds("examples", examples, proof.examples == examples)
    return int(examples) // n if whole else 0


def matching_run(record: Any, head: Any, X: Rows, target: Rows, order: Rows, extra: float) -> Replay:
    """The replay that ends where the record does, if one does: a round that rounding decided may be decided otherwise."""
    first = replayed(record, head, X, target, order, extra)
    if _ends_alike(head, first, X):
        return first
    others = (replayed(record, head, X, target, order, extra, flip=spot) for spot in first.unsure[:TRIALS])
    return next((run for run in others if _ends_alike(head, run, X)), first)


def _ends_alike(head: Any, run: Replay, X: Rows) -> bool:
    """The same mistakes in number, and the same of them held, with their signs."""
    rows, signs = _in_order(head)
    same = head.mistakes == run.mistakes and rows.shape == (len(run.held), X.shape[1])
    return same and np.array_equal(rows, X[run.held]) and np.array_equal(signs, run.signs)


def replayed(record: Any, head: Any, X: Rows, target: Rows, order: Rows, extra: float, flip: int = -1) -> Replay:
    """All rounds in order, with the scores of all rows kept up to date: a row that joins or leaves changes each of them."""
    n, budget = len(X), record.budget or math.inf
    scores, sizes, blur = np.zeros(n), np.zeros(n), np.zeros(n)
    held, signs, mistakes = list[int](), list[float](), 0
    told_rows, told_signs = _in_order(head)
    before = head.mistakes - len(told_rows)  # mistakes whose rows have left
    loss = loss_room = 0.0

    def add(i: int, sign: float) -> None:
        K, own, other = (part[0] for part in kernel_matrix(record.shape, X[i : i + 1], X))
        joins = 1.0 if sign * target[i] > 0.0 else -1.0
        scores[:] += sign * (K + extra)
        sizes[:] += joins * (np.abs(K) + extra)
        # Radial kernels are computed from differences on both sides, others from x·z.
        blur[:] += joins * 2.0 * (own if getattr(record.shape, "radial", False) else other) + 4.0 * EPS * np.abs(scores)

    def one_by_one(i: int) -> float:
        """The score as a learner adds it up: a row takes the place of the one that leaves, and what cancels is gone."""
        turn = (mistakes - len(held)) % len(held) if len(held) == budget else 0
        first = len(held) - turn  # places before ``turn`` hold the latest rows
        places, own = held[first:] + held[:first], signs[first:] + signs[:first]
        K = kernel_matrix(record.shape, X[i : i + 1], X[places])[0][0]
        return float(sum(sign * (value + extra) for sign, value in zip(own, K.tolist(), strict=True)))

    unsure = list[int]()
    for turn, i in enumerate(order.tolist()):
        room = float(blur[i]) + 2.0 * (len(held) + 4) * EPS * float(max(sizes[i], 0.0))
        margin = float(target[i] * scores[i])
        loss, loss_room = loss + max(0.0, -margin), loss_room + room + 2.0 * EPS * loss
        wrong = margin <= 0.0
        if held and abs(margin) <= room:  # rounding decides: the rows that are told tell it, and before them the sum
            at = mistakes - before
            if 0 <= at < len(told_rows):
                wrong = bool((told_rows[at] == X[i]).all()) and told_signs[at] == target[i]
            else:
                unsure.append(turn)
                wrong = (target[i] * one_by_one(i) <= 0.0) != (turn == flip)
        if not wrong:
            continue
        mistakes += 1
        if len(held) == budget:
            add(held.pop(0), -signs.pop(0))
        held.append(i)
        signs.append(float(target[i]))
        add(i, signs[-1])
    rooms = blur + 2.0 * (len(held) + 4) * EPS * np.maximum(sizes, 0.0)
    return Replay(held, np.array(signs), mistakes, loss, loss_room, scores, rooms, unsure)


def _in_order(head: Any) -> tuple[Rows, Rows]:
    """The rows and signs that the record keeps, oldest first: on a budget they stand in a ring."""
    at = int(head.oldest)
    rows, signs = np.asarray(head.rows[: head.size]), np.asarray(head.signs[: head.size])
    return np.concatenate([rows[at:], rows[:at]]), np.concatenate([signs[at:], signs[:at]])


def _check_state(out: Claims, number: int, head: Any, run: Replay, X: Rows, budget: int | None) -> None:
    """Which rows a head holds, with which signs, and how many mistakes it made."""
    name = f"heads[{number}]"
    out.of_model(f"{name}.mistakes", head.mistakes, run.mistakes, head.mistakes == run.mistakes)
    same = _ends_alike(head, run._replace(mistakes=head.mistakes), X) and 0 <= head.oldest <= max(0, head.size - 1)
    out.of_model(f"{name}.rows", head.size, len(run.held), same, "the rows of its mistakes with their signs, in order")
    norms = (X[run.held] ** 2).sum(axis=1)
    told = np.roll(np.asarray(head.norms[: head.size], dtype=float), -int(head.oldest))
    near = told.shape == norms.shape and bool((np.abs(told - norms) <= (X.shape[1] + 2) * EPS * norms).all())
    out.of_model(f"{name}.norms", None, None, near or not told.any(), "the squares of their lengths")


def _check_claims(out: Claims, record: Any, runs: list[Replay], X: Rows) -> None:
    """The numbers of the certificate, of the head that they belong to: the one whose rows the comparator weighs."""
    proof = out.proof
    lost = [run for run in runs if run.mistakes > len(run.held)]
    if lost:  # a head without a proof comes before all others
        run = next((run for run in lost if run.mistakes == proof.mistakes), lost[0])
        out.equals("mistakes", run.mistakes, 0.0)
        out.assumption(STAYS, False, float(run.mistakes))
        return _no_bound(out)
    length = -1 if proof.comparator is None else np.size(proof.comparator)
    fits = [run for run in runs if run.mistakes == length] or [max(runs, key=lambda run: run.mistakes)]
    bounds = [_bound(record, run, X, proof.comparator) if run.mistakes == length else None for run in fits]
    # Heads with as many mistakes: the certificate is of the one whose bound is nearest the stated one.
    near = [abs(found.bound - proof.bound) if found and is_finite(proof.bound) else math.inf for found in bounds]
    run, found = fits[int(np.argmin(near))], bounds[int(np.argmin(near))]
    out.equals("mistakes", run.mistakes, 0.0)
    out.assumption(STAYS, True, float(run.mistakes))
    if not run.mistakes:
        out.absent("comparator", "margin", "slack")
        out.equals("radius", 0.0, 0.0)
        out.equals("bound", 0.0, 0.0)
        return same_status(out, Status.PROVEN)
    positive = is_inner_product(record.shape, kernel_matrix(record.shape, X[run.held], X[run.held])[0] + record.extra)
    if not positive:
        out.assumption(INNER_PRODUCT, False)
        return _no_bound(out)
    if found is None:
        out.holds("comparator", length, False, f"it has a weight for each of {run.mistakes} mistakes")
        out.covered |= {"radius", "margin", "slack", "bound", "status"}
        return None
    return _check_bound(out, run, found)


def _no_bound(out: Claims) -> None:
    out.absent("comparator", "margin", "slack")
    out.equals("radius", 0.0, 0.0)
    out.holds("bound", math.inf, out.proof.bound == math.inf, "none is known")
    same_status(out, Status.VOID)


class Bound(NamedTuple):
    """What a comparator proves, and how far rounding may move each of its numbers."""

    radius: float
    radius_room: float
    margin: float
    margin_room: float
    slack: float
    slack_room: float
    bound: float
    bound_room: float


def _bound(record: Any, run: Replay, X: Rows, comparator: Any) -> Bound:
    a = np.asarray(comparator, dtype=float)
    rows = X[run.held]
    K, _, other = kernel_matrix(record.shape, rows, rows)
    G, n = K + record.extra, len(rows)
    centred = kernel_matrix(record.shape, rows - rows.mean(axis=0), rows - rows.mean(axis=0))[2]
    entries = float((centred if getattr(record.shape, "radial", False) else other).max(initial=0.0))
    trace, length = float(np.trace(G)), float(np.linalg.norm(a))
    # Entries of G are rounded, and so are the eigenvectors, by rows·EPS of the largest eigenvalue.
    matrix_room = n * entries + 8.0 * n * EPS * trace
    product = np.asarray(G, dtype=np.longdouble) @ a
    square, square_room = float(a @ product), matrix_room * length**2
    size = math.sqrt(max(square, 0.0))
    size_room = min(square_room / max(size, 1e-300), math.sqrt(square_room))
    margins = np.asarray(run.signs * product, dtype=float)
    blur = matrix_room * length
    radius = math.sqrt(max(float(np.diag(G).max()), 0.0))
    radius_square = matrix_room * math.sqrt(n)
    radius_room = min(radius_square / max(radius, 1e-300), math.sqrt(radius_square))
    slack, slack_room = float(np.linalg.norm(np.maximum(0.0, 1.0 - margins))), blur * math.sqrt(n)
    slack_room += n * EPS * slack
    least = float(margins.min()) / max(size, 1e-300)
    least_room = (blur + abs(least) * size_room) / max(size, 1e-300)
    bound = (radius * size + slack) ** 2
    moved = radius_room * size + size_room * (radius + radius_room) + slack_room
    bound_room = 2.0 * moved * math.sqrt(bound) + moved**2 + ROUNDED_UP * bound
    return Bound(radius, radius_room, least, least_room, slack, slack_room, bound, bound_room)


def _check_bound(out: Claims, run: Replay, found: Bound) -> None:
    proof = out.proof
    weights = np.asarray(proof.comparator, dtype=float)
    sound = bool(np.isfinite(weights).all() and weights.any())
    out.holds("comparator", len(weights), sound, "a weight for each mistake, not all of them 0")
    out.equals("radius", found.radius, found.radius_room)
    claimed = proof.margin
    unknown = claimed is None
    near = found.margin <= found.margin_room if unknown else is_finite(claimed) and claimed > 0.0
    near = near and (unknown or abs(claimed - found.margin) <= found.margin_room)
    out.holds("margin", found.margin, near, "the least, unknown where it is not positive")
    out.equals("slack", found.slack, found.slack_room)
    out.equals("bound", found.bound, found.bound_room)
    same_status(out, bound_status(run.mistakes, proof.bound if is_finite(proof.bound) else None, ()))
