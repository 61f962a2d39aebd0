"""What an application does with messages, in memory: the same in threads and with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import pydantic
import pytest

from lakemq.client import (
    App,
    Closed,
    ConsumeLater,
    ConsumeResult,
    DecodeError,
    Message,
    MessageView,
    Producer,
    Resource,
    TestApp,
    aio,
)
from lakemq.client.app.base import options_of
from lakemq.model.errors import InvalidRequest

NOWHERE = "http://127.0.0.1:1"


@dataclass
class Order:
    number: int
    amount: float = 1.0


class Invoice(pydantic.BaseModel):
    order: int


class Ledger:
    """A resource that says what is done with it."""

    def __init__(self) -> None:
        self.said: list[str] = []


LEDGER = Ledger()


def ledger() -> Iterator[Ledger]:
    LEDGER.said.append("open")
    yield LEDGER
    LEDGER.said.append("close")


def page(of: Annotated[Ledger, Resource(ledger)]) -> list[str]:
    return of.said


Page = Annotated[list[str], Resource(page)]


def test_a_listener_is_called_with_what_its_parameters_ask_for() -> None:
    app = App("billing", brokers=NOWHERE)
    seen: list[Any] = []

    @app.listener("orders", send_to="invoices")
    def bill(order: Order, message: MessageView, said: Page, producer: Producer, mine: App, more: int = 5) -> Invoice:
        assert (producer, mine, more) == (app.producer, app, 5)
        said.append(f"bill {order.number} {message.tag}")
        return Invoice(order=order.number)

    @app.listener("invoices")
    def post(invoice: Invoice) -> None:
        seen.append(invoice)

    @app.listener("texts")
    def read(text: str) -> None:
        seen.append(text)

    app.listener("raw")(lambda message: seen.append(message.body))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]

    @app.on_start
    def begin(said: Page) -> None:
        said.append("begin")

    @app.on_stop
    def end(said: Page) -> None:
        said.append("end")

    LEDGER.said.clear()
    with TestApp(app) as test:
        test.send("orders", Order(7), tag="paid")
        test.send("texts", "hello")
        test.send("raw", b"\xff")
        test.send("nobody", "hears")
    assert LEDGER.said == ["open", "begin", "bill 7 paid", "end", "close"]
    assert seen == [Invoice(order=7), "hello", b"\xff"]
    assert [(sent.topic, sent.json()) for sent in test.sent] == [("invoices", {"order": 7})]
    assert [message.topic for message in test.acked] == ["orders", "invoices", "texts", "raw"]
    assert bill.__name__ == "bill", "what is decorated may be called as before"
    with TestApp(app, resources={ledger: Ledger()}):
        assert LEDGER.said[-1] == "close"
    with pytest.raises(Closed):
        assert app.producer


class Behaviour:
    """Fails so often, as it is told."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)

    def __call__(self) -> Any:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


Run = Callable[[Behaviour, dict[str, Any]], TestApp]


def in_threads(behaviour: Behaviour, options: dict[str, Any]) -> TestApp:
    app = App("billing", brokers=NOWHERE)

    @app.listener("orders", **options)
    def listen(order: Order) -> Any:
        return behaviour()

    with TestApp(app) as test:
        test.send("orders", json={"number": 1})
    return test


def with_asyncio(behaviour: Behaviour, options: dict[str, Any]) -> Any:
    app = aio.App("billing", brokers=NOWHERE)

    @app.listener("orders", **options)
    async def listen(order: Order) -> Any:
        await asyncio.sleep(0)
        return behaviour()

    async def main() -> aio.TestApp:
        async with aio.TestApp(app) as test:
            await test.send("orders", json={"number": 1})
        return test

    return asyncio.run(main())


def in_threads_of_a_loop(behaviour: Behaviour, options: dict[str, Any]) -> Any:
    app = aio.App("billing", brokers=NOWHERE)

    @app.listener("orders", **options)
    def listen(order: Order) -> Any:
        return behaviour()

    async def main() -> aio.TestApp:
        async with aio.TestApp(app) as test:
            await test.send("orders", json={"number": 1})
        return test

    return asyncio.run(main())


RUNS = [in_threads, with_asyncio, in_threads_of_a_loop]


