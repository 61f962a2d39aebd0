"""The search for what an erasure is about: what its condition finds, and the copies and originals of that."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.maintenance.places import IN_LIST_MAX, PLACES, pc, united
from lakemq.jobs.maintenance.rebuild import is_below
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.model.errors import LakemqError
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.model.names import CHECK_MAX_TOPIC, HALF_TOPIC, NACK_TOPIC, REPLY_TOPIC
from lakemq.model.spark_sql import literal

MESSAGES_MAX = 1_000_000
"""At most so many at a time: their positions and ids are held in memory."""

_BROADCAST_MAX = 100_000
_FOUND = (*PLACES.names, "links")
_IDS = (
    "message_id",
    "origin_message_id",
    "transaction_id",
    # The cause of what was scheduled, or was delivered of that, is of that one message; another cause may have had
    # many effects.
    "CASE WHEN cause IS NOT NULL AND deliver_at IS NOT NULL THEN concat_ws('.', broker, CAST(cause AS STRING)) END",
)
"""The ids that a message shares with its copies and its originals."""
_LINKS = f"array_sort(array_distinct(array_compact(array({', '.join(_IDS)}))))"
# Nacks may say why: an error's text may hold what was in its message. The gateway needs a nack no more once it is
# decided, and drops one that is erased before. Other control traffic says what became of messages; without it the
# broker would do things again.
_SAYS_WHY = " OR ".join(
    f"element_at(properties, {literal(name)}) IS NOT NULL" for name in (FAILURE_CLASS, FAILURE_TEXT)
)
_OF_USERS = ", ".join(map(literal, (HALF_TOPIC, CHECK_MAX_TOPIC, REPLY_TOPIC)))
"""Internal topics that hold users' messages."""
_MAY_GO = (
    f"NOT startswith(topic, 'RMQ_SYS_') OR topic IN ({_OF_USERS}) OR topic = {literal(NACK_TOPIC)} AND ({_SAYS_WHY})"
)


class Search:
    """`found`: `broker`, `position` and `topic` of all that is to go, in the order of the log."""

    def __init__(self, work: Work, where: str) -> None:
        self._work, self._where = work, where
        self.found = PLACES.empty_table()
        self._asked = pa.array([], pa.string())
        self._seen: dict[str, int] = {}

    def look(self, ends: dict[str, int]) -> None:
        """Finds what the condition does below these ends, and the copies and originals of that, however long a chain
        they make. The tables must hold all below the ends. Raises `InvalidStatement` for a condition that Spark can't
        understand, and `LakemqError` for too many messages."""
        messages, self._seen = self._below(ends), ends
        # A nack is looked for by its message alone: what it is about may not be what the condition means.
        self._follow(messages, _matching(messages.where(F.col("topic") != NACK_TOPIC), self._where))

    def look_on(self, ends: dict[str, int]) -> None:
        """Finds what has become meanwhile of what was found: it is in what came since the last look, and what leads on
        from there may be anywhere."""
        messages = self._below(ends)
        came, self._seen = messages.where(~is_below(self._seen)), ends
        self._follow(messages, self._linked_by(came, self._asked))

    def _below(self, ends: dict[str, int]) -> DataFrame:
        return self._work.rows(MESSAGES).where(is_below(ends) & F.expr(_MAY_GO))

    def _follow(self, messages: DataFrame, rows: DataFrame) -> None:
        """Takes these rows, and all that their links lead to."""
        while True:
            taken = rows.limit(MESSAGES_MAX + 1).toArrow()
            self.found = united(self.found, taken)
            if self.found.num_rows > MESSAGES_MAX:
                raise LakemqError(f"more than {MESSAGES_MAX} messages at a time: narrow the condition")
            ids = pc.list_flatten(taken["links"]).unique().cast(pa.string())
            new = ids.filter(pc.invert(pc.is_in(ids, value_set=self._asked)))
            if not len(new):
                return
            self._asked = pa.concat_arrays([self._asked, new])
            self._work.check()
            rows = self._linked_by(messages, new)

    def _linked_by(self, messages: DataFrame, ids: pa.Array) -> DataFrame:
        """Those that have one of these ids among their links."""
        if len(ids) <= IN_LIST_MAX:  # that takes no shuffle
            listed = ", ".join(map(literal, ids.to_pylist()))
            condition = " OR ".join(f"{each} IN ({listed})" for each in _IDS) if listed else "false"
            return _linked(messages.where(condition))
        asked = self._work.session.createDataFrame(pa.table({"link": ids}))
        if len(ids) <= _BROADCAST_MAX:  # Spark doesn't know how few they are
            asked = F.broadcast(asked)
        each = _linked(messages).select("*", F.explode("links").alias("link"))
        return each.join(asked, "link", "left_semi").select(*_FOUND).distinct()


def _matching(messages: DataFrame, where: str) -> DataFrame:
    keyed = messages.withColumn("key", F.explode_outer(F.array_distinct("keys")))
    try:
        return _linked(keyed.where(F.expr(where))).distinct()
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InvalidStatement(lines[0] if lines else type(error).__name__) from None


def _linked(messages: DataFrame) -> DataFrame:
    return messages.selectExpr(*PLACES.names, f"{_LINKS} AS links")
