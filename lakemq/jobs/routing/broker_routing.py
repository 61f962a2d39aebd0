"""What the brokers say about their routing, which is what the query goes by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lakemq.model.wheel import Terms

Kind = Literal["delay", "transactions", "retry", "receive"]


@dataclass(frozen=True)
class BrokerRouting:
    """One broker's answer: its name, its log and the epoch of that, its settings, and by kind the position of the
    first cause that is pending, or else the log's end."""

    broker: str
    log_id: str
    epoch: int
    terms: Terms
    begins: Mapping[Kind, int]

    @staticmethod
    def from_json(answer: Mapping[str, Any]) -> BrokerRouting:
        """Reads what `GET /v1/routing` answers."""
        transactions = answer["transactions"]
        kinds: Sequence[Kind] = ("delay", "transactions", "retry", "receive")
        return BrokerRouting(
            broker=answer["broker"],
            log_id=answer["log_id"],
            epoch=answer["epoch"],
            terms=Terms(
                lead_ms=answer["lead_ms"],
                levels_ms=tuple(answer["levels_ms"]),
                timeout_ms=transactions["timeout_ms"],
                check_interval_ms=transactions["check_interval_ms"],
                check_max=transactions["check_max"],
                max_reconsume_times=answer["retry"]["max_reconsume_times"],
            ),
            begins={kind: answer[kind]["begin_position"] for kind in kinds},
        )
