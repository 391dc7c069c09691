"""Online estimators: agreement with peers, tightness of bounds, orders, layouts, dicts, files, refusals, progress."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.certificates.certificate import Status, from_dict
from trueline.errors import DataError, UsageError
from trueline.estimators import streaming
from trueline.parts.losses import Power, Quantile
from trueline.report import bar

ORDER = "rows are learned one by one, so repeating a row is not the same as weighting it"
EXPECTED = {f"check_sample_weight_equivalence_on_{kind}_data": ORDER for kind in ("dense", "sparse")}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(600, 4))
    return X, X @ [1.0, -2.0, 0.0, 0.5] + 0.3 + 0.1 * rng.normal(size=600)


@pytest.mark.parametrize(
    "estimator",
    [
        tl.WidrowHoff(), tl.ExponentiatedGradient(), tl.RecursiveLeastSquares(), tl.Perceptron(), tl.Winnow(),
        tl.OnlineRegressor(), tl.OnlineClassifier(),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_scikit_learn_conventions(estimator):
    expected = {} if isinstance(estimator, tl.RecursiveLeastSquares) else EXPECTED
    found = check_estimator(estimator, expected_failed_checks=expected, on_fail=None)
    assert not [(r["check_name"], r["exception"]) for r in found if r["status"] == "failed"]


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_widrow_hoffs_bound_is_tight_on_the_alternating_sequence(rate):
    X, y = np.ones((4000, 1)), np.tile([1.0, -1.0], 2000)
    proof = tl.WidrowHoff(rate=rate, fit_intercept=False).fit(X, y).certificate_
    assert proof.proven
    assert 0.95 * proof.bound <= proof.loss <= proof.bound


def test_widrow_hoff_is_online_gradient_descent_and_matches_sgd(data):
    from sklearn.linear_model import SGDRegressor

    X, y = data
    mine = tl.WidrowHoff(rate=0.05).fit(X, y)
    general = tl.OnlineRegressor("squared", "additive", 0.05).fit(X, y)
    peer = SGDRegressor(penalty=None, learning_rate="constant", eta0=0.05, shuffle=False, max_iter=1, tol=None).fit(
        X, y
    )
    assert mine.coef_.tobytes() == general.coef_.tobytes()
    np.testing.assert_allclose(mine.coef_, peer.coef_, rtol=1e-9)
    np.testing.assert_allclose(mine.intercept_, peer.intercept_, rtol=1e-9)
    np.testing.assert_allclose(mine.predict(X), peer.predict(X), rtol=1e-9)


def test_the_comparator_is_the_least_squares_solution(data):
    X, y = data
    proof = tl.WidrowHoff(rate=0.05).fit(X, y).certificate_
    Z = np.column_stack([np.ones(len(y)), X])
    exact, rss, *_ = np.linalg.lstsq(Z, y, rcond=None)
    np.testing.assert_allclose(proof.comparator, exact, rtol=1e-8)
    assert proof.best_fixed_loss == pytest.approx(float(rss[0]), rel=1e-9)
    assert proof.regret == pytest.approx(proof.loss - proof.best_fixed_loss)


def test_a_rate_too_large_voids_the_bound_and_says_what_to_do():
    X = np.array([[3.2, 0.0], [0.0, 1.0]])
    proof = tl.WidrowHoff(rate=0.2, fit_intercept=False).fit(X, [0.1, 0.2]).certificate_
    assert proof.status is Status.VOID and not proof.proven and proof.bound == np.inf
    assert proof.advice.startswith(
        "largest ‖x‖ seen is 3.2; with rate 0.2 the bound is void; use rate ≤ 0.097 or geometry='normalised'"
    )
    assert from_dict(proof.to_dict()).advice == proof.advice
    assert tl.WidrowHoff(rate=0.097, fit_intercept=False).fit(X, [0.1, 0.2]).certificate_.proven


@pytest.fixture(scope="module")
def widrow_hoff():
    return lambda **settings: tl.WidrowHoff(**({"rate": 0.05} | settings))


def test_blocks_rows_dicts_and_files_agree_bit_by_bit(data, tmp_path, widrow_hoff):
    X, y = data
    whole = widrow_hoff().fit(X, y)
    parts = widrow_hoff()
    for start in range(0, 600, 150):
        parts.partial_fit(X[start : start + 150], y[start : start + 150])
    rows = widrow_hoff()
    names = [f"x{j}" for j in range(4)]
    for i in range(300):
        rows.learn_one(dict(zip(names, X[i].tolist())), float(y[i]))
    rows.save(tmp_path / "half.tl")
    rows = tl.load(tmp_path / "half.tl")
    for i in range(300, 600):
        rows.learn_one(dict(zip(names, X[i].tolist())), float(y[i]))
    for other in (parts, rows):
        assert other.coef_.tobytes() == whole.coef_.tobytes()
        assert str(other.certificate_) == str(whole.certificate_)
        assert other.progress_ == whole.progress_
    assert rows.predict_one(dict(zip(names, X[0].tolist()))) == whole.predict(X[:1])[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tl.WidrowHoff(), lambda: tl.RecursiveLeastSquares(forgetting=0.99), lambda: tl.ExponentiatedGradient(0.05),
        lambda: tl.OnlineRegressor(),
    ],
    ids=["ladder", "recursive", "signed", "mixture"],
)  # fmt: skip
def test_every_learner_saves_loads_and_goes_on(data, tmp_path, make):
    X, y = data
    whole, half = make().partial_fit(X[:100], y[:100]), make().partial_fit(X[:60], y[:60])
    half.save(tmp_path / "m.tl")
    again = tl.load(tmp_path / "m.tl")
    assert type(again) is type(whole) and again.get_params() == half.get_params()
    again.partial_fit(X[60:100], y[60:100])
    if type(whole.record_).__name__ == "MixtureModel":
        half.partial_fit(X[60:100], y[60:100])
        assert (again.predict(X) == half.predict(X)).all()
    else:
        assert (again.predict(X) == whole.predict(X)).all()
    assert again.certificate_.loss == pytest.approx(whole.certificate_.loss)


def test_sparse_rows_give_the_dense_answer(data, widrow_hoff):
    X, y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, thin = widrow_hoff().fit(X, y), widrow_hoff().fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-10)
    assert thin.certificate_.bound == pytest.approx(dense.certificate_.bound, rel=1e-9)
    np.testing.assert_allclose(thin.predict(sparse.csr_matrix(X)), dense.predict(X), rtol=1e-10)


def test_orders_epochs_and_weights(data, widrow_hoff):
    X, y = data
    twice = widrow_hoff(epochs=2).fit(X, y)
    assert twice.certificate_.examples == 1200
    again = widrow_hoff().fit(np.vstack([X, X]), np.append(y, y))
    assert twice.coef_.tobytes() == again.coef_.tobytes()
    assert widrow_hoff(epochs=2, order="cyclic").fit(X, y).coef_.tobytes() == twice.coef_.tobytes()
    shuffled = [widrow_hoff(order="shuffled", random_state=s).fit(X, y).coef_ for s in (0, 0, 1)]
    assert (shuffled[0] == shuffled[1]).all() and (shuffled[0] != shuffled[2]).any()
    uniform = widrow_hoff(order="uniform", random_state=0).fit(X, y)
    assert uniform.certificate_.loss <= uniform.certificate_.bound
    none = np.where(np.arange(600) % 2, 1.0, 0.0)
    np.testing.assert_allclose(
        widrow_hoff().fit(X, y, none).coef_, widrow_hoff().fit(X[1::2], y[1::2]).coef_, rtol=1e-9
    )


def test_dataframes_keep_their_names(data, widrow_hoff):
    import polars

    X, y = data
    frame = polars.DataFrame(X, schema=["a", "b", "c", "d"])
    model = widrow_hoff().fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"] and model.record_.names == ["a", "b", "c", "d"]
    assert model.predict_one(dict(zip("abcd", X[0].tolist()))) == model.predict(frame[:1])[0]


def test_averages_carry_a_risk_bound(data, widrow_hoff):
    X, y = data
    model = widrow_hoff(average=True, loss_range=100.0).fit(X, y)
    proof = model.certificate_
    assert proof.proven and proof.risk_bound == pytest.approx(proof.mean_loss + 100.0 * np.sqrt(np.log(20.0) / 1200.0))
    assert np.mean((model.predict(X) - y) ** 2) < proof.risk_bound
    assert not widrow_hoff(average=True).fit(X, y).certificate_.proven  # no B was declared
    assert widrow_hoff(average=True, loss_range=100.0, epochs=2).fit(X, y).certificate_.status is Status.VOID
    assert widrow_hoff(average=True, loss_range=1e-3).fit(X, y).certificate_.status is Status.VOID
    with pytest.raises(UsageError, match="average"):
        tl.WidrowHoff(average=True).fit(X, y)


def test_l1_leaves_true_zeros_in_sparse_rows():
    rng = np.random.default_rng(0)
    X = sparse.random(800, 60, density=0.1, random_state=0, format="csr")
    y = np.asarray(X[:, :3].sum(axis=1)).ravel() * 3.0
    model = tl.OnlineRegressor("squared", "additive", 0.2, penalty="l1", alpha=0.01).fit(X, y)
    assert (model.coef_ == 0.0).sum() > 20 and (model.coef_[:3] > 0.5).all()
    assert model.certificate_.loss <= model.certificate_.bound
    with pytest.raises(UsageError, match="penalty"):
        tl.OnlineRegressor("squared", "signed", 0.2, penalty="l1").fit(X, y)
    assert rng is not None


def test_classifiers_two_classes_and_several(data):
    from sklearn.datasets import load_iris

    X, y = data
    labels = np.where(y > 0, "up", "down")
    model = tl.OnlineClassifier(geometry="additive", rate=0.5).fit(X, labels)
    assert model.score(X, labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.certificate_.proven and model.certificate_.loss <= model.certificate_.bound
    assert {"average_mistakes", "best_fixed_loss", "bound"} <= model.progress_[-1].keys()
    X, y = load_iris(return_X_y=True)
    several = tl.OnlineClassifier(geometry="additive", rate=0.1, order="shuffled", random_state=0).fit(X, y)
    assert several.coef_.shape == (3, 4) and several.predict_proba(X).shape == (150, 3)
    assert several.certificate_.loss <= several.certificate_.bound
    with pytest.raises(DataError, match="unknown class 7"):
        several.partial_fit(X[:1], [7])
    live = tl.OnlineClassifier(geometry="additive", rate=0.5)
    assert live.predict_one({"a": 1.0}) is None
    live.learn_one({"a": 1.0}, True)
    assert live.predict_one({"a": 1.0}) is True and live.predict_proba_one({"a": 1.0})[True] > 0.5


def test_recursive_least_squares_follows_change():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(np.arange(400) < 200, X @ [1.0, 0.0], X @ [-1.0, 2.0])
    model = tl.RecursiveLeastSquares(forgetting=0.95).fit(X, y)
    np.testing.assert_allclose(model.coef_, [-1.0, 2.0], atol=1e-3)
    assert model.certificate_.status is Status.VOID and "forgetting=1" in model.certificate_.advice


def test_bad_input_is_refused_and_nothing_is_learned(data, widrow_hoff):
    X, y = data
    model = widrow_hoff().fit(X, y)
    before = model.coef_.tobytes(), model.certificate_.examples
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity"), (1e308, "too large")):
        spoiled = X[:9].copy()
        spoiled[5, 2] = value
        with pytest.raises(DataError, match=rf"'x2' has .*{word}.* in row 5"):
            model.partial_fit(spoiled, y[:9])
        with pytest.raises(DataError, match="x2"):
            model.fit(spoiled, y[:9])
        with pytest.raises(DataError, match="x2"):
            model.predict(spoiled)
        with pytest.raises(DataError, match="x2"):
            model.learn_one(dict(zip(["x0", "x1", "x2", "x3"], spoiled[5].tolist())), 1.0)
    refusals = [
        (lambda: model.partial_fit(X[:3, :2], y[:3]), "2 features"),
        (lambda: model.fit(X[:3, :2], ["a", "b", "c"]), "a"),
        (lambda: model.partial_fit(X[:3], y[:2]), "inconsistent|samples"),
        (lambda: model.partial_fit(X[:0], y[:0]), "0 sample"),
        (lambda: model.partial_fit(X[:2], y[:2], sample_weight=[1.0, np.nan]), "sample_weight has nan in row 1"),
        (lambda: model.partial_fit(X[:2], ["a", "b"]), "a"),
        (lambda: model.learn_one({"x0": "warm"}, 1.0), "'x0' is 'warm'"),
        (lambda: model.learn_one({"x0": 1.0}, float("nan")), "NaN"),
        (lambda: model.learn_one({"x0": 1.0}, "high"), "not numbers"),
        (lambda: model.learn_one({"x0": 1.0}, 1.0, weight=-1.0), "weight"),
        (lambda: model.record_.learn(X[:2], [1.0, np.inf]), "infinity"),
        (lambda: widrow_hoff(rate=-1).fit(X, y), "rate"),
        (lambda: widrow_hoff(order="backwards").fit(X, y), "order"),
        (lambda: widrow_hoff(epochs=0).fit(X, y), "epochs"),
        (lambda: widrow_hoff(epochs=None).fit(X, y), "epochs"),
        (lambda: widrow_hoff(batch_size="a").fit(X, y), "batch_size"),
        (lambda: widrow_hoff(average=True, loss_range=-1.0).fit(X, y), "loss_range"),
        (lambda: widrow_hoff(average=True, confidence=1.0).fit(X, y), "confidence"),
        (lambda: tl.ExponentiatedGradient(0.1, radius=-1).fit(X, y), "radius of ExponentiatedGradient is -1"),
        (lambda: tl.OnlineRegressor(rate="1/t").fit(X, y), "rate of OnlineRegressor is '1/t'"),
        (lambda: tl.OnlineRegressor(rate=0.1, penalty="l1", alpha=np.nan).fit(X, y), "alpha of OnlineRegressor is nan"),
        (lambda: tl.OnlineRegressor(Quantile(2.0), "additive", 0.1).fit(X, y), "quantile must be between 0 and 1"),
        (lambda: tl.OnlineRegressor(Power(0.5), "additive", 0.1).fit(X, y), "p must be 1 or more"),
        (lambda: tl.RecursiveLeastSquares(forgetting="slow").fit(X, y), "forgetting"),
        (lambda: tl.RecursiveLeastSquares(ridge=None).fit(X, y), "ridge"),
        (lambda: tl.OnlineRegressor("sqared", "additive", 0.1).fit(X, y), "did you mean 'squared'"),
        (lambda: tl.OnlineRegressor("poisson", "additive", 0.1).fit(X, y), "nonnegative"),
        (lambda: tl.OnlineRegressor("logistic", "additive", 0.1).fit(X, np.full(600, 0.3)), "0.3 in row 0"),
    ]
    for call, words in refusals:
        with pytest.raises(ValueError, match=words):
            call()
    assert (model.coef_.tobytes(), model.certificate_.examples, model.n_features_in_) == (*before, 4)
    new = tl.OnlineClassifier()
    with pytest.raises(DataError, match="NaN"):
        new.partial_fit(np.full((2, 2), np.nan), [0, 1])
    new.partial_fit(X[:4], ["a", "b", "a", "b"])  # a refused first call fixed neither width nor classes
    zero_one = tl.OnlineRegressor("logistic", "additive", 0.1).fit(X, (y > 0).astype(float))
    signs = tl.OnlineRegressor("logistic", "additive", 0.1).fit(X, np.sign(y))
    assert (zero_one.coef_ == signs.coef_).all()


def test_an_overflowing_rate_stops_at_its_step_and_keeps_the_state_before_it(data, widrow_hoff):
    X, y = data
    model = widrow_hoff(rate=1e6)
    with pytest.raises(DataError, match=r"overflows at row \d+"):
        model.fit(X, y)
    learned = model.record_.examples
    assert 0 < learned < 600 and np.isfinite(model.coef_).all()
    other = widrow_hoff(rate=1e6).fit(X[:learned], y[:learned])
    assert other.coef_.tobytes() == model.coef_.tobytes()


def test_progress_as_records_table_and_picture(data, widrow_hoff):
    X, y = data
    model = widrow_hoff().fit(X, y)
    assert [line["examples"] for line in model.progress_] == [2**k for k in range(10)]
    line = model.progress_[-1]
    half = widrow_hoff().fit(X[:512], y[:512]).certificate_
    assert line["regret"] == pytest.approx(half.regret) and line["bound"] == pytest.approx(half.bound)
    table = model.progress_table()
    assert max(len(row) for row in table.splitlines()) <= 100 and "best fixed" in table
    ax = model.regret_plot()
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {
        "loss suffered",
        "best fixed weights in hindsight",
        "proven bound",
    }
    without = widrow_hoff(certificate=False).fit(X, y)
    assert "bound" not in without.progress_[-1] and not without.certificate_.proven
    assert without.coef_.tobytes() == model.coef_.tobytes()


PLAIN = """
import json, sys, numpy as np, trueline as tl
from scipy import sparse
rng = np.random.default_rng(5)
X = rng.uniform(-1.0, 1.0, size=(40, 4))
X[np.abs(X) < 0.3] = 0.0
y = X @ [1.0, -2.0, 0.0, 0.5] + 0.3
thin = sparse.csr_matrix(X)
models = [
    tl.WidrowHoff(rate=0.05).fit(X, y),
    tl.WidrowHoff(rate=0.05).fit(thin, y),
    tl.OnlineRegressor("squared", "additive", 0.2, penalty="l1", alpha=0.01).fit(thin, y),
    tl.ExponentiatedGradient(0.05).fit(X, y),
    tl.RecursiveLeastSquares(forgetting=0.99).fit(X, y),
    tl.OnlineClassifier(geometry="additive", rate=0.5).fit(X, y > 0),
    tl.Perceptron().fit(X, y > 0),
]
print(json.dumps([[*m.coef_.tolist(), m.intercept_, getattr(m.certificate_, "loss", 0.0)] for m in models]))
"""


def test_the_table_of_a_long_run_fits_a_terminal():
    from trueline.report.regret import progress_table

    lines = [
        {
            "examples": 2**k, "average_loss": 1234.5678 / 2**k, "since_last": -0.28331, "label": -7.0271234,
            "prediction": -0.85451, "best_fixed_loss": 1.137e-13 * 10**k, "regret": -15987.1 * k, "bound": 67503.2 * 2**k,
        }
        for k in range(27)
    ]  # fmt: skip
    table = progress_table(lines)
    assert max(map(len, table.splitlines())) <= 80 and "average loss" in table and " 67503\n" in table
    for line in lines:
        line |= {"average_mistakes": 0.12345, "label": "a long label", "prediction": [0.1, 0.9]}
    table = progress_table(lines)
    assert max(map(len, table.splitlines())) <= 80 and "mistakes" in table and "a long l…" in table


def test_a_long_fit_on_a_terminal_shows_a_bar_and_learns_the_same(data, widrow_hoff, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    X, y = data
    quiet = widrow_hoff().fit(X, y)
    monkeypatch.setattr(streaming, "LONG", 1.0)
    monkeypatch.setattr(bar, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for order in ("in_order", "shuffled"):
        screen = Terminal()
        with monkeypatch.context() as during:
            during.setattr(sys, "stderr", screen)
            model = widrow_hoff(order=order, random_state=0).fit(X, y)
        assert "WidrowHoff" in screen.getvalue() and "100%" in screen.getvalue()
        assert model.certificate_.examples == len(y)
        assert "600 of 600" in screen.getvalue() and "loss 0." in screen.getvalue()
        if order == "in_order":
            assert model.coef_.tobytes() == quiet.coef_.tobytes()
    with monkeypatch.context() as during:
        during.setattr(sys, "stderr", Terminal())
        wrong = X.copy()
        wrong[500, 2] = np.nan
        with pytest.raises(DataError, match="NaN in row 500"):
            widrow_hoff().fit(wrong, y)
    assert capsys.readouterr().out == ""  # a program's output stays its own


def test_compiled_and_plain_engines_agree():
    import json
    import os
    import subprocess
    import sys

    found = []
    for plain in ("0", "1"):
        settings = os.environ | {"NUMBA_DISABLE_JIT": plain}
        done = subprocess.run([sys.executable, "-c", PLAIN], env=settings, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(json.loads(done.stdout))
    for compiled, plain in zip(*found):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-12)
