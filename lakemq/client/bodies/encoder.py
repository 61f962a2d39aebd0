"""What a producer makes of a body that is neither bytes nor text."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast

from lakemq.client.bodies.json_value import attributes_of, is_model, json_of
from lakemq.client.wrong_type import WrongType
from lakemq.contract.forms import JSON


class Encoded(NamedTuple):
    """A body's bytes, and their type: the message's property `content_type`, unless its sender sets one."""

    body: bytes
    content_type: str | None = None


class Encoder(Protocol):
    """Encodes a body as bytes, such as `msgpack.packb`. It is called in the sender's thread with each body that is
    neither bytes nor text nor given as `json`. The sender gets its errors."""

    def __call__(self, body: Any, /) -> Encoded | bytes:
        """The body's bytes, with their content type where there is one."""
        ...


def default_encoder(body: Any, /) -> Encoded:
    """Dictionaries, lists, dataclasses, pydantic models and attrs classes as JSON. Raises `InvalidRequest` for what
    can't be JSON, `WrongType` for anything else: `json=` takes any value."""
    if isinstance(body, dict | list) or is_model(body) or attributes_of(body) is not None:
        return Encoded(json_of(cast("object", body)), JSON)
    raise WrongType("a body is bytes, text, a dictionary, a list, a dataclass or a model", body)


def encode_by(encoder: Encoder, body: object) -> Encoded:
    """What the encoder makes of a body. Raises what it raises, and `WrongType` unless it returned bytes."""
    made = cast("object", encoder(body))
    if isinstance(made, bytes):
        return Encoded(made)
    if isinstance(made, Encoded) and isinstance(cast("object", made.body), bytes):
        return made
    raise WrongType("an encoder returns bytes, or Encoded", made)
