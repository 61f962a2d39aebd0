"""`python -m tests.jobs.lake.race`: drivers that race for the same versions of a Delta table in a bucket.

Each is a process with a JVM of its own, and makes entry after entry as Delta's commits do, at agreed times. Of each
entry exactly one must have been told that it made it, and what is there must be that one's. `--log-store delta` shows
what becomes of it with Delta's own class. Exits with 1 when an entry was made twice or by nobody.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lakemq.settings import Lake, LakeStorage, Settings, Spark
from lakemq.testing.object_store import ObjectStore

BEGIN_S = 1.0
STARTS_WITHIN_S = 600.0
DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"


def main() -> int:
    """Starts the drivers, and adds up what they say."""
    parser = argparse.ArgumentParser(prog="python -m tests.jobs.lake.race", description=__doc__)
    parser.add_argument("--drivers", type=int, default=2)
    parser.add_argument("--races", type=int, default=300)
    parser.add_argument("--pace-ms", type=int, default=250)
    parser.add_argument("--endpoint", help="of a store; its own one in memory, where there is none")
    parser.add_argument("--log-store", choices=("ours", "delta"), default="ours")
    parser.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.driver is not None:
        _drive(options)
        return 0
    store = None if options.endpoint else ObjectStore()
    with tempfile.TemporaryDirectory(prefix="lakemq-race-") as folder:
        endpoint = options.endpoint or (store.address if store is not None else "")
        won = _run(options, endpoint, Path(folder))
    if store is not None:
        store.close()
    return _judge(won, options.races)


def _run(options: argparse.Namespace, endpoint: str, folder: Path) -> list[set[int]]:
    shared = ["--endpoint", endpoint, "--folder", str(folder), "--races", str(options.races)]
    shared += ["--pace-ms", str(options.pace_ms), "--log-store", options.log_store]
    command = [sys.executable, "-m", "tests.jobs.lake.race", *shared]
    drivers = [subprocess.Popen([*command, "--driver", str(number)]) for number in range(options.drivers)]
    until_s = time.monotonic() + STARTS_WITHIN_S
    while len(list(folder.glob("ready-*"))) < options.drivers:
        if time.monotonic() > until_s or any(driver.poll() is not None for driver in drivers):
            for driver in drivers:
                driver.kill()
            raise SystemExit("a driver doesn't start")
        time.sleep(0.1)
    (folder / "go").touch()
    if any(driver.wait() != 0 for driver in drivers):
        raise SystemExit("a driver failed")
    texts = [(folder / f"won-{number}").read_text() for number in range(options.drivers)]
    return [{int(each) for each in text.split()} for text in texts]


def _drive(options: argparse.Namespace) -> None:
    from lakemq.jobs.session.session import start_session
    from tests.jobs.lake.test_object_storage import entries_by_delta

    storage = LakeStorage(endpoint=options.endpoint, access_key_id="any", secret_access_key="any", allow_http=True)
    table = f"s3://bucket/{options.folder.name}"
    lake = Lake.model_validate({"dir": table, "storage": storage, "work_dir": options.folder / f"{options.driver}"})
    conf = {"spark.delta.logStore.s3.impl": DELTAS_OWN} if options.log_store == "delta" else {}
    settings = Settings(lake=lake, spark=Spark(master="local[1]", driver_memory="512m", conf=conf))
    session = start_session(settings, "race", short_lived=True)
    make = entries_by_delta(session, lake.dir)  # pyright: ignore[reportArgumentType]
    make(lake.dir / "_delta_log" / f"warm-{options.driver}", "warm")
    (options.folder / f"ready-{options.driver}").touch()
    go = options.folder / "go"
    while not go.exists():
        time.sleep(0.005)
    begin_s = go.stat().st_mtime + BEGIN_S
    now_s = time.time  # noqa: TID251 (several processes agree on it)
    won: list[int] = []
    for race in range(options.races):
        time.sleep(max(0.0, begin_s + race * options.pace_ms / 1000 - now_s()))
        if make(lake.dir / "_delta_log" / f"{race:020}.json", f"driver {options.driver}"):
            won.append(race)
    (options.folder / f"won-{options.driver}").write_text(" ".join(map(str, won)))
    session.stop()


def _judge(won: list[set[int]], races: int) -> int:
    counts = Counter(race for each in won for race in each)
    twice = sum(count > 1 for count in counts.values())
    nobody = races - len(counts)
    each = ", ".join(str(len(some)) for some in won)
    print(f"{races} races: won by each driver {each}; by more than one {twice}; by nobody {nobody}")  # noqa: T201
    return int(twice > 0 or nobody > 0)


if __name__ == "__main__":
    sys.exit(main())
