"""Local fits in several variables: every row is looked at, those within h are weighed.

The local polynomial is centred at the query and scaled by h; its normal equations are factored with columns that
add nothing left out, which lowers the degree where neighbours lie on a line or a plane. Columns of ``out``: value,
leverage of a unit weight, Σ l²/w, then the gradient.
"""

from __future__ import annotations

import math

import numpy as np

from .._jit import kernel

VALUE, UNIT, SQUARES, GRADIENT = 0, 1, 2, 3


@kernel(reassociate=True)
def square_distances(Z, q, out):
    """‖z − q‖² of every row; Z holds one variable a row."""
    out[:] = 0.0
    for k in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            d = Z[k, j] - q[k]
            out[j] += d * d


@kernel
def solve_kept(M, L, rhs, out):
    """M·out = rhs by Cholesky, columns that depend on earlier ones left out (0); L keeps the factor."""
    m = M.shape[0]
    for k in range(m):
        for j in range(k):
            s = M[k, j]
            for i in range(j):
                s -= L[k, i] * L[j, i]
            L[k, j] = s / L[j, j] if L[j, j] > 0.0 else 0.0
        s = M[k, k]
        for i in range(k):
            s -= L[k, i] * L[k, i]
        L[k, k] = math.sqrt(s) if s > 1e-10 * M[k, k] else 0.0
    for k in range(m):
        s = rhs[k]
        for i in range(k):
            s -= L[k, i] * out[i]
        out[k] = s / L[k, k] if L[k, k] > 0.0 else 0.0
    for k in range(m - 1, -1, -1):
        s = out[k]
        for i in range(k + 1, m):
            s -= L[i, k] * out[i]
        out[k] = s / L[k, k] if L[k, k] > 0.0 else 0.0


@kernel
def cloud_fit(Z, y, g, rw, q, h, nearest, squares, degree, is_gaussian, out):
    """Fit at one query from ‖z − q‖² of every row; ``nearest`` is the least of them."""
    p, n = Z.shape
    m = 1 if degree == 0 else (1 + p if degree == 1 else 1 + p + p * (p + 1) // 2)
    M, S, L = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    c, b, v = np.zeros(m), np.zeros(m), np.zeros(m)
    reach = nearest + 80.0 * h * h if is_gaussian else (0.999 * h) * (0.999 * h)
    inverse = 1.0 / h if h > 0.0 else 0.0
    for j in range(n):
        if squares[j] > reach or g[j] == 0.0:
            continue
        if is_gaussian:
            K = math.exp(-0.5 * (squares[j] - nearest) * inverse * inverse)
        else:
            r = math.sqrt(squares[j]) * inverse
            u = 1.0 - r * r * r
            K = u * u * u
        w = K * g[j]
        second = K * rw[j] * w
        b[0] = 1.0
        if degree > 0:
            for k in range(p):
                b[1 + k] = (Z[k, j] - q[k]) * inverse
        if degree > 1:
            place = 1 + p
            for k in range(p):
                for i in range(k + 1):
                    b[place] = b[1 + k] * b[1 + i]
                    place += 1
        for k in range(m):
            wb, sb = w * b[k], second * b[k]
            c[k] += wb * y[j]
            for i in range(k + 1):
                M[k, i] += wb * b[i]
                S[k, i] += sb * b[i]
    if not M[0, 0] > 0.0:
        out[:] = np.nan
        return
    b[:] = 0.0
    b[0] = 1.0
    solve_kept(M, L, b, v)
    out[UNIT] = v[0]
    total = 0.0
    for k in range(m):
        total += v[k] * v[k] * S[k, k]
        for i in range(k):
            total += 2.0 * v[k] * v[i] * S[k, i]
    out[SQUARES] = total
    solve_kept(M, L, c, v)
    out[VALUE] = v[0]
    for k in range(p):
        out[GRADIENT + k] = v[1 + k] * inverse if degree > 0 else 0.0
