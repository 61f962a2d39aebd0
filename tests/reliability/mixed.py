"""A broker's replicas of two versions under load: `python -m tests.reliability.mixed --old COMMIT`.

All begin with the older lakemq, a work tree of that commit. Then they go the way of docs/operate_fleet.md, "Upgrade",
and ways that an operator may have to go: the newer leader dies while another replica is the older one, and a replica
goes back to the older version. Before each step something of each kind is begun (`carried.py`), which another leader
has to end. Clients of the older version send and consume all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import httpx

from lakemq.storage.mend.verify import verify_log
from lakemq.testing import start_nameserver
from tests.gateway.fleet.electing import described, role_of
from tests.gateway.http_client import pull_all, put_topic
from tests.reliability.carried import Carried
from tests.reliability.faults import until_more
from tests.reliability.ledger import QUEUES, TOPIC, Ledger, Taken
from tests.reliability.replica_fleet import Fleet, spawn_with, until
from tests.reliability.results import ROOT, append, commit
from tests.reliability.switch import fleet_of, under_load
from tests.reliability.verdict import find, lost

STEPS = (
    "upgrade 1",
    "switch 1",
    "kill 1",
    "start 1",
    "switch 1",
    "upgrade 0",
    "switch 0",
    "downgrade 1",
    "switch 1",
    "kill 1",
    "upgrade 1",
    "stop 0",
    "start 0",
)
STEPS_OF_THREE = (
    "upgrade 2",
    "switch 2",
    "kill 2",  # another one that leads is an older one
    "start 2",
    "upgrade 1",
    "switch 1",
    "kill 1",
    "start 1",
    "switch 2",
    "upgrade 0",
    "switch 0",
    "downgrade 2",
    "switch 2",
    "kill 2",
    "upgrade 2",
    "stop 0",
    "start 0",
)
KILLED_S_MAX = 60


class OldClients:
    """A producer and a push consumer with the lakemq in that folder, from the first to the last line of a `with`."""

    def __init__(self, lakemq: Path, nameserver: str, ledger: Ledger) -> None:
        self._ledger = ledger
        self.heard: set[str] = set()
        self._sent_s = 0.0
        self._ended = threading.Event()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        command = [sys.executable, str(Path(__file__).with_name("old_client.py")), nameserver]
        self._process = subprocess.Popen(
            command,
            env=environment | {"PYTHONPATH": str(lakemq)},
            cwd=lakemq,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, name="old clients")
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "heard" in told:
                self.heard.add(told["heard"])
            elif "sends" in told:
                self._ledger.sent[told["sends"]] = len(self._ledger.sent)
                self._sent_s = time.monotonic()
            elif "sent" in told:  # perhaps several times, so the answer says nothing of when it was stored
                placed = Taken(told["message_id"], told["position"], time.monotonic(), self._sent_s, times=2)
                self._ledger.taken[told["sent"]] = placed
            else:
                self._ended.set()
        self._ended.set()

    def end_sending(self) -> None:
        """What was begun is ended; it goes on consuming."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        until(self._ended.is_set, "the older producer ends")

    def kill(self) -> None:
        """Both end where they are."""
        self._process.kill()
        self._process.wait(KILLED_S_MAX)
        self._thread.join()
        for each in (self._process.stdin, self._process.stdout):
            assert each is not None
            each.close()


@contextmanager
def old_clients(lakemq: Path, nameserver: str, ledger: Ledger) -> Generator[OldClients]:
    clients = OldClients(lakemq, nameserver, ledger)
    try:
        yield clients
    finally:
        clients.kill()


