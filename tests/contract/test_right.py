"""What a right comes to for a request."""

from __future__ import annotations

from lakemq.contract.right import PUBLIC, Right, also, cluster, every, group, guarded, known, sink, topic
from lakemq.model.access import Action, Kind, Need, Resource

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST


def needs(rights: tuple[Right, ...], **fields: str) -> list[Need | None]:
    return [right.need(fields) for right in rights]


def test_a_topic_is_the_one_that_is_named() -> None:
    assert needs(topic(PUB).each, topic="orders") == [Need((PUB,), Resource(Kind.TOPIC, "orders"))]
    assert needs(group(SUB, GET).each, group="g") == [Need((SUB, GET), Resource(Kind.GROUP, "g"))]


def test_what_a_query_lacks_is_not_needed() -> None:
    right = Right((SUB,), Kind.GROUP, "group")
    assert needs((right,)) == [None]
    assert needs(also(topic(SUB), right).each, topic="a", group="g")[1] == Need((SUB,), Resource(Kind.GROUP, "g"))


def test_without_a_name_it_is_on_all_of_a_kind() -> None:
    assert needs(every(Kind.TOPIC, LIST).each) == [Need((LIST,), Resource(Kind.TOPIC))]
    assert needs(cluster(GET).each) == [Need((GET,), Resource(Kind.CLUSTER))]


def test_what_can_forge_is_guarded() -> None:
    assert needs(guarded(GET).each) == [Need((GET,), Resource(Kind.CLUSTER), guarded=True)]
    assert needs(sink(PUB).each, sink="s") == [Need((PUB,), Resource(Kind.SINK, "s"), guarded=True)]
    assert not known("something").each
    assert PUBLIC.public


def test_a_group_s_retries_are_the_group_s_and_other_topics_of_the_system_nobody_s() -> None:
    of_group = [Need((SUB,), Resource(Kind.GROUP, "g"))]
    assert needs(topic(SUB).each, topic="%RETRY%g") == of_group
    assert needs(topic(SUB).each, topic="%DLQ%g") == of_group
    nobodys = [Need((GET,), Resource(Kind.CLUSTER), guarded=True)]
    for each in ("RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_ACCESS_TOPIC", "%RETRY%"):
        assert needs(topic(SUB).each, topic=each) == nobodys
    # Nobody writes these, whoever he is: who serves it says so.
    assert needs(topic(PUB).each, topic="RMQ_SYS_TOPICS") == [Need((PUB,), Resource(Kind.TOPIC, "RMQ_SYS_TOPICS"))]
