"""``tl.verify``: from a model and its rows to the checks of its certificate.

``checker.py`` holds what the four main kinds claim, within 300 lines of NumPy. Beside it stand, in files of the same
make: what closed forms (``closed.py``) and solvers (``slopes.py``) tell besides, a shorter way to their solutions
(``inverse.py``), learners of other kinds (``verify_online.py``), and models that are not a line (``beyond.py``). ``statement.py`` reads what a model says of itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import ModelError, TruelineError
from . import stated_claims as statement
from . import verify_online
from .exact_arithmetic import refined
from .stated_claims import Check, Claims
from .verify_exact import closed_form, exact, least_norm
from .verify_gap import KINKED, dual_by_newton, dual_on_kinks, gap, steepness
from .verify_nonlinear import BEYOND

COVERED = "the rest is in the bound"


@dataclasses.dataclass(frozen=True)
class Verification:
    """All checks of one certificate; ``ok`` when there are some and every one holds."""

    kind: str
    checks: tuple[Check, ...]
    stated: tuple[tuple[str, Any], ...] = ()  # what the model and its certificate say that nothing here recomputes

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


def verify(model: Any, data: Any, *, certificate: Any = None, replay: Any = None) -> Verification:
    """Recompute a model's certificate from its training data, by other code than made it.

    ``model`` is a fitted estimator or a record; ``data`` is (X, y) or (X, y, weights), in the training order for
    online learners, or any table or path that the model was trained on; ``certificate`` replaces the model's own,
    ``replay(X, y, weights)`` makes the predictions again where columns came one by one: them and the learner then.

    >>> import numpy as np, trueline as tl
    >>> X, y = np.random.default_rng(0).normal(size=(50, 2)), np.arange(50.0)
    >>> str(tl.verify(tl.LinearRegression().fit(X, y), (X, y)))
    '8 claims hold'
    """
    told = statement.given(model, data, certificate)
    out, way = Claims(told.proof), _BY_KIND.get(told.proof.kind)
    beyond = BEYOND.get(getattr(told.record, "kind", "")) or BEYOND.get(told.proof.kind)
    try:
        if beyond is not None:
            beyond(out, *told)
        elif way is None:
            raise NotImplementedError(f"a certificate of kind {told.proof.kind!r}")
        else:
            statement.check_numbers(told)
            way(out, told, replay)
            _assumptions(out)
    except NotImplementedError as unknown:
        raise ModelError(f"there is no independent check of {unknown}", where="model") from None
    except TruelineError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        raise ModelError(f"the model's claims cannot be recomputed from these rows ({reason})", where="model") from None
    stated = tuple((name, getattr(told.proof, name)) for name in told.proof.stated())
    return Verification(told.proof.kind, tuple(out), stated)


def _exact(out: Claims, told: statement.Given, replay: Any) -> None:
    if not {*told.proof.dropped} <= {*told.record.terms}:
        return least_norm(out, told)
    X, Y, c, first, lines = statement.lines(told)
    found = exact(out, X, Y, c, first, lines, lambda G, right: refined(G, right, first))
    return closed_form(out, told, X, Y, c, first, lines, found) if found else None


def _batch(out: Claims, told: statement.Given, replay: Any) -> None:
    problems, tolerance = statement.problems(told)
    kinked = problems[0].loss in KINKED
    shown = gap(out, problems, tolerance, dual_on_kinks if kinked else dual_by_newton)
    steepness(out, shown)


def _online(out: Claims, told: statement.Given, replay: Any) -> None:
    told = statement.in_order(told)
    rule, record = statement.rule_of(told.record), told.record
    if verify_online.plain(record) and not (replay and verify_online.linked(rule)):
        loss = verify_online.online(out, rule, told.X, statement.targets_of(record, told.y), told.c)
    else:
        loss = verify_online.by_own_code(out, rule, told, replay)
    if told.proof.kind == "averaged":
        verify_online.risk(out, told, loss)


def _mistakes(out: Claims, told: statement.Given, replay: Any) -> None:
    told = statement.in_order(told)
    rule, signs = statement.rule_of(told.record), statement.targets_of(told.record, told.y)
    if replay and verify_online.linked(rule) and len(signs) == 1:
        scores = [replay(told.X, told.y, told.c)[0]]
    else:
        scores = [verify_online.replayed(rule, told.X, t, told.c)[0] for t in signs]
    wrong = verify_online.mistakes(out, rule, told.X, signs, scores)
    if rule.geometry == "signed" and told.proof.comparator is not None and len(wrong):
        verify_online.winnow(out, rule, wrong)


def _assumptions(out: Claims) -> None:
    """What is proven rests on all of its assumptions, as the certificate tells them."""
    # What a bound has a term for is told beside it, and is no condition of it.
    broken = [item.name for item in out.proof.assumptions if not item.held and COVERED not in item.name]
    said, held = f"fails: {broken[0]}" if broken else "all held", not (broken and out.proof.proven)
    out.append(Check("assumptions", said, None, held, "as the certificate tells them"))


_BY_KIND = {
    "exact": _exact, "gap": _batch, "regret": _online, "stream": _online, "averaged": _online, "mistakes": _mistakes,
}  # fmt: skip
