"""The report page in a real browser: no console errors, splats drawn, slider and map respond."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_report import HOSTILE, UP, example_report
from PIL import Image

from skyanchor.report import drawings
from skyanchor.report import page as page_module
from skyanchor.report.charts import axis
from skyanchor.report.content import (
    MapPlace,
    Report,
)
from skyanchor.report.map_drawing import first_frame, map_figure
from skyanchor.report.page import render_page
from skyanchor.report.plots import plot_curves, plot_map
from skyanchor.report.sections import times_section
from skyanchor.report.words import GLOSSARY, SHORTENED, duration, length


def shown(page: str) -> str:
    """The page as it is without scripts: markup before the first script, styles left out."""
    return re.sub(r"<style>.*?</style>", "", page.split("<script", 1)[0], flags=re.S)


def test_page_holds_everything_and_needs_no_network() -> None:
    page = render_page(example_report())
    assert "A &lt;walk&gt;" in page and "&lt;b&gt;" in page
    assert 'src="http' not in page and 'href="http' not in page and "url(" not in page.split("</style>")[0]


def test_hostile_words_stay_words() -> None:
    report = example_report()
    bare = replace(report, scene=None, title=HOSTILE)
    page = render_page(bare)
    assert page.count("<script") == 4 and page.count("</script>") == 4 and "<!--" not in page
    assert html.escape(HOSTILE) in page and "takeTitles" not in page.split("<script", 1)[0]
    place = replace(report.map.place, system=HOSTILE)
    page = render_page(replace(bare, map=replace(report.map, place=place)))
    data = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    assert "<" not in data and json.loads(data)["map"]["system"] == HOSTILE


def test_everything_is_there_without_scripts() -> None:
    text = shown(render_page(example_report()))
    for said in (
        "18 of 19 photos located", "95 % of positions within", "14 cm", "5.0 cm", "22 min 17 s", "21 min 37 s",
        "2026-01-02 03:04 UTC", "/data/walk", "0123456789ab", "EPSG:32633, metres", "skyanchor update --out",
        "20 cm after 18 m", "PSNR [dB]", "Time and memory", "2.1 GB",
        "iteration", "two places fit", "first try", "2-anchors: all settings", "3-trajectory: all settings",
        "agreeing places", "camera tilt [°]", "where the walk was said to be", "true positions", "1 photo (18)",
    ):  # fmt: skip
        assert said in text, said
    assert text.count("<img") == 2 * 4 + 1 and text.count("<svg") > 8
    assert [entry.word for entry in GLOSSARY if f"<dt>{html.escape(entry.word)}</dt>" not in text] == [SHORTENED]


def test_shortened_paths_are_explained_where_there_are_some() -> None:
    report = example_report()
    inputs = tuple(replace(row, where=f"{SHORTENED}survey/walk") for row in report.made.inputs)
    text = shown(render_page(replace(report, made=replace(report.made, inputs=inputs))))
    assert f"<dt>{SHORTENED}</dt>" in text


def test_memory_is_told_where_it_was_measured() -> None:
    report = example_report()
    assert "on the GPU" not in shown(render_page(report)) and '<td><span class="whole">–</span></td>' in render_page(
        report
    )
    assert "memory" not in times_section(replace(report, memory={}))
    assert "on the GPU" in times_section(replace(report, memory={"anchors": (0, 10**9)}))


def test_downloads_are_in_the_page() -> None:
    uri = re.search(
        r'href="data:application/geo\+json;base64,([^"]+)" download="walk.geojson"',
        shown(render_page(example_report())),
    )
    assert uri is not None and base64.b64decode(uri[1]) == b'{"type": "x"}'


def test_pictures_say_what_they_are() -> None:
    alts = re.findall(r'<img[^>]* alt="([^"]+)" data-side="([a-z]+)"', shown(render_page(example_report())))
    assert ("ground: drawn before the update", "before") in alts and ("aerial: the photo", "photo") in alts


def test_page_without_a_scene_leaves_the_3d_library_out() -> None:
    report = example_report()
    bare = Report(report.title, report.verdict, "refused", report.map, (), (), {})
    assert len(render_page(bare)) < 300_000 < len(render_page(report))


def test_the_map_is_drawn_where_things_are() -> None:
    report = example_report()
    frame = first_frame(report.map)
    picture = map_figure(report)
    x, y = frame(report.groups[1].x, report.groups[1].y)
    assert f'transform="translate({x} {y})" data-group="1"' in picture
    assert f"rotate({report.map.place.north_deg:.2f})" in picture and ">N</text>" in picture
    unknown = replace(report.map, place=MapPlace())
    assert ">y</text>" in map_figure(replace(report, map=unknown))
    metres, share = re.findall(r'style="width:([\d.]+)%">(\d+) m<', picture)[0][::-1]
    assert float(share) / 100 == pytest.approx(float(metres) / (frame.box[2] - frame.box[0]), rel=1e-3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_both_themes(scheme: str) -> None:
    style = (Path(page_module.__file__).parent / "assets/page.css").read_text()
    first, second = re.findall(r":root \{(.*?)\}", style, re.S)[:2]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", first)) | (
        dict(re.findall(r"--(\w+): (#\w{6})", second)) if scheme == "dark" else {}
    )
    for name in ("ink", "soft", "blue", "good", "warn", "bad", "c0", "c1", "c2", "c3"):
        for ground in ("paper", "card"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def contrast(a: str, b: str) -> float:
    """As WCAG 2 has it."""

    def light(colour: str) -> float:
        parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255.0
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ np.array([0.2126, 0.7152, 0.0722]))

    high, low = max(light(a), light(b)), min(light(a), light(b))
    return (high + 0.05) / (low + 0.05)


def test_axes_end_at_round_numbers_around_the_values() -> None:
    for values in ([0.0, 10.0], [12.3, 26.7], [0.0, 17_342.0], [5.0, 5.0], [-0.02, 0.013]):
        found = axis(values, 6)
        assert found.low <= min(values) and found.high >= max(values) and 2 <= len(found.ticks) <= 8
        steps = np.diff(found.ticks)
        assert steps == pytest.approx(steps[0]) and found.share(found.high) == 1.0 and found.share(found.low) == 0.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (8.44, "8.4 s"),
        (59.97, "1 min 0 s"),
        (1297.0, "21 min 37 s"),
        (3599.8, "1 h 0 min"),
        (11_100, "3 h 5 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("metres", "said"),
    [
        (0.0044, "4.4 mm"),
        (0.08, "8.0 cm"),
        (0.0436, "4.4 cm"),
        (0.0841, "8.4 cm"),
        (0.28, "28 cm"),
        (0.999, "1.0 m"),
        (27.9, "28 m"),
    ],
)
def test_lengths_are_said_as_people_say_them(metres: float, said: str) -> None:
    assert length(metres) == said


def test_top_view_shows_the_highest_point() -> None:
    ground = np.array([[x, y, 0.0] for x in range(10) for y in range(10)])
    roof = ground + np.array([0.0, 0.0, 5.0])
    colors = np.repeat(np.array([[250, 0, 0], [0, 0, 250]], np.uint8), 100, axis=0)
    image, extent = drawings.top_view(np.concatenate([ground, roof]), colors, UP, width=40)
    drawn = image[image[..., 3] > 0]
    assert (drawn[:, 2] > 200).all() and image[..., 3].min() == 255
    far = np.array([[60.0, 60.0, 0.0]])
    sparse, _ = drawings.top_view(np.concatenate([ground, far]), np.full((101, 3), 9, np.uint8), UP, width=90)
    assert 0.5 < (sparse[..., 3] == 0).mean() < 0.98  # what no point shows is clear
    assert extent[0] < 1 and extent[2] > 8


def test_error_map_is_dark_where_equal_and_bright_where_not() -> None:
    photo = np.zeros((4, 8, 3), np.uint8)
    render = photo.copy()
    render[:, 4:] = 200
    result = drawings.error_map(photo, render)
    assert result[:, :4].max() < 10 and result[:, 4:].max() > 200


def test_plots_are_written_and_repeatable(tmp_path: Path) -> None:
    report = example_report()
    for name in ("one.png", "two.png"):
        plot_map(report.map, tmp_path / name, report.groups)
        plot_curves(report.curves, tmp_path / ("c" + name))
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert np.asarray(Image.open(tmp_path / "cone.png")).std() > 1


PATIENCE = 600.0
"""Seconds that a browser may take on a busy machine, where splats are drawn without a GPU."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        warnings.warn("NO BROWSER: the report page is not tested; install chromium and chromium-driver", stacklevel=1)
        pytest.skip("no chromium and chromedriver on this machine")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    gl = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    for argument in ["--headless=new", "--no-sandbox", "--window-size=900,700", *gl]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    session.set_script_timeout(PATIENCE)
    session.set_page_load_timeout(PATIENCE)
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(render_page(example_report()), encoding="utf-8")
    session.get(page.as_uri())
    yield session
    session.quit()


