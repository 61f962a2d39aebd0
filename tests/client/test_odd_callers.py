"""What users' own functions raise, empty, close and leave behind stops nobody else, and loses nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web

from lakemq.client import ConsumeLater, ConsumeResult, MessageQueue, MessageView, PullConsumer, PushConsumer, aio
from lakemq.client.consume.listener import Call, Terms, run_batch_listener, run_listener
from lakemq.client.consume.process_queue import Work
from lakemq.client.in_thread import in_thread
from lakemq.client.loop import background
from lakemq.client.view import Rows
from lakemq.model.errors import TopicNotFound
from lakemq.testing import GatewayProcess
from tests.client.consuming import make_topic, offsets, put, wait_until
from tests.client.producing import stored

LEFT_OPEN = """
import asyncio
from lakemq.client.loop import background

async def items():
    try:
        while True:
            yield 1
    finally:
        await asyncio.sleep(0)

messages = background().iterate(items())
print(next(messages))
"""


def work(*bodies: str) -> Work[MessageView]:
    rows: list[dict[str, Any]] = [
        {"body": body, "topic": "orders", "message_id": f"b.{number}", "reconsume_times": 0}
        for number, body in enumerate(bodies)
    ]
    return Work(list(Rows.of_json(rows)), list(range(len(rows))), 1)


def terms() -> Terms:
    return Terms(lambda: False, in_order=False, span=None, call=Call())


def test_a_batch_listener_may_empty_its_list_and_fail() -> None:
    def listener(messages: list[MessageView]) -> ConsumeResult:
        messages.clear()
        raise ValueError("bad")

    outcome = run_batch_listener(listener, work("one", "two"), terms())
    assert [each.number for each in outcome.failed] == [0, 1]


def test_a_subclass_of_consume_later_needs_no_init_of_its_own() -> None:
    class Odd(ConsumeLater):
        def __init__(self) -> None:  # without super().__init__()
            pass

    def listener(message: MessageView) -> ConsumeResult:
        raise Odd

    outcome = run_listener(listener, work("one"), terms())
    assert [(each.number, each.delay_level) for each in outcome.failed] == [(0, 0)]


def test_a_next_without_an_end_is_an_error_and_nobody_waits_for_ever() -> None:
    async def call() -> None:
        with ThreadPoolExecutor(1) as threads:
            async with asyncio.timeout(60):
                await in_thread(threads, next, iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(call())


def test_what_ends_programs_ends_no_client_of_others() -> None:
    loop = background()
    called = threading.Event()

    def leave() -> None:
        called.set()
        sys.exit("a callback's own")

    loop.call(leave)
    assert called.wait(60)
    assert loop.run(asyncio.sleep(0, "goes on"), 60) == "goes on"


def test_a_program_ends_that_leaves_an_iterator_open() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_callback_on_the_clients_thread_may_close_a_consumer(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    consumer = PushConsumer(group, brokers=gateway.url, listener=lambda message: None)
    consumer.subscribe(topic)
    consumer.start()
    background().call(consumer.close)
    assert background().run(asyncio.sleep(0, "goes on"), 60) == "goes on"
    consumer.close()


def test_a_deleted_topic_keeps_no_other_offset_from_being_stored(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    gone = f"{topic}_gone"
    for each in (gone, topic):
        make_topic(gateway.url, each, 1)
        put(gateway.url, each, ["one"])
    with PullConsumer(group, brokers=gateway.url, consume_from="first") as consumer:
        consumer.assign([*consumer.queues_of(gone), *consumer.queues_of(topic)])
        read: list[str] = []
        wait_until(lambda: read.extend(each.text() for each in consumer.poll()) or len(read) == 2)
        asyncio.run(_delete(gateway.url, gone))
        with pytest.raises(TopicNotFound):
            consumer.commit()
        assert offsets(gateway.url, group, topic) == {0: 1}


async def _delete(url: str, topic: str) -> None:
    async with aio.Admin(brokers=url) as admin:
        await admin.delete_topic(topic)


def test_brokers_of_two_versions_are_read_together() -> None:
    """One lacks columns that the other has; positions had moved before that was an error."""
    older = pa.table({"body": pa.array([b"older"], pa.binary())})
    newer = pa.table({"body": pa.array([b"newer"], pa.binary()), "priority": pa.array([3], pa.int32())})

    class Waiting:
        waiting = 1

        def __init__(self, table: pa.Table) -> None:
            self._table = table

        def take(self, count_max: int) -> pa.Table:
            return self._table

    async def take() -> list[bytes]:
        consumer = aio.PullConsumer("g", brokers="http://127.0.0.1:1")
        streams: Any = {MessageQueue("a", "t", 0): Waiting(older), MessageQueue("b", "t", 0): Waiting(newer)}
        consumer._streams = streams  # pyright: ignore[reportPrivateUsage]
        batch = consumer._take(10)  # pyright: ignore[reportPrivateUsage]
        assert batch is not None
        return sorted(batch.to_arrow().column("body").to_pylist())

    assert asyncio.run(take()) == [b"newer", b"older"]


def test_messages_with_one_key_that_are_sent_at_once_are_in_that_order(gateway: GatewayProcess, topic: str) -> None:
    async def send() -> None:
        async with aio.Producer(gateway.url, batch_messages=10) as producer:
            await producer.send(topic, "first", ordering_key="k")
            await asyncio.gather(*(producer.send(topic, f"{number}", ordering_key="k") for number in range(100)))

    asyncio.run(send())
    found = [each.text() for each in stored(gateway.url, topic)]
    assert found == ["first", *map(str, range(100))]


def test_what_is_stored_is_told_so_whatever_is_answered_about_its_topic() -> None:
    posted: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/v1/broker":
            return web.json_response({"name": "busy"})
        if request.method == "POST":
            posted.append(request.path)
            placed = {"topic": "t", "queue_id": 0, "queue_offset": 0, "position": 0}
            return web.json_response({"messages": [{**placed, "message_id": "busy.m.0", "store_time_ms": 1}]})
        status, code = (503, "busy") if posted else (404, "topic_not_found")
        return web.json_response({"code": code, "detail": "said by a test", "status": status}, status=status)

    async def send() -> str:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            async with aio.Producer("http://{}:{}".format(*runner.addresses[0][:2])) as producer:
                return (await producer.send("t", "pay", ordering_key="k")).message_id
        finally:
            await runner.cleanup()

    assert asyncio.run(send()) == "busy.m.0"
