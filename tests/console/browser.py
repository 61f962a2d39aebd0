"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect, sync_playwright

WAIT_MS = 60_000
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--disable-lcd-text",
)
"""Root may have no sandbox; all pages are this machine's."""


@contextmanager
def open_browser() -> Generator[Browser]:
    """The browser; skips where there is none."""
    program = shutil.which("chromium")
    if program is None:
        assert "CI" not in os.environ, "scripts/setup-chromium.sh installed no chromium"
        pytest.skip("there is no chromium: scripts/setup-chromium.sh gets Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


SAYS = """(button, waitMs) => ({ text: new Promise(says => {
  new MutationObserver(() => says(button.textContent)).observe(button, { childList: true });
  setTimeout(() => says("nothing"), waitMs);
}) })"""


def said_by(button: Locator) -> str:
    """Click a button; what it says thereupon, which after two seconds it no longer does."""
    says = button.evaluate_handle(SAYS, WAIT_MS)
    button.click()
    return str(says.evaluate("says => says.text"))


FAINT = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = colours => {
    canvas.clearRect(0, 0, 1, 1);
    for (const each of colours) { canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = rgb => {
    const [r, g, b] = rgb.map(each => each / 255).map(
      each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const grounds = element => !element ? ["white"]
    : [...grounds(element.parentElement), getComputedStyle(element).backgroundColor];
  const found = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement, text = node.textContent.trim();
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element), below = grounds(element), size = parseFloat(style.fontSize);
    const [low, high] = [paint([...below, style.color]), paint(below)].map(luminance).sort((a, b) => a - b);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.add(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""
"""Text whose colour is too near to that of its ground: WCAG 2, level AA."""
BY_MOUSE_ONLY = """() => {
  const named = each => each.getAttribute("aria-label") || each.textContent.trim() || each.title || each.alt
    || [...(each.labels || [])].some(label => label.textContent.trim());
  const shown = each => each.checkVisibility();
  const said = each => each.outerHTML.slice(0, 120);
  const all = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  const controls = [...document.querySelectorAll(all)].filter(shown);
  const acted = [...document.querySelectorAll("[hx-get], [hx-post]")].filter(
    each => /click/.test(each.getAttribute("hx-trigger") || "click") && !each.matches(`form, ${all}`));
  return [
    ...controls.filter(each => !named(each)).map(each => `no name: ${said(each)}`),
    ...controls.filter(each => each.tabIndex !== 0 && !each.disabled).map(each => `no turn: ${said(each)}`),
    ...acted.map(each => `by mouse only: ${said(each)}`),
  ];
}"""
"""What somebody without a mouse, or without eyes, can't use: controls without a name, or out of the order of Tab."""


class Seen:
    """A page, and what a browser found wrong with it."""

    def __init__(
        self, browser: Browser, url: str, width: int = 1200, scheme: Literal["light", "dark"] = "light"
    ) -> None:
        self._context = browser.new_context(
            base_url=url,
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        self._context.set_default_timeout(WAIT_MS)
        self.page: Page = self._context.new_page()
        self.wrong: list[str] = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", self._asked)
        self.page.on("requestfailed", lambda failed: self._failed(failed.url, failed.failure))

    def _asked(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _failed(self, url: str, failure: str | None) -> None:
        # Both end as one goes on to another page, and a browser fetches the icon when it likes.
        if "/live/" not in url and not url.endswith("/icon.svg"):
            self.wrong.append(f"{url}: {failure}")

    def overflow(self) -> int:
        """So many pixels it can be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def hard_to_use(self) -> list[str]:
        """Text that can't be read well, and controls that a keyboard doesn't reach or a reader has no name for."""
        return [*self.page.evaluate(FAINT), *self.page.evaluate(BY_MOUSE_ONLY)]

    def settle(self) -> None:
        """Wait until all that the page loads by itself has come: who leaves it before ends those requests. It asks
        for them before it counts as loaded."""
        self.page.wait_for_load_state()
        expect(self.page.locator(".htmx-request")).to_have_count(0, timeout=WAIT_MS)

    def close(self) -> None:
        """Close it."""
        try:
            self.settle()
        finally:
            self._context.close()
