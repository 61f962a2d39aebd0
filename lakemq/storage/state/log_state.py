"""Everything that the log makes beside its messages: topics, what waits to be routed, groups, sinks, and users;
and which log it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakemq.model.errors import LogVersion
from lakemq.model.names import retry_topic
from lakemq.storage.state.access_state import AccessState
from lakemq.storage.state.group_state import GroupState
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.routing_state import RoutingState
from lakemq.storage.state.sinks import SinkState
from lakemq.storage.state.steps import Steps, finish
from lakemq.storage.state.topics import TopicTable

DISCARDS = "discards"
KNOWN: frozenset[str] = frozenset({DISCARDS})
"""What a log may need one to know that is known here. A lakemq that writes what those before it would take for
something else adds a name, and has new state frames say it, as `needs`; a log that needs more is refused."""


class LogState:
    """The state of a log at one position; `replay` moves it on by a frame."""

    def __init__(self) -> None:
        self.identity = LogIdentity()
        self.topics = TopicTable()
        self.routing = RoutingState()
        self.groups = GroupState()
        self.sinks = SinkState()
        self.access = AccessState()
        self.groups.on_reset = self._reset
        self.groups.on_delete = self._delete_group
        self.groups.on_idle = self.routing.receipts.forget_idle

    def _reset(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """What a group receives goes on where its offsets were reset to; and what it nacked before it may
        nack again, as it gets it again."""
        self.routing.receipts.reset(group, topic, offsets)
        self.routing.forget_nacked(group, topic)

    def _delete_group(self, group: str) -> None:
        """Nothing is known of what the group received and nacked."""
        self.routing.receipts.forget_group(group)
        self.routing.forget_nacked(group, retry_topic(group))
        self.routing.forget_dead_of(group)
        self.routing.forget_retries_of(group)

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return self.freeze()()

    def freeze(self) -> Callable[[], dict[str, Any]]:
        """What makes the `dump` of the state as it is now, in any thread, whatever happens to it meanwhile."""
        return finish(self.freeze_in_steps())

    def freeze_in_steps(self) -> Steps[Callable[[], dict[str, Any]]]:
        """`freeze`, where no frame is written between the steps."""
        log, sinks, access = self.identity.dump(), self.sinks.dump(), self.access.freeze()
        before = self.sinks.dump_before()
        topics = yield from self.topics.dump_in_steps()
        groups = yield from self.groups.copy_in_steps()
        routing = yield from self.routing.copy_in_steps()
        # One that doesn't know them would have the letters open again, and a redrive send them.
        needs = [DISCARDS] if routing.discarded or routing.discarded_floor else []
        return lambda: (
            ({"needs": needs} if needs else {})
            | ({"sinks_before": before} if before else {})
            | {
                "log": log,
                "topics": topics,
                "routing": routing.dump(),
                "groups": groups.dump(),
                "sinks": sinks,
                "access": access(),
            }
        )

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said; a dump from before there was routing, or groups, or sinks, or users, lacks them."""
        self._restore(dumped, self.topics.restore)

    def renew(self, dumped: dict[str, Any]) -> None:
        """`restore` of a state in use: queues that go on are the same ones, and who waits for them goes on waiting."""
        self._restore(dumped, self.topics.renew)

    def _restore(self, dumped: dict[str, Any], restore_topics: Callable[[dict[str, Any]], None]) -> None:
        if unknown := sorted(set(dumped.get("needs", ())) - KNOWN):
            raise LogVersion(
                f"the log was written by a newer lakemq: to read it one must know {', '.join(unknown)}, which this one"
                " doesn't. Start that one, or a later one; this lakemq changes nothing there"
            )
        self.identity.restore(dumped["log"])
        if isinstance(dumped["topics"], list):
            raise LogVersion(
                "the log's state is as a lakemq of before wrote it, with a record of each deleted topic: let that one"
                " bring it to the lake, then begin a new log by moving the folder away"
            )
        restore_topics(dumped["topics"])
        self.routing.restore(dumped.get("routing", {}))
        self.groups.restore(dumped.get("groups", {}))
        self.sinks.restore(dumped.get("sinks", {}), dumped.get("sinks_before", {}))
        self.access.restore(dumped.get("access", {}))
