"""docs/install.md: each command is run here, or is one of a tool that isn't here and names files that are."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from lakemq.model.token import parse_token
from tests.docs.commands import check
from tests.docs.documents import blocks
from tests.packaging.installed import ROOT

PAGE = "docs/install.md"
COMMANDS = [command for block in blocks(PAGE) if block.language == "sh" for command in block.commands()]
OF_OTHERS = ("docker ", "kubectl ", "systemctl ", "useradd ", "install ")
"""Tools of a machine that is a container's host, or has systemd or a cluster: it isn't this one."""
INSTALLS = ("deploy/install-wheel.sh ", "UV=build/bin/uv deploy/install-wheel.sh ", "environment/bin/lakemq ")
"""What `test_wheel.py` does, and an image's build."""


def made_here(command: str) -> bool:
    """Whether it makes secrets."""
    return not command.startswith(("make ", *INSTALLS, *OF_OTHERS))


def test_the_secrets_that_it_makes_are_tokens_that_nobody_else_reads(tmp_path: Path) -> None:
    script = "\n".join(command for command in COMMANDS if made_here(command))
    assert script.count("\n") == 4
    script = script.replace("chown 10001", "chown $(id -u)")  # tests may run as nobody of note
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True)
    for name in ("admin.token", "nameserver.token"):
        file = tmp_path / "deploy/compose/secrets" / name
        parse_token(file.read_text().strip())
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", [each for each in COMMANDS if not made_here(each)])
def test_a_command_names_what_there_is(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if command.startswith("make "):
        check(command, monkeypatch)
    if command.startswith("environment/bin/lakemq "):
        check(command.removeprefix("environment/bin/"), monkeypatch)
    for word in shlex.split(command):
        if re.match(r"(deploy|conf)/", word):
            assert (ROOT / word).exists(), word
