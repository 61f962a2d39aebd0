"""What a broker says about its routing when a run starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemq.model.wheel import Terms


@dataclass(frozen=True)
class BrokerRouting:
    """One broker's answer: its name, its log with epoch, and the settings that decisions depend on.

    `position` is the end of its log. The run reads the log from there on; the broker lists what is pending below it.
    """

    broker: str
    log_id: str
    epoch: int
    terms: Terms
    position: int

    @staticmethod
    def from_json(answer: Mapping[str, Any]) -> BrokerRouting:
        """Reads the answer to `GET /v1/routing`."""
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
