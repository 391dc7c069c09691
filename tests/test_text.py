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


VW = b"""1 2.5 0.1 first|a x y:3 |b:2 x z:0.5
-1 |a x x
| y
0 tagged| plain:4 time:12:30:7

"""


def test_vowpal_wabbits_text():
    X, y, weights, names = whole(io.BytesIO(VW), "vw")
    assert names == ("a^x", "a^y", "b^x", "b^z", "y", "plain", "time:12:30")
    assert X.tolist() == [[1, 3, 2, 1, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 4, 7]]
    assert y[[0, 1, 3]].tolist() == [1, -1, 0] and np.isnan(y[2])
    assert weights.tolist() == [2.5, 1, 1, 1]
    tags = next(read_text(io.BytesIO(VW), "vw")).tags
    assert tags == ("first", "", "", "tagged")


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
        ("vw", b"1 |a x:z\n", "line 1 .* holds 'z' where a value"),
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
