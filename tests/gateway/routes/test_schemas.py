"""Schemas of topics: set, shown, held against those before them, and there after all that may happen to a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.fleet.following import start_pair, wait_for
from tests.gateway.http_client import connect, is_problem, produce, put_topic
from tests.model.protobuf_files import files_of, schema_of

V1: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
V2: dict[str, Any] = {**V1, "properties": {**V1["properties"], "total": {"type": "number", "minimum": 0}}}
WRONG: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "string"}}}
AVRO: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def put_schema(http: httpx.Client, topic: str, schema: Any, **said: Any) -> httpx.Response:
    return http.put(f"/v1/topics/{topic}/schema", json={"schema": schema, **said})


def get_schema(http: httpx.Client, topic: str, **query: Any) -> httpx.Response:
    return http.get(f"/v1/topics/{topic}/schema", params=query)


def test_a_schema_has_versions_that_are_shown(http: httpx.Client, topic: str) -> None:
    assert is_problem(put_schema(http, topic, V1), 404, "topic_not_found")
    put_topic(http, topic)
    assert is_problem(get_schema(http, topic), 404, "schema_not_found")
    first = put_schema(http, topic, V1, if_version=0).json()
    assert (first["version"], first["type"], json.loads(first["schema"])) == (1, "json", V1)
    assert first["columns"] == [{"name": "id", "type": "bigint"}]
    assert put_schema(http, topic, json.dumps(V1, indent=1), if_version=0).json() == first, "asked again, or as text"
    second = put_schema(http, topic, V2, if_version=1).json()
    assert (second["version"], second["versions"], second["ignored"]) == (2, [1, 2], ["minimum"])
    assert get_schema(http, topic).json() == second
    assert get_schema(http, topic, version=1).json() == {**first, "versions": [1, 2]}
    assert is_problem(get_schema(http, topic, version=3), 404, "schema_not_found")
    (listed,) = http.get("/v1/schemas", params={"topic": topic}).json()["schemas"]
    assert [each["version"] for each in listed["versions"]] == [1, 2]
    assert topic in {each["topic"] for each in http.get("/v1/schemas").json()["schemas"]}


def test_a_change_that_can_not_read_what_was_written_is_refused(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    put_schema(http, topic, V1)
    answer = put_schema(http, topic, WRONG)
    assert is_problem(answer, 409, "incompatible_schema")
    assert "id was bigint, and would be string" in answer.json()["detail"]
    assert is_problem(put_schema(http, topic, AVRO, type="avro"), 409, "incompatible_schema")
    assert is_problem(put_schema(http, topic, V2, if_version=0), 409, "schema_changed")
    assert get_schema(http, topic).json()["versions"] == [1]


def test_a_dropped_schema_is_gone_and_its_numbers_are_not_given_again(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    put_schema(http, topic, V1)
    path = f"/v1/topics/{topic}/schema"
    assert is_problem(http.delete(path, params={"if_version": 2}), 409, "schema_changed")
    assert http.delete(path, params={"if_version": 1}).json() == {"topic": topic, "dropped": True}
    assert is_problem(http.delete(path), 404, "schema_not_found")
    assert http.get("/v1/schemas", params={"topic": topic}).json() == {"schemas": []}
    assert put_schema(http, topic, AVRO, type="avro").json()["versions"] == [2]
    http.delete(f"/v1/topics/{topic}")
    put_topic(http, topic)
    assert is_problem(get_schema(http, topic), 404, "schema_not_found"), "it is another topic"


def test_a_version_gets_the_number_that_it_has_at_another_broker(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    assert put_schema(http, topic, V1, version=3).json()["versions"] == [3]
    assert put_schema(http, topic, V1, version=3).json()["versions"] == [3], "asked again"
    refused = put_schema(http, topic, V2, version=3)
    assert is_problem(refused, 400, "invalid_request")
    assert "not 3" in refused.json()["detail"]
    assert put_schema(http, topic, V2, if_version=3).json()["versions"] == [3, 4]
    for number in (0, 2**31):
        assert is_problem(put_schema(http, topic, V2, version=number), 400, "invalid_request")


def test_a_topic_has_a_table_of_its_own_where_that_is_said(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    assert put_schema(http, topic, V1).json()["table"] is False
    asked = put_schema(http, topic, V1, table=True, if_version=1).json()
    assert (asked["version"], asked["table"]) == (1, True)
    assert put_schema(http, topic, V2).json()["table"] is True, "it stays as it is"
    assert [each["table"] for each in http.get("/v1/schemas", params={"topic": topic}).json()["schemas"]] == [True]
    spaced = {"type": "object", "properties": {**V2["properties"], "a b": {"type": "string"}}, "required": ["id"]}
    assert is_problem(put_schema(http, topic, spaced), 400, "invalid_request"), "no Delta table has such a column"
    assert put_schema(http, topic, spaced, table=False).json()["table"] is False
    assert is_problem(put_schema(http, topic, spaced, table=True), 400, "invalid_request")
    assert get_schema(http, topic).json()["table"] is False


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nothing", {}),
        ("{", {}),
        ({"type": "string"}, {}),
        ({"type": "object", "properties": {"_error": {}}}, {}),
        (V1, {"type": "protobuf"}),
        (V1, {"type": "xml"}),
        (V1, {"if_version": -1}),
        (V1, {"more": 1}),
        (V1, {"table": "yes"}),
        ({**V1, "description": "x" * 70_000}, {}),
        ("{" + " " * 300_000 + "}", {}),
    ],
)
def test_what_is_no_schema_is_refused(http: httpx.Client, topic: str, schema: Any, said: dict[str, Any]) -> None:
    put_topic(http, topic)
    assert is_problem(put_schema(http, topic, schema, **said), 400, "invalid_request")


def test_protobuf_is_a_descriptor_set_and_a_message(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    schema = schema_of(files_of(M={"id": "1 uint64", "again": "2 M"}))
    found = put_schema(http, topic, schema, type="protobuf").json()
    assert (json.loads(found["schema"]), found["ignored"]) == (schema, ["again"])
    assert found["columns"] == [{"name": "id", "type": "decimal(20,0)"}]
    assert get_schema(http, topic).json() == found
    answer = put_schema(http, topic, schema_of(files_of(M={"id": "1 string"})), type="protobuf")
    assert is_problem(answer, 409, "incompatible_schema")
    large = schema_of(files_of(**{f"M{at}": {"x" * 100: "1 int32"} for at in range(500)}), "t.M1")
    assert "it may have 65536" in put_schema(http, topic, large, type="protobuf").json()["detail"]


def test_two_topics_have_no_tables_that_sql_takes_for_one(http: httpx.Client, topic: str) -> None:
    for name in (topic, topic.upper()):
        put_topic(http, name)
    put_schema(http, topic, V1)
    assert is_problem(put_schema(http, topic.upper(), V1), 400, "invalid_request")
    http.delete(f"/v1/topics/{topic}/schema")
    assert put_schema(http, topic.upper(), V1).status_code == 200


def test_schemas_take_no_more_room_than_they_may(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data", topics__schemas_bytes_max=100) as process, connect(process) as http:
        put_topic(http, "t")
        assert put_schema(http, "t", V1).status_code == 200
        assert is_problem(put_schema(http, "t", V2), 400, "invalid_request")


def test_it_survives_a_kill_and_the_end_of_the_segment_with_its_record(tmp_path: Path) -> None:
    options = {"storage__segment_bytes": 1024 * 1024}
    with start_gateway(tmp_path / "data", **options) as process, connect(process) as http:
        for name in ("t", "dropped"):
            put_topic(http, name)
            put_schema(http, name, V1)
        put_schema(http, "dropped", V1, table=True)
        put_schema(http, "t", V2, table=True)
        http.delete("/v1/topics/dropped/schema")
        shown = get_schema(http, "t").json()
        for _ in range(4):
            produce(http, "other", {"body": "x" * 500_000}, ack="sync")
        process.kill()
    with start_gateway(tmp_path / "data", **options) as process, connect(process) as http:
        assert get_schema(http, "t").json() == shown
        http.put("/v1/topics/t", json={"ttl_ms": 5})
        assert get_schema(http, "t").json() == shown, "another change of the topic is none of its schema"
        assert is_problem(put_schema(http, "t", WRONG), 409, "incompatible_schema")
        again = put_schema(http, "dropped", V1).json()
        assert (again["versions"], again["table"]) == ([2], False)


def test_followers_have_it(tmp_path: Path) -> None:
    with start_pair(tmp_path) as pair:
        http, other = pair.primary, pair.follower
        put_topic(http, "t")
        put_schema(http, "t", V1)
        put_schema(http, "t", V2)
        shown = put_schema(http, "t", V2, table=True).json()
        wait_for(other, http)
        assert get_schema(other, "t").json() == shown
        assert other.get("/v1/schemas").json() == http.get("/v1/schemas").json()
        assert is_problem(put_schema(other, "t", V2), 421, "not_leader")


def test_who_may_see_and_change_it(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "log", auth__audit="true") as gateway:
        with ask_as(gateway, token_of(tmp_path / "log")) as admin:
            for name in ("orders", "secrets"):
                put_topic(admin, name)
                put_schema(admin, name, V1)
            users = {
                "reads": make_user(admin, "reads", allow("Topic:orders", "Sub")),
                "keeps": make_user(admin, "keeps", allow("Topic:orders", "Update")),
                "jobs": make_user(admin, "jobs", allow("Cluster:*", "Get")),
            }
        with ask_as(gateway, users["reads"]) as asked:
            assert get_schema(asked, "orders").status_code == 200
            assert is_problem(get_schema(asked, "secrets"), 403, "forbidden")
            assert is_problem(put_schema(asked, "orders", V2), 403, "forbidden")
            assert is_problem(asked.delete("/v1/topics/orders/schema"), 403, "forbidden")
            assert [each["topic"] for each in asked.get("/v1/schemas").json()["schemas"]] == ["orders"]
        with ask_as(gateway, users["jobs"]) as asked:
            assert len(asked.get("/v1/schemas").json()["schemas"]) == 2
        with ask_as(gateway, users["keeps"]) as asked:
            assert is_problem(put_schema(asked, "orders", V2, version=9), 403, "forbidden")
            assert put_schema(asked, "orders", V2).status_code == 200
            assert asked.get("/v1/schemas").json()["schemas"] == []
        with ask_as(gateway, token_of(tmp_path / "log")) as admin:
            records = admin.get("/v1/topics/RMQ_SYS_AUDIT_TOPIC/queues/0/messages?offset=0&max=100").json()["messages"]
            said = [json.loads(each["body"]) for each in records]
            assert any(each["user"] == "keeps" and "/v1/topics/orders/schema" in each["what"] for each in said)
