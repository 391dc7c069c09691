"""How many digits of a least-squares solution hold, and which level of products the digits asked for need.

With v_i the noise of column i (Σ 4u(x_i − c_i)², see moments) and s = √v, a coefficient's error is about

  lever_j · size,   lever_j = √(Σ_i (G⁻¹)_ji² v_i),   size = √(v_y + Σ_k v_k β_k²),

plus the solve's own, which has the same form with v_i = 2⁻⁹⁸ G_ii. The noises are lengths of
independent errors and a single fit may have more: the *arithmetic* claims 8 times that. Beside it stands
what the *data* allow: if every entry that is not a whole number carries half a unit in its last place, β_j moves by
about √((G⁻¹)_jj)·e, e² = (h_y² + Σ h_k²β_k²)/n, h_i² = 2⁻¹⁰⁶ Σ x_i², and by √(Σ_i (G⁻¹)_ji² h_i²)·‖r‖/√n.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..doubled import UNIT, UNIT_DOUBLED
from ..errors import UsageError
from . import exact
from .solve import factored

if TYPE_CHECKING:
    from .parts import Part

MOST = 15.0  # decimal digits that every float64 holds
AUTO_DIGITS = 13.0
# "auto" is content when an error is this small a part of the coefficient's standard error.
AUTO_SHARE = 1e-9
# Claimed errors are so many times the expected ones, and levels are chosen so that the claim meets the target.
_SAFETY = 8.0
_MARGIN = 1.0


def squared_rows(inverse: np.ndarray, mean: np.ndarray | None) -> np.ndarray:
    """(G⁻¹)_ji², the intercept's row first when there is a mean."""
    rows = inverse if mean is None else np.concatenate([(mean @ inverse)[None], inverse])
    return rows * rows


def arithmetic_errors(
    rows2: np.ndarray,
    beta: np.ndarray,
    noise: np.ndarray,
    target_noise: float,
    squares: np.ndarray,
    target_square: float,
) -> np.ndarray:
    """Absolute errors of [intercept and] coefficients that the arithmetic may have caused, before rounding.

    ``rows2`` are the :func:`squared_rows`.
    """
    noise = noise + UNIT_DOUBLED * squares
    size = math.sqrt(target_noise + UNIT_DOUBLED * target_square + float(noise @ (beta * beta)))
    return np.sqrt(rows2 @ noise) * (_SAFETY * size)


def intercept_error(
    mean: np.ndarray, beta: np.ndarray, target_mean: float, noise: np.ndarray, squares: np.ndarray, n: int
) -> float:
    """What the means themselves add to the error of b = ȳ − β·x̄; the last of ``noise`` and ``squares`` is y's.

    A sum of n terms errs by about u√(n Σ(x − c)²) = noise·√n/(4√Σ(x − c)²).
    """
    sums2 = (noise / np.sqrt(np.maximum(squares, np.finfo(float).tiny) * max(n, 1))) ** 2  # no noise without squares
    rounding = UNIT_DOUBLED * (abs(target_mean) + float(np.abs(beta) @ np.abs(mean)))
    return _SAFETY * (math.sqrt(float((beta * beta) @ sums2[:-1]) + sums2[-1]) + rounding)


def data_errors(
    rows2: np.ndarray,
    inverse: np.ndarray,
    mean: np.ndarray | None,
    beta: np.ndarray,
    rounding: np.ndarray,
    target_rounding: float,
    rss: float,
    n: int,
) -> np.ndarray:
    """Absolute errors that half a unit in the last place of every entry may cause."""
    spread = np.diagonal(inverse)
    if mean is not None:
        spread = np.concatenate([[mean @ inverse @ mean + 1.0 / max(n, 1)], spread])
    moved = (target_rounding + float(rounding @ (beta * beta))) / max(n, 1)
    return np.sqrt(np.maximum(spread, 0.0) * moved) + np.sqrt(rows2 @ rounding) * math.sqrt(max(rss, 0.0) / max(n, 1))


def rounding_squares(raw_squares: np.ndarray, integer: np.ndarray) -> np.ndarray:
    """h² per column: 0 for whole numbers."""
    return np.where(integer, 0.0, UNIT**2 * raw_squares)


def digits_of(errors: np.ndarray, values: np.ndarray) -> float:
    """Correct digits of the worst value: −log₁₀ of its relative error, at most what float64 holds."""
    if len(values) == 0:
        return float(MOST)
    worst = max(
        (e / abs(v) if v else e) if e == e and v == v else math.inf
        for e, v in zip(errors.tolist(), values.tolist(), strict=True)
    )
    return min(max(-math.log10(worst + UNIT), 0.0), MOST) if worst < 1 else 0.0


