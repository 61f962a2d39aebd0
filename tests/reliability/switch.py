"""Replicas of a broker under load and faults, one after the other: `python -m tests.reliability.switch --deaths 20`.

With synchronous replication nothing that was acknowledged may be lost, be there twice, or be out of its order, no
position may be acknowledged for two messages, nothing that a reader was shown may be another message later, and none
is acknowledged by who led after who leads has. With `--ack async` what was acknowledged and is lost must be among
what was cut, and counted. It prints how long after a leader's fault the next write was taken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx

from lakemq.testing import start_nameserver
from lakemq.testing.object_store import ObjectStore
from tests.etcd_server import EtcdServer, find_etcd
from tests.gateway.fleet.electing import ELECTED, described
from tests.gateway.fleet.faulty_wire import FaultyWire
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.fleet.leaderships import BUCKET, options_of
from tests.gateway.http_client import pull_all, put_topic
from tests.reliability.clients import KINDS as CLIENTS
from tests.reliability.clients import Clients
from tests.reliability.faults import Faults, until_more
from tests.reliability.ledger import QUEUES, TOPIC, Ledger, Reader, Writer
from tests.reliability.network import STORE, Network
from tests.reliability.replica_fleet import Fleet, until
from tests.reliability.results import append, commit
from tests.reliability.verdict import epoch_of, find, lost

WRITERS = 4
KINDS = (
    "switches",
    "deaths",
    "pauses",
    "follower-deaths",
    "start-deaths",
    "store-deaths",
    "lost-replies",
    "damages",
    "wipes",
    "partitions",
    "one-way",
)
OF_NETWORK = ("partitions", "one-way")
OF_DISKS = ("damages", "wipes")
OF_ETCD = ("store-deaths", "lost-replies")


class Outcome(NamedTuple):
    """`epochs`: so many acknowledged something; `seconds`: from each fault of a leader to the next
    write that was taken; `findings`: promises that were broken; `lost`: so many that were acknowledged are cut, under
    async; `counted`: so many messages replicas say they cut; `ordered`: from each order to switch to the next write;
    `went_on`: by the fault and the kind of consumer, from the next write to the first that it heard of that leader."""

    done: Counter[str]
    messages: int
    seconds: list[float]
    refusals: Counter[str]
    findings: list[str]
    story: list[str]
    epochs: int
    lost: int = 0
    counted: int = 0
    ordered: Sequence[float] = ()
    went_on: Mapping[str, Sequence[float]] = {}


@contextmanager
def fleet_of(directory: Path, count: int, store: str, faults: Mapping[str, int], **options: Any) -> Generator[Fleet]:
    """So many replicas, none started, with what those faults need. Raises `ValueError` where that can't be had."""
    with ExitStack() as stack:
        network = etcd = wire = None
        if any(faults.get(kind) for kind in OF_NETWORK):
            network = stack.enter_context(Network([*map(str, range(count)), STORE]))
        if store == "etcd":
            program = find_etcd()
            if program is None:
                raise ValueError("there is no etcd: scripts/setup-debian.sh gets Debian's")
            if network is None:
                etcd = EtcdServer(program)
            else:
                etcd = EtcdServer(program, network.address(STORE), network.within(STORE))
            stack.callback(etcd.stop)
            etcd.start()
        if etcd is not None and network is None:
            wire = FaultyWire(etcd.address)
            stack.callback(wire.close)
        if store == "bucket":
            kept = ObjectStore()
            stack.callback(kept.close)
            options["fleet__store"] = f"s3://{BUCKET}/fleet"
            options["fleet__store_options"] = json.dumps(options_of(kept.address))
        fleet = Fleet(directory, count, etcd, wire, network, **{**ELECTED, **options})
        stack.callback(fleet.close)
        yield fleet


@contextmanager
def under_load(fleet: Fleet, ledger: Ledger, clients: Clients | None = None) -> Generator[None]:
    """Writers write and a reader reads meanwhile, and so do the clients."""
    ends, addresses = threading.Event(), [fleet.running[each].url for each in range(fleet.count)]
    users: list[Writer | Reader] = [Writer(each, addresses, ledger, ends, fleet.origin) for each in range(WRITERS)]
    users.append(Reader(addresses, ledger, ends))
    for each in users:
        each.start()
    try:
        if clients is not None:
            clients.start()
        yield
    finally:
        if clients is not None:
            clients.stop()
        ends.set()
        for each in users:
            each.join()


