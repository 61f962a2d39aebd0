from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx

from lakemq.testing import GatewayProcess
from tests.gateway.http_client import produce, pull, put_topic

WAITERS = 2_000
QUEUES = 4
RSS_BYTES_MAX = 300 * 1024 * 1024


def resident_bytes(pid: int) -> int:
    """The memory that a process has now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


async def poll(gateway: GatewayProcess, topic: str, queue_id: int, sent: asyncio.Semaphore) -> dict[str, object]:
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = f"/v1/topics/{topic}/queues/{queue_id}/messages?offset=0&wait_ms=60000"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    sent.release()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"200"
    return json.loads(body)


async def wait_for_all(gateway: GatewayProcess, topic: str) -> list[dict[str, object]]:
    sent = asyncio.Semaphore(0)
    polls = [asyncio.create_task(poll(gateway, topic, number % QUEUES, sent)) for number in range(WAITERS)]
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60, trust_env=False) as http:
        for _ in range(WAITERS):
            await sent.acquire()
        while f"lakemq_waiting_requests {WAITERS}." not in (await http.get("/metrics")).text:
            pass
        assert (await http.get("/healthz")).status_code == 200
        messages = [{"body": f"{queue_id}", "queue_id": queue_id} for queue_id in range(QUEUES)]
        assert resident_bytes(gateway.pid) < RSS_BYTES_MAX
        assert (await http.post(f"/v1/topics/{topic}/messages", json={"messages": messages})).status_code == 200
    return await asyncio.gather(*polls)


def test_one_arrival_answers_each_of_2000_who_wait(fresh_gateway: GatewayProcess, topic: str) -> None:
    with httpx.Client(base_url=fresh_gateway.url, timeout=60, trust_env=False) as http:
        put_topic(http, topic, QUEUES)
        answers = asyncio.run(wait_for_all(fresh_gateway, topic))
        assert len(answers) == WAITERS
        bodies = [[message["body"] for message in answer["messages"]] for answer in answers]  # type: ignore[union-attr]
        assert bodies == [[str(number % QUEUES)] for number in range(WAITERS)]
        produce(http, topic, "after")
        assert pull(http, topic)["status"] == "found"
