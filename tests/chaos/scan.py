"""Reading the whole log into the history."""

from __future__ import annotations

from typing import Any

import httpx
import pyarrow as pa

from lakemq.testing.history import name_of_payload
from tests.chaos.caller import Caller

COLUMNS = "topic,queue_id,queue_offset,position,body,store_time_ms,message_id,reconsume_times"
COPIES = ("%DLQ%", "%RETRY%")


def scan(caller: Caller, **request: Any) -> bool:
    """Record a `scan` of all that the log has; the system's own topics are only counted."""
    number = caller.recorder.invoke(caller.name, "scan", **request)
    response = caller.ask(number, "GET", "/v1/log/end")
    if response is None:
        return False
    begin, end = response.json()["begin_position"], response.json()["end_position"]
    at = begin
    rows: list[list[Any]] = []
    others: list[list[int]] = []
    holes: list[list[int]] = []
    while at < end:
        query = {"from": at, "to": end, "columns": COLUMNS}
        response = caller.ask(number, "GET", "/v1/log/messages", params=query)
        if response is None:
            return False
        _enter(response, rows, others)
        for each in filter(None, response.headers.get("Lakemq-Holes", "").split(",")):
            first, last = each.split("-")
            holes.append([int(first), int(last) + 1])
        at = int(response.headers["Lakemq-Next-Position"])
    caller.recorder.ok(number, rows=rows, others=others, holes=holes, begin=begin, end=end)
    return True


def _enter(response: httpx.Response, rows: list[list[Any]], others: list[list[int]]) -> None:
    for message in pa.ipc.open_stream(response.content).read_all().to_pylist():
        topic, position = message["topic"], message["position"]
        if topic.startswith(COPIES) or not topic.startswith(("%", "RMQ_SYS_", "SCHEDULE_TOPIC_")):
            place = [topic, message["queue_id"], message["queue_offset"], position]
            times = message["reconsume_times"]
            payload = name_of_payload(message["body"])
            rows.append([*place, payload, message["store_time_ms"], message["message_id"], times])
        elif others and others[-1][1] == position:
            others[-1][1] += 1
        else:
            others.append([position, position + 1])
