"""What the routes of the contract wait for as they are answered, all but those that do so themselves."""

from __future__ import annotations

from collections.abc import Mapping

from lakemq.contract import routes
from lakemq.contract.route import Answered, Route
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.held_answer import Until


def answered_when(log: CommitLog) -> Mapping[Route, Until]:
    """What to wait for, by route, for the names of its path and a query's fields."""
    ways: dict[Answered, Until] = {
        Answered.SHOWN: lambda _: log.until_shown(),
        Answered.SAFE: lambda fields: log.until_safe(fields.get("ack") == "sync"),
        Answered.TOPICS_SHOWN: lambda fields: log.until_topics_shown(fields["topic"]),
        Answered.CONFIRMED: lambda _: log.until_confirmed(),
    }
    found = {route: ways[route.answered] for route in routes.ALL if route.answered in ways}
    # Of a follower's state nothing is held but what it says of topics.
    return {**found, routes.TOPICS: lambda _: log.until_shown() or log.until_topics_shown()}


def refused_when(log: CommitLog) -> Mapping[Route, Until]:
    """What refusals of the others wait for, where they say what there is. Who reads on while nothing comes to be
    confirmed is told of topics only."""
    found: dict[Route, Until] = {
        route: lambda _: log.until_shown() for route in routes.ALL if route.answered is Answered.BY_HANDLER
    }
    of_topic = routes.PULL, routes.MESSAGES_BY_KEY
    return found | dict.fromkeys(of_topic, lambda fields: log.until_topics_shown(fields.get("topic")))
