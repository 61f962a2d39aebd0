"""What a log's records say about users: whatever is not worth a gateway."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.access import Status, User, UserType, parse_policy
from lakemq.model.names import ACCESS_TOPIC
from lakemq.model.quota import Quotas
from lakemq.storage.segment.content import Columns, Rows
from lakemq.storage.segment.frame import KIND_MESSAGES, Meta, Run
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.access_state import (
    ADD_TOKEN,
    DELETE_TOKEN,
    DELETE_USER,
    PUT_POLICIES,
    PUT_USER,
    AccessState,
    KeptToken,
    size_of,
)
from lakemq.storage.state.topics import says_something

ALLOW = {"resource": "Topic:t", "actions": ["Pub"]}
HASH, OTHER = "0" * 64, "f" * 64
Record = tuple[str, Any]


def apply(state: AccessState, *records: Record) -> AccessState:
    """Apply one frame with the records."""
    rows = [make_row(body=_body(content), tag=kind) for kind, content in records]
    run = Run(ACCESS_TOPIC, 0, 0, len(rows), 0)
    state.apply(Meta(KIND_MESSAGES, 0, 1_000, len(rows), 0, (run,), b"", 0, 0, 0), Rows(rows))
    return state


def _body(content: Any) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def user(name: Any = "ann", **fields: Any) -> Record:
    return PUT_USER, {"user": name, "type": "normal", "status": "enabled", **fields}


def token(name: Any = "ann", token_id: Any = "1", **fields: Any) -> Record:
    kept = {"user": name, "id": token_id, "secret_hash": HASH, "created_ms": 5, "expires_ms": None}
    return ADD_TOKEN, {**kept, **fields}


def policies(*listed: Any, name: str = "ann") -> Record:
    return PUT_POLICIES, {"user": name, "policies": list(listed)}


def deleted(name: str = "ann") -> Record:
    return DELETE_USER, {"user": name}


def test_a_users_token_is_found_with_the_user_as_it_is_now() -> None:
    state = apply(AccessState(), user(), token(expires_ms=9))
    assert state.find_token("1") == (User("ann"), HASH, 9)
    apply(state, policies(ALLOW), user(type="super", status="disabled"))
    now = User("ann", UserType.SUPER, Status.DISABLED, (parse_policy(ALLOW),))
    assert state.find_token("1") == (now, HASH, 9)
    assert state.users["ann"].tokens == (KeptToken("1", HASH, 5, 9),), "a user that is put again keeps what it has"
    assert state.find_token("2") is None


def test_a_deleted_user_has_nothing_when_it_is_made_again() -> None:
    state = apply(AccessState(), user(), token(), policies(ALLOW), deleted())
    assert (state.users, state.find_token("1"), state.size) == ({}, None, 0)
    apply(state, user())
    assert (state.users["ann"].user, state.users["ann"].tokens) == (User("ann"), ())


def test_a_user_has_several_tokens_and_each_is_deleted_alone() -> None:
    state = apply(AccessState(), user(), token(), token(token_id="2"), (DELETE_TOKEN, {"user": "ann", "id": "1"}))
    assert [each.id for each in state.users["ann"].tokens] == ["2"]
    assert state.find_token("1") is None
    assert state.find_token("2") is not None


def test_a_tokens_id_is_of_one_token() -> None:
    state = apply(AccessState(), user(), user("bob"), token(), token("bob"), token(secret_hash=OTHER))
    assert state.find_token("1") == (User("ann"), HASH, None)
    assert not state.users["bob"].tokens
    assert (state.takes("ann", "1", HASH), state.takes("ann", "1", OTHER), state.takes("bob", "1", HASH)) == (
        True,
        False,
        False,
    )
    apply(state, (DELETE_TOKEN, {"user": "bob", "id": "1"}))
    assert state.find_token("1") is not None, "it isn't bob's"
    apply(state, token(expires_ms=7))
    assert state.find_token("1") == (User("ann"), HASH, 7)
    assert len(state.users["ann"].tokens) == 1


def test_policies_of_which_one_makes_no_sense_allow_nothing() -> None:
    state = apply(AccessState(), user(), policies(ALLOW))
    apply(state, policies(ALLOW, {"resource": "Topic:t", "actions": ["Fly"], "decision": "deny"}))
    assert state.users["ann"].user.policies == ()
    apply(state, policies(ALLOW), (PUT_POLICIES, {"user": "ann", "policies": "all"}))
    assert state.users["ann"].user.policies == ()


def test_a_user_of_no_known_type_or_status_is_disabled() -> None:
    for fields in ({"type": "root"}, {"status": "maybe"}, {"type": None}, {"status": ["enabled"]}):
        state = apply(AccessState(), user(**fields))
        assert state.users["ann"].user == User("ann", UserType.NORMAL, Status.DISABLED)


def test_a_users_quotas_stay_where_a_record_is_from_before_there_were_any() -> None:
    own = Quotas(5, None, 0)
    state = apply(AccessState(), user(quotas=own.fields()), user(status="disabled"), policies(ALLOW), token())
    assert state.users["ann"].user.quotas == own
    again = AccessState()
    again.restore(json.loads(json.dumps(state.dump())))
    assert again.users == state.users
    apply(state, user(quotas={"requests_per_s": None, "of_a_later_version": {}}))
    assert state.users["ann"].user == User("ann", policies=(parse_policy(ALLOW),), quotas=Quotas(None, None, 0))


def test_a_user_whose_quotas_make_no_sense_is_disabled() -> None:
    own = Quotas(connections=1)
    for odd in (None, [], {"connections": "many"}, {"requests_per_s": -1}, {"bytes_per_s": 1e400}):
        state = apply(AccessState(), user(type="super", quotas=own.fields()), user(type="super", quotas=odd))
        assert state.users["ann"].user == User("ann", UserType.NORMAL, Status.DISABLED, quotas=own)


@pytest.mark.parametrize(
    "record",
    [
        (PUT_USER, b""),
        (PUT_USER, b"\xff"),
        (PUT_USER, b"[" * 100_000),
        (PUT_USER, ["ann"]),
        (PUT_USER, {}),
        (PUT_USER, {"user": 5}),
        (PUT_USER, {"user": "a b"}),
        (PUT_USER, {"user": "admin.token"}),
        deleted("bob"),
        policies(ALLOW, name="bob"),
        token("bob"),
        token(token_id=""),
        token(token_id=None),
        token(token_id=["1"]),
        token(secret_hash="ä" * 64),
        token(secret_hash=HASH[1:]),
        token(secret_hash=f"{HASH}\n"),
        token(created_ms=None),
        token(expires_ms="soon"),
        token(expires_ms=True),
        (ADD_TOKEN, {"user": "ann", "id": "1", "secret_hash": HASH, "created_ms": 5}),
        ("fly", {"user": "ann"}),
        (None, {"user": "ann"}),
    ],
)
def test_what_makes_no_sense_changes_nothing(record: Any) -> None:
    state = apply(AccessState(), user())
    before = state.dump(), state.generation
    apply(state, record)
    assert (state.dump(), state.generation) == before


def test_rows_of_other_topics_say_nothing_and_columns_say_what_rows_do() -> None:
    assert says_something(ACCESS_TOPIC)
    kind, content = user()
    rows = [make_row(body=_body(content), tag=kind)]
    state = AccessState()
    state.apply(Meta(KIND_MESSAGES, 0, 1_000, 1, 0, (Run("t", 0, 0, 1, 0),), b"", 0, 0, 0), Rows(rows))
    assert state.users == {}
    batch = pa.record_batch({"tag": [kind], "body": pa.array([_body(content)], pa.binary())})
    state.apply(Meta(KIND_MESSAGES, 0, 1_000, 1, 0, (Run(ACCESS_TOPIC, 0, 0, 1, 0),), b"", 0, 0, 0), Columns(batch))
    assert list(state.users) == ["ann"]


def test_a_log_of_before_has_no_users() -> None:
    state = apply(AccessState(), user(), token(), policies(ALLOW))
    generation = state.generation
    state.restore({})
    assert (state.users, state.find_token("1"), state.size, state.dump()) == ({}, None, 0, {})
    assert state.generation > generation


def test_what_was_frozen_is_of_that_moment() -> None:
    state = apply(AccessState(), user(), token())
    frozen = state.freeze()
    apply(state, user("bob"), (DELETE_TOKEN, {"user": "ann", "id": "1"}))
    assert frozen() == {
        "ann": {"type": "normal", "status": "enabled", "policies": [], "tokens": [["1", HASH, 5, None]]}
    }


USERS, IDS = st.sampled_from(["ann", "bob"]), st.sampled_from(["1", "2", "3"])
POLICIES = st.lists(
    st.sampled_from([ALLOW, {**ALLOW, "decision": "deny"}, {**ALLOW, "sources": ["::1"]}, {}]), max_size=2
)
RECORDS = st.one_of(
    st.builds(lambda n, t, s: user(n, type=t, status=s), USERS, st.sampled_from(UserType), st.sampled_from(Status)),
    st.builds(lambda n, q: user(n, quotas=q), USERS, st.sampled_from([{}, {"connections": 3}, {"bytes_per_s": None}])),
    st.builds(deleted, USERS),
    st.builds(lambda n, p: policies(*p, name=n), USERS, POLICIES),
    st.builds(
        lambda n, i, h, e: token(n, i, secret_hash=h, expires_ms=e),
        USERS,
        IDS,
        st.sampled_from([HASH, OTHER]),
        st.none() | st.integers(),
    ),
    st.builds(lambda n, i: (DELETE_TOKEN, {"user": n, "id": i}), USERS, IDS),
)


@given(st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=4), st.booleans()), max_size=12))
def test_a_state_that_is_kept_and_restored_on_the_way_is_the_same(steps: list[tuple[list[Record], bool]]) -> None:
    state, restored = AccessState(), AccessState()
    generations = [state.generation]
    for records, keep in steps:
        before = state.dump()
        for each in (state, restored):
            apply(each, *records)
        if keep:
            dumped = json.loads(json.dumps(restored.dump()))
            restored = AccessState()
            restored.restore(dumped)
        assert restored.users == state.users
        assert (state.dump() == before) or state.generation > generations[-1]
        generations.append(state.generation)
        for each in (state, restored):
            tokens = {one.id: (one, account.user) for account in each.users.values() for one in account.tokens}
            for token_id in ("1", "2", "3"):
                kept = tokens.get(token_id)
                found = None if kept is None else (kept[1], kept[0].secret_hash, kept[0].expires_ms)
                assert each.find_token(token_id) == found
            assert sum(len(account.tokens) for account in each.users.values()) == len(tokens), "an id is of one token"
            assert each.size == sum(account.size for account in each.users.values())
            for account in each.users.values():
                assert account.size == size_of(account.user.policies)


@given(
    st.lists(
        st.tuples(
            st.text() | st.none(),
            st.binary()
            | st.dictionaries(
                st.sampled_from(
                    ["user", "type", "status", "quotas", "policies", "id", "secret_hash", "created_ms", "expires_ms"]
                ),
                st.none() | st.integers() | st.text() | st.lists(st.text() | st.dictionaries(st.text(), st.text())),
            ),
        )
    )
)
def test_no_record_is_too_odd_to_go_on(records: list[Any]) -> None:
    state = apply(AccessState(), user(), *records)
    json.dumps(state.dump())
