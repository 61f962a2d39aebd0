"""The primary of a follower: where it is, what it says of itself, and its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.contract import routes
from lakemq.contract.route import Target
from lakemq.gateway.fleet.tenure import Elected
from lakemq.model.agreement import History
from lakemq.model.errors import Fenced, InvalidRequest, LakemqError, PositionGone
from lakemq.settings import Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.log.next_frames import Diverged, Page, next_frames
from lakemq.storage.segment.frame import KIND_STATE, FrameError, LogEpoch, decode_meta, open_payload
from lakemq.storage.segment.segment import segment_path
from lakemq.wire.connections import Answer, Connections, NoAnswer, Params
from lakemq.wire.name_servers import NameServers

ANSWER_S = 10.0
NEWER: tuple[str, ...] = ("address", "first")
"""What a follower says of itself since 2026-11-30: older primaries refuse what they don't know."""


class Greeting(NamedTuple):
    """What the primary says of itself."""

    log_id: str
    min_position: int
    max_position: int
    compacted_position: int
    confirmed_position: int
    epoch: int
    erasures: int
    history: History


class Own(NamedTuple):
    """What a follower says of itself: which one it is, in which stretch of its life, and how far its disk has the
    log, and how many of the log's erasures it has carried out."""

    replica: int
    incarnation: str
    durable: int
    erased: int
    seen_epoch: int = 0
    """The highest that it goes by: who leads in one below is no primary of its own."""
    address: str = ""
    """Where clients reach it; empty: not known yet."""
    first: int = 0
    """The first position of its log."""


class Said(NamedTuple):
    """What the primary says with each answer: how far it has the log on disk, how far all have it that are in sync, and
    how far somebody waits for that. `sync`: consumers see no more than is confirmed. `counted`: what the follower says
    of itself counts; it doesn't once another has come as the same replica. `erased`: so many erasures are to be carried
    out before any message is shown. `parts`: of sinks, which are about to be committed. `epoch`: in which it leads; 0
    where nobody is elected."""

    end_position: int
    confirmed_position: int
    awaited_position: int
    sync: bool
    in_sync: tuple[int, ...]
    counted: bool
    erased: int
    parts: tuple[str, ...]
    epoch: int = 0


class Answered(NamedTuple):
    """Frames that go on where they were asked for, by who had the log on disk up to `durable`."""

    page: Page
    size: int
    durable: int
    said: Said


