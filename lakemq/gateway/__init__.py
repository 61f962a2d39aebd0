"""The HTTP gateway: it moves bytes between connections and the CommitLog."""

from __future__ import annotations

from lakemq.gateway.without_pandas import keep_pandas_out
from lakemq.settings import Settings


def serve(settings: Settings) -> None:
    """Be the gateway's process until SIGINT or SIGTERM. Raises `LakemqError` when it can't start.

    On return no acknowledged message is lost, who waited was answered, and the log is on disk.
    """
    keep_pandas_out()
    # Only now: what the server imports would bring pandas and numpy along.
    from lakemq.gateway.server import run

    run(settings)


__all__ = ["serve"]
