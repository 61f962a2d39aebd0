"""The session of a notebook."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lakemq.jobs.session.discovery import find_server
from lakemq.jobs.session.token_file import token_for
from lakemq.jobs.sql.connect_session import only_session
from lakemq.model.environment import BROKER
from lakemq.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_BROKER = "http://127.0.0.1:8080"
"""Where clients look for it that are told nothing else."""


def find_session(settings: Settings) -> SparkSession:
    """A session on the lake: one of the running jobs' (`discovery`), or else an embedded one.

    A session that the program has already is taken as it is: on Databricks, there is one. stdout says
    in one line which it is.
    """
    from pyspark.sql import SparkSession

    from lakemq.jobs.session.own_spark import has_spark

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if has_spark():  # another thread started it
        return SparkSession.Builder().getOrCreate()
    server = find_server(settings.lake.dir)
    if server is not None:
        sys.stdout.write(f"a session of the jobs' Spark at {server.url}\n")
        return only_session(server, token_for(settings.sql, settings.lake.dir))
    from lakemq.jobs.sql.statement import open_lake

    sys.stdout.write("no jobs run on this lake: the notebook has a Spark of its own\n")
    return open_lake(settings, os.environ.get(BROKER, DEFAULT_BROKER))
