"""What happens to the fleet, step by step, told as it goes."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from lakemq.cli.demo.queries import TOPIC
from lakemq.cli.demo.report import show_checks
from lakemq.cli.fleet import report
from lakemq.cli.fleet.group import Group, Leader
from lakemq.cli.fleet.machine import Fleet
from lakemq.cli.fleet.processes import wait_until
from lakemq.cli.fleet.traffic import Consuming, Heard, Sending
from lakemq.cli.fleet.waiting import Waited, Waiting
from lakemq.cli.output import write_line
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError
from lakemq.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

QUEUES = 4
FIRST, SECOND, THIRD = "broker-a", "broker-b", "broker-c"
DRAIN_S = "240"


class Story:
    """That of one run, on a fleet that is started by it. `flights` are what is replayed. `settings`: by which Spark is
    asked what the lake has; None: there are no jobs, and no lake."""

    def __init__(self, fleet: Fleet, flights: pa.Table, settings: Settings | None) -> None:
        self._fleet, self._flights, self._settings = fleet, flights, settings
        self._begun_s = time.monotonic()
        self._joined = flights.num_rows // 2
        """From this flight on there is a third group."""
        self._sent = 0

    def tell(self) -> bool:
        """All of it; whether all checks hold."""
        self._start()
        with Consuming(self._fleet.name_servers) as consumer:
            waited = self._first_half(consumer.heard)
            self._join()
            self._second_half(consumer.heard)
            found = None if self._settings is None else self._stored(self._settings)
            self._say(f"{consumer.heard.again:,} flights were consumed a second time, as it may be at a switch")
            holds = self._check(consumer.heard, waited, found)
        self._fleet.check_alive()
        return holds

    def _say(self, text: str) -> None:
        write_line(f"[{time.monotonic() - self._begun_s:6.1f} s] {text}")
        sys.stdout.flush()

    # Steps -----------------------------------------------------------------------------------

    def _start(self) -> None:
        fleet = self._fleet
        self._say("starting two name servers, an etcd for the election, and a store for the lake")
        fleet.start_name_servers()
        self._say(f"name servers on {', '.join(fleet.name_servers)}; etcd on {fleet.etcd.url}")
        self._say(f"starting {FIRST} and {SECOND}, of two replicas each; a write is confirmed by both")
        fleet.start_groups(FIRST, SECOND)
        for group in fleet.groups:
            leader = fleet.leader(group)
            self._say(f"{group.name}: replica {leader.replica} leads in epoch {leader.epoch}, on {leader.url}")
            self._make_topic(leader)
        if self._settings is not None:
            self._say(f"starting the jobs {fleet.spark.says}, with the lake in {fleet.lake.says}")
            fleet.start_jobs()

    def _make_topic(self, leader: Leader) -> None:
        with HttpClient(leader.url) as client:
            client.create_topic(TOPIC, QUEUES)

    def _first_half(self, heard: Heard) -> Waited:
        """Kill a leader in the middle of it, and bring it back."""
        fleet, group = self._fleet, self._fleet.groups[0]
        leader = fleet.leader(group)
        waiting = Waiting()
        waiting.begin(leader.url)
        sending = self._send(0, self._joined)
        self._until_sent(sending, self._joined // 2)
        victim = group.replicas[leader.replica]
        self._say(f"kill -9 {victim.process.pid}: replica {leader.replica} of {group.name}, which leads it, is dead")
        killed_s = time.monotonic()
        victim.process.kill()
        after = self._switched(group, leader, killed_s)
        self._until_all_are_sent(sending)
        self._say_what_was_seen(group, killed_s, sending)
        self._say(f"starting replica {leader.replica} of {group.name} again")
        victim.process.start()
        fleet.wait_until_whole(group)
        self._say(f"it follows replica {fleet.leader(group).replica}, and is in sync")
        fleet.command("broker", "list")
        self._say("hearing what waited in the broker meanwhile: alarms, and bookings that were open")
        waited = waiting.end(after.url)
        self._until_heard(heard, self._joined)
        return waited

    def _switched(self, group: Group, before: Leader, killed_s: float) -> Leader:
        """Wait for another leader, and say so."""

        def leads() -> bool:
            leader = group.leader()
            return leader is not None and leader.epoch > before.epoch

        wait_until(leads, f"another replica leads {group.name}", self._fleet.check_alive)
        after = self._fleet.leader(group)
        took_s = time.monotonic() - killed_s
        self._say(f"replica {after.replica} leads {group.name} in epoch {after.epoch}, {took_s:.1f} s after the kill")
        return after

    def _say_what_was_seen(self, group: Group, killed_s: float, sending: Sending) -> None:
        there = [each.at_s for each in sending.sent if each.broker == group.name and each.at_s > killed_s]
        gap_s = max((after - before for before, after in zip([killed_s, *there], there, strict=False)), default=0.0)
        elsewhere = sum(each.broker != group.name and each.at_s > killed_s for each in sending.sent)
        self._say(
            f"{group.name} took no flight for {gap_s:.1f} s, and {len(there):,} after the kill in all; "
            f"the others {elsewhere:,}; no send has failed"
        )

    def _join(self) -> None:
        """Add a third group, and spread the topic over it without disorder."""
        fleet = self._fleet
        self._say(f"adding {THIRD}, of two replicas")
        fleet.start_groups(THIRD)
        leader = fleet.leader(fleet.groups[-1])
        self._say(f"{THIRD}: replica {leader.replica} leads in epoch {leader.epoch}, on {leader.url}")
        self._say(f"lakemq topic spread {TOPIC} --drain: aircraft change their queue once all is consumed")
        fleet.command("topic", "spread", TOPIC, "--drain", "--wait", DRAIN_S)

    def _second_half(self, heard: Heard) -> None:
        count = self._flights.num_rows
        sending = self._send(self._joined, count - self._joined)
        self._until_all_are_sent(sending)
        self._until_heard(heard, count)

    def _stored(self, settings: Settings) -> report.Stored:
        """What the lake has, once it has all."""
        from lakemq.cli.demo.history import History

        fleet = self._fleet
        for group in fleet.groups:
            end = group.end()
            wait_until(
                lambda group=group, end=end: group.is_in_lake(end), f"{group.name} is in the lake", fleet.check_alive
            )
        self._say("all of the three logs is in the lake; asking it, in the Spark that the jobs have started")
        with History(settings, fleet.lake.place) as history:
            return report.stored(history, self._joined)

    def _check(self, heard: Heard, waited: Waited, found: report.Stored | None) -> bool:
        checks = report.flight_checks(self._sent, heard, self._flights.num_rows)
        waiting = report.waited_checks(waited)
        if found is not None:
            checks += report.stored_flight_checks(found, self._flights.num_rows, len(self._fleet.groups))
            waiting += report.stored_waited_checks(found)
        holds = show_checks(checks, "Flights")
        return show_checks(waiting, "What waited while its leader was killed") and holds

    # Traffic ---------------------------------------------------------------------------------

    def _send(self, begin: int, count: int) -> Sending:
        self._say(f"sending {count:,} flights; a consumer takes them")
        return Sending(self._fleet.name_servers, self._flights.slice(begin, count)).start()

    def _until_sent(self, sending: Sending, count: int) -> None:
        """Wait until so many are acknowledged; raises `LakemqError` where one is not."""

        def is_sent() -> bool:
            sending.check()
            return len(sending.sent) >= count

        wait_until(is_sent, f"{count:,} flights are acknowledged", self._fleet.check_alive)

    def _until_all_are_sent(self, sending: Sending) -> None:
        """Wait until its producer is closed."""
        wait_until(lambda: sending.is_over, "all flights are acknowledged", self._fleet.check_alive)
        sending.check()
        self._sent += len(sending.sent)
        self._say(f"{self._sent:,} flights are acknowledged")

    def _until_heard(self, heard: Heard, count: int) -> None:
        try:
            wait_until(lambda: heard.count >= count, f"{count:,} flights are consumed", self._fleet.check_alive)
        except LakemqError as error:
            raise LakemqError(f"{error.detail}; {heard.count:,} are") from error
        self._say(f"{heard.count:,} flights are consumed")
