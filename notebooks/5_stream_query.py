# Databricks notebook source
# MAGIC %md
# MAGIC # 5 · Your own stream query
# MAGIC
# MAGIC Which page of our shop gets the most clicks right now? A Structured Streaming query reads clicks from one topic, keeps
# MAGIC a count for each page, and sends the counts to another topic, exactly once: a batch that runs again after a crash
# MAGIC sends nothing twice.

# COMMAND ----------

import json
import os
import random
import tempfile

import matplotlib.pyplot as plt
from pyspark.sql import functions as F

from lakemq.client import Producer

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

BROKER = os.environ.get("LAKEMQ_BROKER", "http://127.0.0.1:8080")
CHECKPOINT = os.environ.get("LAKEMQ_CHECKPOINT") or tempfile.mkdtemp()  # on Databricks: a folder of a volume
RUN = os.urandom(4).hex()
CLICKS, COUNTS = f"clicks-{RUN}", f"counts-{RUN}"

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

PAGES = ("home", "cart", "help", "search", "account")


def click(seed, count):
    """Send `count` clicks. The same seed clicks the same pages."""
    pages = random.Random(seed).choices(PAGES, weights=(8, 4, 1, 6, 2), k=count)
    with Producer() as producer:
        for page in pages:
            producer.send_async(CLICKS, json.dumps({"page": page}), tag=page, ordering_key=page)


click(seed=1, count=300)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The query
# MAGIC The state is the count of each page. In `complete` mode each batch outputs all counts. Each count becomes a message
# MAGIC with the page as its key. That suits a handful of keys. For many keys, count in time windows with a watermark on
# MAGIC `event_time`, and send each window in `append` mode when it has ended. (Spark has no `update` mode for Python sinks.)

# COMMAND ----------

clicks = (
    spark.readStream.format("lakemq")
    .option("broker", BROKER)
    .option("subscribe", CLICKS)
    .option("startingOffsets", "earliest")
    .load()
)
counts = (
    clicks.select(F.get_json_object(F.col("body").cast("string"), "$.page").alias("page"))
    .groupBy("page")
    .count()
    .select(
        F.to_json(F.struct("page", "count")).cast("binary").alias("body"),
        F.lit("count").alias("tag"),
        F.array("page").alias("keys"),
        F.col("page").alias("ordering_key"),
    )
)


def run_query():
    """Process everything that has arrived so far. The query continues where it stopped."""
    query = (
        counts.writeStream.format("lakemq")
        .option("broker", BROKER)
        .option("topic", COUNTS)
        .option("checkpointLocation", CHECKPOINT)
        .outputMode("complete")
        .trigger(availableNow=True)  # without the trigger, the query runs until you stop it
        .start()
    )
    query.awaitTermination()


run_query()

# COMMAND ----------

# MAGIC %md
# MAGIC ## More clicks
# MAGIC With the same checkpoint it is the same query, so it continues counting.

# COMMAND ----------

click(seed=2, count=200)
run_query()
run_query()  # nothing new: no batch, no message

# COMMAND ----------

# MAGIC %md
# MAGIC ## The counts in the topic
# MAGIC Each batch sent all counts, so the newest message of a page has its current count.

# COMMAND ----------

sent = spark.sql(
    f"""
    SELECT keys[0] AS page, max_by(count, position) AS clicks, count(*) AS times_sent
    FROM (SELECT *, CAST(get_json_object(body_text(body), '$.count') AS BIGINT) AS count
          FROM live.messages WHERE topic = '{COUNTS}')
    GROUP BY page ORDER BY page
    """
)
display(sent)

# COMMAND ----------

asked = spark.sql(f"SELECT tag AS page, count(*) AS clicks FROM live.messages WHERE topic = '{CLICKS}' GROUP BY tag")
counted = {row["page"]: row["clicks"] for row in sent.collect()}
print("same counts in SQL:", counted == {row["page"]: row["clicks"] for row in asked.collect()})
print("all clicks:", sum(counted.values()))

figure, axes = plt.subplots(figsize=(8, 3))
axes.bar(list(counted), list(counted.values()))
axes.set(ylabel="clicks", title="Counted by the stream query")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Your own batch
# MAGIC You can send any DataFrame. Here we send one message for each page with few clicks.

# COMMAND ----------

(
    sent.where("clicks < 60")
    .select(
        F.concat(F.lit("few clicks: "), "page").cast("binary").alias("body"),
        F.lit("few").alias("tag"),
        F.array("page").alias("keys"),
    )
    .write.format("lakemq")
    .option("broker", BROKER)
    .option("topic", COUNTS)
    .mode("append")
    .save()
)
display(
    spark.sql(
        f"SELECT body_text(body) AS body FROM live.messages WHERE topic = '{COUNTS}' AND tag = 'few' ORDER BY body"
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: [6 · Operating](6_operating.py).
