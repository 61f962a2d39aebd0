"""Why messages failed, as consumers tell it and others read it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
import pytest

from lakemq import client
from lakemq.client import ConsumeLater, ConsumeResult, MessageView, PushConsumer, SimpleConsumer, aio
from lakemq.client.consume.reason import Reasons, reason_of, send_nacks, to_entry
from lakemq.model.errors import InvalidRequest
from lakemq.model.failure import TEXT_MAX, TIME_OUT, Failure
from lakemq.testing import GatewayProcess
from tests.client.consuming import is_there, make_topic, put, wait_until
from tests.client.producing import stored


class OddError(Exception):
    """Its text can't be had."""

    def __str__(self) -> str:
        raise ValueError


ODD = f"{__name__}.OddError"


class ExitingError(Exception):
    """Whoever asks for its text ends."""

    def __str__(self) -> str:
        raise SystemExit(3)


WRONG = "lakemq.client.WrongType"


def fail(message: MessageView) -> ConsumeResult:
    """By what the message says."""
    match message.text():
        case "raises":
            raise ValueError("no amount\x1b[2J")
        case "odd":
            raise OddError
        case "later with a text":
            raise ConsumeLater(-1, "no such customer")
        case "later with an error":
            raise ConsumeLater(-1, KeyError("customer"))
        case "later from an error":
            raise ConsumeLater(-1) from KeyError("customer")
        case "a text, from an error":
            raise ConsumeLater(-1, "no such customer") from KeyError("customer")
        case "wrong result":
            return 7  # pyright: ignore[reportReturnType]
        case "exits":
            raise SystemExit(3)
        case "no level":
            raise ConsumeLater(10**30)
        case _:
            return ConsumeResult.LATER


TOLD: dict[str, tuple[str | None, str | None]] = {
    "raises": ("ValueError", "no amount\\x1b[2J"),
    "odd": (ODD, None),
    "later": (None, None),
    "later with a text": (None, "no such customer"),
    "later with an error": ("KeyError", "'customer'"),
    "later from an error": ("KeyError", "'customer'"),
    "a text, from an error": ("KeyError", "no such customer"),
    "wrong result": ("TypeError", "it returned 7, no ConsumeResult and not None"),
    "exits": ("SystemExit", "3"),
    "no level": (WRONG, f"a delay level is a whole number of at most 32 bits, not {10**30} (int)"),
}


def letters(url: str, group: str, count: int) -> dict[str, tuple[str | None, str | None]]:
    """Why each dead letter of the group failed, once there are so many."""
    dead = f"%DLQ%{group}"
    wait_until(lambda: is_there(url, dead) and len(stored(url, dead)) >= count)
    return {each.text(): (each.failure_class, each.failure_text) for each in stored(url, dead)}


@pytest.mark.parametrize("reasons", ["full", "class", "none"])
def test_as_much_is_told_of_an_error_as_the_consumer_is_set_to_tell(
    brisk: GatewayProcess, topic: str, group: str, reasons: Reasons
) -> None:
    put(brisk.url, topic, list(TOLD))
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 0}
    with PushConsumer(group, fail, reasons=reasons, **options) as consumer:
        consumer.subscribe(topic)
        found = letters(brisk.url, group, len(TOLD))
    shown = {"full": lambda told: told, "class": lambda told: (told[0], None), "none": lambda _: (None, None)}[reasons]
    assert found == {text: shown(told) for text, told in TOLD.items()}


class DecodeError(Exception):
    """Not the client's, but of the same name."""


def test_an_error_of_the_client_has_the_name_that_programs_import() -> None:
    """Regression: it was `lakemq.client.bodies.decoder.DecodeError`."""
    for kind in (client.DecodeError, client.InvalidRequest, client.Unreachable, client.MessageNotFound):
        name = (reason_of(kind("no")) or Failure(None, None)).name
        assert name == f"lakemq.client.{kind.__name__}"
    assert reason_of(DecodeError("no")) == Failure(f"{__name__}.DecodeError", "no")


def test_a_retry_says_why_it_comes_again(brisk: GatewayProcess, topic: str, group: str) -> None:
    seen: list[tuple[str | None, str | None]] = []

    def listener(message: MessageView) -> None:
        seen.append((message.failure_class, message.failure_text))
        raise ValueError(f"time {message.reconsume_times}")

    put(brisk.url, topic, ["x"])
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 2}
    with PushConsumer(group, listener, **options) as consumer:
        consumer.subscribe(topic)
        assert letters(brisk.url, group, 1) == {"x": ("ValueError", "time 2")}
    assert seen == [(None, None), ("ValueError", "time 0"), ("ValueError", "time 1")]


