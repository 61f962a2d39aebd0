"""Requests with an idempotency key are known again: over restarts, within the window, in bounds."""

from __future__ import annotations

import asyncio
import hashlib
from asyncio import gather

import pytest

from lakemq.model.errors import IdempotencyMismatch
from lakemq.storage.log.appends import Key, RowsAppend
from lakemq.storage.log.receiver import Stored
from lakemq.storage.read.idempotency import LARGE_BYTES, IdempotencyTable, make_key, plan_result, read_result
from lakemq.storage.read.plans import Plans
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.rows import make_row
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness

WINDOW_MS = 600_000


def _find(table: IdempotencyTable, key: Key, reader: Reader, now_ms: int) -> Stored | None:
    """The first result of the same request, as a producer looks for it."""
    note = table.known(key, now_ms)
    plan = None if note is None else asyncio.run(plan_result(note, Plans(reader), asyncio.to_thread))
    return None if note is None or plan is None else read_result(note, plan, reader)


def _table(harness: LogHarness, window_ms: int = WINDOW_MS, keys_max: int = 1000) -> IdempotencyTable:
    """A table as a gateway has it after a start."""
    table = IdempotencyTable(window_ms, keys_max)
    harness.log.on_notes = table.add
    table.load(harness.reader, harness.clock.now_ms())
    return table


def test_same_request_is_answered_with_the_first_result(harness: LogHarness) -> None:
    table = _table(harness)
    key = make_key("a", "k", b"payload")
    assert _find(table, key, harness.reader, harness.clock.now_ms()) is None
    stored = harness.append("a", 1, b"1", b"2", key=key)
    harness.append("a", 1, b"3")
    assert _find(table, key, harness.reader, harness.clock.now_ms()) == stored


