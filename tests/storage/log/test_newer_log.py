"""What a newer lakemq has written is refused with a word that says so, and is never taken for damage: a repair would
put holes in its messages' place, and a start would take a segment that it has begun for one that never was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakemq.model.errors import LogVersion
from lakemq.model.names import DISCARD_TOPIC
from lakemq.storage.mend.repair import repair_log
from lakemq.storage.mend.verify import verify_log
from lakemq.storage.segment import frame
from lakemq.storage.segment.frame import HEADER_BYTES, decode_meta
from lakemq.storage.state.discard_record import to_body
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import encode_state
from tests.storage.harness import LogHarness
from tests.upgrade.future import KINDS, from_the_future

WORD = "newer lakemq"


def _files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".log" or ".log." in path.name
    }


def _refused(harness: LogHarness, tmp_path: Path, match: str = WORD) -> None:
    """By the start, by a repair, and where it is only looked at; all as it was after that."""
    before = _files(harness.directory)
    uses: list[Callable[[], Any]] = [harness.open, lambda: repair_log(tmp_path), lambda: verify_log(tmp_path)]
    for use in uses:
        with pytest.raises(LogVersion, match=match):
            use()
    assert _files(harness.directory) == before


def _last_frame(harness: LogHarness) -> int:
    """Store some; where the last frame begins."""
    for number in range(5):
        harness.append("a", 0, b"message %d" % number)
    begin = harness.active.size
    harness.append("a", 0, b"the last one")
    return begin


def _state(harness: LogHarness, position: int) -> bytes:
    """The frame that a segment would begin with there."""
    head, payload = encode_state(harness.log.identity.now, harness.log.state.dump(), position, 0)
    return head + bytes(payload)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_marks", [True, False])
def test_a_log_that_a_newer_lakemq_went_on_with_is_refused_and_left_as_it_is(
    harness: LogHarness, tmp_path: Path, kind: str, with_marks: bool
) -> None:
    begin = _last_frame(harness)
    harness.crash()
    path = harness.segment_paths()[-1]
    data = path.read_bytes()
    path.write_bytes(data[:begin] + from_the_future(data[begin:], *KINDS[kind]))
    for hint in () if with_marks else ("FLUSHED", f"{path.stem}.idx"):
        (harness.directory / hint).unlink(missing_ok=True)
    _refused(harness, tmp_path)


def test_a_segment_that_a_newer_lakemq_began_was_begun(harness: LogHarness, tmp_path: Path) -> None:
    """Without a mark, as a power cut may leave it, it would look as if a roll had never come to its end."""
    _last_frame(harness)
    end = harness.log.active_index.end_position
    first = _state(harness, end)
    harness.crash()
    (harness.directory / "FLUSHED").unlink(missing_ok=True)
    path = harness.directory / f"{end:020d}.log"
    path.write_bytes(from_the_future(first, *KINDS["version"]))
    _refused(harness, tmp_path)
    assert path.exists()


def test_what_a_crash_tore_is_of_no_newer_version(harness: LogHarness) -> None:
    """Its header says anything, and its checksum is wrong."""
    _last_frame(harness)
    end = harness.log.active_index.end_position
    first = _state(harness, end)
    harness.crash()
    path = harness.directory / f"{end:020d}.log"
    path.write_bytes(first[:12] + b"\x09" + bytes(HEADER_BYTES))
    harness.open()
    assert not path.exists()


def test_a_log_that_needs_what_is_not_known_here_is_refused_by_name(harness: LogHarness, tmp_path: Path) -> None:
    _last_frame(harness)
    harness.close()
    path = harness.segment_paths()[-1]
    _needing(path, "leases")
    before = _files(harness.directory)
    for use in (harness.open, lambda: repair_log(tmp_path)):
        with pytest.raises(LogVersion, match="newer lakemq: to read it one must know leases"):
            use()
    assert _files(harness.directory) == before


def test_a_lakemq_that_knows_no_discards_refuses_a_log_from_the_first_one_on(
    harness: LogHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a state frame says that the log needs it: else it would redrive what was given up for good."""
    harness.put_topic(DISCARD_TOPIC, 1)
    harness.append(DISCARD_TOPIC, 0, to_body(None, "", [0]))
    harness.crash()
    with monkeypatch.context() as older:
        older.setattr(frame, "_MISREAD", 0)
        _refused(harness, tmp_path)
    harness.open()
    assert [message.topic for message in harness.read_log()][-1] == DISCARD_TOPIC


def _needing(path: Path, name: str) -> None:
    """Have the segment begin with a state that needs this."""
    data = path.read_bytes()
    meta = decode_meta(data)
    state = json.loads(data[meta.meta_bytes : meta.frame_bytes]) | {"needs": [name]}
    head, payload = encode_state(meta.log, state, meta.first_position, meta.store_time_ms)
    path.write_bytes(head + bytes(payload) + data[meta.frame_bytes :])
    for hint in (path.with_suffix(".idx"), path.with_name("FLUSHED")):
        hint.unlink(missing_ok=True)


def test_a_state_that_needs_nothing_or_what_is_known_is_read(
    harness: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped = harness.log.state.dump()
    for needs in ([], ["leases"]):
        monkeypatch.setattr("lakemq.storage.state.log_state.KNOWN", frozenset(needs))
        state = LogState()
        state.restore(dumped | {"needs": needs})
        assert state.dump() == dumped
