"""The jars of Delta and of the bare local file system, kept inside the virtual environment.

Spark's own package resolution gets them once (`python -m lakemq.jobs.jars`, which
scripts/setup-jars.sh runs); a session then starts without a resolver and without a network.
"""

from __future__ import annotations

import importlib.metadata
import logging
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from lakemq.model.errors import LakemqError

LOCAL_FS = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
"""Hadoop's local file system without a process forked for each file's permissions."""

ATTEMPTS_MAX = 4
_MANIFEST = "versions.txt"

logger = logging.getLogger(__name__)


def folder() -> Path:
    """Where the jars are kept: inside the environment that this Python runs in."""
    return Path(sys.prefix) / "share" / "lakemq" / "jars"


def installed() -> list[Path]:
    """The jars, sorted; empty when they were never got, or for other versions than these."""
    manifest = folder() / _MANIFEST
    if not manifest.exists() or manifest.read_text(encoding="utf-8") != _versions():
        return []
    return sorted(folder().glob("*.jar"))


def install() -> None:
    """Gets the jars unless they are there; raises `LakemqError` when the network stays away."""
    if installed():
        return
    work = folder().with_name("jars.new")
    for attempt in range(1, ATTEMPTS_MAX + 1):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        logger.info("getting the Delta jars (attempt %d of %d)", attempt, ATTEMPTS_MAX)
        found = _resolve(work / "ivy")
        if found.returncode == 0:
            break
        if attempt == ATTEMPTS_MAX:
            shutil.rmtree(work, ignore_errors=True)
            raise LakemqError(f"can't get the Delta jars: {_last_line(found.stderr)}")
        time.sleep(5 * attempt)
    for jar in _not_in_spark(work / "ivy" / "jars"):
        shutil.copy(jar, work / jar.name)
    shutil.rmtree(work / "ivy")
    (work / _MANIFEST).write_text(_versions(), encoding="utf-8")
    shutil.rmtree(folder(), ignore_errors=True)
    work.rename(folder())


def _versions() -> str:
    delta = importlib.metadata.version("delta-spark")
    return f"delta-spark {delta}\npyspark {pyspark.__version__}\n{LOCAL_FS}\n"


def _resolve(ivy: Path) -> subprocess.CompletedProcess[str]:
    """A short session in a process of its own: its resolver talks a lot."""
    command = [sys.executable, "-m", "lakemq.jobs.jars", str(ivy)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (ours)


def _start_and_stop(ivy: str) -> None:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars.ivy", ivy)
    builder = builder.config("spark.ui.enabled", "false")
    configure_spark_with_delta_pip(builder, [LOCAL_FS]).getOrCreate().stop()


def _not_in_spark(resolved: Path) -> list[Path]:
    """Those of the resolved jars that Spark does not bring itself, in whatever version."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    theirs = {_artifact(jar.name) for jar in spark_jars.glob("*.jar")}
    found = sorted(resolved.glob("*.jar"))
    return [jar for jar in found if _artifact(_without_group(jar.name)) not in theirs]


def _without_group(name: str) -> str:
    return name.partition("_")[2]


def _artifact(name: str) -> str:
    """`delta-storage-4.4.0.jar` → `delta-storage`."""
    return re.sub(r"-\d.*", "", name)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def main() -> None:
    """Installs; with an argument, resolves into that folder (the process of `_resolve`)."""
    if len(sys.argv) > 1:
        _start_and_stop(sys.argv[1])
        return
    logging.basicConfig(level=logging.INFO, format="setup-jars: %(message)s")
    try:
        install()
    except LakemqError as error:
        sys.exit(f"setup-jars: {error.detail}")


if __name__ == "__main__":
    main()
