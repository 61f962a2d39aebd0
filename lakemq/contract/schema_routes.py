"""Routes of topics' schemas."""

from __future__ import annotations

from lakemq.contract.right import known, topic
from lakemq.contract.route import Answered, Field, Reads, Route
from lakemq.model.access import Action

READS = (Action.GET, Action.SUB, Action.PUB)

SCHEMAS = Route(
    "GET",
    "/v1/schemas",
    "topics",
    "The schemas of all topics",
    (Field("topic", "string", "of this one alone"),),
    rights=known("shown of topics on which one has `Get`, `Sub` or `Pub`; all, with `Get` on the cluster"),
)
SCHEMA = Route(
    "GET",
    "/v1/topics/{topic}/schema",
    "topics",
    "A topic's schema: the current version, or one by its number",
    (Field("version", "integer", least=1),),
    rights=topic(*READS),
)
PUT_SCHEMA = Route(
    "PUT",
    "/v1/topics/{topic}/schema",
    "topics",
    "Give a topic a schema, or a new version of it that reads what the others have written",
    reads=Reads.JSON,
    differs=Answered.CONFIRMED,
    rights=topic(Action.UPDATE, by_handler="with `version`, also `Create` on it"),
    audited=True,
)
DELETE_SCHEMA = Route(
    "DELETE",
    "/v1/topics/{topic}/schema",
    "topics",
    "Drop a topic's schema, with all its versions",
    (Field("if_version", "integer", "only if that is the current one", least=0),),
    differs=Answered.CONFIRMED,
    rights=topic(Action.UPDATE),
    audited=True,
)

ALL: tuple[Route, ...] = (SCHEMAS, SCHEMA, PUT_SCHEMA, DELETE_SCHEMA)
