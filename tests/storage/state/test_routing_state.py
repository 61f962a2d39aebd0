"""What a log's rows say about what waits to be routed."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from lakemq.model.names import (
    DECISION_TOPIC,
    DISCARD_TOPIC,
    ERASURE_TOPIC,
    HALF_TOPIC,
    NACK_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
)
from lakemq.storage.segment.content import Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, Meta, Run
from lakemq.storage.segment.rows import Row, change_row, make_row
from lakemq.storage.state import routing_state
from lakemq.storage.state.decision_record import Decision, pack_decisions, unpack_decisions
from lakemq.storage.state.discard_record import to_body
from lakemq.storage.state.erasure_record import pack_erasure
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.routing_state import RoutingState
from lakemq.storage.state.timer_counts import BUCKET_MS


class Frames:
    """Applies frames to a state, each of rows `(topic, row)`, in the order of their topics."""

    def __init__(self) -> None:
        self.state = RoutingState()
        self.position = 0

    def apply(self, *rows: tuple[str, Row]) -> int:
        """Apply one frame; returns its first position."""
        content = Rows([row for _, row in rows])
        runs: list[Run] = []
        for number, (topic, _) in enumerate(rows):
            if runs and runs[-1].topic == topic:
                runs[-1] = runs[-1]._replace(count=runs[-1].count + 1)
            else:
                runs.append(Run(topic, 0, 0, 1, number))
        first = self.position
        meta = Meta(KIND_MESSAGES, first, 1_000, len(rows), content.mask, tuple(runs), b"", 0, 0, 0)
        self.state.apply(meta, content)
        self.position += len(rows)
        return first


def scheduled(due: int = 5, **columns: object) -> tuple[str, Row]:
    return SCHEDULE_TOPIC, make_row(body=b"", deliver_at_ms=due, real_topic="t", real_queue_id=0, **columns)


def nack(target: int) -> tuple[str, Row]:
    return NACK_TOPIC, make_row(body=b"", group="g", origin_message_id=f"b.{target}", reconsume_times=0)


def test_a_frame_holds_a_users_delay_beside_a_retry() -> None:
    """Regression: a row without a cause beside one that has a cause stopped the log's replay."""
    frames = Frames()
    frames.apply(("t", make_row(body=b"")))
    cause = frames.apply(nack(0))
    frames.apply(scheduled(), scheduled(cause=cause, retry_topic="t", origin_message_id="b.0"))
    assert list(frames.state.delays) == [2, 3]
    assert not frames.state.nacks
    assert not frames.state.moved


def test_what_is_dumped_is_restored() -> None:
    frames = Frames()
    frames.apply(scheduled(BUCKET_MS), scheduled(3 * BUCKET_MS))
    frames.apply(scheduled(BUCKET_MS, cause=0, origin_message_id="b.0"))
    frames.apply((HALF_TOPIC, make_row(body=b"", group="g")), (HALF_TOPIC, make_row(body=b"", group="g")))
    frames.apply((OP_TOPIC, make_row(body=b"", tag="commit", transaction_id="b.3", group="g")))
    frames.apply(nack(0), ("%DLQ%g", make_row(body=b"")))
    frames.apply((DECISION_TOPIC, make_row(body=pack_decisions([Decision(1, 3 * BUCKET_MS)]), tag="deliver")))
    dumped = frames.state.dump()
    other = RoutingState()
    other.restore(dumped)
    assert {**other.dump(), "decisions": dumped["decisions"]} == dumped
    assert (list(other.delays), list(other.decided), other.moved) == ([1, 2], [1], {0: 2})
    assert other.timers.earliest() == BUCKET_MS
    assert other.transactions.outcome(3) == "commit"
    assert other.pinned_position(100) == 0  # the nacked message


def test_a_log_from_before_routing_has_nothing_that_waits() -> None:
    state = RoutingState()
    state.restore({})
    assert state.timers.earliest() is None
    assert state.pinned_position(7) == 7


def test_timers_count_what_is_not_decided() -> None:
    frames = Frames()
    frames.apply(scheduled(BUCKET_MS), scheduled(BUCKET_MS + 1), scheduled(5 * BUCKET_MS))
    assert frames.state.timers.earliest() == BUCKET_MS
    frames.apply((DECISION_TOPIC, make_row(body=pack_decisions([Decision(0, BUCKET_MS)]), tag="deliver")))
    frames.apply(("t", make_row(body=b"", cause=1, deliver_at_ms=BUCKET_MS + 1)))
    assert frames.state.timers.earliest() == 5 * BUCKET_MS
    frames.apply(("t", make_row(body=b"", cause=0, deliver_at_ms=BUCKET_MS)))
    frames.apply((DECISION_TOPIC, make_row(body=b"", tag="drop", cause=2)))  # lost to damage: no due time
    frames.state.tidy(0)
    assert frames.state.timers.earliest() is None
    assert not frames.state.decisions


def test_decisions_are_packed_sixteen_bytes_each() -> None:
    decisions = [Decision(1, 2), Decision(2**60, 3)]
    assert len(pack_decisions(decisions)) == 32
    assert unpack_decisions(pack_decisions(decisions)) == decisions


def test_of_very_many_dead_letters_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_state, "DEAD_MAX", 3)
    frames = Frames()
    frames.apply(*[("%DLQ%g", make_row(body=b""))] * 5)
    assert len(frames.state.dead) == 5
    frames.state.tidy(0)
    assert (list(frames.state.dead), frames.state.dead_floor) == ([2, 3, 4], 2)
    restored = RoutingState()
    restored.restore(frames.state.dump())
    assert (list(restored.dead), restored.dead_floor) == ([2, 3, 4], 2)


