"""The HTTP gateway: it moves bytes between connections and the CommitLog."""

from __future__ import annotations

from lakemq.gateway.process.without_pandas import keep_pandas_out
from lakemq.settings import Settings
from lakemq.storage.disk.clock import Clock


def serve(settings: Settings, clock: Clock | None = None) -> None:
    """Be the gateway's process until SIGINT or SIGTERM. Raises `LakemqError` when it can't start.

    `clock` None: the system's. On return no acknowledged message is lost, who waited was answered,
    and the log is on disk.
    """
    keep_pandas_out()
    # Only now: what the server imports would bring pandas and numpy along.
    from lakemq.gateway.process.server import run

    run(settings, clock=clock)


__all__ = ["serve"]
