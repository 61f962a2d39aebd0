# Databricks notebook source
# MAGIC %md
# MAGIC # 6 · Operating
# MAGIC
# MAGIC Everybody who runs a broker has three questions: how much is coming in, how far behind are the consumers, and are the
# MAGIC tables in good shape? The page sends some work first, so that an idle broker has something to show.

# COMMAND ----------

import os
import time

import matplotlib.pyplot as plt
import pandas as pd

from lakemq.client import Producer, PullConsumer
from lakemq.client.http import HttpClient

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

BROKER = os.environ.get("LAKEMQ_BROKER", "http://127.0.0.1:8080")

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

with Producer() as producer, PullConsumer("operators", consume_from="first") as consumer:
    consumer.subscribe("work")
    for part in range(3):
        producer.send_batch("work", [f"{part}: {number}" for number in range(100)])
        found = 0
        deadline = time.monotonic() + 30
        while found < 60 and time.monotonic() < deadline:  # a consumer that doesn't quite keep up
            found += len(consumer.poll(max_messages=20, wait_s=1))
        consumer.commit()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Current lag
# MAGIC The broker knows the exact lag of each group: how many messages it is behind the end of its queues.

# COMMAND ----------

with HttpClient(BROKER) as broker:
    groups = [broker.group(each["group"]) for each in broker.groups()]
    log = broker.broker()
lag = pd.DataFrame(
    [
        {"group": group["group"], "topic": queue["topic"], "queue": queue["queue_id"], "behind": queue["lag"]}
        for group in groups
        for queue in group["lag"]
    ]
)
display(lag.groupby(["group", "topic"])["behind"].sum().reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Lag at any time
# MAGIC Every commit of offsets is a message too, so `live.consumer_offsets` has what each group had consumed at any time.

# COMMAND ----------

# DBTITLE 1,Progress of each group
# MAGIC %sql
# MAGIC SELECT group, topic, count(*) AS commits, min(committed_at) AS first, max(committed_at) AS last
# MAGIC FROM live.consumer_offsets GROUP BY group, topic ORDER BY group, topic

# COMMAND ----------

moved = spark.sql(
    """
    SELECT committed_at AS at, queue_id, offset FROM live.consumer_offsets
    WHERE group = 'operators' AND topic = 'work' ORDER BY position, queue_id
    """
).toPandas()
consumed = (
    moved.pivot_table(index="at", columns="queue_id", values="offset", aggfunc="last").ffill().fillna(0).sum(axis=1)
)
stored = spark.sql("SELECT store_time AS at FROM live.messages WHERE topic = 'work' ORDER BY position").toPandas()
figure, axes = plt.subplots(figsize=(8, 3))
axes.step(stored["at"], range(1, len(stored) + 1), where="post", label="stored")
axes.step(consumed.index, consumed.values, where="post", label="consumed by operators")
axes.set(ylabel="messages", title="Lag is the distance between the two")
axes.legend()
figure.autofmt_xdate()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Throughput

# COMMAND ----------

# DBTITLE 1,The last hour, by minute
per_minute = spark.sql(
    """
    SELECT date_trunc('MINUTE', store_time) AS minute, count(*) AS messages, sum(length(body)) AS bytes
    FROM live.messages
    WHERE store_time > current_timestamp() - INTERVAL 1 HOUR
    GROUP BY minute ORDER BY minute
    """
).toPandas()
figure, axes = plt.subplots(figsize=(8, 3))
axes.bar(per_minute["minute"], per_minute["messages"] / 60, width=pd.Timedelta(seconds=45))
axes.set(ylabel="messages/s", title="Throughput of the last hour")
figure.autofmt_xdate()
plt.show()

# COMMAND ----------

# DBTITLE 1,The busiest topics
# MAGIC %sql
# MAGIC SELECT topic, count(*) AS messages, sum(length(body)) AS bytes, max(store_time) AS newest
# MAGIC FROM live.messages WHERE store_time > current_timestamp() - INTERVAL 1 DAY
# MAGIC GROUP BY topic ORDER BY bytes DESC LIMIT 10

# COMMAND ----------

# MAGIC %md
# MAGIC ## Table health
# MAGIC Many small files make queries slow. The lake query merges them as it writes, and `optimize` merges the rest at night
# MAGIC (`lakemq maintenance list`).

# COMMAND ----------

TABLES = ("messages", "consume_queue", "message_index", "scheduled", "transactions")
health = []
for name in TABLES:
    detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
    newest = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    health.append(
        {
            "table": name,
            "files": detail["numFiles"],
            "MiB": detail["sizeInBytes"] / 2**20,
            "MiB/file": detail["sizeInBytes"] / 2**20 / max(detail["numFiles"], 1),
            "version": newest["version"],
            "changed": newest["timestamp"],
            "by": newest["operation"],
        }
    )
display(pd.DataFrame(health))

# COMMAND ----------

# MAGIC %md
# MAGIC ## How far the lake is behind the log

# COMMAND ----------

end = log["positions"]["max_position"]
held = spark.sql(f"SELECT max(position) + 1 AS held FROM messages WHERE broker = '{log['name']}'").first()["held"] or 0
print(
    f"the log of {log['name']} ends at position {end:,}; the broker deletes nothing from position {log['positions']['compacted_position']:,} on"
)
print(f"not in Delta yet: {max(end - held, 0):,} messages; live.messages includes them")

# COMMAND ----------

# DBTITLE 1,Maintenance runs of the tables
if spark.catalog.tableExists("maintenance_runs"):
    display(spark.sql("SELECT * FROM maintenance_runs ORDER BY started_at DESC LIMIT 20"))
else:
    print("no maintenance has run on this lake yet")
