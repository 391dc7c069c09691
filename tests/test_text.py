"""Sparse text: the same rows as scikit-learn's reader and as the formats' definitions say, from files and pipes."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from trueline.data.files import looks_like
from trueline.data.text import read_text, text_format
from trueline.errors import DataError, UsageError


def whole(source, form, **options):
    """(dense rows, y, weights, names) of all blocks."""
    blocks = list(read_text(source, form, **options))
    names = blocks[-1].names
    X = np.concatenate([np.pad(b.toarray(), ((0, 0), (0, len(names) - len(b.names)))) for b in blocks])
    weights = None if blocks[0].weights is None else np.concatenate([b.weights for b in blocks])
    return X, np.concatenate([b.y for b in blocks]), weights, names


def test_svmlight_as_scikit_learn_writes_it(tmp_path):
    X = scipy.sparse.random(300, 40, 0.1, random_state=0, format="csr")
    y = np.random.default_rng(0).normal(size=300)
    path = tmp_path / "t.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False, comment="made by a test", query_id=np.arange(300))
    packed = tmp_path / "t.svm.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for place in (path, packed):
        made, labels, _, names = whole(str(place), "svmlight", block_lines=7)
        dense = np.zeros((300, 40))
        dense[:, [int(name) - 1 for name in names]] = made
        assert np.allclose(dense, X.toarray(), rtol=1e-15) and np.allclose(labels, y, rtol=1e-15)


VW = b"""1 2.5 0 first|a x y:3 |b:2 x z:0.5
-1 |a x x
| y
0 tagged| plain:4 12:7

