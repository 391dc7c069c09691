"""Lasso paths against adelie, celer, skglm and scikit-learn, at equal accuracy: 100 penalties from λ_max to λ_max/100.

Accuracy of everybody is judged alike, from X, y and the coefficients alone: the relative duality gap
(primal − dual)/primal with the best multiple of the residual as the dual point, the worst over the path. Each peer
runs through a ladder of tolerances, loosest first, until its gap is 1e-6 or a run takes four times what the fastest peer
before it needed for the lesser accuracy below (15 s at most); its last run is then stated. Of the runs that reach the accuracy the fastest peer is timed against
trueline, in turn. A second line per problem asks for less: an objective within 1e-6 of the optimum at every penalty
(which a peer cannot certify by itself). All may use both cores; compile time is not counted.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import pathlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .harness import Row, interleaved

NAME = "Lasso paths at a certified relative gap of 1e-6"
ACCURACY = 1e-6
LIMIT = 12.0  # seconds after which a peer's run is stopped
SLOWER = 2.0  # a peer's run that takes so many times the fastest run within 1e-6 of the optimum is its last
THREADS = 2


def correlated(n: int, d: int, rho: float, support: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Columns in an autoregressive chain of correlation ρ, a sparse signal, three times as strong as the noise."""
    rng = np.random.default_rng(0)
    X = np.empty((n, d), order="F")
    X[:, 0] = rng.standard_normal(n)
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho * rho) * rng.standard_normal(n)
    w = np.zeros(d)
    w[rng.choice(d, support, replace=False)] = rng.standard_normal(support)
    return X, noisy(X @ w, rng)


def texts(n: int, d: int, density: float, support: int = 500, zipf: float = 0.8) -> tuple[Any, np.ndarray]:
    """Counts of words whose frequency falls with their rank (``zipf=0``: all words alike)."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, d + 1) ** zipf
    share /= share.sum()
    wanted = int(n * d * density)
    drawn = int(1.3 * wanted)
    places = np.unique(rng.integers(0, n, drawn) * d + rng.choice(d, drawn, p=share))
    places = rng.permutation(places)[:wanted]
    values = rng.exponential(1.0, places.size) + 0.1
    X = sp.csc_matrix((values, ((places // d).astype(np.int32), (places % d).astype(np.int32))), shape=(n, d))
    X.sort_indices()
    w = np.zeros(d)
    w[rng.choice(d, support, replace=False, p=share)] = rng.standard_normal(support)
    return X, noisy(X @ w, rng)


def noisy(signal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.standard_normal(len(signal))
    y = signal - signal.mean() + noise * np.std(signal) / np.std(noise) / 3.0
    return np.asarray(y - y.mean())


def penalties(X: Any, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(X.T @ y).max() / len(y) * np.geomspace(1.0, 0.01, 100))


def judge(X: Any, y: np.ndarray, alphas: np.ndarray, coefs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(primal, dual) of each penalty, from first principles."""
    n = len(y)
    primal, dual = [], []
    for alpha, w in zip(alphas, np.asarray(coefs).T):
        r = y - X @ w
        largest = np.abs(X.T @ r).max()
        limit = n * alpha / largest
        s = np.clip(y @ r / (r @ r), -limit, limit)
        primal.append(r @ r / (2 * n) + alpha * np.abs(w).sum())
        dual.append((s * (y @ r) - s * s * (r @ r) / 2) / n)
    return np.array(primal), np.array(dual)


def ours(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float = ACCURACY) -> np.ndarray:
    import trueline as tl

    return tl.lasso_path(X, y, alphas=alphas, tol=tol)[1]


