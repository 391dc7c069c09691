"""Fixed-rate Widrow–Hoff against SGDRegressor, Vowpal Wabbit and River: dense, sparse, one dict at a time.

One pass over rows in memory, `certificate=False`; the certificate's own cost and the default mixture's are printed
beside it. The progressive loss (each row predicted before it is learned) is checked to be no worse than the peer's.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

from .harness import Row, interleaved

NAME = "Online learning: speed"


def _dense(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def _progressive(model: Any, X: Any, y: np.ndarray, block: int = 200) -> float:
    """Mean squared error of blocks predicted before they are learned, for peers that only offer partial_fit."""
    total = 0.0
    for start in range(0, len(y), block):
        part, target = X[start : start + block], y[start : start + block]
        if start:
            total += float(np.sum((model.predict(part) - target) ** 2))
        model.partial_fit(part, target)
    return total / (len(y) - block)


def _against_sgd(n: int, d: int, rounds: int) -> list[Row]:
    from sklearn.linear_model import SGDRegressor

    import trueline as tl

    X, y = _dense(n, d)
    rate = 0.1 / d

    def sgd() -> Any:
        return SGDRegressor(penalty=None, learning_rate="constant", eta0=rate, shuffle=False, max_iter=1, tol=None)

    def mine(**settings: Any) -> Any:
        return tl.WidrowHoff(rate=rate, **settings)

    mine(certificate=False).fit(X[:10], y[:10])
    mine().fit(X[:10], y[:10])
    contenders = {
        "ours": lambda: mine(certificate=False).fit(X, y),
        "certificate": lambda: mine().fit(X, y),
        "sgd": lambda: sgd().fit(X, y),
        "read": lambda: _read_bandwidth(X),
    }
    seconds, results = interleaved(contenders, rounds)
    few = min(n, 20000)
    own, peer = _progressive(mine(certificate=False), X[:few], y[:few]), _progressive(sgd(), X[:few], y[:few])
    certified = results["certificate"].certificate_
    rows = [
        Row(
            f"dense {n:,} × {d}, one pass", seconds["ours"], seconds["sgd"], "SGDRegressor", aim=4.0,
            note=f"progressive error {own:.4f} against {peer:.4f}; with the certificate {seconds['certificate']:.3f} s; "
            f"its loss is {certified.loss / certified.bound:.2f} of its bound; the limit: reading the same array takes "
            f"{seconds['read']:.4f} s",
        ),
    ]  # fmt: skip
    if d >= 100:
        ours, theirs = X.nbytes / seconds["ours"] / 1e9, X.nbytes / seconds["read"] / 1e9
        rows.append(
            Row(
                f"dense {n:,} × {d}, bytes read",
                ours,
                theirs,
                "reading the same array",
                "GB/s",
                0.6,
                larger_is_better=True,
            )
        )
    return rows


class OwnSquared(NamedTuple):
    """Squared loss as a user would write it, in a file that is not trueline's; one multiplication more than the built-in one."""

    half: float = 0.5
    targets = "real"

    def value(self, score, y):
        return self.half * (score - y) * (score - y)

    def slope(self, score, y):
        return 2.0 * self.half * (score - y)


