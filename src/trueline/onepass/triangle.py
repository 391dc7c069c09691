"""An upper triangular factor U'U = G_AA that columns enter and leave: what active-set Newton steps run on.

U lives in the top left corner of a C-ordered buffer, so every inner loop below runs along a contiguous row. A block of
columns enters by one triangular solve; a column leaves by Givens rotations of the rows under it. Both are backward
stable. A column enters with its diagonal lifted by ``ridge``·G_jj: columns that coincide, nearly or exactly, then have
a positive pivot; the rise of the objective, ½·ridge·G_jj·b_j², is seen by the gap like any other error.

The right-hand side c_A − τs is carried along already solved by U', as two further columns ``half`` = U'⁻¹[c_A s]: they
grow and turn with the factor, and a solve for any τ is left with one triangle instead of two.
"""

from __future__ import annotations

from .._jit import kernel


@kernel(reassociate=True)
def solve_upper(U, k, z):
    """z ← U⁻¹z, in place."""
    for i in range(k - 1, -1, -1):
        row = U[i, i + 1 : k]
        rest = z[i + 1 : k]
        total = z[i]
        for j in range(row.shape[0]):
            total -= row[j] * rest[j]
        z[i] = total / U[i, i]


@kernel(reassociate=True)
def solve_lower(U, k, right, z):
    """z ← U'⁻¹right."""
    z[:k] = right[:k]
    for i in range(k):
        row = U[i, i + 1 : k]
        rest = z[i + 1 : k]
        value = z[i] / U[i, i]
        z[i] = value
        for j in range(row.shape[0]):
            rest[j] -= value * row[j]


@kernel
def entry(G, whole, i, j):
    """G_ij of a symmetric matrix, of which only the lower triangle may be there."""
    return G[i, j] if whole or i >= j else G[j, i]


@kernel(reassociate=True)
def append_columns(U, k, half, G, whole, c, signs, order, new, count, mu, ridge, block):
    """Let ``new[:count]`` enter after the k columns in ``order``; a column without a positive pivot stays out.

    G is there whole, or its lower triangle alone. ``block`` is room for the new columns of U, a row each. Returns the new k.
    """
    for entering in range(count):
        for i in range(k):
            block[entering, i] = entry(G, whole, new[entering], order[i])
    for i in range(k):
        row = U[i, i + 1 : k]
        diagonal = U[i, i]
        for entering in range(count):
            value = block[entering, i] / diagonal
            block[entering, i] = value
            rest = block[entering, i + 1 : k]
            for j in range(row.shape[0]):
                rest[j] -= value * row[j]
    for entering in range(count):
        own = block[entering, :k]
        square = 0.0
        for j in range(own.shape[0]):
            square += own[j] * own[j]
        base = G[new[entering], new[entering]]
        lifted = base * (1.0 + ridge) + mu
        pivot = lifted - square
        if not pivot > 0.01 * ridge * lifted:
            continue
        root = pivot**0.5
        for i in range(k):
            U[i, k] = own[i]
        U[k, k] = root
        for side in range(2):
            solved = half[side, :k]
            total = c[new[entering]] if side == 0 else signs[new[entering]]
            for j in range(solved.shape[0]):
                total -= own[j] * solved[j]
            half[side, k] = total / root
        order[k] = new[entering]
        for later in range(entering + 1, count):
            other = block[later, :k]
            total = entry(G, whole, new[later], new[entering])
            for j in range(other.shape[0]):
                total -= other[j] * own[j]
            block[later, k] = total / root
        k += 1
    return k


@kernel(reassociate=True)
def remove_column(U, k, half, order, at):
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
        for side in range(2):
            x = half[side, i]
            y = half[side, i + 1]
            half[side, i] = cosine * x + sine * y
            half[side, i + 1] = cosine * y - sine * x
    for i in range(at, k - 1):
        order[i] = order[i + 1]
    return k - 1
