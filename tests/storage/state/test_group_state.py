"""What a log's records say about groups: whatever is not worth a gateway."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import ConsumeDisabled
from lakemq.model.names import GROUP_TOPIC
from lakemq.storage.segment.content import Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.group_state import Group, GroupState
from lakemq.storage.state.member import size_of

MEMBER = {"model": "clustering", "consume_from": "last", "consume_timestamp_ms": None, "subscriptions": []}


def apply(
    state: GroupState, *records: tuple[str, dict[str, Any]], group: str = "g", position: int = 0, time_ms: int = 1_000
) -> Group:
    """Apply one frame with the records; returns the group."""
    rows = [make_row(body=orjson.dumps(content), tag=kind, group=group) for kind, content in records]
    run = Run(GROUP_TOPIC, 0, 0, len(rows), 0)
    state.apply(Meta(KIND_MESSAGES, position, time_ms, len(rows), 0, (run,), b"", 0, 0, 0), Rows(rows))
    return state.find(group) or Group("", 0)


def join(client_id: str = "c") -> tuple[str, dict[str, Any]]:
    return "join", {"client_id": client_id, **MEMBER}


def take(client_id: str) -> tuple[str, dict[str, Any]]:
    return "lock", {"client_id": client_id, "queues": [["t", 0]]}


def free(grant: int) -> tuple[str, dict[str, Any]]:
    return "unlock", {"queues": [["t", 0, grant]]}


def test_of_two_locks_in_a_frame_the_first_counts() -> None:
    assert apply(GroupState(), take("a"), take("b")).locks["t", 0].client_id == "a"


def test_a_release_is_of_one_grant_and_not_of_the_next() -> None:
    state = GroupState()
    apply(state, take("a"), position=5)
    group = apply(state, free(5), take("b"), free(5), position=6)
    assert group.locks["t", 0] == ("b", 7)


def test_who_leaves_and_comes_in_one_frame_is_a_member() -> None:
    state = GroupState()
    apply(state, join())
    group = apply(state, ("leave", {"client_id": "c"}), join())
    assert (list(group.members), group.generation, state.member_count) == (["c"], 3, 1)
    apply(state, ("leave", {"client_id": "c"}))
    assert (state.member_count, state.member_characters) == (0, 0)


def test_a_group_that_was_forgotten_goes_on_with_its_generations() -> None:
    state = GroupState()
    apply(state, join(), ("reset", {"offsets": {}}), ("leave", {"client_id": "c"}))
    apply(state, ("forget", {}))
    assert state.find("g") is None
    again = GroupState()
    again.restore(json.loads(json.dumps(state.dump())))
    group = apply(again, join())
    assert group.generation > 4, "no generation of before is used again: who knows it would wait"
    assert group.resets == 1, "a commit from before is still from before the reset"


def test_a_group_that_is_in_use_is_not_forgotten() -> None:
    state = GroupState()
    apply(state, join(), ("forget", {}))
    assert state.find("g") is not None
    apply(state, ("forget", {}), group="h")
    assert state.find("h") is None


def test_what_members_subscribe_to_is_counted() -> None:
    state = GroupState()
    subscribed = {**MEMBER, "subscriptions": [{"topic": "t", "type": "tag", "expression": "*"}]}
    group = apply(state, ("join", {"client_id": "a", **subscribed}), ("join", {"client_id": "b", **subscribed}), join())
    assert (len(group.kinds), group.topics) == (2, {"t", "%RETRY%g"})
    apply(state, ("leave", {"client_id": "a"}), ("join", {"client_id": "b", **MEMBER}))
    assert (len(group.kinds), group.topics, group.consumes("t")) == (1, {"%RETRY%g"}, False)


def test_a_topic_that_comes_or_goes_concerns_the_groups_that_use_it_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All were looked through, on the event loop: of 10,000 groups that took 10 ms each time."""
    state = GroupState()
    subscribed = {**MEMBER, "subscriptions": [{"topic": "t", "type": "tag", "expression": "*"}]}
    apply(state, ("join", {"client_id": "a", **subscribed}), group="subscribes")
    apply(state, ("offsets", {"offsets": {"t": [[0, 1]]}}), group="commits")
    apply(state, take("a"), group="locks")
    for other in ("x", "y"):
        apply(state, ("offsets", {"offsets": {"u": [[0, 1]]}}), group=other)
    looked_at: list[str] = []
    consumes = Group.consumes

    def noting(group: Group, topic: str) -> bool:
        looked_at.append(group.name)
        return consumes(group, topic)

    monkeypatch.setattr(Group, "consumes", noting)
    state.topic_changed("t", 0)
    assert sorted(looked_at) == ["commits", "locks", "subscribes"]
    assert sorted(state.empty()) == ["commits", "locks"]
    state.topic_changed("%RETRY%x", 1)
    state.topic_changed("%RETRY%nobody", 1)
    assert looked_at[3:] == ["x"]


