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
