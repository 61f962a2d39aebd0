"""The contract's requests for operators of groups: dead letters, and connected clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from lakemq.client.dead_letter import DeadLetterPage, DeadLetterState, asked
from lakemq.client.results import RedriveStarted
from lakemq.contract import (
    client_routes,
    dead_letter_routes,
    find_routes,
    routes,
    schema_routes,
    waiting_routes,
)
from lakemq.contract.route import Target


class OperatorRequests(ABC):
    """Those of one gateway."""

    @abstractmethod
    def _call(
        self, target: Target, content: Mapping[str, Any] | None, params: Mapping[str, str | int] | None = None
    ) -> dict[str, Any]:
        """Send a body, or none, and return what is answered."""

    def dead_letters(
        self,
        group: str,
        *,
        state: DeadLetterState | None = None,
        reason: str | None = None,
        cause: str | None = None,
        topic: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        after: int | None = None,
        count_max: int = 100,
    ) -> DeadLetterPage:
        """A page of the group's dead letters, newest first; `after`: the `next_after` of the page before. `reason`: a
        part of the failure's class or text. `cause`: exactly that one; empty: without a reason. `topic`: to which they
        were sent first. `begin_ms`, `end_ms`: when they died. A page may be empty, or short, and not the last. Raises
        `GroupNotFound`."""
        params = asked(state, reason, cause, topic, begin_ms, end_ms, count_max)
        params |= {} if after is None else {"after": after}
        return DeadLetterPage.of(self._call(dead_letter_routes.DEAD_LETTERS.at(group), None, params))

    def redrive(self, group: str, where: str, rate_per_s: float = 100, dry_run: bool = False) -> RedriveStarted:
        """Send the group's dead letters that fulfil the SQL predicate to it again; returns at once."""
        content = {"where": where, "rate_per_s": rate_per_s, "dry_run": dry_run}
        answer = self._call(dead_letter_routes.REDRIVE.at(group), content)
        return RedriveStarted(answer["redrive_id"], answer["matched"])

    def discard(self, group: str, where: str, dry_run: bool = False, up_to: int | None = None) -> dict[str, int]:
        """Give up the group's open dead letters that fulfil the SQL predicate, at positions up to `up_to`: how many
        `matched`, the `last` one's position, and how many were `discarded`."""
        content = {"where": where, "dry_run": dry_run} | ({} if up_to is None else {"up_to": up_to})
        return self._call(dead_letter_routes.DISCARD.at(group), content)

    def redrive_progress(self, redrive_id: str, offset: int = 0, count_max: int = 1_000) -> dict[str, Any]:
        """How far a redrive is, with a result for each message, from that number on."""
        return self._call(dead_letter_routes.REDRIVEN.at(redrive_id), None, {"offset": offset, "max": count_max})

    def enable_group(self, group: str, consume_enabled: bool) -> None:
        """Have a consumer group consume, or nothing until it is told otherwise; it is made if it isn't there."""
        self._call(client_routes.PUT_GROUP.at(group), {"consume_enabled": consume_enabled})

    def enable_client(self, group: str, client_id: str, consume_enabled: bool) -> None:
        """Have one member of a group consume, or nothing until it is told otherwise: it keeps its queues. Raises
        `GroupNotFound`, `ClientNotFound`."""
        self._call(client_routes.PUT_MEMBER.at(group, client_id), {"consume_enabled": consume_enabled})

    def clients(self, group: str | None = None, producer_group: str | None = None) -> list[dict[str, Any]]:
        """The connected clients: all, or those of one group. Raises `GroupNotFound` for a consumer group."""
        target = client_routes.CLIENTS.at()
        if group is not None:
            target = client_routes.GROUP_CLIENTS.at(group)
        elif producer_group is not None:
            target = client_routes.PRODUCER_CLIENTS.at(producer_group)
        return self._call(target, None)["clients"]

    def history(self, message_id: str, after: str = "") -> dict[str, Any]:
        """A page of what happened to a message; `after`: the `next_after` of the page before. Raises
        `MessageNotFound`."""
        return self._call(find_routes.HISTORY.at(message_id), None, {"after": after} if after else None)

    def scheduled(
        self, topic: str | None, after: str | None = None, count_max: int = 100, key: str | None = None
    ) -> dict[str, Any]:
        """Scheduled messages of a topic, or of all, that wait, the soonest first; with `key` those that have it.
        `after`: the `next_after` of the page before."""
        return self._call(waiting_routes.SCHEDULED.at(), None, _page(count_max, after, topic, key))

    def transactions(
        self, topic: str | None, after: int | None = None, count_max: int = 100, key: str | None = None
    ) -> dict[str, Any]:
        """Open transactions of a topic, or of all, the oldest first; `after` and `key` as in `scheduled`."""
        return self._call(waiting_routes.TRANSACTIONS.at(), None, _page(count_max, after, topic, key))

    def topics_page(self, after: str | None = None, count_max: int = 500) -> dict[str, Any]:
        """Topics that the user may list, by name; `after`: the `next_after` of the page before."""
        params: dict[str, str | int] = {"limit": count_max}
        return self._call(routes.TOPICS.at(), None, params | ({} if after is None else {"after": after}))

    def schema(self, topic: str, version: int | None = None) -> dict[str, Any]:
        """A topic's schema: the current version, or the given one. Raises `TopicNotFound`, `SchemaNotFound`."""
        return self._call(schema_routes.SCHEMA.at(topic), None, None if version is None else {"version": version})

    def set_schema(
        self,
        topic: str,
        schema: Mapping[str, Any] | str,
        type: str = "json",
        if_version: int | None = None,
        table: bool | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """Give a topic a schema, or a new version of it; `if_version`: only if the current one is that; `table`:
        whether the jobs keep a Delta table of the topic, None: as before; `version`: the number of the new version, as
        another broker has it, None: the next one. Raises `TopicNotFound`, `InvalidRequest`,
        `IncompatibleSchema`, `SchemaChanged`."""
        content: dict[str, Any] = {"type": type, "schema": schema}
        content |= {} if if_version is None else {"if_version": if_version}
        content |= {} if table is None else {"table": table}
        content |= {} if version is None else {"version": version}
        return self._call(schema_routes.PUT_SCHEMA.at(topic), content)

    def drop_schema(self, topic: str, if_version: int | None = None) -> None:
        """Drop a topic's schema, with all its versions. Raises `TopicNotFound`, `SchemaNotFound`, `SchemaChanged`."""
        params = None if if_version is None else {"if_version": if_version}
        self._call(schema_routes.DELETE_SCHEMA.at(topic), None, params)


def _page(count_max: int, after: str | int | None, topic: str | None, key: str | None) -> dict[str, str | int]:
    said = {"max": count_max, "after": after, "topic": topic, "key": key}
    return {name: value for name, value in said.items() if value is not None}
