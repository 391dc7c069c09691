"""The language model: it ranks, sums to one, merges and saves."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.errors import DataError, UsageError


@pytest.mark.filterwarnings("ignore")
def test_check_estimator():
    check_estimator(tl.NGram())


def test_ngram_ranks_sums_to_one_merges_and_saves(tmp_path):
    model = tl.NGram().fit()
    assert model.log_probability("I sat on a chair") > model.log_probability("I fat on a chair") + 2
    assert {"sat", "fat"} <= set(model.vocabulary_)
    for context in [(), ("i",), ("sat", "on"), ("never", "heard"), ("on", "a")]:
        total = sum(model.model_.probability(word, context) for word in [*model.vocabulary_, "never-seen"])
        assert total == pytest.approx(1.0, abs=1e-12)
    a, b = tl.NGram().fit("I sat. You sat on a chair."), tl.NGram().fit(["He sat on a mat!"])
    both = tl.NGram().fit(["I sat. You sat on a chair.", "He sat on a mat!"])
    assert a.merge(b).model_.counts == both.model_.counts == a.partial_fit("He sat on a mat!").model_.counts
    model.save(tmp_path / "words.tl")
    again = tl.load(tmp_path / "words.tl")
    assert again.log_probability("I sat on a mat") == model.log_probability("I sat on a mat")
    assert again.certificate_ == model.certificate_ and model.certificate_.gap > 0
    assert model.next_words("I sat on", 2)[0][0] in ("a", "the") and model.sample(1)
    open_before = len(plt.get_fignums())
    bars = model.plot("I sat on", 4)
    assert len(plt.get_fignums()) == open_before + 1  # plt.show() shows it
    plt.close(bars.figure)
    assert bars.patches[-1].get_width() == model.next_words("I sat on", 1)[0][1] and len(bars.patches) == 4
    assert model.perplexity("I sat on a chair.") < model.perplexity("Chair a on sat I.")
    uniform = tl.NGram(order=1).fit("a b c d")
    assert uniform.log_probability("a") < 0


def test_bad_input_is_named():
    for call, words in (
        (lambda: tl.NGram(order=0).fit("a"), "order of NGram is 0"),
        (lambda: tl.NGram().fit(""), "no words"),
        (lambda: tl.NGram().fit([3]), "text 0 is 3"),
    ):
        with pytest.raises((DataError, UsageError, ValueError), match=words):
            call()
