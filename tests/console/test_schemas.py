"""A topic's schema: shown, set after a preview, inferred and dropped."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from urllib.parse import unquote

import httpx

from tests.console.visitor import ConsoleProcess, Visitor, went_to
from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import produce, put_topic
from tests.model.protobuf_files import files_of, schema_of

SCRIPT = "<script>alert(1)</script>"
FIRST = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
WIDER = {"type": "object", "properties": {"id": {"type": "number"}, "at": {"type": "string", "format": "date-time"}}}
NARROWER = {"type": "object", "properties": {"id": {"type": "boolean"}}}


def fields_of(schema: object, version: int, kind: str = "json") -> dict[str, str]:
    return {"type": kind, "text": json.dumps(schema, indent=1), "if_version": str(version)}


def cells(page: str) -> list[list[str]]:
    """The rows of the page's one table, without markup."""
    body = re.search(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert body is not None, page
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)
    return [
        [unescape(re.sub(r"<[^>]+>", "", each)).strip() for each in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in rows
    ]


def versions_of(http: httpx.Client, name: str) -> list[dict[str, object]]:
    found = http.get("/v1/schemas", params={"topic": name}).json()["schemas"]
    return found[0]["versions"] if found else []


def test_a_schema_is_set_once_its_columns_were_shown_and_its_table_is_one_link_away(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    assert f'<a href="/topics/{name}/schema">none</a>' in visitor.get(f"/topics/{name}")
    new = f"/topics/{name}/schema/new"
    shown = visitor.post(new, **fields_of(FIRST, 0))
    assert "Set this schema?" in shown.text
    assert cells(shown.text) == [["id", "bigint"], ["note", "string"]]
    assert versions_of(http, name) == []
    set_one = visitor.post(f"/topics/{name}/schema", new, **fields_of(FIRST, 0))
    assert went_to(set_one) == f"/topics/{name}/schema"
    page = visitor.get(set_one.headers["location"])
    assert "Schema set." in page
    assert cells(page) == [["id", "bigint"], ["note", "string"]]
    assert [each["version"] for each in versions_of(http, name)] == [1]
    topic = visitor.get(f"/topics/{name}")
    assert "version 1, 2 columns" in topic
    link = re.search(r'href="/sql#([^"]+)"', topic)
    assert link is not None
    assert unquote(link[1]) == f"SELECT * FROM topics.`{name}` LIMIT 100"


def test_a_new_version_shows_what_changes_and_the_old_one_stays_to_be_looked_at(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    path, new = f"/topics/{name}/schema", f"/topics/{name}/schema/new"
    visitor.post(path, new, **fields_of(FIRST, 0))
    assert "&#34;note&#34;" in visitor.get(new)
    shown = visitor.post(new, **fields_of(WIDER, 1)).text
    assert "Set this new version?" in shown
    assert cells(shown) == [
        ["id", "double", "changed was bigint"],
        ["at", "timestamp", "added"],
        ["note", "string", "dropped"],
    ]
    assert "Nothing would change" in visitor.post(new, **fields_of(FIRST, 1)).text
    edited = visitor.post(new, **fields_of(WIDER, 1), edit="1")
    assert "date-time" in edited.text
    assert "Preview</button>" in edited.text
    assert went_to(visitor.post(path, new, **fields_of(WIDER, 1))) == path
    assert "Version 2<" in visitor.get(path)
    old = visitor.get(path, version=1)
    assert "Version 1, which is not the current one" in old
    assert "note" in old
    visitor.get(path, 404, version=7)
    visitor.get(path, 400, version="x")


def test_what_is_not_compatible_is_refused_with_its_reason_before_and_as_it_is_set(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    path, new = f"/topics/{name}/schema", f"/topics/{name}/schema/new"
    visitor.post(path, new, **fields_of(FIRST, 0))
    reason = "id was bigint, and would be boolean"
    shown = visitor.post(new, **fields_of(NARROWER, 1))
    assert shown.status_code == 400
    assert "This version can't be set" in shown.text
    assert reason in shown.text
    assert "Set it</button>" not in shown.text
    refused = visitor.post(path, new, **fields_of(NARROWER, 1))
    assert refused.status_code == 409
    assert reason in refused.text
    quicker = visitor.post(path, new, **fields_of(WIDER, 0))
    assert quicker.status_code == 409
    assert "version 1" in quicker.text
    wrong = ("", "{", json.dumps({"type": "nothing"}), SCRIPT, '"' + SCRIPT + '"', "[" * 100_000, "{" + " " * 300_000)
    for text in wrong:
        for where in (new, path):
            response = visitor.post(where, new, type="json", text=text, if_version="1")
            assert response.status_code == 400, text[:40]
            assert 'role="alert"' in response.text
            assert SCRIPT not in response.text
    assert visitor.post(new, **fields_of(FIRST, 1, SCRIPT)).status_code == 400
    assert [each["version"] for each in versions_of(http, name)] == [1]


def test_a_message_of_protobuf_without_a_name_is_the_only_one_of_its_set(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    new = f"/topics/{name}/schema/new"
    one = files_of("shop", Order={"id": "1 int64"})
    shown = visitor.post(new, **fields_of(schema_of(one, ""), 0, "protobuf"))
    assert cells(shown.text) == [["id", "bigint"]]
    assert "&#34;message&#34;: &#34;shop.Order&#34;" in shown.text
    two = files_of("shop", Order={"id": "1 int64"}, Line={"sku": "1 string"})
    wrong = (
        (schema_of(two, ""), "which of these is it: shop.Order, shop.Line"),
        (schema_of(one, "shop.Nothing"), "has no message"),
        ({"message": "", "descriptor_set": "é"}, "no base64"),
        ({"message": "", "descriptor_set": 1}, "is an object of two"),
        ({"message": ""}, "is an object of two"),
        ({"message": "", "descriptor_set": "AAAA"}, "no FileDescriptorSet"),
    )
    for schema, why in wrong:
        refused = visitor.post(new, **fields_of(schema, 0, "protobuf"))
        assert (refused.status_code, why in unescape(refused.text)) == (400, True), schema


def test_one_user_previews_few_schemas_at_a_time_and_keeps_what_was_written(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    new = f"/topics/{name}/schema/new"
    slow = {"type": "object", "properties": {f"f{number}": {"type": "integer"} for number in range(500)}}
    sent = visitor.hidden(new) | fields_of(slow, 0)
    statuses = set[int]()
    with ThreadPoolExecutor(16) as pool:
        for _ in range(50):
            for response in pool.map(lambda _: visitor.http.post(new, data=sent), range(16)):
                statuses.add(response.status_code)
                if response.status_code == 503:
                    assert "2 previews of schemas are running for this user already" in response.text
                    assert "f499" in response.text
            if {200, 503} <= statuses:
                break
    assert statuses == {200, 503}
    assert visitor.post(new, **fields_of(FIRST, 0)).status_code == 200


def test_a_schema_is_inferred_from_messages_as_the_command_line_does(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name, 2)
    new = f"/topics/{name}/schema/new"
    none = visitor.get(new, 400, infer=1)
    assert "the topic has no messages" in none
    produce(http, name, *[{"body": json.dumps({"id": number, SCRIPT: "x"})} for number in range(9)], {"body": "no"})
    page = visitor.get(new, infer=1)
    assert "Proposed from the newest 10 messages. 1 of them" in unescape(page)
    assert SCRIPT not in page
    text = re.search(r'<textarea id="text".*?>\n(.*?)</textarea>', page, re.DOTALL)
    assert text is not None
    found = json.loads(unescape(text[1]))
    assert found["properties"]["id"] == {"type": "integer"}
    assert versions_of(http, name) == []
    shown = visitor.post(new, type="json", text=unescape(text[1]), if_version="0")
    assert [row[0] for row in cells(shown.text)] == ["id", SCRIPT]


def test_a_schema_is_dropped_after_a_question_unless_it_changed_meanwhile(
    visitor: Visitor, http: httpx.Client, name: str
) -> None:
    put_topic(http, name)
    path = f"/topics/{name}/schema"
    visitor.get(f"{path}/drop", 404)
    http.put(f"/v1{path}", json={"schema": FIRST}).raise_for_status()
    asked = visitor.get(f"{path}/drop")
    assert "Its one version is deleted." in asked
    http.put(f"/v1{path}", json={"schema": WIDER}).raise_for_status()
    assert visitor.post(f"{path}/drop", if_version="1").status_code == 409
    assert len(versions_of(http, name)) == 2
    assert went_to(visitor.post(f"{path}/drop", if_version="2")) == path
    assert versions_of(http, name) == []
    assert "has no schema" in visitor.get(path)
    assert visitor.http.post(f"{path}/drop", data={"if_version": "2"}).status_code == 403


def test_who_may_not_change_a_topic_sees_its_schema_and_no_way_to_change_it(
    console: ConsoleProcess, http: httpx.Client, name: str
) -> None:
    hidden = f"{name}-hidden"
    for each in (name, hidden):
        put_topic(http, each)
        http.put(f"/v1/topics/{each}/schema", json={"schema": FIRST}).raise_for_status()
    visitor = Visitor(console.url)
    visitor.sign_in(make_user(http, f"{name}-user", allow(f"Topic:{name}", "Sub")))
    path = f"/topics/{name}/schema"
    page = visitor.get(path)
    assert ["id", "bigint"] in cells(page)
    assert not [each for each in ("Infer from", "New version", "Drop…") if each in page]
    assert visitor.post(path, f"{path}/new", **fields_of(WIDER, 1)).status_code == 403
    visitor.get(f"/topics/{hidden}/schema", 403)
    assert len(versions_of(http, name)) == 1
    visitor.close()
