"""Commands say who asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Run
from tests.wire.guarded import OTHER, SECRETS, TOKEN, Guarded, guarded, write_token


@pytest.fixture
def peer() -> Iterator[Guarded]:
    with guarded() as begun:
        yield begun


def test_a_token_file_goes_before_the_environment_and_only_for_its_command(
    run: Run, peer: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_TOKEN", OTHER)
    file = write_token(tmp_path, name="mine")
    done = run("--token-file", file, "topic", "list", "--broker", peer.url)
    assert (done.code, done.stderr) == (0, "")
    assert peer.heard == [f"Bearer {TOKEN}"]
    assert os.environ["LAKEMQ_TOKEN"] == OTHER
    assert "LAKEMQ_TOKEN_FILE" not in os.environ
    done = run("topic", "list", "--broker", peer.url)
    assert done.code == 1
    assert "who asks? (it is LAKEMQ_TOKEN)" in done.stderr
    assert not any(secret in done.stderr for secret in SECRETS)


def test_commands_find_the_token_of_this_machine_or_say_why_not(run: Run, peer: Guarded, tmp_path: Path) -> None:
    done = run("topic", "list", "--broker", peer.url)
    assert done.code == 1
    assert "give a token, or put one into LAKEMQ_TOKEN" in done.stderr
    peer.token_file = write_token(tmp_path, mode=0o644)
    assert "may be read or written by others (mode 0644)" in run("topic", "list", "--broker", peer.url).stderr
    peer.token_file = write_token(tmp_path)
    assert run("topic", "list", "--broker", peer.url).code == 0


def test_a_token_file_that_isn_t_there_or_holds_none_is_said_before_anything_is_asked(
    run: Run, peer: Guarded, tmp_path: Path
) -> None:
    assert run("--token-file", str(tmp_path / "none"), "topic", "list", "--broker", peer.url).code == 2
    file = tmp_path / "mine"
    file.write_text("my-secret")
    done = run("--token-file", str(file), "topic", "list", "--broker", peer.url)
    assert done.code == 1
    assert f"{file}, is no token" in done.stderr
    assert "my-secret" not in done.stderr
    assert peer.heard == []