def discard(*positions: int) -> tuple[str, Row]:
    return DISCARD_TOPIC, make_row(body=to_body(None, "", positions), tag="discard", group="g")


def test_of_what_a_discard_names_only_open_dead_letters_are_discarded() -> None:
    frames = Frames()
    dead = frames.apply(*[("%DLQ%g", make_row(body=b""))] * 4)
    frames.apply(("%RETRY%g", make_row(body=b"", cause=dead)))
    frames.apply(discard(dead, dead + 1, dead + 3, 77))
    assert (list(frames.state.dead), list(frames.state.discarded)) == ([dead + 2], [dead + 1, dead + 3])
    frames.apply(discard(dead + 1))
    restored = RoutingState()
    restored.restore(frames.state.dump())
    assert restored.dump() == frames.state.dump()
    assert list(restored.discarded) == [dead + 1, dead + 3]


def test_a_log_in_which_letters_are_discarded_needs_a_lakemq_that_knows_it() -> None:
    """One that doesn't would have them open again, and a redrive send them."""
    state = LogState()
    state.identity.begin(LogEpoch(bytes(16), 1), 0)
    assert "needs" not in state.dump()
    state.routing.discarded.add(7)
    dumped = state.dump()
    assert dumped["needs"] == ["discards"]
    LogState().restore(dumped)
    before = {name: each for name, each in dumped["routing"].items() if not name.startswith("discarded")}
    older = LogState()
    older.restore({**dumped, "routing": before})
    assert (list(older.routing.discarded), older.routing.discarded_floor) == ([], 0)


def test_an_erasure_takes_dead_letters_with_it_and_nothing_else() -> None:
    frames = Frames()
    dead = frames.apply(*[("%DLQ%g", make_row(body=b""))] * 4)
    frames.apply(discard(dead))
    frames.apply(nack(0))
    frames.apply((ERASURE_TOPIC, make_row(body=pack_erasure([(dead, dead + 2), (dead + 5, dead + 9)]))))
    assert (list(frames.state.dead), list(frames.state.discarded)) == ([dead + 2, dead + 3], [])
    assert frames.state.dead_of.count("g", frames.state.dead) == 2
    assert len(frames.state.nacks) == 1


def test_a_group_takes_its_discarded_letters_with_it() -> None:
    frames = Frames()
    dead = frames.apply(*[("%DLQ%g", make_row(body=b""))] * 3)
    frames.apply(discard(dead))
    frames.state.tidy(0)
    frames.state.forget_dead_of("g")
    assert not frames.state.dead
    assert not frames.state.discarded


def test_of_very_many_discarded_letters_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_state, "DEAD_MAX", 2)
    frames = Frames()
    dead = frames.apply(*[("%DLQ%g", make_row(body=b""))] * 6)
    frames.apply(discard(*range(dead, dead + 5)))
    frames.state.tidy(0)
    assert list(frames.state.dead) == [dead + 5]
    assert (list(frames.state.discarded), frames.state.discarded_floor) == ([dead + 3, dead + 4], dead + 3)


def test_a_deleted_group_takes_with_it_what_was_to_be_retried_for_it() -> None:
    """Regression: it came to whoever used the group's name next."""
    frames = Frames()
    retry = {"retry_topic": "t", "origin_message_id": "b.0"}
    others, (topic, row) = frames.apply(nack(0), nack(1), scheduled(BUCKET_MS)), scheduled(2 * BUCKET_MS, **retry)
    for group in ("g", "h"):
        own = change_row(row, real_topic=f"%RETRY%{group}")
        frames.apply((topic, change_row(own, cause=others)), (topic, change_row(own, deliver_at_ms=3 * BUCKET_MS)))
    decided = Decision(frames.position - 4, 2 * BUCKET_MS)
    frames.apply((DECISION_TOPIC, make_row(body=pack_decisions([decided]), tag="deliver")))
    state = frames.state
    assert (list(state.nacks), list(state.delays), list(state.decided)) == ([1], [2, 3, 4, 5, 6], [3])
    state.forget_retries_of("g")
    assert (list(state.nacks), list(state.delays), list(state.decided)) == ([], [2, 5, 6], [])
    assert (state.nack_targets, state.timers.earliest()) == ({}, BUCKET_MS)
    assert state.retries_of.groups() == ["h"]
    other = RoutingState()
    other.restore(state.dump())
    assert other.dump() == state.dump()
    state.forget_retries_of("h")
    assert list(state.delays) == [2]


def test_a_reset_of_one_topic_forgets_no_nack_of_another() -> None:
    """Regression: who nacked again a message of another topic got it twice."""
    frames = Frames()
    for target, of in enumerate(("t", "u", "u", "v")):
        topic, row = nack(target)
        frames.apply((topic, change_row(row, real_topic=of)))
    frames.state.nacked["old"] = BitMap64([7])  # of a log of before it was kept of which topic
    for state in (RoutingState(), frames.state):
        state.restore(frames.state.dump())
        state.forget_nacked("g", "u")
        state.forget_nacked("old", "t")
        assert {group: list(positions) for group, positions in state.nacked.items()} == {"g": [0, 3]}
        state.tidy(3)
        assert (list(state.nacked["g"]), state.nacked_of) == ([3], {"g": {"v": BitMap64([3])}})
        state.forget_nacked("g", "%RETRY%g")
        assert not state.nacked
        assert not state.nacked_of