"""


def test_vowpal_wabbits_text():
    X, y, weights, names = whole(io.BytesIO(VW), "vw")
    assert names == ("a^x", "a^y", "b^x", "b^z", "y", "plain", "12")
    assert X.tolist() == [[1, 3, 2, 1, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 4, 7]]
    assert y[[0, 1, 3]].tolist() == [1, -1, 0] and np.isnan(y[2])
    assert weights.tolist() == [2.5, 1, 1, 1]
    tags = next(read_text(io.BytesIO(VW), "vw")).tags
    assert tags == ("first", "", "", "tagged")


def test_anonymous_features_of_vowpal_wabbit_are_numbered():
    """``| :1 :2`` is ``| 0:1 1:2``, in each namespace from 0 on; a zero takes its number too."""
    X, _, _, names = whole(io.BytesIO(b"1 | :1 :2 :3\n0 | :4 :0 :6 |n:2 :5 x :7\n1 | 0:1 01:1\n"), "vw")
    assert names == ("0", "1", "2", "n^0", "n^x", "n^1")
    assert X.tolist() == [[1, 2, 3, 0, 0, 0], [4, 0, 6, 10, 2, 14], [1, 1, 0, 0, 0, 0]]


def test_what_touches_the_bar_is_a_tag():
    text = b"1 9308047| a\n1 0| a\n-1| a\n1 2 '3 | a\n1 2 '3| a\n+1 |a\n 1 | a\n"
    block = next(read_text(io.BytesIO(text), "vw"))
    assert block.tags == ("9308047", "0", "-1", "3", "3", "", "")
    assert block.weights.tolist() == [1, 1, 1, 2, 2, 1, 1]
    assert block.y[[0, 1, 3, 4, 5, 6]].tolist() == [1, 1, 1, 1, 1, 1] and np.isnan(block.y[2])


def test_features_of_vowpal_wabbit_are_parted_by_blanks_and_tabs_alone():
    _, _, _, names = whole(io.BytesIO("\ufeff1 |n a\u00a0b\tc  d\r\n".encode()), "vw")
    assert names == ("n^a\u00a0b", "n^c", "n^d")


def test_ids_of_svmlight_of_any_length_stay_apart():
    ids = [2**53, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, 10**30, 10**30 + 1, 0]
    text = "".join(f"{k} {i}:1\n" for k, i in enumerate(ids))
    X, y, _, names = whole(io.BytesIO(text.encode()), "svmlight", block_lines=2)
    assert names == tuple(map(str, ids)) and (np.eye(len(ids)) == X).all() and y.tolist() == list(range(len(ids)))


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"1 | a b\n", "vw"), (b"-1.5 2 'tag|n a:1\n", "vw"), (b"1 0.5 |n a\n", "vw"), (b"| a b c\n", "vw"),
        (b"1 3:4 7:1\n", "svmlight"), (b"+1 qid:3 1:0.5 # x\n", "svmlight"), (b"a,b\n1,2\n", None), (b"a|b|c\n1|2|3\n", None),
        (b"1|2|3\n", None), (b"x\n12:30\n", None), (b"", None), (b"1.5\n", None),
    ],
)  # fmt: skip
def test_text_is_known_by_its_first_line(head, form):
    assert looks_like(head) == form


def test_columns_of_a_model_keep_their_places():
    _, _, _, names = whole(io.BytesIO(b"1 |a y x\n"), "vw", known=("a^x",))
    assert names == ("a^x", "a^y")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9), st.dictionaries(st.integers(0, 10**9), st.floats(-1e30, 1e30), max_size=6)),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 7),
)
def test_what_is_written_is_read(rows, block_lines):
    lines = ["".join([repr(y), *(f" {k}:{v!r}" for k, v in x.items())]) for y, x in rows]
    for form, text in (
        ("svmlight", lines),
        ("vw", [line.replace(" ", " | ", 1) if " " in line else line + " |" for line in lines]),
    ):
        blocks = list(read_text(io.BytesIO("\n".join(text).encode()), form, block_lines=block_lines))
        found = [
            (block.y[i], {int(block.names[j]): v for j, v in zip(block.indices[a:b], block.data[a:b])})
            for block in blocks
            for i, (a, b) in enumerate(zip(block.indptr[:-1], block.indptr[1:]))
        ]
        assert found == rows


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("svmlight", b"1 1:2\n1 x:2\n", "line 2 .* holds 'x:2' where index:value"),
        ("svmlight", b"1 1:2\none 1:2\n", "line 2 .* holds 'one' where a label"),
        ("svmlight", b"1 1:nan\n", "line 1 .* holds '1:nan'"),
        ("svmlight", b"1 1:2:3\n", "line 1"),
        ("svmlight", b"", "is empty"),
        ("vw", b"1 |a x\n1 a x\n", "line 2 .* has no '|'"),
        ("vw", b"1 |a x:z\n", "line 1 .* holds 'x:z' where a feature's value"),
        # What scikit-learn refuses too, each with its line.
        ("svmlight", b"1 1:1 2:1\n3:1\n0 1:1 0 2:1\n", "line 2 .* holds '3:1' where a label"),
        ("svmlight", b"1 1:1 2:1\n0 1:1 0 2:1\n", "line 2 .* holds '0' where index:value"),
        ("svmlight", b"1 1:1\n1 -2:1\n", "line 2 .* holds '-2:1' where index:value"),
        ("svmlight", b"1 1e3:1\n", "line 1 .* holds '1e3:1'"),
        ("svmlight", b"1 1.0:1\n", "line 1 .* holds '1.0:1'"),
        ("svmlight", b"1 1:2 3:1 1:4\n", "line 1 .* names index 1 twice"),
        ("svmlight", b"1 1:2 3:1 01:4\n", "line 1 .* names index 1 twice"),
        ("svmlight", b"1 1:1_0\n", "line 1 .* holds '1:1_0'"),
        ("svmlight", b"1 1:\n", "line 1 .* holds '1:'"),
        ("svmlight", b"1,2 1:1\n", "line 1 .* holds '1,2' where a label"),
        ("svmlight", b"1 1:1 qid:3\n", "line 1 .* holds 'qid:3'"),
        # What Vowpal Wabbit would drop, hash or warn of.
        ("vw", b"1 |a b:1:2 c\n", "line 1 .* holds 'b:1:2'"),
        ("vw", b"1 | time:12:30:7\n", "line 1 .* holds 'time:12:30:7'"),
        ("vw", b"1 | b:\n", "line 1 .* holds 'b:'"),
        ("vw", b"1 | b:0x10\n", "line 1 .* holds 'b:0x10'"),
        ("vw", b"1 | b:1_000\n", "line 1 .* holds 'b:1_000'"),
        ("vw", b"1 |a: b\n", "line 1 .* a namespace's value"),
        ("vw", b"1 |:2 b\n", "line 1 .* without the namespace's name"),
        ("vw", b"0 1 0.5 | a\n", "line 1 .* initial prediction 0.5"),
        ("vw", b"0 1 0 7 | a\n", "line 1 .* 4 words before"),
        ("vw", b"1\t| a\n", "line 1 .* tab before"),
        ("vw", b"1 | a\r b\n", "line 1 .* carriage return"),
        ("vw", b"1:0.5:0.2 | a\n", "line 1 .* holds '1:0.5:0.2' where a label"),
        ("vw", b"nan | a\n", "line 1 .* holds 'nan' where a label"),
        ("vw", b"yes no |a x\n", "line 1 .* holds 'yes' where a label"),
        ("vw", b"1 -2 |a x\n", "importance -2"),
        ("vw", b"1 |a x:inf\n", "holds 'x:inf'"),
        ("vw", b"1 |a:1e300 x:1e300\n", "not a finite number"),
        ("vw", b"1 |a \xff\n", "line 1 .* not UTF-8"),
    ],
)
def test_bad_lines_are_named(form, text, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        whole(io.BytesIO(text), form)
    assert "\n" not in caught.value.message


def test_formats_by_name():
    assert text_format("a/b.LIBSVM") == "svmlight" and text_format("x.parquet") is None
    with pytest.raises(UsageError, match="no text format"):
        next(read_text(io.BytesIO(b""), "arff"))
