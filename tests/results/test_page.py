"""The page is one file that closes its tags, makes no request, and shows names as text."""

import json
import os
import re
import shutil
import sys
import time

import pytest
from helpers import TINY, Checked
from small_study import PRINTED, SMALL, make, printed
from small_theory import small_theory

import bqrl
from bqrl.papers.ucb_bqrl.theory.suite import EXPERIMENTS
from bqrl.papers.ucb_bqrl.view import View
from bqrl.results.charts import STYLE
from bqrl.results.page import PAGE, page
from bqrl.results.result import Control, Result, ResultTable, Sentence, read
from bqrl.study.scores import band_name

NASTY = '<script>alert("x")</script>'
QUANTITY = {"field": "x", "type": "quantitative"}
SPEC = {
    "mark": "bar",
    "data": {"values": [{"x": "</script><b>"}]},
    "encoding": {"x": {"field": "x"}},
    "title": "T & <i>",
}


def test_a_new_kind_of_result_needs_no_page_of_its_own():
    result = Result(
        kind="survey",
        title=NASTY,
        settings={"name": NASTY, "levels": [0.1, 0.2], "params": {}},
        tables={
            "answers": ResultTable(
                [{"who": NASTY, "share": 0.25, "share_std": 0.01}] * 300, titles={"who": "<who>"}, caption=NASTY
            )
        },
        charts={"bars": SPEC},
        sentences=[
            "Always.",
            Sentence("Only at 0.2.", when={"level": 0.2}),
            Sentence("Only at 0.1.", when={"level": 0.1}),
        ],
        choices=[Control(name="level", title="Level", values=[0.1, 0.2, 0.3], labels=["a", "b", "c"], start=1)],
        details={"versions": {"bqrl": "1"}, "seconds": 2.0},
    )
    html = page(result)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S).group(1))
    assert data["charts"][0]["data"]["values"] == [{"x": "</script><b>"}]
    assert data["tables"]["answers"].count("\n") == 301
    visible = html.split('<script type="application/json"')[0]
    assert NASTY not in visible
    assert "&lt;script&gt;" in visible
    assert "<p>Always.</p><p>Only at 0.2.</p></div>" in visible
    assert "Only at 0.1." not in visible
    assert "0.25 ± 0.01" in visible
    assert "The first 200 of 300 rows." in visible
    assert data["charts"][0]["title"] == "T & <i>"
    parser = Checked()
    parser.feed(re.sub(r"<script.*?</script>", "", html, flags=re.S))
    assert not parser.links
    assert "connect-src" not in html  # default-src 'none' covers it
    assert "default-src 'none'" in html


def test_a_result_without_charts_carries_no_library():
    html = page(Result(kind="plan", title="t", sentences=["One sentence."]))
    assert len(html) < 20_000
    assert '<div class="card" id="sentences" aria-live="polite"><p>One sentence.</p></div>' in html


def test_a_page_has_no_empty_box_and_no_empty_heading():
    html = page(Result(kind="problems", title="t", tables={"a": ResultTable([{"x": 1}])}))
    assert 'class="card"' not in html
    assert "<h2>Settings</h2>" not in html
    assert "<h2>Settings</h2>" in page(Result(kind="problems", title="t", settings={"a": 1}))


@pytest.fixture
def report(cli, tmp_path):
    """A page of plans whose states are called like markup."""
    model = json.loads(json.dumps(TINY).replace("<in>", NASTY.replace('"', "'")).replace("out", "</script>"))
    (tmp_path / "nasty.json").write_text(json.dumps(model))
    asked = ("--tau", 0.4, "--tau", 0.8, "--horizon", 3, "--title", NASTY, "--unit", "<b>", "--out", tmp_path / "o")
    assert cli("solve", tmp_path / "nasty.json", *asked)[0] == 0
    assert cli("report", tmp_path / "o")[0] == 0
    return tmp_path / "o" / PAGE


def test_the_page_of_a_plan_embeds_what_the_folder_holds(report):
    html = report.read_text()
    assert NASTY not in html.split('<script type="application/json"')[0]
    assert os.path.getsize(report) < 2_500_000
    result = read(report.parent)
    assert {"guarantee_curve", "return_law", "policy_map", "strategies"} == set(result.charts)
    for name in ("Levels", "Policy at level 0.4: the decisions to follow", "Return laws"):
        assert f"<summary>{name}</summary>" in html


