"""Damaged segments that the lake holds: their messages come from there, and a sound file takes their place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

from lakemq.model.errors import LakemqError, LakeUnreadable, LogDamaged
from lakemq.settings import Settings
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.history import History
from lakemq.storage.lake.log_frames import as_frames
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.damaged_segment import DamagedSegment
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.mend.stand_in import Borders, StandIn, drop_stand_in, make_stand_in, put_in_place, set_aside
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.rows import PayloadCodec
from lakemq.storage.segment.segment import Frame, Segment
from lakemq.storage.segment.side_files import drop_side_files, quarantined
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.message_ids import MessageIds

logger = logging.getLogger(__name__)
Run = Callable[[Callable[[], StandIn]], Awaitable[StandIn]]
"""Does what takes long in a thread."""

POSITIONS_AT_ONCE = 8_192
BYTES_AT_ONCE = 32 * 2**20
"""So much of the lake is in memory at a time."""
CACHE_BYTES = 32 * 2**20
AGAIN_S = 60.0
"""A segment that could not be mended is tried again so much later."""


class Quarantine:
    """The damaged segments of one broker's log. Lives on the event loop, but for `note` and `frames`."""

    def __init__(self, settings: Settings, log: CommitLog, reader: Reader, history: History) -> None:
        """`history`: the lake, for reads."""
        self._settings = settings
        self._log = log
        self._reader = reader
        self._history = history
        self._codec = PayloadCodec(settings.storage.compression, settings.storage.compression_body_bytes_min)
        self._damaged: dict[Segment, LogDamaged] = {}
        self._again_s: dict[Segment, float] = {}
        self._put_off: LogDamaged | None = None
        self._said: set[str] = set()
        self.kept: list[str] = []
        """The names of the damaged files that others stand in for."""
        self.on_damage: Callable[[], object] = lambda: None
        """Called in any thread when a segment is found damaged."""

    # Reading: `storage.read.fallback.Fallback` --------------------------------------------------

    def note(self, segment: Segment, why: LogDamaged) -> None:
        """The segment is damaged."""
        if segment not in self._damaged:
            self._damaged[segment] = why
            logger.error("%s", why.detail)
            self.on_damage()

    def frames(self, begin: int, end: int, why: LogDamaged) -> list[Frame]:
        """The lake's messages at these positions. Raises `why` when the lake does not say that it holds the log so
        far."""
        if not self._settings.lake.verify:
            raise why
        try:
            return [*_read(self._history, begin, end, end)]
        except LakeUnreadable as error:
            logger.warning("%s; and %s", why.detail, error.detail)
            raise why from None

    # Mending ---------------------------------------------------------------------------------

    def mend(self, damaged: DamagedSegment) -> None:
        """Put a sound file in the segment's place, as the log is opened. Raises `LogDamaged`."""
        try:
            stand_in = self._make(damaged)
            self._check_what_waits(damaged, stand_in)
            name = put_in_place(self._log.files, damaged.segment, stand_in.segment)
        except OSError as error:
            raise damaged.refused(f"it can't be written again: {error}") from None
        _say(damaged, stand_in, name)

    def put_off(self, why: LogDamaged, end: int, state: LogState) -> None:
        """Let a log be opened whose written segment is damaged below that position, if the lake holds what is damaged:
        what is lost are messages alone. They come from there, until the segment is sealed, and mended."""
        lake = self._settings.lake
        held = CertainLake(lake.dir, self._settings.broker.name).look(log_id=state.identity.log_id).position
        if not lake.verify or held < end:
            raise why
        logger.warning("%s; the lake holds what is damaged", why.detail)
        self._put_off = why

    def _make(self, damaged: DamagedSegment) -> StandIn:
        """The sound file, beside the damaged one. Raises `LogDamaged`, `OSError`."""
        lake, name, identity = self._settings.lake, self._settings.broker.name, damaged.state.identity
        if not lake.verify:
            raise damaged.refused("this gateway does not see its lake (lake.verify = false)")
        held, fault = CertainLake(lake.dir, name).look(log_id=identity.log_id)
        if held < damaged.end_position:
            so_far = f"the lake holds the log up to position {held}, and the segment ends at {damaged.end_position}"
            raise damaged.refused(fault or so_far)
        history = History(lake.dir, _ids_of(name, identity), CACHE_BYTES, lambda: identity.log_id)

        def read(begin: int, end: int, borders: Borders) -> Iterator[Frame]:
            return _read(history, begin, end, damaged.end_position, borders)

        # By the time that the table of keys goes by: a clock that jumped must not make it forget.
        since_ms = self._log.retention.steady_ms_after(damaged.last_ms) - self._settings.idempotency.window_ms
        try:
            return make_stand_in(self._log.files, damaged, read, self._codec, since_ms)
        except LakeUnreadable as error:
            raise damaged.refused(error.detail) from None

    async def look_after(self, replacing: Replacing, run: Run) -> None:
        """Mend what was found damaged, as far as the lake holds it."""
        now_s = asyncio.get_running_loop().time()
        for segment, why in list(self._damaged.items()):
            if segment not in self._log.segments:
                del self._damaged[segment]
            elif segment is self._log.active:
                self._log.begin_segment()  # its state is in memory: sealed, the next one says it
            elif not segment.sealing and self._again_s.get(segment, now_s) <= now_s:
                self._again_s[segment] = now_s + AGAIN_S
                try:
                    async with replacing.turn:
                        await self._mend_now(segment, why, replacing, run)
                except (LakemqError, OSError) as error:
                    self._say_once(str(error))
        self._again_s = {segment: at for segment, at in self._again_s.items() if segment in self._damaged}
        self.look()

    def open(self) -> None:
        """The log is open."""
        if self._put_off is not None:
            self._damaged[self._log.active] = self._put_off
        self.look()

    def look(self) -> None:
        """See what is kept."""
        self.kept = quarantined(self._log.files, self._log.directory)

    async def _mend_now(self, segment: Segment, why: LogDamaged, replacing: Replacing, run: Run) -> None:
        log = self._log
        number = log.segments.index(segment)
        before = log.segments[number - 1] if number else None
        damaged = DamagedSegment(
            segment, log.segments[number + 1], before, log.state, why, log.active_index.last_store_time_ms
        )
        stand_in = await run(lambda: self._make(damaged))
        self._check_what_waits(damaged, stand_in)
        made, files = stand_in.segment, log.files
        new = segment.rewritten(made.size, made.last_store_time_ms)
        names: list[str | None] = []
        if await replacing.replace(
            segment,
            new,
            lambda: names.append(set_aside(files, segment, made)),
            lambda: files.rename(made.path, segment.path),
        ):
            self._damaged.pop(segment, None)
            _say(damaged, stand_in, names[0])
        else:
            await asyncio.to_thread(self._drop_left, segment, made)

    def _drop_left(self, segment: Segment, made: Segment) -> None:
        """Retention took the segment while it was written again: nothing of it is to stay."""
        drop_stand_in(self._log.files, made)
        self._log.files.remove(segment.index_path)
        drop_side_files(self._log.files, segment)

    def _check_what_waits(self, damaged: DamagedSegment, stand_in: StandIn) -> None:
        """Nothing waits at what became holes. Raises `LogDamaged`, and then nothing is left of the file."""
        waits = damaged.state.routing.waiting_in(stand_in.gone)
        if waits is not None:
            drop_stand_in(self._log.files, stand_in.segment)
            raise damaged.refused(f"the message at position {waits} waits there, and is not in the lake")

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            logger.error("a damaged segment stays as it is: %s", line)

    # What is said ----------------------------------------------------------------------------

    @property
    def damaged(self) -> list[str]:
        """Why segments are damaged that nothing stands in for yet."""
        return [why.detail for why in list(self._damaged.values())]

    def degraded(self) -> list[str]:
        """What is wrong with the log's files; a line each."""
        found = list(self.damaged)
        if self.kept:
            names = ", ".join(self.kept[:3]) + ("" if len(self.kept) <= 3 else ", …")
            found.append(
                f"quarantine: {len(self.kept)} damaged files are kept next to the log, which now has their "
                f"messages from the lake; check the disk, then delete them: {names}"
            )
        return found


def _ids_of(broker: str, identity: LogIdentity) -> MessageIds:
    ids = MessageIds(broker)
    ids.open(identity)
    return ids


def _read(history: History, begin: int, end: int, held: int, borders: Borders | None = None) -> Iterator[Frame]:
    """The lake's messages at positions `begin ≤ p < end`; raises `LakeUnreadable` when it doesn't hold the log up to
    `held`."""
    while begin < end:
        found = history.stretch(begin, min(end, begin + POSITIONS_AT_ONCE), held, BYTES_AT_ONCE)
        if found is None:
            raise LakeUnreadable(f"no lake holds the log up to position {held}")
        batch, begin = found
        yield from as_frames(batch, borders or ())


def _say(damaged: DamagedSegment, stand_in: StandIn, name: str | None) -> None:
    logger.warning(
        "%s. A file with %d messages from the lake stands in for it; %d positions have none there. %s",
        damaged.why.detail,
        stand_in.from_lake,
        len(stand_in.gone),
        "There is nothing to keep" if name is None else f"The damaged one is kept as {name}",
    )
