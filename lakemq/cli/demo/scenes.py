"""What waits and remembers, after the replay: delays, a transaction, dead letters, all at once."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from lakemq.cli.demo.boarding import Boarding, board
from lakemq.cli.demo.booking import Booking, book
from lakemq.cli.demo.broker import Broker
from lakemq.cli.demo.failing import Failing, fail_and_redrive
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError

LAKE_S_MAX = 120.0
LOOK_S = 0.1


@dataclass(frozen=True)
class Scenes:
    """What each of the three has come to."""

    boarding: Boarding
    booking: Booking
    failing: Failing


def play(broker: Broker, flights: pa.Table) -> Scenes:
    """Play the three at once, and return when the lake has what they left in the log."""
    with ThreadPoolExecutor(3) as pool:
        boarding = pool.submit(board, broker.url, flights)
        booking = pool.submit(book, broker.url)
        failing = pool.submit(fail_and_redrive, broker.url)
        scenes = Scenes(boarding.result(), booking.result(), failing.result())
    _wait_for_lake(broker)
    return scenes


def _wait_for_lake(broker: Broker) -> None:
    end_s = time.monotonic() + LAKE_S_MAX
    with HttpClient(broker.url) as client:
        target = client.broker()["max_position"]
        while client.broker()["compacted_position"] < target:
            broker.check_alive()
            if time.monotonic() > end_s:
                raise LakemqError(f"the lake has not caught up within {LAKE_S_MAX:.0f} s; see {broker.places.log}")
            time.sleep(LOOK_S)
