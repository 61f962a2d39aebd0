"""What an append promises, what a frame holds, and what happens when the disk fails."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.model.columns import STORED, stored_schema
from lakemq.model.errors import StoreUnwritable
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.commit_log import CommitLog, Stored
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import Meta
from lakemq.storage.segment.rows import PayloadCodec, batch_mask, body_row, decode_payload, make_row, rows_to_batch
from lakemq.storage.segment.scan import scan
from lakemq.testing import FaultyFiles
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, incompressible


def _frames(harness: LogHarness) -> list[Meta]:
    """The frames of the active segment, as they stand in its file."""
    segment = harness.active
    return [meta for _, meta, _ in scan(segment, 0, segment.path.stat().st_size)]


# Group commit ----------------------------------------------------------------------------------


def test_all_appends_pending_at_once_make_one_frame(harness: LogHarness) -> None:
    before = len(_frames(harness))

    async def store() -> list[Any]:
        log = harness.log
        futures: list[asyncio.Future[Any]] = []
        for number in range(10):
            queue = harness.queue("a", number % 2)
            futures.append(log.append(RowsAppend([make_row(body=b"row %d" % number)], [queue])))
            futures.append(log.append(OneAppend(make_row(body=b"one %d" % number), queue)))
        assert not any(future.done() for future in futures)
        return await asyncio.gather(*futures)

    results = harness.run(store())
    new = _frames(harness)[before:]
    assert [meta.count for meta in new] == [20]
    assert [(run.queue_id, run.count) for run in new[0].runs] == [(0, 10), (1, 10)]
    bodies = {message.position: message for message in harness.read_log()}
    for number in range(10):
        (placed,) = results[2 * number].placed
        message = bodies[placed.position]
        assert (message.body, message.queue_id, message.queue_offset) == (b"row %d" % number, *placed[:2])
        queue_id, offset, position, time_ms = results[2 * number + 1]
        message = bodies[position]
        assert (message.body, message.queue_id, message.queue_offset) == (b"one %d" % number, queue_id, offset)
        assert message.store_time_ms == time_ms == new[0].store_time_ms
    # Of each queue the messages stand in the order in which they were asked for.
    assert [m.body for m in harness.read_queue("a", 0)][-10:] == [
        body for n in range(0, 10, 2) for body in (b"one %d" % n, b"row %d" % n)
    ] or [m.body for m in harness.read_queue("a", 0)][-10:] == [
        *(b"one %d" % n for n in range(0, 10, 2)), *(b"row %d" % n for n in range(0, 10, 2)),
    ]  # fmt: skip


def test_single_messages_pending_at_once_make_one_frame(harness: LogHarness) -> None:
    before = len(_frames(harness))

    async def store() -> list[tuple[int, int, int, int]]:
        queues = [harness.queue("a", number % 3) for number in range(12)]
        return await asyncio.gather(
            *[harness.log.append(OneAppend(make_row(body=b"%d" % n), q)) for n, q in enumerate(queues)]
        )

    results = harness.run(store())
    assert [meta.count for meta in _frames(harness)[before:]] == [12]
    for number, (queue_id, offset, position, _) in enumerate(results):
        (message,) = [m for m in harness.read_log() if m.position == position]
        assert (message.body, message.queue_id, message.queue_offset) == (b"%d" % number, queue_id, offset)


def test_requests_beyond_what_a_frame_takes_make_several_and_none_is_split(make_log: MakeLog) -> None:
    harness = make_log(frame_bytes_max=1024 * 1024, segment_bytes=64 * 1024 * 1024)
    harness.put_topic("a")
    before = len(_frames(harness))

    async def store() -> list[Stored]:
        queue = harness.queue("a")
        bodies = [incompressible(number, 100_000) for number in range(12)]
        return await asyncio.gather(
            *[harness.log.append(RowsAppend([make_row(body=body)] * 2, [queue] * 2)) for body in bodies]
        )

    results = harness.run(store())
    counts = [meta.count for meta in _frames(harness)[before:]]
    assert sum(counts) == 24
    assert len(counts) > 1
    assert all(count % 2 == 0 for count in counts)
    offsets = [[placed.queue_offset for placed in stored.placed] for stored in results]
    assert offsets == [[2 * number, 2 * number + 1] for number in range(12)]


def test_single_messages_beyond_what_a_frame_takes_make_several(make_log: MakeLog) -> None:
    harness = make_log(frame_bytes_max=1024 * 1024)
    harness.put_topic("a")
    before = len(_frames(harness))

    async def store() -> list[tuple[int, int, int, int]]:
        queue = harness.queue("a")
        rows = [make_row(body=incompressible(number, 100_000)) for number in range(9)]
        return await asyncio.gather(*[harness.log.append(OneAppend(row, queue)) for row in rows])

    results = harness.run(store())
    assert [offset for _, offset, _, _ in results] == list(range(9))
    assert len(_frames(harness)) - before > 1


def test_request_whose_client_has_gone_is_stored_all_the_same(harness: LogHarness) -> None:
    async def store() -> None:
        queue = harness.queue("a")
        gone = [
            harness.log.append(RowsAppend([make_row(body=b"gone")], [queue])),
            harness.log.append(BatchAppend(Rows([make_row(body=b"gone")]), [(queue, 1)], 4)),
        ]
        for future in gone:
            future.cancel()
        await harness.log.append(RowsAppend([make_row(body=b"here")], [queue]))

    harness.run(store())
    assert sorted(m.body for m in harness.read_queue("a", 0)) == [b"gone", b"gone", b"here"]


def test_single_message_whose_client_has_gone_is_stored_all_the_same(harness: LogHarness) -> None:
    async def store(beside: bool) -> None:
        queue = harness.queue("a")
        harness.log.append(OneAppend(make_row(body=b"gone"), queue)).cancel()
        if beside:
            await harness.log.append(RowsAppend([make_row(body=b"here")], [queue]))
        else:
            await asyncio.sleep(0)

    harness.run(store(beside=False))
    harness.run(store(beside=True))
    assert len(harness.read_queue("a", 0)) == 3


def test_row_that_no_frame_can_hold_is_refused_and_harms_nothing(harness: LogHarness) -> None:
    before = harness.read_log()
    with pytest.raises(Exception, match=r"(?i)int|type"):
        harness.run(_append_row(harness, make_row(body=b"x", born_time_ms="no number")))
    assert harness.read_log() == before
    assert harness.append("a", 0, b"next").placed[0].position == len(before)


async def _append_row(harness: LogHarness, row: Any) -> Stored:
    return await harness.log.append(RowsAppend([row], [harness.queue("a")]))


def test_batch_is_stored_as_a_frame_of_its_own(harness: LogHarness) -> None:
    stored = harness.append_batch("a", [(2, [b"1", b"2", b"3"]), (0, [b"4"])])
    first = stored.placed[0].position
    assert [tuple(placed) for placed in stored.placed] == [(2, 0, first), (0, 0, first + 3)]
    assert [m.body for m in harness.read_queue("a", 2)] == [b"1", b"2", b"3"]
    assert [m.body for m in harness.read_queue("a", 0)] == [b"4"]
    again = harness.append_batch("a", [(0, [b"5"]), (2, [b"6"])])
    assert [placed.queue_offset for placed in again.placed] == [1, 3]


def test_big_batch_is_stored_whole(make_log: MakeLog) -> None:
    harness = make_log(segment_bytes=64 * 1024 * 1024)
    harness.put_topic("a")
    bodies = [b"%06d" % number * 10 for number in range(100_000)]
    harness.append_batch("a", [(number, bodies[number * 25_000 : (number + 1) * 25_000]) for number in range(4)])
    harness.reopen()
    for number in range(4):
        found = [m.body for m in harness.read_queue("a", number)]
        assert found == bodies[number * 25_000 : (number + 1) * 25_000]


# Rolling ---------------------------------------------------------------------------------------


def test_log_rolls_and_queues_are_read_over_the_border(harness: LogHarness) -> None:
    chance = random.Random(3)
    expected: dict[int, list[bytes]] = {0: [], 1: [], 2: [], 3: []}
    for number in range(60):
        queue_id = chance.randrange(3)
        body = incompressible(number, chance.choice([10, 100, 60_000]))
        expected[queue_id].append(body)
        harness.append("a", queue_id, body)
    assert len(harness.log.segments) >= 2
    for queue_id, bodies in expected.items():
        assert [m.body for m in harness.read_queue("a", queue_id)] == bodies
        assert [m.queue_offset for m in harness.read_queue("a", queue_id)] == list(range(len(bodies)))
    assert [m.position for m in harness.read_log()] == list(range(harness.log.next_position))


def test_old_segment_is_on_disk_before_the_next_begins(harness: LogHarness) -> None:
    harness.files.fail_sync = True
    refused = 0
    for number in range(8):
        try:
            harness.append("a", 0, incompressible(number, 300_000))
        except StoreUnwritable:
            refused += 1
    assert refused > 0
    assert len(harness.log.segments) == 1


def test_log_that_stops_while_it_rolls_keeps_what_is_pending(harness: LogHarness) -> None:
    """A stop used to end before the roll, which then wrote to a closed log."""
    for number in range(4):
        harness.append("a", 0, incompressible(number, 300_000))
    assert harness.active.size >= harness.settings.segment_bytes

    async def stop() -> list[Any]:
        log, queue = harness.log, harness.queue("a")
        pending = [
            log.append(RowsAppend([make_row(body=b"pending 1")], [queue])),
            log.append(BatchAppend(Rows([make_row(body=b"pending 2")]), [(queue, 1)], 9)),
            log.append(OneAppend(make_row(body=b"pending 3"), queue)),
        ]
        await log.close()
        assert all(future.done() for future in pending)
        return await asyncio.gather(*pending)

    harness.run(stop())
    harness.forget()
    harness.open()
    assert harness.log.torn_bytes == 0
    assert sorted(m.body for m in harness.read_queue("a", 0)[-3:]) == [b"pending 1", b"pending 2", b"pending 3"]


def test_single_message_pending_at_a_stop_is_flushed_before_the_snapshot(harness: LogHarness) -> None:
    harness.flush()
    syncs = harness.files.syncs

    async def stop() -> tuple[int, int, int, int]:
        pending = harness.log.append(OneAppend(make_row(body=b"pending"), harness.queue("a")))
        await harness.log.close()
        return await pending

    harness.run(stop())
    harness.forget()
    assert harness.log.flushed_position == harness.log.next_position
    assert harness.files.syncs == syncs + 2  # of the log, and of what is reserved


def test_state_that_cannot_be_written_leaves_the_old_segment(harness: LogHarness) -> None:
    for number in range(4):
        harness.append("a", 0, incompressible(number, 300_000))
    before = harness.read_log()
    harness.files.room_bytes = 10
    with pytest.raises(StoreUnwritable, match="new segment"):
        harness.append("a", 0, b"no room")
    assert len(harness.segment_paths()) == 1
    assert harness.read_log() == before
    harness.files.room_bytes = None
    harness.log.retain()
    harness.append("a", 0, b"room")
    assert len(harness.segment_paths()) == 2
    assert harness.read_log()[:-1] == before


# A full disk -----------------------------------------------------------------------------------


def test_full_disk_at_any_byte_stores_nothing_in_half(harness: LogHarness) -> None:
    harness.append("a", 0, b"before")
    before, size = harness.read_log(), harness.active.size
    harness.append("a", 0, b"a message of some length")
    frame_bytes = harness.active.size - size
    harness.crash()
    with harness.segment_paths()[0].open("r+b") as file:
        file.truncate(size)
    (harness.directory / "FLUSHED").unlink(missing_ok=True)
    harness.open()
    begin, size = harness.log.next_position, harness.active.size  # beyond what was cut off
    for room in [*range(0, frame_bytes, 7), frame_bytes - 1]:
        harness.files.room_bytes = room
        with pytest.raises(StoreUnwritable, match="No space left"):
            harness.append("a", 0, b"a message of some length")
        assert harness.active.path.stat().st_size == size
        assert harness.read_log() == before
        with pytest.raises(StoreUnwritable):
            harness.append("a", 0, b"still none")
        harness.files.room_bytes = None
        harness.log.retain()
    harness.files.room_bytes = frame_bytes
    assert harness.append("a", 0, b"a message of some length").placed[0].position == begin
    harness.reopen()
    assert harness.log.torn_bytes == 0
    assert len(harness.read_log()) == len(before) + 1


def test_full_disk_refuses_all_that_was_pending_and_says_so_once(
    harness: LogHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.files.room_bytes = 300

    async def store() -> tuple[Any, ...]:
        queue = harness.queue("a")
        batch = rows_to_batch([make_row(body=b"b")])[1]
        return await asyncio.gather(
            harness.log.append(RowsAppend([make_row(body=b"x" * 1000)], [queue])),
            harness.log.append(OneAppend(make_row(body=b"one"), queue)),
            harness.log.append(BatchAppend(Columns(batch), [(queue, 1)], 1)),
            harness.log.append(BatchAppend(Columns(batch), [(queue, 1)], 1)),
            return_exceptions=True,
        )

    assert [type(result) for result in harness.run(store())] == [StoreUnwritable] * 4
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1


def test_frame_that_cannot_be_cut_away_stops_writes_until_a_restart(harness: LogHarness) -> None:
    harness.append("a", 0, b"before")
    before = harness.read_log()
    harness.files.room_bytes, harness.files.fail_truncate = 100, True
    with pytest.raises(StoreUnwritable):
        harness.append("a", 0, b"torn")
    harness.files.room_bytes, harness.files.fail_truncate = None, False
    harness.log.retain()
    with pytest.raises(StoreUnwritable, match="restart"):
        harness.append("a", 0, b"still refused")
    assert harness.read_log() == before
    harness.close()
    harness.open()
    assert harness.log.torn_bytes == 100
    assert harness.read_log() == before
    harness.append("a", 0, b"goes on")


# Flushing --------------------------------------------------------------------------------------


def test_failed_flush_stops_writes_for_good_and_reads_go_on(harness: LogHarness) -> None:
    harness.append("a", 0, b"1")
    harness.flush()
    flushed = harness.log.flushed_position
    harness.append("a", 0, b"2")
    harness.files.fail_sync = True

    async def wait_thrice() -> list[Any]:
        return await asyncio.gather(*[harness.log.flushed() for _ in range(3)], return_exceptions=True)

    assert [type(result) for result in harness.run(wait_thrice())] == [StoreUnwritable] * 3
    harness.files.fail_sync = False
    syncs = harness.files.syncs
    for _ in range(2):
        with pytest.raises(StoreUnwritable, match="restart"):
            harness.append("a", 0, b"refused")
        with pytest.raises(StoreUnwritable, match="restart"):
            harness.flush()
        harness.log.retain()
    assert harness.files.syncs == syncs
    assert harness.log.flushed_position == flushed
    assert [m.body for m in harness.read_queue("a", 0)] == [b"1", b"2"]
    harness.close()
    assert harness.files.syncs == syncs
    harness.open()
    assert [m.body for m in harness.read_queue("a", 0)] == [b"1", b"2"]
    harness.append("a", 0, b"3")
    harness.flush()


def test_waiters_share_a_flush(harness: LogHarness) -> None:
    harness.flush()
    syncs = harness.files.syncs

    async def store_and_wait(number: int) -> None:
        await harness.log.append(RowsAppend([make_row(body=b"x")], [harness.queue("a", number % 4)]))
        await harness.log.flushed()

    async def many() -> None:
        await asyncio.gather(*[store_and_wait(number) for number in range(50)])

    harness.run(many())
    assert harness.files.syncs == syncs + 1
    assert harness.log.flushed_position == harness.log.next_position


def test_nothing_written_needs_no_flush(harness: LogHarness) -> None:
    harness.flush()
    syncs = harness.files.syncs
    harness.flush()
    harness.log.flusher.start()
    assert harness.files.syncs == syncs


def test_flush_begins_by_itself_within_the_interval(make_log: MakeLog) -> None:
    harness = make_log(flush_interval_ms=1)
    harness.put_topic("a")
    harness.append("a", 0, b"x")
    harness.run(_until_flushed(harness.log))


def test_flush_begins_by_itself_when_much_is_dirty(make_log: MakeLog) -> None:
    harness = make_log(flush_bytes=10_000)
    harness.put_topic("a")
    harness.append("a", 0, b"x")
    harness.settle()
    assert harness.log.flushed_position < harness.log.next_position
    harness.append("a", 0, incompressible(1, 10_000))
    harness.run(_until_flushed(harness.log))
    assert harness.log.flusher.dirty_bytes == 0


async def _until_flushed(log: CommitLog) -> None:
    """Return when a flush that nobody asked for is done; the test's time-out ends it otherwise."""
    flushed = asyncio.Event()

    def look() -> None:
        if log.flushed_position < log.next_position:
            asyncio.get_running_loop().call_later(0.001, look)
        else:
            flushed.set()

    look()
    await flushed.wait()


