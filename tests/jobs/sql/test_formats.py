"""Times and dates that Python has no word for: an answer with one of them is an answer all the same."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest

from lakemq.jobs.sql.formats import WRITERS, write_json
from lakemq.jobs.sql.result import Result

FAR_MS = 253_402_300_800_000
"""The year 10000."""
FAR, FAR_DAY = "10000-01-01T00:00:00.000Z", "10000-01-01"
EVER_MS = 2**53
"""As far as `born_time_ms` goes."""


def times(*values: int | None) -> pa.Array:
    return pa.array(values, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


DAYS = pa.array([FAR_MS // 86_400_000, None], pa.int32()).cast(pa.date32())
COLUMNS: dict[str, tuple[pa.Array, Any]] = {
    "time": (times(FAR_MS, 0), FAR),
    "time without a zone": (times(FAR_MS, None).cast(pa.timestamp("us")), FAR.removesuffix("Z")),
    "day": (DAYS, FAR_DAY),
    "list": (pa.ListArray.from_arrays([0, 2, 2], times(FAR_MS, None)), [FAR, None]),
    "struct": (pa.StructArray.from_arrays([times(FAR_MS, 0), pa.array([1, 2])], ["a", "b"]), {"a": FAR, "b": 1}),
    "map": (pa.MapArray.from_arrays([0, 1, 1], DAYS.slice(0, 1), times(FAR_MS)), {FAR_DAY: FAR}),
    "the last": (times(EVER_MS, None), "287396-10-12T08:59:00.992Z"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_time_beyond_what_python_knows_is_written_as_others_are(name: str) -> None:
    column, shown = COLUMNS[name]
    batch = pa.RecordBatch.from_arrays([column], ["c"])
    out = io.BytesIO()
    write_json(Result(batch.schema, iter([batch])), out)
    assert json.loads(out.getvalue().splitlines()[0]) == {"c": shown}
    for write in WRITERS.values():
        write(Result(batch.schema, iter([batch])), out)


def test_those_beside_it_are_what_they_were() -> None:
    batch = pa.RecordBatch.from_arrays([times(FAR_MS, 1, None)], ["c"])
    out = io.BytesIO()
    write_json(Result(batch.schema, iter([batch])), out)
    assert [json.loads(line)["c"] for line in out.getvalue().splitlines()] == [FAR, "1970-01-01T00:00:00.001Z", None]


@pytest.mark.parametrize("form", ["table", "json"])
def test_what_steers_a_terminal_is_an_escape(form: str) -> None:
    said = "a\x1b[2J\x7f\x9b31m\u202eb\n\U000e0001"
    batch = pa.record_batch([pa.array([said]), pa.array([said.encode()])], ["text", said])
    out = io.BytesIO()
    WRITERS[form](Result(batch.schema, iter([batch])), out)
    content = out.getvalue().decode()
    assert content.replace("\n", "").isprintable()
    if form == "json":
        assert json.loads(content) == {"text": said, said: said}
    else:
        assert len(content.splitlines()) == 4
