"""The jars of S3A, and the one class of ours that commits to Delta's log in a bucket, kept as `jars` are.

Hadoop asks for all of Amazon's SDK in one jar of 0.7 GB; here are the parts of it that S3A uses. The class is compiled
by the compiler that is part of Spark, as there need not be a JDK.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from lakemq.jobs.errors import JarsUnavailable
from lakemq.jobs.session import jars
from lakemq.model.errors import LakemqError

HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Of the Hadoop that is in pyspark 4.2.0."""
SDK = "2.35.4"
"""The version that this Hadoop was built with."""
_PARTS = ("s3", "sts", "s3-transfer-manager", "apache-client", "netty-nio-client")
_LEFT_OUT = ",".join(
    (
        *("software.amazon.awssdk:bundle", "software.amazon.awssdk:crt-core", "software.amazon.awssdk:aws-crt-client"),
        *("org.wildfly.openssl:wildfly-openssl", "commons-logging:commons-logging"),
    )
)
_SOURCE = Path(__file__).with_name("ConditionalLogStore.java")
_OURS = "lakemq-log-store.jar"
_MANIFEST = "versions.txt"
_PINS = "object_storage_jars.sha256"

logger = logging.getLogger(__name__)


def folder() -> Path:
    """Where they are kept."""
    return jars.folder().with_name("object-storage-jars")


def installed() -> list[Path]:
    """The jars, sorted; empty when they were never got, or for another version than this. Raises `JarsUnavailable`
    unless they are the pinned ones."""
    manifest = folder() / _MANIFEST
    if not manifest.exists() or manifest.read_text(encoding="utf-8") != _versions():
        return []
    found = sorted(folder().glob("*.jar"))
    _check(found)
    return found


def install(attempts_max: int = jars.ATTEMPTS_MAX) -> list[Path]:
    """Gets them unless they are there. Raises `JarsUnavailable`."""
    jars.install(attempts_max)
    try:
        if not installed():
            _install(attempts_max)
    except OSError as error:
        raise JarsUnavailable(f"can't keep the jars of S3A in {folder()}: {error}") from None
    return installed()


def _install(attempts_max: int) -> None:
    work = folder().with_name("object-storage-jars.new")
    for attempt in range(1, attempts_max + 1):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        logger.info("getting the jars of S3A (attempt %d of %d)", attempt, attempts_max)
        command = [sys.executable, "-m", "lakemq.jobs.session.object_storage_jars", str(work)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (ours)
        if found.returncode == 0:
            break
        if attempt == attempts_max:
            shutil.rmtree(work, ignore_errors=True)
            raise JarsUnavailable(f"can't get the jars of S3A: {jars.cause_of(found.stdout + found.stderr)}")
        time.sleep(5 * attempt)
    for jar in jars.not_in_spark(work / "ivy" / "jars"):
        shutil.copy(jar, work / jar.name)
    shutil.rmtree(work / "ivy")
    _check(sorted(work.glob("*.jar")))
    (work / _MANIFEST).write_text(_versions(), encoding="utf-8")
    shutil.rmtree(folder(), ignore_errors=True)
    work.rename(folder())


def _check(found: list[Path]) -> None:
    pins = jars.pins(_PINS)
    for jar in found:
        if jar.name != _OURS:
            jars.check_pin(jar, pins)
    missing = (pins.keys() | {_OURS}) - {jar.name for jar in found}
    if missing:
        raise JarsUnavailable(f"{folder()} lacks {sorted(missing)[0]}: delete the folder, and run make setup")


def _versions() -> str:
    source = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    return f"{HADOOP_AWS}\nawssdk {SDK}\n{_SOURCE.name} {source}\n"


def _resolve_and_compile(work: Path) -> None:
    """In a process of its own: the resolver talks a lot."""
    from pyspark.sql import SparkSession

    wanted = [HADOOP_AWS, *(f"software.amazon.awssdk:{part}:{SDK}" for part in _PARTS)]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars.ivy", str(work / "ivy")).config("spark.jars.packages", ",".join(wanted))
    builder = builder.config("spark.jars.excludes", _LEFT_OUT)
    session = builder.config("spark.driver.extraClassPath", f"{jars.folder()}/*").getOrCreate()
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    classes = compiler.getBytecodes()
    with zipfile.ZipFile(work / _OURS, "w") as jar:
        for name in sorted(classes):
            jar.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class"), bytes(classes[name]))
    session.stop()


def main() -> None:
    """Installs; with an argument, resolves into that folder (the process of `_install`)."""
    if len(sys.argv) > 1:
        _resolve_and_compile(Path(sys.argv[1]))
        return
    logging.basicConfig(level=logging.INFO, format="setup-jars: %(message)s")
    try:
        install()
    except LakemqError as error:
        sys.exit(f"setup-jars: {error.detail}")


if __name__ == "__main__":
    main()
