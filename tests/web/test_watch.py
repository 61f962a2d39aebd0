"""Clients that are slow, stalled or silent: the rules alone, and on a real gateway with small limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.settings import Gateway
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.web.watch import SMALL_BYTES, STALE_S, Phase, Unsent, Uploads, Watch
from tests.gateway.http_client import Answer, Connection, check_problem, connect, pull_all, put_topic

TRIES = 10
LIMITS = Gateway(head_ms_max=1_000, idle_ms_max=5_000, stall_ms_max=2_000, stall_bytes_min=100)


class Client:
    """A connection that does as it is told."""

    def __init__(self, client_address: str | None = None) -> None:
        self.client_address = client_address
        self.at: tuple[int, Phase] = (0, Phase.IDLE)
        self.seen: tuple[int, Phase] = (0, Phase.IDLE)
        self.seen_s = self.unsent_s = 0.0
        self.seen_bytes = self.unsent_bytes = 0
        self.received_bytes = 0
        self.held_up = False
        self.left = 0
        self.end = ""

    def unsent(self) -> int:
        return self.left

    def close_idle(self) -> None:
        self.end = "idle"

    def close_left(self) -> None:
        """Nobody leaves."""

    def time_out(self, detail: str) -> None:
        self.end = detail

    def cut(self) -> None:
        self.end = "cut"


def look(client: Client, *times_s: float) -> str:
    watch = Watch(LIMITS, [client])
    for now_s in times_s:
        watch.look(client, now_s)
    return client.end


def test_a_connection_without_a_request_is_closed_after_its_time() -> None:
    client = Client()
    assert look(client, 0, 4.9) == ""
    assert look(client, 5) == "idle"


def test_a_head_has_to_be_whole_in_time_however_much_of_it_comes() -> None:
    client = Client()
    client.at = (0, Phase.HEAD)
    assert look(client, 10) == ""
    client.received_bytes = 10_000
    assert look(client, 10.9) == ""
    assert "head" in look(client, 11)


def test_a_connection_with_one_request_after_the_other_is_left_alone() -> None:
    client = Client()
    for number in range(20):
        client.at = (number, Phase.HEAD)
        assert look(client, number * 0.9) == ""


def test_a_body_that_goes_on_may_take_long_and_one_that_stalls_may_not() -> None:
    client = Client()
    client.at = (1, Phase.BODY)
    for second in range(20):
        client.received_bytes += 60
        assert look(client, second) == ""
    assert "body" in look(client, 20, 22)


def test_a_body_that_we_do_not_read_on_is_not_stalled() -> None:
    client = Client()
    client.at, client.held_up = (1, Phase.BODY), True
    assert look(client, 0, 2, 4, 6) == ""


def test_a_request_that_is_being_answered_may_take_as_long_as_it_does() -> None:
    client = Client()
    client.at = (1, Phase.SERVED)
    assert look(client, 0, 1_000) == ""


def test_who_reads_may_be_slow_and_who_does_not_is_cut() -> None:
    client = Client()
    client.at, client.left = (1, Phase.SERVED), 10_000
    for second in range(20):
        client.left -= 60
        assert look(client, second) == ""
    assert look(client, 20, 22) == "cut"


def test_the_oldest_answers_make_room_for_new_ones() -> None:
    unsent = Unsent(100, 1)
    first, second, third = Client(), Client(), Client()
    unsent.add(first, 60)
    unsent.add(second, 40)
    assert first.end == ""
    unsent.add(third, 30)
    assert (first.end, second.end, third.end, unsent.bytes) == ("cut", "", "", 70)
    unsent.remove(second)
    unsent.remove(first)
    assert unsent.bytes == 30
    unsent.add(third, 1_000)
    assert (third.end, unsent.bytes) == ("", 1_000)


def test_answers_of_one_client_leave_room_for_those_of_others() -> None:
    """Whoever asked on and on and read nothing had everybody's answers cut."""
    unsent = Unsent(100, 0.75)
    other, own = Client("b"), [Client(f"2001:db8::{number}") for number in range(5)]
    unsent.add(other, 25)
    for each in own:
        unsent.add(each, 25)
    assert [each.end for each in (*own, other)] == ["cut", "cut", "", "", "", ""]
    assert unsent.bytes == 100
    unsent.add(own[4], 90)  # one is written to its end, however large it is
    assert [each.end for each in own] == ["cut", "cut", "cut", "cut", ""]
    assert other.end == "cut", "and the oldest of all makes room for it then"
    unsent.remove(own[4])
    assert unsent.bytes == 0


