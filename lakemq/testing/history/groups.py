"""Committed offsets are kept, and a queue that is locked has one owner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Operation
from lakemq.testing.history.power_cuts import PowerCuts
from lakemq.testing.history.sightings import Sightings

Queue = tuple[str, str, int]


def find_offsets_back(sightings: Sightings) -> Iterator[Finding]:
    """What `offsets` reads of a queue is no older than what was committed before, and what was read
    before; unless somebody committed less, or reset the group, meanwhile. A power cut may take a commit that
    nobody has synced: the messages come again.

    `commit_offset` asks for `group`, `topic`, `queue_id`, `offset`; `read_offset` returns `offset` (None
    for none).
    """
    by_queue: dict[Queue, list[Operation]] = defaultdict(list)
    for operation in sightings.history.of("commit_offset", "read_offset", "reset_offset"):
        request = operation.request
        by_queue[request["group"], request["topic"], request["queue_id"]].append(operation)
    cuts = PowerCuts(sightings)
    for queue, operations in by_queue.items():
        for read in operations:
            if read.kind == "read_offset" and read.ok:
                yield from _back(queue, operations, read, cuts)


def _back(queue: Queue, operations: list[Operation], read: Operation, cuts: PowerCuts) -> Iterator[Finding]:
    found: int = -1 if read.result["offset"] is None else read.result["offset"]
    before = [each for each in operations if each.before(read) and each.ok and each.kind != "reset_offset"]
    known = [each for each in before if not cuts.may_have_taken(each, read.begun)]
    if not known:
        return
    last = max(known, key=_offset)
    allowed = (
        each.kind == "reset_offset" or (each.kind == "commit_offset" and each.request["offset"] <= found)
        for each in operations
        if not each.before(last) and each is not last and each.begun < read.ended
    )
    if _offset(last) > found and not any(allowed):
        what = f"{queue[0]} had offset {_offset(last)} of {queue[1]}/{queue[2]}, and then {read.result['offset']}"
        yield Finding(Kind.OFFSET_WENT_BACK, what, (last.number, read.number))


def _offset(operation: Operation) -> int:
    offset = operation.request["offset"] if operation.kind == "commit_offset" else operation.result["offset"]
    return -1 if offset is None else offset


def find_offsets_ahead(sightings: Sightings) -> Iterator[Finding]:
    """What `offsets` reads of a queue somebody has committed, unless the group was reset: a consumer that goes on
    from beyond it skips in silence what is before."""
    by_queue: dict[Queue, list[Operation]] = defaultdict(list)
    for commit in sightings.history.of("commit_offset", "reset_offset"):
        if commit.outcome != "failed":
            request = commit.request
            by_queue[request["group"], request["topic"], request["queue_id"]].append(commit)
    for read in sightings.history.done("read_offset"):
        queue = read.request["group"], read.request["topic"], read.request["queue_id"]
        before = [each for each in by_queue.get(queue, ()) if each.begun < read.ended]
        if not before or any(each.kind == "reset_offset" for each in before):
            continue
        last = max(before, key=_offset)
        if (read.result["offset"] or 0) > _offset(last):
            what = f"{queue[0]} has offset {read.result['offset']} of {queue[1]}/{queue[2]}, and committed at most"
            yield Finding(Kind.OFFSET_AHEAD, f"{what} {_offset(last)}", (last.number, read.number))


def find_two_owners(sightings: Sightings) -> Iterator[Finding]:
    """`lock` asks for `group`, `topic`, `queue_id`, `hold_ms` and returns `locked`; `unlock` ends it. A
    client is the owner for certain from the answer until `hold_ms` after the question, or its unlock, or until
    a power cut that may have taken the lock."""
    owned: dict[Queue, list[tuple[float, float, Operation]]] = defaultdict(list)
    unlocks = list(sightings.history.of("unlock"))
    cuts = PowerCuts(sightings)
    for lock in sightings.history.done("lock"):
        if not lock.result["locked"]:
            continue
        request = lock.request
        queue = request["group"], request["topic"], request["queue_id"]
        end = lock.begun_ms + request["hold_ms"]
        for unlock in unlocks:
            same = (unlock.request["group"], unlock.request["topic"], unlock.request["queue_id"]) == queue
            if same and unlock.client == lock.client and unlock.begun > lock.begun:
                end = min(end, unlock.begun_ms)
        owned[queue].append((lock.ended_ms, end, lock))
    for queue, spans in owned.items():
        spans.sort(key=lambda span: span[0])
        for at, (_, end, lock) in enumerate(spans):
            for begin, _, other in spans[at + 1 :]:
                if begin >= end:
                    break
                if other.client != lock.client and not cuts.may_have_taken(lock, other.begun):
                    what = f"{lock.client} and {other.client} both owned {queue[1]}/{queue[2]} of {queue[0]}"
                    yield Finding(Kind.TWO_OWNERS, what, (lock.number, other.number))
