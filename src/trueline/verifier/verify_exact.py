"""Closed forms: how many digits are right, by normal equations in whole numbers; condition, rank, what the data allow."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from .exact_arithmetic import decimals, eliminated, gram
from .stated_claims import Check, Claims, Given, Line, Rows

ULP = 2.0**-53


def exact(out: Claims, X: Rows, Y: Rows, c: Rows, first: int, lines: list[Any], solved: Any = eliminated) -> list[Any]:
    """Least squares, ridge: a line a target tells its columns, ``first`` constants and its coefficients, its ridge."""
    proof, found, errors = out.proof, list[Any](), [Decimal(0)]
    with localcontext(Context(prec=120)):
        G = gram(np.column_stack([np.ones((len(X), first)), X, Y]), c)
        for at, (on, told, ridge) in enumerate(lines, first + X.shape[1]):
            rows, near = [*range(first), *(first + j for j in on)], decimals(told)
            M, right = G[np.ix_(rows, rows)] + np.diag(decimals(np.r_[np.zeros(first), ridge])), G[rows, at]
            try:
                best, inverse = solved(M, right)
            except ZeroDivisionError as place:
                out.holds("rank", place.args[0], False, "a column that counts repeats the others")
                return []
            unseen = [Decimal("1e-15") * (G[at, at] / G[j, j]).sqrt() for j in rows]  # what shows in no prediction
            errors += [abs(e / v) for e, v, u in zip(near - best, best, unseen) if max(abs(v), abs(v + e)) > u]
            found.append((G, at, M, right, best, inverse, near))
    out.holds("rank", rank := min(len(on) for on, *_ in lines), proof.rank == rank)
    if not proof.dropped:
        digits = -math.log10(max(float(max(errors)), 2.0**-53))
        out.holds("arithmetic_digits", digits, proof.arithmetic_digits <= min(digits + 1.0, 16.0))  # one above, at most
        out.holds("digits", digits, proof.digits <= digits + 1.0)
    out.holds("status", "not_proven" if proof.dropped else "proven", proof.proven == (not proof.dropped))
    return found


def closed_form(
    out: Claims, told: Given, X: Rows, Y: Rows, c: Rows, first: int, lines: list[Line], found: list[Any]
) -> None:
    """Checks from the normal equations that ``checker.exact`` solved; of several targets the worst counts."""
    record, proof, n = told.record, told.proof, len(X)
    every = [_measured(one, first, line, X, y, c) for one, line, y in zip(found, lines, Y.T, strict=True)]
    (condition, _, angle, noise, pull), (_, allowed, *_) = np.max(every, axis=0), np.min(every, axis=0)
    out.near("condition_number", float(condition), 1e-3)
    _repeats(out, told, X, first)
    if "non-negative" in record.statistics.get("family", ""):
        right = pull <= 1e-8 and np.min(record.coef, initial=0.0) >= 0.0
        out.holds("no coefficient at 0 should grow", float(pull), right, field="status")
    if not proof.dropped:
        out.holds("data_digits", float(allowed), proof.data_digits <= allowed + 1.0)
        out.near("orthogonality", float(angle), 0.01 if n <= 8192 else 0.5, float(angle + 1e-13 + noise))


def _repeats(out: Claims, told: Given, X: Rows, first: int) -> None:
    """A dropped column must lie in the span of the others."""
    gone = [j for j, term in enumerate(told.record.terms) if term in told.proof.dropped]
    other = np.column_stack([np.ones((len(X), first)), np.delete(X, gone, axis=1)])
    for j in gone:
        apart = X[:, j] - other @ np.linalg.lstsq(other, X[:, j], rcond=None)[0]
        share = float(np.linalg.norm(apart)) / (float(np.linalg.norm(X[:, j])) or 1.0)
        note = "its distance from them"
        out.append(Check(f"{told.record.terms[j]} repeats others", "dropped", share, share <= 1e-9, note))


def _measured(found: Any, first: int, line: Line, X: Rows, y: Rows, c: Rows) -> tuple[float, ...]:
    """(condition, digits that the data allow, angle of residual and columns, its rounding, pull on columns at 0)."""
    G, at, M, right, best, inverse, near = found
    on, n = line.columns, len(X)
    rows = [*range(first), *(first + j for j in on)]
    with localcontext(Context(prec=120)):
        if first:  # the angle is that of the coefficients, with the constant that belongs to them
            near = near.copy()
            near[0] = (right[0] - M[0, 1:] @ near[1:]) / M[0, 0]
        drift = float(np.linalg.norm((right - M @ near)[first:].astype(float)))
        rss, whole = max(0.0, float(G[at, at] - best @ right)), max(float(G[at, at]), 1e-300)
        off = [first + j for j in range(X.shape[1]) if j not in on]
        pulls = [float(G[j, at] - G[j, rows] @ best) / math.sqrt(float(G[j, j]) * whole or 1.0) for j in off]
        centred = M[first:, first:] - np.outer(M[first:, 0], M[0, first:]) / M[0, 0] if first else M
    # The condition number of columns of length 1, from the matrix and from its inverse.
    C, V, solution = centred.astype(float), inverse[first:, first:].astype(float), best.astype(float)
    lengths = np.sqrt(np.diag(C))
    both = (C / np.outer(lengths, lengths), V * np.outer(lengths, lengths)) if on else (np.eye(1),)
    condition = math.sqrt(max(1.0, math.prod(np.linalg.eigvalsh(S)[-1] for S in both)))
    # What the data allow: every entry that is not a whole number may be off by half a unit in its last place.
    part = np.array([0.0 if (z == np.rint(z)).all() else ULP**2 * float(c @ z**2) for z in (*X[:, on].T, y)])
    centre = np.asarray(first * (c @ X[:, on]) / c.sum())
    lever = np.vstack([centre @ V, V])[1 - first :]
    spread = np.maximum(np.r_[centre @ V @ centre + 1.0 / n, np.diag(V)][1 - first :], 0.0)
    moved = np.sqrt(spread * (part[-1] + part[:-1] @ solution[first:] ** 2) / n) + np.sqrt(
        lever**2 @ part[:-1] * rss / n
    )
    # A coefficient that rounding of the data can make 0, and that moves no prediction by as much, has no digit to lose.
    reach = np.sqrt(np.r_[c.sum(), c @ X[:, on] ** 2][1 - first :])
    spread_y = math.sqrt(float(c @ (y - first * (c @ y) / c.sum()) ** 2))
    counts = ~((np.abs(solution) <= 4.1 * moved) & (moved * reach <= 8.2 * ULP * spread_y))
    lost = moved / np.maximum(np.abs(solution), 1e-300) + ULP
    allowed = float(np.min(-np.log10(lost[counts]), initial=16.0))
    size = math.sqrt(max(0.0, float((lengths**2 - line.ridge).sum())) * rss) or math.inf
    noise = 1e-24 * float(c @ y**2) / max(rss, 1e-300)
    return condition, max(0.0, allowed), drift / size, noise, max(pulls, default=0.0)


def least_norm(out: Claims, told: Given) -> None:
    """More columns than the rows can tell apart: the weights of least norm among all that fit as well."""
    record, proof, X, y, c = told
    first = int(bool(record.statistics.get("fit_intercept", True)))
    X, Y, c = X[c > 0], y.astype(float).reshape(len(X), -1)[c > 0], c[c > 0]
    A, B = ((v - first * (c @ v) / c.sum()) * np.sqrt(c)[:, None] for v in (X, Y))
    s = np.linalg.svd(A, compute_uv=False)
    rank, best = int((s > 1e-11 * s.max(initial=0.0)).sum()), np.linalg.pinv(A, rcond=1e-11) @ B
    digits = -math.log10(max(float(np.abs(np.atleast_2d(record.coef).T - best).max() / np.abs(best).max()), ULP))
    out.holds("rank", rank, proof.rank == rank)
    out.holds("digits", digits, proof.digits <= digits + 1.0)
    full = rank == X.shape[1]
    out.holds("status", "proven" if full else "not_proven", proof.proven == full)
