"""Routes as clients are answered them: made once a change, and shared by all who ask.

A version is a digest of what the answer says and of nothing else: two name servers that were told the same answer the
same, whatever they were told before, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import orjson

from lakemq.nameserver.registration import Share, Shown
from lakemq.nameserver.registry import Registry

KEPT_BYTES_MAX = 16 * 1024 * 1024
"""Of answers for single topics."""
_VERSION_BYTES = 16


class Routes(NamedTuple):
    """An answer's version, and all of it as JSON."""

    version: str
    body: bytes


class _Part(NamedTuple):
    """A broker's part of the answer with everything; `shown` is what it was made of."""

    shown: Shown
    broker: bytes
    topics: bytes
    digest: bytes


class Answers:
    """Of one registry. `forget` has to be told what changes there."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._parts: dict[str, _Part] = {}
        self._everything: Routes | None = None
        self._of_topic: dict[str, Routes] = {}
        self._bytes = 0
        self._none = _write([], [], _digest(()))

    def of(self, topic: str | None) -> Routes:
        """The routes of a topic, or of everything, as they are now."""
        if topic is None:
            if self._everything is None:
                self._everything = self._make_everything()
            return self._everything
        known = self._of_topic.get(topic)
        return known or self._make(topic)

    def forget(self, topics: Iterable[str | None]) -> None:
        """The routes of these have changed."""
        for topic in topics:
            if topic is None:
                self._everything = None
            elif known := self._of_topic.pop(topic, None):
                self._bytes -= len(known.body)

    def _make(self, topic: str) -> Routes:
        brokers = self._registry.brokers_of(topic)
        if not brokers:
            return self._none  # and isn't kept: there is no end of names that nobody has
        shown = [(name, self._registry.shown[name]) for name in brokers]
        parts = [_broker(name, each) for name, each in shown]
        rows = [_topic(name, topic, each.topics[topic]).encode() for name, each in shown]
        made = _write(parts, rows, _digest([*parts, *rows]))
        self._bytes += len(made.body)
        if self._bytes > KEPT_BYTES_MAX:
            self._of_topic.clear()
            self._bytes = len(made.body)
        self._of_topic[topic] = made
        return made

    def _make_everything(self) -> Routes:
        shown = sorted(self._registry.shown.items())
        self._parts = {name: self._part(name, each) for name, each in shown}
        parts = self._parts.values()
        brokers, topics = [each.broker for each in parts], [each.topics for each in parts if each.topics]
        return _write(brokers, topics, _digest(each.digest for each in parts))

    def _part(self, name: str, shown: Shown) -> _Part:
        known = self._parts.get(name)
        if known is not None and known.shown is shown:
            return known
        broker = _broker(name, shown)
        topics = ",".join([_topic(name, topic, share) for topic, share in sorted(shown.topics.items())]).encode()
        return _Part(shown, broker, topics, _digest((broker, topics)).digest())


def _broker(name: str, shown: Shown) -> bytes:
    replicas = [each._asdict() for each in shown.replicas]
    return orjson.dumps({"broker": name, "cluster": shown.cluster, "replicas": replicas})


def _topic(broker: str, topic: str, share: Share) -> str:
    """As JSON, by hand: there may be 200,000, and no letter of a name of ours has to be escaped."""
    queues, permission = share
    return f'{{"topic":"{topic}","broker":"{broker}","queues":{queues},"permission":"{permission}"}}'


def _digest(pieces: Iterable[bytes]) -> blake2b:
    digest = blake2b(digest_size=_VERSION_BYTES)
    for piece in pieces:
        digest.update(b"%d:" % len(piece))
        digest.update(piece)
    return digest


def _write(brokers: list[bytes], topics: list[bytes], digest: blake2b) -> Routes:
    version = digest.hexdigest()
    head = b'{"version":"%b","brokers":[' % version.encode()
    return Routes(version, b"".join([head, b",".join(brokers), b'],"topics":[', b",".join(topics), b"]}"]))
