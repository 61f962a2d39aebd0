"""Whether somebody may end transactions. Their ids are secret, but not from everybody: the key of all ids is in the
state of the log, which followers and backups read. So it takes the right to send to the half's topic too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from lakemq.gateway.access.caller import Caller
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import LakemqError, TransactionNotFound
from lakemq.storage.segment.rows import Row, value_of
from lakemq.storage.state.open_halves import OpenHalf

Check = Callable[[str], None]
"""Raises for a topic to which somebody may not send."""
CheckHalf = Callable[[str, int], None]
"""Likewise, for a half that has waited since the position for the topic."""
_ASKED = (Action.PUB,)


def check_of(caller: Caller) -> Check | None:
    """What it may end; None: everything, so no half need be looked at."""
    if caller.trusted or not caller.name:
        return None
    return lambda topic: caller.check(need_of_topic(_ASKED, topic), "the half message's topic")


async def refusals_of(
    halves: Sequence[OpenHalf], rows_of: Callable[[Sequence[int]], AsyncIterator[dict[int, Row]]], check: Check
) -> dict[int, LakemqError]:
    """Why some of these may not be ended, by their origins. `rows_of`: the rows at these positions, in portions."""
    gone = TransactionNotFound("the half message can't be found any more")
    refusals: dict[int, LakemqError] = {each.origin: gone for each in halves}  # until its topic is known
    origins = {each.cause: each.origin for each in halves}
    said: dict[str, LakemqError | None] = {}
    async for rows in rows_of(list(origins)):
        for cause, row in rows.items():
            topic = value_of(row, "real_topic")
            if topic not in said:
                said[topic] = _refusal(check, topic)
            refusal = said[topic]
            if refusal is None:
                del refusals[origins[cause]]
            else:
                refusals[origins[cause]] = refusal
    return refusals


def _refusal(check: Check, topic: str) -> LakemqError | None:
    try:
        check(topic)
    except LakemqError as error:
        return error
    return None


def alone(error: LakemqError) -> LakemqError:
    """Without where it was raised: thousands that are kept with all their frames take the collector 0.2 s."""
    error.__traceback__ = error.__context__ = None
    return error