def test_what_is_dumped_is_restored() -> None:
    state = GroupState()
    offsets = {"offsets": {"t": [[0, 2**62], [5, 0]], "u": [[1, 1]]}}
    subscribed = {**MEMBER, "subscriptions": [{"topic": "t", "type": "tag", "expression": "*"}]}
    apply(state, join("a"), ("join", {"client_id": "b", **subscribed}), take("a"), ("offsets", offsets))
    restored = GroupState()
    restored.restore(json.loads(json.dumps(state.dump())))
    assert restored.dump() == state.dump()
    assert (restored.member_count, restored.offset_count, len(restored)) == (2, 3, 1)
    assert restored.member_characters == state.member_characters > 300
    group = restored.find("g")
    assert group is not None
    assert group.topics == {"t", "%RETRY%g"}
    restored.topic_changed("t", 0)
    assert (restored.offset_count, group.generation, group.locks) == (1, 3, {})


def test_when_a_group_began_with_a_topic_is_kept_until_the_topic_is_deleted() -> None:
    state = GroupState()
    group = apply(state, ("offsets", {"offsets": {"t": [[0, 1]]}}), time_ms=1_000)
    apply(state, ("offsets", {"offsets": {"t": [[1, 1]], "u": [[0, 1]]}}), time_ms=2_000)
    assert group.since_ms == {"t": 1_000, "u": 2_000}
    dumped = state.dump()
    state.topic_changed("t", 0)
    apply(state, ("reset", {"offsets": {"t": [[0, 1]]}}), time_ms=3_000)
    assert group.since_ms == {"t": 3_000, "u": 2_000}
    restored = GroupState()
    del dumped["groups"]["g"]["since_ms"]
    restored.restore(dumped)
    group = apply(restored, ("offsets", {"offsets": {"t": [[2, 1]]}}), time_ms=4_000)
    assert group.since_ms == {}, "a log from before this was kept doesn't say it, nor is it now"


def test_a_log_from_before_there_were_groups_has_none() -> None:
    state = GroupState()
    state.restore({})
    assert (len(state), state.dump()) == (0, {"generation": 0, "resets": 0, "groups": {}})


def test_a_reset_is_told_to_who_keeps_places_in_queues() -> None:
    state = GroupState()
    told: list[tuple[str, str, dict[int, int]]] = []
    state.on_reset = lambda *reset: told.append(reset)
    apply(state, ("reset", {"offsets": {"t": [[0, 3], [1, 4]]}}))
    assert told == [("g", "t", {0: 3, 1: 4})]


def test_a_group_that_consumes_nothing_says_so_until_it_is_deleted() -> None:
    state, disabled = GroupState(), ("settings", {"consume_enabled": False})
    moved: list[int] = []
    state.on_move = lambda group: moved.append(group.generation)
    assert not apply(state, disabled, disabled).consume_enabled
    assert moved == [1], "its members hear of it, once"
    state.check_enabled(None)
    state.check_enabled("another")
    with pytest.raises(ConsumeDisabled):
        state.check_enabled("g")
    apply(state, ("forget", {}))  # it holds nothing, but that is not to be forgotten
    assert len(state) == 1
    apply(state, ("delete", {}))
    state.check_enabled("g")
    apply(state, disabled, ("settings", {"consume_enabled": True}))
    state.check_enabled("g")
    assert list(state.empty()) == ["g"]