class OwnHuber(NamedTuple):
    """Huber's loss, the built-in one's formula."""

    delta: float = 1.35
    targets = "real"

    def value(self, score, y):
        r = abs(score - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def slope(self, score, y):
        return max(-self.delta, min(self.delta, score - y))


class OwnMultiplicative(NamedTuple):
    """Exponentiated gradient, the built-in one's formulas."""

    unit: float = 1.0
    linked = True

    def step(self, rate, norm2):
        return rate

    def slope(self, loss, score, y, gain):
        return loss.slope(score, y)

    def move(self, dual, memory, gradient, step):
        return dual - step * gradient, memory

    def weight(self, dual, total, shift):
        return math.exp(dual - shift) / total

    def mass(self, dual, shift):
        return math.exp(dual - shift)

    def height(self, dual):
        return dual

    def excess(self, loss, score, y, slope, norm2, step, before, after):
        return max(0.0, slope * score + (after - before) / step) if step > 0.0 else 0.0

    def conjugate(self, total, shift):
        return math.log(total) + shift

    def divergence(self, u):
        inside = u[u > 0.0]
        return float(np.sum(inside * np.log(inside))) + math.log(len(u))


def _own_parts(n: int, d: int, rounds: int) -> list[Row]:
    X, y = _dense(n, d)
    few = n // 10
    one_more = "its formula has one multiplication more in what every row waits for"
    return [
        _own_part(f"a user's own squared loss, dense {n:,} × {d}", X, y, rounds, OwnSquared(), "squared", note=one_more),
        _own_part(f"a user's own Huber loss, dense {n:,} × {d}", X, y, rounds, OwnHuber(), "huber"),
        _own_part(
            f"a user's own multiplicative geometry, dense {few:,} × {d}", X[:few], y[:few], rounds, "squared", "squared",
            (OwnMultiplicative(), "multiplicative"),
        ),
    ]  # fmt: skip


def _own_part(
    task: str, X: Any, y: Any, rounds: int, own: Any, known: Any, geometries: Any = ("additive",) * 2, note: str = ""
) -> Row:
    import trueline as tl

    def learner(loss: Any, geometry: Any) -> Any:
        return tl.OnlineRegressor(loss=loss, geometry=geometry, rate=0.1 / X.shape[1], certificate=False)

    contenders = {
        "own": lambda: learner(own, geometries[0]).fit(X, y),
        "built-in": lambda: learner(known, geometries[1]).fit(X, y),
    }
    for run in contenders.values():
        run()
    seconds, results = interleaved(contenders, 2 * rounds)
    same = bool(np.array_equal(results["own"].coef_, results["built-in"].coef_))
    words = f"weights {'the same bit by bit' if same else 'DIFFER'}; 1 is the same speed"
    return Row(task, seconds["own"], seconds["built-in"], "the built-in one", aim=0.9, note=f"{words}; {note}" if note else words)  # fmt: skip


def _read_bandwidth(X: np.ndarray) -> float:
    """The fastest read that one core does: the sum of the array by NumPy's vectorised loop."""
    return float(X.reshape(-1).sum())


def _against_vw(n: int, d: int, rounds: int) -> list[Row]:
    import trueline as tl

    try:
        from vowpalwabbit import pyvw
    except ImportError:
        return []
    X, y = _dense(n, d)
    mine = lambda: tl.WidrowHoff(rate=0.1 / d, certificate=False).fit(X, y)  # noqa: E731
    mine()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "rows.vw")
        with open(text, "w") as file:
            for row, target in zip(X, y):
                file.write(f"{target:.6g} | " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row)) + "\n")

        def vw() -> float:
            work = pyvw.Workspace(f"-d {text} --cache_file {text}.cache --quiet")
            loss = work.get_sum_loss() / max(1.0, work.get_weighted_examples())
            work.finish()
            return float(loss)

        vw()  # writes the cache
        seconds, results = interleaved({"ours": mine, "vw": vw}, rounds)
    before = tl.WidrowHoff(rate=0.1 / d, certificate=False)
    before.partial_fit(X, y)
    own = before.progress_[-1]["average_loss"]
    note = f"progressive squared error {own:.4f} against {results['vw']:.4f}"
    return [Row(f"dense {n:,} × {d}, one pass", seconds["ours"], seconds["vw"], "Vowpal Wabbit from its binary cache", aim=10.0, note=note)]  # fmt: skip


def _against_river(n: int) -> list[Row]:
    from river import linear_model, optim

    import trueline as tl

    X, y = _dense(n, 30)
    rows = [{f"f{j}": float(value) for j, value in enumerate(row)} for row in X]
    targets = [float(value) for value in y]

    def run(model: Any) -> float:
        total = 0.0
        for x, target in zip(rows, targets):
            total += (model.predict_one(x) - target) ** 2
            model.learn_one(x, target)
        return total / n

    def river() -> Any:
        # River's intercept and gradient rules at the same rate; its squared loss is twice ours.
        return linear_model.LinearRegression(optimizer=optim.SGD(0.1 / 60), intercept_lr=0.1 / 60, l2=0.0)

    def river_default() -> Any:
        return linear_model.LinearRegression()

    def mine(**settings: Any) -> Any:
        return tl.WidrowHoff(rate=0.1 / 30, **settings)

    run(mine(certificate=False)), run(mine())
    contenders = {
        "ours": lambda: run(mine(certificate=False)),
        "certificate": lambda: run(mine()),
        "mixture": lambda: run(tl.OnlineRegressor()),
        "river": lambda: run(river()),
        "river default": lambda: run(river_default()),
    }
    seconds, results = interleaved(contenders, 3)
    micro = {name: value / n * 1e6 for name, value in seconds.items()}
    faster = min(("river", "river default"), key=lambda name: micro[name])
    note = (
        f"progressive error {results['ours']:.4f} against {results['river']:.4f} at the same rate and "
        f"{results['river default']:.4f} by default, in {micro['river']:.1f} and {micro['river default']:.1f} µs; with the certificate "
        f"{micro['certificate']:.1f} µs; the default mixture {micro['mixture']:.1f} µs"
    )
    return [
        Row(
            "predict_one + learn_one, 30-key dict",
            micro["ours"],
            micro[faster],
            "River, the faster of two settings",
            "µs",
            3.0,
            note,
        )
    ]


