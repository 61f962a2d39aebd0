from __future__ import annotations

from lakemq.model.histogram import Histogram
from lakemq.model.traffic import COUNTS, NUMBERS, Traffic


def test_what_comes_and_goes_is_counted() -> None:
    traffic = Traffic()
    traffic.messages_in, traffic.bytes_in, traffic.messages_out, traffic.bytes_out = 2, 30, 3, 400
    assert traffic.numbers()[:COUNTS] == [2, 30, 3, 400]
    assert (traffic.messages, len(traffic.numbers())) == (5, NUMBERS)


def test_one_message_at_once_is_what_it_is_by_itself() -> None:
    one, other, also = Traffic(), Traffic(), Histogram()
    one.took_one(7, 0.003, also)
    other.messages_in, other.bytes_in = 1, 7
    other.sent(0.003)
    assert one.numbers() == other.numbers()
    assert also.counts == one.send_counts
    assert also.total == one.send_s == 0.003
