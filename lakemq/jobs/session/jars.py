"""The jars of Delta and of the bare local file system, kept inside the virtual environment.

Spark's own package resolution gets them once (`python -m lakemq.jobs.session.jars`, which
scripts/setup-jars.sh runs); a session then starts without a resolver and without a network.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from lakemq.jobs.errors import JarsUnavailable
from lakemq.jobs.session.java import check_java
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
    """The jars, sorted; empty when they were never got, or for other versions than these.

    All are read, which takes some hundredths of a second: raises `JarsUnavailable` unless they are the
    pinned ones.
    """
    manifest = folder() / _MANIFEST
    if not manifest.exists() or manifest.read_text(encoding="utf-8") != _versions():
        return []
    jars = sorted(folder().glob("*.jar"))
    for jar in jars:
        check_pin(jar)
    missing = pins().keys() - {jar.name for jar in jars}
    if missing:
        raise JarsUnavailable(f"{folder()} lacks {sorted(missing)[0]}: delete the folder, and run make setup")
    return jars


def install(attempts_max: int = ATTEMPTS_MAX) -> list[Path]:
    """Gets the jars unless they are there. Raises `JarsUnavailable` when they can't be had, and why, or
    are not the pinned ones."""
    try:
        if not installed():
            _install(attempts_max)
    except OSError as error:
        raise JarsUnavailable(f"can't keep the Delta jars in {folder()}: {error}") from None
    return installed()


def _install(attempts_max: int) -> None:
    check_java()
    work = folder().with_name("jars.new")
    for attempt in range(1, attempts_max + 1):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        logger.info("getting the Delta jars (attempt %d of %d)", attempt, attempts_max)
        found = _resolve(work / "ivy")
        if found.returncode == 0:
            break
        if attempt == attempts_max:
            shutil.rmtree(work, ignore_errors=True)
            raise JarsUnavailable(f"can't get the Delta jars: {cause_of(found.stdout + found.stderr)}")
        time.sleep(5 * attempt)
    for jar in not_in_spark(work / "ivy" / "jars"):
        shutil.copy(jar, work / jar.name)
    shutil.rmtree(work / "ivy")
    for jar in sorted(work.glob("*.jar")):
        check_pin(jar)
    (work / _MANIFEST).write_text(_versions(), encoding="utf-8")
    shutil.rmtree(folder(), ignore_errors=True)
    work.rename(folder())


def pins(file: str = "jars.sha256") -> dict[str, str]:
    """The SHA-256 of each jar, by its name."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def check_pin(jar: Path, by_name: Mapping[str, str] | None = None) -> None:
    """Raises `JarsUnavailable` unless the jar is the pinned one."""
    with jar.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    pinned = (pins() if by_name is None else by_name).get(jar.name)
    if found != pinned:
        wanted = "it is none that is pinned" if pinned is None else f"the pinned one has {pinned}"
        raise JarsUnavailable(f"{jar} has the SHA-256 {found}, and {wanted}: it is not what lakemq was made with")


def _versions() -> str:
    delta = importlib.metadata.version("delta-spark")
    return f"delta-spark {delta}\npyspark {pyspark.__version__}\n{LOCAL_FS}\n"


def _resolve(ivy: Path) -> subprocess.CompletedProcess[str]:
    """A short session in a process of its own: its resolver talks a lot."""
    command = [sys.executable, "-m", "lakemq.jobs.session.jars", str(ivy)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (ours)


def _start_and_stop(ivy: str) -> None:
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.jars.ivy", ivy)
    builder = builder.config("spark.ui.enabled", "false")
    configure_spark_with_delta_pip(builder, [LOCAL_FS]).getOrCreate().stop()


def not_in_spark(resolved: Path) -> list[Path]:
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


_CAUSES = (
    (r"PKIX|SSLHandshake|SSLPeerUnverified|certificat", "Java does not trust the server's certificate"),
    (r"UnknownHost|Name or service not known|unreachable|NoRouteToHost", "there is no network, or no such host"),
    (r"refused|timed out|ConnectException|SocketException", "the server does not answer"),
    (r"Permission denied|No space left", "they can't be kept"),
    (r"not found|unresolved dependency", "the server does not have them"),
)
"""What the resolver says, and what that means: the first that is found is the cause, others follow from it."""


def cause_of(said: str) -> str:
    """Why the jars couldn't be had, in one line, of all that Spark and its resolver said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for pattern, meaning in _CAUSES:
        found = next((line for line in lines if re.search(pattern, line, re.IGNORECASE)), None)
        if found is not None:
            return f"{meaning} ({found[:300]})"
    return lines[-1] if lines else "Spark said nothing"


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