def vanished(errors: np.ndarray, values: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Which values cannot be told from 0, by errors too small to be ``unseen``: of these no digit is asked.

    A relative error says nothing of what is 0 by the structure of the data, such as the intercept of a fit through the
    origin, where the absolute one shows in no prediction.
    """
    return (np.abs(values) <= 4 * errors) & (errors <= unseen)


def wanted(digits: float | str) -> float:
    """The digits that were asked for."""
    if isinstance(digits, str) and digits != "auto":
        raise UsageError(f"digits must be 'auto' or a number of digits, not {digits!r}", where="digits")
    if not isinstance(digits, str) and not 0 < digits <= 16:
        raise UsageError(f"digits must lie between 1 and 16, not {digits!r}", where="digits")
    return AUTO_DIGITS if isinstance(digits, str) else float(digits)


class LevelRule:
    """Which level the next block needs: level 2 at first, then the cheapest that still meets the target.

    The Gram matrix only grows, so the inverse of the last factor bounds the later ones; it is refreshed whenever
    the rows have doubled. With ``digits="auto"`` a coefficient is good enough when it has 13 digits, or when
    its error is a 10⁻⁹th of its standard error.
    """

    def __init__(self, targets: int, digits: float | str, level: int | None) -> None:
        self.targets = targets
        self.auto = isinstance(digits, str)
        self.target = wanted(digits)
        self.fixed = level
        self.level = exact.LEVELS - 1 if level is None else level
        self.rows = 0
        self.next = 0
        self.due = False
        self.state: dict[str, Any] | None = None

    @property
    def settled(self) -> bool:
        """Whether a factor exists, by which levels can be compared."""
        return self.fixed is None and self.state is not None

    @property
    def full(self) -> bool:
        """Whether the factor has all columns."""
        return self.state is not None and self.state.get("full", True)

    def enough(self, rows: int, width: int) -> bool:
        """Whether so many rows are worth a factor."""
        return rows >= max(2 * exact.FINE_ROWS, 10 * (width - self.targets))

    def forget(self) -> None:
        """The columns have changed, or what was seen is to be seen again: start afresh."""
        self.state, self.next, self.due = None, 0, False
        self.level = exact.LEVELS - 1 if self.fixed is None else self.fixed

    def seen(self, n: int, noise: np.ndarray) -> None:
        """Count a block; a new factor is due when the rows have grown enough."""
        if self.fixed is not None:
            return
        self.rows += n
        if self.state is not None:
            self.state["noise"] = self.state["noise"] + noise
        enough = self.rows >= self.next and self.enough(self.rows, len(noise))
        self.due = enough and bool(np.isfinite(noise).all())

    def refactor(self, part: Part) -> None:
        """Judge by these moments of all rows so far; left until more rows come, since the last would judge nothing."""
        self.due, self.next = False, 2 * self.rows
        d = len(part.noise) - self.targets
        self.state = {"noise": part.noise.copy(), "inverse": None}
        if self.targets == 0 or d == 0:
            return
        H, E = part.products
        # Whole numbers have no rounding: none may pass for a constant here.
        rounding = np.minimum(UNIT**2 * part.raw_squares()[:d], 2.0**-20 * np.diagonal(H)[:d])
        factor = factored((H[:d, :d], E[:d, :d]), rounding, part.noise[:d], condition=False)
        inverse = factor.inverse
        c = part.products[0][:d, d:]
        beta = inverse @ c
        left = np.maximum(np.diagonal(part.products[0])[d:] - np.einsum("ij,ij->j", c, beta), 0.0)
        sigma2 = left / max(part.n - factor.rank - 1, 1)
        mean = part.mean[0][:d]
        rows = np.vstack([mean @ inverse, inverse])
        spread = np.concatenate([[mean @ inverse @ mean + 1 / part.weight[0]], np.diagonal(inverse)])
        values = np.vstack([part.mean[0][d:] - mean @ beta, beta])
        values[1:][~factor.kept] = np.inf  # a dropped column asks for nothing
        allowed = 10.0 ** -(self.target + _MARGIN) * np.abs(values)
        if self.auto:
            allowed = np.maximum(allowed, AUTO_SHARE * np.sqrt(spread[:, None] * sigma2))
        self.state |= {"inverse": inverse, "squared_rows": rows**2, "beta2": beta**2, "allowed": allowed}
        self.state["full"] = bool(factor.kept.all())

    def needed(self, squares: np.ndarray) -> int:
        """The level for a block whose squares about its shift are these."""
        if self.fixed is not None:
            return self.fixed
        top = exact.LEVELS - 1
        if self.state is None:
            return top
        if self.targets == 0:
            self.level = 0
            return 0
        if self.state["inverse"] is None:
            self.level = top
            return top
        if not np.isfinite(squares).all():
            return self.level  # nothing helps: the end of the pass refuses it
        d = len(squares) - self.targets
        self.level = top
        for level in range(top):
            noise = self.state["noise"] + 4 * exact.UNITS[level] * squares
            size = np.sqrt(noise[d:] + noise[:d] @ self.state["beta2"])
            error = np.sqrt(self.state["squared_rows"] @ noise[:d])[:, None] * size
            if (error <= self.state["allowed"]).all():
                self.level = level
                break
        return self.level
