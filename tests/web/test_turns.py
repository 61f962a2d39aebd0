"""Requests that are sent ahead of their answers: the rules alone, and on a real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx

from lakemq.testing import GatewayProcess
from lakemq.web.turns import BEGUN_MAX, TURN_S, Ahead, Turns, Unread
from tests.gateway.http_client import Connection, pull_all, put_topic


class Client:
    """A connection with so many requests that were sent ahead; each takes its time."""

    def __init__(self, requests: int, goes_on: Callable[[Client], None] = lambda _: None) -> None:
        self.left = requests
        self.is_cut = False
        self._goes_on = goes_on

    def go_on(self) -> None:
        self.left -= 1
        self._goes_on(self)

    def cut(self) -> None:
        self.is_cut = True


def run(turns: Turns, clients: list[Client], between: Callable[[], None] = lambda: None) -> int:
    """Until nobody waits; how many turns of the loop it took."""

    async def go() -> int:
        for client in clients:
            turns.add(client)
        taken = 0
        while any(client.left for client in clients):
            await asyncio.sleep(0)
            between()
            taken += 1
        return taken

    return asyncio.run(go())


def test_everybody_goes_on_by_one_before_anybody_does_by_two() -> None:
    order: list[Client] = []

    def goes_on(client: Client) -> None:
        order.append(client)
        if client.left:
            turns.add(client)

    turns = Turns(lambda: 0.0)
    clients = [Client(3, goes_on) for _ in range(4)]
    run(turns, clients)
    assert order == clients * 3


def test_a_process_that_is_held_up_between_any_two_lines_forgets_nobody() -> None:
    clock = iter(range(1_000_000))  # each look at it finds a second gone
    clients = [Client(1) for _ in range(5)]
    run(Turns(lambda: float(next(clock))), clients)
    assert [client.left for client in clients] == [0] * 5


def test_one_that_fails_takes_no_turns_from_the_others() -> None:
    def fail(_: Client) -> None:
        raise ValueError("as no connection should")

    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        turns, others = Turns(lambda: 0.0), [Client(1), Client(1)]
        for client in (Client(1, fail), *others):
            turns.add(client)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [client.left for client in others] == [0, 0]

    asyncio.run(go())


def test_what_takes_long_is_begun_one_by_one_and_what_is_quick_by_many() -> None:
    now = 0.0

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def many() -> list[Client]:
        return [Client(1) for _ in range(10 * BEGUN_MAX)]

    turns = Turns(lambda: now)
    assert run(turns, many()) <= 12
    # Each turn takes too long, whoever it is that makes it so: fewer and fewer are begun in one.
    assert run(turns, many(), lambda: pass_time(2 * TURN_S)) > 5 * BEGUN_MAX
    # And each of these takes too long: after it, the loop looks after everything else.
    assert run(turns, [Client(1, lambda _: pass_time(2 * TURN_S)) for _ in range(50)]) >= 50


def test_who_has_gone_waits_for_no_turn() -> None:
    turns = Turns(lambda: 0.0)
    gone, stays = Client(0), Client(1)

    async def go() -> None:
        turns.add(gone)
        turns.add(stays)
        turns.remove(gone)
        turns.remove(gone)
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(go())
    assert (gone.left, stays.left) == (0, 0)


def test_who_holds_most_bytes_ahead_for_longest_is_cut_when_they_are_too_many() -> None:
    ahead = Ahead(100)
    first, second, third = Client(0), Client(0), Client(0)
    ahead.set(first, 40)
    ahead.set(second, 40)
    ahead.set(first, 60)
    assert (ahead.bytes, first.is_cut) == (100, False)
    ahead.set(third, 1)
    assert (ahead.bytes, first.is_cut, second.is_cut) == (41, True, False)
    ahead.set(second, 0)
    ahead.set(second, 0)
    ahead.set(third, 1_000)
    assert (ahead.bytes, third.is_cut) == (1_000, False)


def test_what_is_unread_is_taken_by_heads_and_by_sizes() -> None:
    unread = Unread()
    assert (len(unread), unread.head_bytes(100), bytes(unread.take(5))) == (0, None, b"")
    unread.add(b"GET / HTTP/1.1\r\n\r")
    assert unread.head_bytes(100) is None
    assert bytes(unread.take(4)) == b"GET "
    unread.add(b"\nbody")
    assert unread.head_bytes(14) == 14
    assert unread.head_bytes(13) is None
    assert bytes(unread.take(14)) == b"/ HTTP/1.1\r\n\r\n"
    assert (bytes(unread.take(100)), len(unread)) == (b"body", 0)


def requests(topic: str) -> tuple[list[bytes], list[str]]:
    """Requests of many forms, and the bodies of those that store a message."""
    head = f"POST /v1/topics/{topic}/messages HTTP/1.1\r\nHost: localhost\r\n".encode()
    bodies = ["", "x", "\r\n\r\nGET / HTTP/1.1\r\n\r\n" * 20, "y" * 3_000, "z" * 70_000, "0\r\n\r\n"]
    made: list[bytes] = []
    for number, body in enumerate(bodies * 10):
        data = f"{number}:{body}".encode()
        if number % 3:
            made.append(head + b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        else:
            half = len(data) // 2
            pieces = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in (data[:half], data[half:]) if each)
            made.append(head + b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % pieces)
        made.append(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return made, [f"{number}:{body}" for number, body in enumerate(bodies * 10)]


def test_requests_of_any_form_that_are_sent_at_once_are_answered_in_their_order(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    sent, bodies = requests(topic)
    for size in (1 << 30, 5_000, 1_999):
        whole = b"".join(sent)
        with Connection(gateway) as connection:
            for begin in range(0, len(whole), size):
                connection.send(whole[begin : begin + size])
            answers = [connection.answer() for _ in sent]
        assert [answer and answer.status for answer in answers] == [200] * len(sent)
        listed = [b'"topics"' in answer.body for answer in answers if answer]
        assert listed == [False, True] * len(bodies)
    stored = [message["body"] for message in pull_all(http, topic)]
    assert stored == bodies * 3


def metric(http: httpx.Client, name: str) -> int:
    lines = http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith(f"{name} ")).split()[1]))


def test_what_is_sent_ahead_of_an_answer_waits_as_it_came_and_goes_on_after_it(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """Thousands of requests that came at once were all parsed at once, for as long as that took."""
    put_topic(http, topic)
    waits = f"GET /v1/topics/{topic}/queues/0/messages?offset=0&wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    follows = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3_000
    with Connection(gateway) as connection:
        connection.send(waits.encode() + follows)
        while metric(http, "lakemq_ahead_bytes") < len(follows) // 2:
            pass
        http.post(f"/v1/topics/{topic}/messages", content=b"x").raise_for_status()
        answers = [connection.answer() for _ in range(3_001)]
    assert {answer and answer.status for answer in answers} == {200}
    while metric(http, "lakemq_ahead_bytes") > 0:
        pass
