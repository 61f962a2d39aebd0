"""A broker with the jobs that write its lake, in a folder that commands are given in: what examples and documents are
run against. Routing's queries aren't there, as the gateway does it all without them; `tests/demo` has all of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import httpx

from lakemq.testing import start_gateway, start_nameserver
from tests.cli.examples import Call
from tests.cli.started import Commands
from tests.gateway.http_client import connect, produce
from tests.model.protobuf_files import files_of
from tests.quick_spark import COMMANDS_CONF, QUICK_SPARK

ROOT = Path(__file__).parents[2]
WAIT_S_MAX = 300.0
SPARK_SECRET = "not-to-be-shown"

UNTIL = {
    "up": "stop with Ctrl-C",
    "gateway": "listening on",
    "nameserver": "listening on",
    "console": "listening on",
    "consume": "Ctrl-C ends it",
    "jobs": "",
}
"""Commands that run until Ctrl-C, and when they have begun to."""

EXITS: dict[tuple[str, ...], tuple[int, ...]] = {("doctor",): (0, 1)}
"""Commands whose exit code is a verdict on this machine: how full its disk is, and whether it stood still."""

FLIGHTS = [{"body": "{}", "tag": "UA", "keys": ["UA1545"]}]
ORDERS = [{"body": '{"amount": 20}', "tag": "paid", "keys": ["42", "user-17"], "properties": {"amount": "200"}}]

INVOICE = {"type": "object", "properties": {"id": {"type": "integer"}}}
READING = {"type": "record", "name": "Reading", "fields": [{"name": "celsius", "type": "double"}]}
SHIPMENT = files_of("shop", Shipment={"id": "1 int64", "weight_kg": "2 optional double"})


@dataclass(frozen=True)
class Site:
    """A broker with its lake, and the folder that commands are given in."""

    folder: Path
    url: str
    http: httpx.Client
    nameserver: str
    commands: Commands

    @property
    def environment(self) -> dict[str, str]:
        return QUICK_SPARK | {
            "LAKEMQ_BROKER": self.url,
            "LAKEMQ_LAKE__DIR": "lake",
            "LAKEMQ_LAKE__PARTITIONS": "1",
            "LAKEMQ_SPARK__CONF": json.dumps(COMMANDS_CONF | {"spark.hadoop.lakemq.test.secret": SPARK_SECRET}),
            "LAKEMQ_GATEWAY__PORT": "0",
            "LAKEMQ_CONSOLE__PORT": "0",
            # A gateway that an example starts, and ends, mustn't take this broker's place at the name server.
            "LAKEMQ_BROKER__NAME": "of-an-example",
            "LAKEMQ_STORAGE__DATA_DIR": "own",
        }

    def started_with(self, **more: str) -> dict[str, str]:
        """The whole environment of a command's process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        return kept | self.environment | more

    def start(self, arguments: list[str], log: Path, **more: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "lakemq", *arguments],
                cwd=self.folder,
                env=self.started_with(**more),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def placed(self, call: Call) -> list[str]:
        """The arguments, with what is elsewhere on this machine, and ids that there are."""
        self.make(" ".join(call.arguments))
        if call.path[:1] in (("user",), ("acl",)):
            self._make_user()
        if call.path[:2] == ("topic", "schema"):
            self._make_schema()
        words = [re.sub(r"^/(?=var/|srv/|backups/)", f"{self.folder}/", word) for word in call.arguments]
        replaced = {
            "http://127.0.0.1:9000": self.url,
            **dict.fromkeys(("9000", "9876", "9877", "8088"), "0"),
            "30000": "100",
        }
        replaced["http://127.0.0.1:9000,http://127.0.0.1:9001"] = self.url
        names = "http://127.0.0.1:9876", "http://127.0.0.1:9877"
        replaced |= dict.fromkeys((*names, ",".join(names)), self.nameserver)
        if call.path in (("message", "get"), ("message", "recall"), ("message", "why")):
            replaced |= {words[2]: self._make_message(call.path[1])} if words[2][0] != "-" else {}
        if call.path[:1] == ("dead-letters",):
            letter, redrive = self._make_dead_letter()
            replaced["broker-a.5b1f3c6e0d0a-1.0"] = redrive if call.path[1] == "watch" else letter
        if call.path == ("top",) and "--interval" not in words:
            words += ["--interval", "0.2"]
        if "--client" in words:
            self.http.post("/v1/groups/shipping/members/worker-7/heartbeat", json={}).raise_for_status()
        return [replaced.get(word, word) for word in words]

    def make(self, text: str) -> None:
        """What the text names, however an example before has left it."""
        if "flights" in text:
            produce(self.http, "flights", *FLIGHTS)
        if "alarms" in text:
            self.http.put("/v1/topics/alarms", json={"queues": 3, "message_type": "priority"}).raise_for_status()
        for topic in ("greetings", "shop"):
            if topic in text:
                produce(self.http, topic, "hello")
        if any(name in text for name in ("orders", "billing", "42", "user-17")):
            produce(self.http, "orders", *ORDERS)
        if "billing" in text:
            reset = {"topic": "orders", "to": "earliest"}
            assert self.http.post("/v1/groups/billing/offsets/reset", json=reset).status_code == 200

    def _make_message(self, command: str) -> str:
        """The id of one that this command of `lakemq message` is about."""
        if command == "recall":
            return produce(self.http, "reminders", {"body": "later", "delay_ms": 3_600_000})[0]["message_id"]
        return produce(self.http, "orders", *ORDERS)[0]["message_id"]

    def _make_schema(self) -> None:
        """The topics of the examples anew, one with the first version of its schema."""
        for topic in ("invoices", "readings", "shipments"):
            self.http.delete(f"/v1/topics/{topic}")
            produce(self.http, topic, '{"id": 7}')
        (self.folder / "invoice.schema.json").write_text(json.dumps(INVOICE))
        (self.folder / "reading.avsc").write_text(json.dumps(READING))
        (self.folder / "shipment.desc").write_bytes(SHIPMENT.SerializeToString())
        self.http.put("/v1/topics/invoices/schema", json={"schema": INVOICE}).raise_for_status()

    def _make_dead_letter(self) -> tuple[str, str]:
        """The ids of a dead letter of the group in the examples, and of a redrive that only looked for it."""
        self.make("billing")
        nacks = [{"message_id": produce(self.http, "orders", *ORDERS)[0]["message_id"], "delay_level": -1}]
        self.http.post("/v1/groups/billing/nacks", json={"messages": nacks}).raise_for_status()
        path = "/v1/groups/billing/dead-letters"
        (letter,) = self.http.get(path, params={"max": 1}).raise_for_status().json()["dead_letters"]
        begun = self.http.post(f"{path}/redrive", json={"dry_run": True}).raise_for_status()
        return letter["message_id"], begun.json()["redrive_id"]

    def _make_user(self) -> None:
        """The user of the examples, with a token and a policy, whatever they made of it."""
        ann = "/v1/users/ann"
        self.http.put(ann, json={"type": "normal", "status": "enabled"})
        self.http.post(f"{ann}/tokens", json={"token_id": "5f1d8f0c9a2b4e67", "secret_hash": "0" * 64})
        (self.folder / "ann.token").write_text(f"lmq_1f2e3d4c5b6a7988_{'0' * 64}\n")
        policies = [{"resource": "Topic:orders*", "actions": ["Pub", "Sub"], "sources": [], "decision": "allow"}]
        assert self.http.put(f"{ann}/policies", json={"policies": policies}).status_code == 200


