"""What a search of messages asks for, as the gateway's search and as a statement of SQL over the lake. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.console import shown
from lakemq.console.sql_rows import rows_by_name
from lakemq.model.spark_sql import literal

PREVIEW_CHARACTERS = 4 * shown.PREVIEW_MAX
LAKE_MS_MAX = 20_000
"""So long a search in the lake may take."""
NOT_TEXT = "(not text)"
_COLUMNS = (
    "message_id",
    "position",
    "queue_id",
    "queue_offset",
    "unix_millis(store_time) AS store_time_ms",
    "tag",
    "keys",
    f"left(body_text(body), {PREVIEW_CHARACTERS}) AS body",
)


class Sought(NamedTuple):
    """Messages of a topic that have all that is given; what is empty isn't. `prop`: `name=value`, or a name.
    `where`: a predicate. `begin_ms`, `end_ms`: stored since and until then; None: whenever."""

    topic: str
    key: str = ""
    tag: str = ""
    prop: str = ""
    text: str = ""
    where: str = ""
    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def is_by_key_alone(self) -> bool:
        """Whether an index has it all."""
        return bool(self.key) and not (self.tag or self.prop or self.text or self.where)

    def params(self, before: int | None, most: int) -> dict[str, str | int]:
        """As the gateway's search has it."""
        said = {"key": self.key, "tag": self.tag, "property": self.prop, "text": self.text, "where": self.where}
        found: dict[str, str | int] = {name: value for name, value in said.items() if value}
        numbers = {"begin_ms": self.begin_ms, "end_ms": self.end_ms, "before": before}
        return found | {name: value for name, value in numbers.items() if value is not None} | {"max": most}

    def statement(self, broker: str, before: int, most: int) -> str:
        """Of the lake's table. `where` has to be a predicate that the gateway takes: it stands in it as it is."""
        terms = [f"broker = {literal(broker)}", f"topic = {literal(self.topic)}", f"position < {before:d}"]
        if self.key:
            terms.append(f"array_contains(keys, {literal(self.key)})")
        if self.tag:
            terms.append(f"tag = {literal(self.tag)}")
        if self.prop:
            name, separator, value = self.prop.partition("=")
            found = f"element_at(properties, {literal(name)})"
            terms.append(f"{found} = {literal(value)}" if separator else f"{found} IS NOT NULL")
        if self.text:
            # By bytes, as the log is searched: a body need not be text as a whole.
            terms.append(f"contains(body, X'{self.text.encode().hex()}')")
        if self.where:
            terms.append(f"(\n{self.where}\n)")
        for operator, time_ms in ((">=", self.begin_ms), ("<=", self.end_ms)):
            if time_ms is not None:
                terms.append(f"store_time {operator} timestamp_millis({time_ms:d})")
        return (
            f"SELECT {', '.join(_COLUMNS)}\nFROM messages\nWHERE {' AND '.join(terms)}\n"
            f"ORDER BY position DESC LIMIT {most:d}"
        )


def request_of(statement: str, most: int) -> bytes:
    """The statement as `POST /v1/sql` takes it."""
    asked = {"statement": statement, "format": "json", "rows_max": most, "timeout_ms": LAKE_MS_MAX}
    return json.dumps(asked).encode()


def rows_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of an answer, as messages are listed. Raises `InvalidRequest` where that is none."""
    return rows_by_name(answer, _message, "rows of messages")


def _message(row: dict[str, Any]) -> dict[str, Any]:
    keys = row["keys"]
    named: Sequence[str] = json.loads(keys) if isinstance(keys, str) else keys or ()
    body = NOT_TEXT if row["body"] is None else row["body"]
    numbers = {name: int(row[name]) for name in ("position", "queue_id", "queue_offset", "store_time_ms")}
    return row | numbers | {"keys": [*named], "body": body}
