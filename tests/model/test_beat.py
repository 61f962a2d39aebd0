"""A leader's sign of life, and what a store gives back of it and of the record."""

from __future__ import annotations

import json

import pytest

from lakemq.model.beat import Beat, beat_of
from lakemq.model.in_sync import Member, Record, record_of

RECORD = Record(1, 7, 3, (Member(0, "a"), Member(1, "b")), "log")
BEAT = Beat(7, 1, 12, "http://10.0.0.5:8080")


def test_a_beat_is_the_leaders_of_that_epoch_and_of_no_other() -> None:
    assert BEAT.is_of(RECORD)
    assert not BEAT.is_of(None)
    assert not BEAT.is_of(RECORD._replace(epoch=8))
    assert not BEAT.is_of(RECORD._replace(leader=0))


def test_record_and_beat_come_back_from_json_as_they_were() -> None:
    assert record_of(json.loads(json.dumps(RECORD._asdict()))) == RECORD
    assert beat_of(json.loads(json.dumps(BEAT._asdict()))) == BEAT


@pytest.mark.parametrize("wrong", [{}, {"members": 1}, {"members": [[1]]}, {"members": [], "leader": "x"}])
def test_what_is_no_record_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no record of who leads"):
        record_of(wrong)


@pytest.mark.parametrize("wrong", [{}, {"epoch": None}, {"epoch": 1, "replica": 1, "count": "x"}])
def test_what_is_no_beat_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no leader's sign of life"):
        beat_of(wrong)
