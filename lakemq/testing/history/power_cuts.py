"""What a power cut may take of what was acknowledged, as nothing had brought it to disk yet."""

from __future__ import annotations

from bisect import bisect_left

from lakemq.testing.history.operation import Operation
from lakemq.testing.history.sightings import Seen, Sightings

POWER_CUT = "power cut"


class PowerCuts:
    """The power cuts of a history, and the operations that were done with `ack` sync, which bring to disk all
    that is in the log before them. (A receive that handed nothing out has brought nothing there.)"""

    def __init__(self, sightings: Sightings) -> None:
        faults = sightings.history.of("fault")
        self._cuts = [fault.begun for fault in faults if fault.request["fault"] == POWER_CUT]
        syncs = [
            each
            for each in sightings.history.operations
            if each.ok and each.request.get("ack") == "sync" and (each.kind != "receive" or each.rows)
        ]
        self._synced = [max((sync.begun for sync in syncs if sync.ended < cut), default=-1) for cut in self._cuts]
        """By cut, when the last sync began that was answered before it."""

    def may_have_taken(self, operation: Operation, until: int) -> bool:
        """Whether a power cut came after the operation was asked for and before `until`, and nobody had synced
        in between: began to after the operation was answered, and was answered before the cut. What was itself
        answered with `ack` sync no cut may take."""
        if operation.ok and operation.request.get("ack") == "sync":
            return False
        at = bisect_left(self._cuts, operation.begun)
        if at == len(self._cuts) or self._cuts[at] > until:
            return False
        return self._synced[at] <= operation.ended

    def is_promised(self, operation: Operation, until: int) -> bool:
        """Whether what was acknowledged is to be there at `until`; with `ack` none nothing is."""
        return operation.ok and operation.request.get("ack") != "none" and not self.may_have_taken(operation, until)

    def are_both_there(self, one: list[Seen], other: list[Seen]) -> bool:
        """Whether a row that was seen at the one place, and at the other, was at both at a time: not, when a cut
        may have taken the one before anybody saw the other."""
        return not (self._may_be_over(one, other) or self._may_be_over(other, one))

    def _may_be_over(self, gone: list[Seen], come: list[Seen]) -> bool:
        until = min(seen.operation.ended for seen in come)
        return all(self.may_have_taken(seen.operation, until) for seen in gone)
