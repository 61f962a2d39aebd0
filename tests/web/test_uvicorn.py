"""What the connection builds on in uvicorn is private there: the version is pinned, and all that is used is named."""

from __future__ import annotations

import ast
import inspect
import textwrap
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lakemq.web import of_uvicorn
from lakemq.web.cycle import Cycle
from lakemq.web.protocol import Connection
from lakemq.web.scope import make_scope
from lakemq.web.watched_connection import WatchedConnection

ROOT = Path(__file__).parents[2]


def attributes(of: Callable[..., object], owner: str) -> set[str]:
    """What a class takes, or sets, of itself or of what it inherits from; or a function of what it is given."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(of)))):
        if isinstance(node, ast.Attribute):
            whose = node.value.func if isinstance(node.value, ast.Call) else node.value
            if isinstance(whose, ast.Name) and whose.id == owner:
                found.add(node.attr)
    return found


def test_the_version_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"]["gateway"]
    assert f"uvicorn=={version('uvicorn')}" in wanted


def test_all_that_is_used_of_its_protocol_is_named() -> None:
    theirs = set(dir(HttpToolsProtocol)) | attributes(HttpToolsProtocol, "self")
    used = attributes(make_scope, "connection")
    for each in (WatchedConnection, Connection):
        used |= attributes(each, "self") | attributes(each, "super") | set(vars(each))
    found = {name for name in used & theirs if not name.startswith("__")}
    assert sorted(found) == sorted(of_uvicorn.PROTOCOL)


def test_all_that_is_used_of_its_cycle_is_named() -> None:
    theirs = set(dir(RequestResponseCycle)) | attributes(RequestResponseCycle, "self")
    used = attributes(Cycle, "self") | attributes(Cycle, "super") | set(vars(Cycle))
    found = {name for name in used & theirs if not name.startswith("__")}
    assert sorted(found) == sorted(of_uvicorn.CYCLE)
