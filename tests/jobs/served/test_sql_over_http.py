"""`POST /v1/sql` over a real gateway, lake and server: who sees which rows, and in which forms."""

from __future__ import annotations

import csv
import io

import httpx
import pyarrow as pa
import pytest

from lakemq.console.sought import Sought
from lakemq.jobs.served.who import Who
from lakemq.model.errors import Unauthenticated
from tests.jobs.served.scene import MANY, Scene

COUNTS = "SELECT topic, count(*) AS messages FROM {table} GROUP BY topic ORDER BY topic"


def test_users_see_the_rows_of_their_topics_alone(scene: Scene) -> None:
    counts = COUNTS.format(table="messages")
    assert scene.rows(counts, "olga") == [["orders", 10]]
    assert scene.rows(counts, "ines") == [["orders", 10]]
    assert scene.rows(counts, "elsewhere") == []
    found = dict(scene.rows(counts, "admin"))
    assert (found["orders"], found["secrets"]) == (10, 7)
    assert any(topic.startswith("RMQ_SYS_") for topic in found)


def test_live_views_have_the_tail_of_the_log_for_who_may_see_it(scene: Scene) -> None:
    counts = COUNTS.format(table="live.messages")
    assert scene.rows(counts, "olga") == [["orders", 11]]
    assert dict(scene.rows(counts, "admin"))["secrets"] == 8
    bodies = "SELECT body FROM live.messages WHERE position = (SELECT max(position) FROM live.messages)"
    assert scene.rows(bodies, "olga") == [["orders 10"]]


def test_a_pivot_counts_the_rows_that_a_user_sees(scene: Scene) -> None:
    chosen = "SELECT topic, tag FROM messages WHERE tag = 'T'"
    pivot = f"SELECT * FROM ({chosen}) PIVOT (count(*) FOR topic IN ('orders' AS o, 'secrets'))"
    assert scene.rows(pivot, "olga") == [["T", 10, None]]
    assert scene.rows(pivot, "admin") == [["T", 10, 7]]
    # What PivotFirst can't hold is made of conditions.
    several = f"SELECT * FROM ({chosen.replace('tag FROM', 'tag, queue_id FROM')}) PIVOT ("
    several += "count(*) AS n, max(struct(queue_id)) AS q FOR topic IN ('orders' AS o, 'secrets'))"
    assert scene.rows(f"SELECT o_n, secrets_n, o_q.queue_id >= 0 FROM ({several})", "admin") == [[10, 7, True]]


@pytest.mark.parametrize(
    "rest",
    [
        "JOIN topics USING (broker, topic)",
        "JOIN consume_queue USING (broker, position)",
        "LEFT JOIN consumer_offsets o ON messages.topic = o.topic AND o.offset < 0",
        "WHERE topic IN (SELECT topic FROM topics)",
        "WHERE topic NOT IN (SELECT topic FROM topics WHERE topic < 'orders')",
        "WHERE EXISTS (SELECT 1 FROM message_index i WHERE i.position = messages.position)",
    ],
)
def test_tables_are_joined(scene: Scene, rest: str) -> None:
    assert scene.rows(f"SELECT count(*) FROM messages {rest}", "olga") == [[10]]


def test_bodies_are_searched_by_bytes_whether_they_are_text_or_not(scene: Scene) -> None:
    assert scene.rows("SELECT contains(unhex('ff616263fe'), X'616263'), body_text(unhex('ff61'))") == [[True, None]]
    sought = Sought("orders", text="rders 7").statement("broker-a", 10**9, 5)
    assert [row[-1] for row in scene.rows(sought, "olga")] == ["orders 7"]
    assert scene.problem(f"SELECT 1 FROM messages WHERE contains(body, X'{'61' * 1_025}')")[:2] == (400, "invalid_sql")


def test_anybody_on_this_machine_sees_what_messages_are_open_anyway(scene: Scene) -> None:
    assert scene.rows(COUNTS.format(table="live.messages")) == [["orders", 11], ["secondary", MANY], ["secrets", 8]]
    assert scene.rows("SELECT * FROM audit") == []


@pytest.mark.parametrize("table", ["consume_queue", "message_index", "topics", "live.topics", "live.consume_queue"])
def test_every_table_shows_a_user_topics_of_its_own_alone(scene: Scene, table: str) -> None:
    assert scene.rows(f"SELECT DISTINCT topic FROM {table}", "olga") == [["orders"]]


