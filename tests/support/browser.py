"""A real browser that draws a page: the shown text, and faults of the layout."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

AXE = Path(__file__).resolve().parents[1] / "interop" / "node_modules" / "axe-core" / "axe.min.js"

_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip

# Overlapping texts, and texts that leave their box or the page. A scrolling box may have wider
# content, and a word of a chart may be beside its mark.
_FAULTS = """
const found = [], boxes = [], page = document.documentElement;
if (page.scrollWidth > window.innerWidth) found.push('the page is wider than the window');
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  const text = node.data.trim(), parent = node.parentElement;
  if (!text || parent.closest('title') || getComputedStyle(parent).display === 'none') continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const scrolls = parent.closest('.scroll');
  for (const box of range.getClientRects()) {
    if (box.width < 1 || box.height < 1) continue;
    if (!scrolls && (box.left < -0.5 || box.right > window.innerWidth + 0.5))
      found.push(`'${text}' leaves the page`);
    // The line is higher than its letters.
    const slack = Math.min(3, box.height / 5);
    boxes.push([box.left + 1, box.top + slack, box.right - 1, box.bottom - slack, text]);
  }
  for (let up = parent; up && up !== document.body; up = up.parentElement) {
    const style = getComputedStyle(up);
    if (style.overflowX === 'hidden' && up.scrollWidth > up.clientWidth + 1)
      found.push(`'${text}' is cut`);
  }
}
boxes.sort((a, b) => a[1] - b[1]);
for (let i = 0; i < boxes.length; i++)
  for (let j = i + 1; j < boxes.length && boxes[j][1] < boxes[i][3]; j++)
    if (boxes[i][0] < boxes[j][2] && boxes[j][0] < boxes[i][2])
      found.push(`'${boxes[i][4]}' and '${boxes[j][4]}' overlap`);
return [...new Set(found)];
"""
_RUN_AXE = """
const done = arguments[arguments.length - 1];
// The sections of runs are alike: the first one stands for all.
axe.run({include: ['html'], exclude: ['section.run ~ section.run']}).then(
  found => done(found.violations.map(one =>
    `${one.id}: ${one.help}: ${one.nodes.map(node => node.html.slice(0, 120)).join(' | ')}`)),
  error => done([String(error)]));
"""


class Browser:
    """Chromium, driven by its own driver."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def show(self, page: Path, width: int, scheme: str, media: str = "") -> None:
        """Load a page for a window of a width, in ``light`` or ``dark`` colours; unfold it.

        With the media ``print`` it is laid out as for paper of that width.
        """
        self._command("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": scheme}
        ])  # fmt: skip
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        self._driver.get(page.as_uri())
        self.ask("document.querySelectorAll('details').forEach(one => { one.open = true; });")

    def ask(self, script: str) -> Any:
        """Return the result of a function body in the page."""
        return self._driver.execute_script(script)

    def faults(self) -> list[str]:
        """Return texts that overlap, are cut or leave the page."""
        found: list[str] = self.ask(_FAULTS)
        return found

    def violations(self) -> list[str]:
        """Return the violations that axe-core finds in the page."""
        # The page forbids scripts; those of its driver are not its own.
        self._driver.execute_script(AXE.read_text(encoding="utf-8"))
        found: list[str] = self._driver.execute_async_script(_RUN_AXE)
        return found

    def printed(self) -> bytes:
        """Return the page as PDF, on the paper that it asks for."""
        found = self._command("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(found["data"])

    def picture(self, file: Path, height: int) -> None:
        """Save the top of the page as PNG."""
        shot = self._command(
            "Page.captureScreenshot", captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": self.ask("return innerWidth"), "height": height,
                  "scale": 1},
        )  # fmt: skip
        file.write_bytes(base64.b64decode(shot["data"]))

    def problems(self) -> list[str]:
        """Return the browser's reports about the page: blocked loads, and errors."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def _command(self, name: str, **parameters: Any) -> Any:
        return self._driver.execute_cdp_cmd(name, parameters)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for option in _OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.set_script_timeout(120)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
