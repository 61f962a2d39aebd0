"""The schema of a topic that `lakemq topic spread` makes: which versions each broker lacks, and how it gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakemq.cli.brokers import Named
from lakemq.cli.output import note
from lakemq.model.errors import IncompatibleSchema, InvalidRequest, SchemaNotFound

REFUSALS = (InvalidRequest, IncompatibleSchema)
"""What a broker answers that doesn't take a schema because of what it has, or is."""


class SpreadSchema:
    """All versions of a topic's schema, ascending, as the broker has them that has the newest; none where nobody has
    any. Each gets the number that it has: messages name it, and so does who sets the next one at all brokers. Only the
    last one has to fit a table: whether there is one is said of it."""

    def __init__(self, topic: str, having: Sequence[Named]) -> None:
        """`having`: the brokers that have the topic."""
        self._topic = topic
        self._current = [(each, _current(topic, each)) for each in having]
        found = [(current, broker) for broker, current in self._current if current is not None]
        self._versions: list[dict[str, Any]] = []
        if found:
            newest, broker = max(found, key=lambda each: each[0]["version"])
            self._versions = [broker.client.schema(topic, version) for version in newest["versions"]]

    def complete(self) -> None:
        """Give the brokers that have the topic what they lack: one may have been made by a spread that failed before
        it had all versions. What can't be given to one is noted, and keeps no other from anything."""
        for broker, current in self._current:
            try:
                if current is None:
                    # It may have had versions and dropped them: only it knows which number would be the next.
                    self._give(broker, self._versions, following=None)
                else:
                    self._give(broker, self._lacking(current), following=current["version"] + 1)
            except REFUSALS as error:
                note(
                    f"topic {self._topic} lacks versions of its schema at {broker.name}: {error}. To have them there,"
                    " delete the topic at that broker alone once it is consumed, and spread it again"
                )

    def give(self, broker: Named) -> None:
        """Give all versions to a broker where the topic has just been made. Raises what the broker answers."""
        self._give(broker, self._versions, following=1)

    def _lacking(self, current: dict[str, Any]) -> list[dict[str, Any]]:
        """The versions above a broker's current one. Raises `InvalidRequest` where its own are others."""
        same = {each["version"]: each for each in self._versions}
        source = same.get(current["version"])
        if not same.keys() >= {*current["versions"]} or source is None or _text(source) != _text(current):
            numbers = ", ".join(map(str, current["versions"]))
            raise InvalidRequest(f"what it has there, of number {numbers}, is another schema")
        return [each for each in self._versions if each["version"] > current["version"]]

    def _give(self, broker: Named, versions: list[dict[str, Any]], following: int | None) -> None:
        """`following`: the number that the broker would give by itself, if known. That one isn't named, for brokers
        that don't know the field yet."""
        for each in versions:
            number = each["version"]
            table = each["table"] if each is self._versions[-1] else None
            said = None if number == following else number
            made = broker.client.set_schema(self._topic, each["schema"], each["type"], table=table, version=said)
            if made["version"] != number:  # such as one whose text is the same as that of the one before
                broker.client.set_schema(self._topic, each["schema"], each["type"], table=table, version=number)
            following = number + 1
        if versions:
            note(f"topic {self._topic} has its schema at {broker.name}")


def _current(topic: str, broker: Named) -> dict[str, Any] | None:
    try:
        return broker.client.schema(topic)
    except SchemaNotFound:
        return None


def _text(version: dict[str, Any]) -> tuple[str, str]:
    return version["type"], version["schema"]
