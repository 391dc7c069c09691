"""One round of the mixture for log loss: probabilities of every class, then the label; the loop over rows.

K classes have S score vectors: one for K = 2 (class 0 has score 0), K otherwise. A Kalman member treats each
score's posterior as Gaussian: it predicts with scores moderated by their variance q, s/√(1 + πq/8), and solves
s′ = s + q·(1{y = k} − σ(s′ − o)) for the score after the example (o: log-sum-exp of the other scores), which cannot
overshoot; the curvature is taken at s′.
"""

from __future__ import annotations

import math

import numpy as np

from .._jit import kernel
from .aggregate import mix_loss, posterior, redistribute
from .members import (
    absorb,
    accept,
    adaptive_step,
    diagonal_spread,
    diagonal_step,
    dot,
    enter,
    exponentiated,
    gradient_step,
    grown,
    load,
    product,
    sparse_dot,
    spread,
    spread_sparse,
    standardise,
    strengthen,
    tend,
)

# Places in ``totals``.
EXAMPLES, WEIGHT, LAST, LOSS, MISTAKES, LARGEST_WEIGHT, NORM, RESTARTS = 0, 1, 2, 3, 4, 5, 6, 7
LAST_LABEL, LAST_PREDICTION, EXCESS = 8, 9, 10
TOTALS = 12
SIMPLE = 2  # members that look at labels only: class frequencies and a first-order Markov chain
# Step members on standardised rows: constant rates, AdaGrad, diagonal Kalman filters; the last is EG±.
CONSTANT, ADAPTIVE, DIAGONAL = 2, 2, 3
RADIUS = 4.0
PRIOR = 0.5  # pseudo-counts of the label-only members
FLOOR = math.log(1e-6)  # the least log-probability that the geometric pool listens to
POOL_RATE = 0.01
# The arrays that the loop works on, in its order.
STATE = (
    "totals", "columns", "frequencies", "transitions", "w", "P", "forget", "ridge", "table", "sums", "scales", "rates",
    "losses", "shares", "tops", "trust",
)  # fmt: skip


@kernel
def softmax(scores, first, spread, classes, k, out):
    """Row k of ``out``: probabilities of all classes; classes without a score of their own have score 0."""
    offset = 1 if classes == 2 else 0
    top = 0.0 if offset > 0 else -math.inf
    for c in range(offset, classes):
        out[k, c] = scores[first + c - offset] * spread[first + c - offset]
        top = max(top, out[k, c])
    total = 0.0
    for c in range(classes):
        out[k, c] = math.exp((0.0 if c < offset else out[k, c]) - top)
        total += out[k, c]
    for c in range(classes):
        out[k, c] /= total


@kernel
def rest(scores, first, own, s):
    """Log-sum-exp of all scores but s; 0, class 0's score, when there is only one."""
    if own == 1:
        return 0.0
    top = -math.inf
    for r in range(own):
        if r != s:
            top = max(top, scores[first + r])
    total = 0.0
    for r in range(own):
        if r != s:
            total += math.exp(scores[first + r] - top)
    return top + math.log(total)


@kernel
def logistic(x):
    """1/(1 + exp(−x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    return math.exp(x) / (1.0 + math.exp(x))


@kernel
def settle(score, offset, reach, hit):
    """The root of s′ = s + reach·(hit − σ(s′ − o)): Newton's method kept inside a shrinking bracket."""
    far = score + reach * (hit - logistic(score - offset))
    low, high = min(score, far), max(score, far)
    at = score
    step = high - low
    for _ in range(100):
        p = logistic(at - offset)
        value = at - score - reach * (hit - p)
        if value > 0.0:
            high = at
        else:
            low = at
        new = at - value / (1.0 + reach * p * (1.0 - p))
        # Far from the root Newton's steps can cycle between the ends: take one only if it is in the bracket and short.
        if not (low <= new <= high and abs(new - at) <= 0.5 * step):
            new = 0.5 * (low + high)
        step = abs(new - at)
        at = new
        if step <= 1e-10 * (1.0 + abs(at)):
            break
    return at


@kernel
def member_probabilities(
    values, indices, start, stop, dense, centred, size, classes, own, filters, steps, totals, columns, frequencies,
    transitions, w, P, table, sums, rates, u, work, places, z, scores, spreads, linear, moderate, out,
):  # fmt: skip
    """Every member's probabilities into ``out``; how many places the standardised row has."""
    last = int(totals[LAST])
    total = 0.0
    follow = 0.0
    for c in range(classes):
        total += frequencies[c] + PRIOR
        follow += transitions[last, c] + PRIOR
    for c in range(classes):
        out[0, c] = (frequencies[c] + PRIOR) / total
        out[1, c] = (transitions[last, c] + PRIOR) / follow
    if filters > 0:
        load(values, indices, start, stop, dense, columns, size, u)
        for m in range(filters):
            for s in range(own):
                f = m * own + s
                scores[f] = dot(w, f, u, size)
                q = product(P, f, u, size, work)
                spreads[f] = 1.0 / math.sqrt(1.0 + math.pi * q / 8.0)
            softmax(scores, m * own, spreads, classes, SIMPLE + m, out)
    count = standardise(values, indices, start, stop, dense, centred, columns, totals[WEIGHT], places, z)
    for m in range(steps):
        for s in range(own):
            f = m * own + s
            linear[f] = sparse_dot(table, f, places, z, count)
            if CONSTANT + ADAPTIVE <= m < CONSTANT + ADAPTIVE + DIAGONAL:
                q = diagonal_spread(sums, f, places, z, count, rates[m])
                moderate[f] = 1.0 / math.sqrt(1.0 + math.pi * q / 8.0)
        softmax(linear, m * own, moderate, classes, SIMPLE + filters + m, out)
    return count