def test_listeners_of_all_kinds_tell_it(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, ["raises", "a"])

    def batch(messages: list[MessageView]) -> None:
        raise ValueError(len(messages))

    async def one(message: MessageView) -> None:
        raise ValueError(message.text())

    async def many(messages: list[MessageView]) -> None:
        raise ConsumeLater(-1, "all of them")

    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 0}
    in_order: dict[str, Any] = options | {"orderly": True, "suspend_s": 0.01, "max_reconsume_times": 1}
    with (
        PushConsumer(f"{group}-batch", batch_listener=batch, **options) as batches,
        PushConsumer(f"{group}-ordered", fail, **in_order) as ordered,
    ):
        batches.subscribe(topic)
        ordered.subscribe(topic)
        found = letters(brisk.url, f"{group}-batch", 2)
        assert {name for name, _ in found.values()} == {"ValueError"}
        assert letters(brisk.url, f"{group}-ordered", 2)["raises"] == TOLD["raises"], "that of the last try"

    async def run() -> None:
        async with (
            aio.PushConsumer(f"{group}-one", one, **options) as first,
            aio.PushConsumer(f"{group}-many", batch_listener=many, **options) as second,
        ):
            await first.subscribe(topic)
            await second.subscribe(topic)
            of_one = await asyncio.to_thread(letters, brisk.url, f"{group}-one", 2)
            assert of_one == {"raises": ("ValueError", "raises"), "a": ("ValueError", "a")}
            of_many = await asyncio.to_thread(letters, brisk.url, f"{group}-many", 2)
            assert set(of_many.values()) == {(None, "all of them")}

    asyncio.run(asyncio.wait_for(run(), 120))


class OwnError(BaseException):
    """Not an `Exception`, as those of trio and pytest are."""


def test_an_asyncio_listener_fails_on_its_message_only_whatever_it_raises(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, ["a", "b"])

    async def one(message: MessageView) -> None:
        raise OwnError(message.text())

    async def many(messages: list[MessageView]) -> None:
        raise OwnError("all of them")

    options: dict[str, Any] = {
        "brokers": brisk.url,
        "consume_from": "first",
        "max_reconsume_times": 0,
        "concurrency": 1,
    }

    async def run() -> None:
        async with (
            aio.PushConsumer(f"{group}-one", one, **options) as first,
            aio.PushConsumer(f"{group}-many", batch_listener=many, **options) as second,
        ):
            await first.subscribe(topic)
            await second.subscribe(topic)
            of_one = await asyncio.to_thread(letters, brisk.url, f"{group}-one", 2)
            assert of_one == {text: (f"{__name__}.OwnError", text) for text in ("a", "b")}
            of_many = await asyncio.to_thread(letters, brisk.url, f"{group}-many", 2)
            assert set(of_many.values()) == {(f"{__name__}.OwnError", "all of them")}

    asyncio.run(asyncio.wait_for(run(), 120))
    logged = [each.exc_info[1] for each in caplog.records if each.exc_info and "the listener failed" in each.message]
    assert logged
    assert all(isinstance(error, OwnError) for error in logged)


def test_who_receives_may_say_why_and_who_says_nothing_ran_out(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["x"])
    with SimpleConsumer(group, brokers=brisk.url, max_reconsume_times=1) as consumer:
        consumer.receive(topic, wait_s=20, invisible_s=0.05)
        [again] = consumer.receive(topic, wait_s=20)
        assert again.failure_class == TIME_OUT
        consumer.nack(again, -1, reason=TimeoutError("the printer"))
    assert letters(brisk.url, group, 1) == {"x": ("TimeoutError", "the printer")}


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="reasons is one of full, class, none"):
        PushConsumer("g", fail, reasons="all")  # pyright: ignore[reportArgumentType]


def test_a_long_text_is_cut_before_it_is_sent() -> None:
    why = reason_of(ValueError("x" * 10_000_000))
    assert why is not None
    assert len(why.text or "") == TEXT_MAX


def test_an_error_whose_text_ends_who_asks_is_told_by_its_class() -> None:
    """It is asked where the client works: else it would end there, and the program's other clients with it."""
    assert reason_of(ExitingError()) == Failure(f"{__name__}.ExitingError", None)


def test_a_text_that_is_no_unicode_can_be_sent() -> None:
    entry = to_entry({}, reason_of(FileNotFoundError("caf\udce9.txt")))
    assert json.loads(orjson.dumps(entry)) == {"reason": {"class": "FileNotFoundError", "text": "caf\\udce9.txt"}}


def test_a_broker_that_knows_no_reasons_is_told_none() -> None:
    """Else a message that failed could never go back to a broker of an older version."""
    asked: list[list[dict[str, Any]]] = []

    async def older(entries: list[dict[str, Any]]) -> str:
        asked.append(entries)
        if any("reason" in each for each in entries):
            raise InvalidRequest("messages.0.reason: Extra inputs are not permitted")
        return "fine"

    plain = {"message_id": "m", "delay_level": 0}
    entries = [to_entry(plain, Failure("ValueError", None)), to_entry(plain, None)]
    assert asyncio.run(send_nacks(older, entries)) == "fine"
    assert asked == [[plain | {"reason": {"class": "ValueError"}}, plain], [plain, plain]]

    async def refusing(entries: list[dict[str, Any]]) -> str:
        asked.append(entries)
        raise InvalidRequest("no")

    asked.clear()
    with pytest.raises(InvalidRequest):
        asyncio.run(send_nacks(refusing, [plain]))
    assert asked == [[plain]], "what has no reason isn't asked twice"
