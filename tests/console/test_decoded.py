"""A message's body on its page, by its topic's schema."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from html import unescape
from typing import Any

import httpx

from lakemq.console.decoded import CHARACTERS_MAX
from tests.console.visitor import Visitor
from tests.gateway.http_client import produce, put_topic
from tests.model.avro_writer import encode
from tests.model.protobuf_files import class_of, files_of, schema_of

FILES = files_of(
    M={
        "id": "1 uint64", "at": "2 google.protobuf.Timestamp", "raw": "3 bytes", "by": "4 map<string,bool>",
        "lines": "5 repeated L", "note": "6 optional string", "price": "7 double",
    },
    L={"sku": "1 string", **{f"field_{at}": f"{at} int32" for at in range(2, 60)}},
)  # fmt: skip


def page_of(visitor: Visitor, http: httpx.Client, topic: str, body: bytes) -> str:
    said = {"body": b64encode(body).decode(), "body_encoding": "base64"}
    (stored,) = produce(http, topic, said)
    return visitor.get(f"/messages/{stored['message_id']}")


def put_schema(http: httpx.Client, topic: str, schema: Any, type: str) -> None:
    put_topic(http, topic)
    http.put(f"/v1/topics/{topic}/schema", json={"schema": schema, "type": type}).raise_for_status()


def columns_in(page: str) -> str:
    found = re.search(r'<pre id="body-columns"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found is not None, page
    return unescape(found[1])


def test_a_protobuf_body_is_shown_by_its_schema(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_schema(http, name, schema_of(FILES), "protobuf")
    body = class_of(FILES)(id=2**64 - 1, raw=b"\xff", by={"<b>": True}, price=0.5)
    body.at.FromSeconds(1_700_000_000)
    page = page_of(visitor, http, name, body.SerializeToString())
    assert json.loads(columns_in(page)) == {
        "id": str(2**64 - 1), "at": "2023-11-14T22:13:20+00:00", "raw": "/w==", "by": {"<b>": True}, "lines": [],
        "note": None, "price": 0.5,
    }  # fmt: skip
    assert page.index('value="columns">Protobuf<') < page.index('value="hex"'), "first, as the bytes say little"
    assert re.search(r'<pre id="body-hex"[^>]* hidden', page)
    assert "<b>" not in page


def test_a_body_that_does_not_fit_says_why(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_schema(http, name, schema_of(FILES), "protobuf")
    page = page_of(visitor, http, name, b"\x08")
    assert "id: the body ends too early" in page
    assert 'value="columns"' not in page
    put_schema(http, name + "-json", {"properties": {"id": {"type": "integer"}}}, "json")
    assert "id: expected an integer, found string" in page_of(visitor, http, name + "-json", b'{"id": "<script>"}')


def test_a_small_body_with_long_columns_is_cut(visitor: Visitor, http: httpx.Client, name: str) -> None:
    put_schema(http, name, schema_of(FILES), "protobuf")
    page = page_of(visitor, http, name, b"\x2a\x00" * 20_000)
    assert len(columns_in(page)) == CHARACTERS_MAX + 1
    assert 'id="body-columns"' not in page_of(visitor, http, name, b"\x2a\x00" * 40_000), "longer than a page shows"


def test_avro_comes_first_and_json_after_its_text(visitor: Visitor, http: httpx.Client, name: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    put_schema(http, name, schema, "avro")
    page = page_of(visitor, http, name, encode(schema, {"n": 3}))
    assert json.loads(columns_in(page)) == {"n": 3}
    assert 'value="columns">Avro<' in page
    put_schema(http, name + "-json", {"properties": {"id": {"type": "integer"}}}, "json")
    page = page_of(visitor, http, name + "-json", b'{"id": 1, "more": 2}')
    assert json.loads(columns_in(page)) == {"id": 1}
    assert page.index('value="json"') < page.index('value="columns">columns<')
    put_topic(http, name + "-none")
    assert "body-columns" not in page_of(visitor, http, name + "-none", b"\xff")