def until(condition: Any, seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def canvas_pixels(browser: Any) -> Any:
    uri = browser.execute_script("return document.getElementById('scene').toDataURL('image/png')")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGB")).astype(int)


def whole_page(browser: Any) -> Any:
    """(H, W) grey levels of the page, far below the window too."""
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    shot = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", asked)["data"])
    return np.asarray(Image.open(io.BytesIO(shot)).convert("L")).astype(float)


@pytest.mark.browser
def test_page_loads_without_console_errors_and_draws_splats(browser: Any) -> None:
    browser.execute_script("document.getElementById('scene').scrollIntoView()")
    assert until(lambda: browser.execute_script("return document.body.dataset.sceneReady === 'true'"))

    def share(first: int, second: int) -> float:
        """Of the pixels that have much of one colour and little of another."""
        pixels = canvas_pixels(browser)
        return float(((pixels[..., first] > 120) & (pixels[..., second] < 110)).mean())

    assert until(lambda: share(0, 1) > 0.05)  # red: after
    browser.execute_script("document.querySelector('[data-updated=\"false\"]').click()")
    assert until(lambda: share(2, 1) > 0.05 and share(0, 1) < 0.02)  # blue: before
    assert browser.execute_script("return document.querySelector('.stamp').textContent") == "before the update"
    browser.execute_script(
        "document.getElementById('scene').dispatchEvent(new KeyboardEvent('keydown', {key: 'b', bubbles: true}))"
    )
    assert until(lambda: share(0, 1) > 0.05)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


WHEEL = (
    "const node = document.querySelector(arguments[0]); const box = node.getBoundingClientRect();"
    "const turned = new WheelEvent('wheel', {deltaY: 120, ctrlKey: arguments[1], cancelable: true, bubbles: true,"
    " clientX: box.left + 40, clientY: box.top + 40}); node.dispatchEvent(turned); return turned.defaultPrevented"
)
"""Whether an element takes the wheel for itself."""


@pytest.mark.browser
@pytest.mark.parametrize("where", ["#scene", "#map-picture"])
def test_the_wheel_scrolls_the_page_until_it_is_asked_for(browser: Any, where: str) -> None:
    browser.execute_script("document.activeElement.blur()")
    assert browser.execute_script(WHEEL, where, False) is False
    assert browser.execute_script(WHEEL, where, True) is True
    browser.execute_script("document.querySelector(arguments[0]).focus()", where)
    assert browser.execute_script(WHEEL, where, False) is True


@pytest.mark.browser
def test_pictures_slide_and_keep_their_words(browser: Any) -> None:
    drag = (
        "const s = document.querySelector('.comparison .slide'), box = s.getBoundingClientRect();"
        "s.setPointerCapture = () => {};"
        "s.dispatchEvent(new PointerEvent('pointerdown', {clientX: box.left + 0.8 * box.width, buttons: 1}));"
        "return [s.querySelector('.over').style.clipPath, document.querySelector('.comparison input').value]"
    )
    clip, value = browser.execute_script(drag)
    assert float(re.findall(r"[\d.]+%", clip)[0][:-1]) == pytest.approx(20.0, abs=0.01) and value == "80"
    move = (
        "const r = document.querySelector('.comparison input');"
        "r.value = 30; r.dispatchEvent(new Event('input'));"
        "return document.querySelector('.comparison .over').style.clipPath"
    )
    assert "70%" in browser.execute_script(move)
    words = "return ['.over', 'img:not(.over)'].map((n) => document.querySelector('.comparison .slide ' + n).alt)"
    assert browser.execute_script(words) == ["ground: drawn before the update", "ground: drawn after the update"]
    browser.execute_script("document.querySelectorAll('.comparison .pick button')[3].click()")
    assert browser.execute_script(words) == ["ground: drawn after the update", "ground: error after the update"]


DRAG = (
    "const svg = document.getElementById('map-picture');"
    "const at = (x, y) => ({clientX: 300 + x, clientY: 300 + y, pointerId: 7, pointerType: 'mouse', bubbles: true});"
    "svg.dispatchEvent(new PointerEvent('pointerdown', at(0, 0)));"
    "svg.dispatchEvent(new PointerEvent('pointermove', at(arguments[0], arguments[1])));"
    "svg.dispatchEvent(new PointerEvent('pointerup', at(arguments[0], arguments[1])));"
)
"""The map dragged by so many pixels."""


@pytest.mark.browser
def test_the_map_tells_moves_and_hides_its_layers(browser: Any) -> None:
    hover = (
        "const g = document.querySelector('[data-group=\"1\"]');"
        "g.dispatchEvent(new PointerEvent('pointerover', {clientX: 10, clientY: 10, bubbles: true}));"
        "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent"
    )
    text = browser.execute_script(hover)
    assert "refused" in text and "two places fit" in text
    chip = hover.replace("[data-group=", ".chips [data-group=").replace('"1"', '"2"')
    assert "nothing looks like it" in browser.execute_script(chip)
    assert browser.execute_script("return document.querySelectorAll('#map-legend input').length") == 6
    box = "return document.getElementById('map-picture').getAttribute('viewBox').split(' ').map(Number)"
    first = browser.execute_script(box)
    browser.execute_script("document.querySelector('[aria-label=nearer]').click()")
    assert browser.execute_script(box)[2] == pytest.approx(0.7 * first[2])
    browser.execute_script(DRAG, 60, 0)
    moved = browser.execute_script(box)
    shown_px = browser.execute_script("return document.getElementById('map-picture').clientWidth")
    assert moved[0] == pytest.approx(first[0] + 0.15 * first[2] - 60 * moved[2] / shown_px, abs=0.5)
    browser.execute_script(DRAG, -60, 0)
    pointed = (
        "const svg = document.getElementById('map-picture'), g = document.querySelector('[data-group=\"1\"] .sized');"
        "const box = g.getBoundingClientRect();"
        "const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2};"
        "svg.dispatchEvent(new PointerEvent('pointermove', at)); return document.querySelector('.where').textContent"
    )
    found = [float(part) for part in re.findall(r"[\d.]{4,}", browser.execute_script(pointed))]
    east, north, latitude, longitude = found
    assert (east, north) == pytest.approx((448305.0, 5411202.0), abs=0.25)
    assert (latitude, longitude) == pytest.approx((48.0 + 2 * 9e-6, 14.0 + 5 * 1.3e-5), abs=3e-6)


@pytest.mark.browser
def test_matches_are_lines_between_the_photos(browser: Any) -> None:
    script = (
        "return [...document.querySelectorAll('svg.matches g')].map((g) => "
        "[g.getAttribute('class'), g.querySelector('line').getAttribute('y2'), g.getAttribute('aria-label')])"
    )
    assert browser.execute_script(script) == [
        ["bad", "52", "thrown out, 31 px off in the street photo"],
        ["good", "64", "agrees, 0.8 px off in the street photo"],
    ]
    assert "1 of 2 shown agree" in browser.execute_script("return document.querySelector('#matches').textContent")
    touch = "const style = getComputedStyle(document.querySelector('.matches .touch'));"
    assert browser.execute_script(touch + "return [style.visibility, style.pointerEvents]") == ["hidden", "stroke"]


@pytest.mark.browser
def test_nothing_is_wider_than_a_phone(browser: Any) -> None:
    browser.set_window_size(500, 800)  # as narrow as headless Chromium gets; the page itself is then made narrower
    browser.execute_script("document.body.style.width = '360px'")
    wide = (
        "return [...document.querySelectorAll('header *, main *')].filter((n) => !n.closest('.scroll, pre, svg') && "
        "n.getBoundingClientRect().right > 361).map((n) => n.outerHTML.slice(0, 90))"
    )
    assert browser.execute_script(wide) == []
    browser.execute_script("document.body.style.width = ''")
    browser.set_window_size(900, 700)


SIZES = tuple((width, scheme) for width in (1400, 820, 390) for scheme in ("light", "dark"))
SHOWN = (".verdict", ".tiles", "#map-picture", "#ground img", "#matches svg")


def resized(browser: Any, width: int, scheme: str) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    colours = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": colours})


def assert_whole(browser: Any, width: int, scheme: str) -> None:
    """Nothing is wider than the window, and all that counts is seen, in light or dark."""
    resized(browser, width, scheme)
    assert browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]["width"] <= width
    for part in SHOWN:
        box = browser.find_element("css selector", part).rect
        assert box["height"] > 10 and box["x"] >= 0 and box["x"] + box["width"] <= width, (part, box)
    ink = re.findall(r"\d+", browser.find_element("css selector", "body").value_of_css_property("color"))
    assert (sum(map(int, ink[:3])) > 384) == (scheme == "dark")


