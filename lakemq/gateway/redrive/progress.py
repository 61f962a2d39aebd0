"""How far a redrive is."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

from pyroaring import BitMap64

from lakemq.gateway.redrive.records import FAILED, PENDING, Redrive

_EIGHT_BYTES = "q"


class Progress:
    """A redrive, and where each of its dead letters' copies is, as far as that is known."""

    def __init__(self, redrive: Redrive, copies: array[int] | None = None) -> None:
        self.redrive = redrive
        self.copies = copies or array(_EIGHT_BYTES, [PENDING]) * len(redrive.matched)
        self.failed = self.copies.count(FAILED)
        self.redriven = len(self.copies) - self.copies.count(PENDING) - self.failed

    def settle(self, positions: Iterable[int], copies: Iterable[int]) -> None:
        """Note where the copies of these dead letters are, or that there will be none (`FAILED`)."""
        for position, copy in zip(positions, copies, strict=True):
            number = self.redrive.matched.rank(position) - 1
            if self.copies[number] == PENDING:
                self.copies[number] = copy
                self.redriven += copy >= 0
                self.failed += copy < 0

    def unsettled(self) -> BitMap64:
        """The dead letters of which neither is known."""
        pairs = zip(self.redrive.matched, self.copies, strict=True)
        return BitMap64([position for position, copy in pairs if copy == PENDING])

    def describe(self, state: str, offset: int, results_max: int, to_id: Callable[[int], str]) -> dict[str, Any]:
        """As `GET /v1/redrives/{redrive_id}` shows it, with the results from `offset` on."""
        redrive, end = self.redrive, offset + results_max
        results: list[dict[str, Any]] = []
        for position, copy in zip(redrive.matched[offset:end], self.copies[offset:end], strict=True):
            result = {"message_id": to_id(position), "status": _status(copy, redrive.dry_run)}
            if copy >= 0:
                result["redriven_message_id"] = to_id(copy)
            results.append(result)
        return {
            "group": redrive.group,
            "where": redrive.where,
            "rate_per_s": redrive.rate_per_s,
            "state": state,
            "matched": len(redrive.matched),
            "redriven": self.redriven,
            "failed": self.failed,
            "results": results,
            "truncated": end < len(redrive.matched),
        }


def _status(copy: int, dry_run: bool) -> str:
    if copy >= 0:
        return "redriven"
    if copy == FAILED:
        return "failed"
    return "matched" if dry_run else "pending"
