"""The report page in a real browser: no console errors, splats drawn, slider and map respond."""

from __future__ import annotations

import base64
import io
import math
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from skyanchor.report import drawings
from skyanchor.report.content import (
    Comparison,
    Curve,
    GroupRow,
    MapCamera,
    MapContent,
    MapFrame,
    MatchLine,
    MatchPicture,
    Report,
    Scene3d,
    SubmapRow,
)
from skyanchor.report.page import render_page
from skyanchor.report.plots import plot_curves, plot_map

UP = np.array([0.0, 0.0, 1.0])


def box_points() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(-20, 20, (4000, 2)), np.zeros(4000)]
    colors = np.tile(np.array([200, 40, 40], np.uint8), (4000, 1))
    return points, colors


def splat_bytes(points: Any, colors: Any) -> bytes:
    rows = np.zeros(len(points), dtype=[("p", "<f4", 3), ("s", "<f4", 3), ("c", "u1", 4), ("q", "u1", 4)])
    rows["p"], rows["s"], rows["q"] = points, 0.4, [255, 128, 128, 128]
    rows["c"] = np.c_[colors, np.full(len(colors), 255)]
    return rows.tobytes()


def example_report() -> Report:
    points, colors = box_points()
    raster, extent = drawings.top_view(points, colors, UP, width=200)
    image = np.random.default_rng(1).integers(0, 255, (36, 64, 3), dtype=np.uint8)
    uri = drawings.data_uri(image)
    frames = tuple(MapFrame(i, f"f{i}.jpg", -10 + i * 1.0, 2.0, "keyframe", 0.05) for i in range(18))
    lost = (MapFrame(18, "f18.jpg", math.nan, math.nan, "missing", math.nan, "too few matches </script>"),)
    groups = (
        GroupRow(0, 0, 5, True, "", "", -9.0, 2.0, {"inliers": 812.0}),
        GroupRow(1, 12, 17, False, "look-alike", "two places fit", 5.0, 2.0, {"inliers": 40.0}, ("first try",)),
        GroupRow(2, 18, 18, False, "no-place", "nothing looks like it", math.nan, math.nan),
    )
    comparisons = tuple(Comparison(k, k, uri, uri, uri, uri, 14.0, 23.0) for k in ("ground", "aerial"))
    walk = tuple((f.x, f.y, 1.7, 1.0, 0.0, 0.0) for f in frames)
    lines = (MatchLine(10, 10, 30, 20, True, 0.8), MatchLine(40, 20, 9, 8, False, 31.0))
    matched = MatchPicture(1, False, "f12.jpg", "a.jpg", uri, (64, 36), uri, (64, 36), lines)
    scene = Scene3d(
        base64.b64encode(splat_bytes(points, colors)).decode(), 4000, 9000, (0, 0, 1), walk, ((0, 0, 50, 0, 0, -1),)
    )
    return Report(
        title="A <walk>",
        verdict="One of two groups was accepted.",
        status="partial",
        map=MapContent(
            drawings.transparent_uri(raster), extent, (MapCamera("a.jpg", 0, 0),), frames + lost, ((0, 0), (1, 1))
        ),  # type: ignore[arg-type]
        groups=groups,
        submaps=(SubmapRow(0, 0, 17, {"closure_m": 0.2}),),
        figures={"trajectory": {"ate_m": 0.08}},
        comparisons=comparisons,
        matches=(matched,),
        curves=(Curve("ground", (0.0, 10.0), (12.0, 20.0)),),
        seconds={"anchors": 12.0},
        scene=scene,
    )


def test_page_holds_everything_and_needs_no_network() -> None:
    page = render_page(example_report())
    assert "A &lt;walk&gt;" in page
    assert "too few matches <\\/script>" in page
    assert "@@" not in page.split("<script>")[0]
    assert 'src="http' not in page and 'href="http' not in page


def test_page_without_a_scene_leaves_the_3d_library_out() -> None:
    report = example_report()
    bare = Report(report.title, report.verdict, "refused", report.map, (), (), {})
    assert len(render_page(bare)) < 300_000 < len(render_page(report))


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
    page = tmp_path_factory.mktemp("report") / "report.html"
    page.write_text(render_page(example_report()), encoding="utf-8")
    session.get(page.as_uri())
    yield session
    session.quit()


def until(condition: Any, seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.5)
    return False


def canvas_pixels(browser: Any) -> Any:
    uri = browser.execute_script("return document.getElementById('scene').toDataURL('image/png')")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGB")).astype(int)


@pytest.mark.browser
def test_page_loads_without_console_errors_and_draws_splats(browser: Any) -> None:
    browser.execute_script("document.getElementById('scene').scrollIntoView()")
    assert until(lambda: browser.execute_script("return document.body.dataset.sceneReady === 'true'"))

    def red_ground() -> bool:
        pixels = canvas_pixels(browser)
        return bool(((pixels[..., 0] > 120) & (pixels[..., 1] < 110)).mean() > 0.05)

    assert until(red_ground)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.browser
def test_slider_and_map_respond(browser: Any) -> None:
    move = (
        "const r = document.querySelector('.comparison input');"
        "r.value = 80; r.dispatchEvent(new Event('input'));"
        "return document.querySelector('.comparison .over').style.clipPath"
    )
    assert "20%" in browser.execute_script(move)
    hover = (
        "const g = document.querySelector('[data-group=\"1\"]');"
        "g.dispatchEvent(new PointerEvent('pointerenter', {clientX: 10, clientY: 10}));"
        "const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent"
    )
    text = browser.execute_script(hover)
    assert "refused" in text and "two places fit" in text
    chip = hover.replace("[data-group=", ".chips [data-group=").replace('"1"', '"2"')
    assert "nothing looks like it" in browser.execute_script(chip)
    boxes = "return document.querySelectorAll('.legend input').length"
    assert browser.execute_script(boxes) >= 4


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


@pytest.mark.browser
def test_nothing_is_wider_than_a_phone(browser: Any) -> None:
    browser.set_window_size(500, 800)  # as narrow as headless Chromium gets; the page itself is then made narrower
    browser.execute_script("document.body.style.width = '360px'")
    wide = (
        "return [...document.querySelectorAll('main *')].filter((n) => !n.closest('.scroll, pre, svg') && "
        "n.getBoundingClientRect().right > 361).map((n) => n.outerHTML.slice(0, 90))"
    )
    assert browser.execute_script(wide) == []
    browser.execute_script("document.body.style.width = ''")
    browser.set_window_size(900, 700)
