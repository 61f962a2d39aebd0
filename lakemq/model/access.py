"""Who may do what. The model is RocketMQ's ACL 2.0: users, each with policies of a resource, actions, source addresses,
and whether they allow or deny. A policy that denies wins over all that allow; what no policy allows is denied. Super
users may do all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple, TypeVar, cast

from lakemq.model.errors import InvalidRequest
from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system
from lakemq.model.quota import UNSAID, Quotas, parse_quotas

POLICIES_MAX = 256
"""Of one user."""
SOURCES_MAX = 64
"""Of one policy."""
SOURCES_KNOWN = 1_024
ADMINISTRATOR = "admin.token"
"""Whoever has the token of the file of that name. No user has such a name."""

_USER = re.compile(r"[A-Za-z0-9_-]{1,127}\Z")
_NAME = re.compile(r"[A-Za-z0-9_%-]{1,140}\Z")
_FIELDS = frozenset({"resource", "actions", "sources", "decision"})
E = TypeVar("E", bound=StrEnum)


class Action(StrEnum):
    """What is done to a resource."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"
    ROUTE = "Route"
    """Decide what becomes of messages that wait: what the jobs do."""
    COMPACT = "Compact"
    """Say what the lake holds."""
    ERASE = "Erase"
    SQL = "Sql"


class Kind(StrEnum):
    """Of a resource."""

    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"
    SINK = "Sink"
    LAKE = "Lake"


_KINDS = frozenset(Kind)


class Decision(StrEnum):
    """What a policy says."""

    ALLOW = "allow"
    DENY = "deny"


class UserType(StrEnum):
    """Super users may do all, whatever their policies say."""

    SUPER = "super"
    NORMAL = "normal"


class Status(StrEnum):
    """A disabled user may do nothing."""

    ENABLED = "enabled"
    DISABLED = "disabled"


class Resource(NamedTuple):
    """One thing; `*` as its name: all of its kind. A cluster is always `*`."""

    kind: Kind
    name: str = "*"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Need(NamedTuple):
    """What a request needs: one of the actions on the resource. `guarded`: also where nobody has to say who they are.
    Without an action: super users alone."""

    actions: tuple[Action, ...]
    resource: Resource
    guarded: bool = False

    def __str__(self) -> str:
        return self.on(str(self.resource))

    def on(self, called: str) -> str:
        """The same, where the resource is called so."""
        return f"{' or '.join(self.actions) or 'all'} on {called}"


class Verdict(NamedTuple):
    """`by`: the policy, or the rule, that decides."""

    allowed: bool
    by: str


@dataclass(frozen=True)
class Policy:
    """One policy. `resource`: `Kind:name`, `Kind:prefix*` or `Kind:*`; without `sources` from everywhere."""

    resource: str
    actions: frozenset[Action]
    sources: tuple[str, ...] = ()
    decision: Decision = Decision.ALLOW

    @cached_property
    def pattern(self) -> tuple[str, str, bool]:
        """What it is about: kind, name or prefix, and whether it is a prefix."""
        kind, _, name = self.resource.partition(":")
        return kind, name.removesuffix("*"), name.endswith("*")

    @cached_property
    def _networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(ip_network(each, strict=False) for each in self.sources)

    def matches(self, action: Action, resource: Resource, source: str | None) -> bool:
        """Whether it says something about that. A policy of some names says nothing of `*`, unless it denies: who may
        not do it to some may not do it to all."""
        kind, name, is_prefix = self.pattern
        if action not in self.actions or kind != resource.kind or not self._is_from(source):
            return False
        if resource.name == "*":
            return (is_prefix and not name) or self.decision is Decision.DENY
        return resource.name.startswith(name) if is_prefix else resource.name == name

    def _is_from(self, source: str | None) -> bool:
        if not self._networks:
            return True
        address = _address(source)
        if address is None:
            # Nobody knows from where: what allows some doesn't allow that, what denies some does deny it.
            return self.decision is Decision.DENY
        return any(address in network for network in self._networks)

    def fields(self) -> dict[str, Any]:
        """As JSON values, as `parse_policy` takes them."""
        actions = [each.value for each in Action if each in self.actions]
        return {
            "resource": self.resource,
            "actions": actions,
            "sources": list(self.sources),
            "decision": self.decision.value,
        }

    def __str__(self) -> str:
        sources = f" from {', '.join(self.sources)}" if self.sources else ""
        actions = ", ".join(each.value for each in Action if each in self.actions)
        return f"{self.decision} {actions} on {self.resource}{sources}"


