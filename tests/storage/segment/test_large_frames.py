"""Large frames are written in a thread: what is appended meanwhile comes after them, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lakemq.gateway.placement.bulk import pack
from lakemq.model.errors import StoreUnwritable
from lakemq.model.message import Placed
from lakemq.storage.log.appends import BatchAppend, Key, RowsAppend, Spread
from lakemq.storage.log.layout import LARGE_BYTES
from lakemq.storage.log.receiver import Stored
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.rows import make_row, rows_to_batch
from tests.storage.conftest import MakeLog
from tests.storage.harness import LogHarness, incompressible

LARGE = incompressible(1, LARGE_BYTES // 2 + 1)


async def store(harness: LogHarness, sizes: Sequence[int], rolls: bool = False) -> list[Stored]:
    """Requests of so many large bodies each, all at once, with single messages between."""
    queue = harness.queue("a")
    asked: list[asyncio.Future[Stored]] = []
    for count in sizes:
        if count:
            batch = rows_to_batch([make_row(body=LARGE)] * count)[1]
            asked.append(harness.log.append(BatchAppend(Columns(batch), [(queue, count)], count * len(LARGE))))
        else:
            asked.append(harness.log.append(RowsAppend([make_row(body=b"small")], [queue])))
        await asyncio.sleep(0)
        if rolls:
            harness.log.begin_segment()
    return list(await asyncio.gather(*asked))


@pytest.mark.parametrize("rolls", [False, True])
def test_what_is_appended_while_a_large_frame_is_written_follows_it(make_log: MakeLog, rolls: bool) -> None:
    harness = make_log(segment_bytes=256 * 1024 * 1024)
    harness.put_topic("a", 1)
    stored = harness.run(store(harness, [2, 0, 3, 0, 0, 2, 1, 0], rolls))
    placed = [each.placed[0] for each in stored]
    assert sorted(where.position for where in placed) == sorted({where.position for where in placed})
    for again in (False, True):
        if again:
            harness.reopen()
        messages = harness.read_queue("a", 0)
        assert [message.queue_offset for message in messages] == list(range(12))
        assert [message.position for message in messages] == sorted(message.position for message in messages)
        assert sum(message.body == LARGE for message in messages) == 8
        for where, count in zip(placed, [2, 0, 3, 0, 0, 2, 1, 0], strict=True):
            found = messages[where.queue_offset]
            assert (found.position, found.body) == (where.position, LARGE if count else b"small")


def test_a_large_frame_that_finds_no_room_leaves_nothing_behind(make_log: MakeLog) -> None:
    harness = make_log(segment_bytes=256 * 1024 * 1024)
    files = harness.files
    harness.put_topic("a", 1)
    harness.append("a", 0, b"before")
    files.room_bytes = len(LARGE)
    with pytest.raises(StoreUnwritable):
        harness.run(store(harness, [2]))
    files.room_bytes = None
    harness.log.retain()
    assert harness.append("a", 0, b"after").placed[0].queue_offset == 1
    harness.reopen()
    assert [message.body for message in harness.read_queue("a", 0)] == [b"before", b"after"]


def test_a_log_that_is_let_go_while_a_large_frame_is_written_is_whole(make_log: MakeLog) -> None:
    harness = make_log(segment_bytes=256 * 1024 * 1024)
    harness.put_topic("a", 1)

    async def begin() -> None:
        batch = rows_to_batch([make_row(body=LARGE)] * 4)[1]
        harness.log.append(BatchAppend(Columns(batch), [(harness.queue("a"), 4)], 4 * len(LARGE)))
        await asyncio.sleep(0)

    harness.run(begin())
    harness.reopen()
    assert [message.body for message in harness.read_queue("a", 0)] in ([], [LARGE] * 4)
    harness.run(begin())
    harness.close()
    harness.open()
    assert len(harness.read_queue("a", 0)) in (4, 8)


def test_a_bulk_says_of_each_message_where_it_is_in_the_answer_and_in_the_note(make_log: MakeLog) -> None:
    harness = make_log()
    harness.put_topic("a", 3)
    harness.append("a", 1, b"before")
    order = [2, 0, 1, 1, 2, 0, 1]
    rows = [make_row(body=b"%d" % number, tag=str(number)) for number in range(len(order))]
    asked = RowsAppend(rows, [harness.queue("a", queue_id) for queue_id in order], Key("k", "p"))
    bulk = pack(asked, harness.log.pack)

    async def append() -> Stored:
        return await harness.log.append(bulk)

    stored = harness.run(append())
    assert bulk.spread is not None
    where = bulk.spread.each(stored.placed)
    messages = {message.position: message for message in harness.read_log()}
    for number, placed in enumerate(where):
        message = messages[placed.position]
        assert (message.body, message.queue_id, message.queue_offset) == (b"%d" % number, *placed[:2])
    assert [placed.queue_id for placed in where] == order
    (note,) = harness.log.active_index.notes
    assert (note.key, note.position) == ("k", stored.placed[0].position)


def test_a_spread_counts_from_each_groups_first_message() -> None:
    spread = Spread([0, 1, 0], [0, 2, 1])
    assert spread.each([Placed(3, 10, 100), Placed(5, 0, 102)]) == [
        Placed(3, 10, 100),
        Placed(5, 0, 102),
        Placed(3, 11, 101),
    ]
