"""What has left the log is served from a lake in a bucket, as from one on a disk."""

from __future__ import annotations

import json
import random
from pathlib import Path

from lakemq.testing import start_gateway
from lakemq.testing.object_store import ObjectStore
from tests.gateway.cold.lakes import Lake, wait_until_all_left
from tests.gateway.cold.test_cold import OPTIONS, QUEUES, fill, read_all
from tests.gateway.http_client import connect
from tests.objects.stores import path_in, reached


def test_a_queue_is_read_from_offset_0_across_the_seam(object_store: ObjectStore, tmp_path: Path) -> None:
    url = "s3://cold/lake"
    storage = json.dumps(reached(object_store))
    options = {"lake__dir": url, "lake__storage": storage, "lake__work_dir": tmp_path / "work"}
    with start_gateway(tmp_path / "data", **options, **OPTIONS) as gateway, connect(gateway) as http:
        lake = Lake(path_in(object_store, url, tmp_path / "work"), gateway.url, row_group_rows=100)
        fill(http, random.randrange(2**32))
        before = {queue_id: read_all(http, queue_id, max=1000) for queue_id in range(QUEUES)}
        end = http.get("/v1/broker").json()["max_position"]
        for upto in (end // 2, end):
            lake.compact(http, upto)
        wait_until_all_left(http, tmp_path / "data")
        assert {queue_id: read_all(http, queue_id, max=1000) for queue_id in range(QUEUES)} == before
        found = http.get("/v1/messages", params={"topic": "t", "key": "k1", "max": 1000}).json()
        every = [message for messages in before.values() for message in messages if "k1" in message["keys"]]
        assert found == {"messages": sorted(every, key=lambda each: -each["position"]), "complete": True}
        lake.close()
    assert not (tmp_path / "s3:").exists()
