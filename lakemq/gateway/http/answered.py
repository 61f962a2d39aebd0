"""What the routes of the contract wait for as they are answered, all but those that do so themselves."""

from __future__ import annotations

from collections.abc import Mapping

from lakemq.contract import routes
from lakemq.contract.route import Answered, Route
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.held_answer import Until


def answered_when(log: CommitLog) -> Mapping[Route, Until]:
    """What to wait for, by route, for a query's fields."""
    ways: dict[Answered, Until] = {
        Answered.SHOWN: lambda _: log.until_shown(),
        Answered.SAFE: lambda query: log.until_safe(query.get("ack") == "sync"),
        Answered.CONFIRMED: lambda _: log.until_confirmed(),
    }
    return {route: ways[route.answered] for route in routes.ALL if route.answered in ways}
