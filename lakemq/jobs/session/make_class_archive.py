"""Makes the archive of Spark's classes: `python -m lakemq.jobs.session.make_class_archive`, which `make setup` runs."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lakemq.jobs.session import class_archive
from lakemq.jobs.session.java import check_java
from lakemq.model.errors import LakemqError

MAKE_S_MAX = 600

logger = logging.getLogger(__name__)


def install() -> None:
    """Makes it unless it is there, and takes away those of other versions. That none can be made is only said."""
    path = class_archive.path_for(check_java())
    if path.exists():
        return
    shutil.rmtree(class_archive.folder(), ignore_errors=True)
    class_archive.folder().mkdir(parents=True)
    new = path.with_suffix(".new")
    command = [sys.executable, "-m", "lakemq.jobs.session.make_class_archive", str(new)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MAKE_S_MAX)  # noqa: S603 (ours)
    except subprocess.TimeoutExpired:
        new.unlink(missing_ok=True)
        logger.warning("no class archive: it took longer than %d s; Spark starts without it", MAKE_S_MAX)
        return
    if done.returncode == 0 and new.exists():
        new.rename(path)
    else:
        new.unlink(missing_ok=True)
        said = (done.stderr or done.stdout).strip().splitlines() or ["Java said nothing"]
        logger.warning("no class archive: %s; Spark starts without it", said[-1])


def _use_spark(archive: str) -> None:
    """A session that does a little of what sessions do; what it loaded is kept as its Java ends."""
    # Here, as `make setup` with nothing to do should cost nothing.
    from lakemq.jobs.session.session import start_session
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
        logger.warning("no class archive: %s; Spark starts without it", error)


if __name__ == "__main__":
    main()
