"""The report in a real browser, the drawings, the Display objects and the metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trueline.cli import main
from trueline.demo import RENTS
from trueline.report import figures, metrics, plots
from trueline.report.html import Picture, Story, page
from trueline.report.svg import log_ticks, nice_ticks
from trueline.report.text import align, clip, number, table

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """One report of each kind, the first with a column whose name is a script."""
    folder = tmp_path_factory.mktemp("report")
    frame = pl.read_csv(RENTS).rename(
        {"area_m2": "<script>alert(1)</script>", "rooms": '"><img src=x onerror=alert(2)>'}
    )
    frame.write_csv(folder / "t.csv")
    source = str(folder / "t.csv")
    assert main(["fit", source, "-t", "rent", "-q", "--holdout", "0.2", "--report", str(folder / "fit.html")]) == 0
    assert main(["fit", source, "-t", "let_quickly", "-q", "--report", str(folder / "logistic.html")]) == 0
    assert main(["stream", source, "-t", "rent", "-q", "--report", str(folder / "stream.html")]) == 0
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=500), rng.normal(size=500)
    kind = np.array(["low", "mid", "top"])[np.argmax([a, b, -a], axis=0)]
    pl.DataFrame({"a": a, "b": b, "kind": kind}).write_csv(folder / "three.csv")
    assert main(["fit", str(folder / "three.csv"), "-t", "kind", "--penalty", "ridge", "--alpha", "0.1", "-q", "--report", str(folder / "several.html")]) == 0  # fmt: skip
    pl.DataFrame({"a": a, "b": b, "n": rng.poisson(np.exp(0.4 * a))}).write_csv(folder / "n.csv")
    assert main(["fit", str(folder / "n.csv"), "-t", "n", "--loss", "poisson", "-q", "--report", str(folder / "counts.html")]) == 0  # fmt: skip
    return folder


def test_reports_are_small_and_whole(reports):
    for name in ("fit", "logistic", "stream"):
        text = (reports / f"{name}.html").read_text()
        assert len(text.encode()) <= 1_000_000
        assert "<script" not in text and "<img" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text
        assert "trueline " in text and "To make it again" in text and "What this result proves" in text
    fit = (reports / "fit.html").read_text()
    for title in (
        "Coefficients",
        "Fitted against observed",
        "Residuals",
        "normal distribution",
        "Ridge path",
        "Lasso path",
        "Cross-validation",
    ):
        assert title in fit, title
    assert "rows held out" in fit and "digits of every coefficient are correct" in fit
    assert (
        "Learning curve" in (reports / "stream.html").read_text() and "regret" in (reports / "stream.html").read_text()
    )
    assert "Calibration" in (reports / "logistic.html").read_text()
    assert "RMSE" in fit and "r squared" not in fit and "How large the errors are" in fit
    counts = (reports / "counts.html").read_text()
    assert "the logarithm of n" in counts and "normal distribution" not in counts
    several = (reports / "several.html").read_text()
    assert "Which class is taken for which" in several and "predicted" in several
    assert "<th>low</th><th>mid</th><th>top</th>" in several  # a column a class


def test_the_last_row_of_a_stream_is_in_its_report(reports):
    rows = pl.read_csv(RENTS).height
    assert f"<td>{rows:,}</td>" in (reports / "stream.html").read_text()


def test_the_sample_says_how_it_was_chosen(tmp_path):
    from trueline.cli.fitting import Asked, fit
    from trueline.cli.story import sample_pictures

    for loss, how in (("squared", "chosen by hash in the same scan"), ("huber", "evenly spaced in their order")):
        fitted = fit(Asked(str(RENTS), "rent", loss=loss, sample=100))
        assert all(f"A sample of 100 of the {fitted.n:,} rows, {how}." in p.caption for p in sample_pictures(fitted))


def test_figures_name_apart_what_shares_both_ends():
    rows = [{"term": f"a_column_that_is_number_{k}_of_many_more_of_them", "estimate": float(k)} for k in range(1, 9)]
    drawn = figures.coefficients([*rows, {"term": "silent", "estimate": 0.0}], None, "y")
    assert len(set(re.findall(r'text-anchor="end">([^<]*)<', drawn))) == 8 and "silent" not in drawn
    shares = np.eye(3) * 0.5 + 0.5 / 3
    assert figures.confusion(shares, ["a", "<b>", "c"]).count("<rect") == 9


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium here: apt-get install chromium runs this test")
def test_every_figure_is_drawn_in_a_browser_and_the_console_is_clean(reports, tmp_path):
    from playwright.sync_api import sync_playwright

    wanted = {"fit": 8, "logistic": 3, "stream": 1, "several": 4, "counts": 4}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            for name, count in wanted.items():
                ground = {}
                for scheme in ("light", "dark"):
                    tab = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 800})
                    said: list[str] = []
                    tab.on("console", lambda message, said=said: said.append(message.text))
                    tab.on("pageerror", lambda error, said=said: said.append(str(error)))
                    tab.on(
                        "request",
                        lambda request, said=said: (
                            said.append(request.url) if not request.url.startswith(("file:", "data:")) else None
                        ),
                    )
                    tab.goto((reports / f"{name}.html").as_uri())
                    boxes = tab.eval_on_selector_all(
                        "svg.figure",
                        "all => all.map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height, "
                        "s.querySelectorAll('path.line,circle,rect,path.band').length, s.querySelectorAll('text').length])",
                    )
                    assert len(boxes) == count, (name, len(boxes))
                    assert all(w > 250 and h > 60 and marks > 1 and words > 3 for w, h, marks, words in boxes), boxes
                    assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
                    assert said == []
                    ground[scheme] = tab.evaluate("getComputedStyle(document.body).backgroundColor")
                    tab.close()
                assert ground["light"] != ground["dark"]
            paper = browser.new_page(viewport={"width": 690, "height": 1000})
            paper.emulate_media(media="print")
            paper.goto((reports / "fit.html").as_uri())
            tops = paper.eval_on_selector_all(".grid2 figure", "all => all.map(f => f.getBoundingClientRect().top)")
            assert len(tops) == 4 and tops[0] == tops[1] and tops[2] == tops[3]  # two abreast on paper
            styles = "all => all.map(f => getComputedStyle(f).breakInside)"
            assert set(paper.eval_on_selector_all("figure, .whole, .proof", styles)) == {"avoid"}
            paper.close()
            phone = browser.new_page(viewport={"width": 390, "height": 800})
            phone.goto((reports / "fit.html").as_uri())
            assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert len(phone.pdf()) > 10_000
        finally:
            browser.close()


def test_drawings_stay_small_and_finite_whatever_n_is():
    rng = np.random.default_rng(0)
    big, odd = rng.normal(size=200_000), np.array([0.0, 0.0, 0.0])
    drawn = [
        figures.observed(big, big + rng.normal(size=200_000), "y"),
        figures.residuals(big, rng.normal(size=200_000), "y"),
        figures.quantiles(rng.normal(size=200_000)),
        figures.observed(odd, odd, "y"),
        figures.residuals(odd, odd, "y"),
        figures.quantiles(odd),
        figures.coefficients(
            [{"term": f"x{j}", "estimate": float(j), "low": j - 1.0, "high": j + 1.0} for j in range(3000)], None, "y"
        ),
        figures.coefficients([], None, "y"),
        figures.path(
            np.geomspace(1, 1e-3, 30), rng.normal(size=(30, 500)), [f"x{j}" for j in range(500)], 0.1, "lasso"
        ),
        figures.learning([{"counter": 1, "weight": 1.0, "average_loss": 0.0, "best_fixed_loss": None, "bound": None}]),
    ]
    for drawing in drawn:
        assert len(drawing) < 250_000 and "nan" not in drawing and "inf" not in drawing.replace("infer", "")
        assert drawing.startswith("<svg") and drawing.endswith("</svg>")


def test_ticks_are_round_and_inside():
    assert nice_ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    for low, high in ((-3.0, 17.0), (1e-9, 5e-9), (0.0, 1e12), (5.0, 5.0)):
        ticks = nice_ticks(low, high)
        assert ticks and all(low - 1e-9 * abs(high) <= t <= high + 1e-9 * abs(high) for t in ticks)
    assert log_ticks(0.5, 2000.0) == [1.0, 10.0, 100.0, 1000.0]


def test_numbers_and_tables_for_the_terminal():
    assert (
        align(["-1.5", "12", "3e-9", "–"]) == ["-1.5   ", "12     ", " 3e-9  "[:7], " –     "[:7]]
        or len({len(c) for c in align(["-1.5", "12"])}) == 1
    )
    assert number(123456.7) == "123457" and number(0.5, 3) == "0.500" and number(float("inf")) == "∞"
    assert clip("a" * 30, 9) == "aaaa…aaaa" and clip("a\tb", 9) == "a\\tb"
    text = table(["name", "value"], [["long " * 20, "b"], ["1.25", "100"]], room=40)
    assert max(map(len, text.splitlines())) <= 40 and [line.index("1") for line in text.splitlines()[1:]]


def test_words_for_every_kind_of_certificate():
    from trueline.certificates.certificate import Assumption, Status
    from trueline.certificates.optimality import GapCertificate
    from trueline.certificates.regret import BEST_FIXED, AveragedCertificate, MistakeCertificate, RegretCertificate

    proof = RegretCertificate(
        status=Status.VOID, examples=10, loss=5.0, best_fixed_loss=4.0, regret=1.0, regret_to=BEST_FIXED, bound=9.0,
        assumptions=(Assumption("κ < 1", False, 2.0, 1.0, "use a smaller rate"),),
    )  # fmt: skip
    told = " ".join(proof.explain())
    assert "regret" in told and "did not hold: κ < 1 (worst seen 2, limit 1). use a smaller rate" in told
    assert "within 0.5 of" in " ".join(GapCertificate(primal=2.0, dual=1.5, gap=0.5, relative_gap=0.25).explain())
    assert "3 mistakes" in MistakeCertificate(examples=9, mistakes=3, bound=4.0).explain()[0]
    assert "95%" in AveragedCertificate(mean_loss=0.1, risk_bound=0.2).explain()[0]


def test_metrics_agree_with_peers_and_intervals_cover():
    from sklearn.metrics import log_loss, r2_score, roc_auc_score

    rng = np.random.default_rng(2)
    y, fitted = rng.normal(size=500), rng.normal(size=500)
    found = {m["name"]: m for m in metrics.regression_metrics(y, y + 0.1 * fitted)}
    assert found["r_squared"]["value"] == pytest.approx(r2_score(y, y + 0.1 * fitted))
    p = np.round(rng.random(500), 2)
    outcome = (rng.random(500) < p).astype(float)
    found = {m["name"]: m for m in metrics.binary_metrics(outcome, p)}
    assert found["auc"]["value"] == pytest.approx(roc_auc_score(outcome, p))
    assert found["log_loss"]["value"] == pytest.approx(log_loss(outcome, np.clip(p, 1e-15, 1 - 1e-15)), rel=1e-6)
    assert all(m["low"] <= m["value"] <= m["high"] for m in found.values() if m["name"] != "calibration_error")
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        errors = rng.normal(size=100)
        rmse = next(m for m in metrics.regression_metrics(errors, np.zeros(100)) if m["name"] == "rmse")
        inside += rmse["low"] <= 1.0 <= rmse["high"]
    assert inside >= 33


def test_display_objects_draw_estimators():
    import matplotlib

    matplotlib.use("agg")
    import trueline as tl

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, 0.0, -2.0] + 0.1 * rng.normal(size=80)
    model = tl.LinearRegression().fit(X, y)
    display = plots.CoefficientDisplay.from_estimator(model)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        "x2",
        "x0",
        "x1",
    ] and display.low is not None
    for kind in ("observed", "residuals", "quantiles"):
        assert plots.FitDisplay.from_estimator(model, X, y, kind=kind).ax_.has_data()
    learned = plots.LearningDisplay.from_estimator(tl.WidrowHoff(rate=0.05), X, y)
    assert learned.rows[-1]["counter"] == 80 and learned.ax_.has_data()
    assert plots.PathDisplay.from_estimator(model, X, y).ax_.has_data()
    with pytest.raises(tl.UsageError, match="kind"):
        plots.FitDisplay(y, y, "pie").plot()
    assert "<" in model._repr_html_()


def test_a_story_of_everything_odd_is_still_one_page():
    rows = [{"term": "<b>&\"'", "estimate": None, "std_error": None, "t": None, "p": None, "low": None, "high": None}]
    text = page(
        Story(
            "<i>",
            "&",
            [("<", ">")],
            None,
            rows,
            [Picture("<", "<svg></svg>", ">")],
            ["</ul><script>"],
            [("<t>", ["<h>"], [["<c>"]])],
            "<cmd>",
        )
    )
    assert not re.search(r"<(script|b|i|h|c|t|cmd)>", text) and json.dumps(text)


def test_a_steep_cross_validation_curve_gets_a_logarithmic_axis():
    alphas = np.geomspace(0.01, 100, 9)

    def ticks(mean):
        curve = {"name": "ridge", "alphas": alphas, "mean": mean, "error": 0.01 * mean, "level": None}
        drawn = figures.cross_validation([curve])
        return re.findall(r'text-anchor="end">([0-9.]+)</text>', drawn)  # the vertical axis

    assert ticks(np.r_[1.05, 1.0, 1.1, 1.3, 2.0, 5.0, 20.0, 60.0, 90.0]) == ["1", "10", "100"]
    assert "1.5" in ticks(np.linspace(1.0, 2.0, 9)) or "1.4" in ticks(np.linspace(1.0, 2.0, 9))


def test_rounding_does_not_stretch_the_learning_curve():
    rows = [
        {"counter": 4**k, "weight": 4.0**k, "average_loss": 9.0 / 4**k, "best_fixed_loss": best, "bound": 20.0}
        for k, best in enumerate([0.0, 7e-15, 0.5, 2.0])
    ]
    drawn = figures.learning(rows)
    assert "10⁻" not in drawn and "0.1" in drawn  # a tick of each decade, and only few of them


def test_each_of_several_classes_has_its_picture_and_its_name_is_escaped(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    label = np.array(["low", "<script>", "high"])[np.digitize(x + rng.normal(size=90), [-0.5, 0.5])]
    pl.DataFrame({"x": x, "z": rng.normal(size=90), "k": label}).write_csv(tmp_path / "t.csv")
    html = tmp_path / "r.html"
    assert main(["fit", str(tmp_path / "t.csv"), "-t", "k", "--report", str(html), "-q"]) == 0
    made = html.read_text()
    assert made.count("<svg") == 4 and "Coefficients: high" in made and "the score of &lt;script&gt;" in made
    assert "<script" not in made


def test_a_run_is_compared_with_what_its_rows_name():
    from trueline.cli.story import progress_table as story_table
    from trueline.report.regret import progress_table

    member = [
        {
            "counter": n,
            "examples": n,
            "weight": float(n),
            "average_loss": 1.0,
            "since_last": 1.0,
            "best_member_loss": 0.9 * n,
        }
        | {"regret": 0.1 * n, "bound": 2.0 * n}
        for n in (1, 2, 4)
    ]
    unknown = [{**row, "best_fixed_loss": None, "regret": None} for row in member]
    for row in unknown:
        del row["best_member_loss"]
    assert "best member of the mixture" in figures.learning(member) and "best fixed" not in figures.learning(member)
    assert "best fixed" not in figures.learning(unknown) and "the regret" not in figures.learning(unknown)
    assert "best member" in progress_table(member) and "best fixed" not in progress_table(member)
    assert "best fixed" in progress_table(unknown) and "–" in progress_table(unknown)
    assert story_table(member)[1][3] == "best member loss" and story_table(unknown)[2][0][3] == "–"
