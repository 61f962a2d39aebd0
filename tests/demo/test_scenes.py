"""The demo's scenes against a real gateway; what the queries decide in them is decided here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread

import httpx
import pyarrow as pa
import pytest

from lakemq.cli.demo import boarding, booking, failing
from lakemq.cli.demo.flights import message_batches, read_flights
from lakemq.cli.demo.queries import TOPIC
from lakemq.client.http import HttpClient
from lakemq.model.errors import AlreadyDelivered
from lakemq.testing import start_gateway
from tests.as_administrator import AsAdministrator
from tests.standstill import StoodStill, first_of

FLIGHTS = 400
HALVES = "RMQ_SYS_TRANS_HALF_TOPIC"
LEADS_MS = (2_000, 20_000, 80_000)
HOUR_MS = 500

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # What is certain is done at once, however long the scenes take until then.
    with start_gateway(tmp_path_factory.mktemp("log"), routing__lead_ms=600_000) as gateway:
        with HttpClient(gateway.url) as client:
            client.create_topic(TOPIC, 1)
            for batch in message_batches(read_flights(FLIGHTS), FLIGHTS):
                client.produce_table(TOPIC, batch)
        yield gateway.url


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up because the machine stood still; and flights depart more quickly."""
    monkeypatch.setattr(boarding, "HOUR_MS", HOUR_MS)
    for module, name, long in (
        (boarding, "PATIENCE_MS", 600_000),
        (booking, "WAIT_MS", 60_000),
        (booking, "CHECK_S_MAX", 600.0),
        (failing, "PATIENCE_S", 600.0),
    ):
        monkeypatch.setattr(module, name, long)


def boarded(url: str, flights: pa.Table, monkeypatch: pytest.MonkeyPatch) -> boarding.Boarding:
    """What a consumer heard. Where the machine stood still until a call was due that is recalled, once more, with more
    time until then."""

    def boarded_within(lead_ms: int) -> boarding.Boarding:
        monkeypatch.setattr(boarding, "TOPIC", f"boarding-{lead_ms}")
        monkeypatch.setattr(boarding, "LEAD_MS", lead_ms)
        try:
            return boarding.board(url, flights)
        except AlreadyDelivered as error:
            raise StoodStill("a call is due before it is recalled") from error

    return first_of(LEADS_MS, boarded_within)


def test_each_boarding_call_is_heard_once_but_for_the_recalled(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flights = read_flights(FLIGHTS)
    seen = boarded(url, flights, monkeypatch)
    expected = [row["sequence"] for row in flights.slice(0, seen.scheduled).to_pylist() if row["dep_delay"] is not None]
    assert sorted(seen.called) == expected[:-1]  # the last one is recalled too
    assert (seen.recalled_calls, seen.early, seen.out_of_time_order) == (0, 0, 0)


def test_what_a_consumer_fails_on_is_dead_and_redriven_by_carrier(url: str) -> None:
    seen = failing.fail_and_redrive(url)
    assert (seen.failing, seen.dead, seen.attempts) == (12, 12, 36)
    assert seen.matched == seen.redriven == seen.processed == seen.failing - seen.still_dead > 0


def test_a_booking_whose_producer_died_is_committed_by_another(url: str) -> None:
    deciding = Thread(target=decide_to_check, args=[url])
    deciding.start()
    booked = booking.book(url)
    deciding.join()
    assert (booked.check_times, booked.seen_open, booked.seen_committed) == (1, 0, 1)


def decide_to_check(url: str) -> None:
    """What the transaction query decides when a half is open for too long."""
    with HttpClient(url) as client:
        while HALVES not in {each["topic"] for each in client.topics(system=True)}:
            time.sleep(0.05)
        (half,) = client.pull(HALVES, 0, 0, wait_ms=60_000).messages
    decision = {"cause": [half.position], "action": ["check"], "due_ms": [None]}
    broker = httpx.get(f"{url}/v1/broker", timeout=60).json()
    decision |= {"log_id": broker["log_id"], "epoch": broker["epoch"]}
    assert httpx.post(f"{url}/v1/log/decisions", json=decision, timeout=60, auth=AsAdministrator()).json() == {
        "accepted": 1,
        "ignored": 0,
    }
