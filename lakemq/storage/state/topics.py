"""Topics and their queues, as the log's records make them.

Every change is a record, a JSON message in the system topic `RMQ_SYS_TOPICS`; `TopicTable.apply`
is the one way in, while serving and while recovering. Of a deleted topic only where its queues ended
is kept (`endings.py`), so that one made again goes on with its offsets.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, NotRequired, TypedDict
from weakref import WeakSet

from lakemq.model.errors import InvalidRequest, QueueNotFound, TopicNotFound
from lakemq.model.names import ACCESS_TOPIC, GROUP_TOPIC, SINK_TOPIC
from lakemq.model.quota import Made
from lakemq.model.schema import NO_SCHEMAS, TopicSchemas
from lakemq.model.topic_config import NOTHING_SAID, TopicConfig
from lakemq.model.traffic import Traffic
from lakemq.storage.segment.frame import encode_queue
from lakemq.storage.state.endings import Endings
from lakemq.storage.state.routing_state import is_routed
from lakemq.storage.state.steps import Steps, copy_each, finish
from lakemq.storage.state.waking import wake_all

TOPICS_TOPIC = "RMQ_SYS_TOPICS"
PERMISSIONS = ("rw", "r", "w")
STEP = 200
"""So many topics are copied in one step."""
LATELY = 1_000
"""Of so many changes it is known which topics they were of."""


def says_something(topic: str) -> bool:
    """Whether the topic's messages change the log's state beside being stored."""
    return topic in (TOPICS_TOPIC, GROUP_TOPIC, SINK_TOPIC, ACCESS_TOPIC) or is_routed(topic)


class TopicRecord(TypedDict):
    """A change of one topic, as it stands in the log."""

    op: str
    topic: str
    queues: int
    permission: str
    config: NotRequired[dict[str, Any]]
    schema: NotRequired[dict[str, Any] | None]
    """A new version of the topic's schema; None: it has none any more. Where it isn't said nothing of it changes."""
    table: NotRequired[bool]
    """Whether the jobs keep a Delta table of the topic."""
    made: NotRequired[bool]
    """Whether it makes the topic: one that changes it does too, where the other was lost to damage."""
    created_by: NotRequired[str]
    """The user for which the topic counts from now on; where it isn't said that stays as it was."""