@pytest.mark.parametrize("run", RUNS)
def test_what_fails_comes_again_and_is_a_dead_letter_after_its_retries(run: Run) -> None:
    again = run(Behaviour(ValueError("no"), ConsumeResult.LATER, ConsumeLater(level=2, reason="busy"), None), {})
    assert [(each.failure_class, each.failure_text, each.delay_level) for each in again.nacked] == [
        ("ValueError", "no", 0),
        (None, None, 0),
        (None, "busy", 2),
    ]
    assert [(each.reconsume_times, each.topic, each.failure_text) for each in again.acked] == [(3, "orders", "busy")]
    given_up = run(Behaviour(ValueError("a"), ValueError("b"), ValueError("c")), {"retries": 2})
    assert [each.delay_level for each in given_up.nacked] == [0, 0, -1]
    (dead,) = given_up.dead_letters
    assert (dead.stored_topic, dead.real_topic, dead.failure_class, dead.failure_text) == (
        "%DLQ%billing",
        "orders",
        "ValueError",
        "c",
    )
    assert dead.decode(Order) == Order(1)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (ValueError("no"), "no"),
        (ConsumeLater(level=3, reason="busy"), "busy"),
        (ConsumeResult.LATER, "after 0 retries the listener still says ConsumeResult.LATER"),
        (DecodeError("unfit"), "unfit"),
        (42, "it returned 42, no ConsumeResult and not None"),
    ],
)
def test_without_retries_every_failure_is_a_dead_letter(run: Run, outcome: Any, said: str) -> None:
    test = run(Behaviour(outcome), {"retries": 0})
    assert [message.failure_text for message in test.dead_letters] == [said]
    assert not test.acked


@pytest.mark.parametrize("run", RUNS)
def test_what_a_listener_can_not_send_is_its_failure(run: Run) -> None:
    test = run(Behaviour(float("nan"), Message(json=1, tag="T")), {"send_to": "next"})
    assert "a body is bytes, text" in str(test.nacked[0].failure_text)
    assert [(sent.topic, sent.message.body, sent.message.tag) for sent in test.sent] == [("next", b"1", "T")]


@pytest.mark.parametrize(("bad_body", "times"), [("dead-letter", 1), ("retry", 3)])
def test_a_body_that_does_not_fit_is_a_dead_letter_with_the_reason(bad_body: Any, times: int) -> None:
    app = App("billing", brokers=NOWHERE)

    @app.listener("orders", bad_body=bad_body, retries=2)
    def listen(order: Order) -> None:
        raise AssertionError

    with TestApp(app) as test:
        test.send("orders", json={"number": "secret"})
    assert len(test.nacked) == times
    (dead,) = test.dead_letters
    assert str(dead.failure_class).endswith("DecodeError")
    assert str(dead.failure_text).startswith("the body is no Order: number: Input should be a valid integer")


def test_every_group_has_a_message_of_its_tags_and_only_them() -> None:
    app, seen = App("billing", brokers=NOWHERE), list[str]()

    @app.listener("orders", tags="paid || sent")
    def bill(text: str) -> None:
        seen.append(f"bill {text}")

    @app.listener("orders", group="audit")
    def audit(text: str) -> None:
        seen.append(f"audit {text}")

    with TestApp(app) as test:
        test.send("orders", "a", tag="paid")
        test.send("orders", "b", tag="new", keys=["k"])
        test.send("orders", "c")
    assert sorted(seen) == ["audit a", "audit b", "audit c", "bill a"]


def test_a_filter_takes_messages_and_the_others_are_done() -> None:
    app, seen = App("billing", brokers=NOWHERE, retries=0, filter=lambda message: message.body != b"skip"), list[str]()

    @app.listener("all")
    def every(text: str) -> None:
        seen.append(text)

    @app.listener("large", filter=lambda message: message.json()["amount"] > 10)
    def large(order: dict[str, int]) -> None:
        seen.append(f"large {order['amount']}")

    with TestApp(app) as test:
        for text in ("one", "skip"):
            test.send("all", text)
        for amount in (5, 50):
            test.send("large", json={"amount": amount})
        test.send("large", b"no JSON")
    assert seen == ["one", "large 50"]
    assert len(test.acked) == 4
    assert "JSONDecodeError" in str(test.dead_letters[0].failure_class)
    with pytest.raises(InvalidRequest, match="plain function"):
        app.listener("x", filter="large")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match="plain function"):
        App("x", filter=is_wanted)


async def is_wanted(message: MessageView) -> bool:
    return True


