"""``tl.verify``: from a model and its training rows to the checks of its certificate.

Which checks a model gets is decided by its kind and by the problem that it says it solves, never by the certificate;
a certificate of a kind that does not belong to the model is refused. Each check names the field that it covers. A field
that the certificate lists as checked and that no check covered fails, so that none can be left out by a branch. What
nothing recomputes is listed in ``Verification.stated``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import Assumption, Status
from ..errors import ModelError, TruelineError
from .stated_claims import Check, Claims, Given, Rows, check_numbers, given
from .verify_boosting import boosting
from .verify_components import check_components
from .verify_densities import as_asked, density, generative
from .verify_encoding import check_encoding, check_streamed_encoding
from .verify_exact import CLOSED_FORMS, check_closed_form
from .verify_gap import check_objective
from .verify_inference import check_inference
from .verify_kernel import kernel_ridge
from .verify_kernel_perceptron import kernel_perceptron
from .verify_local import local_regression
from .verify_network import network
from .verify_ngram import ngram
from .verify_online import check_learner
from .verify_robust import robust_line

IN_THE_BOUND = "the rest is in the bound"  # an assumption whose failure the bound has a term for
LINEAR = ("closed form", "objective", "reweighting")
MISSING = ("generative", "density")  # kinds whose rows may lack values
# Of a schema: what rows show in part only, or what no prediction uses.
POLICIES = ("missing", "unseen", "formula", "rows", "dropped_rows", "target_kind")
OF_COLUMNS = ("kind", "format", "observed", "missing")


class Kind(NamedTuple):
    """The kinds of certificate that a kind of model can carry, and its check, given what is claimed and the rows."""

    certificates: tuple[str, ...]
    check: Callable[..., None]
    replayed: bool = False  # whether the check takes a way to make the predictions again


KINDS = {
    "closed form": Kind(("exact",), check_closed_form),
    "objective": Kind(("gap",), check_objective),
    "reweighting": Kind(("monotone",), robust_line),
    "components": Kind(("exact",), check_components),
    "online": Kind(("regret", "stream", "averaged", "mistakes"), check_learner, replayed=True),
    "mixture": Kind(("regret", "stream"), check_learner, replayed=True),
    "ladder": Kind(("regret", "stream"), check_learner, replayed=True),
    "recursive": Kind(("regret", "stream"), check_learner, replayed=True),
    "local": Kind(("monotone",), local_regression),
    "kernel": Kind(("kernel",), kernel_ridge),
    "kernel_perceptron": Kind(("mistakes",), kernel_perceptron),
    "boosting": Kind(("boosting",), boosting),
    "network": Kind(("stationary",), network),
    "generative": Kind(("likelihood",), generative),
    "density": Kind(("likelihood",), density),
    "ngram": Kind(("likelihood",), ngram),
}


class CannotBeChecked(ModelError):
    """There is no independent check of this model or of this claim; nothing is said against it."""

    exit_code = 3


@dataclasses.dataclass(frozen=True)
class Verification:
    """All checks of one certificate; ``ok`` when there are some and every one holds.

    ``stated`` holds, by name, what the model and its certificate say that nothing here recomputes.
    """

    kind: str
    checks: tuple[Check, ...]
    stated: tuple[tuple[str, Any], ...] = ()

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.held for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "kind": self.kind,
            "checks": [check._asdict() for check in self.checks],
            "stated": dict(self.stated),
        }

    def __str__(self) -> str:
        failed = ", ".join(check.claim for check in self.checks if not check.held)
        return f"{len(self.checks)} claims hold" if self.ok else f"does not hold: {failed or 'nothing to check'}"


def verify(
    model: Any, data: Any, *, certificate: Any = None, replay: Any = None, table: Any = None, schema: Any = None
) -> Verification:
    """Recompute a model's certificate from its training data, by other code than made it.

    ``model`` is a fitted estimator or a record; ``data`` is (X, y) or (X, y, weights), in the training order for
    online learners, or any table or path that the model was trained on; ``certificate`` replaces the model's own,
    ``replay(X, y, weights)`` makes the predictions again where columns came one by one: them and the learner then;
    ``table`` is what (X, y) were read from, so that the model's own way to read it is checked as well: its schema's, or
    ``schema`` where that is kept beside the record.

    >>> import numpy as np, trueline as tl
    >>> X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    >>> tl.verify(tl.LinearRegression().fit(X, y), (X, y)).ok
    True
    """
    try:
        with np.errstate(all="ignore"):
            return _verified(model, data, certificate, replay, table, schema)
    except NotImplementedError as unknown:
        raise CannotBeChecked(f"there is no independent check of {unknown}", where="model") from None
    except TruelineError:
        raise
    except Exception as error:  # a forged model may fail in any way: that is a refusal
        raise ModelError(
            f"the model's claims cannot be recomputed from these rows ({_short(error)})", where="model"
        ) from None


def _verified(model: Any, data: Any, certificate: Any, replay: Any, table: Any, schema: Any) -> Verification:
    rows = given(model, data, certificate)
    problem = problem_of(rows.record)
    kind = KINDS[problem]
    if rows.proof.kind not in kind.certificates:
        raise ModelError(
            f"a certificate of kind {rows.proof.kind!r} says nothing about a model of this kind, {problem}; verify it with "
            "the certificate that its fit made",
            where="certificate",
        )
    _check_form(rows.proof)
    check_numbers(rows, missing=problem in MISSING)
    out = Claims(rows.proof)
    kind.check(out, rows, replay) if kind.replayed else kind.check(out, rows)
    if hasattr(model, "get_params"):
        _check_takes_rows(out, model, data)
        _check_as_asked(out, problem, rows, model)
    table = data if table is None and not isinstance(data, tuple) else table
    if problem == "objective":
        check_inference(out, rows)
    if problem in LINEAR and table is not None:
        check_encoding(out, rows.record, rows.X, rows.c, table)
    if problem not in LINEAR and table is not None and schema is not None:
        check_streamed_encoding(out, rows.record, schema, rows.X, table)
    _check_assumptions(out)
    _check_coverage(out)
    return Verification(rows.proof.kind, tuple(out), tuple(_asked(model) + stated_by(rows.record, out)))


def _check_form(certificate: Any) -> None:
    """Refuse a certificate whose status is no status, or whose assumptions are none."""
    if not isinstance(certificate.status, Status):
        raise ModelError(
            f"the certificate's status is {certificate.status!r}, which is none", where="certificate.status"
        )
    assumptions = certificate.assumptions
    if not isinstance(assumptions, tuple) or not all(isinstance(one, Assumption) for one in assumptions):
        raise ModelError(
            "the certificate's assumptions are not records of assumptions", where="certificate.assumptions"
        )
    names = [one.name for one in assumptions]
    if len(set(names)) < len(names):
        raise ModelError("the certificate names an assumption twice", where="certificate.assumptions")


def _asked(model: Any) -> list[tuple[str, Any]]:
    """The parameters of an estimator: what a further fit would be asked for, not what this one did."""
    return [("parameters of the estimator", len(model.get_params(deep=False)))] if hasattr(model, "get_params") else []


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120]


def _check_as_asked(out: Claims, problem: str, rows: Given, asked: Any) -> None:
    """Settings that no row shows: the model has those that its estimator was asked for."""
    record = rows.record
    if problem in ("closed form", "objective"):
        _check_penalty_as_asked(out, record.statistics, asked, rows.c)
    if problem == "components" and hasattr(asked, "whiten"):
        out.of_model("whiten", record.whiten, asked.whiten, bool(record.whiten) == bool(asked.whiten))
    if problem in ("generative", "density"):
        as_asked(out, record, asked)


def _check_takes_rows(out: Claims, model: Any, data: Any) -> None:
    """A model that refuses a row that it learned predicts something else than what is checked."""
    X = data[0] if isinstance(data, tuple) else data
    name = next((name for name in ("predict", "transform", "score_samples") if hasattr(model, name)), None)
    if name is None or not isinstance(X, np.ndarray) or X.ndim != 2:
        return
    try:
        getattr(model, name)(X[:1])
    except Exception as error:
        out.append(Check(name, "takes the rows", type(error).__name__, False, _short(error)))


def _check_penalty_as_asked(out: Claims, statistics: dict[str, Any], asked: Any, c: Rows) -> None:
    """Intercept, sign and strength of the penalty, or that the strength is one of those that were to be tried."""
    said = statistics.get("objective") or statistics
    for name in ("fit_intercept", "positive"):
        if name in said and hasattr(asked, name):
            has, wants = bool(said[name]), bool(getattr(asked, name))
            out.of_model(f"{name}, as asked", has, wants, has == wants)
    if "alpha" not in said or said.get("penalty") in ("none", "nonnegative", "box"):
        return
    own = np.ravel(np.asarray(said["alpha"], dtype=float))
    if hasattr(asked, "C"):
        factors = said.get("class_factors")
        wanted = 1.0 / (asked.C * float(c.sum()))
        right = factors is None or not np.all(np.asarray(factors) == 1.0) or bool(abs(own[0] - wanted) <= 1e-9 * wanted)
        out.of_model("C, as asked", float(own[0]), wanted, right, "alpha is 1/(C·rows)")
        return
    tried = getattr(asked, "alpha", getattr(asked, "alphas", None))
    if tried is not None and not isinstance(tried, (str, int)) and np.ndim(tried) <= 1:
        right = bool(np.isin(own, np.asarray(tried, dtype=float)).all())
        out.of_model("alpha, as asked", _plain(own), _plain(tried), right)


def problem_of(record: Any) -> str:
    """What kind of claim a model can make, by its own kind and by the problem that it says it solves."""
    kind = getattr(record, "kind", "objective" if hasattr(record, "objective") else type(record).__name__)
    if kind == "linear":
        family = str(record.statistics.get("family", "linear"))
        if record.statistics.get("objective"):
            return "objective"
        if family in CLOSED_FORMS:
            return "closed form"
        if family.startswith("robust (") or family == "line among outliers":
            return "reweighting"
        kind = f"a linear model by {family}"
    if kind not in KINDS:
        raise CannotBeChecked(f"there is no independent check of a model of the kind {kind!r}", where="model")
    return kind


def _check_assumptions(out: Claims) -> None:
    """What is proven rests on assumptions that the certificate names; those that no check looked at are stated."""
    broken = [item.name for item in out.proof.rests_on if not item.held and IN_THE_BOUND not in item.name]
    said, held = f"{len(broken)} failed" if broken else "all held", not (broken and out.proof.proven)
    out.covered.add("assumptions")
    out.append(
        Check("assumptions", said, None, held, f"failed: {broken[0]}" if broken else "a proof needs all of them")
    )


def _check_coverage(out: Claims) -> None:
    """A field that the certificate lists as checked, and that nothing above looked at, fails."""
    for name in out.proof.checked:
        if name not in out.covered:
            out.append(Check(name, getattr(out.proof, name), None, False, "nothing covers it"))


def stated_by(record: Any, out: Claims) -> list[tuple[str, Any]]:
    """What the certificate and the model say that no check recomputed, each under its name."""
    certificate = out.proof
    found = [(name, getattr(certificate, name)) for name in (*certificate.stated(), *sorted(out.unsure))]
    for item in certificate.assumptions:
        compared = out.covered_assumptions.get(item.name, set())
        if "held" not in compared:
            found.append((f"assumption: {item.name}", "held" if item.held else "fails"))
        loose = [part for part in ("worst", "limit", "remedy") if part not in compared]
        found += [(f"{part} of the assumption: {item.name}", getattr(item, part)) for part in loose]
    found += [(name, value) for name, value in kept_by(record).items() if name not in out.recomputed]
    if "schema" in out.recomputed:
        found += [(f"schema.{name}", getattr(record.schema, name, None)) for name in POLICIES]
        columns = record.schema.columns
        found += [
            (f"schema.columns.{name}", [getattr(column, name, None) for column in columns]) for name in OF_COLUMNS
        ]
        # No row shows what an expression is where no row was.
        found += [(f"derived column {name} = {expression}", expression) for name, expression in record.schema.derive]
        found += [(f"rows where {record.schema.where}", record.schema.where)]
    return [(name, _plain(value)) for name, value in found if not _says_nothing(value)]


def kept_by(record: Any) -> dict[str, Any]:
    """What a record keeps beside its certificate, by name: its fields, or what it writes into a file."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        kept = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    else:
        arrays, words = record.to_state() if hasattr(record, "to_state") else ({}, {})
        kept = {_bare(name): value for name, value in (words | arrays).items()}
    if len(kept.get("certificates", ())) == 1:
        del kept["certificates"]  # the one that is checked
    own = () if isinstance(kept.get("certificate"), bool) else ("certificate",)  # of some it says whether to keep sums
    kept = {name: value for name, value in kept.items() if name not in (*own, "statistics")}
    statistics = getattr(record, "statistics", None) or {}
    return kept | {f"statistics.{name}": value for name, value in statistics.items()}


def _bare(name: str) -> str:
    """The name of an array without the numbers of its member and its head.

    >>> _bare("12.table0"), _bare("class.part0.mean")
    ('table', 'class.part0.mean')
    """
    return name.lstrip("0123456789.").rstrip("0123456789") or name


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, (str, tuple, list, dict)) and not len(value))


def _plain(value: Any) -> Any:
    """A value that JSON holds: numbers, words and short lists as they are, of anything else what it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return value.item() if value.ndim == 0 else f"{' × '.join(map(str, value.shape))} numbers"
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if hasattr(value, "__len__") and not isinstance(value, (bytes, set)):
        short = [_plain(item) for item in list(value)[:8]]
        return short if len(value) <= 8 else f"{len(value):,} values"
    return type(value).__name__
