"""docs/console.md shows each page of the console."""

from __future__ import annotations

import re

from lakemq.console.rendering import FOLDER as TEMPLATES
from tests.console.screenshots import FOLDER, SHOTS

DOCUMENT = FOLDER.parent / "console.md"


def test_every_page_of_the_menu_has_a_picture() -> None:
    menu = dict(re.findall(r'\("(/[a-z]*)", "([^"]+)"\)', (TEMPLATES / "layout.html").read_text("utf-8")))
    assert {"/", "/sql", "/people"} <= set(menu)
    taken = {"/" + (path or "/messages").split("/")[1] for _, path, _, _ in SHOTS}
    assert set(menu) - taken == set()
    assert any(path.endswith("/dead-letters") for _, path, _, _ in SHOTS)
    pages = DOCUMENT.read_text("utf-8").partition("## The pages")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| ([A-Z][A-Za-z ]+) \|", pages, re.MULTILINE)) == {*menu.values(), "Dead letters"}


def test_every_picture_is_shown_and_taken_by_the_command() -> None:
    shown = set(re.findall(r"\(console/([a-z-]+)\.png\)", DOCUMENT.read_text("utf-8")))
    assert shown == {each.stem for each in FOLDER.glob("*.png")} == {name for name, *_ in SHOTS}
