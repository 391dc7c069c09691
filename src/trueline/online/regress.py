"""One round of the mixture for squared loss: predict, see the label, update; the loop over rows.

Labels used for learning are capped at ten ranges beyond the range seen, so that one label of 1e9 cannot freeze the
mixture; the loss suffered counts the true label, and what the cap hid is added to the bound (``CAPPED_EXCESS``).
"""

from __future__ import annotations

import math

import numpy as np

from .._jit import kernel
from .aggregate import (
    average,
    excess,
    mix_loss,
    pool_step,
    posterior,
    rate,
    recent_weights,
    redistribute,
    remember,
    share_loss,
)
from .members import (
    absorb,
    accept,
    adaptive_step,
    bounded_step,
    diagonal_spread,
    diagonal_step,
    dot,
    enter,
    gradient_step,
    grown,
    load,
    product,
    pull,
    sparse_dot,
    spread,
    spread_sparse,
    standardise,
    strengthen,
    tend,
)

# Places in ``totals``.
EXAMPLES, WEIGHT, LOW, HIGH, ORIGIN, LAST, MEAN, SQUARES = 0, 1, 2, 3, 4, 5, 6, 7
GAP_STATIC, GAP_SHARE, GAP_TOP = 8, 9, 10
LOSS, FIRST_LOSS, OVERSHOOT, CAPPED_EXCESS, CAPPED, RESTARTS, LARGEST_WEIGHT, NORM = 11, 12, 13, 14, 15, 16, 17, 18
LAST_LABEL, LAST_PREDICTION, MARGIN_LOW, MARGIN_HIGH, MARGIN_WORST = 19, 20, 21, 22, 23
TOTALS = 24
REACH = 10.0  # ranges beyond the range seen at which a label is capped
SIMPLE = 2  # members that look at labels only: running mean and last label
# Step members on standardised rows: normalised with falling steps, AdaGrad, constant fractions of ‖z‖²; the rest are
# diagonal filters.
NORMALISED, ADAPTIVE, CONSTANT = 1, 3, 3
LEVELS = 4  # static, fixed share, recent, pool (a file from before the pool has three)
# The arrays that the loop works on, in its order.
STATE = (
    "totals", "columns", "w", "P", "forget", "ridge", "ledger", "twins", "noise", "table", "sums", "rates", "losses", "shares",
    "recent", "pool", "tops",
)  # fmt: skip


@kernel
def clip(value, low, high):
    """value, or the nearer end."""
    return min(max(value, low), high)


@kernel
def overshoot(label, totals):
    """How far the label lies beyond what predictions were clipped to."""
    return max(0.0, label - totals[HIGH] - totals[MARGIN_HIGH], totals[LOW] - totals[MARGIN_LOW] - label)


@kernel
def widen(label, totals):
    """Predictions may pass each end of the label range by the largest step that labels took beyond it.

    A label that meets an end exactly shows a hard end (counts, proportions): none may pass it until a label does.
    """
    if label > totals[HIGH]:
        totals[MARGIN_HIGH] = max(totals[MARGIN_HIGH], label - totals[HIGH])
    elif label == totals[HIGH]:
        totals[MARGIN_HIGH] = 0.0
    if label < totals[LOW]:
        totals[MARGIN_LOW] = max(totals[MARGIN_LOW], totals[LOW] - label)
    elif label == totals[LOW]:
        totals[MARGIN_LOW] = 0.0
    totals[MARGIN_WORST] = max(totals[MARGIN_WORST], totals[MARGIN_LOW], totals[MARGIN_HIGH])


@kernel
def member_predictions(
    values,
    indices,
    start,
    stop,
    dense,
    centred,
    size,
    filters,
    steps,
    totals,
    columns,
    w,
    twins,
    table,
    u,
    places,
    z,
    out,
):
    """Every member's prediction, inside the label range seen and its margin; how many places the standardised row has."""
    low, high, origin = totals[LOW] - totals[MARGIN_LOW], totals[HIGH] + totals[MARGIN_HIGH], totals[ORIGIN]
    out[0] = totals[MEAN]
    out[1] = totals[LAST]
    count = 0
    if filters > 0:
        load(values, indices, start, stop, dense, columns, size, u)
        for f in range(filters):
            out[SIMPLE + f] = clip(origin + dot(w, f, u, size), low, high)
        for f in range(twins.shape[0]):
            out[SIMPLE + filters + f] = clip(origin + dot(twins, f, u, size), low, high)
    if steps > 0:
        count = standardise(values, indices, start, stop, dense, centred, columns, totals[WEIGHT], places, z)
        for f in range(steps):
            out[SIMPLE + filters + twins.shape[0] + f] = clip(
                totals[MEAN] + sparse_dot(table, f, places, z, count), low, high
            )
    return count


