"""What is done to a fleet under load, a fault at a time: each returns once the fault is over, and says what it was."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.gateway.fleet.electing import described, role_of
from tests.reliability.ledger import Ledger
from tests.reliability.network import CLIENT, STORE
from tests.reliability.replica_fleet import Fleet, until
from tests.reliability.verdict import epoch_of
from tests.standstill import Standstill

SET_CHANGE = b'"MOD"'
"""Stands in each compare-and-set of etcd's, and in nothing else that is asked of it."""
STILL_S_MAX = 2.0
MORE = 30
"""So many writes are taken between two faults."""


def until_more(ledger: Ledger, count: int = MORE) -> None:
    """Wait for so many acknowledgements more."""
    least = len(ledger.taken) + count
    until(lambda: len(ledger.taken) >= least, f"{count} more writes are taken")


class Faults:
    """Those of one run, by its seed."""

    def __init__(self, fleet: Fleet, ledger: Ledger, chance: Random) -> None:
        self._fleet = fleet
        self._ledger = ledger
        self._chance = chance
        self.seconds: list[float] = []
        """From each death or standstill of a leader to the next write that was taken."""
        self.ordered: list[float] = []
        """From each order to switch to the next write that its successor took."""
        self.marks: list[tuple[str, float, int]] = []
        """Of each death and each order: which, when it was, and the epoch before."""
        self._cuts = 0
        self.wrong: list[str] = []
        """What a fault itself has shown to be wrong."""

    def kinds(self) -> dict[str, Callable[[], str]]:
        """Each by the name of its option."""
        return {
            "switches": self.switch,
            "deaths": self.kill_leader,
            "pauses": self.pause,
            "follower-deaths": self.kill_follower,
            "store-deaths": self.kill_store,
            "lost-replies": self.lose_reply,
            "damages": self.damage,
            "partitions": self.partition,
            "wipes": self.lose_disk,
            "start-deaths": self.kill_starting,
            "one-way": self.cut_one_way,
        }

    # By order --------------------------------------------------------------------------------

    def switch(self) -> str:
        """A follower is told to lead; no request of a writer fails meanwhile, but for where it is told who leads. Of a
        machine that stands still, leases and answers run out."""
        with Standstill() as still:
            failed, said = self._switch()
        if failed and still.longest_s < STILL_S_MAX:
            self.wrong.append(f"requests failed in a planned switch: {dict(failed)}")
        elif failed:
            return f"{said}; this machine stood still for {still.longest_s:.1f} s, and {dict(failed)} failed"
        return said

    def _switch(self) -> tuple[Counter[str], str]:
        fleet, leader = self._fleet, self._fleet.leader()
        to, epoch = self._chance.choice(fleet.followers()), described(fleet.http(leader))["epoch"]
        before, at_s = Counter(self._ledger.refusals), time.monotonic()
        self.marks.append(("switch", at_s, epoch))
        answer = fleet.http(leader).post("/v1/broker/switch", json={"replica": to})
        assert answer.is_success, answer.text
        answered_s = time.monotonic() - at_s
        found = self._ledger.taken

        def later() -> list[float]:
            return [each.at_s for each in list(found.values()) if epoch_of(each.message_id) > epoch]

        until(lambda: len(later()) > 0, f"replica {to} takes a write")
        self.ordered.append(min(later()) - at_s)
        until_more(self._ledger)
        self._until_follows(leader)
        failed = Counter(self._ledger.refusals) - before
        failed.pop("not_leader", None)
        said = f"answered after {answered_s * 1000:.0f} ms, the next write after {self.ordered[-1] * 1000:.0f} ms"
        return failed, f"{leader} handed over to {to}: {said}"

    # Deaths and standstills ------------------------------------------------------------------

    def kill_leader(self) -> str:
        """kill -9; it comes back as a follower."""
        fleet, leader = self._fleet, self._fleet.leader()
        self.marks.append(("death", time.monotonic(), described(fleet.http(leader))["epoch"]))
        with self._timed():
            fleet.kill(leader)
            self._until_another(leader)
        fleet.start(leader)
        self._until_follows(leader)
        return f"leader {leader} was killed"

    def pause(self) -> str:
        """SIGSTOP beyond the lease, of a leader or a follower."""
        fleet, leader = self._fleet, self._fleet.leader()
        if self._chance.random() < 0.6:
            with self._stopped(leader), self._timed():
                self._until_another(leader)
            self._until_follows(leader)
            return f"leader {leader} stood still"
        follower = self._chance.choice(fleet.followers())
        with self._stopped(follower):
            time.sleep(fleet.lease_s * self._chance.uniform(1.0, 2.0))
            until_more(self._ledger)
        return f"follower {follower} stood still"

    @contextmanager
    def _stopped(self, replica: int) -> Generator[None]:
        pid = self._fleet.running[replica].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill_follower(self) -> str:
        """kill -9, while writes go on."""
        fleet = self._fleet
        follower = self._chance.choice(fleet.followers())
        fleet.kill(follower)
        if self._chance.random() < 0.5:
            until_more(self._ledger)
        fleet.start(follower)
        return f"follower {follower} was killed"

    def kill_starting(self) -> str:
        """kill -9 of the leader, and again as it starts, when it cuts what its successor lacks, or opens its log."""
        fleet, leader = self._fleet, self._fleet.leader()
        fleet.kill(leader)
        self._until_another(leader)
        after_s = [self._chance.uniform(0.0, 1.0) for _ in range(2)]
        for each in after_s:
            fleet.start(leader)
            time.sleep(each)
            fleet.kill(leader)
        fleet.start(leader)
        return (
            f"leader {leader} was killed, and {', '.join(f'{each:.2f} s' for each in after_s)} after it listened again"
        )

    def kill_store(self) -> str:
        """kill -9 of etcd; it goes on with its data after up to two leases, in which a follower may die too."""
        fleet = self._fleet
        assert fleet.etcd is not None, "only an etcd can die"
        dies = self._chance.choice([None, *fleet.followers()])
        fleet.etcd.kill()
        if dies is not None:
            fleet.kill(dies)
        time.sleep(fleet.lease_s * self._chance.uniform(0.2, 2.0))
        fleet.etcd.start()
        if dies is not None:
            fleet.start(dies)
        return f"the store was killed, and replica {dies}"

    def lose_reply(self) -> str:
        """A change of the record is done, and its answer lost: as a follower dies, or the leader."""
        fleet = self._fleet
        assert fleet.wire is not None, "answers are lost on the way to an etcd"
        leader, followers, before = fleet.leader(), fleet.followers(), fleet.wire.lost_count
        dies = leader if self._chance.random() < 0.5 else self._chance.choice(followers)
        fleet.wire.lost = SET_CHANGE
        try:
            fleet.kill(dies)
            until(lambda: fleet.wire is not None and fleet.wire.lost_count > before, "an answer is lost")
        finally:
            fleet.wire.lost = None
        until_more(self._ledger)
        fleet.start(dies)
        return f"the answer to a change after the death of replica {dies}, with leader {leader}, was lost"

    def _until_another(self, than: int) -> None:
        others = [each for each in range(self._fleet.count) if each != than]
        self._fleet.leader(others)

    def _until_follows(self, replica: int) -> None:
        until(lambda: role_of(self._fleet.http(replica)) == "follower", f"replica {replica} follows")

    @contextmanager
    def _timed(self) -> Generator[None]:
        """From here on until a write is taken, which is waited for. Where the one that led acknowledged something after
        the fault had begun, that doesn't count: it was sent before."""
        at_s, taken = time.monotonic(), self._ledger.taken
        yield

        def later() -> list[float]:
            return [each.at_s for each in list(taken.values()) if each.at_s > at_s + 0.05]

        until(lambda: len(later()) > 0, "a write is taken by who leads next")
        self.seconds.append(min(later()) - at_s)
        time.sleep(self._chance.random() / 2)

    # Disks -----------------------------------------------------------------------------------

    def damage(self) -> str:
        """Between the stop and the start of a replica its log's end is cut, a bit of it is flipped, or its disk is
        another one."""
        fleet, chance = self._fleet, self._chance
        replica = chance.choice(list(fleet.running))
        leader, version = fleet.leader(), self._version()
        led = replica == leader
        ends = fleet.kill if chance.random() < 0.5 else fleet.stop
        ends(replica)
        if chance.random() < 0.5:
            until_more(self._ledger)
        how = chance.choice([self._cut_tail, self._flip_bit, self._wipe])
        how(replica)
        before = fleet.refused
        fleet.start_or_begin_anew(replica)
        until(lambda: role_of(fleet.http(replica)) is not None, f"replica {replica} is somebody")
        if how == self._wipe or fleet.refused > before:
            self._until_anew(replica, leader, version)
        anew = ", and its start was refused" if fleet.refused > before else ""
        return f"replica {replica} ({ends.__name__}, led: {led}): {how.__name__}{anew}"

    def lose_disk(self) -> str:
        """kill -9 of a replica, which comes back at once, with its name and its number and nothing else."""
        fleet, leader = self._fleet, self._fleet.leader()
        replica, version = self._chance.choice([leader, *fleet.followers()]), self._version()
        fleet.kill(replica)
        fleet.wipe(replica)
        fleet.start(replica)
        self._until_follows(replica)
        self._until_anew(replica, leader, version)
        return f"replica {replica} lost its disk, where {leader} led"

    def _version(self) -> int:
        """That of the record of who leads."""
        return int(described(self._fleet.http(self._fleet.leader()))["replication"]["record_version"])

    def _until_anew(self, replica: int, leader: int, version: int) -> None:
        """Wait until a follower that has nothing of what it had is let go and a member again, since that version: until
        it was let go it seems to be in sync, and may not lead. A leader is let go as it is replaced."""
        if replica != leader:
            until(lambda: self._version() >= version + 2, f"replica {replica} is a member anew")

    def _newest(self, replica: int) -> tuple[Path, int]:
        """The segment that is written, and up to where it is anything but zeros."""
        newest = max((self._fleet.folder(replica) / "commitlog").glob("*.log"))
        return newest, len(newest.read_bytes().rstrip(b"\0"))

    def _cut_tail(self, replica: int) -> None:
        newest, end = self._newest(replica)
        os.truncate(newest, max(end - self._chance.randrange(1, 3000), 0))

    def _flip_bit(self, replica: int) -> None:
        newest, end = self._newest(replica)
        at = max(end - 1 - self._chance.randrange(3000), 0)
        content = bytearray(newest.read_bytes())
        content[at] ^= 1 << self._chance.randrange(8)
        newest.write_bytes(content)

    def _wipe(self, replica: int) -> None:
        self._fleet.wipe(replica)

    # The network -----------------------------------------------------------------------------

    def partition(self) -> str:
        """One way or both, between the leader and a follower, the store, or the clients; healed after up to three
        leases, or once writes have gone on."""
        fleet, chance = self._fleet, self._chance
        network, leader = fleet.network, str(fleet.leader())
        assert network is not None
        others = [str(chance.choice(fleet.followers())), CLIENT]
        other = chance.choice([*others, STORE] if fleet.etcd is not None else others)
        ways = chance.choice([[(leader, other)], [(other, leader)], [(leader, other), (other, leader)]])
        try:
            for way in ways:
                network.cut(*way)
            time.sleep(fleet.lease_s * chance.uniform(0.2, 3.0))
            if other != CLIENT and chance.random() < 0.5:
                until_more(self._ledger)
        finally:
            network.heal()
        return f"cut: {', '.join(' to '.join(way) for way in ways)}, where {leader} led"

    def cut_one_way(self) -> str:
        """Nothing gets from the leader to a follower, from clients to the leader, or from the leader to the store, in
        turn; all that goes the other way does. Healed after more than a lease."""
        fleet, network = self._fleet, self._fleet.network
        assert network is not None
        leader = str(fleet.leader())
        ways = [(leader, str(self._chance.choice(fleet.followers()))), (CLIENT, leader)]
        ways += [(leader, STORE)] if fleet.etcd is not None else []
        way = ways[self._cuts % len(ways)]
        self._cuts += 1
        try:
            network.cut(*way)
            time.sleep(fleet.lease_s * self._chance.uniform(1.2, 3.0))
        finally:
            network.heal()
        return f"cut: {' to '.join(way)}, where {leader} led"
