"""kill -9 of the lake's driver while messages, scheduled messages and transactions flow, and in the midst of
its maintenance. The last one ends as another driver takes its lake.

The quick form kills once, amid merges of files. The long form, with all of the maintenance: LAKEMQ_TEST_KILLS=30.
LAKEMQ_TEST_SEED repeats the instants of a failure as near as a machine allows.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from lakemq.cli.supervisor import REPLACED
from lakemq.jobs.lake.query import CHECKPOINTS
from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.runs import read_runs
from lakemq.jobs.tables.driver import PROPERTY
from lakemq.jobs.tables.tables import TABLES
from lakemq.model.topic_table import table_name
from lakemq.storage.lake.delta_log import entries_of, entry_of, is_table
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, put_topic
from tests.jobs.conftest import produce_to
from tests.jobs.lake.test_lake_routing import ask
from tests.jobs.lake_checks import WAIT_S_MAX, check_once_in_each_table, rows_of, wait_until_compacted
from tests.jobs.order_schema import ORDER
from tests.quick_spark import QUICK_SPARK

KILLS = int(os.environ.get("LAKEMQ_TEST_KILLS", "1"))
SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))
JOBS = ("lake", "maintenance")
BEFORE = ("optimize",) if KILLS == 1 else ("optimize", "index-rebuild")
AFTER = () if KILLS == 1 else ("verify",)
SCHEDULED = ("optimize", "vacuum", "retention", "checkpoint_cleanup", "verify", "stats")
"""None of these by the clock: what runs is what was asked for, and the end stops none of it half-way."""
SETTINGS = {
    "LAKEMQ_LAKE__TRIGGER_MS": "0",
    "LAKEMQ_LAKE__MERGE_FILES": "2",
    "LAKEMQ_MAINTENANCE__SMALL_FILES_MIN": "2",
    **{f"LAKEMQ_MAINTENANCE__{job.upper()}": "" for job in SCHEDULED},
}
ALONE: dict[str, Any] = {"routing__lead_ms": 600_000, "routing__grace_ms": -1}
"""There is no routing query: the gateway anticipates all, however slow this is, and checks no half."""
ROUNDS_MAX = 200
"""What each kind of load sends while one driver lives: else a machine that is slow has ever more to catch up with."""
ROUNDS_QUICK = 60
JOBS_QUICK = """
from lakemq.jobs.lake import topic_tables_kept
topic_tables_kept.PAUSE_S = 2.0
from lakemq.cli import main
main()
"""
"""`lakemq`, where a topic's own table isn't half a minute behind."""
EVENTS = {"commit": ["commit", "committed", "half"], "rollback": ["half", "rollback"], "unknown": ["half", "unknown"]}


class Load:
    """Rounds of load, in a thread of their own: so many, and as many again at each `go_on`."""

    def __init__(self, url: str, seed: int, rounds: int = ROUNDS_MAX) -> None:
        self._url, self._random = url, random.Random(seed)
        self._stopped = threading.Event()
        self._left = self._rounds = rounds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        self._left = self._rounds

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.05):
            if self._left:
                self._left -= 1
                self._round()

    def _round(self) -> None:
        raise NotImplementedError


class Messages(Load):
    """Messages to two topics."""

    def __init__(self, url: str, seed: int, rounds: int = ROUNDS_MAX) -> None:
        self.produced: set[tuple[Any, ...]] = set()
        super().__init__(url, seed, rounds)

    def _round(self) -> None:
        topic = self._random.choice(("a", "b"))
        keys = [uuid.uuid4().hex for _ in range(self._random.randint(1, 100))]
        messages = [{"body": key, "keys": [key]} for key in keys]
        for key, answer in zip(keys, produce_to(self._url, topic, messages), strict=True):
            place = (answer["queue_id"], answer["queue_offset"], answer["position"])
            self.produced.add(("broker-a", topic, *place, key))


class Routed(Load):
    """To a third topic: delays of up to three seconds, some of them recalled, and transactions."""

    def __init__(self, url: str, seed: int, rounds: int = ROUNDS_MAX) -> None:
        self.scheduled: dict[str, str] = {}
        self.transactions: dict[str, str] = {}
        super().__init__(url, seed, rounds)

    def stop(self) -> None:
        """Returns once everything is due."""
        super().stop()
        while ask(self._url, "GET", "/v1/routing")["delay"]["waiting"]:
            threading.Event().wait(0.1)

    def _round(self) -> None:
        delays = [self._random.randint(50, 3_000) for _ in range(self._random.randint(1, 20))] + [3_600_000]
        messages: list[dict[str, Any]] = [{"body": "x", "delay_ms": delay} for delay in delays]
        ids = [each["message_id"] for each in self._post("/v1/topics/routed/messages", messages)["messages"]]
        ask(self._url, "DELETE", f"/v1/messages/{ids[-1]}")
        self.scheduled |= dict.fromkeys(ids, "delivered") | {ids[-1]: "recalled"}
        begun = self._post("/v1/topics/routed/transactions?producer_group=g", [{"body": "x"}] * 3)["transactions"]
        for each in begun:
            resolution = self._random.choice(list(EVENTS))
            content = {"producer_group": "g", "resolution": resolution}
            ask(self._url, "POST", f"/v1/transactions/{each['transaction_id']}", content)
            self.transactions[each["message_id"]] = resolution

    def _post(self, path: str, messages: list[dict[str, Any]]) -> Any:
        return ask(self._url, "POST", path, {"messages": messages})


@contextlib.contextmanager
def driver(url: str, lake: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """The jobs that write the lake, in a process of their own; it is killed at the end, however that comes."""
    command = [sys.executable, "-c", JOBS_QUICK, "jobs", *JOBS, "--broker", url, "--lake", str(lake)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output, stdout=output, env=os.environ | QUICK_SPARK | SETTINGS)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    waiting = threading.Event()
    for _ in range(WAIT_S_MAX * 10):
        if b"lake query: ready" in log.read_bytes():
            return
        assert process.poll() is None, log.read_text(encoding="utf-8")
        waiting.wait(0.1)
    raise AssertionError("the lake query did not become ready:\n" + log.read_text(encoding="utf-8"))


def be_replaced(lake: Path, url: str) -> None:
    """As if a driver that no lock keeps out took the lake; and a message that isn't to be committed any more."""
    for table in TABLES:
        while not take(table.path(lake), lake.parent / "taken.json"):
            pass  # a merge came in between: the version after it
    produce_to(url, "a", [{"body": "late"}])


