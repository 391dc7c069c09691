"""An upper triangular factor U'U = G_AA that columns enter and leave: what active-set Newton steps run on.

U lives in the top left corner of a C-ordered buffer, so every inner loop below runs along a contiguous row. A block of
columns enters by one triangular solve; a column leaves by Givens rotations of the rows under it. Both are backward
stable. A column enters with its diagonal lifted by ``ridge``·G_jj: columns that coincide, nearly or exactly, then have
a positive pivot; the rise of the objective, ½·ridge·G_jj·b_j², is seen by the gap like any other error.
"""

from __future__ import annotations

from .._jit import kernel


@kernel(reassociate=True)
def solve_factor(U, k, z):
    """z ← (U'U)⁻¹z, in place."""
    for i in range(k):
        row = U[i, i + 1 : k]
        rest = z[i + 1 : k]
        value = z[i] / U[i, i]
        z[i] = value
        for j in range(row.shape[0]):
            rest[j] -= value * row[j]
    for i in range(k - 1, -1, -1):
        row = U[i, i + 1 : k]
        rest = z[i + 1 : k]
        total = z[i]
        for j in range(row.shape[0]):
            total -= row[j] * rest[j]
        z[i] = total / U[i, i]


@kernel(reassociate=True)
def append_columns(U, k, G, order, new, count, mu, ridge, block):
    """Let ``new[:count]`` enter after the k columns in ``order``; a column without a positive pivot stays out.

    ``block`` is room for the new columns of U, a row each. Returns the new k.
    """
    for c in range(count):
        for i in range(k):
            block[c, i] = G[new[c], order[i]]
    for i in range(k):
        row = U[i, i + 1 : k]
        diagonal = U[i, i]
        for c in range(count):
            value = block[c, i] / diagonal
            block[c, i] = value
            rest = block[c, i + 1 : k]
            for j in range(row.shape[0]):
                rest[j] -= value * row[j]
    for c in range(count):
        own = block[c, :k]
        square = 0.0
        for j in range(own.shape[0]):
            square += own[j] * own[j]
        base = G[new[c], new[c]]
        lifted = base * (1.0 + ridge) + mu
        pivot = lifted - square
        if not pivot > 0.01 * ridge * lifted:
            continue
        root = pivot**0.5
        for i in range(k):
            U[i, k] = own[i]
        U[k, k] = root
        order[k] = new[c]
        for later in range(c + 1, count):
            other = block[later, :k]
            total = G[new[later], new[c]]
            for j in range(other.shape[0]):
                total -= other[j] * own[j]
            block[later, k] = total / root
        k += 1
    return k


@kernel(reassociate=True)
def remove_column(U, k, order, at):
    """Let the column at place ``at`` leave. Returns the new k."""
    for i in range(at):
        row = U[i, at:k]
        for j in range(row.shape[0] - 1):
            row[j] = row[j + 1]
    for i in range(at, k - 1):
        upper = U[i, i:k]
        lower = U[i + 1, i:k]
        a = upper[1]
        b = lower[1]
        radius = (a * a + b * b) ** 0.5
        cosine = a / radius
        sine = b / radius
        for j in range(upper.shape[0] - 1):
            x = upper[j + 1]
            y = lower[j + 1]
            upper[j] = cosine * x + sine * y
            lower[j + 1] = cosine * y - sine * x
    for i in range(at, k - 1):
        order[i] = order[i + 1]
    return k - 1
