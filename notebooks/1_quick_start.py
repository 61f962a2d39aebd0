# Databricks notebook source
# MAGIC %md
# MAGIC # 1 · Quick start
# MAGIC
# MAGIC Send messages, receive them, and ask all that were ever sent with SQL, within a second of sending them.
# MAGIC
# MAGIC It needs a broker and its jobs: `lakemq up` in another terminal. Then `lakemq notebook run notebooks/1_quick_start.py`
# MAGIC writes this page with its outputs; `python notebooks/1_quick_start.py` prints them.

# COMMAND ----------

import json
from threading import Event

from lakemq.client import Producer, PushConsumer

try:
    spark
except NameError:  # in a Python that neither Databricks nor `lakemq notebook run` has started
    from lakemq.jobs.notebook import display, spark

# COMMAND ----------

# MAGIC %md
# MAGIC ## Send
# MAGIC A topic is made by its first message. The broker is where the environment's `LAKEMQ_BROKER` says,
# MAGIC or else at `http://127.0.0.1:8080`. Messages with one ordering key stay in order.

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
# MAGIC Every member of the group gets a share of the messages; what a listener returned from is done.

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
    print("all of them came:", done.wait(60))
print("anna's in their order:", [amount for customer, amount in received if customer == "anna"][-2:])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Ask
# MAGIC `live.messages` has every message once: the history in Delta and the end of the log in one. A body is binary;
# MAGIC `body_text` and `body_json` read it.

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

# MAGIC %md
# MAGIC ## By its id
# MAGIC An id says where the message is, so SQL needs no index to find it.

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
