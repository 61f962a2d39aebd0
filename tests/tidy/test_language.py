"""Plain English (docs/style.md): phrases that give a translation away stay out of what is clean of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_VERBS = (
    "waits|asks|has|reads|sends|listens|looks|may|can|tries|needs|wants|knows|follows|leads|sees|gets|takes|writes"
    "|holds|is|was|steps|changes|receives|pulls|consumes|produces|serves|calls|said|says|made|makes"
)
GIVEAWAYS = {
    "'who' as a subject: name the actor": rf"(?:^|[.:;(] |\b(?:of|for|to|by|and|from|than|or) )who (?:{_VERBS})\b",
    "'as it comes': say 'by default'": r"\bas (?:it|they) comes?\b(?! in)",
    "'heard of', 'hears of'": r"\b(?:heard|hears?) of\b",
    "'told so'": r"\btold so\b",
    "'what of it', 'of which there', 'of whom'": r"\bwhat of (?:it|them|that)\b|\bof which there\b|\bof whom\b",
    "'held against': say 'compared with', 'checked'": r"\bheld against\b",
    "'taken away': say 'revoked', 'removed'": r"\btaken away\b",
    "'no more': say 'no longer'": r"\bno more\b(?! (?:than|is|of|messages|rows|memory|files))",
    "'anew': say 'again'": r"\banew\b",
    "'goes on with': say 'continues'": r"\bgo(?:es)? on with\b",
    "'for ever': say 'forever'": r"\bfor ever\b",
    "'what becomes of', 'what became of': say 'the outcome'": r"\bwhat (?:becomes|became) of\b",
    "'in the place of': say 'instead of', 'on behalf of'": r"\bin the place of\b",
    "'lets go of': say 'deletes', 'releases'": r"\blets? go of\b",
    "'asked were': name the target": r"\basked (?:are|were)\b",
    "'is such as': say 'looks like'": r"\bis such as\b",
    "'twice is fine': say 'does no harm'": r"\btwice is fine\b",
    "'is over': say 'has ended', 'has expired'": r"\b(?:time|run|redrive|handshake|token|live) (?:is|was) over\b",
    "'nobody knows who'": r"\bnobody knows who\b",
}
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/ARCHITECTURE.md",
    "docs/README.md",
    "docs/admin.md",
    "docs/app.md",
    "docs/backup.md",
    "docs/benchmarks.md",
    "docs/client.md",
    "docs/console.md",
    "docs/databricks.md",
    "docs/delays.md",
    "docs/errors.md",
    "docs/failures.md",
    "docs/fleet.md",
    "docs/frames.md",
    "docs/get_started.md",
    "docs/groups.md",
    "docs/history.md",
    "docs/http.md",
    "docs/install.md",
    "docs/lake.md",
    "docs/log_format.md",
    "docs/logs.md",
    "docs/maintenance.md",
    "docs/metrics.md",
    "docs/migrate.md",
    "docs/notebooks.md",
    "docs/operate.md",
    "docs/operate_fleet.md",
    "docs/order.md",
    "docs/promises.md",
    "docs/reliability.md",
    "docs/replay_erase.md",
    "docs/routing.md",
    "docs/schemas.md",
    "docs/secured.md",
    "docs/security.md",
    "docs/send_receive.md",
    "docs/settings.md",
    "docs/sql.md",
    "docs/tables.md",
    "docs/topics.md",
    "docs/traces.md",
    "docs/transactions.md",
    "docs/trials.md",
    "notebooks/README.md",
)
"""Documents that are clean."""
CODE: tuple[str, ...] = (
    "lakemq/client",
    "lakemq/console",
    "lakemq/contract/headers.py",
    "lakemq/contract/metrics.py",
    "lakemq/contract/nameserver_routes.py",
    "lakemq/contract/routes.py",
    "lakemq/jobs/routing",
    "lakemq/logs",
    "lakemq/model/decide.py",
    "lakemq/model/errors.py",
    "lakemq/model/grace.py",
    "lakemq/model/steady_clock.py",
    "lakemq/model/wheel.py",
    "lakemq/settings",
    "notebooks",
)
"""Files and folders whose docstrings and strings are clean."""
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def findings(text: str) -> Iterator[str]:
    """What is in a text, each with the words around it."""
    plain = re.sub(r"\s+", " ", text)
    for why, pattern in GIVEAWAYS.items():
        for found in re.finditer(pattern, plain, re.IGNORECASE):
            yield f"{why}: …{plain[max(found.start() - 30, 0) : found.end() + 30]}…"


def strings(path: Path) -> Iterator[str]:
    """All text in a file of Python."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_as_written_in_english(page: str) -> None:
    paragraphs = re.split(r"\n\s*\n", _FENCE.sub("", (ROOT / page).read_text("utf-8")))
    assert [found for paragraph in paragraphs for found in findings(paragraph)] == []


def test_strings_and_docstrings_read_as_written_in_english() -> None:
    files = [path for name in CODE for path in ([ROOT / name] if name.endswith(".py") else (ROOT / name).rglob("*.py"))]
    assert files
    assert {
        str(path.relative_to(ROOT)): found for path in files for text in strings(path) for found in findings(text)
    } == {}


def test_the_giveaways_are_found() -> None:
    before = re.findall(r"^\| (?!before)(.+?) \|", (ROOT / "docs/style.md").read_text("utf-8"), re.MULTILINE)
    assert len(before) > 20
    assert len({why.split(":")[0] for text in before for why in findings(text)}) >= 3
    for text in ("It is for who waits.", "a member not heard of", "the file is made anew", "as it comes"):
        assert list(findings(text))
