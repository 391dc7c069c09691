"""Densities and the classes made of them: parameters recomputed from the rows, not read from the model.

The log-densities that the model gives to the rows must be those of the recomputed parameters; their sum is the
log-likelihood, and the family's maximum is a formula of the same sums. Mixtures and covariances with missing values
have no formula: the model's parameters are taken, and a further step of EM shows whether they are stationary. What a
model was told, not what it learned, is stated: priors that were given, the lattice of a histogram, a calibration.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.likelihood import STATIONARY, likelihood_status
from .agreement import EPS, same_predictions, same_status
from .family_densities import FAMILIES, Family, Groups
from .stated_claims import Claims, Given, Rows, is_finite

FOLDS = 5  # of the rows whose scores calibrate
ONE_PEAK, POSITIVE = "the likelihood has one peak", "every variance is positive"


def density(out: Claims, given: Given) -> None:
    """One density of all rows."""
    record, _, X, _, weights = given
    groups = Groups(weights, np.zeros(len(X), dtype=np.int64), 1)
    _likelihood(out, record, X, groups, 0.0)


def generative(out: Claims, given: Given) -> None:
    """A density a class, the weights of the classes, and the posteriors that the model predicts by."""
    record, proof, X, y, weights = given
    if record.own is not None:
        raise NotImplementedError("densities of entities")
    classes = list(record.classes)
    labels = y.tolist()
    counted = {label for label, weight in zip(labels, weights.tolist(), strict=True) if weight > 0.0}
    complete = len(set(classes)) == len(classes) and counted <= set(classes)
    out.holds("classes", tuple(sorted(counted, key=str)), complete, "every label in the rows, each once")
    if not complete:
        out.covered |= set(proof.checked)
        return
    place = {label: k for k, label in enumerate(classes)}
    index = np.array([place.get(label, 0) for label in labels], dtype=np.int64)
    groups = Groups(weights, index, len(classes))
    counts = groups.totals(np.ones(len(X)))
    share = counts / counts.sum()
    prior = float(np.where(counts > 0.0, counts * np.log(np.where(counts > 0.0, share, 1.0)), 0.0).sum())
    scores, room = _likelihood(out, record.density, X, groups, prior)
    priors = share if record.priors is None else np.asarray(record.priors, dtype=float)
    proper = priors.shape == share.shape and bool((priors >= 0.0).all()) and abs(float(priors.sum()) - 1.0) <= 1e-6
    out.holds("priors", tuple(priors.tolist()), proper, "the rows' shares" if record.priors is None else "as given")
    if record.calibrated:
        _check_held(record, X, groups)
        out.recomputed |= {"held", "calibrated"}
    seen = weights > 0.0
    _posteriors(out, record, X[seen], (scores + np.log(priors))[seen], room[seen])


def columns_of(X: Rows) -> list[Rows]:
    """The columns of the rows: numbers, or words where there are any."""
    if X.dtype != object:
        return list(X.T)
    words = [any(isinstance(value, str) for value in column) for column in X.T]
    return [column if word else column.astype(float) for column, word in zip(X.T, words, strict=True)]


def as_asked(out: Claims, record: Any, asked: Any) -> None:
    """What no row shows and an estimator was asked for: smoothing, covariances, priors and calibration."""
    model = getattr(record, "density", record)
    for part in model.parts:
        if part.name in ("gaussian", "full"):
            own = {"smoothing": part.smoothing, "correction": part.correction}
            wanted = {"smoothing": asked.var_smoothing, "correction": getattr(asked, "correction", 0.0)}
            own["covariance"] = "diagonal" if part.name == "gaussian" else "shared" if part.shared else "full"
            wanted["covariance"] = asked.covariance
        else:
            own, wanted = {"alpha": part.alpha}, {"alpha": asked.alpha}
        place = ", ".join(part.labels)
        for name, value in own.items():
            out.of_model(name, value, wanted[name], value == wanted[name], f"of {place}, as the estimator was asked")
    if model is not record:
        out.of_model("calibration", record.calibrated, asked.calibration, record.calibrated == bool(asked.calibration))
        given = None if record.priors is None else np.asarray(record.priors, dtype=float)
        wanted_priors = None if asked.priors is None else np.asarray(asked.priors, dtype=float)
        same = given is None and wanted_priors is None
        if given is not None and wanted_priors is not None and given.shape == wanted_priors.shape:
            same = bool((np.abs(given - wanted_priors / wanted_priors.sum()) <= 4.0 * EPS).all())
        out.of_model("priors", given, wanted_priors, same, "as the estimator was asked")


def _check_held(record: Any, X: Rows, groups: Groups) -> None:
    """The scores that posteriors were calibrated by are those of each fifth of the rows under densities of the others.

    A model that learned block after block kept those of each block under all before it, which the rows do not tell.
    """
    unknown = NotImplementedError("a calibration by rows learned in blocks, or by densities without a formula")
    if any(part.name == "mixture" for part in record.density.parts):
        raise unknown
    fold, table, blocks, rooms = np.arange(len(X)) % FOLDS, columns_of(X), [], []
    for k in range(FOLDS):
        test, others = fold == k, groups._replace(weights=groups.weights * (fold != k))
        counts = others.totals(np.ones(len(X)))
        if not test.any() or not (counts > 0.0).all():
            continue
        made = [FAMILIES[part.name](part, _values(part, table), others) for part in record.density.parts]
        priors = counts / counts.sum() if record.priors is None else np.asarray(record.priors, dtype=float)
        joint = np.sum([family.scores for family in made], axis=0) + np.log(priors / priors.sum())
        blocks.append(np.column_stack([joint, groups.member, groups.weights])[test])
        rooms.append(np.sum([family.room for family in made], axis=0)[test] + 64.0 * EPS * (1.0 + np.abs(joint[test])))
    held = np.asarray(record.held, dtype=float)
    found, room = (np.vstack(some)[-len(held) :] if blocks and len(held) else held[:0] for some in (blocks, rooms))
    if not blocks or any(family.maximum is None for family in made) or held.shape != found.shape:
        raise unknown
    if not (np.abs(held - found) <= np.column_stack([room, np.zeros((len(room), 2))])).all():
        raise NotImplementedError("a calibration by other rows than a fifth of these at a time")


def _values(part: Any, table: list[Rows]) -> Rows:
    """The columns of a part of a density, one or several."""
    several = part.name in ("gaussian", "full")
    return np.column_stack([table[j] for j in part.columns]) if several else table[part.columns[0]]


def _posteriors(out: Claims, record: Any, X: Rows, joint: Rows, room: Rows) -> None:
    """The model's posteriors are Bayes' rule on what was recomputed, with its calibration where it has one."""
    tau, shift = record.temper if record.calibrated else (1.0, 0.0)
    note = f"posteriors; the calibration τ = {tau:.4g} is the model's own" if record.calibrated else "posteriors"
    scores = tau * joint + shift
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True)
    # A change of the scores by e changes no posterior by more than e times it.
    allowed = (2.0 * tau * room.max(axis=1, keepdims=True) + 64.0 * EPS) * np.maximum(p, 1e-300) + 1e-300
    allowed = allowed * (1.0 + 1e-3) + 4.0 * EPS * np.abs(scores).max(axis=1, keepdims=True) * p
    same_predictions(out, record.posterior(columns_of(X)), p, np.where(np.isfinite(allowed), allowed, 1.0), note)


def _likelihood(out: Claims, model: Any, X: Rows, groups: Groups, prior: float) -> tuple[Rows, Rows]:
    """All parts of a table's density: scores, sums, maximum and status; (scores, rounding) come back."""
    columns = sorted(column for part in model.parts for column in part.columns)
    if columns != list(range(X.shape[1])) or model.groups != groups.number:
        raise ValueError("the densities do not cover the columns of the rows, each once")
    table = columns_of(X)
    families: list[tuple[str, Family]] = []
    for part in model.parts:
        families.append((part.name, FAMILIES[part.name](part, _values(part, table), groups)))
    scores = np.sum([family.scores for _, family in families], axis=0)
    room = np.sum([family.room for _, family in families], axis=0)
    seen = groups.weights > 0.0
    told = np.asarray(model.scores(table), dtype=float)
    held = told.shape == scores.shape and bool((np.abs(told - scores)[seen] <= room[seen]).all())
    out.holds("log-densities", float(np.abs(told - scores)[seen].max()) if told.shape == scores.shape else None, held,
              "of every row and group, largest difference")  # fmt: skip
    counts = groups.totals(np.ones(len(X)))
    sums = (64.0 + math.sqrt(len(X))) * EPS * float(counts.sum())
    out.equals("rows", float(counts.sum()), sums)
    claimed = np.asarray(out.proof.effective_counts, dtype=float)
    same = claimed.shape == counts.shape and bool((np.abs(claimed - counts) <= sums).all())
    out.holds("effective_counts", tuple(counts.tolist()), same, "the weight of each group")
    total = prior + sum(family.log_likelihood for _, family in families)
    total_room = sum(family.likelihood_room for _, family in families) + (64.0 + len(X) ** 0.5) * EPS * abs(prior)
    out.equals("log_likelihood", total, total_room + 8.0 * EPS * abs(total))
    _maximum(out, families, prior, total_room)
    return scores, room