class Queue:
    """One queue of a topic: offsets `min_offset ≤ o < next_offset` are in the log; of these the last `unconfirmed` are
    not for consumers yet."""

    __slots__ = (
        "__weakref__",
        "encoded",
        "fill_offset",
        "fill_position",
        "floor",
        "gaps",
        "key",
        "min_offset",
        "next_offset",
        "queue_id",
        "says_something",
        "topic",
        "unconfirmed",
        "waiters",
    )

    def __init__(self, topic: str, queue_id: int, next_offset: int = 0) -> None:
        self.topic = topic
        self.says_something = says_something(topic)
        self.queue_id = queue_id
        self.key = (topic, queue_id)
        self.min_offset = next_offset
        self.next_offset = next_offset
        self.unconfirmed = 0
        # Below are messages of a topic of this name that was deleted.
        self.floor = 0
        # Offsets `begin ≤ o < end` that may have been given to messages that are lost: ascending.
        self.gaps: list[tuple[int, int]] = []
        self.encoded = encode_queue(topic, queue_id)
        # Where the frame that is being built puts this queue's next row.
        self.fill_offset = 0
        self.fill_position = 0
        self.waiters: set[asyncio.Future[None]] = set()

    @property
    def end_offset(self) -> int:
        """Consumers read below it."""
        return self.next_offset - self.unconfirmed

    @property
    def begin_offset(self) -> int:
        """Where what the log has of it begins for consumers: before a gap at its beginning that isn't confirmed."""
        return min(self.min_offset, max(self.end_offset, 0))

    def hide(self) -> None:
        """Make all that the queue holds unreadable: its topic was deleted."""
        self.floor = self.min_offset = self.next_offset
        self.wake()

    def become(self, other: Queue) -> None:
        """Be as far as `other`, another state of the same queue."""
        if self.next_offset < other.next_offset:
            self.wake()
        self.next_offset, self.floor, self.gaps = other.next_offset, other.floor, other.gaps
        self.min_offset = max(self.min_offset, self.floor)

    def pass_over(self, count: int) -> None:
        """Go on `count` offsets later: those between are given to no message."""
        begin, end = self.next_offset, self.next_offset + count
        self.next_offset = end
        if begin <= self.floor:
            self.floor = end
        elif self.gaps and self.gaps[-1][1] == begin:
            self.gaps[-1] = self.gaps[-1][0], end
        else:
            self.gaps.append((begin, end))
        self.min_offset = max(self.min_offset, self.floor)

    def after_gap(self, offset: int) -> int:
        """The offset, or the end of the gap that it is in, as far as consumers may know of that."""
        for begin, end in self.gaps:
            if begin <= offset < end:
                return min(end, max(self.end_offset, offset))
        return offset

    def before_gap(self, offset: int) -> int:
        """The offset, or the last before the gap that it is in."""
        for begin, end in reversed(self.gaps):
            if begin <= offset < end:
                return begin - 1
        return offset

    def count_from(self, offset: int) -> int:
        """How many messages the queue was given from `offset` on."""
        first = bisect_right(self.gaps, offset, key=itemgetter(1))
        gaps = sum(end - max(begin, offset) for begin, end in self.gaps[first:])
        return max(self.next_offset - offset - gaps, 0)

    def visible_from(self, offset: int) -> int:
        """How many of these consumers see."""
        unseen = self.count_from(max(offset, self.end_offset)) if self.end_offset < self.next_offset else 0
        return self.count_from(offset) - unseen

    def given_between(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges of offsets from `begin` on, below `end`, that were given to messages."""
        for first, after in self.gaps:
            if after > begin and first < end:
                if first > begin:
                    yield begin, first
                begin = after
        if begin < end:
            yield begin, end

    def wake(self) -> None:
        """Tell everybody who waits for the queue that something arrived."""
        waiters, self.waiters = self.waiters, set()
        wake_all(waiters)


class Topic:
    """One topic. `deleted`: it is no more, who has it in hand looks for it again. `restricts`: messages have to be
    looked at, as `config` says. `expired`: how many were passed over since the process began. `since`: the position
    where it was made; what waits for a topic of its name from before is not for this one; 0: not known. `created_by`:
    the user that made it, or was the last to add queues; empty: nobody, or an earlier version did."""

    __slots__ = (
        "config",
        "created_by",
        "deleted",
        "expired",
        "name",
        "permission",
        "queues",
        "restricts",
        "round_robin",
        "schemas",
        "since",
        "traffic",
    )

    def __init__(self, name: str, permission: str, config: TopicConfig = NOTHING_SAID) -> None:
        self.name = name
        self.permission = permission
        self.since = 0
        self.created_by = ""
        self.configure(config)
        self.schemas = NO_SCHEMAS
        self.expired = 0
        self.queues: list[Queue] = []
        self.deleted = False
        self.round_robin = 0
        self.traffic = Traffic()

    def configure(self, config: TopicConfig) -> None:
        """Be as it says from now on."""
        self.config = config
        self.restricts = config.restricts

    @property
    def open(self) -> bool:
        """Whether clients may produce to it, as far as its permission says."""
        return not self.deleted and self.permission != "r"

    def next_queue(self) -> Queue:
        """The queue for a message that names none: each in turn."""
        queues = self.queues
        turn = self.round_robin
        self.round_robin = turn + 1 if turn + 1 < len(queues) else 0
        return queues[turn]


class TopicTable:
    """All topics of a broker, by name."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self.endings = Endings()
        self.queue_count = 0
        """Queues of all topics."""
        self.deleted: WeakSet[Queue] = WeakSet()
        """Queues of deleted topics that somebody has in hand still, maybe to store messages in them: empty, mostly."""
        self.schema_changes = 0
        """How often a topic's schema has changed, as far as this process knows."""
        self._changed: deque[str] = deque(maxlen=LATELY)
        self._put(TOPICS_TOPIC, 1, "r")

    def __len__(self) -> int:
        return len(self._topics)

    def find(self, name: str) -> Topic | None:
        """The topic, or None: never a deleted one."""
        return self._topics.get(name)

    def find_for(self, name: str, position: int) -> Topic | None:
        """The topic for which a message waits that was stored at that position; None: it was deleted since, whether
        there is another of its name or not."""
        topic = self.find(name)
        return None if topic is None or position < topic.since else topic

    def get(self, name: str) -> Topic:
        """The topic; raises `TopicNotFound`."""
        topic = self.find(name)
        if topic is None:
            raise TopicNotFound(f"there is no topic {name[:200]!r}")
        return topic

    def queue(self, name: str, queue_id: int) -> Queue:
        """The queue; raises `TopicNotFound` or `QueueNotFound`."""
        topic = self.get(name)
        if not 0 <= queue_id < len(topic.queues):
            raise QueueNotFound(f"topic {name!r} has queues 0 to {len(topic.queues) - 1}, not {queue_id}")
        return topic.queues[queue_id]

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def all_queues(self) -> Iterable[Queue]:
        """The queues of all topics."""
        for topic in self._topics.values():
            yield from topic.queues

    def made_by(self, user: str) -> Made:
        """What counts for that user: it takes the longer the more topics there are."""
        counts = [len(topic.queues) for topic in self._topics.values() if topic.created_by == user]
        return Made(len(counts), sum(counts))

    def floor(self, name: str, queue_id: int) -> int:
        """The first offset of the queue that was not deleted; no message has one as high as that of
        a queue that is not there."""
        topic = self.find(name)
        return topic.queues[queue_id].floor if topic and queue_id < len(topic.queues) else 2**63

    def apply(self, record: TopicRecord, position: int = 0) -> None:
        """Carry out a record of the log. The deletion of a topic that is not there changes nothing."""
        if record["op"] == "delete":
            self._delete(record["topic"])
        else:
            config = TopicConfig.of(record.get("config", {}))
            is_new = record.get("made", False) and record["topic"] not in self._topics
            self._put(record["topic"], record["queues"], record["permission"], config)
            if is_new:
                self._topics[record["topic"]].since = position
            if "created_by" in record:
                self._topics[record["topic"]].created_by = record["created_by"]
            if "schema" in record:
                topic = self._topics[record["topic"]]
                topic.schemas = topic.schemas.changed(record["schema"])
                self.schema_changes += 1
            if "table" in record:
                topic = self._topics[record["topic"]]
                topic.schemas = topic.schemas.with_table(record["table"])
                self.schema_changes += 1

    def _delete(self, name: str) -> None:
        topic = self._topics.pop(name, None)
        if topic is None:
            return
        topic.deleted = True
        self.schema_changes += topic.schemas.current is not None
        self.endings.add(name, [queue.next_offset for queue in topic.queues])
        self.queue_count -= len(topic.queues)
        for queue in topic.queues:
            queue.hide()
            self.deleted.add(queue)

    def apply_body(self, body: bytes, position: int = 0) -> tuple[str, int] | None:
        """Carry out a record as it stands in the log: the body of a message of `TOPICS_TOPIC`, at that position.
        Returns the topic and how many queues it has now, if it had not as many before."""
        record = json.loads(body)
        before = self._count(record["topic"])
        self.apply(record, position)
        self._changed.append(record["topic"])
        after = self._count(record["topic"])
        return None if before == after else (record["topic"], after)

    def is_changed(self, name: str, count: int) -> bool:
        """Whether one of the last `count` records is of that topic, as far as is known."""
        return count > len(self._changed) or name in islice(reversed(self._changed), count)

    def _count(self, name: str) -> int:
        topic = self.find(name)
        return len(topic.queues) if topic else 0

    def check_put(self, name: str, queues: int, permission: str, queues_max: int) -> None:
        """Raise `InvalidRequest` unless `apply` may make the topic so: queues only grow."""
        if permission not in PERMISSIONS:
            raise InvalidRequest(f"permission is one of {', '.join(PERMISSIONS)}, not {permission!r}")
        topic = self.find(name)
        least = len(topic.queues) if topic else 1
        if not least <= queues <= queues_max:
            raise InvalidRequest(
                f"queues is {queues}; topic {name!r} may have {least} to {queues_max}: queues only grow"
            )

    def _put(self, name: str, queues: int, permission: str, config: TopicConfig = NOTHING_SAID) -> None:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(name, permission)
        topic.permission = permission
        topic.configure(config)
        while len(topic.queues) < queues:
            topic.queues.append(self._new_queue(name, len(topic.queues)))

    def _new_queue(self, name: str, queue_id: int) -> Queue:
        begin = self.endings.begin(name, queue_id)
        queue = Queue(name, queue_id, begin)
        queue.floor = begin
        self.queue_count += 1
        return queue

    def pass_over(self, count: int) -> None:
        """Go on `count` offsets later in every queue, known or not: so many messages may be lost."""
        for queue in self.all_queues():
            queue.pass_over(count)
        self.endings.pass_over(count)

    def ensure_queue(self, name: str, queue_id: int) -> Queue:
        """The queue, made when missing: for frames whose topic's record has been lost to damage."""
        topic = self._topics.get(name)
        if topic is None or queue_id >= len(topic.queues):
            permission, config = (topic.permission, topic.config) if topic else ("rw", NOTHING_SAID)
            self._put(name, queue_id + 1, permission, config)
            topic = self._topics[name]
        return topic.queues[queue_id]

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return finish(self.dump_in_steps())

    def dump_in_steps(self) -> Steps[dict[str, Any]]:
        """`dump`, where no topic changes between the steps."""
        topics = yield from copy_each(self._topics, _dump, STEP)
        return {"topics": list(topics.values()), "endings": self.endings.dump()}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said."""
        self._topics.clear()
        self.endings.restore(dumped["endings"])
        for entry in dumped["topics"]:
            topic = self._topics[entry["topic"]] = Topic(
                entry["topic"], entry["permission"], TopicConfig.of(entry.get("config", {}))
            )
            topic.schemas = TopicSchemas.of(entry.get("schemas"))
            topic.since = entry.get("since", 0)
            topic.created_by = entry.get("created_by", "")
            for queue_id, next_offset in enumerate(entry["next_offsets"]):
                queue = Queue(topic.name, queue_id, next_offset)
                queue.floor = entry["floors"][queue_id]
                queue.gaps = [(begin, end) for begin, end in entry.get("gaps", {}).get(str(queue_id), [])]
                topic.queues.append(queue)
        self.queue_count = sum(len(topic.queues) for topic in self)
        self.schema_changes += 1

    def renew(self, dumped: dict[str, Any]) -> None:
        """`restore`, but topics and queues that are there already are kept, with where they begin and who waits."""
        before = dict(self._topics)
        self.restore(dumped)
        for new in list(self):
            topic = before.get(new.name)
            if topic is not None and len(topic.queues) <= len(new.queues):
                del before[new.name]
                for queue, said in zip(topic.queues, new.queues, strict=False):
                    queue.become(said)
                topic.queues += new.queues[len(topic.queues) :]
                topic.permission = new.permission
                topic.configure(new.config)
                topic.schemas, topic.since, topic.created_by = new.schemas, new.since, new.created_by
                self._topics[new.name] = topic
        for topic in before.values():
            topic.deleted = True
            for queue in topic.queues:
                self.deleted.add(queue)
                queue.wake()


def next_offsets(dumped: dict[str, Any]) -> dict[tuple[str, int], int]:
    """Each queue's next offset, of what `TopicTable.dump` said."""
    return {
        (entry["topic"], queue_id): next_offset
        for entry in dumped["topics"]
        for queue_id, next_offset in enumerate(entry["next_offsets"])
    }


def _dump(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "permission": topic.permission,
        "next_offsets": [queue.next_offset for queue in topic.queues],
        "floors": [queue.floor for queue in topic.queues],
        **_gaps(topic.queues),
        **({"config": config} if (config := topic.config.stored()) else {}),
        **({"schemas": topic.schemas.stored()} if topic.schemas.last else {}),
        **({"since": topic.since} if topic.since else {}),
        **({"created_by": topic.created_by} if topic.created_by else {}),
    }


def _gaps(queues: list[Queue]) -> dict[str, Any]:
    gaps = {str(queue.queue_id): queue.gaps for queue in queues if queue.gaps}
    return {"gaps": gaps} if gaps else {}