@kernel
def combine(predictions, members, totals, losses, shares, recent, pool, tops, weights, level, trust):
    """The two-level mixture's prediction; ``level`` gets those of the static, fixed-share and recent mixture, and the pool."""
    levels = tops.shape[0]
    posterior(losses, members, rate(totals[GAP_STATIC], members), weights)
    level[0] = average(weights, predictions, members)
    level[1] = average(shares, predictions, members)
    recent_weights(recent, members, weights)
    level[2] = average(weights, predictions, members)
    level[3] = average(pool, predictions, members)
    posterior(tops, levels, rate(totals[GAP_TOP], levels), trust)
    return average(trust, level, levels)


@kernel
def score(predictions, members, y, c, p, totals, losses, shares, recent, pool, tops, level, step, top_step):
    """Charge the label to every member and to every mixture."""
    for k in range(members):
        step[k] = c * (y - predictions[k]) ** 2
    levels = tops.shape[0]
    for k in range(levels):
        top_step[k] = c * (y - level[k]) ** 2
    eta = rate(totals[GAP_STATIC], members)
    eta_share = rate(totals[GAP_SHARE], members)
    totals[GAP_STATIC] += excess(top_step[0], mix_loss(losses, step, members, eta))
    totals[GAP_SHARE] += excess(top_step[1], share_loss(shares, step, members, eta_share))
    top_loss = mix_loss(tops, top_step, levels, rate(totals[GAP_TOP], levels))
    totals[GAP_TOP] += excess(c * (y - p) ** 2, top_loss)
    least = math.inf
    for k in range(members):
        losses[k] += step[k]
        least = min(least, losses[k])
    for k in range(levels):
        tops[k] += top_step[k]
    pool_step(pool, predictions, members, y, level[3], least / totals[WEIGHT])
    redistribute(shares, step, members, eta_share)
    remember(recent, step, members, c)


@kernel
def update_steps(steps, filters, table, sums, places, z, count, y, c, rates, totals):
    """The gradient members' update, in units that the labels and rows set themselves."""
    norm = 0.0
    for k in range(count):
        norm += z[k] * z[k]
    totals[NORM] += (norm - totals[NORM]) * c / (totals[WEIGHT] + c)
    deviation = math.sqrt(totals[SQUARES] / totals[WEIGHT]) if totals[WEIGHT] > 0.0 else 0.0
    for f in range(steps):
        error = totals[MEAN] + sparse_dot(table, f, places, z, count) - y
        if f < NORMALISED:
            gradient_step(table, f, places, z, count, c * error / (c * norm + rates[f] * totals[WEIGHT]))
        elif f < NORMALISED + ADAPTIVE:
            adaptive_step(table, sums, f, places, z, count, c * error, rates[f] * deviation / math.sqrt(totals[NORM]))
        elif f < NORMALISED + ADAPTIVE + CONSTANT:
            gradient_step(table, f, places, z, count, error * min(1.0 / norm, c * rates[f] / max(norm, totals[NORM])))
        else:
            ridge = rates[f] * math.sqrt(totals[NORM])
            q = diagonal_spread(sums, f, places, z, count, ridge)
            diagonal_step(table, sums, f, places, z, count, ridge, -c * error / (1.0 + c * q), c)


@kernel
def update_filters(
    filters, size, total, columns, w, P, forget, ridge, ledger, twins, noise, u, work, label, clipped, c, totals
):
    """The recursive least squares members' update, after raising the ridge of columns whose variance doubled.

    The ledger keeps Σce²/(1+cq), and Σc·ê²·cq/(1+cq) with what raising the ridge between prediction and update changed.
    """
    low, high = totals[LOW] - totals[MARGIN_LOW], totals[HIGH] + totals[MARGIN_HIGH]
    raised = grown(columns, size, total, False) > 0
    for f in range(filters):
        if raised:
            for j in range(1, size):
                if columns[4, j - 1] > 0.0:
                    if f < twins.shape[0]:
                        pull(twins, P, f, j, size, ridge[f] * columns[4, j - 1])
                    strengthen(w, P, f, j, size, ridge[f] * columns[4, j - 1], work)
        prediction = totals[ORIGIN] + dot(w, f, u, size)
        error = label - prediction
        q = product(P, f, u, size, work)
        made = (label - clipped[SIMPLE + f]) ** 2
        now = (label - clip(prediction, low, high)) ** 2
        ledger[f, 0] += c * error * error / (1.0 + c * q)
        ledger[f, 1] += c * max(0.0, made - now) + c * now * c * q / (1.0 + c * q)
        if f < twins.shape[0]:
            # As the filter's own error, to the bit: until something is bounded they are the same.
            bounded = label - (totals[ORIGIN] + dot(twins, f, u, size))
            bounded_step(twins, noise, f, size, work, q, bounded, c, total)
        absorb(w, P, f, size, work, q, c, c * error / (forget[f] + c * q), forget[f])
    accept(columns, size)
    for f in range(filters):
        totals[RESTARTS] += tend(w, P, f, size, columns, ridge[f], forget[f], work)


