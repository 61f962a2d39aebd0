"""What a power cut may take of what was acknowledged, as nothing had brought it to disk yet."""

from __future__ import annotations

from bisect import bisect_left

from lakemq.testing.history.operation import Operation
from lakemq.testing.history.sightings import Sightings

POWER_CUT = "power cut"


class PowerCuts:
    """The power cuts of a history, and the produces with `ack=sync`, which bring to disk all that is in the
    log before them."""

    def __init__(self, sightings: Sightings) -> None:
        faults = sightings.history.of("fault")
        self._cuts = [fault.begun for fault in faults if fault.request["fault"] == POWER_CUT]
        self._syncs = [
            operation for operation in sightings.history.done("produce") if operation.request["ack"] == "sync"
        ]

    def may_have_taken(self, operation: Operation, until: int) -> bool:
        """Whether a power cut came after the operation was asked for and before `until`, and nobody had synced
        in between: began to after the operation was answered, and was answered before the cut."""
        at = bisect_left(self._cuts, operation.begun)
        if at == len(self._cuts) or self._cuts[at] > until:
            return False
        cut = self._cuts[at]
        return not any(operation.ended < sync.begun and sync.ended < cut for sync in self._syncs)