class _Index:
    """A user's policies by what they are about: to decide costs as much as a name is long, however many there are.
    Numbers are places in the user's list, whose order says which one a decision names."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self._named: dict[tuple[str, str], list[int]] = {}
        self._prefixed: dict[tuple[str, str], list[int]] = {}
        self._on_all: dict[str, list[int]] = {}
        lengths: dict[str, set[int]] = {}
        for number, policy in enumerate(policies):
            kind, name, is_prefix = policy.pattern
            (self._prefixed if is_prefix else self._named).setdefault((kind, name), []).append(number)
            if is_prefix:
                lengths.setdefault(kind, set()).add(len(name))
            if policy.decision is Decision.DENY or (is_prefix and not name):
                self._on_all.setdefault(kind, []).append(number)
        self._lengths = {kind: sorted(each) for kind, each in lengths.items()}

    def deciding(self, action: Action, resource: Resource, source: str | None) -> Policy | None:
        """The policy that decides: the first that denies, else the first that allows. None: no policy says anything."""
        kind, name = resource
        if name == "*":
            numbers = self._on_all.get(kind, [])
        else:
            numbers = [*self._named.get((kind, name), ())]
            for length in self._lengths.get(kind, ()):
                if length > len(name):
                    break
                numbers += self._prefixed.get((kind, name[:length]), ())
            numbers.sort()
        allowing = None
        for number in numbers:
            policy = self._policies[number]
            if policy.matches(action, resource, source):
                if policy.decision is Decision.DENY:
                    return policy
                allowing = allowing or policy
        return allowing


@dataclass(frozen=True)
class User:
    """A user, without tokens."""

    name: str
    type: UserType = UserType.NORMAL
    status: Status = Status.ENABLED
    policies: tuple[Policy, ...] = ()
    quotas: Quotas = UNSAID

    def decide(self, need: Need, source: str | None) -> Verdict:
        """Whether the user may, from that address (None: nobody knows it): one of the actions is enough."""
        if self.status is Status.DISABLED:
            return Verdict(False, f"user {self.name} is disabled")
        if self.type is UserType.SUPER:
            return Verdict(True, "super users may do all")
        deciding = None
        for action in need.actions:
            deciding = self._index.deciding(action, need.resource, source)
            if deciding is not None and deciding.decision is Decision.ALLOW:
                return Verdict(True, str(deciding))
        if deciding is not None:
            return Verdict(False, str(deciding))
        return Verdict(False, "no policy allows it" if need.actions else "only super users may")

    def may(self, need: Need, source: str | None) -> bool:
        """Whether `decide` allows it, without saying why."""
        if self.type is UserType.SUPER or self.status is Status.DISABLED:
            return self.status is Status.ENABLED
        for action in need.actions:
            deciding = self._index.deciding(action, need.resource, source)
            if deciding is not None and deciding.decision is Decision.ALLOW:
                return True
        return False

    @cached_property
    def _index(self) -> _Index:
        # Made when somebody asks, and once: as long as its policies are the same, all who ask as this user share it.
        return _Index(self.policies)


def need_of_topic(actions: tuple[Action, ...], topic: str) -> Need:
    """What one of these actions on a topic needs. A group's retries and dead letters are the group's; other topics of
    the system are read by administrators and jobs alone, and written by nobody."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix) and topic != prefix:
            return Need(actions, Resource(Kind.GROUP, topic.removeprefix(prefix)))
    if is_system(topic) and (Action.SUB in actions or Action.GET in actions):
        return Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True)
    return Need(actions, Resource(Kind.TOPIC, topic))


