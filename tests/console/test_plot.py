"""Charts of rows, in a browser: bars of several series, stacked ones, and a chart that is kept as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import WAIT_MS, Seen, open_browser
from tests.console.visitor import ConsoleProcess
from tests.gateway.http_client import produce, put_topic

SCRIPT = "<img src=x onerror=alert(1)>"
COLOURS = ("--accent", "--good", "--warn", "--bad", "--plot-5", "--plot-6")
SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAKE = """([columns]) => {
  const around = document.createElement("section");
  around.className = "card plotted";
  around.dataset.plotOf = "";
  const form = Object.assign(document.createElement("form"), { className: "filters" });
  form.dataset.plotForm = "";
  const chart = Object.assign(document.createElement("div"), { className: "chart" });
  chart.dataset.plot = columns;
  around.append(form, chart);
  document.querySelector("main").replaceChildren(around);
  makePlots(around);
}"""
DRAWN = """(names) => {
  const canvas = document.querySelector(".plotted canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const key = `${data[at]},${data[at + 1]},${data[at + 2]}`;
    if (data[at + 3] > 60) found.set(key, (found.get(key) || 0) + 1);
  }
  const near = (wanted) => [...found].reduce((sum, [key, count]) => {
    const off = Math.max(...key.split(",").map((each, at) => Math.abs(Number(each) - wanted[at])));
    return off <= 4 ? sum + count : sum;
  }, 0);
  return names.map((name) => {
    const hex = plotColour(name);
    return near([1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def seen(browser: Browser, console: ConsoleProcess, http: httpx.Client, name: str) -> Iterator[Seen]:
    """A page that has loaded what charts are drawn with."""
    expect.set_options(timeout=WAIT_MS)
    put_topic(http, name)
    produce(http, name, {"body": "x", "delay_ms": 3_600_000})
    made = Seen(browser, console.url)
    made.page.goto("/waiting?span=all")
    expect(made.page.locator(".chart canvas").first).to_be_visible()
    yield made
    made.close()
    assert made.wrong == []


def columns(*series: Sequence[float | None], names: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    found = names or tuple(f"n{at}" for at in range(len(series)))
    days = [f"day {at}" for at in range(len(series[0]))]
    drawn = [{"name": name, "kind": "number", "values": each} for name, each in zip(found, series, strict=True)]
    return [{"name": "day", "kind": "label", "values": days}, *drawn]


def draw(seen: Seen, given: list[dict[str, Any]]) -> None:
    seen.page.evaluate(MAKE, [json.dumps(given)])
    expect(seen.page.locator(".plotted canvas")).to_be_visible()


def tick_all(seen: Seen) -> None:
    boxes = seen.page.get_by_role("checkbox")
    for at in range(boxes.count()):
        if boxes.nth(at).is_enabled():
            boxes.nth(at).check()


def areas(seen: Seen) -> list[int]:
    """Of each series' colour so many pixels."""
    return seen.page.evaluate(DRAWN, list(COLOURS))


@pytest.mark.parametrize("width", [1200, 360])
def test_bars_of_up_to_six_columns_stand_side_by_side_or_on_top_of_each_other(seen: Seen, width: int) -> None:
    seen.page.set_viewport_size({"width": width, "height": 700})
    draw(seen, columns(*[[5.0, 7.0, 6.0]] * 7))
    assert [area > 0 for area in areas(seen)] == [True, *[False] * 5]
    tick_all(seen)
    expect(seen.page.get_by_role("checkbox", disabled=True)).to_have_count(1)
    expect(seen.page.locator(".u-legend .u-series")).to_have_count(7)
    side_by_side = areas(seen)
    assert min(side_by_side) > 0
    assert max(side_by_side) < 2 * min(side_by_side), "equal columns are equally wide"
    seen.page.get_by_label("As", exact=True).select_option("stacked")
    stacked = areas(seen)
    assert min(stacked) > 0
    assert max(stacked) < 2 * min(stacked), "none hides another"
    assert seen.overflow() == 0
    seen.page.get_by_role("checkbox").first.uncheck()
    expect(seen.page.get_by_role("checkbox", disabled=True)).to_have_count(0)


def test_negative_values_are_not_stacked_and_that_is_said(seen: Seen) -> None:
    draw(seen, columns([1.0, -2.0], [None, 3.0]))
    tick_all(seen)
    seen.page.get_by_label("As", exact=True).select_option("stacked")
    expect(seen.page.get_by_role("status")).to_contain_text("Negative values can't be stacked")
    assert [area > 0 for area in areas(seen)[:2]] == [True, True]
    seen.page.get_by_label("As", exact=True).select_option("lines")
    expect(seen.page.get_by_role("status")).to_have_text("")


def test_a_chart_is_kept_as_a_picture_with_its_legend(seen: Seen) -> None:
    draw(seen, columns([1.0, 2.0], [3.0, 4.0], names=(SCRIPT, "a" * 200)))
    tick_all(seen)
    with seen.page.expect_download() as kept:
        seen.page.get_by_role("button", name="Save as PNG").click()
    assert kept.value.suggested_filename == "lakemq-chart.png"
    content = Path(kept.value.path()).read_bytes()
    assert content.startswith(SIGNATURE)
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    canvas = seen.page.evaluate(
        "(() => { const c = document.querySelector('.plotted canvas'); return [c.width, c.height]; })()"
    )
    assert (width, height > canvas[1]) == (canvas[0], True)
