"""Offsets that are lacking within a queue, and that no hole of the log explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

_QUEUE = ("topic", "queue_id")
QUEUES_MAX = 1000


def gaps_of(
    consume_queue: DataFrame, count_holes: Callable[[int, int], int], gaps_max: int
) -> Iterator[dict[str, Any]]:
    """The gaps of one broker's queues, at most `gaps_max`. `count_holes`: how many positions between two others hold
    no message, by the log and by the table.

    A queue's offsets grow by one with each message, whatever becomes of its topic. So what is
    between two neighbours in the queue was between their positions in the log; as many holes there
    as offsets are lacking explain them.
    """
    counted = consume_queue.groupBy(*_QUEUE).agg(
        F.count("*").alias("rows"), (F.max("queue_offset") - F.min("queue_offset") + 1).alias("due")
    )
    suspects = counted.where("rows != due").select(*_QUEUE).limit(QUEUES_MAX)
    if suspects.isEmpty():
        return
    order = Window.partitionBy(*_QUEUE).orderBy("queue_offset")
    rows = consume_queue.join(F.broadcast(suspects), list(_QUEUE), "left_semi").select(
        *_QUEUE,
        F.lag("queue_offset").over(order).alias("after_offset"),
        F.lag("position").over(order).alias("after_position"),
        F.col("queue_offset").alias("before_offset"),
        F.col("position").alias("before_position"),
    )
    found = 0
    for row in rows.where("before_offset - after_offset > 1").toLocalIterator():
        gap: dict[str, Any] = row.asDict()
        lacking = gap["before_offset"] - gap["after_offset"] - 1
        if count_holes(gap["after_position"], gap["before_position"]) < lacking:
            yield gap | {"missing": lacking}
            found += 1
            if found >= gaps_max:
                return
