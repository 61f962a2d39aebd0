"""`topics.…`, and topics' own tables, by `POST /v1/sql`: for those who may read the topic, and for nobody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.catalog import Catalog
from lakemq.jobs.sql.catalog import register_catalog
from lakemq.jobs.sql.topic_tables import TopicTables
from lakemq.jobs.tables.topic_table import make_topic_table
from lakemq.model.column_type import BIGINT, STRUCT, ColumnField, ColumnType
from tests.gateway.access.asking import ask_as
from tests.gateway.routing.asking import wait_until
from tests.jobs.served.scene import WAIT_S, Scene

OWN = ("topic_orders",)
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, scene: Scene) -> Iterator[TopicTables]:
    """Of `orders` and `secrets`, whose bodies fit no schema."""
    made = TopicTables(spark, lambda: scene.gateway.url)
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        for topic in ("orders", "secrets"):
            done = admin.put(f"/v1/topics/{topic}/schema", json={"schema": SCHEMA})
            assert done.is_success, done.text
        made.refresh()
        yield made
        for topic in ("orders", "secrets"):
            admin.delete(f"/v1/topics/{topic}/schema")
    made.refresh()


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("user", ["admin", "olga", "ines", "gina"])
def test_who_may_read_the_topic_may_read_its_table(scene: Scene, user: str) -> None:
    statement = "SELECT count(*), count(id), count(o._error) FROM topics.orders o WHERE _offset >= 0"
    assert scene.rows(statement, user) == [[11, 0, 11]]


@pytest.mark.usefixtures("tables")
def test_for_others_it_is_not_there(scene: Scene) -> None:
    status, code, hidden = scene.problem("SELECT * FROM topics.secrets", "ines")
    assert (status, code) == (400, "invalid_sql")
    assert "there is no table 'topics.secrets' here" in hidden
    assert scene.problem("SELECT * FROM topics.nothing", "ines")[2] == hidden.replace("secrets", "nothing")
    assert scene.problem("SELECT * FROM topics.orders", "max")[:2] == (400, "invalid_sql")
    assert scene.problem("SELECT * FROM topics.orders", "nobody")[:2] == (403, "forbidden")
    assert scene.rows("SELECT count(*) FROM topics.Secrets", "admin") == [[8]]


@pytest.mark.usefixtures("tables")
def test_it_is_listed_for_those_who_may_read_it(scene: Scene) -> None:
    def listed(user: str) -> set[str]:
        headers = {"Authorization": f"Bearer {scene.tokens[user]}"}
        answer = httpx.get(f"{scene.server.url}/v1/sql", headers=headers, trust_env=False, timeout=WAIT_S)
        return {each["table"] for each in answer.json()["tables"] if each["table"].startswith("topics.")}

    wait_until(lambda: listed("admin") == {"topics.orders", "topics.secrets"})  # what was listed holds for seconds
    assert [listed(user) for user in ("ines", "max", "nobody")] == [{"topics.orders"}, set(), set()]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM live.`topics.orders`",
        "SELECT * FROM spark_catalog.topics.orders",
        "SELECT * FROM topics.orders VERSION AS OF 1",
        "SHOW TABLES IN topics",
    ],
)
def test_there_is_no_other_way_to_it(scene: Scene, statement: str) -> None:
    assert scene.problem(statement, "admin")[:2] == (400, "invalid_sql")


@pytest.fixture
def own(spark: SparkSession, scene: Scene) -> Iterator[None]:
    """Tables that the jobs keep of `orders`, with two rows, and of `secrets`; and one that only has such a name."""
    columns = ColumnType(STRUCT, fields=(ColumnField("id", ColumnType(BIGINT)),))
    made = [make_topic_table(spark, scene.lake, topic, columns)[0].path for topic in ("orders", "secrets")]
    spark.sql(f"INSERT INTO delta.`{made[0]}` (id, _offset) VALUES (7, 1), (9, 2)")
    made.append(scene.lake / "topic_stray")
    spark.range(1).write.format("delta").save(str(made[-1]))
    register_catalog(spark, scene.lake)
    yield
    for path in made:
        spark.sql(f"DROP TABLE default.`{path.name}`")
        shutil.rmtree(path)


@pytest.mark.usefixtures("own")
def test_a_topics_own_table_is_for_who_may_read_the_topic(scene: Scene) -> None:
    for user in ("admin", "olga", "ines"):
        assert scene.rows("SELECT sum(id), count(t._offset) FROM topic_orders t WHERE id > 0", user) == [[16, 2]]
    assert scene.rows("SELECT count(*) FROM `Topic_Secrets`", "admin") == [[0]]
    status, code, hidden = scene.problem("SELECT * FROM topic_secrets", "ines")
    assert (status, code) == (400, "invalid_sql")
    assert "there is no table 'topic_secrets' here" in hidden
    for name in ("nothing", "stray"):
        assert scene.problem(f"SELECT * FROM topic_{name}", "ines")[2] == hidden.replace("secrets", name)
    for user, refused in (("max", (400, "invalid_sql")), ("nobody", (403, "forbidden"))):
        assert scene.problem("SELECT * FROM topic_orders", user)[:2] == refused
    for statement in ("SELECT * FROM default.topic_orders", "SELECT * FROM topic_orders VERSION AS OF 0"):
        assert scene.problem(statement, "admin")[:2] == (400, "invalid_sql")


@pytest.mark.usefixtures("own")
def test_a_topics_own_table_is_listed_for_who_may_read_the_topic(spark: SparkSession) -> None:
    found = {each.parts: each for each in Catalog(spark).tables()}
    topics = {parts: found[parts].topic for parts in found if parts in (OWN, ("topic_secrets",), ("topic_stray",))}
    assert topics == {OWN: "orders", ("topic_secrets",): "secrets"}  # the session may have other tests' tables too
    assert ("id", "bigint") in found[OWN].columns
