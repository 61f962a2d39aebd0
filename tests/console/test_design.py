"""Colours that are used together differ enough to be read, in light and in dark: WCAG 2, level AA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[2] / "lakemq" / "console" / "static" / "console.css").read_text()
TEXT = 4.5
EDGE = 3.0
PAIRS = (
    *[(text, ground, TEXT) for text in ("--text", "--muted", "--accent") for ground in ("--ground", "--surface")],
    *[(text, "--sunken", TEXT) for text in ("--text", "--muted")],
    *[(text, f"{text}-surface", TEXT) for text in ("--good", "--warn", "--bad")],
    *[(text, "--surface", TEXT) for text in ("--good", "--warn", "--bad")],
    *[(text, f"--{kind}-surface", TEXT) for text in ("--text", "--accent") for kind in ("good", "warn", "bad")],
    ("--on-accent", "--accent", TEXT),
    ("--on-bad", "--bad", TEXT),
    ("--edge", "--surface", EDGE),
    ("--edge", "--ground", EDGE),
)


def tokens(dark: bool) -> dict[str, str]:
    light, night = re.findall(r":root \{(.*?)\n *\}", CSS, re.DOTALL)
    found = dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6});", light))
    return found | dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6});", night)) if dark else found


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_written_can_be_read(dark: bool) -> None:
    colours = tokens(dark)
    weak = {
        f"{one} on {other}": round(found, 2)
        for one, other, least in PAIRS
        if (found := contrast(colours[one], colours[other])) < least
    }
    assert weak == {}


def test_colours_are_named_once_and_every_one_has_a_night() -> None:
    light, dark = tokens(False), tokens(True)
    assert {name for name in light if light[name] == dark[name]} == set()
    rules = CSS[CSS.rindex("--on-bad") :]
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?!.*\{)", rules) == []
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", CSS)) <= set(re.findall(r"(--[a-z0-9-]+):", CSS))


def test_black_on_white_is_as_far_apart_as_can_be() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
