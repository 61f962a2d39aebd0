"""Who is registered: all that a name server knows, in memory. No clock and no I/O: times are given."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakemq.model.errors import FlowControl
from lakemq.nameserver.registration import Registration, Share, Shown, show
from lakemq.settings import NameServer

Source = str | None
"""The address that a heartbeat came from; None: from nowhere in particular."""
EVERYTHING = None
"""What changes with any topic, in place of a topic's name."""
_NONE: Mapping[str, Share] = {}


class Key(NamedTuple):
    """Names a replica."""

    broker: str
    replica: int


@dataclass(slots=True)
class Heard:
    """The last that was heard of a replica: `said` stands for the words, byte for byte. Times are in seconds, and
    never go back."""

    told: Registration
    said: bytes
    source: Source
    heard_s: float


class Registry:
    """The replicas within `limits`. Whatever changes for clients is noted by topic until it is taken."""

    def __init__(self, limits: NameServer) -> None:
        self._limits = limits
        self._expiry_s = limits.expiry_ms / 1000
        # The one that was not heard of for the longest time is first.
        self._heard: OrderedDict[Key, Heard] = OrderedDict()
        self._replicas: dict[str, dict[int, Registration]] = {}
        self._shown: dict[str, Shown] = {}
        self._brokers_of: dict[str, set[str]] = {}
        self._changed: set[str | None] = set()
        self._replicas_from: Counter[Source] = Counter()
        self._entries_from: Counter[Source] = Counter()
        self.entries = 0
        """Topics of all registrations, each counted as often as it is told."""

    def __len__(self) -> int:
        """How many replicas there are."""
        return len(self._heard)

    @property
    def shown(self) -> Mapping[str, Shown]:
        """The brokers, as clients are shown them."""
        return self._shown

    def brokers_of(self, topic: str) -> list[str]:
        """The brokers that have the topic, sorted."""
        return sorted(self._brokers_of.get(topic, ()))

    @property
    def topic_count(self) -> int:
        """How many topics there are."""
        return len(self._brokers_of)

    def last_heard(self) -> Iterator[tuple[Key, Heard]]:
        """All replicas, the one that was not heard of for the longest time first."""
        return iter(self._heard.items())

    def heard(self, key: Key) -> Heard | None:
        """The last that was heard of a replica."""
        return self._heard.get(key)

    def take_changed(self) -> set[str | None]:
        """The topics whose routes have changed since this was asked last, and `EVERYTHING` if any have."""
        changed, self._changed = self._changed, set()
        return changed

    # Coming and going ------------------------------------------------------------------------

    def goes_on(self, key: Key, said: bytes, source: Source, now_s: float) -> bool:
        """Hear a replica again if it says just what it said before; False when it has to be heard anew."""
        known = self._heard.get(key)
        if known is None or known.said != said or known.source != source:
            return False
        self._renew(key, known, now_s)
        return True

    def hear(self, key: Key, told: Registration, said: bytes, source: Source, now_s: float) -> None:
        """A replica says this, in place of all that it said before.

        Raises `FlowControl` when a bound is reached. A replica that is known goes on then, with what it said before.
        """
        self.renew(key, now_s)
        known = self._heard.get(key)
        self._check_room(key, len(told.topics), source, known)
        if known is not None:
            self._count(known, -1)
        new = self._heard[key] = Heard(told, said, source, now_s)
        self._count(new, 1)
        self._replicas.setdefault(key.broker, {})[key.replica] = told
        self._show_anew(key.broker)

    def renew(self, key: Key, now_s: float) -> None:
        """The replica was heard of, if it is known, whatever it wants to say."""
        known = self._heard.get(key)
        if known is not None:
            self._renew(key, known, now_s)

    def _renew(self, key: Key, known: Heard, now_s: float) -> None:
        known.heard_s = now_s
        self._heard.move_to_end(key)

    def _count(self, heard: Heard, sign: int) -> None:
        entries = sign * len(heard.told.topics)
        self.entries += entries
        self._entries_from[heard.source] += entries
        self._replicas_from[heard.source] += sign
        if not self._replicas_from[heard.source]:
            del self._replicas_from[heard.source], self._entries_from[heard.source]

    def _check_room(self, key: Key, entries: int, source: Source, known: Heard | None) -> None:
        limits = self._limits
        of_broker = self._replicas.get(key.broker)
        if of_broker is None and len(self._replicas) >= limits.brokers_max:
            raise FlowControl(f"there are {len(self._replicas)} brokers already (nameserver.brokers_max)")
        if of_broker is not None and known is None and len(of_broker) >= limits.broker_replicas_max:
            raise FlowControl(f"{key.broker} has {len(of_broker)} replicas already (nameserver.broker_replicas_max)")
        if known is None and len(self._heard) >= limits.replicas_max:
            raise FlowControl(f"there are {len(self._heard)} replicas already (nameserver.replicas_max)")
        if entries > limits.topics_max:
            raise FlowControl(f"these are {entries} topics; a replica has {limits.topics_max} (nameserver.topics_max)")
        is_same_source = known is not None and known.source == source
        before = len(known.told.topics) if known is not None else 0
        if entries > before and self.entries + entries - before > limits.all_topics_max:
            raise FlowControl(f"there are {self.entries} topics of all already (nameserver.all_topics_max)")
        self._check_share(entries, 0 if is_same_source else 1, before if is_same_source else 0, source)

    def _check_share(self, entries: int, replicas: int, before: int, source: Source) -> None:
        """Whoever comes from one address leaves room for others."""
        limits = self._limits
        replicas_max = max(int(limits.replicas_max * limits.client_share), 1)
        if replicas and self._replicas_from[source] >= replicas_max:
            raise FlowControl(f"{source} has {replicas_max} replicas already (nameserver.client_share)")
        entries_max = int(limits.all_topics_max * limits.client_share)
        if entries > before and self._entries_from[source] + entries - before > entries_max:
            raise FlowControl(f"{source} has {self._entries_from[source]} topics already (nameserver.client_share)")

    def leave(self, key: Key) -> bool:
        """The replica is gone; False when it was not there."""
        known = self._heard.pop(key, None)
        if known is None:
            return False
        self._count(known, -1)
        replicas = self._replicas[key.broker]
        del replicas[key.replica]
        if not replicas:
            del self._replicas[key.broker]
        self._show_anew(key.broker)
        return True

    def expire(self, now_s: float) -> int:
        """Who was not heard of for `expiry_ms` is gone; returns how many are."""
        count = 0
        while self._heard:
            key, known = next(iter(self._heard.items()))
            if now_s - known.heard_s < self._expiry_s:
                break
            self.leave(key)
            count += 1
        return count

    def stood_still(self, now_s: float) -> None:
        """Nobody could be heard for a while: all count as heard of now."""
        for known in self._heard.values():
            known.heard_s = now_s

    def _show_anew(self, broker: str) -> None:
        replicas, before = self._replicas.get(broker), self._shown.get(broker)
        after = show(replicas) if replicas else None
        if after == before:
            return
        was = _NONE if before is None else before.topics
        now = _NONE if after is None else after.topics
        self._changed.add(EVERYTHING)
        if before is not None and after is not None and before[:2] == after[:2]:
            self._changed.update(topic for topic, _ in was.items() ^ now.items())
        else:  # where it is, or who its primary is, is part of each topic's routes
            self._changed.update(was, now)
        self._index(broker, was, now)
        if after is None:
            del self._shown[broker]
        else:
            self._shown[broker] = after

    def _index(self, broker: str, was: Mapping[str, Share], now: Mapping[str, Share]) -> None:
        for topic in was.keys() - now.keys():
            brokers = self._brokers_of[topic]
            brokers.remove(broker)
            if not brokers:
                del self._brokers_of[topic]
        for topic in now.keys() - was.keys():
            self._brokers_of.setdefault(topic, set()).add(broker)
