"""Recalling a scheduled message before it is due."""

from __future__ import annotations

from collections.abc import Callable

from lakemq.gateway.effects.executor import Executor
from lakemq.model.errors import AlreadyDelivered, InvalidRequest, MessageNotFound
from lakemq.model.names import DECISION_TOPIC, SCHEDULE_TOPIC
from lakemq.storage.segment.rows import make_row, value_of


class Recalls:
    """Takes scheduled messages back."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def recall(self, message_id: str, check: Callable[[str, int], None]) -> None:
        """See to it that the message is never delivered; twice is fine. `check` may refuse that of its topic, to which
        it was sent at the position.

        Raises `AlreadyDelivered`, `MessageNotFound`, `InvalidRequest` for a message that isn't
        scheduled, `StoreUnwritable`.
        """
        asked = self._executor.ids.position(message_id)
        state = self._executor.state
        if (part := await self._executor.read_one(state.moved.get(asked, asked))) is not None:
            # Before anything is told of it: ids can be counted through.
            topic = part.run_of(part.numbers[0]).topic
            check(part.value("real_topic", part.numbers[0]) if topic == SCHEDULE_TOPIC else topic, asked)
        while True:
            position = state.moved.get(asked, asked)
            await self._executor.settled([position])
            if asked in state.recalled:
                return
            if position in state.delays:
                if await self._recall(message_id, position, lambda topic: check(topic, asked)):
                    return
            elif position == state.moved.get(asked, asked):
                raise await self._why_not(message_id, asked)

    async def _recall(self, message_id: str, position: int, check: Callable[[str], None]) -> bool:
        """Whether that was in time; False when it was taken for delivery, or moved, in between."""
        part = await self._executor.read_one(position)
        if part is None:
            raise MessageNotFound(f"message {message_id!r} was lost to damage of the log")
        row = part.row(part.numbers[0])
        if value_of(row, "retry_topic") is not None:
            raise InvalidRequest(f"message {message_id!r} is a retry that waits: it can't be recalled")
        check(value_of(row, "real_topic"))
        topic = await self._executor.ensure_topic(DECISION_TOPIC)
        due = value_of(row, "deliver_at_ms")
        record = make_row(body=b"", tag="recall", cause=position, deliver_at_ms=due, origin_message_id=message_id)
        (placed,) = await self._executor.execute([(position, record, topic.queues[0])])
        return placed is not None

    async def _why_not(self, message_id: str, position: int) -> Exception:
        part = await self._executor.read_one(position)
        if part is None:
            return MessageNotFound(f"the log holds no message {message_id!r}")
        if part.run_of(part.numbers[0]).topic != SCHEDULE_TOPIC:
            return InvalidRequest(f"message {message_id!r} is not a scheduled one")
        return AlreadyDelivered(f"message {message_id!r} was delivered before")
