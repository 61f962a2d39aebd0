"""Spark starts by an archive of its classes where there is one that fits, and without where there is none."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.session import class_archive, make_class_archive
from lakemq.jobs.session.java import check_java


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "folder", lambda: tmp_path / "classes")
    return tmp_path / "classes"


def test_a_session_maps_the_archive_that_there_is(spark: SparkSession) -> None:
    archive = class_archive.path_for(check_java())
    java: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    assert (str(archive) in Path(f"/proc/{java.proc.pid}/maps").read_text()) == archive.exists()


def test_where_there_is_none_java_is_told_nothing(elsewhere: Path) -> None:
    assert class_archive.java_options(check_java()) == ""


def test_one_that_does_not_fit_is_passed_over_without_a_word(elsewhere: Path) -> None:
    java = check_java()
    archive = class_archive.path_for(java)
    archive.parent.mkdir()
    archive.write_bytes(b"no archive" * 1000)
    options = shlex.split(class_archive.java_options(java))
    assert any(str(archive) in option for option in options)
    done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "archive" not in done.stderr


def test_another_java_has_another(tmp_path: Path) -> None:
    release = tmp_path / "release"
    (tmp_path / "bin").mkdir()
    places: set[Path] = set()
    for version in ("17.0.1", "17.0.2"):
        release.write_text(f'JAVA_VERSION="{version}"\n')
        places.add(class_archive.path_for(tmp_path / "bin" / "java"))
    assert len(places) == 2


def test_that_none_can_be_made_is_said_and_no_error(
    elsewhere: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(elsewhere))
    make_class_archive.install()
    assert "Spark starts without" in caplog.text
    assert list(elsewhere.iterdir()) == []
