"""The contract's routes are found by their paths, and no other path is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.contract.grammar import GRAMMAR, Found, Grammar
from lakemq.contract.nameserver_routes import ALL as NAMESERVER
from lakemq.contract.nameserver_routes import HEAR, LEAVE
from lakemq.contract.right import PUBLIC
from lakemq.contract.route import Route, Target, is_name
from lakemq.contract.routes import ALL, PULL
from lakemq.model.errors import InvalidRequest

NAME = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1)


@given(st.sampled_from(ALL), st.data())
def test_each_route_is_found_with_the_values_of_its_names(route: Route, data: st.DataObject) -> None:
    words = {each for other in ALL for each in other.path.split("/")}
    values: list[str] = []
    segments = route.path.split("/")
    for number, segment in enumerate(segments):
        if is_name(segment):
            segments[number] = data.draw(NAME.filter(lambda name: name not in words))
            values.append(segments[number])
    path = "/".join(segments)
    assert GRAMMAR.find(route.method, path) == Found(route, tuple(values))
    assert route.method in GRAMMAR.methods(path)
    assert GRAMMAR.find("PATCH", path) is None
    for other in (f"{path}/", f"{path}/x/y/z", path.removeprefix("/"), f"/{path}"):
        assert GRAMMAR.methods(other) == ()


def test_a_name_is_never_empty() -> None:
    assert GRAMMAR.methods("/v1/topics//messages") == ()
    assert GRAMMAR.methods("/v1/topics/") == ()


def test_a_word_goes_before_a_name() -> None:
    one, any_ = Route("GET", "/a/one", "", "", rights=PUBLIC), Route("GET", "/a/{name}", "", "", rights=PUBLIC)
    grammar = Grammar([any_, one])
    assert grammar.find("GET", "/a/one") == Found(one, ())
    assert grammar.find("GET", "/a/two") == Found(any_, ("two",))


def test_no_two_routes_are_the_same() -> None:
    assert len({(route.method, route.path) for route in ALL}) == len(ALL) > 50


def test_a_name_server_has_a_grammar_of_its_own() -> None:
    grammar = Grammar(NAMESERVER)
    assert grammar.find("PUT", "/v1/brokers/b/replicas/1") == Found(HEAR, ("b", "1"))
    assert set(grammar.methods("/v1/brokers/b/replicas/1")) == {HEAR.method, LEAVE.method}
    assert grammar.methods("/v1/topics") == ()
    assert GRAMMAR.methods("/v1/routes") == ()


def test_a_client_asks_for_a_route_with_its_names_filled_in() -> None:
    assert PULL.at("%RETRY%g?", 3) == Target("GET", "/v1/topics/%25RETRY%25g%3F/queues/3/messages")
    assert Route("GET", "/v1/x", "", "", rights=PUBLIC).at() == Target("GET", "/v1/x")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_what_would_make_another_path_is_no_name(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is no name"):
        PULL.at(name, 0)


def test_a_route_wants_as_many_values_as_it_has_names() -> None:
    for values in ((), ("t",), ("t", 0, 0)):
        with pytest.raises(TypeError):
            PULL.at(*values)
