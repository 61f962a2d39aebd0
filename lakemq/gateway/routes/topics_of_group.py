"""Topics of a group: who may do something to a group doesn't learn by it what there is in topics that are not his."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lakemq.gateway.access.caller import Caller
from lakemq.gateway.groups.differences import Sees
from lakemq.gateway.http.in_slices import Pause
from lakemq.model.access import Action, Kind, Need, Resource, need_of_topic
from lakemq.model.names import dead_letter_topic, retry_topic
from lakemq.storage.state.topics import TopicTable

READS = (Action.SUB, Action.GET)
_KNOWS = (*READS, Action.LIST)
_ALL_OF_LOG = Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True)


def sight_of_topics(caller: Caller, actions: tuple[Action, ...] = _KNOWS) -> Sees:
    """Which topics of groups are shown to who asks, with their offsets: those that he may read, or list, or do one of
    the `actions` on. Where nobody says who he is there are no others."""
    if caller.trusted or not caller.name:
        return _all
    return lambda topic: caller.may(need_of_topic(actions, topic))


def sees_waiting(caller: Caller, topics: TopicTable, topic: str, position: int) -> bool:
    """Whether who asks may see what waits for the topic since that position. If the topic was deleted meanwhile, he may
    have another of its name, or make one: then it takes the right to all of the log."""
    return sight_of_waiting(caller, topics)(topic, position)


def sight_of_waiting(caller: Caller, topics: TopicTable) -> Callable[[str, int], bool]:
    """`sees_waiting` of many, by topic and position: the policies are asked once."""
    sees_all = sees_deleted(caller)
    return lambda topic, position: sees_all or topics.find_for(topic, position) is not None


def sees_deleted(caller: Caller) -> bool:
    """Whether who asks may see what was deleted with a topic or a group: who reads all of the log has it anyway. Where
    nobody says who he is there are no others."""
    return caller.trusted or not caller.name or caller.may(_ALL_OF_LOG)


def _all(_: str) -> bool:
    return True


async def check_topics(caller: Caller, group: str, actions: tuple[Action, ...], topics: Iterable[str]) -> None:
    """Raise `Forbidden` or `Unauthenticated` unless one of the actions is allowed on each topic, whether it is there or
    not. The group's own topics are its users'."""
    if caller.trusted:
        return
    pause = Pause()
    for topic in dict.fromkeys(topics):
        if topic not in (retry_topic(group), dead_letter_topic(group)):
            caller.check(need_of_topic(actions, topic))
        await pause()
