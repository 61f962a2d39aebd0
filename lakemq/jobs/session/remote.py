"""What a session at a server leaves to the children of its process: with it Spark wants no other session there."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def without_remote(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that starts a Spark of its own."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}
