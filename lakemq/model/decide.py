"""What happens to a waiting cause: the one place that says which event wins.

A cause is in a *state* until an *event* moves it on. `TRANSITIONS` is the whole table, which docs/routing.md draws. To
be due is an event like the others. The functions below look up what happens when a half, a nack or a receipt is due.
The routing query decides by them, and so does the gateway, both when it anticipates and when no query is running.
Nothing here knows who asks. The gateway carries out all other events by itself (`lakemq.gateway.routing`,
`lakemq.gateway.receipts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from lakemq.model.delay import DelayState, delay_of_level
from lakemq.model.retry import FIRST_LEVEL, ReceiptState, RetryDecision, RetryState
from lakemq.model.transaction import Resolution, TransactionState

State = DelayState | TransactionState | RetryState | ReceiptState
DelayAction = Literal["hold", "deliver", "recall", "move", "wait", "drop"]
TransactionAction = Literal["commit", "rollback", "check", "give_up"]
NackAction = Literal["retry", "dead_letter", "deliver", "nack", "redrive", "discard"]
ReceiptAction = Literal["acknowledge", "change", "nack", "retry", "dead_letter", "forget", "receive"]
Action = DelayAction | TransactionAction | NackAction | ReceiptAction


class Kind(StrEnum):
    """The kinds of causes."""

    DELAY = "delay"
    TRANSACTION = "transaction"
    NACK = "nack"
    RECEIPT = "receipt"


class Event(StrEnum):
    """What can happen to a cause."""

    DECIDED = "decided"
    """A query has decided a delay, a lead before it is due."""
    DUE = "due"
    """Its time has come, and nothing has ended it before."""
    LAST_DUE = "last due"
    """The same, and it has been tried as often as it may be."""
    RECALLED = "recalled"
    LEAVES = "leaves"
    """Retention is about to delete its segment of the log."""
    STORED_AGAIN = "stored again"
    """It has been copied to the log's end."""
    TARGET_GONE = "target gone"
    """It is due, but its topic has been deleted."""
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    NACKED = "nacked"
    REDRIVEN = "redriven"
    GIVEN_UP = "given up"
    """A user discards it."""
    RECEIVED = "received"
    ACKNOWLEDGED = "acknowledged"
    CHANGED = "changed"
    """A consumer has asked for another time of invisibility."""
    RESET = "reset"
    """The group's offsets were reset."""


class Effect(NamedTuple):
    """What the gateway does, and the state that the cause is in afterwards."""

    action: Action
    state: State


# The states by their letters in docs/routing.md, where W is both a waiting delay and a nack whose retry waits.
_W, _D = DelayState.WAITING, DelayState.DECIDED
_H, _K = TransactionState.HALF, TransactionState.CHECKED
_N, _RETRY_WAITS, _T, _Q, _Z, _X = RetryState
_O = ReceiptState.OUT

TRANSITIONS: Mapping[Kind, Mapping[tuple[State, Event], Effect]] = {
    Kind.DELAY: {
        (_W, Event.DECIDED): Effect("hold", _D),
        (_W, Event.DUE): Effect("deliver", DelayState.DELIVERED),
        (_D, Event.DUE): Effect("deliver", DelayState.DELIVERED),
        (_W, Event.RECALLED): Effect("recall", DelayState.RECALLED),
        (_D, Event.RECALLED): Effect("recall", DelayState.RECALLED),
        (_W, Event.LEAVES): Effect("move", DelayState.MOVED),
        (DelayState.MOVED, Event.STORED_AGAIN): Effect("wait", _W),
        (_W, Event.TARGET_GONE): Effect("drop", DelayState.DROPPED),
        (_D, Event.TARGET_GONE): Effect("drop", DelayState.DROPPED),
    },
    Kind.TRANSACTION: {
        (_H, Event.COMMITTED): Effect("commit", TransactionState.COMMITTED),
        (_H, Event.ROLLED_BACK): Effect("rollback", TransactionState.ROLLED_BACK),
        (_H, Event.DUE): Effect("check", _K),
        (_K, Event.COMMITTED): Effect("commit", TransactionState.COMMITTED),
        (_K, Event.ROLLED_BACK): Effect("rollback", TransactionState.ROLLED_BACK),
        (_K, Event.DUE): Effect("check", _K),
        (_K, Event.LAST_DUE): Effect("give_up", TransactionState.GIVEN_UP),
    },
    Kind.NACK: {
        (_N, Event.DUE): Effect("retry", _RETRY_WAITS),
        (_N, Event.LAST_DUE): Effect("dead_letter", _Q),
        (_RETRY_WAITS, Event.DUE): Effect("deliver", _T),
        (_T, Event.NACKED): Effect("nack", _N),
        (_Q, Event.REDRIVEN): Effect("redrive", _Z),
        (_Q, Event.GIVEN_UP): Effect("discard", _X),
        (_Z, Event.NACKED): Effect("nack", _N),
    },
    Kind.RECEIPT: {
        (_O, Event.ACKNOWLEDGED): Effect("acknowledge", ReceiptState.ACKNOWLEDGED),
        (_O, Event.CHANGED): Effect("change", ReceiptState.CHANGED),
        (_O, Event.NACKED): Effect("nack", ReceiptState.NACKED),
        (_O, Event.DUE): Effect("retry", ReceiptState.RETRIED),
        (_O, Event.LAST_DUE): Effect("dead_letter", ReceiptState.DEAD),
        (_O, Event.RESET): Effect("forget", ReceiptState.FORGOTTEN),
        (ReceiptState.CHANGED, Event.RECEIVED): Effect("receive", _O),
        (ReceiptState.RETRIED, Event.RECEIVED): Effect("receive", _O),
    },
}


def of_half(check_times: int, check_max: int, resolution: Resolution | None) -> Effect:
    """What happens to a half that is due, after `check_times` checks. An operation that the gateway has confirmed beats
    a check. Without one, the half is given up after `check_max` (≥ 1) checks. `resolution` None: no operation."""
    state = _K if check_times else _H
    if resolution is not None:
        event = Event.COMMITTED if resolution == "commit" else Event.ROLLED_BACK
    else:
        event = Event.DUE if check_times < check_max else Event.LAST_DUE
    return TRANSITIONS[Kind.TRANSACTION][state, event]


def of_nack(
    reconsume_times: int, delay_level: int, max_reconsume_times: int, levels_ms: Sequence[int], nacked_ms: int
) -> RetryDecision:
    """What happens to a nacked message, and when.

    `reconsume_times`: how often the message was retried before. `delay_level`: < 0 makes it a dead letter at once, > 0
    is the level of its delay, 0 leaves that to the broker, which takes `FIRST_LEVEL + reconsume_times`. `nacked_ms`:
    when the nack was stored, from which the delay counts.
    """
    is_last = delay_level < 0 or reconsume_times >= max_reconsume_times
    effect = TRANSITIONS[Kind.NACK][_N, Event.LAST_DUE if is_last else Event.DUE]
    if effect.state is _Q:
        return RetryDecision("dead_letter", None)
    level = delay_level or FIRST_LEVEL + reconsume_times
    return RetryDecision("retry", nacked_ms + delay_of_level(level, levels_ms))


def of_receipt(reconsume_times: int, max_reconsume_times: int) -> Effect:
    """What happens to a message that was handed out and not acknowledged in time. `reconsume_times`: how often it was
    retried before."""
    is_last = reconsume_times >= max_reconsume_times
    return TRANSITIONS[Kind.RECEIPT][_O, Event.LAST_DUE if is_last else Event.DUE]
