"""A gateway that stores no part of a batch: as if it died just when the batch was committed."""

from __future__ import annotations

import asyncio

from lakemq import settings
from lakemq.gateway import serve
from lakemq.gateway.sinks.committer import Sinks


async def _store_nothing(*_: object) -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    Sinks._store_parts = _store_nothing  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    serve(settings.load())