def run(
    directory: Path,
    faults: Mapping[str, int],
    seed: int,
    count: int = 3,
    store: str = "folder",
    tell: Callable[[str], object] = lambda line: None,
    consumers: bool = False,
    **options: Any,
) -> Outcome:
    """So many faults of each kind under load, in an order by the seed, in folders there; then all is looked at.
    `consumers`: clients of the package send and consume meanwhile."""
    with ExitStack() as stack:
        if not consumers:
            return _run(directory, faults, seed, count, store, tell, "", **options)
        nameserver = stack.enter_context(start_nameserver()).url
        return _run(directory, faults, seed, count, store, tell, nameserver, fleet__nameservers=nameserver, **options)


def _run(
    directory: Path,
    faults: Mapping[str, int],
    seed: int,
    count: int,
    store: str,
    tell: Callable[[str], object],
    nameserver: str,
    **options: Any,
) -> Outcome:
    chance, ledger = Random(seed), Ledger()
    clients = Clients(nameserver, ledger) if nameserver else None
    order = [kind for kind in KINDS for _ in range(faults.get(kind, 0))]
    chance.shuffle(order)
    done, story, findings = Counter[str](), list[str](), list[str]()
    with fleet_of(directory, count, store, faults, **{"replication__ack": "sync", **options}) as fleet:
        for each in range(count):
            fleet.start(each)
        fleet.all_in_sync()
        put_topic(fleet.http(fleet.leader()), TOPIC, QUEUES)
        doing = Faults(fleet, ledger, chance)
        counted = Counter[tuple[Any, ...]]()
        try:
            with under_load(fleet, ledger, clients):
                for number, kind in enumerate(order):
                    until_more(ledger)
                    story.append(f"{number} {kind}: {doing.kinds()[kind]()}")
                    tell(story[-1])
                    fleet.all_in_sync()
                    done[kind] += 1
                    _count_cuts(fleet, counted)
                until_more(ledger)
                if clients is not None:
                    until(lambda: not clients.lacking() or not fleet.is_sync, "consumers have heard all")
            found, gone = _look(fleet, ledger, sum(counted.values()))
            findings += [*found, *doing.wrong, *([] if clients is None else clients.failures)]
        except (AssertionError, RuntimeError, httpx.HTTPError) as error:
            gone = 0
            findings.append(f"in fault {len(story)}, after {story[-1:]}: {error!r}")
            _let_end(fleet)
        if findings:
            fleet.write_logs(directory / "log")
        epochs = len({epoch_of(each.message_id) for each in ledger.taken.values()})
        told = len(ledger.taken), doing.seconds, ledger.refusals, findings, story, epochs
        went_on = {} if clients is None else _went_on(doing.marks, ledger, clients)
        return Outcome(done, *told, gone, sum(counted.values()), doing.ordered, went_on)


def _went_on(marks: Sequence[tuple[str, float, int]], ledger: Ledger, clients: Clients) -> dict[str, list[float]]:
    """By fault and consumer, the seconds from the first write that was taken after each to the first message of that
    leader, or of a later one, that it heard."""
    found: dict[str, list[float]] = {}
    for name, _, epoch in marks:
        written_s = min(each.at_s for each in ledger.taken.values() if epoch_of(each.message_id) > epoch)
        for kind in CLIENTS:
            heard = [at_s for (who, its), at_s in clients.began.items() if who == kind and its > epoch]
            if heard:
                found.setdefault(f"{kind}_after_{name}", []).append(max(min(heard) - written_s, 0.0))
    return found


def _let_end(fleet: Fleet) -> None:
    """What a fault left behind must not keep the fleet from ending."""
    if fleet.network is not None:
        fleet.network.heal()


def _count_cuts(fleet: Fleet, counted: Counter[tuple[Any, ...]]) -> None:
    """What each follower says that it cut as it began, once each."""
    for each in fleet.followers():
        cut = described(fleet.http(each)).get("follower_cut")
        if cut is not None:
            counted[each, cut["epoch"], cut["position"], cut["kept"]] = cut["messages"]


