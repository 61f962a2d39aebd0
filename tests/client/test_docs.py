"""The programs in the documents print what stands below them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakemq.testing import start_gateway

ROOT = Path(__file__).parents[2]
APP = "docs/app.md"
"""Some of its programs are files, which others import: they begin with their name. test_app_page.py runs them."""
LINES_MAX = 20
FILE = re.compile(r"# (\w+\.py)\n")
PAGES = (
    "admin",
    "client",
    "delays",
    "errors",
    "failures",
    "frames",
    "migrate",
    "order",
    "send_receive",
    "transactions",
)
DOCUMENTS = ("README.md", *(f"docs/{page}.md" for page in PAGES), APP)
PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def programs() -> Iterator[tuple[str, str, str | None]]:
    """Each with its place and what it prints."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text()
        for found in PROGRAM.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{document}:{line}", found.group(1), found.group(2)


PROGRAMS = list(programs())


@pytest.fixture(scope="module")
def broker_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The broker of a document's programs: in another document the same topics have other messages."""
    started: dict[str, str] = {}
    with contextlib.ExitStack() as stack:

        def start(document: str) -> str:
            if document not in started:
                gateway = stack.enter_context(start_gateway(tmp_path_factory.mktemp("docs")))
                started[document] = gateway.url
            return started[document]

        yield start


RUN_HERE = [each for each in PROGRAMS if not FILE.match(each[1])]


@pytest.mark.parametrize(("place", "program", "printed"), RUN_HERE, ids=[each[0] for each in RUN_HERE])
def test_a_program_prints_what_stands_below_it(
    broker_of: Callable[[str], str], place: str, program: str, printed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER", broker_of(place.partition(":")[0]))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, place, "exec"), {"__name__": "__main__"})
    assert output.getvalue() == (printed or "")
    assert program.count("\n") <= LINES_MAX


def test_there_are_programs_in_all_documents() -> None:
    assert {place.partition(":")[0] for place, _, _ in PROGRAMS} == set(DOCUMENTS)
