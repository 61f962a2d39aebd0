"""A predicate means here what it means in `lakemq sql`: the same texts, asked of Spark itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakemq.gateway.filter import compile_filter
from lakemq.gateway.redrive.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT_MAP = pa.map_(pa.string(), pa.string())
TYPES: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "reconsume_times": pa.int32(),
    "tag": pa.string(),
    "number": pa.string(),
    "real_topic": pa.string(),
    "keys": pa.list_(pa.string()),
    "properties": TEXT_MAP,
    "body": pa.binary(),
    "store_time": pa.timestamp("us", tz="UTC"),
}
NOON, LATER = datetime(2020, 1, 1, 12, tzinfo=UTC), datetime(2021, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
ROWS: list[tuple[Any, ...]] = [
    (5, 3, "a", "12", "orders", ["k1", "k2"], [("x", "7")], b"hello", NOON),
    (-1, None, None, "-0.5", None, None, [], b"", LATER),
    (2**53 + 1, 0, "A%b_c\\d'\n", " 1e3 ", "ä€😀", [], [("x", "8"), ("é y", "v")], "50% é".encode(), NOON),
]
PREDICATES = r"""
tag = 'a'
tag <> 'a' OR real_topic IS NULL
tag <=> 'a'
NOT tag <=> NULL
tag IN ('a', NULL)
tag NOT IN ('b', 'a')
tag NOT IN ('b', NULL)
tag BETWEEN 'a' AND 'b'
tag NOT BETWEEN 'a' AND 'b' OR tag IS NULL
tag LIKE 'A\%b\_c%'
tag LIKE 'A!%b!_c%' ESCAPE '!'
tag LIKE '_%b%\n'
tag NOT LIKE '%b%'
tag ILIKE 'a%'
tag RLIKE 'b.c'
tag RLIKE '^a$'
tag || 'x' = 'ax'
concat(tag, position, real_topic) = 'a5orders'
tag = 'A%b_c\\d\'\n'
"a" = tag
tag = 'it''s' OR tag = 'a'
lower(tag) LIKE 'a%' AND upper(tag) LIKE 'A%'
length(real_topic) = 3
length(body) = 5
substring(real_topic, 2, 1) = '€'
substring(real_topic, -1) = '😀'
substring(tag, 0, 1) = 'a'
substring(tag, -9, 9) = ''
trim(number) = '1e3'
ltrim(number) = '1e3 '
position = 5
position > 4.5
position = 9007199254740993
position + 1 = 6 AND position - 1 = 4
position * 2 + 1 = 11
-position = 1
- position + 6 = 1
position / 2 = 2.5
1 + 2 * 3 - 4 = 3
2 * 3 - 4 * 2 + 1 = -1
8 - 4 - 2 = 2
16 / 4 / 2 = 2
number = '12'
number < 12.5
CAST(number AS DOUBLE) = 1000
CAST(trim(number) AS DOUBLE) + 1 = 1001
reconsume_times IS NULL OR reconsume_times = 0
reconsume_times > position
(reconsume_times > 1) IS NOT TRUE
NOT reconsume_times > 1
NOT (reconsume_times > 1 AND position > 0)
reconsume_times > 1 AND tag = 'a' OR position < 0
reconsume_times > 1 OR tag = 'a' AND position < 0
NOT tag = 'a' AND position > 0
NOT tag = 'a' OR position > 0
tag = 'a' IS NULL
tag IS NOT NULL AND tag IS NOT DISTINCT FROM 'a'
tag IS DISTINCT FROM 'a'
array_contains(keys, 'k1')
NOT array_contains(keys, 'k1')
size(keys) = 0
size(keys) > 1
cardinality(properties) = 2
properties['x'] = '7'
properties['x'] > 6
properties.x IS NULL
properties['é y'] = 'v'
element_at(properties, 'x') = '8'
body = 'hello'
body LIKE 'h%o'
body RLIKE '[0-9]+%'
body > 'a'
body IN ('hello', '')
body || '!' = 'hello!'
CAST(body AS STRING) = ''
store_time = TIMESTAMP '2020-01-01 12:00:00'
store_time = '2020-01-01T13:00:00+01:00'
store_time > DATE '2020-01-02'
store_time BETWEEN '2020' AND '2020-12'
CAST(store_time AS DATE) = '2021-2-3'
CAST(store_time AS BIGINT) = 1577880000
CAST(store_time AS DOUBLE) > 1612325106.0007
CAST(store_time AS STRING) = '2021-02-03 04:05:06.000789'
CAST(1577880000 AS TIMESTAMP) = store_time
CAST(position AS STRING) = '5'
CAST(position = 5 AS BIGINT) = 1
CAST(position AS BOOLEAN) AND TRUE
CAST(1.9 AS BIGINT) = 1 AND CAST(-1.9 AS BIGINT) = -1
TRUE > FALSE
NULL
NULL AND FALSE
NULL OR TRUE
NULL = NULL
NULL <=> NULL
TRUE = 'true'
'yes' AND TRUE
1L = 1 AND 1.5D = 1.5 AND 1e0 = 1
POSITION = 5 AND `position` = 5
! (tag = 'a')
"""


def test_the_same_predicate_says_the_same(spark: SparkSession) -> None:
    predicates = PREDICATES.strip().splitlines()
    columns = [
        pa.array(values, data_type) for values, data_type in zip(zip(*ROWS, strict=True), TYPES.values(), strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=list(TYPES))
    frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).orderBy("reconsume_times", "position")
    asked = frame.selectExpr("position", *[f"CAST(({text}) AS BOOLEAN)" for text in predicates]).collect()
    said = {row[0]: list(row)[1:] for row in asked}
    ours = [compile_filter(text, TYPES).evaluate(batch).to_pylist() for text in predicates]
    theirs = [[said[row[0]][number] for row in ROWS] for number in range(len(predicates))]
    differing = [each for each in zip(predicates, ours, theirs, strict=True) if each[1] != each[2]]
    assert differing == []


def test_a_redrive_knows_the_columns_of_the_lake_and_those_of_its_view(spark: SparkSession) -> None:
    from lakemq.jobs.source.columns import COLUMNS as LAKE_COLUMNS

    of_the_view = {"failure_class", "failure_text", "failed_at", "deliveries", "state"}
    assert set(COLUMNS) == set(LAKE_COLUMNS) | of_the_view
