"""`lakemq topic spread`: a topic on all brokers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer
from rich.progress import TextColumn

from lakemq.cli.brokers import Named, ask_each, connect_all
from lakemq.cli.options import Broker, Nameservers
from lakemq.cli.output import note, progress
from lakemq.cli.spread_schema import SpreadSchema
from lakemq.model.errors import Busy, GroupNotFound, InvalidRequest
from lakemq.model.topic_config import TopicConfig

LOOK_S = 0.5
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic: 1 to 127 of A-Z a-z 0-9 _ -.")]


def spread(
    context: typer.Context,
    topic: Name,
    drain: Annotated[
        bool, typer.Option("--drain", help="Take no messages until every group has consumed all of them.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="Give up draining after this time.")
    ] = 600.0,
    broker: Broker = None,
    nameservers: Nameservers = None,
) -> None:
    """Create a topic, with its schema, on the brokers that lack it.

    The queue of an ordering key depends on the number of queues, so most keys move to another queue. New messages of
    a key may then be consumed before older ones that wait in the old queue. --drain prevents that: the topic takes no
    messages (sends fail with read_only_topic) until every group has consumed it. It is then opened at all brokers at
    once; during that moment keys may change their queue once more.

    \b
    lakemq topic spread orders --nameservers http://127.0.0.1:9876
    lakemq topic spread orders --drain --wait 60 --nameservers http://127.0.0.1:9876
    lakemq topic spread orders --broker http://127.0.0.1:9000,http://127.0.0.1:9001
    """
    with connect_all(context, broker, nameservers) as brokers:
        found = ask_each(brokers, lambda client: client.topic(topic))
        having = [each for each in brokers if each.name in found]
        lacking = [each for each in brokers if each.name not in found]
        schema = SpreadSchema(topic, having)
        schema.complete()
        if not lacking:
            note(f"topic {topic} is on all brokers that are known")
            return
        queues = max(len(content["queues"]) for content in found.values())
        permission = max((content["permission"] for content in found.values()), key=len)
        config = {name: next(iter(found.values()))[name] for name in TopicConfig._fields}
        if drain:
            _Drained(topic, queues, permission, config, schema).spread(having, lacking, found, wait)
        else:
            for each in lacking:
                _make(topic, queues, each, permission, config)
                schema.give(each)
            note("keys have other queues now: what is sent may overtake what was sent before (--drain avoids that)")


class _Drained:
    """A topic that is made everywhere before it is opened anywhere, and then opened at all brokers together: until the
    last one is open keys have the queues of the others."""

    def __init__(self, topic: str, queues: int, permission: str, config: dict[str, Any], schema: SpreadSchema) -> None:
        self._topic, self._queues, self._permission, self._config = topic, queues, permission, config
        self._schema = schema

    def spread(self, having: list[Named], lacking: list[Named], found: dict[str, Any], wait_s: float) -> None:
        """Drain it where it is, and open it, as it was there, wherever it has been made."""
        counts = {name: len(content["queues"]) for name, content in found.items()}
        opened = {name: content["permission"] for name, content in found.items()}
        made = list(having)
        try:
            _permit(self._topic, having, counts, dict.fromkeys(counts, "r"))
            _wait_until_consumed(self._topic, having, wait_s)
            for each in lacking:
                _make(self._topic, self._queues, each, "r", self._config)
                counts[each.name], opened[each.name] = self._queues, self._permission
                made.append(each)
                self._schema.give(each)
        finally:  # also when it is interrupted, takes too long, or one can't make it: nowhere does it stay closed
            _permit(self._topic, made, counts, opened)
        note(f"topic {self._topic} takes messages again")


def _make(topic: str, queues: int, broker: Named, permission: str, config: dict[str, Any]) -> None:
    broker.client.create_topic(topic, queues, permission, config)
    note(f"made topic {topic} at {broker.name}")


def _permit(topic: str, brokers: list[Named], counts: dict[str, int], permissions: dict[str, str]) -> None:
    """Give the topic its permission at each broker, all at a time. Raises the first error once all have been asked."""
    with ThreadPoolExecutor(len(brokers)) as pool:
        asked = [
            pool.submit(each.client.create_topic, topic, counts[each.name], permissions[each.name]) for each in brokers
        ]
    for each in asked:
        each.result()


def _wait_until_consumed(topic: str, brokers: list[Named], wait_s: float) -> None:
    """Raises `Busy` when a group is behind still after that time."""
    deadline_s = time.monotonic() + wait_s
    with progress(TextColumn("{task.fields[behind]}")) as bar:
        task = bar.add_task(f"draining {topic}", behind="")
        while behind := _behind(topic, brokers):
            text = ", ".join(f"{group} {count:,}" for group, count in sorted(behind.items()))
            bar.update(task, behind=text)
            if time.monotonic() >= deadline_s:
                raise Busy(f"these groups have not consumed {topic} in {wait_s:g} s, so nothing is changed: {text}")
            time.sleep(LOOK_S)


def _behind(topic: str, brokers: list[Named]) -> dict[str, int]:
    """How many messages of the topic each group has yet to consume. Raises `InvalidRequest` where that can't be
    known."""
    behind: dict[str, int] = {}
    for _, client in brokers:
        for short in client.groups():
            if topic not in short["topics"]:
                continue
            group: str = short["group"]
            try:
                lags = [each["lag"] for each in client.group(group)["lag"] if each["topic"] == topic]
            except GroupNotFound:
                continue  # it was deleted meanwhile
            if None in lags:
                raise InvalidRequest(f"how far group {group} is can't be known: its members keep it to themselves")
            if sum(lags):
                behind[group] = behind.get(group, 0) + sum(lags)
    return behind
