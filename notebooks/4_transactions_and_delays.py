# Databricks notebook source
# MAGIC %md
# MAGIC # 4 · Transactions and delays as tables
# MAGIC
# MAGIC Twenty reminders are due within two seconds: does any of them arrive too early? Anna sends three transfers and can pay
# MAGIC for two: what does her bank see? The table `scheduled` has every delayed message and its outcome, and `transactions`
# MAGIC has each event of each transaction.

# COMMAND ----------

import os
import time

import matplotlib.pyplot as plt

from lakemq.client import Producer, Resolution, TransactionListener, TransactionProducer
from lakemq.client.http import HttpClient

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

BROKER = os.environ.get("LAKEMQ_BROKER", "http://127.0.0.1:8080")

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

# MAGIC %md
# MAGIC ## Delays
# MAGIC We schedule twenty reminders within two seconds, one in an hour, and another one in an hour, which we recall.

# COMMAND ----------

with Producer() as producer:
    soon = [
        producer.send("reminders", f"in {number * 100} ms", tag="soon", delay=number / 10).message_id
        for number in range(1, 21)
    ]
    waits = producer.send("reminders", "in an hour", tag="later", delay=3600).message_id
    recalled = producer.send("reminders", "never", tag="later", delay=3600).message_id
with HttpClient(BROKER) as broker:
    broker.recall(recalled)
mine = spark.createDataFrame([(each,) for each in [*soon, waits, recalled]], "message_id STRING")

# COMMAND ----------

# MAGIC %md
# MAGIC The table catches up within the compaction interval. A row changes once, when its message is delivered or recalled.

# COMMAND ----------

reminders = spark.table("scheduled").where("topic = 'reminders'").join(mine, "message_id")
deadline = time.monotonic() + 120
while reminders.where("state <> 'waiting'").count() < len(soon) + 1 and time.monotonic() < deadline:
    time.sleep(1)
display(reminders.groupBy("tag", "state").count().orderBy("tag", "state"))

# COMMAND ----------

# DBTITLE 1,How late were they?
lateness = (
    reminders.where("state = 'delivered'")
    .selectExpr(
        "unix_millis(due) - unix_millis(scheduled_at) AS delay_ms",
        "unix_millis(ended_at) - unix_millis(due) AS late_ms",
    )
    .orderBy("delay_ms")
    .toPandas()
)
figure, axes = plt.subplots(figsize=(8, 3))
axes.scatter(lateness["delay_ms"], lateness["late_ms"])
axes.set(xlabel="delay, ms", ylabel="late, ms", title="How late each reminder was: never early")
plt.show()
print("never early:", bool((lateness["late_ms"] >= 0).all()))

# COMMAND ----------

# DBTITLE 1,Waiting messages by hour
# MAGIC %sql
# MAGIC SELECT topic, tag, date_trunc('HOUR', due) AS hour, count(*) AS messages
# MAGIC FROM scheduled WHERE state = 'waiting' GROUP BY topic, tag, hour ORDER BY hour

# COMMAND ----------

# MAGIC %md
# MAGIC ## Transactions
# MAGIC Either both the transfer and its message happen, or neither does. Anna has enough money for two of the three.

# COMMAND ----------

accounts = {"anna": 100.0}


class Transfers(TransactionListener):
    def execute_local_transaction(self, message, transaction_id, argument):
        if accounts["anna"] < argument:
            return Resolution.ROLLBACK
        accounts["anna"] -= argument
        return Resolution.COMMIT

    def check_local_transaction(self, message):  # called if a producer died in between
        return Resolution.ROLLBACK


with TransactionProducer("transfers", Transfers()) as producer:
    results = [
        producer.send_in_transaction("transfers", f"{amount} from anna", keys=["anna"], argument=amount)
        for amount in (30.0, 90.0, 50.0)
    ]
print([result.resolution.value for result in results], accounts)

# COMMAND ----------

# SQL names a transaction by its message's id: only its producer knows the id that commits it.
ids = spark.createDataFrame([(result.message_id,) for result in results], "transaction_id STRING")
events = spark.table("transactions").join(ids, "transaction_id")
deadline = time.monotonic() + 120
while events.where("state IN ('committed', 'rolled_back')").count() < len(results) and time.monotonic() < deadline:
    time.sleep(1)
display(events.select("transaction_id", "event", "by", "state", "event_time", "message_id").orderBy("position"))

# COMMAND ----------

# MAGIC %md
# MAGIC Only the committed transfers are in the topic.

# COMMAND ----------

display(
    spark.table("live.messages")
    .where("topic = 'transfers'")
    .selectExpr("body", "half_of(transaction_id) AS transaction_id")
    .join(ids, "transaction_id")
    .selectExpr("body_text(body) AS body", "transaction_id")
    .orderBy("body")
)

# COMMAND ----------

# DBTITLE 1,Open transactions
# MAGIC %sql
# MAGIC SELECT producer_group, topic, count(*) AS open, min(since) AS oldest FROM (
# MAGIC   SELECT transaction_id, min_by(producer_group, position) AS producer_group, min_by(topic, position) AS topic,
# MAGIC          min(event_time) AS since, max_by(state, position) AS state
# MAGIC   FROM transactions WHERE state IS NOT NULL GROUP BY transaction_id
# MAGIC ) WHERE state IN ('half', 'checked') GROUP BY producer_group, topic

# COMMAND ----------

# MAGIC %md
# MAGIC Next: [5 · Your own stream query](5_stream_query.py).
