"""The console: pages for people, made of what brokers answer to the user who looks. A client of the contract like any
other, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.settings import Settings


def serve(settings: Settings, brokers: Sequence[str]) -> None:
    """Be a console's process until SIGINT or SIGTERM. Raises `LakemqError` when it can't start."""
    from lakemq.console.server import run  # takes a while, and settings are looked at first

    run(settings, brokers)


__all__ = ["serve"]
