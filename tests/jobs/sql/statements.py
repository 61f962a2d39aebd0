"""Statements that are served to users who are no administrators, and such as aren't."""

from __future__ import annotations

SERVED_STATEMENTS = """
SELECT 1
SELECT * FROM messages
SELECT topic, count(*) AS n FROM live.messages m GROUP BY topic HAVING count(*) > 1 ORDER BY n DESC NULLS LAST LIMIT 5
SELECT DISTINCT topic FROM messages ORDER BY ALL
SELECT * FROM messages PIVOT (count(*) FOR topic IN ('a'))
SELECT * FROM (SELECT topic, tag, position FROM messages) PIVOT (max(position) p, count(*) FOR tag IN ('a' AS x, 'b'))
SELECT topic, a FROM (SELECT topic, tag, keys[0] k FROM messages) PIVOT (max(k) FOR tag IN ('a')) WHERE a IS NOT NULL
SELECT * FROM (SELECT topic, queue_id, queue_id q FROM consume_queue) PIVOT (min(struct(q)) FOR queue_id IN (0, -1))
SELECT topic, count(*) FROM messages GROUP BY ALL
SELECT * FROM messages WHERE contains(body, X'616263')
SELECT date_trunc('minute', store_time), count(*) FROM messages GROUP BY 1 ORDER BY 1 OFFSET 2
WITH a AS (SELECT * FROM messages), b AS (SELECT topic FROM a) SELECT * FROM b
WITH messages AS (SELECT * FROM messages WHERE topic = 'a') SELECT * FROM messages
SELECT a.topic FROM messages a LEFT JOIN live.messages b ON a.position = b.position AND a.broker = b.broker
SELECT * FROM messages a LEFT ANTI JOIN message_index b USING (topic, broker, position)
SELECT * FROM messages a NATURAL JOIN consume_queue b
SELECT * FROM messages a CROSS JOIN topics b
SELECT topic FROM messages UNION ALL SELECT topic FROM topics
SELECT topic FROM messages EXCEPT SELECT topic FROM topics INTERSECT SELECT 'a'
SELECT * FROM messages WHERE position IN (SELECT max(position) FROM messages GROUP BY topic)
SELECT * FROM messages a WHERE EXISTS (SELECT 1 FROM topics b WHERE a.topic = b.topic)
SELECT (SELECT max(position) FROM messages) AS last
SELECT * EXCEPT (body) FROM messages
SELECT m.a FROM topics AS m (a, b, c, d, e, f, g, h)
SELECT m.a FROM (SELECT topic, tag FROM messages) AS m (a, b)
SELECT k FROM messages LATERAL VIEW OUTER explode(keys) t AS k
SELECT explode(keys) FROM messages
SELECT CASE topic WHEN 'a' THEN 1 ELSE 2 END, CAST(position AS STRING) FROM messages
SELECT position::string, try_cast(tag AS INT), CASE WHEN tag IS NULL THEN 1 END FROM messages
SELECT body_json(body):a.b::int, body_text(body), keys[0], properties['a'] FROM messages
SELECT topic || '-' || tag, -position, position % 2, position DIV 2, 1.5 * position, NOT true FROM messages
SELECT * FROM messages WHERE topic LIKE 'a%' OR topic LIKE '%a' OR topic LIKE '%a%' OR tag ILIKE 'a_b'
SELECT explode(properties) AS (name, value) FROM messages
SELECT timestampadd(MINUTE, 1, store_time), timestampdiff(DAY, store_time, now()), sha2(body, 256) FROM messages
SELECT * FROM messages WHERE position BETWEEN 1 AND 2 AND tag IS NOT NULL AND topic NOT IN ('a', 'b') AND tag <=> NULL
SELECT * FROM messages WHERE store_time > now() - INTERVAL 1 HOUR AND store_time < TIMESTAMP '2026-01-01'
SELECT * FROM messages WHERE store_date = DATE '2026-01-01' AND (topic, queue_id) IN (('a', 1))
SELECT exists(keys, k -> k = 'a' OR startswith(k, 'b')) FROM messages
SELECT forall(keys, k -> k IS NOT NULL), filter(keys, k -> k > 'a') FROM messages
SELECT substring(topic FROM 1 FOR 2), trim(BOTH 'x' FROM topic), position('a' IN topic) FROM messages
SELECT extract(YEAR FROM store_time), date_add(store_date, 1), datediff(store_date, store_date) FROM messages
SELECT count(DISTINCT topic), count(*) FILTER (WHERE tag = 'a'), max_by(tag, position) FROM messages
SELECT approx_percentile(position, 0.5), avg(position), stddev(position), any_value(tag) FROM messages
SELECT row_number() OVER (PARTITION BY topic ORDER BY position), lag(position) OVER (ORDER BY position) FROM messages
SELECT sum(position) OVER w FROM messages WINDOW w AS (ORDER BY position ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
SELECT window(store_time, '1 minute').start, count(*) FROM messages GROUP BY window(store_time, '1 minute')
SELECT * FROM messages WHERE has_tag(tag, 'a || b') AND NOT is_system(topic) AND position = position_of('a.b.1')
SELECT date_format(store_time, 'yyyy-MM-dd'), to_date(tag, 'yyyyMMdd'), to_timestamp(tag) FROM messages
SELECT CAST(left(tag, 100) AS DECIMAL(10, 2)), CAST('1.5' AS DECIMAL), CAST(position AS DECIMAL) FROM messages
SELECT to_json(struct(topic, tag)), get_json_object(body_text(body), '$.a'), hex(md5(body)) FROM messages
""".strip().splitlines()