def test_a_stalled_upload_makes_room_and_one_that_goes_on_does_not() -> None:
    now = [0.0]
    large = 2 * SMALL_BYTES
    uploads = Uploads(2 * large, large, 1, lambda: now[0])
    stalled, busy, new = Client(), Client(), Client()
    assert uploads.add(stalled, large)
    now[0] += STALE_S
    assert uploads.add(busy, large)
    assert uploads.add(new, large)
    assert (stalled.end != "", busy.end, uploads.bytes) == (True, "", 2 * large)
    assert not uploads.add(Client(), large)
    assert uploads.add(Client(), 10)
    assert busy.end == new.end == ""
    uploads.remove(busy)
    assert uploads.bytes == large + 10
    assert uploads.add(new, large)
    assert uploads.bytes == large + 10  # what is more than a body may have is thrown away


def test_uploads_of_one_client_leave_room_for_those_of_others() -> None:
    """Five that were sent slowly, one after the other, refused everybody's."""
    now = [0.0]
    large = 8 * SMALL_BYTES
    uploads = Uploads(4 * large, large, 0.75, lambda: now[0])
    own = [Client("a") for _ in range(3)]
    assert all(uploads.add(each, large) for each in own)
    assert not uploads.add(Client("a"), large), "all of them go on, and it would be more than a share"
    assert uploads.bytes == 3 * large
    other = Client("b")
    assert uploads.add(other, large)
    assert [each.end for each in own] == ["", "", ""]
    small = [Client("a") for _ in range(8)]
    refused = [each for each in small if not uploads.add(each, SMALL_BYTES)]
    assert refused == small[6:], "small bodies have their share of what is kept free for them"
    of_other = Client("b")
    assert uploads.add(of_other, SMALL_BYTES)
    for each in (*small, of_other):
        uploads.remove(each)
    now[0] += STALE_S
    assert uploads.add(own[1], 0)
    late = Client("a")
    assert uploads.add(late, large), "one of its own that stalls gives way"
    assert [each.end != "" for each in own] == [True, False, False]
    for each in (*own, late, Client("b")):
        uploads.remove(each)
    assert (uploads.bytes, other.end) == (large, "")


def test_uploads_of_a_network_of_ipv6_are_one_clients() -> None:
    large = 8 * SMALL_BYTES
    uploads = Uploads(4 * large, large, 0.5, lambda: 0.0)
    own = [Client(f"2001:db8::{number}") for number in range(3)]
    assert [uploads.add(each, large) for each in own] == [True, True, False]
    assert uploads.add(Client("2001:db8:0:1::"), large)
    for each in own:
        uploads.remove(each)
    assert uploads.bytes == large


def test_one_upload_is_taken_whatever_the_share() -> None:
    uploads = Uploads(1_000_000, 1_000_000, 0.5, lambda: 0.0)
    one = Client("a")
    assert uploads.add(one, 900_000)
    uploads.remove(one)
    assert uploads.bytes == 0


