"""N-gram models: the counts of every sequence of words, and the probabilities of Witten and Bell that follow from them.

With c(h) words seen after the context h, T(h) of them different, and h' the context without its first word,

    P(w | h) = (c(hw) + T(h)·P(w | h'))/(c(h) + T(h)),

down to one over the size of the vocabulary and one more. The largest likelihood is that of the bare counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import NamedTuple

from ..certificates.certificate import Status
from ..errors import DataError, ModelError
from .agreement import EPS, same_status
from .stated_claims import Claims, Given

START, END = "<s>", "</s>"
Gram = tuple[str, ...]


class Language(NamedTuple):
    """What the texts hold: how often each sequence, and what follows each context."""

    order: int
    counts: Counter[Gram]
    after: dict[Gram, Counter[str]]

    def probability(self, word: str, context: Gram) -> float:
        if context in self.after:
            seen = self.after[context]
            shorter = self.probability(word, context[1:]) if context else 1.0 / (len(seen) + 1)
            return (seen[word] + len(seen) * shorter) / (seen.total() + len(seen))
        return self.probability(word, context[1:]) if context else 1.0


def ngram(out: Claims, given: Given) -> None:
    """Counts, log-likelihood, its maximum, and the log-probability of every text."""
    record, texts = given.record, given.X.tolist()
    if not isinstance(record.order, int) or not 1 <= record.order <= 1000:
        raise ModelError(f"sequences of {record.order} words are none", where="model")
    lines = [line for text in texts for line in _sentences(text)]
    language = _learned(lines, record.order)
    if not language.counts:
        raise DataError("the texts hold no words; give those that the model was trained on", where="data")
    out.of_model("counts", len(record.counts), len(language.counts), +record.counts == language.counts,
                 "how often each sequence of words stands in the texts")  # fmt: skip
    totals = {context: seen.total() for context, seen in language.after.items()}
    out.of_model(
        "totals", len(record.totals), len(totals), dict(+record.totals) == totals, "the words after each context"
    )
    kinds = {context: len(seen) for context, seen in language.after.items()}
    out.of_model("kinds", len(record.kinds), len(kinds), dict(+record.kinds) == kinds, "the different ones of them")
    here = top = size = 0.0
    for gram, count in language.counts.items():
        if len(gram) == language.order:
            log_p = count * math.log(language.probability(gram[-1], gram[:-1]))
            log_most = count * math.log(count / totals[gram[:-1]])
            here, top, size = here + log_p, top + log_most, size + abs(log_p) + abs(log_most) + count
    words = totals[()]
    room = 2.0 * (len(language.counts) + 4 * language.order + 4) * EPS * size
    out.equals("rows", float(words), 0.0)
    out.holds("effective_counts", (float(words),), tuple(out.proof.effective_counts) == (float(words),))
    out.equals("log_likelihood", here, room)
    out.equals("maximum", top, room)
    out.equals("gap", top - here, 2.0 * room)
    apart, held = 0.0, True
    for text in texts:
        found = sum(
            math.log(language.probability(gram[-1], gram[:-1]))
            for line in _sentences(text) for gram in _grams(line, language.order, language.order)
        )  # fmt: skip
        apart = max(apart, abs(found - record.log_probability(text)[0]))
        held = held and abs(found - record.log_probability(text)[0]) <= room
    out.holds("predictions", apart, held, "log-probabilities of the texts, largest difference")
    same_status(out, Status.PROVEN)


def _sentences(text: str) -> list[list[str]]:
    """Words in lower case, sentence by sentence: letters and digits, with apostrophes inside."""
    pieces = re.split(r"[.!?]+(?:\s|$)|\n\s*\n", text.lower())
    lines = [re.findall(r"[^\W_]+(?:['’][^\W_]+)*", piece) for piece in pieces]
    return [line for line in lines if line]


def _grams(line: list[str], least: int, order: int) -> list[Gram]:
    """The sequences of ``least`` to ``order`` words that end at each word, or at the end of the sentence."""
    padded = [START] * (order - 1) + line + [END]
    ends = range(order, len(padded) + 1)
    return [tuple(padded[end - length : end]) for end in ends for length in range(least, order + 1)]


def _learned(lines: list[list[str]], order: int) -> Language:
    counts: Counter[Gram] = Counter()
    for line in lines:
        counts.update(_grams(line, 1, order))
    after: dict[Gram, Counter[str]] = defaultdict(Counter)
    for gram, count in counts.items():
        after[gram[:-1]][gram[-1]] += count
    return Language(order, counts, dict(after))
