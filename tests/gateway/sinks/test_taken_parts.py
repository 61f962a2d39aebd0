"""A part that another replica sends is what was staged there, or none; and on disk, before a follower says so."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c

from lakemq.gateway.sinks.followed_parts import FollowedParts
from lakemq.gateway.sinks.staging import BadPart, Part, Staging, pack
from lakemq.model.names import SINK_TOPIC
from lakemq.storage.disk.files import Files
from lakemq.testing import LossyFiles
from tests.storage.harness import LogHarness

CUTS = 30


def stage(directory: Path, name: str = "a") -> tuple[Staging, Part]:
    """A part that is staged in a folder of its own."""
    staging = Staging(directory, Files())
    staging.load()
    part = write(staging, name)
    staging.enter(part)
    return staging, part


def write(staging: Staging, name: str = "a", **token: str) -> Part:
    """The same part each time, but for its token where none is given."""
    payload = pack(pa.RecordBatch.from_pydict({"body": pa.array([b"1", b"22"], pa.binary())}))
    part = Part("s", 0, name, "t", None, 2, 0, 0, False, 0, crc32c(payload), payload.size, 5, **token)
    staging.write(part, payload)
    return part


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[begin : begin + size] for begin in range(0, len(data), size))


def whole(staging: Staging, part: Part) -> bytes:
    return staging.read_piece(part.token, 0, 2**20)[0]


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_it_is_the_same_file_however_it_comes(tmp_path: Path, size: int) -> None:
    there, part = stage(tmp_path / "there")
    here = Staging(tmp_path / "here", Files())
    here.load()
    assert here.take(part.token, pieces(whole(there, part), size)) == part
    assert whole(here, part) == whole(there, part)
    assert here.read(part).num_rows == part.messages
    assert there.read_piece(part.token, 3, 4) == (whole(there, part)[3:7], len(whole(there, part)))


def test_what_is_damaged_cut_or_another_one_is_none(tmp_path: Path) -> None:
    there, part = stage(tmp_path / "there")
    _, other = stage(tmp_path / "there", "b")
    here = Staging(tmp_path / "here", Files())
    here.load()
    data = whole(there, part)
    flipped = [bytes([*data[:at], data[at] ^ 1, *data[at + 1 :]]) for at in random.sample(range(len(data)), 40)]
    spaces = data.index(b"\n")  # a bit of those changes nothing that is read
    bad = [
        each for each in flipped if each[:spaces].rstrip() != data[:spaces].rstrip() or each[spaces:] != data[spaces:]
    ]
    for content in [*bad, data[:-1], data + b"x", whole(there, other), b"", b"x" * 20_000]:
        with pytest.raises(BadPart):
            here.take(part.token, pieces(content, 64))
    for token in ("../there/x", part.token[1:], part.token.upper() + "/"):
        with pytest.raises(BadPart):
            here.take(token, [data])
        with pytest.raises(FileNotFoundError):
            there.read_piece(token, 0, 1)
    here.load()
    assert not here.all()
    assert not list((tmp_path / "here").iterdir())


def test_what_was_taken_aside_is_no_staged_part_until_it_is_adopted(tmp_path: Path) -> None:
    there, part = stage(tmp_path / "there")
    here = Staging(tmp_path / "here", Files())
    here.load()
    here.take(part.token, [whole(there, part)], aside=True)
    assert here.adopt(part.token) == part
    here.load()
    assert here.all() == [part]
    here.take(part.token, [whole(there, part)], aside=True)
    again = Staging(tmp_path / "here", Files())
    again.load()
    assert [path.suffix for path in (tmp_path / "here").iterdir()] == [".part"]


def test_of_two_files_of_one_part_the_committed_one_is_it(tmp_path: Path) -> None:
    _, one = stage(tmp_path)
    payload = pack(pa.RecordBatch.from_pydict({"body": pa.array([b"of an attempt before"], pa.binary())}))
    other = Part("s", 0, "a", "t", None, 1, 0, 0, False, 0, crc32c(payload), payload.size, 6)
    for committed in (one, other):
        Staging(tmp_path, Files()).write(one, pack(pa.RecordBatch.from_pydict({"body": [b"1"]})))
        Staging(tmp_path, Files()).write(other, payload)
        staging = Staging(tmp_path, Files())
        staging.load({committed.token})
        assert [part.token for part in staging.all()] == [committed.token]


SYNCS: dict[str, Callable[[Staging, str, bytes], Part]] = {
    "gateway.sinks.staging.Staging.write: replace.sync": lambda here, token, _: write(here, token=token),
    "gateway.sinks.staging.Staging.write: replace.sync_dir": lambda here, token, _: write(here, token=token),
    "gateway.sinks.staging.Staging.take: replace.sync": lambda here, token, data: here.take(token, [data]),
    "gateway.sinks.staging.Staging.take: replace.sync_dir": lambda here, token, data: here.take(token, [data]),
    "gateway.sinks.staging.Staging.adopt: sync_dir": lambda here, token, data: [
        here.take(token, [data], aside=True),
        here.adopt(token),
    ][1],
    "gateway.sinks.staging.Staging.load: sync_dir": lambda here, token, data: here.take(token, [data]),
}
"""Each sync, and what loses a part without it."""


@pytest.mark.parametrize("site", SYNCS)
def test_a_power_cut_takes_no_part_that_was_taken_and_would_without_the_sync(tmp_path: Path, site: str) -> None:
    there, part = stage(tmp_path / "there")
    data = whole(there, part)

    def survives(seed: int, skipped: str | None) -> bool:
        root = tmp_path / f"{seed}-{skipped is None}"
        root.mkdir()
        files = LossyFiles(root, seed)
        files.skipped_site = skipped
        here = Staging(root / "sinks", files)
        here.load()
        SYNCS[site](here, part.token, data)
        files.cut_power()
        again = Staging(root / "sinks", files)
        again.load()
        return again.all() == [part] and whole(again, part) == data

    assert all(survives(seed, None) for seed in range(CUTS))
    assert not all(survives(seed, site) for seed in range(CUTS))


class Folder:
    """A source that has what is staged in another folder."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self.asked: list[str] = []

    def take(self, token: str, keep: Callable[[Iterable[bytes]], Part]) -> asyncio.Future[Part]:
        self.asked.append(token)
        return asyncio.ensure_future(
            asyncio.to_thread(lambda: keep([self._staging.read_piece(token, 0, 2**20)[0]])),
        )

    def close(self) -> None:
        """There is nothing to close."""


