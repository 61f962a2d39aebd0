"""Where a consumer keeps how far it has come: at the broker, or in a file of this machine."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast
from urllib.parse import quote

import orjson

from lakemq.client.consume.group_age import GroupAge
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.start_offset import ALWAYS, Beginnings
from lakemq.model.errors import InvalidRequest, LakemqError, QueueNotFound, TopicNotFound
from lakemq.model.message_queue import MessageQueue

SHARED_S = 0.005
"""Queues that are asked for within so long share one request."""
UNNAMED_MAX = 1_000
"""So many consumers of one group on one machine may broadcast without a name."""
NAME_MAX = 200


class OffsetStore(Protocol):
    """Offsets of queues; of each the next one to consume."""

    async def is_new(self, topic: str) -> bool:
        """Whether there are no offsets of the topic at all, for any broker that can be asked now. Raises `Unreachable`
        where none can."""
        ...

    async def load(self, queue: MessageQueue, new: bool = False) -> int:
        """The queue's offset; where it has none, one is chosen and stored before it is answered, so
        that nobody begins elsewhere after a crash. `new`: there were none of the topic when it was begun with, just
        now, at several brokers: what is stored at one of them doesn't count at the others. Raises `LakemqError`."""
        ...

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store these, and leave all others as they are. What returned survives a crash of this
        process. Raises `LakemqError`: any of them may be stored then, or not."""
        ...

    def open(self) -> None:
        """Before anything else. Raises `InvalidRequest` when another consumer uses the same."""
        ...

    def close(self) -> None:
        """Nothing more is loaded or stored."""
        ...


class BrokerOffsets:
    """The group's offsets, each at its queue's broker: every member finds what another stored."""

    def __init__(self, api: GroupApi, beginnings: Beginnings) -> None:
        self._api = api
        self._beginnings = beginnings
        self._age = GroupAge(api)
        self._loading: dict[tuple[str, str], asyncio.Task[dict[MessageQueue, int]]] = {}
        self._resets: dict[str, int] = {}

    def open(self) -> None:
        """Members share them."""

    def close(self) -> None:
        """There is nothing to close."""

    def note_resets(self, broker: str, resets: int | None) -> None:
        """How many resets of the group's offsets at this broker the client has followed. Its commits only count until
        there is another reset."""
        if resets is not None:
            self._resets[broker] = resets

    async def is_new(self, topic: str) -> bool:
        """Whether the group is; brokers that don't answer don't count."""
        return self._beginnings.need_age(topic) and await self._age.ask(topic) is None

    async def load(self, queue: MessageQueue, new: bool = False) -> int:
        """The group's offset."""
        key = (queue.broker, queue.topic)
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(self._load(*key, new))
            loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return _of(queue, await asyncio.shield(loading))

    async def _load(self, broker: str, topic: str, new: bool) -> dict[MessageQueue, int]:
        try:
            await asyncio.sleep(SHARED_S)
        finally:
            del self._loading[broker, topic]
        committed = await self._api.offsets(broker, topic)
        self._age.note(topic, committed)
        found, since_ms = committed.offsets, ALWAYS if committed.offsets else None
        if since_ms is None and not new and self._beginnings.need_age(topic):
            since_ms = await self._age.ask(topic, but=broker)
        begin = await self._beginnings.of(broker, topic, since_ms)
        missing = {queue: offset for queue, offset in begin.items() if queue not in found}
        if missing:
            # Another member may be doing the same: the first one's count.
            found |= await self._api.commit(broker, missing, if_absent=True)
        return found

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit them: each broker's together."""
        by_broker: dict[str, dict[MessageQueue, int]] = {}
        for queue, offset in offsets.items():
            by_broker.setdefault(queue.broker, {})[queue] = offset
        answers = await asyncio.gather(
            *(self._store(broker, part) for broker, part in by_broker.items()), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _store(self, broker: str, offsets: Mapping[MessageQueue, int]) -> None:
        resets = self._resets.get(broker)
        try:
            await self._api.commit(broker, offsets, resets=resets)
        except (TopicNotFound, QueueNotFound):
            if len(offsets) == 1:
                raise
            # A topic was deleted: that keeps no other queue's offset from being stored.
            gone: LakemqError | None = None
            for queue, offset in offsets.items():
                try:
                    await self._store(broker, {queue: offset})
                except (TopicNotFound, QueueNotFound) as error:
                    gone = error
            if gone is not None:
                raise gone from None


class Kept(NamedTuple):
    """What a file has: offsets, and when it got the first of each topic, by this machine's clock; a file from before
    that was kept doesn't say."""

    offsets: dict[MessageQueue, int]
    since_ms: dict[str, int]

    @property
    def topics(self) -> set[str]:
        """The topics that it has offsets of."""
        return {each.topic for each in self.offsets}

    def since(self, queue: MessageQueue, new: bool) -> int | None:
        """Since when messages of the queue are consumed; `new` as in `OffsetStore.load`."""
        if any((each.broker, each.topic) == (queue.broker, queue.topic) for each in self.offsets):
            return ALWAYS
        return None if new or queue.topic not in self.topics else self.since_ms.get(queue.topic, ALWAYS)


class LocalOffsets:
    """Offsets in a JSON file, for broadcasting: the first of `paths` that no other consumer uses. Written
    whole to another file that then takes its place, so a crash leaves the old or the new one."""

    def __init__(self, paths: Sequence[Path], beginnings: Beginnings) -> None:
        self._paths = paths
        self._path = paths[0]
        self._beginnings = beginnings
        self._kept: Kept | None = None
        self._writing = asyncio.Lock()
        self._locked: BinaryIO | None = None

    @property
    def path(self) -> Path:
        """The file, once it is open."""
        return self._path

    def open(self) -> None:
        """Lock it: with two that write it, one's offsets would be the other's, and messages be lost."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for path in self._paths:
            locked = _lock_of(path).open("ab")
            try:
                lock_file(locked)
            except OSError:
                locked.close()
            else:
                self._path, self._locked = path, locked
                return
        raise InvalidRequest(
            f"another consumer keeps its offsets in {self._path}: give each its own client_id or offset_file"
        )

    def close(self) -> None:
        """Let another have it."""
        if self._locked is not None:
            self._locked.close()

    async def is_new(self, topic: str) -> bool:
        """Whether the file has none."""
        async with self._writing:
            return topic not in (await self._read()).topics

    async def load(self, queue: MessageQueue, new: bool = False) -> int:
        """The file's offset."""
        async with self._writing:
            kept = await self._read()
            if queue not in kept.offsets:
                begin = await self._beginnings.of(queue.broker, queue.topic, kept.since(queue, new))
                await self._write({each: offset for each, offset in begin.items() if each not in kept.offsets})
            return _of(queue, kept.offsets)

    async def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write the file."""
        async with self._writing:
            await self._write(offsets)

    async def _read(self) -> Kept:
        if self._kept is None:
            self._kept = await asyncio.to_thread(read_offsets, self._path)
        return self._kept

    async def _write(self, offsets: Mapping[MessageQueue, int]) -> None:
        kept = await self._read()
        if new := {each.topic for each in offsets} - kept.topics:
            now_ms = await asyncio.to_thread(touch, _lock_of(self._path))
            kept.since_ms.update(dict.fromkeys(new, now_ms))
        kept.offsets.update(offsets)
        await asyncio.to_thread(write_offsets, self._path, Kept(dict(kept.offsets), dict(kept.since_ms)))


def offset_files(group: str, client_id: str | None) -> list[Path]:
    """Where a broadcasting consumer keeps its offsets that wasn't told: a file of its own, by its name; without
    a name the first that no other has, so that one that is started again finds what it left."""
    folder = Path.home() / ".lakemq" / "offsets" / group
    if client_id is None:
        return [folder / f"+{number}.json" for number in range(UNNAMED_MAX)]
    name = quote(client_id, safe="")  # which leaves no +
    return [folder / f"{name if len(name) <= NAME_MAX else sha256(name.encode()).hexdigest()}.json"]


def lock_file(file: BinaryIO) -> None:
    """Lock it until it is closed, or the process ends. Raises `OSError` when another has it. Where the
    system can't lock files nothing is done."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def touch(path: Path) -> int:
    """Have the file be there; returns the time that the file system gives it, which is now, in milliseconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path.stat().st_mtime_ns // 1_000_000


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _of(queue: MessageQueue, offsets: Mapping[MessageQueue, int]) -> int:
    if queue not in offsets:
        raise QueueNotFound(f"broker {queue.broker!r} has no queue {queue.queue_id} of {queue.topic!r}")
    return offsets[queue]


def read_offsets(path: Path) -> Kept:
    """The offsets of a file; none where there is none. Raises `LakemqError` for what is no such file."""
    try:
        content = orjson.loads(path.read_bytes())
        entries = cast("list[dict[str, Any]]", content["offsets"])
        since = cast("dict[str, int]", content.get("since_ms", {}))
        return Kept(
            {MessageQueue(each["topic"], each["broker"], each["queue_id"]): int(each["offset"]) for each in entries},
            {topic: int(each) for topic, each in since.items()},
        )
    except FileNotFoundError:
        return Kept({}, {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakemqError(f"{path} is no file of offsets: {error!r}") from error


def write_offsets(path: Path, kept: Kept) -> None:
    """Write the file, on disk when it returns. Raises `OSError`, and leaves the old file then."""
    offsets = [{**queue._asdict(), "offset": each} for queue, each in sorted(kept.offsets.items())]
    content = orjson.dumps({"offsets": offsets, "since_ms": kept.since_ms})
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
