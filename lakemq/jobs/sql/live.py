"""The views `live.…`: a table's history and the log's tail in one, without a gap or a duplicate.

A version of a Delta table holds just the log below certain positions, for ever. So a plan of that
version and of the log from these positions on has each message once, whatever is compacted,
clustered or committed meanwhile; only how much is read from the log changes, until the plan is
replaced by one of a newer version. Where the log ends is asked when a query runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Lock, Timer

import pyarrow as pa
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.session.discovery import Server, announce
from lakemq.jobs.source.data_source import read_partition
from lakemq.jobs.source.log_range import read_range
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition, split
from lakemq.jobs.sql.catalog import lacks_tables, put_live_view, register_catalog, register_live_views
from lakemq.jobs.sql.topic_tables import TopicTables
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.model.schema import SchemaVersion
from lakemq.storage.lake.delta_log import is_made
from lakemq.storage.lake.progress import Progress, read_progress
from lakemq.storage.log.dropped import covers

LIVE_TABLES = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)

FOLLOW_S = 15.0
FOLLOW_MESSAGES = 20_000
"""A plan costs more than to read a little more of the log: so long, or by so many messages, a view may be behind."""

_PARTITIONS = 4
_RETRY_S = 5
_LOOK_RETRY_S = 1.0
_TO_THE_END = 2**62
_UNKNOWN = ""
"""The name of a broker that has not answered yet, so that nothing is known of its log."""

logger = logging.getLogger(__name__)


class LiveViews:
    """The catalog and the live views of a session's JVM.

    `brokers`: says the addresses of gateways, with commas, as jobs are given them. `server`: is announced in
    the lake's folder once the views are there.
    """

    def __init__(
        self, session: SparkSession, lake: Path, brokers: Callable[[], str], server: Server | None = None
    ) -> None:
        self._server = server
        self._session = session
        self._lake = lake
        self._brokers = brokers
        self._options = SourceOptions(brokers=("",), retry_s=_RETRY_S)
        self._addresses: dict[str, str] = {}
        self._known: dict[str, tuple[int, int]] = {}
        self._unreached: list[str] = []
        self._versions: dict[str, int] = {}
        self._lock = Lock()
        self._newest: Mapping[str, Progress] = {}
        self._seen_s = 0.0
        self._seen_messages = 0
        self._later: Timer | None = None
        # One for all times: Py4J keeps a connection, and Java a thread, for each thread that ever asked.
        self._thread = ThreadPoolExecutor(1, "views")
        self._topics = TopicTables(session, brokers)
        self.on_schemas: Callable[[], None] | None = None
        """Is called when the schemas of topics may have changed."""

    def register(self) -> None:
        """Makes the catalog anew, and all views over what the tables hold now.

        Raises `BrokerUnavailable` when no broker answers. While one does not, a query of the views fails: what
        it has and the tables lack can't be read.
        """
        register_catalog(self._session, self._lake)
        with self._lock:
            self._versions.clear()
        self.refresh()
        self._register_views()
        self.refresh_topics()
        if self._server is not None:
            announce(self._lake, self._server)

    def renew(self) -> None:
        """Takes in tables that are new, such as those of maintenance, and replaces the views."""
        register_catalog(self._session, self._lake)
        self.refresh()
        self._register_views()

    def refresh(self, progress: Mapping[str, Progress] | None = None) -> None:
        """Replaces the views of the tables by ones of their present versions.

        `progress`: what a version of each table, by name, holds; None: of all, as the tables say.
        To be called before files of an older version are deleted. Threads take turns, and a view never goes back to
        an older version.
        """
        with self._lock:
            if progress is None:
                there = [table for table in LIVE_TABLES if is_made(table.path(self._lake))]
                progress = {table.name: read_progress(table.path(self._lake)) for table in there}
            ends = self._ends() if progress else {}
            for table in LIVE_TABLES:
                found = progress.get(table.name)
                if found is not None and found.version > self._versions.get(table.name, -1):
                    self._replace(table, found, ends)
                    self._versions[table.name] = found.version
                    if table is MESSAGES:
                        self._topics.refresh(replaced=True)
            if lacks_tables(self._session, self._lake):
                register_catalog(self._session, self._lake)
            # A client's `.cache()` of a table is every session's, and would stay as it was for ever.
            self._session.catalog.clearCache()

    def refresh_topics(self) -> None:
        """Makes the tables of topics whose schemas have changed."""
        if MESSAGES.name in self._versions:
            self._topics.refresh()
        on_schemas = self.on_schemas
        if on_schemas is not None:
            on_schemas()

    def kept_topics(self) -> dict[str, tuple[SchemaVersion, ...]]:
        """The topics of which the jobs are to keep a Delta table, with their schemas."""
        return self._topics.kept()

    def tables_made(self) -> None:
        """Takes in tables that are new, as `renew` does, and leaves the views."""
        with self._lock:
            register_catalog(self._session, self._lake)

    def schemas_changed(self) -> None:
        """`refresh_topics`, by and by, in a thread of its own."""
        self._thread.submit(self._refresh_topics_later)

    def follow(self, progress: Mapping[str, Progress]) -> None:
        """To be called after each commit: `refresh`, but not for each. In `FOLLOW_S` at the latest the views are
        there; meanwhile they read more of the log, which keeps for longer what is in the lake
        (`storage.compacted_grace_ms`)."""
        messages = sum(sum(each.held.values()) for each in progress.values())
        self._newest = progress
        if time.monotonic() - self._seen_s > FOLLOW_S or messages - self._seen_messages > FOLLOW_MESSAGES * len(
            progress
        ):
            self._seen_messages = messages
            self._cancel()
            self._follow()
        elif self._later is None:
            self._later = Timer(FOLLOW_S, self._thread.submit, (self._follow_later,))
            self._later.daemon = True
            self._later.start()

    def stop_following(self) -> None:
        """The views stay as they are. Waits for a refresh that is under way."""
        self._cancel()
        with self._lock:
            self._newest = {}

    def _cancel(self) -> None:
        later, self._later = self._later, None
        if later is not None:
            later.cancel()

    def _follow_later(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 (nobody else would hear of it; the next commit tries again)
            logger.warning("the live views don't follow: %s", error)

    def _refresh_topics_later(self) -> None:
        try:
            self.refresh_topics()
        except Exception as error:  # noqa: BLE001 (nobody else would hear of it)
            logger.warning("the tables of topics don't follow their schemas: %s", error)

    def _follow(self) -> None:
        """The views of an older version have every message too, so it can wait for a broker that is away."""
        self._seen_s, self._later = time.monotonic(), None
        try:
            self.refresh(self._newest)
        except BrokerUnavailable as error:
            logger.warning("%s", error.detail)

    def _register_views(self) -> None:
        if is_made(MESSAGES.path(self._lake)):
            register_live_views(self._session)

    def _ends(self) -> dict[str, tuple[int, int]]:
        """Where each broker's log begins and ends now; of one that is away, as it was when it last answered. One that
        has left, or is elsewhere, has no end here any more."""
        away: dict[str, BrokerUnavailable] = {}
        addresses = self._brokers().split(",")
        for broker in [each for each, address in self._addresses.items() if address not in addresses]:
            del self._addresses[broker], self._known[broker]
        for address in addresses:
            client = LogClient(address, _LOOK_RETRY_S)
            try:
                end = client.end()
            except BrokerUnavailable as error:
                away[address] = error
                continue
            finally:
                client.close()
            self._addresses[end.broker] = address
            self._known[end.broker] = end.begin_position, end.end_position
        if len(away) == len(addresses):
            raise next(iter(away.values()))
        self._unreached = [address for address in away if address not in self._addresses.values()]
        return dict(self._known)

    def _replace(self, table: LakeTable, progress: Progress, ends: Mapping[str, tuple[int, int]]) -> None:
        reader = self._session.read.format("delta").option("versionAsOf", progress.version)
        history = reader.load(str(table.path(self._lake)))
        partitions = [
            LogPartition(broker, self._addresses[broker], low, high, 0, {}, {}, log_id=progress.log_id(broker))
            for broker, (begin, end) in ends.items()
            for low, high in _parts(self._tail_begin(broker, progress.held.get(broker, begin), begin), end)
        ]
        partitions += [LogPartition(_UNKNOWN, address, 0, 0, 0, {}, {}) for address in self._unreached]
        tail = table.rows(read_range(self._session, partitions, table.log_columns, self._options, _read_to_end))
        names = list(table.columns)
        put_live_view(history.select(*names).unionAll(tail.select(*names)), table.name)

    def _tail_begin(self, broker: str, held: int, begin: int) -> int:
        """Where the table's rows end, or where the log begins if what is between was dropped. Else it can't be read."""
        if held >= begin:
            return held
        with closing(LogClient(self._addresses[broker], _LOOK_RETRY_S)) as client:
            return begin if covers(client.dropped(), held, begin) else held


def _parts(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """What is in the log now, in parts, and one for what comes after it."""
    yield from split(begin, end, _PARTITIONS)[:-1]
    last = split(begin, end, _PARTITIONS)[-1:] or [(begin, begin)]
    yield last[0][0], _TO_THE_END


def _read_to_end(partition: LogPartition, options: SourceOptions, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as far as the log goes by then."""
    if partition.broker == _UNKNOWN:
        raise BrokerUnavailable(f"the broker at {partition.address} has not answered since the views were made")
    client = LogClient(partition.address, options.retry_s)
    end = client.end().end_position
    client.close()
    yield from read_partition(replace(partition, end=min(partition.end, end)), options, columns)
