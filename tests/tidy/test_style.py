"""The style guide, as far as a test can hold it; to be tightened over time."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = {"lakemq": 480, "benchmarks": 480, "tests": 700}
"""By room. A few files come near it; the rest is far shorter, and it may only go down."""
FUNCTION_LINES_MAX = 60
ROOMS = ("lakemq", "tests", "benchmarks")
TEXTS = ("*.py", "*.md", "*.toml", "*.sh", "*.lock", "*.yml", "*.yaml", "*.cfg", "*.ipynb")
FOLDERS = (*ROOMS, "scripts", "docs", "conf", "deploy", "notebooks", ".ci")

# A file that names the registry or the machine it was written on works nowhere else. (Written so
# that this file does not match itself.)
FOREIGN = re.compile(
    r"pypi\.o(?:rg)|python[h]osted|npmjs\.c(?:om)|repo1?\.m(?:aven)|--(?:extra-)?index-u(?:rl)\s*[=\s]http"
    r"|--find-l(?:inks)|(?<![\w.])/(?:root|home|work|opt)/(?=[a-z])|/t(?:mp)/w/|\.py(?:env)\b"
)


def python_files() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def text_files() -> list[Path]:
    tops = [path for pattern in TEXTS for path in ROOT.glob(pattern)]
    below = [path for room in FOLDERS for path in (ROOT / room).rglob("*") if path.is_file()]
    named = [ROOT / "Makefile", ROOT / "LICENSE"]
    return sorted({path for path in (*tops, *below, *named) if path.parent.name != "__pycache__"})


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    """The text of each file of Python, by its name."""
    found = {name_of(path): path.read_text() for path in python_files()}
    assert len(found) > 600
    return found


@pytest.fixture(scope="module")
def trees(modules: dict[str, str]) -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in modules.items()}


def test_a_file_is_one_noun_and_no_longer_than_a_few_screens(modules: dict[str, str]) -> None:
    lines = {name: len(text.splitlines()) for name, text in modules.items()}
    long = [f"{name}: {count} lines" for name, count in lines.items() if count > FILE_LINES_MAX[name.partition("/")[0]]]
    assert not long, "split it"


def test_a_function_fits_a_screen(trees: dict[str, ast.Module]) -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = [
        f"{name}: {node.name} ({lines} lines)"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, functions)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_a_module_says_what_it_is(trees: dict[str, ast.Module]) -> None:
    silent = [name for name, tree in trees.items() if name.startswith("lakemq") and not ast.get_docstring(tree)]
    assert not silent


def test_no_file_is_bound_to_a_registry_or_a_machine() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path in text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not found


def test_every_locked_package_has_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    assert entries
    loose = [
        entry.splitlines()[0] for entry in entries if "==" not in entry.splitlines()[0] or "--hash=sha256:" not in entry
    ]
    assert not loose


def test_every_command_of_make_is_in_the_readme_or_contributing() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z]+):.*##", makefile, re.MULTILINE)
    texts = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    assert targets
    assert [name for name in targets if f"make {name}" not in texts and name != "help"] == []


ASKS = ("Client", "AsyncClient", "get", "head", "post", "put", "patch", "delete", "request", "stream")


def test_who_asks_by_httpx_says_how_long_it_waits(trees: dict[str, ast.Module]) -> None:
    """By itself it waits five seconds, for which a busy machine may stand still."""
    without = [
        f"{name}:{call.lineno}"
        for name, tree in trees.items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr in ASKS) == ("httpx", True)
        and not {"timeout", None} & {each.arg for each in call.keywords}
    ]
    assert not without
