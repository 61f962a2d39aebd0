"""What comes to a follower is looked at in full before any of it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.storage.log.next_frames import Diverged, next_frames
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.frame import KIND_HOLE, KIND_MESSAGES, KIND_STATE, LogEpoch, encode_queue
from lakemq.storage.segment.rows import PayloadCodec, make_row, rows_to_batch
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import encode_state
from tests.storage.harness import whole_frame
from tests.upgrade.future import KINDS, from_the_future

LOG = LogEpoch(bytes(range(16)), 2)
BEGIN = 7


def messages(position: int, *bodies: bytes, log: LogEpoch = LOG) -> bytes:
    columns = Columns(rows_to_batch([make_row(body=body) for body in bodies])[1])
    payload = PayloadCodec("none", 0).encode(columns.batch, sum(map(len, bodies)))
    runs = [(position, len(bodies), encode_queue("t", 0))]
    return whole_frame(log, KIND_MESSAGES, position, 1, len(bodies), columns.mask, runs, b"", payload)


def hole(position: int, count: int, log: LogEpoch = LOG) -> bytes:
    return whole_frame(log, KIND_HOLE, position, 1, count, 0, [], b"", b"")


def state(position: int) -> bytes:
    dumped = LogState()
    dumped.identity.begin(LOG, 0)
    return b"".join(map(bytes, encode_state(LOG, dumped.dump(), position, 1)))


FRAMES = [messages(7, b"a", b"b"), hole(9, 3), state(12), messages(12, b"c"), messages(13, b"d" * 100)]
PAGE = b"".join(FRAMES)


def test_frames_come_one_after_the_other_with_what_they_say() -> None:
    frames, fault = next_frames(PAGE, BEGIN, LOG)
    assert (b"".join(frame.data for frame in frames), fault) == (PAGE, None)
    assert [(frame.meta.kind, frame.meta.first_position) for frame in frames] == [
        (1, 7),
        (3, 9),
        (2, 12),
        (1, 12),
        (1, 13),
    ]
    assert [frame.state is not None for frame in frames] == [False, False, True, False, False]
    assert frames[0].content.values("body", 0, 2) == [b"a", b"b"]


@given(st.integers(0, 8 * len(PAGE) - 1))
def test_of_a_page_with_a_flipped_bit_only_what_is_before_it_is_taken(bit: int) -> None:
    page = bytearray(PAGE)
    page[bit // 8] ^= 1 << bit % 8
    frames, fault = next_frames(bytes(page), BEGIN, LOG)
    taken = b"".join(frame.data for frame in frames)
    assert PAGE.startswith(taken)
    assert len(taken) <= bit // 8 < len(taken) + len(FRAMES[len(frames)])
    assert fault is not None


@given(st.integers(0, len(PAGE) - 1))
def test_of_a_page_that_is_cut_off_whole_frames_are_taken(size: int) -> None:
    frames, fault = next_frames(PAGE[:size], BEGIN, LOG)
    taken = sum(frame.meta.frame_bytes for frame in frames)
    assert taken <= size < taken + len(FRAMES[len(frames)])
    assert (fault is None) == (taken == size)


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (messages(8, b"x"), "begins with position 8, where 7 is due"),
        (messages(6, b"x", b"y"), "begins with position 6, where 7 is due"),
        (hole(7, 1) + hole(9, 1), "begins with position 9, where 8 is due"),
        (state(6), "begins with position 6"),
        (hole(7, 1, LogEpoch(LOG.log_id, 1)), "of epoch 1"),
        (hole(7, 1, LogEpoch(LOG.log_id, 3)) + hole(8, 1), "of epoch 2 comes, and this log is in epoch 3"),
        (hole(7, 1, LogEpoch(bytes(16), 2)), "a frame of the log 00000000-0000-0000-0000-000000000000 comes"),
    ],
)
def test_sound_frames_that_do_not_follow_here_never_will(page: bytes, why: str) -> None:
    with pytest.raises(Diverged, match=why):
        next_frames(page, BEGIN, LOG)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (whole_frame(LOG, KIND_STATE, 7, 1, 0, 0, [], b"", b'{"log": '), "what it says is not"),
        (whole_frame(LOG, KIND_STATE, 7, 1, 0, 0, [], b"", b'{"a": 1}'), "what it says is not"),
        (
            whole_frame(LOG, KIND_MESSAGES, 7, 1, 1, 1, [(0, 1, encode_queue("t", 0))], b"", bytes(16)),
            "no record batch",
        ),
        (whole_frame(LOG, 9, 7, 1, 1, 0, [], b"", b""), "of kind 9"),
    ],
)
def test_a_frame_that_says_nothing_that_can_be_read_is_not_taken(frame: bytes, why: str) -> None:
    frames, fault = next_frames(frame, BEGIN, LOG)
    assert not frames
    assert fault is not None
    assert why in fault


@pytest.mark.parametrize(("at", "value"), KINDS.values(), ids=KINDS)
def test_what_a_newer_leader_writes_is_not_taken_and_said_to_be_newer(at: int, value: bytes) -> None:
    frames, fault = next_frames(FRAMES[0] + from_the_future(messages(9, b"new"), at, value), BEGIN, LOG)
    assert [frame.data for frame in frames] == [FRAMES[0]]
    assert fault is not None
    assert fault.startswith("the frame at position 9 is of a newer lakemq: ")
