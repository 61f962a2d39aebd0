"""A lake's store that is away as a run begins is waited for; one that refuses ends the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Lock
from typing import Any, cast

import pytest

from lakemq.jobs.errors import LakeNotOnDisk, LakeTaken
from lakemq.jobs.process import keep_running as module
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.keep_running import AWAY_MAX, FAILURES_MAX, keep_running
from lakemq.jobs.process.store_away import is_away, is_refused
from lakemq.model.errors import LakemqError
from lakemq.objects.path import ObjectPath
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in


class AnsweringBroker:
    """A watch of one broker that answers until `stop`."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def wait(self) -> tuple[str, ...]:
        return () if self._stop.is_set() else ("http://127.0.0.1:9",)

    def telling(self, *_: object) -> nullcontext[None]:
        return nullcontext()

    def has_changed(self, _: object) -> bool:
        return False


class Stream:
    """Of a run that goes on."""

    isActive = True  # noqa: N815 (Spark's name)


class Query:
    """A run that reads the store as it begins, as that of the lake does."""

    reached = None
    topics = ()
    batches = 0

    def __init__(self, lake: ObjectPath, stop: Event) -> None:
        self._lake, self._stop = lake, stop

    def start(self) -> Any:
        list(self._lake.iterdir())
        self._stop.set()
        return Stream()

    def failure(self) -> None:
        return None

    def stop(self) -> None: ...


class Scene:
    def __init__(self, store: ObjectStore, lake: ObjectPath) -> None:
        self.store, self.lake = store, lake
        self.stop, self.runs = Event(), 0
        self.back_at_run = 0

    def keep_running(self) -> None:
        watch = cast("BrokerWatch", AnsweringBroker(self.stop))
        keep_running("lake", self._new_run, watch, self.stop, Lock())

    def _new_run(self, _: str) -> Query:
        self.runs += 1
        if self.runs == self.back_at_run:
            self.store.status_of_all = None
        return Query(self.lake, self.stop)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scene]:
    monkeypatch.setattr(module, "_PAUSE_S_MAX", 0.0)
    monkeypatch.setattr("lakemq.objects.bucket.RETRIES", 0)
    store = ObjectStore()
    yield Scene(store, path_in(store, "s3://bucket/lake", tmp_path))
    store.close()


def test_a_store_that_is_away_as_a_run_begins_is_waited_for(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """More often than any other failure would be, and the process goes on when it is back."""
    scene.store.status_of_all = 503, "SlowDown"
    scene.back_at_run = FAILURES_MAX + 2
    scene.keep_running()
    assert scene.stop.is_set()
    assert scene.runs == FAILURES_MAX + 2
    assert "the lake's store is away, or can't be written" in caplog.text


def test_a_store_that_stays_away_is_given_up(scene: Scene) -> None:
    scene.store.status_of_all = 503, "SlowDown"
    with pytest.raises(LakemqError, match="keeps failing"):
        scene.keep_running()
    assert scene.runs == AWAY_MAX


def test_a_store_that_refuses_is_not_asked_again(scene: Scene) -> None:
    scene.store.status_of_all = 403, "AccessDenied"
    with pytest.raises(LakemqError, match="the lake's store refuses the lake query"):
        scene.keep_running()
    assert scene.runs == 1


def test_what_comes_of_a_store_that_is_away_is_told_from_what_no_run_mends() -> None:
    not_on_disk = LakeNotOnDisk("it can't be written")
    not_on_disk.__cause__ = OSError("the store is away")
    for passes in (OSError("the store is away"), ConnectionRefusedError(), not_on_disk):
        assert is_away(passes)
        assert not is_refused(passes)
    for lasts in (FileNotFoundError("no such bucket"), LakeTaken("another has it"), ValueError("torn")):
        assert not is_away(lasts)
        assert not is_refused(lasts)
    for refused in (PermissionError("403"), OSError("Kernel error: Client error with status 403 Forbidden")):
        assert is_refused(refused)
        assert not is_away(refused)