def test_messages_come_in_the_order_of_their_delays_and_retries() -> None:
    app, seen = App("kitchen", brokers=NOWHERE, retries=2), list[str]()

    @app.listener("start")
    def start(text: str, producer: Producer) -> None:
        producer.send("meals", "in a minute", delay=60)
        producer.send("meals", "in five seconds", delay_level=2)
        producer.send("meals", "in a year", deliver_at=datetime(2030, 1, 1, tzinfo=UTC))
        producer.send("meals", "fails")
        producer.send("meals", "now")

    @app.listener("meals")
    def cook(text: str) -> None:
        seen.append(text)
        if text == "fails" and seen.count(text) < 3:
            raise ValueError(text)

    with TestApp(app) as test:
        test.send("start", "go")
    # It comes again after 10 s, and 30 s later.
    assert seen == ["fails", "now", "in five seconds", "fails", "fails", "in a minute", "in a year"]


def test_what_fails_in_order_holds_up_what_comes_after_it() -> None:
    app, seen = App("kitchen", brokers=NOWHERE, retries=1), list[str]()

    @app.listener("start")
    def start(text: str, producer: Producer) -> None:
        for each in ("first", "second"):
            producer.send("meals", each)

    @app.listener("meals", orderly=True, group="cooks")
    def cook(text: str) -> None:
        seen.append(text)
        if text == "first":
            raise ValueError(text)

    with TestApp(app) as test:
        test.send("start", "go")
    assert seen == ["first", "first", "second"]


def test_what_only_a_broker_can_evaluate_is_refused() -> None:
    app = App("billing", brokers=NOWHERE)

    @app.listener("orders", sql="amount > 100")
    def bill(text: str) -> None: ...

    with TestApp(app) as test, pytest.raises(InvalidRequest, match=r"can't evaluate the sql of a listener of 'orders'"):
        test.send("orders", "x")


def test_listeners_that_send_to_one_another_are_found_out() -> None:
    app = App("billing", brokers=NOWHERE)

    @app.listener("ping", send_to="ping")
    def ping(text: str) -> str:
        return text

    with TestApp(app) as test, pytest.raises(InvalidRequest, match="after 10,000 messages"):
        test.send("ping", "x")
    with pytest.raises(InvalidRequest, match="within its with block"):
        test.send("ping", "x")


def represented(body: Any) -> bytes:
    return repr(body).encode()


def test_all_ways_to_send_are_seen_in_a_test() -> None:
    app, asynchronous = (
        App("g", brokers=NOWHERE),
        aio.App("g", brokers=NOWHERE, encoder=represented),
    )

    @app.listener("t")
    def listen(producer: Producer, message: MessageView) -> None:
        assert producer.send("a", json=1).broker == "test"
        assert producer.send_async("a", "2").result().queue_offset > 0
        producer.send_oneway("a", [3])
        producer.send_batch("a", ["4", Message(json=5, keys="k l")])
        producer.flush()
        with pytest.raises(InvalidRequest, match="nobody answers"):
            producer.request("a", "6")

    @asynchronous.listener("t")
    async def listen_too(producer: aio.Producer, message: MessageView) -> None:
        await producer.send("a", json=1)
        await (await producer.send_async("a", "2"))
        await producer.send_oneway("a", [3])
        await producer.send_batch("a", ["4", Message(json=5)])
        await producer.flush()
        with pytest.raises(InvalidRequest, match="nobody answers"):
            await producer.request("a", "6")

    async def main() -> list[bytes]:
        async with aio.TestApp(asynchronous) as test:
            await test.send("t", "x")
        assert [each.failure_text for each in test.nacked] == []
        return [sent.message.body for sent in test.sent]

    with TestApp(app) as test:
        test.send("t", "x")
    assert [sent.message.body for sent in test.sent] == [b"1", b"2", b"[3]", b"4", b"5"] == asyncio.run(main())


async def opened(log: list[str]) -> None:
    log.append("opened")


