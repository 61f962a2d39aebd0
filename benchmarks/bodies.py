"""Message bodies and Arrow requests, the same in every run."""

from __future__ import annotations

import json
import random

import pyarrow as pa

from benchmarks.wire import ARROW, build

_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "WN")


def random_bodies(count: int, body_bytes: int) -> list[bytes]:
    """Bodies that can't be compressed."""
    source = random.Random(7)
    return [source.randbytes(body_bytes) for _ in range(count)]


def json_bodies(count: int, body_bytes: int) -> list[bytes]:
    """Bodies as applications send them: JSON records with repeated names and varied numbers."""
    source = random.Random(7)

    def record() -> dict[str, object]:
        return {
            "carrier": source.choice(_CARRIERS),
            "flight": source.randrange(6000),
            "tail_number": f"N{source.randrange(10**5):05d}",
            "departure_delay_minutes": source.randrange(-20, 300),
            "distance_miles": source.randrange(100, 4000),
            "time_ms": 1_700_000_000_000 + source.randrange(10**9),
        }

    bodies: list[bytes] = []
    for _ in range(count):
        text = ""
        while len(text) < body_bytes:
            text += json.dumps(record())
        bodies.append(text[:body_bytes].encode())
    return bodies


def arrow_content(columns: dict[str, pa.Array]) -> bytes:
    """An Arrow IPC stream of one batch with these columns."""
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def arrow_request(topic: str, bodies: list[bytes], ack: str = "async") -> bytes:
    """A produce request with these bodies as an Arrow IPC stream."""
    content = arrow_content({"body": pa.array(bodies, pa.binary())})
    return build("POST", f"/v1/topics/{topic}/messages?ack={ack}", content, content_type=ARROW)