@pytest.mark.browser
def test_every_size_and_colour_has_the_whole_page(browser: Any) -> None:
    cut = "return [...document.querySelectorAll('.tiles dd')].filter((n) => n.scrollWidth > n.clientWidth).length"
    try:
        for size in SIZES:
            assert_whole(browser, *size)
        for width in (820, 500, 390, 360):
            resized(browser, width, "light")
            assert browser.execute_script(cut) == 0, width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.browser
def test_the_page_is_drawn_with_scripts_off(browser: Any) -> None:
    address = browser.current_url
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
        inked = ("header", "#map", "#scene3d", "#ground", "#groups", "#matches", "#curves", "#times", "#settings")
        whole = whole_page(browser)
        for part in inked:
            box = browser.find_element("css selector", part).rect
            top, left = round(box["y"]), round(box["x"])
            drawn = whole[top : top + round(box["height"]), left : left + round(box["width"])]
            assert drawn.size > 10_000 and drawn.std() > 8, part
        for size in SIZES:
            assert_whole(browser, *size)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        browser.get(address)


@pytest.mark.browser
def test_paper_has_a_picture_of_the_scene_and_nothing_to_press(browser: Any) -> None:
    seen = (
        "return arguments[0].map((s) => [...document.querySelectorAll(s)].some((n) => n.getClientRects().length > 0))"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        there = [".still", ".four img", "#map-picture", ".chart", ".glossary"]
        assert browser.execute_script(seen, there) == [True] * len(there)
        gone = ["button", "input", "#scene", ".slide", "nav", ".take", ".hint", "details:not([open])"]
        assert browser.execute_script(seen, gone) == [False] * len(gone)
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
