"""The body of a heartbeat: read and checked."""

from __future__ import annotations

import sys
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakemq.contract.limits import NUMBER_MAX
from lakemq.model.errors import InvalidRequest
from lakemq.model.ids import is_broker_name
from lakemq.model.names import check_address, check_readable, leader_address
from lakemq.nameserver.registration import Registration, Share
from lakemq.nameserver.registry import Key

ADDRESS_CHARACTERS_MAX = 300
QUEUES_MAX = 65_535
REPLICA_MAX = 65_535
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$")]
Permission = Literal["rw", "r", "w"]
_STRICT = ConfigDict(extra="forbid", strict=True)


class TopicBody(BaseModel):
    """What the broker has of a topic."""

    model_config = _STRICT
    topic: str = Field(max_length=200)
    queues: int = Field(ge=1, le=QUEUES_MAX)
    permission: Permission


class HeartbeatBody(BaseModel):
    """What a replica says of itself."""

    model_config = _STRICT
    cluster: Name
    address: str = Field(max_length=ADDRESS_CHARACTERS_MAX)
    role: Literal["primary", "follower"]
    epoch: int = Field(ge=0, le=NUMBER_MAX)
    log_id: Name
    permission: Permission
    topics: list[TopicBody]


def digest_of(body: bytes) -> bytes:
    """What stands for a body: nobody finds another one with the same."""
    return blake2b(body, digest_size=16).digest()


def parse_key(broker: str, replica: str) -> Key:
    """Which replica a path names; raises `InvalidRequest`."""
    if not is_broker_name(broker):
        raise InvalidRequest(f"a broker's name matches [A-Za-z0-9_-]{{1,63}}, unlike {broker[:200]!r}")
    if not (replica.isascii() and replica.isdigit() and len(replica) <= 5 and int(replica) <= REPLICA_MAX):
        raise InvalidRequest(f"a replica is a number up to {REPLICA_MAX}, unlike {replica[:200]!r}")
    if str(int(replica)) != replica:
        raise InvalidRequest(f"replica {replica} is {int(replica)}")
    return Key(broker, int(replica))


def parse_registration(body: bytes) -> Registration:
    """What a heartbeat says; raises `InvalidRequest`, `InvalidTopic`."""
    try:
        told = HeartbeatBody.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise InvalidRequest(f"{place}: {fault['msg']}" if place else fault["msg"]) from None
    # Names come again and again, and each is kept once.
    topics = {sys.intern(check_readable(each.topic)): _share(each.queues, each.permission) for each in told.topics}
    if len(topics) < len(told.topics):
        raise InvalidRequest("topics has a topic twice")
    if not leader_address(check_address(told.address)):  # as clients read it: they leave out what isn't one
        raise InvalidRequest("address says who asks there, which is each client's own matter")
    return Registration(told.cluster, told.address, told.role, told.epoch, told.log_id, told.permission, topics)


@lru_cache(1024)
def _share(queues: int, permission: str) -> Share:
    return Share(queues, permission)
