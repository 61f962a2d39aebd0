"""What a consumer makes of a message's body."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Protocol

from lakemq.model.errors import InvalidRequest, LakemqError

SAID_MAX = 5
"""So many things that are wrong with a body are named."""


class Received(Protocol):
    """The parts of a message that a decoder may use. `MessageView` has more."""

    @property
    def body(self) -> bytes:
        """What was sent."""
        ...

    @property
    def topic(self) -> str:
        """The topic that it was sent to."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """The producer's properties; `content_type` is the type of the body, if it is known."""
        ...


class DecodeError(LakemqError, ValueError):
    """A message's body doesn't fit what it was to be read as. It is the same whenever the message comes again.
    What to do: send it to the dead letters, or read it with a form that fits."""

    code = "decode_error"


class Decoder(Protocol):
    """Decodes a message's body. An error that it raises counts as an error of the message's listener."""

    def __call__(self, message: Received, kind: Any, /) -> Any:
        """The body as a `kind`: a class, or any other annotation."""
        ...


def default_decoder(message: Received, kind: Any, /) -> Any:
    """The body as bytes, as text, or as the JSON of a `kind`: a pydantic model, a dataclass, an attrs class, or any
    annotation of Python's types. Raises `DecodeError`."""
    if kind is bytes:
        return message.body
    if kind is str:
        try:
            return message.body.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"the body is no text: {error}") from None
    return reader_of(kind)(message.body)


def check_kind(kind: object) -> None:
    """Raises `InvalidRequest` for what `default_decoder` never makes."""
    if kind is not bytes and kind is not str:
        reader_of(kind)


@lru_cache(maxsize=1_000)
def reader_of(kind: Any) -> Callable[[bytes], Any]:
    """What reads JSON as a `kind`, and raises `DecodeError`. Raises `InvalidRequest` for a kind that JSON can't be."""
    try:
        import pydantic  # here: only who reads bodies by their type needs it
    except ImportError:  # pragma: no cover
        raise InvalidRequest(f"to read a body as {_name(kind)} takes pydantic") from None
    make: Callable[[Any], Any] | None = None
    read_as = kind
    if hasattr(kind, "__attrs_attrs__"):
        read_as, make = _model_of_attrs(kind), partial(_made_of, kind)
    try:
        validate = pydantic.TypeAdapter(read_as).validate_json
    except (pydantic.errors.PydanticUserError, TypeError, NameError) as error:
        raise InvalidRequest(f"a body can't be read as {_name(kind)}: {str(error).partition(chr(10))[0]}") from None

    def read(body: bytes) -> Any:
        try:
            value = validate(body)
            return value if make is None else make(value)
        except pydantic.ValidationError as error:
            raise DecodeError(f"the body is no {_name(kind)}: {_said(error)}") from None

    return read


def _model_of_attrs(kind: Any) -> Any:
    import pydantic

    hints = typing.get_type_hints(kind, include_extras=True)
    known: dict[str, Any] = {}
    for attribute in kind.__attrs_attrs__:
        if attribute.init:
            needed = repr(attribute.default) == "NOTHING"
            known[attribute.alias] = (hints.get(attribute.name, Any), ... if needed else None)
    return pydantic.create_model(kind.__name__, **known)


def _made_of(kind: Any, model: Any) -> Any:
    return kind(**{name: getattr(model, name) for name in model.model_fields_set})


def _said(error: Any) -> str:
    """What is wrong, without what stands there: that may be nobody else's business."""
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    said = [": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in wrong[:SAID_MAX]]
    more = len(wrong) - SAID_MAX
    return "; ".join(said) + (f"; and {more} more" if more > 0 else "")


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