def take(table: Path, scratch: Path) -> bool:
    """Whether the table's next version is one that gives it another driver; False where there is one by now."""
    entries = entries_of(table)
    actions = [json.loads(line) for entry in entries.values() for line in entry.read_text("utf-8").splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    metadata["configuration"][PROPERTY] = "9"
    commit = [{"commitInfo": {"operation": "Manual Update"}}, {"metaData": metadata}]
    scratch.write_text("".join(f"{json.dumps(action)}\n" for action in commit), encoding="utf-8")
    try:
        os.link(scratch, entry_of(table, max(entries) + 1))  # whole as it appears
    except FileExistsError:
        return False
    finally:
        scratch.unlink()
    return True


def own_rows(lake: Path) -> int:
    """How many rows topic a's own table has."""
    return len(rows_of(lake, table_name("a"), ["_position"])) if is_table(lake / table_name("a")) else 0


@pytest.mark.timeout(400 * (KILLS + 2))
def test_a_driver_killed_at_any_instant_leaves_each_row_once(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lake, log = tmp_path / "lake", tmp_path / "jobs.log"
    with start_gateway(tmp_path / "log", **ALONE) as gateway:
        with connect(gateway) as http:
            put_topic(http, "a", 4)
        ask(gateway.url, "PUT", "/v1/topics/a/schema", {"schema": ORDER, "table": True})
        rounds = ROUNDS_QUICK if KILLS == 1 else ROUNDS_MAX
        flow, routed = Messages(gateway.url, SEED, rounds), Routed(gateway.url, SEED, rounds)
        for _ in range(KILLS):
            for job in BEFORE:
                requests.submit(lake, job, {})
            with driver(gateway.url, lake, log) as process:
                wait_until_ready(process, log)
                flow.go_on()
                routed.go_on()
                threading.Event().wait(rng.uniform(0, 3 if KILLS == 1 else 6))
                process.send_signal(signal.SIGKILL)
                process.wait()
            if rng.random() < 0.3:
                shutil.rmtree(lake / CHECKPOINTS, ignore_errors=True)
        with driver(gateway.url, lake, log) as process:
            wait_until_ready(process, log)
            flow.stop()
            routed.stop()
            try:
                wait_until_compacted(gateway.url, lambda: process.poll() is None)
            except AssertionError as error:
                raise AssertionError(log.read_text(encoding="utf-8")) from error
            for job in AFTER:
                requests.submit(lake, job, {})
            while requests.waiting(lake):  # what the killed ones had begun, too
                assert process.poll() is None, log.read_text(encoding="utf-8")
                threading.Event().wait(0.1)
            of_a = sorted((each[4],) for each in flow.produced if each[1] == "a")
            while own_rows(lake) < len(of_a):
                assert process.poll() is None, log.read_text(encoding="utf-8")
                threading.Event().wait(0.5)
            be_replaced(lake, gateway.url)
            assert process.wait(WAIT_S_MAX) == REPLACED, log.read_text(encoding="utf-8")
            assert "another driver has taken" in log.read_text(encoding="utf-8")
    note = f"(LAKEMQ_TEST_SEED={SEED})"
    check_once_in_each_table(lake, flow.produced, note)
    assert rows_of(lake, table_name("a"), ["_position"]) == of_a, note
    ended = [(run.job, run.result, run.error, run.detail) for run in read_runs(lake)]
    assert {(job, result) for job, result, *_ in ended} == {(job, "done") for job in BEFORE + AFTER}, f"{ended} {note}"
    assert rows_of(lake, "scheduled", ["message_id", "state"]) == sorted(routed.scheduled.items()), note
    events: dict[str, list[str]] = {}
    for transaction_id, event in rows_of(lake, "transactions", ["transaction_id", "event"]):
        events.setdefault(transaction_id, []).append(event)
    assert events == {each: EVENTS[resolution] for each, resolution in routed.transactions.items()}, note
