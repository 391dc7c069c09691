"""Online learners: the replay of a named learner, its weights and predictions beside the record's, then its certificate.

The loss is known by the replay, which ends with weights of its own: the record must end with the same, and predict what
they predict. Certificates are checked by ``verify_regret.py`` and ``verify_mistakes.py``; mixtures and recursive least
squares are replayed in ``verify_mixture.py`` and ``verify_recursive.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ModelError
from .learner_bounds import Line
from .learner_replay import LINKED
from .stated_claims import Claims, Given, in_order, rule_of, targets_of
from .verify_mistakes import check_mistakes
from .verify_mixture import check_by_own_code, check_rate_mixture
from .verify_recursive import check_recursive
from .verify_regret import (
    check_against,
    check_bound,
    check_fixed,
    check_kappa,
    check_risk,
    check_status,
    check_stream,
    check_suffered,
    check_uncertified,
    suffered,
)
from .verify_weights import check_weights, matching_run


def check_learner(out: Claims, given: Given, replay: Any) -> None:
    """The certificate of a learner of one example at a time; ``replay`` learns again where columns came one by one."""
    given = in_order(given)
    kind = given.record.kind
    wanted: tuple[str, ...] = ("regret",)
    if kind == "online":
        mistakes, average = given.record.kept is not None, given.record.average
        certified = given.record.certified
        wanted = (
            ("mistakes",)
            if mistakes and certified
            else ("averaged",)
            if average and certified
            else ("regret", "stream")
        )
    if out.proof.kind not in wanted:
        raise ModelError(
            f"a certificate of kind {out.proof.kind!r} does not belong to this learner", where="certificate"
        )
    classes, loss = getattr(given.record, "classes", None), getattr(given.record, "loss", None)
    if classes is not None and len(classes) and getattr(loss, "targets", "sign") != "sign":
        raise ModelError(f"the learner has the classes {classes!r}, and its loss is one of numbers", where="classes")
    if kind == "recursive":
        check_recursive(out, given)
    elif kind == "mixture":
        check_by_own_code(out, given, replay)
    elif kind == "ladder":
        check_rate_mixture(out, given, replay)
    elif not _is_known(given.record):
        check_by_own_code(out, given, replay)
    else:
        _check_named(out, given)


def _is_known(record: Any) -> bool:
    """Whether the verifier has the geometry, and the columns were there from the start where weights share a total."""
    rule = rule_of(record)
    return (
        rule.geometry != "of the user's own"
        and rule.geometry != "mirrored"
        and not (rule.geometry in LINKED and record.late)
    )


def _check_named(out: Claims, given: Given) -> None:
    """One rule, one rate: the replay's weights, then what the certificate says."""
    record, rule = given.record, rule_of(given.record)
    targets = targets_of(record, given.y, len(record.heads))
    run = matching_run(record, rule, given.X, targets, given.c, freeze=out.proof.kind == "stream")
    check_weights(out, record, rule, run, given.X)
    if out.proof.kind == "mistakes":
        check_mistakes(out, given, rule, run, targets)
        return
    Z = np.insert(given.X, 0, float(rule.has_intercept), axis=1)
    lines = [Line(rule, run, Z, targets, k) for k in range(len(targets))]
    if not record.certified:
        check_uncertified(out, len(given.y), suffered(rule, run.losses, len(given.y)))
        return
    loss = suffered(rule, run.step_losses, len(given.y))
    check_suffered(out, len(given.y), loss, "by the user's own loss" if rule.user_loss is not None else "")
    check_fixed(out, [line.stream for line in lines], [run.start] * len(lines))
    out.absent("best_member_loss")
    check_against(out)
    proven = check_bound(out, lines, loss) and loss.value <= out.proof.bound + loss.room
    check_kappa(out, lines)
    must = False
    if out.proof.kind == "stream":
        proven = check_stream(out, lines) and proven
    elif out.proof.kind == "averaged":
        proven = check_risk(out, record, lines, given.c)
    elif len(lines) == 1:
        kappa = lines[0].kappa()
        must = kappa is not None and kappa < 1.0 - 1e-9 and proven
    check_status(out, proven, must)
