"""What keeps a page current."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from lakemq.client.errors import Unreachable
from lakemq.console.asked import Broker
from lakemq.contract import routes
from lakemq.testing import GatewayProcess
from lakemq.wire.credentials import NOBODY
from tests.console.visitor import ConsoleProcess, Guarded, Visitor, token_of
from tests.gateway.http_client import produce, put_topic


def events(response: httpx.Response) -> Iterator[tuple[str, str]]:
    """Each event's kind and data, as they come."""
    kind, data = "", list[str]()
    for line in response.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data.append(line.removeprefix("data: "))
        elif not line and kind:
            yield kind, "\n".join(data)
            kind, data = "", []


def test_the_overview_comes_again_and_again_with_rates(visitor: Visitor, http: httpx.Client, name: str) -> None:
    with visitor.http.stream("GET", "/live/overview") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        coming = events(response)
        assert [next(coming)[0], next(coming)[0]] == ["numbers", "page"]
        produce(http, name, *["x"] * 50)
        # What was sent before, and waits to be read, has none.
        assert next(rate for kind, data in coming if kind == "numbers" and (rate := json.loads(data)["in"])) > 0


def test_new_messages_appear_as_text_while_a_topic_is_followed(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_topic(http, name, 2)
    produce(http, name, "before")
    with visitor.http.stream("GET", f"/live/topics/{name}") as response:
        coming = events(response)
        assert next(coming) == ("following", "2")
        produce(http, name, "<script>after")
        kind, rows = next(coming)
        assert kind == "rows"
        assert "&lt;script&gt;after" in rows
        assert "before" not in rows
        http.delete(f"/v1/topics/{name}")
        assert name in next(data for kind, data in coming if kind == "problem")


def test_pages_that_are_kept_current_are_bounded_and_end_with_the_console(gateway: GatewayProcess) -> None:
    with ConsoleProcess(gateway.url, console__live_max=1) as console:
        visitor, other = Visitor(console.url), Visitor(console.url)
        with visitor.http.stream("GET", "/live/overview") as response:
            next(events(response))
            assert "console.live_max" in other.get("/live/overview", 503)
            assert console.stop() == 0
        visitor.close()
        other.close()
        assert not any("Traceback" in line for line in console.log)


def test_one_users_pages_leave_places_for_another_users(guarded: Guarded) -> None:
    limits = {"console__live_max": 2, "console__client_share": 0.5, "console__sign_in_required": True}
    with ConsoleProcess(guarded.gateway.url, **limits) as console, ExitStack() as stack:
        visitors = [stack.enter_context(closing(Visitor(console.url))) for _ in range(3)]
        many = token_of(guarded.http, "who-opens-many")
        for visitor, token in zip(visitors, (many, many, guarded.admin), strict=True):
            visitor.sign_in(token)
        live = [stack.enter_context(each.http.stream("GET", "/live/overview")) for each in visitors]
        assert [each.status_code for each in live] == [200, 503, 200]


def test_a_place_is_free_again_once_a_browser_has_gone(gateway: GatewayProcess) -> None:
    with ConsoleProcess(gateway.url, console__live_max=1) as console:
        for _ in range(3):
            while not follows(console.url):
                pass


def follows(url: str) -> bool:
    """Whether there is a place for a page; it is left again."""
    visitor = Visitor(url)
    with visitor.http.stream("GET", "/live/overview") as response:
        if has_one := response.status_code == 200:
            next(events(response))
    visitor.close()
    return has_one


def test_a_broker_that_does_not_answer_is_waited_for_so_long_and_no_longer() -> None:
    async def ask(address: str) -> None:
        broker = Broker(address, NOBODY)
        try:
            await broker.get(routes.BROKER.at(), timeout_s=0.1)
        finally:
            await broker.close()

    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable):
        asyncio.run(ask(f"http://127.0.0.1:{silent.getsockname()[1]}"))
