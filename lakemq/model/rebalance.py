"""How a topic's queues are shared among the members of a consumer group.

Each member computes the whole assignment by itself and takes its part. So the same queues and the
same members, in any order, give the same assignment everywhere, and every queue goes to exactly one
member as long as there is one (`by_configuration` apart: there the configuration says so).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b

from lakemq.model.message_queue import MessageQueue

Assignment = dict[str, list[MessageQueue]]
"""The queues of each member, sorted. Every member is in it."""

Strategy = Callable[[Sequence[MessageQueue], Sequence[str]], Assignment]
"""Given the queues of one topic and the client ids of all members, who gets what."""

VIRTUAL_NODES = 10
"""Points of each member on the ring, as RocketMQ's AllocateMessageQueueConsistentHash has it."""


def averagely(queues: Iterable[MessageQueue], members: Iterable[str]) -> Assignment:
    """Stretches of neighbouring queues; the first members get one more where it does not divide."""
    ordered, names = sorted(queues), sorted(members)
    assignment: Assignment = {}
    begin = 0
    for number, name in enumerate(names):
        size = len(ordered) // len(names) + (number < len(ordered) % len(names))
        assignment[name] = ordered[begin : begin + size]
        begin += size
    return assignment


def averagely_by_circle(queues: Iterable[MessageQueue], members: Iterable[str]) -> Assignment:
    """Queues dealt out one by one in turn: each broker's queues are spread over the members."""
    ordered, names = sorted(queues), sorted(members)
    return {name: ordered[number :: len(names)] for number, name in enumerate(names)}


def by_configuration(configured: Mapping[str, Iterable[MessageQueue]]) -> Strategy:
    """Each member gets the existing queues that are configured for its client id.

    Nobody consumes a queue that isn't configured for any member, or whose member is absent. All members must have the
    same configuration. Raises `ValueError` if a queue is configured for two members.
    """
    owners: dict[MessageQueue, str] = {}
    for name, queues in configured.items():
        for queue in queues:
            if owners.setdefault(queue, name) != name:
                raise ValueError(f"{queue} is configured for both {owners[queue]!r} and {name!r}")

    def strategy(queues: Iterable[MessageQueue], members: Iterable[str]) -> Assignment:
        assignment: Assignment = {name: [] for name in sorted(members)}
        for queue in sorted(queues):
            if (owner := owners.get(queue)) in assignment:
                assignment[owner].append(queue)
        return assignment

    return strategy


def by_machine_room(
    room_of_broker: Callable[[str], str], room_of_member: Callable[[str], str], within: Strategy = averagely
) -> Strategy:
    """Queues go to the members in their broker's room. Queues of rooms without members go to all members.

    `within` assigns them within the room. Modelled on RocketMQ's AllocateMachineRoomNearby.
    """

    def strategy(queues: Iterable[MessageQueue], members: Iterable[str]) -> Assignment:
        names = sorted(members)
        assignment: Assignment = {name: [] for name in names}
        living = {room_of_member(name) for name in names}
        by_room: dict[str | None, list[MessageQueue]] = {}
        for queue in sorted(queues):
            room = room_of_broker(queue.broker)
            by_room.setdefault(room if room in living else None, []).append(queue)
        for room, theirs in by_room.items():
            candidates = names if room is None else [name for name in names if room_of_member(name) == room]
            for name, part in within(theirs, candidates).items():
                assignment[name] += part
        return {name: sorted(part) for name, part in assignment.items()}

    return strategy


def consistent_hash(queues: Iterable[MessageQueue], members: Iterable[str]) -> Assignment:
    """Each queue to the next member on a ring of hashes: who joins only takes queues, who leaves only
    gives its own. Less even than the others."""
    names = sorted(members)
    assignment: Assignment = {name: [] for name in names}
    ring = sorted((_hash(f"{name}-{point}"), name) for name in names for point in range(VIRTUAL_NODES))
    if ring:
        for queue in sorted(queues):
            place = bisect_left(ring, (_hash(f"{queue.topic} {queue.broker} {queue.queue_id}"), ""))
            assignment[ring[place % len(ring)][1]].append(queue)
    return assignment


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


STRATEGIES: Mapping[str, Strategy] = {
    "averagely": averagely,
    "averagely_by_circle": averagely_by_circle,
    "consistent_hash": consistent_hash,
}
"""Those that need no more than a name."""