@pytest.mark.parametrize("table", ["consumer_offsets", "live.consumer_offsets"])
def test_offsets_are_seen_by_who_may_read_the_group_and_the_topic(scene: Scene, table: str) -> None:
    offsets = f"SELECT group, topic FROM {table} WHERE group = 'g' ORDER BY topic"
    assert scene.rows(offsets, "gina") == [["g", "orders"]]
    assert scene.rows(offsets, "olga") == []
    assert scene.rows(offsets, "admin") == [["g", "orders"], ["g", "secrets"]]


@pytest.mark.parametrize("table", ["audit", "transactions", "log_holes", "lake_stats", "maintenance_runs"])
def test_what_has_no_topic_is_for_administrators(scene: Scene, table: str) -> None:
    assert scene.rows(f"SELECT count(*) FROM {table}", "olga") == [[0]]
    assert scene.rows(f"SELECT count(*) >= 0 FROM {table}", "admin") == [[True]]


@pytest.mark.parametrize("table", ["dead_letters", "live.dead_letters"])
def test_dead_letters_are_served_with_why_they_failed(scene: Scene, table: str) -> None:
    asked = f"SELECT failure_class, state, count(*) FROM {table} GROUP BY ALL"
    assert scene.rows(asked, "olga") == scene.rows(asked, "admin") == []


def test_it_takes_sql_on_the_lake_to_ask(scene: Scene) -> None:
    status, code, detail = scene.problem("SELECT 1 FROM messages", "nobody")
    assert (status, code) == (403, "forbidden")
    assert "Sql on Lake:messages" in detail
    assert scene.problem("SELECT 1 FROM topics", "ines")[:2] == (403, "forbidden")
    assert scene.problem("SELECT 1", "ines")[:2] == (403, "forbidden")
    assert scene.rows("SELECT 1", "olga") == [[1]]


def test_rows_that_are_hidden_are_told_by_no_error(scene: Scene) -> None:
    """Each would fail, and say so, on a row of `secrets`."""
    conditions = [
        "1 / (CASE WHEN topic = 'secrets' THEN 0 ELSE 1 END) > 0",
        "CAST(CASE WHEN topic = 'secrets' THEN body_text(body) ELSE '1' END AS INT) = 1",
        "element_at(keys, CASE WHEN topic = 'secrets' THEN 0 ELSE 1 END) IS NOT NULL",
    ]
    for table in ("messages", "live.messages"):
        for condition in conditions:
            statement = f"SELECT count(*) > 0 FROM {table} WHERE {condition}"
            assert scene.rows(statement, "olga") == [[True]]
            assert scene.problem(statement, "admin")[:2] == (400, "invalid_sql")


def test_partitions_that_are_hidden_are_told_by_no_error(scene: Scene) -> None:
    """What a table is partitioned by is looked at as files are chosen, before any row is."""
    statement = "SELECT count(*) FROM scheduled WHERE 1 / (CASE WHEN ended_date IS NULL THEN 0 ELSE 1 END) > 0"
    assert ["secrets", "waiting"] in scene.rows("SELECT topic, state FROM scheduled", "admin")
    assert scene.rows(statement, "olga") == [[0]]
    assert scene.problem(statement, "admin")[:2] == (400, "invalid_sql")


def test_what_a_field_of_a_body_lacks_is_told(scene: Scene) -> None:
    status, code, detail = scene.problem("SELECT sum(body_json(body):amount) FROM messages", "olga")
    assert (status, code) == (400, "invalid_sql")
    assert detail.endswith(". Cast it: body_json(body):amount::double"), detail


def test_a_wrong_token_is_nobody(scene: Scene) -> None:
    scene.tokens["wrong"] = "lmq_" + "a" * 16 + "_" + "b" * 43
    status, code, detail = scene.problem("SELECT 1", "wrong")
    assert (status, code) == (401, "unauthenticated")
    assert "admin.token" not in detail
    scene.tokens["wrong"] = "x"
    assert scene.problem("SELECT 1", "wrong")[:2] == (401, "unauthenticated")


