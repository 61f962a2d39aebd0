# Databricks notebook source
# MAGIC %md
# MAGIC # 1 · Quick start
# MAGIC
# MAGIC Anna and Bert order from a small shop. Each order is a message: it is sent, received by the shop's till, and counted
# MAGIC with SQL a second later.
# MAGIC
# MAGIC You need a broker and its jobs: run `lakemq up` in another terminal. `lakemq notebook run notebooks/1_quick_start.py`
# MAGIC then writes this page with its outputs, and `python notebooks/1_quick_start.py` prints them.

# COMMAND ----------

import json
from threading import Event

import matplotlib.pyplot as plt

from lakemq.client import Producer, PushConsumer

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"})

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send
# MAGIC The first message creates the topic. `LAKEMQ_BROKER` in the environment is the broker's address; the default is
# MAGIC `http://127.0.0.1:8080`. Messages with the same ordering key stay in order.

# COMMAND ----------

orders = [
    {"customer": "anna", "item": "book", "amount": 20.0},
    {"customer": "bert", "item": "lamp", "amount": 75.5},
    {"customer": "anna", "item": "desk", "amount": 310.0},
]

with Producer() as producer:
    receipts = [
        producer.send(
            "quick_start",
            json.dumps(order),
            tag="paid",
            keys=[order["customer"]],
            properties={"item": order["item"]},
            ordering_key=order["customer"],
        )
        for order in orders
    ]
for receipt in receipts:
    print(f"queue {receipt.queue_id}, offset {receipt.queue_offset}: {receipt.message_id}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Receive
# MAGIC Each member of the group gets a share of the messages. A message is consumed when the listener returns.

# COMMAND ----------

wanted = {receipt.message_id for receipt in receipts}
received = []
done = Event()


def listen(message):
    received.append((message.keys[0], message.json()["amount"]))
    wanted.discard(message.message_id)
    if not wanted:
        done.set()


with PushConsumer("quick-start", listen, consume_from="first") as consumer:
    consumer.subscribe("quick_start", tags="paid")
    print("all received:", done.wait(60))
print("anna's orders, in order:", [amount for customer, amount in received if customer == "anna"][-2:])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Query
# MAGIC `live.messages` has every message once: it combines the history in Delta with the end of the log. A body is binary;
# MAGIC `body_text` and `body_json` decode it.

# COMMAND ----------

# DBTITLE 1,The newest messages
# MAGIC %sql
# MAGIC SELECT queue_id, queue_offset, tag, keys, body_text(body) AS body, store_time
# MAGIC FROM live.messages
# MAGIC WHERE topic = 'quick_start'
# MAGIC ORDER BY store_time DESC, position DESC
# MAGIC LIMIT 5

# COMMAND ----------

# DBTITLE 1,Who spent how much
spent = spark.sql(
    """
    SELECT customer, count(*) AS orders, sum(amount) AS amount
    FROM (
      SELECT variant_get(body_json(body), '$.customer', 'string') AS customer,
             variant_get(body_json(body), '$.amount', 'double') AS amount
      FROM live.messages WHERE topic = 'quick_start'
    )
    GROUP BY customer ORDER BY customer
    """
)
display(spent)

# COMMAND ----------

totals = spent.toPandas()
figure, axes = plt.subplots(figsize=(8, 2))
axes.barh(totals["customer"], totals["amount"], color="tab:blue")
axes.bar_label(axes.containers[0], fmt="%.2f", padding=4)
axes.set(title="What each customer spent, from the messages alone")
axes.margins(x=0.15)
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Find a message by its id
# MAGIC An id contains the position of its message, so SQL finds the message without an index.

# COMMAND ----------

one = receipts[0].message_id
display(
    spark.sql(
        f"""
        SELECT message_id, body_text(body) AS body FROM live.messages
        WHERE broker = broker_of('{one}') AND position = position_of('{one}')
        """
    )
)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: [2 · Exploring history](2_exploring_history.py).