class Primary:
    """That of one follower. For one thread at a time. All that asks it raises `NoAnswer` where it can't be reached, or
    nobody knows where it is, and `LakemqError` where it refuses, or isn't the primary."""

    def __init__(self, settings: Settings, elected: Elected | None = None) -> None:
        self._name = settings.broker.name
        self._elected = elected
        self._given = settings.fleet.primary
        self._trust = settings.tls.trust
        self._servers = NameServers(settings.fleet.nameservers, trust=self._trust)
        self._connections: Connections | None = None
        self._greeted = 0
        """The epoch of its log when it was greeted last."""
        self._is_older = False
        """Whether it has refused, since it was greeted, what older ones don't know."""

    @property
    def address(self) -> str:
        """Where it was last; empty: not known yet."""
        return self._given if self._connections is None else self._connections.address

    def greet(self) -> Greeting:
        """Find it, and have it say what it is."""
        if self._elected is not None:
            address, nobody = self._elected.where(), f"nobody leads {self._name} yet"
        else:
            address = self._given or self._servers.primaries().get(self._name, "")
            nobody = f"the name servers know no primary of {self._name}"
        if not address:
            raise NoAnswer(nobody, sent=False)
        if self._connections is None or self._connections.address != address:
            self.close()
            self._connections = Connections(address, trust=self._trust)
        said = self._ask(routes.BROKER.at()).body
        try:
            found = json.loads(said)
            name, role = found["name"], found["role"]
            least, end, compacted, confirmed = (
                int(found[f"{each}_position"]) for each in ("min", "max", "compacted", "confirmed")
            )
            epochs = tuple((int(epoch), int(first)) for epoch, first in found.get("epochs", ()))
            epoch, erasures = int(found["epoch"]), int(found.get("erasures", 0))
            positions = least, end, compacted, confirmed
            greeting = Greeting(str(found["log_id"]), *positions, epoch, erasures, History(epochs, end))
        except (ValueError, KeyError, TypeError) as error:
            raise NoAnswer(f"{address} is no broker: {error!r}", sent=True) from None
        if (name, role) != (self._name, "primary"):
            raise LakemqError(f"{address} is a {role} of broker {name}, and not the primary of {self._name}")
        if self._elected is not None:
            self._check_epoch(str(greeting.epoch), self._elected.incarnation.highest)
        self._greeted, self._is_older = greeting.epoch, False
        return greeting

    def frames(self, begin: int, log: LogEpoch, log_id: str, own: Own, wait_ms: int, bytes_max: int) -> Answered:
        """Frames of its log from `begin` on, after `wait_ms` at most. Raises `Diverged` where they can't be such as
        follow there, and `NoAnswer` where its log has begun another epoch since it was greeted."""
        params: Params = {"from": begin, "wait_ms": wait_ms, "bytes_max": bytes_max}
        params = {**params, **self._told(own), "epoch": log.epoch}
        try:
            answer = self._ask(routes.LOG_FRAMES.at(), params, ANSWER_S + wait_ms / 1000)
        except PositionGone as error:
            raise Diverged(f"{error.detail}, and this log ends there") from None
        except InvalidRequest:
            if self._is_older:
                raise
            self._is_older = True
            return self.frames(begin, log, log_id, own, wait_ms, bytes_max)
        self._check_epoch(answer.headers.get("Lakemq-Leader-Epoch", "0"), own.seen_epoch)
        said = _said(answer)
        epoch = _number(answer, "Lakemq-Epoch")
        if epoch != self._greeted:  # others may have led since: the histories are to be compared again
            raise NoAnswer(f"{self.address} is in epoch {epoch}; when greeted it was in {self._greeted}", sent=True)
        check_end(begin, said.end_position)
        check_log(log_id, answer.headers.get("Lakemq-Log-Id", ""))
        return Answered(next_frames(answer.body, begin, log), len(answer.body), own.durable, said)

    def _told(self, own: Own) -> Params:
        said: dict[str, str | int] = own._asdict()
        return {name: value for name, value in said.items() if not self._is_older or name not in NEWER}

    def _check_epoch(self, leads_in: str, seen: int) -> None:
        """Raise `Fenced` where another leads since: nothing that this one says counts."""
        if not leads_in.isdigit() or int(leads_in) < seen:
            raise Fenced(f"{self.address} leads in epoch {leads_in[:20]}, and there is epoch {seen}")

    def look_at(self, position: int) -> None:
        """Have it look at its own frame there: what is damaged in its files it mends, where it can. Raises
        `LakemqError` where that is so."""
        self._ask(routes.LOG_MESSAGES.at(), {"from": position, "to": position + 1})

    def frame_of(self, position: int) -> bytes:
        """The frame that holds the position, as it stands in its files; empty while that isn't confirmed. Raises
        `PositionGone` where that has left its log."""
        data = self._ask(routes.LOG_FRAMES.at(), {"from": position, "bytes_max": 1, **self._seen()}).body
        if not data:
            return b""
        try:
            at, meta = 0, decode_meta(data)
            if meta.kind == KIND_STATE:
                at, meta = meta.frame_bytes, decode_meta(data, meta.frame_bytes)
            frame = data[at : at + meta.frame_bytes]
            open_payload(meta, memoryview(frame)[meta.meta_bytes :])
        except FrameError as error:
            raise LakemqError(f"its frame at position {position} is not sound: {error}") from None
        return frame

    def part(self, token: str, replica: int) -> Iterator[bytes]:
        """The file of a part that it commits, in pieces."""
        at, size = 0, 1
        while at < size:
            answer = self._ask(routes.LOG_PART.at(token), {"from": at, "replica": replica})
            size = _number(answer, "Lakemq-Part-Bytes")
            if not answer.body:
                raise NoAnswer(f"{self.address}: part {token} ends early", sent=True)
            at += len(answer.body)
            yield answer.body

    def leave(self, end: int, epoch: int, own: Own) -> None:
        """Tell it that this one, whose log ends there and in that epoch, stops. By a connection of its own, and so in
        any thread: an answer may be on its way by another. An older primary takes it for a question for nothing."""
        params: Params = {"from": end, "to": end, "bytes_max": 1, **self._told(own), "epoch": epoch, "leaves": "yes"}
        connections = Connections(self.address, trust=self._trust)
        try:
            connections.ask(routes.LOG_FRAMES.at(), params, timeout_s=ANSWER_S)
        finally:
            connections.close()

    def _seen(self) -> Params:
        """By what a leader that is elected knows that it is asked by a replica: it shows that what isn't confirmed."""
        return {} if self._elected is None else {"seen_epoch": self._elected.incarnation.highest}

    def first_state(self) -> tuple[int, bytes]:
        """The position with which its log begins, and the state frame that stands there."""
        begin = self.greet().min_position
        params: Params = {"from": begin, "bytes_max": 1, "state": "yes", **self._seen()}
        answer = self._ask(routes.LOG_FRAMES.at(), params)
        try:
            meta = decode_meta(answer.body)
            frame = answer.body[: meta.frame_bytes]
            open_payload(meta, frame[meta.meta_bytes :])
        except FrameError as error:
            raise LakemqError(f"the state that its log begins with is not sound: {error}") from None
        if (meta.kind, meta.first_position) != (KIND_STATE, begin):
            raise LakemqError(f"its log doesn't begin with a state at position {begin}")
        return begin, frame

    def _ask(self, target: Target, params: Params | None = None, timeout_s: float = ANSWER_S) -> Answer:
        assert self._connections is not None
        try:
            answer = self._connections.ask(target, params, timeout_s=timeout_s)
        except NoAnswer as error:
            raise NoAnswer(f"{self.address}: {error}", error.sent) from None
        if (refusal := answer.error(self.address)) is not None:
            raise refusal
        return answer

    def close(self) -> None:
        """Close the connections that nothing is asked by."""
        self._servers.close()
        if self._connections is not None:
            self._connections.close()