@pytest.fixture(scope="module")
def browser():
    """Chromium without a window; skipped where it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed; as root, .ci/run installs them")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield window
    window.quit()


def wait(browser, script, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := browser.execute_script(f"return {script}")):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)
    return found


def set_scheme(browser, dark):
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def selected(browser, figure):
    """The title of a figure, the choices of its lists, and its lines."""
    script = (
        "const all = what => [...arguments[0].querySelectorAll(what)];"
        "return [arguments[0].querySelector('h3').textContent,"
        " all('.binds select').map(s => [s.selectedIndex, s.selectedOptions[0].textContent]),"
        " all('.mark-line path').map(p => p.getAttribute('d'))]"
    )
    return browser.execute_script(script, figure)


def open_page(browser, path, width, dark=False):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    set_scheme(browser, dark)
    browser.get(path.as_uri())
    wait(browser, "document.body.dataset.ready === 'yes'")


def drawn(browser):
    """What is on the screen: the sentence and the shapes of every chart."""
    script = (
        "return [document.getElementById('sentences').textContent,"
        " ...[...document.querySelectorAll('.view svg')].map(svg => [...svg.querySelectorAll('path')].map(p =>"
        " p.getAttribute('d') + p.getAttribute('transform') + p.getAttribute('fill') + p.getAttribute('opacity')).join())]"
    )
    return browser.execute_script(script)


def choose(browser, index):
    browser.execute_script(
        f"const c = document.getElementById('choice-tau'); c.value = {index}; c.dispatchEvent(new Event('input'))"
    )
    time.sleep(0.3)


def check_quiet(browser):
    """No message in the console, and no request to the network."""
    assert browser.get_log("browser") == []
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [e["params"]["request"]["url"] for e in entries if e["method"] == "Network.requestWillBeSent"]
    assert urls
    assert {url.split(":")[0] for url in urls} <= {"file", "blob", "data"}


def check_fits(browser, count, width=390):
    """Every chart and the whole page fit a screen of this width."""
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.view svg')].map(svg => svg.getBoundingClientRect().width)"
    )
    assert len(widths) == count
    assert all(250 < each <= width for each in widths)
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.view')].flatMap(view => [...view.querySelectorAll('svg .role-axis text')]"
        ".filter(text => text.getBoundingClientRect().right > view.getBoundingClientRect().right + 1)"
        ".map(text => text.textContent))"
    )
    assert cut == []


def downloads(browser):
    """The files behind the download buttons, by name."""
    script = (
        "const done = arguments[0], texts = []; const make = URL.createObjectURL;"
        "URL.createObjectURL = blob => { texts.push(blob.text()); return make(blob); };"
        "const names = [], click = HTMLAnchorElement.prototype.click;"
        "HTMLAnchorElement.prototype.click = function() { names.push(this.download); };"
        "document.querySelectorAll('.save').forEach(button => button.click());"
        "HTMLAnchorElement.prototype.click = click; URL.createObjectURL = make;"
        "Promise.all(texts).then(all => done(Object.fromEntries(names.map((name, i) => [name, all[i]]))))"
    )
    return browser.execute_async_script(script)


@pytest.mark.slow
def test_the_page_in_a_browser(browser, report):
    open_page(browser, report, 1280)
    assert len(browser.find_elements("css selector", ".view svg")) == 4
    first = drawn(browser)
    assert "you get at least" in first[0]
    assert "<b>" in first[0]  # the unit, as text
    choose(browser, browser.execute_script("return Number(document.getElementById('choice-tau').max)"))
    moved = drawn(browser)
    assert [old != new for old, new in zip(first, moved, strict=True)] == [True] * 4 + [
        False
    ]  # sentence, curve, law, map, not strategies

    choose(browser, 0)
    lowest = drawn(browser)
    browser.find_elements("css selector", "#choice-policy button")[1].click()
    time.sleep(0.3)
    neutral = drawn(browser)
    assert neutral[0].startswith("Shown: the risk-neutral policy.")
    assert neutral[2] != lowest[2]
    assert neutral[3] != lowest[3]

    browser.execute_script(  # a click on the guarantee curve near its left end sets a low level
        "const v = document.getElementById('chart-0'), b = v.querySelector('svg').getBoundingClientRect();"
        "v.dispatchEvent(new MouseEvent('click', {clientX: b.left + 0.2 * b.width, clientY: b.top + 100}))"
    )
    assert json.loads(browser.execute_script("return document.body.dataset.state"))["tau"] < 0.4

    assert browser.execute_script("return document.querySelector('h1').textContent") == NASTY
    assert any("<script>" in text for text in browser.execute_script(
        "return [...document.querySelectorAll('.view text')].map(t => t.textContent)"
    ))  # fmt: skip
    assert browser.execute_script("return document.querySelectorAll('h1 script, td script, td b').length") == 0

    found = downloads(browser)
    assert set(found) >= {"levels.csv", "policy_tau0p4.csv", "return_laws.csv"}
    assert all(text == (report.parent / name).read_text() for name, text in found.items())
    check_quiet(browser)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_on_a_phone(browser, report, dark):
    open_page(browser, report, 390, dark)
    check_fits(browser, 4)
    check_quiet(browser)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_marks_without_a_colour_can_be_read_in_the_dark(browser, tmp_path, dark):
    marks = [{"mark": "rule"}, {"mark": "text", "encoding": {"text": {"field": "x"}}}, {"mark": "point"}]
    spec = {"data": {"values": [{"x": 1}, {"x": 2}]}, "layer": marks, "encoding": {"x": QUANTITY}, "title": "T & <i>"}
    panels = {"concat": [{**spec, "title": name, "width": 260} for name in "AB"], "columns": 3}
    (tmp_path / PAGE).write_text(page(Result(kind="plan", title="t", charts={"a": spec, "b": panels})))
    for width in (390, 1280):  # panels stand below one another on a phone
        open_page(browser, tmp_path / PAGE, width, dark)
        assert browser.execute_script(
            "return [...document.querySelectorAll('.view')].every(v => v.scrollWidth <= v.clientWidth)"
        )
    inks = browser.execute_script(
        "return [...document.querySelectorAll('.view text')].map(t => getComputedStyle(t).fill)"
        ".concat([...document.querySelectorAll('.mark-rule.role-mark line')].map(r => getComputedStyle(r).stroke))"
    )
    assert len(inks) > 5
    assert browser.execute_script("return document.querySelector('h3').textContent") == "T & <i>"
    assert all((int(re.findall(r"\d+", ink)[0]) > 128) == dark for ink in inks), inks
    check_quiet(browser)


@pytest.mark.slow
def test_no_legend_is_cut(browser, tmp_path):
    names = {
        "learners": [
            "UCB-BQRL (theoretical radii)",
            "UCB-BQRL (shipped radii)",
            "UCBVI",
            "Thompson",
            "Q-learning",
            "SARSA",
        ],
        "actions": [f"fluids {i}, vasopressors {j}" for i in range(5) for j in range(5)],
        "short": ["a", "b", "c", "d", "e"],
    }
    charts = {}
    for key, labels in names.items():
        colour = {"field": "who", "type": "nominal", "scale": {"domain": labels}, "legend": {"orient": "top"}}
        beside = {"field": "who", "axis": {"labelLimit": 110}}  # a wide axis leaves less room for the legend
        seen = {"x": QUANTITY, "y": beside, "color": colour}
        values = [{"x": n, "who": label} for n, label in enumerate(labels)]
        charts[key] = {"data": {"values": values}, "mark": "point", "encoding": seen, "config": STYLE, "height": 300}
    (tmp_path / PAGE).write_text(page(Result(kind="plan", title="t", charts=charts)))
    for width in (1280, 390):
        open_page(browser, tmp_path / PAGE, width)
        for svg, labels in zip(browser.find_elements("css selector", ".view svg"), names.values(), strict=True):
            texts = browser.execute_script(
                "const box = each => each.getBoundingClientRect(), all = box(arguments[0]);"
                "return [...arguments[0].querySelectorAll('.role-legend-label text')].map(t =>"
                " [t.textContent, box(t).right <= all.right && box(t).top >= all.top, Math.round(box(t).top)])",
                svg,
            )
            assert [(text, inside) for text, inside, _ in texts] == [(label, True) for label in labels]
            rows = len({top for _, _, top in texts})
            assert rows < len(labels) or width == 390
        check_quiet(browser)
    assert rows == 2  # short names share rows, also on a phone


@pytest.mark.slow
def test_the_page_of_a_comparison_in_a_browser(browser, cli, tmp_path):
    learners = ("--learner", "sarsa", "--learner", "q-learning")
    size = ("--tau", 0.5, "--episodes", 450, "--seeds", 3, "--workers", 1, "--title", NASTY)
    assert cli("compare", "AssetSelling", *learners, *size, "--out", tmp_path)[0] == 0
    assert cli("report", tmp_path)[0] == 0
    open_page(browser, tmp_path / PAGE, 1280)
    assert browser.execute_script("return document.querySelector('h1').textContent") == NASTY
    assert browser.execute_script("return document.querySelectorAll('h1 script').length") == 0
    notes = [each.text for each in browser.find_elements("css selector", "figure p.quiet")]
    band = f"Band: {band_name(3)}."
    assert notes == [
        f"{band} Averages over 100 blocks of episodes.",
        f"{band} The curves cover all 450 episodes with 400 points.",
    ]
    for view in browser.find_elements("css selector", ".view"):
        assert {"SARSA", "Q-learning"} <= {each.text for each in view.find_elements("css selector", "text")}
    captions = [each.get_attribute("textContent") for each in browser.find_elements("css selector", "details p")]
    assert "Mean ± standard deviation over 3 seeds." in captions[0]
    assert band_name(3) in captions[-1]
    found = downloads(browser)
    assert set(found) == {"learners.csv", "seeds.csv", "beats.csv", "curves.csv"}
    assert all(text == (tmp_path / name).read_text() for name, text in found.items())
    check_quiet(browser)
    open_page(browser, tmp_path / PAGE, 390)
    check_fits(browser, 2)


@pytest.mark.slow
def test_the_selectors_of_a_study_in_a_browser(browser, cli, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL.replace("[study]", f"[study]\ntitle = '{NASTY}'", 1))
    make(tmp_path / "small.toml", tmp_path / "out")
    assert cli("report", tmp_path / "out")[0] == 0
    open_page(browser, tmp_path / "out" / PAGE, 1280)
    charts = read(tmp_path / "out").charts
    figure = browser.find_elements("css selector", "figure")[list(charts).index("every_measure")]
    lists = figure.find_elements("css selector", ".binds select")
    assert [len(each.find_elements("css selector", "option")) for each in lists] == [2, 3, 2]
    seen = set()
    for i in range(3):
        title = figure.find_element("css selector", ".finding").text
        marks = [each.get_attribute("d") for each in figure.find_elements("css selector", ".mark-line path")]
        seen.add((title, *marks))
        browser.execute_script(
            "arguments[0].selectedIndex = 1; for (const e of ['input', 'change']) arguments[0].dispatchEvent(new Event(e))",
            lists[i],
        )
        time.sleep(0.3)
    assert len(seen) == 3  # each list changes the finding and the lines
    assert {"τ = 0.2", "τ = 0.5"} == {title[:7] for title, *_ in seen}
    before = selected(browser, figure)
    set_scheme(browser, dark=True)
    wait(browser, "getComputedStyle([...document.querySelectorAll('.view text')].pop()).fill === 'rgb(230, 233, 239)'")
    wait(browser, f"document.querySelectorAll('.view svg').length === {len(charts)}")
    assert selected(browser, figure) == before  # title, lists and lines, after all charts were drawn again
    assert [index for index, _ in before[1]] == [1, 1, 1]
    assert browser.execute_script("return document.querySelector('h1').textContent") == NASTY
    found = downloads(browser)
    assert {"orderings.csv", "held_out.csv", "tuning_winners.csv"} <= set(found)
    assert found["held_out.csv"] == (tmp_path / "out" / "held_out.csv").read_text()
    check_quiet(browser)
    open_page(browser, tmp_path / "out" / PAGE, 390, dark=True)
    check_fits(browser, len(charts))


@pytest.mark.slow
def test_charts_on_logarithmic_axes_are_quiet_in_a_browser(browser, tmp_path):
    charts = {}
    for name in ("bounds", "hard"):
        charts |= {stem: chart.to_dict() for stem, chart in EXPERIMENTS[name].charts(small_theory(name), "t").items()}
    (tmp_path / PAGE).write_text(page(Result(kind="theory", title="t", charts=charts)))
    open_page(browser, tmp_path / PAGE, 1280)
    assert len(browser.find_elements("css selector", ".view svg")) == 3
    check_quiet(browser)


@pytest.mark.slow
def test_published_values_in_some_views_are_quiet_in_a_browser(browser, study, tmp_path):
    view = View(study, [printed(**one) for one in PRINTED])
    assert all(level != view.spec.levels[0] for level, *_ in view.published())  # the first view has none
    (tmp_path / PAGE).write_text(
        page(Result(kind="study", title="t", charts={"seeds": view.charts()["seeds"].to_dict()}))
    )
    open_page(browser, tmp_path / PAGE, 1280)
    assert len(browser.find_elements("css selector", ".mark-symbol path")) > 9
    check_quiet(browser)


def test_the_page_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'the page needs Jinja2; run: pip install "bqrl\[plots\]"'):
        page(Result(kind="plan", title="t"))


def test_sentences_below_a_long_table_are_apart(monkeypatch):
    """Once "The first 200 of 201 rows.The file"."""
    monkeypatch.setattr("bqrl.results.page.MAX_CSV", 10)
    html = page(Result(kind="plan", title="t", tables={"long": ResultTable([{"x": i} for i in range(201)])}))
    assert "The first 200 of 201 rows. The file long.csv" in html


@pytest.mark.slow
def test_a_printed_table_is_whole_and_light(browser, tmp_path):
    """Once, tables were cut at the height of their box, and wide ones at the edge of the sheet."""
    rows = [{f"column number {k}": "some words" for k in range(12)} | {"n": i} for i in range(60)]
    (tmp_path / PAGE).write_text(page(Result(kind="plan", title="t", tables={"long": ResultTable(rows)})))
    look = """
        const box = document.querySelector(".scroll"), all = document.documentElement;
        return [box.scrollHeight - box.clientHeight, all.scrollWidth - all.clientWidth,
                getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"""
    open_page(browser, tmp_path / PAGE, 700)
    try:
        for media in ("screen", "print"):
            dark = [{"name": "prefers-color-scheme", "value": "dark"}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": dark})
            hidden, beyond, back, ink = browser.execute_script(look)
            assert (hidden > 0) == (media == "screen")
            assert beyond <= 0
            assert ((back, ink) == ("rgb(255, 255, 255)", "rgb(29, 35, 48)")) == (media == "print")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_technical_remarks_fold_away_below_the_headline():
    lines = ["The finding.", Sentence("A grid.", aside=True), Sentence("Another.", when={"tau": 0.5}, aside=True)]
    control = Control(name="tau", title="Level", values=[0.1, 0.5], labels=["a", "b"])
    html = page(Result(kind="plan", title="t", sentences=lines, choices=[control]))
    assert 'aria-live="polite"><p>The finding.</p></div>' in html
    assert (
        '<details id="asides"><summary>Details and how this was computed</summary><div class="quiet"><p>A grid.</p></div>'
        in html
    )
    assert '<details id="asides" hidden>' in page(
        Result(kind="plan", title="t", sentences=lines[2:], choices=[control])
    )
    assert 'id="asides"' not in page(Result(kind="plan", title="t", sentences=lines[:1])).split("<script")[0]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_of_strategies_in_a_browser(browser, tmp_path, dark):
    """At both widths the page fits, the legend is whole, and nothing is written to the console."""

    def build(p):
        return bqrl.MDP([(0, 0, 0, 1.0, 1.0), (0, 1, 0, p, 2.0), (0, 1, 0, 1.0 - p, 0.0)], horizon=4)

    rules = {"always the sure amount": "always:0", "always risky": "always:1", "at random": "random"}
    two = bqrl.strategies({"one": build(0.5), "two": build(0.7)}, rules, tau=[0.1, 0.2], below=1.0)
    grid = bqrl.sensitivity(build, {"p": [0.5, 0.7, 0.9]}, rules, tau=0.3)
    held = bqrl.stress("SafeOrRisky", bqrl.solve("SafeOrRisky", tau=0.1))
    titles = {
        "Strategies side by side": two,
        "What each strategy guarantees": grid,
        "What holds if the model is off": held,
    }
    for i, (title, table) in enumerate(titles.items()):
        bqrl.report(table, tmp_path / f"{i}.html")
        for width in (1280, 390):
            open_page(browser, tmp_path / f"{i}.html", width, dark)
            assert browser.execute_script("return document.querySelector('figure h3').textContent") == title
            assert browser.execute_script(  # one line
                "const title = document.querySelector('figure h3');"
                "return title.getBoundingClientRect().height < 1.9 * parseFloat(getComputedStyle(title).lineHeight)"
            )
            assert browser.execute_script("return document.querySelectorAll('.mark-text.role-mark text').length") == 0
            assert browser.execute_script(
                "const right = document.querySelector('.view').getBoundingClientRect().right;"
                "return [...document.querySelectorAll('.role-legend text')]"
                ".every(text => text.getBoundingClientRect().right <= right)"
            )
            check_fits(browser, 1, width)
            check_quiet(browser)


@pytest.mark.slow
def test_the_slider_along_the_price_of_certainty_in_a_browser(browser, tmp_path):
    page = bqrl.report(bqrl.solve("SafeOrRisky", tau=0.1), tmp_path / "plan.html")
    open_page(browser, page, 1280)

    def move(name, place):
        browser.execute_script(
            f"const c = document.getElementById('choice-{name}'); c.value = {place};"
            "c.dispatchEvent(new Event('input', {bubbles: true}))"
        )
        time.sleep(0.4)
        return json.loads(browser.execute_script("return document.body.dataset.state"))

    def tables():
        return browser.execute_script(
            "return [...document.querySelectorAll('details.table:not([hidden]) summary')].map(e => e.textContent)"
        )

    level = browser.execute_script("return Number(document.getElementById('choice-tau').value)")
    planned, before = drawn(browser), tables()
    assert move("policy", 1) == {"tau": 0.1, "policy": "step 1"}
    first, after = drawn(browser), tables()
    assert "less than that of the risk-neutral policy" in first[0]
    assert [old != new for old, new in zip(planned, first, strict=True)].count(
        True
    ) >= 4  # sentence, law, map, red point
    assert "Policy at level 0.1: the decisions to follow" in before
    assert "Policy at level 0.1: the decisions to follow" not in after
    assert "Policy at level 0.1, step 1: the decisions to follow" in after
    assert move("tau", level + 4)["policy"] == "best"  # there are no steps at this level
    assert move("policy", 1)["policy"] == "best"
    move("tau", level)
    assert drawn(browser) == planned
    check_quiet(browser)


@pytest.mark.slow
def test_the_page_of_a_fit_in_a_browser(browser, tmp_path):
    """Few complete episodes: the upper end of the old policy's interval is infinite. Names are text, and asides fold."""
    log = {"episode": list(range(20)), "state": [NASTY] * 20, "action": ["<in>", "out"] * 10, "reward": [1.0, 0.0] * 10}
    estimate = bqrl.fit(log, reward_range=(0, 1), adaptive=False)
    result = bqrl.report(estimate.solve(0.9), tmp_path / PAGE)
    assert result
    for width, dark in ((1280, False), (390, True)):
        open_page(browser, tmp_path / PAGE, width, dark)
        charts = browser.find_elements("css selector", ".view svg")
        assert len(charts) == 3
        texts = [[each.text for each in chart.find_elements("css selector", "text")] for chart in charts]
        assert {"old policy", "new plan", "plug-in plan", "\u221e"} <= set(texts[0])  # the infinite end is an arrow
        assert charts[0].find_elements("css selector", ".mark-symbol path")
        assert any(NASTY in text or NASTY[:8] in text for text in texts[1])
        check_fits(browser, 3, width)
        folded = browser.find_elements("css selector", "details:not([open])")
        assert any("assuming that" in each.get_attribute("textContent") for each in folded)
        assert "assuming that" not in browser.execute_script("return document.body.innerText")
        assert browser.execute_script("return document.querySelectorAll('td script, td in').length") == 0
        check_quiet(browser)
