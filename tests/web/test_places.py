"""Which connections are served, and which of the others are told that they aren't."""

from __future__ import annotations

from lakemq.web.places import TOLD_PER_CLIENT_MAX, Place, Places


def enter(places: Places, client: str) -> Place:
    return places.take(client, refused=places.refusal(client) is not None)


def test_who_is_refused_takes_nobodys_room() -> None:
    places = Places(served_max=4, served_per_client_max=3)
    found = [enter(places, "a") for _ in range(10)]
    assert found == [Place.SERVED] * 3 + [Place.TOLD] * TOLD_PER_CLIENT_MAX + [Place.NONE] * 3
    assert enter(places, "b") is Place.SERVED
    assert (places.refusal("c") or "").startswith("the server has")
    places.leave("b", Place.SERVED)
    assert (places.refusal("a") or "").startswith("this client has")
    assert places.refusal("c") is None
    for place in found:
        places.leave("a", place)
    assert places.connections == 0
    assert enter(places, "a") is Place.SERVED


def test_all_who_are_told_are_few() -> None:
    places = Places(served_max=100, served_per_client_max=100)
    assert [enter(places, str(number)) for number in range(100)] == [Place.SERVED] * 100
    assert [enter(places, str(number)) for number in range(7)] == [Place.TOLD] * 5 + [Place.NONE] * 2
    places.leave("0", Place.TOLD)
    assert enter(places, "0") is Place.TOLD


def test_of_ipv6_all_addresses_of_a_network_are_one_client() -> None:
    """Anybody has so many of them to choose from."""
    places = Places(served_max=10, served_per_client_max=2)
    assert enter(places, "2001:db8::1") is Place.SERVED
    assert enter(places, "2001:db8::ffff:2") is Place.SERVED
    assert enter(places, "2001:db8::3") is Place.TOLD
    assert enter(places, "2001:db8:0:1::1") is Place.SERVED
    places.leave("2001:db8::1", Place.SERVED)
    assert enter(places, "2001:db8::3") is Place.SERVED
