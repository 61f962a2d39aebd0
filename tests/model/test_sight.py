"""What of all topics and groups a user may read is what `User.decide` says of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.access import Action, Decision, Kind, Policy, Resource, Status, User, UserType, need_of_topic
from lakemq.model.sight import ANYBODY, READS, sight_of

NAMES = ["orders", "orders-old", "o", "secrets", "workers"]
TOPICS = [
    *NAMES,
    "%RETRY%workers",
    "%DLQ%workers",
    "%DLQ%o",
    "%RETRY%",
    "%DLQ%",
    "RMQ_SYS_TOPICS",
    "SCHEDULE_TOPIC_XXXX",
]
SOURCES = ["10.0.0.1", "127.0.0.1", None]

names = st.sampled_from([*NAMES, "*", "o*", "orders*", "sec*", "w*"])
resources = st.one_of(
    st.builds(lambda kind, name: f"{kind}:{name}", st.sampled_from(["Topic", "Group"]), names), st.just("Cluster:*")
)
policies = st.builds(
    Policy,
    resources,
    st.frozensets(st.sampled_from([Action.PUB, Action.SUB, Action.GET]), min_size=1),
    st.sampled_from([(), ("10.0.0.0/8",)]),
    st.sampled_from(Decision),
)
users = st.builds(
    User,
    st.just("u"),
    st.sampled_from([UserType.NORMAL, UserType.NORMAL, UserType.SUPER]),
    st.sampled_from([Status.ENABLED, Status.ENABLED, Status.DISABLED]),
    st.lists(policies, max_size=6).map(tuple),
)


@given(users, st.sampled_from(SOURCES))
def test_a_topic_is_seen_by_who_may_read_it(user: User, source: str | None) -> None:
    sight = sight_of(user, source)
    for topic in TOPICS:
        assert sight.sees_topic(topic) == user.decide(need_of_topic(READS, topic), source).allowed, topic
    for group in NAMES:
        need = need_of_topic(READS, group)._replace(resource=Resource(Kind.GROUP, group))
        assert sight.sees_group(group) == user.decide(need, source).allowed


def test_anybody_sees_all_but_what_is_the_systems_own() -> None:
    seen = {topic for topic in TOPICS if ANYBODY.sees_topic(topic)}
    assert seen == {*NAMES, "%RETRY%workers", "%DLQ%workers", "%DLQ%o"}
    assert ANYBODY.sees_group("workers")
