"""Spark's classes as Java keeps them in memory, in one file: a session that maps it starts with little more than
half the work of one that reads, checks and links them from a hundred jars.

`make setup` makes it (`python -m lakemq.jobs.class_archive`), for this Java and these jars. Without it all works as
with it, and later: Java passes over one that does not fit.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

from lakemq.jobs import jars
from lakemq.jobs.java import check_java, release_of
from lakemq.model.errors import LakemqError

QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""One that does not fit is no matter for who uses Spark."""
MAKE_S_MAX = 600

logger = logging.getLogger(__name__)


def folder() -> Path:
    """Where it is kept: inside the environment that this Python runs in."""
    return Path(sys.prefix) / "share" / "lakemq" / "classes"


def path_for(java: Path) -> Path:
    """Where the one for that Java, these versions and this place is, or would be."""
    parts = (release_of(java), str(java.resolve()), pyspark.__version__, sys.prefix, *sorted(jars.pins().values()))
    return folder() / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def java_options(java: Path) -> str:
    """What makes that Java use it; empty where there is none."""
    path = path_for(java)
    return f' "-XX:SharedArchiveFile={path}" -Xshare:auto {QUIET}' if path.exists() else ""


def install() -> None:
    """Makes it unless it is there, and takes away those of other versions. That none can be made is only said."""
    path = path_for(check_java())
    if path.exists():
        return
    shutil.rmtree(folder(), ignore_errors=True)
    folder().mkdir(parents=True)
    new = path.with_suffix(".new")
    command = [sys.executable, "-m", "lakemq.jobs.class_archive", str(new)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAKE_S_MAX)  # noqa: S603 (ours)
    except subprocess.TimeoutExpired:
        new.unlink(missing_ok=True)
        logger.warning("no archive of classes: it took longer than %d s; Spark starts without", MAKE_S_MAX)
        return
    if done.returncode == 0 and new.exists():
        new.rename(path)
    else:
        new.unlink(missing_ok=True)
        said = (done.stderr or done.stdout).strip().splitlines() or ["Java said nothing"]
        logger.warning("no archive of classes: %s; Spark starts without", said[-1])


def _use_spark(archive: str) -> None:
    """A session that does a little of what sessions do; what it loaded is kept as its Java ends."""
    from lakemq.jobs.session import start_session
    from lakemq.settings import Settings, Spark, Sql

    with tempfile.TemporaryDirectory(prefix="lakemq-classes-") as work:
        option = {"spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
        settings = Settings(spark=Spark(conf=option, driver_memory="1g"), sql=Sql(port=0))
        session = start_session(settings, "lakemq classes", short_lived=True, server=True)
        table, copy, checkpoint = (str(Path(work) / name) for name in ("table", "copy", "checkpoint"))
        for _ in range(2):
            session.range(100).selectExpr("id", "string(id) AS text").write.format("delta").mode("append").save(table)
        session.sql(f"DELETE FROM delta.`{table}` WHERE id < 5")  # noqa: S608 (ours)
        session.sql(f"OPTIMIZE delta.`{table}`")
        session.sql(f"SELECT text, count(*) FROM delta.`{table}` GROUP BY text ORDER BY 2").collect()  # noqa: S608 (ours)
        written = session.readStream.format("delta").load(table).dropDuplicates(["id"]).writeStream.format("delta")
        query = written.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(copy)
        query.awaitTermination()
        java: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        session.stop()
        java.shutdown()
        java.proc.stdin.close()
        java.proc.wait()


def main() -> None:
    """Installs; with an argument, makes it there (the process of `install`)."""
    if len(sys.argv) > 1:
        _use_spark(sys.argv[1])
        return
    logging.basicConfig(level=logging.INFO, format="setup-classes: %(message)s")
    try:
        install()
    except (LakemqError, OSError) as error:
        logger.warning("no archive of classes: %s; Spark starts without", error)


if __name__ == "__main__":
    main()
