"""Spans of acknowledgements, each in its message's own trace, where that is recorded.

An acknowledgement names a receipt alone, and reading its message once more would cost more than all else of it. So the
traces of what is handed out are kept until it is settled; those of before the process began are not known.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakemq.contract import spans as names
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.effects.parents import recorded_in
from lakemq.gateway.receipts.receive_request import Chosen
from lakemq.model.names import ACK_TOPIC, RECEIVE_TOPIC
from lakemq.model.trace_parent import TraceParent
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta, Run
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans

logger = logging.getLogger(__name__)

OUT_MAX = 10_000
"""So many messages that are out have their traces kept: of more, the oldest have no span, and are counted."""


class AckSpans:
    """Those of one broker's log. Raises nothing."""

    def __init__(self, spans: Spans, executor: Executor, out_max: int = OUT_MAX) -> None:
        self._spans = spans
        self._executor = executor
        self._out_max = out_max
        self._parents: dict[int, TraceParent] = {}
        """By receipt, the oldest first."""

    def __len__(self) -> int:
        return len(self._parents)

    def hand_out(self, chosen: Sequence[Chosen], first_receipt: int) -> None:
        """These messages are out; their receipts are at the positions from that one on."""
        try:
            for part in (part for some in chosen for part in some.parts):
                for number, parent in recorded_in(part.frame.content, part.row, part.count):
                    self._parents[first_receipt + number] = parent
                first_receipt += part.count
            over = max(len(self._parents) - self._out_max, 0)
            for _ in range(over):
                del self._parents[next(iter(self._parents))]
            self._spans.drop(over)
        except Exception:  # what is handed out is: nothing of it depends on this
            logger.exception("could not keep the traces of what is handed out")

    def note(self, meta: Meta, content: Content, run: Run) -> None:
        """Rows of the run have come into the log, and their causes aren't settled yet."""
        if not self._parents:
            return
        try:
            causes = content.values("cause", run.row, run.count)
            for number, cause in enumerate(causes):
                parent = self._parents.pop(cause, None)
                if parent is not None and run.topic == RECEIVE_TOPIC:  # another receipt, in place of that one
                    self._parents[meta.first_position + run.row + number] = parent
                elif parent is not None and run.topic == ACK_TOPIC:
                    self._add(cause, parent, meta.store_time_ms * MS)
        except Exception:
            logger.exception("could not make the spans of acknowledgements")

    def _add(self, receipt: int, parent: TraceParent, time_ns: int) -> None:
        out = self._executor.state.receipts.out[receipt]
        attributes = names.ACK.attributes(out.subscription.topic, out.subscription.group)
        attributes[names.MESSAGE_ID] = self._executor.message_id(out.message)
        if out.reconsume_times:
            attributes[names.RECONSUME_TIMES] = out.reconsume_times
        name = names.ACK.span_name(out.subscription.topic)
        self._spans.add(Span(name, names.ACK.kind, time_ns, time_ns, attributes, parent))
