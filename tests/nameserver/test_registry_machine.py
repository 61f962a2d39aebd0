"""The registry and its answers, against a list of who said what: whatever comes in whatever order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lakemq.model.errors import FlowControl
from lakemq.nameserver.answers import Answers
from lakemq.nameserver.registration import Registration, Share, show
from lakemq.nameserver.registry import EVERYTHING, Key, Registry
from lakemq.settings import NameServer

LIMITS = NameServer(
    brokers_max=3, replicas_max=5, broker_replicas_max=2, topics_max=3, all_topics_max=8, expiry_ms=10_000
)
EXPIRY_S, SHARE = 10.0, 0.75
TOPICS = ("t0", "t1", "t2", "t3")
WATCHED = (*TOPICS, "nobody-has-it", EVERYTHING)
KEYS = st.builds(Key, st.sampled_from([f"b{number}" for number in range(4)]), st.integers(0, 2))
SOURCES = st.sampled_from(["10.0.0.1", "10.0.0.2", None])
SHARES = st.builds(Share, st.integers(1, 2), st.sampled_from(["rw", "r", "w"]))
TOLD = st.builds(
    Registration,
    cluster=st.sampled_from(["x", "y"]),
    address=st.sampled_from(["http://a:1", "http://b:1"]),
    role=st.sampled_from(["primary", "follower"]),
    epoch=st.integers(1, 3),
    log_id=st.just("l"),
    permission=st.sampled_from(["rw", "r", "w"]),
    topics=st.dictionaries(st.sampled_from(TOPICS), SHARES, max_size=4),
)


class Known(NamedTuple):
    told: Registration
    source: str | None
    heard_s: float


def fits(known: dict[Key, Known], key: Key, new: Known) -> bool:
    """Whether a heartbeat is within all bounds."""
    after = known | {key: new}
    old = known.get(key)
    grows = len(new.told.topics) - (len(old.told.topics) if old else 0)
    grows_here = len(new.told.topics) - (len(old.told.topics) if old and old.source == new.source else 0)
    here = [each for each in after.values() if each.source == new.source]
    comes_here = old is None or old.source != new.source
    return (
        len({each.broker for each in after}) <= LIMITS.brokers_max
        and len(after) <= LIMITS.replicas_max
        and sum(each.broker == key.broker for each in after) <= LIMITS.broker_replicas_max
        and len(new.told.topics) <= LIMITS.topics_max
        and (grows <= 0 or entries(after.values()) <= LIMITS.all_topics_max)
        and (not comes_here or len(here) <= int(LIMITS.replicas_max * SHARE))
        and (grows_here <= 0 or entries(here) <= int(LIMITS.all_topics_max * SHARE))
    )


def entries(known: Iterable[Known]) -> int:
    return sum(len(each.told.topics) for each in known)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry(LIMITS)
        self.answers = Answers(self.registry)
        self.known: dict[Key, Known] = {}
        self.now_s = 0.0
        self.gone_at_once = 0
        self.seen = {topic: self.answers.of(topic) for topic in WATCHED}

    @rule(key=KEYS, told=TOLD, source=SOURCES, seconds=st.sampled_from([0.0, 1.0, 4.0]))
    def hear(self, key: Key, told: Registration, source: str | None, seconds: float) -> None:
        self.now_s += seconds
        said = repr(told).encode()
        new, old = Known(told, source, self.now_s), self.known.get(key)
        if self.registry.goes_on(key, said, source, self.now_s):
            assert old is not None
            assert (old.told, old.source) == (told, source)
            self.known[key] = new
        elif fits(self.known, key, new):
            self.registry.hear(key, told, said, source, self.now_s)
            self.known[key] = new
        else:
            with pytest.raises(FlowControl, match=r"nameserver\."):
                self.registry.hear(key, told, said, source, self.now_s)
            if old is not None:
                self.known[key] = old._replace(heard_s=self.now_s)

    @rule(key=KEYS)
    def leave(self, key: Key) -> None:
        assert self.registry.leave(key) == (self.known.pop(key, None) is not None)

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        gone = [key for key, known in self.known.items() if self.now_s - known.heard_s >= EXPIRY_S]
        assert self.registry.expire(self.now_s) == len(gone)
        self.gone_at_once = len(gone)
        for key in gone:
            del self.known[key]

    @rule()
    def nobody_could_be_heard(self) -> None:
        self.now_s += EXPIRY_S
        self.registry.stood_still(self.now_s)
        self.known = {key: each._replace(heard_s=self.now_s) for key, each in self.known.items()}
        assert self.registry.expire(self.now_s) == 0

    @invariant()
    def it_shows_what_was_said(self) -> None:
        brokers = {key.broker for key in self.known}
        shown = {
            broker: show({key.replica: each.told for key, each in self.known.items() if key.broker == broker})
            for broker in brokers
        }
        assert self.registry.shown == shown
        assert len(self.registry) == len(self.known)
        assert self.registry.entries == entries(self.known.values())
        assert self.registry.topic_count == len({topic for each in shown.values() for topic in each.topics})
        for topic in TOPICS:
            assert self.registry.brokers_of(topic) == sorted(
                name for name, each in shown.items() if topic in each.topics
            )

    @invariant()
    def all_that_changes_is_told_and_nothing_else(self) -> None:
        """But when several go at once: what came by the first may have gone by the next."""
        changed = self.registry.take_changed()
        self.answers.forget(changed)
        now = {topic: self.answers.of(topic) for topic in WATCHED}
        differs = {topic for topic in WATCHED if now[topic].version != self.seen[topic].version}
        told = changed & set(WATCHED)
        assert differs <= told if self.gone_at_once > 1 else differs == told
        self.seen, self.gone_at_once = now, 0

    @invariant()
    def another_one_that_was_told_the_same_answers_the_same(self) -> None:
        other = Registry(NameServer())
        for key, known in sorted(self.known.items(), reverse=True):
            other.hear(key, known.told, b"", None, 0.0)
        answers = Answers(other)
        for topic in WATCHED:
            assert answers.of(topic) == self.answers.of(topic)
            assert orjson.loads(answers.of(topic).body)["version"] == answers.of(topic).version


TestRegistry = Machine.TestCase
TestRegistry.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
