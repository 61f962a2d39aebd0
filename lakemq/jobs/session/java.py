"""The Java that Spark will run on, looked at before Spark is started: without one, Spark says so in fifty lines.

Nothing here needs Spark, and no process is started.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from lakemq.jobs.errors import JavaNotFound

VERSION_MIN = 17
MODULE = "jdk.incubator.vector"
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Compiled once and quickly: options for a Java that is soon done. By itself the first leaves room for 48 MiB of code;
a session that has compiled that much spends a tenth of its time on looking for room, and stops compiling."""
INSTALL = "apt install openjdk-17-jre-headless, or what your system calls a Java runtime of version 17"


def check_java(environment: Mapping[str, str] | None = None) -> Path:
    """The `java` that Spark will start: it looks in JAVA_HOME, or on the PATH.

    Raises `JavaNotFound` where there is none that it can use; says what to install.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        if not os.access(command, os.X_OK):
            raise JavaNotFound(
                f"JAVA_HOME is {home}, and there is no Java in it: set it right, or install one ({INSTALL})"
            )
    else:
        found = shutil.which("java", path=environment.get("PATH", os.defpath))
        if found is None:
            raise JavaNotFound(f"Spark needs Java, and none is installed: install one ({INSTALL}), or set JAVA_HOME")
        command = Path(found)
    fault = fault_of(release_of(command))
    if fault is not None:
        raise JavaNotFound(f"the Java in {command} {fault}, and Spark can't use it: install another ({INSTALL})")
    return command


def fault_of(release: str) -> str | None:
    """What is wrong with a Java, by the file `release` that comes with it; None: nothing that it tells."""
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    if version is not None and int(version[1]) < VERSION_MIN:
        return f"is version {version[1]}"
    modules = re.search(r'^MODULES="(.*)"', release, re.MULTILINE)
    if modules is not None and MODULE not in modules[1].split():
        return f"lacks the module {MODULE}"
    return None


def release_of(command: Path) -> str:
    """The file `release` that comes with a Java; empty when there is none."""
    try:
        return (command.resolve().parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
