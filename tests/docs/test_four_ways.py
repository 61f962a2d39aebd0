"""The ways that ARCHITECTURE.md shows go one way: each step leads to the next one by imports,
and never back."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"## Four ways through the rooms\n(.*?)\n## ", re.DOTALL)


@cache
def graph() -> ImportGraph:
    """Who imports whom."""
    return build_graph("lakemq", exclude_type_checking_imports=False)


def ways() -> list[list[str]]:
    """The modules of each way, in its order."""
    found = SECTION.search((ROOT / "docs/ARCHITECTURE.md").read_text())
    assert found is not None
    return [
        ["lakemq." + path.removesuffix(".py").replace("/", ".") for path in re.findall(r"`([^`]+)`", way)]
        for row in found[1].splitlines()
        if "→" in row
        for way in re.split(r";|, and", row)
    ]


WAYS = ways()


def test_there_are_four() -> None:
    assert len(WAYS) >= 4
    assert all(len(way) > 1 for way in WAYS)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way[0] + " to " + way[-1])
def test_each_step_leads_to_the_next_and_none_back(way: list[str]) -> None:
    for before, after in pairwise(way):
        assert graph().find_shortest_chain(before, after) is not None, f"{before} doesn't lead to {after}"
        assert graph().find_shortest_chain(after, before) is None, f"{after} leads back to {before}"
