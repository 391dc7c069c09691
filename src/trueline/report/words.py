"""A certificate in words: what is claimed, why it holds, what to do where it does not."""

from __future__ import annotations

from typing import Any

from ..certify.records import few
from . import text

NAMED = 20  # columns in a sentence

EXACT = 1e-15  # of the objective: a gap that rounding alone can leave


def number(value: Any, digits: int = 5) -> str:
    """A number inside a sentence: no trailing point."""
    return text.number(value, digits).rstrip(".")


def explain(certificate: dict[str, Any]) -> list[str]:
    """Paragraphs, the verdict first. Takes ``Certificate.to_dict()``: drawings need only plain records."""
    teller = _TELLERS.get(str(certificate.get("kind")), _other)
    paragraphs = teller(certificate)
    failed = [a for a in certificate.get("assumptions", ()) if not a.get("held", True)]
    for assumption in failed:
        worst = "" if assumption.get("worst") is None else f" (worst seen {number(assumption['worst'])}"
        limit = "" if not worst or assumption.get("limit") is None else f", limit {number(assumption['limit'])}"
        remedy = f" {assumption['remedy']}." if assumption.get("remedy") else ""
        paragraphs.append(
            f"An assumption did not hold: {assumption['name']}{worst}{limit}{')' if worst else ''}.{remedy}"
        )
    if certificate.get("advice"):
        paragraphs.append(f"Advice: {certificate['advice']}.")
    return paragraphs


def verdict(certificate: dict[str, Any]) -> str:
    """One or two words."""
    return {
        "proven": "Proven", "not_proven": "Not proven", "void": "Void: an assumption failed", "interrupted": "Interrupted",
        "degenerate": "Degenerate: no unique or no finite answer",
    }.get(str(certificate.get("status")), "Unknown")  # fmt: skip


def _exact(c: dict[str, Any]) -> list[str]:
    told = [
        f"{c['digits']:.1f} decimal digits of every coefficient are correct: they would not change if the whole computation "
        f"were repeated with unlimited precision. The arithmetic alone carries {c['arithmetic_digits']:.1f}; the numbers in "
        f"the table, each taken as known to half a unit in its last place, allow {c['data_digits']:.1f}.",
        f"The condition number of the scaled columns is {number(c['condition_number'], 3)}: a relative change of the data of "
        f"10⁻¹⁶ can move the coefficients by about {c['condition_number'] * 1e-16:.1g} of their size. The rank is {c['rank']}.",
    ]
    if c.get("dropped"):
        told.append(f"These columns are combinations of the others: {few(tuple(c['dropped']), NAMED)}.")
    return told


def _gap(c: dict[str, Any]) -> list[str]:
    gap = max(c["gap"] or 0.0, 0.0)
    near = f"this answer is within {number(gap, 3)} of the best possible (relative gap {number(c['relative_gap'], 3)})"
    if gap <= EXACT * abs(c["primal"] or 0.0):
        near = "no answer can be better in the digits that a computer's numbers have"
    return [
        f"The objective reached {number(c['primal'], 8)}. A dual value proves that no coefficients whatever can go below "
        f"{number(c['dual'], 8)}, so {near}. Anyone can recompute both numbers from the data and the coefficients."
    ]


def _regret(c: dict[str, Any]) -> list[str]:
    told = [
        f"Over {c['examples']:,} examples, each predicted before its label was seen, the total loss was {number(c['loss'])}. "
        f"The best fixed weights in hindsight would have lost {number(c['comparator_loss'])}: the regret, the price of learning "
        f"on the way, is {number(c['regret'])}."
    ]
    if c.get("bound") is not None:
        theorem = f" ({c['theorem']})" if c.get("theorem") else ""
        told.append(
            f"The theorem promises a loss of at most {number(c['bound'])}, whatever the order of the rows and with no "
            f"assumption about where they came from{theorem}."
        )
    return told


def _mistakes(c: dict[str, Any]) -> list[str]:
    return [
        f"{c['mistakes']:,} mistakes were made in {c['examples']:,} rounds. With rows no longer than {number(c['radius'])} and the "
        f"margin {number(c['margin'])} or slack {number(c['slack'])} found, no order of these rows allows more than {number(c['bound'])}."
    ]


def _risk(c: dict[str, Any]) -> list[str]:
    return [
        f"With probability {c['confidence']:.0%} over the draw of the rows, the expected loss of the averaged weights on a new row "
        f"is at most {number(c['risk_bound'])}; the mean loss while learning was {number(c['mean_loss'])}. This needs independent rows."
    ]


def _other(c: dict[str, Any]) -> list[str]:
    numbers = [
        f"{k.replace('_', ' ')} {number(v)}"
        for k, v in c.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool)
    ]
    return [f"{', '.join(numbers)}." if numbers else "This result carries no number that could be checked."]


_TELLERS = {"exact": _exact, "batch": _gap, "online": _regret, "perceptron": _mistakes, "risk": _risk}