def check_log(own: str, its: str) -> None:
    """Raise `Diverged` unless both are the same log."""
    if own != its:
        raise Diverged(f"the primary's log is another one now: {its}, and this is {own}")


def check_end(end: int, its_end: int) -> None:
    """Raise `Diverged` where this log goes on beyond what the primary has on disk: it was never sent that."""
    if end > its_end:
        raise Diverged(f"this log ends with position {end}, and the primary's with {its_end}")


def begin_log(primary: Primary, files: Files, directory: Path) -> None:
    """Have the directory hold the primary's log as far as its first state. Raises `OSError` and as `Primary` does."""
    position, frame = primary.first_state()
    files.replace(segment_path(directory, position), [frame])  # an empty file would be taken for no segment at all
    files.sync_above(directory)


def _said(answer: Answer) -> Said:
    confirmed, headers = _number(answer, "Lakemq-Confirmed-Position"), answer.headers
    in_sync, counted = headers.get("Lakemq-In-Sync", ""), "Lakemq-Awaited-Position" in headers
    return Said(
        _number(answer, "Lakemq-End-Position"),
        confirmed,
        _number(answer, "Lakemq-Awaited-Position") if counted else 0,
        headers.get("Lakemq-Ack") == "sync",
        tuple(int(each) for each in in_sync.split(",") if each.isdigit()),
        counted,
        _number(answer, "Lakemq-Erased") if "Lakemq-Erased" in headers else 0,
        tuple(each for each in headers.get("Lakemq-Parts", "").split(",") if each),
        _number(answer, "Lakemq-Leader-Epoch") if "Lakemq-Leader-Epoch" in headers else 0,
    )


def _number(answer: Answer, name: str) -> int:
    text: Any = answer.headers.get(name, "")
    if not text.isdigit():
        raise NoAnswer(f"the answer lacks {name}", sent=True)
    return int(text)