def _look(fleet: Fleet, ledger: Ledger, counted: int) -> tuple[list[str], int]:
    """What is wrong, a line each, and how many that were acknowledged are cut."""
    leader = fleet.leader()
    stored = pull_all(fleet.http(leader), TOPIC)
    cut = None if fleet.is_sync else fleet.cut_messages()
    found = find(ledger, stored, cut)
    for each in fleet.running:
        end = wait_for(fleet.http(each), fleet.http(leader))
        until(
            lambda each=each, end=end: broker_of(fleet.http(each))["confirmed_position"] >= end,
            f"all is confirmed at replica {each}",
        )
        if pull_all(fleet.http(each), TOPIC) != stored:
            found.append(f"replica {each} has other messages than replica {leader}, which leads")
    gone = lost(ledger, stored)
    if cut is not None and len(cut) != counted:
        found.append(f"replicas say that they cut {counted} messages, and have kept {len(cut)}")
    return found, len(gone)


def percentile(seconds: Sequence[float], part: float) -> float:
    """The value that so large a part of them doesn't exceed; 0 of none."""
    ordered = sorted(seconds) or [0.0]
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.switch", description=__doc__)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=Random().randrange(1_000_000))
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--lease-ms", type=int, default=3_000)
    parser.add_argument("--store", choices=("folder", "etcd", "bucket"), default="folder")
    parser.add_argument("--ack", choices=("sync", "async"), default="sync")
    parser.add_argument(
        "--consumers", action="store_true", help="clients that know a name server send and consume meanwhile"
    )
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()), help="where logs of failed runs go")
    chosen = parser.parse_args(arguments)
    faults = {kind: getattr(chosen, kind.replace("-", "_")) for kind in KINDS}
    if not any(faults.values()):
        faults["deaths"] = 20
    if chosen.store != "etcd" and any(faults[kind] for kind in OF_ETCD):
        parser.error("what the store does needs --store etcd")
    is_networked = any(faults[kind] for kind in OF_NETWORK)
    if chosen.store == "bucket" and is_networked:
        parser.error("the bucket is in no network of the replicas: partitions are runs with another store")
    if faults["lost-replies"] and is_networked:
        parser.error("lost replies and partitions are runs of their own")
    if chosen.ack == "async" and any(faults[kind] for kind in OF_DISKS):
        parser.error("under async what was on a disk alone is lost with it, and counted by nobody")
    if chosen.ack == "async" and faults["start-deaths"]:
        parser.error("a start that is killed has said what it cut in its log and in a file, and is asked by nobody")
    if chosen.consumers and is_networked:
        parser.error("the name server is in no network of the replicas: partitions are runs without --consumers")
    chosen.faults = faults
    return chosen


def main(arguments: Sequence[str]) -> int:
    chosen, tested, begun_s = parse(arguments), commit(), time.monotonic()
    options = {
        "fleet__lease_ms": chosen.lease_ms,
        "replication__silent_ms": 3_000,
        "replication__ack": chosen.ack,
    }

    def tell(line: str) -> None:
        sys.stdout.write(f"{time.monotonic() - begun_s:.0f} s: {line}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="lakemq-switch-") as folder:
        done = run(
            Path(folder), chosen.faults, chosen.seed, chosen.replicas, chosen.store, tell, chosen.consumers, **options
        )
        if done.findings:
            kept = chosen.keep / f"switch-{chosen.seed}.log"
            kept.write_text((Path(folder) / "log").read_text())
            sys.stdout.write(f"what the gateways said is in {kept}\n")
    for finding in done.findings:
        sys.stdout.write(f"{finding}\n")
    counts = {kind.replace("-", "_"): count for kind, count in done.done.items()}
    counts |= {"epochs": done.epochs, "messages": done.messages}
    for name, seconds in {"": done.seconds, "switch_": done.ordered, **done.went_on}.items():
        prefix = name if name.endswith("_") or not name else f"{name}_"
        if seconds:
            counts |= {f"{prefix}{part}_ms": round(percentile(seconds, share) * 1000) for part, share in PARTS.items()}
    if chosen.ack == "async":
        counts |= {"lost": done.lost, "cut": done.counted}
    sys.stdout.write(f"seed {chosen.seed}: {counts}, {len(done.findings)} findings; {dict(done.refusals)}\n")
    name = f"switch, {chosen.store}" + (", async" if chosen.ack == "async" else "")
    append(name, chosen.seed, time.monotonic() - begun_s, counts, done.findings, tested=tested)
    return 1 if done.findings else 0


PARTS = {"p50": 0.5, "p99": 0.99}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
