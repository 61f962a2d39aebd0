"""Snapshots are of one moment, and the event loop makes no text of what waits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.storage.log import rolling, segment_store
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.segment import large_json, segment_index
from lakemq.storage.segment.large_json import PIECE_BYTES, to_base64, to_json
from lakemq.storage.segment.rows import make_row
from lakemq.storage.segment.segment_index import load
from lakemq.storage.state import bitmaps, topics
from lakemq.storage.state.replay import encode_state
from tests.storage.conftest import MakeLog

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary().map(to_base64),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(value=JSON, items_max=st.integers(1, 4), piece_bytes=st.integers(1, 9), step=st.integers(1, 3))
def test_large_json_is_json(value: Any, items_max: int, piece_bytes: int, step: int) -> None:
    with pytest.MonkeyPatch.context() as bounds:
        bounds.setattr(large_json, "ITEMS_MAX", items_max)
        bounds.setattr(large_json, "PIECE_BYTES", piece_bytes)
        bounds.setattr(large_json, "STEP_BYTES", 3 * step)
        assert b"".join(to_json(value)) == json.dumps(value, separators=(",", ":")).encode()


@given(data=st.binary(max_size=100), step=st.integers(1, 5))
def test_base64_is_the_same_in_steps(data: bytes, step: int) -> None:
    whole = to_base64(data)
    with pytest.MonkeyPatch.context() as bounds:
        bounds.setattr(large_json, "STEP_BYTES", 3 * step)
        assert to_base64(data) == whole


def test_no_piece_is_larger_than_it_may_be() -> None:
    value = {"a": to_base64(bytes(5 * PIECE_BYTES)), "b": list(range(PIECE_BYTES)), "c": ["x" * 100] * 50_000}
    pieces = to_json(value)
    assert max(map(len, pieces)) < 3 * PIECE_BYTES
    assert json.loads(b"".join(pieces)) == value


def noting(threads: set[int], work: Callable[..., Any]) -> Callable[..., Any]:
    """`work`, which notes in which threads it is done."""

    def noted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return work(*arguments)

    return noted


def test_the_loop_makes_no_text_of_what_a_snapshot_holds(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10 million waiting messages it was held up for seconds, each 30 seconds."""
    harness = make_log(snapshot_bytes=1024)
    harness.put_topic("a")
    harness.flush()
    threads: set[int] = set()
    monkeypatch.setattr(bitmaps, "to_base64", noting(threads, to_base64))
    monkeypatch.setattr(segment_index, "to_json", noting(threads, to_json))
    for _ in range(3):
        harness.append("a", 0, b"x" * 5_000)
        harness.flush()
    assert threads
    assert threading.get_ident() not in threads


def test_the_loop_makes_no_text_of_what_a_segment_begins_with(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 topics and groups it was held up for most of a second, at each new segment."""
    harness = make_log()
    harness.put_topic("a")
    threads: set[int] = set()
    monkeypatch.setattr(segment_store, "encode_state", noting(threads, encode_state))
    harness.roll("a")
    assert threads
    assert threading.get_ident() not in threads


def test_others_go_on_while_a_segment_begins_and_nothing_is_written(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_log()
    names = [f"t{number}" for number in range(20)]
    for name in names:
        harness.put_topic(name, 2)
    log = harness.log
    monkeypatch.setattr(rolling, "SLICE_S", 0.0)
    monkeypatch.setattr(topics, "STEP", 1)

    async def begin() -> int:
        turns, before = 0, log.next_position
        log.begin_segment()
        stored = log.append(RowsAppend([make_row(body=b"x")], [harness.queue("t0")]))
        while len(log.segments) == 1:
            turns += 1
            assert log.next_position == before
            await asyncio.sleep(0)
        assert (await stored).placed[0].position == log.active.base_position == before
        return turns

    assert harness.run(begin()) > len(names)
    harness.wait_until_sealed()
    harness.reopen()
    assert [message.body for message in harness.read_queue("t0", 0)] == [b"x"]
    assert {topic.name for topic in harness.log.topics} >= set(names)


def test_a_log_that_is_let_go_while_a_segment_begins_has_lost_nothing(make_log: MakeLog) -> None:
    harness = make_log()
    harness.put_topic("a")
    harness.append("a", 0, b"x")

    async def begin() -> None:
        harness.log.begin_segment()
        await harness.log.flushed()

    harness.run(begin())
    harness.reopen()
    assert [message.body for message in harness.read_queue("a", 0)] == [b"x"]


def test_a_snapshot_is_of_the_moment_when_it_was_asked_for(make_log: MakeLog) -> None:
    harness = make_log()
    harness.put_topic("a")
    harness.append("a", 0, b"1", b"2")
    index, state = harness.log.active_index, harness.log.state
    freeze_index, freeze_state = index.freeze(), state.freeze()
    then = json.loads(json.dumps(state.dump())), index.extent()
    harness.append("a", 0, b"3")
    harness.append("a", 1, b"4")
    harness.put_topic("b")
    harness.append("b", 0, b"5")
    harness.delete_topic("a")
    loaded = load(b"".join(freeze_index(freeze_state())))
    assert (loaded.state, loaded.extent()) == then
    assert list(loaded.queues["a", 0].first_offsets) == [0]
    assert loaded.queues["a", 0].next_offset == 2
    assert ("a", 1) not in loaded.queues