def test_log_says_when_too_much_waits_for_the_disk(make_log: MakeLog) -> None:
    harness = make_log(dirty_bytes_max=1024 * 1024, segment_bytes=16 * 1024 * 1024)
    harness.put_topic("a")
    while harness.log.flusher.dirty_bytes <= 1024 * 1024:
        assert not harness.log.backlogged
        harness.append("a", 0, incompressible(1, 200_000))
    assert harness.log.backlogged
    harness.flush()
    assert not harness.log.backlogged


def test_what_is_written_during_a_flush_is_flushed_too(harness: LogHarness) -> None:
    async def overlap() -> None:
        queue = harness.queue("a")
        await harness.log.append(RowsAppend([make_row(body=b"1")], [queue]))
        first = harness.log.flushed()
        harness.log.flusher.start()
        await harness.log.append(RowsAppend([make_row(body=b"2")], [queue]))
        second = harness.log.flushed()
        await first
        await second

    harness.run(overlap())
    assert harness.log.flushed_position == harness.log.next_position


def test_waiter_that_gave_up_does_not_disturb_the_others(harness: LogHarness) -> None:
    async def wait_and_give_up() -> None:
        await harness.log.append(RowsAppend([make_row(body=b"1")], [harness.queue("a")]))
        waiters = [harness.log.flushed() for _ in range(3)]
        waiters[1].cancel()
        await waiters[0]
        await waiters[2]
        harness.files.fail_sync = True
        await harness.log.append(RowsAppend([make_row(body=b"2")], [harness.queue("a")]))
        waiters = [harness.log.flushed() for _ in range(2)]
        waiters[0].cancel()
        with pytest.raises(StoreUnwritable):
            await waiters[1]

    harness.run(wait_and_give_up())