@pytest.mark.parametrize("size", [1, LARGE_BYTES - 1, LARGE_BYTES, 10 * LARGE_BYTES])
def test_payloads_that_differ_in_a_byte_have_different_digests(size: int) -> None:
    digests = {make_key("a", "k", b"x" * at + b"y" + b"x" * (size - at - 1)).payload for at in {0, size // 2, size - 1}}
    assert len(digests) == len({0, size // 2, size - 1})
    assert make_key("a", "k", b"x" * size).payload not in digests


def test_key_with_another_payload_is_a_mismatch(harness: LogHarness) -> None:
    table = _table(harness)
    harness.append("a", 1, b"1", key=make_key("a", "k", b"payload"))
    for payload in ((b"other",), (b"pay", b"load"), (b"payload", b"")):
        with pytest.raises(IdempotencyMismatch):
            _find(table, make_key("a", "k", *payload), harness.reader, harness.clock.now_ms())


def test_key_is_the_topics_own(harness: LogHarness) -> None:
    table = _table(harness)
    harness.append("a", 1, b"1", key=make_key("a", "k", b"payload"))
    assert _find(table, make_key("b", "k", b"payload"), harness.reader, harness.clock.now_ms()) is None


def test_key_is_the_users_own(harness: LogHarness) -> None:
    table = _table(harness)
    stored = harness.append("a", 1, b"1", key=make_key("a", "k", b"payload", user="alice"))
    now_ms = harness.clock.now_ms()
    for user in ("", "bob", "alice2"):
        assert _find(table, make_key("a", "k", b"payload", user=user), harness.reader, now_ms) is None
        assert _find(table, make_key("a", "k", b"other", user=user), harness.reader, now_ms) is None
    assert _find(table, make_key("a", "k", b"payload", user="alice"), harness.reader, now_ms) == stored


def test_key_that_an_older_version_has_stored_is_everybodys(harness: LogHarness) -> None:
    table = _table(harness)
    key = make_key("a", "k", b"payload")
    # As it was digested then.
    assert key.former == hashlib.blake2b(b"a\0k", digest_size=16).hexdigest()
    stored = harness.append("a", 1, b"1", key=key._replace(key=key.former))
    now_ms = harness.clock.now_ms()
    for user in ("", "alice"):
        assert _find(table, make_key("a", "k", b"payload", user=user), harness.reader, now_ms) == stored
        with pytest.raises(IdempotencyMismatch):
            _find(table, make_key("a", "k", b"other", user=user), harness.reader, now_ms)
    assert _find(table, make_key("a", "another", b"payload"), harness.reader, now_ms) is None


@pytest.mark.parametrize("way", ["kill", "stop", "roll"])
def test_keys_survive_a_restart(harness: LogHarness, way: str) -> None:
    _table(harness)
    first = harness.append("a", 1, b"1", b"2", key=make_key("a", "k1", b"payload"))
    if way == "roll":
        harness.roll("a")
    second = harness.append("a", 2, b"3", key=make_key("a", "k2", b"payload"))
    (harness.close if way == "stop" else harness.crash)()
    harness.open()
    table = _table(harness)
    now_ms = harness.clock.now_ms()
    assert _find(table, make_key("a", "k1", b"payload"), harness.reader, now_ms) == first
    assert _find(table, make_key("a", "k2", b"payload"), harness.reader, now_ms) == second
    with pytest.raises(IdempotencyMismatch):
        _find(table, make_key("a", "k2", b"other"), harness.reader, now_ms)


def test_requests_that_share_a_frame_keep_their_own_results(harness: LogHarness) -> None:
    table = _table(harness)
    keys = [make_key("a", f"k{number}", b"%d" % number) for number in range(5)]

    async def store() -> list[Stored]:
        queue = harness.queue("a")
        return await gather(
            *[harness.log.append(RowsAppend([make_row(body=b"%d" % n)], [queue], k)) for n, k in enumerate(keys)]
        )

    results = harness.run(store())
    assert [_find(table, key, harness.reader, harness.clock.now_ms()) for key in keys] == results
    harness.reopen()
    table = _table(harness)
    assert [_find(table, key, harness.reader, harness.clock.now_ms()) for key in keys] == results


def test_key_is_forgotten_after_the_window(harness: LogHarness) -> None:
    table = _table(harness)
    key = make_key("a", "k", b"payload")
    stored = harness.append("a", 1, b"1", key=key)
    harness.clock.time_ms += WINDOW_MS
    assert _find(table, key, harness.reader, harness.clock.now_ms()) == stored
    harness.clock.time_ms += 1
    assert _find(table, key, harness.reader, harness.clock.now_ms()) is None
    harness.reopen()
    assert _find(_table(harness), key, harness.reader, harness.clock.now_ms()) is None


def test_key_used_again_after_the_window_counts_anew(harness: LogHarness) -> None:
    table = _table(harness)
    key = make_key("a", "k", b"payload")
    harness.append("a", 1, b"1", key=key)
    harness.clock.time_ms += WINDOW_MS + 1
    second = harness.append("a", 1, b"1", key=key)
    harness.clock.time_ms += WINDOW_MS
    table.expire(harness.clock.now_ms())
    assert _find(table, key, harness.reader, harness.clock.now_ms()) == second
    table.expire(harness.clock.now_ms() + 1)
    assert _find(table, key, harness.reader, harness.clock.now_ms()) is None


def test_oldest_key_is_forgotten_early_when_there_are_too_many(harness: LogHarness) -> None:
    table = _table(harness, keys_max=3)
    keys = [make_key("a", f"k{number}", b"payload") for number in range(5)]
    for key in keys:
        harness.append("a", 1, b"1", key=key)
    found = [_find(table, key, harness.reader, harness.clock.now_ms()) is not None for key in keys]
    assert found == [False, False, True, True, True]
    assert table.forgotten_early == 2


def test_key_is_forgotten_when_retention_took_its_messages(make_log: MakeLog) -> None:
    """It used to be answered that the message isn't there."""
    harness = make_log(retention_ms=0)
    harness.put_topic("a")
    table = _table(harness)
    key = make_key("a", "k", b"payload")
    harness.append("a", 1, b"1", key=key)
    harness.roll("a")
    harness.log.retention.certain_position = harness.log.next_position
    harness.clock.time_ms += 1
    assert harness.log.retain() == 1
    assert _find(table, key, harness.reader, harness.clock.now_ms()) is None