def need_of_group(actions: tuple[Action, ...], group: str) -> Need:
    """What one of these actions on a group needs."""
    return Need(actions, Resource(Kind.GROUP, group))


def check_user_name(name: str) -> str:
    """Return it if it can name a user; raises `InvalidRequest`."""
    if not _USER.match(name):
        raise InvalidRequest(f"user {name[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return name


def parse_resource(text: object) -> Resource:
    """`Kind:name`, as policies write it, `prefix*` too. Raises `InvalidRequest`."""
    kind, separator, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not separator or kind not in _KINDS:
        kinds = ", ".join(Kind)
        raise InvalidRequest(f"a resource is Kind:name, where Kind is one of {kinds}; not {_shown(text)}")
    if kind == Kind.CLUSTER and name != "*":
        raise InvalidRequest("the only resource of kind Cluster is Cluster:*")
    if not (name == "*" or _NAME.match(name.removesuffix("*"))):
        raise InvalidRequest(
            f"a resource's name consists of letters, digits, _, - or %, and may end in *; not {_shown(name)}"
        )
    return Resource(Kind(kind), name)


def parse_action(text: object) -> Action:
    """Raises `InvalidRequest`."""
    return _parse(Action, text, "an action")


def parse_policy(fields: object) -> Policy:
    """The policy of such a JSON object; `sources` and `decision` may be left out. Raises `InvalidRequest`."""
    if not isinstance(fields, dict):
        raise InvalidRequest("a policy is an object with resource, actions, sources and decision")
    given = cast("dict[str, object]", fields)
    if unknown := given.keys() - _FIELDS:
        raise InvalidRequest(f"a policy has no field {_shown(min(unknown))}")
    resource = parse_resource(given.get("resource"))
    actions = frozenset(parse_action(each) for each in _list(given, "actions", len(Action)))
    if not actions:
        raise InvalidRequest("a policy names one action at least")
    sources = tuple(_source(each) for each in _list(given, "sources", SOURCES_MAX))
    return Policy(str(resource), actions, sources, _parse(Decision, given.get("decision", "allow"), "a decision"))


def parse_user(
    name: str,
    fields: Mapping[str, object],
    policies: Iterable[Policy] = (),
    quotas: Quotas = UNSAID,
) -> User:
    """The user of such fields: `type`, `status` and `quotas`, any of which may be left out; `quotas`: those it has
    where the fields don't say. Raises `InvalidRequest`."""
    kind = _parse(UserType, fields.get("type", "normal"), "a user's type")
    status = _parse(Status, fields.get("status", "enabled"), "a user's status")
    quotas = parse_quotas(fields.get("quotas", {}), quotas)
    return User(check_user_name(name), kind, status, tuple(policies), quotas)


def _list(fields: Mapping[str, object], name: str, most: int) -> list[object]:
    value = fields.get(name, [])
    if not isinstance(value, list):
        raise InvalidRequest(f"{name} is a list")
    listed = cast("list[object]", value)
    if len(listed) > most:
        raise InvalidRequest(f"{name} has more than {most} entries")
    return listed


def _parse(kind: type[E], value: object, what: str) -> E:
    if isinstance(value, str):
        with suppress(ValueError):
            return kind(value)
    raise InvalidRequest(f"{what} is one of {', '.join(kind)}; not {_shown(value)}")


def _source(value: object) -> str:
    try:
        return _network(value if isinstance(value, str) and "%" not in value else "")
    except ValueError:
        raise InvalidRequest(f"a source is an address or a network, such as 10.0.0.0/8; not {_shown(value)}") from None


@lru_cache(SOURCES_KNOWN)
def _network(text: str) -> str:
    """As it is kept; raises `ValueError`. A log's state has the same ones in thousands of policies."""
    network = ip_network(text, strict=False)
    # IPv4 as IPv6 writes it is IPv4, as `_address` has it: else no address would ever be in such a network.
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return str(network if mapped is None else ip_network((int(mapped), network.prefixlen - 96)))


@lru_cache(SOURCES_KNOWN)
def _address(source: str | None) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(source or "")
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _shown(value: object) -> str:
    return repr(value)[:100]
