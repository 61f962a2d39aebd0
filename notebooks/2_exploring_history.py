# Databricks notebook source
# MAGIC %md
# MAGIC # 2 · Exploring history
# MAGIC
# MAGIC When are flights late, and where does one aircraft spend its day? Every message is a row. Here the messages are the
# MAGIC departures from New York's airports in 2013. The tag is the carrier, and the key is the aircraft.
# MAGIC
# MAGIC `make demo ARGS=--keep` leaves a broker running with all 336,776 flights. If there are none, this page sends the first
# MAGIC 10,000.

# COMMAND ----------

import os

import matplotlib.pyplot as plt

from lakemq.cli.demo.flights import message_batches, read_flights
from lakemq.client.http import HttpClient

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

BROKER = os.environ.get("LAKEMQ_BROKER", "http://127.0.0.1:8080")

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

known = spark.sql("SELECT 1 FROM live.messages WHERE topic = 'flights' LIMIT 1").count()
if not known:
    with HttpClient(BROKER) as broker:
        for batch in message_batches(read_flights(10_000), 2_000):
            broker.produce_table("flights", batch)
print("the flights were already here" if known else "sent the first 10,000 flights")

# COMMAND ----------

# MAGIC %md
# MAGIC ## A view of the bodies
# MAGIC The body is a flight as JSON. A temporary view gives its fields names and types. It stays current because it reads
# MAGIC `live.messages`, which is always current.

# COMMAND ----------

FIELDS = """
  sequence BIGINT, year INT, month INT, day INT, hour INT, flight INT, origin STRING, dest STRING,
  sched_dep_time INT, dep_delay DOUBLE, arr_delay DOUBLE, distance DOUBLE
"""
spark.sql(
    f"""
    CREATE OR REPLACE TEMPORARY VIEW flights AS
    SELECT broker, position, queue_offset, store_time, tag AS carrier, keys[0] AS tail, flight.*
    FROM (SELECT *, from_json(body_text(body), '{FIELDS}') AS flight FROM live.messages WHERE topic = 'flights')
    """
)
print(spark.table("flights").count(), "flights")

# COMMAND ----------

# DBTITLE 1,Which carriers are late
# MAGIC %sql
# MAGIC SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS minutes_late, count_if(dep_delay IS NULL) AS cancelled
# MAGIC FROM flights GROUP BY carrier ORDER BY flights DESC

# COMMAND ----------

# MAGIC %md
# MAGIC ## Charts
# MAGIC Spark aggregates, matplotlib draws. Only the results leave Spark.

# COMMAND ----------

by_hour = spark.sql(
    """
    SELECT hour, avg(dep_delay) AS minutes, count(*) AS flights FROM flights
    WHERE dep_delay IS NOT NULL GROUP BY hour HAVING count(*) >= 20 ORDER BY hour
    """
).toPandas()
figure, (late, many) = plt.subplots(2, 1, sharex=True, figsize=(8, 5))
late.plot(by_hour["hour"], by_hour["minutes"], marker="o")
late.set_ylabel("minutes late")
late.set_title("Delay adds up over the day")
many.bar(by_hour["hour"], by_hour["flights"])
many.set(xlabel="hour of the scheduled departure", ylabel="flights", xticks=range(6, 24, 3))
plt.show()

# COMMAND ----------

by_origin = spark.sql(
    """
    SELECT origin, percentile(dep_delay, array(0.5, 0.9)) AS late FROM flights
    WHERE dep_delay IS NOT NULL GROUP BY origin ORDER BY origin
    """
).toPandas()
figure, axes = plt.subplots(figsize=(8, 3))
axes.barh(by_origin["origin"], by_origin["late"].str[1], label="nine of ten")
axes.barh(by_origin["origin"], by_origin["late"].str[0], label="half of them")
axes.set_xlabel("minutes late, at most")
axes.legend()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## One aircraft
# MAGIC `live.message_index` has a row for each key of each message. A lookup by key reads few of its files, and then only
# MAGIC those files of `live.messages` that contain the positions found.

# COMMAND ----------

tail = spark.sql(
    """
    SELECT tail FROM flights WHERE tail IS NOT NULL
    GROUP BY tail, month, day ORDER BY count(*) DESC, min(sequence) LIMIT 1
    """
).first()["tail"]
legs = spark.sql(
    f"""
    SELECT f.month, f.day, f.sched_dep_time, f.carrier, f.flight, f.origin, f.dest, f.dep_delay
    FROM live.message_index AS i JOIN flights AS f ON f.broker = i.broker AND f.position = i.position
    WHERE i.topic = 'flights' AND i.key = '{tail}'
    ORDER BY f.sequence
    """
)
print("the aircraft that flew most often on one day:", tail)
display(legs)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Delta and the log
# MAGIC `messages` has everything that the jobs have compacted; they do so every few seconds. `live.messages` adds the
# MAGIC messages that are only in the log. That is the only difference between the two counts.

# COMMAND ----------

# MAGIC %sql
# MAGIC SELECT 'messages' AS view, count(*) AS flights, max(position) AS last FROM messages WHERE topic = 'flights'
# MAGIC UNION ALL
# MAGIC SELECT 'live.messages', count(*), max(position) FROM live.messages WHERE topic = 'flights'

# COMMAND ----------

# MAGIC %md
# MAGIC ## Time travel
# MAGIC Each commit is a version of the table. You can read it until `vacuum` deletes its files, a day later at the earliest.
# MAGIC So you can repeat a report on the data of that time: by version, or by time with `TIMESTAMP AS OF`.

# COMMAND ----------

versions = spark.sql("DESCRIBE HISTORY messages LIMIT 5").select("version", "timestamp", "operation")
display(versions)
newest = versions.first()["version"]
counts = [
    spark.sql(f"SELECT count(*) AS messages FROM messages VERSION AS OF {version}").first()["messages"]
    for version in (max(newest - 1, 0), newest)
]
print("messages in the previous version, and in the newest:", counts)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: [3 · Dead letters](3_dead_letters.py).
