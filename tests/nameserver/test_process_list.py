"""A name server as all users of its machine see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lakemq.model.token import make_token
from tests.process_list import command_lines, secrets_below, shown_of


def test_its_tokens_are_not_in_the_list_of_processes(tmp_path: Path) -> None:
    """Nor those of broker, jobs and console (`tests/cli/test_up.py`, `tests/cli/test_secured.py`).
    It starts by itself, as one that is forked has its parent's command line."""
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(f"{make_token(bytes(range(40))).text}\n")
    command = [sys.executable, "-m", "lakemq", "nameserver", "--port", "0"]
    environment = os.environ | {"LAKEMQ_NAMESERVER__TOKEN_FILE": str(file)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as started:
        try:
            assert started.stderr is not None
            assert any("listening on" in line for line in iter(started.stderr.readline, ""))
            lines = command_lines(started.pid)
        finally:
            started.kill()
    assert any(b"nameserver" in line.split(b"\0") for line in lines)
    assert shown_of(secrets_below(tmp_path), lines) == []
