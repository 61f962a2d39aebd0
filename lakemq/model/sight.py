"""What of all topics and groups a user may read: the rules of `User.decide` as names, so that rows can be chosen by
them where nobody has a list of all topics."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.model.access import Action, Decision, Kind, Need, Resource, Status, User, UserType
from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system

READS = (Action.SUB, Action.GET)
"""One of them is enough to read a topic's rows, as it is for messages by their keys."""
GROUP_PREFIXES = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


class Pattern(NamedTuple):
    """A name, or all that begin with it."""

    name: str
    is_prefix: bool

    def has(self, name: str) -> bool:
        """Whether the name is one of these."""
        return name.startswith(self.name) if self.is_prefix else name == self.name


class Names(NamedTuple):
    """Names of one kind: those that are allowed and not denied."""

    allowed: tuple[Pattern, ...]
    denied: tuple[Pattern, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the name is one of these."""
        return any(each.has(name) for each in self.allowed) and not any(each.has(name) for each in self.denied)


ALL = Names((Pattern("", True),))


class Sight(NamedTuple):
    """Which rows a user sees. `topics`, `groups`: a name that is in one of them. `system`: also the topics that are
    the system's own. `everything`: all there is, whatever the others say."""

    topics: tuple[Names, ...] = ()
    groups: tuple[Names, ...] = ()
    system: bool = False
    everything: bool = False

    def sees_topic(self, topic: str) -> bool:
        """Whether rows of the topic are seen. A group's retries and dead letters are the group's."""
        if self.everything:
            return True
        for prefix in GROUP_PREFIXES:
            if topic.startswith(prefix) and topic != prefix:
                return self.sees_group(topic.removeprefix(prefix))
        if is_system(topic):
            return self.system
        return any(names.has(topic) for names in self.topics)

    def sees_group(self, group: str) -> bool:
        """Whether what is known of the group is seen."""
        return self.everything or any(names.has(group) for names in self.groups)


ANYBODY = Sight(topics=(ALL,), groups=(ALL,))
"""Of whoever needs no token: messages are open there, and what the system keeps isn't."""


def sight_of(user: User, source: str | None) -> Sight:
    """What the user sees who asks from that address (None: nobody knows it)."""
    if user.status is Status.DISABLED:
        return Sight()
    if user.type is UserType.SUPER:
        return Sight(everything=True)
    cluster = Need((Action.GET,), Resource(Kind.CLUSTER))
    topics = tuple(_names(user, source, Kind.TOPIC, action) for action in READS)
    groups = tuple(_names(user, source, Kind.GROUP, action) for action in READS)
    return Sight(topics, groups, system=user.decide(cluster, source).allowed)


def _names(user: User, source: str | None, kind: Kind, action: Action) -> Names:
    by_decision: dict[Decision, list[Pattern]] = {Decision.ALLOW: [], Decision.DENY: []}
    for policy in user.policies:
        of, _, name = policy.resource.partition(":")
        pattern = Pattern(name.removesuffix("*"), name.endswith("*"))
        if of == kind and policy.matches(action, Resource(kind, pattern.name), source):
            by_decision[policy.decision].append(pattern)
    return Names(tuple(by_decision[Decision.ALLOW]), tuple(by_decision[Decision.DENY]))
