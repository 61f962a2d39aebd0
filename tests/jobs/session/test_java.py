"""Without a Java that fits there is one line, with what to install. Nothing here starts Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakemq.jobs.errors import JavaNotFound
from lakemq.jobs.session.java import check_java, fault_of
from tests.cli.shell import Run

FITS = 'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector java.sql"\n'


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, capsys, monkeypatch)


def a_java(folder: Path, release: str | None) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


def test_a_java_that_fits_is_taken_from_java_home_or_the_path(tmp_path: Path) -> None:
    java = a_java(tmp_path / "jdk", FITS)
    check_java({"JAVA_HOME": str(java), "PATH": ""})
    check_java({"PATH": str(java / "bin")})
    check_java({"JAVA_HOME": str(a_java(tmp_path / "bare", None))})


@pytest.mark.parametrize(
    ("release", "fault"),
    [
        (FITS, None),
        ("", None),
        ('JAVA_VERSION="21"\n', None),
        ('JAVA_VERSION="11.0.2"\n', "is version 11"),
        ('JAVA_VERSION="1.8.0_292"\n', "is version 8"),
        ('JAVA_VERSION="17.0.1"\nMODULES="java.base"\n', "lacks the module jdk.incubator.vector"),
    ],
)
def test_what_is_wrong_with_a_java_is_read_from_its_release(release: str, fault: str | None) -> None:
    assert fault_of(release) == fault


def test_a_java_that_can_not_be_used_is_named_with_what_to_install(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", 'JAVA_VERSION="11.0.2"\n')
    for environment, said in (
        ({"PATH": ""}, "Spark needs Java, and none is installed"),
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, and there is no Java in it"),
        ({"JAVA_HOME": str(old)}, "is version 11, and Spark can't use it"),
    ):
        with pytest.raises(JavaNotFound, match=f"{re.escape(said)}.*apt install openjdk-17-jre-headless"):
            check_java(environment)


@pytest.mark.parametrize("command", ["up", "jobs", "sql"])
def test_commands_say_it_in_one_line(command: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake/messages/_delta_log").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEMQ_SPARK__NICENESS", "0")
    done = run(command, *(["SELECT 1"] if command == "sql" else []))
    lines = [line for line in done.stderr.splitlines() if "starting Spark here" not in line]
    assert done.code == 1
    assert len(lines) == 1, done.stderr
    assert f"JAVA_HOME is {tmp_path}, and there is no Java in it" in lines[0]
    assert not (tmp_path / "data").exists()
