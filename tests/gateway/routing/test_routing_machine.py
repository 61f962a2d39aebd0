"""The executor on a real log against a model, through crashes, repeated and stale decisions, a full
disk, retention, and both with and without a lead. `LAKEMQ_TEST_EXAMPLES=500` makes it long."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.routing.decisions import Posted
from lakemq.gateway.routing.nacks import Nack
from lakemq.gateway.routing.pending import Due
from lakemq.model.errors import AlreadyDelivered, StoreUnwritable, TransactionResolved
from lakemq.model.message import Draft
from lakemq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, NACK_TOPIC, OP_TOPIC, SCHEDULE_TOPIC
from tests.gateway.routing.harness import TOPIC, Message, RoutingHarness, anybody

EXAMPLES = int(os.environ.get("LAKEMQ_TEST_EXAMPLES", "12"))
GROUP = "pg"
LEADS = st.sampled_from([0, 10_000])
GRACES = st.sampled_from([-1, 0, 5_000])
DELAYS = st.sampled_from([1, 900, 5_000, 20_000, 3_600_000])
PICK = st.integers(0, 1_000)


class RoutingMachine(RuleBasedStateMachine):
    """Everything that producers, consumers, queries, operators and a failing machine may do."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="lakemq-routing-"))
        self.harness = RoutingHarness(self.path, retention_ms=100_000_000, cache_bytes=200_000)
        self.due: dict[int, int] = {}
        self.recalled: set[int] = set()
        self.outcome: dict[int, str | None] = {}
        self.nacked: dict[tuple[str, int], tuple[int, int]] = {}
        self.old: list[Posted] = []
        self.gone: list[Message] = []

        self.by_itself = self.by_listing = False

    @initialize(lead=LEADS, grace=GRACES)
    def begin(self, lead: int, grace: int) -> None:
        self.harness.open(lead, grace)

    @rule()
    def decide_what_is_overdue(self) -> None:
        self.harness.decide_overdue()

    # Users -----------------------------------------------------------------------------------

    @rule(delay=DELAYS, size=st.sampled_from([1, 100, 200_000]))
    def schedule(self, delay: int, size: int) -> None:
        now = self.harness.broker.log.now_ms()
        position = self.harness.produce(Draft(secrets.token_bytes(size), delay_ms=delay))
        self.due[position] = now + delay

    @precondition(lambda self: self.due)
    @rule(pick=PICK)
    def recall(self, pick: int) -> None:
        position = sorted(self.due)[pick % len(self.due)]
        try:
            self.harness.run(self.harness.broker.router.recalls.recall(self.harness.id_of(position), anybody))
        except AlreadyDelivered:
            assert position not in self.recalled
            assert self.harness.clock.time_ms >= self.due[position]
        else:
            self.recalled.add(position)

    @rule()
    def begin_transaction(self) -> None:
        self.outcome[self.harness.produce(Draft(b"half"), GROUP)] = None

    @precondition(lambda self: self.outcome)
    @rule(pick=PICK, resolution=st.sampled_from(["commit", "commit", "rollback", "unknown"]))
    def resolve(self, pick: int, resolution: str) -> None:
        origin = sorted(self.outcome)[pick % len(self.outcome)]
        before = self.outcome[origin]
        transactions = self.harness.broker.router.transactions
        try:
            self.harness.run(transactions.resolve(self.harness.secret_of(origin), GROUP, resolution))
        except TransactionResolved:
            given_up = self.harness.secret_of(origin) in self.ids_in(CHECK_MAX_TOPIC)
            assert resolution != (before or "rollback")
            assert before is not None or given_up
        else:
            assert resolution == "unknown" or before in (None, resolution)
            if resolution != "unknown":
                self.outcome[origin] = resolution

    @rule(pick=PICK, group=st.sampled_from(["g", "h"]), level=st.sampled_from([0, 1, -1]), most=st.integers(0, 3))
    def nack(self, pick: int, group: str, level: int, most: int) -> None:
        own = [m for m in self.harness.messages() if m.topic in (TOPIC, f"%RETRY%{group}")]
        if not own:
            return
        message = own[pick % len(own)]
        nack = Nack(self.harness.id_of(message.position), level, most)
        (status,) = self.harness.run(self.harness.broker.router.nacks.nack(group, [nack], anybody))
        key = (group, message.position)
        assert (status == "duplicate") == (key in self.nacked)
        self.nacked.setdefault(key, (level, most))

    # The queries, which may be late, repeat themselves, or begin anew ------------------------

    @rule()
    def decide(self) -> None:
        decisions = self.harness.decisions()
        self.harness.post(decisions)
        self.old += decisions

    @rule(count_max=st.sampled_from([1, 7, 10_000]))
    def list_what_is_pending(self, count_max: int) -> None:
        """All of it and nothing else, each with what the log says of it."""
        harness = self.harness
        state = harness.broker.router.state
        by_position = {m.position: m for m in harness.messages()}
        listed = harness.listed(Due(0, NUMBER_MAX), count_max)
        pending = set(state.delays - state.decided) | set(state.halves) | set(state.nacks)
        assert sorted(row["position"] for row in listed) == sorted(pending)
        for row in listed:
            message = by_position[row["position"]]
            if row["topic"] == OP_TOPIC:
                assert (message.topic, row["tag"]) == (HALF_TOPIC, self.resolution_of(message))
                continue
            assert row["topic"] == message.topic
            assert message.topic == HALF_TOPIC or row["deliver_at_ms"] == message.get("deliver_at_ms")
            assert row["store_time_ms"] in (None, message.store_time_ms)
            if message.topic != SCHEDULE_TOPIC:  # of these when they are due is all
                assert all((row[name] or 0) == (message.get(name) or 0) for name in ("check_times", "reconsume_times"))
            assert dict(row["properties"] or ()) == (message.get("properties") or {}) or message.topic != NACK_TOPIC

    def resolution_of(self, half: Message) -> str | None:
        origin = half.get("transaction_id")
        return self.outcome[half.position if origin is None else int(origin.rpartition(".")[2])]

    @rule()
    def decide_by_a_listing(self) -> None:
        decisions = self.harness.decisions_by_listing()
        self.harness.post(decisions)
        self.old += decisions

    @rule(size=st.sampled_from([1, 100]), level=st.sampled_from([1, -1]))
    def everything_at_once(self, size: int, level: int) -> None:
        """A frame may hold rows of all kinds, and what is asked at once must not come in between."""
        harness = self.harness
        now = harness.broker.log.now_ms()
        plain = harness.produce(Draft(b"plain"))
        first = harness.produce(Draft(b"half"), GROUP)
        posted = harness.decisions()
        router = harness.broker.router
        asked = [
            harness.storing(Draft(secrets.token_bytes(size), delay_ms=900), None),
            router.nacks.nack("g", [Nack(harness.id_of(plain), level, 1)], anybody),
            router.nacks.nack("h", [Nack(harness.id_of(plain), level, 1)], anybody),
            router.transactions.resolve(harness.secret_of(first), GROUP, "commit"),
            harness.storing(Draft(b"half"), GROUP),
            router.decisions.take([Posted(first, "check", None)]),
            router.decisions.take(posted),
            router.decisions.take(posted),
        ]
        answers = harness.run_all(*asked)
        self.due[answers[0]] = now + 900
        self.nacked |= {("g", plain): (level, 1), ("h", plain): (level, 1)}
        self.outcome |= {first: "commit", answers[4]: None}

    @precondition(lambda self: self.old)
    @rule(picks=st.lists(PICK, min_size=1, max_size=20))
    def repeat_old_decisions(self, picks: list[int]) -> None:
        self.harness.post([self.old[pick % len(self.old)] for pick in picks])

    @rule(ms=st.sampled_from([0, 1, 500, 6_000, 60_000, 4_000_000]))
    def pass_time(self, ms: int) -> None:
        self.harness.pass_time(ms)

    # The machine -----------------------------------------------------------------------------

    @rule(lead=LEADS, grace=GRACES, clean=st.booleans())
    def restart(self, lead: int, grace: int, clean: bool) -> None:
        self.harness.restart(lead, clean, grace)

    @rule(lead=LEADS, grace=GRACES)
    def restart_without_snapshots(self, lead: int, grace: int) -> None:
        self.harness.restart_without_snapshots(lead, grace)

    @rule()
    def have_the_queries_die(self) -> None:
        """Then all comes to its end without them."""
        self.by_itself = True

    @rule()
    def have_the_queries_begin_anew(self) -> None:
        """From then on they know what waits from listings alone."""
        self.by_listing = True

    @rule()
    def fill_the_disk_for_a_while(self) -> None:
        self.harness.files.room_bytes = 0
        try:
            self.harness.post(self.harness.decisions())
        except StoreUnwritable:
            pass
        finally:
            self.harness.files.room_bytes = None
        self.harness.broker.log.retain()

    @rule()
    def let_segments_leave(self) -> None:
        log = self.harness.broker.log
        if len(log.segments) < 2:
            return
        self.harness.pass_time(100_000_001)
        before = self.harness.messages()
        log.retention.certain_position = log.next_position
        log.retain()
        self.harness.run(self.harness.broker.router.make_room())
        self.gone += [m for m in before if m.position < log.min_position]
        self.old = [each for each in self.old if each.cause >= log.min_position]

    # What must hold --------------------------------------------------------------------------

    @invariant()
    def a_snapshot_is_of_one_moment(self) -> None:
        self.harness.check_snapshot()

    @invariant()
    def one_cause_has_one_effect(self) -> None:
        causes = Counter(m.get("cause") for m in self.everything() if m.get("cause") is not None)
        assert not [cause for cause, count in causes.items() if count > 1]

    @invariant()
    def nothing_is_early(self) -> None:
        for message in self.everything():
            if message.topic != SCHEDULE_TOPIC and message.topic.startswith((TOPIC, "%RETRY%")):
                assert message.store_time_ms >= (message.get("deliver_at_ms") or 0)

    def teardown(self) -> None:
        try:
            if self.harness.is_open:
                self.finish()
        finally:
            self.harness.stop()
            shutil.rmtree(self.path, ignore_errors=True)

    def finish(self) -> None:
        """Let everything come to its end, and count."""
        if self.by_itself:
            self.harness.restart(0, clean=False, grace_ms=5_000)
        for _ in range(60):
            self.harness.pass_time(10_000_000)
            if self.by_itself:
                self.harness.decide_overdue()
            elif self.by_listing:
                self.harness.post(self.harness.decisions_by_listing())
            else:
                self.harness.post(self.harness.decisions())
        state = self.harness.broker.router.state
        assert (len(state.delays), len(state.nacks), len(state.transactions)) == (0, 0, 0)
        messages = self.everything()
        delivered = Counter(m.get("origin_message_id") for m in messages if m.topic == TOPIC and m.get("deliver_at_ms"))
        expected = {self.harness.id_of(position) for position in self.due if position not in self.recalled}
        assert delivered == Counter(expected)
        committed = Counter(m.get("transaction_id") for m in messages if m.topic == TOPIC and m.get("transaction_id"))
        wanted = {self.harness.secret_of(origin) for origin, outcome in self.outcome.items() if outcome == "commit"}
        assert committed == Counter(wanted)
        for origin, outcome in self.outcome.items():
            given_up = self.harness.secret_of(origin) in self.ids_in(CHECK_MAX_TOPIC)
            assert given_up == (outcome is None)
        self.check_nacks(messages)

    def check_nacks(self, messages: list[Message]) -> None:
        """Each nack of a message has led to one message that is as it should be."""
        by_position = {m.position: m for m in messages}
        records = [m for m in messages if m.topic == NACK_TOPIC]
        assert len(records) == len(self.nacked)
        effects = {m.get("cause"): m for m in messages if m.get("cause") is not None}
        for record in records:
            group = record.get("group")
            nacked = by_position[int(record.get("origin_message_id").rpartition(".")[2])]
            level, most = self.nacked[group, nacked.position]
            times = nacked.get("reconsume_times") or 0
            effect = effects[record.position]
            while effect.topic == SCHEDULE_TOPIC:
                effect = effects[effect.position]
            dead = level < 0 or times >= most
            assert effect.topic == (f"%DLQ%{group}" if dead else f"%RETRY%{group}")
            assert (effect.get("reconsume_times") or 0) == times + (not dead)
            assert effect.get("real_topic") == TOPIC
            first = nacked.get("origin_message_id") or self.harness.id_of(nacked.position)
            assert effect.get("origin_message_id") == first

    def everything(self) -> list[Message]:
        """All messages that there ever were."""
        return self.gone + self.harness.messages()

    def ids_in(self, topic: str) -> set[str]:
        """The transactions in a topic."""
        return {m.get("transaction_id") for m in self.everything() if m.topic == topic}


RoutingMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    print_blob=True,
)
TestRoutingMachine = RoutingMachine.TestCase
