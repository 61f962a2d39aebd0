# Databricks notebook source
# MAGIC %md
# MAGIC # 3 · Dead letters
# MAGIC
# MAGIC A message that a consumer can't process is delivered again, after longer and longer waits. After 16 retries it
# MAGIC becomes a dead letter.
# MAGIC
# MAGIC Here a bookkeeper can't read some invoices and gives up on them at once. We look at these dead letters, find the
# MAGIC reason, fix the consumer, and redrive the invoices that it can now read.

# COMMAND ----------

import json
import os
import time
from threading import Event

import matplotlib.pyplot as plt

from lakemq.client import ConsumeLater, Producer, PushConsumer
from lakemq.client.http import HttpClient

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

BROKER = os.environ.get("LAKEMQ_BROKER", "http://127.0.0.1:8080")
GROUP = "bookkeeping"

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

# MAGIC %md
# MAGIC ## Twelve invoices
# MAGIC Some have an amount in a format that the bookkeeper doesn't know.

# COMMAND ----------

amounts = ["20.00", "7,50", "310.00", "1,20", "none", "5.00", "64.10", "8,99", "12.00", "void", "3.30", "41.00"]
with Producer() as producer:
    for number, amount in enumerate(amounts):
        country = "BE" if "," in amount else "GB"
        invoice = {"invoice": number, "amount": amount}
        producer.send("invoices", json.dumps(invoice), tag=country, keys=[f"invoice-{number}"])

# COMMAND ----------

booked = []
seen = []
all_seen = Event()


def book(message):
    invoice = message.json()
    seen.append(invoice["invoice"])
    try:
        booked.append(float(invoice["amount"]))
    except ValueError as error:
        raise ConsumeLater(level=-1) from error  # retrying won't help: a dead letter at once, with the reason
    finally:
        if len(seen) == len(amounts):
            all_seen.set()


with PushConsumer(GROUP, book, consume_from="first") as consumer:
    consumer.subscribe("invoices")
    print("all received:", all_seen.wait(60))
print(f"booked {len(booked)} of {len(seen)}, {sum(booked):.2f} in total")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Look at the dead letters
# MAGIC `live.dead_letters` has the dead letters of all groups; `real_topic` is the topic that they come from.

# COMMAND ----------

# DBTITLE 1,How many each group has
# MAGIC %sql
# MAGIC SELECT topic, real_topic, tag, count(*) AS messages, max(store_time) AS newest
# MAGIC FROM live.dead_letters GROUP BY topic, real_topic, tag ORDER BY topic, tag

# COMMAND ----------

letters = spark.sql(
    f"""
    SELECT keys[0] AS key, tag, failure_class, failure_text, body_text(body) AS body
    FROM live.dead_letters WHERE topic = '%DLQ%{GROUP}' ORDER BY key
    """
)
deadline = time.monotonic() + 60
while letters.count() < 5 and time.monotonic() < deadline:  # the broker moves them once they are nacked
    time.sleep(0.5)
display(letters)

# COMMAND ----------

# MAGIC %md
# MAGIC Belgian invoices have a comma in the amount. We can fix that. Two invoices have no amount, and stay dead letters.
# MAGIC
# MAGIC ## Redrive the Belgian invoices
# MAGIC A redrive sends the dead letters that match a predicate to their group again, each exactly once. A dry run only counts
# MAGIC them.

# COMMAND ----------

CAN_BE_MENDED = "real_topic = 'invoices' AND tag = 'BE'"
with HttpClient(BROKER) as broker:
    print("match:", broker.redrive(GROUP, CAN_BE_MENDED, dry_run=True).matched)
    redrive = broker.redrive(GROUP, CAN_BE_MENDED, rate_per_s=100)
    while (progress := broker.redrive_progress(redrive.redrive_id))["state"] == "running":
        time.sleep(0.1)
print("redriven:", progress["redriven"], "failed:", progress["failed"])

# COMMAND ----------

mended = []
all_mended = Event()


def book_with_commas(message):
    mended.append(float(message.json()["amount"].replace(",", ".")))
    if len(mended) == redrive.matched:
        all_mended.set()


with PushConsumer(GROUP, book_with_commas, consume_from="first") as consumer:
    consumer.subscribe("invoices")
    print("all received:", all_mended.wait(60))
print(f"booked {len(mended)} more, {sum(mended):.2f} in total")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is left
# MAGIC A redrive makes a copy. The dead letter itself stays in the history, and its `state` says whether it was redriven.

# COMMAND ----------

left = spark.sql(
    f"""
    SELECT keys[0] AS key, body_text(body) AS body
    FROM live.dead_letters WHERE topic = '%DLQ%{GROUP}' AND state = 'open' ORDER BY key
    """
)
display(left)

# COMMAND ----------

outcomes = {"booked at once": len(booked), "redriven, then booked": len(mended), "still dead letters": left.count()}
figure, axes = plt.subplots(figsize=(8, 2))
axes.barh(list(outcomes), list(outcomes.values()), color=["tab:green", "tab:orange", "tab:red"])
axes.bar_label(axes.containers[0], padding=4)
axes.invert_yaxis()
axes.set(title="The outcome of twelve invoices")
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC The same in a terminal: `lakemq group redrive bookkeeping --where "real_topic = 'invoices' AND tag = 'BE'" --dry-run`.
# MAGIC
# MAGIC Next: [4 · Transactions and delays](4_transactions_and_delays.py).
