"""The pages: each file has those of one noun, with their addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from lakemq.console.pages import (
    audit,
    causes,
    dead_letters,
    groups,
    jobs,
    live,
    messages,
    overview,
    people,
    queues,
    recalls,
    rights,
    schemas,
    search,
    send,
    sign_in,
    sql,
    topics,
    transactions,
    waiting,
)
from lakemq.console.visit import Visit

Handler = Callable[[Visit], Awaitable[Response]]

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    *overview.ROUTES,
    *sign_in.ROUTES,
    *topics.ROUTES,
    *queues.ROUTES,
    *schemas.ROUTES,
    *messages.ROUTES,
    *search.ROUTES,
    *send.ROUTES,
    *groups.ROUTES,
    *dead_letters.ROUTES,
    *causes.ROUTES,
    *live.ROUTES,
    *sql.ROUTES,
    *waiting.ROUTES,
    *recalls.ROUTES,
    *transactions.ROUTES,
    *people.ROUTES,
    *rights.ROUTES,
    *audit.ROUTES,
    *jobs.ROUTES,
)
"""Method, path and who answers it."""
