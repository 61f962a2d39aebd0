"""Who leads a broker, asked of replicas that say what a test has them say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from lakemq.client import Unreachable, broker_requests, places, replicas
from lakemq.client.replicas import Said, place_of, read_said
from lakemq.client.route_source import BrokerAddress
from lakemq.client.routes import Cluster
from lakemq.contract import routes
from lakemq.model.errors import LakemqError
from tests.client.producing import DEAD

WAIT_S = 60.0


class Replica:
    """One that says `role` and `epoch` of itself; whoever writes is sent to `leader` unless it leads. `hangs`: it
    answers nothing, and `said` counts what it was asked."""

    def __init__(self, replica: int, role: str, epoch: int = 1) -> None:
        self.replica, self.role, self.epoch = replica, role, epoch
        self.leader, self.url = "", ""
        self.asked: list[str] = []
        self.hangs = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.hangs:
            await asyncio.sleep(WAIT_S)
        if request.path == "/v1/broker":
            about = {"name": "b", "replica": self.replica, "role": self.role, "epoch": self.epoch, "log_id": "l"}
            return web.json_response({**about, "primary": self.leader})
        if self.role != "primary":
            problem = {"code": "not_leader", "status": 421, "detail": "it follows", "leader": self.leader}
            return web.json_response(problem, status=421)
        return web.json_response({"by": self.replica})


@asynccontextmanager
async def served(*replicas: Replica) -> AsyncGenerator[list[str]]:
    async with AsyncExitStack() as stack:
        for replica in replicas:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", replica.answer)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            replica.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield [replica.url for replica in replicas]


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not done():  # noqa: ASYNC110  it is another server's
            await asyncio.sleep(0.005)


def test_replicas_that_send_to_each_other_are_left_after_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "SWITCH_S", 0.0)

    async def test() -> None:
        one, two = Replica(0, "follower"), Replica(1, "follower")
        async with served(one, two) as urls:
            one.leader, two.leader = two.url, one.url
            cluster = Cluster(urls)
            await cluster.brokers()
            cluster.places.put([BrokerAddress("b", one.url, (two.url,))])
            with pytest.raises(Unreachable, match="no primary") as raised:
                await cluster.primary("b").send(routes.COMPACTED.at(), {})
            assert not raised.value.sent, "nothing was carried out"
            assert len([path for path in one.asked + two.asked if path != "/v1/broker"]) <= 2 * broker_requests.HOPS_MAX
            await cluster.close()

    asyncio.run(test())


def test_a_leader_is_not_waited_for_once_another_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "LATE_S", 0.01)
    monkeypatch.setattr(replicas, "LOOK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(places, "LOOK_AGAIN_S", 0.1)

    async def test() -> None:
        one, two = Replica(0, "primary", 1), Replica(1, "follower")
        async with served(one, two) as urls:
            cluster = Cluster(urls)
            assert (await cluster.brokers())[0].address == one.url
            one.hangs = True
            sending = asyncio.ensure_future(cluster.primary("b").send(routes.COMPACTED.at(), {}))
            reading = asyncio.ensure_future(cluster.reader("b").request(routes.TOPICS.at(), wait_s=0.01))
            await until(lambda: len(one.asked) > 3)
            assert not sending.done(), "who is merely slow goes on to lead"
            two.role, two.epoch = "primary", 2
            assert await sending == {"by": 1}
            assert (await reading).json() == {"by": 1}
            await cluster.close()

    asyncio.run(test())


def test_who_waits_at_a_follower_goes_to_the_primary_as_there_is_one() -> None:
    async def test() -> None:
        one, two = Replica(0, "follower"), Replica(1, "follower")
        async with served(one, two) as urls:
            cluster = Cluster(urls)
            assert (await cluster.brokers())[0].address == ""
            waiting = asyncio.ensure_future(cluster.primary("b").send(routes.COMPACTED.at(), {}))
            await until(lambda: len(one.asked) > 2)
            one.role = "primary"
            assert await waiting == {"by": 0}
            await cluster.close()

    asyncio.run(test())


def test_a_send_finds_the_leader_by_the_replica_that_is_left() -> None:
    async def test() -> None:
        one, two = Replica(0, "primary", 1), Replica(1, "primary", 2)
        async with served(two) as urls:
            one.url = DEAD
            cluster = Cluster(urls)
            await cluster.brokers()
            cluster.places.put([BrokerAddress("b", DEAD, (two.url,))])
            assert await cluster.primary("b").send(routes.COMPACTED.at(), {}) == {"by": 1}
            await cluster.close()

    asyncio.run(test())


def test_a_source_of_a_programs_own_is_asked_again(topic: str) -> None:
    class Source:
        def __init__(self) -> None:
            self.address = DEAD

        async def brokers(self) -> list[BrokerAddress]:
            named, self.address = self.address, self.moved
            return [BrokerAddress("b", named, (DEAD,))]

        async def routes(self, topic: str) -> list[Any]:
            return []

        moved = DEAD

    async def test() -> None:
        one = Replica(0, "primary")
        async with served(one) as urls:
            source = Source()
            source.moved = urls[0]
            cluster = Cluster(source=source)
            assert await cluster.primary("b").send(routes.COMPACTED.at(), {}) == {"by": 0}
            await cluster.close()

    asyncio.run(test())


def said(replica: int, role: str, epoch: int = 1, name: str = "b") -> Said:
    return Said(name, replica, role, epoch, "l", "")


BEFORE = BrokerAddress("b", "http://0", ("http://1", "http://2"))


@pytest.mark.parametrize(
    ("answers", "address", "followers"),
    [
        ({"http://0": said(0, "primary"), "http://1": said(1, "primary", 2)}, "http://1", ("http://0", "http://2")),
        (
            {"http://0": Unreachable("x", sent=False), "http://2": said(2, "follower")},
            "",
            ("http://2", "http://1", "http://0"),
        ),
        (
            {"http://0": Unreachable("x", sent=True), "http://2": said(2, "follower")},
            "http://0",
            ("http://2", "http://1"),
        ),
        (
            {"http://0": said(0, "follower"), "http://3": said(3, "primary")},
            "http://3",
            ("http://0", "http://1", "http://2"),
        ),
        (
            {"http://0": said(0, "primary", 9, "another"), "http://1": said(1, "follower")},
            "",
            ("http://1", "http://2", "http://0"),
        ),
        (
            {"http://0": Unreachable("x", sent=False), "http://1": LakemqError("x")},
            "http://0",
            ("http://1", "http://2"),
        ),
    ],
)
def test_where_a_broker_is_by_what_its_replicas_say(
    answers: dict[str, Said | LakemqError], address: str, followers: tuple[str, ...]
) -> None:
    assert place_of(BEFORE, answers) == BEFORE._replace(address=address, followers=followers)


@pytest.mark.parametrize(
    "odd", [None, [], {}, {"name": 7}, {"name": "b", "epoch": "1"}, {"name": "b", "replica": True}]
)
def test_what_no_broker_says_is_no_replicas_answer(odd: Any) -> None:
    with pytest.raises(LakemqError, match="no broker"):
        read_said(odd)
    assert read_said({"name": "b"}) == Said("b", 0, "primary", 0, "", "")
