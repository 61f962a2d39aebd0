"""A log that was replaced between a look at it and a read: what is of the new one is not taken for the old one's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition
from lakemq.model.errors import LogReplaced
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("log")) as gateway, connect(gateway) as http:
        produce(http, "t", "a", "b", ack="sync")
        yield gateway


def test_a_task_that_was_planned_of_another_log_reads_nothing(gateway: GatewayProcess) -> None:
    client = LogClient(gateway.url)
    end, log_id = client.end().end_position, client.end().log_id
    client.close()

    def read(log_id: str) -> int:
        part = LogPartition("broker-a", gateway.url, 0, end, 0, {}, {}, log_id=log_id)
        options = SourceOptions(brokers=(gateway.url,))
        return sum(batch.num_rows for batch in read_partition(part, options, ["position"]))

    assert read(log_id) == read("") == end
    with pytest.raises(LogReplaced, match="another"):
        read("another")
