"""A smoothed language model: how likely is a word after the words before it?

Counts of n-grams of every order up to ``order`` are the statistic; they add, so texts stream and models merge. The
probabilities interpolate the orders (Witten and Bell): with c(h) words seen after the context h, T(h) of them different,

    P(w | h) = (c(hw) + T(h)·P(w | h'))/(c(h) + T(h)),     h' = h without its first word,

down to the uniform distribution over the vocabulary and one place for every word never seen. Each sums to one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np

from ..certificates.likelihood import LikelihoodCertificate, likelihood_status
from ..modelfile import Array, whole_numbers

START, END, UNKNOWN = "<s>", "</s>", "<unknown>"


def sentences(text: str) -> list[list[str]]:
    """Words in lower case, sentence by sentence.

    >>> sentences("I sat. Did you?")
    [['i', 'sat'], ['did', 'you']]
    """
    pieces = re.split(r"[.!?]+(?:\s|$)|\n\s*\n", text.lower())
    return [words for piece in pieces if (words := re.findall(r"[^\W_]+(?:['’][^\W_]+)*", piece))]


class NGramModel:
    """Counts by (context, word); kind "ngram"."""

    kind = "ngram"

    def __init__(self, order: int) -> None:
        self.order = order
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.totals: Counter[tuple[str, ...]] = Counter()  # c(h)
        self.kinds: Counter[tuple[str, ...]] = Counter()  # T(h)
        self.certificate = LikelihoodCertificate()

    def learn(self, texts: list[str]) -> None:
        for text in texts:
            for words in sentences(text):
                self._add(Counter(gram for _, gram in self._grams(words)))

    def _grams(self, words: list[str]) -> Any:
        """(length, n-gram) of every order that ends at each word and at the sentence's end."""
        row = [START] * (self.order - 1) + words + [END]
        for i in range(self.order - 1, len(row)):
            for n in range(1, self.order + 1):
                yield n, tuple(row[i - n + 1 : i + 1])

    def _add(self, counts: Counter[tuple[str, ...]]) -> None:
        for gram, count in counts.items():
            if gram not in self.counts:
                self.kinds[gram[:-1]] += 1
            self.counts[gram] += count
            self.totals[gram[:-1]] += count

    @property
    def vocabulary(self) -> list[str]:
        return sorted(gram[0] for gram in self.counts if len(gram) == 1)

    def probability(self, word: str, context: tuple[str, ...]) -> float:
        """P(word | context); the context is as long as it likes, its last order − 1 words count."""
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        p = 1.0 / (self.kinds[()] + 1)
        for n in range(len(context) + 1):
            h = context[len(context) - n :]
            seen, different = self.totals[h], self.kinds[h]
            if seen:
                p = (self.counts[(*h, word)] + different * p) / (seen + different)
        return p

    def log_probability(self, text: str) -> tuple[float, int]:
        """(log-probability, words scored) of a text, the ends of its sentences included."""
        total, count = 0.0, 0
        for words in sentences(text):
            for n, gram in self._grams(words):
                if n == self.order:
                    total += float(np.log(self.probability(gram[-1], gram[:-1])))
                    count += 1
        return total, count

    def __add__(self, other: NGramModel) -> NGramModel:
        made = NGramModel(self.order)
        made._add(self.counts)
        made._add(other.counts)
        return made

    def certify(self) -> None:
        """The training log-likelihood, its maximum (the unsmoothed counts), and that probabilities sum to one."""
        here = top = 0.0
        for gram, count in self.counts.items():
            if len(gram) == self.order:
                here += count * float(np.log(self.probability(gram[-1], gram[:-1])))
                top += count * float(np.log(count / self.totals[gram[:-1]]))
        rows = float(self.totals[()])
        self.certificate = LikelihoodCertificate(
            status=likelihood_status(top - here if rows else math.nan, here), rows=rows, log_likelihood=here, maximum=top,
            gap=top - here, effective_counts=(rows,),
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        words = [START, *self.vocabulary]
        place = {word: k for k, word in enumerate(words)}
        grams = np.full((len(self.counts), self.order), -1, dtype=np.int64)
        for row, gram in zip(grams, self.counts):
            row[: len(gram)] = [place[word] for word in gram]
        counts = np.array(list(self.counts.values()), dtype=np.int64)
        return {"grams": grams, "counts": counts}, {
            "order": self.order, "words": words, "certificate": self.certificate.to_dict()
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """Every sequence by the numbers of its words, −1 behind its end, and how often it was seen."""
        rows, words = "sequences", len(meta["words"])
        return {
            "grams": Array((rows, int(meta["order"])), "int64", holds=whole_numbers(-1, words - 1)),
            "counts": Array((rows,), "int64", holds=whole_numbers(1, 2**62)),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> NGramModel:
        model, words = cls(meta["order"]), meta["words"]
        pairs = zip(arrays["grams"].tolist(), arrays["counts"].tolist())
        model._add(Counter({tuple(words[k] for k in gram if k >= 0): count for gram, count in pairs}))
        model.certify()
        return model
