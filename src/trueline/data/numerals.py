"""Delimited text of plain numbers as rows, in one compiled loop: a third of the work of a reader for any table.

A numeral of at most eighteen digits is a whole number w times a power of ten. Where w and the power are exact in a double
their product or quotient is rounded once, correctly; otherwise it is made of two doubles, and where even these leave open
which double is the nearest, the numeral counts as not plain. What is not plain (a quote, a word, a blank, an empty cell, a
row of another length) ends the reading: the caller takes the table's usual reader for it.
"""

from __future__ import annotations

import numpy as np

from .._jit import kernel
from ..doubled import two_prod

REACH = 60  # powers of ten at most, either way
_EXACT = 22  # the largest power of ten that is a double
_MINUS, _POINT, _ZERO, _RETURN, _LINE, _PLUS = 45, 46, 48, 13, 10, 43
_E, _CASE = 69 - 48, 32  # as digits are counted

_two_prod = kernel(inlined=True)(two_prod)


def powers() -> np.ndarray:
    """10^k for k from −60 to 60, each as a double and what it lacks."""
    scale, made = 400, []
    for k in range(-REACH, REACH + 1):
        nearest = float(f"1e{k}")
        exact = (10**k << scale) if k >= 0 else (1 << scale) // 10**-k
        made.append((nearest, float(exact - int(nearest * 2.0**scale)) * 2.0**-scale))
    return np.array(made)


@kernel
def lines(text: np.ndarray) -> int:
    """How many lines end in this text."""
    found = 0
    for c in text:
        found += c == _LINE
    return found


@kernel(inlined=True)
def rounded(w: int, e: int, tens: np.ndarray) -> float:
    """The double nearest to w·10^e, or NaN where 106 bits cannot tell."""
    if e < -REACH or e > REACH:
        return np.nan
    a = float(w)
    b = float(w - int(a))
    p, q = tens[e + REACH, 0], tens[e + REACH, 1]
    product, lost = _two_prod(a, p)
    rest = lost + (a * q + b * p)
    made = product + rest
    rest = (product - made) + rest
    doubt = made * 1e-30
    return made if made + (rest - doubt) == made + (rest + doubt) else np.nan


@kernel
def numerals(
    text: np.ndarray, separator: int, place: np.ndarray, tens: np.ndarray, X: np.ndarray, y: np.ndarray
) -> int:
    """Read rows into X and y until one is not plain; how many were. Cell j goes to column place[j], −1 means y, −2 nowhere.

    The text ends with a line's end, so that no look at a byte needs a look at its place.
    """
    i, last = 0, len(place) - 1
    for r in range(len(y)):
        for j in range(len(place)):
            minus = text[i] == _MINUS
            i += minus
            first, w, e = i, 0, 0
            c = int(text[i]) - _ZERO
            while c >= 0 and c <= 9:
                w = 10 * w + c
                i += 1
                c = int(text[i]) - _ZERO
            digits = i - first
            if digits == 0:
                return r
            if c == _POINT - _ZERO:
                i += 1
                point = i
                c = int(text[i]) - _ZERO
                while c >= 0 and c <= 9:
                    w = 10 * w + c
                    i += 1
                    c = int(text[i]) - _ZERO
                e = point - i
                digits -= e
                if e == 0:
                    return r
            if digits > 18:  # zeros in front are none
                k = first
                while text[k] == _ZERO or text[k] == _POINT:
                    digits -= text[k] == _ZERO
                    k += 1
                if digits > 18:
                    return r
            if c & ~_CASE == _E:
                i += 1
                below = text[i] == _MINUS
                i += below or text[i] == _PLUS
                power, first = 0, i
                c = int(text[i]) - _ZERO
                while c >= 0 and c <= 9 and i < first + 4:
                    power = 10 * power + c
                    i += 1
                    c = int(text[i]) - _ZERO
                if i == first:
                    return r
                e += -power if below else power
            if e == 0 or w == 0:
                value = float(w)
            elif w <= 9007199254740992 and e >= -_EXACT and e <= _EXACT:
                value = w / tens[REACH - e, 0] if e < 0 else w * tens[REACH + e, 0]
            else:
                value = rounded(w, e, tens)
                if value != value:
                    return r
            c += _ZERO
            if j == last:
                i += c == _RETURN
                if text[i] != _LINE:
                    return r
            elif c != separator:
                return r
            i += 1
            k = place[j]
            if k >= 0:
                X[r, k] = -value if minus and w else value
            elif k == -1:
                y[r] = -value if minus and w else value
    return len(y)