@kernel
def pool(probabilities, members, classes, trust, out):
    """Geometric pooling: probabilities ∝ exp(Σ trust·log p), each log no less than FLOOR."""
    top = -math.inf
    for c in range(classes):
        out[2, c] = 0.0
        for k in range(members):
            out[2, c] += trust[k] * max(math.log(max(probabilities[k, c], 1e-300)), FLOOR)
        top = max(top, out[2, c])
    total = 0.0
    for c in range(classes):
        out[2, c] = math.exp(out[2, c] - top)
        total += out[2, c]
    for c in range(classes):
        # Guarded: a little of the uniform keeps every probability away from 0.
        out[2, c] = (1.0 - 1e-4) * out[2, c] / total + 1e-4 / classes


@kernel
def adjust(probabilities, members, classes, label, c, trust, pooled):
    """One gradient step of the pool's log loss in its trust; trust stays non-negative."""
    for k in range(members):
        gradient = -max(math.log(max(probabilities[k, label], 1e-300)), FLOOR)
        for j in range(classes):
            gradient += pooled[2, j] * max(math.log(max(probabilities[k, j], 1e-300)), FLOOR)
        trust[k] = max(0.0, trust[k] - POOL_RATE * min(c, 1.0) * gradient)


@kernel
def combine(probabilities, members, classes, totals, losses, shares, tops, trust, mixing, levels, triple, out, i):
    """Static mixture, fixed share and pool into ``levels``; their mixture into row i of ``out``."""
    eta = 1.0 / max(1.0, totals[LARGEST_WEIGHT])
    posterior(losses, members, eta, mixing)
    posterior(tops, 3, eta, triple)
    for c in range(classes):
        levels[0, c] = 0.0
        levels[1, c] = 0.0
        for k in range(members):
            levels[0, c] += mixing[k] * probabilities[k, c]
            levels[1, c] += shares[k] * probabilities[k, c]
    pool(probabilities, members, classes, trust, levels)
    for c in range(classes):
        out[i, c] = triple[0] * levels[0, c] + triple[1] * levels[1, c] + triple[2] * levels[2, c]