REFUSED_STATEMENTS = """
SELECT date_format(store_time, CAST(unhex('5B5B5B5B') AS STRING)) FROM messages
SELECT date_format(store_time, tag) FROM messages
SELECT to_timestamp(tag, body_text(body)) FROM messages
SELECT from_unixtime(position, properties['a']), to_utc_timestamp(store_time, tag) FROM messages
SELECT array_distinct(keys) FROM messages
SELECT 1 FROM messages a, messages b, messages c
SELECT 1 FROM (SELECT a.topic FROM messages a JOIN messages b USING (topic)) c JOIN messages d USING (topic)
WITH a AS (SELECT m.topic FROM messages m, messages n) SELECT 1 FROM a, messages
SELECT 1 FROM messages LATERAL VIEW explode(keys) a AS x LATERAL VIEW explode(keys) b AS y
SELECT explode(keys) FROM messages a, messages b
SELECT 1 FROM (SELECT explode(keys) AS k FROM messages) a JOIN messages b ON a.k = b.tag
INSERT INTO messages SELECT * FROM messages
INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM messages
DELETE FROM messages
UPDATE messages SET topic = 'a'
MERGE INTO messages a USING messages b ON a.position = b.position WHEN MATCHED THEN DELETE
CREATE TEMPORARY VIEW x AS SELECT 1
CREATE OR REPLACE GLOBAL TEMPORARY VIEW messages AS SELECT 1
CREATE TABLE x AS SELECT 1
CREATE FUNCTION f AS 'java.lang.Runtime'
CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x
DROP TABLE messages
DROP VIEW live.messages
ALTER TABLE messages SET TBLPROPERTIES ('a' = 'b')
TRUNCATE TABLE messages
SET spark.sql.ansi.enabled = false
SET
RESET
USE live
SHOW TABLES
SHOW FUNCTIONS
SHOW CREATE TABLE messages
DESCRIBE HISTORY messages
DESCRIBE EXTENDED messages
EXPLAIN SELECT 1
EXPLAIN EXTENDED SELECT * FROM messages
ANALYZE TABLE messages COMPUTE STATISTICS
CACHE TABLE messages
CLEAR CACHE
REFRESH TABLE messages
ADD JAR '/tmp/x.jar'
ADD FILE '/etc/passwd'
LIST JARS
OPTIMIZE messages
VACUUM messages RETAIN 0 HOURS
RESTORE TABLE messages TO VERSION AS OF 1
DECLARE VARIABLE x INT
EXECUTE IMMEDIATE 'SELECT 1'
CALL system.x()
BEGIN SELECT 1; END
BEGIN DELETE FROM messages; END
SELECT 1; SELECT 2
SELECT 1; DROP TABLE messages
SELECT * FROM delta.`/srv/lake/messages`
SELECT * FROM parquet.`/srv/lake/messages`
SELECT * FROM text.`/etc/passwd`
SELECT * FROM json.`file:///etc/passwd`
SELECT * FROM binaryFile.`/etc`
SELECT * FROM spark_catalog.default.messages
SELECT * FROM default.messages
SELECT * FROM spark_catalog.live.messages
SELECT * FROM global_temp.messages
SELECT * FROM information_schema.tables
SELECT * FROM nothing
SELECT * FROM `live.messages`
SELECT * FROM live.scheduled
SELECT * FROM messages.history
SELECT * FROM (WITH lake_stats AS (SELECT 1 AS y) SELECT * FROM lake_stats) a, other
SELECT * FROM messages VERSION AS OF 1
SELECT * FROM messages TIMESTAMP AS OF '2026-01-01'
SELECT * FROM messages FOR SYSTEM_VERSION AS OF 1
SELECT * FROM messages@v1
SELECT * FROM STREAM messages
SELECT * FROM messages WITH (a = 'b')
SELECT * FROM IDENTIFIER('delta.' || '`/x`')
FROM messages |> WHERE topic = 'a' |> SELECT tag
SELECT IDENTIFIER('topic') FROM messages
SELECT * FROM range(1000000000)
SELECT * FROM explode(array(1))
SELECT * FROM read_files('/etc')
SELECT * FROM table_changes('messages', 1)
SELECT * FROM sql_keywords()
SELECT * FROM messages, LATERAL (SELECT 1)
SELECT * FROM messages, LATERAL explode(keys)
SELECT * FROM messages LATERAL VIEW stack(2, 1, 2) t AS x
SELECT * FROM messages LATERAL VIEW inline(array(struct(1))) t AS x
SELECT * FROM messages LATERAL VIEW json_tuple(topic, 'a') t AS x
SELECT * FROM messages TABLESAMPLE (1 PERCENT)
SELECT * FROM messages PIVOT (count(*) FOR (topic, tag) IN (('a', 'b')))
SELECT * FROM messages PIVOT (count(*) FOR topic IN ('a', tag))
SELECT * FROM messages PIVOT (count(*) FOR topic IN ('a', upper('b')))
SELECT * FROM messages PIVOT (collect_list(tag) FOR topic IN ('a'))
SELECT * FROM range(10) PIVOT (count(*) FOR id IN (1))
SELECT * FROM messages UNPIVOT (v FOR n IN (position, queue_offset))
SELECT TRANSFORM(topic) USING 'cat' FROM messages
SELECT /*+ BROADCAST(m) */ * FROM messages m
SELECT /*+ REPARTITION(100000) */ * FROM messages
SELECT reflect('java.lang.System', 'exit', '1')
SELECT java_method('java.lang.System', 'getenv', 'HOME')
SELECT try_reflect('java.lang.System', 'getenv', 'HOME')
SELECT input_file_name() FROM messages
SELECT input_file_block_start() FROM messages
SELECT _metadata.file_path FROM messages WHERE raise_error('x') IS NULL
SELECT raise_error('x')
SELECT assert_true(false)
SELECT current_user()
SELECT user()
SELECT session_user()
SELECT current_database()
SELECT current_catalog()
SELECT current_schema()
SELECT version()
SELECT spark_partition_id()
SELECT monotonically_increasing_id()
SELECT rand()
SELECT uuid()
SELECT sequence(1, 1000000000)
SELECT repeat('a', 2000000000)
SELECT space(2000000000)
SELECT lpad('a', 2000000000, 'b')
SELECT array_repeat(1, 2000000000)
SELECT format_string('%2000000000d', 1)
SELECT replace(topic, 'a', body_text(body)) FROM messages
SELECT regexp_replace(topic, '(a+)+$', 'b') FROM messages
SELECT topic RLIKE '(a+)+$' FROM messages
SELECT topic REGEXP '(a+)+$' FROM messages
SELECT regexp_like(topic, '(a+)+$') FROM messages
SELECT split(topic, '(a+)+$') FROM messages
SELECT topic SIMILAR TO 'a' FROM messages
SELECT topic LIKE '%a%b%c%d%e' FROM messages
SELECT topic LIKE tag FROM messages
SELECT topic LIKE ANY ('a%', 'b%') FROM messages
SELECT contains(body_text(body), body_text(body)) FROM messages
SELECT trim(BOTH tag FROM topic) FROM messages
SELECT position(tag IN topic) FROM messages
SELECT levenshtein(topic, tag) FROM messages
SELECT collect_list(body) FROM messages
SELECT collect_set(body) FROM messages
SELECT array_agg(body) FROM messages
SELECT listagg(tag) FROM messages
SELECT percentile(position, 0.5) FROM messages
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY position) FROM messages
SELECT approx_percentile(position, 0.5, 2147483647) FROM messages
SELECT approx_count_distinct(topic, 0.000001) FROM messages
SELECT aggregate(keys, '', (a, k) -> concat(a, a)) FROM messages
SELECT transform(keys, k -> body) FROM messages
SELECT exists(keys, k -> exists(keys, l -> l = k)) FROM messages
SELECT exists(keys, k -> k LIKE '%a%') FROM messages
SELECT exists(keys, k -> contains(body_text(body), 'a')) FROM messages
SELECT window(store_time, '1 hour', '1 microsecond') FROM messages
SELECT topic, count(*) FROM messages GROUP BY CUBE (topic, tag)
SELECT topic, count(*) FROM messages GROUP BY ROLLUP (topic, tag)
SELECT topic, count(*) FROM messages GROUP BY topic GROUPING SETS ((topic), ())
SELECT sum(position) OVER (ORDER BY position ROWS BETWEEN 1000000 PRECEDING AND CURRENT ROW) FROM messages
SELECT sum(position) OVER (ORDER BY position RANGE BETWEEN 10 PRECEDING AND CURRENT ROW) FROM messages
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t
SELECT :x
SELECT ?
SELECT * FROM VALUES (1), (2)
VALUES (1)
SELECT default.body_text(body) FROM messages
SELECT system.builtin.reflect('a', 'b')
SELECT builtin.abs(1)
SELECT concat(a => 1)
SELECT '${env:HOME}'
SELECT ai_query('x')
SELECT try_aes_decrypt(body, 'x') FROM messages
SELECT from_avro(body, 'x') FROM messages
SELECT xpath(topic, 'a') FROM messages
SELECT schema_of_json('{}')
SELECT parse_url(topic, 'HOST') FROM messages
SELECT http_get('http://127.0.0.1')
SELECT count_min_sketch(body, 0.0001, 0.99999, 1) FROM messages
SELECT stack(1000000, 1)
SELECT max_by(body, position, 1000000) FROM messages
""".strip().splitlines()

OF_THE_ANALYZER = [
    "SELECT current_user",
    "SELECT user",
    "SELECT session_user",
    "SELECT _metadata FROM messages",
    "SELECT CAST(body_text(body) AS DECIMAL(10, 2)) FROM messages",
    "SELECT try_cast(concat(tag, tag) AS DECIMAL) FROM messages",
    "SELECT CAST(left(tag, 101) AS DECIMAL) FROM messages",
    "SELECT CAST(left(tag, length(tag)) AS DECIMAL) FROM messages",
]
"""What is a name for the parser, or of a type."""
