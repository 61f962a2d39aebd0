"""`lakemq sql` without jobs that run: a Spark of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from typing import TYPE_CHECKING

from lakemq.jobs.errors import BrokerUnavailable, LakeNotFound
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.sql.connect_client import ConnectClient
from lakemq.settings import Settings, Sql
from lakemq.storage.lake.delta_log import tables_of

if TYPE_CHECKING:  # PySpark takes a second to import: who asks the jobs' server needs none of it
    from pyspark.sql import SparkSession

_LOOK_S = 1.0
_NEEDS_BROKER = re.compile(r"\blive`?\s*\.|\b(?:from|join)\s+`?topics`?\s*\.", re.IGNORECASE)


@contextlib.contextmanager
def embedded_client(settings: Settings, broker_url: str, statement: str) -> Generator[ConnectClient]:
    """A client of a Spark that this process starts, over the lake's tables; it stops with the client.

    Raises `LakeNotFound` when there are none; `BrokerUnavailable` when the statement names live views
    and the gateway does not answer.
    """
    from lakemq.jobs.session.connect import server_of, token_of
    from lakemq.jobs.session.own_spark import own_spark

    own = settings.model_copy(update={"sql": Sql(port=0)})
    with own_spark():
        session = open_lake(own, broker_url, needs_live=_NEEDS_BROKER.search(statement) is not None)
        with ConnectClient(server_of(session, own), token_of(session)) as client:
            yield client


def check_lake(settings: Settings) -> None:
    """Raises `LakeNotFound` when there are no tables."""
    if not tables_of(settings.lake.dir):
        raise LakeNotFound(
            f"there is no lake in {settings.lake.dir} yet: `lakemq up` and `lakemq jobs` create it within a minute or "
            "two; then try again"
        )


def open_lake(settings: Settings, broker_url: str | None = None, *, needs_live: bool = False) -> SparkSession:
    """A session of this process in which the lake's tables, views and functions go by their names.

    With `broker_url` the live views too, where the broker answers; with `needs_live` it must, or
    `BrokerUnavailable` is raised. Raises `LakeNotFound` when there is no lake. The caller stops it.
    """
    check_lake(settings)
    if needs_live and broker_url is not None:
        for address in broker_url.split(","):
            LogClient(address, _LOOK_S).end()
    from lakemq.jobs.session.session import start_session
    from lakemq.jobs.sql.catalog import register_catalog
    from lakemq.jobs.sql.live import LiveViews

    session = start_session(settings, "lakemq sql", short_lived=True, server=broker_url is not None)
    if broker_url is None:
        register_catalog(session, settings.lake.dir)
        return session
    try:
        LiveViews(session, settings.lake.dir, lambda: broker_url).register()
    except BrokerUnavailable:
        if needs_live:
            raise
    return session