@kernel
def update_filters(filters, own, classes, size, total, columns, w, P, forget, ridge, u, work, scores, label, c, totals):
    """The Kalman members' update, after raising the ridge of columns whose variance doubled."""
    for f in range(filters * own):
        enter(P, f, size, columns, ridge[f // own])
    if grown(columns, size, total, True) > 0:
        for f in range(filters * own):
            for j in range(1, size):
                if columns[4, j - 1] > 0.0:
                    strengthen(w, P, f, j, size, ridge[f // own] * columns[4, j - 1], work)
            scores[f] = dot(w, f, u, size)
    accept(columns, size)
    for m in range(filters):
        for s in range(own):
            f = m * own + s
            q = product(P, f, u, size, work)
            if q > 0.0:
                offset = rest(scores, m * own, own, s)
                hit = 1.0 if label == s + classes - own else 0.0
                after = settle(scores[f], offset, c * q / forget[m], hit)
                p = logistic(after - offset)
                absorb(w, P, f, size, work, q, c * p * (1.0 - p), (after - scores[f]) / q, forget[m])
    for f in range(filters * own):
        totals[RESTARTS] += tend(w, P, f, size, columns, ridge[f // own], forget[f // own], work)


@kernel
def update_steps(
    steps,
    filters,
    own,
    classes,
    size,
    table,
    sums,
    scales,
    places,
    z,
    count,
    probabilities,
    linear,
    label,
    c,
    rates,
    totals,
):
    """The update of constant rates, AdaGrad, diagonal filters and exponentiated gradient."""
    norm = 0.0
    largest = 0.0
    for k in range(count):
        norm += z[k] * z[k]
        largest = max(largest, abs(z[k]))
    totals[NORM] += (norm - totals[NORM]) * c / (totals[WEIGHT] + c)
    damp = 1.0 / max(1.0, math.sqrt(max(norm, totals[NORM])))
    for m in range(steps):
        for s in range(own):
            f = m * own + s
            target = s + classes - own
            hit = 1.0 if label == target else 0.0
            slope = c * (probabilities[SIMPLE + filters + m, target] - hit)
            if m < CONSTANT:
                gradient_step(table, f, places, z, count, rates[m] * slope * (damp if m > 0 else 1.0))
            elif m < CONSTANT + ADAPTIVE:
                adaptive_step(table, sums, f, places, z, count, slope, rates[m])
            elif m < CONSTANT + ADAPTIVE + DIAGONAL:
                q = diagonal_spread(sums, f, places, z, count, rates[m])
                offset = rest(linear, m * own, own, s)
                after = settle(linear[f], offset, c * q, hit)
                p = logistic(after - offset)
                diagonal_step(table, sums, f, places, z, count, rates[m], (after - linear[f]) / q, c * p * (1.0 - p))
            else:
                gradient_step(sums, f, places, z, count, -slope)
                scales[f] += (RADIUS * slope * largest) ** 2
                exponentiated(table, sums, f, size, RADIUS, scales[f])


@kernel
def classify(
    values, indices, starts, dense, y, weights, learning, centred, size, classes, filters, steps, totals, columns,
    frequencies, transitions, w, P, forget, ridge, table, sums, scales, rates, losses, shares, tops, trust, out, capped,
):  # fmt: skip
    """Predict every row and, when learning, update on it before the next; labels are learned from as they are."""
    own = 1 if classes == 2 else classes
    members = SIMPLE + filters + steps
    u = np.zeros(size)
    work = np.zeros(size)
    places = np.zeros(size, dtype=np.int64)
    z = np.zeros(size)
    scores = np.zeros(filters * own)
    spreads = np.zeros(filters * own)
    linear = np.zeros(steps * own)
    moderate = np.ones(steps * own)
    probabilities = np.zeros((members, classes))
    mixing = np.zeros(members)
    step = np.zeros(members)
    levels = np.zeros((3, classes))
    triple = np.zeros(3)
    top_step = np.zeros(3)
    for i in range(starts.shape[0] - 1):
        start, stop = starts[i], starts[i + 1]
        c = weights[i]
        if totals[WEIGHT] == 0.0 and learning and c > 0.0 and centred:
            for k in range(start, stop):
                columns[0, indices[k - start] if dense else indices[k]] = values[k]
        count = member_probabilities(
            values, indices, start, stop, dense, centred, size, classes, own, filters, steps, totals, columns,
            frequencies, transitions, w, P, table, sums, rates, u, work, places, z, scores, spreads, linear, moderate, probabilities,
        )  # fmt: skip
        combine(probabilities, members, classes, totals, losses, shares, tops, trust, mixing, levels, triple, out, i)
        if not learning or c == 0.0:
            continue
        label = int(y[i])
        best = 0
        for j in range(1, classes):
            if out[i, j] > out[i, best]:
                best = j
        totals[EXAMPLES] += 1.0
        totals[LOSS] -= c * math.log(out[i, label])
        totals[MISTAKES] += c if best != label else 0.0
        totals[LAST_LABEL] = label
        totals[LAST_PREDICTION] = best
        for k in range(members):
            step[k] = -c * math.log(max(probabilities[k, label], 1e-300))
        for k in range(3):
            top_step[k] = -c * math.log(max(levels[k, label], 1e-300))
        eta = 1.0 / totals[LARGEST_WEIGHT] if totals[LARGEST_WEIGHT] > 1.0 else 1.0
        if c * eta > 1.0:
            # The label came with a larger weight than any before: what Jensen no longer covers is counted.
            totals[EXCESS] += max(0.0, top_step[0] - mix_loss(losses, step, members, eta))
            totals[EXCESS] += max(0.0, -c * math.log(out[i, label]) - mix_loss(tops, top_step, 3, eta))
            totals[LARGEST_WEIGHT] = c
        adjust(probabilities, members, classes, label, c, trust, levels)
        for k in range(members):
            losses[k] += step[k]
        for k in range(3):
            tops[k] += top_step[k]
        redistribute(shares, step, members, 1.0 / max(1.0, totals[LARGEST_WEIGHT]))
        if filters > 0:
            spread(values, indices, start, stop, dense, columns, size, c, totals[WEIGHT], totals[EXAMPLES], True, u)
            update_filters(
                filters, own, classes, size, totals[WEIGHT] + c, columns, w, P, forget, ridge, u, work, scores, label, c,
                totals,
            )  # fmt: skip
        update_steps(
            steps, filters, own, classes, size, table, sums, scales, places, z, count, probabilities, linear, label, c, rates,
            totals,
        )  # fmt: skip
        if filters == 0 and centred:
            spread(values, indices, start, stop, dense, columns, size, c, totals[WEIGHT], totals[EXAMPLES], True, u)
        elif filters == 0:
            spread_sparse(values, indices, start, stop, dense, columns, c)
        totals[WEIGHT] += c
        frequencies[label] += c
        transitions[int(totals[LAST]), label] += c
        totals[LAST] = label