def _bare_loop(X: Any, y: np.ndarray, rate: float) -> Any:
    """The two walks along each row and nothing else, compiled: what any loop of this kind costs on this machine."""
    import numba

    @numba.njit(fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
    def loop(data, indices, indptr, y, rate, w):
        for i in range(y.size):
            error = -y[i]
            for k in range(indptr[i], indptr[i + 1]):
                error += data[k] * w[indices[k]]
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] -= rate * error * data[k]

    arrays = X.data, X.indices.view(np.uint32), X.indptr.astype(np.uint64), y, rate
    return lambda: loop(*arrays, np.zeros(X.shape[1]))


def _sparse(n: int, d: int, per_row: int, rounds: int, words: bool = False) -> list[Row]:
    """Columns drawn evenly, which no cache can keep up with, or as words are: the k-th most frequent one in proportion to 1/k."""
    from scipy import sparse
    from sklearn.linear_model import SGDRegressor

    import trueline as tl

    rng = np.random.default_rng(0)
    columns = (d ** rng.random((n, per_row))).astype(np.int64) - 1 if words else rng.integers(0, d, size=(n, per_row))
    columns.sort(axis=1)
    X = sparse.csr_matrix((rng.normal(size=n * per_row), columns.ravel(), np.arange(n + 1) * per_row), shape=(n, d))
    X.sum_duplicates()
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    rate = 0.1 / per_row

    # Both without an intercept: scikit-learn shortens its step a hundredfold on sparse rows, and the data have none.
    def sgd() -> Any:
        return SGDRegressor(
            penalty=None, learning_rate="constant", eta0=rate, shuffle=False, max_iter=1, tol=None, fit_intercept=False
        )

    def mine() -> Any:
        return tl.WidrowHoff(rate=rate, certificate=False, fit_intercept=False)

    mine().fit(X[:10], y[:10])
    ones = np.ones(d)
    contenders = {
        "ours": lambda: mine().fit(X, y),
        "sgd": lambda: sgd().fit(X, y),
        "read": lambda: (X.data.sum(), X.indices.sum()),
        "product": lambda: X @ ones,
        "bare": _bare_loop(X, y, rate),
    }
    seconds, _ = interleaved(contenders, rounds)
    few = min(n, 20000)
    own, peer = _progressive(mine(), X[:few], y[:few]), _progressive(sgd(), X[:few], y[:few])
    note = (
        f"progressive error {own:.4f} against {peer:.4f}; the limits: reading the same arrays takes {seconds['read']:.4f} s, "
        f"one product X @ w, which learns nothing, {seconds['product']:.4f} s, a bare compiled loop of the two walks, which "
        f"counts and checks nothing, {seconds['bare']:.4f} s"
    )
    kind = f"{X.nnz / n:.0f} a row, as frequent as words" if words else f"{per_row} a row"
    return [Row(f"sparse {n:,} × {d:,}, {kind}", seconds["ours"], seconds["sgd"], "SGDRegressor", aim=2.0, note=note)]  # fmt: skip


START = """
import time; start = time.perf_counter()
{code}
print(time.perf_counter() - start)
"""
OURS = "import numpy as np, trueline as tl; tl.WidrowHoff(rate=0.1).fit(np.eye(3), [1.0, 2.0, 3.0]).predict(np.eye(3))"
THEIRS = (
    "import numpy as np; from sklearn.linear_model import SGDRegressor; "
    "SGDRegressor().fit(np.eye(3), [1.0, 2.0, 3.0]).predict(np.eye(3))"
)
SHARED = "import sklearn.base"


def _start_up() -> list[Row]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start(code: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", START.format(code=code)], capture_output=True, text=True, check=True, env=env
        )
        return float(done.stdout)

    codes = (OURS, THEIRS, SHARED)
    for code in codes:
        start(code)
    ours, theirs, shared = (min(seconds) for seconds in zip(*([start(code) for code in codes] for _ in range(5))))
    note = f"compiled code from the cache; importing sklearn.base alone takes {shared:.2f} s"
    return [Row("warm process, start to first prediction", ours, theirs, "SGDRegressor", note=note)]


def run(quick: bool) -> list[Row]:
    scale, rounds = (20, 2) if quick else (1, 5)
    started = time.perf_counter()
    rows = _against_sgd(1_000_000 // scale, 30, rounds)
    rows += _against_sgd(500_000 // scale, 100, rounds)
    rows += _against_sgd(100_000 // scale, 500, rounds)
    rows += _own_parts(1_000_000 // scale, 30, rounds)
    rows += _against_vw(200_000 // scale, 30, rounds)
    rows += _against_river(20_000 // scale)
    rows += _sparse(400_000 // scale, 100_000, 50, rounds)
    rows += _sparse(400_000 // scale, 100_000, 50, rounds, words=True)
    rows += _start_up()
    print(f"{time.perf_counter() - started:.0f} s", flush=True)
    return rows
