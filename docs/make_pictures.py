"""Pictures for README and docs from a run's report, by headless Chromium: python docs/make_pictures.py RUN [OUT].

`skyanchor report RUN` comes first. Writes map, matches, street, air and scene, the page itself
in light, dark and on a phone, and demo.jpg, the README's picture, put together from the parts that the run has.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from selenium import webdriver

PARTS = {
    "map": "#map .map",
    "matches": "#matches svg.matches",
    "street": "#ground .slide",
    "air": "#aerial .slide",
    "scene": "#scene",
}
"""Name of a picture -> where it is in the page."""
PAGES = {"report-light": (1200, "light"), "report-dark": (1200, "dark"), "report-phone": (390, "light")}
"""Name -> width of the window in pixels, and colours."""
LONGEST, WINDOW = 2600, 1000
"""Pixels of a page that are shown, and of the window."""
GAP = 10


def opened(page: Path, width: int, scheme: str) -> Any:
    """A browser that shows the page, its 3D scene drawn."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    gl = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    for argument in ["--headless=new", "--no-sandbox", "--hide-scrollbars", *gl]:
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": WINDOW, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    colours = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": colours})
    browser.get(page.resolve().as_uri())
    if browser.execute_script("return !!document.getElementById('scene')"):
        _wait_for_scene(browser)
    return browser


def _wait_for_scene(browser: Any) -> None:
    browser.execute_script("document.getElementById('scene').scrollIntoView()")
    for _ in range(120):
        if browser.execute_script("return document.body.dataset.sceneReady === 'true'"):
            break
        time.sleep(1.0)
    time.sleep(15.0)  # splats are sorted and drawn in the background


def picture(browser: Any, box: dict[str, float]) -> Image.Image:
    """A part of the page, put together from windows: a taller one would draw the scene for all of them."""
    x, y, width, height = (round(box[name]) for name in ("x", "y", "width", "height"))
    sheet = Image.new("RGB", (width, height))
    for at in range(0, height, WINDOW):
        scroll = "scrollTo({top: arguments[0], behavior: 'instant'}); return scrollY"
        top = y + at - round(browser.execute_script(scroll, y + at))
        time.sleep(1.0)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        whole = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
        sheet.paste(whole.crop((x, top, x + width, top + min(WINDOW, height - at))), (0, at))
    return sheet


def element(browser: Any, selector: str) -> Image.Image | None:
    """The first element that the selector finds; None when the run has no such part."""
    script = (
        "const n = document.querySelector(arguments[0]); if (!n) return null; const b = n.getBoundingClientRect();"
        "return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}"
    )
    box = browser.execute_script(script, selector)
    return None if box is None else picture(browser, box)


def composed(parts: dict[str, Image.Image], width: int = 1400) -> Image.Image:
    """The map beside the matches, and below them the street and the air before and after the update."""
    top = [parts[name] for name in ("map", "matches") if name in parts]
    below = [parts[name] for name in ("street", "air") if name in parts]
    rows = [_row(row, width) for row in (top, below) if row]
    sheet = Image.new("RGB", (width, sum(row.height for row in rows) + GAP * (len(rows) - 1)), "white")
    at = 0
    for row in rows:
        sheet.paste(row, (0, at))
        at += row.height + GAP
    return sheet


def _row(pictures: list[Image.Image], width: int) -> Image.Image:
    """The pictures side by side at one height."""
    shapes = [one.width / one.height for one in pictures]
    height = round((width - GAP * (len(pictures) - 1)) / sum(shapes))
    row = Image.new("RGB", (width, height), "white")
    at = 0
    for one, shape in zip(pictures, shapes, strict=True):
        row.paste(ImageOps.fit(one, (round(shape * height), height)), (at, 0))
        at += round(shape * height) + GAP
    return row


def main(run: Path, out: Path) -> None:
    """Write every picture that the run's report has."""
    out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Image.Image] = {}
    for name, (width, scheme) in PAGES.items():
        browser = opened(run / "report.html", width, scheme)
        if name == "report-light":
            found = {part: element(browser, selector) for part, selector in PARTS.items()}
            parts = {part: shot for part, shot in found.items() if shot is not None}
        height = min(LONGEST, browser.execute_script("return document.documentElement.scrollHeight"))
        picture(browser, {"x": 0, "y": 0, "width": width, "height": height}).save(out / f"{name}.jpg", quality=78)
        browser.quit()
    for part, shot in parts.items():
        shot.save(out / f"{part}.jpg", quality=85)
    composed(parts).save(out / "demo.jpg", quality=85)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/pictures"))