# Snapshots -------------------------------------------------------------------------------------


def test_snapshot_spares_recovery_what_it_covers(make_log: MakeLog) -> None:
    harness = make_log(snapshot_interval_ms=1_000, verify_ms=0)
    begun = harness.active.size
    harness.put_topic("a")
    for number in range(20):
        harness.append("a", number % 4, b"%d" % number)
    harness.clock.time_ms += 1_000
    harness.flush()
    covered = harness.active.size
    harness.append("a", 0, b"after")
    before = harness.read_log()
    harness.crash()
    # What the snapshot covers isn't even looked at: that it's gone is found by reads.
    path = harness.segment_paths()[0]
    content = path.read_bytes()
    path.write_bytes(content[:begun] + b"\0" * (covered - begun) + content[covered:])
    harness.open()
    assert harness.log.next_position == len(before)
    harness.crash()
    path.write_bytes(content)
    harness.open()
    assert harness.read_log() == before


def test_snapshot_that_cannot_be_written_is_no_failed_flush(
    make_log: MakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    harness = make_log(snapshot_bytes=1024)
    harness.put_topic("a")
    harness.files.fail_replace = True
    harness.append("a", 0, incompressible(1, 2000))
    harness.flush()
    assert harness.log.unwritable is None
    assert any("can't write the index" in record.getMessage() for record in caplog.records)
    harness.append("a", 0, b"goes on")
    harness.close()
    harness.open()
    assert len(harness.read_queue("a", 0)) == 2


def test_roll_and_snapshots_leave_an_index_beside_each_segment(harness: LogHarness) -> None:
    harness.roll("a")
    harness.roll("a")
    harness.close()
    assert [path.stem for path in harness.segment_paths()] == sorted(p.stem for p in harness.directory.glob("*.idx"))
    assert not list(harness.directory.glob("*.tmp"))


# What a frame holds ----------------------------------------------------------------------------

TEXT = st.text(max_size=8)
ROW = st.fixed_dictionaries(
    {"body": st.binary(max_size=300)},
    optional={
        "tag": TEXT,
        "keys": st.lists(TEXT, min_size=1, max_size=3),
        "properties": st.dictionaries(TEXT, TEXT, min_size=1, max_size=3),
        "ordering_key": TEXT,
        "born_time_ms": st.integers(0, 2**53),
        "deliver_at_ms": st.integers(0, 2**53),
        "reconsume_times": st.integers(0, 100),
        "real_topic": TEXT,
        "real_queue_id": st.integers(0, 100),
        "origin_message_id": TEXT,
        "transaction_id": TEXT,
    },
)


@given(
    rows=st.lists(ROW, min_size=1, max_size=6),
    compression=st.sampled_from(["none", "lz4", "zstd"]),
    body_bytes_min=st.sampled_from([0, 100]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_come_back_as_they_were(rows: list[dict[str, Any]], compression: str, body_bytes_min: int) -> None:
    mask, batch = rows_to_batch([make_row(**row) for row in rows])
    assert batch_mask(batch) == mask
    assert batch.schema == stored_schema(mask)
    payload = PayloadCodec(compression, body_bytes_min).encode(batch, sum(len(row["body"]) for row in rows))
    assert len(payload) % 8 == 0
    decoded = decode_payload(mask, memoryview(payload))
    decoded.validate(full=True)
    for row, found in zip(rows, decoded.to_pylist(maps_as_pydicts="strict"), strict=True):
        assert {name: value for name, value in found.items() if value not in (None, {}, [])} == {
            name: value for name, value in row.items() if name == "body" or value not in (None, {}, [])
        } or found["body"] == row["body"] == b""
    names = {name for row in rows for name in row}
    assert decoded.schema.names == [field.name for field in STORED if field.name in names]


@pytest.mark.parametrize("count", [1, 2, 256, 257, 600])
@pytest.mark.parametrize("value", ["text/plain", "x" * 200])
def test_rows_that_share_their_properties_come_back_as_they_were(count: int, value: str) -> None:
    properties = {"content_type": value}
    mask, batch = rows_to_batch([body_row(b"%d" % number, properties) for number in range(count)])
    decoded = decode_payload(mask, memoryview(PayloadCodec("none", 0).encode(batch, 1)))
    decoded.validate(full=True)
    assert decoded.column("properties").to_pylist() == [[("content_type", value)]] * count
    assert decoded.column("body").to_pylist() == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_large_bodies_are_compressed_and_small_ones_are_not(make_log: MakeLog, compression: str) -> None:
    harness = make_log(compression=compression, compression_body_bytes_min=4096)
    harness.put_topic("a")
    size = harness.active.size
    harness.append("a", 0, b"abcd" * 1023)
    small = harness.active.size - size
    harness.append("a", 0, b"abcd" * 25_000)
    large = harness.active.size - size - small
    assert small > 4 * 1023
    assert (large < 10_000) == (compression != "none")
    harness.reopen()
    assert [m.body for m in harness.read_queue("a", 0)] == [b"abcd" * 1023, b"abcd" * 25_000]


def test_settings_of_compression_may_change_between_restarts(harness: LogHarness) -> None:
    bodies: list[bytes] = []
    for number, compression in enumerate(["none", "lz4", "zstd", "none"]):
        harness.crash()
        harness.settings = harness.settings.model_copy(update={"compression": compression})
        harness.open()
        bodies.append(b"%d" % number * 10_000)
        harness.append("a", 0, bodies[-1])
    assert [m.body for m in harness.read_queue("a", 0)] == bodies


def test_batch_with_more_columns_comes_back_whole(harness: LogHarness) -> None:
    schema = pa.schema([field for field in STORED if field.name in ("body", "tag", "keys")])
    batch = pa.RecordBatch.from_pydict({"body": [b"1", b"2"], "tag": ["t", None], "keys": [["k"], None]}, schema=schema)

    async def store() -> Stored:
        return await harness.log.append(BatchAppend(Columns(batch), [(harness.queue("a"), 2)], 2))

    position = harness.run(store()).placed[0].position
    harness.reopen()
    piece = harness.reader.message(position + 1)
    assert piece.frame.batch.equals(batch)
    assert piece.row == 1


class _ShortWrites(FaultyFiles):
    """A disk that takes at most so many bytes at once."""

    step_bytes = 1000

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        data = b"".join(bytes(part) for part in parts)[: self.step_bytes]
        return super().append(descriptor, (data,)) if data else 0


def test_frame_that_is_written_in_many_steps_is_whole(harness: LogHarness) -> None:
    harness.crash()
    harness.files = files = _ShortWrites()
    harness.open()
    harness.append("a", 0, incompressible(1, 10_000))
    files.step_bytes = 50
    harness.append("a", 0, b"small")
    files.step_bytes = 100_000
    for number in range(4):
        harness.append("a", 1, incompressible(number, 300_000))
    files.step_bytes = 50
    harness.append("a", 0, b"in a segment whose state was written in many steps")
    assert len(harness.log.segments) == 2
    before = harness.read_log()
    harness.reopen()
    assert harness.log.torn_bytes == 0
    assert harness.read_log() == before


def test_file_that_takes_no_more_bytes_is_a_full_disk(harness: LogHarness) -> None:
    before, size = harness.read_log(), harness.active.size
    harness.crash()
    harness.files = files = _ShortWrites()
    harness.open()
    files.step_bytes = 0
    with pytest.raises(StoreUnwritable, match="can't be extended"):
        harness.append("a", 0, b"refused")
    assert harness.active.path.stat().st_size == size
    assert harness.read_log() == before
