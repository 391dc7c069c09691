"""The density of a table for many groups: one family for each column (or one Gaussian for several), multiplied.

A table is a list of columns, float64 with NaN or objects with None where a value is missing; a missing value is
integrated out, which for a product of columns means that it adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption, Certificate
from ..certificates.likelihood import LikelihoodCertificate, likelihood_status, monotone
from ..errors import DataError, ModelError, UsageError, nearest
from ..modelfile import Array, under
from .automatic import Automatic
from .covariances import Covariant
from .families import Bernoulli, Categorical, Family, Poisson, absent, refuse_different
from .gaussians import Gaussian
from .lattice import Histogram, Mixture, mixture_parts

SIMPLE: dict[str, type[Family]] = {
    "poisson": Poisson, "categorical": Categorical, "bernoulli": Bernoulli, "histogram": Histogram
}  # fmt: skip
NAMES = ("auto", "gaussian", *SIMPLE, "mixture", "mixture(3)")
COVARIANCES = ("diagonal", "full", "shared")
SETTINGS = ("smoothing", "correction", "alpha", "covariance")  # of families that are made while rows come in


def choose(values: np.ndarray, weights: np.ndarray) -> str:
    """The family of a column by its values: strings are categories, numbers as ``automatic.kind_by`` says."""
    if values.dtype == object:
        return "categorical"
    seen = Automatic((0,), ("",), 1).learned([values], weights, np.zeros(len(values), dtype=np.int64))
    return seen.kinds()[0]


class DensityModel:
    """Families that cover the columns of a table, for ``groups`` groups. ``kind`` "density" in files."""

    kind = "density"
    smoothing: float = 0.0
    correction: float = 0.0
    alpha: float = 1.0
    covariance: str = "diagonal"

    def __init__(self, parts: list[Any], names: tuple[str, ...] | None, columns: int, groups: int) -> None:
        self.parts, self.names, self.columns, self.groups = parts, names, columns, groups
        self.rows = np.zeros(groups)
        self.auto: Automatic | None = None  # columns whose density may change while rows come in
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
        free = tuple(j for j, name in enumerate(wanted) if name == "auto" and table[j].dtype != object)
        if free:
            made.auto = Automatic(free, tuple(labels[j] for j in free), groups)
        made.smoothing, made.correction = float(smoothing), float(correction)
        made.alpha, made.covariance = float(alpha), covariance
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

    def like(self, parts: list[Any], rows: np.ndarray, auto: Automatic | None = None) -> DensityModel:
        made = DensityModel(parts, self.names, self.columns, len(rows))
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k in SETTINGS})
        made.rows, made.certificate, made.auto = rows, self.certificate, auto
        return made

    def check(self, table: Sequence[np.ndarray], parts: Sequence[Any] | None = None) -> None:
        """Refuse strings where numbers are meant, and numbers that a density chosen by name cannot have."""
        free = () if self.auto is None else self.auto.columns
        for part in self.parts if parts is None else parts:
            for j, label in zip(part.columns, part.labels):
                if part.name == "categorical":
                    continue
                if table[j].dtype == object:
                    raise DataError(
                        f"column {label!r} holds strings, but its density is {part.name}; give numbers, or "
                        f"density={{{label!r}: 'categorical'}}",
                        where=label,
                    )
                if j not in free:
                    part.check(table[j])

    def _values(self, part: Any, table: Sequence[np.ndarray]) -> np.ndarray:
        if isinstance(part, Gaussian):
            whole = getattr(table, "matrix", None)
            if whole is not None:
                return whole if len(part.columns) == len(table) else whole[:, list(part.columns)]
            return np.column_stack([table[j] for j in part.columns])
        return table[part.columns[0]]

    def _scored(self, part: Any, table: Sequence[np.ndarray], unknown: float) -> tuple[np.ndarray, Any]:
        """(values, what to add): a value that a density chosen by the rows so far cannot have counts as never seen."""
        values = self._values(part, table)
        if self.auto is None or part.columns[0] not in self.auto.columns:
            return values, 0.0
        odd = part.odd(values)
        return (np.where(odd, np.nan, values), np.where(odd, unknown, 0.0)) if odd.any() else (values, 0.0)

    def kinds(self) -> dict[int, str] | None:
        """What the rows so far say of the columns without a density by name; None where all have one."""
        return None if self.auto is None else self.auto.kinds()

    def revise(self, kinds: dict[int, str] | None) -> None:
        """Give the columns without a density by name these ones, with what was learned so far."""
        if kinds is not None and self.auto is not None:
            self.parts = self._parts_for(kinds)

    def _parts_for(self, kinds: dict[int, str]) -> list[Any]:
        """The parts, with the density of some columns changed; their statistics are those of the rows learned."""
        auto = self.auto
        assert auto is not None
        now = {j: part.name for part in self.parts for j in part.columns if j in auto.columns}
        moved = [j for j in auto.columns if {"full": "gaussian"}.get(now[j], now[j]) != kinds[j]]
        if not moved:
            return self.parts
        label = dict(zip(auto.columns, auto.labels))
        if self.covariance != "diagonal":
            first = moved[0]
            raise DataError(
                f"column {label[first]!r} looked {now[first]} so far and {kinds[first]} with these rows, and covariances "
                f"cannot be made up: give density={{{label[first]!r}: 'gaussian'}} from the start",
                where=label[first],
            )
        kept = [part for part in self.parts if part.name != "gaussian" and part.columns[0] not in moved]
        old: Any = next((part for part in self.parts if part.name == "gaussian"), None)
        own = {} if old is None else {j: k for k, j in enumerate(old.columns)}
        stay = [j for j in own if j not in moved]
        gaussian = sorted([*stay, *(j for j in moved if kinds[j] == "gaussian")])
        parts: list[Any] = []
        if gaussian:
            names = {**label, **({} if old is None else dict(zip(old.columns, old.labels)))}
            made = Gaussian(
                tuple(gaussian), tuple(names[j] for j in gaussian), self.groups, self.alpha,
                smoothing=self.smoothing, correction=self.correction,
            )  # fmt: skip
            columns = [
                {name: value[:, [own[j]]] for name, value in old.stats.items()}
                if j in stay
                else auto.stats(j, "gaussian")
                for j in gaussian
            ]
            made.stats = {name: np.hstack([c[name] for c in columns]) for name in made.stats}
            parts.append(made)
        for j in moved:
            if kinds[j] != "gaussian":
                family = SIMPLE[kinds[j]]((j,), (label[j],), self.groups, self.alpha)
                family.stats = auto.stats(j, kinds[j])
                kept.append(family)
        return parts + sorted(kept, key=lambda part: part.columns)

    def learn(
        self, table: Sequence[np.ndarray], weights: np.ndarray, group: np.ndarray, kinds: dict[int, str] | None = None
    ) -> None:
        """Add rows, all or (if any value is refused) none; ``kinds`` says what the columns without a name become."""
        self.check(table)
        parts, auto = self.parts, self.auto
        if auto is not None:
            auto = auto.learned(table, weights, group)
            parts = self._parts_for(auto.kinds() if kinds is None else kinds)
            self.check(table, parts)
        self.parts, self.auto = parts, auto
        for part in self.parts:
            part.learn(self._values(part, table), weights, group)
        self.rows = self.rows + np.bincount(group, weights, self.groups)

    def log_density(self, table: Sequence[np.ndarray], group: Any = None, unknown: float = 0.0) -> np.ndarray:
        """Rows × groups; or, with ``group`` (one for each row), one number a row."""
        if group is None:
            return self.scores(table, unknown)
        self.check(table)
        total: Any = 0.0
        for part in self.parts:
            values, extra = self._scored(part, table, unknown)
            total = total + part.score(values, group, unknown) + extra
        return total

    def scores(self, table: Sequence[np.ndarray], unknown: float = 0.0, relative: bool = False) -> np.ndarray:
        """Log-densities, rows × groups; ``relative`` allows to leave out what all groups share."""
        self.check(table)
        total: Any = None
        for part in self.parts:
            values, extra = self._scored(part, table, unknown)
            found = part.scores(values, unknown, relative)
            found = found + np.reshape(extra, (-1, 1)) if np.ndim(extra) else found
            total = found if total is None else total + found
        return total

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
        return self.like([part.take(index) for part in self.parts], rows, self.auto and self.auto.take(index))

    def scaled(self, factor: Any) -> DensityModel:
        factor = np.broadcast_to(np.asarray(factor, dtype=float), (self.groups,))
        auto = None if self.auto is None else self.auto.scaled(factor)
        return self.like([part.scaled(factor) for part in self.parts], self.rows * factor, auto)

    def pooled(self) -> DensityModel:
        auto = None if self.auto is None else self.auto.pooled()
        return self.like([part.pooled() for part in self.parts], self.rows.sum(keepdims=True), auto)

    def __add__(self, other: DensityModel) -> DensityModel:
        auto, mine, theirs = None, self.parts, other.parts
        if self.auto is not None and other.auto is not None and self.auto.columns == other.auto.columns:
            auto = self.auto + other.auto
            mine, theirs = (side._parts_for(auto.kinds()) for side in (self, other))
        refuse_different(
            [(p.name, p.columns, getattr(p, "shared", None)) for p in mine],
            [(p.name, p.columns, getattr(p, "shared", None)) for p in theirs],
        )
        return self.like([a + b for a, b in zip(mine, theirs)], self.rows + other.rows, auto)

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
            advice = (
                f"a column is constant, or a combination of others, in some class ({'; '.join(flat)}): its likelihood has no "
                "maximum; drop it or raise var_smoothing"
            )
        climbed = rising and all(part.converged for part in self.parts if not part.closed)
        status = likelihood_status(top - here, here, flat=bool(flat), closed=not unproven, climbed=climbed)
        return LikelihoodCertificate(
            status=status, assumptions=tuple(assumptions), advice=advice, rows=float(self.rows.sum()),
            log_likelihood=float(here), maximum=float(top), gap=float(top - here), iterations=steps, monotone=rising,
            effective_counts=tuple(float(r) for r in self.rows),
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, parts = {"rows": self.rows}, []
        for k, part in enumerate(self.parts):
            own, about = part.to_state()
            arrays |= {f"part{k}.{name}": value for name, value in own.items()}
            parts.append(about)
        names = list(self.names) if self.names is not None else None
        meta: dict[str, Any] = {
            "parts": parts, "names": names, "columns": self.columns, "certificate": self.certificate.to_dict()
        }  # fmt: skip
        if self.auto is not None:
            own, meta["auto"] = self.auto.to_state()
            arrays |= own
            meta["auto"] |= {name: getattr(self, name) for name in SETTINGS}
        return arrays, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any], groups: int = 1) -> dict[str, Array]:
        """How many rows each group has, and the statistics of every family."""
        made = {"rows": Array((groups,))}
        for k, about in enumerate(meta["parts"]):
            if not all(type(column) is int and 0 <= column < meta["columns"] for column in about["columns"]):
                raise ModelError("a density names columns that the table lacks; use an intact copy")
            made |= under(f"part{k}.", _family(about["name"]).declared(about, groups))
        return made | (Automatic.declared(meta["auto"], groups) if "auto" in meta else {})

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> DensityModel:
        from ..certificates.certificate import from_dict

        rows = arrays["rows"]
        parts = []
        for k, about in enumerate(meta["parts"]):
            part = _family(about["name"])(tuple(about["columns"]), tuple(about["labels"]), len(rows), about["alpha"])
            head = f"part{k}."
            part.restore({n[len(head) :]: np.array(v) for n, v in arrays.items() if n.startswith(head)}, about)
            parts.append(part)
        model = cls(parts, tuple(meta["names"]) if meta["names"] is not None else None, meta["columns"], len(rows))
        model.rows, model.certificate = rows, from_dict(meta["certificate"])
        if "auto" in meta:
            model.auto = Automatic.from_state(arrays, meta["auto"])
            model.__dict__.update({name: meta["auto"][name] for name in SETTINGS})
        return model


def is_density(given: Any) -> bool:
    """Whether this is the name of a density, or a dict of names.

    >>> is_density("mixture(2)"), is_density({"x": "poisson"}), is_density("normal")
    (True, True, False)
    """
    if isinstance(given, dict):
        return all(isinstance(name, str) and is_density(name) for name in given.values())
    return isinstance(given, str) and (given in NAMES or mixture_parts(given) is not None)


def _family(name: str) -> Any:
    return {"gaussian": Gaussian, "full": Covariant, "mixture": Mixture}.get(name) or SIMPLE[name]


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
