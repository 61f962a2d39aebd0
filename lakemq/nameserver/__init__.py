"""The name server: which brokers there are, and what of each topic is where. It keeps nothing on disk, and knows of no
other name server."""

from __future__ import annotations

from lakemq.settings import Settings


def serve(settings: Settings) -> None:
    """Be a name server's process until SIGINT or SIGTERM. Raises `LakemqError` when it can't start."""
    from lakemq.nameserver.server import run  # takes a while, and settings are looked at first

    run(settings)


__all__ = ["serve"]