@contextlib.contextmanager
def start_site(folder: Path, commands: Commands) -> Generator[Site]:
    """A broker and the jobs of its lake, ready, until the end."""
    (folder / "orders.ndjson").write_text('{"body": "one"}\n{"body": "two"}\n')
    (folder / "policies.ndjson").write_text('{"resource": "Topic:orders*", "actions": ["Pub", "Sub"]}\n')
    (folder / "report.sql").write_text("SELECT topic, count(*) FROM messages GROUP BY topic\n")
    shutil.copytree(ROOT / "conf", folder / "conf")
    (folder / "notebooks").mkdir()
    for name in ("1_quick_start", "2_exploring_history", "6_operating"):  # which have tests of their own
        (folder / "notebooks" / f"{name}.py").write_text("# Databricks notebook source\nspark.range(1).count()\n")
    with start_gateway(folder / "var/lib/lakemq") as gateway, connect(gateway) as http:
        produce(http, "orders", *ORDERS)
    with (
        start_nameserver() as nameserver,
        start_gateway(folder / "data", lake__dir=folder / "lake", fleet__nameservers=nameserver.url) as gateway,
        connect(gateway) as http,
    ):
        made = Site(folder, gateway.url, http, nameserver.url, commands)
        produce(http, "orders", *ORDERS)
        log = folder / "jobs.log"
        jobs = made.start(["jobs", "lake", "maintenance"], log)
        try:
            wait_for(lambda: http.get("/v1/broker").json()["compacted_position"] > 0, log, jobs)
            wait_for(lambda: (folder / "lake" / "_connect.json").exists(), log, jobs)
            yield made
            jobs.send_signal(signal.SIGINT)
            assert jobs.wait(WAIT_S_MAX) == 0, log.read_text()
        finally:
            jobs.kill()
            jobs.wait()


def wait_for(condition: Callable[[], bool], said: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    end_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end_s, said.read_text()
        assert process is None or process.poll() is None, said.read_text()
        time.sleep(0.05)


def a_java_that_never_gets_up(folder: Path) -> Path:
    """Jobs wait for it all the while, and it ends with them: to start a real one takes longer than most tests.
    It is made once."""
    if folder.exists():
        return folder
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/java").write_text("#!/bin/sh\nexec cat >/dev/null\n")
    (folder / "bin/java").chmod(0o755)
    return folder


def run_until_told(site: Site, arguments: list[str], begun: str, **more: str) -> None:
    """Run the command until it says that it has begun, or starts Java; Ctrl-C then ends it in order. `more`: of its
    environment."""
    log = site.folder / "said.log"
    java = str(a_java_that_never_gets_up(site.folder / "jdk"))
    log.write_bytes(b"")
    if begun:
        process = site.commands.start(arguments, site.folder, log, site.started_with(JAVA_HOME=java, **more))
    else:
        process = site.start(arguments, log, JAVA_HOME=java, **more)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        wait_for(lambda: begun in log.read_text() if begun else children.read_text() != "", log, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S_MAX) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
