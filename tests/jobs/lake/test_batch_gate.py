"""The gate between a query's batches and who stops the query."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from lakemq.jobs.lake.batch_gate import BatchGate, QueryStopping


def test_who_closes_waits_for_the_batch_under_way() -> None:
    gate, begun, done = BatchGate(), Event(), []

    def batch() -> None:
        begun.set()
        Event().wait(0.2)
        done.append(1)

    thread = Thread(target=gate.run, args=[batch])
    thread.start()
    begun.wait()
    gate.close(30)
    assert done == [1]
    thread.join()


def test_no_batch_begins_when_it_is_closed_and_none_waits_for_who_stops_the_query() -> None:
    """Regression: the lock was held while Spark's `stop` waited for a batch that waited for the lock."""
    gate = BatchGate()
    gate.close(30)
    with pytest.raises(QueryStopping):
        gate.run(lambda: pytest.fail("it began"))


def test_a_batch_that_takes_long_is_not_waited_for_longer_than_the_grace() -> None:
    gate, begun, end = BatchGate(), Event(), Event()

    def batch() -> None:
        begun.set()
        end.wait()

    thread = Thread(target=gate.run, args=[batch])
    thread.start()
    begun.wait()
    gate.close(0.05)
    end.set()
    thread.join()
