"""Who may do what."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.access import (
    SOURCES_MAX,
    Action,
    Decision,
    Kind,
    Need,
    Policy,
    Resource,
    Status,
    User,
    UserType,
    check_user_name,
    need_of_group,
    need_of_topic,
    parse_action,
    parse_policy,
    parse_resource,
    parse_user,
)
from lakemq.model.errors import InvalidRequest

HERE, THERE = "10.0.0.1", "192.168.0.1"


def policy(resource: str, *actions: str, **fields: Any) -> Policy:
    return parse_policy({"resource": resource, "actions": list(actions or ("Pub",)), **fields})


def allows(policies: list[Policy], action: Action, resource: str, source: str | None = HERE) -> bool:
    return User("u", policies=tuple(policies)).decide(Need((action,), parse_resource(resource)), source).allowed


@pytest.mark.parametrize(
    ("pattern", "resource", "allowed"),
    [
        ("Topic:orders", "Topic:orders", True),
        ("Topic:orders", "Topic:orders2", False),
        ("Topic:orders", "Group:orders", False),
        ("Topic:orders*", "Topic:orders2", True),
        ("Topic:orders*", "Topic:orders", True),
        ("Topic:orders*", "Topic:order", False),
        ("Topic:*", "Topic:orders", True),
        ("Topic:*", "Topic:*", True),
        ("Topic:o*", "Topic:*", False),
        ("Topic:orders", "Topic:*", False),
        ("Group:%RETRY%g", "Group:%RETRY%g", True),
        ("Cluster:*", "Cluster:*", True),
    ],
)
def test_a_policy_allows_what_its_resource_covers(pattern: str, resource: str, allowed: bool) -> None:
    assert allows([policy(pattern)], Action.PUB, resource) is allowed
    assert not allows([policy(pattern)], Action.SUB, resource), "another action"


@pytest.mark.parametrize("turned", [False, True])
def test_what_denies_wins_over_what_allows(turned: bool) -> None:
    policies = [policy("Topic:*"), policy("Topic:secret*", decision="deny")]
    policies = policies[::-1] if turned else policies
    assert allows(policies, Action.PUB, "Topic:orders")
    assert not allows(policies, Action.PUB, "Topic:secret1")
    assert not allows(policies, Action.PUB, "Topic:*"), "who may not do it to some may not do it to all"
    verdict = User("u", policies=tuple(policies)).decide(Need((Action.PUB,), Resource(Kind.TOPIC, "secret1")), HERE)
    assert verdict == (False, "deny Pub on Topic:secret*")


@pytest.mark.parametrize(
    ("sources", "source", "matches"),
    [
        (["10.0.0.0/8"], HERE, True),
        (["10.0.0.0/8"], THERE, False),
        (["10.0.0.0/8"], f"::ffff:{HERE}", True),
        (["::ffff:10.0.0.0/104"], HERE, True),
        (["::ffff:10.0.0.0/104"], f"::ffff:{HERE}", True),
        (["::ffff:10.0.0.0/104"], THERE, False),
        ([THERE, HERE], HERE, True),
        (["fd00::/8"], "fd00::1", True),
        (["fd00::/8"], HERE, False),
        (["10.1.2.3/8"], HERE, True),
        ([], None, True),
        ([], "not an address", True),
    ],
)
def test_a_policy_is_of_the_addresses_that_it_names(sources: list[str], source: str | None, matches: bool) -> None:
    topic = Resource(Kind.TOPIC, "t")
    for decision in Decision:
        assert policy("Topic:t", sources=sources, decision=decision).matches(Action.PUB, topic, source) is matches


@pytest.mark.parametrize("source", [None, "", "unix:"])
def test_from_nowhere_is_nobody_whom_some_addresses_are_allowed_and_everybody_whom_they_are_denied(
    source: str | None,
) -> None:
    only_here = [policy("Topic:t", sources=["10.0.0.0/8"])]
    assert not allows(only_here, Action.PUB, "Topic:t", source)
    not_there = [policy("Topic:t"), policy("Topic:t", sources=["192.168.0.0/16"], decision="deny")]
    assert allows(not_there, Action.PUB, "Topic:t", HERE)
    assert not allows(not_there, Action.PUB, "Topic:t", source)


def test_super_users_may_do_all_unless_they_are_disabled() -> None:
    everything, denied = Need((), Resource(Kind.CLUSTER)), (policy("Topic:*", decision="deny"),)
    root = User("root", UserType.SUPER, policies=denied)
    assert root.decide(everything, None) == (True, "super users may do all")
    assert root.decide(Need((Action.PUB,), Resource(Kind.TOPIC, "t")), None).allowed
    assert root.may(everything, None)
    disabled = User("root", UserType.SUPER, Status.DISABLED)
    assert not disabled.may(everything, None)
    assert disabled.decide(everything, None) == (False, "user root is disabled")
    normal = User("u", policies=tuple(policy(f"{kind}:*", *Action) for kind in Kind))
    assert normal.decide(everything, None) == (False, "only super users may")


def test_one_of_the_actions_is_enough() -> None:
    user = User("u", policies=(policy("Topic:t", "Sub"), policy("Topic:t", "Get", decision="deny")))
    topic = Resource(Kind.TOPIC, "t")
    assert user.decide(Need((Action.GET, Action.SUB), topic), None) == (True, "allow Sub on Topic:t")
    assert user.decide(Need((Action.GET, Action.PUB), topic), None) == (False, "no policy allows it")
    assert str(Need((Action.GET, Action.PUB), topic)) == "Get or Pub on Topic:t"
    assert str(Need((), Resource(Kind.CLUSTER))) == "all on Cluster:*"


def test_a_groups_topics_are_the_groups_and_the_systems_are_for_administrators() -> None:
    pub = (Action.PUB,)
    assert need_of_topic(pub, "t") == Need(pub, Resource(Kind.TOPIC, "t"))
    assert need_of_topic(pub, "%RETRY%g") == need_of_topic(pub, "%DLQ%g") == Need(pub, Resource(Kind.GROUP, "g"))
    assert need_of_group(pub, "g") == Need(pub, Resource(Kind.GROUP, "g"))
    for topic in ("%RETRY%", "%else", "RMQ_SYS_ACCESS_TOPIC", "SCHEDULE_TOPIC_XXXX"):
        assert need_of_topic((Action.SUB,), topic) == Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True)
        # Nobody writes these: who serves a message says so, to everybody.
        assert need_of_topic(pub, topic) == Need(pub, Resource(Kind.TOPIC, topic))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("Topic:t", "a policy is an object"),
        ({"resource": "Topic:t", "actions": ["Pub"], "more": 1}, "no field 'more'"),
        ({"actions": ["Pub"]}, "a resource is Kind:name"),
        ({"resource": "Topic", "actions": ["Pub"]}, "a resource is Kind:name"),
        ({"resource": "topic:t", "actions": ["Pub"]}, "a resource is Kind:name"),
        ({"resource": 5, "actions": ["Pub"]}, "a resource is Kind:name"),
        ({"resource": "Cluster:c", "actions": ["Pub"]}, "Cluster:*"),
        ({"resource": "Topic:", "actions": ["Pub"]}, "may end in *"),
        ({"resource": "Topic:a*b", "actions": ["Pub"]}, "may end in *"),
        ({"resource": "Topic:**", "actions": ["Pub"]}, "may end in *"),
        ({"resource": "Topic:t\n", "actions": ["Pub"]}, "may end in *"),
        ({"resource": "Topic:t", "actions": []}, "one action at least"),
        ({"resource": "Topic:t"}, "one action at least"),
        ({"resource": "Topic:t", "actions": ["pub"]}, "an action is one of Pub, Sub"),
        ({"resource": "Topic:t", "actions": [["Pub"]]}, "an action is one of"),
        ({"resource": "Topic:t", "actions": "Pub"}, "actions is a list"),
        ({"resource": "Topic:t", "actions": ["Pub"] * 12}, "more than 11"),
        ({"resource": "Topic:t", "actions": ["Pub"], "decision": None}, "a decision is one of allow, deny"),
        ({"resource": "Topic:t", "actions": ["Pub"], "sources": None}, "sources is a list"),
        ({"resource": "Topic:t", "actions": ["Pub"], "sources": ["here"]}, "such as 10.0.0.0/8; not 'here'"),
        ({"resource": "Topic:t", "actions": ["Pub"], "sources": [8]}, "not 8"),
        ({"resource": "Topic:t", "actions": ["Pub"], "sources": ["fe80::1%x"]}, "not 'fe80::1%x'"),
        ({"resource": "Topic:t", "actions": ["Pub"], "sources": [HERE] * (SOURCES_MAX + 1)}, "more than 64"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_is_wrong(fields: object, says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_policy(fields)
    assert says in refused.value.detail


@pytest.mark.parametrize("name", ["", "a b", "admin.token", "a\n", "x" * 128, "ä"])
def test_what_cant_name_a_user_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_user_name(name)


def test_a_user_is_normal_and_enabled_unless_it_is_said() -> None:
    assert parse_user("u", {}) == User("u", UserType.NORMAL, Status.ENABLED)
    assert parse_user("u", {"type": "super", "status": "disabled"}) == User("u", UserType.SUPER, Status.DISABLED)
    with pytest.raises(InvalidRequest, match="a user's type"):
        parse_user("u", {"type": "root"})
    with pytest.raises(InvalidRequest, match="a user's status"):
        parse_user("u", {"status": None})
    with pytest.raises(InvalidRequest):
        parse_user("u v", {})


NAMES = st.sampled_from(["a", "ab", "abc", "b"])
KINDS, STARS = st.sampled_from(["Topic", "Group"]), st.sampled_from(["", "*"])
RESOURCES = st.builds(lambda kind, name, star: f"{kind}:{name}{star}", KINDS, NAMES, STARS)
POLICIES = st.builds(
    lambda resource, actions, sources, decision: parse_policy(
        {"resource": resource, "actions": actions, "sources": sources, "decision": decision}
    ),
    RESOURCES | st.just("Topic:*"),
    st.lists(st.sampled_from(["Pub", "Sub"]), min_size=1, max_size=2),
    st.lists(st.sampled_from(["10.0.0.0/8", "192.168.0.0/16", "::1"]), max_size=2),
    st.sampled_from(["allow", "deny"]),
)
NEEDS = st.builds(
    lambda action, kind, name: Need((action,), Resource(kind, name)),
    st.sampled_from([Action.PUB, Action.SUB]),
    st.sampled_from([Kind.TOPIC, Kind.GROUP]),
    NAMES | st.just("*"),
)
SOURCES = st.sampled_from([None, HERE, THERE, "::1", "::ffff:10.0.0.1"])


@given(policies=st.lists(POLICIES, max_size=6), more=POLICIES, need=NEEDS, source=SOURCES)
def test_order_says_nothing_and_one_more_policy_only_what_it_decides(
    policies: list[Policy], more: Policy, need: Need, source: str | None
) -> None:
    allowed = User("u", policies=tuple(policies)).decide(need, source).allowed
    assert User("u", policies=tuple(policies[::-1])).decide(need, source).allowed is allowed
    with_more = User("u", policies=(*policies, more)).decide(need, source).allowed
    if more.decision is Decision.DENY:
        assert allowed or not with_more
    else:
        assert with_more or not allowed
    matching = [each for each in policies if each.matches(need.actions[0], need.resource, source)]
    assert allowed is (bool(matching) and all(each.decision is Decision.ALLOW for each in matching))


@given(POLICIES)
def test_a_policy_is_what_its_fields_say(said: Policy) -> None:
    assert parse_policy(said.fields()) == said


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["resource", "actions", "sources", "decision"]) | st.text(), inner)
        ),
    )
)
def test_anything_else_is_refused_and_nothing_worse(fields: Any) -> None:
    for parse in (parse_policy, parse_resource, parse_action):
        with suppress(InvalidRequest):
            parse(fields)


# As many policies as there may be ------------------------------------------------------------

_NAMES = st.sampled_from(["a", "b", "ab", "abc", "ba", "%RETRY%a"])
_PATTERNS = st.one_of(_NAMES, _NAMES.map(lambda name: f"{name}*"), st.just("*"))
_KINDS = st.sampled_from([Kind.TOPIC, Kind.GROUP])
_ACTIONS = st.sampled_from([Action.PUB, Action.SUB, Action.GET])
_SOURCES = st.sampled_from([HERE, THERE, f"::ffff:{HERE}", "fd00::1", None, "no address"])
_POLICIES = st.builds(
    Policy,
    st.builds("{}:{}".format, _KINDS, _PATTERNS),
    st.frozensets(_ACTIONS, min_size=1),
    st.lists(st.sampled_from(["10.0.0.0/8", "192.168.0.0/16", "fd00::/8"]), max_size=2).map(tuple),
    st.sampled_from(Decision),
)
_NEEDS = st.builds(Need, st.lists(_ACTIONS, max_size=3, unique=True).map(tuple), st.builds(Resource, _KINDS, _PATTERNS))


def plainly(policies: list[Policy], need: Need, source: str | None) -> tuple[bool, str]:
    """What is decided by looking at each policy: one that denies wins, one of the actions is enough."""
    by = "only super users may"
    for action in need.actions:
        said = [each for each in policies if each.matches(action, need.resource, source)]
        denying = [str(each) for each in said if each.decision is Decision.DENY]
        allowing = [str(each) for each in said if each.decision is Decision.ALLOW]
        if allowing and not denying:
            return True, allowing[0]
        by = denying[0] if denying else "no policy allows it"
    return False, by


@given(st.lists(_POLICIES, max_size=12), _NEEDS, _SOURCES)
def test_looking_at_few_policies_decides_as_looking_at_all_would(
    policies: list[Policy], need: Need, source: str | None
) -> None:
    user = User("u", policies=tuple(policies))
    assert user.decide(need, source) == plainly(policies, need, source)
    assert user.may(need, source) is user.decide(need, source).allowed


def test_what_a_policy_of_another_name_says_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Policy] = []
    matches = Policy.matches

    def counting(self: Policy, action: Action, resource: Resource, source: str | None) -> bool:
        looked.append(self)
        return matches(self, action, resource, source)

    monkeypatch.setattr(Policy, "matches", counting)
    others = [policy(f"Topic:other-{number}{end}") for number in range(100) for end in ("", "*")]
    user = User("u", policies=(*others, policy("Topic:mine*"), policy("Topic:mine", "Sub")))
    assert user.may(Need((Action.PUB,), Resource(Kind.TOPIC, "mine")), HERE)
    assert len(looked) == 2
