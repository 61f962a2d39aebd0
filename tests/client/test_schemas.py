"""Schemas by an admin, at a real gateway and at two of them."""

from __future__ import annotations

import asyncio
import json

import pytest

from lakemq.client import (
    Admin,
    ColumnInfo,
    IncompatibleSchema,
    InvalidRequest,
    Producer,
    SchemaChanged,
    SchemaNotFound,
    TopicNotFound,
    aio,
)
from lakemq.testing import GatewayProcess
from tests.client.consuming import make_topic

Two = tuple[GatewayProcess, GatewayProcess]
ID = {"type": "object", "properties": {"id": {"type": "integer"}}}


def test_a_schema_is_set_shown_and_dropped_at_all_brokers(two_brokers: Two, topic: str) -> None:
    with Admin(brokers=[each.url for each in two_brokers]) as admin:
        admin.create_topic(topic, queues=1)
        with pytest.raises(SchemaNotFound):
            admin.schema(topic)
        done = admin.set_schema(topic, ID, if_version=0)
        assert (done.brokers, done.version, done.versions) == (("broker-a", "broker-b"), 1, (1,))
        assert (done.columns, json.loads(done.schema), done.differs) == ((ColumnInfo("id", "bigint"),), ID, False)
        with pytest.raises(IncompatibleSchema):
            admin.set_schema(topic, {**ID, "required": ["id"]})
        with pytest.raises(SchemaChanged):
            admin.set_schema(topic, {**ID, "properties": {"other": {}}}, if_version=0)
        admin.drop_schema(topic, if_version=1, broker="broker-b")
        assert admin.schema(topic, version=1).brokers == ("broker-a",)
        admin.drop_schema(topic)
        with pytest.raises(SchemaNotFound):
            admin.drop_schema(topic)


def test_a_schema_is_inferred_of_the_newest_messages(gateway: GatewayProcess, topic: str) -> None:
    with Admin(brokers=gateway.url) as admin, Producer(brokers=gateway.url) as producer:
        with pytest.raises(TopicNotFound):
            admin.infer_schema(topic)
        make_topic(gateway.url, topic, 1)
        with pytest.raises(InvalidRequest, match="none is an object"):
            admin.infer_schema(topic)
        producer.send_batch(topic, ["old", *(json.dumps({"n": n}) for n in range(5))])
        found = admin.infer_schema(topic, messages_max=5)
        assert found.schema == {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        assert (found.bodies, found.others) == (5, 0)
        assert (admin.infer_schema(topic).bodies, admin.infer_schema(topic).others) == (6, 1)
        assert admin.set_schema(topic, found.schema).version == 1


def test_without_threads_it_is_the_same(gateway: GatewayProcess, topic: str) -> None:
    async def run() -> None:
        async with aio.Admin(brokers=gateway.url) as admin:
            await admin.create_topic(topic)
            await admin.set_schema(topic, json.dumps(ID))
            assert (await admin.schema(topic)).type == "json"

    asyncio.run(run())