def test_resources_of_any_kind_are_opened_in_order_and_closed_in_the_other() -> None:
    app, log = aio.App("g", brokers=NOWHERE), list[str]()

    async def first() -> AsyncIterator[str]:
        log.append("+first")
        yield "first"
        log.append("-first")

    async def second(before: Annotated[str, Resource(first)]) -> str:
        await opened(log)
        return before + " second"

    def third(before: Annotated[str, Resource(second)]) -> Iterator[str]:
        log.append("+third")
        yield before + " third"
        log.append("-third")

    def listen(text: str, both: str) -> None: ...

    listen.__annotations__ = {"text": str, "both": Annotated[str, Resource(third)]}
    second.__annotations__ = {"before": Annotated[str, Resource(first)]}
    third.__annotations__ = {"before": Annotated[str, Resource(second)]}
    app.listener("t")(listen)

    @app.on_stop
    def fails() -> None:
        log.append("fails")
        raise ValueError("at the end")

    async def main() -> None:
        with pytest.raises(ValueError, match="at the end"):
            async with aio.TestApp(app):
                log.append("runs")

    asyncio.run(main())
    assert log == ["+first", "opened", "+third", "runs", "fails", "-third", "-first"]
    assert app.health.state == "stopped"


def test_what_fails_as_an_application_starts_closes_what_was_opened() -> None:
    app = App("g", brokers=NOWHERE)

    @app.listener("t")
    def listen(message: MessageView, said: Page) -> None: ...

    @app.on_start
    def fails() -> None:
        raise ValueError("at the begin")

    LEDGER.said.clear()
    with pytest.raises(ValueError, match="at the begin"):
        app.start()
    assert LEDGER.said == ["open", "close"]
    assert (app.health.state, app.health.ready) == ("stopped", False)


async def asynchronous(message: MessageView) -> None: ...


def nothing() -> None: ...


def generator(message: MessageView) -> Iterator[None]:
    yield


def unknown(message: MessageView, order: Order, more: Order) -> None: ...


def unmade(body: App, thing: aio.App) -> None: ...


def positional(message: MessageView, /) -> None: ...


def missing(order: Order) -> None: ...


missing.__annotations__ = {"order": "Nowhere"}


@pytest.mark.parametrize(
    ("listener", "options", "said"),
    [
        (asynchronous, {}, "asynchronous is an async def: use lakemq.client.aio.App"),
        (generator, {}, "generator has a yield in it"),
        ("listen", {}, "a function is to be decorated, not 'listen'"),
        (unknown, {}, "unknown: nothing is known to be given for parameter 'more'"),
        (unmade, {}, "unmade: parameter 'thing': a body can't be read as App"),
        (positional, {}, "positional: parameter 'message' must take its value by name"),
        (missing, {}, "missing: name 'Nowhere' is not defined"),
        (nothing, {"retries": -1}, "retries is a whole number"),
        (nothing, {"bad_body": "drop"}, "bad_body is 'dead-letter' or 'retry'"),
        (nothing, {"sql": "a = 1", "tags": "T"}, "by tags or by sql"),
    ],
)
def test_what_can_not_be_called_is_refused_where_it_is_said(listener: Any, options: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        App("g", brokers=NOWHERE).listener("t", **options)(listener)


def test_listeners_of_a_group_agree_on_their_consumer() -> None:
    app = App("g", brokers=NOWHERE, concurrency=3)
    app.listener("a", orderly=True)(nothing)
    with pytest.raises(InvalidRequest, match="group 'g' has a listener for topic 'a'"):
        app.listener("a")(nothing)
    with pytest.raises(InvalidRequest, match="differ in orderly: give one a group of its own"):
        app.listener("b", orderly=False)(nothing)
    app.listener("b", orderly=False, group="h", concurrency=4, retries=20)(nothing)
    app.listener("c", retries=3)(nothing)
    options = [options_of(app, plan) for plan in app.plans.values()]
    assert [each.get("concurrency") for each in options] == [3, 4]
    assert [each.get("max_reconsume_times") for each in options] == [16, 20]
    with pytest.raises(TypeError, match="no option colour"):
        App("g", colour="red")  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="as it has retries"):
        App("g", max_reconsume_times=3)
    with pytest.raises(InvalidRequest, match="a resource is made by a function"):
        Resource("x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match="no listener asks for the resource"):
        TestApp(app, resources={ledger: 1})


def test_a_message_that_nobody_listens_for_any_more_is_not_lost() -> None:
    app = App("g", brokers=NOWHERE)
    app.listener("a")(nothing)
    with pytest.raises(LookupError, match="group 'g' has no listener for topic 'b'"):
        app._handler(app.plans["g"])(  # pyright: ignore[reportPrivateUsage]
            MessageView.of({"topic": "b", "stored_topic": None, "body": "x"})
        )