def adelie(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    import adelie as ad

    state = ad.grpnet(
        X, ad.glm.gaussian(y), lmda_path=alphas, intercept=False, tol=tol, early_exit=False, progress_bar=False,
        n_threads=THREADS, max_iters=10**7,
    )  # fmt: skip
    return state.betas.toarray().T


def adelie_covariance(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    import adelie as ad

    state = ad.gaussian_cov(
        np.asfortranarray(X.T @ X / len(y)), X.T @ y / len(y), lmda_path=alphas, tol=tol, rdev_tol=0, early_exit=False,
        progress_bar=False, n_threads=THREADS, max_iters=10**7,
    )  # fmt: skip
    return state.betas.toarray().T


def celer(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    from celer import celer_path

    return celer_path(X, y, "lasso", alphas=alphas, tol=tol, max_iter=200)[1]


def skglm(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    solver = AndersonCD(tol=tol * alphas[-1], fit_intercept=False, warm_start=True, max_iter=500)
    return solver.path(X, y, compiled_clone(Quadratic()), compiled_clone(L1(1.0)), alphas)[1]


def sklearn(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    from sklearn.linear_model import lasso_path

    return lasso_path(X, y, alphas=alphas, tol=tol, precompute=False, max_iter=10**6)[1]


def sklearn_gram(X: Any, y: np.ndarray, alphas: np.ndarray, tol: float) -> np.ndarray:
    from sklearn.linear_model import lasso_path

    return lasso_path(X, y, alphas=alphas, tol=tol, precompute=X.T @ X, Xy=X.T @ y, max_iter=10**6)[1]


Solver = Callable[[Any, np.ndarray, np.ndarray, float], np.ndarray]
LADDERS: dict[Solver, tuple[float, ...]] = {
    adelie: (1e-10, 1e-11, 1e-12, 1e-14, 1e-16, 1e-17, 1e-18),
    adelie_covariance: (1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15),
    celer: (1e-6, 1e-7, 1e-8, 1e-9, 1e-10),
    skglm: (1e-3, 1e-4, 1e-5, 1e-6),
    sklearn: (1e-6, 1e-7, 1e-8, 1e-9),
    sklearn_gram: (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9),
}
Run = tuple[float, float, float, float]  # tolerance, seconds, worst gap, worst excess


def climb(
    make: Callable[[], tuple[Any, np.ndarray]], solver: Solver, best: np.ndarray, enough: float, report: Any
) -> None:
    """A peer's ladder, in its own process: each run as it comes."""
    warnings.simplefilter("ignore")
    X, y = make()
    alphas = penalties(X, y)
    few = X[:50] if sp.issparse(X) else np.asfortranarray(X[:50])
    solver(few, y[:50], alphas[:2], 1e-2)  # compile
    for tol in LADDERS[solver]:
        report.send(None)
        start = time.perf_counter()
        coefs = solver(X, y, alphas, tol)
        seconds = time.perf_counter() - start
        report.send(None)
        primal, dual = judge(X, y, alphas, coefs)
        found = tol, seconds, float(np.max((primal - dual) / primal)), float(np.max((primal - best) / primal))
        report.send(found)
        if found[2] <= ACCURACY or seconds > enough:
            break


def attempts(make: Any, solver: Solver, best: np.ndarray, enough: float) -> list[Run]:
    """What the ladder found; a run beyond the time limit is stopped and not listed."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=climb, args=(make, solver, best, enough, there), daemon=True)
    process.start()
    there.close()
    found: list[Run] = []
    try:
        while here.poll(enough if found else LIMIT):
            what = here.recv()
            if what is not None:
                found.append(what)
    except EOFError:
        pass
    process.terminate()
    process.join()
    return found


def climb_all(make: Any, peers: list[Solver], best: np.ndarray) -> dict[Solver, list[Run]]:
    """Every peer's ladder; the fastest so far within 1e-6 of the optimum sets what counts as much slower."""
    tried: dict[Solver, list[Run]] = {}
    enough = LIMIT
    for solver in peers:
        tried[solver] = attempts(make, solver, best, enough)
        enough = min([enough, *(SLOWER * run[1] for run in tried[solver] if run[3] <= ACCURACY)])
    return tried


def compare(title: str, make: Any, peers: list[Solver], aim: float, rounds: int = 2) -> list[Row]:
    """The two lines of one problem."""
    X, y = make()
    alphas = penalties(X, y)
    ours(X, y, alphas)
    primal, dual = judge(X, y, alphas, ours(X, y, alphas))
    mine = float(np.max((primal - dual) / primal))
    tried = climb_all(make, peers, dual)
    for solver, runs in tried.items():
        for tol, seconds, gap, excess in runs:
            print(
                f"   {title}: {solver.__name__} tol={tol:g} {seconds:.2f} s, gap {gap:.1e}, excess {excess:.1e}",
                flush=True,
            )
    rows = []
    for place, words in ((2, "gap"), (3, "objective excess")):
        reached = {
            solver: min((run for run in runs if run[place] <= ACCURACY), key=lambda run: run[1], default=None)
            for solver, runs in tried.items()
        }
        short = "; ".join(
            f"{s.__name__} {runs[-1][place]:.0e} in {runs[-1][1]:.1f} s" if runs else f"{s.__name__} > {LIMIT:.0f} s"
            for s, runs in tried.items()
            if reached[s] is None
        )
        note = f"{words} ≤ 1e-6; ours {mine:.0e}" + (f"; did not reach it: {short}" if short else "")
        winners = {s: run for s, run in reached.items() if run is not None}
        goal = aim if place == 2 else None
        task = f"{title}, {words}"
        if not winners:
            seconds = min((time_ours(X, y, alphas) for _ in range(rounds)), default=0.0)
            rows.append(Row(task, seconds, LIMIT, "no peer in this time", aim=goal, note=note))
            continue
        fastest = min(winners, key=lambda s: winners[s][1])
        tol = winners[fastest][0]
        contenders = {
            "ours": functools.partial(ours, X, y, alphas),
            "theirs": functools.partial(fastest, X, y, alphas, tol),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best, _ = interleaved(contenders, rounds if winners[fastest][1] < 6 else 1)
        note += f"; {fastest.__name__} at tol={tol:g}"
        rows.append(Row(task, best["ours"], best["theirs"], fastest.__name__, aim=goal, note=note))
    return rows


def time_ours(X: Any, y: np.ndarray, alphas: np.ndarray) -> float:
    start = time.perf_counter()
    ours(X, y, alphas)
    return time.perf_counter() - start


def chosen_by_folds(n: int, d: int, aim: float | None) -> Row:
    """LassoCV with 5 folds and 100 penalties: the same alpha_ from moments per fold."""
    from sklearn.linear_model import LassoCV

    import trueline as tl

    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    y = X[:, : d // 10] @ rng.standard_normal(d // 10) + 3.0 * rng.standard_normal(n)
    tl.LassoCV(cv=5).fit(X[: 4 * d], y[: 4 * d])
    best, models = interleaved(
        {"ours": lambda: tl.LassoCV(cv=5).fit(X, y), "theirs": lambda: LassoCV(cv=5, n_jobs=THREADS).fit(X, y)}, 2
    )
    same = np.isclose(models["ours"].alpha_, models["theirs"].alpha_, rtol=1e-9)
    return Row(
        f"LassoCV {n:,}×{d}, 5 folds, 100 penalties", best["ours"], best["theirs"], "scikit-learn", aim=aim,
        note=f"alpha_ {'the same' if same else 'DIFFERS'}; worst gap of any fold {models['ours'].gap_path_.max():.0e}",
    )  # fmt: skip


def measure_memory(make: Any, report: Any) -> None:
    """Peak memory above imports of a path, as a multiple of the input's size, in its own process."""
    wide = make.func is correlated and make.args[0] < make.args[1]
    small, y = (texts_by_row if make.func is texts_by_row else correlated)(40, 90 if wide else 30, 0.2, 5)
    ours(small, y, penalties(small, y))  # imports and compiled code of the same route
    import gc

    gc.collect()
    floor = status("VmRSS")
    X, y = make()
    size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    alphas = penalties(X, y)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what making the data left behind is not the path's
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    coefs = ours(X, y, alphas)
    used = int(coefs.any(axis=1).sum())
    report.send(((status("VmHWM") - floor) / size, coefs.nbytes / size, used))


def status(field: str) -> float:
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * float(next(line for line in lines if line.startswith(field)).split()[1])


def texts_by_row(*given: Any) -> tuple[Any, np.ndarray]:
    X, y = texts(*given)
    return X.tocsr(), y


def memory(title: str, make: Any, limit: float) -> Row:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=measure_memory, args=(make, there))
    process.start()
    found, answer, used = here.recv()
    process.join()
    return Row(
        f"peak memory, {title}", found, limit, "limit", unit="× input", aim=1.0,
        note=f"input (1) and the coefficients asked for ({answer:.2f}) included; {used} columns were ever non-zero",
    )  # fmt: skip


def run(quick: bool) -> list[Row]:
    part = functools.partial
    dense = [adelie, celer, skglm, sklearn]
    if quick:
        return [
            *compare("200×1,000, correlation .5", part(correlated, 200, 1000, 0.5, 20), [adelie, celer], 4.0),
            *compare("2,000×100", part(correlated, 2000, 100, 0.5, 20), [adelie_covariance, sklearn_gram], 1.5),
            *compare("sparse 2,000×10,000", part(texts, 2000, 10_000, 1e-3, 100), [celer], 4.0),
            chosen_by_folds(20_000, 20, None),
        ]
    return [
        *compare("1,000×10,000, correlation .5", part(correlated, 1000, 10_000, 0.5), dense, 4.0),
        *compare("1,000×10,000, correlation .95", part(correlated, 1000, 10_000, 0.95), dense, 4.0),
        *compare("500×2,000, correlation .5", part(correlated, 500, 2000, 0.5, 50), dense, 4.0),
        *compare("20,000×1,000", part(correlated, 20_000, 1000, 0.5), [adelie_covariance, sklearn_gram], 1.5, 5),
        *compare("sparse text 20,000×100,000, 0.1 %", part(texts, 20_000, 100_000, 1e-3), [celer], 4.0),
        chosen_by_folds(300_000, 100, None),
        memory("dense 1,500×12,000", part(correlated, 1500, 12_000, 0.5), 1.2),
        memory("dense 100,000×500", part(correlated, 100_000, 500, 0.5), 1.2),
        memory("CSR 50,000×200,000, 0.1 %", part(texts_by_row, 50_000, 200_000, 1e-3), 2.3),
    ]
