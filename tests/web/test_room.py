"""Room that clients share: what each has of it, and who holds what."""

from __future__ import annotations

from contextlib import ExitStack

from lakemq.web.room import Holders, Room


def test_one_client_does_not_take_all_places() -> None:
    room = Room(5, 2)
    with ExitStack() as stack:
        for address in ("10.0.0.1", "10.0.0.1", "2001:db8::1", "2001:db8::2"):
            assert room.has_room(address)
            stack.enter_context(room.place(address))
        assert not room.has_room("10.0.0.1")
        assert not room.has_room("2001:db8::3")
        with room.place("10.0.0.2"):
            assert not room.has_room("10.0.0.3"), "there are no more at all"
        assert room.has_room("10.0.0.3")
    assert room.has_room("10.0.0.1")


def test_a_share_is_of_one_at_least() -> None:
    assert [Room.shared(most, 0.75).each_most for most in (1, 2, 4, 100)] == [1, 1, 3, 75]


def test_who_holds_how_much_is_known_of_all_and_of_each_client() -> None:
    holders: Holders[str] = Holders(Room(100, 50))
    holders.put("first", "2001:db8::1", 10)
    holders.put("second", "b", 20)
    holders.put("third", "2001:db8::2", 0)
    assert (holders.first(), holders.first_of("2001:db8::3"), holders.count_of("2001:db8::3")) == ("first", "first", 2)
    holders.put("first", "b", 5)  # a proxy's connection is another client's now
    assert (holders.first(), holders.first_of("b"), holders.first_of("2001:db8::3")) == ("second", "second", "third")
    assert (holders.size_of("first"), holders.room.of("b"), holders.room.of("2001:db8::1")) == (5, 25, 0)
    for each in ("first", "second", "third", "third"):
        holders.remove(each)
    assert (len(holders), holders.room.taken, holders.count_of("b"), holders.size_of("first")) == (0, 0, 0, 0)