def test_no_follower_says_that_it_has_a_commit_before_it_has_its_parts(tmp_path: Path) -> None:
    there, part = stage(tmp_path / "there")
    harness = LogHarness(tmp_path).open()
    log = harness.log
    harness.put_topic("t", 1)
    harness.put_topic(SINK_TOPIC, 1)
    harness.flush()

    def record(**fields: object) -> None:
        harness.append(SINK_TOPIC, 0, json.dumps({"sink": "s", "batch": 0, **fields}).encode())
        harness.flush()

    async def until(parts: FollowedParts, so: Callable[[], bool]) -> None:
        parts.start()
        while not so():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.001)
        await parts.close()

    def begin() -> tuple[FollowedParts, Staging, Folder]:
        here, source = Staging(tmp_path / "here", Files()), Folder(there)
        here.load(set(log.state.sinks.tokens()))
        return FollowedParts(log, here, source), here, source

    parts, _, _ = begin()
    before = log.next_position
    assert parts.durable() == before
    record(op="commit", parts=["a"], progress="", once=False, tokens={"a": part.token})
    harness.append("t", 0, b"what comes after it")
    harness.flush()
    assert parts.durable() == before
    parts, here, source = begin()
    assert parts.durable() == 0  # where the record is, a start doesn't know
    harness.run(until(parts, lambda: parts.durable() == log.next_position))
    assert (here.all(), source.asked) == ([part], [part.token])
    parts, here, source = begin()
    assert parts.durable() == log.next_position
    record(op="part", part="a", messages=2, dropped=0)
    assert parts.durable() == log.next_position
    assert not here.all()
    harness.run(until(parts, lambda: parts.durable() > 0 and not list((tmp_path / "here").iterdir())))
    harness.close()


def test_what_was_offered_needs_not_be_taken_when_it_is_committed(tmp_path: Path) -> None:
    there, part = stage(tmp_path / "there")
    harness = LogHarness(tmp_path).open()
    harness.put_topic(SINK_TOPIC, 1)
    here, source = Staging(tmp_path / "here", Files()), Folder(there)
    here.load()
    parts = FollowedParts(harness.log, here, source)

    async def wait_for(so: Callable[[], bool]) -> None:
        while not so():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.001)

    def names() -> list[str]:
        return [path.name for path in (tmp_path / "here").iterdir()]

    async def starting() -> None:
        parts.start()

    harness.run(starting())
    parts.offer([part.token])
    harness.run(wait_for(lambda: names() == [f"{part.token}.offered"]))
    harness.run(parts.give_up_offered())
    assert not names()
    parts.offer([part.token])
    harness.run(wait_for(lambda: names() == [f"{part.token}.offered"]))
    record = {"op": "commit", "sink": "s", "batch": 0, "parts": ["a"], "progress": "", "once": False}
    harness.append(SINK_TOPIC, 0, json.dumps({**record, "tokens": {"a": part.token}}).encode())
    harness.flush()
    harness.run(wait_for(lambda: parts.durable() == harness.log.next_position))
    assert (here.all(), names()) == ([part], [f"{part.token}.part"])
    assert source.asked == [part.token] * 2
    harness.run(parts.close())
    harness.close()
