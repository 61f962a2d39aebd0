"""Whatever messages hold, nothing in a frame is ever taken for a frame of the log.

Followers get the log's frames as they are, so who produces can make a body of frames that would fit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakemq.storage.disk.files import Files
from lakemq.storage.segment.frame import KIND_MESSAGES, KIND_STATE, LogEpoch, decode_meta, encode_queue
from lakemq.storage.segment.mask import MAGIC
from lakemq.storage.segment.rows import make_row, rows_to_batch
from lakemq.storage.segment.scan import find_frame
from lakemq.storage.segment.segment import Segment
from tests.storage.conftest import MakeLog
from tests.storage.harness import whole_frame


def _record_frame(log: LogEpoch, position: int, body: bytes) -> bytes:
    mask, batch = rows_to_batch([make_row(body=body)])
    runs = [(position, 1, encode_queue("RMQ_SYS_TOPICS", 0))]
    return whole_frame(log, KIND_MESSAGES, position, 0, 1, mask, runs, b"", bytes(batch.serialize()))


def _state_frame(log: LogEpoch, position: int) -> bytes:
    return whole_frame(log, KIND_STATE, position, 0, 0, 0, [], b"", b"{}      ")


@pytest.mark.parametrize("repeated", [1, 40])
def test_frames_in_a_body_are_never_taken_for_frames_wherever_it_is_torn(make_log: MakeLog, repeated: int) -> None:
    """They are made from all that a reader sees: who could place one could rewrite what others stored."""
    harness = make_log(compression="none")
    harness.put_topic("a")
    for number in range(5):
        harness.append("a", number % 4, b"message %d" % number)
    whole = harness.segment_paths()[0].read_bytes()
    before, begin = harness.read_log(), len(whole)
    log, following = harness.log.identity.now, harness.log.next_position
    forged = [_record_frame(later, at, b"{}") for at in range(following, following + 3) for later in (log, _next(log))]
    body = b"".join(b"." * pad + b"".join(forged) + whole * repeated for pad in range(8))
    harness.append("a", 0, body)
    harness.crash()
    (harness.directory / "FLUSHED").unlink()
    (path,) = harness.segment_paths()
    data = path.read_bytes()
    assert data[:begin] == whole
    assert all(data[at : at + 8] != MAGIC for at in range(begin + 8, len(data), 8))
    sizes = range(begin + 1, len(data)) if repeated == 1 else range(begin + 1, len(data), len(data) // 50)
    segment = Segment(Files(), path, 0)
    for size in reversed(sizes):
        with path.open("r+b") as file:
            file.truncate(size)
        assert find_frame(segment, begin + 1, size) is None
    harness.open()
    assert harness.read_log() == before


def _next(log: LogEpoch) -> LogEpoch:
    return LogEpoch(log.log_id, log.epoch + 1)


@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_no_part_of_a_body_is_taken_for_a_frame(tmp_path: Path, data: st.DataObject) -> None:
    """Pages of a frame that came to disk apart, with others lost or zeroed between them."""
    log = LogEpoch(b"0123456789abcdef", 1)
    frame = _record_frame(log, 5, b"{}")
    pieces = st.lists(st.sampled_from([frame, _state_frame(log, 5), MAGIC, MAGIC[:4], b"\0" * 3, b"x" * 8]))
    body = b"".join(data.draw(pieces))
    whole = bytearray(_state_frame(log, 0) + _record_frame(log, 0, body))
    begin = len(whole) - decode_meta(_record_frame(log, 0, body)).frame_bytes
    for at, size in data.draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), max_size=6)):
        lost = slice(begin + 64 * at, min(begin + 64 * (at + size), len(whole)))
        whole[lost] = bytes(len(whole[lost]))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(whole)
    found = find_frame(Segment(Files(), path, 0), begin + 8, len(whole))
    assert found is None
