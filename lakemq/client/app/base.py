"""What applications have in common, with asyncio and without: all that is said before they start."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from lakemq.client.app.health import Counts, Health, State
from lakemq.client.app.listeners import BadBody, ListenerOf, Plan
from lakemq.client.app.memory import MemoryBroker
from lakemq.client.app.options import AppOptions
from lakemq.client.app.parameters import Given, Parameters
from lakemq.client.bodies.decoder import Decoder, default_decoder
from lakemq.client.consume.called import bodies_of, is_async
from lakemq.client.consume.filtered import Filter, check_filter
from lakemq.client.consume.push_options import CONCURRENCY, PushOptions
from lakemq.client.consume.subscription import ConsumeFrom, make_subscription
from lakemq.client.durations import to_seconds
from lakemq.client.outgoing import check_group, check_topic
from lakemq.client.produce.options import ProducerOptions
from lakemq.model.errors import InvalidRequest

logger = logging.getLogger("lakemq.client")

Function = TypeVar("Function", bound=Callable[..., Any])
RETRIES = 16
"""As brokers are set."""
STOP_TIMEOUT_S = 30.0


class BaseApp:
    """See `App`. `types`: what a function is given by the type that its parameter has, beside this application."""

    takes_async = False
    types: tuple[Any, ...] = ()

    def __init__(self, group: str, **options: Any) -> None:
        given = cast("AppOptions", options)
        unknown = options.keys() - AppOptions.__annotations__.keys()
        if unknown or "max_reconsume_times" in options:
            name = min(unknown, default="max_reconsume_times, as it has retries")
            raise TypeError(f"an application has no option {name}")
        self.group = check_group(group)
        self.retries = _check_retries(options.pop("retries", RETRIES))
        self.stop_timeout_s = to_seconds(options.pop("stop_timeout_s", STOP_TIMEOUT_S), "stop_timeout_s")
        self.filter: Filter | None = _check_filter(options.pop("filter", None))
        self.decoder: Decoder = options.pop("decoder", None) or default_decoder
        connection = {name: options[name] for name in _OF_BOTH if name in options}
        self.producer_options = cast("ProducerOptions", connection)
        if (encoder := given.pop("encoder", None)) is not None:
            self.producer_options["encoder"] = encoder
        self.consumer_options = cast("PushOptions", options)
        self.plans: dict[str, Plan] = {}
        self.starters: list[tuple[Callable[..., Any], Parameters]] = []
        self.stoppers: list[tuple[Callable[..., Any], Parameters]] = []
        self.factories: dict[Callable[..., Any], Parameters] = {}
        self.counts = Counts()
        self.state: State = "new"

    def listener(
        self,
        topic: str,
        *,
        tags: str = "*",
        sql: str | None = None,
        filter: Filter | None = None,
        group: str | None = None,
        retries: int | None = None,
        send_to: str | None = None,
        bad_body: BadBody = "dead-letter",
        concurrency: int | None = None,
        orderly: bool | None = None,
        consume_from: ConsumeFrom | None = None,
    ) -> Callable[[Function], Function]:
        """Call the function with each message of a topic, or with those that match `tags` or `sql`, and `filter`, a
        function of the message (by default the application's). A message that `filter` rejects counts as consumed.

        The parameters' annotations decide the arguments: `MessageView`, or no annotation, is the message; bytes, str, a
        dataclass, a pydantic model and so on is its decoded body; `Annotated[…, Resource(…)]` is a resource; `Producer`
        and `App` are those of this application. When the function returns, the message is consumed. If it raises an
        error, the message is delivered again, at most `retries` times (by default the application's, 16); then it
        becomes a dead letter. A body that can't be decoded makes it a dead letter at once, unless `bad_body="retry"`.
        `send_to`: the return value is sent to this topic, before the message counts as consumed. Listeners of the same
        `group` share a consumer, with one listener for each topic, so they have the same `concurrency`, `orderly` and
        `consume_from`. Raises `InvalidRequest` for an impossible combination.
        """
        make_subscription(topic, tags, sql)
        keep = self.filter if filter is None else _check_filter(filter)
        if send_to is not None:
            check_topic(send_to)
        options = {"concurrency": concurrency, "orderly": orderly, "consume_from": consume_from}
        own = cast("PushOptions", {name: value for name, value in options.items() if value is not None})

        def add(function: Function) -> Function:
            made = ListenerOf(
                function=function,
                parameters=self._parameters(function, takes_message=True),
                topic=topic,
                tags=tags,
                sql=sql,
                filter=keep,
                retries=self.retries if retries is None else _check_retries(retries),
                send_to=send_to,
                bad_body=bad_body,
                is_async=is_async(function),
            )
            name = self.group if group is None else check_group(group)
            self.plans.setdefault(name, Plan(name)).add(made, own)
            return function

        self._check_new("a listener")
        if bad_body not in ("dead-letter", "retry"):
            raise InvalidRequest("bad_body is 'dead-letter' or 'retry'")
        return add

    def on_start(self, function: Function) -> Function:
        """Call the function before the first message, once the resources are open."""
        self._check_new("on_start")
        self.starters.append((function, self._parameters(function, takes_message=False)))
        return function

    def on_stop(self, function: Function) -> Function:
        """Call the function after the last message, before the resources are closed."""
        self._check_new("on_stop")
        self.stoppers.append((function, self._parameters(function, takes_message=False)))
        return function

    @property
    def health(self) -> Health:
        """The state of the application, for a probe or a page."""
        counts = self.counts
        return Health(self.state, self._connected(), counts.in_hand, counts.processed, counts.failed)

    def _connected(self) -> Mapping[str, bool]:
        raise NotImplementedError

    def _check_new(self, what: str) -> None:
        if self.state in ("running", "stopping"):
            raise InvalidRequest(f"the application runs: {what} comes before that")

    def _parameters(self, function: Callable[..., Any], takes_message: bool) -> Parameters:
        name = getattr(function, "__qualname__", repr(function))
        if not callable(function):
            raise InvalidRequest(f"a function is to be decorated, not {function!r:.100}")
        if is_async(function) and not self.takes_async:
            raise InvalidRequest(f"{name} is an async def: use lakemq.client.aio.App for that")
        if any(yields(each) for each in bodies_of(function) for yields in _YIELDS):
            raise InvalidRequest(f"{name} has a yield in it: to call it runs nothing of it")
        made = Parameters(function, frozenset({type(self), *self.types}), takes_message, self.decoder)
        self._add_resources(made, ())
        return made

    def _add_resources(self, parameters: Parameters, above: tuple[Callable[..., Any], ...]) -> None:
        """A resource comes after those that it asks for."""
        for factory in parameters.resources.values():
            if factory in above:
                raise InvalidRequest(f"{parameters.name}: resources ask for one another in a circle")
            if factory not in self.factories:
                if not self.takes_async and (is_async(factory) or inspect.isasyncgenfunction(inspect.unwrap(factory))):
                    raise InvalidRequest(f"{factory.__qualname__} is an async def: use lakemq.client.aio.App for that")
                of_it = Parameters(factory, frozenset({type(self), *self.types}), False, self.decoder)
                self._add_resources(of_it, (*above, factory))
                self.factories[factory] = of_it


_YIELDS = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_OF_BOTH = ("brokers", "nameservers", "routes", "token", "tracing")


def _check_filter(given: Filter | None) -> Filter | None:
    if given is not None:
        check_filter(given)
    return given


def _check_retries(retries: Any) -> int:
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise InvalidRequest("retries is a whole number, 0 or more")
    return retries


def threads_of(app: BaseApp) -> int:
    """So many calls of listeners at a time, of all groups."""
    return sum(options_of(app, plan).get("concurrency", CONCURRENCY) for plan in app.plans.values()) or 1


def options_of(app: BaseApp, plan: Plan) -> PushOptions:
    """The options of a group's consumer."""
    return {**app.consumer_options, **plan.options, "max_reconsume_times": plan.retries}


def given_by(app: BaseApp, producer: object, resources: Mapping[Callable[..., Any], Any]) -> Given:
    """What its functions may be given."""
    return Given({type(app): app, **dict.fromkeys(app.types, producer)}, resources)


def memory_broker(app: BaseApp) -> MemoryBroker:
    """A test's replacement for a broker."""
    options = app.consumer_options
    return MemoryBroker(app.plans.values(), options.get("reasons", "full"), options.get("orderly", False))


def check_instead(app: BaseApp, resources: Mapping[Callable[..., Any], Any]) -> Mapping[Callable[..., Any], Any]:
    """A test's replacements for resources. Raises `InvalidRequest` for a resource that nobody uses."""
    for factory in resources:
        if factory not in app.factories:
            raise InvalidRequest(f"no listener asks for the resource of {factory!r:.100}")
    return resources


def raise_first(errors: Sequence[Exception]) -> None:
    """Raise the first of what went wrong, and log the others."""
    for error in errors[1:]:
        logger.error("the application's shutdown failed too", exc_info=error)
    if errors:
        raise errors[0]
