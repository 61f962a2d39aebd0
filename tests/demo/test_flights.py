"""The flights as messages."""

from __future__ import annotations

import orjson
import pytest
from rich.cells import cell_len

from lakemq.cli.bars import bars, bars_within
from lakemq.cli.demo.flights import FLIGHTS, message_batches, read_flights
from lakemq.cli.demo.queries import aircraft_day
from lakemq.model.columns import REQUEST


def test_all_flights_are_read_in_time_order() -> None:
    flights = read_flights()
    assert flights.num_rows == FLIGHTS
    times = list(zip(flights["time_hour"].to_pylist(), flights["minute"].to_pylist(), strict=True))
    assert times == sorted(times)


def test_a_message_carries_the_flight_its_carrier_and_its_tail_number() -> None:
    flights = read_flights(5)
    batches = list(message_batches(flights, 2))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    first = batches[0].slice(0, 1).to_pylist()[0]
    flight = orjson.loads(first["body"])
    assert flight["sequence"] == 0
    assert (flight["carrier"], flight["tailnum"]) == (first["tag"], first["ordering_key"])
    assert first["keys"] == [flight["tailnum"]]
    for field in batches[0].schema:
        assert field.type == REQUEST.field(field.name).type


def test_a_flight_without_a_tail_number_has_no_key_and_no_order() -> None:
    flights = read_flights()
    without = flights.filter(flights["tailnum"].is_null())
    assert without.num_rows == 2_512
    (batch,) = message_batches(without.slice(0, 1), 10)
    assert batch.to_pylist()[0]["keys"] is None
    assert batch.to_pylist()[0]["ordering_key"] is None
    assert orjson.loads(batch["body"][0].as_py())["tailnum"] is None


def test_bars_are_as_long_as_their_values_and_hollow_below_0() -> None:
    lines = bars([("AA", 10.0), ("B", -5.0)], "min", width=10)
    assert lines == ["AA  ██████████  10.0 min", "B   ░░░░░       -5.0 min"]


def test_no_rows_give_no_chart() -> None:
    assert bars([], "min") == []


def test_bars_of_zeros_are_drawn() -> None:
    assert bars([("A", 0.0)], "min", width=4) == ["A        0.0 min"]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_label_runs_into_a_bar_and_no_line_over_the_edge(columns: int) -> None:
    rows = [("東京" * 40, 1_234_567), ("a" * 100, -3), ("two\nlines\x1b[31m", 5), ("", 0)]
    lines = bars_within(rows, columns)
    assert [line for line in lines if cell_len(line) > columns or not line.isprintable()] == []
    assert {cell_len(line) for line in lines} == {columns}
    assert all("  " in line for line in lines)


def test_a_tail_number_can_not_carry_sql() -> None:
    with pytest.raises(ValueError, match="no tail number"):
        aircraft_day("N1' OR '1'='1", 1, 1)
