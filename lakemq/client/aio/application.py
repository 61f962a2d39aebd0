"""`App` for programs with asyncio: its listeners are `async def`s, or plain functions that are called in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from inspect import isasyncgenfunction, isawaitable, isgeneratorfunction, unwrap
from types import TracebackType
from typing import Any, Self, Unpack

from lakemq.client.aio.producer import Producer
from lakemq.client.aio.push_consumer import PushConsumer
from lakemq.client.app.base import BaseApp, given_by, options_of, raise_first, threads_of
from lakemq.client.app.listeners import ListenerOf, Plan
from lakemq.client.app.options import AppOptions
from lakemq.client.app.parameters import Given, Parameters
from lakemq.client.app.stopping import check_main_thread, loop_asked_to_stop, say_stopping
from lakemq.client.consume.listener import AsyncListener, ConsumeResult
from lakemq.client.consume.push_options import PushOptions
from lakemq.client.errors import Closed
from lakemq.client.in_thread import in_thread
from lakemq.client.view import MessageView
from lakemq.model.errors import InvalidRequest

CLOSE_S = 5.0
"""How long a consumer waits by itself as it is closed."""


class App(BaseApp):
    """An application: functions that process the messages of topics, and the resources that they need.

    `@app.listener("orders")` registers an `async def`, or a plain function, which runs in a thread. `app.run()` starts
    an event loop, and returns once SIGTERM, SIGINT or SIGHUP has stopped it: it accepts no new messages, gives the
    running calls `stop_timeout_s` to end, and closes. A second signal ends the process at once. On a running loop, such
    as a web framework's, use it as an asynchronous context manager, or `start` and `close` it. Options: `AppOptions`.
    Each group is one `PushConsumer`, with the same guarantees.
    """

    takes_async = True
    types = (Producer,)

    def __init__(self, group: str, **options: Unpack[AppOptions]) -> None:
        super().__init__(group, **options)
        self._consumers: dict[str, _PushConsumer] = {}
        self._producer: Producer | None = None
        self._given: Given | None = None
        self._stack = AsyncExitStack()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def producer(self) -> Producer:
        """The producer for listeners, while the application runs. Raises `Closed` before and after."""
        if self._producer is None:
            raise Closed("an application has its producer from its start to its stop")
        return self._producer

    async def start(self) -> None:
        """Open the resources, call the functions of `on_start`, and start consuming. Raises their errors, and those of
        `PushConsumer.start`. Then the application is stopped again."""
        await self._open(lambda: Producer(**self.producer_options), {})
        try:
            for plan in self.plans.values():
                consumer = _PushConsumer(plan, self._handler(plan), options_of(self, plan))
                self._consumers[plan.group] = consumer
                for listener in plan.listeners.values():
                    await consumer.subscribe(listener.topic, listener.tags, listener.sql)
            for consumer in self._consumers.values():
                await consumer.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Accept no new messages, let running calls end within `stop_timeout_s`, leave the groups, call the functions
        of `on_stop`, and close the resources. Closing twice does no harm."""
        if self.state != "running":
            return
        self.state = "stopping"
        async with AsyncExitStack() as rest:
            rest.push_async_callback(self._shut)
            for consumer in self._consumers.values():
                rest.push_async_callback(consumer.close)
            for consumer in self._consumers.values():
                with suppress(Closed):  # one that could not start
                    await consumer.pause()
            idle = asyncio.Event()
            self.counts.on_idle = idle.set
            if self.counts.in_hand:
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self.stop_timeout_s - CLOSE_S, 0.0)):
                        await idle.wait()

    def run(self) -> None:
        """Run until a signal stops it. Raises the errors of `start`, and `InvalidRequest` outside the main thread."""
        check_main_thread()
        asyncio.run(self._run())

    async def _run(self) -> None:
        with loop_asked_to_stop() as asked:
            async with self:
                number = await asked.get()
                say_stopping(self.group, number, self.counts.in_hand)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _handler(self, plan: Plan) -> Callable[[MessageView], Coroutine[Any, Any, ConsumeResult | None]]:
        """What a group's consumer calls with each message."""

        async def handle(message: MessageView) -> ConsumeResult | None:
            listener = plan.listener_of(message)
            with self.counts.call():
                try:
                    if not listener.takes(message):
                        return None
                    result = await self._call(listener, message)
                    if listener.send_to is None or result is None or isinstance(result, ConsumeResult):
                        return listener.on_result(message, result)
                    await self.producer.send(listener.send_to, result)
                except Exception as error:
                    listener.on_error(message, error)
                    raise
            return None

        return handle

    async def _call(self, listener: ListenerOf, message: MessageView) -> Any:
        assert self._given is not None
        arguments = listener.parameters.arguments(self._given, message)
        if listener.is_async:
            return await listener.function(**arguments)
        call = partial(listener.function, **arguments)
        return await in_thread(self._threads, call)

    def _connected(self) -> Mapping[str, bool]:
        return {group: consumer.connected for group, consumer in self._consumers.items()}

    async def _open(self, make: Callable[[], Producer], instead: Mapping[Callable[..., Any], Any]) -> None:
        """Make the producer and the resources, `instead` of which others are given, and call what comes first."""
        if self.state in ("running", "stopping"):
            raise InvalidRequest("the application runs already")
        self.state = "running"
        self._threads = ThreadPoolExecutor(threads_of(self), f"lakemq-{self.group}")
        try:
            self._stack.callback(self._threads.shutdown, wait=False, cancel_futures=True)
            self._producer = await self._stack.enter_async_context(make())
            resources: dict[Callable[..., Any], Any] = {}
            self._given = given_by(self, self._producer, resources)
            for factory, parameters in self.factories.items():
                resources[factory] = instead[factory] if factory in instead else await self._made(factory, parameters)
            for function, parameters in self.starters:
                await _awaited(function(**parameters.arguments(self._given)))
        except BaseException:
            await self._stack.aclose()
            self._producer, self._given, self.state = None, None, "stopped"
            raise

    async def _made(self, factory: Callable[..., Any], parameters: Parameters) -> Any:
        assert self._given is not None
        arguments = parameters.arguments(self._given)
        plain = unwrap(factory)
        if isasyncgenfunction(plain):
            return await self._stack.enter_async_context(asynccontextmanager(plain)(**arguments))
        if isgeneratorfunction(plain):
            return self._stack.enter_context(contextmanager(plain)(**arguments))
        return await _awaited(factory(**arguments))

    async def _shut(self) -> None:
        """Call what comes last, and close the resources and the producer, whatever goes wrong of that."""
        errors: list[Exception] = []
        for function, parameters in self.stoppers:
            assert self._given is not None
            try:
                await _awaited(function(**parameters.arguments(self._given)))
            except Exception as error:  # noqa: BLE001  it is raised once all is closed
                errors.append(error)
        try:
            await self._stack.aclose()
        finally:
            self._stack = AsyncExitStack()
            self._consumers.clear()
            self._producer, self._given, self.state = None, None, "stopped"
        raise_first(errors)


async def _awaited(made: Any) -> Any:
    return await made if isawaitable(made) else made


class _PushConsumer(PushConsumer):
    """One whose listeners give up by themselves, each after retries of its own."""

    def __init__(self, plan: Plan, listener: AsyncListener, options: PushOptions) -> None:
        self._retries_by_topic = plan.retries_by_topic
        super().__init__(plan.group, listener, **options)