# On a real gateway ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that waits for no part of a request. What is to be served there is sent in one piece."""
    limits = {"head_ms_max": 200, "stall_ms_max": 300, "stall_bytes_min": 1_000}
    options: dict[str, Any] = {f"gateway__{name}": value for name, value in limits.items()}
    with start_gateway(tmp_path_factory.mktemp("strict"), **options) as process:
        yield process


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that waits for no request."""
    with start_gateway(tmp_path_factory.mktemp("silent"), gateway__idle_ms_max=600) as process:
        yield process


def refused(connection: Connection) -> Answer:
    """The problem before the connection's end."""
    answer = connection.answer()
    assert answer is not None
    check_problem(answer.status, answer.headers, answer.body)
    assert connection.answer() is None
    return answer


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("before", [b"", HEALTH])
def test_a_head_that_is_never_whole_is_a_408(strict: GatewayProcess, before: bytes) -> None:
    with Connection(strict) as connection:
        connection.send(before)
        if before:
            assert getattr(connection.answer(), "status", None) == 200
        connection.send(HEALTH[:-10])
        answer = refused(connection)
        assert (answer.status, b"request_too_slow" in answer.body) == (408, True)


@pytest.mark.parametrize("before", [b"", HEALTH])
def test_a_silent_connection_is_closed(silent: GatewayProcess, before: bytes) -> None:
    for _ in range(TRIES):
        with Connection(silent) as connection, suppress(ConnectionError):
            connection.send(before)
            if before:
                served = connection.answer()
                if served is None:
                    continue  # this machine stood still: it was silent already
                assert served.status == 200
            assert connection.answer() is None
            return
    raise AssertionError("it is never served")


@pytest.mark.parametrize("path", ["/v1/topics/stalled/messages", "/v1/topics/stalled", "/v1/nowhere"])
@pytest.mark.parametrize("body", [b"", b"x" * 100_000])
def test_a_body_that_stalls_is_a_408_and_stores_nothing(strict: GatewayProcess, path: str, body: bytes) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n".encode()
    with Connection(strict) as connection:
        connection.send(head + body)
        answer = connection.answer()
        assert answer is not None
        assert answer.status in ((408,) if path.endswith("messages") else (404, 405))
        assert connection.answer() is None
    with connect(strict) as http:
        assert pull_all(http, "stalled") == []


def test_a_long_poll_is_no_stalled_client(strict: GatewayProcess, topic: str) -> None:
    with connect(strict) as client:
        assert client.put(f"/v1/topics/{topic}").status_code == 201  # without a body, which would come in two pieces
        response = client.get(f"/v1/topics/{topic}/queues/0/messages", params={"offset": 0, "wait_ms": 1_500})
        assert response.json()["status"] == "no_new_message"


def cut(client: httpx.Client) -> float:
    """How many connections were cut."""
    (line,) = [line for line in client.get("/metrics").text.splitlines() if line.startswith("lakemq_connections_cut_t")]
    return float(line.split()[1])


def test_who_does_not_read_his_answer_is_cut(tmp_path: Path) -> None:
    with start_gateway(tmp_path, gateway__stall_ms_max=4_000) as gateway, connect(gateway) as client:
        put_topic(client, "t")
        for _ in range(8):
            assert client.post("/v1/topics/t/messages", content=b"x" * 2_000_000).status_code == 200
        target = "/v1/topics/t/queues/0/messages?offset=0&max=100"
        expected = cut(client) + 1
        with Connection(gateway) as slow:
            slow.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            others = 0
            while not reads_all(client, target, 7 * 2_000_000):  # others are served meanwhile
                others += 1  # but for one who stood still himself
                assert others < TRIES
            expected += others
            while cut(client) < expected:
                pass


def reads_all(client: httpx.Client, target: str, bytes_min: int) -> bool:
    """Whether the answer was read to its end."""
    try:
        assert len(client.get(target).content) > bytes_min
    except httpx.TransportError:
        return False
    return True


def test_one_client_has_so_many_connections(tmp_path: Path) -> None:
    with start_gateway(tmp_path, gateway__connections_per_client_max=8) as gateway, ExitStack() as stack:
        for connection in [stack.enter_context(Connection(gateway)) for _ in range(8)]:
            connection.send(HEALTH)
            assert getattr(connection.answer(), "status", None) == 200
        with Connection(gateway) as more:
            more.send(HEALTH)
            answer = refused(more)
            assert (answer.status, b"this client" in answer.body) == (503, True)
