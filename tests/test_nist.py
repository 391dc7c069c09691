"""NIST's eleven reference sets for linear regression (StRD, public domain): digits against the certified values.

Wampler's sets and those without intercept follow formulas; Norris comes with SciPy, Longley with statsmodels. On
Filip's tenth-degree polynomial the powers, once rounded to float64, are other data than NIST's: the exact solution of
the columns as stored, in rational numbers, shows how many of the certified digits any program can give.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import trueline as tl

# fmt: off
PONTIUS = """
.11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 1.30822 1.41599 1.52399 1.63194 1.73947
1.84646 1.95392 2.06128 2.16844 .11052 .22018 .32939 .43886 .54798 .65739 .76596 .87474 .98300 1.09150 1.20004 1.30818
1.41613 1.52408 1.63159 1.73965 1.84696 1.95445 2.06177 2.16829
"""
FILIP_Y = """
.8116 .9072 .9052 .9039 .8053 .8377 .8667 .8809 .7975 .8162 .8515 .8766 .8885 .8859 .8959 .8913 .8959 .8971 .9021 .9090
.9139 .9199 .8692 .8872 .8900 .8910 .8977 .9035 .9078 .7675 .7705 .7713 .7736 .7775 .7841 .7971 .8329 .8641 .8804 .7668
.7633 .7678 .7697 .7700 .7749 .7796 .7897 .8131 .8498 .8741 .8061 .8460 .8751 .8856 .8919 .8934 .8940 .8957 .9047 .9129
.9209 .9219 .7739 .7681 .7665 .7703 .7702 .7761 .7809 .7961 .8253 .8602 .8809 .8301 .8664 .8834 .8898 .8964 .8963 .9074
.9119 .9228
"""
FILIP_X = """
-6.860120914 -4.324130045 -4.358625055 -4.358426747 -6.955852379 -6.661145254 -6.355462942 -6.118102026 -7.115148017
-6.815308569 -6.519993057 -6.204119983 -5.853871964 -6.109523091 -5.79832982 -5.482672118 -5.171791386 -4.851705903
-4.517126416 -4.143573228 -3.709075441 -3.499489089 -6.300769497 -5.953504836 -5.642065153 -5.031376979 -4.680685696
-4.329846955 -3.928486195 -8.56735134 -8.363211311 -8.107682739 -7.823908741 -7.522878745 -7.218819279 -6.920818754
-6.628932138 -6.323946875 -5.991399828 -8.781464495 -8.663140179 -8.473531488 -8.247337057 -7.971428747 -7.676129393
-7.352812702 -7.072065318 -6.774174009 -6.478861916 -6.159517513 -6.835647144 -6.53165267 -6.224098421 -5.910094889
-5.598599459 -5.290645224 -4.974284616 -4.64454848 -4.290560426 -3.885055584 -3.408378962 -3.13200249 -8.726767166
-8.66695597 -8.511026475 -8.165388579 -7.886056648 -7.588043762 -7.283412422 -6.995678626 -6.691862621 -6.392544977
-6.067374056 -6.684029655 -6.378719832 -6.065855188 -5.752272167 -5.132414673 -4.811352704 -4.098269308 -3.66174277
-3.2644011
"""
CERTIFIED = {  # coefficients, standard errors
    "Norris": ([-0.262323073774029, 1.00211681802045], [0.232818234301152, 0.429796848199937e-03]),
    "Pontius": ([0.673565789473684e-03, 0.732059160401003e-06, -0.316081871345029e-14],
                [0.107938612033077e-03, 0.157817399981659e-09, 0.486652849992036e-16]),
    "NoInt1": ([2.07438016528926], [0.165289256198347e-01]),
    "NoInt2": ([0.727272727272727], [0.420827318078432e-01]),
    "Longley": ([-3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683, -1.03322686717359,
                 -0.511041056535807e-01, 1829.15146461355],
                [890420.383607373, 84.9149257747669, 0.334910077722432e-01, 0.488399681651699, 0.214274163161675,
                 0.226073200069370, 455.478499142212]),
    "Wampler1": ([1.0] * 6, [0.0] * 6),
    "Wampler2": ([1.0, 0.1, 0.01, 0.001, 0.0001, 0.00001], [0.0] * 6),
    "Wampler3": ([1.0] * 6, [2152.32624678170, 2363.55173469681, 779.343524331583, 101.475507550350, 5.64566512170752,
                             0.112324854679312]),
    "Wampler4": ([1.0] * 6, [215232.624678170, 236355.173469681, 77934.3524331583, 10147.5507550350, 564.566512170752,
                             11.2324854679312]),
    "Wampler5": ([1.0] * 6, [21523262.4678170, 23635517.3469681, 7793435.24331583, 1014755.07550350, 56456.6512170752,
                             1123.24854679312]),
    "Filip": ([-1467.48961422980, -2772.17959193342, -2316.37108160893, -1127.97394098372, -354.478233703349,
               -75.1242017393757, -10.8753180355343, -1.06221498588947, -0.670191154593408e-01, -0.246781078275479e-02,
               -0.402962525080404e-04],
              [298.084530995537, 559.779865474950, 466.477572127796, 227.204274477751, 71.6478660875927,
               15.2897178747400, 2.23691159816033, 0.221624321934227, 0.142363763154724e-01, 0.535617408889821e-03,
               0.896632837373868e-05]),
}
# fmt: on


def numbers(text: str) -> np.ndarray:
    return np.array([float(v) for v in text.split()])


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "Norris":
        import pathlib

        stats = pytest.importorskip("scipy.stats.tests")
        path = pathlib.Path(stats.__file__).parent / "data" / "nist_linregress" / "Norris.dat"
        if not path.exists():
            pytest.skip("this SciPy comes without its tests' data")
        table = np.array([line.split() for line in path.read_text().splitlines()[60:96]], dtype=float)
        return table[:, 1:], table[:, 0]
    if name == "Pontius":
        x = np.tile(np.arange(1, 21) * 150_000.0, 2)
        return x[:, None] ** [1, 2], numbers(PONTIUS)
    if name == "NoInt1":
        return np.arange(60.0, 71.0)[:, None], np.arange(130.0, 141.0)
    if name == "NoInt2":
        return np.array([[4.0], [5.0], [6.0]]), np.array([3.0, 4.0, 4.0])
    if name == "Longley":
        from statsmodels.datasets import longley

        table = longley.load_pandas()
        return np.asarray(table.exog, dtype=float), np.asarray(table.endog, dtype=float)
    x = np.arange(21.0)
    X = x[:, None] ** np.arange(1, 6)
    if name == "Wampler2":
        return X, np.round(1 + ((x[:, None] / 10) ** np.arange(1, 6)).sum(axis=1), 5)
    pattern = [759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048]
    size = {"Wampler1": 0, "Wampler3": 1, "Wampler4": 100, "Wampler5": 10_000}[name]
    return X, 1 + X.sum(axis=1) + size * np.array([*pattern, *pattern[-2::-1]], dtype=float)


def digits(found: Any, truth: Any) -> float:
    """Correct digits of the worst number, at most 15."""
    off = [abs(Fraction(float(a)) - Fraction(b)) / abs(Fraction(b)) for a, b in zip(found, truth, strict=True)]
    return min(15.0, *(-math.log10(e) if e else 15.0 for e in map(float, off)))


@pytest.mark.parametrize("name", [name for name in CERTIFIED if name != "Filip"])
def test_coefficients_to_13_digits_and_standard_errors_to_12(name):
    X, y = data(name)
    model = tl.LinearRegression(fit_intercept=not name.startswith("NoInt")).fit(X, y)
    coefficients, errors = CERTIFIED[name]
    found = model.coef_ if name.startswith("NoInt") else np.r_[model.intercept_, model.coef_]
    got = digits(found, coefficients)
    assert got >= 13
    assert model.certificate_.digits <= got or got >= 14.3  # half a unit of the 15 digits that NIST prints
    std_errors = model.summary().std_errors
    told = f"{digits(std_errors, errors):.2f} digits" if any(errors) else f"at most {np.abs(std_errors).max():.1g}"
    print(f"{name:9s} coefficients {got:.2f}, errors {told}, certificate {model.certificate_.digits:.2f}")
    if any(errors):
        assert digits(std_errors, errors) >= 12
    else:
        assert np.abs(std_errors).max() < 1e-9


# ---- Filip


def by_multiplying(x: np.ndarray) -> np.ndarray:
    return np.cumprod(np.repeat(x[:, None], 10, axis=1), axis=1)


def by_scikit_learn(x: np.ndarray) -> np.ndarray:
    from sklearn.preprocessing import PolynomialFeatures

    return PolynomialFeatures(10, include_bias=False).fit_transform(x[:, None])


POWERS = {
    "x ** k": lambda x: x[:, None] ** np.arange(1, 11),
    "x ** k, a column at a time": lambda x: np.column_stack([x**k for k in range(1, 11)]),
    "x ** k, k a float": lambda x: x[:, None] ** np.arange(1.0, 11.0),
    "multiplied up": by_multiplying,
    "np.vander": lambda x: np.vander(x, 11, increasing=True)[:, 1:],
    "PolynomialFeatures": by_scikit_learn,
}


def exactly(columns: list[list[Fraction]], y: list[Fraction]) -> tuple[list[Fraction], list[float]]:
    """(coefficients, standard errors) of y on 1 and the columns, by Gauss–Jordan in rational numbers."""
    A = [[Fraction(1)] * len(y), *columns]
    d = len(A)
    # [G | c | I] becomes [I | β | G⁻¹].
    rows = [
        [sum(a * b for a, b in zip(A[i], other)) for other in [*A, y]] + [Fraction(int(i == j)) for j in range(d)]
        for i in range(d)
    ]
    yy = sum(v * v for v in y)
    right = [row[d] for row in rows]
    for i in range(d):
        pivot = rows[i][i]
        rows[i] = [v / pivot for v in rows[i]]
        for k in range(d):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    beta = [row[d] for row in rows]
    rss = yy - sum(b * c for b, c in zip(beta, right))
    errors = [math.sqrt(rss / (len(y) - d) * rows[j][d + 1 + j]) for j in range(d)]
    return beta, errors


@pytest.fixture(scope="module")
def filip() -> tuple[np.ndarray, np.ndarray]:
    return numbers(FILIP_X), numbers(FILIP_Y)


def test_certified_values_are_those_of_the_decimals():
    x, y = [[Fraction(v) for v in text.split()] for text in (FILIP_X, FILIP_Y)]
    beta, errors = exactly([[v**k for v in x] for k in range(1, 11)], y)
    assert digits(CERTIFIED["Filip"][0], beta) >= 14.3 and digits(CERTIFIED["Filip"][1], errors) >= 14.3


@pytest.mark.parametrize("how", POWERS)
def test_powers_as_columns_give_all_digits_that_their_rounding_left(filip, how):
    x, y = filip
    X = POWERS[how](x)
    beta, errors = exactly(
        [[Fraction(v) for v in column] for column in X.T.tolist()], [Fraction(v) for v in y.tolist()]
    )
    model = tl.LinearRegression().fit(X, y)
    found, std_errors = np.r_[model.intercept_, model.coef_], model.summary().std_errors
    # Of the columns as they are stored, three digits more than their rounding left of NIST's.
    assert digits(found, beta) >= 10 and digits(std_errors, errors) >= 10.5
    assert model.certificate_.arithmetic_digits <= digits(found, beta)
    # So against NIST's values only what the rounding of the powers has cost the exact solution itself is missing.
    limit = digits([float(b) for b in beta], CERTIFIED["Filip"][0])
    error_limit = digits(errors, CERTIFIED["Filip"][1])
    got, got_errors = digits(found, CERTIFIED["Filip"][0]), digits(std_errors, CERTIFIED["Filip"][1])
    print(f"{how:28s} coefficients {got:.3f} of {limit:.3f} possible, errors {got_errors:.3f} of {error_limit:.3f}, "
          f"certificate {model.certificate_.digits:.2f}")  # fmt: skip
    assert abs(got - limit) < 5e-3 and abs(got_errors - error_limit) < 5e-3
    assert got >= 7.5
    assert model.certificate_.digits <= got and model.certificate_.rank == 10


def test_own_powers_give_twelve_digits(filip):
    x, y = filip
    basis = tl.Basis("poly(x, 10)").fit(x[:, None])
    model = tl.LinearRegression().fit(basis.transform(x[:, None]), y)
    raw = list(basis.raw_coefficients(model).values())
    print(f"poly(x, 10): coefficients {digits(raw, CERTIFIED['Filip'][0]):.2f}")
    assert digits(raw, CERTIFIED["Filip"][0]) >= 12
