"""A receipt works for its own attempt, as long as that is out, and never else."""

from __future__ import annotations

from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.hand_outs import GroupMessage, HandOut, HandOuts
from lakemq.testing.history.operation import History, Operation
from lakemq.testing.history.power_cuts import PowerCuts
from lakemq.testing.history.sightings import Sightings

EXPIRED = "receipt_expired"


def find_wrong_receipts(sightings: Sightings) -> Iterator[Finding]:
    """Receipts that settled an attempt (`ack` or `nack` with `receipts`) though the message had been handed out
    anew, so that attempt was over or lost; and receipts that did not, though nothing had ended it."""
    handed, cuts = HandOuts(sightings), PowerCuts(sightings)
    margin_ms = _jumps_ms(sightings.history)
    for settling in sightings.history.of("ack", "nack"):
        receipts = settling.request.get("receipts") or ()
        for payload, receipt in zip(settling.request["payloads"], receipts, strict=bool(receipts)):
            key = settling.request["group"], payload
            every = handed.of.get(key, [])
            own = next((each for each in every if each.receipt == receipt), None)
            if own is not None and settling.ok:
                yield from _is_over(key, own, every, settling, cuts)
            elif own is not None and settling.result.get("status") == EXPIRED:
                others = [*handed.settled.get(key, ()), *sightings.history.of("reset_offset")]
                yield from _is_lost(key, own, settling, others, cuts, margin_ms)


def _is_over(
    key: GroupMessage, own: HandOut, every: list[HandOut], settling: Operation, cuts: PowerCuts
) -> Iterator[Finding]:
    for other in every:
        later = own.operation.before(other.operation) and other.operation.before(settling)
        # A cut may have taken the later attempt, and what ended this one.
        if later and not cuts.may_have_taken(other.operation, settling.begun):
            what = f"{key[1]} was settled for {key[0]} by a receipt of before it was handed out anew"
            numbers = own.operation.number, other.operation.number, settling.number
            yield Finding(Kind.WRONG_RECEIPT, what, numbers)
            return


def _is_lost(
    key: GroupMessage,
    own: HandOut,
    settling: Operation,
    others: list[Operation],
    cuts: PowerCuts,
    margin_ms: float,
) -> Iterator[Finding]:
    invisible_ms = own.operation.request.get("invisible_ms", 0)
    is_out = settling.ended_ms - own.operation.begun_ms + margin_ms < invisible_ms
    is_settled = any(each.begun < settling.ended for each in others)
    if is_out and not is_settled and not cuts.may_have_taken(own.operation, settling.begun):
        what = f"the receipt of {key[1]} for {key[0]} had expired, though nothing had ended it"
        yield Finding(Kind.RECEIPT_LOST, what, (own.operation.number, settling.number))


def _jumps_ms(history: History) -> float:
    """By how much the broker's clock may have gone faster than the history's."""
    ahead = [fault.request.get("ahead_ms", 0) for fault in history.of("fault")]
    return max(ahead, default=0) - min(ahead, default=0)
