"""Receive and acknowledge on a real log against a model, through crashes, repeated and stale decisions, a
full disk and retention, with and without a lead, ordered and not. `LAKEMQ_TEST_EXAMPLES=500` makes it long."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from asyncio import sleep
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.nacks import Nack
from lakemq.gateway.routing.pending import Due
from lakemq.model.errors import MessageNotFound, ReceiptExpired, StoreUnwritable
from lakemq.model.message import Draft
from lakemq.model.names import ACK_TOPIC, NACK_TOPIC, RECEIVE_TOPIC
from lakemq.storage.state.routing_state import position_of
from tests.gateway.routing.harness import Message, Received, RoutingHarness, anybody

EXAMPLES = int(os.environ.get("LAKEMQ_TEST_EXAMPLES", "12"))
LEADS = st.sampled_from([0, 10_000])
PICK = st.integers(0, 1_000)
LOOSE, ORDERED = "loose", "ordered"
GROUPS = st.sampled_from([LOOSE, ORDERED])
MOST = 2


class ReceiveMachine(RuleBasedStateMachine):
    """What consumers, the query, operators and a failing machine may do to what is handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="lakemq-receive-"))
        self.harness = RoutingHarness(self.path, retention_ms=100_000_000, cache_bytes=200_000)
        self.orders: dict[int, tuple[int, str | None]] = {}
        """Of each message that was produced: what keeps its order."""
        self.receipts: list[tuple[str, Received]] = []
        self.acked: dict[str, set[int]] = {LOOSE: set(), ORDERED: set()}
        self.old: list[Posted] = []
        self.gone: list[Message] = []

    @initialize(lead=LEADS)
    def begin(self, lead: int) -> None:
        self.harness.open(lead)

    # Users -----------------------------------------------------------------------------------

    @rule(
        key=st.sampled_from([None, "a", "b", "c", "d"]),
        size=st.sampled_from([1, 100, 150_000]),
        count=st.integers(1, 4),
    )
    def produce(self, key: str | None, size: int, count: int) -> None:
        for _ in range(count):
            draft = Draft(secrets.token_bytes(size), ordering_key=key, queue_id=None if key else count % 2)
            self.orders[self.harness.produce(draft)] = (count % 2 if key is None else -1, key)

    @rule(group=GROUPS, messages_max=st.sampled_from([1, 2, 6]), invisible=st.sampled_from([1, 1_000, 3_600_000]))
    def receive(self, group: str, messages_max: int, invisible: int) -> None:
        before = self.statuses()
        if not self.orders:
            return
        receiving = self.harness.receiving(group, messages_max, invisible, MOST, group == ORDERED)
        received = self.harness.run(receiving)
        assert len(received) <= messages_max
        self.take(group, received, before)

    def take(self, group: str, received: list[Received], before: dict[int, str]) -> None:
        """Check what was handed out, and note it."""
        held = {each.origin for name, each in self.receipts if name == group and before.get(each.receipt) == "out"}
        for each in received:
            assert each.origin not in self.acked[group], "what was acknowledged came back"
            assert each.origin not in held, "what is out was handed out again"
            earlier = [own for name, own in self.receipts if name == group and own.origin == each.origin]
            ran_out = [own for own in earlier if before[own.receipt] in ("expired", "nacked")]
            assert each.reconsume_times == len(ran_out)
            held.add(each.origin)
        if group == ORDERED:
            self.check_order(received, before)
        self.receipts += [(group, each) for each in received]

    def check_order(self, received: list[Received], before: dict[int, str]) -> None:
        """Nothing further of an order while something of it is out, waits, or was not handed out yet."""
        finished = self.acked[ORDERED] | self.dead(ORDERED)
        orders = Counter(self.orders[each.origin] for each in received)
        assert not [order for order, count in orders.items() if count > 1]
        for each in received:
            order = self.orders[each.origin]
            earlier = {origin for origin, other in self.orders.items() if other == order and origin < each.origin}
            assert earlier <= finished | {message.position for message in self.gone}
        out = {
            self.orders[each.origin]
            for name, each in self.receipts
            if name == ORDERED and before[each.receipt] == "out"
        }
        assert out.isdisjoint(orders)

    @precondition(lambda self: self.receipts)
    @rule(picks=st.lists(PICK, min_size=1, max_size=6))
    def acknowledge(self, picks: list[int]) -> None:
        chosen = [self.receipts[pick % len(self.receipts)] for pick in picks]
        before = self.statuses()
        for group in (LOOSE, ORDERED):
            own = [each for name, each in chosen if name == group]
            acking = self.harness.broker.router.acknowledger.acknowledge(
                group, [self.harness.secret_of(each.receipt) for each in own]
            )
            for each, status in zip(own, self.harness.run(acking), strict=True):
                known = each.receipt >= self.harness.broker.log.min_position and before[each.receipt]
                assert status == ("ok" if known in ("out", "acked") else "receipt_expired")
                if status == "ok":
                    self.acked[group].add(each.origin)

    @precondition(lambda self: self.receipts)
    @rule(pick=PICK, invisible=st.sampled_from([0, 0, 1_000, 3_600_000]))
    def change(self, pick: int, invisible: int) -> None:
        group, held = self.receipts[pick % len(self.receipts)]
        before = self.statuses()[held.receipt]
        acknowledger = self.harness.broker.router.acknowledger
        try:
            receipt, _ = self.harness.run(acknowledger.change(group, self.harness.secret_of(held.receipt), invisible))
        except ReceiptExpired:
            assert before != "out"
        else:
            assert before == "out"
            self.receipts.append((group, held._replace(receipt=position_of(receipt))))

    @precondition(lambda self: self.receipts)
    @rule(pick=PICK, level=st.sampled_from([-1, 0, 1]), by_receipt=st.booleans())
    def nack(self, pick: int, level: int, by_receipt: bool) -> None:
        group, held = self.receipts[pick % len(self.receipts)]
        before = self.statuses()
        nack = self.nack_of(held, level, by_receipt)
        try:
            (status,) = self.harness.run(self.harness.broker.router.nacks.nack(group, [nack], anybody))
        except MessageNotFound:
            assert held.position < self.harness.broker.log.min_position
            return
        own = {each.receipt for name, each in self.receipts if name == group and each.position == held.position}
        is_out = before[held.receipt] == "out" if by_receipt else any(before[each] == "out" for each in own)
        assert (status == "ok") == is_out
        if by_receipt and held.receipt >= self.harness.broker.log.min_position and not is_out:
            assert status == ("duplicate" if before[held.receipt] == "nacked" else "receipt_expired")

    def nack_of(self, held: Received, level: int, by_receipt: bool) -> Nack:
        """A nack of a message that was received, by its receipt or by its id."""
        if by_receipt:
            return Nack(None, level, receipt=self.harness.secret_of(held.receipt))
        return Nack(self.harness.id_of(held.position), level)

    @precondition(lambda self: self.receipts)
    @rule(pick=PICK, group=GROUPS, by_receipt=st.booleans())
    def everything_at_once(self, pick: int, group: str, by_receipt: bool) -> None:
        """An acknowledgement, a nack, the query's decision on it, a receive: what was answered must hold."""
        name, held = self.receipts[pick % len(self.receipts)]
        acknowledger, decisions = self.harness.broker.router.acknowledger, self.harness.broker.router.decisions
        receipt = self.harness.secret_of(held.receipt)
        nack = self.nack_of(held, 1, by_receipt)
        (first,), _, _, received, (second,) = self.harness.run_all(
            acknowledger.acknowledge(name, [receipt]),
            self.harness.broker.router.nacks.nack(name, [nack], anybody)
            if held.position >= self.min_position
            else sleep(0),
            decisions.take(self.harness.decisions()),
            self.harness.receiving(group, 3, 1_000, MOST, group == ORDERED),
            acknowledger.acknowledge(name, [receipt]),
        )
        assert first == second
        if first == "ok":
            self.acked[name].add(held.origin)
        origins = [each.origin for each in received]
        assert len(origins) == len(set(origins))
        assert self.acked[group].isdisjoint(origins)
        self.receipts += [(group, each) for each in received]

    # The query, which may be late, repeat itself, or begin anew --------------------------------

    @rule(anew=st.booleans())
    def decide(self, anew: bool) -> None:
        """By the log, or, as a query that begins anew, by what is listed, which are all that are out."""
        decisions = self.harness.decisions_by_listing() if anew else self.harness.decisions()
        listed = [row for row in self.harness.listed(Due(0, NUMBER_MAX), 2) if row["topic"] == RECEIVE_TOPIC]
        out = self.harness.broker.router.state.receipts.out
        assert {row["position"]: row["deliver_at_ms"] for row in listed} == {
            receipt: held.until_ms for receipt, held in out.items()
        }
        self.harness.post(decisions)
        self.old += decisions

    @precondition(lambda self: self.old)
    @rule(picks=st.lists(PICK, min_size=1, max_size=20))
    def repeat_old_decisions(self, picks: list[int]) -> None:
        self.harness.post([self.old[pick % len(self.old)] for pick in picks])

    @rule(ms=st.sampled_from([0, 1, 1_000, 4_000_000]))
    def pass_time(self, ms: int) -> None:
        self.harness.pass_time(ms)

    # The machine -----------------------------------------------------------------------------

    @rule(lead=LEADS, clean=st.booleans())
    def restart(self, lead: int, clean: bool) -> None:
        self.harness.restart(lead, clean)

    @rule(lead=LEADS)
    def restart_without_snapshots(self, lead: int) -> None:
        self.harness.restart_without_snapshots(lead)

    @precondition(lambda self: self.receipts)
    @rule(pick=PICK)
    def fill_the_disk_for_a_while(self, pick: int) -> None:
        group, held = self.receipts[pick % len(self.receipts)]
        self.harness.files.room_bytes = 0
        acknowledger = self.harness.broker.router.acknowledger
        try:
            (status,) = self.harness.run(acknowledger.acknowledge(group, [self.harness.secret_of(held.receipt)]))
            if status == "ok":
                self.acked[group].add(held.origin)
            self.harness.post(self.harness.decisions())
        except StoreUnwritable:
            pass
        finally:
            self.harness.files.room_bytes = None
        self.retain()

    @rule()
    def let_segments_leave(self) -> None:
        log = self.harness.broker.log
        if len(log.segments) < 2:
            return
        log.retention.certain_position = log.next_position
        self.harness.pass_time(100_000_001)
        self.retain()

    def retain(self) -> None:
        """Let go what is old, and keep here what that was."""
        log = self.harness.broker.log
        before = self.harness.messages()
        log.retain()
        self.gone += [m for m in before if m.position < log.min_position]
        self.old = [each for each in self.old if each.cause >= log.min_position]

    # What must hold --------------------------------------------------------------------------

    @property
    def min_position(self) -> int:
        """Where the log begins."""
        return self.harness.broker.log.min_position

    def statuses(self) -> dict[int, str]:
        """What the log says of every receipt."""
        messages = self.everything()
        names = {ACK_TOPIC: "acked", RECEIVE_TOPIC: "changed", NACK_TOPIC: "nacked"}
        effects = {m.get("cause"): names.get(m.topic, "expired") for m in messages if m.get("cause") is not None}
        return {m.position: effects.get(m.position, "out") for m in messages if m.topic == RECEIVE_TOPIC}

    def dead(self, group: str) -> set[int]:
        """The first messages of the group's dead letters."""
        letters = [m for m in self.everything() if m.topic == f"%DLQ%{group}"]
        origins = Counter(int(m.get("origin_message_id").rpartition(".")[2]) for m in letters)
        assert not [origin for origin, count in origins.items() if count > 1]
        return set(origins)

    def everything(self) -> list[Message]:
        """All messages that there ever were."""
        return self.gone + self.harness.messages()

    @invariant()
    def a_snapshot_is_of_one_moment(self) -> None:
        self.harness.check_snapshot()

    @invariant()
    def one_cause_has_one_effect(self) -> None:
        causes = Counter(m.get("cause") for m in self.everything() if m.get("cause") is not None)
        assert not [cause for cause, count in causes.items() if count > 1]

    @invariant()
    def what_is_out_is_what_the_log_says(self) -> None:
        receipts = self.harness.broker.router.state.receipts
        assert sorted(receipts.out) == sorted(each for each, status in self.statuses().items() if status == "out")
        for (group, _), subscription in receipts.subscriptions.items():
            for cursor in subscription.cursors.values():
                outs = [out.offset for out in receipts.out.values() if out.cursor is cursor]
                assert cursor.floor == min([cursor.low, *outs])
            keys = Counter(out.order for out in receipts.out.values() if out.subscription is subscription)
            assert subscription.keys_out == keys
            assert group in (LOOSE, ORDERED)

    def teardown(self) -> None:
        try:
            if self.harness.is_open:
                self.finish()
        finally:
            self.harness.stop()
            shutil.rmtree(self.path, ignore_errors=True)

    def finish(self) -> None:
        """Let everything come to its end, and count."""
        for _ in range(6 * len(self.orders) + 10):
            self.harness.pass_time(4_000_000)
            self.harness.post(self.harness.decisions())
            before = len(self.receipts)
            for group in (LOOSE, ORDERED):
                self.receive(group, 6, 3_600_000)
            if len(self.receipts) == before and not len(self.harness.broker.router.state.receipts):
                break
            self.acknowledge(list(range(len(self.receipts))))
        for group in (LOOSE, ORDERED):
            dead = self.dead(group)
            assert dead.isdisjoint(self.acked[group])
            if not self.gone:
                assert dead | self.acked[group] == set(self.orders)


ReceiveMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    print_blob=True,
)
TestReceiveMachine = ReceiveMachine.TestCase
