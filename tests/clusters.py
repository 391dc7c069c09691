"""What the tests of Dask share: a cluster of two worker processes on loopback, tables, partitionings, distances."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import trueline as tl

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")
pytest.importorskip("distributed", reason="pip install 'dask[distributed]' runs these tests")

import dask.dataframe as dd  # noqa: E402


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def one_process():
    """Dask without workers, in the modules that import this."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return made(4000)


def made(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(n, 4)) * [1.0, 10.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, 3.0], columns=list("abcd"))
    frame["color"] = rng.choice(["blue", "green", "red"], size=n)
    frame.loc[n - 2, "color"] = "unique"  # a level that one partition alone has
    frame["weight"] = rng.integers(0, 4, size=n).astype(float)
    frame.loc[n - 2, "weight"] = 1.0
    frame["y"] = 2.0 * frame.a - 0.1 * frame.b + (frame.color == "red") + rng.normal(size=n)
    return frame


def split(frame: pd.DataFrame, sizes: list[int]) -> dd.DataFrame:
    """A Dask frame with partitions of these sizes."""
    edges = np.concatenate([[0], np.cumsum(sizes)])
    assert edges[-1] == len(frame)
    parts = [frame.iloc[a:b] for a, b in itertools.pairwise(edges)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0], verify_meta=False)


def distance(left: tl.Moments, right: tl.Moments) -> float:
    """The largest difference of products, in units of √(C_ii·C_jj), over all folds."""
    assert left.terms == right.terms and left.parts.keys() == right.parts.keys()
    worst = 0.0
    for name, part in left.parts.items():
        other = right.parts[name]
        assert part.n == other.n
        spread = np.sqrt(np.diagonal(part.products[0]))
        scale = np.outer(spread, spread) + 1e-300
        worst = max(worst, float((np.abs(part.products[0] - other.products[0]) / scale).max()))
        worst = max(
            worst, float((np.abs(part.mean[0] - other.mean[0]) / (np.abs(part.mean[0]) + spread + 1e-300)).max())
        )
    return worst


def same_bits(left: tl.Moments, right: tl.Moments) -> bool:
    (arrays, meta), (others, other) = left.to_state(), right.to_state()
    return meta == other and all(arrays[name].tobytes() == others[name].tobytes() for name in {*arrays, *others})


SIZES = {
    "one": [4000],
    "seven": [571] * 6 + [574],
    "sixty-four": [62] * 63 + [94],
    "empty and skewed": [0, 3990, 0, 0, 1, 1, 0, 8, 0],
}


def labelled(table: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    label = np.where(table.a + rng.normal(size=len(table)) > 0, "yes", "no")
    count = rng.poisson(np.exp(0.3 * table.a + 0.2 * (table.d - 3.0))).astype(float)
    return table[[*"abcd"]].assign(label=label, count=count)


def online_rows(n: int, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.uniform(-1.0, 1.0, size=(n, 3)), columns=list("abc"))
    score = frame.a - 0.5 * frame.b
    noisy = score + rng.uniform(-0.5, 0.5, size=n)
    return frame.assign(y=noisy, label=np.where(noisy > 0.0, "yes", "no"))