class Steps:
    """What is done to a fleet, a step at a time; each leaves all in sync, but for a death."""

    def __init__(self, fleet: Fleet, old: Path) -> None:
        self._fleet = fleet
        self._old = old
        for each in range(fleet.count):
            fleet.lakemq[each] = old
            fleet.start(each)
        fleet.all_in_sync()

    def take(self, step: str) -> None:
        """Take it."""
        verb, _, replica = step.partition(" ")
        ways: dict[str, Callable[[int], None]] = {
            "upgrade": self._upgrade,
            "downgrade": self._downgrade,
            "switch": self._switch,
            "stop": self._stop,
            "kill": self._kill,
            "start": self._start,
        }
        ways[verb](int(replica))

    def _upgrade(self, replica: int) -> None:
        self._fleet.lakemq.pop(replica, None)
        self._start(replica)

    def _downgrade(self, replica: int) -> None:
        self._fleet.lakemq[replica] = self._old
        self._start(replica)

    def _start(self, replica: int) -> None:
        if replica in self._fleet.running:
            self._fleet.stop(replica)
        self._fleet.start(replica)
        self._fleet.all_in_sync()

    def _switch(self, replica: int) -> None:
        fleet = self._fleet
        answer = fleet.http(fleet.leader()).post("/v1/broker/switch", json={"replica": replica})
        assert answer.is_success, answer.text
        until(lambda: role_of(fleet.http(replica)) == "primary", f"replica {replica} leads")
        fleet.all_in_sync()

    def _stop(self, replica: int) -> None:
        self._fleet.stop(replica)
        self._other_leads(replica)

    def _kill(self, replica: int) -> None:
        self._fleet.kill(replica)
        self._other_leads(replica)

    def _other_leads(self, replica: int) -> None:
        others = [self._fleet.http(each) for each in self._fleet.running if each != replica]
        until(lambda: any(role_of(each) == "primary" for each in others), f"another than replica {replica} leads")


def run(
    directory: Path,
    old: Path,
    steps: Sequence[str] = STEPS,
    store: str = "folder",
    tell: Callable[[str], object] = lambda line: None,
    has_old_nameserver: bool = False,
    replicas: int = 2,
    **options: object,
) -> tuple[list[str], Mapping[str, int]]:
    """Take these steps with replicas in folders there; what is wrong, and counts."""
    ledger, carried = Ledger(), Carried()
    options = {"replication__ack": "sync", "fleet__lease_ms": 3_000, "replication__silent_ms": 3_000, **options}
    spawned_by = partial(spawn_with, old) if has_old_nameserver else None
    with start_nameserver(spawned_by) as nameserver:
        with fleet_of(directory, replicas, store, {}, **options, fleet__nameservers=nameserver.url) as fleet:
            try:
                findings = _run(fleet, Steps(fleet, old), steps, ledger, carried, nameserver.url, old, tell)
            except (AssertionError, RuntimeError, httpx.HTTPError) as error:
                findings = [repr(error)]
            if findings or carried.findings:
                fleet.write_logs(directory / "log")
            gone = 0 if fleet.is_sync or not fleet.running else len(lost(ledger, pull_all(_leader(fleet), TOPIC)))
        damaged = [each for each in range(replicas) if not _is_sound(directory / str(each))]
        findings += [f"the log of replica {each} is damaged" for each in damaged]
    return [*carried.findings, *findings], {"messages": len(ledger.taken), "steps": len(steps), "lost": gone}


def _run(
    fleet: Fleet,
    way: Steps,
    steps: Sequence[str],
    ledger: Ledger,
    carried: Carried,
    nameserver: str,
    old: Path,
    tell: Callable[[str], object],
) -> list[str]:
    put_topic(_leader(fleet), TOPIC, QUEUES)
    with old_clients(old, nameserver, ledger) as clients:
        with under_load(fleet, ledger):
            for step in steps:
                carried.begin(_leader(fleet))
                until_more(ledger)
                begun_s = time.monotonic()
                way.take(step)
                until_more(ledger)
                carried.end(_leader(fleet))
                tell(f"{step}: no write was taken for {longest_s(ledger, begun_s) * 1000:.0f} ms")
            carried.finish(_leader(fleet))
            clients.end_sending()
        until(lambda: not fleet.is_sync or set(ledger.taken) <= clients.heard, "the older consumer has heard all")
    leader = fleet.leader()
    for follower in fleet.followers():
        end = described(fleet.http(leader))["max_position"]
        until(
            lambda follower=follower, end=end: described(fleet.http(follower)).get("confirmed_position", 0) >= end,
            "the follower has all",
        )
        carried.same(fleet.http(leader), fleet.http(follower))
    return find(ledger, pull_all(fleet.http(leader), TOPIC), None if fleet.is_sync else fleet.cut_messages())