def test_a_group_of_a_log_from_before_that_could_be_said_consumes() -> None:
    state = GroupState()
    apply(state, join())
    dumped = state.dump()
    del dumped["groups"]["g"]["consume_enabled"]
    restored = GroupState()
    restored.restore(dumped)
    assert restored.dump() == state.dump()
    restored.check_enabled("g")


CLIENTS, TOPICS = st.sampled_from(["a", "b", "c"]), st.sampled_from(["t", "u", "%RETRY%g"])
PAIRS = st.dictionaries(TOPICS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)).map(list), max_size=3))
SUBSCRIPTIONS = st.lists(TOPICS, unique=True).map(
    lambda topics: [{"topic": topic, "type": "tag", "expression": "*"} for topic in topics]
)
RECORDS = st.one_of(
    st.builds(lambda c, s: ("join", {"client_id": c, **MEMBER, "subscriptions": s}), CLIENTS, SUBSCRIPTIONS),
    st.builds(lambda c: ("leave", {"client_id": c}), CLIENTS),
    st.builds(lambda o, i: ("offsets", {"offsets": o, "if_absent": i}), PAIRS, st.booleans()),
    st.builds(lambda o, r: ("offsets", {"offsets": o, "resets": r}), PAIRS, st.integers(0, 3)),
    st.builds(lambda o: ("reset", {"offsets": o}), PAIRS),
    st.builds(lambda c, t: ("lock", {"client_id": c, "queues": [[t, 0], [t, 1]]}), CLIENTS, TOPICS),
    st.builds(lambda t, g: ("unlock", {"queues": [[t, 0, g]]}), TOPICS, st.integers(0, 20)),
    st.builds(lambda e: ("settings", {"consume_enabled": e}), st.booleans()),
    st.sampled_from([("forget", dict[str, Any]()), ("delete", dict[str, Any]())]),
)
STEP = st.tuples(st.sampled_from(["g", "h"]), st.lists(RECORDS, min_size=1, max_size=4), st.booleans())


@given(st.lists(STEP | st.tuples(TOPICS, st.integers(0, 2)), max_size=12))
def test_a_state_that_is_kept_and_restored_on_the_way_is_the_same(steps: list[Any]) -> None:
    state, restored = GroupState(), GroupState()
    position = 0
    for step in steps:
        before = {group.name: group.generation for group in state}
        for each in (state, restored):
            if len(step) == 2:
                each.topic_changed(*step)
            else:
                apply(each, *step[1], group=step[0], position=position)
        if len(step) == 3:
            position += len(step[1])
            if step[2]:
                dumped = json.loads(json.dumps(restored.dump()))
                restored = GroupState()
                restored.restore(dumped)
        assert restored.dump() == state.dump()
        for name, counted in counts(state).items():
            assert (getattr(state, name), getattr(restored, name)) == (counted, counted)
        for each in (state, restored):
            assert each.disabled == {group.name for group in each if not group.consume_enabled}
            assert set(each.empty()) == {group.name for group in each if group.is_empty}
            for topic in ("t", "u", "%RETRY%g"):
                assert each.users(topic) == {group.name for group in each if group.uses(topic)}
        assert all(group.generation >= before.get(group.name, 0) for group in state)


def counts(state: GroupState) -> dict[str, int]:
    """What the state counts, counted anew."""
    return {
        "member_count": sum(len(group.members) for group in state),
        "member_characters": sum(size_of(*each) for group in state for each in group.members.items()),
        "offset_count": sum(len(offsets) for group in state for offsets in group.offsets.values()),
    }
