"""A page of what is shown, for a terminal of a size: lines of pieces with a colour each. Nothing in it steers one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from lakemq.cli import shown
from lakemq.cli.top.rows import (
    BrokerRow,
    GroupRow,
    JobRow,
    Number,
    TopicRow,
    Watched,
    broker_rows,
    group_rows,
    job_rows,
    topic_rows,
)

Row = TypeVar("Row", BrokerRow, TopicRow, GroupRow, JobRow)
TOPIC_SORTS = ("in", "out", "bytes", "name")
GROUP_SORTS = ("lag", "oldest", "retries", "dead", "name")
HELP = "q quit  t topics by …  g groups by …  l by lag  space now"
NAME_MAX, NAME_MIN = 48, 8
BOLD, DIM = "bold", "dim"
NOT_KNOWN = "-"
BUSY_MS, FULL = 20.0, 0.9
"""A loop that is so late, and a disk that is so full, is shown as what is wrong."""


class Piece(NamedTuple):
    """Some text in a colour, as rich calls it; empty: in none."""

    text: str
    colour: str = ""


Line = list[Piece]


class View(NamedTuple):
    """How it is to be shown. `said`: what is to be known of the whole."""

    topics_by: str = TOPIC_SORTS[0]
    groups_by: str = GROUP_SORTS[0]
    said: str = ""

    def with_key(self, key: str) -> View:
        """As the key asks for."""
        if key == "t":
            return self._replace(topics_by=_next(TOPIC_SORTS, self.topics_by))
        if key == "g":
            return self._replace(groups_by=_next(GROUP_SORTS, self.groups_by))
        return self._replace(groups_by="lag") if key == "l" else self


class _Part(NamedTuple):
    """A table. `least`: so many of its rows at least have a place, where there are so many."""

    title: str
    head: tuple[str, ...]
    rows: list[list[Piece]]
    total: int
    least: int


def page(watched: Sequence[Watched], view: View, width: int, height: int, keys: bool = True) -> list[Line]:
    """At most so many lines, of at most so many columns."""
    top: list[Line] = [[Piece(_title(watched), BOLD)]]
    if view.said:
        top.append([Piece(shown.plain(view.said), shown.NOWHERE)])
    parts = [each for each in _parts(watched, view, height) if each.total or each.title != "jobs"]
    room = max(height - len(top) - int(keys) - 2 * len(parts), len(parts))
    lines = top
    for part, count in zip(parts, _places(parts, room), strict=True):
        more = part.total - count
        title = f"{part.title}{f' ({more} more)' if more > 0 else ''}"
        lines.append([Piece(title, BOLD)])
        lines += _table(part.head, part.rows[:count])
    if keys:
        lines = [*lines[: max(height - 1, 1)], [Piece(HELP, DIM)]]
    return [_cut(line, width) for line in lines[: max(height, 1)]]


def _title(watched: Sequence[Watched]) -> str:
    there = sum(each.answers is not None for each in watched)
    return f"lakemq top: {there} of {len(watched)} replicas answer"


def _parts(watched: Sequence[Watched], view: View, most: int) -> list[_Part]:
    brokers, jobs = broker_rows(watched), job_rows(watched)
    topics, groups = topic_rows(watched, view.topics_by), group_rows(watched, view.groups_by)
    return [
        _part("brokers", _BROKER, brokers, _of_broker, most, 3),
        _part(f"topics by {view.topics_by}", _TOPIC, topics, _of_topic, most, 3),
        _part(f"groups by {view.groups_by}", _GROUP, groups, _of_group, most, 3),
        _part("jobs", _JOB, jobs, _of_job, most, 2),
    ]


def _part(
    title: str, head: tuple[str, ...], rows: Sequence[Row], cells: Callable[[Row], list[Piece]], most: int, least: int
) -> _Part:
    return _Part(title, head, [cells(row) for row in rows[:most]], len(rows), least)


def _places(parts: Sequence[_Part], room: int) -> list[int]:
    """How many rows of each are shown: a few of each first, and then of each one more as long as there is room."""
    counts = [0] * len(parts)
    for rounds in (True, False):
        grown = True
        while grown and sum(counts) < room:
            grown = False
            for index, part in enumerate(parts):
                most = min(part.least, len(part.rows)) if rounds else len(part.rows)
                if counts[index] < most and sum(counts) < room:
                    counts[index] += 1
                    grown = True
    return counts


_BROKER = (
    "broker", "role", "epoch", "in sync", "in/s", "out/s", "lag", "disk", "full in", "loop ms", "conns", "address",
)  # fmt: skip
_TOPIC = ("topic", "in/s", "out/s", "bytes in/s", "bytes out/s")
_GROUP = ("group", "members", "lag", "oldest", "retries", "dead letters")
_JOB = ("job", "broker", "alive", "lag", "behind", "last seen")


def _of_broker(row: BrokerRow) -> list[Piece]:
    name = f"{row.broker or row.address}{'' if row.replica is None else f'/{row.replica}'}"
    if row.problem:
        where = f"{row.address}: " if row.broker else ""
        return [_name(name), Piece(shown.plain(f"{where}{row.problem}"), shown.NOWHERE)]
    return [
        _name(name),
        Piece(row.role, shown.HERE if row.role == "primary" else ""),
        _count(row.epoch),
        Piece(row.in_sync or NOT_KNOWN),
        _rate(row.messages_in),
        _rate(row.messages_out),
        _lag(row.lag),
        Piece(NOT_KNOWN) if row.disk is None else Piece(f"{row.disk:.0%}", shown.NOWHERE if row.disk >= FULL else ""),
        _time(row.full_in_s),
        Piece(NOT_KNOWN)
        if row.loop_ms is None
        else Piece(f"{row.loop_ms:.1f}", shown.NOWHERE if row.loop_ms >= BUSY_MS else ""),
        _count(row.connections),
        Piece(shown.plain(row.address)),
    ]


def _of_topic(row: TopicRow) -> list[Piece]:
    rates = row.messages_in, row.messages_out
    return [_name(row.topic), *map(_rate, rates), *map(_bytes, (row.bytes_in, row.bytes_out))]


def _of_group(row: GroupRow) -> list[Piece]:
    more = _lag(row.retries, shown.LABEL), _lag(row.dead)
    return [_name(row.group), _count(row.members), _lag(row.lag, shown.LABEL), _time(row.oldest_s), *more]


def _of_job(row: JobRow) -> list[Piece]:
    alive = Piece("yes", shown.HERE) if row.alive else Piece("no", shown.NOWHERE)
    return [_name(row.job), _name(row.broker), alive, _count(row.lag), _time(row.behind_s), _time(row.heard_s)]


def _name(text: str) -> Piece:
    text = shown.plain(text)
    return Piece(text if len(text) <= NAME_MAX else f"{text[: NAME_MAX - 1]}…", shown.NAME)


def _count(number: Number) -> Piece:
    return Piece(NOT_KNOWN if number is None or not math.isfinite(number) else f"{number:,.0f}")


def _lag(number: Number, colour: str = shown.NOWHERE) -> Piece:
    return _count(number)._replace(colour=colour if number else "")


def _rate(number: Number) -> Piece:
    if number is None:
        return Piece(NOT_KNOWN)
    return Piece(f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}")


def _bytes(number: Number) -> Piece:
    if number is None:
        return Piece(NOT_KNOWN)
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return Piece(f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}")
        number /= 1024
    return Piece(f"{number:,.1f} GiB")


def _time(seconds: Number) -> Piece:
    if seconds is None or math.isnan(seconds):
        return Piece(NOT_KNOWN)
    if math.isinf(seconds):
        return Piece("never")
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return Piece(f"{seconds / size:,.0f} {unit}")
    return Piece(f"{seconds:.0f} s")


def _table(head: Sequence[str], rows: Sequence[list[Piece]]) -> Iterable[Line]:
    """With columns as wide as what stands in them; numbers stand at their column's right."""
    whole = [row for row in rows if len(row) == len(head)]
    widths = [max([len(title), *(len(row[at].text) for row in whole)]) for at, title in enumerate(head)]
    widths[0] = max([widths[0], *(len(row[0].text) for row in rows)])
    yield [Piece("  ".join(_placed(title, widths[at], at) for at, title in enumerate(head)).rstrip(), DIM)]
    for row in rows:
        line: Line = []
        for at, piece in enumerate(row):
            line.append(Piece(_placed(piece.text, widths[at], at) if len(row) == len(head) or at == 0 else piece.text,
                              piece.colour))  # fmt: skip
            line.append(Piece("  "))
        yield line[:-1]


def _placed(text: str, width: int, at: int) -> str:
    return text.ljust(width) if at == 0 or text.startswith("http") or text == "address" else text.rjust(width)


def _cut(line: Line, width: int) -> Line:
    cut: Line = []
    for piece in line:
        cut.append(Piece(shown.plain(piece.text[:width]), piece.colour))
        width -= len(cut[-1].text)
        if width <= 0:
            break
    return cut


def _next(choices: Sequence[str], now: str) -> str:
    return choices[(choices.index(now) + 1) % len(choices)]
