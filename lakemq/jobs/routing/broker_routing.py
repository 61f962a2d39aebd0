"""What the brokers say about their routing, which is what the query goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemq.model.wheel import Terms


@dataclass(frozen=True)
class BrokerRouting:
    """One broker's answer: its name, its log, the epoch and the end of that, and its settings. What waits that is
    below `position` the broker lists from then on."""

    broker: str
    log_id: str
    epoch: int
    terms: Terms
    position: int

    @staticmethod
    def from_json(answer: Mapping[str, Any]) -> BrokerRouting:
        """Reads what `GET /v1/routing` answers."""
        transactions = answer["transactions"]
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
            position=answer["position"],
        )
