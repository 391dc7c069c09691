"""The density of a table for many groups: one family for each column (or one Gaussian for several), multiplied.

A table is a list of columns, float64 with NaN or objects with None where a value is missing; a missing value is
integrated out, which for a product of columns means that it adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..certify.likelihood import LikelihoodCertificate
from ..certify.monotone import monotone
from ..certify.records import Assumption, Certificate, Status
from ..errors import UsageError, nearest
from .covariances import Covariant
from .families import Bernoulli, Categorical, Family, Poisson, absent, refuse_different
from .gaussians import Gaussian
from .lattice import Histogram, Mixture, mixture_parts

SIMPLE: dict[str, type[Family]] = {
    "poisson": Poisson, "categorical": Categorical, "bernoulli": Bernoulli, "histogram": Histogram
}  # fmt: skip
NAMES = ("auto", "gaussian", *SIMPLE, "mixture", "mixture(3)")
COVARIANCES = ("diagonal", "full", "shared")


def choose(values: np.ndarray, weights: np.ndarray) -> str:
    """The family of a column by its values: strings are categories, 0 and 1 a Bernoulli, counts whose variance is
    within a factor of two of their mean a Poisson, everything else Gaussian."""
    if values.dtype == object:
        return "categorical"
    kept = ~np.isnan(values) & (weights > 0)
    x, w = values[kept], weights[kept]
    if not len(x) or (x < 0).any() or (x % 1 != 0).any():
        return "gaussian"
    if ((x == 0) | (x == 1)).all():
        return "bernoulli"
    mean = np.average(x, weights=w)
    return "poisson" if mean / 2 <= np.average((x - mean) ** 2, weights=w) <= 2 * mean else "gaussian"


class DensityModel:
    """Families that cover the columns of a table, for ``groups`` groups. ``kind`` "density" in files."""

    kind = "density"

    def __init__(self, parts: list[Any], names: tuple[str, ...] | None, columns: int, groups: int) -> None:
        self.parts, self.names, self.columns, self.groups = parts, names, columns, groups
        self.rows = np.zeros(groups)
        self.certificate: Certificate = LikelihoodCertificate()

    @classmethod
    def start(
        cls, table: Sequence[np.ndarray], weights: np.ndarray, groups: int, *, density: Any, covariance: str,
        names: tuple[str, ...] | None, alpha: float, smoothing: float, correction: float,
    ) -> DensityModel:  # fmt: skip
        """An empty model whose families are chosen by ``density`` and, where that says "auto", by the first rows."""
        labels = tuple(names) if names is not None else tuple(f"x{j}" for j in range(len(table)))
        wanted = _by_column(density, labels)
        chosen = [choose(table[j], weights) if name == "auto" else name for j, name in enumerate(wanted)]
        gaussian = tuple(j for j, name in enumerate(chosen) if name == "gaussian")
        parts: list[Any] = []
        if gaussian:
            options = {"smoothing": float(smoothing), "correction": float(correction)}
            named = tuple(labels[j] for j in gaussian)
            if covariance == "diagonal":
                parts.append(Gaussian(gaussian, named, groups, alpha, **options))
            else:
                parts.append(Covariant(gaussian, named, groups, alpha, **options, shared=covariance == "shared"))
        for j, name in enumerate(chosen):
            if name == "gaussian":
                continue
            number = mixture_parts(name)
            if number is not None:
                parts.append(Mixture((j,), (labels[j],), groups, alpha, number))
            else:
                parts.append(SIMPLE[name]((j,), (labels[j],), groups, float(alpha)))
        made = cls(parts, names, len(table), groups)
        made.check(table)
        return made

    def chosen(self) -> dict[str, str]:
        """The density of each column, in their order."""
        found: list[tuple[int, str, str]] = []
        for part in self.parts:
            said = (
                f"mixture({part.parts})" if part.name == "mixture" else "gaussian" if part.name == "full" else part.name
            )
            found += [(column, label, said) for column, label in zip(part.columns, part.labels, strict=True)]
        return {label: said for _, label, said in sorted(found)}

    def like(self, parts: list[Any], rows: np.ndarray) -> DensityModel:
        made = DensityModel(parts, self.names, self.columns, len(rows))
        made.rows, made.certificate = rows, self.certificate
        return made

    def check(self, table: Sequence[np.ndarray]) -> None:
        """Refuse strings where numbers are meant, before anything is learned."""
        for part in self.parts:
            for j, label in zip(part.columns, part.labels):
                if part.name == "categorical":
                    continue
                if table[j].dtype == object:
                    from ..errors import DataError

                    raise DataError(
                        f"column {label!r} holds strings, but its density is {part.name}; give numbers, or "
                        f"density={{{label!r}: 'categorical'}}",
                        where=label,
                    )
                part.check(table[j])

    def _values(self, part: Any, table: Sequence[np.ndarray]) -> np.ndarray:
        if isinstance(part, Gaussian):
            whole = getattr(table, "matrix", None)
            if whole is not None:
                return whole if len(part.columns) == len(table) else whole[:, list(part.columns)]
            return np.column_stack([table[j] for j in part.columns])
        return table[part.columns[0]]

    def learn(self, table: Sequence[np.ndarray], weights: np.ndarray, group: np.ndarray) -> None:
        """Add rows, all or (if any value is refused) none."""
        self.check(table)
        for part in self.parts:
            part.learn(self._values(part, table), weights, group)
        self.rows = self.rows + np.bincount(group, weights, self.groups)

    def log_density(self, table: Sequence[np.ndarray], group: Any = None, unknown: float = 0.0) -> np.ndarray:
        """Rows × groups; or, with ``group`` (one for each row), one number a row."""
        if group is None:
            return self.scores(table, unknown)
        self.check(table)
        return sum(part.score(self._values(part, table), group, unknown) for part in self.parts)

    def scores(self, table: Sequence[np.ndarray], unknown: float = 0.0, relative: bool = False) -> np.ndarray:
        """Log-densities, rows × groups; ``relative`` allows to leave out what all groups share."""
        self.check(table)
        out = self.parts[0].scores(self._values(self.parts[0], table), unknown, relative)
        for part in self.parts[1:]:
            out += part.scores(self._values(part, table), unknown, relative)
        return out

    def sample(self, group: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """A table of one draw for each entry of ``group``."""
        table: list[np.ndarray] = [np.empty(0)] * self.columns
        for part in self.parts:
            drawn = part.sample(group, rng)
            for k, j in enumerate(part.columns):
                table[j] = drawn[:, k] if drawn.ndim == 2 else drawn
        return table

    def take(self, index: np.ndarray) -> DensityModel:
        index = np.asarray(index, dtype=np.int64)
        rows = np.where(index < 0, 0.0, self.rows[index]) if self.groups else np.zeros(len(index))
        return self.like([part.take(index) for part in self.parts], rows)

    def scaled(self, factor: Any) -> DensityModel:
        factor = np.broadcast_to(np.asarray(factor, dtype=float), (self.groups,))
        return self.like([part.scaled(factor) for part in self.parts], self.rows * factor)

    def pooled(self) -> DensityModel:
        return self.like([part.pooled() for part in self.parts], self.rows.sum(keepdims=True))

    def __add__(self, other: DensityModel) -> DensityModel:
        refuse_different(
            [(p.name, p.columns, getattr(p, "shared", None)) for p in self.parts],
            [(p.name, p.columns, getattr(p, "shared", None)) for p in other.parts],
        )
        return self.like([a + b for a, b in zip(self.parts, other.parts)], self.rows + other.rows)

    def sufficient(self, table: Sequence[np.ndarray]) -> np.ndarray:
        """The statistics of each row in which log-odds are linear (missing values stay NaN)."""
        return np.hstack([part.sufficient(self._values(part, table)) for part in self.parts])

    def certify(self, prior: float = 0.0, names: Sequence[Any] = ()) -> LikelihoodCertificate:
        """What the statistics prove; ``prior`` is the log-likelihood of the classes themselves."""
        here, top, steps, rising = prior, prior, 0, True
        unproven, flat = [], []
        for part in self.parts:
            a, b = part.likelihoods()
            here, top = here + a, top + b
            label = ", ".join(part.labels)
            if not part.closed:
                unproven.append(label)
                trace = part.trace if part.name == "full" or self.groups == 1 else ()
                steps, rising = steps + len(trace), rising and monotone(trace[:-1], trace[1:], True)
                if part.name == "mixture" and self.groups > 1:
                    steps += 1
            elif b == np.inf:
                flat.append(label)
        assumptions, advice = [], ""
        if unproven:
            assumptions.append(Assumption("the likelihood has one peak", False, remedy="EM found a stationary point"))
            advice = f"a stationary point only, in {'; '.join(unproven)}: EM does not prove the largest peak"
        if flat:
            assumptions.append(Assumption("every variance is positive", False, remedy="drop constant columns"))
            advice = f"a column is constant in some class ({'; '.join(flat)}): its likelihood has no maximum; drop it or raise var_smoothing"
        status = Status.DEGENERATE if flat else Status.NOT_PROVEN if unproven else Status.PROVEN
        return LikelihoodCertificate(
            status=status, assumptions=tuple(assumptions), advice=advice, rows=float(self.rows.sum()),
            log_likelihood=float(here), maximum=float(top), gap=float(top - here), iterations=steps, monotone=rising,
            effective_counts=tuple(float(r) for r in self.rows),
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, parts = {"rows": self.rows}, []
        for k, part in enumerate(self.parts):
            own, meta = part.to_state()
            arrays |= {f"part{k}.{name}": value for name, value in own.items()}
            parts.append(meta)
        names = list(self.names) if self.names is not None else None
        return arrays, {
            "parts": parts, "names": names, "columns": self.columns, "certificate": self.certificate.to_dict()
        }  # fmt: skip

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> DensityModel:
        from ..certify.records import from_dict

        rows = arrays["rows"]
        parts = []
        for k, about in enumerate(meta["parts"]):
            made = {"gaussian": Gaussian, "full": Covariant, "mixture": Mixture}.get(about["name"]) or SIMPLE[
                about["name"]
            ]
            part = made(tuple(about["columns"]), tuple(about["labels"]), len(rows), about["alpha"])
            head = f"part{k}."
            part.restore({n[len(head) :]: np.array(v) for n, v in arrays.items() if n.startswith(head)}, about)
            parts.append(part)
        model = cls(parts, tuple(meta["names"]) if meta["names"] is not None else None, meta["columns"], len(rows))
        model.rows, model.certificate = rows, from_dict(meta["certificate"])
        return model


def is_density(given: Any) -> bool:
    """Whether this is the name of a density, or a dict of names.

    >>> is_density("mixture(2)"), is_density({"x": "poisson"}), is_density("normal")
    (True, True, False)
    """
    if isinstance(given, dict):
        return all(isinstance(name, str) and is_density(name) for name in given.values())
    return isinstance(given, str) and (given in NAMES or mixture_parts(given) is not None)


def _by_column(density: Any, labels: tuple[str, ...]) -> list[str]:
    """A density's name for each column, from one name or a dict by column name or number."""
    given = density if isinstance(density, dict) else dict.fromkeys(labels, density)
    wanted = ["auto"] * len(labels)
    for key, name in given.items():
        if key in labels:
            wanted[labels.index(key)] = name
        elif isinstance(key, (int, np.integer)) and 0 <= key < len(labels):
            wanted[int(key)] = name
        else:
            raise UsageError(
                f"density names column {key!r}, which is not there{nearest(str(key), labels)}", where="density"
            )
    return wanted


__all__ = ["DensityModel", "absent", "choose"]
