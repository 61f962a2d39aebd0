"""Name servers, asked without an event loop."""

from __future__ import annotations

from contextlib import closing

from lakemq.testing import start_nameserver
from lakemq.wire.name_servers import NameServers
from tests.nameserver.asking import connect, hear


def test_of_two_primaries_the_one_of_the_higher_epoch_is_it() -> None:
    """Regression: it was the one of the higher number."""
    with start_nameserver() as server, connect(server) as http, closing(NameServers([server.url])) as asked:
        hear(http, "a", epoch=3, address="http://192.0.2.1:1")
        hear(http, "a", epoch=2, address="http://192.0.2.2:1", replica=1)
        hear(http, "b", epoch=2, address="http://192.0.2.3:1", replica=1)
        hear(http, "b", epoch=9, address="http://192.0.2.4:1", role="follower")
        hear(http, "c", role="follower")
        assert asked.primaries() == {"a": "http://192.0.2.1:1", "b": "http://192.0.2.3:1"}


def test_one_that_knows_nobody_yet_is_not_the_last_that_is_asked() -> None:
    with (
        start_nameserver() as new,
        start_nameserver() as server,
        connect(server) as http,
        closing(NameServers([new.url, server.url])) as asked,
    ):
        assert asked.primaries() == {}
        hear(http, "a", address="http://192.0.2.1:1")
        assert asked.primaries() == {"a": "http://192.0.2.1:1"}