def longest_s(ledger: Ledger, begun_s: float) -> float:
    """The longest time since then between two acknowledgements."""
    times = sorted([begun_s, *(each.at_s for each in list(ledger.taken.values()) if each.at_s >= begun_s)])
    return max(after - before for before, after in pairwise(times))


def _leader(fleet: Fleet) -> httpx.Client:
    return fleet.http(fleet.leader())


def _is_sound(folder: Path) -> bool:
    return not folder.exists() or verify_log(folder).sound


@contextmanager
def work_tree_of(commit_of_old: str, directory: Path) -> Generator[Path]:
    """That commit's files, as long as they are needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    folder = directory / "old"
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit_of_old], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.mixed", description=__doc__)
    parser.add_argument("--old", required=True, metavar="COMMIT", help="the older version")
    parser.add_argument("--store", choices=("folder", "etcd", "bucket"), default="folder")
    parser.add_argument("--ack", choices=("sync", "async"), default="sync")
    parser.add_argument("--old-nameserver", action="store_true", help="the name server is the older one too")
    parser.add_argument("--replicas", type=int, choices=(2, 3), default=2, help="of the broker")
    parser.add_argument("--min-in-sync", type=int, choices=(1, 2), default=1, help="fewer of them take no messages")
    parser.add_argument("--steps", help="in this order, with commas between; else one of those in this file")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="where logs of failed runs go")
    chosen = parser.parse_args(arguments)
    usual = STEPS if chosen.replicas == 2 else STEPS_OF_THREE
    chosen.steps = list(usual) if chosen.steps is None else [each.strip() for each in chosen.steps.split(",")]
    if chosen.min_in_sync == chosen.replicas:
        parser.error("--min-in-sync of all replicas: each death would be waited for")
    kinds = {each.rpartition(" ")[0] for each in STEPS}
    for each in chosen.steps:
        verb, _, replica = each.partition(" ")
        if verb not in kinds or replica not in map(str, range(chosen.replicas)):
            parser.error(f"{each!r} is no step: one of {', '.join(sorted(kinds))}, and a replica's number")
    return chosen


def main(arguments: Sequence[str]) -> int:
    chosen, tested, begun_s = parse(arguments), commit(), time.monotonic()
    number = Random().randrange(1_000_000)

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun_s:.0f} s: {line}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="lakemq-mixed-") as name:
        folder = Path(name)
        with work_tree_of(chosen.old, folder) as old:
            options = {"replication__ack": chosen.ack, "replication__min_in_sync": chosen.min_in_sync}
            fleet = folder / "fleet"
            fleet.mkdir()
            findings, counts = run(
                fleet, old, chosen.steps, chosen.store, tell, chosen.old_nameserver, chosen.replicas, **options
            )
            if findings and (fleet / "log").exists():
                kept = chosen.keep / f"mixed-{number}.log"
                kept.write_text((fleet / "log").read_text())
                tell(f"what the gateways said is in {kept}")
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(f"{counts}, {len(findings)} findings\n")
    run_name = f"mixed with {chosen.old}, {chosen.store}" + (", async" if chosen.ack == "async" else "")
    if chosen.replicas > 2:
        run_name += f", {chosen.replicas} replicas, {chosen.min_in_sync} in sync at least"
    append(run_name, number, time.monotonic() - begun_s, dict(counts), findings, tested=tested)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
