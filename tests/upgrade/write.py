"""`python -m tests.upgrade.write NAME`: a broker's files and its lake as this lakemq writes them, for those to come.

Run it before what is on disk changes, and once for each release; what is in `corpus/` is never written again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.session.session import start_session
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Settings, Spark
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import wait_until
from tests.jobs.lake_checks import broker_of, wait_until_compacted
from tests.jobs.streams import LakeRun
from tests.upgrade.corpus import CORPUS, SAID
from tests.upgrade.fill import ORDERS, fill, read_all

OPTIONS: dict[str, Any] = {
    "storage__segment_bytes": 2**20,
    "storage__retention_ms": 0,
    "storage__compacted_grace_ms": 0,
    "storage__disk_high_ratio": 1.0,
}


def write(folder: Path) -> None:
    """A log, of which the older segments have left for the lake, and which a kill has ended, with its lake and what was
    said of both."""
    log, lake = folder / "log", folder / "lake"
    with start_gateway(log, lake__dir=lake, **OPTIONS) as gateway, connect(gateway) as http:
        said = fill(http)
        settings = Settings(lake=Lake(dir=lake, trigger_ms=0), spark=Spark(driver_memory="1g"))
        session = start_session(settings, "lakemq upgrade corpus", short_lived=True)
        run = LakeRun(lambda: LakeQuery(session, settings, gateway.url, driver=Driver(session, settings.lake)))
        try:
            wait_until_compacted(gateway.url, run.is_alive)
        finally:
            run.stop()
            session.stop()
        wait_until(lambda: broker_of(gateway.url)["min_position"] > 0, "no segment has left the log")
        produce(http, ORDERS, "the lake lacks this")
        said["topics"] = read_all(http)
        said["broker"] = http.get("/v1/broker").json()
        gateway.kill()
    (folder / SAID).write_text(json.dumps(said, indent=1, ensure_ascii=False))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the version, or of what changes after it, such as 0.1.0")
    archive = CORPUS / f"{parser.parse_args().name}.tar.xz"
    with TemporaryDirectory() as folder:
        write(Path(folder))
        with tarfile.open(archive, "x:xz") as tar:
            for name in (SAID, "log", "lake"):
                tar.add(Path(folder) / name, name, filter=_nobodys)
    sys.stdout.write(f"{archive.name}: {archive.stat().st_size} bytes\n")


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
