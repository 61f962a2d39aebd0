"""`App` for programs without asyncio: its listeners are plain functions, called in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from inspect import isgeneratorfunction, unwrap
from types import TracebackType
from typing import Any, Self, Unpack

from lakemq.client.app.base import BaseApp, given_by, options_of, raise_first
from lakemq.client.app.listeners import Plan
from lakemq.client.app.options import AppOptions
from lakemq.client.app.parameters import Given
from lakemq.client.app.stopping import asked_to_stop, check_main_thread, say_stopping
from lakemq.client.consume.listener import ConsumeResult, Listener
from lakemq.client.consume.push_options import PushOptions
from lakemq.client.errors import Closed
from lakemq.client.producer import Producer
from lakemq.client.push_consumer import PushConsumer
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest

CLOSE_S = 5.0
"""How long a consumer waits by itself as it is closed."""


class App(BaseApp):
    """An application: functions that process the messages of topics, and the resources that they need.

    `@app.listener("orders")` registers a function. `app.run()` starts the application, and returns once SIGTERM, SIGINT
    or SIGHUP has stopped it: it accepts no new messages, gives the running calls `stop_timeout_s` to end, and closes. A
    second signal ends the process at once. Within another program, use it as a context manager, or `start` and `close`
    it. Options: `AppOptions`. Each group is one `PushConsumer`, with the same guarantees.
    """

    types = (Producer,)

    def __init__(self, group: str, **options: Unpack[AppOptions]) -> None:
        super().__init__(group, **options)
        self._consumers: dict[str, _PushConsumer] = {}
        self._producer: Producer | None = None
        self._given: Given | None = None
        self._stack = ExitStack()

    @property
    def producer(self) -> Producer:
        """The producer for listeners, while the application runs. Raises `Closed` before and after."""
        if self._producer is None:
            raise Closed("an application has its producer from its start to its stop")
        return self._producer

    def start(self) -> None:
        """Open the resources, call the functions of `on_start`, and start consuming. Raises their errors, and those of
        `PushConsumer.start`. Then the application is stopped again."""
        self._open(lambda: Producer(**self.producer_options), {})
        try:
            for plan in self.plans.values():
                consumer = _PushConsumer(plan, self._handler(plan), options_of(self, plan))
                self._consumers[plan.group] = consumer
                for listener in plan.listeners.values():
                    consumer.subscribe(listener.topic, listener.tags, listener.sql)
            for consumer in self._consumers.values():
                consumer.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Accept no new messages, let running calls end within `stop_timeout_s`, leave the groups, call the functions
        of `on_stop`, and close the resources. Closing twice does no harm."""
        if self.state != "running":
            return
        self.state = "stopping"
        with ExitStack() as rest:
            rest.callback(self._shut)
            for consumer in self._consumers.values():
                rest.callback(consumer.close)
            for consumer in self._consumers.values():
                with suppress(Closed):  # one that could not start
                    consumer.pause()
            idle = threading.Event()
            self.counts.on_idle = idle.set
            if self.counts.in_hand:
                idle.wait(max(self.stop_timeout_s - CLOSE_S, 0.0))

    def run(self) -> None:
        """Run until a signal stops it. Raises the errors of `start`, and `InvalidRequest` outside the main thread."""
        check_main_thread()
        with asked_to_stop() as wait, self:
            say_stopping(self.group, wait(), self.counts.in_hand)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _handler(self, plan: Plan) -> Callable[[MessageView], ConsumeResult | None]:
        """What a group's consumer calls with each message."""

        def handle(message: MessageView) -> ConsumeResult | None:
            listener = plan.listener_of(message)
            assert self._given is not None
            with self.counts.call():
                try:
                    if not listener.takes(message):
                        return None
                    result = listener.function(**listener.parameters.arguments(self._given, message))
                    if listener.send_to is None or result is None or isinstance(result, ConsumeResult):
                        return listener.on_result(message, result)
                    self.producer.send(listener.send_to, result)
                except Exception as error:
                    listener.on_error(message, error)
                    raise
            return None

        return handle

    def _connected(self) -> Mapping[str, bool]:
        return {group: consumer.connected for group, consumer in self._consumers.items()}

    def _open(self, make: Callable[[], Producer], instead: Mapping[Callable[..., Any], Any]) -> None:
        """Make the producer and the resources, `instead` of which others are given, and call what comes first."""
        if self.state in ("running", "stopping"):
            raise InvalidRequest("the application runs already")
        self.state = "running"
        try:
            self._producer = self._stack.enter_context(make())
            resources: dict[Callable[..., Any], Any] = {}
            self._given = given_by(self, self._producer, resources)
            for factory, parameters in self.factories.items():
                if factory in instead:
                    resources[factory] = instead[factory]
                elif isgeneratorfunction(plain := unwrap(factory)):
                    opened = contextmanager(plain)(**parameters.arguments(self._given))
                    resources[factory] = self._stack.enter_context(opened)
                else:
                    resources[factory] = factory(**parameters.arguments(self._given))
            for function, parameters in self.starters:
                function(**parameters.arguments(self._given))
        except BaseException:
            self._stack.close()
            self._producer, self._given, self.state = None, None, "stopped"
            raise

    def _shut(self) -> None:
        """Call what comes last, and close the resources and the producer, whatever goes wrong of that."""
        errors: list[Exception] = []
        for function, parameters in self.stoppers:
            assert self._given is not None
            try:
                function(**parameters.arguments(self._given))
            except Exception as error:  # noqa: BLE001  it is raised once all is closed
                errors.append(error)
        try:
            self._stack.close()
        finally:
            self._stack = ExitStack()
            self._consumers.clear()
            self._producer, self._given, self.state = None, None, "stopped"
        raise_first(errors)


class _PushConsumer(PushConsumer):
    """One whose listeners give up by themselves, each after retries of its own."""

    def __init__(self, plan: Plan, listener: Listener, options: PushOptions) -> None:
        self._retries_by_topic = plan.retries_by_topic
        super().__init__(plan.group, listener, **options)
