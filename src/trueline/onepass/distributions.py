"""Tails of Student's t, F, χ² and the normal distribution, without SciPy: the command line must start fast.

I_x(a, b), the regularised incomplete beta function, by Lentz's continued fraction; P(a, x), the regularised
incomplete gamma function, by its series or continued fraction.
"""

from __future__ import annotations

import math

_TINY = 1e-300


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b).

    >>> round(incomplete_beta(2.0, 3.0, 0.4), 10)
    0.5248
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    return _beta_front(a, b, x, 1.0 - x) * _beta_fraction(a, b, x) / a


def _beta_front(a: float, b: float, x: float, y: float) -> float:
    """x^a y^b / B(a, b), with y = 1 − x given so that it keeps its digits."""
    return math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y))


def _beta_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d or _TINY)
    value = d
    for m in range(1, 10_000):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / ((1.0 + top * d) or _TINY)
            c = (1.0 + top / c) or _TINY
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _beta_tail(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b) with y = 1 − x, accurate where it is small."""
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_front(b, a, y, x) * _beta_fraction(b, a, y) / b
    return _beta_front(a, b, x, y) * _beta_fraction(a, b, x) / a


def t_two_sided(t: float, df: float) -> float:
    """P(|T| ≥ |t|) for Student's t.

    >>> round(t_two_sided(2.0, 10.0), 8)
    0.07338803
    """
    if math.isnan(t) or df <= 0:
        return math.nan
    if math.isinf(t):
        return 0.0
    return _beta_tail(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))


def f_upper(f: float, df1: float, df2: float) -> float:
    """P(F ≥ f).

    >>> round(f_upper(4.0, 2.0, 20.0), 8)
    0.03457161
    """
    if math.isnan(f) or df1 <= 0 or df2 <= 0:
        return math.nan
    if f <= 0:
        return 1.0
    if math.isinf(f):
        return 0.0
    return _beta_tail(df2 / 2, df1 / 2, df2 / (df2 + df1 * f), df1 * f / (df2 + df1 * f))


def normal_two_sided(z: float) -> float:
    """P(|Z| ≥ |z|)."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def chi2_upper(x: float, df: float) -> float:
    """P(χ² ≥ x).

    >>> round(chi2_upper(3.0, 2.0), 10) == round(math.exp(-1.5), 10)
    True
    """
    if math.isnan(x) or df <= 0:
        return math.nan
    if x <= 0:
        return 1.0
    a, x = df / 2, x / 2
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1.0 / a
        k = a
        while term > total * 1e-17:
            k += 1
            term *= x / k
            total += term
        return 1.0 - front * total
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    value = d
    for i in range(1, 10_000):
        top = -i * (i - a)
        b += 2
        d = 1 / ((top * d + b) or _TINY)
        c = (b + top / c) or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front * value


def t_quantile(level: float, df: float) -> float:
    """q with P(|T| ≤ q) = level: the half-width of an interval, in standard errors.

    >>> round(t_quantile(0.95, 10.0), 6)
    2.228139
    """
    return _two_sided_quantile(level, lambda q: t_two_sided(q, df))


def normal_quantile(level: float) -> float:
    """q with P(|Z| ≤ q) = level."""
    return _two_sided_quantile(level, normal_two_sided)


def _two_sided_quantile(level: float, tail) -> float:  # type: ignore[no-untyped-def]
    """Bisection on the decreasing tail probability: 200 halvings at most, to the last bit."""
    wanted = 1.0 - level
    low, high = 0.0, 1.0
    while tail(high) > wanted:
        low, high = high, high * 2
        if high > 1e300:
            return math.inf
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if tail(middle) > wanted else (low, middle)
    return 0.5 * (low + high)