def _maximum(out: Claims, families: list[tuple[str, Family]], prior: float, room: float) -> None:
    """The family's maximum, the distance from it, and what that makes of the result."""
    proof = out.proof
    open_ended = [family for _, family in families if family.maximum is None]
    flat = any(family.maximum == math.inf for _, family in families)
    edge = any(family.edge for _, family in families)
    claimed_flat = proof.maximum == math.inf
    out.assumption(ONE_PEAK, not open_ended)
    if not edge:
        out.assumption(POSITIVE, not flat)
    if open_ended:
        out.absent("maximum", "gap")
    elif flat or (edge and claimed_flat):
        out.holds("maximum", math.inf, claimed_flat, "the likelihood has none")
        out.holds("gap", math.inf, proof.gap == math.inf)
        flat = True
    else:
        most = prior + sum(family.maximum or 0.0 for _, family in families)
        # At the maximum the likelihood is as flat as it gets: its rounding is at most that of the likelihood itself.
        own = sum(family.maximum_room for _, family in families)
        wide = math.inf if edge else 4.0 * room + own + 64.0 * EPS * abs(most)
        out.equals("maximum", most, wide)
        size = 4.0 * EPS * (abs(proof.maximum) + abs(proof.log_likelihood)) if is_finite(proof.maximum) else 0.0
        out.equals("gap", proof.maximum - proof.log_likelihood, size)
    steepest = max((family.steepest for family in open_ended), default=0.0)
    status = likelihood_status(0.0, 0.0, flat=flat, closed=not open_ended, climbed=steepest <= STATIONARY)
    note = f"a further step of EM would go {steepest:.2g}" if open_ended else ""
    same_status(out, status, note)
