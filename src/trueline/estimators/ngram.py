"""NGram: which sentence sounds more likely?"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..beyond.ngram import END, NGramModel, sentences
from ..errors import DataError, UsageError
from ..report.plots import axes
from .density import Mergeable
from .loading import Saved
from .parameters import Whole


def shipped_text() -> str:
    """A page of plain English that comes with trueline: what ``NGram.fit`` learns when it is given nothing."""
    from ..demo import TEXT

    return TEXT.read_text(encoding="utf-8")


class NGram(Mergeable, Saved, BaseEstimator):
    """A smoothed language model of words: probabilities of sentences, the next word, new sentences.

    Parameters
    ----------
    order : how many words an n-gram has; 3 looks two words back.

    Attributes
    ----------
    vocabulary_ : the words seen, in order of the alphabet.
    certificate_ : the training log-likelihood, and what smoothing costs against the bare counts.

    Examples
    --------
    >>> import trueline as tl
    >>> model = tl.NGram().fit()
    >>> model.rank(["I fat on a chair", "I sat on a chair"])
    ['I sat on a chair', 'I fat on a chair']
    """

    legal = {"order": Whole(1)}

    def __init__(self, order=3):
        self.order = order

    def fit(self, X: Any = None, y: Any = None) -> Any:
        """Learn a text or a list of texts; the shipped page if none is given."""
        model = NGramModel(int(self.order))
        model.learn(_texts(shipped_text() if X is None else X))
        if not model.counts:
            raise DataError("the text has no words; give at least one sentence", where="X")
        self._adopt(model)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Learn more: the same as one fit of everything, sentence for sentence."""
        if not hasattr(self, "model_"):
            return self.fit(X)
        self.model_.learn(_texts(X))
        self._adopt(self.model_)
        return self

    def log_probability(self, X: Any) -> Any:
        """The natural logarithm of the probability of a text, or of each of several."""
        check_is_fitted(self)
        found = [self.model_.log_probability(text)[0] for text in _texts(X)]
        return found[0] if isinstance(X, str) else np.array(found)

    def perplexity(self, X: Any) -> float:
        """exp of minus the mean log-probability of a word: how many words it hesitates between."""
        check_is_fitted(self)
        found = [self.model_.log_probability(text) for text in _texts(X)]
        words = sum(count for _, count in found)
        if not words:
            raise DataError("the text has no words; give at least one sentence", where="X")
        return float(np.exp(-sum(log for log, _ in found) / words))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-probability of a word."""
        return -float(np.log(self.perplexity(X)))

    def rank(self, X: Any) -> list[str]:
        """The texts, the most probable first."""
        return [X[k] for k in np.argsort(-self.log_probability(list(X)), kind="stable")]

    def next_words(self, context: str, count: int = 5) -> list[tuple[str, float]]:
        """The most probable next words and their probabilities; ``"</s>"`` ends the sentence."""
        check_is_fitted(self)
        found = sentences(context)
        before = self._before(found[-1] if found else [])
        odds = [(word, self.model_.probability(word, before)) for word in self.vocabulary_]
        return sorted(odds, key=lambda item: (-item[1], item[0]))[:count]

    def plot(self, context: str = "", count: int = 10, ax: Any = None) -> Any:
        """The most probable words after a context, as bars; the matplotlib axes."""
        odds = self.next_words(context, count)[::-1]
        ax = axes(ax, (6.4, 0.8 + 0.3 * len(odds)))
        ax.barh(["(end)" if word == END else word for word, _ in odds], [share for _, share in odds], color="#1f6fb4")
        ax.set_xlabel("probability")
        ax.set_title(f"after “{context} …”" if context else "at the start of a sentence", loc="left", fontsize=10)
        return ax

    def sample(self, random_state: Any = None, longest: int = 40) -> str:
        """A new sentence."""
        check_is_fitted(self)
        rng, words = np.random.default_rng(random_state), list[str]()
        while len(words) < longest:
            odds = np.array([self.model_.probability(word, self._before(words)) for word in self.vocabulary_])
            word = self.vocabulary_[rng.choice(len(odds), p=odds / odds.sum())]
            if word == END:
                break
            words.append(word)
        return " ".join(words)

    def _before(self, words: list[str]) -> tuple[str, ...]:
        from ..beyond.ngram import START

        return tuple([START] * (self.model_.order - 1) + words)

    def __add__(self, other: Any) -> Any:
        """The model of both texts."""
        check_is_fitted(self)
        check_is_fitted(other)
        if self.model_.order != other.model_.order:
            raise UsageError(
                f"orders {self.model_.order} and {other.model_.order} do not merge; give both the same order=",
                where="order",
            )
        made = type(self)(**self.get_params())
        made._adopt(self.model_ + other.model_)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.required = False
        return tags

    def _record(self) -> NGramModel:
        return self.model_

    def _adopt(self, record: NGramModel) -> None:
        record.certify()
        self.model_, self.certificate_, self.vocabulary_ = record, record.certificate, record.vocabulary


def _texts(X: Any) -> list[str]:
    texts = [X] if isinstance(X, str) else list(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"text {row} is {text!r} of type {type(text).__name__}; a string or a list of strings is accepted",
                where="X",
            )
    return texts
