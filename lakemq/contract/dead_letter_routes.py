"""The route that lists dead letters."""

from __future__ import annotations

from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX
from lakemq.contract.right import group
from lakemq.contract.route import Field, Route
from lakemq.model.access import Action
from lakemq.model.dead_letter import LetterState

MAX = Field("max", "integer", "at most so many letters", 100)
DEAD_LETTERS = Route(
    "GET",
    "/v1/groups/{group}/dead-letters",
    "routing",
    "Dead letters, newest first",
    (
        Field("state", "string", "only these; all, without", choices=tuple(each.value for each in LetterState)),
        Field("reason", "string", "a part of the failure's class or text, in any case of letters"),
        Field("topic", "string", "the topic that they were first sent to"),
        Field("begin_ms", "integer", "dead since then", 0),
        Field("end_ms", "integer", "dead until then", NUMBER_MAX),
        Field("after", "integer", "`next_after` of the page before", OFFSET_MAX),
        MAX,
    ),
    rights=group(Action.GET, Action.SUB, by_handler="of topics on which one has `Sub` or `Get`"),
)

ALL: tuple[Route, ...] = (DEAD_LETTERS,)