@kernel
def regress(
    values, indices, starts, dense, y, weights, learning, centred, size, classes, filters, steps, totals, columns, w, P,
    forget, ridge, ledger, twins, noise, table, sums, rates, losses, shares, recent, pool, tops, out, capped,
):  # fmt: skip
    """Predict every row and, when learning, update on it before the next; ``capped`` gets the labels learned from."""
    members = losses.shape[0]
    u = np.zeros(size)
    work = np.zeros(size)
    places = np.zeros(size, dtype=np.int64)
    z = np.zeros(size)
    predictions = np.zeros(members)
    mixing = np.zeros(members)
    step = np.zeros(members)
    level = np.zeros(LEVELS)
    trust = np.zeros(LEVELS)
    top_step = np.zeros(LEVELS)
    for i in range(starts.shape[0] - 1):
        start, stop = starts[i], starts[i + 1]
        c = weights[i]
        first = totals[WEIGHT] == 0.0
        if first and learning and c > 0.0 and centred:
            for k in range(start, stop):
                columns[0, indices[k - start] if dense else indices[k]] = values[k]
        count = member_predictions(
            values, indices, start, stop, dense, centred, size, filters, steps, totals, columns, w, twins, table, u,
            places, z, predictions,
        )  # fmt: skip
        p = combine(predictions, members, totals, losses, shares, recent, pool, tops, mixing, level, trust)
        out[i] = p
        if not learning:
            continue
        capped[i] = y[i]
        if c == 0.0:
            continue
        label = y[i]
        reach = REACH * (totals[HIGH] - totals[LOW])
        if reach > 0.0:
            label = clip(label, totals[LOW] - reach, totals[HIGH] + reach)
        capped[i] = label
        loss = c * (y[i] - p) ** 2
        totals[EXAMPLES] += 1.0
        totals[LOSS] += loss
        totals[LARGEST_WEIGHT] = max(totals[LARGEST_WEIGHT], c)
        totals[LAST_LABEL] = y[i]
        totals[LAST_PREDICTION] = p
        if first:
            totals[FIRST_LOSS] = loss
            totals[LOW] = totals[HIGH] = totals[ORIGIN] = totals[MEAN] = label
            for k in range(members):
                predictions[k] = label
        else:
            totals[CAPPED_EXCESS] += loss - c * (label - p) ** 2
            totals[CAPPED] += 1.0 if label != y[i] else 0.0
            totals[OVERSHOOT] += c * overshoot(label, totals) ** 2
            score(predictions, members, label, c, p, totals, losses, shares, recent, pool, tops, level, step, top_step)
        if filters > 0:
            spread(values, indices, start, stop, dense, columns, size, c, totals[WEIGHT], totals[EXAMPLES], False, u)
            for f in range(filters):
                enter(P, f, size, columns, ridge[f])
            update_filters(
                filters, size, totals[WEIGHT] + c, columns, w, P, forget, ridge, ledger, twins, noise, u, work, label,
                predictions, c, totals,
            )  # fmt: skip
        if steps > 0:
            update_steps(steps, filters, table, sums, places, z, count, label, c, rates, totals)
            if filters == 0 and centred:
                spread(
                    values, indices, start, stop, dense, columns, size, c, totals[WEIGHT], totals[EXAMPLES], False, u
                )
            elif filters == 0:
                spread_sparse(values, indices, start, stop, dense, columns, c)
        totals[WEIGHT] += c
        gap = label - totals[MEAN]
        totals[MEAN] += gap * c / totals[WEIGHT]
        totals[SQUARES] += gap * (label - totals[MEAN]) * c
        totals[LAST] = label
        if not first:
            widen(label, totals)
        totals[LOW] = min(totals[LOW], label)
        totals[HIGH] = max(totals[HIGH], label)
