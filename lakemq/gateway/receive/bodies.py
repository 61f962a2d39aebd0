"""The requests of simple consumption, as they stand in their bodies."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakemq.contract.limits import NUMBER_MAX
from lakemq.model.errors import InvalidRequest

Strict = ConfigDict(extra="forbid", strict=True)
RECEIPT_CHARACTERS_MAX = 200

Body = TypeVar("Body", bound=BaseModel)


class ReceiveBody(BaseModel):
    """A receive. `max_reconsume_times` None: the broker's. What is too much the settings say."""

    model_config = Strict
    topic: str = Field(max_length=300)
    max: int = Field(32, ge=1, le=NUMBER_MAX)
    wait_ms: int = Field(15_000, ge=0, le=NUMBER_MAX)
    invisible_ms: int = Field(30_000, ge=1, le=NUMBER_MAX)
    tags: str | None = None
    sql: str | None = None
    max_reconsume_times: int | None = Field(None, ge=0, le=10_000)
    ordered: bool = False


class AcksBody(BaseModel):
    """Receipts whose messages are done with."""

    model_config = Strict
    receipts: list[str] = Field(min_length=1)


class InvisibilityBody(BaseModel):
    """A receipt whose message is to be invisible from now on for so long; 0: not at all."""

    model_config = Strict
    receipt: str = Field(max_length=RECEIPT_CHARACTERS_MAX)
    invisible_ms: int = Field(ge=0, le=NUMBER_MAX)


def parse(kind: type[Body], body: bytes) -> Body:
    """The request in a body of JSON; raises `InvalidRequest`."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(["body", *(str(part) for part in fault["loc"])])
        raise InvalidRequest(f"{place}: {fault['msg']}") from None
