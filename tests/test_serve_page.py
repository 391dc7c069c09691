"""The live page in a real browser: it moves, it predicts, its console is clean, and hostile names stay text."""

from __future__ import annotations

import os

import pytest
from serving import SPEC, Served, rows

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
EVIL = '<img src=x onerror="window.ran=1">'


@pytest.mark.skipif(not os.path.exists(CHROMIUM), reason="no Chromium here: apt-get install chromium runs this test")
def test_the_page_is_live(tmp_path):
    from playwright.sync_api import expect, sync_playwright

    X, y = rows(600)
    with Served(tmp_path) as server, sync_playwright() as play:
        evil = {
            "name": "evil",
            "features": {EVIL: "number", "on": "boolean", "c": {"category": ["<b>x</b>", "y"]}},
            "learner": {"rate": 0.1},
        }
        assert server.http.post("/v1/models", json=evil).status_code == 201
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.address + "/")
        expect(page.locator("#state")).to_have_text("live", timeout=20000)
        server.post("m/learn", [{"features": x, "label": v} for x, v in zip(X[:300], y[:300])])
        expect(page.locator("#position")).to_have_text("300", timeout=20000)
        page.wait_for_selector("#losses path.own", state="attached")
        before = page.locator("#losses").inner_html()
        server.post("m/learn", [{"features": x, "label": v} for x, v in zip(X[305:], y[305:])])
        server.post("m/predict", [{"id": f"p{k}", "features": x} for k, x in enumerate(X[300:305])])
        server.post("m/learn", {"id": "p0", "label": 1.5})
        expect(page.locator("#position")).to_have_text("596", timeout=20000)
        assert page.locator("#losses").inner_html() != before, "the chart did not move"
        assert page.locator("#pending").inner_text() == "4"
        assert "proven" in page.locator("#words").inner_text()
        assert page.locator("#windows rect").count() == 2
        assert page.locator("#coefficients tbody tr").count() == 4
        recent = page.locator("#recent tbody tr")
        assert recent.filter(has_text="p0").count() == 1 and "waiting" not in recent.filter(has_text="p0").inner_text()
        assert "waiting" in recent.filter(has_text="p4").inner_text()
        assert page.locator("#retention").inner_text() == "7 days"
        late = browser.new_page()  # opened after everything happened: the past is there
        late.goto(server.address + "/")
        expect(late.locator("#position")).to_have_text("596", timeout=20000)
        assert late.locator("#losses path.own").get_attribute("d").count("L") >= 1
        late.close()
        page.locator("#fields input[data-name=a]").fill("2")
        page.click("#try button")
        expect(page.locator("#answer")).not_to_have_text("")
        assert abs(float(page.locator("#answer").inner_text()) - 2.0) < 0.5
        sizes = [(w, s, f"{n}_{s}") for w, n in ((1200, "desktop"), (390, "phone")) for s in ("light", "dark")]
        for width, scheme, name in sizes:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(200)
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
                f"{name} scrolls sideways"
            )
            if os.environ.get("TRUELINE_PICTURES"):
                page.screenshot(path=f"{os.environ['TRUELINE_PICTURES']}/service_{name}.png", full_page=True)
        page.select_option("#model", "evil")
        server.post("evil/learn", {"features": {EVIL: 1.0, "on": True, "c": "<b>x</b>"}, "label": 2.0})
        expect(page.locator("#coefficients")).to_contain_text("onerror")
        assert EVIL in page.locator("#fields").inner_text()
        assert (
            page.evaluate("window.ran") is None
            and page.locator("img").count() == 0
            and page.locator("td b").count() == 0
        )
        assert said == [], said
        assert all(url.startswith((server.address, "data:")) for url in asked)
        browser.close()
    assert SPEC["name"] == "m"
