"""The routes that list dead letters, redrive and discard them."""

from __future__ import annotations

from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX
from lakemq.contract.right import group, known
from lakemq.contract.route import Answered, Field, Reads, Route
from lakemq.model.access import Action
from lakemq.model.dead_letter import LetterState

MAX = Field("max", "integer", "the most letters", 100)
DEAD_LETTERS = Route(
    "GET",
    "/v1/groups/{group}/dead-letters",
    "routing",
    "Dead letters, newest first",
    (
        Field("state", "string", "only these; default: all", choices=tuple(each.value for each in LetterState)),
        Field("reason", "string", "part of the failure's class or text, ignoring case"),
        Field(
            "cause",
            "string",
            "exactly this cause: the failure's class, or without one the first 200 characters of its text, on one line;"
            " empty: without a reason",
        ),
        Field("topic", "string", "the original topic"),
        Field("begin_ms", "integer", "dead since this time", 0),
        Field("end_ms", "integer", "dead until this time", NUMBER_MAX),
        Field("after", "integer", "`next_after` of the previous page", OFFSET_MAX),
        MAX,
    ),
    rights=group(Action.GET, Action.SUB, by_handler="shows topics on which the caller has `Sub` or `Get`"),
)


def _of_chosen(what: str, summary: str) -> Route:
    """Done with dead letters that a predicate chooses. How many match says what is in them, one question after the
    other: so who gives one also needs to read them."""
    return Route(
        "POST",
        f"/v1/groups/{{group}}/dead-letters/{what}",
        "routing",
        summary,
        reads=Reads.JSON,
        differs=Answered.CONFIRMED,
        rights=group(Action.UPDATE, by_handler="`where` also needs `Sub` on it"),
        audited=True,
    )


REDRIVE = _of_chosen("redrive", "Redrive dead letters")
REDRIVEN = Route(
    "GET",
    "/v1/redrives/{redrive_id}",
    "routing",
    "The progress of a redrive",
    (Field("offset", "integer", default=0), Field("max", "integer", default=1_000)),
    rights=known("`Get` or `Update` on the group"),
)
DISCARD = _of_chosen("discard", "Discard dead letters: they stay readable, and no redrive sends them")

ALL: tuple[Route, ...] = (DEAD_LETTERS, REDRIVE, REDRIVEN, DISCARD)
