"""What a function of an application asks for by its parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lakemq.client.bodies.decoder import Decoder, check_kind, default_decoder
from lakemq.client.consume.called import bodies_of
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest


class Resource:
    """Marks a parameter that is created when the application starts, and lives until it stops: `db: Annotated[Database,
    Resource(open_database)]`.

    The factory is a function, or a generator that yields once: the code after its `yield` runs when the application
    stops. There is one instance for the whole application. A factory may have parameters that are resources, too.
    """

    def __init__(self, factory: Callable[..., Any]) -> None:
        if not callable(factory):
            raise InvalidRequest(f"a resource is made by a function, not {factory!r:.100}")
        self.factory = factory


class Given(NamedTuple):
    """What functions may be given: by the type that they ask for, and by the factory of a resource."""

    by_type: Mapping[Any, object]
    resources: Mapping[Callable[..., Any], Any]


class Parameters:
    """The parameters of one function. `takes_message`: it is a listener, and one of them is the message or its body.

    Raises `InvalidRequest` for a parameter that nobody knows what to give to.
    """

    def __init__(
        self, function: Callable[..., Any], types: frozenset[Any], takes_message: bool, decoder: Decoder
    ) -> None:
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.resources: dict[str, Callable[..., Any]] = {}
        self.message: str | None = None
        self.body: tuple[str, Any] | None = None
        self._types: dict[str, Any] = {}
        self._all_types = types
        self._takes_message = takes_message
        self._decoder = decoder
        hints = self._hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise InvalidRequest(f"{self.name}: parameter {name!r} must take its value by name too")
            self._look(name, hints.get(name, parameter.empty), parameter.default is not parameter.empty)

    def arguments(self, given: Given, message: MessageView | None = None) -> dict[str, Any]:
        """What to call the function with. Raises what the decoder raises."""
        arguments = {name: given.by_type[kind] for name, kind in self._types.items()}
        for name, factory in self.resources.items():
            arguments[name] = given.resources[factory]
        if self.message is not None:
            arguments[self.message] = message
        if self.body is not None and message is not None:
            name, kind = self.body
            arguments[name] = self._decoder(message, kind)
        return arguments

    def _hints(self, function: Callable[..., Any]) -> dict[str, Any]:
        called = inspect.unwrap(typing.cast("Callable[..., Any]", bodies_of(function)[1]))
        try:
            return typing.get_type_hints(getattr(called, "func", called), include_extras=True)
        except NameError as error:
            raise InvalidRequest(f"{self.name}: {error}: its annotations name what a module has") from None
        except TypeError:  # what has no annotations at all
            return {}

    def _look(self, name: str, kind: Any, has_default: bool) -> None:
        for mark in typing.get_args(kind)[1:] if typing.get_origin(kind) is typing.Annotated else ():
            if isinstance(mark, Resource):
                self.resources[name] = mark.factory
                return
        if kind in self._all_types:
            self._types[name] = kind
        elif not self._takes_message:
            if not has_default:
                raise InvalidRequest(f"{self.name}: nothing is known to be given for parameter {name!r}")
        elif kind is MessageView or (kind is inspect.Parameter.empty and self.message is None and not has_default):
            self.message = name
        elif not has_default:
            self._look_at_body(name, kind)

    def _look_at_body(self, name: str, kind: Any) -> None:
        if kind is inspect.Parameter.empty or self.body is not None:
            raise InvalidRequest(f"{self.name}: nothing is known to be given for parameter {name!r}")
        if self._decoder is default_decoder:
            try:
                check_kind(kind)
            except InvalidRequest as error:
                raise InvalidRequest(f"{self.name}: parameter {name!r}: {error.detail}") from None
        self.body = (name, kind)