def test_a_header_without_a_value_is_not_none(scene: Scene) -> None:
    who = Who(lambda: scene.gateway.url)
    try:
        assert who.asks(None, "127.0.0.1").users == (None,)
        for said in ("", None):
            with pytest.raises(Unauthenticated):
                who.asks(said, "192.0.2.1")
        with pytest.raises(Unauthenticated, match="through a proxy"):
            who.asks(None, "127.0.0.1", forwarded=True)
    finally:
        who.close()


def test_the_answers_forms(scene: Scene) -> None:
    statement = "SELECT position AS n, position AS n, body, keys, store_time FROM messages ORDER BY position LIMIT 3"
    answer = scene.ask(statement, "olga")
    said = answer.json()
    assert said["columns"][0] == {"name": "n", "type": "bigint"}
    assert said["rows"][0][2:4] == ["orders 0", ["k0"]]
    bodies = [row[2] for row in said["rows"]]
    assert (said["truncated"], answer.headers["lakemq-truncated"]) == (False, "false")
    answer = scene.ask(statement, "olga", format="csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert [row[2] for row in csv.reader(io.StringIO(answer.text))] == ["body", *bodies]
    answer = scene.ask(statement, "olga", format="arrow")
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.column_names == ["n", "n", "body", "keys", "store_time"]
    assert [each.decode() for each in table.column(2).to_pylist()] == bodies


def test_an_answer_without_rows_has_its_columns(scene: Scene) -> None:
    for form in ("json", "csv", "arrow"):
        answer = scene.ask("SELECT topic, position FROM messages WHERE false", "olga", format=form)
        assert answer.status_code == 200
        assert b"position" in answer.content


def test_an_answer_has_so_many_rows_at_most_and_says_that_there_are_more(scene: Scene) -> None:
    answer = scene.ask("SELECT position FROM messages ORDER BY position DESC", "olga", rows_max=4)
    assert (len(answer.json()["rows"]), answer.json()["truncated"]) == (4, True)
    exact = scene.ask("SELECT position FROM messages", "olga", rows_max=10).json()
    assert (len(exact["rows"]), exact["truncated"]) == (10, False)


def test_what_is_wrong_is_said_with_its_place(scene: Scene) -> None:
    said = scene.ask("SELECT topic\nFROM live.messages WHERE nope = 1", "olga").json()
    assert (said["code"], said["line"], said["column"]) == ("invalid_sql", 2, 26)
    said = scene.ask("SELECT topic\nFROM WHERE messages", "olga").json()
    assert (said["code"], said["line"], said["column"]) == ("invalid_sql", 2, 12)
    said = scene.ask("SELECT 1,\n  reflect('java.lang.System', 'exit')", "olga").json()
    assert (said["code"], said["line"], said["column"]) == ("invalid_sql", 2, 3)
    said = scene.ask("SELECT m.topic,\n  1 / (position - position) FROM messages m", "olga").json()
    assert (said["code"], said["line"], said["column"]) == ("invalid_sql", 2, 3)
    assert said["detail"].startswith("Division by zero.")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b"{}", b'{"statement": 1}', b'{"statement": "SELECT 1", "x": 1}', b"[" * 100_000),
        b'{"statement": "SELECT 1", "rows_max": 0}',
        b'{"statement": "SELECT 1", "rows_max": 1000000000}',
        b'{"statement": "SELECT 1", "timeout_ms": true}',
        b'{"statement": "SELECT 1", "format": "orc"}',
    ],
)
def test_a_body_that_is_none_is_400(scene: Scene, body: bytes) -> None:
    with httpx.Client(trust_env=False, timeout=60) as http:
        answer = http.post(f"{scene.server.url}/v1/sql", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_pages_of_others_and_other_names_are_refused(scene: Scene) -> None:
    with httpx.Client(trust_env=False, timeout=60) as http:
        content = {"statement": "SELECT 1"}
        answer = http.post(f"{scene.server.url}/v1/sql", json=content, headers={"Origin": "http://evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (403, "wrong_origin")
        answer = http.post(f"{scene.server.url}/v1/sql", json=content, headers={"Host": "evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (421, "wrong_host")
        answer = http.post(f"{scene.server.url}/v1/sql", content=b"{}", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 415
        assert http.put(f"{scene.server.url}/v1/sql").status_code == 405
